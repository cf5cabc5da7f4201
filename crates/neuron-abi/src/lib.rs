//! Plain data that every room of OpenNRT shares: status codes, architectures, instance
//! identity, and (from the device rooms on) the kernel boundary. No logic beyond lookups.

mod instance;
pub mod kernel;
pub mod product;
mod status;

pub use instance::{Arch, Family, Size};
pub use status::Status;
