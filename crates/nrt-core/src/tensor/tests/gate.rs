//! The order of the users of one storage, on real threads; `tests/loom/gate.rs` has all interleavings.

use std::{
    sync::{
        Barrier,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

use super::super::{
    Access,
    gate::{Gate, READER, Users, WAITED_FOR, WRITER},
};

#[test]
fn reads_wait_for_writes_and_writes_for_everybody() {
    let table = [
        // reading, writing: a read waits, a write waits
        ((0, 0), false, false),
        ((2, 0), false, true),
        ((0, 1), true, true),
        ((0, 2), true, true),
        ((1, 1), true, true),
    ];
    for ((reading, writing), read, write) in table {
        for flag in [0, WAITED_FOR] {
            let users = Users(flag | (writing * WRITER + reading * READER));
            assert_eq!((users.reading(), users.writing()), (reading, writing));
            let block = |access| users.block(access);
            assert_eq!((block(Access::Read), block(Access::Write)), (read, write), "{reading} {writing}");
        }
    }
}

/// Start these one after the other behind a writer, let it leave, and tell the order they got in.
fn order_behind_a_writer(waiters: &[Access]) -> Vec<Access> {
    let (gate, order) = (Gate::default(), parking_lot::Mutex::new(Vec::new()));
    gate.enter(Access::Write);
    thread::scope(|scope| {
        for (before, access) in waiters.iter().copied().enumerate() {
            let (gate, order) = (&gate, &order);
            scope.spawn(move || {
                gate.enter(access);
                order.lock().push(access);
                gate.leave(access);
            });
            while gate.waiting.lock().all as usize == before {
                thread::yield_now();
            }
        }
        gate.leave(Access::Write);
    });
    assert_eq!(gate.users.into_inner(), 0);
    order.into_inner()
}

#[test]
fn a_reader_that_waits_is_overtaken_by_one_writer_at_most() {
    use Access::{Read, Write};
    for waiters in [[Read, Write, Write, Write], [Write, Write, Read, Write], [Write, Write, Write, Read]] {
        let order = order_behind_a_writer(&waiters);
        assert_eq!(order, [Write, Read, Write, Write], "{waiters:?}");
    }
}

#[test]
fn writers_are_alone_and_nobody_is_forgotten() {
    let gate = Gate::default();
    let (readers, writers) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let start = Barrier::new(8);
    thread::scope(|scope| {
        for n in 0..8 {
            let (gate, readers, writers, start) = (&gate, &readers, &writers, &start);
            scope.spawn(move || {
                start.wait();
                for turn in 0..5000 {
                    let (access, mine) =
                        if (n + turn) % 3 == 0 { (Access::Write, writers) } else { (Access::Read, readers) };
                    gate.enter(access);
                    mine.fetch_add(1, Ordering::Relaxed);
                    let (reading, writing) = (readers.load(Ordering::Relaxed), writers.load(Ordering::Relaxed));
                    match access {
                        Access::Read => assert_eq!(writing, 0),
                        Access::Write => assert_eq!((reading, writing), (0, 1)),
                    }
                    if turn % 7 == 0 {
                        thread::yield_now();
                    }
                    mine.fetch_sub(1, Ordering::Relaxed);
                    gate.leave(access);
                }
            });
        }
    });
    // Nobody waits, so the next one takes the short way again.
    assert_eq!(gate.users.into_inner(), 0);
}

#[test]
fn a_stream_of_readers_lets_a_writer_in() {
    let gate = Gate::default();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    gate.enter(Access::Read);
                    thread::yield_now();
                    gate.leave(Access::Read);
                }
            });
        }
        for _ in 0..20 {
            gate.enter(Access::Write);
            gate.leave(Access::Write);
        }
        done.store(true, Ordering::Relaxed);
    });
}
