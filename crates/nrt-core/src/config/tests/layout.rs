//! The records against the facts tables, byte for byte.

use super::*;
use crate::config::{
    choice::{UltraserverMode, Verbosity},
    inspect::HARDWARE_EVENTS,
    prefix::PROFILE_KINDS,
    record::{Field, Fp8Bundle, HeapRecord, Histogram, IntMap, IntVec, MapNode, StaticRecord},
};
use crate::inspect::EVENT_TYPES;

fn members(fields: &[Field]) -> Vec<Field> {
    fields.iter().filter(|field| !field.name.starts_with("_pad")).copied().collect()
}

/// Rows of a table with name, offset and size in the given columns.
fn listed(rows: impl Iterator<Item = Vec<&'static str>>, name: usize, offset: usize, size: usize) -> Vec<Field> {
    rows.map(|row| Field { name: row[name], offset: row[offset].parse().unwrap(), size: row[size].parse().unwrap() })
        .collect()
}

/// A015, A021, A097, A113, A116, A132: names, offsets and sizes of both records.
#[test]
fn records_have_every_member_of_the_facts_at_its_place() {
    assert_eq!(members(StaticRecord::FIELDS), listed(rows(CFG), 0, 1, 3));
    assert_eq!(members(HeapRecord::FIELDS), listed(rows(GCFG), 0, 1, 3));
    assert_eq!((members(StaticRecord::FIELDS).len(), members(HeapRecord::FIELDS).len()), (73, 48));
    assert_eq!((size_of::<StaticRecord>(), size_of::<HeapRecord>()), (656, 296));
}

/// A130, A132: the records inside the records.
#[test]
fn nested_records_have_every_member_of_the_facts_at_its_place() {
    let same = |name: &str, fields: &[Field], size: usize| {
        let listed = listed(rows(SUBSTRUCTS).filter(|row| row[0] == name), 2, 3, 5);
        let total: usize = rows(SUBSTRUCTS).find(|row| row[0] == name).unwrap()[1].parse().unwrap();
        assert_eq!(size, total, "{name}");
        let places = |fields: &[Field]| fields.iter().map(|field| (field.offset, field.size)).collect::<Vec<_>>();
        assert_eq!(places(&members(fields)), places(&listed), "{name}");
    };
    same("enc_proxy_histogram_config_t", Histogram::FIELDS, 168);
    same("kbin_fp8_conv_cfg_t", Fp8Bundle::FIELDS, 16);
    same("std::vector<int>", IntVec::FIELDS, 24);
    same("std::map<notification_type,uint32_t>", IntMap::FIELDS, 48);
    same("map node<notification_type,uint32_t>", MapNode::FIELDS, 40);
    for (name, fields) in
        [("enc_proxy_histogram_config_t", Histogram::FIELDS), ("kbin_fp8_conv_cfg_t", Fp8Bundle::FIELDS)]
    {
        let names: Vec<&str> = rows(SUBSTRUCTS).filter(|row| row[0] == name).map(|row| row[2]).collect();
        assert_eq!(members(fields).iter().map(|field| field.name).collect::<Vec<_>>(), names);
    }
}

/// A097: nothing but the members that have a default is other than zero.
#[test]
fn padding_is_zero_after_a_parse() {
    for shape in [TRN1, TRN2, TRN3] {
        let draft = rules::build(&Vars::new(&[]), &shape).draft;
        for (fields, bytes) in [(StaticRecord::FIELDS, bytes(&draft.cfg)), (HeapRecord::FIELDS, bytes(&draft.gcfg))] {
            for pad in fields.iter().filter(|field| field.name.starts_with("_pad")) {
                assert!(bytes[pad.offset..][..pad.size].iter().all(|byte| *byte == 0), "{}", pad.name);
            }
        }
    }
}

#[test]
fn enum_numbers_are_those_of_the_facts() {
    let number = |of: &str, name: &str| -> u32 {
        rows(ENUMS).find(|row| row[0] == of && row[1] == name).unwrap_or_else(|| panic!("{name}"))[2].parse().unwrap()
    };
    let verbosity = "numerical_error_notification_verbosity_t";
    for (name, value) in [
        ("NONE", Verbosity::None),
        ("CRITICAL", Verbosity::Critical),
        ("DEBUG", Verbosity::Debug),
        ("VERBOSE", Verbosity::Verbose),
    ] {
        assert_eq!(number(verbosity, name), value as u32);
    }
    for (name, value) in [
        ("UNSET", UltraserverMode::Unset),
        ("X4", UltraserverMode::X4),
        ("X2H", UltraserverMode::X2H),
        ("X2V", UltraserverMode::X2V),
        ("X1", UltraserverMode::X1),
    ] {
        assert_eq!(number("neuron_ultraserver_mode", name), value as u32);
    }
    for (kind, name) in [
        ("EVENT", "EVENT"),
        ("DMA", "DMA"),
        ("THROTTLE", "THROTTLE"),
        ("CC_CORE_INSTRUCTION", "TOPSP_TRACE"),
        ("CC_CORE_EVENT", "TOPSP_EVENT"),
    ] {
        let known = PROFILE_KINDS.iter().find(|(known, _)| *known == kind).unwrap();
        assert_eq!(number("notification_type", name), known.1);
    }
    for (bit, name) in ["SYSTEM_PROFILE", "DEVICE_PROFILE", "HOST_MEMORY", "CPU_UTIL"].into_iter().enumerate() {
        assert_eq!(number("nrt_inspect_activities_t", name), 1 << bit);
    }
}

#[test]
fn event_names_and_groups_are_those_of_the_facts() {
    let listed: Vec<(String, usize, bool)> = rows(include_str!("../../../tests/data/sys_trace_events.tsv"))
        .map(|row| (row[0].to_lowercase(), row[1].parse().unwrap(), row[2] == "hardware category"))
        .collect();
    let known: Vec<(String, usize, bool)> = EVENT_TYPES
        .iter()
        .enumerate()
        .map(|(number, name)| ((*name).into(), number, HARDWARE_EVENTS.contains(&number)))
        .collect();
    assert_eq!(known, listed);
}
