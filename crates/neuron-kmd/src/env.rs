//! What one module load gives to every part of the driver.

use std::sync::Arc;

use neuron_abi::kernel::sysfs::DMI_PLATFORMS;
use neuron_abi::kernel::values::Platform;

use crate::klog::Klog;
use crate::params::Params;
use crate::profile::Profile;
use crate::time::Clock;

/// Settings and services of one module load.
pub struct Env {
    /// Release it behaves like.
    pub profile: Profile,
    /// Module parameters.
    pub params: Params,
    /// DMI product name of the host, empty when there is none.
    pub product: String,
    /// Time and threads.
    pub clock: Arc<dyn Clock>,
    /// Kernel log.
    pub log: Klog,
}

impl Env {
    /// Platform kind the product name selects in this release.
    pub fn platform(&self) -> Platform {
        let release = self.profile.release();
        DMI_PLATFORMS
            .iter()
            .find(|(name, _, since)| *since <= release && self.product.starts_with(name))
            .map_or(Platform::Std, |(_, platform, _)| *platform)
    }
}
