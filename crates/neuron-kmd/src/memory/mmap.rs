//! `mmap` rules and the records of what is mapped (`facts/driver/cdev.md`, section mmap).

use std::sync::Arc;

use neuron_abi::kernel::values::MemLifespan;
use neuron_hw::memory::AddressSpace;

use super::{Chunk, PAGE, resources};
use crate::caller::Caller;
use crate::device::Device;
use crate::reply::{Errno, Stop};
use crate::sync::Mutex;

/// What a process asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MmapRequest {
    /// Where the mapping will be in the process; 0 when that is not known. Such a mapping cannot
    /// be exported or asked about.
    pub va: u64,
    /// Offset, a multiple of a page.
    pub offset: u64,
    /// Length as given; the kernel rounds it up to a page.
    pub bytes: u64,
    /// `PROT_*`.
    pub prot: i32,
}

/// A piece of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Device-side address; `None` where nothing is behind: it reads as zeros and loses writes.
    pub address: Option<u64>,
    /// Bytes, a multiple of a page.
    pub bytes: u64,
}

/// What a process may map: ranges of the device's file, one after the other. There is only one
/// unless the raw memory window is mapped.
#[derive(Clone)]
pub struct Mapping {
    /// The memory; its file offset is the device-side address.
    pub space: Arc<AddressSpace>,
    /// Pieces in order.
    pub parts: Vec<Part>,
    /// Whether writing is allowed; the driver takes the right away silently.
    pub writable: bool,
}

impl Mapping {
    /// Bytes of all pieces.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|p| p.bytes).sum()
    }

    /// Reads from the mapping; false when the range leaves it.
    pub fn read(&self, offset: u64, data: &mut [u8]) -> bool {
        self.access(offset, data.len(), |address, range| match address {
            Some(address) => self.space.read(address, &mut data[range]).is_ok(),
            None => {
                data[range].fill(0);
                true
            }
        })
    }

    /// Writes to the mapping; false when the range leaves it.
    pub fn write(&self, offset: u64, data: &[u8]) -> bool {
        self.access(offset, data.len(), |address, range| match address {
            Some(address) => self.space.write(address, &data[range]).is_ok(),
            None => true,
        })
    }

    fn access(
        &self,
        offset: u64,
        bytes: usize,
        mut one: impl FnMut(Option<u64>, std::ops::Range<usize>) -> bool,
    ) -> bool {
        let (mut start, mut done) = (0, 0);
        for part in &self.parts {
            let at = offset + done as u64;
            if done < bytes && at < start + part.bytes {
                let now = (bytes - done).min((start + part.bytes - at) as usize);
                if !one(part.address.map(|a| a + (at - start)), done..done + now) {
                    return false;
                }
                done += now;
            }
            start += part.bytes;
        }
        done == bytes
    }
}

/// One mapping of a chunk in a process.
#[derive(Clone, Debug)]
pub struct Record {
    /// Thread group.
    pub tgid: u32,
    /// First address in the process.
    pub va: u64,
    /// Bytes.
    pub bytes: u64,
    /// What is mapped. Only a record: the chunk may have been freed.
    pub chunk: Arc<Chunk>,
}

/// Mappings of chunks of one device.
#[derive(Debug, Default)]
pub struct Mappings(Mutex<Vec<Record>>);

impl Mappings {
    /// The mapping of a process that an address lies in.
    pub fn at(&self, tgid: u32, va: u64) -> Option<Record> {
        let records = self.0.lock();
        let of = |r: &&Record| r.tgid == tgid && va.checked_sub(r.va).is_some_and(|at| at < r.bytes);
        records.iter().find(of).cloned()
    }

    /// A mapping is gone.
    pub fn forget(&self, tgid: u32, va: u64) {
        self.0.lock().retain(|r| (r.tgid, r.va) != (tgid, va));
    }

    pub(super) fn forget_process(&self, tgid: u32) {
        self.0.lock().retain(|r| r.tgid != tgid);
    }

    fn note(&self, record: Record) {
        self.0.lock().push(record);
    }
}

/// Finds what a request maps, and records it.
pub(crate) fn map(device: &Device, caller: &Caller, request: MmapRequest) -> Result<Mapping, Stop> {
    let bytes = request.bytes.checked_next_multiple_of(PAGE).filter(|b| *b != 0).ok_or(Errno::EINVAL)?;
    let mapping = |parts, writable| Mapping { space: device.silicon.space().clone(), parts, writable };
    let one = |address| vec![Part { address: Some(address), bytes }];
    let window = device.bars.bar4.bytes != 0;
    if let Some(chunk) = device.memory.at(request.offset).filter(|chunk| fits(device, chunk, bytes)) {
        if !window && !chunk.is_host() {
            return Err(Errno::EINVAL.into());
        }
        let writable = chunk.owner == caller.tgid || chunk.lifespan == MemLifespan::Device;
        if request.va != 0 {
            let record = Record { tgid: caller.tgid, va: request.va, bytes, chunk: chunk.clone() };
            device.own().mappings.note(record);
        }
        // It starts at the start of the chunk, wherever in it the offset lies.
        return Ok(mapping(one(chunk.address), writable));
    }
    let special = resources::table(device).into_iter().find(|r| (r.address, r.bytes) == (request.offset, bytes));
    if let Some(special) = special {
        return Ok(mapping(one(special.address), !special.read_only()));
    }
    if !caller.raw_io {
        return Err(Errno::EPERM.into());
    }
    if !window {
        return Err(Errno::EINVAL.into());
    }
    Ok(mapping(raw(device, request.offset, bytes), true))
}

/// Whether a chunk can be mapped with this length.
fn fits(device: &Device, chunk: &Chunk, bytes: u64) -> bool {
    if chunk.is_scratchpad() {
        return chunk.address.checked_add(bytes).is_some_and(|end| end <= device.memory.main_end(chunk.channel));
    }
    chunk.bytes == bytes
}

/// The memory window as it lies in BAR 4. Nothing checks the range (measured); what lies outside
/// of the channels is a hole.
fn raw(device: &Device, offset: u64, bytes: u64) -> Vec<Part> {
    let layout = device.dhal.layout();
    let channel_bytes = device.channel_bytes();
    let end = offset.saturating_add(bytes);
    let mut parts = Vec::new();
    let mut at = offset;
    let hole = |parts: &mut Vec<Part>, from: u64, to: u64| {
        if from < to {
            parts.push(Part { address: None, bytes: to - from });
        }
    };
    for channel in layout.channels {
        let (start, stop) = (channel.bar4.max(at), (channel.bar4 + channel_bytes).min(end));
        let stop = stop.min(device.bars.bar4.bytes);
        if start < stop {
            hole(&mut parts, at, start);
            let address = channel.address + (start - channel.bar4);
            parts.push(Part { address: Some(address), bytes: stop - start });
            at = stop;
        }
    }
    hole(&mut parts, at, end);
    parts
}
