//! The products, from the table every room shares, held against the runtime's own facts.

pub use neuron_abi::product::{PRODUCTS, Product, cores_per_device, find, hbm_mib};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{device::codename, instance::name};
    use neuron_abi::{Arch, Family};
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
