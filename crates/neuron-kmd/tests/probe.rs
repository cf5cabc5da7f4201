//! Identity and probe: which devices get a node, and what a failing probe leaves.

mod common;

use common::{Machine, call, open, process, spec};
use neuron_abi::kernel::args as a;
use neuron_abi::kernel::ioctl::Op;
use neuron_abi::kernel::pci::{self, MAX_ROUTING_ID_PDS, VENDOR};
use neuron_abi::kernel::values::{ArchNumber, DeviceState, Platform};
use neuron_hw::Fault;
use neuron_hw::pci::offset;
use neuron_hw::trace::What;
use neuron_kmd::dhal::{BarProfile, Role, bar_profile};
use neuron_kmd::driver::{Driver, LoadConfig};
use neuron_kmd::pci::{host_devices, id_table, shipped_alias};
use neuron_kmd::probe::{ProbeError, Step, bind};
use neuron_kmd::profile::Profile;
use neuron_kmd::reply::{Errno, Stop};

const TRN1: u16 = 0x7164;
const INF2: u16 = 0x7264;
const TRN2: u16 = 0x7364;
const TRN3: u16 = 0x7564;
const TRN3_PLUS: u16 = 0x7565;

const NEW: Profile = Profile::V2_27_4;

fn step_error(driver: &Driver) -> Option<(Step, Errno)> {
    driver.failures().first().map(|error| match error {
        ProbeError::Step { step, errno } => (*step, *errno),
        other => panic!("{other}"),
    })
}

/// B001 B002 B005 B011 B018 B054: what the table holds depends on the release.
#[test]
fn id_table_of_2_27_4_has_five_ids_three_generations_and_no_inf1() {
    let devices = |profile| id_table(profile).iter().map(|row| row.id.device).collect::<Vec<_>>();
    assert_eq!(devices(NEW), [TRN1, INF2, TRN2, TRN3, TRN3_PLUS]);
    assert_eq!(devices(Profile::V2_26_5), devices(NEW));
    assert_eq!(devices(Profile::V2_24_7), [0x7064, 0x7065, 0x7066, 0x7067, TRN1, INF2, TRN2]);
    assert_eq!(VENDOR, 0x1d0f);
    let mut arches: Vec<_> = id_table(NEW).iter().map(|row| row.id.arch).collect();
    arches.dedup();
    assert_eq!(arches, [2, 3, 4]);
    assert!(pci::find(VENDOR, 0x7064, NEW.release()).is_none());
}

/// B003 B004 B014 B057: any subsystem, any class, table order.
#[test]
fn modalias_lines_are_generated_from_the_table() {
    let lines: Vec<_> = id_table(NEW).into_iter().map(|row| row.alias).collect();
    assert_eq!(
        lines,
        [
            "pci:v00001D0Fd00007164sv*sd*bc*sc*i*",
            "pci:v00001D0Fd00007264sv*sd*bc*sc*i*",
            "pci:v00001D0Fd00007364sv*sd*bc*sc*i*",
            "pci:v00001D0Fd00007564sv*sd*bc*sc*i*",
            "pci:v00001D0Fd00007565sv*sd*bc*sc*i*",
        ]
    );
}

/// B053 B055 B056: the shipped load hint is for an id that nothing claims; binding does not care.
#[test]
fn shipped_alias_matches_inf1_in_2_24_7_and_nothing_later() {
    assert_eq!(shipped_alias(NEW).alias, "pci:v00001D0Fd00007064sv*sd*bc*sc*i*");
    assert_eq!(shipped_alias(NEW).id, None);
    assert!(id_table(NEW).iter().all(|row| row.alias != shipped_alias(NEW).alias));
    assert_eq!(shipped_alias(Profile::V2_24_7).id.map(|id| id.arch), Some(1));
    let machine = Machine::new([spec(TRN1, |_| {})]);
    assert_eq!(machine.load(NEW).devices().len(), 1);
}

/// B007 B012 B013 B016 B040 B041 B042 B043 B044 B050: id to architecture to operations.
#[test]
fn each_id_selects_its_architecture_and_operations() {
    for (device, arch, core_arch, cores) in [
        (TRN1, 2, "NCv2", 2),
        (INF2, 2, "NCv2", 2),
        (TRN2, 3, "NCv3", 8),
        (TRN3, 4, "NCv4", 8),
        (TRN3_PLUS, 4, "NCv4", 8),
    ] {
        let machine = Machine::new([spec(device, |_| {})]);
        let driver = machine.load(NEW);
        let node = driver.device(0).expect("node");
        let names = node.dhal.names(device);
        assert_eq!((node.dhal.arch(), names.core_arch, node.dhal.core_count()), (arch, core_arch, cores));
        let caller = process(10);
        let file = open(&driver, 0, &caller);
        let (reply, info) = call(&file, &caller, Op::DeviceBasicInfo, a::DeviceBasicInfo::default());
        assert_eq!(reply, Ok(0));
        assert_eq!(info, a::DeviceBasicInfo { architecture: arch, revision: 1 });
    }
}

/// B058.
#[test]
fn architecture_and_platform_numbers() {
    assert_eq!([ArchNumber::V2, ArchNumber::V3, ArchNumber::V4].map(|v| v as u32), [2, 3, 4]);
    for platform in [Platform::Std, Platform::Ultraserver, Platform::Pds] {
        assert_eq!(Platform::from_raw(platform as u32), Some(platform));
    }
}

/// B010 B015: the exact pair; no row is hidden by an earlier one.
#[test]
fn neighbour_ids_and_other_vendors_are_refused() {
    for device in [0x7163, 0x7165, 0x7263, 0x7363, 0x7563, 0x7566] {
        assert!(bind(VENDOR, device, NEW).is_err(), "{device:#x}");
    }
    assert!(bind(0x1d0e, TRN1, NEW).is_err());
    let table = id_table(NEW);
    for row in table.iter().rev() {
        assert_eq!(bind(VENDOR, row.id.device, NEW), Ok(row.id));
    }
}

/// B019 B020 B021 B022: refused before anything is latched, and the text says what would happen.
#[test]
fn unknown_id_is_an_error_value_and_latches_nothing() {
    let machine = Machine::new([spec(TRN3, |_| {})]);
    let driver = machine.load(Profile::V2_24_7);
    assert_eq!((driver.devices().len(), driver.latched(), driver.counted()), (0, None, 0));
    let text = driver.failures()[0].to_string();
    assert!(text.contains("1d0f:7564") && text.contains("Inf1"), "{text}");
    let text = bind(VENDOR, 0x7566, NEW).expect_err("unknown").to_string();
    assert!(text.contains("kernel BUG (panic)"), "{text}");
}

/// B023: the real driver would run it on the latched architecture; the model refuses it all the
/// same.
#[test]
fn unknown_id_behind_a_good_device_is_refused_as_well() {
    let machine = Machine::new([spec(TRN1, |_| {}), spec(TRN3, |s| s.routing_id = 1)]);
    let driver = machine.load(Profile::V2_24_7);
    assert_eq!(driver.devices().len(), 1);
    assert!(matches!(driver.failures()[..], [ProbeError::UnknownId { device: TRN3, .. }]));
}

/// B045 B046 B047 (arch latch): the first device decides architecture and revision for all.
#[test]
fn arch_latch_first_device_wins_revision_included() {
    let later = spec(INF2, |s| (s.routing_id, s.revision) = (1, 240));
    let machine = Machine::new([spec(TRN1, |_| {}), later]);
    let driver = machine.load(NEW);
    let caller = process(10);
    let file = open(&driver, 1, &caller);
    let (_, info) = call(&file, &caller, Op::DeviceBasicInfo, a::DeviceBasicInfo::default());
    assert_eq!(info, a::DeviceBasicInfo { architecture: 2, revision: 1 });
    assert_eq!(driver.device(1).expect("second").dhal.core_count(), 2, "240 would make it 1");
}

/// B049, measured: golden 88. The second device is read at the first one's mailbox.
#[test]
fn arch_latch_makes_a_device_of_another_generation_fail() {
    for (first, second) in [(TRN1, TRN2), (TRN2, TRN1)] {
        let machine = Machine::new([spec(first, |_| {}), spec(second, |s| s.routing_id = 1)]);
        let driver = machine.load(NEW);
        assert_eq!(driver.devices().iter().map(|d| d.pci_device).collect::<Vec<_>>(), [first]);
        assert_eq!(step_error(&driver), Some((Step::Index, Errno::ENODEV)));
    }
}

/// B048: nothing outlives a module load.
#[test]
fn arch_latch_lives_as_long_as_the_load() {
    let (one, two) = (Machine::new([spec(TRN1, |_| {})]), Machine::new([spec(TRN2, |_| {})]));
    let (first, second) = (one.load(NEW), two.load(NEW));
    assert_eq!(first.latched().map(|l| l.arch), Some(2));
    assert_eq!(second.latched().map(|l| l.arch), Some(3));
    first.unload();
    second.unload();
}

/// B017 B024 B026 B052: roles and numbers; 255 moves the registers, per release.
#[test]
fn bar_profile_by_generation_revision_and_release() {
    const SILICON: BarProfile = BarProfile { apb: 0, axi: -1, dram: 4 };
    for profile in Profile::ALL {
        for arch in [2, 3, 4] {
            for revision in [0, 1, 240, 254] {
                assert_eq!(bar_profile(arch, revision, profile), Some(SILICON));
            }
            let moved = arch == 2 || profile == Profile::V2_24_7;
            let expected = BarProfile { apb: if moved { 2 } else { 0 }, ..SILICON };
            assert_eq!(bar_profile(arch, 255, profile), Some(expected), "{arch} {profile:?}");
        }
        assert_eq!(bar_profile(1, 1, profile), None);
    }
}

/// B035.
#[test]
fn bar_number_minus_one_is_unused_and_others_outside_of_zero_to_five_are_refused() {
    let number = |axi| BarProfile { apb: 0, axi, dram: 4 }.number(Role::Axi);
    assert_eq!(number(-1), Ok(None));
    assert_eq!((number(0), number(5)), (Ok(Some(0)), Ok(Some(5))));
    for refused in [-2, 6, i32::MIN, i32::MAX] {
        assert_eq!(number(refused), Err(Errno::ENODEV), "{refused}");
    }
}

/// B008 B009 B039: revision and id are read first; which windows are looked at follows from them.
#[test]
fn revision_255_moves_the_register_bar_before_any_window_is_touched() {
    let machine = Machine::new([spec(TRN1, |s| s.revision = 255)]);
    machine.bus[0].trace_registers(true);
    let driver = machine.load(NEW);
    assert_eq!(driver.latched().map(|l| l.revision), Some(255));
    assert_eq!(step_error(&driver), Some((Step::Map(Role::Registers), Errno::ENODEV)));
    let (events, _) = machine.bus[0].take_trace();
    assert_eq!(events, []);
}

/// B036: the unused window is reserved and mapped without a look at the device.
#[test]
fn axi_succeeds_without_touching_the_device() {
    let machine = Machine::new([spec(TRN1, |_| {})]);
    machine.bus[0].trace_registers(true);
    let driver = machine.load_with(Profile::V2_24_7, "", Some(Step::Map(Role::Dram))).expect("load");
    assert_eq!(step_error(&driver), Some((Step::Map(Role::Dram), Errno::ENOMEM)));
    assert_eq!(machine.bus[0].take_trace().0, []);
}

/// B025 B027 B028 B037 B038: slots are roles, sizes are the device's, AXI is zero, and the
/// mailbox works all the same.
#[test]
fn window_sizes_come_from_the_device() {
    for (registers, dram) in [(1 << 30, 1 << 35), (1 << 30, 1 << 33)] {
        let machine = Machine::new([spec(TRN1, |s| (s.bar0_bytes, s.bar4_bytes) = (registers, dram))]);
        let driver = machine.load(NEW);
        let bars = driver.device(0).expect("node").bars;
        assert_eq!((bars.bar0.bytes, bars.bar2.bytes, bars.bar4.bytes), (registers, 0, dram));
        assert_eq!(bars.bar2.address, 0);
        let caller = process(10);
        let file = open(&driver, 0, &caller);
        let (reply, info) = call(&file, &caller, Op::DeviceInfo, a::DeviceInfo::default());
        assert_eq!(reply, Ok(0));
        assert_eq!(info.bar_size, [registers, 0]);
        assert_eq!(info.bar_address[1], 0);
        assert_ne!(info.bar_address[0], 0);
        let node = driver.device(0).expect("node");
        assert_eq!(node.regs.misc(neuron_hw::regs::misc::SERIAL_HI), 0x1122_3344);
    }
}

/// B030 B031 B034 (dram_bar): which generation forgives a missing memory window in which release.
#[test]
fn dram_bar_missing_by_generation_and_release() {
    for (device, profile, forgiven) in [
        (TRN1, Profile::V2_24_7, false),
        (TRN1, Profile::V2_26_5, false),
        (TRN1, Profile::V2_27_4, true),
        (INF2, Profile::V2_27_4, true),
        (TRN2, Profile::V2_24_7, true),
        (TRN2, Profile::V2_26_5, true),
        (TRN2, Profile::V2_27_4, true),
        (TRN3, Profile::V2_26_5, true),
        (TRN3, Profile::V2_27_4, true),
    ] {
        let machine = Machine::new([spec(device, |s| s.bar4_bytes = 0)]);
        let driver = machine.load(profile);
        let Some(node) = driver.device(0) else {
            assert!(!forgiven, "{device:#x} {profile:?}");
            assert_eq!(step_error(&driver), Some((Step::Map(Role::Dram), Errno::ENODEV)));
            continue;
        };
        assert!(forgiven, "{device:#x} {profile:?}");
        assert_eq!((node.bars.bar4.address, node.bars.bar4.bytes), (0, 0));
        let caller = process(10);
        let file = open(&driver, 0, &caller);
        let (reply, _) = call(&file, &caller, Op::NcReset, a::DeviceReset { request_id: 0, nc_map: 1 });
        assert_eq!(reply, Ok(0), "resets need no memory window");
    }
}

/// B031: reserve and map are forgiven for the memory window only, and only where the generation
/// does.
#[test]
fn dram_bar_reserve_and_map_are_forgiven_alike() {
    for (device, profile, forgiven) in [(TRN2, NEW, true), (TRN1, NEW, true), (TRN1, Profile::V2_26_5, false)] {
        for step in [Step::Reserve(Role::Dram), Step::Map(Role::Dram)] {
            let machine = Machine::new([spec(device, |_| {})]);
            let driver = machine.load_with(profile, "", Some(step)).expect("load");
            assert_eq!(driver.devices().len(), usize::from(forgiven), "{device:#x} {profile:?} {step:?}");
        }
        for step in [Step::Reserve(Role::Registers), Step::Reserve(Role::Axi)] {
            let machine = Machine::new([spec(device, |_| {})]);
            let driver = machine.load_with(profile, "", Some(step)).expect("load");
            assert_eq!(step_error(&driver), Some((step, Errno::ENOMEM)));
        }
    }
}

/// B032 B033: a register window without a place.
#[test]
fn register_bar_missing_fails_the_probe_or_oopses_where_it_is_forgiven() {
    for (device, profile, oopses) in [
        (TRN1, Profile::V2_24_7, false),
        (TRN1, Profile::V2_27_4, false),
        (TRN2, Profile::V2_24_7, true),
        (TRN2, Profile::V2_26_5, true),
        (TRN3, Profile::V2_26_5, true),
        (TRN2, Profile::V2_27_4, false),
        (TRN3, Profile::V2_27_4, false),
    ] {
        let machine = Machine::unassigned([spec(device, |_| {})]);
        match machine.load_with(profile, "", None) {
            Err(Stop::Bug(bug)) => {
                assert!(oopses, "{device:#x} {profile:?}");
                assert_eq!(bug.quirk, "missing-register-bar");
            }
            Ok(driver) => {
                assert!(!oopses, "{device:#x} {profile:?}");
                assert_eq!(step_error(&driver), Some((Step::Map(Role::Registers), Errno::ENODEV)));
            }
            Err(other) => panic!("{other:?}"),
        }
    }
}

/// B032: two devices at the same place.
#[test]
fn register_bar_whose_place_is_taken_cannot_be_reserved() {
    let machine = Machine::new([spec(TRN1, |_| {}), spec(TRN1, |s| s.routing_id = 1)]);
    let place = machine.bus[0].config(|c| c.bar_address(0));
    machine.bus[1].config_write(offset::BAR0, &place.to_le_bytes());
    let driver = machine.load(NEW);
    assert_eq!(driver.devices().len(), 1);
    assert_eq!(step_error(&driver), Some((Step::Reserve(Role::Registers), Errno::ENODEV)));
}

/// B051, measured: golden 89.
#[test]
fn revision_240_has_the_core_count_of_the_parameter() {
    for (params, cores) in [("", 1), ("nc_per_dev_param=4", 4), ("nc_per_dev_param=99", 8)] {
        let machine = Machine::new([spec(TRN2, |s| s.revision = 240)]);
        let driver = machine.load_with(Profile::V2_24_7, params, None).expect("load");
        assert_eq!(driver.device(0).expect("node").dhal.core_count(), cores);
    }
}

/// B059: whatever step fails, nothing is left, and the device can be probed again.
#[test]
fn unwind_at_each_step_leaves_nothing_behind() {
    for device in [TRN1, TRN2, TRN3] {
        for fail in Step::ALL {
            let machine = Machine::new([spec(device, |_| {})]);
            let driver = machine.load_with(NEW, "", Some(fail)).expect("load");
            let silicon = &machine.bus[0];
            let command = |silicon: &neuron_hw::Silicon| {
                let mut word = [0; 2];
                silicon.config(|c| c.read(offset::COMMAND, &mut word));
                u16::from_le_bytes(word)
            };
            if matches!(fail, Step::Reserve(Role::Dram) | Step::Map(Role::Dram)) {
                assert_eq!(driver.devices().len(), 1, "forgiven");
                continue;
            }
            assert_eq!(step_error(&driver), Some((fail, Errno::ENOMEM)));
            assert!(driver.devices().is_empty() && driver.regions().is_empty(), "{fail:?}");
            assert_eq!(command(silicon), 0, "{fail:?}");
            assert!(driver.open(0, libc::O_RDWR, &process(10)).is_err(), "{fail:?}");
            machine.pass(std::time::Duration::from_secs(1));
            assert_eq!(silicon.handshakes(), 0, "no reset was started: {fail:?}");
            let again = machine.load(NEW);
            assert_eq!(again.devices().len(), 1, "{fail:?}");
            assert_eq!((again.regions().len(), command(silicon)), (2, 6));
            open(&again, 0, &process(10));
            assert_eq!(silicon.handshakes(), 1);
        }
    }
}

/// What a probe leaves when it fails behind the routing id: the count, as the real driver.
#[test]
fn unwind_does_not_take_the_device_count_back() {
    let machine = Machine::new([spec(TRN1, |_| {}), spec(TRN1, |_| {})]);
    let driver = machine.load(NEW);
    assert_eq!((driver.devices().len(), driver.counted()), (1, 2));
    assert_eq!(step_error(&driver), Some((Step::Index, Errno::ENODEV)));
    assert_eq!(driver.regions().len(), 2, "those of the first device");
}

#[test]
fn routing_id_must_be_below_64_and_is_tried_twenty_times() {
    for (busy, nodes) in [(0, 1), (5, 1), (u32::MAX, 0)] {
        let machine = Machine::new([spec(TRN1, |_| {})]);
        machine.bus[0].inject(Fault::RoutingIdBusyReads(busy));
        assert_eq!(machine.load(Profile::V2_24_7).devices().len(), nodes);
        let now = neuron_hw::Clock::now(&*machine.clock);
        assert_eq!(now.as_secs() >= 300, busy == u32::MAX, "{now:?}: twenty times fifteen seconds");
    }
    for (id, index) in [(63, Some(58)), (17, Some(20)), (64, None), (u32::MAX, None)] {
        let machine = Machine::new([spec(TRN1, |s| s.routing_id = id)]);
        let driver = machine.load(NEW);
        assert_eq!(driver.devices().first().map(|d| d.index), index, "{id}");
    }
}

#[test]
fn routing_id_is_forced_to_zero_by_one_product_name() {
    let machine = Machine::new([spec(TRN3, |s| s.routing_id = 5)]);
    let config = LoadConfig { profile: NEW, product: "trn3pd98.3xlarge".into(), ..LoadConfig::default() };
    let driver = Driver::load(&config, &machine.bus, machine.clock.clone()).expect("load");
    assert!(driver.device(0).is_some());
    assert!(machine.bus[0].take_trace().0.iter().all(|e| !matches!(e.what, What::RoutingId(_))));
}

#[test]
fn routing_id_of_a_switched_platform_has_a_valid_flag_and_is_the_index() {
    for (word, index) in [(0x8005, Some(5)), (0x0005, None), (0x8000 | MAX_ROUTING_ID_PDS, None)] {
        let machine = Machine::new([spec(TRN3, |_| {})]);
        machine.bus[0].inject(Fault::MiscRegister { offset: neuron_hw::regs::misc::SERVER_INFO, value: word });
        let config = LoadConfig { profile: NEW, product: "trn3s.48xlarge".into(), ..LoadConfig::default() };
        let driver = Driver::load(&config, &machine.bus, machine.clock.clone()).expect("load");
        assert_eq!(driver.devices().first().map(|d| d.index), index, "{word:#x}");
    }
}

#[test]
fn duplicate_routing_id_is_logged_and_the_first_device_stays() {
    for (params, lines) in [("", 2), ("dup_helper_enable=0", 1)] {
        let machine = Machine::new([spec(TRN1, |_| {}), spec(TRN1, |_| {})]);
        let driver = machine.load_with(NEW, params, None).expect("load");
        let log = driver.env().log.lines();
        assert_eq!(log.iter().filter(|l| l.kind == "duplicate_routing_id").count(), lines);
        let file = open(&driver, 0, &process(10));
        assert_eq!(file.device().state(), DeviceState::Ready);
    }
}

#[test]
fn host_devices_lists_what_the_table_matches_and_ignores_the_rest() {
    let root = tempfile::tempdir().expect("directory");
    let devices = root.path().join("bus/pci/devices");
    let add = |address: &str, vendor: &str, device: &str, revision: &str| {
        let dir = devices.join(address);
        std::fs::create_dir_all(&dir).expect("directory");
        for (name, text) in [("vendor", vendor), ("device", device), ("revision", revision)] {
            std::fs::write(dir.join(name), format!("{text}\n")).expect("file");
        }
        dir
    };
    add("0000:10:1f.0", "0x1d0f", "0x7364", "0x01");
    let bound = add("0000:00:1e.0", "0x1d0f", "0x7164", "0xf0");
    std::os::unix::fs::symlink("../../../../bus/pci/drivers/neuron-driver", bound.join("driver")).expect("link");
    add("0000:00:05.0", "0x1d0f", "0xefa1", "0x00");
    add("0000:00:06.0", "0x1d0f", "nonsense", "");
    std::fs::create_dir(devices.join("0000:00:07.0")).expect("directory");
    let found = host_devices(root.path(), NEW).expect("list");
    let shown: Vec<_> =
        found.iter().map(|d| (d.address.as_str(), d.id.arch, d.revision, d.driver.as_deref())).collect();
    assert_eq!(shown, [("0000:00:1e.0", 2, 240, Some("neuron-driver")), ("0000:10:1f.0", 3, 1, None)]);
    assert_eq!(host_devices(&root.path().join("nowhere"), NEW).expect("no bus"), []);
}
