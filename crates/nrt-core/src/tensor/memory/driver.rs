//! Memory of real devices, through the driver.
//!
//! A block is a handle of the driver. Bytes move by its copy commands; the memory is mapped only
//! when somebody asks for its address, because that is all the vendor's clients need it for and not
//! every way of publishing a device can map.

use std::{
    any::Any,
    collections::{BTreeMap, btree_map::Entry},
    os::fd::OwnedFd,
    sync::{Arc, OnceLock},
};

use neuron_abi::Arch;
use neuron_driver::{Cause, Device, Mapping, requests::Kind};
use parking_lot::Mutex;

use super::{AllocError, Block, Bytes, DeviceMemory, HbmMap, Place, Usage};
use crate::{Result, Status, device::layer, log_debug, log_error};

/// Pages of the driver, to which it rounds sizes (`facts/driver/cdev.md`, Memory).
pub(in crate::tensor) const PAGE: u64 = 4096;
/// The channel and core that host memory is booked on; both must exist.
const HOST_AT: (u32, u32) = (0, 0);

/// The devices of one init cycle that hold memory, and which cores of each are this process'.
pub struct DriverMemory {
    arch: Arch,
    cores_per_device: u32,
    devices: BTreeMap<u32, (Arc<Device>, u32)>,
    windows: Mutex<BTreeMap<Place, Option<Mapping>>>,
}

impl DriverMemory {
    /// `devices` are open devices, each with a map of the physical cores of this process.
    pub fn new(
        arch: Arch,
        cores_per_device: u32,
        devices: impl IntoIterator<Item = (Arc<Device>, u32)>,
    ) -> DriverMemory {
        let devices = devices.into_iter().map(|(device, cores)| (device.index(), (device, cores))).collect();
        DriverMemory { arch, cores_per_device, devices, windows: Mutex::default() }
    }

    /// A device of this process, and the core that memory on `hbm` is booked on: its own one next to
    /// it, if there is one.
    fn device(&self, place: Place) -> std::result::Result<(&Arc<Device>, u32), AllocError> {
        let missing = || neuron_driver::Error { device: place.device, what: "use", cause: Cause::Closed };
        let (device, cores) = self.devices.get(&place.device).ok_or_else(|| AllocError::Driver(missing()))?;
        let next_to = layer::cores_of_hbm(self.arch, self.cores_per_device, place.hbm);
        let core = next_to.clone().find(|core| cores >> core & 1 != 0).unwrap_or(next_to.start);
        Ok((device, core))
    }
}

fn refused(error: neuron_driver::Error) -> AllocError {
    if error.cause == Cause::NoMemory { AllocError::Exhausted } else { AllocError::Driver(error) }
}

impl DeviceMemory for DriverMemory {
    fn alloc(&self, place: Place, size: usize) -> std::result::Result<Box<dyn Block>, AllocError> {
        let (device, core) = self.device(place)?;
        let block = DriverBlock::new(device, Kind::Device, core, place.hbm, size).map_err(refused)?;
        Ok(Box::new(block))
    }

    fn alloc_pinned(&self, device: u32, size: usize) -> std::result::Result<Box<dyn Bytes>, AllocError> {
        // Without a core the caller does not say which device has to reach it; any of ours will do.
        let any = self.devices.get(&device).or_else(|| self.devices.values().next());
        let (device, _) = any.ok_or(AllocError::Exhausted)?;
        let (core, channel) = HOST_AT;
        let block = DriverBlock::new(device, Kind::Host, core, channel, size).map_err(refused)?;
        Ok(Box::new(block))
    }

    fn limit(&self, _: Place) -> u64 {
        HbmMap::of(self.arch).bytes
    }

    fn usage(&self, place: Place) -> Usage {
        let map = HbmMap::of(self.arch);
        let base = map.bases[place.hbm as usize];
        let listed = self.device(place).and_then(|(device, _)| {
            let chunks = device.file().and_then(|file| file.chunks(place.hbm));
            chunks.map_err(AllocError::Driver)
        });
        // Only for a message about something else that went wrong.
        let chunks = listed.unwrap_or_default();
        let (mut end, mut largest_free) = (base, 0);
        for chunk in &chunks {
            largest_free = largest_free.max(chunk.address.saturating_sub(end));
            end = end.max(chunk.address + chunk.bytes);
        }
        largest_free = largest_free.max((base + map.bytes).saturating_sub(end));
        Usage { limit: map.bytes, used: chunks.iter().map(|chunk| chunk.bytes).sum(), largest_free }
    }

    fn window(&self, place: Place) -> std::result::Result<Option<(usize, usize)>, AllocError> {
        let mut windows = self.windows.lock();
        let window = match windows.entry(place) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let file = self.device(place)?.0.file().map_err(AllocError::Driver)?;
                let window = file
                    .channel_window(place.hbm)
                    .and_then(|window| window.map(|(offset, bytes)| file.map(offset, bytes)).transpose());
                new.insert(window.map_err(AllocError::Driver)?)
            }
        };
        Ok(window.as_ref().map(|mapping| (mapping.address(), mapping.bytes())))
    }

    fn export(&self, va: u64, size: u64) -> Result<OwnedFd> {
        const API: &str = "nrt_get_dmabuf_fd";
        // The driver finds the address in its records of this process, whichever device is asked.
        let Some((device, _)) = self.devices.values().next() else { return Err(Status::Invalid) };
        device.file().and_then(|file| file.dmabuf(va, size)).map_err(|error| {
            log_error!(Tdrv, API, "Cannot export {size} bytes at {va:#x}: {error}");
            export_status(&error)
        })
    }
}

/// What a refused export means to the caller: above all never `NRT_RESOURCE`, which clients take for
/// a reason to try again with less.
fn export_status(error: &neuron_driver::Error) -> Status {
    match error.cause {
        Cause::Refused | Cause::NoMemory | Cause::Unsupported => Status::Invalid,
        _ => layer::status(error),
    }
}

/// A handle of the driver.
struct DriverBlock {
    device: Arc<Device>,
    handle: u64,
    address: u64,
    size: usize,
    /// Made when somebody asks for an address; `None` where that is not possible.
    mapping: OnceLock<Option<Mapping>>,
}

impl DriverBlock {
    fn new(
        device: &Arc<Device>,
        kind: Kind,
        core: u32,
        channel: u32,
        size: usize,
    ) -> std::result::Result<DriverBlock, neuron_driver::Error> {
        let file = device.file()?;
        let size = (size as u64).next_multiple_of(PAGE);
        let handle = file.allocate(kind, core, channel, size)?;
        let address = file.physical_address(handle).inspect_err(|_| drop(file.free(handle)))?;
        Ok(DriverBlock { device: Arc::clone(device), handle, address, size: size as usize, mapping: OnceLock::new() })
    }

    /// Say what failed and become the status of the call.
    fn failed(&self, verb: &str, error: &neuron_driver::Error) -> Status {
        log_error!(Tdrv, "nrt_tensor", "Cannot {verb} memory of device {}: {error}", self.device.index());
        let status = layer::status(error);
        crate::lifecycle::report_device_failure("nrt_tensor", status, error);
        status
    }
}

impl Bytes for DriverBlock {
    fn size(&self) -> usize {
        self.size
    }

    fn addr(&self) -> Option<usize> {
        let mapping = self.mapping.get_or_init(|| {
            let mapped = self.device.file().and_then(|file| file.map(self.address, self.size));
            mapped.inspect_err(|error| log_debug!(Tdrv, "nrt_tensor_get_va", "{error}")).ok()
        });
        mapping.as_ref().map(Mapping::address)
    }

    fn read_at(&self, offset: usize, out: &mut [u8]) -> Result<()> {
        let read = self.device.file().and_then(|file| file.read(self.handle, offset as u64, out));
        read.map_err(|error| self.failed("read", &error))
    }

    fn write_at(&self, offset: usize, data: &[u8]) -> Result<()> {
        let written = self.device.file().and_then(|file| file.write(self.handle, offset as u64, data));
        written.map_err(|error| self.failed("write", &error))
    }

    fn fill(&self, offset: usize, value: u8, len: usize) -> Result<()> {
        let filled = self.device.file().and_then(|file| file.fill(self.handle, offset as u64, len as u64, value));
        filled.map_err(|error| self.failed("fill", &error))
    }
}

impl Block for DriverBlock {
    fn physical_address(&self) -> u64 {
        self.address
    }

    fn engine_copy(&self, offset: usize, source: &dyn Block, source_offset: usize, len: usize) -> Option<Result<()>> {
        let source = (source as &dyn Any).downcast_ref::<DriverBlock>()?;
        let apart = offset + len <= source_offset || source_offset + len <= offset;
        // A handle of an earlier init may be somebody else's by now. The engines copy piece by piece from
        // the start, so overlapping ranges go through the host, too.
        if !Arc::ptr_eq(&source.device, &self.device) || (source.handle == self.handle && !apart) {
            return None;
        }
        let (from, to) = ((source.handle, source_offset as u64), (self.handle, offset as u64));
        let copied = self.device.file().and_then(|file| file.copy(from, to, len as u64));
        Some(copied.map_err(|error| self.failed("copy", &error)))
    }
}

impl Drop for DriverBlock {
    fn drop(&mut self) {
        // A closed device has given everything back already, and a forked child owns nothing.
        if let Ok(file) = self.device.file() {
            drop(self.mapping.take());
            if let Err(error) = file.free(self.handle) {
                log_debug!(Tdrv, "nrt_tensor_free", "{error}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::tensor::{TensorStore, memory::Spec};

    /// Memory nobody has, that remembers what it was asked to export.
    struct Asked(Arc<Mutex<Vec<(u64, u64)>>>);

    impl DeviceMemory for Asked {
        fn alloc(&self, _: Place, _: usize) -> std::result::Result<Box<dyn Block>, AllocError> {
            Err(AllocError::Exhausted)
        }
        fn alloc_pinned(&self, _: u32, _: usize) -> std::result::Result<Box<dyn Bytes>, AllocError> {
            Err(AllocError::Exhausted)
        }
        fn limit(&self, _: Place) -> u64 {
            0
        }
        fn usage(&self, _: Place) -> Usage {
            Usage { limit: 0, used: 0, largest_free: 0 }
        }
        fn window(&self, _: Place) -> std::result::Result<Option<(usize, usize)>, AllocError> {
            Ok(None)
        }
        fn export(&self, va: u64, size: u64) -> Result<OwnedFd> {
            self.0.lock().unwrap().push((va, size));
            Err(Status::Failure)
        }
    }

    #[test]
    fn only_whole_pages_are_exported_and_the_driver_is_not_asked_about_others() {
        let asked = Arc::new(Mutex::default());
        let spec = Spec {
            arch: Arch::Cayman,
            devices: vec![0],
            cores_per_device: 8,
            core_map: Default::default(),
            lnc: 2,
            visible: vec![0],
            hbm_bytes_per_device: 0,
            p2p: true,
            funtime: false,
        };
        let store = TensorStore::with_backend(spec, Box::new(Asked(Arc::clone(&asked)))).unwrap();
        for (va, size) in
            [(8192, 0), (8193, 4096), (8192, 4095), (8192, 1), (0, 0), (u64::MAX, u64::MAX), (12287, 8192)]
        {
            assert_eq!(store.dmabuf_fd(va, size).err(), Some(Status::Invalid), "{size} bytes at {va}");
        }
        assert!(asked.lock().unwrap().is_empty());
        assert_eq!(store.dmabuf_fd(8192, 4096).err(), Some(Status::Failure), "what the driver says");
        assert_eq!(*asked.lock().unwrap(), [(8192, 4096)]);
    }

    #[test]
    fn a_refused_export_is_never_a_lack_of_resources() {
        for (cause, status) in [
            (Cause::NoMemory, Status::Invalid),
            (Cause::Refused, Status::Invalid),
            (Cause::Unsupported, Status::Invalid),
            (Cause::Fault { left: 8 }, Status::Invalid),
            (Cause::Closed, Status::Closed),
            (Cause::System(24), Status::Failure),
            (Cause::NotFound, Status::Failure),
        ] {
            assert_eq!(
                export_status(&neuron_driver::Error { device: 0, what: "DMABUF_FD", cause }),
                status,
                "{cause:?}"
            );
        }
    }
}
