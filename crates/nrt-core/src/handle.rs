//! Handles: the addresses a C caller holds in place of objects.
//!
//! A handle is the address of a *view*: plain memory of fixed layout, at the head of a slot this
//! registry owns. Clients that look inside a handle (they read the size of a tensor) find the
//! vendor's layout there. The object itself lies behind the view in the same slot.
//!
//! | question | answer |
//! |---|---|
//! | bogus address | refused by arithmetic on the slot ranges; the address is never followed |
//! | freed twice | the slot is empty: refused |
//! | freed, then looked into by C | slots are never unmapped: reads see zeros, not a fault |
//! | freed, then used | refused until the slot is given out again; that takes at least [`QUARANTINE`] later frees. A bare address has no room for a generation, so beyond that a stale handle names the new object |
//! | cost of [`Registry::get`] | no lock: a range check or two, and one compare-and-swap |
//! | memory | one slot an object; slots come in chunks, and pages of a chunk count once used |
//! | fork | looking up and removing take no lock; the one locked part, the list of free slots, is a [`ForkLocal`]: a child starts with an empty one and leaves the parent's slots unused |

use std::{
    alloc::{Layout, alloc_zeroed, dealloc},
    cell::UnsafeCell,
    collections::VecDeque,
    mem::MaybeUninit,
    ops::Deref,
    ptr,
    sync::{
        Mutex,
        atomic::{AtomicPtr, AtomicUsize, Ordering},
    },
};

use crate::forked::{ForkLocal, lock};
use word::Word;

mod word;

/// How many frees pass at least before the address of a freed handle is given out again.
pub const QUARANTINE: usize = 1024;

/// Slots of the first chunk; every further chunk doubles.
const FIRST: usize = 64;
/// Chunks of a registry: room for about half a billion handles alive at once.
const CHUNKS: usize = 23;

/// Memory a C caller sees behind a handle.
///
/// # Safety
/// All bytes zero must be a valid value, the one an object starts with.
pub unsafe trait View: Send + Sync + 'static {
    /// Back to zeros: the object is gone, the address may be looked at.
    fn clear(&self);
}

/// Something C callers hold by a handle.
pub trait Object: Send + Sync + Sized + 'static {
    /// What lies at the address of the handle.
    type View: View;
}

/// View of an object whose inside is nobody's business.
#[repr(C, align(64))]
pub struct Opaque([u64; 8]);

// SAFETY: plain words.
unsafe impl View for Opaque {
    fn clear(&self) {}
}

/// The view comes first, so its address is the address of the slot. All zero is an empty slot.
#[repr(C)]
struct Slot<T: Object> {
    view: T::View,
    word: Word,
    /// Initialised while the word counts users.
    object: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: the view and the object are shared as their types allow; the word says who may reach the
// object, and only the last user gets it by value.
unsafe impl<T: Object> Sync for Slot<T> {}

/// All objects of one kind that C callers hold. Meant for a `static`.
pub struct Registry<T: Object> {
    chunks: [AtomicPtr<Slot<T>>; CHUNKS],
    /// Chunks that are there.
    made: AtomicUsize,
    /// Slots handed out at least once.
    high: AtomicUsize,
    free: ForkLocal<Mutex<Free<T>>>,
}

/// Slots without an object.
struct Free<T: Object> {
    /// The last ones to become free, oldest first.
    quarantine: VecDeque<&'static Slot<T>>,
    /// Those to use again, warmest last.
    ready: Vec<&'static Slot<T>>,
}

impl<T: Object> Default for Free<T> {
    fn default() -> Self {
        Free { quarantine: VecDeque::new(), ready: Vec::new() }
    }
}

impl<T: Object> Free<T> {
    fn put(&mut self, slot: &'static Slot<T>) {
        self.quarantine.push_back(slot);
        if self.quarantine.len() > QUARANTINE {
            self.ready.extend(self.quarantine.pop_front());
        }
    }
}

impl<T: Object> Registry<T> {
    /// A registry without objects.
    pub const fn new() -> Self {
        Registry {
            chunks: [const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS],
            made: AtomicUsize::new(0),
            high: AtomicUsize::new(0),
            free: ForkLocal::new(),
        }
    }

    /// Make an object around its future view and publish it; the handle is [`Lease::handle`].
    /// `None` when there is no slot for it (then `make` is not called).
    pub fn create(&'static self, make: impl FnOnce(Lease<T>) -> T) -> Option<Ref<T>> {
        let slot = self.reserve()?;
        slot.word.publish(|| {
            // SAFETY: the slot is empty and this thread's alone: nobody enters before it is published.
            unsafe { (*slot.object.get()).write(make(Lease { slot })) };
        });
        Some(Ref { registry: self, slot })
    }

    /// The object behind `handle`; `None` for any address that is not a live handle.
    #[inline]
    pub fn get(&'static self, handle: usize) -> Option<Ref<T>> {
        let slot = self.find(handle)?;
        slot.word.enter().then(|| Ref { registry: self, slot })
    }

    /// What `look` finds in the view of a live handle, for one glance without counting as a user.
    #[inline]
    pub fn glance<R>(&'static self, handle: usize, look: impl Fn(&T::View) -> R) -> Option<R> {
        let Slot { view, word, .. } = self.find(handle)?;
        word.glance(|| look(view))
    }

    /// Take the object behind `handle` out: of any number of callers exactly one gets it.
    pub fn remove(&'static self, handle: usize) -> Option<Ref<T>> {
        let slot = self.find(handle)?;
        slot.word.hide().then(|| Ref { registry: self, slot })
    }

    /// The slot at an address. The newest chunk, as large as all others together, comes first.
    #[inline]
    fn find(&'static self, handle: usize) -> Option<&'static Slot<T>> {
        let size = size_of::<Slot<T>>();
        for chunk in (0..self.made.load(Ordering::Acquire)).rev() {
            let start = self.chunks[chunk].load(Ordering::Relaxed);
            // An address below the chunk wraps to a number beyond its end.
            let inside = handle.wrapping_sub(start.addr());
            if inside < (FIRST << chunk) * size {
                // SAFETY: within the slots of this chunk, which were all zero, a valid empty slot,
                // when they were made and live for ever.
                return inside.is_multiple_of(size).then(|| unsafe { &*start.add(inside / size) });
            }
        }
        None
    }

    fn reserve(&'static self) -> Option<&'static Slot<T>> {
        let used = lock(self.free.get()).ready.pop();
        used.or_else(|| self.fresh())
    }

    fn fresh(&'static self) -> Option<&'static Slot<T>> {
        loop {
            // Acquired, so that who finds this chunk finds those before it.
            let index = self.high.load(Ordering::Acquire);
            let chunk = (index / FIRST + 1).ilog2() as usize;
            let start = self.chunk(chunk)?;
            if self.high.compare_exchange(index, index + 1, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                // SAFETY: the index lies in this chunk; as in `find`.
                return Some(unsafe { &*start.add(index - FIRST * ((1 << chunk) - 1)) });
            }
        }
    }

    /// The slots of a chunk, made at the first need and findable from then on; `None` without memory
    /// for them.
    fn chunk(&'static self, chunk: usize) -> Option<*mut Slot<T>> {
        let known = self.chunks.get(chunk)?.load(Ordering::Acquire);
        let start = if known.is_null() { self.make(chunk)? } else { known };
        // Whoever made it may not have come to this line. Chunks come in order: a slot of this one is
        // asked for when all slots of the others were.
        if self.made.load(Ordering::Relaxed) <= chunk {
            self.made.fetch_max(chunk + 1, Ordering::AcqRel);
        }
        Some(start)
    }

    #[cold]
    fn make(&'static self, chunk: usize) -> Option<*mut Slot<T>> {
        // Zeroed memory with the allocator's own alignment stays untouched until it is used; with
        // the alignment of a slot it would be cleared by hand.
        let slack = align_of::<Slot<T>>();
        let slots = Layout::array::<Slot<T>>(FIRST << chunk).ok()?;
        let whole = Layout::from_size_align(slots.size() + slack, align_of::<usize>()).ok()?;
        // SAFETY: the size is not 0.
        let memory = unsafe { alloc_zeroed(whole) };
        if memory.is_null() {
            return None;
        }
        // SAFETY: less than `slack`, by which the memory is longer than the slots.
        let start: *mut Slot<T> = unsafe { memory.add(memory.align_offset(slack)) }.cast();
        let put = self.chunks[chunk].compare_exchange(ptr::null_mut(), start, Ordering::AcqRel, Ordering::Acquire);
        Some(put.map_or_else(
            |other| {
                // SAFETY: allocated above with this layout and seen by nobody else.
                unsafe { dealloc(memory, whole) };
                other
            },
            |_| start,
        ))
    }
}

impl<T: Object> Default for Registry<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// An object in use. It lives until its handle is removed and the last of these is gone.
pub struct Ref<T: Object> {
    registry: &'static Registry<T>,
    slot: &'static Slot<T>,
}

impl<T: Object> Ref<T> {
    /// With the handle, which object this is: a later one at the same address has another number.
    pub fn generation(&self) -> u64 {
        self.slot.word.generation()
    }
}

impl<T: Object> Deref for Ref<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: initialised, and not taken out before the last user leaves.
        unsafe { (*self.slot.object.get()).assume_init_ref() }
    }
}

impl<T: Object> Clone for Ref<T> {
    fn clone(&self) -> Self {
        self.slot.word.share();
        Ref { ..*self }
    }
}

impl<T: Object> Drop for Ref<T> {
    #[inline]
    fn drop(&mut self) {
        let last = self.slot.word.leave(|| {
            // SAFETY: the last user of an object nobody finds any more.
            unsafe { (*self.slot.object.get()).assume_init_drop() };
            self.slot.view.clear();
        });
        if last {
            lock(self.registry.free.get()).put(self.slot);
        }
    }
}

/// The place of one object in its registry.
pub struct Lease<T: Object> {
    slot: &'static Slot<T>,
}

impl<T: Object> Lease<T> {
    /// The handle, never 0.
    pub fn handle(&self) -> usize {
        ptr::from_ref(&self.slot.view).expose_provenance()
    }
}

impl<T: Object> Deref for Lease<T> {
    type Target = T::View;

    fn deref(&self) -> &T::View {
        &self.slot.view
    }
}

#[cfg(test)]
mod tests;
