//! Who a device is, and who uses it.

use neuron_abi::kernel::args::{
    AppInfo, CompatibleVersion, DeviceBasicInfo, DeviceDriverInfo, GetAppsInfo, GetLogicalToPhysicalNcMap,
    HostDeviceId, HostDeviceIdToRidMap, NcMap, NcMapEntry, Wire,
};
use neuron_abi::kernel::ioctl::Op;
use neuron_abi::kernel::values::{
    APP_INFO_NC_LOCK, FEATURE_BIG_CORE_MAPS, FEATURE_DMABUF, FEATURE_HBM_SCRUB, FEATURE_MEM_ALLOC_TYPE,
    FEATURE_MEM_ALLOC64, FEATURE_ZEROCOPY, MAX_PROCESSES, NC_MAP_MAX_ENTRIES, NC_MAPPING_V0,
};

use crate::call::{Buffer, Call};
use crate::{Cause, File, Result};

/// Silicon of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Architecture number: 2, 3 or 4.
    pub architecture: u32,
    /// PCI revision.
    pub revision: u32,
}

/// What the driver can do beyond its first version (`facts/driver/enums.tsv`, feature_flags1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features(u64);

impl Features {
    /// Memory can be exported as a dma-buf.
    pub fn dmabuf(self) -> bool {
        self.0 & FEATURE_DMABUF != 0
    }

    /// Core claims have the 512-bit form.
    pub fn big_core_maps(self) -> bool {
        self.0 & FEATURE_BIG_CORE_MAPS != 0
    }

    /// Memory channels can be cleared.
    pub fn hbm_scrub(self) -> bool {
        self.0 & FEATURE_HBM_SCRUB != 0
    }

    /// Allocations tell what they are for.
    pub fn allocation_kinds(self) -> bool {
        self.0 & FEATURE_MEM_ALLOC_TYPE != 0
    }

    /// Allocations of 4 GiB and more.
    pub fn large_allocations(self) -> bool {
        self.0 & FEATURE_MEM_ALLOC64 != 0
    }

    /// Zero copy names a queue (2.25.4); without this it is the trial form of 2.24, or there is none.
    pub fn zero_copy(self) -> bool {
        self.0 & FEATURE_ZEROCOPY != 0
    }
}

/// Which physical core of which device is behind a core number of the host.
///
/// Claims and logical cores count in the numbers on the left; registers, resets and memory are those
/// of the physical core on the right.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoreMap(Vec<(u32, u32)>);

impl CoreMap {
    /// Device and physical core of core `number`, on a host with `per_device` cores a device. A
    /// number the driver does not list is its own.
    pub fn locate(&self, number: u32, per_device: u32) -> (u32, u32) {
        let own = (number / per_device, number % per_device);
        self.0
            .get(number as usize)
            .copied()
            .filter(|&(device, core)| device == own.0 && core < per_device)
            .unwrap_or(own)
    }
}

/// Header and entries of the core map, as the driver fills them.
const MAP_BYTES: usize = NcMap::SIZE + NC_MAP_MAX_ENTRIES * NcMapEntry::SIZE;

impl dyn File + '_ {
    /// Architecture and revision. Any descriptor.
    ///
    /// # Errors
    /// Those of any command.
    pub fn identity(&self) -> Result<Identity> {
        let a = self.ask(Op::DeviceBasicInfo, &DeviceBasicInfo::default(), Buffer::None)?;
        Ok(Identity { architecture: a.architecture, revision: a.revision })
    }

    /// Lowest and highest compatibility id the driver offers. Any descriptor.
    ///
    /// # Errors
    /// Those of any command.
    pub fn compatible_versions(&self) -> Result<(u32, u32)> {
        let a = self.ask(Op::CompatibleVersion, &CompatibleVersion::default(), Buffer::None)?;
        Ok((a.min, a.max))
    }

    /// What the driver can do; nothing, when it is too old to be asked. Any descriptor.
    ///
    /// # Errors
    /// Those of any command.
    pub fn features(&self) -> Result<Features> {
        let size = DeviceDriverInfo::SIZE as u32;
        let argument = DeviceDriverInfo { size, ..Default::default() };
        let newer = || Ok(Features(self.ask(Op::DriverInfoGet, &argument, Buffer::None)?.feature_flags1));
        self.either(newer, || Ok(Features::default()))
    }

    /// Which physical cores are behind the core numbers of the host; empty where they are the same.
    /// Any descriptor.
    ///
    /// # Errors
    /// Those of any command.
    pub fn core_map(&self) -> Result<CoreMap> {
        let mut map = [0; MAP_BYTES];
        let mut buffer = Buffer::Out(&mut map);
        let argument = GetLogicalToPhysicalNcMap {
            map: buffer.address(),
            max_map_entries: NC_MAP_MAX_ENTRIES as u32,
            mapping_version: NC_MAPPING_V0,
        };
        match self.ask(Op::GetLogicalToPhysicalNcMap, &argument, buffer) {
            Ok(_) => {}
            Err(e) if matches!(e.cause, Cause::Unsupported | Cause::Refused | Cause::UnknownCommand) => {
                return Ok(CoreMap::default());
            }
            Err(e) => return Err(e),
        }
        let entries = (NcMap::get(&map).num_entries as usize).min(NC_MAP_MAX_ENTRIES);
        let entry = |i| NcMapEntry::get(&map[NcMap::SIZE + i * NcMapEntry::SIZE..]);
        Ok(CoreMap((0..entries).map(entry).map(|e| (e.device_id, e.device_nc_idx)).collect()))
    }

    /// Number of the device on its host, which a container may number otherwise. Not on a misc
    /// descriptor.
    ///
    /// # Errors
    /// Those of any command.
    pub fn host_device_id(&self) -> Result<u32> {
        let a = self.ask(Op::HostDeviceId, &HostDeviceId::default(), Buffer::None)?;
        Ok(a.host_device_id)
    }

    /// Routing id of each device of the host, by its number there; `None` when the driver is too old
    /// to be asked. Any descriptor.
    ///
    /// # Errors
    /// Those of any command.
    pub fn routing_ids(&self) -> Result<Option<Vec<u32>>> {
        let newer = || Ok(Some(self.ask(Op::HostDeviceIdToRidMap, &HostDeviceIdToRidMap::default(), Buffer::None)?));
        let answer = self.either(newer, || Ok(None))?;
        Ok(answer.map(|a| a.host_did_to_rid_map.into_iter().take(a.count as usize).collect()))
    }

    /// Process ids that have the device open, this one included. Not on a misc descriptor.
    ///
    /// # Errors
    /// Those of any command.
    pub fn processes(&self) -> Result<Vec<u32>> {
        let mut image = [0; GetAppsInfo::SIZE + MAX_PROCESSES * AppInfo::SIZE];
        let capacity = MAX_PROCESSES as u32;
        GetAppsInfo { apps_info_flags: APP_INFO_NC_LOCK, capacity, size: 0, app_data: [] }.put(&mut image);
        let op = Op::DeviceGetAllAppsInfo;
        let left = self.send(&mut Call { op, image: &mut image, buffer: Buffer::None })?;
        if left != 0 {
            return Err(self.error(op, Cause::Fault { left }));
        }
        let size = (GetAppsInfo::get(&image).size as usize).min(MAX_PROCESSES);
        let pids = (0..size).map(|i| AppInfo::get(&image[GetAppsInfo::SIZE + i * AppInfo::SIZE..]).pid);
        Ok(pids.filter_map(|pid| u32::try_from(pid).ok()).filter(|&pid| pid != 0).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_the_map_does_not_tell_is_its_own() {
        let map = CoreMap(vec![(0, 1), (0, 0), (7, 0), (1, 9)]);
        let places = |map: &CoreMap| (0..6).map(|n| map.locate(n, 2)).collect::<Vec<_>>();
        assert_eq!(places(&map), [(0, 1), (0, 0), (1, 0), (1, 1), (2, 0), (2, 1)]);
        assert_eq!(places(&CoreMap::default()), [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]);
    }
}
