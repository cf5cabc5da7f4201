//! The users of a slot of the handle registry: takes and gives as `handle.rs` does, with one slot.

use loom::{cell::UnsafeCell, sync::Arc, thread};

use crate::{
    sync::{AtomicU64, Mutex, Ordering},
    with_switches,
    word::Word,
};

/// What C callers hold by a handle; the model checker reports an access it does not order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Object {
    name: u64,
    ended: u64,
}

#[derive(Default)]
struct Slot {
    word: Word,
    view: [AtomicU64; 2],
    object: UnsafeCell<Object>,
    /// Whether the registry may give it out; false while there is an object.
    free: Mutex<bool>,
}

// SAFETY: the word says who may reach the object; the model checks just that.
unsafe impl Sync for Slot {}
// SAFETY: plain data.
unsafe impl Send for Slot {}

struct Ref<'a>(&'a Slot);

impl Slot {
    fn show(&self, name: u64) {
        self.view.iter().for_each(|half| half.store(name, Ordering::Relaxed));
    }

    fn create(&self, name: u64) -> Ref<'_> {
        self.word.publish(|| {
            // SAFETY: nobody reaches the object of an empty slot.
            self.object.with_mut(|object| unsafe { (*object).name = name });
            self.show(name);
        });
        Ref(self)
    }

    /// The same where the slot was given back.
    fn reuse(&self, name: u64) -> Option<Ref<'_>> {
        let free = std::mem::take(&mut *self.free.lock());
        free.then(|| self.create(name))
    }

    fn get(&self) -> Option<Ref<'_>> {
        self.word.enter().then(|| Ref(self))
    }

    fn remove(&self) -> Option<Ref<'_>> {
        self.word.hide().then(|| Ref(self))
    }

    fn glance(&self) -> Option<[u64; 2]> {
        self.word.glance(|| [0, 1].map(|half: usize| self.view[half].load(Ordering::Relaxed)))
    }

    fn object(&self) -> Object {
        // SAFETY: for users, who only read; and for the tests when no thread is left.
        self.object.with(|object| unsafe { *object })
    }
}

impl Ref<'_> {
    fn name(&self) -> u64 {
        self.0.object().name
    }
}

impl Clone for Ref<'_> {
    fn clone(&self) -> Self {
        self.0.word.share();
        Ref(self.0)
    }
}

impl Drop for Ref<'_> {
    fn drop(&mut self) {
        let last = self.0.word.leave(|| {
            // SAFETY: nobody else is left.
            self.0.object.with_mut(|object| unsafe { *object = Object { name: 0, ended: (*object).ended + 1 } });
            self.0.show(0);
        });
        if last {
            assert!(!std::mem::replace(&mut *self.0.free.lock(), true), "given back twice");
        }
    }
}

fn slot() -> Arc<Slot> {
    let slot = Arc::new(Slot::default());
    drop(slot.create(7));
    slot
}

fn start<T: 'static>(slot: &Arc<Slot>, body: impl FnOnce(&Slot) -> T + 'static) -> thread::JoinHandle<T> {
    let slot = Arc::clone(slot);
    thread::spawn(move || body(&slot))
}

#[test]
fn of_many_removers_one_wins_and_the_object_goes_once() {
    fn remove(slot: &Slot) -> u64 {
        slot.remove().map_or(0, |object| {
            assert_eq!(object.name(), 7);
            1
        })
    }
    with_switches(2, || {
        let slot = slot();
        let removers = [start(&slot, remove), start(&slot, remove)];
        let ours = remove(&slot);
        assert_eq!(ours + removers.map(|remover| remover.join().unwrap()).iter().sum::<u64>(), 1);
        assert_eq!((slot.object(), *slot.free.lock()), (Object { name: 0, ended: 1 }, true));
    });
}

/// The handle went from thread to thread in a way that orders nothing. The remover waits for it: that
/// a removal from a slot without an object stands before the store that follows it is more than the
/// model checker knows.
#[test]
fn who_finds_or_removes_an_object_finds_it_whole() {
    with_switches(2, || {
        let slot = Arc::new(Slot::default());
        let told = Arc::new(AtomicU64::new(0));
        let tell = Arc::clone(&told);
        let creator = start(&slot, move |slot| {
            drop(slot.create(7));
            tell.store(1, Ordering::Relaxed);
        });
        let finder = start(&slot, |slot| assert!(slot.get().is_none_or(|object| object.name() == 7)));
        if told.load(Ordering::Relaxed) == 1 {
            assert!(slot.remove().is_none_or(|object| object.name() == 7));
        }
        creator.join().unwrap();
        finder.join().unwrap();
    });
}

#[test]
fn an_object_lives_as_long_as_any_of_its_users() {
    fn look(slot: &Slot) {
        if let Some(object) = slot.get() {
            let second = object.clone();
            assert_eq!(object.name(), 7);
            drop(object);
            assert_eq!(second.name(), 7);
        }
    }
    with_switches(2, || {
        let slot = slot();
        let users = [start(&slot, look), start(&slot, look)];
        drop(slot.remove());
        assert!(slot.get().is_none(), "found after its removal");
        users.into_iter().for_each(|user| user.join().unwrap());
        assert_eq!((slot.object(), *slot.free.lock()), (Object { name: 0, ended: 1 }, true));
    });
}

#[test]
fn a_user_never_sees_its_object_become_the_next_one() {
    with_switches(2, || {
        let slot = slot();
        let user = start(&slot, |slot| {
            slot.get().map(|object| {
                let seen = (object.name(), slot.word.generation());
                let second = object.clone();
                drop(object);
                assert_eq!((second.name(), slot.word.generation()), seen);
                seen
            })
        });
        let remover = start(&slot, |slot| slot.remove().is_some_and(|object| object.name() == 7));
        let next = slot.reuse(8).is_some();
        let seen = user.join().unwrap();
        let removed = remover.join().unwrap();
        assert!(removed || next, "the one object, unless it was not there any more");
        if let Some(seen) = seen {
            assert!(seen == (7, 0) || seen == (8, Word::NEXT), "{seen:?}");
        }
    });
}

/// A glance is no user: the object goes and the next one comes in the middle of it, each by another
/// thread.
#[test]
fn a_glance_never_mixes_two_objects() {
    with_switches(2, || {
        let slot = slot();
        let remover = start(&slot, |slot| drop(slot.remove()));
        let glancer = start(&slot, Slot::glance);
        drop(slot.reuse(8));
        let seen = glancer.join().unwrap();
        assert!([None, Some([7; 2]), Some([8; 2])].contains(&seen), "{seen:?}");
        remover.join().unwrap();
    });
}

/// The same when another user than the remover is the last.
#[test]
fn a_glance_never_sees_what_the_last_user_leaves() {
    with_switches(2, || {
        let slot = slot();
        let object = slot.get();
        let remover = start(&slot, |slot| drop(slot.remove()));
        let glancer = start(&slot, Slot::glance);
        drop(object);
        let seen = glancer.join().unwrap();
        assert!([None, Some([7; 2])].contains(&seen), "{seen:?}");
        remover.join().unwrap();
    });
}

#[test]
fn generations_begin_anew_without_an_object() {
    with_switches(2, || {
        let slot = Slot { word: Word(AtomicU64::new((1 << 63) - Word::NEXT)), ..Slot::default() };
        let last = slot.create(7);
        assert_eq!(slot.word.generation(), (1 << 63) - Word::NEXT);
        drop(last);
        drop(slot.remove());
        assert_eq!(slot.word.0.load(Ordering::Relaxed), 0);
        assert!(slot.get().is_none());
    });
}
