//! State of the cores of one device: who initialises them, and how many models were started.

use std::sync::Arc;
use std::time::Duration;

use neuron_abi::kernel::values::{CoreInitState, MAX_CORES};

use crate::sync::{Mutex, Task, Wait, WaitQueue, Woken};
use crate::time::Clock;

/// How long a second initialiser waits for the first: ten sleeps of half a second.
const INIT_WAIT: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug)]
struct Core {
    init: CoreInitState,
    models: u64,
}

/// States of the cores; invalid after the probe and after each reset.
#[derive(Debug)]
pub struct CoreStates {
    cores: Mutex<[Core; MAX_CORES]>,
    changed: WaitQueue,
}

impl Default for CoreStates {
    fn default() -> Self {
        let core = Core { init: CoreInitState::Invalid, models: 0 };
        Self { cores: Mutex::new([core; MAX_CORES]), changed: WaitQueue::default() }
    }
}

impl CoreStates {
    /// Asks for a state and returns the one that holds afterwards.
    ///
    /// `STARTED` is granted to everybody who finds the core not initialised; who finds somebody
    /// else at it waits, and takes over when nothing comes of it. `COMPLETED` follows `STARTED`
    /// only. Anything else changes nothing.
    pub fn set(&self, clock: &dyn Clock, task: &Arc<Task>, core: usize, wanted: u32) -> CoreInitState {
        use CoreInitState::{Completed, Invalid, Started};
        let mut cores = self.cores.lock();
        match (CoreInitState::from_raw(wanted), cores[core].init) {
            (Some(Started), Invalid) => cores[core].init = Started,
            (Some(Started), Started) => {
                let wait = Wait::uninterruptible().until(clock.now() + INIT_WAIT);
                let (guard, woken) =
                    self.changed.wait(clock, task, &self.cores, cores, wait, |cores| cores[core].init != Started);
                cores = guard;
                if woken == Woken::Ready && cores[core].init == Invalid {
                    cores[core].init = Started;
                }
            }
            (Some(Completed), Started) => {
                cores[core].init = Completed;
                self.changed.wake_all(clock);
            }
            _ => {}
        }
        cores[core].init
    }

    /// Models started so far on a core, and counts one more.
    pub fn start_model(&self, core: usize) -> u64 {
        let count = &mut self.cores.lock()[core].models;
        std::mem::replace(count, count.wrapping_add(1))
    }

    /// Scrubs a core as the submission of a reset does: state first, then the model count.
    pub fn reset(&self, clock: &dyn Clock, core: usize) {
        self.cores.lock()[core] = Core { init: CoreInitState::Invalid, models: 0 };
        self.changed.wake_all(clock);
    }

    /// State of a core.
    pub fn get(&self, core: usize) -> CoreInitState {
        self.cores.lock()[core].init
    }
}
