//! Device identity, applications, registers and firmware requests.

use super::{UserPtr, layout};

layout! {
    /// Argument of `DEVICE_INIT`.
    pub struct DeviceInit = "neuron_ioctl_device_init", 4 bytes {
        mem_regions: u32 = 0,
    }

    /// Argument of `NC_RESET`.
    pub struct DeviceReset = "neuron_ioctl_device_reset", 8 bytes {
        nc_map: u32 = 0,
        request_id: u32 = 4,
    }

    /// Argument of `NC_RESET_READY`.
    pub struct DeviceReady = "neuron_ioctl_device_ready", 8 bytes {
        request_id: u32 = 0,
        result: i32 = 4,
    }

    /// Argument of `DEVICE_GET_ALL_APPS_INFO`.
    /// Followed by an array of [`AppInfo`].
    pub struct GetAppsInfo = "neuron_ioctl_get_apps_info", 16 bytes {
        apps_info_flags: u16 = 0,
        capacity: u32 = 4,
        size: u32 = 8,
        app_data: [AppInfo; 0] = 16,
    }

    /// Argument of `BAR_READ`, `BAR_WRITE`.
    pub struct BarRw = "neuron_ioctl_bar_rw", 32 bytes {
        bar: u32 = 0,
        address: UserPtr = 8,
        data: UserPtr = 16,
        count: u32 = 24,
    }

    /// Argument of `POST_METRIC`.
    pub struct PostMetric = "neuron_ioctl_post_metric", 16 bytes {
        data: UserPtr = 0,
        data_size: u32 = 8,
    }

    /// Argument of `READ_HW_COUNTERS`.
    pub struct ReadHwCounters = "neuron_ioctl_read_hw_counters", 24 bytes {
        address: UserPtr = 0,
        data: UserPtr = 8,
        count: u32 = 16,
    }

    /// Argument of `COMPATIBLE_VERSION`.
    pub struct CompatibleVersion = "neuron_ioctl_compatible_version", 8 bytes {
        max: u32 = 0,
        min: u32 = 4,
    }

    /// Argument of `DEVICE_BASIC_INFO`.
    pub struct DeviceBasicInfo = "neuron_ioctl_device_basic_info", 8 bytes {
        architecture: u32 = 0,
        revision: u32 = 4,
    }

    /// Argument of `DEVICE_BDF`.
    pub struct DeviceBdf = "neuron_ioctl_device_bdf", 8 bytes {
        bus_number: u32 = 0,
        slot: u8 = 4,
        func: u8 = 5,
    }

    /// Argument of `DEVICE_BDF_EXT`.
    pub struct DeviceBdfExt = "neuron_ioctl_device_bdf_ext", 16 bytes {
        nd_index: u32 = 0,
        domain: u32 = 4,
        bus_number: u32 = 8,
        slot: u8 = 12,
        func: u8 = 13,
    }

    /// Argument of `RESOURCE_MMAP_INFO`.
    pub struct ResourceMmapInfo = "neuron_ioctl_resource_mmap_info", 32 bytes {
        block: u32 = 0,
        block_id: u32 = 4,
        resource: u32 = 8,
        offset: u64 = 16,
        size: u64 = 24,
    }

    /// Argument of `DEVICE_INFO`.
    pub struct DeviceInfo = "neuron_ioctl_device_info", 80 bytes {
        architecture: u32 = 0,
        revision: u32 = 4,
        connected_device_count: u32 = 8,
        connected_devices: [u32; 8] = 12,
        bar_address: [u64; 2] = 48,
        bar_size: [u64; 2] = 64,
    }

    /// Argument of `DRIVER_INFO_GET`, `DRIVER_INFO_SET`.
    pub struct DeviceDriverInfo = "neuron_ioctl_device_driver_info", 24 bytes {
        architecture: u32 = 0,
        revision: u32 = 4,
        version: u32 = 8,
        size: u32 = 12,
        feature_flags1: u64 = 16,
    }

    /// Argument of `PRINTK`.
    pub struct Printk = "neuron_ioctl_printk", 16 bytes {
        buffer: UserPtr = 0,
        size: u32 = 8,
        action: u32 = 12,
    }

    /// Argument of `HOST_DEVICE_ID`.
    pub struct HostDeviceId = "neuron_ioctl_host_device_id", 4 bytes {
        host_device_id: u32 = 0,
    }

    /// Argument of `NC_PID_STATE_DUMP`.
    pub struct NcPidStateDump = "neuron_ioctl_nc_pid_state_dump", 16 bytes {
        size: u32 = 0,
        nc_id: u32 = 4,
        filter_log_owner: u32 = 8,
        log_dump_limit: u32 = 12,
    }

    /// Argument of `HOST_DEVICE_ID_TO_RID_MAP`.
    pub struct HostDeviceIdToRidMap = "neuron_ioctl_host_device_id_to_rid_map", 260 bytes {
        count: u32 = 0,
        host_did_to_rid_map: [u32; 64] = 4,
    }

    /// Key of the reader/writer claim of a core.
    pub struct Uuid = "neuron_uuid", 32 bytes {
        value: [u8; 32] = 0,
    }

    /// One attached process as `DEVICE_GET_ALL_APPS_INFO` reports it.
    pub struct AppInfo = "neuron_app_info", 152 bytes {
        pid: i32 = 0,
        nc_lock_map: u8 = 4,
        uuid_data: [Uuid; 4] = 5,
        host_mem_size: u64 = 136,
        device_mem_size: u64 = 144,
    }

    /// First bytes of a datastore mapping.
    pub struct NdsHeader = "nds_header", 8 bytes {
        signature: [u8; 4] = 0,
        version: i32 = 4,
    }

    /// Argument of `POWER_PROFILE`, `GET_PERFORMANCE_PROFILE`. Since 2.25.4.
    pub struct PowerProfile = "neuron_ioctl_power_profile", 8 bytes {
        sz: u16 = 0,
        ctrl: u16 = 2,
        profile: u32 = 4,
    }

    /// Argument of `METRICS_CTRL`. Since 2.25.4.
    pub struct MetricsCtrl = "neuron_ioctl_metrics_ctrl", 4 bytes {
        mode: u32 = 0,
    }

    /// Argument of `THROTTLING_NOTIFICATIONS`. Since 2.26.5.
    pub struct ThrottlingNotifications = "neuron_ioctl_throttling_notifications", 4 bytes {
        enable: u32 = 0,
    }

    /// Argument of `AVAILABLE_PERF_PROFILES`. Since 2.27.4.
    pub struct AvailablePerfProfiles = "neuron_ioctl_available_perf_profiles", 36 bytes {
        requested_feature: u16 = 0,
        num_profiles: u8 = 2,
        bitmap: [u8; 32] = 3,
    }
}
