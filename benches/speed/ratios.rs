//! Ratios: subject and baseline take turns in one run, so that whatever slows the machine down for a while slows both.

use crate::cases::{self, Judge};
use crate::library::{self, Nrt};
use std::path::Path;
use std::process::Command;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;
use std::{fs, thread};

/// Rounds of one case; each measures both sides once.
const ROUNDS: usize = 201;
/// Rounds that start a process each.
const PROCESSES: usize = 51;
/// Least time of one measurement, in nanoseconds: far above the resolution of the clock.
const LEAST: f64 = 50_000.0;

/// One finished case.
struct Row {
    name: &'static str,
    limit: Option<f64>,
    /// Nanoseconds of one call, medians.
    subject: f64,
    baseline: f64,
}

impl Row {
    fn ratio(&self) -> f64 {
        self.subject / self.baseline
    }

    fn pass(&self) -> bool {
        self.limit.is_none_or(|limit| self.ratio() <= limit)
    }
}

/// All cases measured so far.
#[derive(Default)]
pub struct Ratios(Vec<Row>);

impl Judge for Ratios {
    fn case(&mut self, name: &'static str, limit: Option<f64>, mut subject: impl FnMut(), mut baseline: impl FnMut()) {
        let (subjects, baselines) = (calls(&mut subject), calls(&mut baseline));
        let one = || time(&mut subject, subjects);
        let other = || time(&mut baseline, baselines);
        self.add(name, limit, ROUNDS, one, other);
    }
}

impl Ratios {
    /// Take turns; the closures answer the nanoseconds of one call.
    fn add(
        &mut self,
        name: &'static str,
        limit: Option<f64>,
        rounds: usize,
        mut subject: impl FnMut() -> f64,
        mut baseline: impl FnMut() -> f64,
    ) {
        let (subjects, baselines) = (0..rounds).map(|_| (subject(), baseline())).unzip();
        self.0.push(Row { name, limit, subject: median(subjects), baseline: median(baselines) });
    }

    /// Time of one call with a second thread in the same call all the time, against that without.
    pub fn two_threads(&mut self, nrt: Nrt) {
        const CALLS: u32 = 100_000;
        let one = || time(&mut || cases::instance_info(&nrt), CALLS);
        let two = || {
            let (busy, started) = (AtomicBool::new(true), Barrier::new(2));
            thread::scope(|scope| {
                scope.spawn(|| {
                    started.wait();
                    while busy.load(Relaxed) {
                        (0..64).for_each(|_| cases::instance_info(&nrt));
                    }
                });
                started.wait();
                let time = one();
                busy.store(false, Relaxed);
                time
            })
        };
        self.add("instance_info_2_threads_vs_1", Some(1.2), ROUNDS, two, one);
    }

    /// Loading the library, against loading one every system has.
    pub fn dlopen(&mut self, library: &Path, folder: &Path) {
        let program = library::compile("dlopen_time", folder, &["-ldl"]);
        let load = |library: &Path| {
            let output = Command::new(&program).arg(library).output().expect("the program was just compiled");
            let text = String::from_utf8_lossy(&output.stdout);
            text.trim().parse().unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)))
        };
        self.add("dlopen_vs_libm_dlopen", None, PROCESSES, || load(library), || load(Path::new("libm.so.6")));
    }

    /// Print the table and write `ratios.json`; whether every limit holds.
    pub fn report(&self, file: &Path) -> bool {
        println!("\n{:<40} {:>12} {:>12} {:>8} {:>6}", "", "subject ns", "baseline ns", "ratio", "limit");
        let mut json = serde_json::Map::new();
        for row in &self.0 {
            let limit = row.limit.map_or("-".into(), |limit| limit.to_string());
            let verdict = if row.pass() { "" } else { "  EXCEEDED" };
            let Row { name, subject, baseline, .. } = row;
            println!("{name:<40} {subject:>12.1} {baseline:>12.1} {:>8.2} {limit:>6}{verdict}", row.ratio());
            json.insert((*name).into(), row.ratio().into());
        }
        let of = |value: &dyn Fn(&Row) -> serde_json::Value| -> serde_json::Value {
            self.0.iter().map(|row| (row.name.to_owned(), value(row))).collect::<serde_json::Map<_, _>>().into()
        };
        json.insert("limits".into(), of(&|row| row.limit.into()));
        json.insert("pass".into(), of(&|row| row.pass().into()));
        json.insert("subject_ns".into(), of(&|row| row.subject.into()));
        json.insert("baseline_ns".into(), of(&|row| row.baseline.into()));
        fs::create_dir_all(file.parent().expect("a file is in a folder")).expect("the target folder is ours");
        let text = serde_json::to_string_pretty(&json).expect("numbers have names");
        fs::write(file, text + "\n").expect("the target folder is ours");
        println!("written to {}\n", file.display());
        self.0.iter().all(Row::pass)
    }
}

/// How many calls make one measurement.
fn calls(call: &mut impl FnMut()) -> u32 {
    let mut calls = 1;
    while time(call, calls) * f64::from(calls) < LEAST {
        calls *= 2;
    }
    calls
}

/// Nanoseconds of one call.
fn time(call: &mut impl FnMut(), calls: u32) -> f64 {
    let start = Instant::now();
    (0..calls).for_each(|_| call());
    start.elapsed().as_nanos() as f64 / f64::from(calls)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
