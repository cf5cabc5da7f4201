//! What the driver binds to, for people: the id table with aliases, and the matching devices of
//! a host (`facts/driver/pci.tsv`).

use std::io;
use std::path::Path;

use neuron_abi::kernel::pci::{self as ids, PciId, SHIPPED_ALIAS_DEVICE, VENDOR};

use crate::dhal::{self, BarProfile};
use crate::probe;
use crate::profile::Profile;

/// One id a release binds to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdRow {
    /// Row of the driver's table.
    pub id: &'static PciId,
    /// BAR numbers by role on silicon; `None` for a generation that is not modelled.
    pub bars: Option<BarProfile>,
    /// The `modalias` line that loads the module for it.
    pub alias: String,
}

/// The id table of a release, in table order, with the alias each row generates.
pub fn id_table(profile: Profile) -> Vec<IdRow> {
    const SILICON: u8 = 1;
    let row = |id: &'static PciId| IdRow {
        id,
        bars: dhal::bar_profile(id.arch, SILICON, profile),
        alias: ids::modalias(id.device),
    };
    ids::ids(profile.release()).map(row).collect()
}

/// The load hint the driver package ships.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShippedAlias {
    /// The line.
    pub alias: String,
    /// Row it stands for in this release; `None` when it stands for nothing.
    pub id: Option<&'static PciId>,
}

/// The shipped load hint, judged by the id table of a release. From 2.25.4 on it names an id
/// that is in no table; what loads the module then are the aliases of [`id_table`].
pub fn shipped_alias(profile: Profile) -> ShippedAlias {
    ShippedAlias {
        alias: ids::modalias(SHIPPED_ALIAS_DEVICE),
        id: ids::find(VENDOR, SHIPPED_ALIAS_DEVICE, profile.release()),
    }
}

/// A device of a host that the driver would bind to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostDevice {
    /// Address on the bus, as the directory is named.
    pub address: String,
    /// Row it binds on.
    pub id: &'static PciId,
    /// Revision byte, 0 when it cannot be read.
    pub revision: u8,
    /// Driver that has it now.
    pub driver: Option<String>,
}

/// Matching PCI devices below a sysfs root (`/sys` on a host), ordered by address. A host without
/// a PCI bus has none.
///
/// # Errors
/// When the directory of PCI devices is there and cannot be read.
pub fn host_devices(sys_root: &Path, profile: Profile) -> io::Result<Vec<HostDevice>> {
    let dir = match std::fs::read_dir(sys_root.join("bus/pci/devices")) {
        Ok(dir) => dir,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut devices = Vec::new();
    for entry in dir {
        let entry = entry?;
        devices.extend(host_device(&entry.path(), &entry.file_name().to_string_lossy(), profile));
    }
    devices.sort_by(|a, b| a.address.cmp(&b.address));
    Ok(devices)
}

/// A device that vanishes while it is read, or shows nonsense, is not one of ours.
fn host_device(path: &Path, address: &str, profile: Profile) -> Option<HostDevice> {
    let number = |name: &str| {
        let text = std::fs::read_to_string(path.join(name)).ok()?;
        u16::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok()
    };
    let id = probe::bind(number("vendor")?, number("device")?, profile).ok()?;
    let driver = std::fs::read_link(path.join("driver")).ok();
    Some(HostDevice {
        address: address.to_owned(),
        id,
        revision: number("revision").unwrap_or(0) as u8,
        driver: driver.and_then(|d| Some(d.file_name()?.to_string_lossy().into_owned())),
    })
}
