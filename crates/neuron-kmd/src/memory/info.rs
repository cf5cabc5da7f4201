//! Allocation, and questions about chunks.

use std::sync::Arc;

use neuron_abi::kernel::args as a;
use neuron_abi::kernel::ioctl::Op;
use neuron_abi::kernel::values::{MemCategory, MemLifespan, MemLocation};

use super::{Chunk, Request, alloc, free};
use crate::cdev::Call;
use crate::reply::{Bug, Errno, Reply, Stop};

/// Address of the driver's record of a chunk, which `MEM_GET_EXTENDED_INFO` gives away: a kernel
/// address the model makes up.
fn record_address(chunk: &Chunk) -> u64 {
    0xffff_8880_0000_0000 | (chunk.address >> 6 & 0x3f_ffff_ffff)
}

pub(super) fn ioctl(call: &Call<'_>) -> Reply {
    let device = call.device;
    match call.row.op {
        Op::MemAlloc => {
            // A bad argument is an error here, not a number of bytes.
            let user = call.copy_in::<a::MemAlloc>().map_err(|_| Errno::EACCES)?.value;
            let place = Place { host: user.host_memory, channel: user.dram_channel, core: user.nc_id, category: None };
            allocate(call, user.size, 0, place, user.mem_handle)
        }
        Op::MemAllocV2 => {
            let user = call.copy_in::<a::MemAllocV2>()?.value;
            let place = Place { host: user.host_memory, channel: user.dram_channel, core: user.nc_id, category: None };
            allocate(call, user.size, user.align, place, user.mem_handle)
        }
        Op::MemAllocV2mt => {
            let user = call.copy_in::<a::MemAllocV2MemType>()?.value;
            let category = Some(user.mem_type);
            let place = Place { host: user.host_memory, channel: user.dram_channel, core: user.nc_id, category };
            allocate(call, user.size, user.align, place, user.mem_handle)
        }
        Op::MemAllocV2mt64 => {
            let user = call.copy_in::<a::MemAllocV2MemType64>()?.value;
            let category = Some(user.mem_type);
            let place = Place { host: user.host_memory, channel: user.dram_channel, core: user.nc_id, category };
            allocate(call, user.size, user.align, place, user.mem_handle)
        }
        Op::MemFree => {
            let chunk = by_handle(call, call.copy_in::<a::MemFree>()?.value.mem_handle)?;
            free(device, &chunk).map(|()| 0)
        }
        Op::MemGetPa => {
            let user = call.copy_in::<a::MemGetPa>()?.value;
            let chunk = by_handle(call, user.mem_handle)?;
            call.put(user.pa, chunk.address)
        }
        Op::MemGetInfo => {
            let user = call.copy_in::<a::MemGetInfo>()?.value;
            let chunk = by_handle(call, user.mem_handle)?;
            call.put(user.pa, chunk.address)?;
            // The address is the offset to map it with; a client may leave that out.
            if user.mmap_offset == 0 { Ok(0) } else { call.put(user.mmap_offset, chunk.address) }
        }
        Op::MemGetExtendedInfo => {
            let mut user = call.copy_in::<a::MemGetExtendedInfo>()?;
            let info = &mut user.value;
            // A bad handle is a positive result, not an error.
            let Some(chunk) = device.memory.chunk(info.mem_handle) else { return Ok(Errno::EINVAL.0.into()) };
            info.mem_handle = record_address(&chunk);
            info.host_memory = chunk.is_host().into();
            (info.pa, info.mmap_offset) = (chunk.address, chunk.address);
            (info.pid, info.size) = (chunk.owner.into(), chunk.bytes);
            call.copy_out(user)
        }
        Op::MemMcGetInfo => {
            let mut user = call.copy_in::<a::MemGetMcMmapInfo>()?;
            let chunk = device.memory.at(user.value.pa).ok_or(Errno::ENOMEM)?;
            (user.value.mmap_offset, user.value.size) = (chunk.address, chunk.bytes);
            call.copy_out(user)
        }
        Op::MemMcGetInfoV2 => {
            let mut user = call.copy_in::<a::MemGetMcMmapInfoV2>()?;
            let chunk = device.memory.at(user.value.pa).ok_or(Errno::ENOMEM)?;
            (user.value.mmap_offset, user.value.size) = (chunk.address, chunk.bytes);
            user.value.mem_handle = device.memory.handle(&chunk)?;
            call.copy_out(user)
        }
        _ => dump_chunks(call),
    }
}

/// The chunk behind a handle.
pub(super) fn by_handle(call: &Call<'_>, handle: u64) -> Result<Arc<Chunk>, Errno> {
    call.device.memory.chunk(handle).ok_or(Errno::EINVAL)
}

/// Where a client wants memory; the numbers as it sent them.
struct Place {
    host: u32,
    channel: u32,
    core: u32,
    category: Option<u32>,
}

fn allocate(call: &Call<'_>, bytes: u64, align: u64, place: Place, handle_to: u64) -> Reply {
    let (device, owner) = (call.device, call.caller.tgid);
    let request = Request {
        bytes,
        align,
        location: if place.host == 0 { MemLocation::Device } else { MemLocation::Host },
        channel: place.channel,
        core: place.core,
        category: place.category.and_then(MemCategory::from_raw),
        lifespan: MemLifespan::CurProcess,
        owner,
    };
    let chunk = alloc(device, &request)?;
    if !device.attach.holds(owner) {
        free(device, &chunk)?;
        let text = format!("process {owner} has no slot, so no list to enter its memory in");
        return Err(Bug { quirk: "unattached-alloc", text }.into());
    }
    let handed = device.memory.handle(&chunk).map_err(Stop::from).and_then(|handle| call.put(handle_to, handle));
    if handed.is_err() {
        free(device, &chunk)?;
    }
    handed
}

/// Most chunks a client can make room for in one dump: what the driver's own buffer may hold.
const MAX_DUMP: u64 = 0x40_0000 / a::MemChunkInfo::INFO.size as u64;

fn dump_chunks(call: &Call<'_>) -> Reply {
    let mut user = call.copy_in::<a::DumpMemChunks>()?;
    let room = u64::from(user.value.num_entries_in);
    if room > MAX_DUMP {
        return Err(Errno::ENOMEM.into());
    }
    let chunks = call.device.memory.of_channel(user.value.hbm_index);
    user.value.num_entries_out = chunks.len() as u32;
    let data = user.value.data;
    call.copy_out(user)?;
    if chunks.len() as u64 > room {
        return Err(Errno::EAGAIN.into());
    }
    let mut image = vec![0; chunks.len() * a::MemChunkInfo::INFO.size];
    for (chunk, at) in chunks.iter().zip(image.chunks_mut(a::MemChunkInfo::INFO.size)) {
        let info = a::MemChunkInfo { pa: chunk.address, size: chunk.bytes, mem_type: chunk.category as u32 };
        a::Wire::put(&info, at);
    }
    call.write(data, &image)
}
