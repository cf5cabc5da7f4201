//! Arithmetic between physical and logical cores, and the checks of a core list.
//!
//! Everything here follows from its arguments alone: the same functions serve the count calls
//! before `nrt_init` and the allocation inside it.

use super::DevInfo;
use crate::{Result, Status, log_error};
use std::ops::RangeInclusive;

/// Why cores were not counted or not given out. The display form is the log text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Cores that do not divide into logical cores, or more than can be numbered.
    #[error("Failed to convert vtpb to ptpb num cores")]
    Indivisible,
    /// A listed logical core has a physical core on a device this process cannot see.
    #[error("Specified core not accessible! is /dev/neuron{device} visible to process?")]
    NotAccessible {
        /// Number of that device.
        device: u32,
    },
    /// The list has a gap.
    #[error("Logical Neuron cores are not contiguous")]
    NotContiguous,
    /// A number of cores between one and a whole device.
    #[error("`NEURON_RT_NUM_CORES` must request one core, or the whole device (multiple of {multiple})")]
    NotWhole {
        /// Logical cores of one device.
        multiple: u32,
    },
    /// Somebody else has the cores, or there are not as many.
    #[error(
        "Logical Neuron Core(s) not available - Requested:{requested} Available:{available} Logical Core size {size}"
    )]
    Busy {
        /// Logical cores asked for.
        requested: u32,
        /// Longest free run, in logical cores.
        available: u32,
        /// Physical cores of a logical core.
        size: u32,
    },
    /// Somebody else has cores of the list.
    #[error(
        "Logical Neuron Core(s) not available - Requested:lnc{first}-lnc{last} Available:{available} Logical Core size {size}"
    )]
    RangeBusy {
        /// First logical core asked for.
        first: u32,
        /// Last logical core asked for.
        last: u32,
        /// Longest free run, in logical cores.
        available: u32,
        /// Physical cores of a logical core.
        size: u32,
    },
    /// The free cores begin in the middle of a logical core.
    #[error(
        "Cannot start process with LNC Size of {size}. The free cores begin at physical core {start}, inside a logical core; ask for whole ones, for example NEURON_RT_VISIBLE_CORES={first}-{last}"
    )]
    Misaligned {
        /// Physical cores of a logical core.
        size: u32,
        /// First free physical core.
        start: u32,
        /// First logical core behind it.
        first: u32,
        /// Last logical core of as many as were asked for.
        last: u32,
    },
    /// The driver failed and whoever asked it has logged why.
    #[error("the driver did not reserve the cores")]
    Reported(Status),
}

impl Refusal {
    /// The answer of the public call.
    pub fn status(self) -> Status {
        match self {
            Refusal::Busy { .. } | Refusal::RangeBusy { .. } => Status::Failure,
            Refusal::Reported(status) => status,
            _ => Status::Invalid,
        }
    }

    /// Say it in the log under `function` and become the status.
    pub fn log(self, function: &str) -> Status {
        if !matches!(self, Refusal::Reported(_)) {
            log_error!(Nrt, function, "{self}");
        }
        self.status()
    }
}

/// Logical cores in `physical` cores. Exact: a remainder or size 0 is [`Refusal::Indivisible`].
pub fn logical_count(physical: u32, size: u32) -> std::result::Result<u32, Refusal> {
    match physical.checked_rem(size) {
        Some(0) => Ok(physical / size),
        _ => Err(Refusal::Indivisible),
    }
}

/// Physical cores in `logical` cores; size 0 or a product above 32 bits is [`Refusal::Indivisible`].
pub fn physical_count(logical: u32, size: u32) -> std::result::Result<u32, Refusal> {
    match logical.checked_mul(size) {
        Some(n) if size != 0 => Ok(n),
        _ => Err(Refusal::Indivisible),
    }
}

/// The physical cores that make up logical core `core`, numbered over the whole instance. Wide,
/// because a listed core may be any 32-bit number. `size` is at least 1.
pub fn physical_cores(core: u32, size: u32) -> RangeInclusive<u64> {
    let first = u64::from(core) * u64::from(size);
    first..=first + u64::from(size) - 1
}

/// Check that every physical core behind `list` is on a device this process can see. Numbers are
/// those of the whole instance, so a hidden device leaves a hole and shifts nothing.
pub fn check_accessible(dev: &DevInfo, size: u32, list: &[u32]) -> std::result::Result<(), Refusal> {
    for physical in list.iter().flat_map(|&core| physical_cores(core, size)) {
        // Device numbers beyond 32 bits cannot occur: at most 2^32 logical cores of at most one
        // device each.
        let device = (physical / u64::from(dev.cores_per_device)) as u32;
        if dev.devices.binary_search(&device).is_err() {
            return Err(Refusal::NotAccessible { device });
        }
    }
    Ok(())
}

/// What a process has asked to see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The listed logical cores (`NEURON_RT_VISIBLE_CORES`).
    List(Vec<u32>),
    /// That many, wherever they are (`NEURON_RT_NUM_CORES`); not compared with the instance.
    Number(u32),
    /// Every core.
    All,
}

impl Wanted {
    /// The ladder: the list, else the number, else everything. An empty list is no list.
    pub fn from_config() -> Result<Wanted> {
        Ok(match crate::config::visible_cores()?.filter(|list| !list.is_empty()) {
            Some(list) => Wanted::List(list),
            None => crate::config::num_cores()?.map_or(Wanted::All, Wanted::Number),
        })
    }

    /// Logical cores a process with this wish sees before `nrt_init`.
    pub fn count(&self, dev: &DevInfo, size: u32) -> std::result::Result<u32, Refusal> {
        match self {
            Wanted::List(list) => check_accessible(dev, size, list).map(|()| list.len() as u32),
            Wanted::Number(n) => Ok(*n),
            Wanted::All => logical_count(dev.total_physical(), size),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Backend, product::PRODUCTS, simulated};
    use neuron_abi::Arch;
    use proptest::prelude::*;

    fn sizes(cores_per_device: u32) -> impl Iterator<Item = u32> {
        (0..4).map(|n| 1 << n).filter(move |s| cores_per_device.is_multiple_of(*s))
    }

    /// A010 A011 A013 A033 A060: counts of every product at every size that fits it, in logical cores.
    #[test]
    fn totals_of_every_product_at_every_size() {
        for p in PRODUCTS {
            let dev = simulated(p);
            assert_eq!(dev.total_physical(), p.devices * p.cores_per_device);
            for size in sizes(p.cores_per_device) {
                let total = Wanted::All.count(&dev, size).unwrap();
                assert_eq!(total * size, dev.total_physical(), "{} size {size}", p.name);
            }
            assert_eq!(Wanted::All.count(&dev, 1).unwrap(), 2 * Wanted::All.count(&dev, 2).unwrap());
        }
        // The figures people know, spelled out.
        for (name, size, total) in [
            ("trn1.32xlarge", 1, 32),
            ("inf2.48xlarge", 1, 24),
            ("trn2.3xlarge", 1, 8),
            ("trn2.3xlarge", 2, 4),
            ("trn2.48xlarge", 2, 64),
            ("trn2.48xlarge", 1, 128),
            ("trn2.48xlarge", 4, 32),
            ("trn2.48xlarge", 8, 16),
            ("trn3.48xlarge", 2, 64),
        ] {
            let dev = simulated(crate::device::product::find(name).unwrap());
            assert_eq!(Wanted::All.count(&dev, size), Ok(total), "{name} size {size}");
        }
    }

    /// A020 A048 A049 A050 A051: product x size x wish. The oracle marks physical cores one by one.
    #[test]
    fn visible_counts_of_every_product_size_and_wish() {
        for p in PRODUCTS {
            let dev = simulated(p);
            for size in sizes(p.cores_per_device) {
                let total = dev.total_physical() / size;
                for n in [0, 1, 2, 3, total, total + 1, 999] {
                    assert_eq!(Wanted::Number(n).count(&dev, size), Ok(n), "{} size {size}: unchecked", p.name);
                }
                for list in [vec![0], vec![total - 1], (0..total).collect(), vec![0, 0], vec![total - 1, 0]] {
                    let len = list.len() as u32;
                    assert_eq!(Wanted::List(list).count(&dev, size), Ok(len), "{} size {size}", p.name);
                }
                for core in [total, total + 5, u32::MAX] {
                    let device = (u64::from(core) * u64::from(size) / u64::from(p.cores_per_device)) as u32;
                    let answer = Wanted::List(vec![0, core]).count(&dev, size);
                    assert_eq!(answer, Err(Refusal::NotAccessible { device }), "{} size {size} core {core}", p.name);
                }
            }
        }
    }

    /// A063 A064 A065: numbers are those of the instance; a hidden device is refused by its name.
    #[test]
    fn a_view_of_some_devices_keeps_instance_wide_numbers() {
        let dev = DevInfo { backend: Backend::Kernel, devices: vec![1, 3], cores_per_device: 8, arch: Arch::Cayman };
        assert_eq!(Wanted::All.count(&dev, 2), Ok(8));
        assert_eq!(Wanted::List(vec![4, 5, 6, 7, 12, 15]).count(&dev, 2), Ok(6));
        for (core, device) in [(0, 0), (3, 0), (8, 2), (11, 2), (16, 4)] {
            let refusal = Wanted::List(vec![4, core]).count(&dev, 2).unwrap_err();
            assert_eq!(
                refusal.to_string(),
                format!("Specified core not accessible! is /dev/neuron{device} visible to process?")
            );
            assert_eq!(refusal.status(), Status::Invalid);
        }
    }

    /// A035: the text of a shape that does not divide.
    #[test]
    fn a_remainder_is_an_error_and_not_a_rounding() {
        for (physical, size) in [(7, 2), (8, 3), (8, 16), (8, 0), (0, 0)] {
            let refusal = logical_count(physical, size).unwrap_err();
            assert_eq!(refusal.to_string(), "Failed to convert vtpb to ptpb num cores");
            assert_eq!(refusal.status(), Status::Invalid);
        }
        assert_eq!(logical_count(0, 2), Ok(0));
        assert_eq!(physical_count(u32::MAX, 2), Err(Refusal::Indivisible));
        assert_eq!(physical_count(4, 0), Err(Refusal::Indivisible));
    }

    proptest! {
        /// A017 A060: the conversions are inverses of each other and never lose a core.
        #[test]
        fn counts_round_trip(logical in 0u32..1 << 28, shift in 0u32..4) {
            let size = 1 << shift;
            let physical = physical_count(logical, size).unwrap();
            prop_assert_eq!(logical_count(physical, size), Ok(logical));
            for extra in 1..size {
                prop_assert_eq!(logical_count(physical + extra, size), Err(Refusal::Indivisible));
            }
        }

        /// A059: the ranges of consecutive logical cores tile the physical ones without gap or overlap.
        #[test]
        fn logical_cores_tile_the_physical_ones(n in 1u32..600, shift in 0u32..4) {
            let size = 1 << shift;
            let all: Vec<u64> = (0..n).flat_map(|core| physical_cores(core, size)).collect();
            prop_assert_eq!(all, (0..u64::from(n * size)).collect::<Vec<_>>());
        }

        /// A029 A063: against a plain array of reachable cores.
        #[test]
        fn list_check_agrees_with_a_bitmap(
            devices in proptest::collection::btree_set(0u32..64, 1..20),
            per in prop_oneof![Just(2u32), Just(8)],
            shift in 0u32..4,
            list in proptest::collection::vec(0u32..520, 0..12),
        ) {
            let size = (1 << shift).min(per);
            let mut reachable = [false; 8 * 520];
            for &d in &devices {
                reachable[(d * per) as usize..((d + 1) * per) as usize].fill(true);
            }
            let first_bad = list
                .iter()
                .flat_map(|c| c * size..(c + 1) * size)
                .find(|&p| !reachable[p as usize])
                .map(|p| Refusal::NotAccessible { device: p / per });
            let dev = DevInfo {
                backend: Backend::Kernel,
                devices: devices.into_iter().collect(),
                cores_per_device: per,
                arch: Arch::Cayman,
            };
            prop_assert_eq!(check_accessible(&dev, size, &list).err(), first_bad);
        }
    }
}
