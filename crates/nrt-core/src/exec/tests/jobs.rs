//! The implicit mode.

use super::*;
use parking_lot::MutexGuard;

/// The callback is that of the process: tests with jobs take turns.
pub(super) fn registered(callback: impl Fn(Report) + Send + Sync + 'static) -> Turn {
    static TURN: parking_lot::Mutex<()> = parking_lot::Mutex::new(());
    let turn = Turn(TURN.lock());
    register(Some(Box::new(Function(callback))));
    turn
}

pub(super) struct Turn(#[allow(dead_code)] MutexGuard<'static, ()>);

impl Drop for Turn {
    fn drop(&mut self) {
        register(None);
    }
}

struct Function<F>(F);

impl<F: Fn(Report) + Send + Sync> Callback for Function<F> {
    fn report(&self, report: Report) {
        (self.0)(report);
    }
}

#[test]
fn each_job_is_reported_in_order_with_ids_that_count_from_one() {
    let (sender, reports) = channel();
    let _turn = registered(move |report| sender.send(report).unwrap());
    let scheduler = scheduler(8, 3);
    let jobs = scheduler.jobs().unwrap();
    for core in 0..2 {
        for n in 1..=20 {
            let work = move || if n % 7 == 0 { Err(Status::Timeout) } else { Ok(()) };
            assert_eq!(jobs.submit(API, core, 100 + core, Box::new(work)), Ok(n));
        }
        scheduler.drain(core as i32).unwrap();
        let all: Vec<Report> = reports.try_iter().collect();
        let status = |n: u64| if n.is_multiple_of(7) { Status::Timeout } else { Status::Success };
        let expected = (1..=20).map(|job| Report { model: 100 + core, core, job, status: status(job) });
        assert_eq!(all, expected.collect::<Vec<_>>(), "a drain waits for the reports too");
    }
    assert_eq!(jobs.submit(API, 2, 1, nothing()), Err(Status::Invalid));
    assert_eq!(scheduler.drain(2), Err(Status::Invalid));
    assert_eq!(scheduler.drain(-1), Err(Status::Invalid));
}

#[test]
fn a_job_above_the_limit_waits_for_room() {
    let _turn = registered(drop);
    let scheduler = scheduler(8, 2);
    let jobs = scheduler.jobs().unwrap();
    let (work, release) = held();
    jobs.submit(API, 0, 1, work).unwrap();
    jobs.submit(API, 0, 1, nothing()).unwrap();
    let order = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let third = scope.spawn(|| {
            let job = jobs.submit(API, 0, 1, nothing());
            order.lock().unwrap().push("accepted");
            job
        });
        let drained = scope.spawn(|| {
            scheduler.drain(0).unwrap();
            order.lock().unwrap().push("drained");
        });
        jobs.submit(API, 1, 1, nothing()).expect("the limit is that of a core");
        order.lock().unwrap().push("released");
        release.send(()).unwrap();
        assert_eq!(third.join().unwrap(), Ok(3));
        drained.join().unwrap();
    });
    assert_eq!(order.into_inner().unwrap()[0], "released");
}

#[test]
fn a_close_ends_the_wait_for_room() {
    let _turn = registered(drop);
    let scheduler = scheduler(8, 1);
    let jobs = scheduler.jobs().unwrap();
    let (work, release) = held();
    jobs.submit(API, 0, 1, work).unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| jobs.submit(API, 0, 1, Box::new(|| panic!("refused"))));
        scope.spawn(|| scheduler.close());
        assert_eq!(waits.join().unwrap(), Err(Status::Closed));
        drop(release);
    });
}

#[test]
fn a_callback_cannot_wait_for_the_queue_it_runs_on() {
    let (sender, answers) = channel();
    let scheduler = Arc::new(scheduler(8, 1));
    let inner = Arc::downgrade(&scheduler);
    let _turn = registered(move |report| {
        let scheduler = inner.upgrade().expect("it is being drained");
        let jobs = scheduler.jobs().unwrap();
        // On its own core there is no room, the job counts until it is reported; on the other one there is.
        if report.core == 0 {
            let submitted = [0, 1].map(|core| jobs.submit(API, core, 1, nothing()));
            sender.send((scheduler.drain(0), scheduler.drain(1), submitted, on_worker())).unwrap();
        }
    });
    scheduler.jobs().unwrap().submit(API, 0, 1, nothing()).unwrap();
    scheduler.drain(0).unwrap();
    let refused = Err(Status::Failure);
    assert_eq!(answers.recv(), Ok((refused, refused, [Err(Status::QueueFull), Ok(1)], true)));
    assert!(!on_worker());
    // The worker of core 1 may hold it for a moment.
    scheduler.drain(1).unwrap();
}

#[test]
fn the_last_registration_counts_and_may_come_from_a_callback() {
    let (sender, reports) = channel();
    let second = sender.clone();
    let slot = Mutex::new(Some(Function(move |report: Report| second.send(("second", report.job)).unwrap())));
    let _turn = registered(move |report| {
        sender.send(("first", report.job)).unwrap();
        if let Some(next) = slot.lock().unwrap().take() {
            register(Some(Box::new(next)));
        }
    });
    let scheduler = scheduler(8, 63);
    for job in 1..=3 {
        assert_eq!(scheduler.jobs().unwrap().submit(API, 0, 1, nothing()), Ok(job));
    }
    scheduler.drain(0).unwrap();
    assert_eq!(reports.try_iter().collect::<Vec<_>>(), [("first", 1), ("second", 2), ("second", 3)]);
}

#[test]
fn a_callback_that_panics_and_a_failed_device_leave_the_queue_in_order() {
    let (sender, reports) = channel();
    let _turn = registered(move |report| {
        sender.send((report.job, report.status)).unwrap();
        assert_ne!(report.job, 1, "boom");
    });
    let scheduler = scheduler(8, 8);
    let jobs = scheduler.jobs().unwrap();
    let (work, release) = held();
    jobs.submit(API, 0, 1, work).unwrap();
    jobs.submit(API, 0, 1, Box::new(|| Err(Status::HwError))).unwrap();
    jobs.submit(API, 0, 1, Box::new(|| panic!("boom"))).unwrap();
    drop(release);
    scheduler.drain(0).unwrap();
    let expected = [(1, Status::Success), (2, Status::HwError), (3, Status::Failure)];
    assert_eq!(reports.try_iter().collect::<Vec<_>>(), expected);
    assert_eq!(jobs.submit(API, 0, 1, nothing()), Err(Status::ExecUnitUnrecoverable));
    assert_eq!(jobs.submit(API, 1, 1, nothing()), Ok(1));
    scheduler.drain(1).unwrap();
}
