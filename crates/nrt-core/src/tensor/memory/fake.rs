//! Memory of the simulated instance: every HBM is a sparse memory file, mapped as one window as
//! the driver maps the real one. Bytes are counted when taken and cost host memory only once
//! touched; a freed block gives its pages back and reads as zeros when taken again.

use std::{
    fs::File,
    io,
    os::fd::OwnedFd,
    sync::{Arc, atomic::AtomicU64},
};

use memmap2::{MmapOptions, MmapRaw};
use neuron_abi::Arch;
use parking_lot::Mutex;
use rustix::{
    fs::{FallocateFlags, MemfdFlags},
    process::{Resource, getrlimit},
};

use super::{AllocError, Block, Bytes, DeviceMemory, HbmMap, Place, Spec, Usage, ranges::Ranges, words};
use crate::{Result, Status, log_error};

/// Blocks are whole pages, as the driver rounds them (`facts/driver/cdev.md`, Memory).
pub const PAGE: usize = 4096;
/// The driver keeps the first bytes of each HBM for itself (`facts/driver/cdev.md`, Memory).
pub const RESERVED: u64 = 16 << 20;
/// Largest pinned host block (`facts/runtime/tensors.md` section 1; `facts/driver/cdev.md`).
pub const PINNED_LIMIT: usize = 4 << 20;

/// Memory of all devices of a simulated instance.
pub struct FakeMemory {
    arch: Arch,
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
    process: u32,
    state: Mutex<State>,
}

struct State {
    free: Ranges,
    used: u64,
    /// Made at the first need: most instances use few of their HBMs.
    window: Option<Arc<Window>>,
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
            let state = State { free: Ranges::new(RESERVED, end - RESERVED), used: 0, window: None };
            Arc::new(Hbm { base, limit, end, process: std::process::id(), state: Mutex::new(state) })
        };
        let hbms = spec.devices.iter().flat_map(|_| map.bases.iter().map(|&base| hbm(base))).collect();
        FakeMemory { arch: spec.arch, devices: spec.devices.clone(), hbms }
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
        let mut state = hbm.state.lock();
        if state.free.largest() < size as u64 {
            return Err(AllocError::Exhausted);
        }
        let window = hbm.window(&mut state).map_err(AllocError::Host)?;
        let start = state.free.take(size as u64).ok_or(AllocError::Exhausted)?;
        state.used += size as u64;
        Ok(Box::new(FakeBlock { hbm: Arc::clone(hbm), window, start: start as usize, size }))
    }

    fn alloc_pinned(&self, _device: u32, size: usize) -> std::result::Result<Box<dyn Bytes>, AllocError> {
        if size > PINNED_LIMIT {
            return Err(AllocError::Exhausted);
        }
        HostBytes::new(size).map(|bytes| Box::new(bytes) as Box<dyn Bytes>)
    }

    fn usage(&self, place: Place) -> Usage {
        let hbm = self.hbm(place);
        let state = hbm.state.lock();
        Usage { limit: hbm.limit, used: state.used, largest_free: state.free.largest() }
    }

    fn window(&self, place: Place) -> std::result::Result<Option<(usize, usize)>, AllocError> {
        // The V2 driver offers no such mapping (`facts/driver/cdev.md`, mmap).
        if self.arch == Arch::Sunda {
            return Ok(None);
        }
        let hbm = self.hbm(place);
        let window = hbm.window(&mut hbm.state.lock()).map_err(AllocError::Host)?;
        Ok(Some((window.map.as_ptr().addr(), window.map.len())))
    }

    fn export(&self, _va: u64, _size: u64) -> Result<OwnedFd> {
        log_error!(Tdrv, "nrt_get_dmabuf_fd", "A simulated device cannot export its memory; run on a real instance");
        Err(Status::Invalid)
    }
}

impl Hbm {
    fn window(&self, state: &mut State) -> io::Result<Arc<Window>> {
        if let Some(window) = &state.window {
            return Ok(Arc::clone(window));
        }
        let window = Arc::new(Window::new(self.end as usize)?);
        state.window = Some(Arc::clone(&window));
        Ok(window)
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

    fn words(&self) -> &[AtomicU64] {
        let words = self.map.len() / size_of::<AtomicU64>();
        // SAFETY: the mapping is page aligned, readable and writable, `len` long and lives as long
        // as `self`; the file is private to it and never shrinks. Nobody makes a plain reference
        // into it, and every bit pattern is a valid word.
        unsafe { std::slice::from_raw_parts(self.map.as_mut_ptr().cast::<AtomicU64>(), words) }
    }
}

struct FakeBlock {
    hbm: Arc<Hbm>,
    window: Arc<Window>,
    /// In the window.
    start: usize,
    size: usize,
}

impl FakeBlock {
    fn words(&self) -> &[AtomicU64] {
        &self.window.words()[self.start / size_of::<AtomicU64>()..][..self.size / size_of::<AtomicU64>()]
    }
}

impl Bytes for FakeBlock {
    fn size(&self) -> usize {
        self.size
    }

    fn addr(&self) -> Option<usize> {
        Some(self.window.map.as_ptr().addr() + self.start)
    }

    fn read_at(&self, offset: usize, out: &mut [u8]) -> Result<()> {
        words::read(self.words(), offset, out);
        Ok(())
    }

    fn write_at(&self, offset: usize, data: &[u8]) -> Result<()> {
        words::write(self.words(), offset, data);
        Ok(())
    }

    fn fill(&self, offset: usize, value: u8, len: usize) -> Result<()> {
        words::fill(self.words(), offset, value, len);
        Ok(())
    }
}

impl Block for FakeBlock {
    fn physical_address(&self) -> u64 {
        self.hbm.base + self.start as u64
    }
}

impl Drop for FakeBlock {
    fn drop(&mut self) {
        if self.hbm.process != std::process::id() {
            return;
        }
        let (start, size) = (self.start as u64, self.size as u64);
        // Where the kernel cannot punch holes the pages stay and the next owner sees old bytes,
        // which the contract allows.
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let _ = rustix::fs::fallocate(&self.window.file, hole, start, size);
        let mut state = self.hbm.state.lock();
        state.free.give(start, size);
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
}

impl Bytes for HostBytes {
    fn size(&self) -> usize {
        self.size
    }

    fn addr(&self) -> Option<usize> {
        Some(self.words.as_ptr().addr())
    }

    fn read_at(&self, offset: usize, out: &mut [u8]) -> Result<()> {
        words::read(&self.words, offset, out);
        Ok(())
    }

    fn write_at(&self, offset: usize, data: &[u8]) -> Result<()> {
        words::write(&self.words, offset, data);
        Ok(())
    }

    fn fill(&self, offset: usize, value: u8, len: usize) -> Result<()> {
        words::fill(&self.words, offset, value, len);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
        memory
            .hbm(place)
            .state
            .lock()
            .window
            .as_ref()
            .map_or(0, |window| window.file.metadata().unwrap().blocks() * 512)
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

        let mut out = [1; 8];
        memory.alloc(place, 30 << 30).unwrap().read_at(12345, &mut out).unwrap();
        assert_eq!(out, [0; 8], "a block taken again reads as zeros");
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
        assert!(self::memory(Arch::Sunda, 32 << 30).window(Place { device: 0, hbm: 0 }).unwrap().is_none());
    }
}
