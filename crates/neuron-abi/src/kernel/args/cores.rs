//! Cores: semaphores, events, notification queues, claims, core maps and pods.

use super::{UserPtr, Uuid, layout};

layout! {
    /// Argument of `SEMAPHORE_INCREMENT`, `SEMAPHORE_DECREMENT`, `SEMAPHORE_READ`, `SEMAPHORE_WRITE`, `EVENT_SET`, `EVENT_GET`.
    pub struct Semaphore = "neuron_ioctl_semaphore", 12 bytes {
        nc_id: u32 = 0,
        semaphore_index: u32 = 4,
        value: u32 = 8,
    }

    /// Same shape as `Semaphore`, kept for the names of its fields.
    pub struct Event = "neuron_ioctl_event", 12 bytes {
        nc_id: u32 = 0,
        event_index: u32 = 4,
        value: u32 = 8,
    }

    /// Argument of `NOTIFICATIONS_INIT_V1`.
    pub struct NotificationsInitV1 = "neuron_ioctl_notifications_init_v1", 24 bytes {
        nc_id: u32 = 0,
        nq_type: u32 = 4,
        engine_index: u32 = 8,
        size: u32 = 12,
        mmap_offset: u64 = 16,
    }

    /// Argument of `NOTIFICATIONS_INIT_V2`.
    pub struct NotificationsInitV2 = "neuron_ioctl_notifications_init_v2", 48 bytes {
        nq_dev_id: u32 = 0,
        nq_dev_type: u32 = 4,
        nq_type: u32 = 8,
        engine_index: u32 = 12,
        size: u32 = 16,
        on_host_memory: u32 = 20,
        dram_channel: u32 = 24,
        dram_region: u32 = 28,
        mmap_offset: u64 = 32,
        mem_handle: u64 = 40,
    }

    /// Argument of `NOTIFICATIONS_INIT_WITH_REALLOC_V2`.
    pub struct NotificationsInitWithReallocV2 = "neuron_ioctl_notifications_init_with_realloc_v2", 56 bytes {
        nq_dev_id: u32 = 0,
        nq_dev_type: u32 = 4,
        nq_type: u32 = 8,
        engine_index: u32 = 12,
        size: u32 = 16,
        on_host_memory: u32 = 20,
        dram_channel: u32 = 24,
        dram_region: u32 = 28,
        force_alloc_mem: u32 = 32,
        mmap_offset: u64 = 40,
        mem_handle: u64 = 48,
    }

    /// Argument of `NOTIFICATIONS_DESTROY_V1`.
    pub struct NotificationsDestroy = "neuron_ioctl_notifications_destroy", 8 bytes {
        mmap_offset: u64 = 0,
    }

    /// Argument of a removed notification queue command.
    pub struct NotificationsDestroyNq = "neuron_ioctl_notifications_destroy_nq", 12 bytes {
        nq_dev_id: u32 = 0,
        nq_type: u32 = 4,
        engine_index: u32 = 8,
    }

    /// Argument of `NOTIFICATIONS_QUEUE_INFO`.
    pub struct NotificationsQueueInfo = "neuron_ioctl_notifications_queue_info", 12 bytes {
        nq_dev_id: u8 = 0,
        nq_dev_type: u8 = 1,
        nq_type: u8 = 2,
        engine_index: u8 = 3,
        head: u32 = 4,
        phase_bit: u32 = 8,
    }

    /// Argument of `CRWL_READER_ENTER`, `CRWL_READER_EXIT`, `CRWL_WRITER_ENTER`, `CRWL_WRITER_DOWNGRADE`.
    pub struct Crwl = "neuron_ioctl_crwl", 36 bytes {
        nc_id: u32 = 0,
        uuid: Uuid = 4,
    }

    /// Argument of `CRWL_NC_RANGE_MARK`, `CRWL_NC_RANGE_UNMARK`.
    pub struct CrwlNcMap = "neuron_ioctl_crwl_nc_map", 24 bytes {
        nc_count: u32 = 0,
        start_nc_index: u32 = 4,
        end_nc_index: u32 = 8,
        max_nc_available: u32 = 12,
        bitmap: u64 = 16,
    }

    /// Argument of `CRWL_NC_RANGE_MARK_EXT0`, `CRWL_NC_RANGE_UNMARK_EXT0`.
    pub struct CrwlNcMapExt = "neuron_ioctl_crwl_nc_map_ext", 80 bytes {
        nc_count: u32 = 0,
        start_nc_index: u32 = 4,
        end_nc_index: u32 = 8,
        max_nc_available: u32 = 12,
        bitmap: [u64; 8] = 16,
    }

    /// Argument of `CINIT_SET_STATE`.
    pub struct CinitSet = "neuron_ioctl_cinit_set", 12 bytes {
        nc_id: u32 = 0,
        state: u32 = 4,
        new_state: u32 = 8,
    }

    /// Argument of `NC_MODEL_STARTED_COUNT`.
    pub struct NcModelStartedCount = "neuron_ioctl_nc_model_started_count", 16 bytes {
        nc_id: u32 = 0,
        started_count: u64 = 8,
    }

    /// Argument of `GET_LOGICAL_TO_PHYSICAL_NC_MAP`.
    pub struct GetLogicalToPhysicalNcMap = "neuron_ioctl_get_logical_to_physical_nc_map", 16 bytes {
        map: UserPtr = 0,
        max_map_entries: u32 = 8,
        mapping_version: u32 = 12,
    }

    /// Argument of `POD_INFO`.
    pub struct PodInfo = "neuron_ioctl_pod_info", 260 bytes {
        sz: u16 = 0,
        pod_type: u8 = 2,
        pod_id: [u8; 256] = 3,
        pod_sz: u8 = 259,
    }

    /// Argument of `POD_STATUS`.
    pub struct PodStatus = "neuron_ioctl_pod_status", 268 bytes {
        sz: u16 = 0,
        pod_id: [u8; 256] = 2,
        state: u32 = 260,
        pod_type: u8 = 264,
        pod_sz: u8 = 265,
        node_id: i8 = 266,
    }

    /// Argument of `POD_STATUS_V2`.
    pub struct PodStatusV2 = "neuron_ioctl_pod_status_v2", 276 bytes {
        v1: PodStatus = 0,
        mode: u32 = 268,
        modes_supported: u32 = 272,
    }

    /// Argument of `POD_CTRL`.
    pub struct PodCtrl = "neuron_ioctl_pod_ctrl", 16 bytes {
        sz: u16 = 0,
        ctrl: u32 = 4,
        timeout: u32 = 8,
        state: u32 = 12,
    }

    /// Argument of `POD_CTRL_V2`.
    pub struct PodCtrlV2 = "neuron_ioctl_pod_ctrl_v2", 20 bytes {
        v1: PodCtrl = 0,
        mode: u32 = 16,
    }

    /// One row of the logical core map.
    pub struct NcMapEntry = "neuron_ioctl_nc_map_entry", 8 bytes {
        device_id: u32 = 0,
        device_nc_idx: u32 = 4,
    }

    /// Header of the logical core map; the entries follow it.
    /// Followed by an array of [`NcMapEntry`].
    pub struct NcMap = "neuron_ioctl_nc_map", 4 bytes {
        num_entries: u32 = 0,
        mappings: [NcMapEntry; 0] = 4,
    }
}
