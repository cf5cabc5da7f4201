//! Firmware mailbox: reset handshake, status and readless requests.

use std::time::Duration;

use crate::fault::Faults;
use crate::regs::misc;
use crate::trace::What;

/// State behind the mailbox words that are not plain storage.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    /// When the acknowledgement of the pending reset is due.
    ack_due: Option<Duration>,
    /// Until when the status is busy after an acknowledgement.
    busy_until: Option<Duration>,
    handshakes: u32,
}

/// A request found in host memory when the doorbell rang.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub sequence: u8,
    pub command: u8,
    pub bytes: u16,
}

impl Request {
    pub(crate) const HEADER: u64 = 8;
    /// Command that reads registers.
    pub(crate) const READ: u8 = 1;

    pub(crate) fn parse(header: [u8; 8]) -> Self {
        Self { sequence: header[0], command: header[1], bytes: u16::from_le_bytes([header[2], header[3]]) }
    }

    /// Registers the request asks for.
    pub(crate) fn registers(self) -> u64 {
        if self.command == Self::READ { u64::from(self.bytes).saturating_sub(Self::HEADER) / 8 } else { 0 }
    }
}

impl Mailbox {
    /// The doorbell rang with a reset pending.
    pub(crate) fn reset_requested(&mut self, now: Duration, faults: &Faults, kind: u32, map: u32) -> What {
        self.handshakes += 1;
        if !faults.never_ack {
            self.ack_due = Some(now + faults.ack_hold);
        }
        What::Handshake { number: self.handshakes, kind, map }
    }

    /// Whether a read of the reset word finds it cleared for the first time.
    pub(crate) fn acknowledges(&mut self, now: Duration, faults: &Faults) -> bool {
        if self.ack_due.is_none_or(|due| now < due) {
            return false;
        }
        self.ack_due = None;
        self.busy_until = Some(now + faults.status_busy_after_ack);
        true
    }

    /// Value of the status word.
    pub(crate) fn status(&mut self, now: Duration, faults: &mut Faults) -> u32 {
        let busy =
            faults.status_stuck || faults.status_busy_reads > 0 || self.busy_until.is_some_and(|until| now < until);
        faults.status_busy_reads = faults.status_busy_reads.saturating_sub(1);
        if busy { misc::STATUS_BUSY } else { 0 }
    }

    /// Gives a held acknowledgement now.
    pub(crate) fn release(&mut self, now: Duration) {
        self.ack_due = self.ack_due.map(|due| due.min(now));
        self.busy_until = None;
    }

    /// Drops an acknowledgement that is being held.
    pub(crate) fn drop_ack(&mut self) {
        self.ack_due = None;
    }

    /// Drops all that is under way.
    pub(crate) fn forget(&mut self) {
        self.ack_due = None;
        self.busy_until = None;
    }

    /// Resets requested since the device was made.
    pub(crate) fn handshakes(&self) -> u32 {
        self.handshakes
    }
}
