//! Datastores: memory of the host per process that the runtime fills with counters and that any
//! process can map.

use std::sync::Arc;

use neuron_abi::kernel::args::NeuronDsInfo;
use neuron_abi::kernel::ioctl::Op;
use neuron_abi::kernel::values::{DATASTORE_BYTES, MAX_PROCESSES, MemLocation};

use crate::cdev::Call;
use crate::device::Device;
use crate::memory::{self, Chunk, Request};
use crate::reply::{Errno, Reply};
use crate::sync::Mutex;

/// One place of each device for each process that can be attached, made when it is probed.
#[derive(Debug)]
pub struct Datastores {
    /// Thread group of each place; 0 when it is free.
    owners: Mutex<[u32; MAX_PROCESSES]>,
    chunks: Vec<Arc<Chunk>>,
}

impl Datastores {
    /// Allocates the memory.
    ///
    /// # Errors
    /// `ENOMEM` when there is not enough host memory.
    pub fn new(device: &Device) -> Result<Self, Errno> {
        let request = Request::driver(MemLocation::Host, DATASTORE_BYTES as u64, 0);
        let chunks = (0..MAX_PROCESSES).map(|_| memory::alloc(device, &request)).collect::<Result<_, _>>()?;
        Ok(Self { owners: Mutex::default(), chunks })
    }

    /// The datastore of a process.
    pub fn of(&self, tgid: u32) -> Option<&Arc<Chunk>> {
        let place = self.owners.lock().iter().position(|o| *o == tgid && tgid != 0)?;
        Some(&self.chunks[place])
    }

    /// The datastore of a process; gives it a free one, cleared, when it has none.
    fn acquire(&self, device: &Device, tgid: u32) -> Result<&Arc<Chunk>, Errno> {
        if let Some(chunk) = self.of(tgid) {
            return Ok(chunk);
        }
        let mut owners = self.owners.lock();
        let place = owners.iter().position(|o| *o == 0).ok_or(Errno::ENOMEM)?;
        let chunk = &self.chunks[place];
        device.silicon.space().discard(chunk.address, chunk.bytes).map_err(|_| Errno::ENOMEM)?;
        owners[place] = tgid;
        Ok(chunk)
    }

    fn release(&self, tgid: u32) {
        self.owners.lock().iter_mut().filter(|o| **o == tgid).for_each(|o| *o = 0);
    }
}

pub(crate) fn ioctl(call: &Call<'_>) -> Reply {
    let (device, tgid) = (call.device, call.caller.tgid);
    let stores = &device.own().datastores;
    let mut user = call.copy_in::<NeuronDsInfo>()?;
    let wanted = user.value.pid as u32;
    if call.row.op == Op::ReleaseNeuronDs {
        // Only the owner really releases; others get the same answer.
        if wanted == tgid {
            stores.release(tgid);
        }
        return Ok(0);
    }
    let chunk = if wanted == 0 { stores.acquire(device, tgid)? } else { stores.of(wanted).ok_or(Errno::ENOENT)? };
    (user.value.mmap_offset, user.value.size) = (chunk.address, DATASTORE_BYTES as u32);
    call.copy_out(user)
}

/// Releases the entry of a process.
pub(crate) fn release_process(device: &Device, tgid: u32) {
    device.own().datastores.release(tgid);
}

/// Releases every entry.
pub(crate) fn clear(device: &Device) {
    *device.own().datastores.owners.lock() = Default::default();
}
