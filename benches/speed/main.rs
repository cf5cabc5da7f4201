//! Speed of the finished release library: ratios against baselines of the same run, added to
//! `target/bench/ratios.json` and held to their limits, then criterion's figures for each call alone.
//!
//! `make bench` runs it. The exit status is 1 when a limit is exceeded.

mod cases;
#[path = "../../tests/common/mod.rs"]
mod common;
mod devices;
#[path = "../../tests/common/emu.rs"]
mod emu;
mod library;
mod queues;
#[path = "../common/ratios.rs"]
mod ratios;
#[path = "../../tests/common/shared.rs"]
mod shared;

use criterion::Criterion;
use devices::Machine;
use library::Nrt;
use ratios::{Judge, Ratios};
use shared::Shared;
use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

/// Criterion's view of the cases: every subject for itself, and once where several cases have it.
struct Absolute {
    criterion: Criterion,
    done: BTreeSet<&'static str>,
}

impl Judge for Absolute {
    fn case(&mut self, name: &'static str, _: Option<f64>, mut subject: impl FnMut(), _: impl FnMut()) {
        let call = name.split("_vs_").next().unwrap_or(name);
        if self.done.insert(call) {
            self.criterion.bench_function(call, |bencher| bencher.iter(&mut subject));
        }
    }
}

fn main() -> ExitCode {
    // SAFETY: no other thread is running yet.
    unsafe {
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"NEURON")) {
            std::env::remove_var(name);
        }
        std::env::set_var("NEURON_RT_FAKE_INSTANCE_TYPE", "trn2.48xlarge");
    }
    let library = common::library();
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let (nrt, empty) = (Nrt::of(Shared::open(library)), library::empty(folder.path()));

    let mut ratios = Ratios::default();
    // First, while the process holds no memory that many tensors could find.
    cases::amounts(&nrt, &mut ratios);
    cases::all(&nrt, empty, &mut ratios);
    queues::all(&nrt, &mut ratios);
    cases::two_threads(nrt, &mut ratios);
    cases::dlopen(library, folder.path(), &mut ratios);
    let machine = Machine::publish(library, folder.path());
    if let Some(machine) = &machine {
        machine.all(&nrt, &mut ratios);
        machine.large(&mut ratios);
    }
    let pass = ratios.report();

    let criterion = Criterion::default()
        .without_plots()
        .sample_size(50)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .configure_from_args();
    let mut absolute = Absolute { criterion, done: BTreeSet::new() };
    cases::all(&nrt, empty, &mut absolute);
    queues::all(&nrt, &mut absolute);
    if let Some(machine) = &machine {
        machine.all(&nrt, &mut absolute);
    }
    if pass { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
