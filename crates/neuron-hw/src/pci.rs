//! PCI configuration space: identity, revision and BAR sizing.

use neuron_abi::kernel::pci::VENDOR;

/// Where a device sits on the bus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bdf {
    /// Domain.
    pub domain: u32,
    /// Bus.
    pub bus: u8,
    /// Slot, below 32.
    pub slot: u8,
    /// Function, below 8.
    pub func: u8,
}

/// Offsets of the header.
pub mod offset {
    /// Vendor id, 16 bits; the device id follows.
    pub const VENDOR: usize = 0x00;
    /// Device id, 16 bits.
    pub const DEVICE: usize = 0x02;
    /// Command word.
    pub const COMMAND: usize = 0x04;
    /// Revision byte; the class follows.
    pub const REVISION: usize = 0x08;
    /// First BAR.
    pub const BAR0: usize = 0x10;
    /// Interrupt line.
    pub const INTERRUPT_LINE: usize = 0x3c;
}

/// Class of the device: system peripheral, other.
const CLASS: u32 = 0x08_8000;

/// Flags of a 64-bit prefetchable memory BAR.
const BAR_FLAGS: u64 = 0xc;

/// Config space of one function, 256 bytes. BARs are 64-bit pairs at indices 0, 2 and 4.
#[derive(Clone, Debug)]
pub struct ConfigSpace {
    bytes: [u8; 256],
    sizes: [u64; 6],
}

impl ConfigSpace {
    /// A function with these BAR sizes in bytes (powers of two, 0 = absent), indices 0, 2, 4.
    pub fn new(device: u16, revision: u8, sizes: [u64; 3]) -> Self {
        let mut space = Self { bytes: [0; 256], sizes: [sizes[0], 0, sizes[1], 0, sizes[2], 0] };
        space.set(offset::VENDOR, &VENDOR.to_le_bytes());
        space.set(offset::DEVICE, &device.to_le_bytes());
        space.bytes[offset::REVISION] = revision;
        space.set(offset::REVISION + 1, &CLASS.to_le_bytes()[..3]);
        for bar in [0, 2, 4] {
            if space.sizes[bar] != 0 {
                space.set(offset::BAR0 + 4 * bar, &BAR_FLAGS.to_le_bytes());
            }
        }
        space
    }

    fn set(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Reads `data.len()` bytes; beyond the space they are all ones.
    pub fn read(&self, at: usize, data: &mut [u8]) {
        for (i, byte) in data.iter_mut().enumerate() {
            *byte = self.bytes.get(at + i).copied().unwrap_or(0xff);
        }
    }

    /// Writes bytes; read-only fields keep their value, BARs keep size and flag bits.
    pub fn write(&mut self, at: usize, data: &[u8]) {
        for (i, byte) in data.iter().enumerate() {
            let at = at + i;
            if (offset::COMMAND..offset::COMMAND + 2).contains(&at) || at == offset::INTERRUPT_LINE {
                self.bytes[at] = *byte;
            } else if (offset::BAR0..offset::BAR0 + 24).contains(&at) {
                let bar = ((at - offset::BAR0) / 4) & !1;
                if self.sizes[bar] != 0 {
                    let shift = 8 * (at - offset::BAR0 - 4 * bar);
                    let writable = (!(self.sizes[bar] - 1) >> shift) as u8;
                    self.bytes[at] = byte & writable | self.bytes[at] & !writable;
                }
            }
        }
    }

    /// Forgets what was written: command, interrupt line and BAR addresses.
    pub fn reset(&mut self) {
        self.write(offset::COMMAND, &[0; 2]);
        self.write(offset::BAR0, &[0; 24]);
        self.write(offset::INTERRUPT_LINE, &[0]);
    }

    /// Device id.
    pub fn device(&self) -> u16 {
        u16::from_le_bytes([self.bytes[offset::DEVICE], self.bytes[offset::DEVICE + 1]])
    }

    /// Vendor id.
    pub fn vendor(&self) -> u16 {
        u16::from_le_bytes([self.bytes[offset::VENDOR], self.bytes[offset::VENDOR + 1]])
    }

    /// Revision byte.
    pub fn revision(&self) -> u8 {
        self.bytes[offset::REVISION]
    }

    /// Assigned address of a BAR pair, 0 when unassigned or absent.
    pub fn bar_address(&self, bar: usize) -> u64 {
        let at = offset::BAR0 + 4 * bar;
        let mut word = [0; 8];
        match self.bytes.get(at..at + 8) {
            Some(bytes) if bar.is_multiple_of(2) && bar < 6 => word.copy_from_slice(bytes),
            _ => return 0,
        }
        u64::from_le_bytes(word) & !0xf
    }

    /// Bytes of a BAR pair, 0 when absent.
    pub fn bar_size(&self, bar: usize) -> u64 {
        self.sizes.get(bar).copied().unwrap_or(0)
    }

    /// Takes a BAR away, as a host does that cannot place it.
    pub fn remove_bar(&mut self, bar: usize) {
        self.sizes[bar] = 0;
        self.set(offset::BAR0 + 4 * bar, &[0; 8]);
    }
}

/// Gives every BAR of every device a place, as firmware does: naturally aligned, the largest
/// first, from 960 GiB up.
pub fn assign(bus: &[std::sync::Arc<crate::Silicon>]) {
    let mut windows: Vec<_> = bus
        .iter()
        .flat_map(|silicon| [0, 2, 4].map(|bar| (silicon.config(|c| c.bar_size(bar)), silicon, bar)))
        .filter(|(size, ..)| *size != 0)
        .collect();
    windows.sort_by_key(|(size, ..)| std::cmp::Reverse(*size));
    let mut next: u64 = 0xf0_0000_0000;
    for (size, silicon, bar) in windows {
        next = next.next_multiple_of(size);
        silicon.config_write(offset::BAR0 + 4 * bar, &next.to_le_bytes());
        next += size;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writing_ones_to_a_bar_reads_back_its_size() {
        let mut space = ConfigSpace::new(0x7164, 1, [1 << 30, 0, 1 << 35]);
        for (bar, size) in [(0, 1_u64 << 30), (4, 1 << 35)] {
            space.write(offset::BAR0 + 4 * bar, &[0xff; 8]);
            let mut word = [0; 8];
            space.read(offset::BAR0 + 4 * bar, &mut word);
            assert_eq!(u64::from_le_bytes(word), !(size - 1) | BAR_FLAGS);
        }
        let mut absent = [1; 8];
        space.write(offset::BAR0 + 8, &[0xff; 8]);
        space.read(offset::BAR0 + 8, &mut absent);
        assert_eq!(absent, [0; 8]);
    }

    #[test]
    fn identity_is_read_only() {
        let mut space = ConfigSpace::new(0x7364, 240, [1 << 32, 0, 0]);
        space.write(0, &[0; 12]);
        assert_eq!((space.vendor(), space.device(), space.revision()), (VENDOR, 0x7364, 240));
        assert_eq!(space.bar_size(4), 0);
    }

    #[test]
    fn an_assigned_address_is_kept_without_flags() {
        let mut space = ConfigSpace::new(0x7164, 1, [1 << 30, 0, 1 << 35]);
        space.write(offset::BAR0, &0xf8_0000_0000_u64.to_le_bytes());
        assert_eq!(space.bar_address(0), 0xf8_0000_0000);
        assert_eq!(space.bar_address(1), 0);
    }

    #[test]
    fn a_reset_leaves_identity_and_sizes() {
        let mut space = ConfigSpace::new(0x7164, 1, [1 << 30, 0, 1 << 35]);
        let mut fresh = [0; 256];
        space.read(0, &mut fresh);
        space.write(offset::BAR0, &0xf8_0000_0000_u64.to_le_bytes());
        space.write(offset::COMMAND, &[6, 1]);
        space.write(offset::INTERRUPT_LINE, &[11]);
        space.reset();
        let mut after = [0; 256];
        space.read(0, &mut after);
        assert_eq!((after, space.bar_size(4)), (fresh, 1 << 35));
    }
}
