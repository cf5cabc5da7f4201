//! What the machine has: the one place that chooses between real and simulated hardware.

use crate::{Result, Status, config, log_error};
use neuron_abi::{Arch, Family};
use std::path::PathBuf;

pub mod claim;
pub mod count;
pub(crate) mod kernel;
pub(crate) mod layer;
pub mod product;
pub mod topology;

use count::Wanted;
use product::Product;

/// Where the answer comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// Simulated inside this process (`NEURON_RT_FAKE_INSTANCE_TYPE`).
    Fake,
    /// Device files of a kernel driver (or of `neuron-emu`).
    Kernel,
}

impl Backend {
    /// The name users see: `fake` or `kernel`.
    pub const fn name(self) -> &'static str {
        match self {
            Backend::Fake => "fake",
            Backend::Kernel => "kernel",
        }
    }
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

    /// Device memory of one device, in MiB: nominal, or `OPENNRT_HBM_MIB` in simulation.
    ///
    /// Errors: `NRT_INVALID` for a bad text in that variable, after an ERROR line.
    pub fn hbm_mib(&self) -> Result<u32> {
        let given = if self.backend == Backend::Fake { config::hbm_mib()? } else { None };
        Ok(given.unwrap_or_else(|| product::hbm_mib(self.arch)))
    }
}

/// Code name of a generation, as the compiler and the logs spell it (`facts/runtime/arch.tsv`).
pub fn codename(arch: Arch) -> &'static str {
    match arch {
        Arch::Sunda => "sunda",
        Arch::Cayman => "cayman",
        Arch::Mariana => "mariana",
    }
}

/// Why there is no device to work with. The display form is one sentence for a person.
#[derive(Debug, thiserror::Error)]
pub enum Absent {
    /// No device node.
    #[error(
        "No Neuron devices were found: {} has no neuron0 to neuron63; on an Inf2 or Trn instance load the aws-neuronx driver and make its device files visible to this process, elsewhere set NEURON_RT_FAKE_INSTANCE_TYPE (for example trn2.48xlarge) to simulate an instance", dev_dir.display()
    )]
    NoNodes {
        /// Where the nodes were looked for.
        dev_dir: PathBuf,
    },
    /// Nodes, but none this process may open.
    #[error(
        "Neuron devices are present but this process may not open them ({0}); grant it read and write access to the device files, or set NEURON_RT_FAKE_INSTANCE_TYPE to simulate an instance"
    )]
    Denied(String),
    /// A node whose kind cannot be told.
    #[error(
        "The kind of device neuron{device} cannot be told ({why}); check that the aws-neuronx driver is loaded and its sysfs tree is visible to this process"
    )]
    Unknown {
        /// Number of the device.
        device: u32,
        /// What was found instead.
        why: String,
    },
    /// The configuration asks for something that does not exist; its reader has logged that.
    #[error("the configuration is not usable")]
    Config(Status),
}

impl Absent {
    /// Say it in the log and become the status of the public call.
    pub fn log(self) -> Status {
        match self {
            Absent::Config(status) => return status,
            Absent::NoNodes { .. } => log_error!(Tdrv, "tdrv_get_dev_info", "No neuron device available"),
            Absent::Denied(_) | Absent::Unknown { .. } => {}
        }
        log_error!(Nrt, "nrt_get_dev_info", "{self}");
        Status::Invalid
    }
}

/// Who answers questions about the hardware.
pub(crate) enum Source {
    Simulated(&'static Product),
    Kernel(kernel::Host),
}

/// The choice. Everything that differs between real and simulated hardware asks here, so the
/// variable is looked at before any device or file is.
pub(crate) fn source() -> Result<Source> {
    Ok(match config::fake_product()? {
        Some(product) => Source::Simulated(product),
        None => Source::Kernel(kernel::Host::configured()),
    })
}

/// The shape of a simulated product.
pub fn simulated(product: &Product) -> DevInfo {
    DevInfo {
        backend: Backend::Fake,
        devices: (0..product.devices).collect(),
        cores_per_device: product.cores_per_device,
        arch: product.arch,
    }
}

impl Source {
    pub(crate) fn dev_info(&self) -> std::result::Result<DevInfo, Absent> {
        match self {
            Source::Simulated(product) => Ok(simulated(product)),
            Source::Kernel(host) => host.discover(),
        }
    }
}

/// The dispatcher without its log lines, for a caller that reports the reason itself.
pub fn look() -> std::result::Result<DevInfo, Absent> {
    source().map_err(Absent::Config)?.dev_info()
}

/// The dispatcher: simulated table when a fake instance is asked for, the driver otherwise.
///
/// Errors: `NRT_INVALID` after an ERROR line that names what is missing.
pub fn dev_info() -> Result<DevInfo> {
    look().map_err(Absent::log)
}

/// What the defaults and checks of the configuration depend on, for hardware `dev`. A family that
/// cannot be told is `Unknown` here; identity itself reports that.
pub fn shape(dev: &DevInfo) -> config::Shape {
    let family = source().map_or(Family::Unknown, |s| crate::instance::family(&s, dev.arch));
    config::Shape { arch: dev.arch, family, cores_per_device: dev.cores_per_device }
}

/// Version of the kernel driver; `None` in simulation and when it cannot be read.
pub fn driver_version() -> Option<String> {
    match source().ok()? {
        Source::Simulated(_) => None,
        Source::Kernel(host) => host.driver_version(),
    }
}

/// Devices linked to device `index`, in the driver's order; `None` when this process may not know.
pub fn neighbours(dev: &DevInfo, index: u32) -> Option<Vec<u32>> {
    match source().ok()? {
        Source::Simulated(_) => Some(topology::neighbours(dev.arch, dev.devices.len() as u32, index)),
        Source::Kernel(host) => kernel::connected(&*host.driver, index),
    }
}

/// Hardware first, logical core size second: with both wrong the hardware is reported.
fn dev_info_and_size(api: &str) -> Result<(DevInfo, u32)> {
    let both = dev_info().and_then(|dev| config::lnc_size(&shape(&dev)).map(|size| (dev, size)));
    both.inspect_err(|_| log_error!(Nrt, api, "Failed to parse vnc config"))
}

/// Logical cores of all visible devices (`nrt_get_total_vnc_count`), from the environment at each
/// call. Errors: `NRT_INVALID`, after an ERROR line, without devices or with a bad logical core size.
pub fn total_vnc_count() -> Result<u32> {
    let api = "nrt_get_total_vnc_count";
    let (dev, size) = dev_info_and_size(api)?;
    Wanted::All.count(&dev, size).map_err(|refusal| refusal.log(api))
}

/// Logical cores this process would see (`nrt_get_visible_vnc_count` outside INIT and CHILD), from
/// the environment at each call: length of the list, else the number as it stands, else the total.
///
/// Errors: as [`total_vnc_count`], and for a bad list or a listed core that is not reachable.
pub fn visible_vnc_count_from_env() -> Result<u32> {
    let api = "nrt_get_visible_vnc_count";
    // The ladder must not be climbed with a fake type that does not exist.
    source()?;
    match Wanted::from_config()? {
        Wanted::Number(n) => Ok(n),
        wanted => {
            let (dev, size) = dev_info_and_size(api)?;
            wanted.count(&dev, size).map_err(|refusal| refusal.log(api))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    /// A025: one place of these rooms asks for the fake instance.
    #[test]
    fn one_call_site_chooses_the_backend() {
        let mut todo = ["src/device", "src/instance"].map(|d| Path::new(env!("CARGO_MANIFEST_DIR")).join(d)).to_vec();
        let mut sites = Vec::new();
        while let Some(path) = todo.pop() {
            if path.is_dir() {
                todo.extend(fs::read_dir(&path).unwrap().map(|e| e.unwrap().path()));
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap();
            sites.extend(code.matches("fake_product(").map(|_| path.clone()));
        }
        assert_eq!(sites, [Path::new(env!("CARGO_MANIFEST_DIR")).join("src/device/mod.rs")]);
    }
}
