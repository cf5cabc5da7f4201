//! Core claims: which process uses which core of the host (`facts/driver/cdev.md`, core claims).
//!
//! One table per module load, whatever the devices. An index is that of the core on the host:
//! cores per device times device number plus the number on the device.

use neuron_abi::kernel::values::MAX_CLAIMS;

use crate::reply::Errno;
use crate::sync::Mutex;

/// 64-bit words of a map of all cores.
pub const MAP_WORDS: usize = MAX_CLAIMS / 64;

/// Cores as a bit map.
pub type Map = [u64; MAP_WORDS];

/// What a claim found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// First core of the run; `None` when nothing was free.
    pub first: Option<usize>,
    /// Longest run among the starts that were tried in vain.
    pub longest_failed: u32,
}

#[derive(Debug)]
struct Table {
    /// Thread group that owns the core, 0 for none.
    owners: [u32; MAX_CLAIMS],
    claimed: usize,
}

/// 512 entries, each free or owned by a thread group.
#[derive(Debug)]
pub struct CoreClaims(Mutex<Table>);

impl Default for CoreClaims {
    fn default() -> Self {
        Self(Mutex::new(Table { owners: [0; MAX_CLAIMS], claimed: 0 }))
    }
}

impl CoreClaims {
    /// Claims `count` cores in a row between `start` and `end`, both included.
    ///
    /// # Errors
    /// `EINVAL` when `start` is behind `end` or one of them is not an index of the table.
    pub fn mark(&self, tgid: u32, count: u32, start: u32, end: u32) -> Result<Claimed, Errno> {
        let (start, end) = (start as usize, end as usize);
        if start > end || end >= MAX_CLAIMS {
            return Err(Errno::EINVAL);
        }
        let mut table = self.0.lock();
        let found = search(&table.owners[..=end], count, start);
        if let Some(first) = found.first {
            table.owners[first..first + count as usize].fill(tgid);
            table.claimed += count as usize;
        }
        Ok(found)
    }

    /// Frees the cores of a process that are in the map.
    pub fn unmark(&self, tgid: u32, map: &Map) {
        let Table { owners, claimed } = &mut *self.0.lock();
        for (i, owner) in owners.iter_mut().enumerate() {
            if *owner == tgid && map[i / 64] >> (i % 64) & 1 != 0 {
                *owner = 0;
                *claimed -= 1;
            }
        }
    }

    /// Frees every core of a process.
    pub fn release_process(&self, tgid: u32) {
        self.unmark(tgid, &[u64::MAX; MAP_WORDS]);
    }

    /// Owner of a core, 0 when it is free.
    pub fn owner(&self, core: usize) -> u32 {
        self.0.lock().owners[core]
    }

    /// Cores that belong to somebody.
    pub fn claimed(&self) -> usize {
        self.0.lock().claimed
    }

    /// Checks what must hold between any two calls.
    ///
    /// # Panics
    /// When it does not.
    pub fn check_invariants(&self) {
        let table = self.0.lock();
        let owned = table.owners.iter().filter(|owner| **owner != 0).count();
        assert_eq!(owned, table.claimed, "every claimed core is counted, and freed once");
    }
}

/// First run of `count` free entries.
///
/// Quirk "claim-search-skip": when a run is cut short at entry `j`, the search goes on at `j + 2`
/// although a run could begin at `j + 1`.
fn search(owners: &[u32], count: u32, start: usize) -> Claimed {
    let mut longest_failed = 0;
    let mut first = start;
    if count == 0 {
        return Claimed { first: Some(start), longest_failed };
    }
    while first < owners.len() {
        let run = owners[first..].iter().take(count as usize).take_while(|owner| **owner == 0).count();
        if run == count as usize {
            return Claimed { first: Some(first), longest_failed };
        }
        longest_failed = longest_failed.max(run as u32);
        first += if run == 0 { 1 } else { run + 2 };
    }
    Claimed { first: None, longest_failed }
}

/// A map moved down by so many bits: from cores of the host to cores behind a device's first.
pub fn shifted_down(map: &Map, bits: usize) -> Map {
    moved(map, |i| i.checked_sub(bits))
}

/// A map moved up by so many bits; what leaves the table is lost.
pub fn shifted_up(map: &Map, bits: usize) -> Map {
    moved(map, |i| Some(i + bits))
}

fn moved(map: &Map, to: impl Fn(usize) -> Option<usize>) -> Map {
    let mut out = Map::default();
    for i in (0..MAX_CLAIMS).filter(|i| map[i / 64] >> (i % 64) & 1 != 0) {
        if let Some(j) = to(i).filter(|j| *j < MAX_CLAIMS) {
            out[j / 64] |= 1 << (j % 64);
        }
    }
    out
}

/// The run a claim marked, as a map.
pub fn run(first: usize, count: u32) -> Map {
    let mut map = Map::default();
    (first..first + count as usize).for_each(|i| map[i / 64] |= 1 << (i % 64));
    map
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn taken_by(owners: &[u32]) -> CoreClaims {
        let claimed = owners.iter().filter(|owner| **owner != 0).count();
        CoreClaims(Mutex::new(Table { owners: owners.try_into().expect("512"), claimed }))
    }

    /// The rule as a person would state it, start by start.
    fn by_hand(owners: &[u32], count: usize, start: usize) -> (Option<usize>, u32) {
        let (mut longest, mut i) = (0, start);
        while i < owners.len() {
            if owners[i] != 0 {
                i += 1;
                continue;
            }
            let mut j = i;
            while j < owners.len() && owners[j] == 0 && j - i < count {
                j += 1;
            }
            if j - i == count {
                return (Some(i), longest);
            }
            longest = longest.max((j - i) as u32);
            i = j + 2;
        }
        (None, longest)
    }

    proptest! {
        #[test]
        fn a_claim_is_the_first_run_the_search_rule_finds(
            taken in prop::collection::vec(0_u32..3, MAX_CLAIMS),
            count in 1_u32..9,
            start in 0_u32..MAX_CLAIMS as u32,
            length in 0_u32..40,
        ) {
            let end = (start + length).min(MAX_CLAIMS as u32 - 1);
            let claims = taken_by(&taken);
            let found = claims.mark(9, count, start, end).expect("in range");
            let (first, longest) = by_hand(&taken[..=end as usize], count as usize, start as usize);
            prop_assert_eq!((found.first, found.longest_failed), (first, longest));
            let mut expected = taken;
            if let Some(first) = first {
                expected[first..first + count as usize].fill(9);
            }
            claims.check_invariants();
            prop_assert_eq!(&claims.0.lock().owners[..], &expected[..]);
        }

        #[test]
        fn unmark_frees_only_what_the_caller_owns(
            taken in prop::collection::vec(0_u32..3, MAX_CLAIMS),
            map in prop::array::uniform8(any::<u64>()),
        ) {
            let claims = taken_by(&taken);
            claims.unmark(1, &map);
            claims.check_invariants();
            for (i, before) in taken.iter().enumerate() {
                let hit = *before == 1 && map[i / 64] >> (i % 64) & 1 != 0;
                prop_assert_eq!(claims.owner(i), if hit { 0 } else { *before });
            }
        }

        #[test]
        fn shifting_up_and_down_gives_back_what_stayed_in_the_table(
            map in prop::array::uniform8(any::<u64>()),
            bits in 0_usize..MAX_CLAIMS,
        ) {
            let back = shifted_down(&shifted_up(&map, bits), bits);
            for i in 0..MAX_CLAIMS {
                let bit = |map: &Map| map[i / 64] >> (i % 64) & 1;
                prop_assert_eq!(bit(&back), if i + bits < MAX_CLAIMS { bit(&map) } else { 0 });
            }
        }
    }

    /// Measured: golden 21.
    #[test]
    fn the_entry_behind_a_cut_run_is_not_tried_as_a_start() {
        let claims = CoreClaims::default();
        claims.mark(1, 1, 1, 1).expect("free");
        assert_eq!(claims.mark(2, 2, 0, 7), Ok(Claimed { first: Some(3), longest_failed: 1 }));
    }

    #[test]
    fn bounds_are_those_of_the_table() {
        let claims = CoreClaims::default();
        for (start, end) in [(1, 0), (512, 512), (0, 512), (u32::MAX, u32::MAX)] {
            assert_eq!(claims.mark(1, 1, start, end), Err(Errno::EINVAL), "{start}..={end}");
        }
        assert_eq!(claims.mark(1, 1, 511, 511).expect("last").first, Some(511));
    }

    #[test]
    fn a_claim_of_nothing_succeeds_and_marks_nothing() {
        let claims = CoreClaims::default();
        assert_eq!(claims.mark(1, 0, 5, 9), Ok(Claimed { first: Some(5), longest_failed: 0 }));
        assert!((0..MAX_CLAIMS).all(|core| claims.owner(core) == 0));
    }
}
