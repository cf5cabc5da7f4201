//! Rules of the reset engine: queues, coalescing, stages, results, waits, stop.
//!
//! Ids in comments are statements of `docs/claims.tsv`.
#![cfg(not(feature = "shuttle"))]

mod rig;

use std::sync::atomic::Ordering;
use std::time::Duration;

use neuron_abi::kernel::values::{DeviceState, NC_MAP_DEVICE, RESET_REQUEST_ALL, ResetState};
use neuron_kmd::profile::Profile;
use neuron_kmd::quirks;
use neuron_kmd::reply::Errno;
use neuron_kmd::reset::{HandshakeError, ResetEvent, ResetTarget, Submitted, WaitMode, Waited};
use neuron_kmd::sync::signal;
use rig::{ALL, DEVICE, Did, Rig};

fn post(map: u32, success: bool) -> Did {
    Did::Post { map, success, no_reset: false }
}

/// Stages of a run that nothing stops.
fn stages(map: u32) -> [Did; 4] {
    [Did::Initiate(map), Did::Complete, Did::Dma(map), post(map, true)]
}

fn maps(did: &[Did]) -> Vec<u32> {
    did.iter().filter_map(|d| if let Did::Initiate(map) = d { Some(*map) } else { None }).collect()
}

/// C010 C023 C034: the numbers of the boundary.
#[test]
fn request_states_and_the_all_id_have_the_numbers_of_the_driver() {
    assert_eq!([ResetState::Started as u32, ResetState::Completed as u32, ResetState::Failed as u32], [1, 2, 3]);
    assert_eq!((RESET_REQUEST_ALL, NC_MAP_DEVICE), (0xffff_ffff, 0xffff_ffff));
}

/// C003 C035 C053 C055: a submission queues and returns; the hardware is the worker's.
#[test]
fn submit_returns_before_the_hardware_is_touched() {
    let rig = Rig::without_worker();
    rig.queue(0b01, 10);
    rig.queue(0b10, 11);
    assert_eq!(rig.target.did(), [Did::Teardown(0), Did::Teardown(1)]);
    assert_eq!(rig.engine.lengths(), (2, 0));
}

/// C008 C072 C076 C077 C066: four stages in order with the map of the request.
#[test]
fn a_run_goes_through_four_stages_in_order() {
    let rig = Rig::new();
    rig.queue(0b10, 10);
    rig.settle();
    assert_eq!(rig.target.did()[1..], stages(0b10));
    assert_eq!(rig.engine.lengths(), (0, 1));
}

/// C007 C065 C067 C068 C069 C028: requests that pile up behind a run become one run of their
/// union, and the log says how many.
#[test]
fn coalescing_runs_the_union_of_what_is_pending_once() {
    let rig = Rig::new();
    rig.target.hold_for(5);
    rig.queue(0b0001, 10);
    rig.settle();
    for (id, map) in [(11, 0b0010), (12, 0b1000), (13, 0b0010)] {
        rig.queue(map, id);
    }
    rig.target.hold_for(0);
    rig.pass(6);
    let all = rig.target.log();
    assert!(all.contains(&ResetEvent::Coalesced(3)), "{all:?}");
    let order: Vec<_> =
        all.iter().filter_map(|e| if let ResetEvent::Begins(id) = e { Some(*id) } else { None }).collect();
    assert_eq!(order, [10, 11, 12, 13], "first in, first out");
    assert_eq!(rig.engine.lengths(), (0, 4));
}

/// C068 C088: each run is reset once, with exactly the maps of its members.
#[test]
fn coalescing_resets_the_hardware_once_for_a_run() {
    let rig = Rig::new();
    rig.target.hold_for(5);
    rig.queue(0b01, 10);
    rig.settle();
    rig.queue(0b10, 11);
    rig.queue(0b100, 12);
    rig.pass(20);
    assert_eq!(maps(&rig.target.did()), [0b01, 0b110]);
}

/// C087 C030 C061 C081: what arrives after the snapshot is left for the next run, is submitted at
/// once although the hardware is busy, and survives the end of the run.
#[test]
fn coalescing_leaves_a_request_after_the_snapshot_to_the_next_run() {
    let rig = Rig::new();
    rig.target.hold_for(5);
    rig.queue(0b01, 10);
    rig.settle();
    rig.queue(0b10, 11);
    rig.pass(6);
    assert_eq!(maps(&rig.target.did()), [0b01, 0b10], "the second run has begun");
    rig.queue(0b100, 12);
    assert_eq!(rig.engine.lengths(), (2, 1));
    rig.pass(6);
    assert_eq!(rig.engine.lengths().1, 2);
    rig.pass(6);
    assert_eq!(maps(&rig.target.did()), [0b100]);
    assert_eq!(rig.engine.lengths(), (0, 3));
}

/// C019 C067 C070 C024 C082 C084: an ALL request at the head runs alone, sets the state and is gone.
#[test]
fn whole_device_request_at_the_head_runs_alone_and_disposes_of_itself() {
    let rig = Rig::new();
    rig.target.hold_for(5);
    rig.queue(DEVICE, ALL);
    rig.queue(0b01, 10);
    rig.queue(0b10, 11);
    rig.pass(6);
    let did = rig.target.did();
    assert_eq!(maps(&did), [DEVICE, 0b11]);
    assert!(did.contains(&Did::State(DeviceState::Ready)));
    assert_eq!(rig.engine.lengths(), (2, 0), "no completed entry for ALL");
    assert_eq!(rig.wait(ALL, WaitMode::Strict), Waited::Failed, "there is nothing to wait for");
}

/// C083: an ALL request that fails leaves the device INVALID.
#[test]
fn whole_device_request_that_fails_makes_the_state_invalid() {
    let rig = Rig::new();
    rig.target.fail_at(Some(2));
    rig.queue(DEVICE, ALL);
    rig.settle();
    assert_eq!(rig.target.did().last(), Some(&Did::State(DeviceState::Invalid)));
    assert_eq!(rig.engine.lengths(), (0, 0));
}

/// C009 C024 C042 C089 C103 (measured: golden 44): behind another head an ALL request is folded
/// in, the state is never written again, and later ones are refused without side effects.
#[test]
fn whole_device_request_behind_another_is_folded_and_the_state_stays_reset() {
    assert!(quirks::has("folded-all-request", Profile::V2_27_4));
    let rig = Rig::new();
    rig.target.hold_for(5);
    rig.queue(0b01, 10);
    rig.settle();
    rig.queue(0b10, 11);
    rig.queue(DEVICE, ALL);
    rig.pass(20);
    let did = rig.target.did();
    assert_eq!(maps(&did), [0b01, DEVICE]);
    let states: Vec<_> = did.iter().filter(|d| matches!(d, Did::State(_))).collect();
    assert_eq!(states, [&Did::State(DeviceState::Reset)]);
    assert_eq!(rig.engine.lengths(), (0, 3));
    assert_eq!(rig.submit(DEVICE, ALL), Submitted::Refused);
    assert!(rig.target.did().is_empty());
    // Nobody owns it, but whoever asks for its id takes it away.
    assert_eq!(rig.wait(ALL, WaitMode::Strict), Waited::Ok);
    assert_eq!(rig.engine.lengths(), (0, 2));
}

/// C089 C108 (measured: golden 33): a process request with the device map is folded like any
/// other and makes the run one of the whole device.
#[test]
fn whole_device_map_of_a_process_is_folded_like_any_other() {
    let rig = Rig::new();
    rig.target.hold_for(5);
    rig.queue(0b01, 10);
    rig.settle();
    rig.queue(0b10, 11);
    rig.queue(DEVICE, 12);
    rig.queue(0b100, 13);
    rig.pass(20);
    let did = rig.target.did();
    assert_eq!(maps(&did), [0b01, DEVICE]);
    assert!(!did.iter().any(|d| matches!(d, Did::State(_))), "a process request leaves the device state alone");
}

/// C059 C060 C043: the device map tears eight cores down; only the id ALL writes the state.
#[test]
fn whole_device_map_visits_eight_cores() {
    let rig = Rig::without_worker();
    let cores: Vec<_> = (0..8).map(Did::Teardown).collect();
    rig.queue(DEVICE, 10);
    assert_eq!(rig.target.did(), cores);
    rig.queue(DEVICE, ALL);
    assert_eq!(rig.target.did()[0], Did::State(DeviceState::Reset));
}

/// C044 C043: the state is written before the first core is torn down.
#[test]
fn submit_writes_the_state_before_the_cores() {
    let rig = Rig::without_worker();
    rig.queue(0b1001, ALL);
    assert_eq!(rig.target.did(), [Did::State(DeviceState::Reset), Did::Teardown(0), Did::Teardown(3)]);
}

/// C040 C041 C042 C056: the guard looks at both lists and comes before every side effect.
#[test]
fn duplicate_guard_refuses_while_pending_and_while_completed() {
    let rig = Rig::new();
    rig.target.hold_for(5);
    rig.queue(0b01, 10);
    rig.settle();
    rig.target.did();
    assert_eq!(rig.submit(0b10, 10), Submitted::Refused);
    assert!(rig.target.did().is_empty());
    rig.pass(10);
    assert_eq!(rig.engine.lengths(), (0, 1));
    rig.target.did();
    assert_eq!(rig.submit(0b10, 10), Submitted::Refused);
    assert!(rig.target.did().is_empty());
    assert_eq!(rig.wait(10, WaitMode::Strict), Waited::Ok);
    rig.queue(0b10, 10);
}

/// Measured (golden 30, 44): only a duplicate of a pending request makes a line.
#[test]
fn duplicate_guard_logs_pending_duplicates_only() {
    let rig = Rig::new();
    rig.target.hold_for(5);
    rig.queue(0b01, 10);
    rig.settle();
    rig.submit(0b01, 10);
    rig.pass(10);
    rig.submit(0b01, 10);
    let duplicates = rig.target.log().into_iter().filter(|e| matches!(e, ResetEvent::Duplicate(10))).count();
    assert_eq!(duplicates, 1);
}

/// C050 C051 C052 C056 C057: without memory a submission returns 1 after its side effects, an ALL
/// request leaves the state RESET, and nothing is queued.
#[test]
fn allocation_failure_refuses_after_the_side_effects() {
    let rig = Rig::new();
    rig.target.no_memory.store(true, Ordering::Relaxed);
    assert_eq!(rig.submit(0b11, ALL), Submitted::Refused);
    rig.settle();
    assert_eq!(rig.target.did(), [Did::State(DeviceState::Reset), Did::Teardown(0), Did::Teardown(1)]);
    assert_eq!(rig.engine.lengths(), (0, 0));
    assert!(quirks::has("no-memory-reset-state", Profile::V2_27_4));
    rig.target.no_memory.store(false, Ordering::Relaxed);
    rig.queue(0b1, ALL);
    rig.settle();
    assert_eq!(rig.wait(99, WaitMode::Check), Waited::Ok, "a request that was never queued counts as done");
}

/// C036 C037 C038 C039 C093: with resets switched off a submission does all there is to do, every
/// time, and a wait is over at once whatever the id.
#[test]
fn no_reset_does_the_work_at_once_and_queues_nothing() {
    let rig = Rig::new();
    rig.target.no_reset.store(true, Ordering::Relaxed);
    for _ in 0..2 {
        assert_eq!(rig.submit(0b1, 10), Submitted::Accepted);
        let post = Did::Post { map: 0b1, success: true, no_reset: true };
        assert_eq!(rig.target.did(), [Did::Dma(DEVICE), post, Did::State(DeviceState::Ready)]);
    }
    assert_eq!(rig.engine.lengths(), (0, 0));
    assert_eq!(rig.wait(77, WaitMode::Strict), Waited::Ok);
    assert!(!rig.engine.in_window(true, Duration::ZERO));
}

/// C025 C073 C075 C076 C079 C080: a failing stage skips the later ones, cleans up and then
/// counts.
#[test]
fn stages_after_a_failing_one_are_skipped() {
    for (stage, ran) in [(1, 1), (2, 2), (3, 3)] {
        let rig = Rig::new();
        rig.target.fail_at(Some(stage));
        rig.queue(0b1, 10);
        rig.settle();
        let did = rig.target.did();
        assert_eq!(did[1..=ran], stages(0b1)[..ran], "stage {stage}");
        assert_eq!(did[1 + ran..], [post(0b1, false), Did::Failure], "stage {stage}");
        assert_eq!(rig.wait(10, WaitMode::Strict), Waited::Failed);
    }
}

/// C018 C078 C090 C092: the last stage fails without counting.
#[test]
fn post_config_failure_fails_the_request_and_counts_nothing() {
    assert!(quirks::has("post-config-uncounted", Profile::V2_27_4));
    let rig = Rig::new();
    rig.target.fail_at(Some(4));
    rig.queue(DEVICE, 10);
    rig.settle();
    assert_eq!(rig.target.did()[8..], stages(DEVICE));
    assert_eq!(rig.wait(10, WaitMode::Strict), Waited::Failed);
}

/// C091 C090 (measured: golden 40, 41): failures count once a run, so they lag behind failed
/// requests and behind failed runs of the last stage.
#[test]
fn metric_asymmetry_failures_count_once_a_run_and_not_at_the_last_stage() {
    let rig = Rig::new();
    rig.target.hold_for(5);
    rig.target.fail_at(Some(2));
    rig.queue(0b1, 10);
    rig.settle();
    for id in 11..15 {
        rig.queue(0b11, id);
    }
    rig.pass(20);
    let failures = |did: &[Did]| did.iter().filter(|d| **d == Did::Failure).count();
    assert_eq!(failures(&rig.target.did()), 2, "five failed requests in two runs");
    rig.target.fail_at(Some(4));
    rig.queue(0b1, 20);
    rig.pass(6);
    assert_eq!(failures(&rig.target.did()), 0);
    for id in (10..15).chain([20]) {
        assert_eq!(rig.wait(id, WaitMode::Strict), Waited::Failed, "{id}");
    }
}

/// C085 C086: all members of a run get its one result; the device state is not theirs to write.
#[test]
fn results_are_the_same_for_every_member_of_a_run() {
    for (fails, expected) in [(None, Waited::Ok), (Some(1), Waited::Failed)] {
        let rig = Rig::new();
        rig.target.hold_for(5);
        rig.queue(0b1, 9);
        rig.settle();
        rig.target.fail_at(fails);
        (10..20).for_each(|id| rig.queue(0b10, id));
        rig.pass(20);
        assert!(!rig.target.did().iter().any(|d| matches!(d, Did::State(_))));
        for id in 10..20 {
            assert_eq!(rig.wait(id, WaitMode::Strict), expected);
        }
    }
}

/// C029 C101 C017: completed requests are taken off in any order, once.
#[test]
fn wait_reaps_from_the_middle_and_only_once() {
    let rig = Rig::new();
    for id in 10..15 {
        rig.queue(0b1, id);
    }
    rig.settle();
    for (left, id) in [12, 14, 10, 11, 13].into_iter().enumerate() {
        assert_eq!(rig.engine.lengths(), (0, 5 - left));
        assert_eq!(rig.wait(id, WaitMode::Strict), Waited::Ok);
        assert_eq!(rig.wait(id, WaitMode::Strict), Waited::Failed, "it is gone");
        assert_eq!(rig.wait(id, WaitMode::Check), Waited::Ok, "and counts as done");
    }
}

/// C022 C094 (measured: golden 34): the id is all that counts, before and after the completion.
#[test]
fn wait_is_open_to_anybody_who_knows_the_id() {
    let rig = Rig::new();
    rig.target.hold_for(5);
    rig.queue(0b1, 10);
    rig.settle();
    let stranger = rig.wait_in_thread(10, WaitMode::Strict);
    assert_eq!(stranger.join(&*rig.clock), Waited::Ok);
    assert_eq!(rig.wait(10, WaitMode::Strict), Waited::Failed, "the owner finds nothing any more");
}

/// C095 C096: what an id that is in no list is worth, and the line it makes.
#[test]
fn wait_for_an_unknown_id_is_fine_in_check_mode_only() {
    let rig = Rig::new();
    assert_eq!(rig.wait(12345, WaitMode::Check), Waited::Ok);
    assert!(rig.target.log().is_empty());
    assert_eq!(rig.wait(12345, WaitMode::Strict), Waited::Failed);
    assert_eq!(rig.target.log(), [ResetEvent::UnknownId(12345)]);
}

/// C097 C102 C026: a wait lasts until there is a result.
#[test]
fn wait_blocks_while_the_request_is_started() {
    let rig = Rig::new();
    rig.target.hold_for(60);
    rig.queue(0b1, 10);
    let waiter = rig.wait_in_thread(10, WaitMode::Strict);
    rig.pass(59);
    assert_eq!(waiter.result(), None);
    rig.pass(2);
    assert_eq!(waiter.result(), Some(Waited::Ok));
}

/// C015 C104 C062: nobody spins. The worker sleeps once while idle, a waiter once per wake-up.
#[test]
fn wait_and_worker_sleep_instead_of_spinning() {
    let rig = Rig::new();
    rig.pass(3600);
    let idle = rig.counting.all_parks();
    rig.pass(3600);
    assert_eq!(rig.counting.all_parks() - idle, 1, "only this thread's own sleep");
    rig.target.hold_for(480);
    rig.queue(0b1, 10);
    let waiter = rig.wait_in_thread(10, WaitMode::Strict);
    rig.pass(1000);
    assert_eq!(waiter.result(), Some(Waited::Ok));
    assert_eq!(rig.counting.parks(&waiter.caller.task), 1);
}

/// C098 C100 C104: a fatal signal lets the waiter go at once and leaves the request.
#[test]
fn wait_is_ended_by_a_fatal_signal_and_the_request_stays() {
    for fatal in [signal::KILL, signal::TERM] {
        let rig = Rig::new();
        rig.target.hold_for(60);
        rig.queue(0b1, 10);
        let waiter = rig.wait_in_thread(10, WaitMode::Strict);
        rig.pass(1);
        let before = rig.clock.now();
        waiter.caller.task.raise(&*rig.clock, fatal);
        assert_eq!(waiter.join(&*rig.clock), Waited::Interrupted);
        assert_eq!(rig.clock.now(), before, "no time passes");
        assert_eq!(rig.engine.lengths(), (1, 0));
        rig.pass(60);
        assert_eq!(rig.wait(10, WaitMode::Strict), Waited::Ok);
    }
}

/// C099: a wake-up without a fatal signal, as other signals cause it, changes nothing.
#[test]
fn wait_is_not_ended_by_other_signals() {
    let rig = Rig::new();
    rig.target.hold_for(60);
    rig.queue(0b1, 10);
    let waiter = rig.wait_in_thread(10, WaitMode::Strict);
    for _ in 0..3 {
        rig.pass(1);
        rig.clock.unpark(&waiter.caller.task);
    }
    rig.pass(1);
    assert_eq!(waiter.result(), None);
    rig.pass(60);
    assert_eq!(waiter.result(), Some(Waited::Ok));
}

/// C063 C064 C120: stop is looked at before work: what is queued is not driven, and waiters go.
#[test]
fn stop_with_work_queued_drives_nothing_and_lets_waiters_go() {
    let rig = Rig::new();
    rig.target.hold_for(5);
    rig.queue(0b1, 10);
    rig.settle();
    rig.queue(0b10, 11);
    let waiter = rig.wait_in_thread(11, WaitMode::Strict);
    rig.settle();
    rig.target.did();
    rig.stop();
    let did = rig.target.did();
    assert_eq!(did[0], Did::State(DeviceState::Invalid));
    assert!(maps(&did).is_empty());
    assert_eq!(waiter.join(&*rig.clock), Waited::Failed);
    assert_eq!(rig.engine.lengths(), (0, 0));
}

/// A choice of the model: the driver cannot be unloaded under an open file.
#[test]
fn stop_makes_later_submissions_fail() {
    let rig = Rig::new();
    rig.stop();
    rig.target.did();
    assert_eq!(rig.submit(0b1, 10), Submitted::Refused);
    assert!(rig.target.did().is_empty());
    assert_eq!(rig.wait(10, WaitMode::Strict), Waited::Failed);
}

/// C074 C112 C119 C120: stop cuts the pause of a stage short, in no time, and the run fails and
/// counts like any other.
#[test]
fn stop_cuts_the_pause_of_a_stage_short() {
    for (hold, busy) in [(480, 0), (0, 480)] {
        let rig = Rig::new();
        rig.target.hold_for(hold);
        *rig.target.busy.lock().expect("busy") = Duration::from_secs(busy);
        rig.queue(0b1, 10);
        let waiter = rig.wait_in_thread(10, WaitMode::Strict);
        rig.pass(100);
        let before = rig.clock.now();
        rig.target.did();
        rig.stop();
        assert_eq!(rig.clock.now(), before, "the join costs no time");
        assert_eq!(rig.target.did()[1..], [post(0b1, false), Did::Failure]);
        assert_eq!(waiter.join(&*rig.clock), Waited::Failed);
    }
}

/// C112 C117 (measured for 2.24.7): what the driver carries around for each cause.
#[test]
fn stop_and_deadline_have_the_error_numbers_of_their_release() {
    let table = [
        (HandshakeError::Stopped, Errno::EPERM, Errno::EINTR),
        (HandshakeError::TimedOut, Errno::EPERM, Errno::ETIMEDOUT),
        (HandshakeError::Stage(Errno::EIO), Errno::EIO, Errno::EIO),
    ];
    for (cause, old, new) in table {
        assert_eq!(cause.errno(Profile::V2_24_7), old);
        assert_eq!(cause.errno(Profile::V2_26_5), new);
        assert_eq!(cause.errno(Profile::V2_27_4), new);
    }
}

/// C071 C139: the four rows of the window rule.
#[test]
fn window_is_derived_from_the_two_time_stamps() {
    let rig = Rig::new();
    let engine = &rig.engine;
    assert!(engine.in_window(false, Duration::ZERO), "no run yet");
    rig.pass(10);
    rig.target.hold_for(5);
    rig.queue(0b1, 10);
    rig.pass(1);
    assert!(engine.in_window(false, rig.clock.now()), "a run is under way");
    assert!(!engine.in_window(true, rig.clock.now()), "resets are switched off");
    rig.pass(10);
    assert!(engine.in_window(false, Duration::from_secs(12)), "begun before its end");
    assert!(!engine.in_window(false, Duration::from_secs(16)), "begun after its end");
}

/// C006: the worker has the name a process list shows.
#[test]
fn thread_is_named_after_the_device() {
    assert_eq!(rig::Script::default().thread_name(), "nd0 reset");
}

/// C002: engines do not wait for each other.
#[test]
fn devices_reset_side_by_side() {
    let rig = Rig::new();
    rig.target.hold_for(60);
    rig.queue(0b1, 10);
    let other = neuron_kmd::reset::ResetEngine::new(rig.clock.clone());
    let easy = std::sync::Arc::new(rig::Script::default());
    other.start(easy.clone());
    other.submit(&*easy, &neuron_kmd::sync::Task::new(), 0b1, 10);
    rig.settle();
    assert_eq!(other.lengths(), (0, 1), "the second is through while the first waits for its firmware");
    assert_eq!(rig.engine.lengths(), (1, 0));
    other.stop(&*easy);
}
