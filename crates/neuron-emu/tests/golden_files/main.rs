//! Recorded transcripts of the real driver, replayed by processes on the device files.
//!
//! The model itself is replayed in `neuron-kmd`, in virtual time and with every kind of step. Here
//! each actor of a transcript is a process of its own that makes the recorded system calls, so
//! that what lies between a program and the model is compared too. Replayed are the recordings of
//! one device as it comes, whose steps are calls on its files: [`OPS`] and ioctls.

#[path = "../common/mod.rs"]
mod common;
mod notation;
mod replay;

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;

use common::{Emu, can_emulate};
use replay::Replay;
use serde_json::Value;

/// Steps, besides ioctls, that this replay knows.
const OPS: &[&str] = &[
    "insmod",
    "lspci",
    "fstat",
    "waitready",
    "dmesg",
    "sleep",
    "open",
    "close",
    "dup",
    "exit",
    "kill9",
    "mmap",
    "munmap",
    "read",
    "write",
    "lseek",
    "poll",
    "epoll",
    "sysread",
    "ls",
];

/// Instances with the devices that were recorded.
const INSTANCES: &[(&str, &str)] = &[
    ("trn1-7164", "trn1.2xlarge"),
    ("inf2-7264", "inf2.xlarge"),
    ("trn2-7364", "trn2.3xlarge"),
    ("trn3-7564", "trn3pd98.3xlarge"),
];

/// Steps that answer otherwise through the device files: transcript, steps, reason.
const KNOWN: &str = include_str!("differences.tsv");

/// Whether a transcript is one of those this replay is for.
fn replayable(transcript: &Value) -> bool {
    let config = &transcript["device_config"];
    let plain = config.as_array().is_some_and(|list| {
        list.len() == 1 && list[0].as_object().is_some_and(|d| d.keys().all(|k| k == "DEVID" || k == "SERIAL"))
    });
    let known = |step: &Value| {
        let op = step["op"].as_str();
        let maps = step["in"].to_string().contains("\"map:");
        step.get("note").is_none()
            && step.get("async").is_none()
            && step["res"].get("actor_died").is_none()
            && step["res"].get("blocked_ms").is_none()
            && !maps
            && op.is_none_or(|op| OPS.contains(&op))
            && (op != Some("insmod") || step["params"] == "")
    };
    let steps = transcript["steps"].as_array().map_or(&[][..], Vec::as_slice);
    plain && transcript.get("kernel_oops").is_none() && !steps.is_empty() && steps.iter().all(known)
}

/// The transcripts of a driver version that can be replayed: name and content.
fn transcripts(version: &str) -> Vec<(String, Value)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../neuron-kmd/golden/{version}.tar.gz"));
    let file = std::fs::File::open(path).expect("an archive");
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
    let mut found = Vec::new();
    for entry in archive.entries().expect("an archive") {
        let mut entry = entry.expect("an entry");
        let name = entry.path().expect("a name").to_string_lossy().trim_start_matches("./").to_owned();
        let mut text = String::new();
        if name.ends_with(".json") && entry.read_to_string(&mut text).is_ok() {
            let transcript: Value = serde_json::from_str(&text).expect("JSON");
            if INSTANCES.iter().any(|(device, _)| name.starts_with(device)) && replayable(&transcript) {
                found.push((format!("{version}/{name}"), transcript));
            }
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

/// Replays one; the steps that differ.
fn replay(name: &str, transcript: &Value) -> (usize, Vec<(String, String)>) {
    let device = name.split('/').nth(1).unwrap_or_default();
    let (_, instance) =
        INSTANCES.iter().find(|(d, _)| *d == device).unwrap_or_else(|| panic!("no instance with {device}"));
    let driver = name.split('/').next().and_then(|v| v.rsplit_once('.')).expect("a version").0;
    let emu = Emu::serve(instance, &["--driver", driver]);
    let mut defaults = transcript["ioctl_defaults"].clone();
    if defaults.is_null() {
        defaults = serde_json::json!({});
    }
    let mut replay = Replay::new(&emu, defaults);
    let steps = transcript["steps"].as_array().expect("checked");
    let mut differences = Vec::new();
    for step in steps {
        if let Err(text) = replay.step(step) {
            let what = step["name"].as_str().or(step["op"].as_str()).unwrap_or_default();
            let text: String = text.chars().take(300).collect();
            differences.push((step["i"].to_string(), format!("{what} {}: {text}", step["path"])));
        }
    }
    (steps.len(), differences)
}

#[test]
fn recorded_transcripts_answer_the_same_through_the_device_files() {
    if !can_emulate("golden transcripts on device files") {
        return;
    }
    let mut known: BTreeSet<(&str, &str)> = KNOWN
        .lines()
        .skip(1)
        .filter_map(|line| line.split_once('\t'))
        .flat_map(|(name, rest)| rest.split('\t').next().unwrap_or_default().split(',').map(move |step| (name, step)))
        .collect();
    let (mut files, mut steps, mut excused, mut wrong) = (0, 0, 0, Vec::new());
    for (name, transcript) in ["2.24.7.0", "2.26.5.0"].into_iter().flat_map(transcripts) {
        let (count, differences) = replay(&name, &transcript);
        println!("{name}: {count} steps, {} differ", differences.len());
        (files, steps) = (files + 1, steps + count);
        for (step, text) in differences {
            let row = known.iter().find(|row| **row == (name.as_str(), step.as_str())).copied();
            match row {
                Some(row) => {
                    known.remove(&row);
                    excused += 1;
                }
                None => wrong.push(format!("{name}\t{step}\t{text}")),
            }
        }
    }
    println!("replayed {files} transcripts through the device files, {steps} steps, {excused} known differences");
    assert!(wrong.is_empty(), "{} steps differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(known.is_empty(), "no difference any more, so take them out of the table: {known:?}");
    assert!(files >= 63 && steps >= 11_900, "{files} transcripts with {steps} steps");
}
