//! `docs/claims.tsv` says for every claim of the specification where it is proved: by tests, by
//! an entry of `docs/compat.md` that says why not, or, where OpenNRT differs on purpose, by both.
//! Whatever it names must exist.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Claims of the finished issues: letter and number of the last one.
const FINISHED: &[(char, u32)] = &[('A', 132), ('B', 59), ('C', 139)];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("readable source folder") {
        let path = entry.expect("readable entry").path();
        if path.is_dir() {
            if !matches!(path.file_name().and_then(|n| n.to_str()), Some("target" | ".git")) {
                sources(&path, found);
            }
        } else {
            found.push(path);
        }
    }
}

/// Names that `marker` lines introduce: what follows `before` on the first later line that has it.
fn after(text: &str, marker: &str, before: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut wanted = false;
    for line in text.lines() {
        wanted |= line.trim_start().starts_with(marker);
        if let Some((_, tail)) = line.split_once(before).filter(|_| wanted) {
            names.push(tail.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect());
            wanted = false;
        }
    }
    names
}

/// Names a claim may point to: Rust tests, scenarios and programs in C, programs in Python.
fn tests() -> BTreeSet<String> {
    let mut files = Vec::new();
    sources(root(), &mut files);
    let mut names = BTreeSet::new();
    for file in files {
        let text = || fs::read_to_string(&file).expect("readable source");
        let stem = || file.file_stem().expect("a file has a stem").to_string_lossy().into_owned();
        match file.extension().and_then(|e| e.to_str()) {
            Some("rs") => names.extend(after(&text(), "#[test]", "fn ")),
            Some("c") => {
                names.insert(stem());
                names.extend(after(&text(), "RUN(", "RUN("));
            }
            Some("py") => {
                names.insert(stem());
            }
            _ => {}
        }
    }
    names
}

#[test]
fn every_claim_of_a_finished_issue_is_proved_or_explained() {
    let table = fs::read_to_string(root().join("docs/claims.tsv")).expect("docs/claims.tsv");
    let compat = fs::read_to_string(root().join("docs/compat.md")).expect("docs/compat.md");
    let tests = tests();
    let mut rows = BTreeMap::new();
    let mut faults = Vec::new();
    for line in table.lines().skip(1) {
        let Some((id, proof)) = line.split_once('\t') else {
            faults.push(format!("not a row: {line}"));
            continue;
        };
        if rows.insert(id.to_owned(), proof).is_some() {
            faults.push(format!("{id} stands twice"));
        }
        for item in proof.split([' ', ',']).filter(|item| !item.is_empty()) {
            if item == "compat" {
                if !compat.contains(id) {
                    faults.push(format!("{id} points to docs/compat.md, which does not name it"));
                }
            } else if !tests.contains(item) {
                faults.push(format!("{id} names the test {item}, which does not exist"));
            }
        }
        if proof.trim().is_empty() {
            faults.push(format!("{id} has no proof"));
        }
    }
    for &(letter, last) in FINISHED {
        for number in 1..=last {
            let id = format!("{letter}{number:03}");
            if !rows.contains_key(&id) {
                faults.push(format!("{id} is missing"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
