//! Copies in and out of memory that others may change at any moment.
//!
//! Device memory is shared with whoever holds its address: other threads of a careless caller,
//! the caller's own stores through `nrt_tensor_get_va`, engines. So no reference to its bytes is
//! ever made: it is an address and a length, and bytes move by the C library's copy routines, which
//! are handed to the compiler as unknown functions. To it each is a call that reads and writes this
//! memory byte by byte in some order, as relaxed atomic accesses would; what the processor makes of
//! a race is mixed bytes, as on the hardware, and nothing worse. Bytes outside the range are never
//! touched. Words of eight bytes, the careful way in Rust itself, cost three times as much.

use std::{ffi::c_void, hint::black_box};

use super::Bytes;
use crate::Result;

/// A range of bytes nobody has to himself.
#[derive(Clone, Copy)]
pub struct Shared {
    start: *mut u8,
    len: usize,
}

// SAFETY: bytes of the process, reached only through the copies below, which bear company.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// # Safety
    /// The memory must be there, readable and writable, as long as the value is used. Meanwhile nobody
    /// may make a reference to its bytes, but for the buffer of a C caller who gives the address of a
    /// tensor: no byte of that is touched other than by the copies below.
    pub unsafe fn new(start: *mut u8, len: usize) -> Shared {
        Shared { start, len }
    }

    /// How many bytes there are.
    pub fn size(self) -> usize {
        self.len
    }

    /// Where they are.
    pub fn addr(self) -> usize {
        self.start.expose_provenance()
    }

    /// The part of `len` bytes from `offset` on. Panics when it is not inside.
    #[inline]
    pub fn part(self, offset: usize, len: usize) -> Shared {
        let inside = offset.checked_add(len).is_some_and(|end| end <= self.len);
        assert!(inside, "{len} bytes at {offset} of {}", self.len);
        // SAFETY: inside the memory or just behind it.
        Shared { start: unsafe { self.start.add(offset) }, len }
    }

    /// Copy `out.len()` bytes from `offset` on. Panics when they are not inside.
    #[inline]
    pub fn read(self, offset: usize, out: &mut [u8]) {
        let from = self.part(offset, out.len());
        // SAFETY: both have `out.len()` bytes: one by the check above, one by its type.
        unsafe { move_bytes(out.as_mut_ptr(), from.start, from.len) }
    }

    /// Copy `data` to `offset` on. Panics when it does not fit.
    #[inline]
    pub fn write(self, offset: usize, data: &[u8]) {
        let to = self.part(offset, data.len());
        // SAFETY: both have `data.len()` bytes: one by the check above, one by its type.
        unsafe { move_bytes(to.start, data.as_ptr(), to.len) }
    }

    /// Copy all of `from`, of the same length, as if through a third buffer.
    pub fn copy_from(self, from: Shared) {
        assert_eq!(self.len, from.len);
        // SAFETY: both have that many bytes, as found when they were made.
        unsafe { move_bytes(self.start, from.start, self.len) }
    }

    /// Set `len` bytes from `offset` on to `value`. Panics when they are not inside.
    pub fn fill(self, offset: usize, value: u8, len: usize) {
        let to = self.part(offset, len);
        let memset: unsafe extern "C" fn(*mut c_void, i32, usize) -> *mut c_void = black_box(libc::memset);
        // SAFETY: as many bytes as are told.
        unsafe { memset(to.start.cast(), value.into(), to.len) };
    }
}

/// For memory that is there as long as the tensor, such as a buffer of the caller.
impl Bytes for Shared {
    fn size(&self) -> usize {
        self.len
    }

    fn addr(&self) -> Option<usize> {
        Some(Shared::addr(*self))
    }

    fn read_at(&self, offset: usize, out: &mut [u8]) -> Result<()> {
        self.read(offset, out);
        Ok(())
    }

    fn write_at(&self, offset: usize, data: &[u8]) -> Result<()> {
        self.write(offset, data);
        Ok(())
    }

    fn fill(&self, offset: usize, value: u8, len: usize) -> Result<()> {
        Shared::fill(*self, offset, value, len);
        Ok(())
    }
}

/// Copy between ranges that may overlap: a caller may pass the address of a tensor as its buffer.
///
/// # Safety
/// Both must have `len` bytes.
#[inline]
unsafe fn move_bytes(to: *mut u8, from: *const u8, len: usize) {
    let memmove: unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> *mut c_void = black_box(libc::memmove);
    if !is_slow(to.addr(), from.addr(), len) {
        // SAFETY: the caller's promise.
        unsafe { memmove(to.cast(), from.cast(), len) };
        return;
    }
    // Where the destination begins within the source, the first pieces would overwrite what is still to
    // be read. Otherwise a piece overwrites nothing but what it and those before it have read.
    let backwards = to.addr().wrapping_sub(from.addr()) < len;
    for n in 0..len.div_ceil(PIECE) {
        let at = PIECE * if backwards { len.div_ceil(PIECE) - 1 - n } else { n };
        // SAFETY: within the two ranges: `at` is less than `len`, and no piece is longer than what is left.
        unsafe { memmove(to.add(at).cast(), from.add(at).cast(), PIECE.min(len - at)) };
    }
}

/// Largest copy that no C library hands to the processor's own copy instruction.
const PIECE: usize = 1984;

/// Whether the processor's copy instruction, which C libraries use for lengths in between, may crawl:
/// on some processors it takes twenty times as long when the destination begins less than a cache
/// line behind the source in its page, and half as long again when it begins as little before it.
/// Tensors begin at a page and large blocks of malloc 16 bytes behind one, so every read into such a
/// block would be the first case and every write the second (glibc bug 30994, avoided there since
/// 2.39).
#[inline]
fn is_slow(to: usize, from: usize, len: usize) -> bool {
    const PAGE: usize = 4096;
    const LINE: usize = 64;
    let apart = to.wrapping_sub(from) % PAGE;
    len > PIECE && len < 1 << 20 && apart != 0 && !(LINE..=PAGE - LINE).contains(&apart)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::{panic, thread};

    const BYTES: usize = 64;

    /// Memory with a range of it.
    fn memory(image: &[u8]) -> (Vec<std::cell::UnsafeCell<u8>>, Shared) {
        let memory: Vec<_> = image.iter().map(|byte| std::cell::UnsafeCell::new(*byte)).collect();
        let start = memory.as_ptr().cast::<u8>().cast_mut();
        // SAFETY: the caller keeps the vector, whose cells give no references to their bytes.
        let shared = unsafe { Shared::new(start, image.len()) };
        (memory, shared)
    }

    fn image(shared: Shared) -> Vec<u8> {
        let mut out = vec![0; shared.size()];
        shared.read(0, &mut out);
        out
    }

    #[test]
    fn every_range_reads_writes_and_fills_as_plain_bytes_do() {
        let start: Vec<u8> = (0..BYTES as u8).collect();
        for offset in 0..=BYTES {
            for len in 0..=BYTES - offset {
                let (_memory, shared) = memory(&start);
                let mut out = vec![0; len];
                shared.read(offset, &mut out);
                assert_eq!(out, start[offset..offset + len]);

                let data: Vec<u8> = (0..len as u8).map(|n| n ^ 0xa5).collect();
                let mut expected = start.clone();
                expected[offset..offset + len].copy_from_slice(&data);
                shared.write(offset, &data);
                assert_eq!(image(shared), expected, "write {len} at {offset}");

                expected[offset..offset + len].fill(0x5a);
                shared.fill(offset, 0x5a, len);
                assert_eq!(image(shared), expected, "fill {len} at {offset}");

                let mut expected = start.clone();
                expected.copy_within(offset..offset + len, BYTES - len);
                let (_memory, shared) = memory(&start);
                shared.part(BYTES - len, len).copy_from(shared.part(offset, len));
                assert_eq!(image(shared), expected, "copy {len} from {offset}");
            }
        }
    }

    // Both ways of copying, with the two ranges apart and overlapping either way.
    #[test]
    fn ranges_of_every_length_and_distance_move_whole() {
        let start: Vec<u8> = (0..40_000u32).map(|n| (n ^ (n >> 8)) as u8).collect();
        let mut slow = 0;
        for len in [1, PIECE, PIECE + 1, 2 * PIECE, 4096, 9999] {
            for (from, to) in [0, 1, 16, 63, 64, 4096, 4112, 20_016].into_iter().flat_map(|far| [(0, far), (far, 0)]) {
                let (_memory, shared) = memory(&start);
                let mut expected = start.clone();
                expected.copy_within(from..from + len, to);
                shared.part(to, len).copy_from(shared.part(from, len));
                assert!(image(shared) == expected, "{len} from {from} to {to}");
                slow += usize::from(is_slow(to, from, len));
            }
        }
        assert!(slow > 10);
    }

    proptest! {
        // Lengths of up to six pieces and distances of up to two pages, most of them around those that
        // are copied in pieces.
        #[test]
        fn overlapping_ranges_move_as_if_through_a_third_buffer(
            len in 1..6 * PIECE,
            pages in 0..3_usize,
            near in prop_oneof![3 => -70..70_isize, 1 => -2048..2048_isize],
            down: bool,
        ) {
            let far = (4096 * pages).saturating_add_signed(near);
            let (from, to) = if down { (far, 0) } else { (0, far) };
            let mut expected: Vec<u8> = (0..len + far).map(|n| (n ^ (n >> 8)) as u8).collect();
            let (_memory, shared) = memory(&expected);
            expected.copy_within(from..from + len, to);
            shared.part(to, len).copy_from(shared.part(from, len));
            prop_assert!(image(shared) == expected);
        }
    }

    #[test]
    fn a_range_that_is_not_inside_is_refused() {
        let (_memory, shared) = memory(&[0; BYTES]);
        for (offset, len) in [(0, BYTES + 1), (BYTES, 1), (BYTES + 1, 0), (usize::MAX, 1), (1, usize::MAX)] {
            assert!(panic::catch_unwind(|| shared.part(offset, len)).is_err(), "{offset} {len}");
        }
    }

    // Two writers of neighbouring bytes each change only their own.
    #[test]
    fn neighbours_do_not_disturb_each_other() {
        for split in 1..BYTES {
            let (_memory, shared) = memory(&[0; BYTES]);
            thread::scope(|scope| {
                scope.spawn(|| (0..50u8).for_each(|n| shared.fill(0, n, split)));
                (0..50u8).for_each(|n| shared.write(split, &vec![!n; BYTES - split]));
            });
            let mut expected = vec![49; split];
            expected.resize(BYTES, !49);
            assert_eq!(image(shared), expected);
        }
    }
}
