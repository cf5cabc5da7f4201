//! Which parts of a memory are free: best fit, neighbours merged at once.

use std::collections::{BTreeMap, BTreeSet};

/// The free ranges of one memory.
#[derive(Debug, Default)]
pub struct Ranges {
    /// Start to length. Never two that touch.
    by_start: BTreeMap<u64, u64>,
    /// The same as (length, start).
    by_len: BTreeSet<(u64, u64)>,
}

impl Ranges {
    /// One free range.
    pub fn new(start: u64, len: u64) -> Ranges {
        let mut ranges = Ranges::default();
        if len > 0 {
            ranges.insert(start, len);
        }
        ranges
    }

    /// Length of the largest free range.
    pub fn largest(&self) -> u64 {
        self.by_len.last().map_or(0, |&(len, _)| len)
    }

    /// Take `len` > 0 out of the smallest range that has them; the lowest start among equals.
    pub fn take(&mut self, len: u64) -> Option<u64> {
        let &(have, start) = self.by_len.range((len, 0)..).next()?;
        self.remove(start, have);
        if have > len {
            self.insert(start + len, have - len);
        }
        Some(start)
    }

    /// Give a range back that [`Ranges::take`] gave out.
    pub fn give(&mut self, mut start: u64, mut len: u64) {
        if let Some((&before, &have)) = self.by_start.range(..start).next_back()
            && before + have == start
        {
            self.remove(before, have);
            (start, len) = (before, have + len);
        }
        if let Some(&have) = self.by_start.get(&(start + len)) {
            self.remove(start + len, have);
            len += have;
        }
        self.insert(start, len);
    }

    fn insert(&mut self, start: u64, len: u64) {
        self.by_start.insert(start, len);
        self.by_len.insert((len, start));
    }

    fn remove(&mut self, start: u64, len: u64) {
        self.by_start.remove(&start);
        self.by_len.remove(&(len, start));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SIZE: usize = 64;

    /// Lengths of the free runs of a bitmap, with their starts.
    fn runs(used: &[bool; SIZE]) -> Vec<(u64, u64)> {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for (at, used) in used.iter().enumerate().filter(|(_, used)| !**used) {
            let _ = used;
            match runs.last_mut() {
                Some((len, start)) if *start + *len == at as u64 => *len += 1,
                _ => runs.push((1, at as u64)),
            }
        }
        runs
    }

    proptest! {
        #[test]
        fn agrees_with_a_bitmap(ops in prop::collection::vec((any::<bool>(), 1u64..20, any::<prop::sample::Index>()), 1..200)) {
            let mut ranges = Ranges::new(0, SIZE as u64);
            let mut used = [false; SIZE];
            let mut live: Vec<(u64, u64)> = Vec::new();
            for (take, len, pick) in ops {
                if take {
                    let expected = runs(&used).into_iter().filter(|run| run.0 >= len).min().map(|run| run.1);
                    prop_assert_eq!(ranges.take(len), expected);
                    if let Some(start) = expected {
                        used[start as usize..(start + len) as usize].fill(true);
                        live.push((start, len));
                    }
                } else if !live.is_empty() {
                    let (start, len) = live.swap_remove(pick.index(live.len()));
                    used[start as usize..(start + len) as usize].fill(false);
                    ranges.give(start, len);
                }
                let free: Vec<(u64, u64)> = ranges.by_start.iter().map(|(&start, &len)| (len, start)).collect();
                prop_assert_eq!(&free, &runs(&used), "free ranges are merged and complete");
                prop_assert_eq!(ranges.largest(), free.iter().map(|run| run.0).max().unwrap_or(0));
            }
        }
    }
}
