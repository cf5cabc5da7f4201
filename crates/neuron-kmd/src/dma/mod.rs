//! DMA engines, rings and queues as the driver keeps them.
//!
//! [`engines`] has the state of every engine and what a reset does to it. The driver's own rings,
//! which host copies run on, are set with [`Engines::set_own_ring`].

mod client;
pub mod copy;
pub mod engines;
pub mod h2t;

use std::time::Duration;

use neuron_abi::kernel::ioctl::Op;

use crate::caller::Caller;
use crate::cdev::Call;
use crate::device::Device;
use crate::reply::Reply;
use crate::time::sleep;

pub use copy::{CopyQueue, Span};
pub use engines::{Engines, OwnRing};

/// Time a queue of a process that is gone gets to come to rest.
const SETTLE: Duration = Duration::from_millis(10);

pub(crate) fn ioctl(call: &Call<'_>) -> Reply {
    match call.row.op {
        // The engines were set up by the reset; the argument is not even looked at.
        Op::DmaEngInit => Ok(0),
        Op::DmaEngSetState => client::set_engine_state(call),
        Op::DmaEngGetState => client::engine_state(call),
        Op::DmaQueueInit => client::init(call),
        Op::DmaQueueInitBatch => client::init_batch(call),
        Op::DmaQueueRelease => client::release(call),
        Op::DmaQueueCopyStart => client::start(call),
        Op::DmaAckCompleted => client::acknowledge(call),
        Op::DmaQueueGetState => client::queue_state(call),
        Op::DmaCopyDescriptors | Op::DmaCopyDescriptors64 => client::copy_descriptors(call),
        Op::DmaDescriptorCopyout => client::copy_out_descriptors(call),
        Op::H2tDmaAllocQueues => h2t::alloc(call),
        Op::H2tDmaFreeQueues => h2t::free(call),
        Op::GetAsyncH2tDmaComplQueues => h2t::completion_queues(call),
        _ => Err(call.misrouted()),
    }
}

/// Resets the queues of a process, but not those of host copies, and lets them come to rest.
pub(crate) fn release_process(device: &Device, caller: &Caller) {
    if device.dma.release_process(caller.tgid) {
        sleep(&*device.env.clock, &caller.task, SETTLE);
    }
}
