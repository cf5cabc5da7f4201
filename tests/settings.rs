//! Every variable, legal and illegal, through `nrt_init` of the finished library.

mod common;

use common::{command, install, linked};
use std::io::Write;
use std::process::Stdio;

/// One row for each variable: name, a legal text, its value, and illegal texts between bars.
const TEXTS: &str = include_str!("../crates/nrt-core/tests/data/texts.tsv");

/// Variables whose bad texts are passed over: init must not fail for the sake of its log.
const TOLERATED: &str = "NEURON_RT_LOG_L";

/// A line for `tests/c/settings.c`. A prefix variable has its full name in the text.
fn case(folder: &str, name: &str, text: &str, kind: &str) -> String {
    let (name, text) = match text.split_once('=') {
        Some((full, text)) if full.starts_with(name) => (full, text.to_string()),
        _ => (name, text.to_string()),
    };
    let text = match text.split_once('*') {
        Some((byte, times)) => byte.repeat(times.parse().expect("a number of repetitions")),
        // A log file is really opened.
        None => text.replace("/tmp/", folder),
    };
    // Parts of an arch 3 or 4 instance are given out one core or whole devices at a time.
    let instance = if name == "NEURON_RT_NUM_CORES" { "trn1.32xlarge" } else { "trn3.48xlarge" };
    format!("{name}\t{text}\t{kind}\t{instance}\n")
}

/// A105, A124: one bad variable of the 147 fails init with less than a screen of lines, leaves the
/// runtime down and the heap record away, and nothing of it stays when it is put right. All of them
/// at once print no more.
#[test]
fn every_variable_is_taken_in_silence_or_fails_init_until_it_is_right() {
    let tree = install();
    let folder = format!("{}/", tree.path().display());
    let case = |name: &str, text: &str, kind: &str| case(&folder, name, text, kind);
    let (mut cases, mut variables) = (String::new(), 0);
    for row in TEXTS.lines().skip(1) {
        let [name, legal, _, illegal] = row.split('\t').collect::<Vec<_>>()[..] else { panic!("four columns: {row}") };
        variables += 1;
        cases += &case(name, legal, "legal");
        let kind = if name.starts_with(TOLERATED) { "tolerated" } else { "illegal" };
        for text in illegal.split('|').filter(|_| illegal != "-") {
            cases += &case(name, text, kind);
        }
    }
    assert_eq!(variables, 147);

    let exe = linked("settings", tree.path(), &[]);
    let mut child = command(&exe, tree.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("just compiled");
    // The program reads line by line and prints next to nothing before the last one.
    child.stdin.take().expect("piped").write_all(cases.as_bytes()).expect("the program reads all cases");
    let output = child.wait_with_output().expect("it ends");
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(output.status.success(), "{text}");
    let scenarios = cases.lines().count() + 1;
    assert!(text.contains(&format!("{scenarios} scenarios, 0 failed")), "{text}");
}
