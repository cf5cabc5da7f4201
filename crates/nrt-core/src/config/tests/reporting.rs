//! The report of `nrt-info --config`.

use super::*;
use crate::config::{
    record::{HeapRecord, StaticRecord},
    report::{self, ELSEWHERE, Report, distance},
};
use proptest::prelude::*;

fn make(vars: &Vars, detected: Option<Shape>) -> Report {
    report::make(vars, || detected, true)
}

fn row<'a>(report: &'a Report, name: &str) -> &'a crate::config::Row {
    report.rows.iter().find(|row| row.name == name).unwrap()
}

#[test]
fn every_variable_has_a_row_with_its_place() {
    let report = make(&Vars::new(&[]), Some(TRN2));
    assert_eq!((report.rows.len(), report.bad(), report.strangers.len()), (147, 0, 0));
    for row in &report.rows {
        assert!(row.value.is_some() && !row.effect.is_empty() && !row.effect.contains('\n'), "{}", row.name);
        assert_ne!(row.members.is_empty(), row.reader.is_none(), "{}", row.name);
        for member in &row.members {
            let fields = if member.record == "cfg" { StaticRecord::FIELDS } else { HeapRecord::FIELDS };
            assert!(fields.iter().any(|field| field.name == member.field && field.offset == member.offset));
        }
    }
}

#[test]
fn the_origin_of_a_value_is_told() {
    let vars = Vars::new(&[
        ("NEURON_RT_NUM_CORES", "4"),
        ("NEURON_RT_DBG_FORCE_STRICT_ORDERING", "1"),
        ("NEURON_RT_ONE_TMPBUF_PAGE_SIZE_MB", "1024"),
    ]);
    let report = make(&vars, Some(TRN2));
    for (name, value, origin) in [
        ("NEURON_RT_NUM_CORES", "4", "environment"),
        ("NEURON_RT_CC_CHUNK_SIZE", "2097152", "default"),
        ("NEURON_RT_DBG_DIRECT_BAR4_WRITE_SIZE", "4096", "arch rule"),
        ("NEURON_RT_DBG_HW_DECODE_TOGGLE", "0", "NEURON_RT_DBG_FORCE_STRICT_ORDERING"),
        ("NEURON_SCRATCHPAD_PAGE_SIZE", "1024", "NEURON_RT_ONE_TMPBUF_PAGE_SIZE_MB"),
        ("NEURON_LOGICAL_NC_CONFIG", "2", "arch rule"),
    ] {
        let row = row(&report, name);
        assert_eq!((row.value_text(), row.origin), (value, origin), "{name}");
    }
}

#[test]
fn without_a_device_arch_rules_are_open_and_a_simulated_one_closes_them() {
    let bare = make(&Vars::new(&[(lnc::FIRST, "16"), ("NEURON_RT_RANKS_PER_NETWORK_PROXY", "2")]), None);
    assert_eq!(row(&bare, "NEURON_RT_DBG_HW_DECODE_TOGGLE").value_text(), "needs a device");
    assert_eq!(row(&bare, lnc::FIRST).value_text(), "needs a device");
    assert_eq!(bare.bad(), 0, "nothing can be judged without a device");
    let fake = [
        (lnc::FIRST, "16"),
        ("NEURON_RT_RANKS_PER_NETWORK_PROXY", "2"),
        ("NEURON_RT_FAKE_INSTANCE_TYPE", "trn2.48xlarge"),
    ];
    let report = make(&Vars::new(&fake), None);
    assert_eq!(row(&report, "NEURON_RT_DBG_HW_DECODE_TOGGLE").value_text(), "3");
    assert_eq!(report.bad(), 2);
    assert_eq!(row(&report, "NEURON_RT_RANKS_PER_NETWORK_PROXY").faults.len(), 1);
}

#[test]
fn bad_values_stand_in_their_row() {
    let report = make(&Vars::new(&[("NEURON_RT_NUM_CORES", "four"), ("NEURON_RT_LOG_LEVEL", "QUIET")]), Some(TRN2));
    assert_eq!(report.bad(), 2);
    let bad = row(&report, "NEURON_RT_NUM_CORES");
    assert!(bad.faults[0].contains("\"four\"") && bad.value_text() == "0");
    assert!(row(&report, "NEURON_RT_LOG_LEVEL").tolerated);
}

#[test]
fn own_variables_are_listed_with_their_faults() {
    let report = make(&Vars::new(&[("OPENNRT_HBM_MIB", "lots"), ("OPENNRT_DEV_DIR", "/tmp/dev")]), None);
    let told: Vec<(&str, &str, &str, bool)> =
        report.own.iter().map(|row| (row.name, row.value.as_str(), row.origin, row.fault.is_some())).collect();
    assert_eq!(
        told,
        [
            ("OPENNRT_DEV_DIR", "/tmp/dev", "environment", false),
            ("OPENNRT_SYS_DIR", "/sys", "default", false),
            ("OPENNRT_HBM_MIB", "size of the product", "default", true),
        ]
    );
    assert_eq!(report.bad(), 1);
}

#[test]
fn a_simulated_instance_is_stronger_than_a_real_one_and_a_bad_name_is_told() {
    let report = make(&Vars::new(&[("NEURON_RT_FAKE_INSTANCE_TYPE", "trn1.32xlarge")]), Some(TRN3));
    assert_eq!((report.simulated, report.shape.unwrap().arch), (Some("trn1.32xlarge"), Arch::Sunda));
    let report = make(&Vars::new(&[("NEURON_RT_FAKE_INSTANCE_TYPE", "trn0")]), Some(TRN3));
    assert_eq!((report.simulated, report.shape), (None, None));
    assert!(row(&report, "NEURON_RT_FAKE_INSTANCE_TYPE").faults[0].contains("trn2.48xlarge"));
}

#[test]
fn unknown_names_are_told_with_the_nearest_known_one() {
    let report = make(
        &Vars::new(&[
            ("NEURON_RT_NUM_CORE", "1"),
            ("NEURON_RT_PROFILE_BUF_DMA", "1"),
            ("NEURON_RT_CONTIGUOUS_SCRATCHPAD", "1"),
            ("NEURON_RT_LOG_LEVEL_TDRV", "INFO"),
            ("NEURON_CC_FLAGS", "1"),
        ]),
        Some(TRN2),
    );
    let told: Vec<(&str, Option<&str>)> =
        report.strangers.iter().map(|stranger| (stranger.name.as_str(), stranger.nearest.as_deref())).collect();
    assert_eq!(
        told,
        [
            ("NEURON_RT_CONTIGUOUS_SCRATCHPAD", None),
            ("NEURON_RT_NUM_CORE", Some("NEURON_RT_NUM_CORES")),
            ("NEURON_RT_PROFILE_BUF_DMA", Some("NEURON_RT_PROFILE_BUF_DMA_MB")),
        ]
    );
}

#[test]
fn names_of_other_releases_are_those_of_the_facts() {
    let listed: Vec<&str> = rows(OTHERS).map(|row| row[0]).filter(|name| name.starts_with("NEURON_RT_")).collect();
    assert_eq!(listed, ELSEWHERE);
}

/// The definition of the edit distance, word for word.
fn slow(a: &[u8], b: &[u8]) -> usize {
    match (a, b) {
        ([], rest) | (rest, []) => rest.len(),
        ([x, a @ ..], [y, b @ ..]) if x == y => slow(a, b),
        ([_, a1 @ ..], [_, b1 @ ..]) => 1 + slow(a1, b1).min(slow(a1, b)).min(slow(a, b1)),
    }
}

proptest! {
    #[test]
    fn distances_agree_with_the_definition(a in "[AB_]{0,6}", b in "[AB_]{0,6}") {
        prop_assert_eq!(distance(a.as_bytes(), b.as_bytes()), slow(a.as_bytes(), b.as_bytes()));
    }
}
