//! The state word and the gate every call passes (`facts/runtime/lifecycle.md` section 1).
//!
//! One atomic word, read without a lock, so that a forked child of a multithreaded process can
//! always find out where it stands.

use std::sync::atomic::{AtomicU32, Ordering};

use neuron_abi::Status;

use crate::{Result, log_error, log_warn};

/// Where the runtime of this process stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::FromRepr, strum::IntoStaticStr, strum::EnumIter)]
#[repr(u32)]
pub enum State {
    /// Not initialised: at load, after a failed `nrt_init`, after `nrt_close`.
    #[strum(serialize = "NRT_STATE_START")]
    Start = 0,
    /// `nrt_init` succeeded.
    #[strum(serialize = "NRT_STATE_INIT")]
    Init = 1,
    /// Forked from a process that had used the runtime. Never left.
    #[strum(serialize = "NRT_STATE_CHILD")]
    Child = 2,
    /// `nrt_close` is at work.
    #[strum(serialize = "NRT_STATE_CLOSED")]
    Closed = 3,
}

impl State {
    /// The name as logs spell it.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// What a public call asks of the state (`abi/symbols.tsv`, column `gate`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumIter)]
pub enum GateClass {
    /// Works in every state, or checks it itself (`nrt_init`, `nrt_close`).
    Any,
    /// Works after `nrt_init` only: 13 before, 14 while closing, 1 in a forked child.
    InitRequired,
    /// Does nothing outside INIT, and has no status to say so.
    InitProbe,
    /// Only before `nrt_init`: 2 after it.
    BeforeInit,
}

static STATE: AtomicU32 = AtomicU32::new(State::Start as u32);

/// The state now.
pub fn state() -> State {
    State::from_repr(STATE.load(Ordering::Acquire)).unwrap_or(State::Start)
}

pub(super) fn set(state: State) {
    STATE.store(state as u32, Ordering::Release);
}

/// The rule of `class` in `state`, without a log line.
pub const fn decide(class: GateClass, state: State) -> Result<()> {
    match (class, state) {
        (GateClass::Any, _) => Ok(()),
        (GateClass::BeforeInit, State::Start) => Ok(()),
        (GateClass::BeforeInit, State::Init) => Err(Status::Invalid),
        (_, State::Init) => Ok(()),
        (_, State::Start) => Err(Status::Uninitialized),
        (_, State::Closed) => Err(Status::Closed),
        (_, State::Child) => Err(Status::Failure),
    }
}

/// Let call `api` through or say why not. The line of the refusal is logged here.
///
/// # Errors
/// `Uninitialized`, `Closed`, `Failure` (forked child) or, for a call that must come before
/// `nrt_init`, `Invalid`.
pub fn gate(api: &'static str, class: GateClass) -> Result<()> {
    let state = state();
    let Err(status) = decide(class, state) else { return Ok(()) };
    match (class, status) {
        (GateClass::InitProbe, _) => log_error!(Nrt, api, "Unexpected runtime state: {}", state.name()),
        (GateClass::BeforeInit, Status::Invalid) => {
            log_error!(Nrt, api, "{api} must be called before nrt_init, call nrt_close first")
        }
        (_, Status::Uninitialized) => log_error!(Nrt, api, "NRT uninitialized"),
        (_, Status::Closed) => log_warn!(Nrt, api, "NRT already closed"),
        _ => log_error!(Nrt, api, "Incompatible runtime state: {}", state.name()),
    }
    Err(status)
}

#[cfg(test)]
mod tests {
    use super::*;
    use strum::IntoEnumIterator;

    #[test]
    fn gate_answers_by_state() {
        use GateClass::*;
        let ok = Ok(());
        let e = Err::<(), Status>;
        for (class, start, init, child, closed) in [
            (Any, ok, ok, ok, ok),
            (InitRequired, e(Status::Uninitialized), ok, e(Status::Failure), e(Status::Closed)),
            (InitProbe, e(Status::Uninitialized), ok, e(Status::Failure), e(Status::Closed)),
            (BeforeInit, ok, e(Status::Invalid), e(Status::Failure), e(Status::Closed)),
        ] {
            assert_eq!(decide(class, State::Start), start, "{class:?}");
            assert_eq!(decide(class, State::Init), init, "{class:?}");
            assert_eq!(decide(class, State::Child), child, "{class:?}");
            assert_eq!(decide(class, State::Closed), closed, "{class:?}");
        }
        assert_eq!(GateClass::iter().count(), 4, "a new class needs a row above");
    }

    #[test]
    fn state_names_are_the_vendors() {
        assert_eq!(State::Start.name(), "NRT_STATE_START");
        assert_eq!(State::Init.name(), "NRT_STATE_INIT");
        assert_eq!(State::Child.name(), "NRT_STATE_CHILD");
        assert_eq!(State::Closed.name(), "NRT_STATE_CLOSED");
    }
}
