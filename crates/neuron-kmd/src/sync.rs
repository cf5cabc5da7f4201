//! Locks and sleeping: the only primitives the driver blocks on.
//!
//! A thread of the driver blocks in two ways. [`Mutex`] is for short sections that never sleep:
//! **no lock is held across a call to [`crate::time::Clock::park`]**, which [`WaitQueue`]
//! enforces by taking the guard. Everything longer is a [`WaitQueue`] in the manner of a kernel:
//! the sleeper enters itself under the lock that guards its condition, leaves the lock, parks,
//! and looks again.
//!
//! Parking goes through the clock, so one body of code runs under real threads
//! ([`crate::time::RealClock`]), in virtual time ([`crate::time::VirtualClock`]) and under the
//! schedule explorer (feature `shuttle`, which also swaps the mutex below).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::time::Clock;

#[cfg(not(feature = "shuttle"))]
pub use parking_lot::{Condvar, Mutex, MutexGuard};

#[cfg(feature = "shuttle")]
pub use explored::{Condvar, Mutex, MutexGuard};

/// The explorer's primitives with the signatures of `parking_lot`.
#[cfg(feature = "shuttle")]
mod explored {
    pub use shuttle::sync::MutexGuard;

    /// A mutex of the explorer.
    #[derive(Debug, Default)]
    pub struct Mutex<T>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        /// A mutex that is free.
        pub fn new(value: T) -> Self {
            Self(shuttle::sync::Mutex::new(value))
        }

        /// Takes it.
        pub fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(|e| e.into_inner())
        }
    }

    /// A condition variable of the explorer.
    #[derive(Debug, Default)]
    pub struct Condvar(shuttle::sync::Condvar);

    impl Condvar {
        /// Wakes everybody.
        pub fn notify_all(&self) {
            self.0.notify_all();
        }

        /// Sleeps until woken.
        pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
            self.0.wait(guard).unwrap_or_else(|e| e.into_inner())
        }
    }
}

/// Signals that end a wait of the driver. Only a thread-directed `SIGTERM` counts, not one sent
/// to the process (measured).
pub mod signal {
    /// Kill.
    pub const KILL: u32 = 1 << 0;
    /// Thread-directed terminate.
    pub const TERM: u32 = 1 << 1;
}

#[derive(Debug, Default)]
struct TaskState {
    token: bool,
    pending: u32,
}

/// One thread as the driver sees it: something that sleeps and has pending signals.
///
/// A wake-up is a token that stays until it is used, so none is lost between the moment a
/// sleeper has looked at its condition and the moment it parks.
#[derive(Debug, Default)]
pub struct Task {
    state: Mutex<TaskState>,
    pub(crate) wake: Condvar,
}

impl Task {
    /// A task without pending signals.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Makes a signal of [`signal`] pending and wakes the task.
    pub fn raise(self: &Arc<Self>, clock: &dyn Clock, signal: u32) {
        self.state.lock().pending |= signal;
        clock.unpark(self);
    }

    /// Forgets pending signals other than a kill, as a handler that ran does.
    pub fn handled(&self) {
        self.state.lock().pending &= signal::KILL;
    }

    /// Whether a signal is pending that ends waits.
    pub fn interrupted(&self) -> bool {
        self.state.lock().pending != 0
    }

    /// Whether the task was killed.
    pub fn killed(&self) -> bool {
        self.state.lock().pending & signal::KILL != 0
    }

    /// Uses up the wake-up token.
    pub(crate) fn take_token(&self) -> bool {
        std::mem::take(&mut self.state.lock().token)
    }

    /// Leaves a wake-up token.
    pub(crate) fn give_token(&self) {
        self.state.lock().token = true;
    }

    /// Blocks until a token is there.
    #[cfg(feature = "shuttle")]
    pub(crate) fn explored_sleep(&self) {
        let mut state = self.state.lock();
        while !state.token {
            state = self.wake.wait(state);
        }
        state.token = false;
    }

    /// Sleeps on the task's own condition variable until a token is there or time is up.
    #[cfg(not(feature = "shuttle"))]
    pub(crate) fn sleep(&self, until: Option<std::time::Instant>) {
        let mut state = self.state.lock();
        while !state.token {
            match until {
                None => self.wake.wait(&mut state),
                Some(at) => {
                    if self.wake.wait_until(&mut state, at).timed_out() {
                        break;
                    }
                }
            }
        }
        state.token = false;
    }
}

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// The condition holds.
    Ready,
    /// A fatal signal is pending.
    Interrupted,
    /// The deadline passed.
    TimedOut,
}

/// Sleepers that wait for a change of the data under one mutex.
#[derive(Debug, Default)]
pub struct WaitQueue {
    sleepers: Mutex<VecDeque<Arc<Task>>>,
}

impl WaitQueue {
    /// Sleeps until `ready` says so. The condition is looked at first, and again after each
    /// wake-up; then signals (unless `deaf`), then the deadline.
    ///
    /// Give the guard by value: it is released while asleep.
    pub fn wait<'a, T>(
        &self,
        clock: &dyn Clock,
        task: &Arc<Task>,
        lock: &'a Mutex<T>,
        mut guard: MutexGuard<'a, T>,
        wait: Wait,
        mut ready: impl FnMut(&mut T) -> bool,
    ) -> (MutexGuard<'a, T>, Woken) {
        loop {
            if ready(&mut guard) {
                return (guard, Woken::Ready);
            }
            if if wait.deaf { task.killed() && wait.killable } else { task.interrupted() } {
                return (guard, Woken::Interrupted);
            }
            if wait.deadline.is_some_and(|at| clock.now() >= at) {
                return (guard, Woken::TimedOut);
            }
            self.sleepers.lock().push_back(task.clone());
            drop(guard);
            clock.park(task, wait.deadline);
            self.sleepers.lock().retain(|t| !Arc::ptr_eq(t, task));
            guard = lock.lock();
        }
    }

    /// Wakes every sleeper.
    pub fn wake_all(&self, clock: &dyn Clock) {
        let sleepers: Vec<_> = self.sleepers.lock().iter().cloned().collect();
        for task in sleepers {
            clock.unpark(&task);
        }
    }

    /// Sleepers there are now.
    pub fn len(&self) -> usize {
        self.sleepers.lock().len()
    }

    /// Whether nobody sleeps here.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A lock that may be held while asleep. Who waits for it sleeps too, and is not interrupted.
#[derive(Debug, Default)]
pub struct SleepLock {
    held: Mutex<bool>,
    waiters: WaitQueue,
}

impl SleepLock {
    /// Takes it.
    pub fn lock<'a>(&'a self, clock: &'a dyn Clock) -> SleepGuard<'a> {
        let mut held = self.held.lock();
        if *held {
            let task = Task::new();
            held = self.waiters.wait(clock, &task, &self.held, held, Wait::uninterruptible(), |held| !*held).0;
        }
        *held = true;
        SleepGuard { lock: self, clock }
    }
}

/// Holds a [`SleepLock`].
pub struct SleepGuard<'a> {
    lock: &'a SleepLock,
    clock: &'a dyn Clock,
}

impl Drop for SleepGuard<'_> {
    fn drop(&mut self) {
        *self.lock.held.lock() = false;
        self.lock.waiters.wake_all(self.clock);
    }
}

/// How a wait may end besides its condition.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wait {
    /// Clock time after which it gives up.
    pub deadline: Option<Duration>,
    /// Whether signals are ignored: threads of the driver, and sleeps of a fixed length.
    pub deaf: bool,
    /// Whether a kill ends a deaf wait all the same.
    pub killable: bool,
}

impl Wait {
    /// A wait of a calling process: ended by a kill or a thread-directed terminate.
    pub fn signalled() -> Self {
        Self::default()
    }

    /// A wait of one of the driver's own threads.
    pub fn uninterruptible() -> Self {
        Self { deaf: true, ..Self::default() }
    }

    /// The same wait with an end.
    pub fn until(self, deadline: Duration) -> Self {
        Self { deadline: Some(deadline), ..self }
    }
}
