//! One module load.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use neuron_hw::Silicon;
use neuron_hw::pci::Bdf;

use crate::caller::Caller;
use crate::cdev::File;
use crate::cores::claims::CoreClaims;
use crate::device::Device;
use crate::env::Env;
use crate::klog::Klog;
use crate::params::Params;
use crate::probe::{self, Latched, ProbeError, Step};
use crate::profile::Profile;
use crate::reply::{Errno, Stop};
use crate::sync::Mutex;
use crate::time::Clock;

/// How a module is loaded.
#[derive(Clone, Debug, Default)]
pub struct LoadConfig {
    /// Release it behaves like.
    pub profile: Profile,
    /// Parameters as `insmod` takes them: `name=value` words.
    pub params: String,
    /// DMI product name of the host.
    pub product: String,
}

/// A window whose place on the bus the driver has reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Device.
    pub bdf: Bdf,
    /// BAR number.
    pub bar: usize,
    /// Bus address.
    pub start: u64,
    /// Bytes.
    pub bytes: u64,
}

/// The driver, loaded.
pub struct Driver {
    pub(crate) env: Arc<Env>,
    latched: Mutex<Option<Latched>>,
    counted: AtomicU32,
    notifies: AtomicBool,
    devices: Mutex<BTreeMap<u32, Arc<Device>>>,
    regions: Mutex<Vec<Region>>,
    failures: Mutex<Vec<(Arc<Silicon>, ProbeError)>>,
    /// Claims of cores, over all devices.
    pub claims: CoreClaims,
}

impl Driver {
    /// Loads the module: every device is probed, in the order given. A device that cannot be
    /// probed is left without a node and does not fail the load.
    ///
    /// # Errors
    /// `EINVAL` for parameters that cannot be parsed; a bug where the real driver takes the
    /// kernel down while it is loaded.
    pub fn load(config: &LoadConfig, bus: &[Arc<Silicon>], clock: Arc<dyn Clock>) -> Result<Arc<Self>, Stop> {
        Self::load_failing(config, bus, clock, None)
    }

    /// The same with a probe step that fails on every device, for tests of what is undone.
    #[doc(hidden)]
    pub fn load_failing(
        config: &LoadConfig,
        bus: &[Arc<Silicon>],
        clock: Arc<dyn Clock>,
        fail: Option<Step>,
    ) -> Result<Arc<Self>, Stop> {
        let env = Arc::new(Env {
            profile: config.profile,
            params: Params::parse(config.profile, &config.params)?,
            product: config.product.clone(),
            clock,
            log: Klog::default(),
        });
        let driver = Arc::new(Self {
            env,
            latched: Mutex::default(),
            counted: AtomicU32::new(0),
            notifies: AtomicBool::new(false),
            devices: Mutex::default(),
            regions: Mutex::default(),
            failures: Mutex::default(),
            claims: CoreClaims::default(),
        });
        driver.env.log.line(
            "driver_version",
            &[&config.profile.version()],
            format!("neuron {}", config.profile.version()),
        );
        for silicon in bus {
            match probe::probe(&driver, silicon, fail) {
                Ok(_) => {}
                Err(ProbeError::Bug(bug)) => {
                    driver.env.log.line("kernel_oops", &[], format!("{} ({})", bug.text, bug.quirk));
                    driver.unload();
                    return Err(Stop::Bug(bug));
                }
                Err(error) => driver.failures.lock().push((silicon.clone(), error)),
            }
        }
        Ok(driver)
    }

    /// Stops every device: workers end, waiters are let go, nodes disappear.
    pub fn unload(&self) {
        let devices = std::mem::take(&mut *self.devices.lock());
        for device in devices.into_values() {
            device.reset.stop(&*device);
            self.regions.lock().retain(|r| r.bdf != device.bdf);
        }
    }

    /// The node of a device appears.
    pub(crate) fn add(&self, device: &Arc<Device>) {
        self.devices.lock().insert(device.index, device.clone());
    }

    /// It disappears.
    pub(crate) fn remove(&self, index: u32) {
        self.devices.lock().remove(&index);
    }

    /// Reserves the place of a window; false when there is none.
    ///
    /// # Errors
    /// `ENODEV` when another device has been given the same place.
    pub(crate) fn reserve_region(&self, silicon: &Silicon, bar: usize) -> Result<bool, Errno> {
        let (start, bytes) = silicon.config(|c| (c.bar_address(bar), c.bar_size(bar)));
        if start == 0 || bytes == 0 {
            return Ok(false);
        }
        let mut regions = self.regions.lock();
        if regions.iter().any(|r| start < r.start + r.bytes && r.start < start + bytes) {
            return Err(Errno::ENODEV);
        }
        regions.push(Region { bdf: silicon.bdf(), bar, start, bytes });
        Ok(true)
    }

    pub(crate) fn release_region(&self, bdf: Bdf, bar: usize) {
        self.regions.lock().retain(|r| (r.bdf, r.bar) != (bdf, bar));
    }

    /// Windows reserved on the bus.
    pub fn regions(&self) -> Vec<Region> {
        self.regions.lock().clone()
    }

    /// Latches architecture and revision, unless a device has done so before; returns what holds.
    pub(crate) fn latch(&self, found: Latched) -> Latched {
        *self.latched.lock().get_or_insert(found)
    }

    /// Architecture and revision of this load, once a device was probed.
    pub fn latched(&self) -> Option<Latched> {
        *self.latched.lock()
    }

    pub(crate) fn count_device(&self) {
        self.counted.fetch_add(1, Ordering::Relaxed);
    }

    /// Devices whose routing id was read, including those that failed afterwards.
    pub fn counted(&self) -> u32 {
        self.counted.load(Ordering::Relaxed)
    }

    /// Whether changes of metrics are announced through sysfs: one switch for all devices.
    pub fn notifies(&self) -> bool {
        self.notifies.load(Ordering::Relaxed)
    }

    pub(crate) fn set_notifies(&self, on: bool) {
        self.notifies.store(on, Ordering::Relaxed);
    }

    /// Release and settings of this load.
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// The device with this number.
    pub fn device(&self, index: u32) -> Option<Arc<Device>> {
        self.devices.lock().get(&index).cloned()
    }

    /// All devices, ascending.
    pub fn devices(&self) -> Vec<Arc<Device>> {
        self.devices.lock().values().cloned().collect()
    }

    /// Devices that were probed in vain, and why.
    pub fn failures(&self) -> Vec<ProbeError> {
        self.failures.lock().iter().map(|(_, e)| e.clone()).collect()
    }

    /// Opens `/dev/neuronN`. `flags` are those of `open(2)`.
    ///
    /// # Errors
    /// `ENOENT` without such a device; what the open rules say otherwise.
    pub fn open(self: &Arc<Self>, index: u32, flags: i32, caller: &Caller) -> Result<Arc<File>, Stop> {
        let device = self.device(index).ok_or(Errno::ENOENT)?;
        File::open(self.clone(), device, flags, caller)
    }
}
