//! Identity, applications, versions, pods: commands that only tell.

use neuron_abi::kernel::args as a;
use neuron_abi::kernel::ioctl::Op;
use neuron_abi::kernel::values::{
    APP_INFO_MAX_MODELS, APP_INFO_MEM_USAGE, APP_INFO_NC_LOCK, DRIVER_INFO_VERSION0, MAX_BARS, MAX_CONNECTED_DEVICES,
    MAX_DEVICES, NC_MAP_MAX_ENTRIES, NC_MAPPING_V0, PodElectionState, PodType, RID_MAP_DEVICES,
};

use super::{Call, User};
use crate::reply::{Bug, Errno, Reply};

/// Address the register window is said to be mapped at: a kernel address the model makes up,
/// different for each device.
pub(crate) fn window_address(index: u32) -> u64 {
    0xffff_c900_0000_0000 + (u64::from(index) << 36)
}

pub(super) fn ioctl(call: &Call<'_>) -> Reply {
    let device = call.device;
    match call.row.op {
        Op::DeviceBasicInfo => {
            let (architecture, revision) = (device.dhal.arch(), device.revision.into());
            call.put(call.arg, a::DeviceBasicInfo { architecture, revision })
        }
        Op::CompatibleVersion => {
            let geometry = &device.dhal.layout().geometry;
            call.put(call.arg, a::CompatibleVersion { max: geometry.compat_max, min: geometry.compat_min })
        }
        Op::DeviceInfo => device_info(call),
        Op::DeviceInit | Op::DeviceRelease => Ok(0),
        Op::DeviceAppPid => call.put(call.arg, device.attach.first()),
        Op::DeviceGetAllAppsInfo => all_apps(call),
        Op::DeviceBdf => {
            let bdf = device.bdf;
            call.put(call.arg, a::DeviceBdf { bus_number: bdf.bus.into(), slot: bdf.slot, func: bdf.func })
        }
        Op::DeviceBdfExt => bdf_ext(call),
        Op::DriverInfoGet => call.put(
            call.arg,
            a::DeviceDriverInfo {
                architecture: device.dhal.arch(),
                revision: device.revision.into(),
                version: DRIVER_INFO_VERSION0,
                size: a::DeviceDriverInfo::INFO.size as u32,
                feature_flags1: device.env.profile.features(),
            },
        ),
        Op::DriverInfoSet => Err(Errno::ENOTSUPP.into()),
        Op::DmaQuiesceQueues => Err(Errno::ENOTTY.into()),
        Op::HostDeviceId => call.put(call.arg, device.index),
        Op::HostDeviceIdToRidMap => {
            // The map is a function of the count: which devices there really are does not show.
            let mut map = [0; RID_MAP_DEVICES];
            let count = call.driver.counted();
            for routing_id in 0..count {
                let index = device.dhal.device_index(device.pci_device, routing_id);
                if let Some(slot) = map.get_mut(index as usize) {
                    *slot = routing_id;
                }
            }
            call.put(call.arg, a::HostDeviceIdToRidMap { count, host_did_to_rid_map: map })
        }
        Op::Printk => printk(call),
        Op::GetLogicalToPhysicalNcMap => core_map(call),
        Op::PodInfo => {
            let mut user = call.copy_in::<a::PodInfo>()?;
            check_size(user.value.sz, a::PodInfo::INFO.size)?;
            user.value.pod_type = PodType::None as u8;
            user.value.pod_id = [0; 256];
            user.value.pod_sz = 0;
            call.copy_out(user)
        }
        Op::PodStatus => {
            let mut user = call.copy_in::<a::PodStatus>()?;
            check_size(user.value.sz, a::PodStatus::INFO.size)?;
            no_pod(&mut user.value);
            call.copy_out(user)
        }
        Op::PodStatusV2 => {
            let mut user = call.copy_in::<a::PodStatusV2>()?;
            check_size(user.value.v1.sz, a::PodStatusV2::INFO.size)?;
            no_pod(&mut user.value.v1);
            (user.value.mode, user.value.modes_supported) = (0, 0);
            call.copy_out(user)
        }
        Op::PodCtrl => {
            let mut user = call.copy_in::<a::PodCtrl>()?;
            check_size(user.value.sz, a::PodCtrl::INFO.size)?;
            pod_control(call, &mut user.value);
            call.copy_out(user)
        }
        Op::PodCtrlV2 => {
            let mut user = call.copy_in::<a::PodCtrlV2>()?;
            check_size(user.value.v1.sz, a::PodCtrlV2::INFO.size)?;
            pod_control(call, &mut user.value.v1);
            call.copy_out(user)
        }
        _ => Err(call.misrouted()),
    }
}

fn check_size(sent: u16, size: usize) -> Result<(), Errno> {
    if usize::from(sent) == size { Ok(()) } else { Err(Errno::EINVAL) }
}

fn no_pod(status: &mut a::PodStatus) {
    status.pod_id = [0; 256];
    status.state = PodElectionState::SingleNode as u32;
    status.pod_type = PodType::None as u8;
    status.pod_sz = 0;
    status.node_id = -1;
}

fn pod_control(call: &Call<'_>, control: &mut a::PodCtrl) {
    if call.device.dhal.pod_ctrl_writes_state() {
        control.state = PodElectionState::SingleNode as u32;
    }
}

fn device_info(call: &Call<'_>) -> Reply {
    let device = call.device;
    let neighbours = device.dhal.neighbours(device.pci_device, device.index, call.driver.counted());
    if neighbours.len() > MAX_CONNECTED_DEVICES {
        return Err(Errno::EINVAL.into());
    }
    // Quirk "device-info-pad": the slots without a neighbour are stale bytes in the driver.
    let mut user = User::<a::DeviceInfo>::fresh(call.arg);
    let info = &mut user.value;
    info.architecture = device.dhal.arch();
    info.revision = device.revision.into();
    info.connected_device_count = neighbours.len() as u32;
    info.connected_devices[..neighbours.len()].copy_from_slice(&neighbours);
    info.bar_address = [window_address(device.index), 0];
    info.bar_size = [device.bars.bar0.bytes, device.bars.bar2.bytes];
    const { assert!(MAX_BARS == 2) };
    call.copy_out(user)
}

fn all_apps(call: &Call<'_>) -> Reply {
    let mut user = call.copy_in::<a::GetAppsInfo>()?;
    let device = call.device;
    let flags = user.value.apps_info_flags;
    let processes = device.attach.processes();
    let shown = processes.len().min(user.value.capacity as usize);
    user.value.size = shown as u32;
    call.copy_out(user)?;
    for (i, tgid) in processes[..shown].iter().enumerate() {
        let mut app = a::AppInfo { pid: *tgid as i32, ..Default::default() };
        if flags & APP_INFO_NC_LOCK != 0 {
            for (core, uuid) in device.locks.held(*tgid, APP_INFO_MAX_MODELS).into_iter().enumerate() {
                let Some(value) = uuid else { continue };
                app.nc_lock_map |= 1 << core;
                app.uuid_data[core].value = value;
            }
        }
        if flags & APP_INFO_MEM_USAGE != 0 {
            let usage = device.memory.usage(*tgid);
            (app.host_mem_size, app.device_mem_size) = (usage.host, usage.device);
        }
        let at = a::GetAppsInfo::INFO.size + i * a::AppInfo::INFO.size;
        call.put(call.arg.wrapping_add(at as u64), app)?;
    }
    Ok(0)
}

fn bdf_ext(call: &Call<'_>) -> Reply {
    let mut user = call.copy_in::<a::DeviceBdfExt>()?;
    // The driver cuts the sum to eight bits.
    let index = user.value.nd_index.wrapping_add(call.device.index) as u8;
    if usize::from(index) >= MAX_DEVICES {
        let text = format!("device table indexed with {index}, which is beyond its end");
        return Err(Bug { quirk: "bdf-ext-index", text }.into());
    }
    let bdf = call.driver.device(index.into()).ok_or(Errno::EINVAL)?.bdf;
    user.value.domain = bdf.domain;
    user.value.bus_number = bdf.bus.into();
    (user.value.slot, user.value.func) = (bdf.slot, bdf.func);
    call.copy_out(user)
}

fn printk(call: &Call<'_>) -> Reply {
    const MAX: u32 = 512;
    let user = call.copy_in::<a::Printk>()?.value;
    if user.size > MAX {
        return Err(Errno::EFAULT.into());
    }
    let mut text = vec![0; user.size as usize];
    call.read(user.buffer, &mut text)?;
    if text.last().is_some_and(|last| *last != 0) {
        return Err(Errno::EBADMSG.into());
    }
    let line = String::from_utf8_lossy(&text).trim_end_matches('\0').to_owned();
    call.device.env.log.line("user_message", &[], line);
    Ok(0)
}

fn core_map(call: &Call<'_>) -> Reply {
    let map = call.device.dhal.core_map(call.device.env.params.flag("force_die_flip")).ok_or(Errno::ENOTSUPP)?;
    let user = call.copy_in::<a::GetLogicalToPhysicalNcMap>()?.value;
    if user.max_map_entries as usize > NC_MAP_MAX_ENTRIES || user.mapping_version != NC_MAPPING_V0 {
        return Err(Errno::EINVAL.into());
    }
    let entries = &map[..map.len().min(user.max_map_entries as usize)];
    call.put(user.map, a::NcMap { num_entries: entries.len() as u32, mappings: [] })?;
    for (i, (device_id, device_nc_idx)) in entries.iter().copied().enumerate() {
        let at = a::NcMap::INFO.size + i * a::NcMapEntry::INFO.size;
        call.put(user.map.wrapping_add(at as u64), a::NcMapEntry { device_id, device_nc_idx })?;
    }
    Ok(0)
}
