//! Enums.

/// Declares enums whose values the driver and its clients exchange, with the C names kept as data.
macro_rules! values {
    ($(
        $(#[$doc:meta])*
        pub enum $name:ident: $repr:ident = $group:literal { $($variant:ident = $value:literal, $c:literal;)* }
    )*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
            #[repr($repr)]
            #[allow(missing_docs)] // the names are the driver's, shortened
            pub enum $name { $($variant = $value),* }

            impl $name {
                /// All values, ascending.
                pub const ALL: &'static [$name] = &[$($name::$variant),*];

                /// The value with this number.
                pub fn from_raw(raw: $repr) -> Option<Self> {
                    Self::ALL.iter().copied().find(|v| *v as $repr == raw)
                }
            }
        )*

        /// Every enum as (group of the facts table, C name, number).
        pub const ENUM_ROWS: &[(&str, &str, i64)] = &[$($(($group, $c, $value)),*),*];
    };
}

values! {
    /// Architecture numbers as the driver writes them; `V1` only up to 2.24.7.
    pub enum ArchNumber: u32 = "arch" {
        Invalid = 0, "NEURON_ARCH_INVALID";
        V1 = 1, "NEURON_ARCH_V1";
        V2 = 2, "NEURON_ARCH_V2";
        V3 = 3, "NEURON_ARCH_V3";
        V4 = 4, "NEURON_ARCH_V4";
    }

    /// How an instance is joined with others.
    pub enum PodType: u32 = "pod_type" {
        None = 0, "NEURON_POD_TYPE_NONE";
        P2p = 1, "NEURON_POD_TYPE_P2P";
        Switch = 2, "NEURON_POD_TYPE_SWITCH";
    }

    /// Progress of a pod election.
    pub enum PodElectionState: u32 = "pod_election_state" {
        NotStarted = 0, "NEURON_POD_E_STATE_NOT_STARTED";
        InProgress = 1, "NEURON_POD_E_STATE_IN_PROGRESS";
        Ultraserver = 2, "NEURON_POD_E_STATE_ULTRASERVER";
        Failed = 3, "NEURON_POD_E_STATE_FAILED";
        SingleNode = 4, "NEURON_POD_E_STATE_SINGLE_NODE";
    }

    /// Requests of `POD_CTRL`.
    pub enum PodCtrlRequest: u32 = "pod_ctrl_req" {
        ReqPod = 0, "NEURON_NPE_POD_CTRL_REQ_POD";
        ReqSingleNode = 1, "NEURON_NPE_POD_CTRL_REQ_SINGLE_NODE";
        ReqKill = 2, "NEURON_NPE_POD_CTRL_REQ_KILL";
        SetMode = 3, "NEURON_NPE_POD_CTRL_SET_MODE";
    }

    /// How many nodes an UltraServer uses.
    pub enum UltraserverMode: u32 = "ultraserver_mode" {
        Unset = 0, "NEURON_ULTRASERVER_MODE_UNSET";
        X4 = 1, "NEURON_ULTRASERVER_MODE_X4";
        X2h = 2, "NEURON_ULTRASERVER_MODE_X2H";
        X2v = 3, "NEURON_ULTRASERVER_MODE_X2V";
        X1 = 4, "NEURON_ULTRASERVER_MODE_X1";
    }

    /// Argument of `METRICS_CTRL`.
    pub enum MetricsMode: u32 = "metrics_mode" {
        PeriodicEnable = 0, "NEURON_METRICS_MODE_PERIODIC_ENABLE";
        PeriodicDisable = 1, "NEURON_METRICS_MODE_PERIODIC_DISABLE";
    }

    /// Which ring of a DMA queue.
    pub enum DmaQueueType: u32 = "dma_queue_type" {
        Tx = 0, "NEURON_DMA_QUEUE_TYPE_TX";
        Rx = 1, "NEURON_DMA_QUEUE_TYPE_RX";
        Completion = 2, "NEURON_DMA_QUEUE_TYPE_COMPLETION";
    }

    /// Initialisation state of a core; `Invalid` after probe and after a reset.
    pub enum CoreInitState: u32 = "core_init_state" {
        Started = 1, "NEURON_CINIT_STATE_STARTED";
        Completed = 2, "NEURON_CINIT_STATE_COMPLETED";
        Invalid = 3, "NEURON_CINIT_STATE_INVALID";
    }

    /// Wait handles of asynchronous copies.
    pub enum H2tContext: i32 = "h2t_ctx_handle" {
        None = -1, "NEURON_DMA_H2T_CTX_HANDLE_NONE";
        Sync = 0, "NEURON_DMA_H2T_CTX_HANDLE_SYNC";
        Async1 = 1, "NEURON_DMA_H2T_CTX_HANDLE_ASYNC1";
        Async2 = 2, "NEURON_DMA_H2T_CTX_HANDLE_ASYNC2";
    }

    /// Owner kind of a notification queue.
    pub enum NqDeviceType: u32 = "nq_device_type" {
        NeuronCore = 0, "NQ_DEVICE_TYPE_NEURON_CORE";
        Topsp = 1, "NQ_DEVICE_TYPE_TOPSP";
    }

    /// Kind of a notification queue.
    pub enum NqType: u32 = "nq_type" {
        Trace = 0, "NQ_TYPE_TRACE";
        Notify = 1, "NQ_TYPE_NOTIFY";
        Event = 2, "NQ_TYPE_EVENT";
        Error = 3, "NQ_TYPE_ERROR";
        TraceDma = 4, "NQ_TYPE_TRACE_DMA";
        Throttle = 5, "NQ_TYPE_THROTTLE";
    }

    /// Block of a special mapping.
    pub enum DmBlock: i32 = "dm_block_type" {
        Invalid = -1, "NEURON_DM_BLOCK_INVALID";
        Tpb = 0, "NEURON_DM_BLOCK_TPB";
        Topsp = 1, "NEURON_DM_BLOCK_TOPSP";
        Hbm = 2, "NEURON_DM_BLOCK_HBM";
    }

    /// Resource of a special mapping; `All` is read-only.
    pub enum DmResource: u32 = "dm_resource_type" {
        Semaphore = 0, "NEURON_DM_RESOURCE_SEMAPHORE";
        All = 1, "NEURON_DM_RESOURCE_ALL";
        Sbuf = 2, "NEURON_DM_RESOURCE_SBUF";
        Dmem = 3, "NEURON_DM_RESOURCE_DMEM";
    }

    /// What an allocation is for; decides the counter it is booked under.
    pub enum MemCategory: u32 = "mem_alloc_category" {
        UnknownHost = 0, "NEURON_MEMALLOC_TYPE_UNKNOWN_HOST";
        CodeHost = 1, "NEURON_MEMALLOC_TYPE_CODE_HOST";
        TensorsHost = 2, "NEURON_MEMALLOC_TYPE_TENSORS_HOST";
        ConstantsHost = 3, "NEURON_MEMALLOC_TYPE_CONSTANTS_HOST";
        MiscHost = 4, "NEURON_MEMALLOC_TYPE_MISC_HOST";
        NcdevHost = 5, "NEURON_MEMALLOC_TYPE_NCDEV_HOST";
        NotificationHost = 6, "NEURON_MEMALLOC_TYPE_NOTIFICATION_HOST";
        UnknownDevice = 7, "NEURON_MEMALLOC_TYPE_UNKNOWN_DEVICE";
        CodeDevice = 8, "NEURON_MEMALLOC_TYPE_CODE_DEVICE";
        TensorsDevice = 9, "NEURON_MEMALLOC_TYPE_TENSORS_DEVICE";
        ConstantsDevice = 10, "NEURON_MEMALLOC_TYPE_CONSTANTS_DEVICE";
        ScratchpadDevice = 11, "NEURON_MEMALLOC_TYPE_SCRATCHPAD_DEVICE";
        MiscDevice = 12, "NEURON_MEMALLOC_TYPE_MISC_DEVICE";
        NcdevDevice = 13, "NEURON_MEMALLOC_TYPE_NCDEV_DEVICE";
        CollectivesDevice = 14, "NEURON_MEMALLOC_TYPE_COLLECTIVES_DEVICE";
        ScratchpadNonsharedDevice = 15, "NEURON_MEMALLOC_TYPE_SCRATCHPAD_NONSHARED_DEVICE";
        NotificationDevice = 16, "NEURON_MEMALLOC_TYPE_NOTIFICATION_DEVICE";
        DmaRingsHost = 17, "NEURON_MEMALLOC_TYPE_DMA_RINGS_HOST";
        DmaRingsDevice = 18, "NEURON_MEMALLOC_TYPE_DMA_RINGS_DEVICE";
        ContiguousScratchpadDevice = 19, "NEURON_MEMALLOC_TYPE_CONTIGUOUS_SCRATCHPAD_DEVICE";
    }

    /// Slots of the device counters in a datastore.
    pub enum NdsDeviceCounter: u32 = "nds_device_counter" {
        RuntimeVersion = 0, "NDS_ND_COUNTER_RUNTIME_VERSION";
        FrameworkVersion = 1, "NDS_ND_COUNTER_FRAMEWORK_VERSION";
        FalVersion = 2, "NDS_ND_COUNTER_FAL_VERSION";
        FeatureBitmap = 3, "NDS_ND_COUNTER_FEATURE_BITMAP";
        MinNeffVersion = 4, "NDS_ND_COUNTER_MIN_NEFF_VERSION";
        MaxNeffVersion = 5, "NDS_ND_COUNTER_MAX_NEFF_VERSION";
        MemUsageCodeHost = 6, "NDS_ND_COUNTER_MEM_USAGE_CODE_HOST";
        MemUsageTensorsHost = 7, "NDS_ND_COUNTER_MEM_USAGE_TENSORS_HOST";
        MemUsageConstantsHost = 8, "NDS_ND_COUNTER_MEM_USAGE_CONSTANTS_HOST";
        MemUsageScratchpadHost = 9, "NDS_ND_COUNTER_MEM_USAGE_SCRATCHPAD_HOST";
        MemUsageMiscHost = 10, "NDS_ND_COUNTER_MEM_USAGE_MISC_HOST";
        DynamicSysfsMetricBitmap = 11, "NDS_ND_COUNTER_DYNAMIC_SYSFS_METRIC_BITMAP";
        DeviceClusterId = 12, "NDS_ND_COUNTER_DEVICE_CLUSTER_ID";
    }

    /// Slots of the core counters in a datastore.
    pub enum NdsCoreCounter: u32 = "nds_core_counter" {
        TimeInUse = 0, "NDS_NC_COUNTER_TIME_IN_USE";
        InferCompleted = 1, "NDS_NC_COUNTER_INFER_COMPLETED";
        InferCompletedWithErr = 2, "NDS_NC_COUNTER_INFER_COMPLETED_WITH_ERR";
        InferCompletedWithNumErr = 3, "NDS_NC_COUNTER_INFER_COMPLETED_WITH_NUM_ERR";
        InferTimedOut = 4, "NDS_NC_COUNTER_INFER_TIMED_OUT";
        InferIncorrectInput = 5, "NDS_NC_COUNTER_INFER_INCORRECT_INPUT";
        InferFailedToQueue = 6, "NDS_NC_COUNTER_INFER_FAILED_TO_QUEUE";
        ErrGeneric = 7, "NDS_NC_COUNTER_ERR_GENERIC";
        ErrNumerical = 8, "NDS_NC_COUNTER_ERR_NUMERICAL";
        ErrModel = 9, "NDS_NC_COUNTER_ERR_MODEL";
        ErrTransient = 10, "NDS_NC_COUNTER_ERR_TRANSIENT";
        ErrHw = 11, "NDS_NC_COUNTER_ERR_HW";
        ErrRt = 12, "NDS_NC_COUNTER_ERR_RT";
        LatencyDevice = 13, "NDS_NC_COUNTER_LATENCY_DEVICE";
        LatencyTotal = 14, "NDS_NC_COUNTER_LATENCY_TOTAL";
        NcTime = 15, "NDS_NC_COUNTER_NC_TIME";
        GenericFail = 16, "NDS_NC_COUNTER_GENERIC_FAIL";
        ErrResource = 17, "NDS_NC_COUNTER_ERR_RESOURCE";
        ErrResourceNc = 18, "NDS_NC_COUNTER_ERR_RESOURCE_NC";
        ErrInvalid = 19, "NDS_NC_COUNTER_ERR_INVALID";
        ErrUnsupportedNeffVersion = 20, "NDS_NC_COUNTER_ERR_UNSUPPORTED_NEFF_VERSION";
        CcTime = 21, "NDS_NC_COUNTER_CC_TIME";
        MemUsageCodeDevice = 22, "NDS_NC_COUNTER_MEM_USAGE_CODE_DEVICE";
        MemUsageTensorsDevice = 23, "NDS_NC_COUNTER_MEM_USAGE_TENSORS_DEVICE";
        MemUsageConstantsDevice = 24, "NDS_NC_COUNTER_MEM_USAGE_CONSTANTS_DEVICE";
        MemUsageScratchpadDevice = 25, "NDS_NC_COUNTER_MEM_USAGE_SCRATCHPAD_DEVICE";
        MemUsageMiscDevice = 26, "NDS_NC_COUNTER_MEM_USAGE_MISC_DEVICE";
        ModelLoadCount = 27, "NDS_NC_COUNTER_MODEL_LOAD_COUNT";
        InferenceCount = 28, "NDS_NC_COUNTER_INFERENCE_COUNT";
        MacCount = 29, "NDS_NC_COUNTER_MAC_COUNT";
        Oob = 30, "NDS_NC_COUNTER_OOB";
    }

    /// Slots of the extended core counters; numbering goes on after the core counters.
    pub enum NdsExtCoreCounter: u32 = "nds_ext_core_counter" {
        HwErrCollectives = 31, "NDS_EXT_NC_COUNTER_HW_ERR_COLLECTIVES";
        HwErrHbmUe = 32, "NDS_EXT_NC_COUNTER_HW_ERR_HBM_UE";
        HwErrNcUe = 33, "NDS_EXT_NC_COUNTER_HW_ERR_NC_UE";
        HwErrDmaAbort = 34, "NDS_EXT_NC_COUNTER_HW_ERR_DMA_ABORT";
        ErrSwNqOverflow = 35, "NDS_EXT_NC_COUNTER_ERR_SW_NQ_OVERFLOW";
        ErrSwSemaphoreError = 36, "NDS_EXT_NC_COUNTER_ERR_SW_SEMAPHORE_ERROR";
        ErrSwEventError = 37, "NDS_EXT_NC_COUNTER_ERR_SW_EVENT_ERROR";
        ErrSwPsumCollision = 38, "NDS_EXT_NC_COUNTER_ERR_SW_PSUM_COLLISION";
        ErrSwSequencerFatal = 39, "NDS_EXT_NC_COUNTER_ERR_SW_SEQUENCER_FATAL";
        HwErrRepairableHbmUe = 40, "NDS_EXT_NC_COUNTER_HW_ERR_REPAIRABLE_HBM_UE";
    }

    /// Device state as sysfs `reset` prints it.
    pub enum DeviceState: u32 = "device_state" {
        Reset = 0, "NEURON_DEVICE_STATE_RESET";
        Ready = 1, "NEURON_DEVICE_STATE_READY";
        Invalid = 2, "NEURON_DEVICE_STATE_INVALID";
    }

    /// State of one reset request.
    pub enum ResetState: u32 = "reset_state" {
        Started = 1, "NEURON_RESET_STATE_STARTED";
        Completed = 2, "NEURON_RESET_STATE_COMPLETED";
        Failed = 3, "NEURON_RESET_STATE_FAILED";
    }

    /// Reset kind written to the firmware.
    pub enum FwResetType: u32 = "fw_reset_type" {
        Device = 1, "DEVICE";
        Tpb = 2, "TPB";
    }

    /// Platform kind derived from the DMI product name.
    pub enum Platform: u32 = "platform_type" {
        Std = 0, "STD";
        Ultraserver = 1, "ULTRASERVER";
        Pds = 2, "PDS";
        Invalid = 3, "INVALID";
    }

    /// Where a chunk lives.
    pub enum MemLocation: u32 = "mem_location" {
        Host = 1, "HOST";
        Device = 2, "DEVICE";
    }

    /// When a chunk is freed.
    pub enum MemLifespan: u32 = "mem_lifespan" {
        Local = 1, "LOCAL";
        CurProcess = 2, "CUR_PROCESS";
        AllProcess = 3, "ALL_PROCESS";
        Device = 4, "DEVICE";
    }
}
