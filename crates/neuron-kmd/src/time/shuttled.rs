//! Time under the schedule explorer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{Body, Clock};
use crate::sync::Task;

/// Time that jumps whenever the explorer says so.
///
/// `now` uses an atomic of the standard library on purpose: the silicon model calls it under
/// locks the explorer does not know, so it must not be a point where threads change.
#[derive(Debug, Default)]
pub struct ShuttleClock {
    millis: AtomicU64,
}

impl ShuttleClock {
    /// A clock at time 0.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }
}

impl neuron_hw::Clock for ShuttleClock {
    fn now(&self) -> Duration {
        Duration::from_millis(self.millis.load(Ordering::Relaxed))
    }
}

impl Clock for ShuttleClock {
    fn epoch_seconds(&self) -> u64 {
        super::VirtualClock::EPOCH
    }

    fn park(&self, task: &Arc<Task>, until: Option<Duration>) {
        match until {
            // Without an end the thread really blocks, so that the explorer finds deadlocks.
            None => task.explored_sleep(),
            Some(at) => {
                while !task.take_token() {
                    if shuttle::rand::Rng::gen_bool(&mut shuttle::rand::thread_rng(), 0.5) {
                        self.millis.fetch_max(at.as_millis() as u64, Ordering::Relaxed);
                        return;
                    }
                    shuttle::thread::yield_now();
                }
            }
        }
    }

    fn unpark(&self, task: &Arc<Task>) {
        task.give_token();
        task.wake.notify_all();
    }

    fn start(&self, name: &str, body: Body) {
        shuttle::thread::Builder::new().name(name.to_owned()).spawn(body).expect("thread");
    }
}
