//! Memory a device can address: one sparse file per device, mapped in pieces.

use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, RawFd};
use std::ptr::NonNull;

/// An address that lies in no region, or a range that leaves one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{bytes} bytes at device address {address:#x} are outside the device; use an address inside one channel or window"
)]
pub struct BadAddress {
    /// First address.
    pub address: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Host memory as the device reaches it over the bus: pages of a virtual machine, or the pages
/// the software driver allocates ([`HostRam`]).
pub trait HostMemory: Send + Sync {
    /// Address in this process of `bytes` contiguous bytes at bus address `address`. `None` when
    /// any of them is not there. The device uses them only inside the register access that made
    /// it ask; they must stay mapped until that access returns.
    fn slice(&self, address: u64, bytes: u64) -> Option<NonNull<u8>>;
}

/// Bytes of a device's memory, which others may change at any time: no Rust reference to them
/// exists, they are only copied from and to.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    start: NonNull<u8>,
    bytes: usize,
    memory: PhantomData<&'a ()>,
}

impl Piece<'_> {
    /// # Safety
    /// `bytes` bytes at `start` are valid for copies in both directions as long as the piece lives.
    pub(crate) unsafe fn new(start: NonNull<u8>, bytes: usize) -> Self {
        Self { start, bytes, memory: PhantomData }
    }

    /// Address of the first byte in this process; valid for copies of [`Self::len`] bytes in both
    /// directions as long as the piece lives.
    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// `bytes` of its bytes from `at` on.
    ///
    /// # Panics
    /// When they are not inside.
    pub fn part(&self, at: usize, bytes: usize) -> Self {
        assert!(at <= self.bytes && bytes <= self.bytes - at, "a part lies inside");
        // SAFETY: inside the bytes this piece vouches for.
        unsafe { Self::new(self.start.add(at), bytes) }
    }

    /// Copies the first bytes out.
    ///
    /// # Panics
    /// When `out` is longer.
    pub fn read(&self, out: &mut [u8]) {
        let from = self.part(0, out.len());
        // SAFETY: a piece is valid for its length; the target is an exclusive Rust slice, which no
        // piece lies in.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), out.as_mut_ptr(), out.len()) };
    }

    /// Copies over the first bytes.
    ///
    /// # Panics
    /// When `data` is longer.
    pub fn write(&self, data: &[u8]) {
        let to = self.part(0, data.len());
        // SAFETY: as in `read`, with the piece as the target.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), to.as_ptr(), data.len()) };
    }
}

/// Memory that has no address in this process: that of another one, whose pages a driver has made
/// reachable for a device.
pub trait Remote {
    /// Copies from offset `at` on until `to` is full; false when some of it is not there. The rest
    /// may have been copied.
    fn fetch(&self, at: u64, to: Piece<'_>) -> bool;

    /// Copies all of `from` to offset `at`; false when some of it is not there. The rest may have
    /// been copied.
    fn store(&self, at: u64, from: Piece<'_>) -> bool;
}

/// Where such memory is on the bus, for the length of the register access it is given with
/// ([`Silicon::write32_with`](crate::Silicon::write32_with)).
#[derive(Clone, Copy)]
pub struct Window<'a> {
    /// First bus address, without the PCI host base.
    pub address: u64,
    /// Bytes.
    pub bytes: u64,
    /// What is behind it.
    pub memory: &'a dyn Remote,
}

impl Window<'_> {
    /// Offset of a range that lies inside as a whole.
    pub(crate) fn offset(&self, address: u64, bytes: u64) -> Option<u64> {
        let at = address.checked_sub(self.address)?;
        (bytes <= self.bytes.checked_sub(at)?).then_some(at)
    }
}

/// A piece of the space and where it lies in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Placed {
    /// Device-side physical address.
    pub address: u64,
    /// Bytes; 0 leaves it out.
    pub bytes: u64,
    /// Offset in the backing file.
    pub offset: u64,
}

struct Region {
    base: u64,
    bytes: u64,
    offset: u64,
    map: NonNull<u8>,
}

/// The memory of one device, keyed by device-side physical address, which is also the offset in
/// the backing file unless the regions were placed elsewhere. Untouched pages cost nothing.
pub struct AddressSpace {
    file: File,
    regions: Vec<Region>,
}

// SAFETY: the mappings are shared memory that outlives every borrow of the space; all access
// goes through raw copies that carry no Rust reference to the bytes.
unsafe impl Send for AddressSpace {}
// SAFETY: as above; racing accesses are races of the emulated hardware, not of Rust objects.
unsafe impl Sync for AddressSpace {}

impl AddressSpace {
    /// A space with these regions of (address, bytes), which must not overlap.
    ///
    /// # Errors
    /// What memfd, ftruncate or mmap say.
    pub fn new(regions: &[(u64, u64)]) -> io::Result<Self> {
        let place = |&(address, bytes)| Placed { address, bytes, offset: address };
        Self::placed(regions.iter().map(place).collect())
    }

    /// A space with these regions, which must overlap neither in address nor in the file.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn placed(mut regions: Vec<Placed>) -> io::Result<Self> {
        let apart = |regions: &[Placed], start: fn(&Placed) -> u64| {
            regions.windows(2).all(|w| start(&w[0]) + w[0].bytes <= start(&w[1]))
        };
        regions.retain(|r| r.bytes != 0);
        regions.sort_unstable_by_key(|r| r.offset);
        assert!(apart(&regions, |r| r.offset), "regions overlap in the file");
        let end = regions.last().map_or(0, |r| r.offset + r.bytes);
        regions.sort_unstable();
        assert!(apart(&regions, |r| r.address), "regions overlap");
        // SAFETY: a NUL-terminated name and a valid flag; the result is checked.
        let fd: RawFd = unsafe { libc::memfd_create(c"neuron-device".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `fd` was just returned by memfd_create and has no other owner.
        let file = unsafe { File::from_raw_fd(fd) };
        file.set_len(end)?;
        let mut space = Self { file, regions: Vec::with_capacity(regions.len()) };
        for Placed { address: base, bytes, offset } in regions {
            // SAFETY: a fresh shared mapping at an address of the kernel's choice; the length is
            // not 0 and the range lies inside the file.
            let map = unsafe {
                libc::mmap(
                    std::ptr::null_mut(),
                    bytes as usize,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_SHARED | libc::MAP_NORESERVE,
                    fd,
                    offset as libc::off_t,
                )
            };
            let map = match NonNull::new(map.cast::<u8>()) {
                Some(map) if map.as_ptr().cast() != libc::MAP_FAILED => map,
                _ => return Err(io::Error::last_os_error()),
            };
            space.regions.push(Region { base, bytes, offset, map });
        }
        Ok(space)
    }

    /// Address in this process of `bytes` bytes at `address`.
    ///
    /// # Errors
    /// [`BadAddress`] unless the whole range lies in one region.
    pub fn slice(&self, address: u64, bytes: u64) -> Result<NonNull<u8>, BadAddress> {
        let (region, at) = self.find(address, bytes)?;
        // SAFETY: `at` is inside the mapping of `region.bytes` bytes.
        Ok(unsafe { region.map.add(at as usize) })
    }

    /// `bytes` bytes at `address`.
    ///
    /// # Errors
    /// As [`Self::slice`].
    pub fn piece(&self, address: u64, bytes: u64) -> Result<Piece<'_>, BadAddress> {
        let start = self.slice(address, bytes)?;
        // SAFETY: `slice` vouches for the length, and the mapping lives as long as the space.
        Ok(unsafe { Piece::new(start, bytes as usize) })
    }

    /// The region a range lies in, and the bytes before it there.
    fn find(&self, address: u64, bytes: u64) -> Result<(&Region, u64), BadAddress> {
        let bad = BadAddress { address, bytes };
        let next = self.regions.partition_point(|r| r.base <= address);
        let region = self.regions[..next].last().ok_or(bad)?;
        let at = address - region.base;
        if at > region.bytes || bytes > region.bytes - at {
            return Err(bad);
        }
        Ok((region, at))
    }

    /// Copies out of the space.
    ///
    /// # Errors
    /// As [`Self::slice`].
    pub fn read(&self, address: u64, data: &mut [u8]) -> Result<(), BadAddress> {
        self.piece(address, data.len() as u64)?.read(data);
        Ok(())
    }

    /// Copies into the space.
    ///
    /// # Errors
    /// As [`Self::slice`].
    pub fn write(&self, address: u64, data: &[u8]) -> Result<(), BadAddress> {
        self.piece(address, data.len() as u64)?.write(data);
        Ok(())
    }

    /// Fills a range with one byte.
    ///
    /// # Errors
    /// As [`Self::slice`].
    pub fn fill(&self, address: u64, bytes: u64, value: u8) -> Result<(), BadAddress> {
        let to = self.slice(address, bytes)?;
        // SAFETY: `slice` vouches for the length.
        unsafe { std::ptr::write_bytes(to.as_ptr(), value, bytes as usize) };
        Ok(())
    }

    /// Gives the pages of a range back to the system; they read as zeros afterwards. Both ends
    /// must be page aligned.
    ///
    /// # Errors
    /// [`BadAddress`] for a range outside a region; a failing system call leaves the pages.
    pub fn discard(&self, address: u64, bytes: u64) -> Result<(), BadAddress> {
        let (region, at) = self.find(address, bytes)?;
        let offset = region.offset + at;
        if bytes != 0 {
            let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
            use std::os::fd::AsRawFd;
            // SAFETY: plain system call on a file this space owns.
            let done = unsafe { libc::fallocate(self.file.as_raw_fd(), mode, offset as i64, bytes as i64) };
            if done != 0 {
                return self.fill(address, bytes, 0);
            }
        }
        Ok(())
    }

    /// The backing file; an address is its own offset unless the regions were placed elsewhere.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for AddressSpace {
    fn drop(&mut self) {
        for region in &self.regions {
            // SAFETY: mapped by `new` with this length and not handed out beyond `self`.
            unsafe { libc::munmap(region.map.as_ptr().cast(), region.bytes as usize) };
        }
    }
}

/// Host memory that lives in the file of a device, under the PCI host base address.
pub struct HostRam {
    space: std::sync::Arc<AddressSpace>,
    base: u64,
    bytes: u64,
}

impl HostRam {
    pub(crate) fn new(space: std::sync::Arc<AddressSpace>, base: u64, bytes: u64) -> Self {
        Self { space, base, bytes }
    }

    /// Bytes there are, from bus address 0.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The space it lies in; add the PCI host base to a bus address to use it.
    pub fn space(&self) -> &AddressSpace {
        &self.space
    }
}

impl HostMemory for HostRam {
    fn slice(&self, address: u64, bytes: u64) -> Option<NonNull<u8>> {
        if address >= self.bytes {
            return None;
        }
        self.space.slice(self.base + address, bytes).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_far_apart_cost_nothing_and_keep_their_bytes() {
        let space = AddressSpace::new(&[(0x8040_0000_0000, 1 << 36), (0, 1 << 34)]).expect("memfd");
        space.write(0x8040_0000_1000, b"far").expect("inside");
        space.write((1 << 34) - 4, b"near").expect("inside");
        let mut word = [0; 4];
        space.read((1 << 34) - 4, &mut word).expect("inside");
        assert_eq!(&word, b"near");
        space.read(0x8040_0000_0ffe, &mut word).expect("inside");
        assert_eq!(&word, b"\0\0fa");
    }

    #[test]
    fn a_range_that_leaves_its_region_is_refused() {
        let space = AddressSpace::new(&[(0x1000, 0x1000), (0x2000, 0x1000)]).expect("memfd");
        for (address, bytes) in [(0, 1), (0xfff, 2), (0x1fff, 2), (0x3000, 1), (u64::MAX, 1), (0x1000, u64::MAX)] {
            assert_eq!(space.slice(address, bytes).err(), Some(BadAddress { address, bytes }));
        }
        assert!(space.slice(0x3000, 0).is_ok(), "an empty range at the end is a range");
    }

    #[test]
    fn discarded_pages_read_as_zeros() {
        let space = AddressSpace::new(&[(0, 0x4000)]).expect("memfd");
        space.fill(0, 0x4000, 7).expect("inside");
        space.discard(0x1000, 0x2000).expect("inside");
        let mut bytes = [1; 4];
        for (at, value) in [(0xffc, 7), (0x1000, 0), (0x2ffc, 0), (0x3000, 7)] {
            space.read(at, &mut bytes).expect("inside");
            assert_eq!(bytes, [value; 4], "{at:#x}");
        }
    }

    #[test]
    fn placed_regions_lie_in_the_file_where_they_were_put() {
        use std::os::unix::fs::FileExt;
        let high = Placed { address: 0x10_0000_0000, bytes: 0x2000, offset: 0x1000 };
        let space = AddressSpace::placed(vec![high, Placed { address: 0, bytes: 0x1000, offset: 0 }]).expect("memfd");
        space.write(0x10_0000_0004, b"high").expect("inside");
        space.write(0xffc, b"last").expect("inside");
        let file = File::from(space.file().try_clone_to_owned().expect("a descriptor"));
        let mut bytes = [0; 4];
        for (offset, want) in [(0x1004, b"high"), (0xffc, b"last")] {
            file.read_exact_at(&mut bytes, offset).expect("inside");
            assert_eq!(&bytes, want, "{offset:#x}");
        }
        space.discard(0x10_0000_0000, 0x1000).expect("inside");
        file.read_exact_at(&mut bytes, 0x1004).expect("inside");
        assert_eq!(bytes, [0; 4], "the pages of the region, not those at its address, were given back");
        space.read(0xffc, &mut bytes).expect("inside");
        assert_eq!(&bytes, b"last");
    }
}
