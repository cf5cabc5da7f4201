//! The gate of all exports: `abi/symbols.tsv` against the rule and against the finished library.

mod common;

use common::{command, install, linked, lists, must_succeed};
use nrt_core::lifecycle::{GateClass, State, decide};
use nrt_core::{Status, version};
use nrt_tools::abi::table::{self, Gate, Symbol};
use nrt_tools::abi::{self};

fn symbols() -> Vec<Symbol<'static>> {
    table::symbols(abi::SYMBOLS).expect("the table in the repository parses")
}

/// What the gate of a row says in a state: the status, and what stands in the log line.
fn refusal(gate: Gate, state: State) -> Option<(u32, String)> {
    let line = |text: &str| text.to_string();
    match (gate, state) {
        (Gate::Any | Gate::Body, _) | (Gate::Init | Gate::Probe, State::Init) | (Gate::BeforeInit, State::Start) => {
            None
        }
        (Gate::BeforeInit, State::Init) => Some((2, line("must be called before nrt_init"))),
        (Gate::Probe, State::Start) => Some((13, line("Unexpected runtime state: NRT_STATE_START"))),
        (Gate::Probe, State::Closed) => Some((14, line("Unexpected runtime state: NRT_STATE_CLOSED"))),
        (Gate::Probe, State::Child) => Some((1, line("Unexpected runtime state: NRT_STATE_CHILD"))),
        (_, State::Start) => Some((13, line("NRT uninitialized"))),
        (_, State::Closed) => Some((14, line("NRT already closed"))),
        (_, State::Child) => Some((1, line("Incompatible runtime state: NRT_STATE_CHILD"))),
    }
}

/// CLOSED lasts as long as a close of another thread, so nobody outside can hold it: here is the
/// rule for it, next to the other three.
#[test]
fn the_rule_answers_every_row_in_all_four_states() {
    for s in symbols() {
        let class = match s.gate {
            Gate::Any | Gate::Body => GateClass::Any,
            Gate::Init => GateClass::InitRequired,
            Gate::Probe => GateClass::InitProbe,
            Gate::BeforeInit => GateClass::BeforeInit,
        };
        for state in [State::Start, State::Init, State::Child, State::Closed] {
            let status = decide(class, state).err().map(|status| status as u32);
            assert_eq!(status, refusal(s.gate, state).map(|(status, _)| status), "{} in {}", s.name, state.name());
        }
    }
}

/// One call of `tests/c/gates.c`.
struct Call<'a> {
    state: &'a str,
    name: &'a str,
    /// The return register; `None` when the process died.
    answer: Option<u64>,
    /// What the library printed.
    lines: Vec<&'a str>,
}

fn transcript(text: &str) -> Vec<Call<'_>> {
    let mut calls: Vec<Call<'_>> = Vec::new();
    for line in text.lines() {
        if let Some((state, name)) = line.strip_prefix("# ").and_then(|head| head.split_once(' ')) {
            calls.push(Call { state, name, answer: None, lines: Vec::new() });
            continue;
        }
        let call = calls.last_mut().expect("a head comes first");
        match line.strip_prefix("= ") {
            Some(answer) => call.answer = Some(answer.parse().expect("a number")),
            None => call.lines.push(line),
        }
    }
    calls
}

/// Whether `rax` is what a call of this type returns when it fails with `status`.
fn is_failure(ret: &str, rax: u64, status: u32) -> bool {
    match ret {
        "void" => true,
        "NRT_STATUS" => rax as u32 == status,
        "int" => rax as i32 == -1,
        "bool" => rax as u8 == 0,
        "size_t" | "void *" | "const char *" => rax == 0,
        other => panic!("a call returns {other}, which this test does not know"),
    }
}

/// Every export, handed nothing, in START, INIT, CHILD and in START again after a close: refused
/// as its gate says with that line and no other; where it is let through, it never says 13 or 14,
/// and a stub says that it is one. Nothing dies and nothing prints much.
#[test]
fn every_export_obeys_its_gate_in_every_state_and_survives_zeros() {
    let tree = install();
    let tree = tree.path();
    let count = lists(tree, |_| true);
    // The cast from one function type to another is the point.
    let exe = linked("gates", tree, &["-Wno-cast-function-type"]);
    let output = must_succeed(&mut command(&exe, tree));
    let text = String::from_utf8_lossy(&output.stdout);
    let calls = transcript(&text);
    let symbols = symbols();
    assert_eq!((calls.len(), symbols.len()), (4 * count, count));
    assert!(count >= 145);

    for call in calls {
        let s = symbols.iter().find(|s| s.name == call.name).expect("the list is made from the table");
        let state = match call.state {
            "INIT" => State::Init,
            "CHILD" => State::Child,
            _ => State::Start,
        };
        let Call { lines, .. } = &call;
        let what = format!("{} in {}: {:?} {lines:#?}", call.name, call.state, call.answer);
        let rax = call.answer.unwrap_or_else(|| panic!("died: {what}"));
        // An alias is the same address, so it speaks with the name of its body.
        let name = s.alias.unwrap_or(s.name);
        let said = |text: &str| lines.len() == 1 && lines[0].contains(name) && lines[0].contains(text);

        if s.name == "nrt_init" {
            // The only call that answers for its state without a gate of the table.
            match state {
                State::Child => {
                    assert!(rax as u32 == 1 && said("Incompatible runtime state: NRT_STATE_CHILD"), "{what}")
                }
                _ => assert!(rax as u32 == 0 && lines.is_empty(), "{what}"),
            }
            continue;
        }
        match refusal(s.gate, state) {
            Some((status, line)) => assert!(is_failure(s.ret, rax, status) && said(&line), "{what}"),
            None if s.status == table::State::Stub => {
                let line = format!("{name} is not implemented in OpenNRT {}", version::OPENNRT);
                assert!(is_failure(s.ret, rax, 1) && said(&line), "{what}");
            }
            None => {
                if s.ret == "NRT_STATUS" {
                    let status = Status::from_repr(rax as u32);
                    assert!(status.is_some_and(|s| ![Status::Uninitialized, Status::Closed].contains(&s)), "{what}");
                }
                assert!(lines.len() <= 2 && !lines.iter().any(|line| line.contains("runtime state")), "{what}");
            }
        }
    }
}
