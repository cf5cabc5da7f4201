//! Core claims, reader/writer locks and core state through the char device.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{Machine, call, open, process, spec};
use neuron_abi::kernel::args as a;
use neuron_abi::kernel::ioctl::Op;
use neuron_abi::kernel::values::{CoreInitState, NC_MAP_DEVICE};
use neuron_kmd::caller::Caller;
use neuron_kmd::cdev::File;
use neuron_kmd::profile::Profile;
use neuron_kmd::reply::{Errno, Reply};
use neuron_kmd::time::{Clock, Thread};

const UUID: a::Uuid = a::Uuid { value: [7; 32] };

fn lock(file: &File, caller: &Caller, op: Op, nc_id: u32) -> Reply {
    call(file, caller, op, a::Crwl { nc_id, uuid: UUID }).0
}

fn mark(file: &File, caller: &Caller, count: u32, start: u32, end: u32) -> (Reply, a::CrwlNcMapExt) {
    let range = a::CrwlNcMapExt { nc_count: count, start_nc_index: start, end_nc_index: end, ..Default::default() };
    call(file, caller, Op::CrwlNcRangeMarkExt0, range)
}

/// C137: the teardown at the submission of a reset scrubs core state and model count; locks and
/// claims stay with their holders.
#[test]
fn reset_with_a_held_lock_scrubs_the_core_state_and_leaves_the_lock() {
    let machine = Machine::new([spec(0x7164, |_| {})]);
    let driver = machine.load(Profile::V2_27_4);
    let (holder, other) = (process(10), process(11));
    let (file, second) = (open(&driver, 0, &holder), open(&driver, 0, &other));
    assert_eq!(lock(&file, &holder, Op::CrwlWriterEnter, 0), Ok(0));
    assert_eq!(mark(&file, &holder, 1, 0, 1).0, Ok(0));
    let started = a::CinitSet { nc_id: 0, state: CoreInitState::Started as u32, new_state: 0 };
    assert_eq!(call(&file, &holder, Op::CinitSetState, started).1.new_state, CoreInitState::Started as u32);
    let count = || call(&file, &holder, Op::NcModelStartedCount, a::NcModelStartedCount::default()).1.started_count;
    assert_eq!((count(), count()), (0, 1));

    let (reply, reset) = call(&second, &other, Op::NcReset, a::DeviceReset { request_id: 0, nc_map: 1 });
    assert_eq!(reply, Ok(0));
    assert_eq!(file.device().cores.get(0), CoreInitState::Invalid, "at the submission");
    let ready = a::DeviceReady { request_id: reset.request_id, result: 9 };
    assert_eq!(call(&second, &other, Op::NcResetReady, ready).1.result, 0);

    assert_eq!(count(), 0, "the count begins again");
    assert_eq!(lock(&second, &other, Op::CrwlWriterEnter, 0), Err(Errno::EBUSY.into()));
    assert_eq!(mark(&second, &other, 1, 0, 0).0, Err(Errno::EBUSY.into()));
    assert_eq!(lock(&file, &holder, Op::CrwlWriterDowngrade, 0), Ok(0));
    assert_eq!(lock(&file, &holder, Op::CrwlReaderExit, 0), Ok(0));
    assert_eq!(lock(&second, &other, Op::CrwlWriterEnter, 0), Ok(0));
}

/// C137 for the whole device.
#[test]
fn reset_of_the_device_scrubs_every_core() {
    let machine = Machine::new([spec(0x7364, |_| {})]);
    let driver = machine.load(Profile::V2_27_4);
    let caller = process(10);
    let file = open(&driver, 0, &caller);
    for nc_id in 0..8 {
        let started = a::CinitSet { nc_id, state: CoreInitState::Started as u32, new_state: 0 };
        assert_eq!(call(&file, &caller, Op::CinitSetState, started).0, Ok(0));
    }
    let device = a::DeviceReset { request_id: 0, nc_map: NC_MAP_DEVICE };
    assert_eq!(call(&file, &caller, Op::NcReset, device).0, Ok(0));
    assert!((0..8).all(|core| file.device().cores.get(core) == CoreInitState::Invalid));
}

fn in_thread(machine: &Machine, body: impl FnOnce() + Send + 'static) -> Thread {
    let clock: Arc<dyn Clock> = machine.clock.clone();
    Thread::spawn(&clock, "client", body)
}

#[test]
fn writer_waits_for_the_last_reader_and_takes_the_lock_at_once() {
    let machine = Machine::new([spec(0x7164, |_| {})]);
    let driver = machine.load(Profile::V2_24_7);
    let (first, second) = (process(10), process(11));
    let (file, other) = (open(&driver, 0, &first), open(&driver, 0, &second));
    assert_eq!(lock(&file, &first, Op::CrwlWriterEnter, 1), Ok(0));
    assert_eq!(lock(&file, &first, Op::CrwlWriterDowngrade, 1), Ok(0));
    let waiter = in_thread(&machine, move || {
        assert_eq!(lock(&other, &second, Op::CrwlWriterEnter, 1), Ok(0));
    });
    machine.pass(Duration::from_secs(1));
    assert!(!waiter.finished());
    let before = neuron_hw::Clock::now(&*machine.clock);
    assert_eq!(lock(&file, &first, Op::CrwlReaderExit, 1), Ok(0));
    waiter.join(&*machine.clock);
    assert_eq!(neuron_hw::Clock::now(&*machine.clock), before);
}

#[test]
fn writer_and_reader_give_up_after_the_sleeps_of_the_driver() {
    let machine = Machine::new([spec(0x7164, |_| {})]);
    let driver = machine.load(Profile::V2_24_7);
    let caller = process(10);
    let file = open(&driver, 0, &caller);
    assert_eq!(lock(&file, &caller, Op::CrwlWriterEnter, 0), Ok(0));
    let timed = |op| {
        let before = neuron_hw::Clock::now(&*machine.clock);
        assert_eq!(lock(&file, &caller, op, 0), Err(Errno::EBUSY.into()));
        neuron_hw::Clock::now(&*machine.clock) - before
    };
    // 200 000 and 50 000 sleeps of 10 to 20 us.
    assert_eq!(
        (timed(Op::CrwlWriterEnter), timed(Op::CrwlReaderEnter)),
        (Duration::from_secs(3), Duration::from_millis(750))
    );
}

#[test]
fn second_initialiser_waits_five_seconds_or_until_the_first_is_done() {
    let machine = Machine::new([spec(0x7164, |_| {})]);
    let driver = machine.load(Profile::V2_24_7);
    let caller = process(10);
    let file = open(&driver, 0, &caller);
    let set = |file: &File, caller: &Caller, state: CoreInitState| {
        call(file, caller, Op::CinitSetState, a::CinitSet { nc_id: 1, state: state as u32, new_state: 0 }).1.new_state
    };
    assert_eq!(set(&file, &caller, CoreInitState::Started), CoreInitState::Started as u32);
    let before = neuron_hw::Clock::now(&*machine.clock);
    assert_eq!(set(&file, &caller, CoreInitState::Started), CoreInitState::Started as u32);
    assert_eq!(neuron_hw::Clock::now(&*machine.clock) - before, Duration::from_secs(5));

    let (late, second) = (file.clone(), process(11));
    let waiter = in_thread(&machine, move || {
        assert_eq!(set(&late, &second, CoreInitState::Started), CoreInitState::Completed as u32);
    });
    machine.pass(Duration::from_secs(1));
    assert_eq!(set(&file, &caller, CoreInitState::Completed), CoreInitState::Completed as u32);
    waiter.join(&*machine.clock);
}

#[test]
fn claims_count_from_the_first_core_of_the_device() {
    let machine = Machine::new([spec(0x7164, |_| {}), spec(0x7164, |s| s.routing_id = 1)]);
    let driver = machine.load(Profile::V2_24_7);
    let caller = process(10);
    let (first, fifth) = (open(&driver, 0, &caller), open(&driver, 4, &caller));
    let (reply, marked) = mark(&fifth, &caller, 2, 0, 1);
    assert_eq!((reply, marked.bitmap[0]), (Ok(0), 0b11));
    assert_eq!((driver.claims.owner(8), driver.claims.owner(9), driver.claims.claimed()), (10, 10, 2));
    assert_eq!(mark(&first, &caller, 1, 8, 8).0, Err(Errno::EBUSY.into()));
    let map = a::CrwlNcMapExt { bitmap: [0b1, 0, 0, 0, 0, 0, 0, 0], ..Default::default() };
    assert_eq!(call(&fifth, &caller, Op::CrwlNcRangeUnmarkExt0, map).0, Ok(0));
    assert_eq!((driver.claims.owner(8), driver.claims.owner(9)), (0, 10));
}

#[test]
fn claims_are_released_by_a_free_access_close_only() {
    let machine = Machine::new([spec(0x7164, |_| {})]);
    let driver = machine.load(Profile::V2_24_7);
    let caller = process(10);
    let file = open(&driver, 0, &caller);
    assert_eq!(mark(&file, &caller, 2, 0, 3).0, Ok(0));
    file.flush(&caller);
    drop(file);
    assert_eq!(driver.claims.claimed(), 2);
    let misc = driver.open(0, libc::O_WRONLY, &caller).expect("open");
    misc.flush(&caller);
    assert_eq!(driver.claims.claimed(), 0);
}

#[test]
fn the_last_close_of_a_process_gives_up_its_locks() {
    let machine = Machine::new([spec(0x7164, |_| {})]);
    let driver = machine.load(Profile::V2_24_7);
    let (first, second) = (process(10), process(11));
    let (file, other) = (open(&driver, 0, &first), open(&driver, 0, &second));
    assert_eq!(lock(&file, &first, Op::CrwlWriterEnter, 0), Ok(0));
    file.flush(&first);
    assert_eq!(lock(&other, &second, Op::CrwlWriterEnter, 0), Ok(0));
}
