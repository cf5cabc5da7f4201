//! C programs that drive the finished library as its users do. Each scenario runs in a process of
//! its own (`tests/c/check.h`); a program prints what failed and exits with 1.

mod common;
#[path = "common/emu.rs"]
mod emu;

use common::{command, install, linked, lists, must_succeed, root};
use nrt_tools::abi::table::{self, Gate, State};
use nrt_tools::abi::{self};

fn run(name: &str) {
    let tree = install();
    let tree = tree.path();
    lists(tree, |s| s.gate == Gate::Init);
    must_succeed(&mut command(&linked(name, tree, &["-Wno-cast-function-type"]), tree));
}

#[test]
fn lifecycle_counts_and_identity() {
    run("lifecycle");
}

#[test]
fn forked_children() {
    run("fork");
}

#[test]
fn calls_from_many_threads() {
    run("threads");
}

#[test]
fn eight_threads_hammer_the_same_tensors() {
    run("hammer");
}

#[test]
fn eight_threads_hammer_the_same_tensors_on_device_files() {
    let Some(served) = emu::Served::start(&emu::program(), "trn1.2xlarge", &[]) else { return };
    let tree = install();
    let mut hammer = command(&linked("hammer", tree.path(), &[]), tree.path());
    must_succeed(hammer.envs(served.variables()).env("NEURON_RT_RESET_CORES", "0"));
}

#[test]
fn reports_of_users() {
    run("reports");
}

#[test]
fn tensors_of_every_kind() {
    run("tensors");
}

#[test]
fn asynchronous_calls() {
    run("async");
}

/// A001, and what the calls that need no device answer.
#[test]
fn builders_version_and_names_answer_a_c_program() {
    run("builders");
}

/// A058, A112, B11: any order of init, close, fork and threads.
#[test]
fn random_orders_of_init_close_and_fork() {
    run("walk");
}

/// A call that is said to work has a program that uses it.
#[test]
fn every_call_that_works_is_called() {
    let sources: String = std::fs::read_dir(root().join("tests/c"))
        .expect("the folder is in the repository")
        .map(|entry| std::fs::read_to_string(entry.expect("readable").path()).expect("C sources are text"))
        .collect();
    let symbols = table::symbols(abi::SYMBOLS).expect("the table in the repository parses");
    let idle: Vec<&str> = symbols
        .iter()
        .filter(|s| s.status != State::Stub && !sources.contains(&format!("{}(", s.name)))
        .map(|s| s.name)
        .collect();
    assert!(idle.is_empty(), "no program in tests/c calls {idle:?}");
}
