//! Handles that are live, freed, bogus, or used by many at once.

use super::*;
use std::{
    collections::HashSet,
    sync::{Barrier, atomic::AtomicU64},
    thread,
};

#[repr(C, align(64))]
struct Number(AtomicU64);

// SAFETY: a plain word.
unsafe impl View for Number {
    fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

struct Thing {
    view: Lease<Thing>,
    name: u64,
}

impl Object for Thing {
    type View = Number;
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
    assert_eq!(handle, std::ptr::from_ref::<Number>(&object.view).addr());
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
    let word = || registry.find(handle).unwrap().word.0.load(Ordering::Relaxed);
    let left = word();
    assert!(registry.remove(handle).is_none() && registry.get(handle).is_none());
    assert_eq!((word(), left), (Word::NEXT, Word::NEXT), "a refusal leaves no trace");
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
    assert_eq!(thing(registry, 9), first, "the oldest of the quarantine leaves it");
    assert_eq!(registry.high.load(Ordering::Relaxed), QUARANTINE + 1);
}

#[test]
fn a_removed_object_keeps_its_slot_while_a_call_still_uses_it() {
    let registry = registry();
    let object = registry.get(thing(registry, 5)).unwrap();
    registry.remove(object.view.handle());
    assert_eq!(object.view.0.load(Ordering::Relaxed), 5);
    assert!(lock(registry.free.get()).quarantine.is_empty());
    drop(object);
    assert_eq!(lock(registry.free.get()).quarantine.len(), 1);
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
    // With what the threads free, less than the quarantine: no address comes back.
    let handles: Vec<usize> = (0..100).map(|n| thing(registry, n)).collect();
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

#[test]
fn a_glance_sees_live_objects_only_and_never_two_at_once() {
    let registry = registry();
    let glance = |handle| registry.glance(handle, |view| view.0.load(Ordering::Relaxed));
    let handle = thing(registry, 6);
    let object = registry.get(handle).unwrap();
    assert_eq!(glance(handle), Some(6));
    registry.remove(handle);
    assert_eq!((glance(handle), glance(0), glance(handle + 8)), (None, None, None), "not found, though in use");
    assert_eq!(object.view.0.load(Ordering::Relaxed), 6);
}

#[test]
fn the_next_object_of_a_slot_has_another_generation() {
    let registry = registry();
    let first = thing(registry, 1);
    let generation = registry.remove(first).unwrap().generation();
    (0..QUARANTINE).for_each(|_| drop(registry.remove(thing(registry, 2))));
    assert_eq!(thing(registry, 3), first);
    assert_ne!(registry.get(first).unwrap().generation(), generation);
}

// Users come and go while the object is removed and its slot given to others; each object is
// dropped once, by the last of them.
#[test]
fn an_object_goes_once_and_after_its_last_user() {
    static ALIVE: AtomicU64 = AtomicU64::new(0);
    struct Counted(Lease<Counted>, AtomicU64);
    impl Object for Counted {
        type View = Number;
    }
    impl Drop for Counted {
        fn drop(&mut self) {
            assert_eq!(self.1.swap(0, Ordering::Relaxed), 1, "dropped twice");
            ALIVE.fetch_sub(1, Ordering::Relaxed);
        }
    }
    let registry: &'static Registry<Counted> = Box::leak(Box::default());
    let made = || {
        ALIVE.fetch_add(1, Ordering::Relaxed);
        registry.create(|lease| Counted(lease, AtomicU64::new(1))).unwrap().0.handle()
    };
    let handles: Vec<usize> = (0..4).map(|_| made()).collect();
    thread::scope(|scope| {
        for n in 0..4usize {
            let (handles, made) = (&handles, &made);
            scope.spawn(move || {
                for turn in 0..20_000 {
                    if let Some(object) = registry.get(handles[(n + turn) % 4]) {
                        let second = object.clone();
                        drop(object);
                        assert_eq!(second.1.load(Ordering::Relaxed), 1, "used after its end");
                    }
                    // Frees enough to bring every slot back again and again.
                    drop(registry.remove(made()));
                    if turn % 100 == n {
                        drop(registry.remove(handles[n]));
                    }
                }
            });
        }
    });
    handles.into_iter().for_each(|handle| drop(registry.remove(handle)));
    assert_eq!(ALIVE.load(Ordering::Relaxed), 0);
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
            let held = lock(registry.free.get());
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
