//! Memory of a device in this process.

use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// A shared mapping; unmapped when dropped.
pub struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
    /// Dropped after the memory is gone: what must outlive it.
    _keep: Option<Box<dyn Send + Sync>>,
}

// SAFETY: the mapping is owned like a box; its bytes are shared with the device and other
// processes anyway and reached as atomics only.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Takes over a mapping that the kernel has just made.
    ///
    /// # Safety
    /// `base` is the start of `bytes` bytes of shared, readable mapped memory nobody else unmaps;
    /// `bytes` is a multiple of a page.
    pub(crate) unsafe fn new(base: NonNull<u8>, bytes: usize, keep: Option<Box<dyn Send + Sync>>) -> Mapping {
        Mapping { base, bytes, _keep: keep }
    }

    /// Address of the first byte.
    pub fn address(&self) -> usize {
        self.base.as_ptr().expose_provenance()
    }

    /// Bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The memory in words of the machine. A store into memory that the process does not own ends
    /// it, as the driver maps that for reading only.
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: mapped, page aligned and readable for `bytes` bytes as long as `self` lives; every
        // bit pattern is a valid word, and all access is atomic.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().cast(), self.bytes / size_of::<AtomicU64>()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped for this value, and `words` borrows it.
        let result = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.bytes) };
        debug_assert!(result.is_ok(), "a mapping that was made can be unmapped");
    }
}
