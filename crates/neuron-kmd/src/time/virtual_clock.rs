//! Time that jumps.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::{Body, Clock};
use crate::sync::Task;

/// Virtual time with real threads that run one at a time.
///
/// The thread that makes the clock runs first. A thread runs until it parks; then the next one
/// that was woken runs, in the order of the wake-ups; when none is left, time jumps to the
/// earliest deadline. A run is therefore the same every time, and 480 seconds pass at once.
///
/// Only threads started through the clock, and the one that made it, may use it.
#[derive(Clone)]
pub struct VirtualClock(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    turn: Condvar,
}

#[derive(Default)]
struct State {
    now: Duration,
    next: u64,
    /// Ticket of the thread whose turn it is; 0 is the first thread before it ever parked.
    turn: u64,
    woken: VecDeque<u64>,
    asleep: BTreeMap<u64, Asleep>,
    closed: bool,
}

struct Asleep {
    task: usize,
    until: Option<Duration>,
}

/// Carried by the unwinding of threads that are still asleep when the clock is closed.
struct Closed;

impl VirtualClock {
    /// Wall time the clock starts at: 2025-01-01 00:00:00 UTC.
    pub const EPOCH: u64 = 1_735_689_600;

    /// A clock at time 0.
    pub fn new() -> Arc<Self> {
        Arc::new(Self(Arc::new(Shared { state: Mutex::default(), turn: Condvar::new() })))
    }

    /// Ends every thread that is asleep, by unwinding it. Call it when the scenario is over; the
    /// clock cannot be used afterwards.
    pub fn close(&self) {
        self.0.state.lock().closed = true;
        self.0.turn.notify_all();
    }

    fn key(task: &Arc<Task>) -> usize {
        Arc::as_ptr(task).addr()
    }
}

impl State {
    fn ticket(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Gives the turn to the next thread.
    fn pass(&mut self) {
        if let Some(ticket) = self.woken.pop_front() {
            self.turn = ticket;
            return;
        }
        let first = self.asleep.iter().filter_map(|(t, a)| Some((a.until?, *t))).min();
        match first {
            Some((until, ticket)) => {
                self.now = self.now.max(until);
                self.asleep.remove(&ticket);
                self.turn = ticket;
            }
            None => self.turn = u64::MAX,
        }
    }
}

impl Shared {
    fn wait_turn(&self, mut state: parking_lot::MutexGuard<'_, State>, ticket: u64) {
        self.turn.notify_all();
        while state.turn != ticket {
            if state.closed {
                // A destructor that parks while its thread is being unwound must get through.
                if std::thread::panicking() {
                    return;
                }
                drop(state);
                // Not a panic: nothing went wrong, so no hook runs and no message appears.
                std::panic::resume_unwind(Box::new(Closed));
            }
            self.turn.wait(&mut state);
        }
    }
}

impl neuron_hw::Clock for VirtualClock {
    fn now(&self) -> Duration {
        self.0.state.lock().now
    }
}

impl Clock for VirtualClock {
    fn epoch_seconds(&self) -> u64 {
        Self::EPOCH + self.0.state.lock().now.as_secs()
    }

    fn park(&self, task: &Arc<Task>, until: Option<Duration>) {
        let mut state = self.0.state.lock();
        if task.take_token() {
            return;
        }
        if state.closed && std::thread::panicking() {
            state.now = until.map_or(state.now, |until| state.now.max(until));
            return;
        }
        let ticket = state.ticket();
        state.asleep.insert(ticket, Asleep { task: Self::key(task), until });
        state.pass();
        self.0.wait_turn(state, ticket);
        task.take_token();
    }

    fn unpark(&self, task: &Arc<Task>) {
        let mut state = self.0.state.lock();
        task.give_token();
        let key = Self::key(task);
        let ticket = state.asleep.iter().find(|(_, a)| a.task == key).map(|(t, _)| *t);
        if let Some(ticket) = ticket {
            state.asleep.remove(&ticket);
            state.woken.push_back(ticket);
        }
    }

    fn start(&self, name: &str, body: Body) {
        let ticket = {
            let mut state = self.0.state.lock();
            let ticket = state.ticket();
            state.woken.push_back(ticket);
            ticket
        };
        let shared = self.0.clone();
        let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            shared.wait_turn(shared.state.lock(), ticket);
            // The turn must go on even when the body fails, or the whole scenario hangs.
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
            shared.state.lock().pass();
            shared.turn.notify_all();
            if let Err(cause) = outcome {
                std::panic::resume_unwind(cause);
            }
        });
        spawned.expect("a thread of the driver model could not be started");
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use neuron_hw::Clock as _;

    use super::*;
    use crate::time::{Thread, sleep};

    #[test]
    fn sleepers_wake_in_the_order_of_their_deadlines_and_no_real_time_passes() {
        let clock = VirtualClock::new();
        let dynamic: Arc<dyn Clock> = clock.clone();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let threads: Vec<_> = [480, 120, 30]
            .map(|seconds| {
                let (on, seen) = (dynamic.clone(), seen.clone());
                Thread::spawn(&dynamic, "sleeper", move || {
                    sleep(&*on, &Task::new(), Duration::from_secs(seconds));
                    seen.lock().push((seconds, on.now().as_secs()));
                })
            })
            .into();
        for thread in threads {
            thread.join(&*clock);
        }
        assert_eq!(*seen.lock(), [(30, 30), (120, 120), (480, 480)]);
    }

    #[test]
    fn a_wake_up_before_the_sleep_is_not_lost() {
        let clock = VirtualClock::new();
        let task = Task::new();
        clock.unpark(&task);
        clock.park(&task, Some(Duration::from_secs(9)));
        assert_eq!(clock.now(), Duration::ZERO);
    }

    #[test]
    fn closing_ends_threads_that_sleep_for_ever() {
        let clock = VirtualClock::new();
        let dynamic: Arc<dyn Clock> = clock.clone();
        let alive = Arc::new(());
        let held = alive.clone();
        let on = dynamic.clone();
        Thread::spawn(&dynamic, "stuck", move || {
            let _held = held;
            on.park(&Task::new(), None);
        });
        sleep(&*clock, &Task::new(), Duration::from_secs(1));
        assert_eq!(Arc::strong_count(&alive), 2);
        clock.close();
        while Arc::strong_count(&alive) == 2 {
            std::thread::yield_now();
        }
    }
}
