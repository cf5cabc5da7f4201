//! What a forked child finds (`facts/runtime/lifecycle.md` section 6).
//!
//! The child handler does nothing but store to atomics: whatever locks other threads of the
//! parent held at the fork stay locked for ever in the child, so no call of the child may need
//! one. The state CHILD keeps every gated call away from them.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use neuron_abi::Status;

use super::state::{self, State};
use crate::{Result, log_error};

/// An `nrt_init` or `nrt_close` is at work in this process.
static BUSY: AtomicBool = AtomicBool::new(false);
/// An `nrt_init` of this process succeeded once; from then on no child can start over.
static USED: AtomicBool = AtomicBool::new(false);

/// Marks a transition of the state as under way for as long as it lives.
pub(super) struct Transition(());

impl Transition {
    pub(super) fn begin() -> Transition {
        BUSY.store(true, Ordering::SeqCst);
        Transition(())
    }
}

impl Drop for Transition {
    fn drop(&mut self) {
        BUSY.store(false, Ordering::SeqCst);
    }
}

pub(super) fn mark_used() {
    USED.store(true, Ordering::SeqCst);
}

extern "C" fn child() {
    if state::state() != State::Start || BUSY.load(Ordering::SeqCst) || USED.load(Ordering::SeqCst) {
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
    static DONE: OnceLock<()> = OnceLock::new();
    if DONE.get().is_some() {
        return Ok(());
    }
    // SAFETY: `child` is a function for the life of the process (the library is linked with
    // -z nodelete) and touches only atomics.
    let ret = unsafe { libc::pthread_atfork(None, None, Some(child)) };
    if ret != 0 {
        log_error!(Nrt, "nrt_init", "Failed to set atfork handlers, ret={ret}");
        return Err(Status::Failure);
    }
    // Two threads may both come here; a handler registered twice does the same thing twice.
    let _ = DONE.set(());
    Ok(())
}
