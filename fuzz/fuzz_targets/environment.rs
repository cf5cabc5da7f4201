//! Several variables at once: the whole parse with the rules between variables, our own variables, and names nobody knows.
//!
//! The first byte picks the machine; then come lines `name-byte text`, and a name byte past the table takes the line as `NAME=text`.

#![no_main]

mod common;

use libfuzzer_sys::fuzz_target;
use nrt_core::config::fuzz::{Variable, Variables, report_of, variables};
use std::collections::BTreeMap;
use std::sync::LazyLock;

static VARIABLES: LazyLock<Vec<Variable>> = LazyLock::new(variables);
const OWN: [&str; 3] = ["OPENNRT_DEV_DIR", "OPENNRT_SYS_DIR", "OPENNRT_HBM_MIB"];

fn assignment(line: &[u8]) -> Option<(&str, &[u8])> {
    let (&pick, text) = line.split_first()?;
    let pick = usize::from(pick);
    if let Some(variable) = VARIABLES.get(pick) {
        return Some((&variable.name, text));
    }
    if let Some(own) = OWN.get(pick - VARIABLES.len()) {
        return Some((own, text));
    }
    let equals = text.iter().position(|byte| *byte == b'=')?;
    Some((std::str::from_utf8(&text[..equals]).ok()?, &text[equals + 1..]))
}

fuzz_target!(|data: &[u8]| {
    let [machine, lines @ ..] = data else { return };
    let shape = common::SHAPES.get(usize::from(machine & 7)).copied();
    let set: BTreeMap<&str, &[u8]> = lines.split(|byte| *byte == b'\n').filter_map(assignment).collect();
    let set: Vec<_> = set.into_iter().collect();
    let report = report_of(&Variables(&set), shape, machine & 8 == 0);
    for row in &report.rows {
        common::one_short_line(row.value_text());
        row.faults.iter().chain(&row.remarks).chain(&row.text).for_each(|text| common::one_short_line(text));
    }
    for row in &report.own {
        common::one_short_line(&row.value);
        row.fault.iter().for_each(|text| common::one_short_line(text));
    }
    report.strangers.iter().for_each(|stranger| common::one_short_line(&stranger.name));
});
