//! All 147 variables against the facts table, and each of them absent, legal and illegal.

use super::*;
use crate::config::{
    choice::{DeviceProfile, Fake},
    grammar::CpuSet,
    inspect::EventFilter,
    parse::Origin,
    rules::{Build, Weight},
    table::{Mark, Place, TABLE},
};
use neuron_abi::Status;
use std::collections::BTreeSet;

/// `record.member` of a destination cell such as `cfg.num_cores+12; gcfg.funtime+184`.
fn destinations(cell: &str) -> BTreeSet<String> {
    cell.split("; ").map(str::to_owned).collect()
}

/// A016, A119: names, groups and destinations of the table.
#[test]
fn the_table_has_the_variables_and_destinations_of_the_facts() {
    assert_eq!(TABLE.len(), 147);
    assert_eq!(TABLE.iter().filter(|knob| knob.name.starts_with("NEURON_RT_")).count(), 138);
    for (row, knob) in rows(ENV).zip(TABLE) {
        assert_eq!((knob.name, knob.group), (row[0], row[1]));
        let members: BTreeSet<String> = knob
            .places
            .iter()
            .filter_map(|place| match place {
                Place::Member(record, field, offset) => Some(format!("{record}.{field}+{offset}")),
                Place::Elsewhere(_) => None,
            })
            .collect();
        let want = if row[5].starts_with("none:") && knob.name != "NEURON_RT_PROFILE_BUF_" {
            BTreeSet::new()
        } else {
            destinations(row[5])
        };
        assert_eq!(members, want, "{}", knob.name);
        assert_eq!(members.is_empty(), matches!(knob.places, [Place::Elsewhere(_)]), "{}", knob.name);
    }
}

/// A007: 116 variables end in a record, 31 do not, and the members without a variable are the known five.
#[test]
fn every_member_but_five_has_its_variable() {
    assert_eq!(TABLE.iter().filter(|knob| matches!(knob.places[0], Place::Member(..))).count(), 116);
    let bound: BTreeSet<&str> = TABLE
        .iter()
        .flat_map(|knob| knob.places)
        .filter_map(|place| match place {
            Place::Member(_, field, _) => Some(*field),
            Place::Elsewhere(_) => None,
        })
        .collect();
    let free: Vec<&str> = rows(CFG).chain(rows(GCFG)).map(|row| row[0]).filter(|name| !bound.contains(name)).collect();
    assert_eq!(free, ["metric_send_interval_secs", "dlr_worker_count", "default_fp8_cfg", "enable_host_cc"]);
    // The fifth has no variable of its own and follows another one.
    let mode: Vec<&str> = rows(GCFG).filter(|row| row[3] != "-" && row[4] == "-").map(|row| row[0]).collect();
    assert!(mode.contains(&"implicit_async_mode"));
}

/// A102: the type of each variable is read by the impl the facts name.
#[test]
fn forms_follow_the_types_of_the_facts() {
    for (row, knob) in rows(ENV).zip(TABLE) {
        let form = knob.rule.form();
        let want = match row[2] {
            "bool" | "bool (alias)" => "0, 1, true or false",
            "uint" | "uint seconds" | "uint mask" | "uint MiB (prefix)"
                if knob.name != "NEURON_RT_ALLOW_LEGACY_NEFF" =>
            {
                "a whole number from 0 to 4294967295"
            }
            "ulong" | "ulong MiB" => "a whole number from 0 to 18446744073709551615",
            "long" => "a whole number from -9223372036854775808",
            "string" if knob.name != "NEURON_RT_FAKE_INSTANCE_TYPE" => "any text",
            "path" | "path template" | "string template" => "any text",
            _ => continue,
        };
        assert!(form.starts_with(want), "{}: {form}", knob.name);
    }
}

fn member(record: &str, field: &str) -> Vec<&'static str> {
    let table = if record == "cfg" { CFG } else { GCFG };
    rows(table).find(|row| row[0] == field).unwrap_or_else(|| panic!("no member {record}.{field}"))
}

fn decoded(build: &Build, record: &str, field: &str) -> String {
    let row = member(record, field);
    let all = if record == "cfg" { bytes(&build.draft.cfg) } else { bytes(&build.draft.gcfg) };
    decode(all, row[1].parse().unwrap(), row[2])
}

/// A103, A106, A107, A108, A109, A110, A111, A120, A121, A122, A123: defaults of every member, for each architecture.
#[test]
fn absent_variables_leave_the_defaults_of_the_facts() {
    for (shape, arch) in [(TRN1, "2"), (TRN2, "3"), (TRN3, "4")] {
        let build = rules::build(&Vars::new(&[]), &shape);
        assert_eq!(build.worst(), Status::Success);
        assert!(build.findings.is_empty());
        for (record, row) in rows(CFG).map(|row| ("cfg", row)).chain(rows(GCFG).map(|row| ("gcfg", row))) {
            let (name, default) = (row[0], row[5]);
            let by_arch = |two: &str, three: &str, four: &str| {
                Some(
                    match arch {
                        "2" => two,
                        "3" => three,
                        _ => four,
                    }
                    .to_owned(),
                )
            };
            let want = match name {
                "virtual_core_size" => by_arch("1", "2", "2"),
                "enable_hw_execution_barrier" => by_arch("0", "0", "1"),
                "hw_decode_toggle" => by_arch("0", "3", "11"),
                "direct_bar4_write_size" => by_arch("0", "4096", "4096"),
                "instr_fetch_h2d_bitmap" => by_arch("0", "1", "1"),
                "dbg_intra_rdh_ch_buf_size" => by_arch("41943040", "41943040", "83886080"),
                "cc_allowed_alg_types" => Some("4194303".into()),
                "seq_instr_block_size" => Some("32768,32768,32768,32768,32768".into()),
                "cc_proxy_histogram_config" => Some("0 0 0 0 0 ".into()),
                "profile_buf_sizes" | "default_fp8_cfg" => None,
                _ if row[2] == "uint32_t[5]" => Some("0,0,0,0,0".into()),
                _ => Some(match default.split(' ').next().unwrap() {
                    "empty" => String::new(),
                    "unset-zero" | "derived" | "mirror" => "0".into(),
                    "unknown" if row[2] == "cpu_set_t" => String::new(),
                    "unknown" => "0".into(),
                    known => known.into(),
                }),
            };
            if let Some(want) = want {
                assert_eq!(decoded(&build, record, name), want, "{record}.{name} on arch {arch}");
            }
        }
        for (knob, outcome) in TABLE.iter().zip(&build.outcomes) {
            let by_arch = knob.rule.arch_rule().is_some();
            assert_eq!(outcome.origin, if by_arch { Origin::ArchRule } else { Origin::Default }, "{}", knob.name);
        }
    }
}

/// A103 for the variables without a member: defaults the facts know.
#[test]
fn absent_variables_without_a_member_have_the_defaults_of_the_facts() {
    let build = rules::build(&Vars::new(&[]), &TRN2);
    for (row, knob) in rows(ENV).zip(TABLE).filter(|(row, _)| row[5].starts_with("none:")) {
        let shown = knob.rule.show(&build.draft);
        let default = row[3].split(' ').next().unwrap();
        match default {
            "unknown" | "unset" | "inherits" | "process" => {
                let chosen = if row[6] == "out_of_init:translate" { "1" } else { "0" };
                assert!([crate::config::parse::UNSET, chosen].contains(&shown.as_str()), "{}: {shown}", knob.name);
            }
            "all" => assert_eq!(shown, "all", "{}", knob.name),
            "./output" => assert_eq!(shown, "\"./output\""),
            known => assert_eq!(shown, known, "{}", knob.name),
        }
    }
}

fn repeat(text: &str) -> String {
    match text.split_once('*') {
        Some((byte, times)) if !byte.is_empty() => byte.repeat(times.parse().unwrap()),
        _ => text.into(),
    }
}

/// One setting of the texts table: prefix variables carry their full name in the text.
fn setting(name: &str, text: &str) -> Vars {
    match text.split_once('=') {
        Some((full, text)) if full.starts_with("NEURON_") => Vars::new(&[(full, text)]),
        _ => Vars::new(&[(name, &repeat(text))]),
    }
}

/// A008, A021, A096, A098, A099, A104, A107, A108, A109, A110, A111, A114, A115: each variable legal; its bytes in the records.
#[test]
fn a_legal_text_reaches_its_place() {
    assert_eq!(rows(TEXTS).count(), 147);
    for (row, knob) in rows(TEXTS).zip(TABLE) {
        let [name, text, want, _] = row[..] else { panic!("{row:?}") };
        assert_eq!(name, knob.name);
        let build = rules::build(&setting(name, text), &TRN3);
        assert_eq!(build.worst(), Status::Success, "{name}={text}");
        assert!(build.outcomes.iter().all(|outcome| outcome.faults.is_empty()), "{name}");
        let absent = rules::build(&Vars::new(&[]), &TRN3);
        if !want.contains("cfg.") {
            assert_eq!(knob.rule.show(&build.draft), want, "{name}");
            assert_ne!(knob.rule.show(&absent.draft), want, "{name}: the text must differ from the default");
            continue;
        }
        for place in want.split(';') {
            let (place, value) = place.split_once('=').unwrap();
            let (record, field) = place.split_once('.').unwrap();
            assert_eq!(decoded(&build, record, field), value, "{name}={text}: {place}");
            assert_ne!(decoded(&absent, record, field), value, "{name}: the text must differ from the default");
        }
    }
}

/// A041, A068, A099, A105, A124: each variable illegal; one sentence, the default kept, the rest parsed on.
#[test]
fn an_illegal_text_is_one_fault_and_keeps_the_default() {
    let absent = rules::build(&Vars::new(&[]), &TRN3);
    let mut texts = 0;
    for (row, knob) in rows(TEXTS).zip(TABLE).filter(|(row, _)| row[3] != "-") {
        for illegal in row[3].split('|') {
            texts += 1;
            let build = rules::build(&setting(row[0], illegal), &TRN3);
            let faults: Vec<String> =
                build.outcomes.iter().flat_map(|outcome| &outcome.faults).map(ToString::to_string).collect();
            assert_eq!(faults.len(), 1, "{}={illegal}", row[0]);
            let line = &faults[0];
            assert!(line.starts_with(row[0]) && line.contains("; give ") && line.lines().count() == 1, "{line}");
            assert!(line.len() < 700, "{line}");
            let want = if knob.mark.has(Mark::LENIENT) { Status::Success } else { Status::Invalid };
            assert_eq!(build.worst(), want, "{line}");
            for other in TABLE {
                assert_eq!(other.rule.show(&build.draft), other.rule.show(&absent.draft), "{line}: {}", other.name);
            }
        }
    }
    assert!(texts > 600, "{texts}");
    // Only plain texts have no illegal form.
    let open: Vec<&str> = rows(TEXTS).filter(|row| row[3] == "-").map(|row| row[0]).collect();
    assert!(open.iter().all(|name| {
        rows(ENV)
            .any(|row| row[0] == *name && matches!(row[2], "string" | "path" | "path template" | "string template"))
    }));
}

/// A099: one bad of many fails the parse, and the good ones still arrive.
#[test]
fn parsing_goes_on_after_a_bad_text() {
    let vars = Vars::new(&[
        ("NEURON_RT_NUM_CORES", "many"),
        ("NEURON_RT_CC_CHUNK_SIZE", "4096"),
        ("NEURON_RT_INSPECT_CPU_UTIL", "maybe"),
    ]);
    let build = rules::build(&vars, &TRN2);
    assert_eq!(build.worst(), Status::Invalid);
    assert_eq!(build.draft.cfg.cc_chunk_size, 4096);
    assert_eq!(build.outcomes.iter().map(|outcome| outcome.faults.len()).sum::<usize>(), 2);
}

#[test]
fn several_bad_texts_of_one_prefix_are_all_reported() {
    let vars = Vars::new(&[("NEURON_RT_PROFILE_BUF_DMA_MB", "x"), ("NEURON_RT_PROFILE_BUF_EVENT_MB", "y")]);
    let build = rules::build(&vars, &TRN2);
    assert_eq!(build.outcomes.iter().map(|outcome| outcome.faults.len()).sum::<usize>(), 2);
}

/// A text that is not UTF-8 is kept byte for byte where any text is legal, and refused elsewhere.
#[test]
fn bytes_that_are_not_text_do_no_harm() {
    for knob in TABLE {
        for text in [&b"\xff\xfe"[..], b"\x1b[2J\n", &[b'9'; 100_000], &[b','; 100_000], &[b'('; 70_000]] {
            let mut vars = Vars::new(&[]);
            for name in knob.rule.full_names(knob.name) {
                vars.0.insert(name, text.into());
            }
            let build = rules::build(&vars, &TRN3);
            for fault in build.outcomes.iter().flat_map(|outcome| &outcome.faults) {
                let line = fault.to_string();
                assert!(line.len() < 900 && !line.contains(['\n', '\x1b']), "{}: {line}", knob.name);
            }
        }
    }
}

/// A104: texts are private copies.
#[test]
fn texts_outlive_the_environment_they_came_from() {
    let vars = Vars::new(&[("NEURON_RT_UCODE_LIB_PATH", "/lib/ucode.so")]);
    let build = rules::build(&vars, &TRN2);
    drop(vars);
    assert_eq!(decoded(&build, "cfg", "neuron_ucode_path"), "/lib/ucode.so");
}

/// A123: what an operator should know of.
#[test]
fn knobs_that_weaken_safety_are_marked_and_safe_by_default() {
    let marked: Vec<&str> = TABLE.iter().filter(|knob| knob.mark.has(Mark::SECURITY)).map(|knob| knob.name).collect();
    assert_eq!(
        marked,
        [
            "NEURON_RT_DBG_DISABLE_DGE",
            "NEURON_RT_DBG_DISABLE_DGE_BOUND_CHECK",
            "NEURON_RT_DBG_INST_VALIDITY_CHECK",
            "NEURON_RT_DBG_INDIRECT_MEMCPY_BOUND_CHECK",
            "NEURON_RT_DBG_EMBEDDING_UPDATE_BOUND_CHECK",
            "NEURON_RT_UCODE_LIB_PATH",
        ]
    );
    let build = rules::build(&Vars::new(&[]), &TRN2);
    assert_eq!((build.draft.gcfg.dbg_disable_dge, build.draft.gcfg.dge_disable_bound_check), (0, 0));
    assert!(build.draft.model.indirect_copy_bound_check && build.draft.model.embedding_update_bound_check);
    let bypass = Vars::new(&[("NEURON_RT_DBG_DISABLE_DGE_BOUND_CHECK", "1"), ("NEURON_RT_DBG_DISABLE_DGE", "0xFF")]);
    let findings = rules::build(&bypass, &TRN2).findings;
    assert_eq!(findings.len(), 2);
    assert!(findings.iter().all(|finding| finding.weight == Weight::WarnOnce));
}

/// A100, A101: what is read again later depends on nothing that only init knows.
#[test]
fn options_read_again_later_do_not_depend_on_the_hardware() {
    for knob in TABLE.iter().filter(|knob| knob.mark.has(Mark::LOAD) || knob.mark.has(Mark::INSPECT)) {
        assert!(knob.rule.arch_rule().is_none(), "{}", knob.name);
    }
}

/// A101: options of a load, with FP8 settings only where the environment gives them.
#[test]
fn options_of_a_load_are_typed_and_fp8_is_given_or_not() {
    let (options, faults) = crate::config::model::parse_model(&Vars::new(&[]));
    assert!(faults.is_empty());
    assert_eq!((options.exec_timeout_secs, options.validate_hash, options.instruction_check), (30, false, true));
    assert_eq!(options.fp8, Default::default());
    let vars = Vars::new(&[
        ("NEURON_RT_DBG_FP8_SNS", "1"),
        ("NEURON_RT_DBG_FP8_EMAX_E4M3", "7"),
        ("NEURON_RT_ALLOW_LEGACY_NEFF", "true"),
        ("NEURON_RT_EXEC_TIMEOUT", "600"),
        ("NEURON_RT_NUM_CORES", "not looked at"),
    ]);
    let (options, faults) = crate::config::model::parse_model(&vars);
    assert!(faults.is_empty());
    assert_eq!((options.fp8.sns, options.fp8.emax_e4m3, options.fp8.sis), (Some(true), Some(7), None));
    assert_eq!((options.allow_legacy_neff, options.exec_timeout_secs), (1, 600));
    let (_, faults) = crate::config::model::parse_model(&Vars::new(&[("NEURON_RT_VALIDATE_HASH", "so")]));
    assert_eq!(faults.len(), 1);
}

/// A100: options of an inspection.
#[test]
fn options_of_an_inspection_are_typed() {
    let (options, faults) = crate::config::inspect::parse_inspect(&Vars::new(&[]));
    assert!(faults.is_empty());
    assert_eq!(options, Default::default());
    assert_eq!((options.activities(), options.output_dir()), (1, "./output".into()));
    let vars = Vars::new(&[
        ("NEURON_RT_INSPECT_DEVICE_PROFILE", "session"),
        ("NEURON_RT_INSPECT_SYSTEM_PROFILE", "0"),
        ("NEURON_RT_INSPECT_CPU_UTIL", "1"),
        ("NEURON_RT_INSPECT_OUTPUT_DIR", ""),
        ("NEURON_RT_INSPECT_EVENT_FILTER_TYPE", "^hardware"),
    ]);
    let (options, faults) = crate::config::inspect::parse_inspect(&vars);
    assert!(faults.is_empty());
    assert_eq!(options.activities(), 0b1010);
    assert_eq!(options.device_profile, DeviceProfile::Session);
    assert_eq!(options.output_dir(), std::path::PathBuf::from("./output"));
    let EventFilter(kept) = options.events;
    assert_eq!(kept.iter().filter(|on| **on).count(), 39);
}

#[test]
fn the_unset_cpu_set_and_fake_type_are_empty() {
    let draft = rules::build(&Vars::new(&[("NEURON_RT_FAKE_INSTANCE_TYPE", "")]), &TRN2).draft;
    assert_eq!(draft.cfg.low_latency_tasks_cpu_affinity_mask, CpuSet([0; 16]));
    assert_eq!(draft.held.fake, Fake(None));
    assert!(!draft.cfg.funtime && !draft.gcfg.funtime);
}
