//! Which devices of an instance have links to each other (`facts/driver/topology.tsv`).

use neuron_abi::Arch;
use neuron_abi::kernel::topology::{INF2_LINE, INF2_RING, TRN1_NEIGHBOURS, TRN2_NEIGHBOURS};

/// Devices linked to device `index` of an instance with `devices` devices, in the driver's order.
///
/// Empty where the driver knows no links: one device, and every count that is not 6 or 12 on
/// arch 2 or a multiple of 16.
pub fn neighbours(arch: Arch, devices: u32, index: u32) -> Vec<u32> {
    if index >= devices {
        return Vec::new();
    }
    match (arch, devices) {
        (Arch::Sunda, INF2_LINE) => {
            [index.checked_sub(1), Some(index + 1).filter(|&i| i < INF2_LINE)].into_iter().flatten().collect()
        }
        (Arch::Sunda, INF2_RING) => vec![(index + INF2_RING - 1) % INF2_RING, (index + 1) % INF2_RING],
        (_, n) if n % 16 == 0 => {
            let torus = if arch == Arch::Sunda { &TRN1_NEIGHBOURS } else { &TRN2_NEIGHBOURS };
            torus[index as usize % 16].iter().map(|&i| i | (index & !15)).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::product::PRODUCTS;

    fn rows(text: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
        text.lines().filter(|l| !l.starts_with('#')).skip(1).map(|l| l.split('\t').collect())
    }

    fn list(text: &str) -> Vec<u32> {
        text.split(',').map(str::trim).filter(|t| !t.is_empty()).map(|t| t.parse().unwrap()).collect()
    }

    #[test]
    fn both_torus_tables_are_those_of_the_facts() {
        let mut seen = 0;
        for row in rows(include_str!("../../tests/data/device/topology.tsv")).filter(|r| r[0] == "neighbour_table") {
            let (table, index) = row[1].split_once('/').unwrap();
            let arch = if table == "trn1" { Arch::Sunda } else { Arch::Cayman };
            assert_eq!(neighbours(arch, 16, index.parse().unwrap()), list(row[5]), "{}", row[1]);
            seen += 1;
        }
        assert_eq!(seen, 32);
    }

    #[test]
    fn links_are_those_the_driver_printed() {
        let mut seen = 0;
        for row in rows(include_str!("../../tests/data/device/connected_devices.tsv")) {
            let arch = Arch::from_repr(row[0].parse().unwrap()).unwrap();
            let ours = neighbours(arch, row[1].parse().unwrap(), row[2].parse().unwrap());
            assert_eq!(ours, list(row[3]), "arch {} of {} device {}", row[0], row[1], row[2]);
            seen += 1;
        }
        assert_eq!(seen, 6 + 12 + 3 * 16 + 2 + 4 + 4);
    }

    #[test]
    fn a_link_has_two_ends() {
        for p in PRODUCTS {
            for d in 0..p.devices {
                for n in neighbours(p.arch, p.devices, d) {
                    assert!(n != d && neighbours(p.arch, p.devices, n).contains(&d), "{} {d} {n}", p.name);
                }
            }
        }
        assert_eq!(neighbours(Arch::Sunda, 32, 16), [28, 19, 20, 17]);
        assert!(neighbours(Arch::Sunda, 16, 16).is_empty());
    }
}
