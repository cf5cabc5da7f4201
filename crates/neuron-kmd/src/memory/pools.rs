//! Pools, chunks and handles of one device (`facts/driver/cdev.md`, section Memory).
//!
//! ```text
//!  channel   0 ───────── 16 MiB ──────────────────────────── end - 1 GiB ─────────── end
//!            │ driver    │ main pool ─►        ◄─ scratchpad │ small pool ─►          │
//!  host RAM  │ hole │ fresh pages ─►                         │ host pool (stale)      │
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use neuron_abi::kernel::values::{MAX_CORES, MAX_MEM_HANDLES, MemCategory, MemLifespan, MemLocation};
use neuron_hw::Silicon;
use neuron_hw::memory::AddressSpace;

use super::page_pool::{PAGE, PagePool};
use crate::dhal::Dhal;
use crate::env::Env;
use crate::reply::Errno;
use crate::sync::Mutex;

/// Start of each channel that the driver keeps.
const RESERVED: u64 = 16 << 20;

/// Largest piece of host memory there is: what the page allocator of the recorded kernel gave.
const MAX_HOST: u64 = 4 << 20;

/// Host memory below this bus address is never handed out, so that no chunk has address 0.
pub(crate) const HOST_HOLE: u64 = 1 << 20;

/// The host pools are four times the parameter (measured: one pool for each of four page sizes).
const HOST_POOLS: u64 = 4;

/// Where a chunk came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Small,
    Main,
    Scratchpad,
    Fresh,
    HostPool,
}

/// A piece of memory, of the host or of the device. It keeps its values after it was freed.
#[derive(Debug)]
pub struct Chunk {
    /// Device-side physical address; for host memory with the PCI host base. Also the offset to
    /// map it with, and its place in the device's file.
    pub address: u64,
    /// Bytes, whole pages.
    pub bytes: u64,
    /// Host or device.
    pub location: MemLocation,
    /// Memory channel it was asked for, also for host memory.
    pub channel: u32,
    /// Core it is booked on, below 8.
    pub core: u32,
    /// What it is for.
    pub category: MemCategory,
    /// When it is freed.
    pub lifespan: MemLifespan,
    /// Thread group that allocated it; 0 for the driver itself.
    pub owner: u32,
    source: Source,
}

impl Chunk {
    /// First address behind it.
    pub fn end(&self) -> u64 {
        self.address + self.bytes
    }

    /// Whether it is host memory.
    pub fn is_host(&self) -> bool {
        self.location == MemLocation::Host
    }

    /// Whether it is part of the contiguous scratchpad of its channel.
    pub fn is_scratchpad(&self) -> bool {
        self.source == Source::Scratchpad
    }
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Bytes; rounded up to whole pages.
    pub bytes: u64,
    /// Alignment in bytes; host memory takes 0 only.
    pub align: u64,
    /// Host or device.
    pub location: MemLocation,
    /// Channel; checked for host memory too.
    pub channel: u32,
    /// Core to book it on.
    pub core: u32,
    /// A [`MemCategory`]; `None` counts as unknown.
    pub category: Option<MemCategory>,
    /// When it is freed.
    pub lifespan: MemLifespan,
    /// Thread group; 0 for the driver itself.
    pub owner: u32,
}

impl Request {
    /// Memory of the driver itself, booked as such.
    pub fn driver(location: MemLocation, bytes: u64, core: u32) -> Self {
        let category = match location {
            MemLocation::Host => MemCategory::NcdevHost,
            MemLocation::Device => MemCategory::NcdevDevice,
        };
        let (category, lifespan) = (Some(category), MemLifespan::Device);
        Self { bytes, align: 0, location, channel: 0, core, category, lifespan, owner: 0 }
    }
}

#[derive(Debug)]
struct Channel {
    bytes: u64,
    main: PagePool,
    small: PagePool,
    /// Bytes counted for the contiguous scratchpad. Its next piece ends this far below the end
    /// of the main pool, whether the pieces were freed in order or not.
    scratchpad: u64,
    used: u64,
}

#[derive(Debug)]
struct Slot {
    chunk: Arc<Chunk>,
    /// Counts allocations.
    serial: u64,
    references: u32,
    handle: Option<u64>,
}

#[derive(Debug, Default)]
struct Handles {
    /// Address of the chunk behind handle `i + 1`.
    table: Vec<Option<u64>>,
    /// Freed ones; the last freed is the next given.
    freed: Vec<u64>,
}

impl Handles {
    fn give(&mut self, address: u64) -> Option<u64> {
        let handle = match self.freed.pop() {
            Some(handle) => handle,
            None if self.table.len() + 1 < MAX_MEM_HANDLES => {
                self.table.push(None);
                self.table.len() as u64
            }
            None => return None,
        };
        self.table[handle as usize - 1] = Some(address);
        Some(handle)
    }

    fn take(&mut self, handle: u64) {
        self.table[handle as usize - 1] = None;
        self.freed.push(handle);
    }

    fn address(&self, handle: u64) -> Option<u64> {
        let index = usize::try_from(handle).ok()?.checked_sub(1)?;
        *self.table.get(index)?
    }
}

#[derive(Debug)]
struct State {
    channels: Vec<Channel>,
    fresh: PagePool,
    host_pool: PagePool,
    host_used: u64,
    allocations: u64,
    slots: BTreeMap<u64, Slot>,
    handles: Handles,
    /// A caller died with the lock of the pools.
    stuck: bool,
}

/// Memory of one device.
#[derive(Debug)]
pub struct Pools {
    state: Mutex<State>,
    small_max: u64,
}

/// Bytes in use by a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Host memory.
    pub host: u64,
    /// Device memory.
    pub device: u64,
}

/// How full memory is, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fill {
    /// Of a channel.
    pub bytes: u64,
    /// In use of the channel.
    pub used: u64,
    /// Free in its main pool.
    pub main: u64,
    /// Free in its small pool.
    pub small: u64,
    /// First address of its contiguous scratchpad.
    pub scratchpad: u64,
    /// In use of the host.
    pub host: u64,
}

impl Pools {
    /// Empty pools of a device. A device with smaller channels than its product has smaller
    /// pools; one without host memory in its own file can allocate none.
    pub fn new(env: &Env, dhal: &dyn Dhal, silicon: &Silicon) -> Self {
        let geometry = &dhal.layout().geometry;
        let parameter = |name| env.params.get(name).unwrap_or(0) / PAGE * PAGE;
        let bytes = geometry.channel_bytes.min(silicon.channel_bytes()) / PAGE * PAGE;
        let reserved = RESERVED.min(bytes);
        let small = parameter("mempool_small_pool_size").min((bytes - reserved) / 2 / PAGE * PAGE);
        let channels = dhal.layout().channels.iter().map(|c| Channel {
            bytes,
            main: PagePool::new(c.address, bytes - small),
            small: PagePool::new(c.address + bytes - small, small),
            scratchpad: 0,
            used: 0,
        });
        let host = silicon.host_ram().map_or(0, |ram| ram.bytes()).saturating_sub(HOST_HOLE);
        let pool = (parameter("mempool_host_memory_size").saturating_mul(HOST_POOLS)).min(host / 2 / PAGE * PAGE);
        let base = geometry.pci_host_base + HOST_HOLE;
        let mut state = State {
            channels: channels.collect(),
            fresh: PagePool::new(base, host - pool),
            host_pool: PagePool::new(base + (host - pool) / PAGE * PAGE, pool),
            host_used: 0,
            allocations: 0,
            slots: BTreeMap::new(),
            handles: Handles::default(),
            stuck: false,
        };
        // The driver's own start of each channel is the first thing taken from its pool; a client
        // can free it like any other chunk, through a handle made for it.
        for channel in 0..state.channels.len() {
            let request = Request::driver(MemLocation::Device, reserved, 0);
            state.take(Request { channel: channel as u32, ..request }, reserved / PAGE, 0);
        }
        Self { state: Mutex::new(state), small_max: env.params.get("mempool_small_alloc_max").unwrap_or(0) }
    }

    /// Allocates a chunk, without a handle. Fresh host memory is zeroed, all other memory has
    /// the content it had.
    ///
    /// # Errors
    /// `EINVAL` for a size above `i64::MAX`, an unknown channel, a core of 8 and up, or an
    /// alignment that is not allowed; `ENOMEM` for size 0 and when there is no room.
    pub(super) fn alloc(&self, space: &AddressSpace, request: &Request) -> Result<Arc<Chunk>, Errno> {
        let mut state = self.state.lock();
        let host = request.location == MemLocation::Host;
        let bad_align = if host { request.align != 0 } else { request.align > i32::MAX as u64 };
        let channels = state.channels.len();
        let bad_place = request.channel as usize >= channels || request.core as usize >= MAX_CORES;
        if bad_align || bad_place || request.bytes > i64::MAX as u64 {
            return Err(Errno::EINVAL);
        }
        let pages = request.bytes.div_ceil(PAGE);
        if pages == 0 {
            return Err(Errno::ENOMEM);
        }
        let chunk = state.take(*request, pages, self.small_max).ok_or(Errno::ENOMEM)?;
        drop(state);
        // A local piece is overwritten before anybody reads it.
        if chunk.source == Source::Fresh && request.lifespan != MemLifespan::Local {
            space.discard(chunk.address, chunk.bytes).map_err(|_| Errno::ENOMEM)?;
        }
        Ok(chunk)
    }

    /// Gives up one reference. `true` when it was the last: the chunk is gone.
    pub(super) fn free(&self, chunk: &Arc<Chunk>) -> bool {
        let mut state = self.state.lock();
        let Some(slot) = state.slots.get_mut(&chunk.address).filter(|s| Arc::ptr_eq(&s.chunk, chunk)) else {
            return false;
        };
        slot.references -= 1;
        if slot.references == 0 { state.remove(chunk.address) } else { false }
    }

    /// Takes one more reference, which a later free gives up.
    /// False when the chunk is gone.
    pub fn hold(&self, chunk: &Arc<Chunk>) -> bool {
        let mut state = self.state.lock();
        let slot = state.slots.get_mut(&chunk.address).filter(|s| Arc::ptr_eq(&s.chunk, chunk));
        slot.map(|s| s.references += 1).is_some()
    }

    /// The chunk behind a handle.
    pub fn chunk(&self, handle: u64) -> Option<Arc<Chunk>> {
        let state = self.state.lock();
        Some(state.slots.get(&state.handles.address(handle)?)?.chunk.clone())
    }

    /// The handle of a chunk; makes one if it has none.
    ///
    /// # Errors
    /// `ENOENT` when there is none left, or the chunk is gone.
    pub fn handle(&self, chunk: &Arc<Chunk>) -> Result<u64, Errno> {
        let state = &mut *self.state.lock();
        let slot = state.slots.get_mut(&chunk.address).filter(|s| Arc::ptr_eq(&s.chunk, chunk));
        let slot = slot.ok_or(Errno::ENOENT)?;
        if slot.handle.is_none() {
            slot.handle = Some(state.handles.give(chunk.address).ok_or(Errno::ENOENT)?);
        }
        slot.handle.ok_or(Errno::ENOENT)
    }

    /// The chunk a device-side address lies in.
    pub fn at(&self, address: u64) -> Option<Arc<Chunk>> {
        let state = self.state.lock();
        let (_, slot) = state.slots.range(..=address).next_back()?;
        (address < slot.chunk.end()).then(|| slot.chunk.clone())
    }

    /// Chunks of a channel of device memory, ascending.
    pub fn of_channel(&self, channel: u32) -> Vec<Arc<Chunk>> {
        let state = self.state.lock();
        let of = |c: &Chunk| !c.is_host() && c.channel == channel;
        state.slots.values().map(|s| &s.chunk).filter(|c| of(c)).cloned().collect()
    }

    /// Chunks with a lifespan, of one thread group or of all; the newest first, which is the order
    /// they are freed in.
    pub(super) fn with_lifespan(&self, lifespan: MemLifespan, owner: Option<u32>) -> Vec<Arc<Chunk>> {
        let state = self.state.lock();
        let of = |c: &Chunk| c.lifespan == lifespan && owner.is_none_or(|o| o == c.owner);
        let mut chunks: Vec<_> = state.slots.values().filter(|s| of(&s.chunk)).map(|s| (s.serial, &s.chunk)).collect();
        chunks.sort_unstable_by_key(|(serial, _)| std::cmp::Reverse(*serial));
        chunks.into_iter().map(|(_, chunk)| chunk.clone()).collect()
    }

    /// Memory a thread group holds until it closes the device.
    pub fn usage(&self, owner: u32) -> Usage {
        let mut usage = Usage::default();
        for chunk in self.with_lifespan(MemLifespan::CurProcess, Some(owner)) {
            *(if chunk.is_host() { &mut usage.host } else { &mut usage.device }) += chunk.bytes;
        }
        usage
    }

    /// First address behind the main pool of a channel.
    pub fn main_end(&self, channel: u32) -> u64 {
        self.state.lock().channels.get(channel as usize).map_or(0, |c| c.main.end())
    }

    /// How full a channel and the host memory are.
    pub(super) fn fill(&self, channel: u32) -> Fill {
        let state = self.state.lock();
        let host = state.host_used;
        state.channels.get(channel as usize).map_or(Fill { host, ..Fill::default() }, |c| Fill {
            bytes: c.bytes,
            used: c.used,
            main: c.main.free_bytes(),
            small: c.small.free_bytes(),
            scratchpad: c.main.end() - c.scratchpad,
            host,
        })
    }

    /// Where the piece of a scratchpad lies that should be freed next, if it is not this one.
    pub(super) fn scratchpad_disorder(&self, chunk: &Chunk) -> Option<u64> {
        let state = self.state.lock();
        let channel = state.channels.get(chunk.channel as usize).filter(|_| chunk.is_scratchpad())?;
        Some(channel.main.end() - channel.scratchpad).filter(|next| *next != chunk.address)
    }

    /// Whether a caller died with the lock of the pools: nobody gets in any more.
    pub fn stuck(&self) -> bool {
        self.state.lock().stuck
    }

    pub(super) fn leave_stuck(&self) {
        self.state.lock().stuck = true;
    }

    /// Checks what must hold between any two calls: pages are free or belong to exactly one
    /// chunk, chunks do not overlap, handles and chunks refer to each other.
    ///
    /// # Panics
    /// When something does not hold.
    pub fn check_invariants(&self) {
        let state = self.state.lock();
        let mut end = 0;
        let mut sums: BTreeMap<(u32, bool), u64> = BTreeMap::new();
        for (address, slot) in &state.slots {
            let chunk = &slot.chunk;
            assert!(*address == chunk.address && *address >= end, "chunk {address:#x} overlaps the one before");
            assert!(chunk.bytes.is_multiple_of(PAGE) && slot.references > 0);
            end = chunk.end();
            let key = if chunk.is_host() { (0, true) } else { (chunk.channel, false) };
            *sums.entry(key).or_default() += chunk.bytes;
            if let Some(handle) = slot.handle {
                assert_eq!(state.handles.address(handle), Some(*address), "handle {handle} leads elsewhere");
            }
        }
        for (i, c) in state.channels.iter().enumerate() {
            c.main.check();
            c.small.check();
            let used = sums.get(&(i as u32, false)).copied().unwrap_or(0);
            assert_eq!(used + c.main.free_bytes() + c.small.free_bytes(), c.bytes, "channel {i} leaks");
            assert_eq!(used, c.used, "channel {i} miscounts");
            let pieces = state.slots.values().filter(|s| s.chunk.is_scratchpad() && s.chunk.channel == i as u32);
            assert_eq!(pieces.map(|s| s.chunk.bytes).sum::<u64>(), c.scratchpad);
        }
        state.fresh.check();
        state.host_pool.check();
        assert_eq!(sums.get(&(0, true)).copied().unwrap_or(0), state.host_used, "host memory leaks");
        let live = state.handles.table.iter().flatten().count();
        assert_eq!(live + state.handles.freed.len(), state.handles.table.len(), "a handle is lost");
        assert_eq!(live, state.slots.values().filter(|s| s.handle.is_some()).count());
    }
}

impl Channel {
    fn take(&mut self, pages: u64, align: u64, scratchpad: bool, prefers_small: bool) -> Option<(u64, Source)> {
        let bytes = pages.checked_mul(PAGE)?;
        let taken = if scratchpad {
            let address = self.main.end().checked_sub(self.scratchpad)?.checked_sub(bytes)?;
            self.main.take_at(address, pages).then_some((address, Source::Scratchpad))?
        } else if prefers_small {
            let small = self.small.take(pages, align).map(|a| (a, Source::Small));
            small.or_else(|| Some((self.main.take(pages, align)?, Source::Main)))?
        } else {
            let main = self.main.take(pages, align).map(|a| (a, Source::Main));
            main.or_else(|| Some((self.small.take(pages, align)?, Source::Small)))?
        };
        self.used += bytes;
        if scratchpad {
            self.scratchpad += bytes;
        }
        Some(taken)
    }
}

impl State {
    fn take(&mut self, request: Request, pages: u64, small_max: u64) -> Option<Arc<Chunk>> {
        let Request { location, channel, core, lifespan, owner, .. } = request;
        let unknown = match location {
            MemLocation::Host => MemCategory::UnknownHost,
            MemLocation::Device => MemCategory::UnknownDevice,
        };
        let category = request.category.unwrap_or(unknown);
        let (address, source) = if location == MemLocation::Host {
            self.take_host(pages)?
        } else {
            let scratchpad = category == MemCategory::ContiguousScratchpadDevice;
            let prefers_small = pages <= small_max / PAGE;
            self.channels[channel as usize].take(pages, request.align, scratchpad, prefers_small)?
        };
        let bytes = pages * PAGE;
        let chunk = Arc::new(Chunk { address, bytes, location, channel, core, category, lifespan, owner, source });
        self.allocations += 1;
        let slot = Slot { chunk: chunk.clone(), serial: self.allocations, references: 1, handle: None };
        self.slots.insert(address, slot);
        Some(chunk)
    }

    fn take_host(&mut self, pages: u64) -> Option<(u64, Source)> {
        if pages > MAX_HOST / PAGE {
            return None;
        }
        let fresh = self.fresh.take(pages, 0).map(|a| (a, Source::Fresh));
        let taken = fresh.or_else(|| Some((self.host_pool.take(pages, 0)?, Source::HostPool)))?;
        self.host_used += pages * PAGE;
        Some(taken)
    }

    /// Takes a chunk out; `false` when there is none.
    fn remove(&mut self, address: u64) -> bool {
        let Some(slot) = self.slots.remove(&address) else { return false };
        if let Some(handle) = slot.handle {
            self.handles.take(handle);
        }
        let (bytes, pages) = (slot.chunk.bytes, slot.chunk.bytes / PAGE);
        let channel = &mut self.channels[slot.chunk.channel as usize];
        match slot.chunk.source {
            Source::Fresh => self.fresh.give(address, pages),
            Source::HostPool => self.host_pool.give(address, pages),
            Source::Small => channel.small.give(address, pages),
            Source::Main => channel.main.give(address, pages),
            Source::Scratchpad => {
                channel.main.give(address, pages);
                channel.scratchpad -= bytes;
            }
        }
        if slot.chunk.is_host() {
            self.host_used -= bytes;
        } else {
            channel.used -= bytes;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_start_at_1_and_end_before_the_limit_and_freed_ones_come_back_last_first() {
        let mut handles = Handles::default();
        assert!((1..MAX_MEM_HANDLES as u64).all(|n| handles.give(n << 12) == Some(n)));
        assert_eq!(handles.give(0), None, "the table is full");
        for freed in [5, 9, 7] {
            handles.take(freed);
            assert_eq!(handles.address(freed), None);
        }
        assert_eq!([7, 9, 5].map(|n| handles.give(n << 12)), [7, 9, 5].map(Some));
        assert_eq!(
            [0, 1, MAX_MEM_HANDLES as u64, u64::MAX].map(|h| handles.address(h)),
            [None, Some(4096), None, None]
        );
    }
}
