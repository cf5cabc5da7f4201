//! The lifecycle in processes of its own, on both backends.

use super::*;
use emu::Served;
use std::path::PathBuf;
use strum::IntoEnumIterator;

#[path = "../../../../tests/common/emu.rs"]
mod emu;

fn nothing_is_held() {
    assert_eq!(state(), State::Start);
    assert!(RUNTIME.load().is_none());
    assert!(config::raw_records().gcfg.is_null());
    assert_eq!(runtime().err(), Some(Status::Uninitialized));
}

const CHILD: &str = "OPENNRT_TEST_CHILD";

/// Runs a test again in a process of its own, because it drives the process-wide lifecycle. True
/// in that process.
fn alone(test: &str, variables: &[(&str, PathBuf)]) -> bool {
    if std::env::var_os(CHILD).is_some() {
        return true;
    }
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("NEURON_") {
            command.env_remove(name);
        }
    }
    command.args(["--exact", &format!("lifecycle::tests::{test}"), "--nocapture"]).env(CHILD, "1");
    assert!(command.envs(variables.iter().cloned()).status().unwrap().success());
    false
}

fn fails_at(step: Step, nothing_is_held: impl Fn()) {
    FAIL_AT.set(Some(step));
    assert_eq!(init(1, "", ""), Err(Status::Resource), "{step:?}");
    nothing_is_held();
    FAIL_AT.set(None);
    assert_eq!(init(1, "", ""), Ok(()), "{step:?}");
    assert_eq!(state(), State::Init);
    close();
    nothing_is_held();
}

#[test]
fn failure_at_each_step_leaves_start_and_holds_nothing() {
    let test = "failure_at_each_step_leaves_start_and_holds_nothing";
    if alone(test, &[("NEURON_RT_FAKE_INSTANCE_TYPE", "trn1.2xlarge".into())]) {
        Step::iter().filter(|step| !step.of_devices()).for_each(|step| fails_at(step, nothing_is_held));
    }
}

const IMPLICIT: &str = "NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS";

struct Callback<F>(F);

impl<F: Fn(exec::Report) + Send + Sync> exec::Callback for Callback<F> {
    fn report(&self, report: exec::Report) {
        (self.0)(report);
    }
}

#[test]
fn a_close_ends_the_workers_whoever_holds_the_runtime() {
    let test = "a_close_ends_the_workers_whoever_holds_the_runtime";
    if !alone(test, &[("NEURON_RT_FAKE_INSTANCE_TYPE", "trn1.2xlarge".into()), (IMPLICIT, "2".into())]) {
        return;
    }
    let workers = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
        names.filter(|name| name.starts_with("nrt c")).count()
    };
    // A callback that closes is told off, or it would wait for itself.
    exec::register(Some(Box::new(Callback(|_| close()))));
    for _ in 0..2 {
        init(1, "", "").unwrap();
        let held = runtime().unwrap();
        let jobs = held.scheduler.jobs().unwrap();
        assert_eq!(jobs.submit("test", 0, 1, Box::new(|| Ok(()))), Ok(1));
        held.scheduler.drain(0).unwrap();
        assert_eq!((state(), workers()), (State::Init, 1));
        close();
        assert_eq!(workers(), 0);
        assert_eq!(jobs.submit("test", 0, 1, Box::new(|| Ok(()))), Err(Status::Closed));
        assert_eq!(jobs.submit("test", 1, 1, Box::new(|| Ok(()))), Err(Status::Closed));
        drop(held);
        nothing_is_held();
    }
}

#[test]
fn a_child_forked_in_a_callback_ends_when_the_callback_does() {
    let test = "a_child_forked_in_a_callback_ends_when_the_callback_does";
    if !alone(test, &[("NEURON_RT_FAKE_INSTANCE_TYPE", "trn1.2xlarge".into()), (IMPLICIT, "8".into())]) {
        return;
    }
    let (sender, ends) = std::sync::mpsc::channel();
    let fork = move |_| {
        // SAFETY: the child calls nothing but what follows, and returns.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: ends a child that hangs.
            unsafe { libc::alarm(60) };
            return;
        }
        let mut status = -1;
        // SAFETY: waits for the child made above and writes to a live local.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        sender.send(status).unwrap();
    };
    exec::register(Some(Box::new(Callback(fork))));
    init(1, "", "").unwrap();
    let runtime = runtime().unwrap();
    let jobs = runtime.scheduler.jobs().unwrap();
    for job in 1..=5 {
        assert_eq!(jobs.submit("test", 0, 1, Box::new(|| Ok(()))), Ok(job));
    }
    runtime.scheduler.drain(0).unwrap();
    assert_eq!(ends.try_iter().collect::<Vec<_>>(), [0; 5]);
    close();
}

/// The second init after each failure claims the same cores, so the first has given them back.
#[test]
fn failure_at_each_step_on_devices_leaves_no_claim_and_no_descriptor() {
    let test = "failure_at_each_step_on_devices_leaves_no_claim_and_no_descriptor";
    if std::env::var_os(CHILD).is_none() {
        let Some(served) = Served::start(&emu::program(), "trn1.2xlarge", &["--hbm-gib", "8"]) else { return };
        alone(test, &served.variables());
        return;
    }
    let nodes = std::env::var("OPENNRT_DEV_DIR").unwrap();
    let held = || {
        nothing_is_held();
        let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        let open: Vec<_> = open.filter_map(|fd| std::fs::read_link(fd.path()).ok()).collect();
        assert!(!open.iter().any(|path| path.starts_with(&nodes)), "{open:?}");
    };
    Step::iter().for_each(|step| fails_at(step, held));
}
