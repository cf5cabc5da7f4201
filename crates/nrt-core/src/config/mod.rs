//! Configuration: the two records, the table of variables and their parsers.

use crate::{
    Result, Status,
    device::product::{self, Product},
    log_error,
};
use neuron_abi::{Arch, Family};
use std::path::PathBuf;

/// What the defaults and checks of the variables depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Silicon generation.
    pub arch: Arch,
    /// Instance family.
    pub family: Family,
    /// Physical cores of one device.
    pub cores_per_device: u32,
}

fn var(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|v| !v.is_empty())
}

fn refuse(name: &str, text: &str) -> Status {
    log_error!(Nrt, "nrt_config_parse", "{name}={text:?} is not accepted");
    Status::Invalid
}

/// The simulated product, once seen set pinned for the life of the process; `None` when not asked for.
pub fn fake_product() -> Result<Option<&'static Product>> {
    let Some(name) = var("NEURON_RT_FAKE_INSTANCE_TYPE") else { return Ok(None) };
    product::find(&name).map(Some).ok_or_else(|| refuse("NEURON_RT_FAKE_INSTANCE_TYPE", &name))
}

/// Physical cores of one logical core.
pub fn lnc_size(shape: &Shape) -> Result<u32> {
    if shape.arch == Arch::Sunda {
        return Ok(1);
    }
    for name in ["NEURON_LOGICAL_NC_CONFIG", "NEURON_RT_VIRTUAL_CORE_SIZE"] {
        if let Some(text) = var(name) {
            return match text.parse::<u32>() {
                Ok(n) if n.is_power_of_two() && shape.cores_per_device.is_multiple_of(n) => Ok(n),
                _ => Err(refuse(name, &text)),
            };
        }
    }
    Ok(shape.cores_per_device.min(2))
}

/// `NEURON_RT_NUM_CORES`.
pub fn num_cores() -> Result<Option<u32>> {
    let name = "NEURON_RT_NUM_CORES";
    var(name).map(|v| v.parse().map_err(|_| refuse(name, &v))).transpose()
}

/// `NEURON_RT_VISIBLE_CORES`, expanded.
pub fn visible_cores() -> Result<Option<Vec<u32>>> {
    let name = "NEURON_RT_VISIBLE_CORES";
    let Some(text) = var(name) else { return Ok(None) };
    let mut list = Vec::new();
    for item in text.split(',') {
        let (first, last) = item.split_once('-').unwrap_or((item, item));
        match (first.parse::<u32>(), last.parse::<u32>()) {
            (Ok(a), Ok(b)) if a <= b && b - a < 65536 => list.extend(a..=b),
            _ => return Err(refuse(name, &text)),
        }
    }
    Ok(Some(list))
}

/// Where the device files are.
pub fn opennrt_dev_dir() -> PathBuf {
    var("OPENNRT_DEV_DIR").unwrap_or_else(|| "/dev".into()).into()
}

/// Where sysfs is.
pub fn opennrt_sys_dir() -> PathBuf {
    var("OPENNRT_SYS_DIR").unwrap_or_else(|| "/sys".into()).into()
}
