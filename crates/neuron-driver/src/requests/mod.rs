//! What a device can be asked for: methods of `dyn File` by subject.
//!
//! | file | subject | facts |
//! |---|---|---|
//! | `identity.rs` | architecture, versions, features, processes, core map | `facts/driver/cdev.md` |
//! | `cores.rs` | claims of cores, reset, scrubbing | `facts/driver/cdev.md`, `reset.md` |
//! | `memory.rs` | memory handles, datastore, dma-buf | `facts/driver/cdev.md`, memory |
//! | `copies.rs` | bytes to, from and inside device memory | `facts/driver/cdev.md`, memory; `ioctls.tsv` |

mod copies;
mod cores;
mod identity;
mod memory;

pub use cores::{Marked, ResetTicket, Scrub};
pub use identity::{CoreMap, Features, Identity};
pub use memory::{Chunk, Kind};
