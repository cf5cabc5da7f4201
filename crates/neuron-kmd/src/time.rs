//! Time and threads: [`Clock`] and its three implementations.
//!
//! | clock | time | threads | for |
//! |---|---|---|---|
//! | [`RealClock`] | the machine's | real ones | processes and virtual machines |
//! | [`VirtualClock`] | jumps to the next deadline when everybody sleeps | real ones, one at a time | replay of transcripts, deadline tests |
//! | `ShuttleClock` | jumps at random | the explorer's | `tests/shuttle.rs` (feature `shuttle`) |

use std::sync::Arc;
use std::time::Duration;

use crate::sync::{Mutex, Task, Wait, WaitQueue};

mod real;
#[cfg(feature = "shuttle")]
mod shuttled;
mod virtual_clock;

pub use real::RealClock;
#[cfg(feature = "shuttle")]
pub use shuttled::ShuttleClock;
pub use virtual_clock::VirtualClock;

/// Body of a thread.
pub type Body = Box<dyn FnOnce() + Send>;

/// Time, sleeping and threads of the machine the driver is loaded on.
///
/// [`neuron_hw::Clock::now`] is the monotonic time since the clock was made.
pub trait Clock: neuron_hw::Clock + 'static {
    /// Seconds since 1970.
    fn epoch_seconds(&self) -> u64;

    /// Sleeps until the task is unparked or the time is reached; may return early.
    fn park(&self, task: &Arc<Task>, until: Option<Duration>);

    /// Wakes a task, or keeps it from its next sleep.
    fn unpark(&self, task: &Arc<Task>);

    /// Starts a thread.
    fn start(&self, name: &str, body: Body);
}

/// A thread of the driver, to be joined.
#[derive(Debug, Clone, Default)]
pub struct Thread(Arc<(Mutex<bool>, WaitQueue)>);

impl Thread {
    /// Starts `body` in a thread of this name.
    pub fn spawn(clock: &Arc<dyn Clock>, name: &str, body: impl FnOnce() + Send + 'static) -> Self {
        let thread = Self::default();
        let (done, on) = (thread.0.clone(), clock.clone());
        clock.start(
            name,
            Box::new(move || {
                body();
                *done.0.lock() = true;
                done.1.wake_all(&*on);
            }),
        );
        thread
    }

    /// Waits for the end of the body.
    pub fn join(&self, clock: &dyn Clock) {
        let task = Task::new();
        let guard = self.0.0.lock();
        drop(self.0.1.wait(clock, &task, &self.0.0, guard, Wait::uninterruptible(), |done| *done));
    }

    /// Whether the body has ended.
    pub fn finished(&self) -> bool {
        *self.0.0.lock()
    }
}

/// Sleeps for a fixed time that nothing cuts short.
pub fn sleep(clock: &dyn Clock, task: &Arc<Task>, time: Duration) {
    let until = clock.now() + time;
    while clock.now() < until {
        clock.park(task, Some(until));
    }
}
