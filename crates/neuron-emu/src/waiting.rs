//! Calls in flight, and what ends them early.
//!
//! The kernel tells once per request that *some* signal is there. Most signals mean nothing to
//! the driver, and no second message follows when a kill comes later, so a call that was
//! interrupted and goes on is looked at again until it ends.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use neuron_kmd::sync::Task;
use neuron_kmd::time::Clock;
use parking_lot::{Condvar, Mutex};

use crate::client;

/// How often an interrupted call that goes on is looked at: there is no event to wait for.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

struct Call {
    tid: u32,
    task: Arc<Task>,
    interrupted: bool,
}

/// Calls in flight by request number.
pub struct Waiting {
    clock: Arc<dyn Clock>,
    calls: Mutex<HashMap<u64, Call>>,
    changed: Condvar,
}

/// A call in flight; dropping it ends the entry.
pub struct Entry<'a> {
    waiting: &'a Waiting,
    unique: u64,
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.waiting.calls.lock().remove(&self.unique);
    }
}

impl Waiting {
    /// No calls; a thread that looks at interrupted ones is started and stays.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn new(clock: Arc<dyn Clock>) -> io::Result<Arc<Self>> {
        let waiting = Arc::new(Self { clock, calls: Mutex::default(), changed: Condvar::new() });
        let watched = waiting.clone();
        std::thread::Builder::new().name("neuron-signals".into()).spawn(move || watched.watch())?;
        Ok(waiting)
    }

    /// Enters a call of a thread.
    pub fn enter(&self, unique: u64, tid: u32, task: Arc<Task>) -> Entry<'_> {
        self.calls.lock().insert(unique, Call { tid, task, interrupted: false });
        Entry { waiting: self, unique }
    }

    /// The kernel says that a signal is there for a request; false when no such call is known
    /// (yet).
    pub fn interrupt(&self, unique: u64) -> bool {
        let mut calls = self.calls.lock();
        let Some(call) = calls.get_mut(&unique) else { return false };
        self.look(call);
        call.interrupted = true;
        drop(calls);
        self.changed.notify_all();
        true
    }

    /// Calls there are now.
    pub fn len(&self) -> usize {
        self.calls.lock().len()
    }

    /// Whether there is no call.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn look(&self, call: &Call) {
        let pending = client::pending_signals(call.tid);
        if pending != 0 {
            call.task.raise(&*self.clock, pending);
        }
    }

    fn watch(&self) {
        let mut calls = self.calls.lock();
        loop {
            let goes_on = |call: &&Call| call.interrupted && !call.task.interrupted();
            if calls.values().any(|call| goes_on(&call)) {
                self.changed.wait_for(&mut calls, LOOK_AGAIN);
            } else {
                self.changed.wait(&mut calls);
            }
            calls.values().filter(goes_on).for_each(|call| self.look(call));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use neuron_kmd::time::RealClock;

    #[test]
    fn a_call_is_interrupted_only_by_what_the_driver_notices() {
        let waiting = Waiting::new(RealClock::new()).expect("a thread");
        let task = Task::new();
        let alive = waiting.enter(4, std::process::id(), task.clone());
        assert!(waiting.interrupt(4), "the call is known");
        assert!(!task.interrupted(), "no signal is pending for this process");
        let gone = Task::new();
        let _gone = waiting.enter(6, u32::MAX >> 1, gone.clone());
        assert!(waiting.interrupt(6));
        assert!(gone.killed(), "a thread that is not there was killed");
        drop(alive);
        assert!(!waiting.interrupt(4), "the call has ended");
        assert_eq!(waiting.len(), 1);
    }
}
