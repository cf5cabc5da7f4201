//! The kernel boundary of the crate against the facts tables under `tests/data/`.

use std::collections::BTreeSet;

use neuron_abi::kernel::args::{self, MemAllocV2MemType, Wire};
use neuron_abi::kernel::ioctl::{Arg, Dir, Encoding, Gate, IOCTLS, Lane, Op, Rule, TYPE, lookup, row};
use neuron_abi::kernel::values::{self, Platform};
use neuron_abi::kernel::{Release, pci, sysfs, topology};

/// Rows of a table as (column name → text).
fn table(text: &str) -> Vec<std::collections::HashMap<&str, &str>> {
    let mut lines = text.lines();
    let names: Vec<_> = lines.next().expect("heading").split('\t').collect();
    lines.map(|l| names.iter().copied().zip(l.split('\t')).collect()).collect()
}

fn number(text: &str) -> i64 {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).expect("hex") as i64,
        None => text.parse().expect("decimal"),
    }
}

fn release(text: &str) -> Release {
    match text.trim_start_matches("<=").split(' ').next().expect("word") {
        "2.24.7" => Release::V2_24_7,
        "2.25.4" => Release::V2_25_4,
        "2.26.5" => Release::V2_26_5,
        "2.27" | "2.27.4" => Release::V2_27_4,
        "2.28-2.29" | "2.28+" => Release::Next,
        other => panic!("unknown release {other}"),
    }
}

#[test]
fn every_command_equals_its_row_of_the_facts() {
    let rows = table(include_str!("data/ioctls.tsv"));
    assert_eq!(rows.len(), IOCTLS.len());
    for (fact, code) in rows.iter().zip(IOCTLS) {
        let name = fact["name"].strip_prefix("NEURON_IOCTL_").expect("prefix");
        assert_eq!(name, code.name);
        assert_eq!(number(fact["nr"]), i64::from(code.nr), "{name}");
        assert_eq!(number(fact["enc_size"]), i64::from(code.size), "{name}");
        assert_eq!(number(fact["cmd_hex"]), i64::from(code.cmd), "{name}");
        let dir = match fact["dir_encoded"] {
            "_IO" => Dir::None,
            "_IOR" => Dir::Read,
            "_IOW" => Dir::Write,
            "_IOWR" => Dir::ReadWrite,
            other => panic!("{other}"),
        };
        assert_eq!(dir, code.dir, "{name}");
        assert_eq!(number(fact["bytes_copied_in"]), code.copied_in as i64, "{name}");
        match (fact["arg_form"], code.arg) {
            ("none", Arg::None) => {}
            ("scalar", Arg::Scalar(c)) | ("pointer", Arg::Opaque(c)) => assert_eq!(c, fact["arg_struct"], "{name}"),
            ("pointer", Arg::Pointer(s)) | ("struct", Arg::Struct(s)) => {
                assert_eq!(s.name, fact["arg_struct"], "{name}");
                if fact["arg_form"] == "struct" {
                    assert_eq!(s.size as u32, code.size, "{name}: the struct form encodes its own size");
                }
            }
            (form, arg) => panic!("{name}: {form} against {arg:?}"),
        }
        let lane = match fact["lane"] {
            "main" => Lane::Main,
            "both" => Lane::Both,
            _ => Lane::Unknown,
        };
        let gate = match fact["gate"] {
            "none" => Gate::None,
            "attach" => Gate::Attach,
            "misc" => Gate::Misc,
            _ => Gate::Unknown,
        };
        let rule = match fact["dispatch_match"] {
            "exact" => Rule::Exact,
            "nr then exact" => Rule::NrThenExact,
            "nr then size" => Rule::NrThenSize,
            "nr then dir" => Rule::NrThenDir,
            "nr" => Rule::Nr,
            _ => Rule::Unknown,
        };
        assert_eq!((lane, gate, rule), (code.lane, code.gate, code.rule), "{name}");
        assert_eq!(release(fact["since_driver"]), code.since, "{name}");
        assert_eq!(fact["since_driver"].contains("only"), code.last == Release::V2_24_7, "{name}");
    }
}

#[test]
fn a_command_value_is_made_of_its_fields() {
    for code in IOCTLS {
        let built = Encoding { dir: code.dir, kind: TYPE, nr: code.nr, size: code.size };
        assert_eq!(built.value(), code.cmd, "{}", code.name);
        assert_eq!(Encoding::of(code.cmd), built, "{}", code.name);
        assert_eq!(row(code.op).cmd, code.cmd, "{}", code.name);
    }
}

#[test]
fn lookup_finds_each_command_by_its_own_value() {
    for profile in [Release::V2_24_7, Release::V2_26_5, Release::V2_27_4] {
        for code in IOCTLS.iter().filter(|c| c.exists_in(profile)) {
            let found = lookup(code.cmd, false, profile).expect(code.name);
            assert_eq!(found.op, code.op, "{}", code.name);
            assert_eq!(lookup(code.cmd, true, profile).is_some(), code.lane == Lane::Both, "{}", code.name);
        }
    }
}

#[test]
fn nineteen_values_are_gated() {
    let gated = IOCTLS.iter().filter(|c| c.gate == Gate::Attach).count();
    assert_eq!(gated, 19, "facts/driver/cdev.md, step 3");
}

#[test]
fn zero_copy_takes_any_encoding_in_2_24_and_its_size_changes_after() {
    let odd = Encoding { dir: Dir::None, kind: b'X', nr: 124, size: 7 }.value();
    assert_eq!(lookup(odd, false, Release::V2_24_7).map(|r| r.op), Some(Op::MemBufZerocopy64));
    assert_eq!(lookup(odd, false, Release::V2_26_5).map(|r| r.op), Some(Op::MemBufZerocopy64Zc));
}

#[test]
fn driver_info_takes_larger_sizes_but_not_smaller_ones() {
    let get = |size| lookup(Encoding { dir: Dir::Read, kind: TYPE, nr: 110, size }.value(), true, Release::V2_24_7);
    assert_eq!(get(32).map(|r| r.op), Some(Op::DriverInfoGet));
    assert_eq!(get(16), None);
}

#[test]
fn every_struct_field_equals_its_row_of_the_facts() {
    let rows = table(include_str!("data/ioctl_structs.tsv"));
    let mut seen = BTreeSet::new();
    for fact in &rows {
        let info = args::find_struct(fact["struct"]).unwrap_or_else(|| panic!("no struct {}", fact["struct"]));
        assert_eq!(info.size as i64, number(fact["struct_size"]), "{}", info.name);
        seen.insert(info.name);
        let size = if fact["size"] == "flexible" { 0 } else { number(fact["size"]) };
        let field = info.field(fact["field"]).unwrap_or_else(|| panic!("{}.{}", info.name, fact["field"]));
        assert_eq!((field.offset as i64, field.size as i64), (number(fact["offset"]), size));
    }
    assert_eq!(args::structs().map(|s| s.fields.len()).sum::<usize>(), rows.len());
    assert_eq!(args::structs().count(), seen.len());
}

#[test]
fn the_codec_leaves_padding_alone() {
    let mut bytes = [0xa5; 48];
    let value = MemAllocV2MemType { size: 1, mem_type: 9, ..Default::default() };
    value.put(&mut bytes);
    assert_eq!(MemAllocV2MemType::get(&bytes), value);
    assert_eq!(bytes[36..40], [0xa5; 4], "the hole between mem_type and mem_handle");
}

#[test]
fn every_value_equals_its_row_of_the_facts() {
    let mut rows = BTreeSet::new();
    for fact in table(include_str!("data/enums.tsv")) {
        // The instance identity numbers live in `instance.rs` with a table of their own.
        if fact["group"].starts_with("nrt_instance") {
            continue;
        }
        assert_eq!(number(fact["value_dec"]), number(fact["value_hex"]), "{}", fact["name"]);
        rows.insert((fact["group"].to_owned(), fact["name"].to_owned(), number(fact["value_dec"])));
    }
    let mut code: BTreeSet<_> = values::ENUM_ROWS
        .iter()
        .chain(values::CONST_ROWS)
        .map(|(group, name, value)| ((*group).to_owned(), (*name).to_owned(), *value))
        .collect();
    for (name, geometry) in [
        ("geometry_V2", values::GEOMETRY_V2),
        ("geometry_V3", values::GEOMETRY_V3),
        ("geometry_V4", values::GEOMETRY_V4),
    ] {
        code.extend(geometry.rows().into_iter().map(|(key, value)| (name.into(), key.into(), value as i64)));
    }
    // V1 is not modelled; its architecture number stays known because 2.24.7 claims Inf1 ids.
    let modelled: BTreeSet<_> = rows.into_iter().filter(|(group, ..)| group != "geometry_V1").collect();
    let wrong: Vec<_> = modelled.symmetric_difference(&code).collect();
    assert!(wrong.is_empty(), "in one of the two only: {wrong:?}");
}

#[test]
fn b058_platforms_and_generations_have_the_drivers_numbers() {
    assert_eq!(Platform::ALL.iter().map(|p| *p as u32).collect::<Vec<_>>(), [0, 1, 2, 3]);
    for (arch, number) in [(neuron_abi::Arch::Sunda, 2), (neuron_abi::Arch::Cayman, 3), (neuron_abi::Arch::Mariana, 4)]
    {
        assert_eq!(arch as u32, number);
    }
}

#[test]
fn pci_ids_equal_the_facts() {
    // B001 B002 B005 B011 B014 B018 B054
    let facts: Vec<_> = table(include_str!("data/pci.tsv")).into_iter().filter(|r| r["kind"] == "id").collect();
    let main: Vec<_> = pci::IDS.iter().filter(|id| id.arch != 1).collect();
    let rows: Vec<_> = facts.iter().filter(|r| r["arch"] != "V1").collect();
    assert_eq!(rows.len(), 5);
    for (fact, id) in rows.iter().zip(&main) {
        assert_eq!(number(fact["vendor"]), i64::from(pci::VENDOR));
        assert_eq!(number(fact["device_id_or_rule"]), i64::from(id.device));
        assert_eq!(fact["id_name"], id.name);
        assert_eq!(fact["arch"], format!("V{}", id.arch));
        assert_eq!(fact["device_name"], id.chip);
        assert_eq!(release(fact["since_driver"]), id.since);
    }
    assert_eq!(main.len(), rows.len());
    let inf1 = facts.iter().find(|r| r["arch"] == "V1").expect("Inf1 row");
    assert_eq!(inf1["device_id_or_rule"], "0x7064..0x7067");
    assert_eq!(
        pci::ids(Release::V2_24_7).filter(|id| id.arch == 1).map(|id| id.device).collect::<Vec<_>>(),
        [0x7064, 0x7065, 0x7066, 0x7067]
    );
    assert_eq!(pci::ids(Release::V2_27_4).count(), 5);
    assert!(pci::ids(Release::V2_27_4).all(|id| id.arch != 1 && id.device != pci::SHIPPED_ALIAS_DEVICE));
}

#[test]
fn b057_aliases_come_from_the_id_table() {
    let lines: Vec<_> = pci::ids(Release::V2_27_4).map(|id| pci::modalias(id.device)).collect();
    assert_eq!(lines[0], "pci:v00001D0Fd00007164sv*sd*bc*sc*i*");
    assert_eq!(lines.len(), 5);
}

#[test]
fn routing_maps_equal_the_facts() {
    for (rule, map) in [("rid_map_trn1", pci::RID_TO_INDEX_TRN1), ("rid_map_trn2_trn3", pci::RID_TO_INDEX_TRN2)] {
        let rows = table(include_str!("data/pci.tsv"));
        let notes = rows.iter().find(|r| r["device_id_or_rule"] == rule).expect(rule)["notes"];
        let list = notes.rsplit(": ").next().expect("list");
        assert_eq!(list.split(',').map(|n| number(n) as u32).collect::<Vec<_>>(), map);
        assert_eq!(map.iter().collect::<BTreeSet<_>>().len(), 16, "a permutation");
    }
}

#[test]
fn topology_equals_the_facts() {
    let rows = table(include_str!("data/topology.tsv"));
    let list = |text: &str| text.split(',').map(|n| number(n) as u32).collect::<Vec<_>>();
    for (kind, map) in [("trn1", topology::TRN1_NEIGHBOURS), ("trn2", topology::TRN2_NEIGHBOURS)] {
        for (i, neighbours) in map.iter().enumerate() {
            let key = format!("{kind}/{i}");
            let fact = rows.iter().find(|r| r["key"] == key).expect("row");
            assert_eq!(list(fact["neighbours"]), neighbours, "{key}");
            for n in neighbours {
                assert!(map[*n as usize].contains(&(i as u32)), "{key}: links go both ways");
            }
        }
    }
    for (key, fact) in rows.iter().filter(|r| r["kind"] == "core_map").filter_map(|r| Some((r["key"], list_of(r)?))) {
        let pattern = match key.split(':').next().expect("name") {
            "even-pair a" | "PDS even" => 0,
            "odd a" | "PDS odd" => 1,
            "even-pair b" => 2,
            "odd b" => 3,
            other => panic!("{other}"),
        };
        assert_eq!(fact, topology::CORE_PATTERNS[pattern], "{key}");
        if let Some((_, devices)) = key.split_once(": ") {
            for d in list(devices) {
                assert_eq!(topology::CORE_PATTERN_OF_DEVICE[d as usize], pattern, "device {d}");
            }
        }
    }
    let facts: Vec<_> = rows.iter().filter(|r| r["kind"] == "instance").collect();
    assert_eq!(facts.len(), topology::INSTANCES.len());
    for (fact, code) in facts.iter().zip(topology::INSTANCES) {
        assert_eq!(fact["key"], code.name);
        let numbers = [code.devices, code.cores, code.channels, code.hbm_gib];
        let columns = ["devices", "physical_cores_per_device", "hbm_channels", "hbm_gib_per_device"];
        for (column, value) in columns.iter().zip(numbers) {
            assert_eq!(number(fact[column]), i64::from(value), "{} {column}", code.name);
        }
        assert_eq!(fact["arch"], format!("V{}", code.arch));
    }
}

fn list_of(row: &std::collections::HashMap<&str, &str>) -> Option<Vec<u32>> {
    row["neighbours"].split(',').map(|n| n.parse().ok()).collect()
}

#[test]
fn the_sysfs_tables_spell_every_path_of_the_facts() {
    let mut code = BTreeSet::new();
    let dev = "/sys/class/neuron_device/neuronN";
    for (dir, names, files) in [
        (format!("{dev}/stats/memory_usage/host_mem"), &sysfs::HOST_MEMORY[..], &sysfs::MEMORY_FILES[..]),
        (format!("{dev}/neuron_coreK/stats/status"), &sysfs::STATUS[..], &sysfs::COUNTER_FILES[..]),
        (
            format!("{dev}/neuron_coreK/stats/memory_usage/device_mem"),
            &sysfs::CORE_DEVICE_MEMORY[..],
            &sysfs::MEMORY_FILES[..],
        ),
        (format!("{dev}/neuron_coreK/stats/memory_usage"), &["host_mem", "device_mem"][..], &sysfs::MEMORY_FILES[..]),
        (format!("{dev}/neuron_coreK/stats/other_info"), &sysfs::OTHER_INFO[..], &sysfs::COUNTER_FILES[..]),
        (format!("{dev}/stats"), &["hardware"][..], &sysfs::HARDWARE[..]),
        (format!("{dev}/info"), &["architecture"][..], &sysfs::ARCHITECTURE[..]),
        (format!("{dev}/neuron_coreK/info"), &["architecture"][..], &sysfs::ARCHITECTURE[..1]),
    ] {
        for name in names {
            code.extend(files.iter().map(|file| format!("{dir}/{name}/{file}")));
        }
    }
    let single = ["info/notify_delay", "info/serial_number", "stats/power/utilization"];
    code.extend(single.map(|p| format!("{dev}/{p}")));
    code.insert(format!("{dev}/neuron_coreK/stats/tensor_engine/pe_cntrs"));

    let rows = table(include_str!("data/sysfs.tsv"));
    let facts: BTreeSet<_> = rows.iter().filter(|r| r["scope"] == "metric").map(|r| r["path"].to_owned()).collect();
    assert_eq!(facts, code);
    for fact in rows.iter().filter(|r| r["scope"] == "metric") {
        assert_eq!(fact["mode"], format!("{:04o}", sysfs::METRIC_MODE));
    }
    for (scope, prefix, attrs) in [
        ("class", "/sys/class/neuron_device/", &sysfs::CLASS_ATTRS[..]),
        ("device", "/sys/class/neuron_device/neuronN/", &sysfs::DEVICE_ATTRS[..]),
    ] {
        let facts: Vec<_> = rows.iter().filter(|r| r["scope"] == scope).collect();
        assert_eq!(facts.len(), attrs.len());
        for (fact, attr) in facts.iter().zip(attrs) {
            assert_eq!(fact["path"], format!("{prefix}{}", attr.path));
            assert_eq!(fact["mode"], format!("{:04o}", attr.mode));
            assert_eq!(release(fact["since_driver"]), attr.since, "{}", attr.path);
        }
    }
    let params: Vec<_> = rows.iter().filter(|r| r["path"].starts_with("/sys/module/neuron/parameters/")).collect();
    assert_eq!(params.len() + 3, sysfs::PARAMS.len(), "three were only measured");
    for (fact, param) in params.iter().zip(&sysfs::PARAMS) {
        assert!(fact["path"].ends_with(&format!("/{}", param.name)));
        assert_eq!(fact["mode"], format!("{:04o}", sysfs::PARAM_MODE));
        assert_eq!(release(fact["since_driver"]), param.since);
        match fact["format_or_value"] {
            "page size" => assert_eq!(param.default, 4096),
            "2.27 only" => assert_eq!(param.default, 0),
            value => assert_eq!(number(value) as u64, param.default, "{}", param.name),
        }
    }
    for (name, platform, since) in sysfs::DMI_PLATFORMS {
        let fact = rows.iter().find(|r| r["scope"] == "dmi_value" && r["path"] == name).expect(name);
        let text = fact["format_or_value"].split(',').next().expect("word");
        assert_eq!(text, format!("{platform:?}").to_uppercase(), "{name}");
        assert_eq!(release(fact["since_driver"]), since, "{name}");
    }
}

#[test]
fn pods_show_their_own_class_attributes() {
    let shown = |release, platform| -> Vec<_> {
        sysfs::CLASS_ATTRS.iter().filter(|a| a.shown(release, platform)).map(|a| a.path).collect()
    };
    let old = ["node_id_2", "node_id_4", "server_id_2", "server_id_4", "ultraserver_mode"];
    assert_eq!(shown(Release::V2_26_5, Platform::Std), old);
    assert_eq!(shown(Release::V2_27_4, Platform::Std), ["hbm_7200_capable", "current_perf_profile"]);
    assert!(shown(Release::V2_27_4, Platform::Pds).contains(&"reservation_id"));
}
