//! The device layer of one init cycle on a driver: compatibility, the claim, open devices, reset,
//! clearing of memory, and what monitoring tools see (`facts/runtime/lifecycle.md` sections 2.1, 3
//! and 4.5).
//!
//! Everything a layer has taken goes back when it is dropped, in the order of the vendor's teardown:
//! mappings, the claim, then all descriptors. A process has one layer at a time: closing the
//! descriptor of one that is gone would give back the claim of the next.

use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{Arc, atomic::Ordering},
};

use neuron_abi::{
    Arch,
    kernel::values::{NDS_ND_COUNTERS_START, NdsDeviceCounter},
};
use neuron_driver::{
    Cause, Device, Error, Mapping, Session,
    requests::{CoreMap, Features, Marked},
};

use super::{
    DevInfo,
    claim::{Grant, Mark, MarkError, Marker},
    kernel::Host,
};
use crate::{Status, compat, log_error, log_info, log_warn, tensor::memory::HbmMap};

const INIT: &str = "nrt_init";
const TDRV: &str = "tdrv_init";

/// The status of a public call that failed because of a device.
pub(crate) fn status(error: &Error) -> Status {
    match error.cause {
        Cause::NoMemory => Status::Resource,
        Cause::Fault { .. } => Status::Invalid,
        Cause::ResetFailed | Cause::NoAnswer | Cause::Bug | Cause::OutOfService | Cause::Missing => Status::HwError,
        Cause::Closed => Status::Closed,
        _ => Status::Failure,
    }
}

/// Whether it is the device that failed, so that its state is worth keeping.
pub(crate) fn is_device_failure(error: &Error) -> bool {
    status(error) == Status::HwError
}

/// Physical cores next to an HBM of a device.
pub(crate) fn cores_of_hbm(arch: Arch, cores_per_device: u32, hbm: u32) -> Range<u32> {
    let hbms = HbmMap::of(arch).bases.len() as u32;
    let first = |hbm: u32| (hbm * cores_per_device).div_ceil(hbms);
    first(hbm)..first(hbm + 1).max(first(hbm) + 1)
}

/// What clearing may do with an HBM next to a claimed core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fill {
    /// Fill it, with the engines of this core.
    Through(u32),
    /// Leave it: this core, of somebody else, is next to it as well.
    SharedWith(u32),
}

/// The HBMs next to the claimed cores of a device.
fn hbms_of(arch: Arch, cores_per_device: u32, claimed: u32) -> impl Iterator<Item = (u32, Fill)> {
    let ours = move |core: u32| claimed >> core & 1 != 0;
    (0..HbmMap::of(arch).bases.len() as u32).filter_map(move |hbm| {
        let mut next_to = cores_of_hbm(arch, cores_per_device, hbm);
        let first = next_to.clone().find(|&core| ours(core))?;
        let other = next_to.find(|&core| !ours(core));
        Some((hbm, other.map_or(Fill::Through(first), Fill::SharedWith)))
    })
}

/// An init that failed at a device.
#[derive(Debug)]
pub struct Broken {
    /// What the call answers.
    pub status: Status,
    /// What the driver said; `None` when no device failed.
    pub error: Option<Error>,
}

impl From<Status> for Broken {
    fn from(status: Status) -> Broken {
        Broken { status, error: None }
    }
}

impl From<Error> for Broken {
    fn from(error: Error) -> Broken {
        Broken { status: status(&error), error: Some(error) }
    }
}

/// A device of this process, and the physical cores of it that are claimed.
struct Open {
    device: Arc<Device>,
    cores: u32,
}

/// What a process holds of its devices between `nrt_init` and `nrt_close`.
pub struct Layer {
    info: DevInfo,
    /// Datastores of this process, one a device.
    stores: Vec<Mapping>,
    open: Vec<Open>,
    /// Cores the driver has given to this process: first and number.
    claimed: Option<(u32, u32)>,
    core_map: CoreMap,
    features: Features,
    session: Session,
}

impl Layer {
    /// Check that driver and runtime understand each other, and be ready to claim. Nothing is taken
    /// from anybody yet.
    ///
    /// # Errors
    /// `NRT_INVALID` with the vendor's line when they do not.
    pub(crate) fn new(host: &Host, info: &DevInfo) -> std::result::Result<Layer, Broken> {
        let version = host.driver_version();
        if let Some((major, minor)) = version.as_deref().and_then(compat::major_minor) {
            log_info!(Nrt, INIT, "Found neuron driver: {major}.{minor}");
        }
        let first = info.devices.first().copied().unwrap_or_default();
        let session = Session::new(Arc::clone(&host.driver), first);
        let range = match &session {
            Ok(session) => session.misc().compatible_versions(),
            Err(error) => Err(error.clone()),
        };
        if let Err(error) = &range {
            log_error!(Tdrv, TDRV, "{error}");
        }
        compat::check(version.as_deref(), range.ok(), info.arch).map_err(|(status, line)| {
            log_error!(Nrt, INIT, "{line}");
            status
        })?;
        let session = session?;
        let (features, core_map) = (session.misc().features()?, session.misc().core_map()?);
        Ok(Layer {
            info: info.clone(),
            stores: Vec::new(),
            open: Vec::new(),
            claimed: None,
            core_map,
            features,
            session,
        })
    }

    /// A descriptor of device `index` for questions; stays open until `nrt_close`.
    pub(crate) fn file(&self, index: u32) -> neuron_driver::Result<Arc<Box<dyn neuron_driver::File>>> {
        self.session.info(index)
    }

    /// Which physical cores are behind the core numbers of the instance.
    pub(crate) fn core_map(&self) -> &CoreMap {
        &self.core_map
    }

    /// The open devices with the map of this process' physical cores.
    pub(crate) fn devices(&self) -> impl Iterator<Item = (Arc<Device>, u32)> {
        self.open.iter().map(|open| (Arc::clone(&open.device), open.cores))
    }

    /// Open the devices of the claimed cores.
    pub(crate) fn open(&mut self, grant: Grant) -> std::result::Result<(), Broken> {
        let per = self.info.cores_per_device;
        let mut cores = BTreeMap::<u32, u32>::new();
        for (device, core) in grant.physical().map(|number| self.core_map.locate(number, per)) {
            *cores.entry(device).or_default() |= 1 << core;
        }
        for (index, cores) in cores {
            let device = self.session.open(index).inspect_err(|error| {
                log_error!(Tdrv, TDRV, "Could not open the nd{index}: {error}");
            })?;
            self.open.push(Open { device, cores });
        }
        Ok(())
    }

    /// Reset the claimed cores, all devices at the same time, and wait for the last.
    pub(crate) fn reset(&self) -> std::result::Result<(), Broken> {
        let mut begun = Vec::new();
        let mut result = Ok(());
        for open in &self.open {
            let index = open.device.index();
            log_info!(Tdrv, TDRV, "Reset triggered for nd {index} nc_map {:#x}", open.cores);
            match open.device.file().and_then(|file| file.reset(open.cores).map(|ticket| (file, ticket))) {
                Ok(asked) => begun.push(asked),
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        // Those that are at work are waited for whatever happened to the others: a reset nobody
        // waits for would make the next one of this process fail.
        for (file, ticket) in begun {
            result = result.and(file.await_reset(ticket));
        }
        result.inspect_err(|error| log_error!(Tdrv, TDRV, "{error}")).map_err(Broken::from)
    }

    /// Fill the memory next to the claimed cores with `value`. Memory that a core of somebody else
    /// is next to as well is left alone.
    pub(crate) fn scrub(&self, value: u32) -> std::result::Result<(), Broken> {
        if !self.features.hbm_scrub() {
            log_info!(Tdrv, TDRV, "Skipping HBM initialization/scrubbing due to no support in old driver");
            return Ok(());
        }
        for open in &self.open {
            let file = open.device.file()?;
            let (mut begun, mut result) = (Vec::new(), Ok(()));
            for (hbm, to_fill) in hbms_of(self.info.arch, self.info.cores_per_device, open.cores) {
                let through = match to_fill {
                    Fill::Through(core) => core,
                    Fill::SharedWith(core) => {
                        let index = open.device.index();
                        log_info!(Tdrv, TDRV, "HBM {hbm} of nd {index} is not scrubbed: nc {core} is not claimed");
                        continue;
                    }
                };
                match file.scrub(through, hbm, value) {
                    Ok(scrub) => begun.push(scrub),
                    Err(error) => {
                        result = Err(error);
                        break;
                    }
                }
            }
            for scrub in begun {
                result = result.and(file.await_scrub(scrub));
            }
            result.inspect_err(|error| log_error!(Tdrv, TDRV, "{error}"))?;
        }
        Ok(())
    }

    /// Write the versions of this process where monitoring tools read them: the datastore it has on
    /// each device. What cannot be written is said and nothing more: no program fails because
    /// nobody can watch it.
    pub(crate) fn publish(&mut self, versions: &[(NdsDeviceCounter, u64)]) {
        for open in &self.open {
            let store = open.device.file().and_then(|file| {
                let (offset, bytes) = file.datastore(None)?;
                file.map(offset, bytes)
            });
            match store {
                Ok(store) => {
                    let words = store.words();
                    words[0].store(u64::from_ne_bytes(*NDS_HEADER), Ordering::Relaxed);
                    for (counter, value) in versions {
                        words[NDS_ND_COUNTERS_START / size_of::<u64>() + *counter as usize]
                            .store(*value, Ordering::Relaxed);
                    }
                    self.stores.push(store);
                }
                Err(error) => log_warn!(Tdrv, TDRV, "Monitoring tools cannot see this process: {error}"),
            }
        }
    }
}

/// First bytes of a datastore: its signature, then a version of which only the place is known.
const NDS_HEADER: &[u8; 8] = b"nds\0\0\0\0\0";

/// A version text `a.b.c` as the counters hold it: 8 bits, 8 bits and 32 bits. Parts that are no
/// numbers, or are missing, are 0.
pub(crate) fn version_counter(text: &str) -> u64 {
    let mut parts = text.split('.').map(|part| part.trim().parse::<u32>().unwrap_or(0));
    let mut part = |most: u32| u64::from(parts.next().unwrap_or(0).min(most));
    part(0xff) << 40 | part(0xff) << 32 | part(u32::MAX)
}

impl Drop for Layer {
    fn drop(&mut self) {
        self.stores.clear();
        if let Some((first, count)) = self.claimed.take() {
            self.unmark(first, count);
        }
        // The session closes the descriptors, that of the claims last.
    }
}

impl Marker for Layer {
    fn mark(&mut self, wish: Mark) -> std::result::Result<u32, MarkError> {
        let Mark { first, last, count } = wish;
        match self.session.misc().mark_cores(self.info.cores_per_device, first, last, count) {
            Ok(Marked::From(core)) => {
                self.claimed = Some((core, count));
                Ok(core)
            }
            Ok(Marked::Busy { longest_run }) => Err(MarkError::Busy { longest_run }),
            Err(error) => {
                log_error!(Tdrv, "nrt_allocate_neuron_cores", "{error}");
                Err(MarkError::Failed(status(&error)))
            }
        }
    }

    fn unmark(&mut self, first: u32, count: u32) {
        self.claimed = None;
        if let Err(error) = self.session.misc().unmark_cores(self.info.cores_per_device, first, count) {
            // They go back anyway when the descriptor is closed.
            log_warn!(Tdrv, "nrt_release_neuron_cores", "{error}");
        }
    }

    fn holders(&self, first: u32, last: u32) -> Vec<u32> {
        let per = self.info.cores_per_device;
        let devices = self.info.devices.iter().filter(|&&device| (first / per..=last / per).contains(&device));
        let processes = devices.filter_map(|&device| self.session.info(device).and_then(|file| file.processes()).ok());
        let mut pids: Vec<u32> = processes.flatten().filter(|&pid| pid != std::process::id()).collect();
        pids.sort_unstable();
        pids.dedup();
        pids
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_core_is_next_to_one_hbm() {
        for (arch, per) in [(Arch::Sunda, 2), (Arch::Cayman, 8), (Arch::Mariana, 8)] {
            let hbms = HbmMap::of(arch).bases.len() as u32;
            let cores: Vec<u32> = (0..hbms).flat_map(|hbm| cores_of_hbm(arch, per, hbm)).collect();
            assert_eq!(cores, (0..per).collect::<Vec<_>>(), "{arch:?}");
        }
    }

    #[test]
    fn memory_next_to_a_core_of_somebody_else_is_not_filled() {
        use Fill::{SharedWith, Through};
        let of = |arch, per, claimed| hbms_of(arch, per, claimed).collect::<Vec<_>>();
        assert_eq!(of(Arch::Sunda, 2, 0b11), [(0, Through(0)), (1, Through(1))]);
        assert_eq!(of(Arch::Sunda, 2, 0b10), [(1, Through(1))]);
        assert_eq!(of(Arch::Cayman, 8, 0b0011_0000), [(2, Through(4))]);
        assert_eq!(of(Arch::Cayman, 8, 0b0000_0110), [(0, SharedWith(0)), (1, SharedWith(3))]);
        assert_eq!(of(Arch::Mariana, 8, 0), []);
    }

    #[test]
    fn versions_are_counters() {
        for (text, counter) in [
            ("2.31.24.0", 2 << 40 | 31 << 32 | 24),
            ("1.13", 1 << 40 | 13 << 32),
            ("", 0),
            ("1.x.7+cpu", 1 << 40),
            ("300.1.4294967295", 255 << 40 | 1 << 32 | 0xffff_ffff),
        ] {
            assert_eq!(version_counter(text), counter, "{text:?}");
        }
    }

    #[test]
    fn a_failed_device_is_told_from_a_refused_wish() {
        let error = |cause| Error { device: 0, what: "x", cause };
        assert!(is_device_failure(&error(Cause::ResetFailed)) && is_device_failure(&error(Cause::NoAnswer)));
        assert!(!is_device_failure(&error(Cause::Full)) && !is_device_failure(&error(Cause::NoMemory)));
        assert_eq!(status(&error(Cause::NoMemory)), Status::Resource);
    }
}
