//! What a forked child finds (`facts/runtime/lifecycle.md` section 6).
//!
//! The child handler does nothing but store to atomics: whatever locks other threads of the
//! parent held at the fork stay locked for ever in the child, so no call of the child may need
//! one. The state CHILD keeps every gated call away from them.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use neuron_abi::Status;
use parking_lot::{Mutex, MutexGuard};

use super::state::{self, State};
use crate::{Result, log_error};

/// Threads that are in, or wait for, an `nrt_init` or `nrt_close`.
static BUSY: AtomicU32 = AtomicU32::new(0);
/// An `nrt_init` of this process succeeded once; from then on no child can start over.
static USED: AtomicBool = AtomicBool::new(false);
/// Serialises `nrt_init` and `nrt_close`. Taken and given back only while the thread counts as
/// busy, so a child that may go on never finds it taken.
static LOCK: Mutex<()> = Mutex::new(());

/// The turn of one thread to change the state.
pub(super) struct Transition {
    // Given back before the count goes down: fields drop after `Drop::drop`, hence the option.
    lock: Option<MutexGuard<'static, ()>>,
}

impl Transition {
    /// Wait for the turn.
    pub(super) fn begin() -> Transition {
        BUSY.fetch_add(1, Ordering::SeqCst);
        Transition { lock: Some(LOCK.lock()) }
    }
}

impl Drop for Transition {
    fn drop(&mut self) {
        drop(self.lock.take());
        BUSY.fetch_sub(1, Ordering::SeqCst);
    }
}

pub(super) fn mark_used() {
    USED.store(true, Ordering::SeqCst);
}

extern "C" fn child() {
    if state::state() != State::Start || BUSY.load(Ordering::SeqCst) != 0 || USED.load(Ordering::SeqCst) {
        state::set(State::Child);
    }
}

/// Register the handler, once per process.
///
/// It is registered before the first `nrt_init` touches anything, where the vendor's library does
/// it near the end: a child forked while `nrt_init` is half done must not find START and wait for
/// a lock nobody will release.
///
/// # Errors
/// `Failure` when the C library refuses the registration; tried again by the next `nrt_init`.
pub(super) fn register() -> Result<()> {
    // Not a `Once`, for which a child forked in the middle would wait for ever. Two threads may
    // both come here; a handler registered twice does the same thing twice.
    static DONE: AtomicBool = AtomicBool::new(false);
    if DONE.load(Ordering::Acquire) {
        return Ok(());
    }
    // SAFETY: `child` is a function for the life of the process (the library is linked with
    // -z nodelete) and touches only atomics.
    let ret = unsafe { libc::pthread_atfork(None, None, Some(child)) };
    if ret != 0 {
        log_error!(Nrt, "nrt_init", "Failed to set atfork handlers, ret={ret}");
        return Err(Status::Failure);
    }
    DONE.store(true, Ordering::Release);
    Ok(())
}
