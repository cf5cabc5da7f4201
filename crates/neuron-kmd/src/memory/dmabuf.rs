//! What a process can do with an address it has mapped: export it, ask where it is.

use std::sync::Arc;

use neuron_abi::kernel::args as a;
use neuron_abi::kernel::ioctl::Op;

use super::mmap::Record;
use super::{Chunk, free};
use crate::cdev::Call;
use crate::device::Device;
use crate::reply::{Errno, Reply};

/// Device memory handed to somebody else as a file. It keeps the chunk until it is dropped.
pub struct DmaBuf {
    device: Arc<Device>,
    chunk: Arc<Chunk>,
    /// First address, device side; also the offset in the file of the device.
    pub address: u64,
    /// Bytes as the exporter gave them; the driver does not compare them with the mapping.
    pub bytes: u64,
}

impl std::fmt::Debug for DmaBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DmaBuf").field("address", &self.address).field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl DmaBuf {
    /// The device it is memory of.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }
}

impl Drop for DmaBuf {
    fn drop(&mut self) {
        // The pools can only be stuck, and then there is nothing to give back.
        let _ = free(&self.device, &self.chunk);
    }
}

pub(super) fn ioctl(call: &Call<'_>) -> Reply {
    match call.row.op {
        Op::DmabufFd => export(call),
        _ => placement(call),
    }
}

/// The mapping of the caller an address lies in, on whatever device it is.
fn mapped(call: &Call<'_>, va: u64) -> Option<(Arc<Device>, Record)> {
    let devices = call.driver.devices();
    devices.into_iter().find_map(|d| {
        let record = d.own().mappings.at(call.caller.tgid, va)?;
        Some((d, record))
    })
}

fn export(call: &Call<'_>) -> Reply {
    let user = call.copy_in::<a::DmabufFd>()?.value;
    let (device, record) = mapped(call, user.va).ok_or(Errno::EINVAL)?;
    let address = record.chunk.address + (user.va - record.va);
    if !device.memory.hold(&record.chunk) {
        return Err(Errno::EINVAL.into());
    }
    let buffer = DmaBuf { device, chunk: record.chunk, address, bytes: user.size };
    let table = call.caller.descriptors.as_ref().ok_or(Errno::EINVAL)?;
    let fd = table.install(buffer).ok_or(Errno::EINVAL)?;
    // A descriptor that cannot be told stays open, as in the driver.
    call.put(user.fd, fd)
}

fn placement(call: &Call<'_>) -> Reply {
    let mut user = call.copy_in::<a::GetVaPlacement>()?;
    let found = mapped(call, user.value.va);
    let (index, hbm) = found.as_ref().map_or((-1, -1), |(device, record)| {
        let hbm = if record.chunk.is_host() { -1 } else { record.chunk.channel as i32 };
        (device.index as i32, hbm)
    });
    (user.value.device_index, user.value.hbm_index) = (index, hbm);
    // Whether the answer can be written is not looked at.
    let _ = call.copy_out(user);
    if found.is_some() { Ok(0) } else { Err(Errno::ENXIO.into()) }
}
