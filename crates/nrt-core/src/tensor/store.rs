//! What needs the runtime: making tensors, and questions about the memory of its devices.

use std::{ffi::CStr, os::fd::OwnedFd, sync::Arc};

use neuron_abi::Arch;

use super::{
    Span, Tensor,
    memory::{
        AllocError, Core, DeviceMemory, HbmMap, Memory, Place, Spec, Stats,
        driver::PAGE,
        fake::{FakeMemory, HostBytes},
    },
    name_or_unknown,
    storage::{Backing, Storage},
};
use crate::{Result, Status, log_debug, log_error};

/// Where a tensor is to lie (`nrt_tensor_placement_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// HBM of the logical core.
    Device,
    /// Pinned host memory. The vendor takes every unknown number for this one.
    Host,
    /// Plain host memory.
    Virtual,
}

impl Placement {
    /// The meaning of the C number; never refused (`facts/runtime/tensors.md` section 2).
    pub fn from_number(number: u32) -> Placement {
        match number {
            0 => Placement::Device,
            2 => Placement::Virtual,
            _ => Placement::Host,
        }
    }
}

/// A placement with the core it needs or may have.
enum Target {
    Device((u32, Core)),
    Host(Option<(u32, Core)>),
    Virtual,
}

/// The tensors' side of one init cycle. Dropped at close; tensors made by it go on living.
pub struct TensorStore {
    pub(super) memory: Arc<Memory>,
}

const ALLOCATE: &str = "nrt_tensor_allocate";

impl TensorStore {
    /// A store of the simulated instance. NRT_INVALID when `spec` contradicts itself.
    pub fn fake(spec: Spec) -> Result<TensorStore> {
        let backend = Box::new(FakeMemory::new(&spec));
        TensorStore::with_backend(spec, backend)
    }

    /// A store over any memory.
    pub fn with_backend(spec: Spec, backend: Box<dyn DeviceMemory>) -> Result<TensorStore> {
        Ok(TensorStore { memory: Memory::new(spec, backend)? })
    }

    /// `nrt_tensor_allocate`: a new tensor of `size` bytes; its handle.
    ///
    /// `vnc` is a position in the visible set; −1 is accepted for host memory. A missing name
    /// becomes `_unknown_`. NRT_INVALID for another `vnc` or size 0, NRT_RESOURCE when device
    /// memory is used up or the size is beyond any memory, NRT_FAIL_HOST_MEM_ALLOC when host
    /// memory is, NRT_RESOURCE for placement number 1 on Trn2 (`facts/runtime/tensors.md`).
    pub fn allocate(&self, placement: u32, vnc: i32, size: usize, name: Option<&CStr>) -> Result<usize> {
        let name = name_or_unknown(name);
        self.backing(placement, vnc, size, name)
            .and_then(|backing| Tensor::register(name, Some(Span { storage: Storage::new(backing), offset: 0, size })))
            .inspect_err(|_| log_error!(Nrt, ALLOCATE, "Failed to allocate nrt tensor {}", name.to_string_lossy()))
            .map(|tensor| tensor.handle())
    }

    fn backing(&self, number: u32, vnc: i32, size: usize, name: &CStr) -> Result<Backing> {
        let optional = || if vnc == -1 { Ok(None) } else { self.visible(vnc).map(Some) };
        let target = match Placement::from_number(number) {
            Placement::Device => Target::Device(self.visible(vnc)?),
            Placement::Host => Target::Host(optional()?),
            Placement::Virtual => optional().map(|_| Target::Virtual)?,
        };
        // Only this very number: the vendor lets the unknown ones through.
        if number == 1 && self.memory.spec().arch == Arch::Cayman {
            log_error!(Nrt, ALLOCATE, "{}", host_refused(&name.to_string_lossy(), vnc));
            return Err(Status::Resource);
        }
        if size == 0 {
            log_error!(Nrt, ALLOCATE, "Cannot allocate a tensor of 0 bytes; give it at least 1");
            return Err(Status::Invalid);
        }
        if isize::try_from(size).is_err() {
            log_error!(Tdrv, ALLOCATE, "Failed to allocate {size} bytes: no memory is that large");
            return Err(Status::Resource);
        }
        match target {
            Target::Device((vnc, core)) => self.device(vnc, core, size),
            Target::Host(core) => {
                let device = core.map(|(_, core)| core.device).or(self.memory.spec().devices.first().copied());
                let pinned = self.memory.backend().alloc_pinned(device.unwrap_or(0), size);
                pinned.map(Backing::Pinned).map_err(|error| host_exhausted("pinned host memory", size, &error))
            }
            Target::Virtual => match HostBytes::new(size) {
                Ok(bytes) => Ok(Backing::Malloc(Box::new(bytes))),
                Err(error) => Err(host_exhausted("host memory", size, &error)),
            },
        }
    }

    /// Where the logical cores of this process are, in order.
    pub fn cores(&self) -> impl Iterator<Item = Core> {
        (0..).map_while(|vnc| self.memory.core(vnc))
    }

    fn visible(&self, vnc: i32) -> Result<(u32, Core)> {
        let core = u32::try_from(vnc).ok().and_then(|vnc| Some((vnc, self.memory.core(vnc)?)));
        core.ok_or_else(|| {
            log_error!(Nrt, ALLOCATE, "{}", no_such_core(vnc, self.memory.core_count()));
            Status::Invalid
        })
    }

    fn device(&self, vnc: u32, core: Core, size: usize) -> Result<Backing> {
        self.memory.alloc(vnc, size).map(Backing::Device).map_err(|error| {
            log_error!(Tdrv, ALLOCATE, "{}", exhausted(core, size));
            for place in core.places() {
                log_error!(Tdrv, ALLOCATE, "{}", table_line(place, &self.memory));
            }
            match error {
                AllocError::Exhausted => {}
                AllocError::Host(error) => {
                    log_error!(Tdrv, ALLOCATE, "The host could not provide the simulated HBM: {error}")
                }
                AllocError::Driver(error) => log_error!(Tdrv, ALLOCATE, "{error}"),
            }
            Status::Resource
        })
    }

    /// `nrt_get_vnc_memory_stats` of a visible core. NRT_INVALID for another.
    pub fn memory_stats(&self, vnc: u32) -> Result<Stats> {
        self.memory.stats(vnc).ok_or_else(|| {
            let count = self.memory.core_count();
            log_error!(
                Nrt,
                "nrt_get_vnc_memory_stats",
                "No Logical NeuronCore {vnc}, this process has {count}; count from 0"
            );
            Status::Invalid
        })
    }

    /// `nrt_get_hbm_mmap_va`: address and size of a whole HBM. NRT_INVALID for a device this
    /// instance has not or a negative HBM, NRT_INVALID_HANDLE past the last HBM that is mapped as
    /// a whole (on Trn1 and Inf2 none is), NRT_FAILURE for a device without a core of this process,
    /// which is not open, or when the mapping fails.
    pub fn hbm_window(&self, device: i32, hbm: i32) -> Result<(usize, usize)> {
        const API: &str = "nrt_get_hbm_mmap_va";
        let device = u32::try_from(device).ok().filter(|device| self.memory.spec().devices.contains(device));
        let (Some(device), Ok(hbm)) = (device, u32::try_from(hbm)) else {
            log_error!(Nrt, API, "No such device or HBM; devices are numbered as in /dev, HBMs count from 0");
            return Err(Status::Invalid);
        };
        // The caller's loop ends here: nothing went wrong.
        let end = || {
            log_debug!(Nrt, API, "Device {device} has no HBM {hbm} to map");
            Status::InvalidHandle
        };
        let map = HbmMap::of(self.memory.spec().arch);
        if !map.mapped || hbm as usize >= map.bases.len() {
            return Err(end());
        }
        if self.cores().all(|core| core.device != device) {
            log_error!(
                Nrt,
                API,
                "No core of this process is on device {device}; ask about a device of its visible cores"
            );
            return Err(Status::Failure);
        }
        let window = self.memory.backend().window(Place { device, hbm }).map_err(|error| {
            log_error!(Tdrv, API, "Failed to map HBM {hbm} of device {device}: {error}");
            Status::Failure
        })?;
        window.ok_or_else(end)
    }

    /// `nrt_get_dmabuf_fd`: a descriptor of device memory at `va`. NRT_INVALID when peer-to-peer is
    /// off, the instance is simulated, or the range is not made of pages of the driver.
    pub fn dmabuf_fd(&self, va: u64, size: u64) -> Result<OwnedFd> {
        const API: &str = "nrt_get_dmabuf_fd";
        let spec = self.memory.spec();
        let reason = match (spec.p2p, spec.funtime) {
            (_, true) => "the instance is simulated (NEURON_RT_FAKE_INSTANCE_TYPE); run on a real one",
            (false, _) => "peer-to-peer is off; set NEURON_RT_ENABLE_P2P=1",
            _ if size == 0 || !va.is_multiple_of(PAGE) || !size.is_multiple_of(PAGE) => {
                "address and size must be multiples of 4096, and the size not 0"
            }
            (true, false) => return self.memory.backend().export(va, size),
        };
        log_error!(Nrt, API, "Cannot export {size} bytes of device memory at {va:#x}: {reason}");
        Err(Status::Invalid)
    }
}

/// The vendor's text, word for word.
pub(super) fn host_refused(name: &str, vnc: i32) -> String {
    format!("Can not allocate tensor (name:{name}) on Host for NC:{}", vnc as u32)
}

/// The first part is the vendor's.
pub(super) fn no_such_core(vnc: i32, count: usize) -> String {
    format!("Cannot allocate a tensor on Logical NeuronCore {vnc}, this process has {count}; count from 0")
}

fn host_exhausted(kind: &str, size: usize, error: &AllocError) -> Status {
    log_error!(Tdrv, ALLOCATE, "Failed to allocate {size} bytes on {kind}: {error}");
    Status::FailHostMemAlloc
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

pub(super) fn exhausted(core: Core, size: usize) -> String {
    format!(
        "Failed to allocate {:.3}MB (alignment: none, usage: tensors) on ND {}:NC {}",
        mib(size as u64),
        core.device,
        core.first_core
    )
}

fn table_line(place: Place, memory: &Memory) -> String {
    let usage = memory.backend().usage(place);
    format!(
        "ND {} HBM {}: {:.3}MB in all, {:.3}MB used, largest free block {:.3}MB",
        place.device,
        place.hbm,
        mib(usage.limit),
        mib(usage.used),
        mib(usage.largest_free)
    )
}
