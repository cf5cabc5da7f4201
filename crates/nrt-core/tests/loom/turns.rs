//! The turns of the users of one storage.

use loom::{cell::UnsafeCell, sync::Arc, thread};
use nrt_core::tensor::Access::{self, Read, Write};

use crate::{gate::Gate, sync::Ordering, with_switches};

/// Bytes behind a gate; the model checker reports an access it does not order, and a thread that
/// nobody wakes as a deadlock.
#[derive(Default)]
struct Storage {
    gate: Gate,
    writes: UnsafeCell<u64>,
}

// SAFETY: the gate says who may use the bytes; the model checks just that.
unsafe impl Sync for Storage {}
// SAFETY: plain data.
unsafe impl Send for Storage {}

impl Storage {
    fn touch(&self, access: Access) {
        match access {
            // SAFETY: writers are alone; the model checks it.
            Write => self.writes.with_mut(|writes| unsafe { *writes += 1 }),
            // SAFETY: nobody writes.
            Read => self.writes.with(|writes| assert!(unsafe { *writes } < 4)),
        }
    }

    fn take_turn(&self, access: Access) {
        self.gate.enter(access);
        self.touch(access);
        self.gate.leave(access);
    }

    /// Nobody uses it, and who comes next takes the short way.
    fn assert_idle(&self) {
        assert_eq!((self.gate.census(), self.gate.users.load(Ordering::Relaxed)), ((0, 0, 0), 0));
    }
}

fn start(storage: &Arc<Storage>, access: Access) -> thread::JoinHandle<()> {
    let storage = Arc::clone(storage);
    thread::spawn(move || storage.take_turn(access))
}

fn all_take_turns(switches: usize, others: &'static [Access], ours: Access) {
    with_switches(switches, move || {
        let storage = Arc::new(Storage::default());
        let threads: Vec<_> = others.iter().map(|access| start(&storage, *access)).collect();
        storage.take_turn(ours);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        storage.assert_idle();
    });
}

#[test]
fn two_writers_are_alone_and_none_is_forgotten() {
    all_take_turns(5, &[Write], Write);
}

#[test]
fn a_writer_and_a_reader_are_apart_and_none_is_forgotten() {
    all_take_turns(5, &[Write], Read);
}

#[test]
fn writers_and_a_reader_all_get_their_turn() {
    all_take_turns(2, &[Write, Read], Write);
}

#[test]
fn readers_and_a_writer_all_get_their_turn() {
    all_take_turns(2, &[Read, Read], Write);
}

#[test]
fn readers_share_and_queued_users_wait_for_nobody() {
    with_switches(3, || {
        let storage = Arc::new(Storage::default());
        storage.gate.enter(Read);
        start(&storage, Read).join().unwrap();
        storage.gate.leave(Read);

        storage.gate.enter(Write);
        let queue = Arc::clone(&storage);
        let queued = thread::spawn(move || [Read, Write].map(|access| queue.gate.count(access)));
        queued.join().unwrap();
        [Write, Write, Read].into_iter().for_each(|access| storage.gate.leave(access));
        storage.assert_idle();
    });
}

/// Users in flight leave in any order while others come to wait for them.
#[test]
fn whoever_leaves_last_wakes_all_who_wait() {
    for order in [[Read, Write], [Write, Read]] {
        with_switches(2, move || {
            let storage = Arc::new(Storage::default());
            order.into_iter().for_each(|access| storage.gate.count(access));
            let waiters = [start(&storage, Read), start(&storage, Write)];
            order.into_iter().for_each(|access| storage.gate.leave(access));
            waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
            storage.assert_idle();
        });
    }
}

/// A writer went before the reader; the next one waits for it, and gets in as well.
#[test]
fn writers_get_in_behind_a_reader_that_was_overtaken() {
    with_switches(1, || {
        let storage = Arc::new(Storage::default());
        storage.gate.enter(Write);
        let waiters = [Read, Write, Write].map(|access| start(&storage, access));
        storage.gate.leave(Write);
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
        storage.assert_idle();
    });
}

/// A reader that meets a writer in wait waits behind it, and gets in when it is through.
#[test]
fn a_writer_in_wait_keeps_new_readers_out_but_not_for_ever() {
    with_switches(2, || {
        let storage = Arc::new(Storage::default());
        storage.gate.enter(Read);
        let waiters = [start(&storage, Write), start(&storage, Read)];
        let writers_wait = storage.gate.census().2 > 0;
        if writers_wait {
            assert!(!storage.gate.try_enter(Read));
        }
        storage.gate.leave(Read);
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
        storage.assert_idle();
    });
}
