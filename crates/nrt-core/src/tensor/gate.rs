//! The order of the users of one storage.
//!
//! A plain lock would not do: work queued by one thread is finished by another. And a tensor is
//! small and used often, so whoever need not wait touches one word and nothing else.

use super::Access;
use crate::sync::{AtomicU64, Condvar, Mutex, Ordering, wait};

/// Counts the users of one storage.
#[derive(Default)]
pub struct Gate {
    /// Users in flight, and whether somebody waits: [`Users`] in one word.
    pub(super) users: AtomicU64,
    pub(super) waiting: Mutex<Waiting>,
    changed: Condvar,
}

/// What the word says: bit 63 [`WAITED_FOR`], below it the writers, in the lower half the readers.
/// There is at most one writer that waited for its turn, and any number of queued ones. The numbers
/// have room: each user is a value in a running call or in a queue of bounded depth.
///
/// Every change of the word is a read-modify-write, so that who enters is behind all who left,
/// whatever happened to the word in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Users(pub(super) u64);

/// Somebody waits, or is about to: whoever comes must look who, and whoever leaves must wake them.
pub(super) const WAITED_FOR: u64 = 1 << 63;
pub(super) const READER: u64 = 1;
pub(super) const WRITER: u64 = 1 << 32;

#[derive(Default)]
pub(super) struct Waiting {
    pub(super) all: u32,
    /// Writers in wait keep new readers out, or a stream of readers would starve them.
    writers: u32,
    /// How many writers have got in from here.
    turns: u32,
    /// Readers in wait whom such a writer went before. They keep the next one out, or a stream of
    /// writers would starve them.
    overtaken: u32,
}

impl Waiting {
    /// Whether somebody who came at the turn `came` must let another one who waits go first.
    fn yields(&self, access: Access, came: u32) -> bool {
        match access {
            Access::Read => self.writers > 0 && came == self.turns,
            Access::Write => self.overtaken > 0,
        }
    }

    fn join(&mut self, access: Access) {
        self.all += 1;
        self.writers += u32::from(access == Access::Write);
    }

    fn part(&mut self, access: Access, came: u32) {
        self.all -= 1;
        match access {
            Access::Read => self.overtaken -= u32::from(came != self.turns),
            Access::Write => {
                self.writers -= 1;
                self.turns = self.turns.wrapping_add(1);
                self.overtaken = self.all - self.writers;
            }
        }
    }
}

impl Users {
    pub(super) fn reading(self) -> u64 {
        self.0 & (WRITER - 1)
    }

    pub(super) fn writing(self) -> u64 {
        (self.0 & !WAITED_FOR) / WRITER
    }

    pub(super) fn block(self, access: Access) -> bool {
        self.writing() > 0 || (access == Access::Write && self.reading() > 0)
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
        self.step_in(access, |users| users.0 & WAITED_FOR == 0 && !users.block(access))
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
        waiting.join(access);
        let came = waiting.turns;
        // From here on a user that leaves takes the lock, so it cannot slip through between the look
        // at the word and the wait.
        self.users.fetch_or(WAITED_FOR, Ordering::Relaxed);
        while waiting.yields(access, came) || !self.step_in(access, |users| !users.block(access)) {
            waiting = wait(&self.changed, waiting);
        }
        waiting.part(access, came);
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
