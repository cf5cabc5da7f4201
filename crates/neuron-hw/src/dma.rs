//! DMA engines: rings of descriptors, copied in order.
//!
//! A queue has a transmit and a receive ring of 16-byte descriptors: the low 16 bits of the
//! first word are the length (0 stands for 65536), the second half is an address. Writing `n` to
//! the transmit tail copies `n` descriptor pairs, one after the other. There is no completion
//! ring: a driver appends a 4-byte copy of a marker and polls memory for it, which is why the
//! order matters.

use std::ptr::NonNull;

use parking_lot::Mutex;

use crate::memory::{AddressSpace, HostMemory, Piece, Window};
use crate::regs::{Layout, engine};

/// Bytes of a descriptor.
const DESC: u64 = 16;

/// Bytes one descriptor moves at most.
const LONGEST: u64 = 0x1_0000;

/// A ring as its registers say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ring {
    pub base: u64,
    pub len: u32,
}

/// Next descriptors of a queue.
#[derive(Clone, Copy, Debug, Default)]
struct Heads {
    tx: u32,
    rx: u32,
}

/// What a doorbell did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Run {
    pub descriptors: u32,
    pub bytes: u64,
    pub bad: u32,
}

/// Translates the addresses of descriptors.
pub(crate) struct Bus<'a> {
    pub layout: &'a Layout,
    pub space: &'a AddressSpace,
    pub host: &'a dyn HostMemory,
    /// Memory that is on the bus for this doorbell only.
    pub window: Option<Window<'a>>,
}

/// Where the bytes of a descriptor are.
#[derive(Clone, Copy)]
enum Place {
    /// At an address of this process.
    Here(NonNull<u8>),
    /// At this offset of the window.
    Window(u64),
}

/// A run of neighbouring descriptors between memory of the device and the window, as one transfer:
/// each costs a system call.
struct Transfer {
    device: NonNull<u8>,
    window: u64,
    bytes: usize,
    inbound: bool,
}

/// What waits for its neighbour.
struct Gather<'a> {
    bus: &'a Bus<'a>,
    transfer: Option<Transfer>,
    /// Transfers that found less than they should have.
    lost: u32,
}

impl Gather<'_> {
    /// Takes the next transfer; the one before it is carried out first unless this continues it.
    fn add(&mut self, next: Transfer) {
        if let Some(before) = &mut self.transfer
            && before.inbound == next.inbound
            && before.device.as_ptr().wrapping_add(before.bytes) == next.device.as_ptr()
            && before.window + before.bytes as u64 == next.window
        {
            before.bytes += next.bytes;
            return;
        }
        self.finish();
        self.transfer = Some(next);
    }

    /// Carries out what waits.
    fn finish(&mut self) {
        let (Some(transfer), Some(window)) = (self.transfer.take(), self.bus.window) else { return };
        // SAFETY: the bus vouched for each of the neighbouring parts.
        let piece = unsafe { Piece::new(transfer.device, transfer.bytes) };
        let at = transfer.window;
        let whole = if transfer.inbound { window.memory.fetch(at, piece) } else { window.memory.store(at, piece) };
        self.lost += u32::from(!whole);
    }
}

impl Bus<'_> {
    pub(crate) fn slice(&self, address: u64, bytes: u64) -> Option<NonNull<u8>> {
        if address & self.layout.geometry.pci_host_base != 0 {
            return self.host.slice(address & !self.layout.host_mask, bytes);
        }
        self.space.slice(address, bytes).ok()
    }

    fn place(&self, address: u64, bytes: u64) -> Option<Place> {
        if address & self.layout.geometry.pci_host_base != 0
            && let Some(at) = self.window.and_then(|w| w.offset(address & !self.layout.host_mask, bytes))
        {
            return Some(Place::Window(at));
        }
        self.slice(address, bytes).map(Place::Here)
    }

    /// Whether an address is at the start of a page of the device's own file. Zeros are copied
    /// there by giving the pages back, so that clearing a whole channel costs no memory.
    fn is_file(&self, address: u64) -> bool {
        address & self.layout.geometry.pci_host_base == 0 && address.is_multiple_of(4096)
    }
}

/// Positions in the rings of all queues of a device. Each queue has its own lock, so that
/// engines run side by side while the copies of one queue stay in order.
pub(crate) struct Engines {
    heads: Vec<Mutex<Heads>>,
}

impl Engines {
    pub(crate) fn new(layout: &Layout) -> Self {
        let queues = u64::from(layout.geometry.engines) * engine::COUNT;
        Self { heads: (0..queues).map(|_| Mutex::default()).collect() }
    }

    fn heads(&self, engine: u32, queue: u32) -> Option<&Mutex<Heads>> {
        self.heads.get((u64::from(engine) * engine::COUNT) as usize + queue as usize)
    }

    /// A new ring address starts the queue over.
    pub(crate) fn restart(&self, engine: u32, queue: u32) {
        if let Some(heads) = self.heads(engine, queue) {
            *heads.lock() = Heads::default();
        }
    }

    /// Every queue starts over.
    pub(crate) fn restart_all(&self) {
        for heads in &self.heads {
            *heads.lock() = Heads::default();
        }
    }

    /// Processes `count` descriptor pairs; stops at a descriptor that cannot be read.
    pub(crate) fn run(&self, bus: &Bus<'_>, engine: u32, queue: u32, tx: Ring, rx: Ring, count: u32) -> Run {
        let mut run = Run::default();
        let Some(heads) = self.heads(engine, queue) else { return run };
        let mut heads = heads.lock();
        let mut gather = Gather { bus, transfer: None, lost: 0 };
        // A ring cannot hold more than it has places for.
        for _ in 0..count.min(tx.len) {
            let t = bus.slice(tx.base.wrapping_add(u64::from(heads.tx) * DESC), DESC);
            let r = bus.slice(rx.base.wrapping_add(u64::from(heads.rx) * DESC), DESC);
            let (Some(t), Some(r)) = (t, r) else {
                run.bad += 1;
                break;
            };
            // SAFETY: `slice` vouches for 16 bytes; the memory may be unaligned and shared with
            // the process that filled the ring.
            let (word, from, to) = unsafe {
                (
                    t.cast::<u32>().as_ptr().read_unaligned(),
                    t.cast::<u64>().as_ptr().add(1).read_unaligned(),
                    r.cast::<u64>().as_ptr().add(1).read_unaligned(),
                )
            };
            let bytes = match u64::from(word & 0xffff) {
                0 => LONGEST,
                n => n,
            };
            let transfer = |device, window, inbound| Transfer { device, window, bytes: bytes as usize, inbound };
            match (bus.place(from, bytes), bus.place(to, bytes)) {
                (Some(Place::Window(window)), Some(Place::Here(device))) => gather.add(transfer(device, window, true)),
                (Some(Place::Here(device)), Some(Place::Window(window))) => gather.add(transfer(device, window, false)),
                (Some(Place::Here(source)), Some(Place::Here(target))) => {
                    gather.finish();
                    if bytes == LONGEST && bus.is_file(to) && zeros(source) {
                        run.bad += u32::from(bus.space.discard(to, bytes).is_err());
                    } else {
                        copy(source, target, bytes as usize);
                    }
                }
                _ => run.bad += 1,
            }
            run.bytes += bytes;
            run.descriptors += 1;
            heads.tx = (heads.tx + 1) % tx.len;
            heads.rx = (heads.rx + 1) % rx.len;
        }
        gather.finish();
        run.bad += gather.lost;
        run
    }
}

/// Whether a source of [`LONGEST`] bytes is all zeros.
fn zeros(from: NonNull<u8>) -> bool {
    // SAFETY: `slice` vouched for the length. Equal to itself one byte further on, and beginning
    // with 0, means 0 throughout; the memory may change meanwhile, as a real source may.
    unsafe {
        from.as_ptr().read() == 0
            && libc::memcmp(from.as_ptr().cast(), from.as_ptr().add(1).cast(), LONGEST as usize - 1) == 0
    }
}

fn copy(from: NonNull<u8>, to: NonNull<u8>, bytes: usize) {
    // A marker is one word that a poller reads while it is written: it must not be torn, and
    // what was copied before it must be visible first.
    if bytes == 4 && from.cast::<u32>().is_aligned() && to.cast::<u32>().is_aligned() {
        // SAFETY: both are valid for 4 bytes and aligned.
        unsafe {
            let value = from.cast::<u32>().as_ptr().read_volatile();
            std::sync::atomic::fence(std::sync::atomic::Ordering::Release);
            to.cast::<u32>().as_ptr().write_volatile(value);
        }
    } else {
        // SAFETY: both ranges were vouched for by `slice`; they may overlap.
        unsafe { std::ptr::copy(from.as_ptr(), to.as_ptr(), bytes) };
    }
}
