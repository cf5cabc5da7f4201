//! The machine's own time and threads.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::{Body, Clock};
use crate::sync::Task;

/// Real time and real threads.
#[derive(Debug)]
pub struct RealClock {
    start: Instant,
}

impl RealClock {
    /// A clock that starts now.
    pub fn new() -> Arc<Self> {
        Arc::new(Self { start: Instant::now() })
    }
}

impl neuron_hw::Clock for RealClock {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }
}

impl Clock for RealClock {
    fn epoch_seconds(&self) -> u64 {
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_secs())
    }

    #[cfg(not(feature = "shuttle"))]
    fn park(&self, task: &Arc<Task>, until: Option<Duration>) {
        task.sleep(until.and_then(|at| self.start.checked_add(at)));
    }

    /// Real sleeping cannot be explored: the builds of the explorer only hand the token over.
    #[cfg(feature = "shuttle")]
    fn park(&self, task: &Arc<Task>, _until: Option<Duration>) {
        task.take_token();
    }

    fn unpark(&self, task: &Arc<Task>) {
        task.give_token();
        task.wake.notify_all();
    }

    fn start(&self, name: &str, body: Body) {
        // Linux cuts thread names at 15 bytes; the driver's names are shorter.
        let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(body);
        spawned.expect("a thread of the driver model could not be started");
    }
}
