//! Rules of the queues, one test each (`facts/runtime/tensors.md` section 8).

use std::sync::{
    Arc, Mutex, mpsc,
    mpsc::{Receiver, Sender, channel},
};

use strum::IntoEnumIterator;

use super::*;

mod jobs;
mod operations;

const API: &str = "test";

/// Two cores.
fn scheduler(compute_depth: u64, in_flight: u32) -> Scheduler {
    let core = |device| memory::Core { device, first_core: 0, first_hbm: 0, hbms: 1 };
    Scheduler::new([core(0), core(1)], Settings { compute_depth, in_flight })
}

fn slot(unit: Unit, queue: i64) -> Slot {
    Slot::new(unit, queue).unwrap()
}

fn slots() -> Vec<Slot> {
    Unit::iter().flat_map(|unit| (0..3).filter_map(move |queue| Slot::new(unit, queue))).collect()
}

/// Sends what it is told.
struct Told(Sender<(u64, Status)>);

impl Completion for Told {
    fn complete(self: Box<Self>, number: u64, status: Status) {
        // Many tests do not listen.
        let _ = self.0.send((number, status));
    }
}

/// Never to be called.
struct Nobody;

impl Completion for Nobody {
    fn complete(self: Box<Self>, number: u64, status: Status) {
        panic!("refused work completed as {number} with {status}");
    }
}

fn told() -> (impl Fn() -> Box<dyn Completion>, Receiver<(u64, Status)>) {
    let (sender, receiver) = channel();
    (move || Box::new(Told(sender.clone())) as Box<dyn Completion>, receiver)
}

/// Work that waits until the other end says so, or is gone.
fn held() -> (Work, mpsc::SyncSender<()>) {
    let (release, held) = mpsc::sync_channel(1);
    let work = move || {
        let _ = held.recv();
        Ok(())
    };
    (Box::new(work), release)
}

fn nothing() -> Work {
    Box::new(|| Ok(()))
}

fn wait_for(scheduler: &Scheduler, id: u64) {
    while !scheduler.is_completed(id).unwrap() {
        std::thread::yield_now();
    }
}

#[test]
fn each_queue_counts_from_one_and_keeps_its_order() {
    let scheduler = scheduler(100, 0);
    for core in 0..2 {
        for slot in slots() {
            let order = Arc::new(Mutex::new(Vec::new()));
            let (done, answers) = told();
            for n in 1..=100 {
                let order = Arc::clone(&order);
                let work = move || {
                    order.lock().unwrap().push(n);
                    if n % 10 == 0 { Err(Status::Timeout) } else { Ok(()) }
                };
                let id = scheduler.submit(API, core, slot, Box::new(work), done()).unwrap();
                assert_eq!(Sequence::of(id), Some(Sequence { core: core as u8, slot, number: n }));
            }
            let answers: Vec<_> = answers.iter().take(100).collect();
            let status = |n: u64| if n.is_multiple_of(10) { Status::Timeout } else { Status::Success };
            assert_eq!(answers, (1..=100).map(|n| (n, status(n))).collect::<Vec<_>>());
            assert_eq!(*order.lock().unwrap(), (1..=100).collect::<Vec<_>>());
        }
    }
}

#[test]
fn a_held_queue_holds_up_no_other() {
    let scheduler = scheduler(8, 0);
    let first = slot(Unit::TensorOp, 0);
    let (work, release) = held();
    let stuck = scheduler.submit(API, 0, first, work, told().0()).unwrap();
    for core in 0..2 {
        for slot in slots().into_iter().filter(|slot| (core, *slot) != (0, first)) {
            let (done, answers) = told();
            scheduler.submit(API, core, slot, nothing(), done()).unwrap();
            assert_eq!(answers.recv(), Ok((1, Status::Success)), "{core} {slot:?}");
        }
    }
    assert_eq!(scheduler.is_completed(stuck), Ok(false));
    drop(release);
}

#[test]
fn a_full_queue_refuses_and_nothing_has_changed() {
    for (unit, setting, depth) in [
        (Unit::Compute, 0, 1),
        (Unit::Compute, 1, 1),
        (Unit::Compute, 8, 8),
        (Unit::TensorOp, 1, DEPTH),
        (Unit::Collectives, 1, DEPTH),
    ] {
        let scheduler = scheduler(setting, 0);
        let slot = slot(unit, 0);
        let (work, release) = held();
        let (done, answers) = told();
        scheduler.submit(API, 1, slot, work, done()).unwrap();
        // The one at work counts as well.
        for _ in 1..depth {
            scheduler.submit(API, 1, slot, nothing(), done()).unwrap();
        }
        for _ in 0..2 {
            let refused = scheduler.submit(API, 1, slot, Box::new(|| panic!("refused")), Box::new(Nobody));
            assert_eq!(refused, Err(Status::QueueFull), "{unit:?} {setting}");
        }
        release.send(()).unwrap();
        assert_eq!(answers.iter().take(depth as usize).map(|(n, _)| n).max(), Some(depth));
        // The last one may be told and not counted yet.
        wait_for(&scheduler, Sequence { core: 1, slot, number: depth }.id());
        let next = scheduler.submit(API, 1, slot, nothing(), done()).unwrap();
        assert_eq!(Sequence::of(next).map(|next| next.number), Some(depth + 1));
    }
}

#[test]
fn the_status_is_told_before_the_sequence_is_completed() {
    struct Slow(Sender<Status>, Receiver<()>);
    impl Completion for Slow {
        fn complete(self: Box<Self>, _: u64, status: Status) {
            self.0.send(status).unwrap();
            self.1.recv().unwrap();
        }
    }
    let scheduler = scheduler(8, 0);
    let ((telling, told), (release, held)) = (channel(), channel());
    let slot = slot(Unit::Compute, 0);
    let id = scheduler.submit(API, 0, slot, Box::new(|| Err(Status::Resource)), Box::new(Slow(telling, held))).unwrap();
    assert_eq!(told.recv(), Ok(Status::Resource));
    assert_eq!(scheduler.is_completed(id), Ok(false));
    assert_eq!(scheduler.last_completed(0, 1, 0), Ok(Sequence { core: 0, slot, number: 0 }.id()));
    release.send(()).unwrap();
    wait_for(&scheduler, id);
    assert_eq!(scheduler.last_completed(0, 1, 0), Ok(id));
}

#[test]
fn a_panic_is_a_failure_of_its_item_alone() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("a payload that panics");
        }
    }
    let scheduler = scheduler(8, 0);
    let slot = slot(Unit::Collectives, 2);
    let (done, answers) = told();
    scheduler.submit(API, 0, slot, Box::new(|| panic!("boom")), done()).unwrap();
    scheduler.submit(API, 0, slot, Box::new(|| std::panic::panic_any(Bomb)), done()).unwrap();
    // A completion that panics: the item counts all the same.
    scheduler.submit(API, 0, slot, nothing(), Box::new(Nobody)).unwrap();
    let last = scheduler.submit(API, 0, slot, nothing(), done()).unwrap();
    let failed = |n| (n, Status::Failure);
    assert_eq!(answers.iter().take(3).collect::<Vec<_>>(), [failed(1), failed(2), (4, Status::Success)]);
    wait_for(&scheduler, last);
}

#[test]
fn after_a_device_failure_the_core_takes_nothing_more() {
    for status in Status::iter().filter(|&status| status != Status::Success) {
        let scheduler = scheduler(8, 0);
        let slot = slot(Unit::TensorOp, 1);
        let (work, release) = held();
        let (done, answers) = told();
        scheduler.submit(API, 0, slot, work, done()).unwrap();
        let failing = scheduler.submit(API, 0, slot, Box::new(move || Err(status)), done()).unwrap();
        scheduler.submit(API, 0, slot, nothing(), done()).unwrap();
        release.send(()).unwrap();
        wait_for(&scheduler, failing);
        // The C name says which they are.
        let fatal = status.to_string().starts_with("NRT_EXEC_HW_ERR_") || status == Status::HwError;
        let expected = if fatal { Some(Status::ExecUnitUnrecoverable) } else { None };
        for unit in Unit::iter() {
            let again = scheduler.submit(API, 0, Slot::new(unit, 0).unwrap(), nothing(), told().0());
            assert_eq!(again.err(), expected, "{status}");
        }
        scheduler.submit(API, 1, slot, nothing(), told().0()).expect("another core has other devices");
        // What was accepted before is carried out.
        let expected = [(1, Status::Success), (2, status), (3, Status::Success)];
        assert_eq!(answers.iter().take(3).collect::<Vec<_>>(), expected);
        assert_eq!(scheduler.is_completed(failing), Ok(true), "polls still answer");
    }
}

#[test]
fn close_carries_out_what_was_accepted_and_nothing_runs_afterwards() {
    let _turn = jobs::registered(drop);
    let scheduler = scheduler(8, 4);
    let (done, answers) = told();
    let (work, release) = held();
    scheduler.submit(API, 0, slot(Unit::TensorOp, 0), work, done()).unwrap();
    for slot in slots() {
        for _ in 0..5 {
            scheduler.submit(API, 0, slot, nothing(), done()).unwrap();
        }
    }
    scheduler.jobs().unwrap().submit(API, 1, 7, nothing()).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| scheduler.close());
        // Whether the close waits already or not, it cannot pass.
        release.send(()).unwrap();
    });
    assert_eq!(answers.try_iter().count(), 31);
    for core in 0..2 {
        for slot in slots() {
            // Used before or not.
            assert_eq!(scheduler.submit(API, core, slot, nothing(), Box::new(Nobody)), Err(Status::Closed));
        }
        assert_eq!(scheduler.jobs().unwrap().submit(API, core, 7, nothing()), Err(Status::Closed));
    }
    scheduler.close();
}

#[test]
fn dropping_the_queues_carries_everything_out_too() {
    let (done, answers) = told();
    let scheduler = scheduler(8, 0);
    for _ in 0..100 {
        scheduler.submit(API, 0, slot(Unit::TensorOp, 0), nothing(), done()).unwrap();
    }
    drop((scheduler, done));
    assert_eq!(answers.iter().count(), 100);
}

#[test]
fn nothing_starts_before_its_first_use() {
    let scheduler = scheduler(8, 4);
    let started = || scheduler.cores.iter().map(|core| core.started().count()).collect::<Vec<_>>();
    for slot in slots() {
        let id = scheduler.last_completed(1, slot.unit as u32, slot.queue.into()).unwrap();
        assert_eq!(Sequence::of(id), Some(Sequence { core: 1, slot, number: 0 }));
        assert_eq!(scheduler.is_completed(id + 1), Err(Status::Invalid));
    }
    scheduler.drain(0).unwrap();
    assert_eq!(scheduler.submit(API, 2, slot(Unit::Compute, 0), nothing(), Box::new(Nobody)), Err(Status::Invalid));
    assert_eq!(started(), [0, 0]);
    scheduler.submit(API, 1, slot(Unit::Compute, 0), nothing(), told().0()).unwrap();
    assert_eq!(started(), [0, 1]);
}

#[test]
fn only_ids_that_were_given_out_are_sequences() {
    let scheduler = scheduler(8, 0);
    let at = |core, unit, queue, number| Sequence { core, slot: slot(unit, queue), number }.id();
    let first = scheduler.submit(API, 1, slot(Unit::TensorOp, 1), nothing(), told().0()).unwrap();
    assert_eq!(first, at(1, Unit::TensorOp, 1, 1));
    wait_for(&scheduler, first);
    for never in [
        at(1, Unit::TensorOp, 1, 0),
        at(1, Unit::TensorOp, 1, 2),
        at(1, Unit::TensorOp, 1, NUMBER_MAX),
        at(1, Unit::TensorOp, 0, 1),
        at(0, Unit::TensorOp, 1, 1),
        at(2, Unit::TensorOp, 1, 1),
        at(255, Unit::TensorOp, 1, 1),
        first | 3 << 48,
        first | 2 << 52,
    ] {
        assert_eq!(scheduler.is_completed(never), Err(Status::Invalid), "{never:#x}");
    }
    for (core, unit, queue) in
        [(2, 0, 0), (u32::MAX, 0, 0), (0, 3, 0), (0, 256, 0), (0, u32::MAX, 0), (0, 0, 2), (0, 1, 1), (0, 2, -1)]
    {
        assert_eq!(scheduler.last_completed(core, unit, queue), Err(Status::Invalid), "{core} {unit} {queue}");
    }
}

/// `facts/runtime/tensors.md` section 8, core slots.
#[test]
fn at_most_128_cores_have_queues() {
    let core = memory::Core { device: 0, first_core: 0, first_hbm: 0, hbms: 1 };
    let scheduler = Scheduler::new(std::iter::repeat_n(core, 300), Settings { compute_depth: 8, in_flight: 0 });
    let submit = |core| scheduler.submit(API, core, slot(Unit::Compute, 0), nothing(), told().0());
    assert_eq!(submit(127), Ok(0x7f01_0000_0000_0001));
    assert_eq!(submit(128), Err(Status::Invalid));
}

#[test]
fn threads_that_submit_at_once_share_the_numbers() {
    let scheduler = scheduler(8, 0);
    let slot = slot(Unit::TensorOp, 0);
    let (done, answers) = told();
    let done = Mutex::new(done);
    let submit = || {
        (0..500)
            .map(|_| {
                let done = done.lock().unwrap()();
                scheduler.submit(API, 0, slot, nothing(), done).unwrap()
            })
            .collect::<Vec<_>>()
    };
    let mut ids: Vec<u64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(submit)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    ids.sort_unstable();
    assert_eq!(ids, (1..=2000).collect::<Vec<_>>());
    assert!(answers.iter().take(2000).map(|(number, _)| number).eq(1..=2000));
}
