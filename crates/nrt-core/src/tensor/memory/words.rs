//! Copies in and out of memory that others may change at any moment.
//!
//! Device memory is shared with whoever holds its address: other threads of a careless caller,
//! the caller's own stores through `nrt_tensor_get_va`, engines. So it is a slice of atomic words
//! here and every access is a relaxed one of full width, partial words by compare-and-swap. A
//! race gives mixed bytes, as it does on the hardware, and nothing worse.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const WORD: usize = size_of::<u64>();

/// Copy `out.len()` bytes from byte `offset` on. Panics when the range is outside `words`.
pub fn read(words: &[AtomicU64], offset: usize, out: &mut [u8]) {
    let head = out.len().min(offset.next_multiple_of(WORD) - offset);
    let (head, body) = out.split_at_mut(head);
    if !head.is_empty() {
        head.copy_from_slice(&words[offset / WORD].load(Relaxed).to_ne_bytes()[offset % WORD..][..head.len()]);
    }
    let words = &words[(offset + head.len()).div_ceil(WORD)..];
    let (chunks, tail) = body.as_chunks_mut::<WORD>();
    let (whole, rest) = words.split_at(chunks.len());
    for (chunk, word) in chunks.iter_mut().zip(whole) {
        *chunk = word.load(Relaxed).to_ne_bytes();
    }
    if !tail.is_empty() {
        tail.copy_from_slice(&rest[0].load(Relaxed).to_ne_bytes()[..tail.len()]);
    }
}

/// Copy `data` to byte `offset` on. Panics when the range is outside `words`.
pub fn write(words: &[AtomicU64], offset: usize, data: &[u8]) {
    let (head, body) = data.split_at(data.len().min(offset.next_multiple_of(WORD) - offset));
    if !head.is_empty() {
        merge(&words[offset / WORD], offset % WORD, head);
    }
    let words = &words[(offset + head.len()).div_ceil(WORD)..];
    let (chunks, tail) = body.as_chunks::<WORD>();
    let (whole, rest) = words.split_at(chunks.len());
    for (chunk, word) in chunks.iter().zip(whole) {
        word.store(u64::from_ne_bytes(*chunk), Relaxed);
    }
    if !tail.is_empty() {
        merge(&rest[0], 0, tail);
    }
}

/// Set `len` bytes from byte `offset` on to `value`. Panics when the range is outside `words`.
pub fn fill(words: &[AtomicU64], offset: usize, value: u8, len: usize) {
    let pattern = [value; WORD];
    let head = len.min(offset.next_multiple_of(WORD) - offset);
    if head > 0 {
        merge(&words[offset / WORD], offset % WORD, &pattern[..head]);
    }
    let words = &words[(offset + head).div_ceil(WORD)..];
    let (whole, rest) = words.split_at((len - head) / WORD);
    for word in whole {
        word.store(u64::from_ne_bytes(pattern), Relaxed);
    }
    let tail = (len - head) % WORD;
    if tail > 0 {
        merge(&rest[0], 0, &pattern[..tail]);
    }
}

/// Replace some bytes of one word and leave its neighbours as they are.
fn merge(word: &AtomicU64, at: usize, bytes: &[u8]) {
    let replace = |old: u64| {
        let mut new = old.to_ne_bytes();
        new[at..at + bytes.len()].copy_from_slice(bytes);
        Some(u64::from_ne_bytes(new))
    };
    let _ = word.fetch_update(Relaxed, Relaxed, replace);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BYTES: usize = 64;

    fn image(words: &[AtomicU64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.load(Relaxed).to_ne_bytes()).collect()
    }

    #[test]
    fn every_range_reads_writes_and_fills_as_plain_bytes_do() {
        let start: Vec<u8> = (0..BYTES as u8).collect();
        for offset in 0..=BYTES {
            for len in 0..=BYTES - offset {
                let words: Vec<AtomicU64> = (0..BYTES / WORD).map(|_| AtomicU64::new(0)).collect();
                write(&words, 0, &start);
                let mut out = vec![0; len];
                read(&words, offset, &mut out);
                assert_eq!(out, start[offset..offset + len]);

                let data: Vec<u8> = (0..len as u8).map(|n| n ^ 0xa5).collect();
                let mut expected = start.clone();
                expected[offset..offset + len].copy_from_slice(&data);
                write(&words, offset, &data);
                assert_eq!(image(&words), expected, "write {len} at {offset}");

                expected[offset..offset + len].fill(0x5a);
                fill(&words, offset, 0x5a, len);
                assert_eq!(image(&words), expected, "fill {len} at {offset}");
            }
        }
    }

    proptest! {
        // Two writers of one word each change only their own bytes.
        #[test]
        fn neighbours_in_one_word_do_not_disturb_each_other(split in 1usize..WORD, rounds in 1usize..200) {
            let words = [AtomicU64::new(0)];
            std::thread::scope(|scope| {
                scope.spawn(|| (0..rounds).for_each(|n| fill(&words, 0, n as u8, split)));
                (0..rounds).for_each(|n| fill(&words, split, !(n as u8), WORD - split));
            });
            let last = (rounds - 1) as u8;
            let mut expected = vec![last; split];
            expected.resize(WORD, !last);
            prop_assert_eq!(image(&words), expected);
        }
    }
}
