//! What the device saw, as a bounded ring of events.

use std::collections::VecDeque;
use std::time::Duration;

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Device time.
    pub at: Duration,
    /// What happened.
    pub what: What,
}

/// Kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// BAR 0 read; recorded only when register tracing is on.
    Read {
        /// BAR 0 offset.
        offset: u64,
        /// Value given.
        value: u32,
    },
    /// BAR 0 write; recorded only when register tracing is on.
    Write {
        /// BAR 0 offset.
        offset: u64,
        /// Value taken.
        value: u32,
    },
    /// Doorbell with a reset request pending.
    Handshake {
        /// Counts from 1 since the device was made.
        number: u32,
        /// 1 device, 2 cores.
        kind: u32,
        /// Core map word at that moment.
        map: u32,
    },
    /// A poll saw the reset word cleared.
    Ack,
    /// Status word read.
    Status(u32),
    /// Routing id read; `None` while busy.
    RoutingId(Option<u32>),
    /// Descriptors processed.
    DmaRun {
        /// Engine id.
        engine: u32,
        /// Queue of the engine.
        queue: u32,
        /// Descriptors.
        descriptors: u32,
        /// Bytes named by the descriptors.
        bytes: u64,
        /// Descriptors that named an address outside the device.
        bad: u32,
    },
    /// Doorbell of a queue without a ring, or of a stuck engine.
    DmaIgnored {
        /// Engine id.
        engine: u32,
        /// Queue of the engine.
        queue: u32,
    },
    /// Mailbox request.
    Request {
        /// Command byte.
        command: u8,
        /// Bytes of the request.
        bytes: u16,
        /// Whether the firmware answered.
        answered: bool,
    },
    /// Semaphore operation.
    Semaphore {
        /// BAR 0 offset.
        offset: u64,
        /// Operand.
        value: u32,
    },
    /// Other write to a core or TopSP window.
    WindowWrite {
        /// BAR 0 offset.
        offset: u64,
        /// Value.
        value: u32,
    },
    /// Other write to the mailbox, outside the posted metrics.
    MiscWrite {
        /// Bytes from the mailbox base.
        offset: u64,
        /// Value.
        value: u32,
    },
}

/// Ring of events: the newest [`Trace::CAPACITY`] are kept.
#[derive(Debug, Default)]
pub struct Trace {
    events: VecDeque<Event>,
    registers: bool,
    dropped: u64,
}

impl Trace {
    /// Events kept.
    pub const CAPACITY: usize = 65_536;

    pub(crate) fn set_registers(&mut self, on: bool) {
        self.registers = on;
    }

    pub(crate) fn push(&mut self, at: Duration, what: What) {
        if matches!(what, What::Read { .. } | What::Write { .. }) && !self.registers {
            return;
        }
        if self.events.len() == Self::CAPACITY {
            self.events.pop_front();
            self.dropped += 1;
        }
        self.events.push_back(Event { at, what });
    }

    pub(crate) fn take(&mut self) -> Vec<Event> {
        self.dropped = 0;
        self.events.drain(..).collect()
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }
}
