//! Emulated Neuron silicon: one [`Silicon`] is one PCI device.
//!
//! A driver sees what it sees of the real part: a config space ([`pci`]), a register window
//! (BAR 0) and a memory window (BAR 4). It gets there with [`Silicon::read32`] and
//! [`Silicon::write32`] only, so the same model serves the software driver of this workspace and
//! the unmodified kernel driver in a virtual machine.
//!
//! ```text
//!   driver ──► config space        pci.rs        ids, revision, BAR sizing
//!          ──► BAR 0 registers     silicon.rs ─► mailbox.rs  routing id, reset handshake, requests
//!                                             ─► dma.rs      engines, rings, in-order copies
//!                                             ─► semaphores  set / increment / decrement
//!          ──► BAR 4 memory        memory.rs     one sparse memfd per device
//!   tests  ──► faults              fault.rs      settable at run time
//!          ◄── trace               trace.rs      ring of what the device saw
//! ```
//!
//! Addresses: everything a DMA descriptor can name lies in one [`memory::AddressSpace`], whose
//! file offset *is* the device-side physical address (device memory, core and TopSP windows, and
//! host memory under its PCI host base bit). The driver hands the same numbers out as mmap
//! offsets, so a file server can pass the backing file on without translating. With host memory
//! elsewhere ([`Host::Other`]) the file is laid out as BAR 4 instead, for a virtual machine.
//!
//! Nothing here blocks or starts a thread. Time-dependent behaviour (a held acknowledgement) is
//! worked out from the [`Clock`] when a register is read, as a polling driver does.
//!
//! Register numbers: `facts/driver/bars.tsv` ([`regs`]). Behaviour: what the device under the
//! recorded transcripts did (plain storage except routing id, handshake, status, semaphores, DMA).

pub mod fault;
pub mod memory;
pub mod pci;
pub mod regs;
pub mod trace;

mod dma;
mod mailbox;
mod silicon;

pub use fault::Fault;
pub use silicon::{Host, Silicon, SiliconSpec};

use std::time::Duration;

/// Time as the device sees it.
///
/// `now` is called under the locks of the model: it must not block and must not call back.
pub trait Clock: Send + Sync {
    /// Time since some fixed start; never goes back.
    fn now(&self) -> Duration;
}
