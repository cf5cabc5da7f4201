//! The word of a slot: whether its object can be found, and how many use it.
//!
//! | bits | content |
//! |---|---|
//! | 63 | the object can be found |
//! | 62 to 32 | its generation: how many objects the slot has had before it |
//! | 31 to 0 | its users, the registry itself among them; 0 is an empty slot |
//!
//! The generation begins anew after 2^31 objects of one slot, between which lie 2^41 frees of others
//! ([`QUARANTINE`](super::QUARANTINE)): nobody who compares two generations, least of all a glance, is
//! away that long. The users do not reach 2^32: each is a value in a running call.
//!
//! A child forked while other threads are here sees every change of the word done or not begun.
//! Users that were threads of the parent never leave, so their objects stay; so do the slots that
//! were between two owners.

use crate::sync::{AtomicU64, Ordering, fence};

/// All zero is an empty slot.
#[derive(Default)]
pub(super) struct Word(pub(super) AtomicU64);

impl Word {
    const LIVE: u64 = 1 << 63;
    const USERS: u64 = (1 << 32) - 1;
    pub(super) const NEXT: u64 = 1 << 32;

    /// Let the object that `fill` makes be found, with two users: the registry and the caller. For
    /// the one owner of an empty slot.
    #[inline]
    pub(super) fn publish(&self, fill: impl FnOnce()) {
        // Who glances at what is written now must find the word changed: by the last user of the
        // object before, of whom the lock of the free slots told this thread.
        fence(Ordering::Release);
        fill();
        self.0.store(self.generation() | Self::LIVE | 2, Ordering::Release);
    }

    /// Count one more user of an object that can be found.
    #[inline]
    pub(super) fn enter(&self) -> bool {
        let enter = |word: u64| (word & Self::LIVE != 0).then(|| word + 1);
        // While there is an object every change is a read-modify-write, so whichever this one follows
        // carries on the release in `publish`.
        self.0.fetch_update(Ordering::Acquire, Ordering::Relaxed, enter).is_ok()
    }

    /// Count one more user; the caller is one.
    pub(super) fn share(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Let the object be found no longer; the registry's use becomes the caller's. Does nothing to
    /// an empty slot.
    pub(super) fn hide(&self) -> bool {
        self.0.fetch_and(!Self::LIVE, Ordering::Acquire) & Self::LIVE != 0
    }

    /// Whether this was the last user, who calls `end` to take the object away and may then give the
    /// slot to another owner.
    #[inline]
    pub(super) fn leave(&self, end: impl FnOnce()) -> bool {
        let last = self.0.fetch_sub(1, Ordering::Release) & Self::USERS == 1;
        if last {
            // What the other users did is done before the object goes; and who glances at what is
            // left of it must find that it was hidden.
            fence(Ordering::AcqRel);
            end();
            // The next owner learns of this by the lock of the free slots.
            self.0.store((self.generation() + Self::NEXT) & !Self::LIVE, Ordering::Relaxed);
        }
        last
    }

    /// What `look` finds while the object can be found; never parts of two objects.
    #[inline]
    pub(super) fn glance<R>(&self, look: impl Fn() -> R) -> Option<R> {
        loop {
            let before = self.0.load(Ordering::Acquire);
            if before & Self::LIVE == 0 {
                return None;
            }
            let seen = look();
            fence(Ordering::Acquire);
            // Another number of users is no matter, another object is.
            if (self.0.load(Ordering::Relaxed) ^ before) & !Self::USERS == 0 {
                return Some(seen);
            }
        }
    }

    /// Which object this is of all the slot has had.
    pub(super) fn generation(&self) -> u64 {
        self.0.load(Ordering::Relaxed) & !(Self::LIVE | Self::USERS)
    }
}
