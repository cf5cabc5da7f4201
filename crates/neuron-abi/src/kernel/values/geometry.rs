//! Sizes of the silicon generations.

/// Sizes of one silicon generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Cores of a device.
    pub cores: u32,
    /// Top-level synchronisation processors of a device.
    pub topsps: u32,
    /// Memory channels.
    pub dram_channels: u32,
    /// Bytes of one channel.
    pub channel_bytes: u64,
    /// DMA engines of a core.
    pub engines_per_core: u32,
    /// DMA engines of the device, host engines included.
    pub engines: u32,
    /// Queues of an engine.
    pub queues_per_engine: u32,
    /// Semaphores of a core.
    pub semaphores: u32,
    /// Events of a core.
    pub events: u32,
    /// Dice of the package.
    pub dice: u32,
    /// Address bit that marks host memory on the device side.
    pub pci_host_base: u64,
    /// Offset of the firmware mailbox in the register window.
    pub misc_ram: u64,
    /// Lowest runtime interface version served.
    pub compat_min: u32,
    /// Highest runtime interface version served.
    pub compat_max: u32,
}

/// Trn1 and Inf2.
pub const GEOMETRY_V2: Geometry = Geometry {
    cores: 2,
    topsps: 6,
    dram_channels: 2,
    channel_bytes: 0x400000000,
    engines_per_core: 16,
    engines: 34,
    queues_per_engine: 16,
    semaphores: 256,
    events: 256,
    dice: 1,
    pci_host_base: 0x100000000000,
    misc_ram: 0x30fa0000,
    compat_min: 5,
    compat_max: 7,
};

/// Trn2.
pub const GEOMETRY_V3: Geometry = Geometry {
    cores: 8,
    topsps: 16,
    dram_channels: 4,
    channel_bytes: 0x600000000,
    engines_per_core: 16,
    engines: 132,
    queues_per_engine: 16,
    semaphores: 256,
    events: 256,
    dice: 2,
    pci_host_base: 0x400000000000,
    misc_ram: 0x6c84000,
    compat_min: 10,
    compat_max: 11,
};

/// Trn3.
pub const GEOMETRY_V4: Geometry = Geometry {
    cores: 8,
    topsps: 16,
    dram_channels: 4,
    channel_bytes: 0x900000000,
    engines_per_core: 16,
    engines: 132,
    queues_per_engine: 16,
    semaphores: 256,
    events: 256,
    dice: 2,
    pci_host_base: 0x400000000000,
    misc_ram: 0x6c84000,
    compat_min: 10,
    compat_max: 11,
};

impl Geometry {
    /// The rows of the facts table, for comparison.
    pub fn rows(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("nc_per_device", self.cores.into()),
            ("ts_per_device", self.topsps.into()),
            ("dram_channels", self.dram_channels.into()),
            ("hbm_bytes_per_channel", self.channel_bytes),
            ("dma_eng_per_nc", self.engines_per_core.into()),
            ("dma_eng_total", self.engines.into()),
            ("dma_queues_per_eng", self.queues_per_engine.into()),
            ("semaphores", self.semaphores.into()),
            ("events", self.events.into()),
            ("dice", self.dice.into()),
            ("pci_host_base", self.pci_host_base),
            ("misc_ram_bar0_offset", self.misc_ram),
            ("compat_min", self.compat_min.into()),
            ("compat_max", self.compat_max.into()),
        ]
    }
}
