//! Neighbours, logical core maps and instances (`facts/driver/topology.tsv`).

/// Neighbours of the 16 devices of a Trn1 instance, in the order the driver prints them.
pub const TRN1_NEIGHBOURS: [[u32; 4]; 16] = [
    [12, 3, 4, 1],
    [13, 0, 5, 2],
    [14, 1, 6, 3],
    [15, 2, 7, 0],
    [0, 7, 8, 5],
    [1, 4, 9, 6],
    [2, 5, 10, 7],
    [3, 6, 11, 4],
    [4, 11, 12, 9],
    [5, 8, 13, 10],
    [6, 9, 14, 11],
    [7, 10, 15, 8],
    [8, 15, 0, 13],
    [9, 12, 1, 14],
    [10, 13, 2, 15],
    [11, 14, 3, 12],
];

/// Neighbours of the 16 devices of a Trn2 or Trn3 instance, in the order the driver prints them.
pub const TRN2_NEIGHBOURS: [[u32; 4]; 16] = [
    [12, 1, 3, 4],
    [0, 13, 5, 2],
    [14, 3, 1, 6],
    [2, 15, 7, 0],
    [8, 5, 7, 0],
    [4, 9, 1, 6],
    [10, 7, 5, 2],
    [6, 11, 3, 4],
    [4, 9, 11, 12],
    [8, 5, 13, 10],
    [6, 11, 9, 14],
    [10, 7, 15, 8],
    [0, 13, 15, 8],
    [12, 1, 9, 14],
    [2, 15, 13, 10],
    [14, 3, 11, 12],
];

/// Devices of an Inf2 instance that are joined in a line.
pub const INF2_LINE: u32 = 6;

/// Devices of an Inf2 instance that are joined in a ring.
pub const INF2_RING: u32 = 12;

/// Physical core of each logical core, by pattern.
pub const CORE_PATTERNS: [[u32; 8]; 4] =
    [[4, 5, 6, 7, 2, 3, 0, 1], [2, 3, 0, 1, 4, 5, 6, 7], [0, 1, 2, 3, 6, 7, 4, 5], [6, 7, 4, 5, 0, 1, 2, 3]];

/// Pattern of each of the 16 devices of an instance, an index into [`CORE_PATTERNS`].
pub const CORE_PATTERN_OF_DEVICE: [usize; 16] = [0, 1, 0, 1, 2, 3, 2, 3, 0, 1, 0, 1, 2, 3, 2, 3];

/// A flipped die exchanges logical core `i` with logical core `i ^ DIE_FLIP`.
pub const DIE_FLIP: usize = 6;

/// Pattern of the devices of a switched (PDS) pod: even index, odd index.
pub const PDS_PATTERNS: [usize; 2] = [0, 1];

/// One instance type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Name in the facts table.
    pub name: &'static str,
    /// Devices.
    pub devices: u32,
    /// Physical cores of a device.
    pub cores: u32,
    /// Memory channels of a device.
    pub channels: u32,
    /// Device memory of a device, GiB.
    pub hbm_gib: u32,
    /// Architecture number; 1 is known to 2.24.7 only and not modelled.
    pub arch: u32,
}

/// Instance types with a known device count.
pub const INSTANCES: &[Instance] = &[
    Instance { name: "inf1.xlarge", devices: 1, cores: 4, channels: 1, hbm_gib: 8, arch: 1 },
    Instance { name: "inf1.2xlarge", devices: 1, cores: 4, channels: 1, hbm_gib: 8, arch: 1 },
    Instance { name: "inf1.6xlarge", devices: 4, cores: 4, channels: 1, hbm_gib: 8, arch: 1 },
    Instance { name: "inf1.24xlarge", devices: 16, cores: 4, channels: 1, hbm_gib: 8, arch: 1 },
    Instance { name: "inf2.xlarge", devices: 1, cores: 2, channels: 2, hbm_gib: 32, arch: 2 },
    Instance { name: "inf2.8xlarge", devices: 1, cores: 2, channels: 2, hbm_gib: 32, arch: 2 },
    Instance { name: "inf2.24xlarge", devices: 6, cores: 2, channels: 2, hbm_gib: 32, arch: 2 },
    Instance { name: "inf2.48xlarge", devices: 12, cores: 2, channels: 2, hbm_gib: 32, arch: 2 },
    Instance { name: "trn1.2xlarge", devices: 1, cores: 2, channels: 2, hbm_gib: 32, arch: 2 },
    Instance { name: "trn1.32xlarge", devices: 16, cores: 2, channels: 2, hbm_gib: 32, arch: 2 },
    Instance { name: "trn1n.32xlarge", devices: 16, cores: 2, channels: 2, hbm_gib: 32, arch: 2 },
    Instance { name: "trn2.3xlarge", devices: 1, cores: 8, channels: 4, hbm_gib: 96, arch: 3 },
    Instance { name: "trn2.48xlarge", devices: 16, cores: 8, channels: 4, hbm_gib: 96, arch: 3 },
    Instance { name: "trn2u.48xlarge", devices: 16, cores: 8, channels: 4, hbm_gib: 96, arch: 3 },
    Instance { name: "trn3 gen1 UltraServer host", devices: 16, cores: 8, channels: 4, hbm_gib: 144, arch: 4 },
    Instance { name: "trn3 gen2 UltraServer host", devices: 4, cores: 8, channels: 4, hbm_gib: 144, arch: 4 },
];
