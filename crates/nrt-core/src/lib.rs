//! The runtime behind the C entry layer: configuration, counting, identity, lifecycle, tensors,
//! asynchronous execution and logs. No raw pointer of a C caller comes this far, and no environment variable is read
//! outside [`config`] and [`log`].

pub mod compat;
pub mod config;
pub mod coredump;
pub mod device;
pub mod dump;
pub mod exec;
pub mod forked;
pub mod handle;
pub mod inspect;
pub mod instance;
pub mod lifecycle;
pub mod log;
mod sync;
pub mod tensor;
pub mod version;

pub use neuron_abi::Status;

/// Answer of a runtime call. Whoever makes the `Err` has already logged why.
pub type Result<T> = std::result::Result<T, Status>;
