//! Replays every transcript under `golden/` on the matching driver profile.
//!
//! `golden/known-differences.tsv` lists steps that may differ, each with a measured reason.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use neuron_kmd::replay::{self, Outcome};
use serde_json::Value;

/// Transcripts of one archive by path, such as `trn1-7164/01_identity.json`.
fn archive(path: &Path) -> BTreeMap<String, Value> {
    let file = std::fs::File::open(path).expect("archive");
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
    let mut files = BTreeMap::new();
    for entry in archive.entries().expect("tar") {
        let mut entry = entry.expect("tar entry");
        let name = entry.path().expect("name").to_string_lossy().into_owned();
        let mut text = String::new();
        entry.read_to_string(&mut text).expect("text");
        if name.ends_with(".json") {
            files.insert(name, replay::parse(&text).expect("JSON"));
        }
    }
    files
}

/// Rows of the table of known differences: path and step number (`log` for the device log).
fn known(text: &str) -> Vec<(String, String)> {
    let rows = text.lines().skip(1).filter(|l| !l.is_empty());
    rows.map(|l| {
        let mut columns = l.split('\t');
        let mut next = || columns.next().unwrap_or_default().to_owned();
        let row = (next(), next());
        assert!(!next().is_empty(), "a known difference needs a reason: {l}");
        row
    })
    .collect()
}

#[test]
fn golden_transcripts_replay() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden");
    let known = known(&std::fs::read_to_string(root.join("known-differences.tsv")).expect("table"));
    let only = std::env::var("GOLDEN").unwrap_or_default();
    let (mut files, mut steps, mut forgiven, mut wrong) = (0, 0, 0, Vec::new());
    for version in ["2.24.7.0", "2.26.5.0"] {
        let transcripts = archive(&root.join(format!("{version}.tar.gz")));
        for (name, transcript) in &transcripts {
            let path = format!("{version}/{name}");
            if !path.contains(&only) {
                continue;
            }
            let original = original(&root, &transcripts, version, transcript);
            let outcome = replay::replay(transcript, original.as_ref()).unwrap_or_else(|e| panic!("{path}: {e}"));
            let (excused, left) = judge(&path, &outcome, &known);
            println!("{path} {}/{}", outcome.matched + excused, outcome.total);
            files += 1;
            steps += outcome.total;
            forgiven += excused;
            wrong.extend(left.into_iter().map(|d| format!("{path}: {d}")));
        }
    }
    println!("replayed {files} golden transcripts, {steps} steps, {forgiven} known differences");
    assert!(files > 0, "no transcript path contains {only:?}");
    let shown: Vec<_> = wrong.iter().take(40).map(String::as_str).collect();
    assert!(wrong.is_empty(), "{} steps differ:\n{}", wrong.len(), shown.join("\n"));
    if only.is_empty() {
        assert_eq!(forgiven, known.len(), "a row of the table of known differences excuses nothing any more");
    }
}

fn original(root: &Path, here: &BTreeMap<String, Value>, version: &str, transcript: &Value) -> Option<Value> {
    let path = replay::same_as(transcript)?;
    let (other, name) = path.split_once('/').filter(|(v, _)| v.starts_with("2.")).unwrap_or((version, path));
    if other == version { here.get(name).cloned() } else { archive(&root.join(format!("{other}.tar.gz"))).remove(name) }
}

/// How many differences are known, and the others.
fn judge(path: &str, outcome: &Outcome, known: &[(String, String)]) -> (usize, Vec<String>) {
    let step = |d: &replay::Difference| d.step.map_or("log".to_owned(), |s| s.to_string());
    let (excused, left): (Vec<_>, Vec<_>) =
        outcome.differences.iter().partition(|d| known.contains(&(path.to_owned(), step(d))));
    (excused.len(), left.iter().map(ToString::to_string).collect())
}
