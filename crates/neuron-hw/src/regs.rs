//! Register and address map (`facts/driver/bars.tsv`).

use neuron_abi::kernel::values::{GEOMETRY_V2, GEOMETRY_V3, GEOMETRY_V4, Geometry};

/// What a dead register reads as.
pub const DEAD: u32 = 0xdead_beef;

/// Words of the firmware mailbox, bytes from its base.
pub mod misc {
    /// Firmware interface version.
    pub const API_VERSION: u64 = 0x00;
    /// Routing id; [`super::DEAD`] while the firmware is busy.
    pub const ROUTING_ID: u64 = 0x24;
    /// Serial number, low word.
    pub const SERIAL_LO: u64 = 0x38;
    /// Serial number, high word.
    pub const SERIAL_HI: u64 = 0x3c;
    /// SRAM error counter.
    pub const ECC_SRAM: u64 = 0x40;
    /// Memory error counter of channel 0; three more words follow.
    pub const ECC_HBM0: u64 = 0x44;
    /// First power word.
    pub const POWER0: u64 = 0x54;
    /// Second power word.
    pub const POWER1: u64 = 0x58;
    /// Memory repair state.
    pub const HBM_REPAIR: u64 = 0x64;
    /// Rack and server ids of a switched pod.
    pub const SERVER_INFO: u64 = 0x70;
    /// Start of the posted metrics.
    pub const METRICS: u64 = 0x100;
    /// Bytes of the posted metrics.
    pub const METRICS_BYTES: u64 = 0x80;
    /// Serial numbers of the four neighbours.
    pub const NEIGHBOUR_SERIALS: u64 = 0x180;
    /// Three words of the pod election.
    pub const POD_ELECTION: u64 = 0x190;
    /// Core map of a core reset.
    pub const RESET_MAP: u64 = 0x1d8;
    /// High word of the core map. The offset is a choice of this project: no table gives it.
    pub const RESET_MAP_HI: u64 = 0x1dc;
    /// Reset request, cleared by the firmware when it accepts.
    pub const RESET_TYPE: u64 = 0x1ec;
    /// Request address, high word; the low word follows.
    pub const REQUEST_HI: u64 = 0x1f0;
    /// Response address, high word; the low word follows.
    pub const RESPONSE_HI: u64 = 0x1f8;
    /// Doorbell.
    pub const TRIGGER: u64 = 0x800;
    /// Status.
    pub const STATUS: u64 = 0x808;
    /// Bit of [`STATUS`] that is set while the device is still resetting.
    pub const STATUS_BUSY: u32 = 0x8;
    /// Words a client may not write: addresses of requests and responses, and the doorbell.
    pub const WRITE_BLOCKED: [u64; 5] = [REQUEST_HI, REQUEST_HI + 4, RESPONSE_HI, RESPONSE_HI + 4, TRIGGER];
    /// Words that only a driver writes.
    pub const DRIVER_WORDS: [u64; 8] =
        [RESET_MAP, RESET_MAP_HI, RESET_TYPE, REQUEST_HI, REQUEST_HI + 4, RESPONSE_HI, RESPONSE_HI + 4, TRIGGER];
    /// Bytes of the mailbox.
    pub const BYTES: u64 = 0x1000;
}

/// Offsets inside a core window.
pub mod core {
    /// Bytes from one core to the next.
    pub const STRIDE: u64 = 0x400_0000;
    /// Bytes of the state buffer at the start of the window.
    pub const SBUF_BYTES: u64 = 0x200_0000;
    /// Event page.
    pub const EVENTS: u64 = 0x270_0000;
    /// Semaphore values; set, increment and decrement follow 0x400 apart.
    pub const SEMAPHORES: u64 = 0x270_1000;
    /// Bytes from one semaphore operation to the next.
    pub const SEMAPHORE_OP: u64 = 0x400;
    /// Bytes of the page a client may map: events and semaphores.
    pub const SEMAPHORE_PAGE_BYTES: u64 = 0x2000;

    const _: () = assert!(SEMAPHORES + 4 * SEMAPHORE_OP <= EVENTS + SEMAPHORE_PAGE_BYTES);
}

/// Offsets inside a DMA engine.
pub mod engine {
    /// First queue block, transmit side.
    pub const QUEUES: u64 = 0x1000;
    /// Bytes from one queue to the next.
    pub const QUEUE_STRIDE: u64 = 0x1000;
    /// Bytes from a transmit block to its receive block.
    pub const RX: u64 = 0x20000;
    /// Ring address, low word; the high word follows.
    pub const RING_LO: u64 = 0x28;
    /// Ring address, high word.
    pub const RING_HI: u64 = 0x2c;
    /// Ring length, descriptors.
    pub const RING_LEN: u64 = 0x30;
    /// Tail increment: writing `n` hands `n` descriptors over.
    pub const TAIL_INC: u64 = 0x38;
    /// Queues of an engine.
    pub const COUNT: u64 = 16;
}

/// A run of DMA engines at even distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineRun {
    /// Id of the first engine.
    pub first: u32,
    /// Engines of the run.
    pub count: u32,
    /// BAR 0 offset of the first engine.
    pub base: u64,
    /// Bytes from one engine to the next; also the size of each.
    pub stride: u64,
}

/// One memory channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channel {
    /// Device-side physical address.
    pub address: u64,
    /// Where BAR 4 shows it.
    pub bar4: u64,
}

/// A window that lies both in BAR 0 and in the device-side address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// BAR 0 offset.
    pub bar0: u64,
    /// Device-side physical address; also the mmap offset of the window.
    pub address: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Register and address map of one silicon generation.
#[derive(Debug)]
pub struct Layout {
    /// Sizes shared with the driver.
    pub geometry: Geometry,
    /// DMA engines.
    pub engines: &'static [EngineRun],
    /// Memory channels.
    pub channels: &'static [Channel],
    /// Core windows, ascending.
    pub cores: Window,
    /// TopSP windows, by id.
    pub topsps: &'static [Window],
    /// Address bits to clear to get the bus address of host memory.
    pub host_mask: u64,
}

const fn run(first: u32, count: u32, base: u64, stride: u64) -> EngineRun {
    EngineRun { first, count, base, stride }
}

const fn channel(address: u64, bar4: u64) -> Channel {
    Channel { address, bar4 }
}

const TOPSP_STRIDE: u64 = 0x40_0000;

const fn topsps<const N: usize>(bar0: u64, low: (u64, u64), high: (u64, u64)) -> [Window; N] {
    let mut list = [Window { bar0: 0, address: 0, bytes: TOPSP_STRIDE }; N];
    let mut id = 0;
    while id < N {
        // Two blocks of the second die are not exposed, so ids 8 and up skip two.
        let slot = if id < 8 { id as u64 } else { id as u64 + 2 };
        let (base, stride) = if id < 8 { low } else { high };
        list[id].bar0 = bar0 + slot * TOPSP_STRIDE;
        list[id].address = base + id as u64 * stride;
        id += 1;
    }
    list
}

static TOPSPS_V2: [Window; 6] = topsps(0x1000_0000, (0xfff_d000_0000, TOPSP_STRIDE), (0, 0));
static TOPSPS_V3: [Window; 16] = topsps(0xf000_0000, (0x82_8000_0000, 0x4000_0000), (0x8080_8000_0000, 0x4000_0000));

/// Trn1 and Inf2.
pub static V2: Layout = Layout {
    geometry: GEOMETRY_V2,
    engines: &[
        run(0, 16, 0x3000_0000, 0x4_0000),
        run(16, 16, 0x3070_0000, 0x4_0000),
        run(32, 1, 0x3060_0000, 0x4_0000),
        run(33, 1, 0x30d0_0000, 0x4_0000),
    ],
    channels: &[channel(0, 0), channel(0x10_0000_0000, 0x4_0000_0000)],
    cores: Window { bar0: 0, address: 0xfff_c000_0000, bytes: 2 * core::STRIDE },
    topsps: &TOPSPS_V2,
    host_mask: 0x1_f000_0000_0000,
};

static ENGINES_V3: [EngineRun; 8] = [
    run(0, 32, 0x8200_0000, 0x10_0000),
    run(32, 32, 0x9400_0000, 0x10_0000),
    run(64, 32, 0xa200_0000, 0x10_0000),
    run(96, 32, 0xb400_0000, 0x10_0000),
    run(128, 1, 0x680_0000, 0x10_0000),
    run(129, 1, 0x690_0000, 0x10_0000),
    run(130, 1, 0x4680_0000, 0x10_0000),
    run(131, 1, 0x4690_0000, 0x10_0000),
];

static CHANNELS_V3: [Channel; 4] = [
    channel(0, 0),
    channel(0x40_0000_0000, 0x10_0000_0000),
    channel(0x8000_0000_0000, 0x20_0000_0000),
    channel(0x8040_0000_0000, 0x30_0000_0000),
];

const CORES_V3: Window = Window { bar0: 0xd000_0000, address: 0x20_0000_0000, bytes: 8 * core::STRIDE };

/// Trn2.
pub static V3: Layout = Layout {
    geometry: GEOMETRY_V3,
    engines: &ENGINES_V3,
    channels: &CHANNELS_V3,
    cores: CORES_V3,
    topsps: &TOPSPS_V3,
    host_mask: 0xc000_0000_0000,
};

/// Trn3: the map of Trn2 with larger channels.
pub static V4: Layout = Layout {
    geometry: GEOMETRY_V4,
    engines: &ENGINES_V3,
    channels: &CHANNELS_V3,
    cores: CORES_V3,
    topsps: &TOPSPS_V3,
    host_mask: 0xc000_0000_0000,
};

impl Layout {
    /// The map of an architecture number, 2 to 4.
    pub fn of(arch: u32) -> Option<&'static Layout> {
        match arch {
            2 => Some(&V2),
            3 => Some(&V3),
            4 => Some(&V4),
            _ => None,
        }
    }

    /// Engine id and offset inside it for a BAR 0 offset.
    pub fn engine_at(&self, offset: u64) -> Option<(u32, u64)> {
        self.engines.iter().find_map(|r| {
            let at = offset.checked_sub(r.base)?;
            (at < r.stride * u64::from(r.count)).then(|| (r.first + (at / r.stride) as u32, at % r.stride))
        })
    }

    /// BAR 0 offset of an engine.
    pub fn engine_base(&self, id: u32) -> Option<u64> {
        let run = self.engines.iter().find(|r| (r.first..r.first + r.count).contains(&id))?;
        Some(run.base + u64::from(id - run.first) * run.stride)
    }

    /// BAR 4 offset of a device memory address. `bytes` is the size of a channel.
    pub fn bar4_of(&self, address: u64, bytes: u64) -> Option<u64> {
        self.channels.iter().find_map(|c| {
            let at = address.checked_sub(c.address)?;
            (at < bytes).then_some(c.bar4 + at)
        })
    }
}
