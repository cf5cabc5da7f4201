//! Software model of the Neuron kernel driver.
//!
//! A [`Driver`] is one module load on a set of emulated devices ([`neuron_hw::Silicon`]): the
//! arch latch, module parameters, core claims and log live exactly as long as it does. It talks
//! to a device through BAR reads, BAR writes and DMA addresses only.
//!
//! # Entries
//!
//! | real driver | here |
//! |---|---|
//! | `insmod`, `rmmod` | [`Driver::load`], [`Driver::unload`] |
//! | `open`, `close` (flush and release) | [`Driver::open`], [`cdev::File::flush`], dropping the last [`cdev::File`] |
//! | `ioctl`, `mmap`, `munmap` | [`cdev::File::ioctl`], [`cdev::File::mmap`], [`cdev::File::munmap`] |
//! | sysfs | [`sysfs::Sysfs`] |
//!
//! Every entry takes the identity of its caller ([`caller::Caller`]) and, where it copies, the
//! caller's memory ([`caller::UserMemory`]). Nothing is taken from the process the model runs
//! in, so in-process, file server and test callers are equal.
//!
//! # Rooms
//!
//! ```text
//!  driver.rs ── probe.rs (ids, arch latch, BAR ladder, routing id)      env.rs   one load's settings
//!     │                    │                                            params.rs, klog.rs, profile.rs
//!     │                  dhal/ (all that differs by generation)         quirks.rs named defects
//!     ▼
//!  device.rs ── attach.rs        who has it open
//!     │     ├── reset/           engine, handshake; drives a ResetTarget
//!     │     ├── memory/          pools, handles, copies, mmap records
//!     │     ├── dma/             rings, queues, descriptor checks
//!     │     ├── cores/           claims (per load), reader/writer locks, core state
//!     │     ├── queues/          notification queues, semaphores, events, registers, firmware
//!     │     ├── datastore.rs     per-process counters
//!     │     └── metrics.rs       what sysfs shows
//!     ├── cdev/                  lanes, gates, dispatch by the neuron-abi table, identity commands
//!     └── sysfs/                 the tree: names from the tables, text from the parts
//!  pci.rs                        id table, aliases and host devices, for people
//!  sync.rs, time/                the only ways to block; real, virtual and explored time
//!  replay/                       golden transcripts against the model (feature `replay`)
//!  hostile.rs                    random sequences of calls, for fuzzing (feature `hostile`)
//! ```
//!
//! # Blocking
//!
//! Everything that can last goes through [`sync::WaitQueue`] and the [`time::Clock`] of the
//! load. See [`sync`] for the rules. A call that the real driver would leave stuck for ever
//! sleeps until its caller is killed.
//!
//! # Kernel bugs
//!
//! Where the real driver oopses, a call ends in [`reply::Stop::Bug`], which a caller sees as `EIO`,
//! and the log says why. The real kernel kills the calling process and lives on without the
//! locks that process held (measured); the model does the same: who needs such a lock later gets
//! [`reply::Stop::Hung`]. Each such place is a row of [`quirks`].

pub mod attach;
pub mod caller;
pub mod cdev;
pub mod cores;
pub mod datastore;
pub mod device;
pub mod dhal;
pub mod dma;
pub mod driver;
pub mod env;
#[cfg(feature = "hostile")]
pub mod hostile;
pub mod instance;
pub mod klog;
pub mod memory;
pub mod metrics;
pub mod params;
pub mod pci;
pub mod probe;
pub mod profile;
pub mod queues;
pub mod quirks;
pub mod regs;
#[cfg(feature = "replay")]
pub mod replay;
pub mod reply;
pub mod reset;
pub mod sync;
pub mod sysfs;
pub mod time;

pub use driver::{Driver, LoadConfig};
pub use profile::Profile;
