//! Reset engine: requests, queues, worker, wait (`facts/driver/reset.md`).
//!
//! The engine knows nothing about devices: what it drives is a [`ResetTarget`]. The driver's
//! target is [`crate::device::Device`]; the tests have their own, so the same engine runs under
//! the schedule explorer, against a reference model and in virtual time.
//!
//! One mutex guards both lists. It is free while the hardware is driven: a request stays in the
//! pending list until its run is over, which is how the duplicate guard and waiters find it.

mod handshake;
mod record;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use neuron_abi::kernel::values::{DeviceState, MAX_CORES, NC_MAP_DEVICE, RESET_REQUEST_ALL, ResetState};

pub use handshake::{HandshakeError, handshake};
pub use record::Record;

use crate::caller::Caller;
use crate::sync::{Mutex, Task, Wait, WaitQueue, Woken};
use crate::time::{Clock, Thread};

/// What the engine drives. Calls come from the worker unless noted.
pub trait ResetTarget: Send + Sync + 'static {
    /// Name of the worker thread.
    fn thread_name(&self) -> String;

    /// Whether resets are switched off (module parameter).
    fn no_reset(&self) -> bool;

    /// Writes the device state. Called under the engine's mutex by submitters and the worker.
    fn set_state(&self, state: DeviceState);

    /// Scrubs one core at submission: core state, model count, notification queues, request
    /// counter, in this order. Called under the engine's mutex by submitters.
    fn teardown_core(&self, core: usize);

    /// Whether a request can be allocated; false only when a test injects the failure.
    fn can_allocate(&self) -> bool {
        true
    }

    /// Stage 1.
    ///
    /// # Errors
    /// Why the firmware did not accept.
    fn initiate(&self, pause: &Pause<'_>, nc_map: u32) -> Result<(), HandshakeError>;

    /// Stage 2.
    ///
    /// # Errors
    /// Why the device did not get ready.
    fn wait_for_completion(&self, pause: &Pause<'_>) -> Result<(), HandshakeError>;

    /// Stage 3, and all of a submission under `no_reset`.
    ///
    /// # Errors
    /// When a ring cannot be set up again.
    fn reinit_dma(&self, pause: &Pause<'_>, nc_map: u32) -> Result<(), HandshakeError>;

    /// Stage 4, and the clean-up after a failing stage. `nc_map` is the map of the run; the
    /// target does nothing unless it is the whole device (or, from 2.27, under `no_reset`).
    ///
    /// # Errors
    /// What the configuration says.
    fn post_config(&self, pause: &Pause<'_>, nc_map: u32, success: bool, no_reset: bool) -> Result<(), HandshakeError>;

    /// Counts one failed run on every core.
    fn count_failure(&self);

    /// A line of the kernel log.
    fn log(&self, event: ResetEvent);
}

/// Log lines of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetEvent {
    /// So many requests run as one.
    Coalesced(u32),
    /// The request with this id is driven.
    Begins(u32),
    /// It is through.
    Done(u32),
    /// It failed. Carries the id, and its map when the firmware did not accept it.
    Problem(u32, Option<u32>),
    /// A request with this id is pending already.
    Duplicate(u32),
    /// A wait was interrupted.
    WaitInterrupted(u32),
    /// Somebody waits for an id that is in no list.
    UnknownId(u32),
}

/// One request.
#[derive(Debug)]
pub struct Request {
    id: u32,
    nc_map: u32,
    result: AtomicU32,
}

impl Request {
    fn state(&self) -> ResetState {
        // Only the three states are ever stored.
        ResetState::from_raw(self.result.load(Ordering::Relaxed)).unwrap_or(ResetState::Failed)
    }

    fn finish(&self, state: ResetState) {
        self.result.store(state as u32, Ordering::Relaxed);
    }
}

/// What a submission did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submitted {
    /// Queued, or carried out at once under `no_reset`: the call returns 0.
    Accepted,
    /// A request with this id is in a list already, none could be allocated, or the engine was
    /// stopped: returns 1.
    Refused,
}

/// How a wait treats an id that is in no list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitMode {
    /// As success.
    Check,
    /// As an error.
    Strict,
}

/// Result of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// Completed, or nothing to wait for.
    Ok,
    /// Failed, or an unknown id in strict mode.
    Failed,
    /// A fatal signal ended the wait; the request stays where it is.
    Interrupted,
}

#[derive(Debug, Default)]
struct Queues {
    pending: VecDeque<Arc<Request>>,
    completed: Vec<Arc<Request>>,
    stop: bool,
    start: Duration,
    end: Duration,
}

impl Queues {
    fn find(&self, id: u32) -> Option<&Arc<Request>> {
        self.pending.iter().chain(&self.completed).find(|r| r.id == id)
    }
}

/// The engine of one device.
pub struct ResetEngine {
    clock: Arc<dyn Clock>,
    queues: Mutex<Queues>,
    /// The worker sleeps here, between runs and in its pauses.
    work: WaitQueue,
    /// Waiters sleep here.
    done: WaitQueue,
    thread: Mutex<Option<Thread>>,
}

/// A sleep counted in ticks lasts one more than asked for, because the first is under way
/// already. The recorded kernel had 250 a second; without it a core reset would be triggered a
/// 13th time right at its deadline (measured: 12).
const TICK: Duration = Duration::from_millis(4);

/// The worker's sleep, cut short when the engine stops.
pub struct Pause<'a> {
    engine: &'a ResetEngine,
    task: &'a Arc<Task>,
}

/// The engine was stopped while its worker slept; carries the time not slept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped(pub Duration);

impl Pause<'_> {
    /// Sleeps for `time` and up to a tick of the kernel more. A sleep of no time is none.
    ///
    /// # Errors
    /// [`Stopped`] at once when the engine is stopped.
    pub fn sleep(&self, time: Duration) -> Result<(), Stopped> {
        let engine = self.engine;
        let tick = if time.is_zero() { Duration::ZERO } else { TICK };
        let deadline = engine.clock.now() + time + tick;
        let wait = Wait::uninterruptible().until(deadline);
        let guard = engine.queues.lock();
        let (guard, woken) = engine.work.wait(&*engine.clock, self.task, &engine.queues, guard, wait, |q| q.stop);
        drop(guard);
        match woken {
            Woken::Ready => Err(Stopped(deadline.saturating_sub(engine.clock.now()))),
            Woken::TimedOut | Woken::Interrupted => Ok(()),
        }
    }

    /// Sleeps until the engine is stopped.
    pub fn until_stopped(&self) {
        let engine = self.engine;
        let guard = engine.queues.lock();
        let wait = Wait::uninterruptible();
        drop(engine.work.wait(&*engine.clock, self.task, &engine.queues, guard, wait, |q| q.stop));
    }

    /// Time now.
    pub fn now(&self) -> Duration {
        self.engine.clock.now()
    }
}

impl ResetEngine {
    /// An engine without a worker.
    pub fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self {
            clock,
            queues: Mutex::default(),
            work: WaitQueue::default(),
            done: WaitQueue::default(),
            thread: Mutex::default(),
        })
    }

    /// Starts the worker. Call once.
    pub fn start(self: &Arc<Self>, target: Arc<dyn ResetTarget>) {
        let engine = self.clone();
        let name = target.thread_name();
        let thread = Thread::spawn(&self.clock, &name, move || engine.work(&*target));
        *self.thread.lock() = Some(thread);
    }

    /// Stops the worker and forgets every request. The device state becomes INVALID first.
    /// Waiters of forgotten requests are let go as failed.
    pub fn stop(&self, target: &dyn ResetTarget) {
        target.set_state(DeviceState::Invalid);
        self.queues.lock().stop = true;
        self.work.wake_all(&*self.clock);
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            thread.join(&*self.clock);
        }
        let mut queues = self.queues.lock();
        for request in queues.pending.drain(..) {
            request.finish(ResetState::Failed);
        }
        queues.completed.clear();
        drop(queues);
        self.done.wake_all(&*self.clock);
    }

    /// Queues a reset of the cores in `nc_map` under `id`. Never touches the hardware, except
    /// under `no_reset`, where it does all there is to do.
    pub fn submit(&self, target: &dyn ResetTarget, task: &Arc<Task>, nc_map: u32, id: u32) -> Submitted {
        if target.no_reset() {
            let pause = Pause { engine: self, task };
            // Both results are dropped here as they are in the driver.
            let _ = target.reinit_dma(&pause, NC_MAP_DEVICE);
            let _ = target.post_config(&pause, nc_map, true, true);
            target.set_state(DeviceState::Ready);
            return Submitted::Accepted;
        }
        let mut queues = self.queues.lock();
        // The driver cannot be unloaded while a file is open. The model can, and nobody may be
        // left waiting for a worker that is gone.
        if queues.stop {
            return Submitted::Refused;
        }
        if queues.find(id).is_some() {
            // A completed request in the way is not worth a line (measured).
            let pending = queues.pending.iter().any(|r| r.id == id);
            drop(queues);
            if pending {
                target.log(ResetEvent::Duplicate(id));
            }
            return Submitted::Refused;
        }
        if id == RESET_REQUEST_ALL {
            target.set_state(DeviceState::Reset);
        }
        for core in (0..MAX_CORES).filter(|core| nc_map >> core & 1 != 0) {
            target.teardown_core(core);
        }
        if !target.can_allocate() {
            return Submitted::Refused;
        }
        let result = AtomicU32::new(ResetState::Started as u32);
        queues.pending.push_back(Arc::new(Request { id, nc_map, result }));
        drop(queues);
        self.work.wake_all(&*self.clock);
        Submitted::Accepted
    }

    /// Waits for the request with this id and takes it off the completed list. Any process may
    /// wait for any id.
    pub fn wait(&self, target: &dyn ResetTarget, caller: &Caller, id: u32, mode: WaitMode) -> Waited {
        if target.no_reset() {
            return Waited::Ok;
        }
        let queues = self.queues.lock();
        let Some(request) = queues.find(id).cloned() else {
            drop(queues);
            return match mode {
                WaitMode::Check => Waited::Ok,
                WaitMode::Strict => {
                    target.log(ResetEvent::UnknownId(id));
                    Waited::Failed
                }
            };
        };
        let (mut queues, woken) =
            self.done.wait(&*self.clock, &caller.task, &self.queues, queues, Wait::signalled(), |_| {
                request.state() != ResetState::Started
            });
        if woken != Woken::Ready {
            drop(queues);
            target.log(ResetEvent::WaitInterrupted(id));
            return Waited::Interrupted;
        }
        queues.completed.retain(|r| !Arc::ptr_eq(r, &request));
        if request.state() == ResetState::Completed { Waited::Ok } else { Waited::Failed }
    }

    /// Whether an operation that started at `start` may have been hit by a reset.
    pub fn in_window(&self, no_reset: bool, start: Duration) -> bool {
        let queues = self.queues.lock();
        !no_reset && (queues.end <= queues.start || start <= queues.end)
    }

    /// Lengths of the pending and the completed list.
    pub fn lengths(&self) -> (usize, usize) {
        let queues = self.queues.lock();
        (queues.pending.len(), queues.completed.len())
    }

    /// Checks what must hold between any two calls.
    ///
    /// # Panics
    /// When it does not.
    pub fn check_invariants(&self) {
        let queues = self.queues.lock();
        assert!(queues.pending.iter().all(|r| r.state() == ResetState::Started), "pending requests have no result");
        assert!(queues.completed.iter().all(|r| r.state() != ResetState::Started), "completed requests have one");
        let mut ids: Vec<_> = queues.pending.iter().chain(&queues.completed).map(|r| r.id).collect();
        ids.sort_unstable();
        assert!(ids.windows(2).all(|w| w[0] != w[1]), "an id is in the lists once");
    }

    fn work(&self, target: &dyn ResetTarget) {
        let task = Task::new();
        loop {
            let guard = self.queues.lock();
            let (queues, _) = self.work.wait(&*self.clock, &task, &self.queues, guard, Wait::uninterruptible(), |q| {
                q.stop || !q.pending.is_empty()
            });
            if queues.stop {
                return;
            }
            let mut run: Vec<_> = queues.pending.iter().cloned().collect();
            drop(queues);
            // Only the head is looked at: an ALL request behind another one is folded in, and
            // goes to the completed list with it (quirk "folded-all-request").
            let head_is_all = run[0].id == RESET_REQUEST_ALL;
            if head_is_all {
                run.truncate(1);
            }
            let (state, accepted) = self.drive(target, &task, &run);
            for request in &run {
                target.log(match state {
                    ResetState::Completed => ResetEvent::Done(request.id),
                    _ => ResetEvent::Problem(request.id, (!accepted).then_some(request.nc_map)),
                });
            }
            self.complete(target, &run, head_is_all, state);
        }
    }

    /// Runs the stages. Returns the result and whether the firmware accepted the reset.
    fn drive(&self, target: &dyn ResetTarget, task: &Arc<Task>, run: &[Arc<Request>]) -> (ResetState, bool) {
        let nc_map = run.iter().fold(0, |map, r| map | r.nc_map);
        if run.len() > 1 {
            target.log(ResetEvent::Coalesced(run.len() as u32));
        }
        run.iter().for_each(|r| target.log(ResetEvent::Begins(r.id)));
        self.queues.lock().start = self.clock.now();
        let pause = Pause { engine: self, task };
        let initiated = target.initiate(&pause, nc_map);
        let stages = initiated
            .and_then(|()| target.wait_for_completion(&pause))
            .and_then(|()| target.reinit_dma(&pause, nc_map));
        let state = match stages {
            Ok(()) if target.post_config(&pause, nc_map, true, false).is_ok() => ResetState::Completed,
            // Quirk "post-config-uncounted": the last stage fails without counting.
            Ok(()) => ResetState::Failed,
            Err(_) => {
                // The run has failed already; a failing clean-up cannot make it worse.
                let _ = target.post_config(&pause, nc_map, false, false);
                target.count_failure();
                ResetState::Failed
            }
        };
        self.queues.lock().end = self.clock.now();
        (state, initiated.is_ok())
    }

    fn complete(&self, target: &dyn ResetTarget, run: &[Arc<Request>], head_is_all: bool, state: ResetState) {
        let mut queues = self.queues.lock();
        queues.pending.drain(..run.len());
        if head_is_all {
            let ready = state == ResetState::Completed;
            target.set_state(if ready { DeviceState::Ready } else { DeviceState::Invalid });
        } else {
            queues.completed.extend(run.iter().cloned());
        }
        run.iter().for_each(|r| r.finish(state));
        drop(queues);
        self.done.wake_all(&*self.clock);
    }
}
