//! What the machine has: the one place that chooses between real and simulated hardware.

use crate::Result;
use neuron_abi::Arch;

pub mod product;

/// Where the answer comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// Simulated inside this process (`NEURON_RT_FAKE_INSTANCE_TYPE`).
    Fake,
    /// Device files of a kernel driver (or of `neuron-emu`).
    Kernel,
}

/// Raw hardware shape as the dispatcher reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevInfo {
    /// Which backend answered.
    pub backend: Backend,
    /// Indices of the devices this process can see, ascending; holes are allowed.
    pub devices: Vec<u32>,
    /// Physical cores of one device.
    pub cores_per_device: u32,
    /// Silicon generation.
    pub arch: Arch,
}

impl DevInfo {
    /// Physical cores of all visible devices.
    pub fn total_physical(&self) -> u32 {
        self.devices.len() as u32 * self.cores_per_device
    }
}

/// The dispatcher: simulated table when a fake instance is asked for, the driver otherwise.
pub fn dev_info() -> Result<DevInfo> {
    match crate::config::fake_product()? {
        Some(p) => Ok(DevInfo {
            backend: Backend::Fake,
            devices: (0..p.devices).collect(),
            cores_per_device: p.cores_per_device,
            arch: p.arch,
        }),
        None => Err(crate::Status::Invalid),
    }
}
