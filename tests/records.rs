//! The configuration records under the eyes of a C++ reader: the tables become declarations, g++
//! lays them out, libstdc++ walks the vectors and the map.

mod common;

use common::{command, install, linked, must_succeed};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const CFG: &str = include_str!("../crates/nrt-core/tests/data/nrt_config.tsv");
const GCFG: &str = include_str!("../crates/nrt-core/tests/data/nrt_global_config.tsv");
const PARTS: &str = include_str!("../crates/nrt-core/tests/data/substructs.tsv");
const TEXTS: &str = include_str!("../crates/nrt-core/tests/data/texts.tsv");

fn rows(table: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    table.lines().skip(1).map(|line| line.split('\t').collect())
}

/// `struct NAME` with members in the order of the table and nothing said about padding, then what
/// the table says about the outcome: name, offset and type of each member, and the whole size.
fn declare(code: &mut String, name: &str, members: &[(&str, &str, &str)], size: usize) {
    writeln!(code, "struct {name} {{").expect("a string takes every write");
    for (member, _, ctype) in members {
        let (base, array) = ctype.split_once('[').map_or((*ctype, String::new()), |(base, n)| (base, format!("[{n}")));
        writeln!(code, "    {base} {member}{array};").expect("as above");
    }
    writeln!(code, "}};\nstatic_assert(sizeof({name}) == {size});").expect("as above");
    for (member, offset, _) in members {
        writeln!(code, "static_assert(offsetof({name}, {member}) == {offset});").expect("as above");
    }
}

/// A program that prints `record.member=value` for every member, in `tree`.
fn reader(tree: &Path) -> PathBuf {
    let mut code = String::new();
    for (part, size) in [("enc_proxy_histogram_config_t", 168), ("kbin_fp8_conv_cfg_t", 16)] {
        let members: Vec<_> = rows(PARTS).filter(|r| r[0] == part).map(|r| (r[2], r[3], r[4])).collect();
        declare(&mut code, part, &members, size);
        writeln!(code, "static std::string show(const {part} &);").expect("as above");
    }
    let members = |table| -> Vec<_> { rows(table).map(|r| (r[0], r[1], r[2])).collect() };
    let (cfg, gcfg) = (members(CFG), members(GCFG));
    assert_eq!((cfg.len(), gcfg.len()), (73, 48));
    declare(&mut code, "nrt_config_t", &cfg, 656);
    declare(&mut code, "nrt_global_config_t", &gcfg, 296);
    code += "template <class T> static void print(const char *, const T &);\n\
             static void print_all(const nrt_config_t &cfg, const nrt_global_config_t &gcfg) {\n";
    for (record, members) in [("cfg", cfg), ("gcfg", gcfg)] {
        for (member, ..) in members {
            writeln!(code, "    print(\"{record}.{member}\", {record}.{member});").expect("as above");
        }
    }
    std::fs::write(tree.join("records.inc"), code + "}\n").expect("the folder is ours");
    // A vector makes the record more than a C struct; the vendor's is one all the same.
    linked("records", tree, &["-Wno-invalid-offsetof"])
}

fn read(reader: &Path, tree: &Path, variables: &[(&str, &str)]) -> BTreeMap<String, String> {
    let output = must_succeed(command(reader, tree).envs(variables.iter().copied()));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(member, value)| (member.into(), value.into()))
        .collect()
}

const FAKE: &str = "NEURON_RT_FAKE_INSTANCE_TYPE";

fn cores(range: std::ops::Range<u32>) -> String {
    range.map(|core| core.to_string()).collect::<Vec<_>>().join(",")
}

/// A036, A045, A046, A076, A107, A108, A109, A110, A111, A114, A115, A120, A121, A122, A131: two
/// instances of the seed's kind and one of arch 4 with nothing set; the program itself compares the
/// vector with the visible count, the fake members with the identity, and finds an empty record
/// before init.
#[test]
fn a_cpp_reader_finds_the_defaults_of_each_architecture() {
    let tree = install();
    let tree = tree.path();
    let reader = reader(tree);
    for (instance, family, size, lnc, visible, decode, rdh) in [
        ("trn1.32xlarge", "2", "6", "1", 32, "0", "41943040"),
        ("trn2.48xlarge", "5", "7", "2", 64, "3", "41943040"),
        ("trn3.48xlarge", "14", "7", "2", 64, "11", "83886080"),
    ] {
        let found = read(&reader, tree, &[(FAKE, instance)]);
        assert_eq!(found.len(), 73 + 48);
        for (member, value) in [
            ("cfg.funtime", "1"),
            ("gcfg.funtime", "1"),
            ("cfg.fake_family", family),
            ("cfg.fake_size", size),
            ("cfg.virtual_core_size", lnc),
            ("cfg.visible_virtual_cores", &cores(0..visible)),
            ("cfg.num_cores", "0"),
            ("cfg.reset_cores", "1"),
            ("gcfg.dbg_disable_dge", "0"),
            ("gcfg.dge_disable_bound_check", "0"),
            ("cfg.neuron_ucode_path", "NULL"),
            ("cfg.cc_chunk_size", "2097152"),
            ("gcfg.default_fp8_cfg", "1,8,15,1,0,0"),
            ("cfg.fail_on_nan", "0"),
            ("cfg.hw_decode_toggle", decode),
            ("gcfg.dbg_intra_rdh_ch_buf_size", rdh),
            ("cfg.profile_buf_sizes", ""),
            ("cfg.low_latency_tasks_cpu_affinity_mask", ""),
        ] {
            assert_eq!(found[member], value, "{member} of {instance}");
        }
    }
}

/// A046, A115: several at once, on an instance with logical cores of two; the map has a tree of
/// three levels, the FP8 members and their bundle are in their own order.
#[test]
fn a_cpp_reader_finds_lists_maps_and_bundles() {
    let tree = install();
    let tree = tree.path();
    let found = read(
        &reader(tree),
        tree,
        &[
            (FAKE, "trn2.48xlarge"),
            ("NEURON_RT_VISIBLE_CORES", "10,8-9,9"),
            ("NEURON_RT_DBG_CC_DMA_PACKET_SIZE", "4096,64"),
            ("NEURON_RT_PROFILE_BUF_EVENT_MB", "11"),
            ("NEURON_RT_PROFILE_BUF_DMA_MB", "44"),
            ("NEURON_RT_PROFILE_BUF_THROTTLE_MB", "55"),
            ("NEURON_RT_PROFILE_BUF_CC_CORE_INSTRUCTION_MB", "66"),
            ("NEURON_RT_PROFILE_BUF_CC_CORE_EVENT_MB", "77"),
            ("NEURON_RT_DBG_FP8_RANGE_EXT", "0"),
            ("NEURON_RT_DBG_OCP_FP8_SAT", "0"),
            ("NEURON_RT_DBG_FP8_SNS", "1"),
            ("NEURON_RT_DBG_FP8_EMAX_E4M3", "3"),
            ("NEURON_RT_DBG_FP8_EMAX_E5M2", "5"),
            ("NEURON_FAIL_ON_NAN", "1"),
        ],
    );
    for (member, value) in [
        ("cfg.visible_virtual_cores", "8,9,10"),
        ("cfg.dbg_cc_dma_packet_size", "4096,64"),
        ("cfg.profile_buf_sizes", "1:11,4:44,5:55,6:66,7:77"),
        ("gcfg.fp8_range_ext", "0"),
        ("gcfg.ocp_fp8_sat", "0"),
        ("gcfg.fp8_sns", "1"),
        ("gcfg.fp8_sis", "0"),
        ("gcfg.fp8_emax_e4m3", "3"),
        ("gcfg.fp8_emax_e5m2", "5"),
        ("gcfg.default_fp8_cfg", "0,3,5,0,0,1"),
        ("cfg.fail_on_nan", "1"),
        ("gcfg.numerical_errors_verbosity", "1"),
    ] {
        assert_eq!(found[member], value, "{member}");
    }
}

/// A008, A021, A119: each of the variables with a member, alone, through `nrt_init`.
#[test]
fn a_cpp_reader_finds_every_variable_in_its_member() {
    let tree = install();
    let tree = tree.path();
    let reader = reader(tree);
    let mut read_variables = 0;
    for row in rows(TEXTS).filter(|row| row[2].contains("cfg.")) {
        let [name, text, want, _] = row[..] else { panic!("four columns: {row:?}") };
        let instance = if name == "NEURON_RT_NUM_CORES" { "trn1.32xlarge" } else { "trn3.48xlarge" };
        let found = read(&reader, tree, &[(FAKE, instance), (name, text)]);
        for place in want.split(';') {
            let (member, value) = place.split_once('=').expect("record.member=value");
            assert_eq!(found[member], value, "{name}={text}");
        }
        read_variables += 1;
    }
    assert_eq!(read_variables, 115, "all 116 with a member but the prefix variable, which fills the map");
}
