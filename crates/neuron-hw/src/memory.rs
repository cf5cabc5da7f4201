//! Memory a device can address: one sparse file per device, mapped in pieces.

use std::fs::File;
use std::io;
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
    /// Address in this process of `bytes` contiguous bytes at bus address `address`, which stay
    /// mapped as long as the implementor lives. `None` when any of them is not there.
    fn slice(&self, address: u64, bytes: u64) -> Option<NonNull<u8>>;
}

struct Region {
    base: u64,
    bytes: u64,
    map: NonNull<u8>,
}

/// The memory of one device, keyed by device-side physical address, which is also the offset in
/// the backing file. Untouched pages cost nothing.
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
        let mut regions: Vec<_> = regions.iter().copied().filter(|(_, bytes)| *bytes != 0).collect();
        regions.sort_unstable();
        assert!(regions.windows(2).all(|w| w[0].0 + w[0].1 <= w[1].0), "regions overlap");
        let end = regions.last().map_or(0, |(base, bytes)| base + bytes);
        // SAFETY: a NUL-terminated name and a valid flag; the result is checked.
        let fd: RawFd = unsafe { libc::memfd_create(c"neuron-device".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `fd` was just returned by memfd_create and has no other owner.
        let file = unsafe { File::from_raw_fd(fd) };
        file.set_len(end)?;
        let mut space = Self { file, regions: Vec::with_capacity(regions.len()) };
        for (base, bytes) in regions {
            // SAFETY: a fresh shared mapping at an address of the kernel's choice; the length is
            // not 0 and the range lies inside the file.
            let map = unsafe {
                libc::mmap(
                    std::ptr::null_mut(),
                    bytes as usize,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_SHARED | libc::MAP_NORESERVE,
                    fd,
                    base as libc::off_t,
                )
            };
            let map = match NonNull::new(map.cast::<u8>()) {
                Some(map) if map.as_ptr().cast() != libc::MAP_FAILED => map,
                _ => return Err(io::Error::last_os_error()),
            };
            space.regions.push(Region { base, bytes, map });
        }
        Ok(space)
    }

    /// Address in this process of `bytes` bytes at `address`.
    ///
    /// # Errors
    /// [`BadAddress`] unless the whole range lies in one region.
    pub fn slice(&self, address: u64, bytes: u64) -> Result<NonNull<u8>, BadAddress> {
        let bad = BadAddress { address, bytes };
        let next = self.regions.partition_point(|r| r.base <= address);
        let region = self.regions[..next].last().ok_or(bad)?;
        let at = address - region.base;
        if at > region.bytes || bytes > region.bytes - at {
            return Err(bad);
        }
        // SAFETY: `at` is inside the mapping of `region.bytes` bytes.
        Ok(unsafe { region.map.add(at as usize) })
    }

    /// Copies out of the space.
    ///
    /// # Errors
    /// As [`Self::slice`].
    pub fn read(&self, address: u64, data: &mut [u8]) -> Result<(), BadAddress> {
        let from = self.slice(address, data.len() as u64)?;
        // SAFETY: `slice` vouches for the length; the target is an exclusive Rust slice outside
        // of the mapping.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), data.as_mut_ptr(), data.len()) };
        Ok(())
    }

    /// Copies into the space.
    ///
    /// # Errors
    /// As [`Self::slice`].
    pub fn write(&self, address: u64, data: &[u8]) -> Result<(), BadAddress> {
        let to = self.slice(address, data.len() as u64)?;
        // SAFETY: as in `read`, with the mapping as the target.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), to.as_ptr(), data.len()) };
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
        self.slice(address, bytes)?;
        if bytes != 0 {
            let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
            use std::os::fd::AsRawFd;
            // SAFETY: plain system call on a file this space owns.
            let done = unsafe { libc::fallocate(self.file.as_raw_fd(), mode, address as i64, bytes as i64) };
            if done != 0 {
                return self.fill(address, bytes, 0);
            }
        }
        Ok(())
    }

    /// The backing file; an address is its own offset.
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
}
