//! The sysfs tree against the table of facts, and what reads and writes do.

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::{Machine, open, process, spec};
use neuron_abi::kernel::sysfs::PARAMS;
use neuron_hw::Fault;
use neuron_hw::regs::{DEAD, misc};
use neuron_kmd::caller::Caller;
use neuron_kmd::driver::{Driver, LoadConfig};
use neuron_kmd::profile::Profile;
use neuron_kmd::reply::Errno;
use neuron_kmd::sysfs::{Kind, Sysfs};

/// Files below a directory with their modes.
fn walk(sysfs: &Sysfs, root: &str) -> BTreeMap<String, u16> {
    let mut files = BTreeMap::new();
    let mut dirs = vec![root.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in sysfs.list(&dir).expect("directory") {
            let path = format!("{dir}/{}", entry.name);
            match entry.kind {
                Kind::Dir => dirs.push(path),
                Kind::File(mode) => {
                    files.insert(path, mode);
                }
                Kind::Link(_) => {}
            }
        }
    }
    files
}

fn tree(profile: Profile, product: u16, host: &str) -> (Machine, Arc<Driver>, Sysfs) {
    let machine = Machine::new([spec(product, |_| {})]);
    let config = LoadConfig { profile, product: host.into(), ..LoadConfig::default() };
    let driver = Driver::load(&config, &machine.bus, machine.clock.clone()).expect("load");
    let sysfs = Sysfs::new(driver.clone());
    (machine, driver, sysfs)
}

#[test]
fn every_device_attribute_of_the_facts_is_there_with_its_mode_and_no_other() {
    let table = include_str!("../../neuron-abi/tests/data/sysfs.tsv");
    for (profile, product, cores) in
        [(Profile::V2_24_7, 0x7164, 2), (Profile::V2_27_4, 0x7164, 2), (Profile::V2_27_4, 0x7564, 8)]
    {
        let (_machine, _driver, sysfs) = tree(profile, product, "");
        let mut expected = BTreeMap::new();
        for row in table.lines().skip(1) {
            let columns: Vec<_> = row.split('\t').collect();
            let [scope, path, mode, _, since, ..] = columns[..] else { panic!("{row}") };
            let Some(below) = path.strip_prefix("/sys/class/neuron_device/neuronN/") else { continue };
            let Ok(mode) = u16::from_str_radix(mode, 8) else { continue };
            if since.starts_with("2.27") && profile < Profile::V2_27_4 {
                continue;
            }
            assert!(["layout", "device", "metric"].contains(&scope), "{row}");
            for core in 0..if below.contains("neuron_coreK") { cores } else { 1 } {
                let below = below.replace("neuron_coreK", &format!("neuron_core{core}"));
                expected.insert(format!("devices/virtual/neuron_device/neuron0/{below}"), mode);
            }
        }
        assert!(expected.len() > 140, "the table was read");
        assert_eq!(walk(&sysfs, "devices/virtual/neuron_device/neuron0"), expected);
    }
}

#[test]
fn class_attributes_depend_on_release_and_platform() {
    let names = |profile, host| {
        let (_machine, _driver, sysfs) = tree(profile, 0x7364, host);
        let entries = sysfs.list("class/neuron_device").expect("class");
        entries.into_iter().map(|e| e.name).filter(|n| n != "neuron0").collect::<Vec<_>>().join(" ")
    };
    let old = "node_id_2 node_id_4 server_id_2 server_id_4 ultraserver_mode";
    assert_eq!(names(Profile::V2_24_7, ""), old);
    assert_eq!(names(Profile::V2_26_5, "trn2.48xlarge"), old);
    assert_eq!(names(Profile::V2_27_4, ""), "current_perf_profile hbm_7200_capable");
    assert_eq!(
        names(Profile::V2_27_4, "trn2u.48xlarge"),
        "current_perf_profile hbm_7200_capable node_id_2 node_id_4 server_id_2 server_id_4 ultraserver_mode"
    );
    assert_eq!(
        names(Profile::V2_27_4, "trn2es.48xlarge"),
        "current_perf_profile hbm_7200_capable node_cnt node_id reservation_id ultraserver_mode"
    );
}

#[test]
fn class_attributes_are_empty_before_a_first_device() {
    let machine = Machine::new([]);
    let driver = machine.load(Profile::V2_24_7);
    let sysfs = Sysfs::new(driver);
    assert_eq!(sysfs.read("class/neuron_device/node_id_2", &process(1)), Ok(String::new()));
    assert_eq!(sysfs.read("class/neuron_device/node_id", &process(1)), Err(Errno::ENOENT));
}

#[test]
fn hbm_7200_is_busy_until_the_first_reset_of_every_device_is_through() {
    let machine = Machine::new([spec(0x7164, |_| {}), spec(0x7164, |s| s.routing_id = 1)]);
    machine.bus[1].inject(Fault::AckHold(std::time::Duration::from_secs(20)));
    let driver = machine.load(Profile::V2_27_4);
    let sysfs = Sysfs::new(driver.clone());
    let read = || sysfs.read("class/neuron_device/hbm_7200_capable", &process(1)).expect("file");
    open(&driver, 0, &process(10));
    assert_eq!(read(), "busy\n");
    open(&driver, 4, &process(10));
    assert_eq!(read(), "0\n");
    let devices = driver.devices();
    devices[0].reset_record.found_hbm_7200(true);
    assert_eq!(read(), "-1\n");
    devices[1].reset_record.found_hbm_7200(true);
    assert_eq!(read(), "1\n");
}

#[test]
fn modes_are_tested_and_files_without_a_write_bit_refuse_even_root() {
    let (_machine, _driver, sysfs) = tree(Profile::V2_24_7, 0x7164, "");
    let (root, user) = (process(1), Caller::process(2, 65_534, false));
    let dir = "class/neuron_device/neuron0";
    for (file, mode) in [("core_count", 0o400), ("reset", 0o600), ("info/serial_number", 0o644)] {
        let path = format!("{dir}/{file}");
        assert_eq!(sysfs.read(&path, &user).is_ok(), mode & 0o004 != 0, "{file}");
        assert!(sysfs.read(&path, &root).is_ok());
        assert_eq!(sysfs.write(&path, b"5", &user), Err(Errno::EACCES), "{file}");
        assert_eq!(sysfs.write(&path, b"5", &root).is_ok(), mode & 0o222 != 0, "{file}");
    }
    assert_eq!(sysfs.read(&format!("{dir}/nonsense"), &root), Err(Errno::ENOENT));
    assert_eq!(sysfs.list(&format!("{dir}/neuron_core2")).err(), Some(Errno::ENOENT));
    assert_eq!(sysfs.list(&format!("{dir}/neuron_core01")).err(), Some(Errno::ENOENT));
}

#[test]
fn paths_of_devices_are_links_in_the_class_directory() {
    let (_machine, _driver, sysfs) = tree(Profile::V2_24_7, 0x7164, "");
    let link = sysfs.list("class/neuron_device").expect("class").into_iter().find(|e| e.name == "neuron0");
    let target = "../../devices/virtual/neuron_device/neuron0";
    assert_eq!(link.map(|e| e.kind), Some(Kind::Link(target.into())));
    assert_eq!(
        sysfs.read("class/neuron_device/neuron0/dev", &process(1)),
        sysfs.read("devices/virtual/neuron_device/neuron0/dev", &process(1))
    );
}

#[test]
fn reset_file_starts_a_reset_only_while_nobody_has_the_device_open() {
    let (machine, driver, sysfs) = tree(Profile::V2_24_7, 0x7164, "");
    let root = process(1);
    let reset = |data: &[u8]| sysfs.write("class/neuron_device/neuron0/reset", data, &root);
    let file = open(&driver, 0, &process(10));
    assert_eq!((reset(b"1"), reset(b"")), (Ok(1), Ok(0)));
    assert_eq!(machine.bus[0].handshakes(), 1, "the one of the probe");
    file.flush(&process(10));
    drop(file);
    assert_eq!((reset(b""), reset(b"anything")), (Ok(0), Ok(8)));
    open(&driver, 0, &process(10));
    assert_eq!(machine.bus[0].handshakes(), 2);
}

#[test]
fn dead_error_words_count_nothing_and_hold_2_24_7_up() {
    for (profile, product, seconds) in
        [(Profile::V2_24_7, 0x7164, 15), (Profile::V2_24_7, 0x7364, 15), (Profile::V2_26_5, 0x7564, 0)]
    {
        let (machine, _driver, sysfs) = tree(profile, product, "");
        machine.bus[0].inject(Fault::MiscRegister { offset: misc::ECC_SRAM, value: DEAD });
        let before = neuron_hw::Clock::now(&*machine.clock);
        let text = sysfs.read("class/neuron_device/neuron0/stats/hardware/sram_ecc_uncorrected", &process(1));
        assert_eq!(text.as_deref(), Ok("0\n"));
        assert_eq!((neuron_hw::Clock::now(&*machine.clock) - before).as_secs(), seconds, "{profile:?} {product:#x}");
    }
}

#[test]
fn memory_errors_are_the_low_halves_of_the_channels_the_device_has() {
    for (product, sum) in [(0x7164, 3), (0x7364, 10)] {
        let (machine, _driver, sysfs) = tree(Profile::V2_24_7, product, "");
        for channel in 0..4_u64 {
            let value = 0xabcd_0000 | (channel as u32 + 1);
            machine.bus[0].inject(Fault::MiscRegister { offset: misc::ECC_HBM0 + 4 * channel, value });
        }
        let text = sysfs.read("class/neuron_device/neuron0/stats/hardware/mem_ecc_uncorrected", &process(1));
        assert_eq!(text, Ok(format!("{sum}\n")));
    }
}

#[test]
fn firmware_interface_version_is_busy_while_the_register_is_dead() {
    let (machine, _driver, sysfs) = tree(Profile::V2_27_4, 0x7164, "");
    let read = || sysfs.read("class/neuron_device/neuron0/fw_api_version", &process(1)).expect("file");
    machine.bus[0].inject(Fault::MiscRegister { offset: misc::API_VERSION, value: 7 });
    assert_eq!(read(), "7\n");
    machine.bus[0].inject(Fault::MiscRegister { offset: misc::API_VERSION, value: DEAD });
    assert_eq!(read(), "busy\n");
}

#[test]
fn parameters_have_the_defaults_of_the_table_and_take_numbers_as_the_kernel_does() {
    for profile in Profile::ALL {
        let machine = Machine::new([]);
        let sysfs = Sysfs::new(machine.load(profile));
        let shown = sysfs.list("module/neuron/parameters").expect("parameters");
        let expected = PARAMS.iter().filter(|p| p.since <= profile.release());
        assert_eq!(shown.len(), expected.clone().count());
        for param in expected {
            let path = format!("module/neuron/parameters/{}", param.name);
            assert_eq!(sysfs.read(&path, &process(1)), Ok(format!("{}\n", param.default)), "{}", param.name);
        }
        let set = |text: &str| {
            let path = "module/neuron/parameters/userver_etimeout";
            sysfs.write(path, text.as_bytes(), &process(1)).map(|_| sysfs.read(path, &process(1)).expect("value"))
        };
        for (text, value) in [("5\n", "5\n"), ("0x1F", "31\n"), ("010", "8\n"), ("0", "0\n")] {
            assert_eq!(set(text).as_deref(), Ok(value), "{text}");
        }
        for text in ["", "x", "1 2", "08", "0x", " 1"] {
            assert_eq!(set(text), Err(Errno::EINVAL), "{text:?}");
        }
    }
}

#[test]
fn parameters_at_load_are_refused_when_they_are_no_numbers_and_ignored_when_unknown() {
    let machine = Machine::new([]);
    assert!(machine.load_with(Profile::V2_24_7, "no_reset=x", None).is_err());
    let driver = machine.load_with(Profile::V2_24_7, "nonsense=1 no_reset=1 wc_enable", None).expect("load");
    assert!(driver.env().params.flag("no_reset"));
}

#[test]
fn version_file_names_the_release() {
    for (profile, text) in Profile::ALL.into_iter().zip(["2.24.7.0\n", "2.26.5.0\n", "2.27.4.0\n"]) {
        let machine = Machine::new([]);
        assert_eq!(Sysfs::new(machine.load(profile)).read("module/neuron/version", &process(1)).as_deref(), Ok(text));
    }
}
