//! One set of questions, asked on every backend: the simulated instance, device files published by
//! `neuron-emu serve`, and the namespace of `neuron-emu run`. The answers are the same except where
//! [`DIFFERENCES`] says what each side answers and why.

#[path = "common/client.rs"]
mod client;
mod common;
#[path = "common/emu.rs"]
mod emu;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use client::Client;
use common::{install, linked, must_succeed, root};
use emu::Served;

/// One way in which the device files may answer something else than the simulated instance.
struct Difference {
    /// Start of the product's name.
    product: &'static str,
    /// Name of the line; `*` stands for any text.
    line: &'static str,
    /// On the simulated instance.
    simulated: &'static str,
    /// On device files.
    device: &'static str,
}

/// The lines that differ, by reason. Every row must be needed by some run.
const DIFFERENCES: &[(&str, &[Difference])] = &[
    ("the name of the backend is what is asked for", &[row("", "*.backend", "fake", "kernel")]),
    ("a simulated instance has no silicon, and so no revision", &[row("", "*.revision_*", "''", "'A'")]),
    (
        "device memory goes back with the descriptors at nrt_close; simulated memory lives as long as its tensor",
        &[row("", "outlived.read", "0", "14"), row("", "outlived.write", "0", "14")],
    ),
    (
        "the driver's core map: logical core 0 of a Trn2 device is next to HBM 2; the simulated instance has the identity",
        &[
            row("trn2", "core*.hbm", "0", "2"),
            row("trn2", "core*.hbm", "1", "3"),
            row("trn2", "core*.hbm", "2", "1"),
            row("trn2", "core*.hbm", "3", "0"),
            row("trn2", "talk.trip_*", "ok hbm 0 mapped", "ok hbm 2 mapped"),
            row("trn2", "talk.trip_*", "ok hbm 1 mapped", "ok hbm 3 mapped"),
            row("trn2", "talk.trip_*", "ok hbm 2 mapped", "ok hbm 1 mapped"),
            row("trn2", "talk.trip_*", "ok hbm 3 mapped", "ok hbm 0 mapped"),
        ],
    ),
    (
        "the runtime knows the silicon's size, not that an emulated device was given less; a simulated one is its own",
        &[
            row("trn1", "core*.limit", "536870912", "17179869184"),
            row("trn2", "core*.limit", "268435456", "25769803776"),
            row("trn2", "windows.size*", "285212672", "25769803776"),
        ],
    ),
    (
        "the driver keeps 16 MiB of an HBM, and its small pool cuts the rest in two; a small simulated HBM has neither",
        &[
            row("trn1", "full.blocks", "8 refused 4", "6 refused 4"),
            row("trn2", "full.blocks", "4 refused 4", "2 refused 4"),
        ],
    ),
];

const fn row(product: &'static str, line: &'static str, simulated: &'static str, device: &'static str) -> Difference {
    Difference { product, line, simulated, device }
}

/// Does `text` match, where one `*` of the pattern stands for any text?
fn like(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, end)) => text.strip_prefix(start).is_some_and(|rest| {
            if end.contains('*') {
                rest.char_indices().any(|(i, _)| like(end, &rest[i..]))
            } else {
                rest.ends_with(end)
            }
        }),
    }
}

#[test]
fn a_pattern_covers_the_lines_it_is_meant_for() {
    for (pattern, text, want) in [
        ("a.b", "a.b", true),
        ("a.b", "a.bc", false),
        ("*.b", "a.b", true),
        ("*.b", "a.bc", false),
        ("core*.hbm", "core12.hbm", true),
        ("core*.hbm", "core1.limit", false),
        ("*.revision_*", "up.revision_32", true),
        ("*.revision_*", "up.info_32", false),
    ] {
        assert_eq!(like(pattern, text), want, "{pattern} {text}");
    }
}

type Line = (String, String);

/// The names and answers of the program's output.
fn lines(output: &str) -> Vec<Line> {
    let split = |line: &str| {
        let (name, answer) = line.split_once(' ').unwrap_or_else(|| panic!("no answer in {line:?}"));
        (name.to_owned(), answer.to_owned())
    };
    output.lines().map(split).collect()
}

/// What is not explained, and which rows were needed.
fn compare(product: &str, simulated: &[Line], device: &[Line], used: &mut HashSet<(usize, usize)>) -> Vec<String> {
    let names = |lines: &[Line]| lines.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    assert_eq!(names(simulated), names(device), "the same questions in the same order");
    let mut unexplained = Vec::new();
    for ((name, fake), (_, real)) in simulated.iter().zip(device).filter(|(a, b)| a != b) {
        let rows = DIFFERENCES
            .iter()
            .enumerate()
            .flat_map(|(r, (_, rows))| rows.iter().enumerate().map(move |(i, difference)| ((r, i), difference)));
        let found: Vec<_> = rows
            .filter(|(_, d)| product.starts_with(d.product) && like(d.line, name))
            .filter(|(_, d)| d.simulated == fake && d.device == real)
            .map(|(place, _)| place)
            .collect();
        if found.is_empty() {
            unexplained.push(format!("{name}: {fake:?} simulated, {real:?} on device files"));
        }
        used.extend(found);
    }
    unexplained
}

/// An instance in the three ways there are.
struct Backends<'a> {
    emulator: &'a Path,
    tree: &'a Path,
    product: &'a str,
    hbm_gib: Option<&'a str>,
    variables: &'a [(&'a str, &'a str)],
    served: Served,
}

impl Backends<'_> {
    fn memory(&self) -> Vec<&str> {
        self.hbm_gib.map_or(vec![], |gib| vec!["--hbm-gib", gib])
    }

    /// A command that starts `program` on each of them: simulated, `serve`, `run`.
    fn commands(&self, program: &Path) -> [Command; 3] {
        let new = |exe| {
            let mut command = common::command(exe, self.tree);
            command.envs(self.variables.iter().copied());
            command
        };
        let (mut fake, mut serve, mut run) = (new(program), new(program), new(self.emulator));
        fake.env("NEURON_RT_FAKE_INSTANCE_TYPE", self.product);
        if let Some(gib) = self.hbm_gib {
            let mib = gib.parse::<u32>().expect("a number") * 1024;
            fake.env("OPENNRT_HBM_MIB", mib.to_string());
        }
        serve.envs(self.served.variables());
        run.args(["run", "--instance", self.product]).args(self.memory()).arg("--").arg(program);
        [fake, serve, run]
    }
}

/// Memory and variables an instance is asked about with.
type Setting = (Option<&'static str>, &'static [(&'static str, &'static str)]);

const SETTINGS: &[Setting] = &[
    (None, &[]),
    (Some("1"), &[]),
    (None, &[("NEURON_RT_VISIBLE_CORES", "1")]),
    (None, &[("NEURON_RT_NUM_CORES", "1"), ("NEURON_RT_RESET_CORES", "0")]),
    (None, &[("NEURON_LOGICAL_NC_CONFIG", "1")]),
    (None, &[("NEURON_RT_VISIBLE_CORES", "7-9")]),
];

/// Total logical cores with the default size and with size 1 (facts/runtime/fake_instances.tsv).
const PRODUCTS: &[(&str, u32, u32)] = &[("trn1.2xlarge", 2, 2), ("trn1.32xlarge", 32, 32), ("trn2.3xlarge", 4, 8)];

/// What a Rust program asks `tests/c/client.c`, line by line while it runs.
const TALK: &[&str] = &[
    "counts",
    "trip 0 4096 0",
    "init",
    "init",
    "counts",
    "trip 0 1 0",
    "trip 0 4095 0",
    "trip 0 1234567 0",
    "trip 1 65536 0",
    "trip 2 65536 0",
    "trip 3 65536 0",
    "trip 0 50000 1",
    "trip 0 50000 2",
    "keep 0 70001",
    "check",
    "fork",
    "check",
    "fork",
    "check",
    "window 0 99",
    "close",
    "counts",
    "check",
    "init",
    "trip 0 5000 0",
    "drop",
    "set NEURON_RT_NUM_CORES 1",
    "counts",
    "close",
    "counts",
    "init",
    "trip 0 5000 0",
    "trip 1 5000 0",
    "unset NEURON_RT_NUM_CORES",
    "close",
    "begin",
    "finish",
    "counts",
    "close",
];

fn talk(command: Command) -> Vec<Line> {
    let mut client = Client::start(command);
    let answers = TALK.iter().map(|&line| (format!("talk.{}", line.replace(' ', "_")), client.ask(line))).collect();
    let (code, log) = client.end();
    assert_eq!(code, Some(0), "{log}");
    answers
}

/// A009, A020, A058, B07 and whatever else the suite asks, on every backend.
#[test]
fn every_backend_gives_the_same_answers() {
    let tree = install();
    let [suite, client] = ["suite", "client"].map(|name| linked(name, tree.path(), &[]));
    let emulator = emu::program();
    let (mut used, mut unexplained) = (HashSet::new(), Vec::new());
    for &(product, cores, physical) in PRODUCTS {
        for &(hbm_gib, variables) in SETTINGS {
            let memory = hbm_gib.map_or(vec![], |gib| vec!["--hbm-gib", gib]);
            let Some(served) = Served::start(&emulator, product, &memory) else { return };
            let on = Backends { emulator: &emulator, tree: tree.path(), product, hbm_gib, variables, served };
            let what = format!("{product} {hbm_gib:?} {variables:?}");
            let mut outputs: Vec<Vec<Line>> = Vec::new();
            for mut command in on.commands(&suite) {
                let output = must_succeed(command.stdin(Stdio::null()));
                outputs.push(lines(std::str::from_utf8(&output.stdout).expect("answers are text")));
            }
            for (lines, command) in outputs.iter_mut().zip(on.commands(&client)) {
                lines.extend(talk(command));
            }
            let [fake, serve, run] = outputs.try_into().expect("three backends");
            assert_eq!(serve, run, "{what}: one driver, one answer");

            // Three backends could agree on nothing at all.
            let total = if variables.contains(&("NEURON_LOGICAL_NC_CONFIG", "1")) { physical } else { cores };
            assert!(fake.contains(&("up.total_vnc".into(), format!("0 {total}"))), "{what}");
            assert!(fake.len() > 300, "{what}: {} lines", fake.len());
            let up = fake.contains(&("init.first".into(), "0".into()));
            let wrong: Vec<_> = fake.iter().filter(|(_, a)| a == "0 other" || (up && a == "other")).collect();
            assert!(wrong.is_empty(), "{what}: wrong bytes in {wrong:?}");

            unexplained
                .extend(compare(product, &fake, &serve, &mut used).into_iter().map(|text| format!("{what}: {text}")));
        }
    }
    assert!(unexplained.is_empty(), "{}", unexplained.join("\n"));
    for (r, (reason, rows)) in DIFFERENCES.iter().enumerate() {
        for (i, row) in rows.iter().enumerate() {
            assert!(used.contains(&(r, i)), "nothing differs at {:?} for {:?}: {reason}", row.line, row.product);
        }
    }
}

/// B03 on device files: an unmodified Python.
#[test]
fn the_python_program_runs_on_device_files() {
    let tree = install();
    let emulator: PathBuf = emu::program();
    let product = "trn2.48xlarge";
    let Some(served) = Served::start(&emulator, product, &[]) else { return };
    let on = Backends { emulator: &emulator, tree: tree.path(), product, hbm_gib: None, variables: &[], served };
    let script = root().join("tests/py/smoke.py");
    let [_, serve, run] = on.commands(Path::new("python3"));
    for mut command in [serve, run] {
        must_succeed(command.arg("-I").arg(&script).args(["name", "emulated"]));
    }
}
