//! The seam the runtime talks to its devices through.
//!
//! [`Driver`] is what a runtime needs of a machine with Neuron devices: which there are, what sysfs
//! says, and opening them. A [`File`] is one open device. Both are small and object safe, and have
//! two implementations that a runtime cannot tell apart:
//!
//! | | devices are | for |
//! |---|---|---|
//! | [`KernelBackend`] | files under a device directory, real system calls | a host with the kernel driver, or what `neuron-emu` publishes |
//! | `InProcess` (feature `in-process`) | a `neuron-kmd` driver model in this process | tests; a simulated instance |
//!
//! What the driver can be asked are methods of `dyn File` ([`requests`]): each takes and gives plain
//! values, knows the command and the argument struct (`facts/driver/ioctls.tsv`,
//! `ioctl_structs.tsv`), falls back to the older form of a command where the newer one is not
//! known, and turns every odd answer into one [`Error`]. A raw command cannot be sent from outside
//! of this crate: only a request that it made itself holds addresses the driver may write to.
//!
//! # Files, processes and forks
//!
//! The driver keys everything by process, and **any** close of a descriptor has an effect on all of
//! it (`facts/driver/cdev.md`, attach and cleanup): the last close of a descriptor opened for reading
//! frees the process' memory, a close of *any* descriptor opened for writing only gives back *all*
//! core claims of the process. So a process has one such descriptor, held by [`Session`], which no
//! query opens a second time, and every descriptor is closed on exec.
//!
//! A forked child has copies of the descriptors and another process id. Its closes touch nothing of
//! the parent, but a command it sends would be booked on a process the driver does not know, down
//! to a kernel bug. A [`File`] therefore remembers who opened it and refuses anybody else
//! ([`Cause::Forked`]).

mod call;
mod error;
#[cfg(feature = "in-process")]
mod in_process;
mod kernel;
mod map;
pub mod requests;
mod session;

use std::io;

pub use call::{Call, Learned};
pub use error::{Cause, Error};
#[cfg(feature = "in-process")]
pub use in_process::InProcess;
pub use kernel::KernelBackend;
pub use map::Mapping;
pub use session::{Device, Session};

/// Answer of a device.
pub type Result<T> = std::result::Result<T, Error>;

/// Device numbers the driver gives out: 0 up to this.
pub const MAX_DEVICES: u32 = neuron_abi::kernel::values::MAX_DEVICES as u32;

/// One device number, as this process finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// No such device.
    Missing,
    /// It is there and this process may not open it: the file and why not.
    Denied(String),
    /// It can be opened.
    Ready,
}

/// How a device is opened, which decides what can be asked (`facts/driver/cdev.md`, open).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// For reading and writing: everything. Takes one of the 16 attach slots of the device and waits
    /// while it resets.
    Full,
    /// For reading: everything but mappings. Takes a slot and waits as well.
    Info,
    /// For writing: identity and core claims. Takes nothing and never waits, but closing it gives
    /// back all core claims of the process.
    Misc,
}

/// A machine with Neuron devices, as one process finds it.
pub trait Driver: Send + Sync {
    /// Is device `index` there, and may this process use it? Opens nothing.
    fn node(&self, index: u32) -> Node;

    /// Opens device `index`.
    ///
    /// # Errors
    /// [`Cause::Missing`], [`Cause::Denied`], [`Cause::Full`], [`Cause::OutOfService`], or
    /// [`Cause::Interrupted`] while it resets.
    fn open(&self, index: u32, mode: Mode) -> Result<Box<dyn File>>;

    /// A text file of sysfs, trimmed, at most 4096 bytes of it. `path` is relative to the mount point.
    ///
    /// # Errors
    /// What the system says.
    fn sysfs(&self, path: &str) -> io::Result<String>;

    /// Names in a directory of sysfs.
    ///
    /// # Errors
    /// What the system says.
    fn sysfs_names(&self, path: &str) -> io::Result<Vec<String>>;
}

/// One open device. Closed when dropped.
pub trait File: Send + Sync {
    /// Its number.
    fn device(&self) -> u32;

    /// Sends a command once; the answer is the driver's non-negative result, mostly 0.
    ///
    /// # Errors
    /// The driver's, as [`Cause`]; [`Cause::Forked`] in a forked child.
    fn call(&self, call: &mut Call<'_>) -> Result<u32>;

    /// What its requests have found out about the driver: empty when it was opened.
    fn learned(&self) -> &Learned;

    /// Maps `bytes` at `offset`, an answer of the driver, for reading and writing. The driver takes
    /// the right to write away where the process does not own the memory.
    ///
    /// # Errors
    /// [`Cause::NotMappable`] when nothing can be mapped there.
    fn map(&self, offset: u64, bytes: usize) -> Result<Mapping>;
}

impl dyn Driver + '_ {
    /// Number of the lowest device this process can use.
    pub fn first(&self) -> Option<u32> {
        (0..MAX_DEVICES).find(|&index| self.node(index) == Node::Ready)
    }
}
