//! Device and host memory: pools, handles, copies, mappings.
//!
//! | module | content |
//! |---|---|
//! | [`page_pool`], [`pools`] | where memory comes from, chunks, handles |
//! | `info` | allocation and questions about chunks |
//! | `copies` | copies between chunks and with buffers of a client, fills |
//! | `zero_copy` | copies that skip the bounce buffer |
//! | `scrub` | clearing a whole channel |
//! | [`resources`], [`mmap`], [`dmabuf`] | what a client can map, and what it can do with a mapping |
//!
//! Bytes move through [`crate::dma::CopyQueue`]; only host chunks are touched directly.

pub(crate) mod copies;
pub mod dmabuf;
mod info;
pub mod mmap;
pub mod page_pool;
pub mod pools;
pub mod resources;
mod scrub;
mod zero_copy;

use std::sync::Arc;

use neuron_abi::kernel::ioctl::Op;
use neuron_abi::kernel::values::{MAX_DESC_BYTES, MemCategory, MemLifespan, MemLocation};

pub use page_pool::PAGE;
pub use pools::{Chunk, Pools, Request};

use crate::cdev::Call;
use crate::datastore::Datastores;
use crate::device::Device;
use crate::dma::CopyQueue;
use crate::reply::{Errno, Reply, Stop};
use crate::sync::SleepLock;

/// What the driver allocates for itself when it probes a device, and the state that goes with it.
#[derive(Debug)]
pub struct Own {
    /// Datastores of processes.
    pub datastores: Datastores,
    /// Queue of the driver's copies.
    pub copies: CopyQueue,
    /// A page for requests to the firmware.
    pub mailbox: Arc<Chunk>,
    /// Records of what is mapped.
    pub mappings: mmap::Mappings,
    pattern: Pattern,
    scrubs: scrub::Scrubs,
}

/// The host buffer that fills are copied from: as long as the longest descriptor (B029).
#[derive(Debug)]
struct Pattern {
    chunk: Arc<Chunk>,
    busy: SleepLock,
}

impl Own {
    /// Allocates everything.
    ///
    /// # Errors
    /// `ENOMEM` when there is not enough host memory.
    pub fn new(device: &Device) -> Result<Self, Errno> {
        let host = |bytes| alloc(device, &Request::driver(MemLocation::Host, bytes, 0));
        let datastores = Datastores::new(device)?;
        let pattern = Pattern { chunk: host(MAX_DESC_BYTES as u64)?, busy: SleepLock::default() };
        let mailbox = host(PAGE)?;
        let copies = CopyQueue::new(device)?;
        let channels = device.dhal.layout().channels.len();
        Ok(Self {
            datastores,
            copies,
            mailbox,
            mappings: mmap::Mappings::default(),
            pattern,
            scrubs: scrub::Scrubs::new(channels),
        })
    }
}

pub(crate) fn ioctl(call: &Call<'_>) -> Reply {
    use Op::*;
    if call.device.memory.stuck() {
        return Err(Stop::Hung);
    }
    match call.row.op {
        MemAlloc | MemAllocV2 | MemAllocV2mt | MemAllocV2mt64 | MemFree | MemGetPa | MemGetInfo
        | MemGetExtendedInfo | MemMcGetInfo | MemMcGetInfoV2 | DumpMemChunks => info::ioctl(call),
        MemCopy | MemCopy64 | MemBufCopy | MemBufCopy64 | ProgramEngine | ProgramEngineNc | ProgramEngineNc64
        | Memset | Memset64 | MemCopyAsync | MemCopyAsync64 | MemCopyAsyncWait => copies::ioctl(call),
        MemBufZerocopy64 | MemBufZerocopy64Zc | MemBufZerocopy64Batches => zero_copy::ioctl(call),
        HbmScrubStart | HbmScrubWait => scrub::ioctl(call),
        DmabufFd | GetVaPlacement => dmabuf::ioctl(call),
        ResourceMmapInfo => resources::ioctl(call),
        // Rows of development drivers; no profile selects them.
        _ => Err(Errno::EINVAL.into()),
    }
}

/// Allocates memory and books it.
///
/// # Errors
/// `EINVAL` and `ENOMEM` as the pools say.
pub fn alloc(device: &Device, request: &Request) -> Result<Arc<Chunk>, Errno> {
    let chunk = device.memory.alloc(device.silicon.space(), request);
    let chunk = chunk.inspect_err(|errno| log_refusal(device, request, *errno))?;
    book(device, &chunk, 1);
    Ok(chunk)
}

/// Gives up one reference to a chunk; the last one frees and books it.
///
/// # Errors
/// [`Stop::Hung`] where the driver dies with the lock of the pools.
pub fn free(device: &Device, chunk: &Arc<Chunk>) -> Result<(), Stop> {
    if device.memory.stuck() {
        return Err(Stop::Hung);
    }
    if chunk.is_host() && chunk.category == MemCategory::ContiguousScratchpadDevice {
        // Quirk "host-scratchpad-free": it is looked for in a device pool.
        device.memory.leave_stuck();
        return Err(Stop::Hung);
    }
    if let Some(expected) = device.memory.scratchpad_disorder(chunk) {
        let text = format!("nd{}: scratchpad piece {:#x} freed, expected {expected:#x}", device.index, chunk.address);
        device.env.log.line("scratchpad_order", &[&device.index, &chunk.address, &expected], text);
    }
    if device.memory.free(chunk) {
        book(device, chunk, -1);
    }
    Ok(())
}

/// A chunk that bytes are copied from or to. It stays its owner's until that is done, even when the
/// owner is killed in the middle and its memory is given back: the caller of a copy need not be
/// there any more when an engine still works on it.
pub(crate) struct InUse<'a> {
    device: &'a Device,
    chunk: Arc<Chunk>,
}

impl<'a> InUse<'a> {
    /// The chunk behind a handle.
    ///
    /// # Errors
    /// `EINVAL` when there is none.
    pub(crate) fn of(call: &'a Call<'_>, handle: u64) -> Result<Self, Errno> {
        let device: &Device = call.device;
        let chunk = device.memory.chunk(handle).filter(|chunk| device.memory.hold(chunk)).ok_or(Errno::EINVAL)?;
        Ok(Self { device, chunk })
    }
}

impl std::ops::Deref for InUse<'_> {
    type Target = Chunk;

    fn deref(&self) -> &Chunk {
        &self.chunk
    }
}

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        // What `free` looks at and logs was looked at when the owner gave it up.
        if self.device.memory.free(&self.chunk) {
            book(self.device, &self.chunk, -1);
        }
    }
}

/// What the log says of a request there is no room for.
fn log_refusal(device: &Device, request: &Request, errno: Errno) {
    if errno != Errno::ENOMEM {
        return;
    }
    let (n, log) = (device.index, &device.env.log);
    let bytes = request.bytes.div_ceil(PAGE).wrapping_mul(PAGE);
    let fill = device.memory.fill(request.channel);
    if request.location == MemLocation::Host {
        let text = format!("nd{n}: no host memory for {bytes} bytes, {} in use", fill.host);
        return log.line("host_memory_full", &[&fill.host], text);
    }
    let channel = request.channel;
    if request.category == Some(MemCategory::ContiguousScratchpadDevice) {
        let at = fill.scratchpad.wrapping_sub(bytes);
        let text = format!("nd{n}: scratchpad of channel {channel} cannot grow by {bytes} bytes to {at:#x}");
        return log.line("scratchpad_full", &[&n, &channel, &bytes, &at], text);
    }
    let text = format!("nd{n}: no room for {bytes} bytes in channel {channel}, {} of {} in use", fill.used, fill.bytes);
    log.line("device_memory_full", &[&channel, &0, &fill.bytes, &fill.used, &bytes, &fill.main, &fill.small], text);
}

fn book(device: &Device, chunk: &Chunk, sign: i64) {
    let bytes = sign * chunk.bytes as i64;
    device.metrics.memory_changed(chunk.location, chunk.category as u32, chunk.core as usize, bytes);
}

/// Frees the memory of a process and forgets its mappings.
///
/// # Errors
/// As [`free`].
pub(crate) fn release_process(device: &Device, tgid: u32) -> Result<(), Stop> {
    let freed = free_all(device, device.memory.with_lifespan(MemLifespan::CurProcess, Some(tgid)));
    device.own().mappings.forget_process(tgid);
    freed
}

/// Frees the memory that lives until nobody has the device open.
///
/// # Errors
/// As [`free`].
pub(crate) fn release_all_processes(device: &Device) -> Result<(), Stop> {
    free_all(device, device.memory.with_lifespan(MemLifespan::AllProcess, None))
}

fn free_all(device: &Device, chunks: Vec<Arc<Chunk>>) -> Result<(), Stop> {
    chunks.iter().try_for_each(|chunk| free(device, chunk))
}
