//! Faults a device can be told to show, at any time.

use std::time::Duration;

/// One change of behaviour. Each stays until it is changed again or [`Fault::Clear`] comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Back to normal; an acknowledgement that is being held is given now.
    Clear,
    /// Acknowledge a reset this long after its doorbell.
    AckHold(Duration),
    /// Never acknowledge a reset. Turning it on drops one that is being held.
    NeverAck(bool),
    /// Status stays busy.
    StatusStuck(bool),
    /// Status is busy for so many reads.
    StatusBusyReads(u32),
    /// Status stays busy this long after an acknowledgement.
    StatusBusyAfterAck(Duration),
    /// The routing id is busy for so many reads.
    RoutingIdBusyReads(u32),
    /// The routing id, right or wrong.
    RoutingId(u32),
    /// DMA engines ignore doorbells.
    DmaStuck(bool),
    /// The firmware answers no mailbox request.
    MailboxSilent(bool),
    /// Every register reads as dead.
    DeadRegisters(bool),
    /// A word of the mailbox, bytes from its base.
    MiscRegister {
        /// Offset, a multiple of 4 below 4096.
        offset: u64,
        /// New value.
        value: u32,
    },
    /// Adds uncorrectable errors to a memory channel.
    HbmUncorrectable {
        /// Channel, below 4.
        channel: u32,
        /// Errors to add.
        count: u16,
    },
    /// Takes the memory window away; takes effect at the next probe.
    NoDramBar,
}

/// The faults in force.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults {
    pub ack_hold: Duration,
    pub never_ack: bool,
    pub status_stuck: bool,
    pub status_busy_reads: u32,
    pub status_busy_after_ack: Duration,
    pub routing_id_busy_reads: u32,
    pub dma_stuck: bool,
    pub mailbox_silent: bool,
    pub dead_registers: bool,
}
