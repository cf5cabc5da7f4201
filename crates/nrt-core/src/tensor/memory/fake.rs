//! Memory of the simulated instance: every HBM is a sparse memory file, mapped as one window as
//! the driver maps the real one. Bytes are counted when taken and cost host memory only once
//! touched. A new instance reads as zeros. Freed blocks give their pages back to the system, small
//! ones when some have gathered; until then the next owner of such a block finds the old bytes, as
//! on the devices.

use std::{
    any::Any,
    fs::File,
    io, mem,
    os::fd::OwnedFd,
    sync::{Arc, OnceLock, atomic::AtomicU64},
};

use memmap2::{MmapOptions, MmapRaw};
use parking_lot::Mutex;
use rustix::{
    fs::{FallocateFlags, MemfdFlags},
    process::{Resource, getrlimit},
};

use super::{AllocError, Block, Bytes, DeviceMemory, HbmMap, Place, Spec, Usage, ranges::Ranges, shared::Shared};
use crate::{Result, Status, forked::Process, log_error};

/// Blocks are whole pages, as the driver rounds them (`facts/driver/cdev.md`, Memory).
pub const PAGE: usize = 4096;
/// The driver keeps the first bytes of each HBM for itself (`facts/driver/cdev.md`, Memory).
pub const RESERVED: u64 = 16 << 20;
/// Largest pinned host block (`facts/runtime/tensors.md` section 1; `facts/driver/cdev.md`).
pub const PINNED_LIMIT: usize = 4 << 20;

/// Freed blocks up to this size gather before their pages go back: a system call each would cost
/// more than everything else about a small tensor.
const SMALL: u64 = 1 << 20;
/// Most bytes of an HBM that gather.
const GATHERED_BYTES: u64 = 64 << 20;
/// Most blocks of an HBM that gather.
const GATHERED: usize = 4096;
/// How many of the last ones are looked at for a block of the wanted size.
const LOOKED_AT: usize = 16;

/// Memory of all devices of a simulated instance.
pub struct FakeMemory {
    devices: Vec<u32>,
    hbms: Vec<Arc<Hbm>>,
}

struct Hbm {
    /// Physical address of its first byte.
    base: u64,
    /// Size as reported.
    limit: u64,
    /// Bytes from `base` to the end of what can be taken.
    end: u64,
    /// A forked child shares the pages with its parent and must not free them.
    process: Process,
    /// Made at the first need, with the lock held: most instances use few of their HBMs.
    window: OnceLock<Window>,
    state: Mutex<State>,
}

struct State {
    /// Without those that have gathered.
    free: Ranges,
    used: u64,
    /// Start and length of freed blocks that still have their pages.
    gathered: Vec<(u64, u64)>,
    gathered_bytes: u64,
}

impl State {
    /// Take `len` > 0 bytes: the place of a block just freed, or whatever fits best.
    fn take(&mut self, len: u64, window: &Window) -> Option<u64> {
        if len > SMALL {
            // A large block is placed with everything in view, or small gaps would stay between such.
            self.give_back(window);
            return self.free.take(len);
        }
        let recent = self.gathered.len().saturating_sub(LOOKED_AT);
        if let Some(at) = self.gathered[recent..].iter().rposition(|&(_, have)| have == len) {
            self.gathered_bytes -= len;
            return Some(self.gathered.swap_remove(recent + at).0);
        }
        self.free.take(len).or_else(|| {
            self.give_back(window);
            self.free.take(len)
        })
    }

    /// A large block comes without its pages.
    fn give(&mut self, start: u64, len: u64, window: &Window) {
        if len > SMALL {
            return self.free.give(start, len);
        }
        self.gathered.push((start, len));
        self.gathered_bytes += len;
        if self.gathered_bytes > GATHERED_BYTES || self.gathered.len() > GATHERED {
            self.give_back(window);
        }
    }

    /// The pages of all that has gathered, neighbours by one call.
    fn give_back(&mut self, window: &Window) {
        let mut gathered = mem::take(&mut self.gathered);
        self.gathered_bytes = 0;
        gathered.sort_unstable();
        let runs = gathered.chunk_by(|before, after| before.0 + before.1 == after.0);
        for run in runs.filter_map(|run| Some((run.first()?.0, run.last()?))) {
            let (start, len) = (run.0, run.1.0 + run.1.1 - run.0);
            window.forget(start, len);
            self.free.give(start, len);
        }
        gathered.clear();
        self.gathered = gathered;
    }
}

impl FakeMemory {
    /// Memory as `spec` says.
    pub fn new(spec: &Spec) -> FakeMemory {
        let map = HbmMap::of(spec.arch);
        let limit = spec.hbm_bytes_per_device / map.bases.len() as u64 / PAGE as u64 * PAGE as u64;
        // An HBM of a size of its own still leaves the driver's share alone, and stays below the
        // address of its neighbour.
        let room = if limit <= map.bytes { map.bytes } else { map.bases[1] - map.bases[0] };
        let end = (RESERVED + limit).min(room);
        let hbm = |base: u64| {
            let free = Ranges::new(RESERVED, end - RESERVED);
            let state = Mutex::new(State { free, used: 0, gathered: Vec::new(), gathered_bytes: 0 });
            Arc::new(Hbm { base, limit, end, process: Process::current(), window: OnceLock::new(), state })
        };
        let hbms = spec.devices.iter().flat_map(|_| map.bases.iter().map(|&base| hbm(base))).collect();
        FakeMemory { devices: spec.devices.clone(), hbms }
    }

    /// `place` must be one of this instance.
    fn hbm(&self, place: Place) -> &Arc<Hbm> {
        let device = self.devices.iter().position(|&device| device == place.device).expect("a device of the instance");
        let per_device = self.hbms.len() / self.devices.len();
        &self.hbms[device * per_device + place.hbm as usize]
    }
}

impl DeviceMemory for FakeMemory {
    fn alloc(&self, place: Place, size: usize) -> std::result::Result<Box<dyn Block>, AllocError> {
        let size = size.checked_next_multiple_of(PAGE).ok_or(AllocError::Exhausted)?;
        let hbm = self.hbm(place);
        if hbm.end - RESERVED < size as u64 {
            return Err(AllocError::Exhausted);
        }
        let mut state = hbm.state.lock();
        let window = hbm.window(&state).map_err(AllocError::Host)?;
        let start = state.take(size as u64, window).ok_or(AllocError::Exhausted)?;
        state.used += size as u64;
        drop(state);
        Ok(Box::new(FakeBlock { memory: window.bytes().part(start as usize, size), hbm: Arc::clone(hbm) }))
    }

    fn alloc_pinned(&self, _device: u32, size: usize) -> std::result::Result<Box<dyn Bytes>, AllocError> {
        if size > PINNED_LIMIT {
            return Err(AllocError::Exhausted);
        }
        HostBytes::new(size).map(|bytes| Box::new(bytes) as Box<dyn Bytes>)
    }

    fn usage(&self, place: Place) -> Usage {
        let hbm = self.hbm(place);
        let mut state = hbm.state.lock();
        if let Some(window) = hbm.window.get() {
            state.give_back(window);
        }
        Usage { limit: hbm.limit, used: state.used, largest_free: state.free.largest() }
    }

    fn window(&self, place: Place) -> std::result::Result<Option<(usize, usize)>, AllocError> {
        let hbm = self.hbm(place);
        let window = hbm.window(&hbm.state.lock()).map_err(AllocError::Host)?;
        Ok(Some((window.bytes().addr(), window.bytes().size())))
    }

    fn export(&self, _va: u64, _size: u64) -> Result<OwnedFd> {
        log_error!(Tdrv, "nrt_get_dmabuf_fd", "A simulated device cannot export its memory; run on a real instance");
        Err(Status::Invalid)
    }
}

impl Hbm {
    /// The lock keeps two threads from making it at once.
    fn window(&self, _locked: &State) -> io::Result<&Window> {
        match self.window.get() {
            Some(window) => Ok(window),
            None => Window::new(self.end as usize).map(|window| self.window.get_or_init(|| window)),
        }
    }
}

/// A whole HBM in this process.
struct Window {
    file: File,
    map: MmapRaw,
}

impl Window {
    fn new(size: usize) -> io::Result<Window> {
        // Growing a file beyond this limit would end the process by a signal.
        if getrlimit(Resource::Fsize).current.is_some_and(|limit| limit < size as u64) {
            return Err(io::Error::other("the file size limit (ulimit -f) is below the size of an HBM"));
        }
        let file = File::from(rustix::fs::memfd_create("opennrt-hbm", MemfdFlags::CLOEXEC)?);
        file.set_len(size as u64)?;
        let map = MmapOptions::new().len(size).no_reserve_swap().map_raw(&file)?;
        Ok(Window { file, map })
    }

    fn bytes(&self) -> Shared {
        // SAFETY: the mapping is readable and writable, `len` long and lives as long as `self`, which
        // whoever uses the bytes keeps; the file is private to it and never shrinks.
        unsafe { Shared::new(self.map.as_mut_ptr(), self.map.len()) }
    }

    /// Give pages back. Where the kernel cannot punch holes they stay, which the contract allows.
    fn forget(&self, start: u64, len: u64) {
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let _ = rustix::fs::fallocate(&self.file, hole, start, len);
    }
}

struct FakeBlock {
    /// A part of the window, which lives as long as the HBM.
    memory: Shared,
    hbm: Arc<Hbm>,
}

impl FakeBlock {
    fn window(&self) -> &Window {
        self.hbm.window.get().expect("the block is a part of it")
    }

    /// In the window.
    fn start(&self) -> u64 {
        (self.memory.addr() - self.window().bytes().addr()) as u64
    }
}

impl Bytes for FakeBlock {
    fn size(&self) -> usize {
        self.memory.size()
    }

    fn addr(&self) -> Option<usize> {
        Some(self.memory.addr())
    }

    fn read_at(&self, offset: usize, out: &mut [u8]) -> Result<()> {
        self.memory.read(offset, out);
        Ok(())
    }

    fn write_at(&self, offset: usize, data: &[u8]) -> Result<()> {
        self.memory.write(offset, data);
        Ok(())
    }

    fn fill(&self, offset: usize, value: u8, len: usize) -> Result<()> {
        self.memory.fill(offset, value, len);
        Ok(())
    }
}

impl Block for FakeBlock {
    fn physical_address(&self) -> u64 {
        self.hbm.base + self.start()
    }

    fn engine_copy(&self, offset: usize, source: &dyn Block, source_offset: usize, len: usize) -> Option<Result<()>> {
        let source = (source as &dyn Any).downcast_ref::<FakeBlock>()?;
        self.memory.part(offset, len).copy_from(source.memory.part(source_offset, len));
        Some(Ok(()))
    }
}

impl Drop for FakeBlock {
    fn drop(&mut self) {
        if self.hbm.process != Process::current() {
            return;
        }
        let (start, size, window) = (self.start(), self.memory.size() as u64, self.window());
        if size > SMALL {
            // Not with the lock held: it takes as long as there are pages.
            window.forget(start, size);
        }
        let mut state = self.hbm.state.lock();
        state.give(start, size, window);
        state.used -= size;
    }
}

/// Host memory the library owns, zeroed and lazily backed.
pub struct HostBytes {
    words: Box<[AtomicU64]>,
    size: usize,
}

impl HostBytes {
    /// `size` bytes.
    pub fn new(size: usize) -> std::result::Result<HostBytes, AllocError> {
        let words = bytemuck::allocation::try_zeroed_slice_box(size.div_ceil(size_of::<AtomicU64>()))
            .map_err(|()| AllocError::Host(io::ErrorKind::OutOfMemory.into()))?;
        Ok(HostBytes { words, size })
    }

    fn bytes(&self) -> Shared {
        // SAFETY: the words are atomic, so nobody has them to himself, and live as long as `self`.
        unsafe { Shared::new(self.words.as_ptr().cast_mut().cast(), self.size) }
    }
}

impl Bytes for HostBytes {
    fn size(&self) -> usize {
        self.size
    }

    fn addr(&self) -> Option<usize> {
        Some(self.bytes().addr())
    }

    fn read_at(&self, offset: usize, out: &mut [u8]) -> Result<()> {
        self.bytes().read(offset, out);
        Ok(())
    }

    fn write_at(&self, offset: usize, data: &[u8]) -> Result<()> {
        self.bytes().write(offset, data);
        Ok(())
    }

    fn fill(&self, offset: usize, value: u8, len: usize) -> Result<()> {
        self.bytes().fill(offset, value, len);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use neuron_abi::Arch;
    use neuron_driver::requests::CoreMap;
    use std::os::unix::fs::MetadataExt;

    fn memory(arch: Arch, hbm_bytes_per_device: u64) -> FakeMemory {
        let devices = vec![0, 2];
        FakeMemory::new(&Spec {
            arch,
            devices,
            cores_per_device: 8,
            core_map: CoreMap::default(),
            lnc: 1,
            visible: vec![0],
            hbm_bytes_per_device,
            p2p: true,
            funtime: true,
        })
    }

    fn touched(memory: &FakeMemory, place: Place) -> u64 {
        memory.hbm(place).window.get().map_or(0, |window| window.file.metadata().unwrap().blocks() * 512)
    }

    #[test]
    fn bytes_are_counted_when_taken_and_touched_when_written_and_given_back_when_freed() {
        let memory = memory(Arch::Mariana, 144 << 30);
        let place = Place { device: 2, hbm: 3 };
        let block = memory.alloc(place, 30 << 30).unwrap();
        assert_eq!((memory.usage(place).used, touched(&memory, place)), (30 << 30, 0));
        block.write_at(12345, &[7; 1 << 20]).unwrap();
        assert!((1 << 20..2 << 20).contains(&touched(&memory, place)));
        drop(block);
        assert_eq!((memory.usage(place).used, touched(&memory, place)), (0, 0));
    }

    #[test]
    fn a_new_instance_reads_as_zeros() {
        let memory = memory(Arch::Cayman, 96 << 30);
        let block = memory.alloc(Place { device: 0, hbm: 1 }, 1 << 20).unwrap();
        let mut out = vec![1; 1 << 20];
        block.read_at(0, &mut out).unwrap();
        assert!(out.iter().all(|byte| *byte == 0));
    }

    #[test]
    fn small_freed_blocks_keep_their_pages_until_enough_have_gathered() {
        let memory = memory(Arch::Cayman, 96 << 30);
        let place = Place { device: 0, hbm: 0 };
        let gathered = || memory.hbm(place).state.lock().gathered_bytes;
        let small = |size: usize| {
            let block = memory.alloc(place, size).unwrap();
            block.fill(0, 7, size).unwrap();
            block
        };
        // The next owner of the same size gets the block that was freed last.
        let block = small(8192);
        let address = block.physical_address();
        drop(block);
        assert_eq!((gathered(), touched(&memory, place)), (8192, 8192));
        let block = small(8192);
        assert_eq!((block.physical_address(), gathered()), (address, 0));
        drop(block);

        // By bytes, and by number.
        for (size, count) in [(SMALL as usize, (GATHERED_BYTES / SMALL) as usize + 1), (PAGE, GATHERED + 1)] {
            let blocks: Vec<_> = (0..count).map(|_| small(size)).collect();
            drop(blocks);
            assert!(gathered() <= GATHERED_BYTES && touched(&memory, place) <= GATHERED_BYTES);
            assert!(gathered() < (size * count) as u64, "some went back");
        }
        // Whoever asks how much is free gets all of it.
        let usage = memory.usage(place);
        assert_eq!((usage.used, usage.largest_free), (0, (24 << 30) - RESERVED));
        assert_eq!((gathered(), touched(&memory, place)), (0, 0));
    }

    #[test]
    fn what_has_gathered_is_there_for_a_larger_block() {
        let memory = memory(Arch::Cayman, 64 << 20);
        let place = Place { device: 0, hbm: 0 };
        let blocks: Vec<_> = (0..16).map(|_| memory.alloc(place, 1 << 20).unwrap()).collect();
        assert!(matches!(memory.alloc(place, 1), Err(AllocError::Exhausted)));
        drop(blocks);
        assert!(memory.alloc(place, 16 << 20).is_ok());
        // A small one that was freed leaves no gap between larger ones.
        drop(memory.alloc(place, 64 << 10).unwrap());
        let halves = [(); 2].map(|()| memory.alloc(place, 8 << 20));
        assert!(halves.iter().all(|half| half.is_ok()));
    }

    #[test]
    fn physical_addresses_follow_the_address_map_and_leave_the_drivers_share_alone() {
        for arch in [Arch::Sunda, Arch::Cayman, Arch::Mariana] {
            let map = HbmMap::of(arch);
            let memory = memory(arch, map.bytes * map.bases.len() as u64);
            for (hbm, base) in map.bases.iter().enumerate() {
                let place = Place { device: 0, hbm: hbm as u32 };
                let all = memory.usage(place);
                assert_eq!((all.limit, all.largest_free), (map.bytes, map.bytes - RESERVED));
                let block = memory.alloc(place, 1).unwrap();
                assert_eq!((block.physical_address(), block.size()), (base + RESERVED, PAGE));
                let rest = memory.alloc(place, (map.bytes - RESERVED) as usize - PAGE).unwrap();
                assert_eq!(rest.physical_address() + rest.size() as u64, base + map.bytes);
                assert!(matches!(memory.alloc(place, 1), Err(AllocError::Exhausted)));
                assert_eq!(memory.usage(place).largest_free, 0);
            }
        }
    }

    #[test]
    fn a_size_of_its_own_is_usable_to_the_last_page() {
        let memory = memory(Arch::Cayman, 64 << 20);
        let place = Place { device: 0, hbm: 1 };
        assert_eq!(memory.usage(place), Usage { limit: 16 << 20, used: 0, largest_free: 16 << 20 });
        assert!(memory.alloc(place, 16 << 20).is_ok());
        // A wish beyond the address map ends at the next HBM.
        let huge = self::memory(Arch::Cayman, u64::MAX).usage(place);
        assert_eq!(huge.largest_free, HbmMap::of(Arch::Cayman).bases[1] - RESERVED);
        let none = self::memory(Arch::Cayman, 0);
        assert!(matches!(none.alloc(place, 1), Err(AllocError::Exhausted)));
    }

    #[test]
    fn a_window_covers_the_blocks_of_its_hbm() {
        let memory = memory(Arch::Cayman, 96 << 30);
        let place = Place { device: 2, hbm: 2 };
        let (start, size) = memory.window(place).unwrap().unwrap();
        assert_eq!(size as u64, 24 << 30);
        let block = memory.alloc(place, 100).unwrap();
        let base = HbmMap::of(Arch::Cayman).bases[2];
        assert_eq!(block.addr().unwrap() - start, (block.physical_address() - base) as usize);
    }
}
