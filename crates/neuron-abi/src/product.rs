//! Every product of the facts, as one table (`facts/config/instances.tsv`,
//! `facts/runtime/fake_instances.tsv`, `facts/runtime/instance_parse_examples.tsv`).

use crate::kernel::pci;
use crate::kernel::sysfs::DMI_PLATFORMS;
use crate::kernel::values::Platform;
use crate::{Arch, Family, Size};

/// One product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Product {
    /// Name as DMI and `NEURON_RT_FAKE_INSTANCE_TYPE` spell it.
    pub name: &'static str,
    /// Family number.
    pub family: Family,
    /// Size number.
    pub size: Size,
    /// Silicon generation.
    pub arch: Arch,
    /// Devices of the instance.
    pub devices: u32,
    /// Physical cores of one device.
    pub cores_per_device: u32,
    /// Device memory of one device, in MiB.
    pub hbm_mib: u32,
    /// No public product page gives the device count (or, for some, the name): it follows the
    /// sizes of the sibling products, one Trn2 or Trn3 device per `3xlarge`.
    pub inferred: bool,
}

/// Physical cores of one device, as every part of that generation has them (`facts/runtime/arch.tsv`).
pub const fn cores_per_device(arch: Arch) -> u32 {
    match arch {
        Arch::Sunda => 2,
        Arch::Cayman | Arch::Mariana => 8,
    }
}

/// Device memory of one device in MiB (`facts/driver/topology.tsv`).
pub const fn hbm_mib(arch: Arch) -> u32 {
    1024 * match arch {
        Arch::Sunda => 32,
        Arch::Cayman => 96,
        Arch::Mariana => 144,
    }
}

const fn row(name: &'static str, family: Family, size: Size, arch: Arch, devices: u32) -> Product {
    Product {
        name,
        family,
        size,
        arch,
        devices,
        cores_per_device: cores_per_device(arch),
        hbm_mib: hbm_mib(arch),
        inferred: false,
    }
}

const fn inferred(name: &'static str, family: Family, size: Size, arch: Arch, devices: u32) -> Product {
    Product { inferred: true, ..row(name, family, size, arch, devices) }
}

/// All products that can be simulated. Inf1 is not among them: this level of the runtime does not
/// know its silicon. Every other family has at least one product.
pub const PRODUCTS: &[Product] = &{
    use Arch::{Cayman, Mariana, Sunda};
    [
        row("inf2.xlarge", Family::Inf2, Size::X1, Sunda, 1),
        row("inf2.8xlarge", Family::Inf2, Size::X8, Sunda, 1),
        row("inf2.24xlarge", Family::Inf2, Size::X24, Sunda, 6),
        row("inf2.48xlarge", Family::Inf2, Size::X48, Sunda, 12),
        inferred("inf2e.48xlarge", Family::Inf2e, Size::X48, Sunda, 12),
        row("trn1.2xlarge", Family::Trn1, Size::X2, Sunda, 1),
        row("trn1.32xlarge", Family::Trn1, Size::X32, Sunda, 16),
        row("trn1n.32xlarge", Family::Trn1n, Size::X32, Sunda, 16),
        row("trn2.3xlarge", Family::Trn2, Size::X3, Cayman, 1),
        row("trn2.48xlarge", Family::Trn2, Size::X48, Cayman, 16),
        row("trn2u.48xlarge", Family::Trn2u, Size::X48, Cayman, 16),
        inferred("trn2n.48xlarge", Family::Trn2n, Size::X48, Cayman, 16),
        inferred("trn2p.48xlarge", Family::Trn2p, Size::X48, Cayman, 16),
        inferred("trn2es.48xlarge", Family::Trn2e, Size::X48, Cayman, 16),
        inferred("trn2eu.48xlarge", Family::Trn2eu, Size::X48, Cayman, 16),
        inferred("trn2-ac.24xlarge", Family::Trn2ac, Size::X24, Cayman, 8),
        inferred("trn2u-ac.24xlarge", Family::Trn2uac, Size::X24, Cayman, 8),
        inferred("trn3.48xlarge", Family::Trn3, Size::X48, Mariana, 16),
        inferred("trn3s.48xlarge", Family::Trn3, Size::X48, Mariana, 16),
        inferred("trn3p.48xlarge", Family::Trn3, Size::X48, Mariana, 16),
        inferred("trn3-dev0.48xlarge", Family::Trn3, Size::X48, Mariana, 16),
        inferred("trn3e.24xlarge", Family::Trn3, Size::X24, Mariana, 8),
        inferred("trn3pd98.3xlarge", Family::Trn3pds98, Size::X3, Mariana, 1),
    ]
};

/// The product with exactly this name.
pub fn find(name: &str) -> Option<&'static Product> {
    PRODUCTS.iter().find(|p| p.name == name)
}

impl Product {
    /// PCI device id of its devices (`facts/driver/pci.tsv`). Trn3 has a second id with the same
    /// behaviour; no product is known to carry it.
    pub const fn pci_device(&self) -> u16 {
        match self.arch {
            Arch::Sunda => match self.family {
                Family::Inf2 | Family::Inf2e => 0x7264,
                _ => 0x7164,
            },
            Arch::Cayman => 0x7364,
            Arch::Mariana => 0x7564,
        }
    }

    /// Routing id of device `index` of the instance (`facts/driver/pci.tsv`, the `rid_map` rules).
    pub fn routing_id(&self, index: u32) -> u32 {
        let switched =
            |(name, platform, _): &(&str, Platform, _)| *platform == Platform::Pds && self.name.starts_with(name);
        if DMI_PLATFORMS.iter().any(switched) { index } else { pci::routing_id(self.pci_device(), index) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{Release, pci, topology};

    #[test]
    fn names_are_unique_and_found() {
        for product in PRODUCTS {
            assert_eq!(find(product.name), Some(product));
        }
        for name in ["inf1.xlarge", "trn2", "TRN2.48xlarge", " trn2.48xlarge", ""] {
            assert_eq!(find(name), None, "{name}");
        }
    }

    #[test]
    fn the_pci_id_selects_the_generation_and_the_family() {
        for product in PRODUCTS {
            let id = pci::find(pci::VENDOR, product.pci_device(), Release::Next).expect("a row of the id table");
            assert_eq!(id.arch, product.arch as u32, "{}", product.name);
            let chip = if product.name.starts_with("inf") { "Inferentia" } else { "Trainium" };
            assert!(id.chip.starts_with(chip), "{}", product.name);
        }
    }

    #[test]
    fn devices_cores_and_memory_agree_with_the_topology_table() {
        let mut seen = 0;
        for instance in topology::INSTANCES {
            let Some(product) = find(instance.name) else { continue };
            let ours = (product.devices, product.cores_per_device, product.hbm_mib, product.arch as u32);
            assert_eq!(ours, (instance.devices, instance.cores, instance.hbm_gib * 1024, instance.arch));
            seen += 1;
        }
        assert_eq!(seen, 10, "instances of the table that are products");
    }
}
