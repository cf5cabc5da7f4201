//! First-fit allocation of pages from one range, with the alignment arithmetic of the kernel's
//! general purpose pools: an alignment need not be a power of two, and the result then follows
//! from the bit mask, not from a division.

use std::collections::BTreeMap;

/// Granule of every pool, bytes.
pub const PAGE: u64 = 4096;

/// Pages of one range, free or used.
#[derive(Debug)]
pub struct PagePool {
    base: u64,
    pages: u64,
    /// Free runs: first page and length. Never adjacent, never empty.
    free: BTreeMap<u64, u64>,
    free_pages: u64,
}

impl PagePool {
    /// A pool over `bytes` bytes at `base`; a part of a page at the end is left out.
    pub fn new(base: u64, bytes: u64) -> Self {
        let pages = bytes / PAGE;
        let free = if pages == 0 { BTreeMap::new() } else { BTreeMap::from([(0, pages)]) };
        Self { base, pages, free, free_pages: pages }
    }

    /// First address behind the pool.
    pub fn end(&self) -> u64 {
        self.base + self.pages * PAGE
    }

    /// Bytes that are free.
    pub fn free_bytes(&self) -> u64 {
        self.free_pages * PAGE
    }

    /// Whether an address lies in the pool.
    pub fn contains(&self, address: u64) -> bool {
        (self.base..self.end()).contains(&address)
    }

    /// Takes the lowest run of so many pages. An alignment up to a page changes nothing.
    pub fn take(&mut self, pages: u64, align: u64) -> Option<u64> {
        let first = if align <= PAGE {
            self.free.iter().find(|(_, len)| **len >= pages).map(|(first, _)| *first)?
        } else {
            self.find_aligned(pages, align)?
        };
        self.cut(first, pages);
        Some(self.base + first * PAGE)
    }

    /// Takes the run that starts at an address, if all of it is free.
    pub fn take_at(&mut self, address: u64, pages: u64) -> bool {
        let fits = address.checked_sub(self.base).is_some_and(|at| self.holds(at / PAGE, pages));
        if fits {
            self.cut((address - self.base) / PAGE, pages);
        }
        fits
    }

    /// Gives a run back.
    pub fn give(&mut self, address: u64, pages: u64) {
        let (mut first, mut len) = ((address - self.base) / PAGE, pages);
        self.free_pages += pages;
        if let Some((before, n)) =
            self.free.range(..first).next_back().map(|(f, n)| (*f, *n)).filter(|(f, n)| f + n == first)
        {
            self.free.remove(&before);
            (first, len) = (before, len + n);
        }
        if let Some(n) = self.free.remove(&(first + len)) {
            len += n;
        }
        self.free.insert(first, len);
    }

    /// The free run a page lies in.
    fn run_of(&self, page: u64) -> Option<(u64, u64)> {
        let (first, len) = self.free.range(..=page).next_back()?;
        (page < first + len).then_some((*first, *len))
    }

    fn holds(&self, first: u64, pages: u64) -> bool {
        self.run_of(first).is_some_and(|(at, len)| pages <= at + len - first)
    }

    fn find_aligned(&self, pages: u64, align: u64) -> Option<u64> {
        let mask = align.div_ceil(PAGE) - 1;
        let offset = (self.base & (align - 1)) / PAGE;
        let mut start = 0;
        loop {
            let zero = match self.run_of(start) {
                Some(_) => start,
                None => *self.free.range(start..).next()?.0,
            };
            let first = (zero.checked_add(offset)?.checked_add(mask)? & !mask) - offset;
            if first.checked_add(pages)? > self.pages {
                return None;
            }
            match self.run_of(first) {
                Some((at, len)) if pages <= at + len - first => return Some(first),
                // The search goes on behind the first used page.
                Some((at, len)) => start = at + len + 1,
                None => start = first + 1,
            }
        }
    }

    fn cut(&mut self, first: u64, pages: u64) {
        let (at, len) = self.run_of(first).expect("a run that was found free");
        self.free.remove(&at);
        if at < first {
            self.free.insert(at, first - at);
        }
        let (end, taken) = (at + len, first + pages);
        if taken < end {
            self.free.insert(taken, end - taken);
        }
        self.free_pages -= pages;
    }

    /// Checks that free runs are apart from each other, inside the pool and counted.
    ///
    /// # Panics
    /// When they are not.
    pub fn check(&self) {
        let mut end = None;
        let mut sum = 0;
        for (first, len) in &self.free {
            assert!(*len > 0 && end.is_none_or(|e| e < *first), "free runs touch at page {first}");
            end = Some(first + len);
            sum += len;
        }
        assert!(end.is_none_or(|e| e <= self.pages), "a free run leaves its pool");
        assert_eq!(sum, self.free_pages, "free pages miscounted");
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The kernel's search on a plain list of page states.
    fn oracle(used: &[bool], base: u64, pages: u64, align: u64) -> Option<u64> {
        let size = used.len() as u64;
        let (mask, offset) =
            if align <= PAGE { (0, 0) } else { (align.div_ceil(PAGE) - 1, (base & (align - 1)) / PAGE) };
        let mut start = 0;
        loop {
            let zero = (start..size).find(|p| !used[*p as usize])?;
            let first = ((zero + offset + mask) & !mask) - offset;
            if first + pages > size {
                return None;
            }
            match (first..first + pages).find(|p| used[*p as usize]) {
                None => return Some(first),
                Some(p) => start = p + 1,
            }
        }
    }

    proptest! {
        #[test]
        fn placement_is_that_of_a_bitmap_search(
            base in 0_u64..32,
            ops in prop::collection::vec((any::<bool>(), 1_u64..9, prop::sample::select(vec![0, 512, 4096, 8192, 12288, 20480, 65536, 77777])), 1..60),
        ) {
            let base = base * PAGE;
            let mut pool = PagePool::new(base, 64 * PAGE);
            let mut used = vec![false; 64];
            let mut held: Vec<(u64, u64)> = Vec::new();
            for (free, n, align) in ops {
                if free && !held.is_empty() {
                    let (at, n) = held.swap_remove(n as usize % held.len());
                    pool.give(at, n);
                    let first = (at - base) / PAGE;
                    used[first as usize..(first + n) as usize].fill(false);
                } else {
                    let expected = oracle(&used, base, n, align).map(|p| base + p * PAGE);
                    let given = pool.take(n, align);
                    prop_assert_eq!(given, expected);
                    if let Some(at) = given {
                        let first = (at - base) / PAGE;
                        used[first as usize..(first + n) as usize].fill(true);
                        held.push((at, n));
                    }
                }
                pool.check();
                prop_assert_eq!(pool.free_bytes() / PAGE, used.iter().filter(|u| !**u).count() as u64);
            }
        }
    }

    #[test]
    fn a_run_at_a_given_address_is_taken_only_when_all_of_it_is_free() {
        let mut pool = PagePool::new(16 * PAGE, 16 * PAGE);
        assert!(pool.take_at(30 * PAGE, 2));
        assert!(!pool.take_at(29 * PAGE, 2));
        assert!(!pool.take_at(31 * PAGE, 2), "it leaves the pool");
        assert!(!pool.take_at(0, 1), "it lies before the pool");
        assert!(pool.take_at(28 * PAGE, 2));
        pool.give(28 * PAGE, 2);
        pool.give(30 * PAGE, 2);
        assert_eq!(pool.take(16, 0), Some(16 * PAGE));
    }
}
