//! Copies that skip the bounce buffer: the driver pins the client's pages and lets the engine read
//! and write them.
//!
//! The model cannot pin pages of another process. It puts the buffer on the bus for the length of a
//! doorbell instead, so the engine finds out in the middle when a page is not there: other parts of
//! the buffer have been copied then, where the real driver copies nothing.

use std::cell::Cell;

use neuron_abi::kernel::args as a;
use neuron_abi::kernel::ioctl::{Encoding, Op};
use neuron_abi::kernel::values::H2T_DEFAULT_QID;

use neuron_hw::memory::{Piece, Remote, Window};

use super::copies::bounds;
use super::{Chunk, InUse, PAGE};
use crate::caller::UserMemory;
use crate::cdev::Call;
use crate::dhal::Role;
use crate::dma::Span;
use crate::dma::copy::LONGEST;
use crate::reply::{Bug, Errno, Reply, Stop};

/// Bus address of the page that a client's buffer begins in: above all host memory there is.
const WINDOW: u64 = 1 << 40;

/// Largest write that may go through BAR 4, whatever threshold the client gives.
const BAR4_MAX: u64 = 8192;

/// Most batches, and operations of a batch, that one call may name: more cannot be allocated.
const MAX_BATCHES: u32 = 1 << 16;

pub(super) fn ioctl(call: &Call<'_>) -> Reply {
    match call.row.op {
        // Any encoded size is taken as the form of 40 bytes.
        Op::MemBufZerocopy64 => {
            let u = call.copy_in::<a::MemBufCopy64>()?.value;
            let chunk = InUse::of(call, u.mem_handle)?;
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
            let chunk = InUse::of(call, u.mem_handle)?;
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

/// A buffer of the client on the bus.
struct Pinned<'a> {
    memory: &'a dyn UserMemory,
    buffer: u64,
    /// The engine came to a page that is not there.
    missing: Cell<bool>,
}

impl Pinned<'_> {
    /// Counts what was not moved. Nothing moves after a page that is not there.
    fn moved(&self, at: u64, move_to: impl FnOnce(u64) -> usize) -> bool {
        if !self.missing.get() && move_to(self.buffer.wrapping_add(at)) != 0 {
            self.missing.set(true);
        }
        !self.missing.get()
    }
}

impl Remote for Pinned<'_> {
    fn fetch(&self, at: u64, to: Piece<'_>) -> bool {
        self.moved(at, |address| self.memory.fetch(address, to))
    }

    fn store(&self, at: u64, from: Piece<'_>) -> bool {
        self.moved(at, |address| self.memory.store(address, from))
    }
}

fn engine_copy(call: &Call<'_>, chunk: &Chunk, op: Operation, to_device: bool) -> Reply {
    let device = call.device;
    let host = device.dhal.layout().geometry.pci_host_base;
    let mut at = 0;
    while at < op.bytes {
        let bytes = (op.bytes - at).min(LONGEST);
        let buffer = op.buffer.wrapping_add(at);
        let pinned = Pinned { memory: call.memory, buffer, missing: Cell::new(false) };
        let window = Window { address: WINDOW + buffer % PAGE, bytes, memory: &pinned };
        let (client, place) = (host + window.address, chunk.address.wrapping_add(op.offset).wrapping_add(at));
        let (from, to) = if to_device { (client, place) } else { (place, client) };
        device.own().copies.copy_with(device, Span { from, to, bytes }, window)?;
        // Pages that are not there cannot be pinned (measured: not a fault).
        if pinned.missing.get() {
            return Err(Errno::ENOMEM.into());
        }
        at += bytes;
    }
    Ok(0)
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
        let chunk = InUse::of(call, batch.mem_handle)?;
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
