//! PCI identity (`facts/driver/pci.tsv`).

use super::Release;

/// Vendor id of every device.
pub const VENDOR: u16 = 0x1d0f;

/// One entry of the driver's id table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PciId {
    /// Device id.
    pub device: u16,
    /// Name of the id.
    pub name: &'static str,
    /// Architecture number it selects.
    pub arch: u32,
    /// Name of the chip.
    pub chip: &'static str,
    /// First release whose table has it.
    pub since: Release,
    /// Last release whose table has it.
    pub last: Release,
}

const fn id(device: u16, name: &'static str, arch: u32, chip: &'static str, since: Release, last: Release) -> PciId {
    PciId { device, name, arch, chip, since, last }
}

/// The id table in table order; a device binds on the first row with its exact id, whatever its
/// subsystem and class are.
pub const IDS: [PciId; 9] = [
    id(0x7064, "INF1_DEVICE_ID0", 1, "Inferentia", Release::V2_24_7, Release::V2_24_7),
    id(0x7065, "INF1_DEVICE_ID1", 1, "Inferentia", Release::V2_24_7, Release::V2_24_7),
    id(0x7066, "INF1_DEVICE_ID2", 1, "Inferentia", Release::V2_24_7, Release::V2_24_7),
    id(0x7067, "INF1_DEVICE_ID3", 1, "Inferentia", Release::V2_24_7, Release::V2_24_7),
    id(0x7164, "TRN1_DEVICE_ID0", 2, "Trainium1", Release::V2_24_7, Release::Next),
    id(0x7264, "INF2_DEVICE_ID0", 2, "Inferentia2", Release::V2_24_7, Release::Next),
    id(0x7364, "TRN2_DEVICE_ID0", 3, "Trainium2", Release::V2_24_7, Release::Next),
    id(0x7564, "TRN3_DEVICE_ID0", 4, "Trainium3", Release::V2_25_4, Release::Next),
    id(0x7565, "TRN3_DEVICE_ID1", 4, "Trainium3", Release::V2_25_4, Release::Next),
];

/// Device id named by the load hint the package ships, wrong from 2.25.4 on.
pub const SHIPPED_ALIAS_DEVICE: u16 = 0x7064;

/// The id table of a release, in table order.
pub fn ids(release: Release) -> impl Iterator<Item = &'static PciId> {
    IDS.iter().filter(move |id| id.since <= release && release <= id.last)
}

/// The row a device binds on.
pub fn find(vendor: u16, device: u16, release: Release) -> Option<&'static PciId> {
    if vendor != VENDOR {
        return None;
    }
    ids(release).find(|id| id.device == device)
}

/// The `modalias` pattern of a device id: any subsystem, any class.
pub fn modalias(device: u16) -> String {
    format!("pci:v{VENDOR:08X}d{device:08X}sv*sd*bc*sc*i*")
}

/// Device index of each routing id within a block of 16, Trn1.
pub const RID_TO_INDEX_TRN1: [u32; 16] = [0, 4, 1, 5, 3, 7, 2, 6, 12, 8, 13, 9, 15, 11, 14, 10];

/// Device index of each routing id, Trn2 and Trn3.
pub const RID_TO_INDEX_TRN2: [u32; 16] = [0, 3, 4, 7, 12, 15, 8, 11, 1, 2, 5, 6, 13, 14, 9, 10];

/// Routing id of device `index` on a host with devices of PCI id `device`: the inverse of the
/// driver's maps. Hosts of switched pods are not meant, there both numbers are the same.
pub fn routing_id(device: u16, index: u32) -> u32 {
    let map = match device {
        0x7164 => &RID_TO_INDEX_TRN1,
        0x7264 => return index,
        _ => &RID_TO_INDEX_TRN2,
    };
    let place = map.iter().position(|i| *i == index % 16).expect("the map is a permutation of 0 to 15");
    index / 16 * 16 + place as u32
}

/// Routing ids must stay below this.
pub const MAX_ROUTING_ID: u32 = 64;

/// Routing ids must stay below this on a PDS platform (2.25.4 and later).
pub const MAX_ROUTING_ID_PDS: u32 = 128;
