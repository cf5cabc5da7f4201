//! What `nrt-info --pci` shows: the ids the kernel driver binds to, and who on this host has one.

use neuron_kmd::{Profile, pci};
use nrt_core::config;
use serde::Serialize;
use std::fmt::Write;

/// The listing.
#[derive(Debug, Serialize)]
pub struct Listing {
    /// Driver release the table is of.
    pub driver: &'static str,
    /// The id table, in table order: the first row that matches wins.
    pub ids: Vec<Id>,
    /// The load hint the driver package ships.
    pub shipped_alias: Shipped,
    /// Matching devices of this host, by address.
    pub devices: Vec<Device>,
}

/// One row of the id table.
#[derive(Debug, Serialize)]
pub struct Id {
    /// Vendor and device, `1d0f:7164`.
    pub id: String,
    /// Name of the chip.
    pub chip: &'static str,
    /// Architecture number it selects.
    pub arch: u32,
    /// BAR numbers on silicon: registers, AXI (-1, unused), device memory.
    pub bars: Option<[i32; 3]>,
    /// The line that makes the module load for it.
    pub alias: String,
}

/// The shipped load hint and what it is worth.
#[derive(Debug, Serialize)]
pub struct Shipped {
    /// The line.
    pub alias: String,
    /// Whether a row of the table stands behind it.
    pub in_table: bool,
}

/// A device of this host.
#[derive(Debug, Serialize)]
pub struct Device {
    /// Address on the bus.
    pub address: String,
    /// Vendor and device.
    pub id: String,
    /// Name of the chip.
    pub chip: &'static str,
    /// Architecture number.
    pub arch: u32,
    /// Revision byte.
    pub revision: u8,
    /// Driver that has it now.
    pub driver: Option<String>,
}

fn pair(device: u16) -> String {
    format!("{:04x}:{device:04x}", neuron_abi::kernel::pci::VENDOR)
}

/// Gather the listing; sysfs is looked at where `OPENNRT_SYS_DIR` says.
///
/// # Errors
/// One sentence when the list of PCI devices is there and cannot be read.
pub fn gather() -> Result<Listing, String> {
    let profile = Profile::default();
    let sys = config::sys_dir();
    let devices = pci::host_devices(&sys, profile).map_err(|error| {
        format!("the PCI devices below {} cannot be read ({error}); run it as a user who may", sys.display())
    })?;
    let shipped = pci::shipped_alias(profile);
    Ok(Listing {
        driver: profile.version(),
        ids: pci::id_table(profile)
            .into_iter()
            .map(|row| Id {
                id: pair(row.id.device),
                chip: row.id.chip,
                arch: row.id.arch,
                bars: row.bars.map(|bars| [bars.apb, bars.axi, bars.dram]),
                alias: row.alias,
            })
            .collect(),
        shipped_alias: Shipped { alias: shipped.alias, in_table: shipped.id.is_some() },
        devices: devices
            .into_iter()
            .map(|device| Device {
                address: device.address,
                id: pair(device.id.device),
                chip: device.id.chip,
                arch: device.id.arch,
                revision: device.revision,
                driver: device.driver,
            })
            .collect(),
    })
}

/// The listing as a table for people.
pub fn render(listing: &Listing) -> String {
    let mut text = format!("PCI ids of driver {} (the first row that matches wins)\n\n", listing.driver);
    let mut line = |args: std::fmt::Arguments<'_>| writeln!(text, "{args}").expect("a string takes every write");
    line(format_args!("{:<10} {:<12} {:<5} {:<28} Alias", "Id", "Chip", "Arch", "BARs"));
    for id in &listing.ids {
        let bars = id.bars.map_or("not modelled".into(), |[apb, _, dram]| format!("registers {apb}, memory {dram}"));
        line(format_args!("{:<10} {:<12} {:<5} {bars:<28} {}", id.id, id.chip, id.arch, id.alias));
    }
    let shipped = &listing.shipped_alias;
    let verdict = if shipped.in_table {
        "stands for a row of this table"
    } else {
        "is stale: no row of this table has that id, what loads the module are the aliases above"
    };
    line(format_args!("\nShipped load hint {}\n  {verdict}", shipped.alias));
    match listing.devices.as_slice() {
        [] => line(format_args!("\nNo device of this host matches.")),
        devices => {
            line(format_args!(
                "\n{:<14} {:<10} {:<12} {:<5} {:<9} Driver",
                "Address", "Id", "Chip", "Arch", "Revision"
            ));
            for d in devices {
                let driver = d.driver.as_deref().unwrap_or("none");
                line(format_args!(
                    "{:<14} {:<10} {:<12} {:<5} {:<9} {driver}",
                    d.address, d.id, d.chip, d.arch, d.revision
                ));
            }
        }
    }
    text
}
