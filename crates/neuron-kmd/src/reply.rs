//! What an entry of the driver answers.

use std::fmt;

/// An error number, positive.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

macro_rules! errnos {
    ($($name:ident = $value:expr;)*) => {
        #[allow(missing_docs)] // the names are the system's
        impl Errno {
            $(pub const $name: Errno = Errno($value);)*

            /// The name, when it is one the driver uses.
            pub fn name(self) -> Option<&'static str> {
                match self {
                    $(Errno::$name => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

errnos! {
    EPERM = libc::EPERM;
    ENOENT = libc::ENOENT;
    EINTR = libc::EINTR;
    EIO = libc::EIO;
    ENXIO = libc::ENXIO;
    E2BIG = libc::E2BIG;
    EBADF = libc::EBADF;
    EAGAIN = libc::EAGAIN;
    ENOMEM = libc::ENOMEM;
    EACCES = libc::EACCES;
    EFAULT = libc::EFAULT;
    EBUSY = libc::EBUSY;
    ENODEV = libc::ENODEV;
    EINVAL = libc::EINVAL;
    ENOTTY = libc::ENOTTY;
    EFBIG = libc::EFBIG;
    ESPIPE = libc::ESPIPE;
    ENOSYS = libc::ENOSYS;
    EBADMSG = libc::EBADMSG;
    EPROTONOSUPPORT = libc::EPROTONOSUPPORT;
    ETIMEDOUT = libc::ETIMEDOUT;
    EALREADY = libc::EALREADY;
}

impl Errno {
    /// Kernel-internal "not supported" that escapes to user space.
    pub const ENOTSUPP: Errno = Errno(524);
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "{}", self.0),
        }
    }
}

/// A place where the real driver takes the kernel down with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bug {
    /// Row of [`crate::quirks::QUIRKS`].
    pub quirk: &'static str,
    /// What happened, for the log.
    pub text: String,
}

/// Why a call did not give a plain result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It failed.
    Errno(Errno),
    /// A copy from or to the caller left this many bytes: `ioctl()` returns the number itself.
    Uncopied(usize),
    /// The real driver dies here; the calling process would be killed.
    Bug(Bug),
    /// A lock that a dead caller holds: the real call never returns. The model sleeps until the
    /// caller is killed and then says so.
    Hung,
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Self {
        Stop::Errno(errno)
    }
}

impl From<Bug> for Stop {
    fn from(bug: Bug) -> Self {
        Stop::Bug(bug)
    }
}

/// Result of an entry. The number is what `ioctl()` returns.
pub type Reply = Result<i64, Stop>;

impl Stop {
    /// The system call's return value: a negative error number, or the uncopied count.
    ///
    /// A process that would have been killed gets `EIO` from the model.
    pub fn as_return(&self) -> i64 {
        match self {
            Stop::Errno(errno) => -i64::from(errno.0),
            Stop::Uncopied(bytes) => *bytes as i64,
            Stop::Bug(_) => -i64::from(Errno::EIO.0),
            Stop::Hung => -i64::from(Errno::EINTR.0),
        }
    }
}
