//! What variables do to each other, and the size of a logical core.

use super::*;
use crate::config::{
    choice::{UltraserverMode, Verbosity},
    parse::Origin,
    rules::{Build, Weight},
    table::TABLE,
};
use neuron_abi::Status;

fn parse(shape: &Shape, set: &[(&str, &str)]) -> Build {
    rules::build(&Vars::new(set), shape)
}

fn weights(build: &Build) -> Vec<Weight> {
    build.findings.iter().map(|finding| finding.weight).collect()
}

/// A125.
#[test]
fn debug_stream_size_must_be_a_power_of_two() {
    for (text, status) in [
        ("3", Status::Invalid),
        ("0", Status::Invalid),
        ("262143", Status::Invalid),
        ("262144", Status::Success),
        ("1", Status::Success),
        ("0x8000000000000000", Status::Success),
    ] {
        assert_eq!(parse(&TRN2, &[("NEURON_RT_DEBUG_STREAM_BUFFER_SIZE", text)]).worst(), status, "{text}");
    }
}

/// A126.
#[test]
fn dma_packets_are_at_most_0xfffff_bytes() {
    for (text, status) in [("1048575", Status::Success), ("1048576", Status::Invalid), ("104857", Status::Success)] {
        assert_eq!(parse(&TRN2, &[("NEURON_RT_DBG_DMA_PACKETIZATION_SIZE", text)]).worst(), status, "{text}");
    }
}

/// A127.
#[test]
fn more_ranks_per_proxy_need_the_hardware_barrier() {
    const RANKS: &str = "NEURON_RT_RANKS_PER_NETWORK_PROXY";
    const BARRIER: &str = "NEURON_RT_ENABLE_HW_EXECUTION_BARRIER";
    for (shape, set, status) in [
        (TRN2, &[(RANKS, "2")][..], Status::Invalid),
        (TRN1, &[(RANKS, "32")], Status::Invalid),
        (TRN2, &[(RANKS, "2"), (BARRIER, "1")], Status::Success),
        (TRN2, &[(RANKS, "1")], Status::Success),
        (TRN2, &[(RANKS, "0")], Status::Success),
        (TRN3, &[(RANKS, "2")], Status::Success),
        (TRN3, &[(RANKS, "2"), (BARRIER, "0")], Status::Invalid),
    ] {
        let build = parse(&shape, set);
        assert_eq!(build.worst(), status, "{set:?}");
        assert_eq!(
            build.findings.iter().any(|finding| finding.to_string().contains(BARRIER)),
            status != Status::Success
        );
    }
}

#[test]
fn runs_in_flight_are_clamped_to_63_and_drive_the_mode() {
    for (text, stored, mode, warned) in
        [("0", 0, false, 0), ("1", 1, true, 0), ("63", 63, true, 0), ("64", 63, true, 1), ("4294967295", 63, true, 1)]
    {
        let build = parse(&TRN2, &[("NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS", text)]);
        assert_eq!(build.draft.gcfg.async_exec_max_inflight_requests, stored);
        assert_eq!(build.draft.gcfg.implicit_async_mode, mode);
        assert_eq!(weights(&build), vec![Weight::Warn; warned]);
        assert_eq!(build.worst(), Status::Success);
    }
}

#[test]
fn the_out_of_memory_folder_has_at_most_200_bytes() {
    for (length, status) in [(200, Status::Success), (201, Status::Invalid)] {
        let build = parse(&TRN2, &[("NEURON_RT_OOM_DUMP_DIRECTORY", &"d".repeat(length))]);
        assert_eq!(build.worst(), status);
    }
}

/// A121.
#[test]
fn strict_ordering_turns_hardware_decode_off() {
    const STRICT: (&str, &str) = ("NEURON_RT_DBG_FORCE_STRICT_ORDERING", "1");
    for set in [&[STRICT][..], &[STRICT, ("NEURON_RT_DBG_HW_DECODE_TOGGLE", "5")]] {
        let build = parse(&TRN3, set);
        assert_eq!(build.draft.cfg.hw_decode_toggle, 0);
    }
    assert_eq!(parse(&TRN3, &[("NEURON_RT_DBG_HW_DECODE_TOGGLE", "5")]).draft.cfg.hw_decode_toggle, 5);
}

#[test]
fn hardware_decode_on_arch_2_is_an_error_line_and_is_ignored() {
    let build = parse(&TRN1, &[("NEURON_RT_DBG_HW_DECODE_TOGGLE", "5")]);
    assert_eq!(weights(&build), [Weight::Error]);
    assert_eq!((build.draft.cfg.hw_decode_toggle, build.worst()), (0, Status::Success));
}

#[test]
fn fail_on_nan_raises_the_verbosity_to_at_least_critical() {
    for (text, stored) in [
        ("none", Verbosity::Critical),
        ("critical", Verbosity::Critical),
        ("DEBUG", Verbosity::Debug),
        ("verbose", Verbosity::Verbose),
    ] {
        let set = [("NEURON_FAIL_ON_NAN", "1"), ("NEURON_RT_NUMERICAL_ERRORS_VERBOSITY", text)];
        assert_eq!(parse(&TRN2, &set).draft.gcfg.numerical_errors_verbosity, stored);
    }
    assert_eq!(parse(&TRN2, &[("NEURON_FAIL_ON_NAN", "0")]).draft.gcfg.numerical_errors_verbosity, Verbosity::None);
}

#[test]
fn a_single_ultraserver_node_forces_mode_4() {
    const SINGLE: &str = "NEURON_RT_ULTRASERVER_SINGLE_NODE";
    let mode = |set: &[(&str, &str)]| parse(&TRN2, set).draft.gcfg.ultraserver_mode;
    assert_eq!(mode(&[(SINGLE, "true"), ("NEURON_RT_ULTRASERVER_MODE", "2")]), UltraserverMode::X1);
    assert_eq!(mode(&[(SINGLE, "false"), ("NEURON_RT_ULTRASERVER_MODE", "2")]), UltraserverMode::X2H);
}

/// A114: both records say so, each by its own member.
#[test]
fn a_simulated_instance_is_in_both_records() {
    let draft = parse(&TRN2, &[("NEURON_RT_FAKE_INSTANCE_TYPE", "trn2.48xlarge")]).draft;
    assert_eq!((draft.cfg.funtime, draft.cfg.fake_family, draft.cfg.fake_size, draft.gcfg.funtime), (true, 5, 7, true));
}

/// A115: six flat members and the bundle, whose order differs.
#[test]
fn the_fp8_bundle_copies_the_flat_members() {
    let gcfg = parse(&TRN2, &[]).draft.gcfg;
    let bundle = &bytes(&gcfg)[236..252];
    assert_eq!(bundle, [1, 0, 0, 0, 8, 0, 0, 0, 15, 0, 0, 0, 1, 0, 0, 0]);
    let gcfg = parse(&TRN2, &[("NEURON_RT_DBG_FP8_SIS", "1"), ("NEURON_RT_DBG_FP8_EMAX_E5M2", "9")]).draft.gcfg;
    assert_eq!(&bytes(&gcfg)[244..252], [9, 0, 0, 0, 1, 1, 0, 0]);
    assert_eq!(&bytes(&gcfg)[252..256], [1, 1, 0, 1]);
}

#[test]
fn event_semaphore_notices_are_stored_inverted() {
    assert!(!parse(&TRN2, &[]).draft.cfg.notif_full_evsem);
    assert!(parse(&TRN2, &[("NEURON_RT_DBG_DROP_EVENTSEM_NOTIF", "0")]).draft.cfg.notif_full_evsem);
}

#[test]
fn the_newer_page_size_is_stronger_and_odd_sizes_warn() {
    const NEW: &str = "NEURON_SCRATCHPAD_PAGE_SIZE";
    const OLD: &str = "NEURON_RT_ONE_TMPBUF_PAGE_SIZE_MB";
    for (set, mib, warned) in [
        (&[][..], 512u64, false),
        (&[(OLD, "1024")], 1024, false),
        (&[(NEW, "1536"), (OLD, "1024")], 1536, false),
        (&[(NEW, "100")], 100, true),
        (&[(OLD, "4096")], 4096, true),
        (&[(NEW, "3584")], 3584, false),
    ] {
        let build = parse(&TRN2, set);
        assert_eq!(build.draft.cfg.scratchpad_page_size, mib << 20);
        assert_eq!(!build.findings.is_empty(), warned, "{set:?}");
    }
}

#[test]
fn the_newer_routing_spelling_is_stronger() {
    const NEW: &str = "NEURON_RT_DBG_DISABLE_RMV_DST_ROUTING";
    const OLD: &str = "NEURON_RT_DBG_DISABLE_RMV_DST_ROUTE";
    for (set, stored) in
        [(&[(OLD, "1")][..], true), (&[(NEW, "0"), (OLD, "1")], false), (&[(NEW, "1"), (OLD, "0")], true)]
    {
        assert_eq!(parse(&TRN2, set).draft.gcfg.dbg_disable_rmv_dst_routing, stored, "{set:?}");
    }
}

#[test]
fn only_16_streams_have_a_packet_size_and_priorities_conflict_with_them() {
    let list: Vec<String> = (1..=20).map(|number| (number * 64).to_string()).collect();
    let build = parse(&TRN2, &[("NEURON_RT_DBG_CC_DMA_PACKET_SIZE", &list.join(","))]);
    assert_eq!(build.draft.lists.dbg_cc_dma_packet_size.0.len(), 16);
    assert_eq!(weights(&build), [Weight::Warn]);
    let both = [("NEURON_RT_DBG_CC_DMA_PACKET_SIZE", "64"), ("NEURON_RT_DBG_DMA_PRIO_PKT_SIZE", "64")];
    assert_eq!(weights(&parse(&TRN2, &both)), [Weight::Warn]);
    assert_eq!(weights(&parse(&TRN2, &both[..1])), []);
    assert_eq!(weights(&parse(&TRN2, &[("NEURON_RT_DBG_CC_DMA_PACKET_SIZE", "65537")])), [Weight::Warn]);
}

#[test]
fn settings_that_make_results_wrong_warn() {
    for name in ["NEURON_RT_DBG_CC_NOP", "NEURON_RT_DBG_CC_FORCE_SINGLE_RANK_RG"] {
        assert_eq!(weights(&parse(&TRN2, &[(name, "1")])), [Weight::Warn]);
        assert_eq!(weights(&parse(&TRN2, &[(name, "0")])), []);
    }
}

#[test]
fn v4_plus_is_read_on_arch_4_only() {
    let set = [("NEURON_RT_DBG_V4_PLUS", "1")];
    assert_eq!([TRN1, TRN2, TRN3].map(|shape| parse(&shape, &set).draft.gcfg.v4_plus), [0, 0, 1]);
    assert_eq!(parse(&TRN2, &[("NEURON_RT_DBG_V4_PLUS", "not looked at")]).worst(), Status::Success);
}

/// A120: a variable that is given beats the default of the architecture.
#[test]
fn a_given_value_beats_the_arch_rule() {
    for knob in TABLE.iter().filter(|knob| knob.rule.arch_rule().is_some() && !knob.rule.judged_by_shape()) {
        for shape in [TRN2, TRN3] {
            let build = parse(&shape, &[(knob.name, "1")]);
            let position = TABLE.iter().position(|other| other.name == knob.name).unwrap();
            assert_eq!(build.outcomes[position].origin, Origin::Environment, "{}", knob.name);
            assert_eq!(knob.rule.show(&build.draft), "1", "{}", knob.name);
        }
    }
}

fn lnc(shape: Shape, set: &[(&str, &str)]) -> Result<u32, String> {
    lnc::resolve(&Vars::new(set), &shape).map(|lnc| lnc.size).map_err(|fault| fault.to_string())
}

fn cores(arch: Arch, cores_per_device: u32) -> Shape {
    Shape { arch, family: Family::Unknown, cores_per_device }
}

/// A037, A038, A040, A061: arch 2 is 1 whatever the text; else 2, or 1 on one core.
#[test]
fn the_default_size_of_a_logical_core_follows_the_device() {
    assert_eq!(lnc(TRN1, &[]), Ok(1));
    assert_eq!(lnc(TRN1, &[(lnc::FIRST, "2")]), Ok(1));
    assert_eq!(lnc(TRN1, &[(lnc::FIRST, "abc"), (lnc::SECOND, "")]), Ok(1));
    assert_eq!(parse(&TRN1, &[(lnc::FIRST, "abc")]).worst(), Status::Success);
    assert_eq!((lnc(TRN2, &[]), lnc(TRN3, &[])), (Ok(2), Ok(2)));
    assert_eq!(lnc(cores(Arch::Cayman, 1), &[]), Ok(1));
}

/// A018, A039: first variable, then second; decimal.
#[test]
fn the_first_variable_wins_and_is_decimal() {
    assert_eq!(lnc(TRN2, &[(lnc::FIRST, "4"), (lnc::SECOND, "1")]), Ok(4));
    assert_eq!(lnc(TRN2, &[(lnc::FIRST, "4"), (lnc::SECOND, "bad")]), Ok(4));
    assert_eq!(lnc(TRN2, &[(lnc::SECOND, "8")]), Ok(8));
    assert_eq!(lnc(TRN2, &[(lnc::FIRST, "2")]), Ok(2));
    assert!(lnc(TRN2, &[(lnc::FIRST, "10")]).unwrap_err().contains("(10)"));
    assert!(lnc(TRN2, &[(lnc::FIRST, ""), (lnc::SECOND, "1")]).unwrap_err().starts_with(lnc::FIRST));
}

/// A012, A019, A041, A042, A043, A044, A062: every size against every core count, by its own definition.
#[test]
fn a_size_is_a_power_of_two_that_divides_the_cores() {
    for arch in [Arch::Cayman, Arch::Mariana] {
        for per_device in 1..=12u32 {
            for size in 0..=20u32 {
                let answer = lnc(cores(arch, per_device), &[(lnc::FIRST, &size.to_string())]);
                let power = [1, 2, 4, 8, 16].contains(&size);
                let divides = (1..=per_device).any(|times| times * size == per_device);
                match answer {
                    Ok(got) => assert!(power && divides && got == size, "{size} of {per_device}"),
                    Err(line) => {
                        assert!(!(power && divides), "{size} of {per_device}: {line}");
                        assert!(
                            line.contains("must be a power of two")
                                && line.contains(&format!("the {per_device} cores"))
                        );
                    }
                }
            }
        }
    }
    assert!(lnc(cores(Arch::Cayman, 3), &[]).unwrap_err().contains("power of two"), "the default is checked too");
}

/// A045: the size lies at offset 8.
#[test]
fn the_size_is_stored_at_offset_8() {
    let draft = parse(&TRN2, &[(lnc::FIRST, "4")]).draft;
    assert_eq!(bytes(&draft.cfg)[8..12], [4, 0, 0, 0]);
}
