//! Copies between chunks and with buffers of a client, and fills.

use neuron_abi::kernel::args as a;
use neuron_abi::kernel::ioctl::Op;
use neuron_abi::kernel::values::{H2T_CONTEXTS, H2tContext, MemLifespan, MemLocation};

use super::info::by_handle;
use super::{Chunk, InUse, Request, alloc, free};
use crate::cdev::Call;
use crate::device::Device;
use crate::dma::Span;
use crate::dma::copy::{PIECE, SYNC};
use crate::profile::Profile;
use crate::quirks;
use crate::reply::{Errno, Reply, Stop};

pub(super) fn ioctl(call: &Call<'_>) -> Reply {
    match call.row.op {
        Op::MemCopy => {
            let u = call.copy_in::<a::MemCopy>()?.value;
            let (from, to) = ((u.src_mem_handle, u.src_offset.into()), (u.dst_mem_handle, u.dst_offset.into()));
            copy(call, from, to, u.size.into())
        }
        Op::MemCopy64 => {
            let u = call.copy_in::<a::MemCopy64>()?.value;
            copy(call, (u.src_mem_handle, u.src_offset), (u.dst_mem_handle, u.dst_offset), u.size)
        }
        Op::MemCopyAsync => {
            let mut user = call.copy_in::<a::MemCopyAsync>()?;
            let u = &mut user.value;
            let (from, to) = ((u.src_mem_handle, u.src_offset.into()), (u.dst_mem_handle, u.dst_offset.into()));
            u.wait_handle = copy_async(call, from, to, u.size.into(), u.pwait_handle)?;
            call.copy_out(user)
        }
        Op::MemCopyAsync64 => {
            let mut user = call.copy_in::<a::MemCopyAsync64>()?;
            let u = &mut user.value;
            let (from, to) = ((u.src_mem_handle, u.src_offset), (u.dst_mem_handle, u.dst_offset));
            u.wait_handle = copy_async(call, from, to, u.size, u.pwait_handle)?;
            call.copy_out(user)
        }
        Op::MemCopyAsyncWait => {
            let u = call.copy_in::<a::MemCopyAsyncWait>()?.value;
            by_handle(call, u.src_mem_handle)?;
            by_handle(call, u.dst_mem_handle)?;
            let context = usize::try_from(u.pwait_handle).ok().filter(|c| (1..H2T_CONTEXTS).contains(c));
            call.device.own().copies.wait(call.device, context.ok_or(Errno::EINVAL)?)?;
            Ok(0)
        }
        Op::MemBufCopy => {
            let u = call.copy_in::<a::MemBufCopy>()?.value;
            buffer_copy(call, u.mem_handle, u.offset.into(), u.buffer, u.size.into(), u.copy_to_mem_handle != 0)
        }
        Op::MemBufCopy64 => {
            let u = call.copy_in::<a::MemBufCopy64>()?.value;
            buffer_copy(call, u.mem_handle, u.offset, u.buffer, u.size, u.copy_to_mem_handle != 0)
        }
        Op::Memset => {
            let u = call.copy_in::<a::Memset>()?.value;
            fill(call, u.mem_handle, u.offset, u.value, u.size.into())
        }
        Op::Memset64 => {
            let u = call.copy_in::<a::Memset64>()?.value;
            fill(call, u.mem_handle, u.offset, u.value, u.size)
        }
        Op::ProgramEngine => {
            let u = call.copy_in::<a::ProgramEngine>()?.value;
            program(call, u.dst, u.buffer, u.offset.into(), u.size.into())
        }
        Op::ProgramEngineNc => {
            let u = call.copy_in::<a::ProgramEngineNc>()?.value;
            program(call, u.dst, u.buffer, u.offset.into(), u.size.into())
        }
        _ => {
            let u = call.copy_in::<a::ProgramEngineNc64>()?.value;
            program(call, u.dst, u.buffer, u.offset, u.size)
        }
    }
}

/// Tests a range against its chunk. The oldest release adds without looking for a carry: quirk
/// "wrapping-bounds".
pub(super) fn bounds(profile: Profile, chunk: &Chunk, offset: u64, bytes: u64) -> Result<(), Errno> {
    let end = if quirks::has("wrapping-bounds", profile) {
        Some(offset.wrapping_add(bytes))
    } else {
        offset.checked_add(bytes)
    };
    if end.is_some_and(|end| end <= chunk.bytes) { Ok(()) } else { Err(Errno::EINVAL) }
}

/// A length that passed the wrapped test and is more than the device has: the driver is busy
/// with it for as long as anybody will wait.
fn endless(device: &Device, bytes: u64) -> Result<(), Stop> {
    let layout = device.dhal.layout();
    if bytes > device.channel_bytes() * layout.channels.len() as u64 { Err(Stop::Hung) } else { Ok(()) }
}

/// A range of one chunk and one of another, with the chunks.
fn span<'a>(call: &'a Call<'_>, from: (u64, u64), to: (u64, u64), bytes: u64) -> Result<(Span, [InUse<'a>; 2]), Stop> {
    let (source, target) = (InUse::of(call, from.0)?, InUse::of(call, to.0)?);
    bounds(call.device.env.profile, &source, from.1, bytes)?;
    bounds(call.device.env.profile, &target, to.1, bytes)?;
    endless(call.device, bytes)?;
    let span = Span { from: source.address.wrapping_add(from.1), to: target.address.wrapping_add(to.1), bytes };
    Ok((span, [source, target]))
}

fn copy(call: &Call<'_>, from: (u64, u64), to: (u64, u64), bytes: u64) -> Reply {
    let (span, _chunks) = span(call, from, to, bytes)?;
    call.device.own().copies.copy(call.device, span)?;
    Ok(0)
}

/// Starts a copy after the one before it; gives the handle to wait with.
fn copy_async(call: &Call<'_>, from: (u64, u64), to: (u64, u64), bytes: u64, after: u32) -> Result<u32, Stop> {
    let (span, _chunks) = span(call, from, to, bytes)?;
    let copies = &call.device.own().copies;
    let next = match H2tContext::from_raw(after as i32) {
        Some(H2tContext::None) => H2tContext::Async1,
        Some(H2tContext::Sync) => {
            copies.copy(call.device, span)?;
            return Ok(SYNC as u32);
        }
        Some(H2tContext::Async1) => H2tContext::Async2,
        Some(H2tContext::Async2) => H2tContext::Async1,
        None => return Err(Errno::EINVAL.into()),
    };
    if after != H2tContext::None as u32 {
        copies.wait(call.device, after as usize)?;
    }
    copies.start(call.device, next as usize, span)?;
    Ok(next as u32)
}

/// End of the addresses a process can have.
const USER_END: u64 = 1 << 56;

/// Copies between a chunk and a buffer of the caller.
fn buffer_copy(call: &Call<'_>, handle: u64, offset: u64, buffer: u64, bytes: u64, to_chunk: bool) -> Reply {
    let device = call.device;
    let chunk = InUse::of(call, handle)?;
    bounds(device.env.profile, &chunk, offset, bytes)?;
    let address = chunk.address.wrapping_add(offset);
    if chunk.is_host() {
        return host_copy(call, address, buffer, bytes, to_chunk);
    }
    // The loop counts in 32 bits.
    with_bounce(device, &chunk, |bounce| bounced(call, bounce, address, buffer, (bytes as u32).into(), to_chunk))
}

/// Host memory: the driver copies itself. The result is the uncopied count cut to an `int`, so
/// huge sizes come out as errors.
fn host_copy(call: &Call<'_>, address: u64, buffer: u64, bytes: u64, to_chunk: bool) -> Reply {
    let cut = |left: u64| match left as u32 as i32 {
        0 => Ok(0),
        left if left > 0 => Err(Stop::Uncopied(left as usize)),
        left => Err(Stop::Errno(Errno(left.wrapping_neg()))),
    };
    if buffer.checked_add(bytes).is_none_or(|end| end > USER_END) {
        return cut(bytes);
    }
    let space = call.device.silicon.space();
    let mut at = 0;
    while at < bytes {
        let now = (bytes - at).min(PIECE);
        let left = match space.piece(address.wrapping_add(at), now) {
            Ok(piece) if to_chunk => call.memory.fetch(buffer + at, piece),
            Ok(piece) => call.memory.store(buffer + at, piece),
            // A wrapped range that leaves the host memory of the model goes nowhere.
            Err(_) if to_chunk => call.memory.read(buffer + at, &mut vec![0; now as usize]),
            Err(_) => call.memory.write(buffer + at, &vec![0; now as usize]),
        };
        if left != 0 {
            return cut(bytes - at - now + left as u64);
        }
        at += now;
    }
    Ok(0)
}

/// Runs something with a bounce buffer of one descriptor, booked on the core of a chunk.
pub(crate) fn with_bounce<T>(
    device: &Device,
    chunk: &Chunk,
    work: impl FnOnce(&Chunk) -> Result<T, Stop>,
) -> Result<T, Stop> {
    let request = Request::driver(MemLocation::Host, PIECE, chunk.core);
    let bounce = alloc(device, &Request { lifespan: MemLifespan::Local, ..request })?;
    let result = work(&bounce);
    free(device, &bounce)?;
    result
}

/// Copies through a bounce buffer, piece by piece.
fn bounced(call: &Call<'_>, bounce: &Chunk, address: u64, buffer: u64, bytes: u64, to_device: bool) -> Reply {
    let device = call.device;
    let mut at = 0;
    while at < bytes {
        let now = (bytes - at).min(PIECE);
        let (place, user) = (address.wrapping_add(at), buffer.wrapping_add(at));
        let piece = device.silicon.space().piece(bounce.address, now).map_err(|_| Errno::ENOMEM)?;
        if to_device {
            call.fetch(user, piece)?;
            device.own().copies.copy(device, Span { from: bounce.address, to: place, bytes: now })?;
        } else {
            device.own().copies.copy(device, Span { from: place, to: bounce.address, bytes: now })?;
            call.store(user, piece)?;
        }
        at += now;
    }
    Ok(0)
}

/// Fills a range with the low byte of a value.
///
/// The pattern buffer is filled as far as the range is long and copied there once; the rest is
/// copied from the range itself, which the order of descriptors allows.
fn fill(call: &Call<'_>, handle: u64, offset: u64, value: u32, bytes: u64) -> Reply {
    let device = call.device;
    let chunk = InUse::of(call, handle)?;
    bounds(device.env.profile, &chunk, offset, bytes)?;
    endless(device, bytes)?;
    let own = device.own();
    let _busy = own.pattern.busy.lock(&*device.env.clock);
    let (pattern, to) = (own.pattern.chunk.address, chunk.address.wrapping_add(offset));
    let first = bytes.min(PIECE);
    // Quirk "empty-copy": size 0 copies 64 KiB of an older pattern.
    device.silicon.space().fill(pattern, first, value as u8).map_err(|_| Errno::ENOMEM)?;
    own.copies.copy(device, Span { from: pattern, to, bytes: first })?;
    if bytes > first {
        own.copies.copy(device, Span { from: to, to: to.wrapping_add(first), bytes: bytes - first })?;
    }
    Ok(0)
}

/// Copies a buffer of the caller to an address inside a core or TopSP window, or in device memory
/// where the generation takes that.
fn program(call: &Call<'_>, target: u64, buffer: u64, offset: u64, bytes: u64) -> Reply {
    let device = call.device;
    let layout = device.dhal.layout();
    let address = target.wrapping_add(offset);
    let fits = |base: u64, size: u64| {
        let room = address.checked_sub(base).and_then(|at| size.checked_sub(at));
        room.is_some_and(|room| bytes <= room)
    };
    let windows = std::iter::once(&layout.cores).chain(layout.topsps).any(|w| fits(w.address, w.bytes));
    let channels = || layout.channels.iter().any(|c| fits(c.address, layout.geometry.channel_bytes));
    if !(windows || device.dhal.programs_memory() && channels()) {
        return Err(Errno::ENOMEM.into());
    }
    // The bounce buffer is as long as what it carries, and so neither empty nor above 4 MiB.
    let request = Request { lifespan: MemLifespan::Local, ..Request::driver(MemLocation::Host, bytes, 0) };
    let bounce = alloc(device, &request)?;
    let programmed = program_through(call, &bounce, address, buffer.wrapping_add(offset), bytes);
    free(device, &bounce)?;
    programmed
}

fn program_through(call: &Call<'_>, bounce: &Chunk, address: u64, buffer: u64, bytes: u64) -> Reply {
    let mut data = vec![0; bytes as usize];
    call.read(buffer, &mut data)?;
    call.device.silicon.space().write(bounce.address, &data).map_err(|_| Errno::ENOMEM)?;
    call.device.own().copies.copy(call.device, Span { from: bounce.address, to: address, bytes })?;
    Ok(0)
}
