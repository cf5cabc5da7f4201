//! `dmesg` steps: the recorded kernel log against the model's.
//!
//! The order of two lines means something when one thread wrote both. Lines of threads that run
//! side by side are compared thread by thread, because which of them comes first is the speed of
//! the recording guest.

use std::collections::BTreeMap;

use serde_json::Value;

use super::compare::{Fields, Symbols};
use crate::klog::Line;

/// Lines the recorder kept of a log. Behind that many the model may go on.
const RECORDED_LINES: usize = 80;

/// A line as it is compared.
struct Entry<'a> {
    kind: &'a str,
    nums: Vec<&'a str>,
}

/// Threads that log, by the lines they write: one per device for its resets when there are
/// several devices, the metrics thread, and everybody else.
fn lane(entry: &Entry<'_>, devices: usize) -> String {
    match (entry.kind, entry.nums.first()) {
        ("metrics_thread_started", _) => "metrics".into(),
        ("reset_run_begins" | "reset_run_done" | "reset_problem" | "reset_coalesced", Some(device)) if devices > 1 => {
            format!("reset {device}")
        }
        _ => "main".into(),
    }
}

fn lanes<'a>(entries: impl Iterator<Item = Entry<'a>>, devices: usize) -> BTreeMap<String, Vec<Entry<'a>>> {
    let mut lanes = BTreeMap::<_, Vec<_>>::new();
    for entry in entries {
        lanes.entry(lane(&entry, devices)).or_default().push(entry);
    }
    lanes
}

/// Compares the classes of the table; other lines have no meaning in the model.
pub fn compare(
    recorded: &Value,
    model: &[Line],
    classes: &[(&str, &str)],
    devices: usize,
    symbols: &mut Symbols,
    fields: &mut Fields,
) {
    let class = |kind: &str| classes.iter().find(|(r, _)| *r == kind).map(|(_, m)| *m);
    let expected = recorded["log"].as_array().into_iter().flatten().flat_map(|line| {
        let kind = line["kind"].as_str().and_then(class);
        let nums: Vec<_> = line["nums"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let times = line["times"].as_u64().unwrap_or(1) as usize;
        let entry = move |kind| std::iter::repeat_with(move || Entry { kind, nums: nums.clone() }).take(times);
        kind.map(entry).into_iter().flatten()
    });
    let given = model.iter().filter(|line| classes.iter().any(|(_, m)| *m == line.kind));
    let given = given.map(|line| Entry { kind: line.kind, nums: line.nums.iter().map(String::as_str).collect() });
    let cut = recorded["log"].as_array().is_some_and(|lines| lines.len() >= RECORDED_LINES);
    let (mut expected, mut given) = (lanes(expected, devices), lanes(given, devices));
    let names: Vec<_> = expected.keys().chain(given.keys()).cloned().collect();
    for name in names {
        let (expected, given) = (expected.remove(&name).unwrap_or_default(), given.remove(&name).unwrap_or_default());
        let show = |entry: Option<&Entry<'_>>| entry.map_or("end".into(), |e| format!("{} {:?}", e.kind, e.nums));
        for i in 0..expected.len().max(given.len()) {
            let same = match (expected.get(i), given.get(i)) {
                (Some(e), Some(g)) => e.kind == g.kind && same_numbers(&e.nums, &g.nums, symbols),
                (None, Some(_)) => cut,
                _ => false,
            };
            if !same {
                return fields.differ(&format!("log, {name}"), show(expected.get(i)), show(given.get(i)));
            }
        }
    }
}

fn same_numbers(recorded: &[&str], given: &[&str], symbols: &mut Symbols) -> bool {
    recorded.len() == given.len()
        && recorded.iter().zip(given).all(|(recorded, given)| {
            if recorded.starts_with('$') {
                given.parse().is_ok_and(|n| symbols.matches(recorded, n))
            } else {
                // The recorder took decimal numbers only: of a hexadecimal `0a` the `0`.
                recorded == given || given.split(|c: char| !c.is_ascii_digit()).next() == Some(recorded)
            }
        })
}
