//! A value that is computed by whoever asks first and then never changes.

use crate::sync::{AtomicPtr, Ordering};
use std::ptr;

/// Holds nothing, then one value for the rest of its life.
///
/// Nobody waits for anybody: threads that race compute a copy each, one compare-and-swap decides
/// whose stays, and the losers free theirs.
pub struct Publish<T> {
    slot: AtomicPtr<T>,
}

impl<T> Publish<T> {
    /// An empty cell over `slot`, which is null.
    pub const fn over(slot: AtomicPtr<T>) -> Publish<T> {
        Publish { slot }
    }

    /// The published value.
    pub fn get(&self) -> Option<&T> {
        // SAFETY: the slot is null or a pointer from Box::into_raw that is never replaced and lives
        // as long as the cell. Acquire pairs with the release of the compare-and-swap, so the
        // pointee is seen whole.
        unsafe { self.slot.load(Ordering::Acquire).as_ref() }
    }

    /// Publish `value` unless another one was faster; the answer is the one that stayed.
    pub fn publish(&self, value: T) -> &T {
        let ours = Box::into_raw(Box::new(value));
        match self.slot.compare_exchange(ptr::null_mut(), ours, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: from Box::into_raw above, and from now on never replaced.
            Ok(_) => unsafe { &*ours },
            Err(winner) => {
                // SAFETY: from Box::into_raw above, and no other thread has seen it.
                drop(unsafe { Box::from_raw(ours) });
                // SAFETY: a slot that is not null holds a value that is never replaced; the failed
                // exchange acquired it.
                unsafe { &*winner }
            }
        }
    }

    /// The published value, or what `compute` makes of it. A failure leaves the cell empty.
    pub fn get_or_try<E>(&self, compute: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        match self.get() {
            Some(value) => Ok(value),
            None => compute().map(|value| self.publish(value)),
        }
    }
}

impl<T> Drop for Publish<T> {
    fn drop(&mut self) {
        let value = self.slot.load(Ordering::Acquire);
        if !value.is_null() {
            // SAFETY: from Box::into_raw, and `&mut self` proves that no borrow of it is left.
            drop(unsafe { Box::from_raw(value) });
        }
    }
}
