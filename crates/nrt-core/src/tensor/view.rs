//! What lies at the address of a tensor handle: the vendor's 192-byte `nrt_tensor_t`.
//!
//! The calls treat it as opaque, but public clients read it (`facts/runtime/tensors.md` section 1,
//! `facts/abi/structs.tsv`), so the offsets are kept and the content is true.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use crate::handle::View;

/// A counter that has its cache line to itself. No padding: clients would see stray bytes of this
/// process in it.
#[derive(Default)]
#[repr(C, align(64))]
pub struct Line(pub AtomicU64, [u64; 7]);

/// The view of a tensor.
#[derive(Default)]
#[repr(C, align(64))]
pub struct TensorView {
    /// Address of the name, a C string; 0 once freed.
    pub name: AtomicUsize,
    /// Identity of the storage, the same for all views of one; 0 for an empty tensor. What it
    /// points to is not the vendor's record.
    pub storage: AtomicUsize,
    /// Where the view begins in its storage, in bytes.
    pub offset: AtomicUsize,
    /// Bytes of the view.
    pub size: AtomicUsize,
    /// Not used.
    pub extra: AtomicUsize,
    reserved: [u64; 3],
    /// 1 while the tensor lives.
    pub ref_count: Line,
    /// How often the tensor was completed as an output.
    pub output_completion_count: Line,
}

// SAFETY: plain words.
unsafe impl View for TensorView {
    fn clear(&self) {
        self.set_span(0, 0, 0);
        self.name.store(0, Relaxed);
        self.ref_count.0.store(0, Relaxed);
        self.output_completion_count.0.store(0, Relaxed);
    }
}

impl TensorView {
    pub(super) fn set_span(&self, storage: usize, offset: usize, size: usize) {
        self.storage.store(storage, Relaxed);
        self.offset.store(offset, Relaxed);
        self.size.store(size, Relaxed);
    }
}

const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<TensorView>() == 192);
    assert!(offset_of!(TensorView, name) == 0);
    assert!(offset_of!(TensorView, storage) == 8);
    assert!(offset_of!(TensorView, offset) == 16);
    assert!(offset_of!(TensorView, size) == 24);
    assert!(offset_of!(TensorView, extra) == 32);
    assert!(offset_of!(TensorView, ref_count) == 64);
    assert!(offset_of!(TensorView, output_completion_count) == 128);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cleared_view_is_all_zeros() {
        let view = TensorView::default();
        view.name.store(1, Relaxed);
        view.set_span(2, 3, 4);
        view.ref_count.0.store(1, Relaxed);
        view.output_completion_count.0.store(5, Relaxed);
        // SAFETY: a live view without padding is 24 readable words.
        let words = || unsafe { std::ptr::from_ref(&view).cast::<[u64; 24]>().read() };
        assert_eq!((&words()[..4], words()[8], words()[16]), (&[1, 2, 3, 4][..], 1, 5));
        view.clear();
        assert_eq!(words(), [0; 24]);
    }
}
