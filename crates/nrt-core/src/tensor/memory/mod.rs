//! Device memory of an instance: who may use which, how much is used, and the seam to the backend
//! that really holds it.

use std::{
    any::Any,
    fmt, io,
    os::fd::OwnedFd,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use neuron_abi::Arch;
use neuron_driver::requests::CoreMap;

use crate::{Result, Status, log_error};

pub mod driver;
pub mod fake;
mod ranges;
mod shared;

pub use shared::Shared;

/// What the lifecycle knows when it makes the memory of one init cycle.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Silicon generation.
    pub arch: Arch,
    /// Kernel indices of the devices, ascending; holes are allowed.
    pub devices: Vec<u32>,
    /// Physical cores of one device.
    pub cores_per_device: u32,
    /// Which physical cores of the devices are behind the core numbers of the instance.
    pub core_map: CoreMap,
    /// Physical cores of one logical core.
    pub lnc: u32,
    /// Instance-wide numbers of the logical cores of this process; the caller's core numbers are
    /// positions in this list.
    pub visible: Vec<u32>,
    /// Device memory of one device, in bytes, shared evenly by its HBMs.
    pub hbm_bytes_per_device: u64,
    /// Peer-to-peer transfers allowed (`NEURON_RT_ENABLE_P2P`).
    pub p2p: bool,
    /// A simulated instance (`NEURON_RT_FAKE_INSTANCE_TYPE`).
    pub funtime: bool,
}

/// Device memory layout of an architecture (`facts/driver/bars.tsv`, `facts/driver/enums.tsv`).
#[derive(Debug, PartialEq, Eq)]
pub struct HbmMap {
    /// Physical address of the first byte of each HBM.
    pub bases: &'static [u64],
    /// Bytes of one HBM on the silicon.
    pub bytes: u64,
    /// The driver can map a whole HBM (`facts/driver/cdev.md`, mmap).
    pub mapped: bool,
}

const V2_BASES: &[u64] = &[0, 0x10_0000_0000];
const V3_BASES: &[u64] = &[0, 0x40_0000_0000, 0x8000_0000_0000, 0x8040_0000_0000];
const GIB: u64 = 1 << 30;

impl HbmMap {
    /// The layout of `arch`.
    pub const fn of(arch: Arch) -> HbmMap {
        match arch {
            Arch::Sunda => HbmMap { bases: V2_BASES, bytes: 16 * GIB, mapped: false },
            Arch::Cayman => HbmMap { bases: V3_BASES, bytes: 24 * GIB, mapped: true },
            Arch::Mariana => HbmMap { bases: V3_BASES, bytes: 36 * GIB, mapped: true },
        }
    }
}

/// One HBM of one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Kernel index of the device.
    pub device: u32,
    /// HBM of that device, from 0.
    pub hbm: u32,
}

/// Bytes somebody holds: device memory, pinned or plain host memory, or a buffer of the caller.
/// Ranges are checked before they come here: `offset + len` never exceeds [`Bytes::size`].
///
/// Calls may come from many threads at once, for the same bytes too; the implementation keeps
/// that free of undefined behaviour, the content may then be a mixture.
pub trait Bytes: Send + Sync {
    /// How many bytes there are.
    fn size(&self) -> usize;
    /// Address in this process, if mapped.
    fn addr(&self) -> Option<usize>;
    /// Copy `out.len()` bytes from `offset` on.
    fn read_at(&self, offset: usize, out: &mut [u8]) -> Result<()>;
    /// Copy `data` to `offset` on.
    fn write_at(&self, offset: usize, data: &[u8]) -> Result<()>;
    /// Set `len` bytes from `offset` on.
    fn fill(&self, offset: usize, value: u8, len: usize) -> Result<()>;
}

/// A piece of device memory; dropping it frees it.
pub trait Block: Bytes + Any {
    /// Address as the device's engines see it.
    fn physical_address(&self) -> u64;

    /// Copy from another block on the same HBM by the backend's own engines, overlapping ranges as
    /// if through a third buffer; `None` when it has none for this pair, then the bytes go through
    /// the host.
    fn engine_copy(
        &self,
        _offset: usize,
        _source: &dyn Block,
        _source_offset: usize,
        _len: usize,
    ) -> Option<Result<()>> {
        None
    }
}

/// Copy between any two memories, also overlapping ranges of one of them.
pub fn copy(from: &dyn Bytes, from_offset: usize, to: &dyn Bytes, to_offset: usize, len: usize) -> Result<()> {
    const STEP: usize = 64 << 10;
    // Going towards higher addresses, a destination above its source would overwrite what is
    // still to be read; compared by address because two tensors may lie over one buffer.
    let backwards = match (from.addr(), to.addr()) {
        (Some(from), Some(to)) => to.wrapping_add(to_offset) > from.wrapping_add(from_offset),
        _ => to_offset > from_offset,
    };
    let mut bounce = vec![0; len.min(STEP)];
    let mut done = 0;
    while done < len {
        let step = STEP.min(len - done);
        let at = if backwards { len - done - step } else { done };
        from.read_at(from_offset + at, &mut bounce[..step])?;
        to.write_at(to_offset + at, &bounce[..step])?;
        done += step;
    }
    Ok(())
}

/// Why memory could not be had.
#[derive(Debug)]
pub enum AllocError {
    /// No free range is large enough.
    Exhausted,
    /// The host refused.
    Host(io::Error),
    /// The driver refused.
    Driver(neuron_driver::Error),
}

impl fmt::Display for AllocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AllocError::Exhausted => f.write_str("no free block is large enough"),
            AllocError::Host(error) => write!(f, "the host refused: {error}"),
            AllocError::Driver(error) => error.fmt(f),
        }
    }
}

/// State of one HBM, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// All there is.
    pub limit: u64,
    /// Taken, by whomever.
    pub used: u64,
    /// Largest block that could be had.
    pub largest_free: u64,
}

/// The backend that holds the memory: the fake instance or a driver.
pub trait DeviceMemory: Send + Sync {
    /// Take `size` > 0 bytes; the block may be larger. Its content is not defined.
    fn alloc(&self, place: Place, size: usize) -> std::result::Result<Box<dyn Block>, AllocError>;
    /// Take `size` > 0 bytes of host memory that `device` can reach.
    fn alloc_pinned(&self, device: u32, size: usize) -> std::result::Result<Box<dyn Bytes>, AllocError>;
    /// Size of one HBM in bytes.
    fn limit(&self, place: Place) -> u64 {
        self.usage(place).limit
    }
    /// How full one HBM is.
    fn usage(&self, place: Place) -> Usage;
    /// Address and size of the mapping of a whole HBM, on generations that have one
    /// ([`HbmMap::mapped`]); `None` where the driver knows none.
    fn window(&self, place: Place) -> std::result::Result<Option<(usize, usize)>, AllocError>;
    /// A dma-buf descriptor of the mapped range, for other drivers.
    fn export(&self, va: u64, size: u64) -> Result<OwnedFd>;
}

/// A logical core as its memory sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Core {
    /// Kernel index of the device.
    pub device: u32,
    /// First physical core, counted inside the device.
    pub first_core: u32,
    /// First HBM its physical cores are wired to.
    pub first_hbm: u32,
    /// Number of those HBMs.
    pub hbms: u32,
}

impl Core {
    /// Its HBMs, nearest first.
    pub fn places(self) -> impl Iterator<Item = Place> {
        (0..self.hbms).map(move |n| Place { device: self.device, hbm: self.first_hbm + n })
    }
}

/// Answer of `nrt_get_vnc_memory_stats`, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Device memory of tensors of this logical core, in whole pages.
    pub bytes_used: usize,
    /// Size of the HBM of this logical core.
    pub bytes_limit: usize,
}

/// Memory of one init cycle. Tensors keep it alive, so it outlives the runtime that made it.
pub struct Memory {
    spec: Spec,
    cores: Box<[Core]>,
    used: Box<[AtomicU64]>,
    backend: Box<dyn DeviceMemory>,
}

impl Memory {
    /// Memory as `spec` says, held by `backend`. NRT_INVALID when a visible core is on no device.
    pub fn new(spec: Spec, backend: Box<dyn DeviceMemory>) -> Result<Arc<Memory>> {
        let cores = spec.visible.iter().map(|&logical| core(&spec, logical)).collect::<Result<Box<[_]>>>()?;
        let used = cores.iter().map(|_| AtomicU64::new(0)).collect();
        Ok(Arc::new(Memory { spec, cores, used, backend }))
    }

    /// What it was made from.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// The backend.
    pub fn backend(&self) -> &dyn DeviceMemory {
        &*self.backend
    }

    /// The visible logical core number `vnc`.
    pub fn core(&self, vnc: u32) -> Option<Core> {
        self.cores.get(vnc as usize).copied()
    }

    /// Visible logical cores.
    pub fn core_count(&self) -> usize {
        self.cores.len()
    }

    /// Take device memory for logical core `vnc`, which must be visible.
    pub fn alloc(self: &Arc<Self>, vnc: u32, size: usize) -> std::result::Result<Allocation, AllocError> {
        let mut refused = AllocError::Exhausted;
        for place in self.cores[vnc as usize].places() {
            match self.backend.alloc(place, size) {
                Ok(block) => {
                    self.used[vnc as usize].fetch_add(block.size() as u64, Ordering::Relaxed);
                    return Ok(Allocation { block, place, vnc, memory: Arc::clone(self) });
                }
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }

    /// How full the memory of logical core `vnc` is; `None` when it is not visible.
    pub fn stats(&self, vnc: u32) -> Option<Stats> {
        let core = self.core(vnc)?;
        let limit: u64 = core.places().map(|place| self.backend.limit(place)).sum();
        let used = self.used[vnc as usize].load(Ordering::Relaxed);
        Some(Stats { bytes_used: used as usize, bytes_limit: limit as usize })
    }
}

/// Where logical core `logical` of the instance is. Cores and devices are numbered over the whole
/// instance, so a hidden device leaves a hole and shifts nothing.
fn core(spec: &Spec, logical: u32) -> Result<Core> {
    let hbms = HbmMap::of(spec.arch).bases.len() as u32;
    let per = spec.cores_per_device;
    // Wide, because a number nobody has checked may be any.
    let first = u64::from(logical) * u64::from(spec.lnc);
    let numbers = first..first + u64::from(spec.lnc);
    let known = |number| u32::try_from(number).ok().filter(|_| per > 0);
    let places: Option<Vec<_>> = numbers.map(|n| Some(spec.core_map.locate(known(n)?, per))).collect();
    let place = places.filter(|places| !places.is_empty()).filter(|places| {
        let device = places[0].0;
        spec.devices.contains(&device) && places.iter().all(|place| place.0 == device)
    });
    let Some(places) = place else {
        log_error!(
            Tdrv,
            "nrt_init",
            "Logical core {logical} is on no device ({} devices of {per} cores, logical core size {}); \
             check NEURON_RT_VISIBLE_CORES",
            spec.devices.len(),
            spec.lnc
        );
        return Err(Status::Invalid);
    };
    let cores = places.iter().map(|place| place.1);
    let (first_core, last_core) = (cores.clone().min().unwrap_or(0), cores.max().unwrap_or(0));
    let hbm = |core| core * hbms / per;
    Ok(Core { device: places[0].0, first_core, first_hbm: hbm(first_core), hbms: hbm(last_core) - hbm(first_core) + 1 })
}

/// Device memory in use by a tensor; freed and taken off the books when dropped.
pub struct Allocation {
    block: Box<dyn Block>,
    place: Place,
    vnc: u32,
    memory: Arc<Memory>,
}

impl Allocation {
    /// The memory itself.
    pub fn block(&self) -> &dyn Block {
        &*self.block
    }

    /// The HBM it is on.
    pub fn place(&self) -> Place {
        self.place
    }

    /// The logical core it was taken for.
    pub fn vnc(&self) -> u32 {
        self.vnc
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        self.memory.used[self.vnc as usize].fetch_sub(self.block.size() as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_map_is_the_committed_table() {
        let number = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap();
        for arch in [Arch::Sunda, Arch::Cayman, Arch::Mariana] {
            let rows: Vec<Vec<&str>> = include_str!("hbm.tsv")
                .lines()
                .map(|line| line.split('\t').collect())
                .filter(|row: &Vec<&str>| row[0] == (arch as u32).to_string())
                .collect();
            let map = HbmMap::of(arch);
            assert_eq!(map.bases, rows.iter().map(|row| number(row[2])).collect::<Vec<_>>());
            assert!(rows.iter().enumerate().all(|(n, row)| row[1] == n.to_string() && number(row[3]) == map.bytes));
        }
    }

    #[test]
    fn cores_sit_next_to_their_hbms() {
        let spec = |arch, lnc, cores_per_device| Spec {
            arch,
            devices: vec![0, 3],
            cores_per_device,
            core_map: CoreMap::default(),
            lnc,
            visible: vec![],
            hbm_bytes_per_device: 1 << 30,
            p2p: true,
            funtime: true,
        };
        let at = |device, first_core, first_hbm, hbms| Some(Core { device, first_core, first_hbm, hbms });
        let table = [
            (spec(Arch::Sunda, 1, 2), 0, at(0, 0, 0, 1)),
            (spec(Arch::Sunda, 1, 2), 1, at(0, 1, 1, 1)),
            (spec(Arch::Sunda, 1, 2), 2, None),
            (spec(Arch::Sunda, 1, 2), 7, at(3, 1, 1, 1)),
            (spec(Arch::Sunda, 1, 2), 8, None),
            (spec(Arch::Cayman, 1, 8), 3, at(0, 3, 1, 1)),
            (spec(Arch::Cayman, 1, 8), 31, at(3, 7, 3, 1)),
            (spec(Arch::Cayman, 2, 8), 13, at(3, 2, 1, 1)),
            (spec(Arch::Cayman, 16, 8), 0, None),
            (spec(Arch::Mariana, 4, 8), 1, at(0, 4, 2, 2)),
            (spec(Arch::Mariana, 8, 8), 3, at(3, 0, 0, 4)),
            (spec(Arch::Mariana, 8, 8), 2, None),
            (spec(Arch::Mariana, 8, 8), u32::MAX, None),
            (spec(Arch::Mariana, 0, 8), 0, None),
            (spec(Arch::Mariana, 1, 0), 0, None),
        ];
        for (spec, logical, expected) in table {
            assert_eq!(core(&spec, logical).ok(), expected, "{logical} {spec:?}");
        }
    }

    /// Memory that is not mapped in this process.
    struct Unmapped(parking_lot::Mutex<Vec<u8>>);

    impl Bytes for Unmapped {
        fn size(&self) -> usize {
            self.0.lock().len()
        }
        fn addr(&self) -> Option<usize> {
            None
        }
        fn read_at(&self, offset: usize, out: &mut [u8]) -> Result<()> {
            out.copy_from_slice(&self.0.lock()[offset..offset + out.len()]);
            Ok(())
        }
        fn write_at(&self, offset: usize, data: &[u8]) -> Result<()> {
            self.0.lock()[offset..offset + data.len()].copy_from_slice(data);
            Ok(())
        }
        fn fill(&self, offset: usize, value: u8, len: usize) -> Result<()> {
            self.0.lock()[offset..offset + len].fill(value);
            Ok(())
        }
    }

    #[test]
    fn copies_longer_than_one_step_move_overlapping_ranges_whole() {
        let start: Vec<u8> = (0..300_000u32).map(|n| (n ^ (n >> 7)) as u8).collect();
        for (from, to) in [(0, 0), (0, 1), (1, 0), (0, 70_000), (70_000, 0), (0, 64 << 10)] {
            let mut expected = start.clone();
            expected.copy_within(from..from + 200_000, to);

            let host = fake::HostBytes::new(start.len()).unwrap();
            host.write_at(0, &start).unwrap();
            copy(&host, from, &host, to, 200_000).unwrap();
            let mut out = vec![0; start.len()];
            host.read_at(0, &mut out).unwrap();
            assert!(out == expected, "{from} to {to}");

            let unmapped = Unmapped(parking_lot::Mutex::new(start.clone()));
            copy(&unmapped, from, &unmapped, to, 200_000).unwrap();
            assert!(*unmapped.0.lock() == expected, "{from} to {to}, not mapped");
        }
    }
}
