//! One PCI function behind a vfio-user socket.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;

use neuron_hw::Silicon;
use vfio_bindings::bindings::vfio::{
    VFIO_PCI_CONFIG_REGION_INDEX, VFIO_PCI_NUM_IRQS, VFIO_PCI_NUM_REGIONS, VFIO_REGION_INFO_FLAG_MMAP,
    VFIO_REGION_INFO_FLAG_READ, VFIO_REGION_INFO_FLAG_WRITE, vfio_region_info, vfio_region_sparse_mmap_area,
};
use vfio_user::{DmaMapFlags, DmaUnmapFlags, IrqInfo, ServerBackend, ServerRegion, SparseArea};

use super::guest::GuestRam;

/// Bytes of the config space.
const CONFIG_BYTES: u64 = 256;

/// Most bytes of one access: what the protocol allows unless both sides agree on more.
const LONGEST: usize = 1 << 20;

/// A device and the machine it is in.
pub struct Function {
    /// Number in the order of the sockets.
    pub number: usize,
    /// The device.
    pub silicon: Arc<Silicon>,
    /// Memory of the machine; the device has it as its host memory.
    pub ram: Arc<GuestRam>,
}

/// The words an access of `len` bytes at `offset` touches: offset of the word, first byte in it,
/// and the place of its bytes in the data.
fn words(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let place = offset + at as u64;
        let lane = (place & 3) as usize;
        let end = len.min(at + 4 - lane);
        let word = (at < len).then_some((place & !3, lane, at..end));
        at = end;
        word
    })
}

impl Function {
    /// Bytes of a region, 0 when it is absent.
    fn size(&self, region: u32) -> u64 {
        match region {
            VFIO_PCI_CONFIG_REGION_INDEX => CONFIG_BYTES,
            0 | 4 => self.silicon.config(|c| c.bar_size(region as usize)),
            _ => 0,
        }
    }

    /// The regions as a client sees them: config space and registers trap, device memory can be
    /// mapped. The descriptor inside is the device's.
    pub fn regions(&self) -> Vec<ServerRegion> {
        let region = |index| {
            let size = self.size(index);
            let mut info =
                vfio_region_info { argsz: size_of::<vfio_region_info>() as u32, index, size, ..Default::default() };
            if size != 0 {
                info.flags = VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE;
            }
            let memory = if index == 4 { self.silicon.bar4_memory() } else { Vec::new() };
            if !memory.is_empty() {
                info.flags |= VFIO_REGION_INFO_FLAG_MMAP;
            }
            let mmap_fd = (!memory.is_empty()).then(|| self.silicon.space().file().as_fd().as_raw_fd());
            let area = |(offset, size)| SparseArea { area: vfio_region_sparse_mmap_area { offset, size } };
            ServerRegion { region_info: info, sparse_areas: joined(&memory).into_iter().map(area).collect(), mmap_fd }
        };
        (0..VFIO_PCI_NUM_REGIONS).map(region).collect()
    }

    /// The interrupts as a client sees them: the driver polls, so there are none.
    pub fn irqs() -> Vec<IrqInfo> {
        (0..VFIO_PCI_NUM_IRQS).map(|index| IrqInfo { index, flags: 0, count: 0 }).collect()
    }

    /// The machine is gone: so is its memory, and the next one finds the device as after power-on.
    ///
    /// # Errors
    /// What the system says.
    pub fn leave(&self) -> io::Result<()> {
        self.silicon.function_reset();
        self.ram.unmap(0, u64::MAX)
    }

    fn inside(&self, region: u32, offset: u64, len: usize) -> io::Result<()> {
        let end = offset.checked_add(len as u64);
        if len <= LONGEST && end.is_some_and(|end| end <= self.size(region)) {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::InvalidInput, "an access outside of its region"))
    }
}

/// Pieces with those joined that touch.
fn joined(pieces: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (offset, bytes) in pieces {
        match joined.last_mut().filter(|(at, have)| at + *have == *offset) {
            Some((_, have)) => *have += bytes,
            None => joined.push((*offset, *bytes)),
        }
    }
    joined
}

impl ServerBackend for Function {
    fn region_read(&mut self, region: u32, offset: u64, data: &mut [u8]) -> io::Result<()> {
        self.inside(region, offset, data.len())?;
        if region == VFIO_PCI_CONFIG_REGION_INDEX {
            self.silicon.config(|c| c.read(offset as usize, data));
            return Ok(());
        }
        for (word, lane, place) in words(offset, data.len()) {
            let value = self.silicon.read32(region as usize, word).to_le_bytes();
            let len = place.len();
            data[place].copy_from_slice(&value[lane..lane + len]);
        }
        Ok(())
    }

    fn region_write(&mut self, region: u32, offset: u64, data: &[u8]) -> io::Result<()> {
        self.inside(region, offset, data.len())?;
        if region == VFIO_PCI_CONFIG_REGION_INDEX {
            self.silicon.config_write(offset as usize, data);
            return Ok(());
        }
        for (word, lane, place) in words(offset, data.len()) {
            let len = place.len();
            // The bytes of a word that an access leaves out keep their value.
            let mut value = if len == 4 { [0; 4] } else { self.silicon.read32(region as usize, word).to_le_bytes() };
            value[lane..lane + len].copy_from_slice(&data[place]);
            self.silicon.write32(region as usize, word, u32::from_le_bytes(value));
        }
        Ok(())
    }

    fn dma_map(&mut self, flags: DmaMapFlags, offset: u64, at: u64, bytes: u64, fd: Option<File>) -> io::Result<()> {
        // Without a file it is not memory the device can reach, such as a window of a device.
        // Memory it must not write is left out as well: the model has no such distinction.
        let Some(file) = fd.filter(|_| flags.contains(DmaMapFlags::READ_WRITE)) else { return Ok(()) };
        self.ram.map(&file, offset, at, bytes).inspect_err(|error| {
            let what = format!("does not reach {bytes:#x} bytes of guest memory at {at:#x}: {error}");
            super::say(self.number, &what);
        })
    }

    fn dma_unmap(&mut self, flags: DmaUnmapFlags, at: u64, bytes: u64) -> io::Result<()> {
        if flags.contains(DmaUnmapFlags::UNMAP_ALL) { self.ram.unmap(0, u64::MAX) } else { self.ram.unmap(at, bytes) }
    }

    fn reset(&mut self) -> io::Result<()> {
        self.silicon.function_reset();
        Ok(())
    }

    fn set_irqs(&mut self, _index: u32, _flags: u32, _start: u32, _count: u32, _fds: Vec<File>) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_is_cut_into_the_words_it_touches() {
        let cut = |offset, len| words(offset, len).collect::<Vec<_>>();
        assert_eq!(cut(8, 0), []);
        assert_eq!(cut(8, 4), [(8, 0, 0..4)]);
        assert_eq!(cut(10, 1), [(8, 2, 0..1)]);
        assert_eq!(cut(6, 8), [(4, 2, 0..2), (8, 0, 2..6), (12, 0, 6..8)]);
    }

    #[test]
    fn pieces_that_touch_are_one() {
        assert_eq!(joined(&[]), []);
        assert_eq!(joined(&[(0, 4), (4, 4), (16, 4)]), [(0, 8), (16, 4)]);
    }
}
