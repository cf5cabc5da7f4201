//! Asynchronous execution: the units of each logical core, their queues and workers, sequences, and
//! the implicit mode (`facts/runtime/tensors.md` sections 7 and 8).
//!
//! | file | content |
//! |---|---|
//! | `mod.rs` | the queues of one init cycle: first use, submission, polls, close |
//! | `entry.rs` | what every schedule call checks, in order; reads, writes and copies |
//! | `unit.rs` | units and their queues |
//! | `sequence.rs` | the ids of submissions |
//! | `queue.rs` | one bounded queue with its worker |
//! | `implicit.rs` | jobs nobody waits for, and the callback about them |
//! | `sync.rs` | the primitives below, which the schedule explorer replaces |
//!
//! A queue carries its items out in the order they were accepted, and knows nothing of the others.
//! Its worker runs the work, tells the status, counts the number as completed, wakes who waits, in
//! that order. Workers start at the first use of their queue and are joined at close, after
//! everything accepted is through. A forked child is kept away by the state gate: it has the
//! queues but not their workers.

mod entry;
mod implicit;
mod queue;
mod sequence;
mod sync;
#[cfg(all(test, not(feature = "shuttle")))]
mod tests;
mod unit;

use std::sync::{Arc, OnceLock};

pub use entry::Entry;
pub use implicit::{Callback, Jobs, Report, register};
pub use queue::{Completion, Work, on_worker};
pub use sequence::{NUMBER_MAX, Sequence};
pub use unit::{Slot, Unit};

use crate::{Result, Status, log_debug, log_error, log_warn, tensor::memory};
use queue::{Full, Queue};
use sync::{AtomicBool, Mutex, Ordering, lock};
use unit::QUEUES;

/// Logical cores that have queues; the id of a sequence has no room for many more.
pub const CORES: usize = 128;

/// Items a queue of the units without a setting takes. No source gives the vendor's number.
pub const DEPTH: u64 = 16384;

/// What the configuration says about queues.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Items the compute queue takes (`NEURON_RT_XU_COMPUTE_MAX_QUEUED_REQUESTS`); 0 counts as 1.
    pub compute_depth: u64,
    /// Jobs in flight a core may have in the implicit mode; 0 when the mode is off
    /// (`NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS`).
    pub in_flight: u32,
}

/// The queues of all logical cores of one init cycle.
pub struct Scheduler {
    settings: Settings,
    cores: Arc<[Core]>,
    /// No queue may come into being any more. Held while one does.
    closed: Mutex<bool>,
}

struct Core {
    /// Where it is in the instance, for the memory next to it.
    place: memory::Core,
    /// A device failed under it.
    broken: AtomicBool,
    queues: [OnceLock<Arc<Queue>>; QUEUES],
    jobs: OnceLock<Arc<Queue>>,
}

impl Core {
    fn started(&self) -> impl Iterator<Item = &Arc<Queue>> {
        self.queues.iter().chain([&self.jobs]).filter_map(OnceLock::get)
    }
}

/// Whether work that ended like this leaves the core unusable.
fn is_fatal(status: Status) -> bool {
    matches!(
        status,
        Status::HwError
            | Status::ExecHwErrCollectives
            | Status::ExecHwErrHbmUe
            | Status::ExecHwErrNcUe
            | Status::ExecHwErrDmaAbort
            | Status::ExecHwErrRepairableHbmUe
    )
}

/// A queue of `unit`. The text is the vendor's.
fn slot(api: &'static str, unit: Unit, queue: i32) -> Result<Slot> {
    Slot::new(unit, queue.into()).ok_or_else(|| {
        let (name, most) = (unit.name(), unit.queues());
        log_error!(Nrt, api, "Invalid queue parameter for {name} XU. XU only supports {most} queues. (queue={queue})");
        Status::Invalid
    })
}

impl Scheduler {
    /// Queues for these logical cores, the first [`CORES`] of them. Nothing runs yet.
    pub fn new(cores: impl IntoIterator<Item = memory::Core>, settings: Settings) -> Scheduler {
        let core = |place| Core {
            place,
            broken: AtomicBool::new(false),
            queues: [const { OnceLock::new() }; QUEUES],
            jobs: OnceLock::new(),
        };
        Scheduler { settings, cores: cores.into_iter().take(CORES).map(core).collect(), closed: Mutex::new(false) }
    }

    /// The queues of the implicit mode; `None` when it is off.
    pub fn jobs(&self) -> Option<Jobs<'_>> {
        (self.settings.in_flight > 0).then_some(Jobs(self))
    }

    /// Position of logical core `lnc`. The text is the vendor's.
    fn core(&self, api: &'static str, lnc: i64) -> Result<u8> {
        usize::try_from(lnc).ok().filter(|&lnc| lnc < self.cores.len()).map(|lnc| lnc as u8).ok_or_else(|| {
            log_error!(Nrt, api, "Failed to find logical core (lnc_idx={})", lnc as u32);
            Status::Invalid
        })
    }

    /// [`Scheduler::core`], if its devices still work.
    fn usable(&self, api: &'static str, lnc: i64) -> Result<u8> {
        let core = self.core(api, lnc)?;
        if self.cores[usize::from(core)].broken.load(Ordering::Acquire) {
            log_error!(Nrt, api, "A device failed under lnc {core}; it takes nothing until nrt_close and nrt_init");
            return Err(Status::ExecUnitUnrecoverable);
        }
        Ok(core)
    }

    /// Put `work` into a queue of logical core `core`, which starts it at its first use; its
    /// sequence id. For every unit; the calls of the units check more.
    ///
    /// # Errors
    /// `Invalid` for a core this process does not have, `ExecUnitUnrecoverable` after a device
    /// failure on it, `QueueFull`, `Closed` while closing, `Resource` when there is no thread for
    /// the worker. Then nothing has changed, and `done` hears nothing.
    pub fn submit(
        &self,
        api: &'static str,
        core: u32,
        slot: Slot,
        work: Work,
        done: Box<dyn Completion>,
    ) -> Result<u64> {
        let core = self.usable(api, core.into())?;
        let depth = match slot.unit {
            Unit::Compute => self.settings.compute_depth.max(1),
            Unit::TensorOp | Unit::Collectives => DEPTH,
        };
        let place = &self.cores[usize::from(core)].queues[slot.index()];
        let name = format_args!("nrt c{core} xu{}q{}", slot.unit as u8, slot.queue);
        let number = self.queue(api, place, name, core, depth)?.push(work, done, Full::Refuse);
        let number = number.inspect_err(|status| {
            // A full queue is an answer like any other, and may be asked for all the time.
            log_debug!(Nrt, api, "lnc {core} {} queue {} refuses: {status}", slot.unit.name(), slot.queue);
        })?;
        Ok(Sequence { core, slot, number }.id())
    }

    fn jobs_queue(&self, api: &'static str, core: u8) -> Result<&Queue> {
        let place = &self.cores[usize::from(core)].jobs;
        self.queue(api, place, format_args!("nrt c{core} jobs"), core, self.settings.in_flight.into())
    }

    fn jobs_of(&self, core: u8) -> Option<&Queue> {
        self.cores[usize::from(core)].jobs.get().map(|queue| &**queue)
    }

    /// The queue at `place`, with its worker from the first use on.
    fn queue<'a>(
        &'a self,
        api: &'static str,
        place: &'a OnceLock<Arc<Queue>>,
        name: std::fmt::Arguments<'_>,
        core: u8,
        depth: u64,
    ) -> Result<&'a Queue> {
        if let Some(queue) = place.get() {
            return Ok(queue);
        }
        let closed = lock(&self.closed);
        // Somebody else may have been first. A queue that is there says by itself when it is closed.
        if let Some(queue) = place.get() {
            return Ok(queue);
        }
        if *closed {
            log_warn!(Nrt, api, "NRT already closed");
            return Err(Status::Closed);
        }
        let cores = Arc::clone(&self.cores);
        let watch = move |status| {
            if is_fatal(status) {
                cores[usize::from(core)].broken.store(true, Ordering::Release);
            }
        };
        let queue = Queue::start(name.to_string(), depth, watch).map_err(|error| {
            log_error!(Nrt, api, "There is no thread for a queue of lnc {core}: {error}; raise the limit");
            Status::Resource
        })?;
        Ok(place.get_or_init(|| queue))
    }

    /// `nrta_is_completed`: whether everything up to this sequence of its queue is completed.
    ///
    /// # Errors
    /// `Invalid` for an id that was never given out.
    pub fn is_completed(&self, id: u64) -> Result<bool> {
        let given = Sequence::of(id).and_then(|sequence| {
            let core = self.cores.get(usize::from(sequence.core))?;
            let queue = core.queues[sequence.slot.index()].get()?;
            (1..=queue.submitted()).contains(&sequence.number).then(|| sequence.number <= queue.completed())
        });
        given.ok_or_else(|| {
            log_error!(
                Nrt,
                "nrta_is_completed",
                "{id:#x} is no sequence of this runtime; pass one from a schedule call"
            );
            Status::Invalid
        })
    }

    /// `nrta_get_sequence`: the last completed sequence of a queue, with number 0 when there is none.
    ///
    /// # Errors
    /// `Invalid` for a unit, queue or core that is not there.
    pub fn last_completed(&self, core: u32, unit: u32, queue: i32) -> Result<u64> {
        const API: &str = "nrta_get_sequence";
        let unit = u8::try_from(unit).ok().and_then(Unit::from_repr).ok_or_else(|| {
            log_error!(Nrt, API, "There is no XU {unit}; see nrta_xu_t");
            Status::Invalid
        })?;
        let slot = slot(API, unit, queue)?;
        let core = self.core(API, core.into())?;
        let queue = self.cores[usize::from(core)].queues[slot.index()].get();
        Ok(Sequence { core, slot, number: queue.map_or(0, |queue| queue.completed()) }.id())
    }

    /// Accept nothing more, wait until everything accepted is carried out, and end the workers. Not
    /// on a worker ([`on_worker`]).
    pub fn close(&self) {
        *lock(&self.closed) = true;
        let started = || self.cores.iter().flat_map(Core::started);
        started().for_each(|queue| queue.stop());
        started().for_each(|queue| queue.join());
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        self.close();
    }
}
