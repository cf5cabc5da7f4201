//! The reset engine against a model of it that knows no threads, locks or time.
//!
//! An operation happens, everybody who is awake runs, and then lists, results, state, counters and
//! hardware runs must be those of the model. A run ends when the operation says so.
#![cfg(not(feature = "shuttle"))]

mod rig;

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use neuron_abi::kernel::values::DeviceState;
use neuron_kmd::reset::{Submitted, WaitMode, Waited};
use proptest::prelude::*;
use rig::{ALL, DEVICE, Did, Rig, Waiter};

#[derive(Clone, Debug)]
enum Op {
    Submit {
        id: u32,
        map: u32,
        memory: bool,
    },
    /// The run under way ends, failing at a stage or not at all.
    Finish {
        fails: Option<u32>,
    },
    Wait {
        id: u32,
        strict: bool,
    },
    NoReset(bool),
}

/// Ids are few, so that they meet; ALL is one of them.
fn id() -> impl Strategy<Value = u32> {
    prop_oneof![6 => 1_u32..6, 1 => Just(ALL)]
}

fn map() -> impl Strategy<Value = u32> {
    prop_oneof![6 => 0_u32..0x400, 1 => Just(DEVICE)]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        5 => (id(), map(), prop::bool::weighted(0.9)).prop_map(|(id, map, memory)| Op::Submit { id, map, memory }),
        4 => prop::option::weighted(0.4, 1_u32..5).prop_map(|fails| Op::Finish { fails }),
        4 => (id(), any::<bool>()).prop_map(|(id, strict)| Op::Wait { id, strict }),
        1 => prop::bool::weighted(0.2).prop_map(Op::NoReset),
    ]
}

/// What the driver's text says, in order, for one caller after the other.
#[derive(Default)]
struct Model {
    pending: Vec<(u32, u32)>,
    /// Members of the run under way: a prefix of the pending list.
    running: usize,
    completed: Vec<(u32, bool)>,
    no_reset: bool,
    state: Option<DeviceState>,
    torn_down: [u32; 8],
    failures: u32,
    runs: Vec<u32>,
}

impl Model {
    fn submit(&mut self, id: u32, map: u32, memory: bool) -> Submitted {
        if self.no_reset {
            self.state = Some(DeviceState::Ready);
            return Submitted::Accepted;
        }
        if self.pending.iter().any(|r| r.0 == id) || self.completed.iter().any(|r| r.0 == id) {
            return Submitted::Refused;
        }
        if id == ALL {
            self.state = Some(DeviceState::Reset);
        }
        for core in 0..8 {
            self.torn_down[core] += map >> core & 1;
        }
        if !memory {
            return Submitted::Refused;
        }
        self.pending.push((id, map));
        self.begin();
        Submitted::Accepted
    }

    fn begin(&mut self) {
        if self.running == 0 && !self.pending.is_empty() {
            self.running = if self.pending[0].0 == ALL { 1 } else { self.pending.len() };
            self.runs.push(self.pending[..self.running].iter().fold(0, |union, r| union | r.1));
        }
    }

    fn finish(&mut self, fails: Option<u32>) {
        if self.running == 0 {
            return;
        }
        let run: Vec<_> = self.pending.drain(..self.running).collect();
        self.running = 0;
        self.failures += u32::from(fails.is_some_and(|stage| stage < 4));
        if run[0].0 == ALL {
            self.state = Some(if fails.is_none() { DeviceState::Ready } else { DeviceState::Invalid });
        } else {
            self.completed.extend(run.iter().map(|r| (r.0, fails.is_none())));
        }
        self.begin();
    }

    /// The result of a wait; `None` when it has to wait.
    fn wait(&mut self, id: u32, strict: bool) -> Option<Waited> {
        if self.no_reset {
            return Some(Waited::Ok);
        }
        if self.pending.iter().any(|r| r.0 == id) {
            return None;
        }
        let Some(at) = self.completed.iter().position(|r| r.0 == id) else {
            return Some(if strict { Waited::Failed } else { Waited::Ok });
        };
        Some(if self.completed.remove(at).1 { Waited::Ok } else { Waited::Failed })
    }
}

/// The engine; a run ends when it gets a permit.
struct Engine {
    rig: Rig,
    did: Vec<Did>,
}

impl Engine {
    /// Lets the run under way end as asked.
    fn finish(&mut self, fails: Option<u32>) {
        if self.rig.engine.lengths().0 == 0 {
            return;
        }
        self.rig.target.fail_at(fails);
        *self.rig.target.permits.lock().expect("permits") = Some(1);
        self.rig.pass(3);
        self.collect();
    }

    fn collect(&mut self) {
        self.did.extend(self.rig.target.did());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// C014 C020 C028 C040 C061 C067 C068 C081 C085 C101: lists, results, counters and runs.
    #[test]
    fn engine_does_what_the_sequential_model_does(ops in prop::collection::vec(op(), 1..60)) {
        let mut engine = Engine { rig: Rig::new(), did: Vec::new() };
        *engine.rig.target.permits.lock().expect("permits") = Some(0);
        let mut model = Model::default();
        let mut waiting: BTreeMap<u32, (Waiter, bool)> = BTreeMap::new();
        for op in ops {
            match op {
                Op::Submit { id, map, memory } => {
                    engine.rig.target.no_memory.store(!memory, Ordering::Relaxed);
                    prop_assert_eq!(engine.rig.submit(map, id), model.submit(id, map, memory));
                }
                Op::Finish { fails } => {
                    engine.finish(fails);
                    model.finish(fails);
                }
                // Whoever waits already takes the request away; a second waiter for the same one
                // is a race the driver loses, too.
                Op::Wait { id, .. } if waiting.contains_key(&id) => {}
                Op::Wait { id, strict } => {
                    let mode = if strict { WaitMode::Strict } else { WaitMode::Check };
                    match model.wait(id, strict) {
                        Some(expected) => prop_assert_eq!(engine.rig.wait(id, mode), expected),
                        None => {
                            waiting.insert(id, (engine.rig.wait_in_thread(id, mode), strict));
                        }
                    }
                }
                Op::NoReset(on) => {
                    engine.rig.target.no_reset.store(on, Ordering::Relaxed);
                    model.no_reset = on;
                }
            }
            engine.rig.settle();
            engine.collect();
            // Waits that were begun look at their request, not at the switch.
            let switch = std::mem::take(&mut model.no_reset);
            let mut over = Vec::new();
            for (id, (waiter, strict)) in &waiting {
                let ends_alone = *id == ALL && !model.pending.iter().any(|r| r.0 == ALL);
                let listed = model.completed.iter().any(|r| r.0 == *id);
                if ends_alone && !listed {
                    // An ALL request that ran alone disposes of itself; who waits for it sees its result.
                    let ready = model.state == Some(DeviceState::Ready);
                    let expected = if ready { Waited::Ok } else { Waited::Failed };
                    prop_assert_eq!(waiter.result(), Some(expected), "waiter of ALL");
                    over.push(*id);
                    continue;
                }
                let expected = model.wait(*id, *strict);
                prop_assert_eq!(waiter.result(), expected, "waiter of {}", id);
                if expected.is_some() {
                    over.push(*id);
                }
            }
            model.no_reset = switch;
            over.iter().for_each(|id| drop(waiting.remove(id)));
            prop_assert_eq!(engine.rig.engine.lengths(), (model.pending.len(), model.completed.len()));
        }
        let of = |wanted: fn(&Did) -> bool| engine.did.iter().filter(|d| wanted(d)).count() as u32;
        prop_assert_eq!(of(|d| *d == Did::Failure), model.failures);
        let runs: Vec<_> =
            engine.did.iter().filter_map(|d| if let Did::Initiate(map) = d { Some(*map) } else { None }).collect();
        prop_assert_eq!(runs, model.runs);
        let state = engine.did.iter().rev().find_map(|d| if let Did::State(s) = d { Some(*s) } else { None });
        prop_assert_eq!(state, model.state);
        let torn: Vec<_> =
            (0..8).map(|core| engine.did.iter().filter(|d| **d == Did::Teardown(core)).count() as u32).collect();
        prop_assert_eq!(torn, model.torn_down.to_vec());
        // Stopped at whatever point: nobody is left behind.
        engine.rig.stop();
        for (waiter, _) in waiting.into_values() {
            waiter.join(&*engine.rig.clock);
        }
        prop_assert_eq!(engine.rig.engine.lengths(), (0, 0));
    }
}
