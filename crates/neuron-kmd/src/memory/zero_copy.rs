//! Copies that skip the bounce buffer: the driver lets the engine read and write the client's
//! pages. The model has no pages of the client in its device, so it stages them; what a client
//! can see is the same, but for a fault in the middle of a long buffer.

use neuron_abi::kernel::args as a;
use neuron_abi::kernel::ioctl::{Encoding, Op};
use neuron_abi::kernel::values::H2T_DEFAULT_QID;

use super::Chunk;
use super::copies::{bounced, bounds, with_bounce};
use super::info::by_handle;
use crate::cdev::Call;
use crate::dhal::Role;
use crate::reply::{Bug, Errno, Reply, Stop};

/// Largest write that may go through BAR 4, whatever threshold the client gives.
const BAR4_MAX: u64 = 8192;

/// Most batches, and operations of a batch, that one call may name: more cannot be allocated.
const MAX_BATCHES: u32 = 1 << 16;

pub(super) fn ioctl(call: &Call<'_>) -> Reply {
    match call.row.op {
        // Any encoded size is taken as the form of 40 bytes.
        Op::MemBufZerocopy64 => {
            let u = call.copy_in::<a::MemBufCopy64>()?.value;
            let chunk = by_handle(call, u.mem_handle)?;
            bounds(call.device.env.profile, &chunk, u.offset, u.size)?;
            if u.size == 0 {
                let text = "a list of no pages is read".to_owned();
                return Err(Bug { quirk: "zero-copy-of-nothing", text }.into());
            }
            let op = Operation { offset: u.offset, buffer: u.buffer, bytes: u.size };
            engine_copy(call, &chunk, op, u.copy_to_mem_handle != 0)
        }
        Op::MemBufZerocopy64Zc => {
            if Encoding::of(call.cmd).size as usize != a::MemBufCopy64zc::INFO.size {
                return Err(Errno::EINVAL.into());
            }
            let u = call.copy_in::<a::MemBufCopy64zc>()?.value;
            let chunk = by_handle(call, u.mem_handle)?;
            let op = Operation { offset: u.offset, buffer: u.buffer, bytes: u.size };
            one(call, &chunk, op, u.is_copy_to_device != 0, u.bar4_wr_threshold.into(), u.h2t_qid)
        }
        _ => batches(call),
    }
}

/// One range to copy.
#[derive(Clone, Copy)]
struct Operation {
    offset: u64,
    buffer: u64,
    bytes: u64,
}

fn one(call: &Call<'_>, chunk: &Chunk, op: Operation, to_device: bool, threshold: u64, queue: i32) -> Reply {
    let device = call.device;
    bounds(device.env.profile, chunk, op.offset, op.bytes)?;
    let queues = device.dhal.layout().geometry.queues_per_engine as i32;
    if queue != H2T_DEFAULT_QID && !(0..queues).contains(&queue) {
        return Err(Errno::ENOENT.into());
    }
    let words = op.offset.is_multiple_of(4) && op.bytes.is_multiple_of(4);
    if to_device && !chunk.is_host() && words && op.bytes <= threshold.min(BAR4_MAX) {
        return write_through_bar4(call, chunk, op);
    }
    if device.dhal.retries_copies() && !device.env.params.flag("zerocopy_trn1_override") {
        return Err(Errno::EINVAL.into());
    }
    if queue > 0 && !device.dma.is_client_host_queue(chunk.core, queue as u32) {
        return Err(Errno::ENOENT.into());
    }
    engine_copy(call, chunk, op, to_device)
}

fn engine_copy(call: &Call<'_>, chunk: &Chunk, op: Operation, to_device: bool) -> Reply {
    let address = chunk.address.wrapping_add(op.offset);
    let copied =
        with_bounce(call.device, chunk, |bounce| bounced(call, bounce, address, op.buffer, op.bytes, to_device));
    // Pages that are not there cannot be pinned (measured: not a fault).
    copied.map_err(|stop| if matches!(stop, Stop::Uncopied(_)) { Errno::ENOMEM.into() } else { stop })
}

fn write_through_bar4(call: &Call<'_>, chunk: &Chunk, op: Operation) -> Reply {
    let mut data = vec![0; op.bytes as usize];
    call.read(op.buffer, &mut data).map_err(|_| Errno::EFAULT)?;
    let (device, address) = (call.device, chunk.address + op.offset);
    let layout = device.dhal.layout();
    let bar4 = layout.bar4_of(address, layout.geometry.channel_bytes).ok_or(Errno::EINVAL)?;
    let bar = device.dhal.bars().number(Role::Dram)?.ok_or(Errno::EINVAL)?;
    for (at, word) in (bar4..).step_by(4).zip(data.chunks_exact(4)) {
        device.silicon.write32(bar, at, u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
    }
    Ok(0)
}

fn batches(call: &Call<'_>) -> Reply {
    let u = call.copy_in::<a::MemBufCopy64zcBatches>()?.value;
    if u.num_batches == 0 {
        return Err(Errno::EINVAL.into());
    }
    if u.num_batches > MAX_BATCHES {
        return Err(Errno::ENOMEM.into());
    }
    let fault = |_| Stop::from(Errno::EFAULT);
    for i in 0..u64::from(u.num_batches) {
        let at = |base: u64, size: usize, i: u64| base.wrapping_add(i.wrapping_mul(size as u64));
        let batch = call.copy_in_at::<a::MemcpyBatch>(at(u.batches_ptr, a::MemcpyBatch::INFO.size, i));
        let batch = batch.map_err(fault)?.value;
        let chunk = by_handle(call, batch.mem_handle)?;
        if batch.num_ops > MAX_BATCHES {
            return Err(Errno::ENOMEM.into());
        }
        for j in 0..u64::from(batch.num_ops) {
            let op = call.copy_in_at::<a::TensorBatchOp>(at(batch.ops_ptr, a::TensorBatchOp::INFO.size, j));
            let op = op.map_err(fault)?.value;
            let offset = batch.mem_handle_offset.checked_add(op.offset).ok_or(Errno::EINVAL)?;
            let op = Operation { offset, buffer: op.buffer, bytes: op.size };
            one(call, &chunk, op, u.is_copy_to_device != 0, batch.bar4_wr_threshold.into(), u.h2t_qid)?;
        }
    }
    Ok(0)
}
