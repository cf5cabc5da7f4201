//! A reset engine in virtual time with a target that follows a script and writes down what it
//! is asked for.
#![allow(dead_code)] // each test binary uses its part

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use neuron_abi::kernel::values::DeviceState;
use neuron_kmd::caller::Caller;
use neuron_kmd::reply::Errno;
use neuron_kmd::reset::{HandshakeError, Pause, ResetEngine, ResetEvent, ResetTarget, Submitted, WaitMode, Waited};
use neuron_kmd::sync::Task;
use neuron_kmd::time::{Body, Clock, Thread, VirtualClock, sleep};

pub const ALL: u32 = u32::MAX;
pub const DEVICE: u32 = u32::MAX;

/// What a target was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Did {
    State(DeviceState),
    Teardown(usize),
    Initiate(u32),
    Complete,
    Dma(u32),
    Post { map: u32, success: bool, no_reset: bool },
    Failure,
    Log(ResetEvent),
}

/// The script.
#[derive(Default)]
pub struct Script {
    /// Stage that fails, 1 to 4.
    pub fails: Mutex<Option<u32>>,
    /// How long the firmware takes to accept.
    pub hold: Mutex<Duration>,
    /// How long the device takes to get ready.
    pub busy: Mutex<Duration>,
    /// When set, each run is accepted only with a permit.
    pub permits: Mutex<Option<u32>>,
    pub no_reset: AtomicBool,
    pub no_memory: AtomicBool,
    did: Mutex<Vec<Did>>,
}

impl Script {
    fn note(&self, did: Did) {
        self.did.lock().expect("did").push(did);
    }

    fn permitted(&self) -> bool {
        match &mut *self.permits.lock().expect("permits") {
            None => true,
            Some(0) => false,
            Some(left) => {
                *left -= 1;
                true
            }
        }
    }

    fn stage(&self, stage: u32) -> Result<(), HandshakeError> {
        if *self.fails.lock().expect("fails") == Some(stage) {
            return Err(HandshakeError::Stage(Errno::EIO));
        }
        Ok(())
    }

    /// Everything since the last call, log lines apart.
    pub fn did(&self) -> Vec<Did> {
        let all = std::mem::take(&mut *self.did.lock().expect("did"));
        all.into_iter().filter(|d| !matches!(d, Did::Log(_))).collect()
    }

    /// Everything since the last call.
    pub fn log(&self) -> Vec<ResetEvent> {
        let all = std::mem::take(&mut *self.did.lock().expect("did"));
        all.into_iter().filter_map(|d| if let Did::Log(event) = d { Some(event) } else { None }).collect()
    }

    pub fn fail_at(&self, stage: Option<u32>) {
        *self.fails.lock().expect("fails") = stage;
    }

    pub fn hold_for(&self, seconds: u64) {
        *self.hold.lock().expect("hold") = Duration::from_secs(seconds);
    }
}

impl ResetTarget for Script {
    fn thread_name(&self) -> String {
        "nd0 reset".into()
    }

    fn no_reset(&self) -> bool {
        self.no_reset.load(Ordering::Relaxed)
    }

    fn set_state(&self, state: DeviceState) {
        self.note(Did::State(state));
    }

    fn teardown_core(&self, core: usize) {
        self.note(Did::Teardown(core));
    }

    fn can_allocate(&self) -> bool {
        !self.no_memory.load(Ordering::Relaxed)
    }

    fn initiate(&self, pause: &Pause<'_>, nc_map: u32) -> Result<(), HandshakeError> {
        self.note(Did::Initiate(nc_map));
        let hold = *self.hold.lock().expect("hold");
        pause.sleep(hold).map_err(|_| HandshakeError::Stopped)?;
        while !self.permitted() {
            pause.sleep(Duration::from_secs(1)).map_err(|_| HandshakeError::Stopped)?;
        }
        self.stage(1)
    }

    fn wait_for_completion(&self, pause: &Pause<'_>) -> Result<(), HandshakeError> {
        self.note(Did::Complete);
        let busy = *self.busy.lock().expect("busy");
        pause.sleep(busy).map_err(|_| HandshakeError::Stopped)?;
        self.stage(2)
    }

    fn reinit_dma(&self, _: &Pause<'_>, nc_map: u32) -> Result<(), HandshakeError> {
        self.note(Did::Dma(nc_map));
        self.stage(3)
    }

    fn post_config(&self, _: &Pause<'_>, map: u32, success: bool, no_reset: bool) -> Result<(), HandshakeError> {
        self.note(Did::Post { map, success, no_reset });
        self.stage(4)
    }

    fn count_failure(&self) {
        self.note(Did::Failure);
    }

    fn log(&self, event: ResetEvent) {
        self.note(Did::Log(event));
    }
}

/// Virtual time that counts how often each task goes to sleep.
pub struct Counting {
    inner: Arc<VirtualClock>,
    parks: Mutex<HashMap<usize, u64>>,
}

impl Counting {
    pub fn parks(&self, task: &Arc<Task>) -> u64 {
        self.parks.lock().expect("parks").get(&Arc::as_ptr(task).addr()).copied().unwrap_or(0)
    }

    pub fn all_parks(&self) -> u64 {
        self.parks.lock().expect("parks").values().sum()
    }
}

impl neuron_hw::Clock for Counting {
    fn now(&self) -> Duration {
        neuron_hw::Clock::now(&*self.inner)
    }
}

impl Clock for Counting {
    fn epoch_seconds(&self) -> u64 {
        self.inner.epoch_seconds()
    }

    fn park(&self, task: &Arc<Task>, until: Option<Duration>) {
        *self.parks.lock().expect("parks").entry(Arc::as_ptr(task).addr()).or_default() += 1;
        self.inner.park(task, until);
    }

    fn unpark(&self, task: &Arc<Task>) {
        self.inner.unpark(task);
    }

    fn start(&self, name: &str, body: Body) {
        self.inner.start(name, body);
    }
}

/// Engine, target and time.
pub struct Rig {
    pub counting: Arc<Counting>,
    pub clock: Arc<dyn Clock>,
    pub target: Arc<Script>,
    pub engine: Arc<ResetEngine>,
    main: Arc<Task>,
}

/// A call in its own thread.
pub struct Waiter {
    pub caller: Caller,
    thread: Thread,
    result: Arc<Mutex<Option<Waited>>>,
}

impl Waiter {
    /// The result, if the wait is over.
    pub fn result(&self) -> Option<Waited> {
        *self.result.lock().expect("result")
    }

    pub fn join(&self, clock: &dyn Clock) -> Waited {
        self.thread.join(clock);
        self.result().expect("a thread that ended has a result")
    }
}

impl Rig {
    /// With a running worker.
    pub fn new() -> Self {
        let rig = Self::without_worker();
        rig.engine.start(rig.target.clone());
        rig
    }

    pub fn without_worker() -> Self {
        let counting = Arc::new(Counting { inner: VirtualClock::new(), parks: Mutex::default() });
        let clock: Arc<dyn Clock> = counting.clone();
        Self { engine: ResetEngine::new(clock.clone()), target: Arc::default(), main: Task::new(), counting, clock }
    }

    pub fn submit(&self, nc_map: u32, id: u32) -> Submitted {
        let submitted = self.engine.submit(&*self.target, &self.main, nc_map, id);
        self.engine.check_invariants();
        submitted
    }

    /// Submits what must be accepted.
    pub fn queue(&self, nc_map: u32, id: u32) {
        assert_eq!(self.submit(nc_map, id), Submitted::Accepted, "request {id} of {nc_map:#x}");
    }

    /// A wait that must not block.
    pub fn wait(&self, id: u32, mode: WaitMode) -> Waited {
        self.engine.wait(&*self.target, &Caller::process(id, 0, false), id, mode)
    }

    pub fn wait_in_thread(&self, id: u32, mode: WaitMode) -> Waiter {
        let caller = Caller::process(id, 0, false);
        let result = Arc::new(Mutex::new(None));
        let (engine, target, slot, who) = (self.engine.clone(), self.target.clone(), result.clone(), caller.clone());
        let thread = Thread::spawn(&self.clock, "waiter", move || {
            *slot.lock().expect("result") = Some(engine.wait(&*target, &who, id, mode));
        });
        Waiter { caller, thread, result }
    }

    /// Lets time pass, and everybody who is awake run.
    pub fn pass(&self, seconds: u64) {
        sleep(&*self.clock, &self.main, Duration::from_secs(seconds));
        self.engine.check_invariants();
    }

    /// Lets everybody run who is awake.
    pub fn settle(&self) {
        sleep(&*self.clock, &self.main, Duration::from_millis(1));
        self.engine.check_invariants();
    }

    pub fn stop(&self) {
        self.engine.stop(&*self.target);
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.counting.inner.close();
    }
}
