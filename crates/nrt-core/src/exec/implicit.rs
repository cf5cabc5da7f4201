//! The implicit asynchronous mode: jobs that a call puts into the queue of their core and does not
//! wait for, and the function that is told how each of them ended (`facts/runtime/tensors.md`
//! section 7).

use std::sync::Arc;

use arc_swap::ArcSwapOption;

use super::{
    Scheduler,
    queue::{Completion, Full, Work, on_worker},
};
use crate::{Result, Status, log_debug, log_error};

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Number of the model.
    pub model: u32,
    /// Logical core, counted in the visible set.
    pub core: u32,
    /// Place in the order of its core, from 1 on.
    pub job: u64,
    /// What it answered.
    pub status: Status,
}

/// Who is told about jobs.
pub trait Callback: Send + Sync {
    /// A job ended. Called once a job, on the worker of its core, in order; the job counts as in
    /// flight until this returns.
    fn report(&self, report: Report);
}

static CALLBACK: ArcSwapOption<Box<dyn Callback>> = ArcSwapOption::const_empty();

/// `nrt_register_async_exec_callback`: tell `callback` about each job from now on, in place of the
/// one before; `None` brings the default back, which logs jobs that fail. Works in every state and
/// outlives `nrt_close`. Does not wait for a report that is being made.
pub fn register(callback: Option<Box<dyn Callback>>) {
    CALLBACK.store(callback.map(Arc::new));
}

fn default(report: Report) {
    let Report { model, core, job, status } = report;
    if status != Status::Success {
        log_error!(
            Nmgr,
            "nrt_execute",
            "Inference completed with err: {}. mode->h_nn={model}, lnc={core}, job {job}",
            status.code()
        );
    }
}

/// The completion of a job.
struct Job {
    model: u32,
    core: u32,
}

impl Completion for Job {
    fn complete(self: Box<Self>, number: u64, status: Status) {
        let report = Report { model: self.model, core: self.core, job: number, status };
        match CALLBACK.load_full() {
            Some(callback) => callback.report(report),
            None => default(report),
        }
    }
}

/// The queues of the implicit mode, when it is on.
#[derive(Clone, Copy)]
pub struct Jobs<'a>(pub(super) &'a Scheduler);

impl Jobs<'_> {
    /// Queue `work` of `model` on logical core `core`; its job id. Waits while the core has as many
    /// jobs in flight as it may (`NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS`).
    ///
    /// # Errors
    /// `Invalid` for a core this process does not have, `ExecUnitUnrecoverable` after a device
    /// failure on it, `Resource` when there is no thread for it, `Closed` while closing, `QueueFull`
    /// in a callback, which would wait for itself.
    pub fn submit(self, api: &'static str, core: u32, model: u32, work: Work) -> Result<u64> {
        let full = if on_worker() { Full::Refuse } else { Full::Wait };
        let at = self.0.usable(api, core.into())?;
        let queue = self.0.jobs_queue(api, at)?;
        queue.push(work, Box::new(Job { model, core }), full).inspect_err(|status| {
            log_debug!(Nrt, api, "the job on lnc {core} is refused: {status}");
        })
    }
}

impl Scheduler {
    /// `nrt_async_drain_queued_execs`: wait until the jobs that were queued on core `vnc` before the
    /// call, and the callbacks about them, are through.
    ///
    /// # Errors
    /// `Invalid` for a core this process does not have, `Failure` inside a callback.
    pub fn drain(&self, vnc: i32) -> Result<()> {
        const API: &str = "nrt_async_drain_queued_execs";
        let core = self.core(API, vnc.into())?;
        if on_worker() {
            log_error!(Nrt, API, "The callback of a job cannot wait for jobs; call {API} on another thread");
            return Err(Status::Failure);
        }
        if let Some(queue) = self.jobs_of(core) {
            queue.drain();
        }
        Ok(())
    }
}
