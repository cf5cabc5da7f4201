//! What can go wrong at the driver, as one type.

use neuron_abi::kernel::ioctl::Op;
use rustix::io::Errno;

/// A device that did not do what it was asked for. The display form is one sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} on neuron{device}: {cause}")]
pub struct Error {
    /// Number of the device.
    pub device: u32,
    /// `open`, `mmap` or the name of the command.
    pub what: &'static str,
    /// Why.
    pub cause: Cause,
}

/// Why a device did not do what it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    /// There is no such device, or it has gone.
    #[error("there is no such device any more; check that the aws-neuronx driver is loaded")]
    Missing,
    /// This process may not open it.
    #[error("this process may not open it; grant it read and write access to the device file")]
    Denied,
    /// All attach slots are taken.
    #[error("16 processes use the device already; end one of them")]
    Full,
    /// A reset failed and the device stays unusable.
    #[error("the device is out of service after a failed reset; reset it through sysfs or reload the driver")]
    OutOfService,
    /// Somebody has it.
    #[error("it is in use")]
    Busy,
    /// The driver does not know this process: a descriptor of the device was closed behind its back.
    #[error("the driver has given up this process' slot; do not close descriptors the runtime has opened")]
    NotAttached,
    /// The driver does not have the command.
    #[error("the driver does not know the command; upgrade the aws-neuronx-dkms package")]
    UnknownCommand,
    /// The device or the driver does not do this.
    #[error("this device or driver does not support it")]
    Unsupported,
    /// An argument is out of range.
    #[error("the driver refuses the argument")]
    Refused,
    /// A memory handle that is not one.
    #[error("the memory handle is not valid")]
    BadHandle,
    /// Nothing of that name, number or process.
    #[error("the driver has nothing of that kind")]
    NotFound,
    /// Memory is used up.
    #[error("not enough memory")]
    NoMemory,
    /// Bytes of an argument or a buffer could not be copied.
    #[error("{left} bytes of the argument are not accessible")]
    Fault {
        /// Bytes not copied.
        left: u32,
    },
    /// The room for an answer was too small.
    #[error("the answer is longer than the room for it")]
    TooSmall,
    /// The driver says that something failed and not what: its bare -1.
    #[error("the device did not answer the driver; look at the kernel log")]
    NoAnswer,
    /// The driver, or the model of it, has failed itself.
    #[error("the driver failed on this call; look at the kernel log")]
    Bug,
    /// A reset of this process is not waited for yet.
    #[error("a reset this process asked for before is not finished")]
    ResetPending,
    /// A reset failed.
    #[error(
        "the reset failed, the device did not become ready; look at the kernel log, then reset it again or reload the driver"
    )]
    ResetFailed,
    /// A signal ended a wait.
    #[error("a signal interrupted the wait")]
    Interrupted,
    /// The driver was asked again and again and had no time.
    #[error("the driver is busy; try again later")]
    Unavailable,
    /// Nothing can be mapped there.
    #[error("the memory cannot be mapped into this process")]
    NotMappable,
    /// Opened by another process, of which this one is a fork.
    #[error("the device was opened by the process this one was forked from; open it after the fork")]
    Forked,
    /// Closed.
    #[error("the device is closed")]
    Closed,
    /// Anything else the system says.
    #[error("error {0} of the system")]
    System(i32),
}

impl Error {
    /// Whether a driver that does not know a form of a command would answer this. One that knows it
    /// may mean the argument; then the older form is refused as well.
    pub(crate) fn suggests_older_form(&self) -> bool {
        matches!(self.cause, Cause::Refused | Cause::UnknownCommand)
    }
}

/// Kernel-internal "not supported" that escapes to user space (`facts/driver/cdev.md`).
const ENOTSUPP: i32 = 524;

impl Cause {
    /// Of `open(2)`.
    pub(crate) fn of_open(errno: Errno) -> Cause {
        match errno {
            Errno::NOENT | Errno::NOTDIR | Errno::NXIO | Errno::NODEV => Cause::Missing,
            Errno::ACCESS | Errno::PERM | Errno::ROFS => Cause::Denied,
            Errno::BUSY => Cause::Full,
            Errno::INVAL => Cause::OutOfService,
            other => Cause::general(other),
        }
    }

    /// Of `mmap(2)`.
    pub(crate) fn of_map(errno: Errno) -> Cause {
        match errno {
            Errno::PERM | Errno::INVAL | Errno::ACCESS | Errno::NODEV => Cause::NotMappable,
            other => Cause::general(other),
        }
    }

    /// Of `ioctl(2)`.
    pub(crate) fn of_ioctl(op: Op, errno: Errno) -> Cause {
        match errno {
            Errno::ACCESS => Cause::NotAttached,
            Errno::PERM => Cause::NoAnswer,
            Errno::INVAL => Cause::Refused,
            Errno::NOENT if op == Op::HbmScrubWait => Cause::NoAnswer,
            Errno::NOENT => Cause::NotFound,
            Errno::BUSY => Cause::Busy,
            // This command has a meaning of its own for it.
            Errno::AGAIN if op == Op::DumpMemChunks => Cause::TooSmall,
            other => Cause::general(other),
        }
    }

    fn general(errno: Errno) -> Cause {
        match errno {
            Errno::NODEV | Errno::NXIO => Cause::Missing,
            Errno::NOMEM => Cause::NoMemory,
            // The kernel itself looks at arguments of some commands before the driver does.
            Errno::FAULT => Cause::Fault { left: u32::MAX },
            Errno::NOTTY | Errno::NOSYS => Cause::UnknownCommand,
            Errno::OPNOTSUPP | Errno::PROTONOSUPPORT => Cause::Unsupported,
            Errno::IO => Cause::Bug,
            Errno::INTR => Cause::Interrupted,
            Errno::AGAIN => Cause::Unavailable,
            other if other.raw_os_error() == ENOTSUPP => Cause::Unsupported,
            other => Cause::System(other.raw_os_error()),
        }
    }

    /// With the place it happened at.
    pub(crate) fn at(self, device: u32, what: &'static str) -> Error {
        Error { device, what, cause: self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answers of the facts tables that are not plain error numbers of their kind.
    #[test]
    fn odd_answers_have_one_meaning_each() {
        let errno = Errno::from_raw_os_error;
        for (op, number, cause) in [
            (Op::MemFree, libc::EACCES, Cause::NotAttached),
            (Op::HbmScrubStart, libc::EPERM, Cause::NoAnswer),
            (Op::GetLogicalToPhysicalNcMap, 524, Cause::Unsupported),
            (Op::DmabufFd, libc::EPROTONOSUPPORT, Cause::Unsupported),
            (Op::DmaQuiesceQueues, libc::ENOTTY, Cause::UnknownCommand),
            (Op::DumpMemChunks, libc::EAGAIN, Cause::TooSmall),
            (Op::MemCopy64, libc::EAGAIN, Cause::Unavailable),
            (Op::MemAllocV2, libc::ENOMEM, Cause::NoMemory),
            (Op::AcquireNeuronDs, libc::ENOENT, Cause::NotFound),
            (Op::CrwlNcRangeMark, libc::EBUSY, Cause::Busy),
            (Op::MemCopy64, libc::EIO, Cause::Bug),
            (Op::MemCopy64, libc::EXDEV, Cause::System(libc::EXDEV)),
        ] {
            assert_eq!(Cause::of_ioctl(op, errno(number)), cause, "{op:?} {number}");
        }
        assert_eq!(Cause::of_open(Errno::BUSY), Cause::Full);
        assert_eq!(Cause::of_open(Errno::INVAL), Cause::OutOfService);
        assert_eq!(Cause::of_open(Errno::MFILE), Cause::System(libc::EMFILE));
        assert_eq!(Cause::of_map(Errno::PERM), Cause::NotMappable);
    }

    #[test]
    fn an_error_is_one_sentence_with_the_place() {
        let error = Cause::Fault { left: 8 }.at(3, "MEM_GET_PA");
        assert_eq!(error.to_string(), "MEM_GET_PA on neuron3: 8 bytes of the argument are not accessible");
    }
}
