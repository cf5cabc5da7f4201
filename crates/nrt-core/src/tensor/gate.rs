//! The order of the users of one storage.
//!
//! A plain lock would not do: work queued by one thread is finished by another. And a tensor is
//! small and used often, so whoever need not wait touches one word and nothing else.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Condvar, Mutex};

use super::Access;

/// Counts the users of one storage.
#[derive(Default)]
pub struct Gate {
    /// Users in flight, and whether somebody waits: [`Users`] in one word.
    users: AtomicU64,
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

/// What the word says: bit 63 [`WAITED_FOR`], below it the writers, in the lower half the readers.
/// There is at most one writer that waited for its turn, and any number of queued ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Users(u64);

/// Somebody waits, or is about to: whoever comes must look who, and whoever leaves must wake them.
const WAITED_FOR: u64 = 1 << 63;
const READER: u64 = 1;
const WRITER: u64 = 1 << 32;

#[derive(Default)]
struct Waiting {
    all: u32,
    /// Writers in wait keep new readers out, or a stream of readers would starve them.
    writers: u32,
}

impl Users {
    fn reading(self) -> u64 {
        self.0 & (WRITER - 1)
    }

    fn writing(self) -> u64 {
        (self.0 & !WAITED_FOR) / WRITER
    }

    fn block(self, access: Access, writers_waiting: u32) -> bool {
        self.writing() > 0
            || match access {
                Access::Read => writers_waiting > 0,
                Access::Write => self.reading() > 0,
            }
    }
}

fn one(access: Access) -> u64 {
    match access {
        Access::Read => READER,
        Access::Write => WRITER,
    }
}

impl Gate {
    /// Wait for the turn.
    #[inline]
    pub fn enter(&self, access: Access) {
        if !self.try_enter(access) {
            self.enter_behind(access);
        }
    }

    /// Count as a user if nobody is in the way.
    #[inline]
    pub fn try_enter(&self, access: Access) -> bool {
        self.step_in(access, |users| users.0 & WAITED_FOR == 0 && !users.block(access, 0))
    }

    /// Count as a user if the others allow it.
    #[inline]
    fn step_in(&self, access: Access, may: impl Fn(Users) -> bool) -> bool {
        let add = |word| may(Users(word)).then_some(word + one(access));
        self.users.fetch_update(Ordering::Acquire, Ordering::Relaxed, add).is_ok()
    }

    #[cold]
    fn enter_behind(&self, access: Access) {
        let mut waiting = self.waiting.lock();
        waiting.all += 1;
        waiting.writers += u32::from(access == Access::Write);
        // From here on a user that leaves takes the lock, so it cannot slip through between the look
        // at the word and the wait.
        self.users.fetch_or(WAITED_FOR, Ordering::Relaxed);
        while !self.step_in(access, |users| !users.block(access, waiting.writers)) {
            self.changed.wait(&mut waiting);
        }
        waiting.all -= 1;
        waiting.writers -= u32::from(access == Access::Write);
        if waiting.all == 0 {
            self.users.fetch_and(!WAITED_FOR, Ordering::Relaxed);
        }
    }

    /// Count as a user without waiting.
    pub fn count(&self, access: Access) {
        self.users.fetch_add(one(access), Ordering::Acquire);
    }

    /// End a use, on any thread.
    #[inline]
    pub fn leave(&self, access: Access) {
        if self.users.fetch_sub(one(access), Ordering::Release) & WAITED_FOR != 0 {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        drop(self.waiting.lock());
        self.changed.notify_all();
    }

    /// Readers and writers in flight, and writers in wait.
    #[cfg(test)]
    pub fn census(&self) -> (u64, u64, u32) {
        let users = Users(self.users.load(Ordering::Relaxed));
        (users.reading(), users.writing(), self.waiting.lock().writers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        sync::{
            Barrier,
            atomic::{AtomicBool, AtomicUsize},
        },
        thread,
    };

    #[test]
    fn reads_wait_for_writes_and_writes_for_everybody() {
        let table = [
            // reading, writing, writers waiting: a read waits, a write waits
            ((0, 0, 0), false, false),
            ((2, 0, 0), false, true),
            ((0, 1, 0), true, true),
            ((0, 2, 0), true, true),
            ((1, 0, 1), true, true),
            ((0, 0, 1), true, false),
        ];
        for ((reading, writing, writers_waiting), read, write) in table {
            for flag in [0, WAITED_FOR] {
                let users = Users(flag | (writing * WRITER + reading * READER));
                assert_eq!((users.reading(), users.writing()), (reading, writing));
                let block = |access| users.block(access, writers_waiting);
                assert_eq!((block(Access::Read), block(Access::Write)), (read, write), "{reading} {writing}");
            }
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
}
