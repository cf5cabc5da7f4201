//! The queues of the asynchronous calls under every schedule the explorer tries.
//!
//! `cargo test -p nrt-core --features shuttle --test shuttle`
//!
//! A deadlock, which is what a worker or waiter nobody wakes is, ends the exploration with an error.

use std::sync::Arc;

use nrt_core::Status;
use nrt_core::exec::{Callback, Completion, Report, Scheduler, Sequence, Settings, Slot, Unit, register};
use nrt_core::tensor::memory::Core;
use shuttle::sync::Mutex;
use shuttle::sync::atomic::{AtomicU32, Ordering};
use shuttle::thread;

/// Schedules tried per test.
const SCHEDULES: usize = 1000;

/// Two cores, a compute queue of two items, and in the implicit mode so many jobs.
fn scheduler(in_flight: u32) -> Arc<Scheduler> {
    let core = Core { device: 0, first_core: 0, first_hbm: 0, hbms: 1 };
    Arc::new(Scheduler::new([core, core], Settings { compute_depth: 2, in_flight }))
}

fn slot(unit: Unit, queue: i64) -> Slot {
    Slot::new(unit, queue).expect("a queue of the unit")
}

/// What the threads saw, each as they saw it.
#[derive(Default)]
struct Seen {
    /// Numbers in the order their work ran.
    ran: Mutex<Vec<u64>>,
    /// Statuses by number, as a caller's variables hold them.
    statuses: [AtomicU32; 16],
}

const UNWRITTEN: u32 = 0;

/// Writes the status where the caller looks.
struct Written(Arc<Seen>);

impl Completion for Written {
    fn complete(self: Box<Self>, number: u64, status: Status) {
        let before = self.0.statuses[number as usize].swap(status.code(), Ordering::Relaxed);
        assert_eq!(before, UNWRITTEN, "completed twice");
    }
}

/// Work that is the one piece of its kind: what it answers tells it from the others.
fn submit(scheduler: &Scheduler, slot: Slot, seen: &Arc<Seen>, mark: u64) -> Result<u64, Status> {
    let ran = Arc::clone(seen);
    let work = move || {
        ran.ran.lock().expect("ran").push(mark);
        thread::yield_now();
        Err(Status::Timeout)
    };
    scheduler.submit("test", 0, slot, Box::new(work), Box::new(Written(Arc::clone(seen))))
}

/// Ask until it is completed; then its status must be there.
fn poll(scheduler: &Scheduler, id: u64, seen: &Seen) {
    while !scheduler.is_completed(id).expect("it was given out") {
        thread::yield_now();
    }
    let number = Sequence::of(id).expect("a sequence").number;
    for before in 1..=number {
        assert_eq!(seen.statuses[before as usize].load(Ordering::Relaxed), Status::Timeout.code());
    }
    assert!(scheduler.last_completed(0, 0, 0).expect("a queue") >= id);
}

fn in_threads<T: Send + 'static>(items: impl IntoIterator<Item = T>, body: impl Fn(T) + Send + Sync + 'static) {
    let body = Arc::new(body);
    let start = |item| {
        let body = Arc::clone(&body);
        thread::spawn(move || body(item))
    };
    let threads: Vec<_> = items.into_iter().map(start).collect();
    threads.into_iter().for_each(|thread| thread.join().expect("thread"));
}

#[test]
fn every_item_runs_once_in_order_and_its_status_is_there_before_it_counts() {
    shuttle::check_random(
        || {
            let (scheduler, seen) = (scheduler(0), Arc::new(Seen::default()));
            let marks = Arc::new(Mutex::new(Vec::new()));
            let (all, polled, order) = (Arc::clone(&scheduler), Arc::clone(&seen), Arc::clone(&marks));
            in_threads(0..3_u64, move |thread| {
                for n in 0..2 {
                    let mark = 10 * thread + n;
                    let id = submit(&all, slot(Unit::TensorOp, 0), &polled, mark).expect("there is room");
                    order.lock().expect("marks").push((id, mark));
                    if n == 1 {
                        poll(&all, id, &polled);
                    }
                }
            });
            scheduler.close();
            let mut marks = marks.lock().expect("marks").clone();
            marks.sort_unstable();
            assert!(marks.iter().map(|(id, _)| *id).eq(1..=6), "{marks:?}");
            assert!(marks.iter().map(|(_, mark)| mark).eq(seen.ran.lock().expect("ran").iter()), "{marks:?}");
        },
        SCHEDULES,
    );
}

#[test]
fn a_full_queue_refuses_and_loses_nothing() {
    shuttle::check_random(
        || {
            let (scheduler, seen) = (scheduler(0), Arc::new(Seen::default()));
            let accepted = Arc::new(Mutex::new(Vec::new()));
            let (all, work, ids) = (Arc::clone(&scheduler), Arc::clone(&seen), Arc::clone(&accepted));
            in_threads(0..4_u64, move |mark| match submit(&all, slot(Unit::Compute, 0), &work, mark) {
                Ok(id) => ids.lock().expect("ids").push((Sequence::of(id).expect("a sequence").number, mark)),
                Err(status) => assert_eq!(status, Status::QueueFull),
            });
            scheduler.close();
            let mut accepted = accepted.lock().expect("ids").clone();
            accepted.sort_unstable();
            assert!(accepted.len() >= 2, "two have room whoever comes first");
            assert!(accepted.iter().map(|(number, _)| *number).eq(1..=accepted.len() as u64), "{accepted:?}");
            assert!(accepted.iter().map(|(_, mark)| mark).eq(seen.ran.lock().expect("ran").iter()));
        },
        SCHEDULES,
    );
}

/// Submissions that meet a close are refused or carried out before it returns, first uses too.
#[test]
fn close_returns_with_nothing_running_and_nothing_lost() {
    shuttle::check_random(
        || {
            let (scheduler, seen) = (scheduler(0), Arc::new(Seen::default()));
            let threads: Vec<_> = (0..3_u64)
                .map(|thread| {
                    let (scheduler, seen) = (Arc::clone(&scheduler), Arc::clone(&seen));
                    thread::spawn(move || {
                        let submit = |n| submit(&scheduler, slot(Unit::TensorOp, 0), &seen, 10 * thread + n);
                        let answers = [0, 1].map(submit);
                        assert!(answers.iter().all(|answer| matches!(answer, Ok(_) | Err(Status::Closed))));
                        assert!(answers[0].is_ok() || answers[1].is_err(), "closed stays closed");
                        answers.iter().filter(|answer| answer.is_ok()).count()
                    })
                })
                .collect();
            scheduler.close();
            let ran = seen.ran.lock().expect("ran").len();
            let written = |seen: &Seen| seen.statuses.iter().filter(|s| s.load(Ordering::Relaxed) != UNWRITTEN).count();
            assert_eq!(written(&seen), ran);
            let accepted: usize = threads.into_iter().map(|thread| thread.join().expect("thread")).sum();
            assert_eq!(accepted, ran, "what is accepted has run when the close returns");
            assert_eq!(seen.ran.lock().expect("ran").len(), ran, "nothing runs afterwards");
        },
        SCHEDULES,
    );
}

#[test]
fn queues_do_not_hold_up_each_other() {
    shuttle::check_random(
        || {
            let scheduler = scheduler(0);
            // Queue 0 does nothing until queue 1 has done something.
            let held = Arc::new((Mutex::new(false), shuttle::sync::Condvar::new()));
            let (waits, goes) = (Arc::clone(&held), Arc::clone(&held));
            let first = move || {
                let mut done = waits.0.lock().expect("held");
                while !*done {
                    done = waits.1.wait(done).expect("held");
                }
                Ok(())
            };
            let second = move || {
                *goes.0.lock().expect("held") = true;
                goes.1.notify_all();
                Err(Status::Timeout)
            };
            let submit = |queue, work| {
                let done: Box<dyn Completion> = Box::new(Written(Arc::new(Seen::default())));
                scheduler.submit("test", 0, slot(Unit::TensorOp, queue), work, done).expect("there is room")
            };
            submit(0, Box::new(first));
            submit(1, Box::new(second));
            scheduler.close();
            assert!(*held.0.lock().expect("held"));
        },
        SCHEDULES,
    );
}

/// What the registered callback was told, by core.
static REPORTS: std::sync::Mutex<Vec<Report>> = std::sync::Mutex::new(Vec::new());

struct Noted;

impl Callback for Noted {
    fn report(&self, report: Report) {
        REPORTS.lock().expect("reports").push(report);
    }
}

/// Jobs wait for room, drains for jobs and reports, and a close ends every wait.
#[test]
fn jobs_and_drains_and_a_close_end_in_every_order() {
    register(Some(Box::new(Noted)));
    shuttle::check_random(
        || {
            REPORTS.lock().expect("reports").clear();
            let scheduler = scheduler(1);
            let threads: Vec<_> = (0..3_u32)
                .map(|model| {
                    let scheduler = Arc::clone(&scheduler);
                    thread::spawn(move || {
                        let jobs = scheduler.jobs().expect("the mode is on");
                        let mut accepted = Vec::new();
                        for _ in 0..2 {
                            match jobs.submit("test", 0, model, Box::new(|| Ok(()))) {
                                Ok(job) => accepted.push((job, model)),
                                Err(status) => assert_eq!(status, Status::Closed),
                            }
                        }
                        scheduler.drain(0).expect("a core");
                        let reports = REPORTS.lock().expect("reports");
                        for (job, model) in &accepted {
                            let report = Report { model: *model, core: 0, job: *job, status: Status::Success };
                            assert!(reports.contains(&report), "drained before {report:?}");
                        }
                        accepted
                    })
                })
                .collect();
            scheduler.close();
            let mut accepted: Vec<_> = threads.into_iter().flat_map(|thread| thread.join().expect("thread")).collect();
            accepted.sort_unstable();
            let reports = REPORTS.lock().expect("reports");
            assert!(reports.iter().map(|report| (report.job, report.model)).eq(accepted));
        },
        SCHEDULES,
    );
}
