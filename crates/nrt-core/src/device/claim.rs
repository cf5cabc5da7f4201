//! Which logical cores `nrt_init` takes (`facts/runtime/lifecycle.md` sections 4.2 and 4.3).

use super::{
    DevInfo, codename,
    count::{Refusal, Wanted, check_accessible, logical_count},
};
use crate::{Result, Status, log_error, log_info, log_warn};
use neuron_abi::Arch;
use std::ops::Range;

/// A wish for `count` consecutive free cores anywhere in `first..=last`, all physical and numbered
/// over the whole instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// First core to consider.
    pub first: u32,
    /// Last core to consider.
    pub last: u32,
    /// Cores wanted. `u32::MAX` stands for more than can be counted.
    pub count: u32,
}

/// Why cores were not marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkError {
    /// Not that many free cores in a row.
    Busy {
        /// Longest run of free cores, physical.
        longest_run: u32,
    },
    /// The driver could not be asked; the marker has logged why.
    Failed(Status),
}

/// Whoever keeps the table of taken cores: the driver, or this process in simulation.
pub trait Marker {
    /// Take the first run that fits; the answer is its first physical core.
    fn mark(&mut self, wish: Mark) -> std::result::Result<u32, MarkError>;
    /// Give back what [`mark`](Marker::mark) gave.
    fn unmark(&mut self, first: u32, count: u32);
    /// Ids of other processes on the devices of these cores, as far as they can be found out.
    fn holders(&self, _first: u32, _last: u32) -> Vec<u32> {
        Vec::new()
    }
}

/// The table of a simulated instance: it belongs to one process, so every core is free.
#[derive(Debug)]
pub struct Simulated;

impl Marker for Simulated {
    fn mark(&mut self, wish: Mark) -> std::result::Result<u32, MarkError> {
        let free = wish.last - wish.first + 1;
        if wish.count <= free { Ok(wish.first) } else { Err(MarkError::Busy { longest_run: free }) }
    }

    fn unmark(&mut self, _first: u32, _count: u32) {}
}

/// Logical cores a process has taken: always one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// First logical core, numbered over the whole instance.
    pub first: u32,
    /// Number of logical cores, at least 1.
    pub count: u32,
    /// Physical cores of a logical core.
    pub size: u32,
}

impl Grant {
    /// The logical cores, ascending. Index `i` of the public calls means the `i`-th of these.
    pub fn logical(self) -> Range<u32> {
        self.first..self.first + self.count
    }

    /// The physical cores behind them.
    pub fn physical(self) -> Range<u32> {
        self.first * self.size..(self.first + self.count) * self.size
    }
}

/// Take the cores `wanted` asks for, as `nrt_init` does. `size` has passed the rules of the
/// logical core size. On an error nothing stays marked. Writes no log line.
pub fn resolve_request(
    dev: &DevInfo,
    size: u32,
    wanted: &Wanted,
    marker: &mut dyn Marker,
) -> std::result::Result<Grant, Refusal> {
    match wanted {
        Wanted::List(list) => take_list(dev, size, list, marker),
        // 0 is the default of the variable and means every core.
        Wanted::All | Wanted::Number(0) => {
            let all = logical_count(dev.total_physical(), size)?;
            take_number(dev, size, all, marker)
        }
        Wanted::Number(n) => take_number(dev, size, *n, marker),
    }
}

fn take_list(dev: &DevInfo, size: u32, list: &[u32], marker: &mut dyn Marker) -> std::result::Result<Grant, Refusal> {
    let mut sorted = list.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    // Before the order: a list may name cores that do not exist and have a gap because of that.
    check_accessible(dev, size, &sorted)?;
    let (&[first, ..], &[.., last]) = (&sorted[..], &sorted[..]) else { return Err(Refusal::NotContiguous) };
    if sorted.len() as u32 != last - first + 1 {
        return Err(Refusal::NotContiguous);
    }
    let grant = Grant { first, count: last - first + 1, size };
    let physical = grant.physical();
    let wish = Mark { first: physical.start, last: physical.end - 1, count: physical.end - physical.start };
    match marker.mark(wish) {
        Ok(_) => Ok(grant),
        Err(MarkError::Busy { longest_run }) => {
            Err(Refusal::RangeBusy { first, last, available: longest_run / size, size })
        }
        Err(MarkError::Failed(status)) => Err(Refusal::Reported(status)),
    }
}

fn take_number(dev: &DevInfo, size: u32, n: u32, marker: &mut dyn Marker) -> std::result::Result<Grant, Refusal> {
    let per = dev.cores_per_device;
    let physical = u64::from(n) * u64::from(size);
    if dev.arch > Arch::Sunda && n != 1 && !physical.is_multiple_of(u64::from(per)) {
        return Err(Refusal::NotWhole { multiple: per / size });
    }
    let count = u32::try_from(physical).unwrap_or(u32::MAX);
    let mut longest = 0;
    for run in dev.devices.chunk_by(|a, b| a + 1 == *b) {
        let (&[first, ..], &[.., last]) = (run, run) else { continue };
        match marker.mark(Mark { first: first * per, last: last * per + per - 1, count }) {
            Ok(start) if start.is_multiple_of(size) => return Ok(Grant { first: start / size, count: n, size }),
            Ok(start) => {
                marker.unmark(start, count);
                let first = start.div_ceil(size);
                return Err(Refusal::Misaligned { size, start, first, last: first + n - 1 });
            }
            Err(MarkError::Busy { longest_run }) => longest = longest.max(longest_run),
            Err(MarkError::Failed(status)) => return Err(Refusal::Reported(status)),
        }
    }
    Err(Refusal::Busy { requested: n, available: longest / size, size })
}

/// [`resolve_request`] with the log lines of `nrt_init`. `number_set` tells whether
/// `NEURON_RT_NUM_CORES` is set at all, which a list overrules.
///
/// Errors: `NRT_INVALID` for a wish that cannot be met on this instance, `NRT_FAILURE` for cores
/// that are taken or more than there are.
pub fn allocate(dev: &DevInfo, size: u32, wanted: &Wanted, number_set: bool, marker: &mut dyn Marker) -> Result<Grant> {
    let function = "nrt_allocate_neuron_cores";
    if number_set && matches!(wanted, Wanted::List(_)) {
        log_warn!(
            Nrt,
            function,
            "Using NEURON_RT_VISIBLE_CORES to allocate Logical Neuron Cores, NEURON_RT_NUM_CORES is ignored"
        );
    }
    let grant = resolve_request(dev, size, wanted, marker).map_err(|refusal| {
        let status = refusal.log(function);
        name_holders(function, dev, &refusal, marker);
        status
    })?;
    for line in banner(dev, grant) {
        log_info!(Nrt, function, "{line}");
    }
    Ok(grant)
}

/// Most process ids in one line.
const HOLDERS: usize = 32;

/// Who stands in the way of busy cores.
fn name_holders(function: &str, dev: &DevInfo, refusal: &Refusal, marker: &dyn Marker) {
    let holders = match *refusal {
        Refusal::RangeBusy { first, last, size, .. } => marker.holders(first * size, (last + 1) * size - 1),
        Refusal::Busy { .. } => {
            let (Some(first), Some(last)) = (dev.devices.first(), dev.devices.last()) else { return };
            let per = dev.cores_per_device;
            marker.holders(first * per, last * per + per - 1)
        }
        _ => return,
    };
    if !holders.is_empty() {
        let more = if holders.len() > HOLDERS { " and more" } else { "" };
        let list: Vec<_> = holders.iter().take(HOLDERS).map(u32::to_string).collect();
        log_error!(Nrt, function, "Processes that use these devices: {}{more}", list.join(", "));
    }
}

fn banner(dev: &DevInfo, grant: Grant) -> [String; 2] {
    let (logical, physical) = (grant.logical(), grant.physical());
    [
        format!(
            "LNC info: first lnc {} last lnc {} first pnc {} last pnc {}",
            logical.start,
            logical.end - 1,
            physical.start,
            physical.end - 1
        ),
        format!(
            "Instance info:: device count:{} cores per device:{} architecture:{}",
            dev.devices.len(),
            dev.cores_per_device,
            codename(dev.arch)
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Backend, product, simulated};
    use proptest::prelude::*;

    fn instance(name: &str) -> DevInfo {
        simulated(product::find(name).unwrap())
    }

    fn take(name: &str, size: u32, wanted: Wanted) -> std::result::Result<(u32, u32), (String, Status)> {
        resolve_request(&instance(name), size, &wanted, &mut Simulated)
            .map(|g| (g.first, g.count))
            .map_err(|r| (r.to_string(), r.status()))
    }

    /// Oracle: the driver's table in its plainest form, without its search quirk.
    struct Table {
        taken: Vec<bool>,
        asked: Vec<Mark>,
    }

    impl Table {
        fn with(taken: impl IntoIterator<Item = u32>) -> Table {
            let mut table = Table { taken: vec![false; 512], asked: Vec::new() };
            taken.into_iter().for_each(|c| table.taken[c as usize] = true);
            table
        }

        fn marked(&self) -> u32 {
            self.taken.iter().filter(|t| **t).count() as u32
        }
    }

    impl Marker for Table {
        fn mark(&mut self, wish: Mark) -> std::result::Result<u32, MarkError> {
            self.asked.push(wish);
            let (mut run, mut longest_run) = (0, 0);
            for core in wish.first..=wish.last {
                run = if self.taken[core as usize] { 0 } else { run + 1 };
                longest_run = longest_run.max(run);
                if run == wish.count {
                    let first = core + 1 - wish.count;
                    self.taken[first as usize..=core as usize].fill(true);
                    return Ok(first);
                }
            }
            Err(MarkError::Busy { longest_run })
        }

        fn unmark(&mut self, first: u32, count: u32) {
            self.taken[first as usize..(first + count) as usize].fill(false);
        }
    }

    #[test]
    fn without_a_wish_every_core_is_taken() {
        for p in product::PRODUCTS {
            let size = if p.arch == Arch::Sunda { 1 } else { 2 };
            let all = p.devices * p.cores_per_device / size;
            for wanted in [Wanted::All, Wanted::Number(0), Wanted::Number(all), Wanted::List((0..all).collect())] {
                assert_eq!(take(p.name, size, wanted.clone()), Ok((0, all)), "{} {wanted:?}", p.name);
            }
        }
    }

    #[test]
    fn one_core_or_whole_devices_from_trn2_on_and_any_number_before() {
        let whole = |multiple| {
            let text =
                format!("`NEURON_RT_NUM_CORES` must request one core, or the whole device (multiple of {multiple})");
            Err((text, Status::Invalid))
        };
        for (name, size, n, answer) in [
            ("trn1.32xlarge", 1, 1, Ok((0, 1))),
            ("trn1.32xlarge", 1, 3, Ok((0, 3))),
            ("trn1.32xlarge", 1, 32, Ok((0, 32))),
            ("trn2.48xlarge", 2, 1, Ok((0, 1))),
            ("trn2.48xlarge", 2, 2, whole(4)),
            ("trn2.48xlarge", 2, 3, whole(4)),
            ("trn2.48xlarge", 2, 4, Ok((0, 4))),
            ("trn2.48xlarge", 2, 6, whole(4)),
            ("trn2.48xlarge", 2, 64, Ok((0, 64))),
            ("trn2.48xlarge", 1, 1, Ok((0, 1))),
            ("trn2.48xlarge", 1, 2, whole(8)),
            ("trn2.48xlarge", 1, 8, Ok((0, 8))),
            ("trn2.48xlarge", 8, 3, Ok((0, 3))),
            ("trn3.48xlarge", 4, 2, Ok((0, 2))),
            ("trn3.48xlarge", 4, 3, whole(2)),
        ] {
            assert_eq!(take(name, size, Wanted::Number(n)), answer, "{name} size {size} number {n}");
        }
    }

    #[test]
    fn more_cores_than_there_are_is_a_failure_with_both_numbers() {
        for (name, size, n, available) in [
            ("trn1.32xlarge", 1, 33, 32),
            ("trn2.48xlarge", 2, 68, 64),
            ("trn2.48xlarge", 1, 4294967288, 128),
            ("trn2.48xlarge", 8, u32::MAX, 16),
            ("inf2.xlarge", 1, u32::MAX, 2),
        ] {
            let text = format!(
                "Logical Neuron Core(s) not available - Requested:{n} Available:{available} Logical Core size {size}"
            );
            assert_eq!(take(name, size, Wanted::Number(n)), Err((text, Status::Failure)), "{name} {n}");
        }
    }

    #[test]
    fn a_list_is_sorted_and_deduplicated_and_must_be_one_run() {
        let list = |l: &[u32]| take("trn2.48xlarge", 2, Wanted::List(l.to_vec()));
        let gap = Err(("Logical Neuron cores are not contiguous".to_owned(), Status::Invalid));
        let gone = |d| {
            let text = format!("Specified core not accessible! is /dev/neuron{d} visible to process?");
            Err((text, Status::Invalid))
        };
        assert_eq!(list(&[0, 1, 2, 3]), Ok((0, 4)));
        assert_eq!(list(&[7, 5, 6, 5, 7]), Ok((5, 3)));
        assert_eq!(list(&[63]), Ok((63, 1)));
        assert_eq!(list(&[0, 2, 3, 5]), gap);
        assert_eq!(list(&[]), gap);
        assert_eq!(list(&[62, 63, 64]), gone(16));
        assert_eq!(list(&[0, 64]), gone(16), "a core that is not there is named before the gap");
        assert_eq!(list(&[u32::MAX, 0]), gone(1073741823));
    }

    #[test]
    fn cores_of_another_process_are_named_in_the_failure() {
        let dev = instance("trn2.3xlarge");
        let mut table = Table::with([2, 3]);
        let refusal = resolve_request(&dev, 2, &Wanted::List(vec![0, 1]), &mut table).unwrap_err();
        assert_eq!(
            (refusal.to_string().as_str(), refusal.status()),
            (
                "Logical Neuron Core(s) not available - Requested:lnc0-lnc1 Available:1 Logical Core size 2",
                Status::Failure
            )
        );
        assert_eq!(table.asked, [Mark { first: 0, last: 3, count: 4 }]);
        let refusal = resolve_request(&dev, 2, &Wanted::All, &mut table).unwrap_err();
        assert_eq!(refusal, Refusal::Busy { requested: 4, available: 2, size: 2 });
        assert_eq!(table.marked(), 2);
    }

    #[test]
    fn a_start_inside_a_logical_core_is_refused_and_given_back() {
        let mut table = Table::with([0]);
        let refusal = resolve_request(&instance("trn2.3xlarge"), 2, &Wanted::Number(1), &mut table).unwrap_err();
        let text = refusal.to_string();
        assert!(text.starts_with("Cannot start process with LNC Size of 2. "), "{text}");
        assert!(text.ends_with("NEURON_RT_VISIBLE_CORES=1-1"), "{text}");
        assert_eq!(refusal.status(), Status::Invalid);
        assert_eq!(table.marked(), 1);
    }

    #[test]
    fn the_driver_is_asked_once_over_the_whole_instance() {
        let mut table = Table::with([]);
        resolve_request(&instance("trn2.48xlarge"), 2, &Wanted::Number(4), &mut table).unwrap();
        assert_eq!(table.asked, [Mark { first: 0, last: 127, count: 8 }]);
    }

    /// A065: no core of a hidden device is ever asked for.
    #[test]
    fn a_number_stays_on_visible_devices() {
        let dev = DevInfo { backend: Backend::Kernel, devices: vec![1, 3, 4], cores_per_device: 8, arch: Arch::Cayman };
        let mut table = Table::with([]);
        let grant = resolve_request(&dev, 2, &Wanted::Number(8), &mut table).unwrap();
        assert_eq!(grant, Grant { first: 12, count: 8, size: 2 });
        assert_eq!(table.asked, [Mark { first: 8, last: 15, count: 16 }, Mark { first: 24, last: 39, count: 16 }]);
        let refusal = resolve_request(&dev, 2, &Wanted::All, &mut table).unwrap_err();
        assert_eq!(refusal, Refusal::Busy { requested: 12, available: 4, size: 2 });
    }

    #[test]
    fn a_driver_that_cannot_be_asked_passes_its_status_on() {
        struct Broken;
        impl Marker for Broken {
            fn mark(&mut self, _: Mark) -> std::result::Result<u32, MarkError> {
                Err(MarkError::Failed(Status::HwError))
            }
            fn unmark(&mut self, _: u32, _: u32) {}
        }
        for wanted in [Wanted::All, Wanted::List(vec![0])] {
            let answer = allocate(&instance("trn1.2xlarge"), 1, &wanted, true, &mut Broken);
            assert_eq!(answer, Err(Status::HwError));
        }
    }

    #[test]
    fn the_info_lines_name_both_kinds_of_cores() {
        let dev = instance("trn2.48xlarge");
        assert_eq!(
            banner(&dev, Grant { first: 4, count: 4, size: 2 }),
            [
                "LNC info: first lnc 4 last lnc 7 first pnc 8 last pnc 15",
                "Instance info:: device count:16 cores per device:8 architecture:cayman"
            ]
        );
    }

    proptest! {
        /// A023: the count before init and the grant of init come from the same arithmetic.
        #[test]
        fn a_grant_has_the_cores_of_the_list(
            list in proptest::collection::btree_set(0u32..66, 1..6),
            busy in proptest::collection::btree_set(0u32..128, 0..6),
        ) {
            let dev = instance("trn2.48xlarge");
            let list: Vec<u32> = list.into_iter().collect();
            let wanted = Wanted::List(list.clone());
            let mut table = Table::with(busy.iter().copied());
            let answer = resolve_request(&dev, 2, &wanted, &mut table);
            let run = list.windows(2).all(|w| w[1] == w[0] + 1);
            let free = list.iter().all(|c| !busy.contains(&(2 * c)) && !busy.contains(&(2 * c + 1)));
            match answer {
                Ok(grant) => {
                    prop_assert!(run && free && list.iter().all(|&c| c < 64));
                    prop_assert_eq!(grant.logical().collect::<Vec<_>>(), list);
                    prop_assert_eq!(Ok(grant.count), wanted.count(&dev, 2));
                    prop_assert_eq!(table.marked(), busy.len() as u32 + 2 * grant.count);
                }
                Err(refusal) => {
                    let expected = match () {
                        () if list.iter().any(|&c| c >= 64) => Status::Invalid,
                        () if !run => Status::Invalid,
                        () => Status::Failure,
                    };
                    prop_assert_eq!(refusal.status(), expected);
                    prop_assert_eq!(table.marked(), busy.len() as u32);
                }
            }
        }
    }
}
