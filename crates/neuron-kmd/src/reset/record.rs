//! What resets of a device leave behind besides their results.

use std::time::Duration;

use neuron_abi::kernel::values::PodElectionState;

use crate::sync::Mutex;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct State {
    accepted: u64,
    last_accepted: Option<Duration>,
    deadlines: u64,
    hbm_7200: Option<bool>,
    election: Option<PodElectionState>,
}

/// Metrics of the handshake, which the driver posts to the firmware and shows nowhere, and what
/// the post-reset configuration found out.
#[derive(Debug, Default)]
pub struct Record(Mutex<State>);

impl Record {
    /// The firmware accepted a reset after this long.
    pub fn accepted(&self, after: Duration) {
        let mut state = self.0.lock();
        state.accepted += 1;
        state.last_accepted = Some(after);
    }

    /// The firmware did not accept a reset in time. This is the device metric; it is not the
    /// failure counter of the cores.
    pub fn deadline(&self) {
        self.0.lock().deadlines += 1;
    }

    /// Whether the memory is of the faster kind, as far as a reset has found out.
    pub fn found_hbm_7200(&self, capable: bool) {
        self.0.lock().hbm_7200 = Some(capable);
    }

    /// A pod election came to this.
    pub fn elected(&self, state: PodElectionState) {
        self.0.lock().election = Some(state);
    }

    /// Accepted resets.
    pub fn accepted_count(&self) -> u64 {
        self.0.lock().accepted
    }

    /// How long the last accepted one took.
    pub fn last_accepted(&self) -> Option<Duration> {
        self.0.lock().last_accepted
    }

    /// Handshakes that ran into their deadline.
    pub fn deadlines(&self) -> u64 {
        self.0.lock().deadlines
    }

    /// Whether the memory is of the faster kind; `None` until a whole-device reset has been
    /// through, and on releases that do not look.
    pub fn hbm_7200(&self) -> Option<bool> {
        self.0.lock().hbm_7200
    }

    /// Result of the last pod election; `None` before the first and outside of a pod.
    pub fn election(&self) -> Option<PodElectionState> {
        self.0.lock().election
    }
}
