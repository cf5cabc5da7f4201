//! Commands of clients on engines and queues.

use std::sync::Arc;

use neuron_abi::kernel::args::{
    DmaAckCompleted, DmaCopyDescriptors, DmaCopyDescriptors64, DmaDescriptorCopyout, DmaEngGetState, DmaEngSetState,
    DmaEngState, DmaQueueCopyStart, DmaQueueGetState, DmaQueueInit, DmaQueueInitBatch, DmaQueueRelease, DmaQueueState,
    Wire,
};
use neuron_abi::kernel::ioctl::Op;
use neuron_abi::kernel::values::{DmaQueueType, MAX_DESC_BYTES, MAX_QUEUE_INIT_BATCH};
use neuron_hw::regs::{DEAD, engine};

use super::engines::{DESCRIPTOR_BYTES, Engine, QUEUES, Ring};
use crate::cdev::{Call, User};
use crate::dma::Span;
use crate::memory::Chunk;
use crate::memory::copies::with_bounce;
use crate::profile::Profile;
use crate::quirks;
use crate::reply::{Bug, Errno, Reply, Stop};
use crate::sync::MutexGuard;

/// Ring sizes must be a multiple of this.
const SIZE_STEP: u32 = 16;

/// Smallest ring, descriptors.
const MIN_SIZE: u32 = 32;

/// Descriptors copied at a time.
const PIECE: u64 = MAX_DESC_BYTES as u64 / DESCRIPTOR_BYTES;

/// Largest piece of kernel memory for a copy to a caller.
const MAX_KERNEL_COPY: u64 = 4 << 20;

/// What the driver says of every engine it has set up.
const ENGINE_STATE: DmaEngState =
    DmaEngState { revision_id: 4, max_queues: QUEUES as u32, num_queues: QUEUES as u32, tx_state: 1, rx_state: 1 };

/// Software state of a queue of an engine that was set up.
const QUEUE_ENABLED: u32 = 2;

/// Takes the lock of an engine as most commands do.
fn lock<'a>(call: &'a Call<'_>, id: u32) -> Result<MutexGuard<'a, Engine>, Stop> {
    let state = call.device.dma.slot(id).ok_or(Errno::EINVAL)?.lock();
    if state.stuck { Err(Stop::Hung) } else { Ok(state) }
}

fn missing(id: u32) -> Bug {
    Bug { quirk: "dma-engine-missing", text: format!("DMA engine {id} does not exist") }
}

/// The lock of an engine that is there; without one behind the slot the driver dies holding it.
fn lock_bound<'a>(call: &'a Call<'_>, id: u32) -> Result<MutexGuard<'a, Engine>, Stop> {
    let mut state = lock(call, id)?;
    if call.device.dma.bound(id) {
        return Ok(state);
    }
    state.stuck = true;
    Err(missing(id).into())
}

pub(super) fn engine_state(call: &Call<'_>) -> Reply {
    let user = call.copy_in::<DmaEngGetState>()?.value;
    drop(lock_bound(call, user.eng_id)?);
    call.put(user.state, ENGINE_STATE)
}

pub(super) fn set_engine_state(call: &Call<'_>) -> Reply {
    let user = call.copy_in::<DmaEngSetState>()?.value;
    drop(lock_bound(call, user.eng_id)?);
    // Disable, normal and abort exist; the engines of the model have no use for any of them.
    if !matches!(user.state, 0 | 2 | 3) {
        let text = format!("{} is no state of a DMA engine", user.state);
        call.device.env.log.line("dma_bad_engine_state", &[&user.state], text);
    }
    Ok(0)
}

/// State of a queue from its registers. The driver looks at no lock and at no bound here.
pub(super) fn queue_state(call: &Call<'_>) -> Reply {
    let user = call.copy_in::<DmaQueueGetState>()?.value;
    if !call.device.dma.bound(user.eng_id) {
        return Err(missing(user.eng_id).into());
    }
    if user.qid >= QUEUES as u32 {
        return Err(Errno::EINVAL.into());
    }
    let block = call.device.dma.queue_block(user.eng_id, user.qid).ok_or(Errno::EINVAL)?;
    for (side, to) in [(0, user.tx), (engine::RX, user.rx)] {
        let read = |register| match call.device.regs.read(block + side + register) {
            DEAD => Err(Errno::EIO),
            word => Ok(word),
        };
        let base = u64::from(read(engine::RING_HI)?) << 32 | u64::from(read(engine::RING_LO)?);
        let length = read(engine::RING_LEN)?;
        call.put(to, DmaQueueState { sw_status: QUEUE_ENABLED, base_addr: base, length, ..Default::default() })?;
    }
    Ok(0)
}

pub(super) fn init(call: &Call<'_>) -> Reply {
    let user = call.copy_in::<DmaQueueInit>().map_err(refuse_access)?;
    init_one(call, &user.value)
}

pub(super) fn init_batch(call: &Call<'_>) -> Reply {
    let user: User<DmaQueueInitBatch> = call.copy_in().map_err(refuse_access)?;
    let count = user.value.count as usize;
    if count >= MAX_QUEUE_INIT_BATCH {
        return Err(Errno::E2BIG.into());
    }
    user.value.entries[..count].iter().try_for_each(|entry| init_one(call, entry).map(|_| ()))?;
    Ok(0)
}

/// Unlike other commands these two do not return the uncopied count.
fn refuse_access(stop: Stop) -> Stop {
    match stop {
        Stop::Uncopied(_) => Errno::EACCES.into(),
        other => other,
    }
}

fn init_one(call: &Call<'_>, user: &DmaQueueInit) -> Reply {
    let device = call.device;
    if device.dma.slot(user.eng_id).is_none() || user.qid >= QUEUES as u32 {
        return Err(Errno::EINVAL.into());
    }
    let mut state = lock(call, user.eng_id)?;
    let completions = device.memory.chunk(user.rxc_handle);
    if completions.as_ref().is_some_and(|c| u64::from(user.rx_desc_count) * DESCRIPTOR_BYTES > c.bytes) {
        return Err(Errno::EINVAL.into());
    }
    // Completion rings are not supported; a handle nobody has is as good as none.
    let sizes = [user.tx_desc_count, user.rx_desc_count];
    if completions.is_some() || sizes.iter().any(|size| size % SIZE_STEP != 0) {
        return Err(Errno::EPERM.into());
    }
    if let Some(size) = sizes.into_iter().find(|size| *size < MIN_SIZE) {
        let text = format!("a ring of {size} descriptors is too short for queue {}", user.qid);
        device.env.log.line("dma_ring_too_short", &[&user.qid, &size], text);
        return Err(Errno::EINVAL.into());
    }
    if !device.dma.bound(user.eng_id) {
        return Err(Errno::EINVAL.into());
    }
    let ring = |handle, size| Ring { size, memory: device.memory.chunk(handle), ..Ring::default() };
    let (tx, rx) = (ring(user.tx_handle, sizes[0]), ring(user.rx_handle, sizes[1]));
    let place = |ring: &Ring| (ring.memory.as_ref().map_or(0, |c| c.address), ring.size);
    device.dma.program(&device.regs, user.eng_id, user.qid, place(&tx), place(&rx));
    let queue = &mut state.queues[user.qid as usize];
    queue.owner = call.caller.tgid;
    queue.tx = tx;
    queue.rx = rx;
    Ok(0)
}

/// Gives up a queue. The driver checks nothing and leaves the hardware as it is.
pub(super) fn release(call: &Call<'_>) -> Reply {
    let user = call.copy_in::<DmaQueueRelease>()?.value;
    if let Some(slot) = call.device.dma.slot(user.eng_id)
        && let Some(queue) = slot.lock().queues.get_mut(user.qid as usize)
    {
        queue.owner = 0;
    }
    Ok(0)
}

pub(super) fn start(call: &Call<'_>) -> Reply {
    let user = call.copy_in::<DmaQueueCopyStart>()?.value;
    let device = call.device;
    let mut state = lock(call, user.eng_id)?;
    let block = device.dma.queue_block(user.eng_id, user.qid).ok_or(Errno::EPERM)?;
    let queue = state.queues.get_mut(user.qid as usize).ok_or(Errno::EPERM)?;
    let counts = [user.tx_desc_count, user.rx_desc_count];
    if queue.tx.available() < counts[0] || queue.rx.available() < counts[1] {
        return Err(Errno::EPERM.into());
    }
    if queue.tx.size == 0 || queue.rx.size == 0 {
        if !quirks::has("dma-start-uninitialised", device.env.profile) {
            return Err(Errno::EPERM.into());
        }
        state.stuck = true;
        let text = format!("start of queue {} of DMA engine {}, which was not initialised", user.qid, user.eng_id);
        return Err(Bug { quirk: "dma-start-uninitialised", text }.into());
    }
    queue.tx.advance(counts[0]);
    queue.rx.advance(counts[1]);
    for (side, count) in [(engine::RX, counts[1]), (0, counts[0])] {
        device.regs.write(block + side + engine::TAIL_INC, count);
    }
    Ok(0)
}

pub(super) fn acknowledge(call: &Call<'_>) -> Reply {
    let user = call.copy_in::<DmaAckCompleted>()?.value;
    let mut state = lock(call, user.eng_id)?;
    if !call.device.dma.bound(user.eng_id) {
        return Err(Errno::EINVAL.into());
    }
    let queue = state.queues.get_mut(user.qid as usize).ok_or(Errno::EINVAL)?;
    queue.tx.acknowledge(user.count);
    queue.rx.acknowledge(user.count);
    Ok(0)
}

/// What `DMA_COPY_DESCRIPTORS` says in either of its forms.
struct Descriptors {
    handle: u64,
    buffer: u64,
    count: u64,
    offset: u64,
    queue_type: u32,
}

pub(super) fn copy_descriptors(call: &Call<'_>) -> Reply {
    let user = if call.row.op == Op::DmaCopyDescriptors64 {
        let u = call.copy_in::<DmaCopyDescriptors64>()?.value;
        Descriptors {
            handle: u.mem_handle,
            buffer: u.buffer,
            count: u.num_descs.into(),
            offset: u.offset,
            queue_type: u.queue_type,
        }
    } else {
        let u = call.copy_in::<DmaCopyDescriptors>()?.value;
        Descriptors {
            handle: u.mem_handle,
            buffer: u.buffer,
            count: u.num_descs.into(),
            offset: u.offset.into(),
            queue_type: u.queue_type,
        }
    };
    let device = call.device;
    let chunk = device.memory.chunk(user.handle).ok_or(Errno::EINVAL)?;
    let bytes = user.count * DESCRIPTOR_BYTES;
    let end = match user.offset.checked_add(bytes) {
        // Quirk "wrapping-bounds": the sum is looked at after it has wrapped.
        None if device.env.profile == Profile::V2_24_7 => user.offset.wrapping_add(bytes),
        None => return Err(Errno::EINVAL.into()),
        Some(end) => end,
    };
    if end > chunk.bytes {
        return Err(Errno::EINVAL.into());
    }
    for first in (0..user.count).step_by(PIECE as usize) {
        let count = PIECE.min(user.count - first);
        let mut data = vec![0; (count * DESCRIPTOR_BYTES) as usize];
        let at = first * DESCRIPTOR_BYTES;
        call.read(user.buffer.wrapping_add(at), &mut data)?;
        if !matches!(DmaQueueType::from_raw(user.queue_type), Some(DmaQueueType::Tx | DmaQueueType::Rx)) {
            return Err(Errno::EPERM.into());
        }
        data.chunks_exact(DESCRIPTOR_BYTES as usize).try_for_each(|d| check_address(call, u64::get(&d[8..])))?;
        let to = chunk.address.wrapping_add(user.offset).wrapping_add(at);
        move_bytes(call, &chunk, to, &mut data, true)?;
    }
    Ok(0)
}

/// Writes or reads at most 64 KiB of a ring: host memory directly, device memory by a copy.
fn move_bytes(call: &Call<'_>, chunk: &Chunk, address: u64, data: &mut [u8], write: bool) -> Result<(), Stop> {
    let (device, space) = (call.device, call.device.silicon.space());
    let bytes = data.len() as u64;
    // A wrapped offset may lie outside of all memory; the driver then goes who knows where.
    if chunk.is_host() {
        let _ = if write { space.write(address, data) } else { space.read(address, data) };
        return Ok(());
    }
    with_bounce(device, chunk, |bounce| {
        let copy = |from, to| device.own().copies.copy(device, Span { from, to, bytes });
        if write {
            space.write(bounce.address, data).map_err(|_| Errno::ENOMEM)?;
            return copy(bounce.address, address);
        }
        copy(address, bounce.address)?;
        space.read(bounce.address, data).map_err(|_| Errno::ENOMEM.into())
    })
}

/// Looks at the address of a descriptor, on the generations that do.
fn check_address(call: &Call<'_>, address: u64) -> Result<(), Errno> {
    let device = call.device;
    if !device.dhal.checks_descriptors() {
        return Ok(());
    }
    let layout = device.dhal.layout();
    let inside = |base: u64, bytes: u64| address.checked_sub(base).is_some_and(|at| at < bytes);
    let known = if address & layout.geometry.pci_host_base != 0 {
        device.memory.at(address).is_some_and(|c| c.is_host())
    } else {
        layout.channels.iter().any(|c| inside(c.address, layout.geometry.channel_bytes))
            || std::iter::once(&layout.cores).chain(layout.topsps).any(|w| inside(w.address, w.bytes))
    };
    if known { Ok(()) } else { Err(Errno::EINVAL) }
}

pub(super) fn copy_out_descriptors(call: &Call<'_>) -> Reply {
    let user = call.copy_in::<DmaDescriptorCopyout>()?.value;
    let device = call.device;
    if user.count == 0 {
        return Err(Errno::EINVAL.into());
    }
    let ring = {
        let state = lock(call, user.eng_id)?;
        if !device.dma.bound(user.eng_id) {
            return Err(Errno::EINVAL.into());
        }
        let queue = state.queues.get(user.qid as usize).ok_or(Errno::EINVAL)?;
        match DmaQueueType::from_raw(user.r#type) {
            Some(DmaQueueType::Tx) => queue.tx.clone(),
            Some(DmaQueueType::Rx) => queue.rx.clone(),
            _ => return Err(Errno::EINVAL.into()),
        }
    };
    let (first, count) = (u64::from(user.start_index), u64::from(user.count));
    if first + count > ring.size.into() {
        let text = format!("{count} descriptors from {first} are beyond a ring of {}", ring.size);
        device.env.log.line("dma_copyout_range", &[&count, &ring.size], text);
        return Err(Errno::EFBIG.into());
    }
    let chunk: Arc<Chunk> = ring.memory.ok_or(Errno::EINVAL)?;
    let bytes = count * DESCRIPTOR_BYTES;
    if bytes > MAX_KERNEL_COPY {
        return Err(Errno::ENOMEM.into());
    }
    let mut data = vec![0; bytes as usize];
    // Quirk "copyout-start-ignored": the first index only counts against the end of the ring.
    for (at, piece) in (0..).step_by(MAX_DESC_BYTES).zip(data.chunks_mut(MAX_DESC_BYTES)) {
        move_bytes(call, &chunk, chunk.address + at, piece, false)?;
    }
    call.write(user.buffer, &data)
}
