//! Constants: flags, limits, datastore layout.

/// Declares constants, with the C names kept as data.
macro_rules! numbers {
    ($($group:literal { $($(#[$doc:meta])* $name:ident: $ty:ty = $value:literal, $c:literal;)* })*) => {
        $($($(#[$doc])* pub const $name: $ty = $value;)*)*

        /// Every constant as (group of the facts table, C name, value).
        pub const CONST_ROWS: &[(&str, &str, i64)] = &[$($(($group, $c, $value)),*),*];
    };
}

numbers! {
    "feature_flags1" {
        /// Bit of `DRIVER_INFO_GET`.
        FEATURE_DMABUF: u64 = 0x1, "NEURON_DRIVER_FEATURE_DMABUF";
        /// Bit of `DRIVER_INFO_GET`.
        FEATURE_ASYNC_DMA: u64 = 0x2, "NEURON_DRIVER_FEATURE_ASYNC_DMA";
        /// Bit of `DRIVER_INFO_GET`.
        FEATURE_BATCH_DMAQ_INIT: u64 = 0x4, "NEURON_DRIVER_FEATURE_BATCH_DMAQ_INIT";
        /// Bit of `DRIVER_INFO_GET`.
        FEATURE_BIG_CORE_MAPS: u64 = 0x8, "NEURON_DRIVER_FEATURE_BIG_CORE_MAPS";
        /// Bit of `DRIVER_INFO_GET`.
        FEATURE_MEM_ALLOC_TYPE: u64 = 0x10, "NEURON_DRIVER_FEATURE_MEM_ALLOC_TYPE";
        /// Bit of `DRIVER_INFO_GET`.
        FEATURE_HBM_SCRUB: u64 = 0x20, "NEURON_DRIVER_FEATURE_HBM_SCRUB";
        /// Bit of `DRIVER_INFO_GET`.
        FEATURE_MEM_ALLOC64: u64 = 0x40, "NEURON_DRIVER_FEATURE_MEM_ALLOC64";
        /// Bit of `DRIVER_INFO_GET`.
        FEATURE_CONTIGUOUS_SCRATCHPAD: u64 = 0x80, "NEURON_DRIVER_FEATURE_CONTIGUOUS_SCRATCHPAD";
        /// Bit of `DRIVER_INFO_GET`; since 2.25.
        FEATURE_ZEROCOPY: u64 = 0x100, "NEURON_DRIVER_FEATURE_ZEROCOPY";
    }
    "nc_map" {
        /// Core map that means the whole device.
        NC_MAP_DEVICE: u32 = 0xffffffff, "NEURON_NC_MAP_DEVICE";
    }
    "h2t_ctx_handle" {
        /// Wait handles of asynchronous copies.
        H2T_CONTEXTS: usize = 3, "NEURON_DMA_H2T_CTX_HANDLE_CNT";
    }
    "h2t_qid" {
        /// Queue number that means the default host-to-target queue.
        H2T_DEFAULT_QID: i32 = -1, "NEURON_DMA_H2T_DEFAULT_QID";
    }
    "nq_device_type" {
        /// First invalid owner kind.
        NQ_DEVICE_TYPES: u32 = 2, "NQ_DEVICE_TYPE_MAX";
    }
    "nq_type" {
        /// First invalid queue kind.
        NQ_TYPE_MAX: u32 = 6, "NQ_TYPE_MAX";
    }
    "limits" {
        /// Attach slots of a device.
        MAX_PROCESSES: usize = 16, "NEURON_MAX_PROCESS_PER_DEVICE";
        /// Core claim keys in one application record.
        APP_INFO_MAX_MODELS: usize = 4, "APP_INFO_MAX_MODELS_PER_DEVICE";
        /// Entries of a queue batch; the count must stay below.
        MAX_QUEUE_INIT_BATCH: usize = 256, "MAX_DMA_QUEUE_INIT_BATCH";
        /// Masks of the removed quiesce command.
        QUIESCE_MAX_ENGINES: usize = 64, "DMA_QUIESCE_MAX_ENG";
        /// Neighbour slots of `DEVICE_INFO`.
        MAX_CONNECTED_DEVICES: usize = 8, "NEURON_IOCTL_MAX_CONNECTED_DEVICES";
        /// BAR slots of `DEVICE_INFO`.
        MAX_BARS: usize = 2, "NEURON_MAX_BARS";
        /// Entries of the routing-id map.
        RID_MAP_DEVICES: usize = 64, "NEURON_IOCTL_MAX_DEVICES";
        /// Entries of the logical core map.
        NC_MAP_MAX_ENTRIES: usize = 128, "NEURON_NC_MAP_MAX_ENTRIES";
        /// Version written by `DRIVER_INFO_GET`.
        DRIVER_INFO_VERSION0: u32 = 0, "NEURON_DEVICE_DRIVER_INFO_VERSION0";
        /// Device nodes and minors.
        MAX_DEVICES: usize = 64, "MAX_NEURON_DEVICE_COUNT";
        /// Core slots of a device.
        MAX_CORES: usize = 8, "MAX_NC_PER_DEVICE";
        /// Top-level synchronisation processors of a device.
        MAX_TOPSPS: usize = 16, "MAX_TS_PER_DEVICE";
        /// Memory channel slots of a device.
        MAX_DRAM_CHANNELS: usize = 4, "MAX_DRAM_CHANNELS";
        /// Region slots of a channel; one is used from V2 on.
        MAX_DDR_REGIONS: usize = 4, "MAX_DDR_REGIONS";
        /// Upper bound of an engine id.
        MAX_DMA_ENGINES: usize = 132, "NUM_DMA_ENG_PER_DEVICE";
        /// Queues of an engine.
        DMA_QUEUES: usize = 16, "DMA_MAX_Q";
        /// Bytes one descriptor moves at most; also the bounce buffer.
        MAX_DESC_BYTES: usize = 65536, "MAX_DMA_DESC_SIZE";
        /// Bytes of a descriptor.
        DESC_BYTES: usize = 16, "UDMA_DESC_SIZE";
        /// Notification queue types of an engine.
        NQ_TYPES: usize = 6, "MAX_NQ_TYPE";
        /// Engine slots with notification queues.
        NQ_ENGINES: usize = 16, "MAX_NQ_ENGINE";
        /// Notification queues of one owner.
        NQ_SLOTS: usize = 96, "MAX_NQ_SUPPORTED";
        /// Bytes of a process datastore.
        DATASTORE_BYTES: usize = 0x40000, "NEURON_DATASTORE_SIZE";
        /// Memory handles of a device; the first is 1.
        MAX_MEM_HANDLES: usize = 0x400000, "NMCH_MAX_HANDLES";
        /// Entries of the core claim table.
        MAX_CLAIMS: usize = 512, "MAX_CORE_RESERVATION";
    }
    "app_info_flags" {
        /// Asks for the core claims of a process.
        APP_INFO_NC_LOCK: u16 = 1, "APP_INFO_PID_NC_LOCK_INFO";
        /// Asks for the memory use of a process.
        APP_INFO_MEM_USAGE: u16 = 2, "APP_INFO_PID_MEM_USAGE";
        /// Asks for everything.
        APP_INFO_ALL: u16 = 15, "APP_INFO_ALL";
    }
    "nc_mapping_version" {
        /// The only version of the logical core map.
        NC_MAPPING_V0: u32 = 0, "NEURON_IOCTL_NC_MAPPING_TYPE_V0";
    }
    "mem_alloc_category" {
        /// First invalid memory category.
        MEM_CATEGORY_MAX: u32 = 20, "NEURON_MEMALLOC_TYPE_MAX";
    }
    "nds_device_counter" {
        /// Device counter slots.
        NDS_DEVICE_COUNTERS: usize = 31, "NDS_ND_COUNTER_COUNT";
    }
    "nds_core_counter" {
        /// Counter slots of a core.
        NDS_CORE_COUNTERS: usize = 31, "NDS_NC_COUNTER_COUNT";
    }
    "nds_ext_core_counter" {
        /// One past the last extended core counter in use.
        NDS_EXT_CORE_COUNTER_LAST: usize = 41, "NDS_EXT_NC_COUNTER_LAST";
        /// Counter slots of a core in the extended section.
        NDS_EXT_CORE_COUNTERS: usize = 64, "NDS_EXT_NC_COUNTER_COUNT";
    }
    "nds_layout_bytes" {
        /// Datastore: header start, bytes.
        NDS_HEADER_START: usize = 0, "NDS_HEADER_START";
        /// Datastore: nd counters start, bytes.
        NDS_ND_COUNTERS_START: usize = 8, "NDS_ND_COUNTERS_START";
        /// Datastore: nd counters size, bytes.
        NDS_ND_COUNTERS_SIZE: usize = 248, "NDS_ND_COUNTERS_SIZE";
        /// Datastore: neuroncore counters start, bytes.
        NDS_NEURONCORE_COUNTERS_START: usize = 256, "NDS_NEURONCORE_COUNTERS_START";
        /// Datastore: neuroncore counters size, bytes.
        NDS_NEURONCORE_COUNTERS_SIZE: usize = 992, "NDS_NEURONCORE_COUNTERS_SIZE";
        /// Datastore: ext offset old, bytes.
        NDS_EXT_OFFSET_OLD: usize = 44588, "NDS_EXT_OFFSET_OLD";
        /// Datastore: ext section size old, bytes.
        NDS_EXT_SECTION_SIZE_OLD: usize = 11296, "NDS_EXT_SECTION_SIZE_OLD";
        /// Datastore: ext offset, bytes.
        NDS_EXT_OFFSET: usize = 55936, "NDS_EXT_OFFSET";
        /// Datastore: ext neuroncore counters start, bytes.
        NDS_EXT_NEURONCORE_COUNTERS_START: usize = 55936, "NDS_EXT_NEURONCORE_COUNTERS_START";
        /// Datastore: ext neuroncore counters size, bytes.
        NDS_EXT_NEURONCORE_COUNTERS_SIZE: usize = 2048, "NDS_EXT_NEURONCORE_COUNTERS_SIZE";
        /// Datastore: ext neuroncore nc data start, bytes.
        NDS_EXT_NEURONCORE_NC_DATA_START: usize = 57984, "NDS_EXT_NEURONCORE_NC_DATA_START";
        /// Datastore: ext neuroncore nc data size, bytes.
        NDS_EXT_NEURONCORE_NC_DATA_SIZE: usize = 9216, "NDS_EXT_NEURONCORE_NC_DATA_SIZE";
        /// Datastore: ext neuroncore nc data count.
        NDS_EXT_NEURONCORE_NC_DATA_COUNT: usize = 96, "NDS_EXT_NEURONCORE_NC_DATA_COUNT";
        /// Datastore: max neuroncore count.
        NDS_MAX_NEURONCORE_COUNT: usize = 4, "NDS_MAX_NEURONCORE_COUNT";
        /// Datastore: ext max neuroncore count.
        NDS_EXT_MAX_NEURONCORE_COUNT: usize = 12, "NDS_EXT_MAX_NEURONCORE_COUNT";
    }
    "reset_request" {
        /// Id of the driver's own whole-device reset requests.
        RESET_REQUEST_ALL: u32 = 0xffffffff, "NEURON_RESET_REQUEST_ALL";
    }
    "revision" {
        /// PCI revision of the pre-silicon emulator.
        REVISION_EMU: u8 = 240, "EMU";
        /// PCI revision of the virtual machine model.
        REVISION_QEMU: u8 = 255, "QEMU";
    }
}
