//! The kernel boundary as data: commands, argument structs, values, PCI identity, sysfs names
//! and topology of the Neuron kernel driver, release 2.24.7 to 2.27.4.
//!
//! Source of every number: `facts/driver/*.tsv`; `tests/kernel.rs` compares the code with the
//! copies of those tables under `tests/data/`. No logic beyond lookups lives here: rules belong
//! to the driver model (`neuron-kmd`), registers to the silicon model (`neuron-hw`).
//!
//! | module | content | facts |
//! |---|---|---|
//! | [`args`] | argument structs, their byte codec and layout tables | `ioctl_structs.tsv` |
//! | [`ioctl`] | the table of all commands and its lookup | `ioctls.tsv` |
//! | [`values`] | enums, limits, datastore layout, per-architecture geometry | `enums.tsv` |
//! | [`pci`] | ids, aliases, routing-id maps | `pci.tsv` |
//! | [`sysfs`] | attribute names, modes, module parameters, DMI platforms | `sysfs.tsv` |
//! | [`topology`] | neighbours, logical core maps, instances | `topology.tsv` |

pub mod args;
pub mod ioctl;
pub mod pci;
pub mod sysfs;
pub mod topology;
pub mod values;

/// Releases of the kernel driver that the tables tell apart.
///
/// A driver profile is one of 2.24.7, 2.26.5 and 2.27.4; 2.25.4 only dates features, `Next`
/// stands for development sources (2.28, 2.29) that no profile runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // the names are the version numbers
pub enum Release {
    V2_24_7,
    V2_25_4,
    V2_26_5,
    V2_27_4,
    Next,
}
