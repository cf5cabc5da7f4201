//! Memory of a virtual machine, as a device reaches it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

use neuron_hw::memory::HostMemory;
use parking_lot::Mutex;

const PAGE: u64 = 4096;

/// Guest memory that was given as files, at its guest-physical addresses.
///
/// Pieces lie in one reserved range of this process, each at its guest-physical address from the
/// start: pieces that touch in the guest touch here too, so a range may go over their seam.
pub struct GuestRam {
    start: NonNull<u8>,
    /// First address of each piece, and the address behind it.
    pieces: Mutex<BTreeMap<u64, u64>>,
}

// SAFETY: the reservation belongs to this value; all access goes through raw copies that carry no
// Rust reference to the bytes.
unsafe impl Send for GuestRam {}
// SAFETY: as above; the bookkeeping has a lock.
unsafe impl Sync for GuestRam {}

impl GuestRam {
    /// Guest-physical addresses end below this: 1 TiB.
    pub const SPAN: u64 = 1 << 40;

    /// No memory yet.
    ///
    /// # Errors
    /// What mmap says.
    pub fn new() -> io::Result<Self> {
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let start = unsafe { reserve(std::ptr::null_mut(), Self::SPAN, 0) }?;
        Ok(Self { start, pieces: Mutex::default() })
    }

    /// Adds `bytes` bytes at guest-physical `address`, which lie at `offset` of `file`.
    ///
    /// # Errors
    /// `InvalidInput` for a range that is not made of pages, is too high, is there already or is
    /// not in the file; otherwise what mmap says.
    pub fn map(&self, file: &File, offset: u64, address: u64, bytes: u64) -> io::Result<()> {
        let bad = |why: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        if bytes == 0 || [offset, address, bytes].iter().any(|n| !n.is_multiple_of(PAGE)) {
            return bad("it is not made of whole pages");
        }
        let Some(end) = address.checked_add(bytes).filter(|end| *end <= Self::SPAN) else {
            return bad("it lies above 1 TiB; give the machine less memory");
        };
        // A page behind the end of its file would kill this process when it is touched.
        if offset.checked_add(bytes).is_none_or(|end| end > file.metadata().map_or(0, |m| m.len())) {
            return bad("its file is too short");
        }
        let mut pieces = self.pieces.lock();
        if pieces.range(..end).next_back().is_some_and(|(_, last)| *last > address) {
            return bad("some of it is there already");
        }
        // SAFETY: the range lies inside the reservation, where nothing is mapped.
        let map = unsafe {
            libc::mmap(
                self.start.add(address as usize).as_ptr().cast(),
                bytes as usize,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_NORESERVE | libc::MAP_FIXED,
                file.as_raw_fd(),
                offset as libc::off_t,
            )
        };
        if map == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        pieces.insert(address, end);
        Ok(())
    }

    /// Takes away every piece that begins in a range. Not to be called while a device works on a
    /// register access.
    ///
    /// # Errors
    /// What mmap says; the pieces that were not reached stay.
    pub fn unmap(&self, address: u64, bytes: u64) -> io::Result<()> {
        let mut pieces = self.pieces.lock();
        let end = address.saturating_add(bytes);
        while let Some((&first, &last)) = pieces.range(address..end).next() {
            // SAFETY: replaces a piece of the reservation that nothing uses any more.
            unsafe { reserve(self.start.add(first as usize).as_ptr(), last - first, libc::MAP_FIXED) }?;
            pieces.remove(&first);
        }
        Ok(())
    }
}

/// Address space without memory.
///
/// # Safety
/// With `MAP_FIXED`, nothing may use the range at `at`.
unsafe fn reserve(at: *mut u8, bytes: u64, fixed: i32) -> io::Result<NonNull<u8>> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | fixed;
    // SAFETY: the caller vouches for the range; without `MAP_FIXED` it is a fresh one.
    let map = unsafe { libc::mmap(at.cast(), bytes as usize, libc::PROT_NONE, flags, -1, 0) };
    match NonNull::new(map.cast::<u8>()) {
        Some(map) if map.as_ptr().cast() != libc::MAP_FAILED => Ok(map),
        _ => Err(io::Error::last_os_error()),
    }
}

impl HostMemory for GuestRam {
    fn slice(&self, address: u64, bytes: u64) -> Option<NonNull<u8>> {
        let end = address.checked_add(bytes)?;
        let pieces = self.pieces.lock();
        let mut reached = *pieces.range(..=address).next_back()?.1;
        if reached <= address {
            return None;
        }
        while reached < end {
            reached = *pieces.get(&reached)?;
        }
        // SAFETY: the range lies inside the reservation.
        Some(unsafe { self.start.add(address as usize) })
    }
}

impl Drop for GuestRam {
    fn drop(&mut self) {
        // SAFETY: reserved by `new` with this length and not handed out beyond `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), Self::SPAN as usize) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(count: u64) -> File {
        let file = tempfile::tempfile().expect("a temporary file can be made");
        file.set_len(count * PAGE).expect("our file");
        file
    }

    #[test]
    fn a_range_may_cross_a_seam_but_not_a_gap() {
        let ram = GuestRam::new().expect("address space");
        let file = pages(4);
        ram.map(&file, 0, 0x1000, 0x1000).expect("in the file");
        ram.map(&file, 0x3000, 0x2000, 0x1000).expect("in the file");
        ram.map(&file, 0x1000, 0x4000, 0x1000).expect("in the file");
        for (address, bytes, there) in [
            (0x1ffc, 8, true),
            (0x1000, 0x2000, true),
            (0x1000, 0x2001, false),
            (0xfff, 2, false),
            (0x3000, 1, false),
            (0x4fff, 1, true),
            (0x5000, 1, false),
            (u64::MAX, 8, false),
        ] {
            assert_eq!(ram.slice(address, bytes).is_some(), there, "{bytes:#x} at {address:#x}");
        }
        let seam = ram.slice(0x1fff, 2).expect("both pieces");
        // SAFETY: two bytes that were vouched for.
        unsafe { seam.cast::<[u8; 2]>().as_ptr().write_unaligned(*b"ab") };
        use std::os::unix::fs::FileExt;
        let mut bytes = [0; 2];
        file.read_exact_at(&mut bytes[..1], 0xfff).expect("in the file");
        file.read_exact_at(&mut bytes[1..], 0x3000).expect("in the file");
        assert_eq!(&bytes, b"ab");
    }

    #[test]
    fn memory_that_was_taken_away_is_gone_and_its_place_is_free() {
        let ram = GuestRam::new().expect("address space");
        let file = pages(2);
        for at in [0x1000, 0x2000, 0x4000] {
            ram.map(&file, 0, at, 0x1000).expect("in the file");
        }
        ram.unmap(0x1000, 0x2000).expect("ours");
        assert!(ram.slice(0x1000, 1).is_none() && ram.slice(0x2000, 1).is_none() && ram.slice(0x4000, 1).is_some());
        ram.map(&file, 0, 0x1000, 0x2000).expect("free again");
        ram.unmap(0, u64::MAX).expect("ours");
        assert!(ram.slice(0x1000, 1).is_none() && ram.slice(0x4000, 1).is_none());
    }

    #[test]
    fn memory_that_cannot_be_had_is_refused() {
        let ram = GuestRam::new().expect("address space");
        let file = pages(2);
        ram.map(&file, 0, 0x2000, 0x2000).expect("in the file");
        for (offset, address, bytes) in [
            (0, 0, 0),
            (0, 0, 1),
            (1, 0, 0x1000),
            (0, 8, 0x1000),
            (0, GuestRam::SPAN, 0x1000),
            (0, u64::MAX - 0xfff, 0x1000),
            (0x1000, 0x8000, 0x2000),
            (u64::MAX - 0xfff, 0x8000, 0x1000),
            (0, 0x1000, 0x2000),
            (0, 0x3000, 0x1000),
        ] {
            let error = ram.map(&file, offset, address, bytes).expect_err("refused");
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{bytes:#x} at {address:#x}");
        }
    }
}
