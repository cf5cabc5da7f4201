//! C programs that drive the finished library as its users do. Each scenario runs in a process of
//! its own (`tests/c/check.h`); a program prints what failed and exits with 1.

mod common;

use common::{install, must_succeed, program};
use std::process::Command;

fn run(name: &str) {
    let tree = install();
    let lib = tree.path().join("lib");
    let search = format!("-L{}", lib.display());
    let exe = program(name, tree.path(), &[&search, "-lnrt", "-pthread"]);
    let mut command = Command::new(exe);
    command.env("LD_LIBRARY_PATH", lib);
    for (variable, _) in std::env::vars_os() {
        let text = variable.to_string_lossy();
        if text.starts_with("NEURON_") || text.starts_with("OPENNRT_") {
            command.env_remove(variable);
        }
    }
    must_succeed(&mut command);
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
fn reports_of_users() {
    run("reports");
}
