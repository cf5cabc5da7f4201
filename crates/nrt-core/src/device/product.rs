//! Every product of the facts, as one table (`facts/config/instances.tsv`,
//! `facts/runtime/fake_instances.tsv`, `facts/runtime/instance_parse_examples.tsv`).

use neuron_abi::{Arch, Family, Size};

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{device::codename, instance::name};
    use std::collections::HashMap;
    use strum::IntoEnumIterator;

    /// Rows of a project copy of a facts table, by column name.
    pub(crate) fn table(text: &'static str) -> Vec<HashMap<&'static str, &'static str>> {
        let mut lines = text.lines().filter(|l| !l.starts_with('#'));
        let head: Vec<_> = lines.next().unwrap().split('\t').collect();
        lines.map(|l| head.iter().copied().zip(l.split('\t')).collect()).collect()
    }

    const INSTANCES: &str = include_str!("../../tests/data/device/instances.tsv");
    const FAKE: &str = include_str!("../../tests/data/device/fake_instances.tsv");
    const EXAMPLES: &str = include_str!("../../tests/data/device/instance_parse_examples.tsv");
    const ARCHES: &str = include_str!("../../tests/data/device/arch.tsv");
    const TOPOLOGY: &str = include_str!("../../tests/data/device/topology.tsv");

    fn number(text: &str) -> Option<u32> {
        text.split(' ').next().unwrap().parse().ok()
    }

    /// What one facts row says about a product, wherever it says something.
    fn agrees(p: &Product, column: &str, text: &str) {
        let Some(said) = number(text) else { return };
        let ours = match column {
            "devices" => p.devices,
            "cores_per_device" => p.cores_per_device,
            "family" => p.family as u32,
            "size" => p.size as u32,
            "arch" => p.arch as u32,
            _ => unreachable!("{column}"),
        };
        assert_eq!(ours, said, "{} {column}", p.name);
    }

    #[test]
    fn every_product_of_the_facts_tables_is_here_with_their_numbers() {
        let mut seen = 0;
        for text in [INSTANCES, FAKE, EXAMPLES] {
            for row in table(text) {
                let Some(p) = find(row["name"]) else {
                    assert!(
                        ["inf1.*", "inf2e.*", "EPIC-TGH7", "anything-else", "m5.large"].contains(&row["name"]),
                        "{} is missing",
                        row["name"]
                    );
                    continue;
                };
                for column in ["devices", "cores_per_device", "family", "size", "arch"] {
                    agrees(p, column, row[column]);
                }
                seen += 1;
            }
        }
        assert_eq!(seen, 17 + 12 + 16, "rows of the three tables that name a product");
    }

    #[test]
    fn a_device_count_without_a_public_source_is_marked() {
        for p in PRODUCTS {
            let certain = table(INSTANCES).iter().any(|r| r["name"] == p.name && r["devices"].parse::<u32>().is_ok())
                || table(EXAMPLES).iter().any(|r| r["name"] == p.name && r["source"].contains("doc"));
            assert_eq!(p.inferred, !certain, "{}", p.name);
        }
    }

    #[test]
    fn cores_and_generation_follow_the_arch_table() {
        let rows = table(ARCHES);
        assert_eq!(rows.len(), 3);
        for row in rows {
            let arch = Arch::from_repr(row["arch"].parse().unwrap()).unwrap();
            assert_eq!(codename(arch), row["codename"].to_lowercase());
            assert_eq!(cores_per_device(arch).to_string(), row["cores_per_device"]);
            let families: Vec<_> = row["families"].split(' ').map(str::to_lowercase).collect();
            for p in PRODUCTS.iter().filter(|p| p.arch == arch) {
                assert!(families.contains(&p.family.to_string()), "{} on {}", p.name, row["codename"]);
            }
        }
    }

    #[test]
    fn memory_follows_the_topology_table() {
        let mut seen = 0;
        for row in table(TOPOLOGY).iter().filter(|r| r["kind"] == "instance") {
            let Some(p) = find(row["key"]) else { continue };
            assert_eq!(p.hbm_mib, row["hbm_gib_per_device"].parse::<u32>().unwrap() * 1024, "{}", p.name);
            assert_eq!(p.devices.to_string(), row["devices"], "{}", p.name);
            seen += 1;
        }
        assert_eq!(seen, 10);
        let trn3 = table(TOPOLOGY).into_iter().find(|r| r["key"].starts_with("trn3 gen1")).unwrap();
        assert_eq!(hbm_mib(Arch::Mariana), trn3["hbm_gib_per_device"].parse::<u32>().unwrap() * 1024);
    }

    #[test]
    fn names_are_unique_and_read_back_as_their_own_family_and_size() {
        for p in PRODUCTS {
            assert_eq!(PRODUCTS.iter().filter(|q| q.name == p.name).count(), 1, "{}", p.name);
            assert_eq!(name::identify(p.name, p.arch), (p.family, p.size), "{}", p.name);
        }
    }

    #[test]
    fn every_family_but_inf1_can_be_simulated() {
        for family in Family::iter() {
            let any = PRODUCTS.iter().any(|p| p.family == family);
            assert_eq!(any, !matches!(family, Family::Unknown | Family::Inf1), "{family}");
        }
        for name in ["inf1.xlarge", "inf1.24xlarge", "trn2", "TRN2.48xlarge", " trn2.48xlarge", ""] {
            assert_eq!(find(name), None, "{name}");
        }
    }
}
