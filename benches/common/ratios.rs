//! Ratios: subject and baseline take turns in one run, so that whatever slows the machine down for a while slows both.
//!
//! Every bench that has some adds them to `target/bench/ratios.json`.

// Every bench uses its own part of this.
#![allow(dead_code)]

use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use std::time::Instant;
use std::{env, fs, io};

/// Rounds of one case; each measures both sides once.
pub const ROUNDS: usize = 201;
/// Least time of one measurement, in nanoseconds: far above the resolution of the clock.
const LEAST: f64 = 50_000.0;

/// Somebody who measures cases.
pub trait Judge {
    /// Measure `subject` and `baseline`. `limit` is the most the ratio of the two may be.
    fn case(&mut self, name: &'static str, limit: Option<f64>, subject: impl FnMut(), baseline: impl FnMut());
}

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
pub struct Ratios {
    rows: Vec<Row>,
    counts: Vec<(&'static str, u64)>,
}

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
    pub fn add(
        &mut self,
        name: &'static str,
        limit: Option<f64>,
        rounds: usize,
        mut subject: impl FnMut() -> f64,
        mut baseline: impl FnMut() -> f64,
    ) {
        let (subjects, baselines) = (0..rounds).map(|_| (subject(), baseline())).unzip();
        self.rows.push(Row { name, limit, subject: median(subjects), baseline: median(baselines) });
    }

    /// Report a number as well that was counted.
    pub fn count(&mut self, name: &'static str, number: u64) {
        self.counts.push((name, number));
    }

    /// Print the table and add it to what other benches have written; whether every limit holds.
    pub fn report(&self) -> bool {
        println!("\n{:<40} {:>12} {:>12} {:>8} {:>6}", "", "subject ns", "baseline ns", "ratio", "limit");
        let file = file();
        let mut json = written(&file);
        for row in &self.rows {
            let limit = row.limit.map_or("-".into(), |limit| limit.to_string());
            let verdict = if row.pass() { "" } else { "  EXCEEDED" };
            let Row { name, subject, baseline, .. } = row;
            println!("{name:<40} {subject:>12.1} {baseline:>12.1} {:>8.2} {limit:>6}{verdict}", row.ratio());
            json.insert((*name).into(), row.ratio().into());
            note(&mut json, "limits", name, row.limit.into());
            note(&mut json, "pass", name, row.pass().into());
            note(&mut json, "subject_ns", name, row.subject.into());
            note(&mut json, "baseline_ns", name, row.baseline.into());
        }
        for (name, number) in &self.counts {
            println!("{name:<40} {number:>12}");
            note(&mut json, "counts", name, (*number).into());
        }
        fs::create_dir_all(file.parent().expect("a file is in a folder")).expect("the target folder is ours");
        let text = serde_json::to_string_pretty(&json).expect("numbers have names");
        fs::write(&file, text + "\n").expect("the target folder is ours");
        println!("written to {}\n", file.display());
        self.rows.iter().all(Row::pass)
    }
}

/// `ratios.json` of the target folder this bench was built in.
fn file() -> PathBuf {
    let exe = env::current_exe().expect("a bench knows its own path");
    exe.ancestors().nth(3).expect("a bench is three folders below the target's").join("bench/ratios.json")
}

/// What other benches, or earlier runs, have left there.
fn written(file: &Path) -> Map<String, Value> {
    match fs::read(file) {
        Ok(text) => serde_json::from_slice(&text)
            .unwrap_or_else(|e| panic!("{} is not what a bench writes ({e}); delete it", file.display())),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Map::new(),
        Err(e) => panic!("{} cannot be read: {e}", file.display()),
    }
}

/// Set `table[name]`.
fn note(json: &mut Map<String, Value>, table: &str, name: &str, value: Value) {
    json.entry(table).or_insert_with(|| Map::new().into())[name] = value;
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
pub fn time(call: &mut impl FnMut(), calls: u32) -> f64 {
    let start = Instant::now();
    (0..calls).for_each(|_| call());
    start.elapsed().as_nanos() as f64 / f64::from(calls)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
