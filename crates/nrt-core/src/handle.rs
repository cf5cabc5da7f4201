//! Handles: the addresses a C caller holds in place of objects.
//!
//! A handle is the address of a *view*: plain memory of fixed layout, at the head of a slot this
//! registry owns. Clients that look inside a handle (they read the size of a tensor) find the
//! vendor's layout there.
//!
//! | question | answer |
//! |---|---|
//! | bogus address | refused by arithmetic on the slot ranges; the address is never followed |
//! | freed twice | the slot is empty: refused |
//! | freed, then looked into by C | slots are never unmapped: reads see zeros, not a fault |
//! | freed, then used | refused until the slot is given out again; that takes at least [`QUARANTINE`] later frees. A bare address has no room for a generation, so beyond that a stale handle names the new object |
//! | cost of [`Registry::get`] | no lock: a range check, one atomic load and a count |
//! | fork | below |
//!
//! A forked child inherits every lock in the state it had, while the threads that held them are
//! gone. Looking up and removing take no lock. The one locked part, the list of free slots, is a
//! [`ForkLocal`]: a child starts with an empty one and leaves the parent's slots unused.

use std::{
    collections::VecDeque,
    ops::Deref,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use arc_swap::{ArcSwapOption, Guard};
use once_cell::race::OnceBox;

/// How many frees pass at least before the address of a freed handle is given out again.
pub const QUARANTINE: usize = 1024;

/// Slots of the first chunk; every further chunk doubles.
const FIRST: usize = 64;
/// Chunks of a registry: room for about half a billion handles alive at once.
const CHUNKS: usize = 23;

/// Memory a C caller sees behind a handle.
pub trait View: Default + Send + Sync + 'static {
    /// Back to the state of [`Default`]: the object is gone, the address may be looked at.
    fn clear(&self);
}

/// Something C callers hold by a handle.
pub trait Object: Send + Sync + Sized + 'static {
    /// What lies at the address of the handle.
    type View: View;
}

/// View of an object whose inside is nobody's business.
#[derive(Default)]
#[repr(C, align(64))]
pub struct Opaque([u64; 8]);

impl View for Opaque {
    fn clear(&self) {}
}

/// The view comes first, so its address is the address of the slot.
#[repr(C)]
struct Slot<T: Object> {
    view: T::View,
    object: ArcSwapOption<T>,
}

/// All objects of one kind that C callers hold. Meant for a `static`.
pub struct Registry<T: Object> {
    chunks: [OnceBox<Box<[Slot<T>]>>; CHUNKS],
    /// Slots handed out at least once.
    high: AtomicUsize,
    /// Slots to use again, oldest first.
    free: ForkLocal<Mutex<VecDeque<usize>>>,
}

impl<T: Object> Registry<T> {
    /// A registry without objects.
    pub const fn new() -> Self {
        Registry { chunks: [const { OnceBox::new() }; CHUNKS], high: AtomicUsize::new(0), free: ForkLocal::new() }
    }

    /// Make an object around its future view and publish it; the handle is [`Lease::handle`].
    /// `None` when every slot is taken (then `make` is not called).
    pub fn create(&'static self, make: impl FnOnce(Lease<T>) -> T) -> Option<Arc<T>> {
        let index = self.reserve()?;
        let slot = self.slot(index);
        let object = Arc::new(make(Lease { registry: self, index, slot }));
        slot.object.store(Some(Arc::clone(&object)));
        Some(object)
    }

    /// The object behind `handle`; `None` for any address that is not a live handle.
    pub fn get(&self, handle: usize) -> Option<Arc<T>> {
        self.find(handle)?.object.load_full()
    }

    /// Take the object behind `handle` out: of any number of callers exactly one gets it.
    pub fn remove(&self, handle: usize) -> Option<Arc<T>> {
        self.find(handle)?.object.swap(None)
    }

    fn find(&self, handle: usize) -> Option<&Slot<T>> {
        for chunk in self.chunks.iter().map_while(OnceBox::get) {
            // An address below the chunk wraps to a number beyond its end.
            let inside = handle.wrapping_sub(chunk.as_ptr().addr());
            if inside < size_of_val::<[Slot<T>]>(chunk) {
                let size = size_of::<Slot<T>>();
                return inside.is_multiple_of(size).then(|| &chunk[inside / size]);
            }
        }
        None
    }

    fn reserve(&self) -> Option<usize> {
        let free = self.free.get();
        let mut free = lock(&free);
        if free.len() > QUARANTINE {
            return free.pop_front();
        }
        let limit = FIRST * ((1 << CHUNKS) - 1);
        self.high.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| (n < limit).then_some(n + 1)).ok()
    }

    fn slot(&self, index: usize) -> &Slot<T> {
        let chunk = (index / FIRST + 1).ilog2() as usize;
        // Lower chunks first: `find` stops at the first one missing.
        for (k, cell) in self.chunks[..=chunk].iter().enumerate() {
            cell.get_or_init(|| Box::new((0..FIRST << k).map(|_| Slot::new()).collect()));
        }
        let slots = self.chunks[chunk].get().expect("set by the loop above");
        &slots[index - FIRST * ((1 << chunk) - 1)]
    }
}

impl<T: Object> Default for Registry<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Object> Slot<T> {
    fn new() -> Self {
        Slot { view: T::View::default(), object: ArcSwapOption::const_empty() }
    }
}

/// The right of one object to its view. The slot is free again when the object is dropped, which
/// may be later than its removal: calls still running hold it.
pub struct Lease<T: Object> {
    registry: &'static Registry<T>,
    index: usize,
    slot: &'static Slot<T>,
}

impl<T: Object> Lease<T> {
    /// The handle, never 0.
    pub fn handle(&self) -> usize {
        std::ptr::from_ref(&self.slot.view).addr()
    }
}

impl<T: Object> Deref for Lease<T> {
    type Target = T::View;

    fn deref(&self) -> &T::View {
        &self.slot.view
    }
}

impl<T: Object> Drop for Lease<T> {
    fn drop(&mut self) {
        self.slot.view.clear();
        lock(&self.registry.free.get()).push_back(self.index);
    }
}

/// State behind locks that a forked child must not wait for: the first use in a child makes a
/// fresh one. The process is known by its id.
pub struct ForkLocal<T> {
    cell: ArcSwapOption<Own<T>>,
}

/// A value and the process it belongs to.
pub struct Own<T> {
    process: u32,
    value: T,
}

impl<T: Default> ForkLocal<T> {
    /// No state yet.
    pub const fn new() -> Self {
        ForkLocal { cell: ArcSwapOption::const_empty() }
    }

    /// The state of this process.
    pub fn get(&self) -> Arc<Own<T>> {
        let process = std::process::id();
        loop {
            let current = self.cell.load();
            if let Some(own) = current.as_ref().filter(|own| own.process == process) {
                return Arc::clone(own);
            }
            let fresh = Some(Arc::new(Own { process, value: T::default() }));
            let before = self.cell.compare_and_swap(&current, fresh.clone());
            if let (Some(fresh), true) = (fresh, same(&before, &current)) {
                return fresh;
            }
        }
    }
}

impl<T: Default> Default for ForkLocal<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Deref for Own<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

fn same<T>(a: &Guard<Option<Arc<T>>>, b: &Guard<Option<Arc<T>>>) -> bool {
    a.as_ref().map(Arc::as_ptr) == b.as_ref().map(Arc::as_ptr)
}

/// Lock, whether or not an earlier holder panicked: every critical section of these rooms leaves
/// its data whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        collections::HashSet,
        sync::{Barrier, atomic::AtomicU64},
        thread,
    };

    #[derive(Default)]
    #[repr(C, align(64))]
    struct Word(AtomicU64);

    impl View for Word {
        fn clear(&self) {
            self.0.store(0, Ordering::Relaxed);
        }
    }

    struct Thing {
        view: Lease<Thing>,
        name: u64,
    }

    impl Object for Thing {
        type View = Word;
    }

    fn registry() -> &'static Registry<Thing> {
        Box::leak(Box::default())
    }

    fn thing(registry: &'static Registry<Thing>, name: u64) -> usize {
        let make = |view: Lease<Thing>| {
            view.0.store(name, Ordering::Relaxed);
            Thing { view, name }
        };
        registry.create(make).unwrap().view.handle()
    }

    #[test]
    fn a_handle_is_the_aligned_address_of_the_view() {
        let registry = registry();
        let handle = thing(registry, 7);
        let object = registry.get(handle).unwrap();
        assert_eq!(handle, std::ptr::from_ref::<Word>(&object.view).addr());
        assert!(handle != 0 && handle.is_multiple_of(64));
        assert_eq!((object.name, object.view.0.load(Ordering::Relaxed)), (7, 7));
    }

    #[test]
    fn bogus_and_freed_handles_are_refused() {
        let registry = registry();
        let handle = thing(registry, 1);
        let on_stack = 0u64;
        let bogus =
            [0, 1, usize::MAX, handle + 1, handle + 64, handle.wrapping_sub(128), std::ptr::from_ref(&on_stack).addr()];
        for address in bogus {
            assert!(registry.get(address).is_none() && registry.remove(address).is_none(), "{address:#x}");
        }
        assert!(registry.remove(handle).is_some());
        assert!(registry.remove(handle).is_none() && registry.get(handle).is_none());
    }

    #[test]
    fn an_address_comes_back_only_after_the_quarantine_and_cleared() {
        let registry = registry();
        let first = thing(registry, 1);
        let view = registry.remove(first).unwrap().view.slot;
        assert_eq!(view.view.0.load(Ordering::Relaxed), 0);
        for n in 0..QUARANTINE {
            let next = thing(registry, n as u64);
            assert_ne!(next, first);
            registry.remove(next);
        }
        assert_eq!(thing(registry, 9), first, "the oldest free slot comes first");
        assert_eq!(registry.high.load(Ordering::Relaxed), QUARANTINE + 1);
    }

    #[test]
    fn a_removed_object_keeps_its_slot_while_a_call_still_uses_it() {
        let registry = registry();
        let object = registry.get(thing(registry, 5)).unwrap();
        registry.remove(object.view.handle());
        assert_eq!(object.view.0.load(Ordering::Relaxed), 5);
        assert!(lock(&registry.free.get()).is_empty());
        drop(object);
        assert_eq!(lock(&registry.free.get()).len(), 1);
    }

    #[test]
    fn handles_of_all_chunks_stay_distinct_and_found() {
        let registry = registry();
        let handles: Vec<usize> = (0..5000).map(|n| thing(registry, n)).collect();
        assert_eq!(handles.iter().collect::<HashSet<_>>().len(), handles.len());
        for (n, handle) in handles.iter().enumerate() {
            assert_eq!(registry.get(*handle).unwrap().name, n as u64);
        }
    }

    #[test]
    fn of_many_threads_exactly_one_removes() {
        let registry = registry();
        let handles: Vec<usize> = (0..200).map(|n| thing(registry, n)).collect();
        let won = AtomicUsize::new(0);
        let start = Barrier::new(8);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    start.wait();
                    for (n, handle) in handles.iter().enumerate() {
                        if let Some(object) = registry.get(*handle) {
                            assert_eq!(object.name, n as u64);
                        }
                        won.fetch_add(usize::from(registry.remove(*handle).is_some()), Ordering::Relaxed);
                        registry.remove(thing(registry, 1_000_000));
                    }
                });
            }
        });
        assert_eq!(won.into_inner(), handles.len());
    }

    // B07: a child frees and looks up handles although another thread of the parent held the
    // registry's lock when it forked.
    #[test]
    fn a_forked_child_never_waits_for_a_lock_of_the_parent() {
        let registry = registry();
        let handle = thing(registry, 3);
        let gates = (Barrier::new(2), Barrier::new(2));
        thread::scope(|scope| {
            scope.spawn(|| {
                let free = registry.free.get();
                let held = lock(&free);
                gates.0.wait();
                gates.1.wait();
                drop(held);
            });
            gates.0.wait();
            // SAFETY: the child calls nothing but this registry, the allocator (which glibc keeps
            // usable across fork) and `_exit`.
            let child = unsafe { libc::fork() };
            if child == 0 {
                // SAFETY: plain system call; ends the child should it hang after all.
                unsafe { libc::alarm(60) };
                let found = registry.get(handle).is_some();
                let removed = registry.remove(handle).is_some();
                let made = registry.get(thing(registry, 4)).is_some();
                // SAFETY: leaves without running the parent's exit handlers a second time.
                unsafe { libc::_exit(if found && removed && made { 0 } else { 1 }) };
            }
            let mut status = -1;
            // SAFETY: waits for the child made above and writes to a live local.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            gates.1.wait();
            assert_eq!(status, 0);
        });
        assert!(registry.get(handle).is_some(), "the parent's handle is untouched");
    }
}
