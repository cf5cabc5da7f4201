//! Resets as a device and its users see them: commands, ids, teardown, what follows a reset.
//!
//! Ids in comments are statements of `docs/claims.tsv`.
#![cfg(not(feature = "shuttle"))]

mod common;
#[path = "rig/machine.rs"]
mod machine;

use std::sync::Arc;
use std::time::Duration;

use common::call;
use machine::{Machine, PRODUCTS};
use neuron_abi::kernel::args::{DeviceReady, DeviceReset, NotificationsInitV2};
use neuron_abi::kernel::ioctl::Op;
use neuron_abi::kernel::values::{CoreInitState, DeviceState, NC_MAP_DEVICE, PodElectionState};
use neuron_hw::regs::misc;
use neuron_hw::{Fault, Host, Silicon, SiliconSpec};
use neuron_kmd::caller::Caller;
use neuron_kmd::reset::Waited;
use neuron_kmd::sync::{Task, signal};
use neuron_kmd::sysfs::Sysfs;
use neuron_kmd::time::{Thread, VirtualClock, sleep};
use neuron_kmd::{Driver, LoadConfig, Profile};

/// File that asks for a reset of the whole device.
const RESET_FILE: &str = "class/neuron_device/neuron0/reset";

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// C004 C005 C033 C108: a probe issues one whole-device request; type 1 is a device, 2 cores.
#[test]
fn probe_resets_the_whole_device_once_and_removal_resets_nothing() {
    for product in PRODUCTS {
        let machine = Machine::new(product);
        assert_eq!(machine.device().state(), DeviceState::Reset);
        machine.pass(1000);
        assert_eq!(machine.device().state(), DeviceState::Ready);
        assert_eq!(machine.handshakes().iter().map(|h| h.1).collect::<Vec<_>>(), [1]);
        assert_eq!(machine.device().reset.lengths(), (0, 0));
        machine.reset(1);
        assert_eq!(machine.handshakes().iter().map(|h| h.1).collect::<Vec<_>>(), [2]);
        machine.driver.unload();
        assert!(machine.handshakes().is_empty());
    }
}

/// C120 C074: stopping in the middle of a handshake costs no time, and the run counts as failed.
#[test]
fn stop_ends_a_handshake_in_no_time() {
    for product in PRODUCTS {
        let machine = Machine::new(product).ready();
        machine.inject(Fault::NeverAck(true));
        machine.queue(1, 10);
        machine.pass(33_333);
        let (device, before) = (machine.device(), machine.now());
        machine.driver.unload();
        assert_eq!(machine.now(), before);
        assert_eq!(device.metrics.reset_failures(0).total, 1);
        assert_eq!(device.state(), DeviceState::Invalid);
        assert_eq!(device.reset_record.deadlines(), 0);
    }
}

/// C036 C038: under `no_reset` nothing is ever asked of the firmware, and nothing counts.
#[test]
fn no_reset_leaves_the_firmware_alone() {
    for product in PRODUCTS {
        let config = LoadConfig { params: "no_reset=1".into(), ..Default::default() };
        let machine = Machine::with(product, 1, &config, |_| {}).ready();
        assert_eq!(machine.reset(1), (Waited::Ok, Duration::ZERO));
        assert!(machine.handshakes().is_empty());
        assert_eq!(machine.device().metrics.reset_requests(0).total, 0);
        assert_eq!(machine.device().reset.lengths(), (0, 0));
    }
}

/// C077 C135: what the configuration after a whole-device reset finds out, and when.
#[test]
fn post_config_looks_at_the_memory_from_2_27_on() {
    for product in PRODUCTS {
        for profile in [Profile::V2_26_5, Profile::V2_27_4] {
            let machine = Machine::profile(product, profile);
            let record = &machine.device().reset_record;
            assert_eq!(record.hbm_7200(), None, "not before the first reset");
            machine.pass(1000);
            let expected = (profile == Profile::V2_27_4).then_some(false);
            assert_eq!(machine.device().reset_record.hbm_7200(), expected, "{product:#x} {profile:?}");
        }
    }
}

/// C136: the election of a pod runs after a successful whole-device reset, on pod platforms, from
/// the third generation on.
#[test]
fn post_config_elects_on_pod_platforms_after_success_only() {
    let plain = ["", "trn2.48xlarge"];
    let pods: Vec<_> = neuron_abi::kernel::sysfs::DMI_PLATFORMS.iter().map(|(name, ..)| *name).collect();
    for product_name in plain.iter().chain(&pods) {
        for product in PRODUCTS {
            let config = LoadConfig { product: (*product_name).into(), ..Default::default() };
            // A switched pod reads its routing id, with a valid bit, from another word.
            let pds = |silicon: &Silicon| {
                silicon.inject(Fault::MiscRegister { offset: misc::SERVER_INFO, value: 0x8000 });
            };
            let machine = Machine::with(product, 1, &config, pds);
            machine.pass(1000);
            let is_pod = machine.driver.env().platform() != neuron_abi::kernel::values::Platform::Std;
            let expected = (is_pod && product != 0x7164).then_some(PodElectionState::SingleNode);
            assert_eq!(machine.device().reset_record.election(), expected, "{product_name} {product:#x}");
        }
    }
    let name = pods[0].to_owned();
    let config = LoadConfig { product: name, ..Default::default() };
    let machine = Machine::with(0x7364, 1, &config, |silicon| {
        silicon.inject(Fault::MiscRegister { offset: misc::SERVER_INFO, value: 0x8000 });
        silicon.inject(Fault::StatusStuck(true));
    });
    machine.pass(5000);
    assert_eq!(machine.device().state(), DeviceState::Invalid);
    assert_eq!(machine.device().reset_record.election(), None, "the reset failed");
}

/// C105 C131: the engine reaches a generation through its items alone, so that every one has them.
#[test]
fn every_generation_has_the_reset_items() {
    for product in PRODUCTS {
        let machine = Machine::new(product).ready();
        let timing = machine.device().dhal.reset_timing();
        assert!(timing.initiate >= secs(120));
        assert_eq!(timing.retries, 5);
        assert_eq!(machine.reset(NC_MAP_DEVICE).0, Waited::Ok);
    }
}

/// C125: the fourth generation resets like the third, register by register.
#[test]
fn fourth_generation_resets_like_the_third() {
    let trace = |product| {
        let machine = Machine::new(product).ready();
        machine.silicon.trace_registers(true);
        machine.reset(0b101);
        let begun = machine.now();
        machine.reset(NC_MAP_DEVICE);
        (machine.now() - begun, machine.events().into_iter().map(|e| e.1).collect::<Vec<_>>())
    };
    assert_eq!(trace(0x7364), trace(0x7564));
}

/// C045 C046 C047 C048 C049 C058: everything a request takes from its cores is gone while the
/// firmware still thinks about it, and their counters have risen; other cores keep what they have.
#[test]
fn submit_tears_its_cores_down_at_once() {
    let machine = Machine::new(0x7364).ready();
    let device = machine.device();
    let caller = Caller::process(10, 0, true);
    let file = machine.driver.open(0, libc::O_RDWR, &caller).expect("open");
    let queue = |core| {
        let wanted = NotificationsInitV2 { nq_dev_id: core, size: 4096, on_host_memory: 1, ..Default::default() };
        let (reply, given) = call(&file, &caller, Op::NotificationsInitV2, wanted);
        assert_eq!(reply, Ok(0));
        given.mem_handle
    };
    let handles = [0, 1, 2].map(queue);
    for core in 0..3 {
        device.cores.set(&*machine.dynamic(), &caller.task, core, CoreInitState::Started as u32);
        device.cores.start_model(core);
    }
    machine.inject(Fault::NeverAck(true));
    let requests = || (0..8).map(|core| device.metrics.reset_requests(core).total).collect::<Vec<_>>();
    let before = requests();
    machine.queue(0b101, 10);
    assert_eq!(device.reset.lengths(), (1, 0));
    let states = [0, 1, 2].map(|core| device.cores.get(core));
    assert_eq!(states, [CoreInitState::Invalid, CoreInitState::Started, CoreInitState::Invalid]);
    assert_eq!([0, 1, 2].map(|core| device.cores.start_model(core)), [0, 1, 0]);
    let gone = handles.map(|handle| device.memory.chunk(handle).is_none());
    assert_eq!(gone, [true, false, true]);
    let rises: Vec<_> = requests().iter().zip(before).map(|(a, b)| a - b).collect();
    assert_eq!(rises, [1, 0, 1, 0, 0, 0, 0, 0]);
}

/// C021 C032 C033 C034 C055 C056 C057 C095 C096: the commands, and whose id a request has.
#[test]
fn ids_are_the_callers_thread_group_at_every_command() {
    let machine = Machine::new(0x7364).ready();
    machine.inject(Fault::AckHold(secs(5)));
    let device = machine.device();
    let caller = Caller { tid: 4321, ..Caller::process(77, 0, true) };
    let file = machine.driver.open(0, libc::O_RDWR, &caller).expect("open");
    let ready = |request_id| {
        let (reply, user) = call(&file, &caller, Op::NcResetReady, DeviceReady { request_id, result: 9 });
        assert_eq!(reply, Ok(0), "the command itself always succeeds");
        user.result
    };
    let asked = DeviceReset { nc_map: 0b10, request_id: 5 };
    let (reply, user) = call(&file, &caller, Op::NcReset, asked);
    assert_eq!((reply, user), (Ok(0), DeviceReset { nc_map: 0b10, request_id: 77 }), "also from a second thread");
    // A second one is refused: 1, and the argument stays as it was.
    assert_eq!(call(&file, &caller, Op::NcReset, asked), (Ok(1), asked));
    // The older command uses the same id and does not say that it was refused.
    assert_eq!(call(&file, &caller, Op::DeviceReset, 0_u64).0, Ok(0));
    assert_eq!(device.reset.lengths(), (1, 0));
    assert_eq!(ready(1234), 1, "an id nobody has");
    assert_eq!(ready(77), 0);
    assert_eq!(ready(77), 1, "it was taken off");
    assert_eq!(call(&file, &caller, Op::DeviceReady, 9_u8), (Ok(0), 1), "nothing to wait for is ready");
    assert_eq!(call(&file, &caller, Op::DeviceResetStatus, 9_u8), (Ok(0), 1));
    // The whole device under the caller's id.
    machine.silicon.take_trace();
    assert_eq!(call(&file, &caller, Op::DeviceReset, 0_u64).0, Ok(0));
    assert_eq!(call(&file, &caller, Op::NcReset, asked).0, Ok(1));
    machine.inject(Fault::Clear);
    assert_eq!(call(&file, &caller, Op::DeviceReady, 9_u8), (Ok(0), 1));
    assert_eq!(machine.handshakes().iter().map(|h| h.1).collect::<Vec<_>>(), [1]);
    // sysfs uses the id ALL, and only while nobody has the device open.
    let write = || Sysfs::new(machine.driver.clone()).write(RESET_FILE, b"1", &Caller::process(1, 0, true));
    assert_eq!(write(), Ok(1));
    assert_eq!((device.state(), device.reset.lengths()), (DeviceState::Ready, (0, 0)));
    file.flush(&caller);
    drop(file);
    assert_eq!(write(), Ok(1));
    assert_eq!((device.state(), device.reset.lengths()), (DeviceState::Reset, (1, 0)));
}

/// C098: an interrupted wait is a result of the command, not an error of it; the last close of a
/// process takes its request off.
#[test]
fn wait_interrupted_gives_minus_four_and_the_last_close_reaps() {
    let machine = Machine::new(0x7164).ready();
    machine.inject(Fault::AckHold(secs(60)));
    let device = machine.device();
    let caller = Caller::process(77, 0, true);
    let file = machine.driver.open(0, libc::O_RDWR, &caller).expect("open");
    call(&file, &caller, Op::NcReset, DeviceReset { nc_map: 1, request_id: 0 }).0.expect("queued");
    let (waiting, with) = (caller.clone(), file.clone());
    let clock = machine.dynamic();
    let thread = Thread::spawn(&clock, "waiter", move || {
        let (reply, user) = call(&with, &waiting, Op::NcResetReady, DeviceReady { request_id: 77, result: 9 });
        assert_eq!((reply, user.result), (Ok(0), -4));
    });
    machine.pass(1000);
    caller.task.raise(&*clock, signal::TERM);
    thread.join(&*clock);
    assert_eq!(device.reset.lengths(), (1, 0));
    let (closing, begun) = (Caller::process(77, 0, true), machine.now());
    file.flush(&closing);
    assert!(machine.now() - begun > secs(58), "the close waits for the reset");
    assert_eq!(device.reset.lengths(), (0, 0));
}

/// C001: without a word about it, the newest release is what a model is.
#[test]
fn the_newest_release_is_the_default() {
    assert_eq!(LoadConfig::default().profile, Profile::V2_27_4);
    assert_eq!(Profile::default().version(), "2.27.4.0");
}

/// C002: two devices reset at the same time.
#[test]
fn devices_have_workers_of_their_own() {
    let clock = VirtualClock::new();
    let bus: Vec<_> = (0..2)
        .map(|n| {
            let mut spec = SiliconSpec { routing_id: n, ..SiliconSpec::product(0x7364).expect("modelled") };
            spec.bdf.slot = n as u8 + 1;
            Arc::new(Silicon::new(spec, Host::Ram(1 << 32), clock.clone()).expect("memory"))
        })
        .collect();
    neuron_hw::pci::assign(&bus);
    bus[0].inject(Fault::AckHold(secs(60)));
    let driver = Driver::load(&LoadConfig::default(), &bus, clock.clone()).expect("load");
    let task = Task::new();
    sleep(&*clock, &task, secs(1));
    let mut states: Vec<_> = driver.devices().iter().map(|d| (d.routing_id, d.state())).collect();
    states.sort_by_key(|s| s.0);
    assert_eq!(states, [(0, DeviceState::Reset), (1, DeviceState::Ready)]);
    clock.close();
}
