//! One queue with its worker: what was accepted is carried out in order, one after the other.

use std::{
    cell::Cell,
    collections::VecDeque,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use super::sync::{AtomicU64, Condvar, JoinHandle, Mutex, MutexGuard, Ordering, lock, spawn, thread_local, wait};
use crate::{Result, Status, lifecycle, log_error};

/// Something to carry out on a worker.
pub type Work = Box<dyn FnOnce() -> Result<()> + Send>;

/// Who is told how a piece of work ended.
pub trait Completion: Send {
    /// Number `number` of its queue ended with `status`. Called once, on the worker, before anybody
    /// can see that number completed.
    fn complete(self: Box<Self>, number: u64, status: Status);
}

/// What a submission to a full queue does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    /// Answers NRT_QUEUE_FULL.
    Refuse,
    /// Waits for room.
    Wait,
}

struct Item {
    work: Work,
    done: Box<dyn Completion>,
}

#[derive(Default)]
struct State {
    items: VecDeque<Item>,
    /// The worker sleeps.
    idle: bool,
    /// Threads that wait for a completion.
    waiting: usize,
    closing: bool,
    worker: Option<JoinHandle<()>>,
}

/// A number on a cache line of its own: whoever polls it must not slow the lock next to it down.
#[repr(align(64))]
struct Line(AtomicU64);

/// A bounded queue and its worker, which runs until [`Queue::stop`]. The two numbers are read without
/// the lock; they change under it.
pub(super) struct Queue {
    /// Most items accepted and not completed.
    depth: u64,
    submitted: Line,
    completed: Line,
    state: Mutex<State>,
    /// For the worker: there is something to do, or no more will come.
    more: Condvar,
    /// For the others: a number was completed, or no more will come.
    progress: Condvar,
}

thread_local! {
    static IS_WORKER: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is the worker of a queue, and so must not wait for one.
pub fn on_worker() -> bool {
    IS_WORKER.with(Cell::get)
}

impl Queue {
    /// An empty queue with its worker. `watch` sees the status of each item before anybody else.
    pub(super) fn start(name: String, depth: u64, watch: impl Fn(Status) + Send + 'static) -> io::Result<Arc<Queue>> {
        let queue = Arc::new(Queue {
            depth,
            submitted: Line(AtomicU64::new(0)),
            completed: Line(AtomicU64::new(0)),
            state: Mutex::new(State::default()),
            more: Condvar::new(),
            progress: Condvar::new(),
        });
        let worked = Arc::clone(&queue);
        let worker = spawn(name, move || worked.work(&watch))?;
        lock(&queue.state).worker = Some(worker);
        Ok(queue)
    }

    /// Number of the last item accepted; 0 for none.
    pub(super) fn submitted(&self) -> u64 {
        self.submitted.0.load(Ordering::Acquire)
    }

    /// Number of the last item completed; 0 for none.
    pub(super) fn completed(&self) -> u64 {
        self.completed.0.load(Ordering::Acquire)
    }

    /// Accept `work`; its number. NRT_QUEUE_FULL when there is no room, NRT_CLOSED after a stop. What
    /// is refused is dropped and leaves no trace.
    pub(super) fn push(&self, work: Work, done: Box<dyn Completion>, full: Full) -> Result<u64> {
        let item = Item { work, done };
        // The guard goes before the item does: dropping somebody's work may take any time.
        let mut state = lock(&self.state);
        let number = loop {
            if state.closing {
                return Err(Status::Closed);
            }
            let next = self.submitted.0.load(Ordering::Relaxed) + 1;
            if next - self.completed.0.load(Ordering::Relaxed) <= self.depth {
                break next;
            }
            if full == Full::Refuse {
                return Err(Status::QueueFull);
            }
            state = self.await_progress(state);
        };
        state.items.push_back(item);
        self.submitted.0.store(number, Ordering::Release);
        let asleep = std::mem::take(&mut state.idle);
        drop(state);
        if asleep {
            self.more.notify_one();
        }
        Ok(number)
    }

    /// Wait until all that was accepted so far is completed.
    pub(super) fn drain(&self) {
        let mut state = lock(&self.state);
        let last = self.submitted.0.load(Ordering::Relaxed);
        while self.completed.0.load(Ordering::Relaxed) < last {
            state = self.await_progress(state);
        }
    }

    fn await_progress<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.waiting += 1;
        let mut state = wait(&self.progress, state);
        state.waiting -= 1;
        state
    }

    /// Accept nothing more. What was accepted is still carried out; then the worker ends.
    pub(super) fn stop(&self) {
        lock(&self.state).closing = true;
        self.more.notify_all();
        self.progress.notify_all();
    }

    /// Wait for the end of the worker, after [`Queue::stop`]. Not on the worker itself.
    pub(super) fn join(&self) {
        let worker = lock(&self.state).worker.take();
        if let Some(worker) = worker {
            // It catches every panic, so there is no error to find here.
            let _ = worker.join();
        }
    }

    fn work(&self, watch: &dyn Fn(Status)) {
        IS_WORKER.with(|is| is.set(true));
        let mut state = lock(&self.state);
        loop {
            let Some(Item { work, done }) = state.items.pop_front() else {
                if state.closing {
                    return;
                }
                state.idle = true;
                state = wait(&self.more, state);
                continue;
            };
            drop(state);
            let number = self.completed.0.load(Ordering::Relaxed) + 1;
            let status = match guarded(work) {
                Some(Ok(())) => Status::Success,
                Some(Err(status)) => status,
                None => Status::Failure,
            };
            watch(status);
            guarded(|| done.complete(number, status));
            if lifecycle::state() == lifecycle::State::Child {
                // The completion has forked. The queue is the parent's, and its lock may never come free here.
                return;
            }
            state = lock(&self.state);
            self.completed.0.store(number, Ordering::Release);
            if state.waiting > 0 {
                self.progress.notify_all();
            }
        }
    }
}

/// The answer of `body`; `None` when it panicked. The worker and what waits behind it must not suffer.
fn guarded<R>(body: impl FnOnce() -> R) -> Option<R> {
    catch_unwind(AssertUnwindSafe(body))
        .inspect_err(|_| {
            log_error!(Nrt, "nrta_worker", "internal error in queued work; this is a bug in OpenNRT, please report it")
        })
        // Dropping a payload runs code of whoever panicked, which could panic again.
        .map_err(std::mem::forget)
        .ok()
}
