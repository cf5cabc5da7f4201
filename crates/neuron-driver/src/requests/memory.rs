//! Memory of a device and of the host next to it.

use std::os::fd::{FromRawFd, OwnedFd};

use neuron_abi::kernel::args::{
    DmabufFd, DumpMemChunks, MemAllocV2, MemAllocV2MemType, MemAllocV2MemType64, MemChunkInfo, MemFree, MemGetPa,
    NeuronDsInfo, ResourceMmapInfo, Wire,
};
use neuron_abi::kernel::ioctl::Op;
use neuron_abi::kernel::values::{DmBlock, DmResource, MemCategory};

use crate::call::Buffer;
use crate::{Cause, File, Result};

/// Where memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// In a memory channel of the device.
    Device,
    /// In memory of the host that the device can reach, at most 4 MiB at a time.
    Host,
}

/// Taken memory of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Address as the device sees it.
    pub address: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Entries of the first try to list the memory of a channel.
const CHUNKS: usize = 256;

impl dyn File + '_ {
    /// Takes `bytes` of memory for physical core `core`, from channel `channel`; the channel must
    /// exist also for host memory. The answer is a handle, valid on this device.
    ///
    /// # Errors
    /// [`Cause::NoMemory`]; [`Cause::Refused`] for a core or channel that does not exist.
    pub fn allocate(&self, kind: Kind, core: u32, channel: u32, bytes: u64) -> Result<u64> {
        let host_memory = u32::from(kind == Kind::Host);
        let mem_type = match kind {
            Kind::Device => MemCategory::TensorsDevice,
            Kind::Host => MemCategory::TensorsHost,
        } as u32;
        macro_rules! ask {
            ($op:ident, $argument:ident { $($more:ident: $value:expr),* }) => {{
                let mut handle = [0; u64::SIZE];
                let mut buffer = Buffer::Out(&mut handle);
                let argument = $argument {
                    size: bytes,
                    host_memory,
                    dram_channel: channel,
                    nc_id: core,
                    mem_handle: buffer.address(),
                    $($more: $value,)*
                    ..Default::default()
                };
                self.ask(Op::$op, &argument, buffer)?;
                Ok(u64::from_le_bytes(handle))
            }};
        }
        let newest = || ask!(MemAllocV2mt64, MemAllocV2MemType64 { mem_type: mem_type });
        let newer = || ask!(MemAllocV2mt, MemAllocV2MemType { mem_type: mem_type });
        let oldest = || ask!(MemAllocV2, MemAllocV2 {});
        self.either(newest, || self.either(newer, oldest))
    }

    /// Gives memory back.
    ///
    /// # Errors
    /// [`Cause::Refused`] for a bad handle.
    pub fn free(&self, handle: u64) -> Result<()> {
        self.ask(Op::MemFree, &MemFree { mem_handle: handle }, Buffer::None).map(drop)
    }

    /// Address of the memory as the device sees it; also the offset it is mapped at.
    ///
    /// # Errors
    /// [`Cause::Refused`] for a bad handle.
    pub fn physical_address(&self, handle: u64) -> Result<u64> {
        let mut pa = [0; u64::SIZE];
        let mut buffer = Buffer::Out(&mut pa);
        let argument = MemGetPa { mem_handle: handle, pa: buffer.address() };
        self.ask(Op::MemGetPa, &argument, buffer)?;
        Ok(u64::from_le_bytes(pa))
    }

    /// Memory of a channel that somebody has taken, the driver included, ascending.
    ///
    /// # Errors
    /// Those of any command.
    pub fn chunks(&self, channel: u32) -> Result<Vec<Chunk>> {
        let mut room = CHUNKS;
        loop {
            let mut data = vec![0; room * MemChunkInfo::SIZE];
            let mut buffer = Buffer::Out(&mut data);
            let (hbm_index, num_entries_in) = (channel, room as u32);
            let argument = DumpMemChunks { hbm_index, num_entries_in, num_entries_out: 0, data: buffer.address() };
            match self.ask(Op::DumpMemChunks, &argument, buffer) {
                Ok(a) => {
                    let entries = (a.num_entries_out as usize).min(room);
                    let entry = |i| MemChunkInfo::get(&data[i * MemChunkInfo::SIZE..]);
                    return Ok((0..entries).map(entry).map(|c| Chunk { address: c.pa, bytes: c.size }).collect());
                }
                // Others may take memory meanwhile, so the number the driver tells is no promise.
                Err(e) if e.cause == Cause::TooSmall && room < usize::pow(2, 22) => room *= 4,
                Err(e) => return Err(e),
            }
        }
    }

    /// Offset and bytes of a whole memory channel, to be mapped; `None` where the architecture has
    /// no such window or no such channel.
    ///
    /// # Errors
    /// Those of any command.
    pub fn channel_window(&self, channel: u32) -> Result<Option<(u64, usize)>> {
        let (block, resource) = (DmBlock::Hbm as u32, DmResource::Dmem as u32);
        let argument = ResourceMmapInfo { block, block_id: channel, resource, offset: 0, size: 0 };
        match self.ask(Op::ResourceMmapInfo, &argument, Buffer::None) {
            Ok(a) => Ok(Some((a.offset, a.size as usize))),
            Err(e) if e.cause == Cause::Refused => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Offset and bytes of a process' datastore on the device, to be mapped. `None` is this process:
    /// its datastore is made, cleared, at the first call, and given back with the last descriptor.
    ///
    /// # Errors
    /// [`Cause::NoMemory`] when every datastore of the device is taken; [`Cause::NotFound`] for
    /// another process that has none.
    pub fn datastore(&self, process: Option<u32>) -> Result<(u64, usize)> {
        let pid = process.map_or(0, |pid| pid as i32);
        let a = self.ask(Op::AcquireNeuronDs, &NeuronDsInfo { pid, mmap_offset: 0, size: 0 }, Buffer::None)?;
        Ok((a.mmap_offset, a.size as usize))
    }

    /// A dma-buf descriptor, closed on exec, of `bytes` mapped bytes at address `va` of this process.
    ///
    /// # Errors
    /// [`Cause::Refused`] when no mapping of this driver is there; [`Cause::Unsupported`] on old kernels.
    pub fn dmabuf(&self, va: u64, bytes: u64) -> Result<OwnedFd> {
        let mut number = [0xff; i32::SIZE];
        let mut buffer = Buffer::Out(&mut number);
        let argument = DmabufFd { va, size: bytes, fd: buffer.address() };
        self.ask(Op::DmabufFd, &argument, buffer)?;
        let number = i32::from_le_bytes(number);
        if number < 0 {
            return Err(self.error(Op::DmabufFd, Cause::NotFound));
        }
        // SAFETY: the driver has just made this descriptor for the process and told nobody else.
        Ok(unsafe { OwnedFd::from_raw_fd(number) })
    }
}
