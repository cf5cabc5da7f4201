//! Waiting until a tensor was completed as an output often enough.

use std::{
    sync::{Condvar, Mutex, PoisonError, atomic::Ordering},
    time::Duration,
};

use super::{Tensor, TensorRef};
use crate::{
    Result, Status,
    forked::{ForkLocal, lock},
    log_error, log_warn,
};

/// How often a wait says that it still waits.
const HEARTBEAT: Duration = Duration::from_secs(30);

/// Rung at every completion of any tensor. A forked child has its own: a thread of the parent may
/// have held the lock.
static BELL: ForkLocal<Bell> = ForkLocal::new();

/// Counts rounds; whoever waits for the next one misses none.
#[derive(Default)]
pub struct Bell {
    rounds: Mutex<u64>,
    rung: Condvar,
}

impl Bell {
    /// The present round.
    pub fn round(&self) -> u64 {
        *lock(&self.rounds)
    }

    /// Begin the next round.
    pub fn ring(&self) {
        *lock(&self.rounds) += 1;
        self.rung.notify_all();
    }
}

/// Time, so that no test has to let it pass.
pub trait Clock {
    /// Time since some fixed moment.
    fn now(&self) -> Duration;
    /// Wait until `bell` has left `round`, at most for `limit`.
    fn wait(&self, bell: &Bell, round: u64, limit: Duration);
}

/// The machine's clock.
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        // Not through a lazy start: a child forked while another thread sets it would wait for ever.
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: writes to a live local. This clock exists on every Linux, so the call succeeds.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
        Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
    }

    fn wait(&self, bell: &Bell, round: u64, limit: Duration) {
        let rounds = lock(&bell.rounds);
        let waited = bell.rung.wait_timeout_while(rounds, limit, |now| *now == round);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

/// `nrt_tensor_check_output_completion`: wait until the tensor was completed `expected` times.
/// `timeout` is in microseconds, negative waits for ever. NRT_INVALID for handle 0, NRT_TIMEOUT
/// when the time is over. No state gate (`facts/runtime/tensors.md` section 4).
pub fn check_output_completion(handle: usize, timeout: i64, expected: u64) -> Result<()> {
    let tensor = given("nrt_tensor_check_output_completion", handle)?;
    wait_for(&tensor, timeout, expected, &SystemClock)
}

/// `nrt_tensor_reset_output_completion`: count from 0 again. NRT_INVALID for handle 0.
pub fn reset_output_completion(handle: usize) -> Result<()> {
    let tensor = given("nrt_tensor_reset_output_completion", handle)?;
    tensor.view.output_completion_count.0.store(0, Ordering::Release);
    Ok(())
}

fn given(api: &'static str, handle: usize) -> Result<TensorRef> {
    if handle == 0 {
        log_error!(Nrt, api, "The given tensor is null. Please provide valid function arguments.");
        return Err(Status::Invalid);
    }
    super::resolve(api, handle)
}

impl Tensor {
    /// The tensor was written as an output once more.
    pub fn complete_output(&self) {
        self.view.output_completion_count.0.fetch_add(1, Ordering::Release);
        BELL.get().ring();
    }

    /// How often it was.
    pub fn output_completions(&self) -> u64 {
        self.view.output_completion_count.0.load(Ordering::Acquire)
    }
}

/// The wait itself, on any clock.
pub fn wait_for(tensor: &Tensor, timeout: i64, expected: u64, clock: &dyn Clock) -> Result<()> {
    if tensor.output_completions() >= expected {
        return Ok(());
    }
    let bell = BELL.get();
    let start = clock.now();
    // No clock reaches a moment that has no number: that is for ever, too.
    let end = u64::try_from(timeout).ok().and_then(|us| start.checked_add(Duration::from_micros(us)));
    let mut beat = start + HEARTBEAT;
    loop {
        let round = bell.round();
        if tensor.output_completions() >= expected {
            return Ok(());
        }
        let now = clock.now();
        if end.is_some_and(|end| now >= end) {
            return Err(Status::Timeout);
        }
        if now >= beat {
            log_warn!(
                Nrt,
                "nrt_tensor_check_output_completion",
                "Still waiting for tensor {} after {} s: completed {} of {expected} times",
                tensor.name(),
                (now - start).as_secs(),
                tensor.output_completions()
            );
            beat = now + HEARTBEAT;
        }
        clock.wait(bell, round, end.map_or(beat, |end| end.min(beat)) - now);
    }
}

/// Run `body` while another holder of the bell's lock seems to be at work.
#[cfg(test)]
pub(super) fn with_bell_locked<T>(body: impl FnOnce() -> T) -> T {
    let bell = BELL.get();
    let _held = lock(&bell.rounds);
    body()
}
