//! Special resources: windows of cores and TopSPs, and whole channels, that a client can map
//! (`facts/driver/cdev.md`, special table).

use neuron_abi::kernel::args::ResourceMmapInfo;
use neuron_abi::kernel::values::{DmBlock, DmResource};
use neuron_hw::regs::core;

use crate::cdev::Call;
use crate::device::Device;
use crate::dhal::Stepping;
use crate::reply::{Errno, Reply};

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Kind of block.
    pub block: DmBlock,
    /// Number of the block.
    pub id: u32,
    /// What of the block.
    pub resource: DmResource,
    /// Device-side address, also the offset to map it with.
    pub address: u64,
    /// Bytes; a mapping must have exactly this length.
    pub bytes: u64,
}

impl Resource {
    /// Whether a mapping of it cannot be written.
    pub fn read_only(&self) -> bool {
        self.resource == DmResource::All
    }
}

/// The table of a device.
pub fn table(device: &Device) -> Vec<Resource> {
    use DmBlock::{Hbm, Topsp, Tpb};
    let layout = device.dhal.layout();
    let row = |block, id, resource, address, bytes| Resource { block, id, resource, address, bytes };
    let cores = (0..layout.geometry.cores).flat_map(|id| {
        let base = layout.cores.address + u64::from(id) * core::STRIDE;
        let semaphores = base + core::EVENTS;
        [
            row(Tpb, id, DmResource::Semaphore, semaphores, core::SEMAPHORE_PAGE_BYTES),
            row(Tpb, id, DmResource::Sbuf, base, core::SBUF_BYTES),
        ]
    });
    let topsps = (0..).zip(layout.topsps).flat_map(|(id, window)| {
        [
            row(Topsp, id, DmResource::Semaphore, window.address, core::SEMAPHORE_PAGE_BYTES),
            row(Topsp, id, DmResource::All, window.address, window.bytes),
        ]
    });
    let sliced = Stepping::of(device.revision) == Stepping::Qemu;
    let channel_bytes = if sliced { device.bars.bar4.bytes / 4 } else { layout.geometry.channel_bytes };
    let channels = layout.channels.iter().filter(|_| device.dhal.maps_channels());
    let channels = (0..).zip(channels).map(|(id, c)| row(Hbm, id, DmResource::Dmem, c.address, channel_bytes));
    cores.chain(topsps).chain(channels).collect()
}

pub(super) fn ioctl(call: &Call<'_>) -> Reply {
    let mut user = call.copy_in::<ResourceMmapInfo>()?;
    let wanted = user.value;
    let found = table(call.device)
        .into_iter()
        .find(|r| (r.block as i32 as u32, r.id, r.resource as u32) == (wanted.block, wanted.block_id, wanted.resource));
    let found = found.ok_or(Errno::EINVAL)?;
    (user.value.offset, user.value.size) = (found.address, found.bytes);
    call.copy_out(user)
}
