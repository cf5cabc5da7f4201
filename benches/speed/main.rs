//! Speed of the finished release library: ratios against baselines of the same run, written to
//! `target/bench/ratios.json` and held to their limits, then criterion's figures for each call alone.
//!
//! `make bench` runs it. The exit status is 1 when a limit is exceeded.

mod cases;
#[path = "../../tests/common/mod.rs"]
mod common;
mod library;
mod ratios;

use cases::Judge;
use criterion::Criterion;
use library::{Nrt, Shared};
use std::process::ExitCode;
use std::time::Duration;

/// Criterion's view of the cases: every subject for itself.
struct Absolute(Criterion);

impl Judge for Absolute {
    fn case(&mut self, name: &'static str, _: Option<f64>, mut subject: impl FnMut(), _: impl FnMut()) {
        let call = name.split("_vs_").next().unwrap_or(name);
        self.0.bench_function(call, |bencher| bencher.iter(&mut subject));
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

    let mut ratios = ratios::Ratios::default();
    cases::all(&nrt, empty, &mut ratios);
    ratios.two_threads(nrt);
    ratios.dlopen(library, folder.path());
    let target = library.ancestors().nth(2).expect("the library is two folders below the target's");
    let pass = ratios.report(&target.join("bench/ratios.json"));

    let criterion = Criterion::default()
        .without_plots()
        .sample_size(50)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .configure_from_args();
    cases::all(&nrt, empty, &mut Absolute(criterion));
    if pass { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
