//! The reset engine under every schedule the explorer tries.
//!
//! `cargo test -p neuron-kmd --features shuttle --test shuttle`
//!
//! A deadlock, which is what a lost waiter is, ends the exploration with an error.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use neuron_abi::kernel::values::{DeviceState, NC_MAP_DEVICE, RESET_REQUEST_ALL};
use neuron_kmd::caller::Caller;
use neuron_kmd::reset::{HandshakeError, Pause, ResetEngine, ResetEvent, ResetTarget, Submitted, WaitMode, Waited};
use neuron_kmd::sync::{Task, signal};
use neuron_kmd::time::{Clock, ShuttleClock};

/// Schedules tried per test.
const SCHEDULES: usize = 1000;

/// One run of the hardware.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Run {
    members: Vec<u32>,
    map: u32,
}

/// Hardware that accepts and remembers what it was reset for.
#[derive(Default)]
struct Hardware {
    runs: Mutex<Vec<Run>>,
    /// Members announced since the last run.
    members: Mutex<Vec<u32>>,
    state: Mutex<Option<DeviceState>>,
    /// Whether the stages sleep, so that other threads get in between.
    slow: bool,
}

impl Hardware {
    fn slow() -> Arc<Self> {
        Arc::new(Self { slow: true, ..Self::default() })
    }

    fn nap(&self, pause: &Pause<'_>) -> Result<(), HandshakeError> {
        if !self.slow {
            return Ok(());
        }
        pause.sleep(Duration::from_millis(100)).map_err(|_| HandshakeError::Stopped)
    }

    fn runs(&self) -> Vec<Run> {
        self.runs.lock().expect("runs").clone()
    }

    /// Each run reset exactly the union of its members, and each request was in one run at most.
    fn check(&self, maps: &BTreeMap<u32, u32>) {
        let mut seen = Vec::new();
        for run in self.runs() {
            let union = run.members.iter().fold(0, |union, id| union | maps[id]);
            assert_eq!(run.map, union, "{run:?}");
            seen.extend(run.members);
        }
        let all = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), all, "a request was driven twice");
    }
}

impl ResetTarget for Hardware {
    fn thread_name(&self) -> String {
        "nd0 reset".into()
    }

    fn no_reset(&self) -> bool {
        false
    }

    fn set_state(&self, state: DeviceState) {
        *self.state.lock().expect("state") = Some(state);
    }

    fn teardown_core(&self, _: usize) {}

    fn initiate(&self, pause: &Pause<'_>, map: u32) -> Result<(), HandshakeError> {
        let members = std::mem::take(&mut *self.members.lock().expect("members"));
        self.runs.lock().expect("runs").push(Run { members, map });
        self.nap(pause)
    }

    fn wait_for_completion(&self, pause: &Pause<'_>) -> Result<(), HandshakeError> {
        self.nap(pause)
    }

    fn reinit_dma(&self, _: &Pause<'_>, _: u32) -> Result<(), HandshakeError> {
        Ok(())
    }

    fn post_config(&self, _: &Pause<'_>, _: u32, _: bool, _: bool) -> Result<(), HandshakeError> {
        Ok(())
    }

    fn count_failure(&self) {}

    fn log(&self, event: ResetEvent) {
        if let ResetEvent::Begins(id) = event {
            self.members.lock().expect("members").push(id);
        }
    }
}

/// A device: engine with its worker, and hardware.
struct Device {
    engine: Arc<ResetEngine>,
    hardware: Arc<Hardware>,
}

impl Device {
    fn new(clock: &Arc<dyn Clock>, hardware: Arc<Hardware>) -> Arc<Self> {
        let engine = ResetEngine::new(clock.clone());
        engine.start(hardware.clone());
        Arc::new(Self { engine, hardware })
    }

    fn submit(&self, map: u32, id: u32) -> Submitted {
        self.engine.submit(&*self.hardware, &Task::new(), map, id)
    }

    fn wait(&self, id: u32, mode: WaitMode) -> Waited {
        self.engine.wait(&*self.hardware, &Caller::process(id, 0, false), id, mode)
    }

    fn stop(&self) {
        self.engine.stop(&*self.hardware);
    }
}

/// Runs a closure per item in a thread each, and waits for all.
fn in_threads<T: Send + 'static>(items: impl IntoIterator<Item = T>, body: impl Fn(T) + Send + Sync + 'static) {
    let body = Arc::new(body);
    let threads: Vec<_> = items
        .into_iter()
        .map(|item| {
            let body = body.clone();
            shuttle::thread::spawn(move || body(item))
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("thread"));
}

/// C007 C014 C026 C054 C061 C068 C085 C087 C088 C103: every request gets one result, whoever runs
/// when, and each hardware run covers exactly its members.
#[test]
fn every_request_gets_its_result_and_no_waiter_is_lost() {
    shuttle::check_random(
        || {
            let clock: Arc<dyn Clock> = ShuttleClock::new();
            let device = Device::new(&clock, Hardware::slow());
            let submitted = device.clone();
            in_threads(0..4_u32, move |core| {
                let id = 100 + core;
                assert_eq!(submitted.submit(1 << core, id), Submitted::Accepted);
                assert_eq!(submitted.wait(id, WaitMode::Strict), Waited::Ok);
                assert_eq!(submitted.wait(id, WaitMode::Strict), Waited::Failed, "taken off once");
            });
            device.engine.check_invariants();
            assert_eq!(device.engine.lengths(), (0, 0));
            device.hardware.check(&(0..4).map(|core| (100 + core, 1 << core)).collect());
            assert_eq!(device.hardware.runs().iter().map(|r| r.members.len()).sum::<usize>(), 4);
            device.stop();
        },
        SCHEDULES,
    );
}

/// C002: devices do not share anything; each of several processes resets each of several devices.
#[test]
fn submitters_on_several_devices_do_not_meet() {
    shuttle::check_random(
        || {
            let clock: Arc<dyn Clock> = ShuttleClock::new();
            let devices: Vec<_> = (0..2).map(|_| Device::new(&clock, Hardware::slow())).collect();
            let all = devices.clone();
            in_threads(0..2_u32, move |process| {
                for device in &all {
                    assert_eq!(device.submit(1 << process, process + 1), Submitted::Accepted);
                }
                for device in all.iter().rev() {
                    assert_eq!(device.wait(process + 1, WaitMode::Strict), Waited::Ok);
                }
            });
            for device in devices {
                device.hardware.check(&[(1, 0b01), (2, 0b10)].into());
                assert_eq!(device.engine.lengths(), (0, 0));
                device.stop();
            }
        },
        SCHEDULES,
    );
}

/// C040 C041: of two threads of one process that ask at once, one is accepted; the loser may ask
/// again as soon as the request is taken off.
#[test]
fn duplicate_guard_lets_one_of_two_in() {
    shuttle::check_random(
        || {
            let clock: Arc<dyn Clock> = ShuttleClock::new();
            let device = Device::new(&clock, Hardware::slow());
            let accepted = Arc::new(Mutex::new(0));
            let (asked, count) = (device.clone(), accepted.clone());
            in_threads(0..2, move |_| {
                if asked.submit(1, 7) == Submitted::Accepted {
                    *count.lock().expect("count") += 1;
                }
            });
            assert_eq!(*accepted.lock().expect("count"), 1);
            assert_eq!(device.wait(7, WaitMode::Strict), Waited::Ok);
            assert_eq!(device.submit(1, 7), Submitted::Accepted);
            device.stop();
        },
        SCHEDULES,
    );
}

/// C063 C120: stopped at any point, nobody is left waiting, nothing stays in the lists, and what
/// was driven was driven once.
#[test]
fn stop_at_any_point_lets_everybody_go() {
    shuttle::check_random(
        || {
            let clock: Arc<dyn Clock> = ShuttleClock::new();
            let device = Device::new(&clock, Hardware::slow());
            let (submitted, stopped) = (device.clone(), device.clone());
            let stopper = shuttle::thread::spawn(move || stopped.stop());
            in_threads(0..3_u32, move |core| {
                let id = 100 + core;
                let accepted = submitted.submit(1 << core, id) == Submitted::Accepted;
                // A request that was forgotten failed, one that is gone is over: a wait without
                // end is no outcome.
                let waited = submitted.wait(id, WaitMode::Strict);
                assert!(accepted || waited == Waited::Failed);
                assert_ne!(waited, Waited::Interrupted);
            });
            stopper.join().expect("stopper");
            assert_eq!(device.engine.lengths(), (0, 0));
            device.hardware.check(&(0..3).map(|core| (100 + core, 1 << core)).collect());
            assert_eq!(*device.hardware.state.lock().expect("state"), Some(DeviceState::Invalid));
        },
        SCHEDULES,
    );
}

/// C009 C024 C067 C089: an ALL request among process requests is driven alone when it is the head,
/// and folded in otherwise; either way the others get their results.
#[test]
fn whole_device_request_among_others_is_driven_once() {
    shuttle::check_random(
        || {
            let clock: Arc<dyn Clock> = ShuttleClock::new();
            let device = Device::new(&clock, Hardware::slow());
            let submitted = device.clone();
            in_threads(0..3_u32, move |n| {
                if n == 0 {
                    assert_eq!(submitted.submit(NC_MAP_DEVICE, RESET_REQUEST_ALL), Submitted::Accepted);
                    return;
                }
                assert_eq!(submitted.submit(1 << n, n), Submitted::Accepted);
                assert_eq!(submitted.wait(n, WaitMode::Strict), Waited::Ok);
            });
            // The ALL request has no waiter of its own; its run may still be under way.
            while device.engine.lengths().0 != 0 {
                shuttle::thread::yield_now();
            }
            let runs = device.hardware.runs();
            device.hardware.check(&[(1, 0b10), (2, 0b100), (RESET_REQUEST_ALL, NC_MAP_DEVICE)].into());
            let run = runs.iter().find(|r| r.members.contains(&RESET_REQUEST_ALL)).expect("driven");
            let folded = run.members[0] != RESET_REQUEST_ALL;
            assert!(folded || run.members.len() == 1, "at the head it is alone: {run:?}");
            let state = *device.hardware.state.lock().expect("state");
            let expected = if folded { DeviceState::Reset } else { DeviceState::Ready };
            assert_eq!((state, device.engine.lengths()), (Some(expected), (0, usize::from(folded))));
            device.stop();
        },
        SCHEDULES,
    );
}

/// C098 C100 C104: a signal at any moment ends the wait or comes too late; the request is there
/// for the next wait unless this one took it.
#[test]
fn wait_interrupted_at_any_point_loses_nothing() {
    shuttle::check_random(
        || {
            let clock: Arc<dyn Clock> = ShuttleClock::new();
            let device = Device::new(&clock, Hardware::slow());
            assert_eq!(device.submit(1, 7), Submitted::Accepted);
            let caller = Caller::process(7, 0, false);
            let (task, on) = (caller.task.clone(), clock.clone());
            let killer = shuttle::thread::spawn(move || task.raise(&*on, signal::KILL));
            let first = device.engine.wait(&*device.hardware, &caller, 7, WaitMode::Strict);
            killer.join().expect("killer");
            let second = device.wait(7, WaitMode::Strict);
            let expected = if first == Waited::Interrupted { Waited::Ok } else { Waited::Failed };
            assert_eq!(second, expected, "after {first:?}");
            device.stop();
        },
        SCHEDULES,
    );
}
