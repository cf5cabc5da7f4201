//! The register and address map against `tests/data/bars.tsv` (a copy of `facts/driver/bars.tsv`).

use neuron_hw::regs::{Layout, V2, V3, V4, core, engine, misc};

struct Row<'a> {
    kind: &'a str,
    arch: &'a str,
    name: &'a str,
    value: &'a str,
    size: &'a str,
    notes: &'a str,
}

fn rows() -> Vec<Row<'static>> {
    let text = include_str!("data/bars.tsv");
    let row = |line: &'static str| {
        let mut columns = line.split('\t');
        let mut next = || columns.next().unwrap_or_default();
        Row { kind: next(), arch: next(), name: next(), value: next(), size: next(), notes: next() }
    };
    text.lines().skip(1).map(row).collect()
}

fn of_kind(kind: &str) -> Vec<Row<'static>> {
    let found: Vec<_> = rows().into_iter().filter(|r| r.kind == kind).collect();
    assert!(!found.is_empty(), "the table has no row of kind {kind}");
    found
}

/// Layouts a row speaks of, such as `V3,V4`.
fn layouts(arch: &str) -> Vec<&'static Layout> {
    let one = |name: &str| match name {
        "V2" => &V2,
        "V3" => &V3,
        "V4" => &V4,
        other => panic!("architecture {other}"),
    };
    arch.split(',').map(one).collect()
}

fn hex(text: &str) -> u64 {
    let digits = text.trim().trim_start_matches("0x");
    let end = digits.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digits.len());
    u64::from_str_radix(&digits[..end], 16).unwrap_or_else(|_| panic!("{text:?} is not a number"))
}

/// `base + i*stride`.
fn series(text: &str) -> (u64, u64) {
    let (base, stride) = text.split_once(" + ").unwrap_or_else(|| panic!("{text:?} is not a series"));
    (hex(base), hex(stride.split_once('*').expect("factor").1))
}

#[test]
fn the_kinds_of_rows_are_the_ones_compared_here() {
    // `bar` and `rule` rows are about the driver; its probe and mmap tests have them.
    let known = ["bar", "rule", "bar0_map", "misc_ram_reg", "bar0_write_block", "bar4_map", "host_pa", "dma_engine"];
    for row in rows() {
        assert!(known.contains(&row.kind), "rows of kind {} are compared by no test", row.kind);
    }
}

#[test]
fn register_windows_lie_where_the_facts_say() {
    for row in of_kind("bar0_map") {
        for layout in layouts(row.arch) {
            match row.name.split(' ').next().expect("word") {
                "TPB" => {
                    let (base, stride) = series(row.value);
                    assert_eq!((layout.cores.bar0, core::STRIDE), (base, stride), "{}", row.arch);
                    assert_eq!(layout.cores.bytes, stride * u64::from(layout.geometry.cores));
                    assert_eq!(hex(row.size), stride);
                    let page = row.notes.split_once("semaphore page at +").expect("page").1;
                    assert_eq!(core::EVENTS, hex(page));
                    assert_eq!(core::SEMAPHORE_PAGE_BYTES, hex(page.split_once("size ").expect("size").1));
                    assert_eq!(core::SBUF_BYTES, hex(page.split_once("SBUF size ").expect("size").1));
                }
                "TOPSP" => {
                    let (base, stride) = series(row.value);
                    assert_eq!(layout.topsps.len(), layout.geometry.topsps as usize);
                    for (id, window) in layout.topsps.iter().enumerate() {
                        // The table says so in words: the second die begins two places further on.
                        let slot = if row.notes.contains("ids 8..15 at j=10..17") && id >= 8 { id + 2 } else { id };
                        assert_eq!(window.bar0, base + slot as u64 * stride, "{} {id}", row.arch);
                        assert_eq!(window.bytes, hex(row.size));
                    }
                }
                "MISC" => assert_eq!(layout.geometry.misc_ram, hex(row.value), "{}", row.arch),
                // The peripheral blocks are not decoded as such; what lies in them is.
                name => assert!(name.starts_with("APB"), "{name}"),
            }
        }
    }
}

#[test]
fn mailbox_words_lie_where_the_facts_say() {
    let both = |first: u64| vec![first, first + 4];
    for row in of_kind("misc_ram_reg") {
        let code = match row.name {
            "api_version" => vec![misc::API_VERSION],
            "device_id" => vec![misc::ROUTING_ID],
            "serial_lo/hi" => vec![misc::SERIAL_LO, misc::SERIAL_HI],
            "ecc_sram" => vec![misc::ECC_SRAM],
            "ecc_hbm0..3" => vec![misc::ECC_HBM0, misc::ECC_HBM0 + 12],
            "power" => vec![misc::POWER0, misc::POWER1],
            "hbm_repair" => vec![misc::HBM_REPAIR],
            "server_info" => vec![misc::SERVER_INFO],
            "metric_data" => vec![misc::METRICS, misc::METRICS + misc::METRICS_BYTES - 1],
            "neighbour_serials" => vec![misc::NEIGHBOUR_SERIALS, misc::NEIGHBOUR_SERIALS + 12],
            "pod_election" => vec![misc::POD_ELECTION, misc::POD_ELECTION + 8],
            "reset_tpb_map" => vec![misc::RESET_MAP],
            "reset_type" => vec![misc::RESET_TYPE],
            "request_base_hi/lo" => both(misc::REQUEST_HI),
            "response_base_hi/lo" => both(misc::RESPONSE_HI),
            "trigger" => vec![misc::TRIGGER],
            "fw_status" => {
                assert!(row.notes.contains(&format!("mask {:#x} = still resetting", misc::STATUS_BUSY)));
                vec![misc::STATUS]
            }
            other => panic!("no word for {other}"),
        };
        let facts: Vec<_> = row.value.split(['/', '.']).filter(|part| !part.is_empty()).map(hex).collect();
        assert_eq!(code, facts, "{}", row.name);
        assert_eq!(layouts(row.arch).len(), 3, "{} is the same on all generations", row.name);
    }
}

#[test]
fn refused_register_writes_are_the_mailbox_words_of_the_facts() {
    for row in of_kind("bar0_write_block") {
        let facts: Vec<_> = row.value.split(' ').map(hex).collect();
        assert_eq!(facts, misc::WRITE_BLOCKED);
    }
}

#[test]
fn channels_lie_where_the_facts_say() {
    for row in of_kind("bar4_map") {
        if row.name == "range rule" {
            continue;
        }
        let index: usize = row.name.rsplit(' ').next().expect("number").parse().expect("number");
        let (pa, bar4) = row.value.split_once(" -> ").expect("arrow");
        for layout in layouts(row.arch) {
            let channel = layout.channels[index];
            assert_eq!(channel.address, hex(pa.trim_start_matches("pa ")), "{} {}", row.arch, row.name);
            assert_eq!(channel.bar4, hex(bar4.trim_start_matches("bar4 ")), "{} {}", row.arch, row.name);
            assert_eq!(layout.geometry.channel_bytes, hex(row.size), "{} {}", row.arch, row.name);
            assert_eq!(layout.channels.len(), layout.geometry.dram_channels as usize);
        }
    }
}

#[test]
fn host_memory_has_the_base_bit_of_the_facts() {
    for row in of_kind("host_pa") {
        let base = hex(row.value.split_once(" and ").expect("value").1);
        for layout in layouts(row.arch) {
            assert_eq!(layout.geometry.pci_host_base, base);
            assert_eq!(layout.host_mask & base, base, "the base bit is among the bits the device strips");
        }
    }
}

#[test]
fn dma_engines_lie_where_the_facts_say() {
    for row in of_kind("dma_engine") {
        // (id, BAR 0 offset) of every engine the row names.
        let mut engines: Vec<(u32, u64)> = Vec::new();
        let stride = hex(row.size);
        let numbers = |text: &str| text.split(", ").map(hex).collect::<Vec<_>>();
        if let Some(group) = row.name.strip_prefix("engine e of group ") {
            let first = if group.starts_with('0') { 0 } else { 16 };
            assert!(group.contains(&format!("ids {first}..{}", first + 15)), "{group}");
            engines.extend((0..16).map(|e| (first + e, hex(row.value) + u64::from(e) * stride)));
        } else if row.name.starts_with("SE k engine j") {
            for (k, base) in (0..).zip(numbers(row.value.split_once(" + ").expect("series").0)) {
                engines.extend((0..32).map(|j| (32 * k + j, base + u64::from(j) * stride)));
            }
        } else {
            let words = row.name.split([' ', ',']).filter_map(|w| w.parse().ok());
            engines.extend(words.zip(numbers(row.value)));
        }
        assert!(!engines.is_empty(), "{}", row.name);
        for layout in layouts(row.arch) {
            for (id, base) in &engines {
                assert_eq!(layout.engine_base(*id), Some(*base), "{} engine {id}", row.arch);
                assert_eq!(layout.engine_at(base + stride - 4), Some((*id, stride - 4)));
            }
        }
        if row.notes.contains("tx queue q") {
            assert!(row.notes.contains(&format!("+{:#x}+q*{:#x}", engine::QUEUES, engine::QUEUE_STRIDE)));
            assert!(row.notes.contains(&format!("+{:#x}+q*", engine::QUEUES + engine::RX)));
        }
    }
    for layout in [&V2, &V3, &V4] {
        let engines: u32 = layout.engines.iter().map(|run| run.count).sum();
        assert_eq!(engines, layout.geometry.engines, "each id has one place");
    }
}
