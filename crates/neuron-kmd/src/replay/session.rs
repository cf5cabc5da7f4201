//! Running the steps of one transcript.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use neuron_hw::Silicon;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::compare::{Fields, Symbols};
use super::ioctls::{Prepared, Variables};
use super::process::Process;
use super::{Difference, Outcome, ReplayError, STEP_TIME, device_log, kernel_log, machine};
use crate::driver::{Driver, LoadConfig};
use crate::profile::Profile;
use crate::reply::{Errno, Stop};
use crate::sync::{Task, Wait, WaitQueue, Woken, signal};
use crate::time::{Clock, VirtualClock, sleep};

/// Kernel log classes that are compared; all others are recorded text without a meaning here.
/// A room that adds a line of the driver adds its class: recorded name, name in the model.
const LOG_CLASSES: &[(&str, &str)] = &[
    ("driver_version", "driver_version"),
    ("device_number_assigned", "device_number_assigned"),
    ("duplicate_routing_id", "duplicate_routing_id"),
    ("host_pool_reserved", "host_pool_reserved"),
    ("metrics_thread_started", "metrics_thread_started"),
    ("log:e03708", "probe_bar_missing"),
    ("reset_run_begins", "reset_run_begins"),
    ("reset_run_done", "reset_run_done"),
    ("reset_problem", "reset_problem"),
    ("log:348668", "scratchpad_order"),
    ("log:e6575a", "scratchpad_full"),
    ("log:49e2ce", "host_memory_full"),
    ("log:7cb8bc", "device_memory_full"),
    ("log:500c59", "device_memory_full"),
    ("log:5a8ba4", "reset_coalesced"),
    ("log:e24852", "reset_unknown_id"),
    ("log:71e8df", "reset_wait_interrupted"),
    ("log:8e2a06", "reset_duplicate"),
    ("log:5c6d9c", "dma_bad_engine_state"),
    ("log:13a9d8", "dma_ring_too_short"),
    ("log:7b7c99", "dma_copyout_range"),
];

/// Longest time a call may take before it counts as blocked for ever, unless the step says.
pub(super) const PATIENCE: Duration = Duration::from_secs(700);

/// Result of a call, whatever it was.
pub(super) type Answer = Result<i64, Stop>;

/// Where an open leaves its file for the main thread.
pub(super) type Opened = Arc<Mutex<Option<Arc<crate::cdev::File>>>>;

/// A call in its own thread.
#[derive(Default)]
pub(super) struct Running {
    answer: crate::sync::Mutex<Option<Answer>>,
    done: WaitQueue,
}

/// A call that was left to itself.
struct Parked {
    step: u64,
    recorded: Value,
    running: Arc<Running>,
    prepared: Option<Prepared>,
    /// Name a descriptor gets when an open ends well.
    opens: Option<(String, Opened)>,
}

pub(super) struct Session<'a> {
    transcript: &'a Value,
    clock: Arc<VirtualClock>,
    task: Arc<Task>,
    bus: Vec<Arc<Silicon>>,
    pub(super) driver: Option<Arc<Driver>>,
    profile: Profile,
    defaults: Value,
    processes: BTreeMap<String, Process>,
    parked: BTreeMap<String, Parked>,
    /// Descriptors of actors that died: name, device and flags.
    lost: BTreeMap<String, Vec<(String, u32, i32)>>,
    pub(super) variables: Variables,
    pub(super) symbols: Symbols,
    next_pid: u32,
    /// The steps are those of another recording. What was equal then were the answers, not the
    /// kernel log and the device log.
    borrowed: bool,
}

pub(super) fn run(identity: &Value, transcript: &Value) -> Result<Outcome, ReplayError> {
    let bad = |text: String| ReplayError::Malformed(text);
    let version = identity["driver"].as_str().unwrap_or_default();
    let profile = version.parse::<Profile>().map_err(bad)?;
    let clock = VirtualClock::new();
    let mut session = Session {
        transcript,
        bus: machine::devices(identity, transcript, &clock)?,
        task: Task::new(),
        clock: clock.clone(),
        driver: None,
        profile,
        defaults: defaults(transcript),
        processes: BTreeMap::new(),
        parked: BTreeMap::new(),
        lost: BTreeMap::new(),
        variables: Variables::new(),
        symbols: Symbols::default(),
        next_pid: 1000,
        borrowed: !std::ptr::eq(identity, transcript),
    };
    let outcome = session.steps();
    // Threads that still sleep hold the driver; they go first.
    clock.close();
    outcome
}

/// What ioctl steps leave out. One scenario says by its name what its arguments are filled with.
fn defaults(transcript: &Value) -> Value {
    let mut defaults = transcript.get("ioctl_defaults").cloned().unwrap_or_else(|| json!({}));
    if transcript["scenario"].as_str().is_some_and(|name| name.ends_with("all_ones_argument")) {
        defaults["fill"] = json!(0xff);
    }
    defaults
}

impl Session<'_> {
    fn steps(&mut self) -> Result<Outcome, ReplayError> {
        let mut outcome = Outcome::default();
        for step in self.transcript["steps"].as_array().into_iter().flatten() {
            if let Some(note) = step.get("note") {
                if let Some(actor) = note["respawned"].as_str() {
                    self.kill(actor);
                    self.respawn(actor);
                }
                continue;
            }
            let mut fields = Fields::default();
            self.step(step, &mut fields)?;
            outcome.total += 1;
            if fields.0.is_empty() {
                outcome.matched += 1;
            } else {
                let what = step["op"].as_str().or_else(|| step["name"].as_str()).unwrap_or("?");
                let what = match step["path"].as_str() {
                    Some(path) => format!("{what} {path}"),
                    None => what.to_owned(),
                };
                outcome.differences.push(Difference { step: step["i"].as_u64(), what, fields: fields.0 });
            }
            sleep(&*self.clock, &self.task, STEP_TIME);
        }
        let device_log = if self.borrowed { None } else { device_log::differences(self.transcript, &self.bus) };
        if let Some(wrong) = device_log {
            outcome.total += 1;
            if wrong.is_empty() {
                outcome.matched += 1;
            } else {
                let mut fields = Fields::default();
                wrong.into_iter().for_each(|(recorded, model)| fields.differ("events", recorded, model));
                outcome.differences.push(Difference { step: None, what: "device log".into(), fields: fields.0 });
            }
        }
        Ok(outcome)
    }

    pub(super) fn process(&mut self, name: &str) -> &mut Process {
        let alive = self.processes.get(name).is_some_and(|p| !p.dead);
        if !alive {
            self.next_pid += 1;
            self.symbols.bind(&format!("$pid:{name}"), self.next_pid.into());
            self.variables.insert(format!("pid:{name}"), self.next_pid.into());
            self.processes.insert(name.to_owned(), Process::new(self.next_pid));
        }
        self.processes.get_mut(name).expect("just made")
    }

    fn actor<'s>(&'s self, step: &'s Value) -> &'s str {
        step["actor"].as_str().or_else(|| self.defaults["actor"].as_str()).unwrap_or("p1")
    }

    /// Starts a call in a thread of its own.
    pub(super) fn start(&self, call: impl FnOnce() -> Answer + Send + 'static) -> Arc<Running> {
        let running = Arc::new(Running::default());
        let (result, clock) = (running.clone(), self.clock.clone());
        self.clock.start(
            "call",
            Box::new(move || {
                let answer = call();
                *result.answer.lock() = Some(answer);
                result.done.wake_all(&*clock);
            }),
        );
        running
    }

    /// Waits for a call; `None` when it does not end in time.
    pub(super) fn wait(&self, running: &Running, limit: Duration) -> Option<Answer> {
        let wait = Wait::uninterruptible().until(neuron_hw::Clock::now(&*self.clock) + limit);
        let guard = running.answer.lock();
        let (mut guard, woken) =
            running.done.wait(&*self.clock, &self.task, &running.answer, guard, wait, |a| a.is_some());
        if woken == Woken::Ready { guard.take() } else { None }
    }

    /// Runs a call of a step: waits as long as the step says, and parks what has not ended.
    pub(super) fn call(
        &mut self,
        step: &Value,
        prepared: Option<Prepared>,
        opens: Option<(String, Opened)>,
        fields: &mut Fields,
        call: impl FnOnce() -> Answer + Send + 'static,
    ) {
        let running = self.start(call);
        let recorded = step["res"].clone();
        let limit = step["async"].as_u64().or_else(|| recorded["blocked_ms"].as_u64());
        let limit = limit.map_or(PATIENCE, Duration::from_millis);
        let answer = self.wait(&running, limit);
        let parked = Parked { step: step["i"].as_u64().unwrap_or(0), recorded, running, prepared, opens };
        let expected_blocked = parked.recorded.get("async").is_some() || parked.recorded.get("blocked_ms").is_some();
        let actor = self.actor(step).to_owned();
        match answer {
            None => {
                if !expected_blocked {
                    fields.differ("result", &parked.recorded, "blocked");
                }
                self.parked.insert(actor, parked);
            }
            Some(answer) if expected_blocked => {
                fields.differ("result", "blocked", format!("{answer:?}"));
                self.finish(&actor, step, &parked, answer, &Value::Null, fields);
            }
            Some(answer) => {
                let recorded = parked.recorded.clone();
                self.finish(&actor, step, &parked, answer, &recorded, fields);
            }
        }
    }

    /// Books the result of a call, and compares it unless there is nothing to compare with.
    fn finish(
        &mut self,
        actor: &str,
        step: &Value,
        parked: &Parked,
        answer: Answer,
        recorded: &Value,
        fields: &mut Fields,
    ) {
        let opened = parked.opens.as_ref().and_then(|(name, file)| Some((name.clone(), file.lock().take()?)));
        if let Some(opened) = opened {
            self.process(actor).files.push(opened);
        }
        if !recorded.is_null() {
            result(recorded, &answer, fields);
        }
        if let (Some(prepared), Some(process)) = (&parked.prepared, self.processes.get(actor)) {
            if !recorded.is_null() && recorded.get("actor_died").is_none() {
                prepared.compare(recorded, process, &mut self.symbols, fields);
            }
            prepared.save(step, process, &mut self.variables);
        }
        if recorded.get("actor_died").is_some() || matches!(answer, Err(Stop::Bug(_))) {
            self.kill(actor);
        }
    }

    /// The process is gone: its descriptors are closed, in a thread because that may take time.
    fn kill(&mut self, actor: &str) {
        if let Some(parked) = self.parked.remove(actor) {
            if let Some(process) = self.processes.get(actor) {
                process.task.raise(&*self.clock, signal::KILL);
            }
            self.wait(&parked.running, Duration::from_secs(1));
        }
        let Some(process) = self.processes.get_mut(actor).filter(|p| !p.dead) else { return };
        let (files, caller) = (process.take_all(), process.caller(false));
        if !files.is_empty() {
            let lost = files.iter().map(|(name, file)| (name.clone(), file.device().index, file.flags())).collect();
            self.lost.insert(actor.to_owned(), lost);
        }
        let running = self.start(move || {
            for (_, file) in files {
                file.flush(&caller);
            }
            Ok(0)
        });
        self.wait(&running, PATIENCE);
    }

    /// The recorder started the actor anew, with the descriptors it had.
    fn respawn(&mut self, actor: &str) {
        self.process(actor);
        for (name, index, flags) in self.lost.remove(actor).unwrap_or_default() {
            let caller = self.process(actor).caller(false);
            let (driver, slot) = (self.driver.clone(), Opened::default());
            let opened = slot.clone();
            let running = self.start(move || {
                *opened.lock() = Some(driver.ok_or(Errno::ENOENT)?.open(index, flags, &caller)?);
                Ok(0)
            });
            self.wait(&running, PATIENCE);
            let file = slot.lock().take();
            self.process(actor).files.extend(file.map(|file| (name, file)));
        }
    }

    fn step(&mut self, step: &Value, fields: &mut Fields) -> Result<(), ReplayError> {
        let res = &step["res"];
        let actor = self.actor(step).to_owned();
        let Some(op) = step["op"].as_str() else { return self.ioctl(step, &actor, fields) };
        match op {
            "insmod" => self.insmod(step, fields),
            "waitready" => self.wait_ready(step, fields),
            "dmesg" if self.borrowed => {}
            "dmesg" => {
                let lines = self.driver.as_ref().map_or(Vec::new(), |d| d.env.log.lines());
                kernel_log::compare(res, &lines, LOG_CLASSES, self.bus.len(), &mut self.symbols, fields);
            }
            "lspci" => {
                let model = machine::lspci(&self.bus, self.driver.as_deref());
                let recorded = res["devs"].as_array().cloned().unwrap_or_default();
                let recorded: Vec<_> = recorded
                    .into_iter()
                    .map(|mut dev| {
                        dev["resource"] = json!(machine::recorded_sizes(&dev["resource"]));
                        dev
                    })
                    .collect();
                fields.equal("devices", Value::Array(recorded), Value::Array(model));
            }
            "sleep" => {
                let time = Duration::from_millis(step["ms"].as_u64().unwrap_or(0));
                sleep(&*self.clock, &self.task, time);
            }
            "devctl" => {
                for entry in step["device"].as_array().into_iter().flatten() {
                    match (machine::fault(entry), self.bus.get(entry["device"].as_u64().unwrap_or(0) as usize)) {
                        (Some(fault), Some(silicon)) => silicon.inject(fault),
                        _ => fields.differ("devctl", entry, "no such fault"),
                    }
                }
            }
            "sysread" => self.read_file(step, &actor, fields),
            "syswrite" => self.write_file(step, &actor, fields),
            "ls" => self.list(step, fields),
            "tree" => self.tree(step, fields),
            "open" => self.open(step, &actor, fields),
            "close" => self.close(step, &actor, fields),
            "dup" => self.dup(step, &actor, fields),
            "fstat" => self.fstat(step, &actor, fields),
            "read" | "write" | "lseek" | "poll" | "epoll" => self.plain(step, op, &actor, fields),
            "mmap" => self.mmap(step, &actor, fields),
            "munmap" => self.munmap(step, &actor),
            "peek" | "poke" => self.touch(step, op, &actor, fields),
            "forkchild" => {
                let child = step["child"].as_str().unwrap_or_default().to_owned();
                self.process(&child);
                let tgid = self.next_pid;
                let forked = self.process(&actor).fork(tgid);
                self.processes.insert(child, forked);
            }
            "exit" | "kill9" => self.kill(&actor),
            "setuid" => self.process(&actor).uid = step["uid"].as_u64().unwrap_or(0) as u32,
            "handler" => {}
            "signal" | "tsignal" => self.signal(step, op, &actor),
            "gotsig" => {
                let got = std::mem::take(&mut self.process(&actor).got_signal);
                fields.equal("ret", &res["ret"], got);
            }
            "join" => self.join(step, &actor, fields),
            other => fields.differ("step", other, "a step the replay does not know"),
        }
        Ok(())
    }

    fn insmod(&mut self, step: &Value, fields: &mut Fields) {
        let params = step["params"].as_str().unwrap_or_default().to_owned();
        let config = LoadConfig { profile: self.profile, params, product: String::new() };
        let slot = Arc::new(Mutex::new(None));
        let (bus, clock, loaded) = (self.bus.clone(), self.clock.clone(), slot.clone());
        self.call(step, None, None, fields, move || {
            *loaded.lock() = Some(Driver::load(&config, &bus, clock)?);
            Ok(0)
        });
        self.driver = slot.lock().take();
        self.symbols.look_in(self.driver.clone());
    }

    fn wait_ready(&mut self, step: &Value, fields: &mut Fields) {
        let wanted = step["count"].as_u64().unwrap_or(1) as usize;
        let states = |driver: Option<&Arc<Driver>>| -> Vec<(u32, u32)> {
            driver.map_or(Vec::new(), |d| d.devices().iter().map(|n| (n.index, n.state() as u32)).collect())
        };
        for _ in 0..40 {
            let now = states(self.driver.as_ref());
            if now.iter().filter(|(_, s)| *s != 0).count() >= wanted {
                break;
            }
            sleep(&*self.clock, &self.task, Duration::from_millis(100));
        }
        let model: Vec<_> = states(self.driver.as_ref()).iter().map(|(n, s)| json!(format!("{n}:{s}"))).collect();
        fields.equal("states", &step["res"]["states"], Value::Array(model));
    }

    fn signal(&mut self, step: &Value, op: &str, actor: &str) {
        let number = step["sig"].as_i64().unwrap_or(0);
        let task = self.process(actor).task.clone();
        match (op, number) {
            (_, 9) => {
                task.raise(&*self.clock, signal::KILL);
            }
            ("tsignal", 15) => {
                self.process(actor).got_signal = number;
                task.raise(&*self.clock, signal::TERM);
            }
            // A process-directed signal, or one without meaning for the driver, is handled after
            // the call.
            _ => self.process(actor).got_signal = number,
        }
    }

    fn join(&mut self, step: &Value, actor: &str, fields: &mut Fields) {
        let res = &step["res"];
        let Some(parked) = self.parked.remove(actor) else { return fields.differ("join", res, "no call in flight") };
        let blocked = res.get("still_blocked").is_some();
        let limit = if blocked { Duration::from_millis(300) } else { PATIENCE };
        match self.wait(&parked.running, limit) {
            None => {
                if !blocked {
                    fields.differ("result", res, "blocked");
                }
                self.parked.insert(actor.to_owned(), parked);
            }
            Some(answer) => {
                fields.equal("step", res["completes_step"].as_u64().unwrap_or(u64::MAX), parked.step);
                self.finish(actor, step, &parked, answer, res, fields);
            }
        }
    }

    fn ioctl(&mut self, step: &Value, actor: &str, fields: &mut Fields) -> Result<(), ReplayError> {
        let fd = step["fd"].as_str().or_else(|| self.defaults["fd"].as_str()).unwrap_or("f").to_owned();
        self.process(actor);
        let process = &self.processes[actor];
        let prepared = Prepared::new(step, &self.defaults, process, &self.variables)?;
        let (file, memory) = (process.file(&fd), process.memory.clone());
        let (cmd, arg) = (prepared.cmd, prepared.arg);
        let caller = self.process(actor).caller(step.get("thread").is_some());
        self.call(step, Some(prepared), None, fields, move || {
            file.ok_or(Errno::EBADF)?.ioctl(&caller, &*memory, cmd, arg)
        });
        Ok(())
    }
}

/// Compares return value, error and death.
pub(super) fn result(recorded: &Value, answer: &Answer, fields: &mut Fields) {
    let text = match answer {
        Ok(value) => format!("ret {value}"),
        Err(Stop::Errno(errno)) => format!("errno {errno:?}"),
        Err(Stop::Uncopied(left)) => format!("ret {left}"),
        Err(Stop::Bug(_)) => "died".into(),
        Err(Stop::Hung) => "died".into(),
    };
    let expected = if recorded.get("actor_died").is_some() {
        "died".into()
    } else if let Some(errno) = recorded["errno"].as_str() {
        format!("errno {errno}")
    } else if let Some(errno) = recorded["errno"].as_i64() {
        format!("errno {errno}")
    } else if let Some(ret) = recorded["ret"].as_i64() {
        format!("ret {ret}")
    } else if let Some(ret) = recorded["ret"].as_u64() {
        format!("ret {ret}")
    } else {
        recorded.to_string()
    };
    // A killed process dies with whatever its call gave.
    if expected == "died" && matches!(answer, Err(Stop::Errno(Errno::EINTR))) {
        return;
    }
    // A killed process's wait may also end in a result.
    if recorded.get("actor_died").and_then(Value::as_i64) == Some(9) && recorded.get("completes_step").is_some() {
        return;
    }
    fields.equal("result", expected, text);
}
