//! The variables of the log: levels, locations, tags, and what makes a value safe to print.
//!
//! Lines `TAG=value`; an upper-case first letter sets a level, another one a location.

#![no_main]

mod common;

use libfuzzer_sys::fuzz_target;
use std::collections::BTreeMap;

fuzz_target!(|data: &[u8]| {
    let set: BTreeMap<Vec<u8>, &[u8]> = data
        .split(|byte| *byte == b'\n')
        .filter_map(|line| {
            let equals = line.iter().position(|byte| *byte == b'=')?;
            let level = line.first().is_some_and(u8::is_ascii_uppercase);
            let prefix = if level { "NEURON_RT_LOG_LEVEL" } else { "NEURON_RT_LOG_LOCATION" };
            let tag = line[..equals].to_ascii_uppercase();
            let name = if tag.len() < 2 { prefix.into() } else { [prefix.as_bytes(), b"_", &tag].concat() };
            Some((name, &line[equals + 1..]))
        })
        .collect();
    let mut set: Vec<(&[u8], &[u8])> = set.iter().map(|(name, value)| (name.as_slice(), *value)).collect();
    let (settings, notices) = nrt_core::log::fuzz(&set, true);
    notices.iter().for_each(|notice| common::one_short_line(notice));
    set.reverse();
    let (reversed, _) = nrt_core::log::fuzz(&set, true);
    assert_eq!(settings, reversed, "the order of the environment matters");
    let (privileged, _) = nrt_core::log::fuzz(&set, false);
    assert!(!privileged.contains("File("), "a privileged process takes a file name: {privileged}");

    let limit = data.len() / 2;
    let text = nrt_core::log::printable(data, limit).to_string();
    assert!(!text.contains(char::is_control), "{text:?}");
    assert!(text.len() <= limit * 4 + 32, "{} bytes from {limit}", text.len());
});
