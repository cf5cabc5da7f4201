//! `NRT_STATUS`, the answer of almost every public call.

/// Status of a public call. The numbers are the C values, the display form is the C name
/// (`abi/enums.tsv`, enum `NRT_STATUS`).
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    strum::FromRepr,
    strum::IntoStaticStr,
    strum::Display,
    strum::EnumIter,
)]
#[repr(u32)]
pub enum Status {
    /// The call did what it was asked.
    #[strum(serialize = "NRT_SUCCESS")]
    Success = 0,
    /// Failure without a better name; also busy cores and a forked child.
    #[strum(serialize = "NRT_FAILURE")]
    Failure = 1,
    /// Bad argument, configuration value or model file.
    #[strum(serialize = "NRT_INVALID")]
    Invalid = 2,
    /// The handle is not one this library gave out, or it was freed.
    #[strum(serialize = "NRT_INVALID_HANDLE")]
    InvalidHandle = 3,
    /// A resource, usually device memory, is used up.
    #[strum(serialize = "NRT_RESOURCE")]
    Resource = 4,
    /// A time limit passed.
    #[strum(serialize = "NRT_TIMEOUT")]
    Timeout = 5,
    /// Hardware fault without a better name.
    #[strum(serialize = "NRT_HW_ERROR")]
    HwError = 6,
    /// The request queue has no room.
    #[strum(serialize = "NRT_QUEUE_FULL")]
    QueueFull = 7,
    /// The model needs more cores than this process has.
    #[strum(serialize = "NRT_LOAD_NOT_ENOUGH_NC")]
    LoadNotEnoughNc = 9,
    /// The model file's version or a feature of it is not supported.
    #[strum(serialize = "NRT_UNSUPPORTED_NEFF_VERSION")]
    UnsupportedNeffVersion = 10,
    /// Host memory allocation failed.
    #[strum(serialize = "NRT_FAIL_HOST_MEM_ALLOC")]
    FailHostMemAlloc = 11,
    /// `nrt_init` has not succeeded in this process.
    #[strum(serialize = "NRT_UNINITIALIZED")]
    Uninitialized = 13,
    /// The runtime is being closed.
    #[strum(serialize = "NRT_CLOSED")]
    Closed = 14,
    /// Nothing to take from the queue.
    #[strum(serialize = "NRT_QUEUE_EMPTY")]
    QueueEmpty = 15,
    /// The execution unit is unusable until the process restarts.
    #[strum(serialize = "NRT_EXEC_UNIT_UNRECOVERABLE")]
    ExecUnitUnrecoverable = 101,
    /// Execution refused its input.
    #[strum(serialize = "NRT_EXEC_BAD_INPUT")]
    ExecBadInput = 1002,
    /// Execution finished with a numerical error.
    #[strum(serialize = "NRT_EXEC_COMPLETED_WITH_NUM_ERR")]
    ExecCompletedWithNumErr = 1003,
    /// Execution finished with another error.
    #[strum(serialize = "NRT_EXEC_COMPLETED_WITH_ERR")]
    ExecCompletedWithErr = 1004,
    /// The core is in use by somebody else.
    #[strum(serialize = "NRT_EXEC_NC_BUSY")]
    ExecNcBusy = 1005,
    /// The model accessed memory out of bounds.
    #[strum(serialize = "NRT_EXEC_OOB")]
    ExecOob = 1006,
    /// A collective is still running; not an error.
    #[strum(serialize = "NRT_COLL_PENDING")]
    CollPending = 1100,
    /// A collective is stuck.
    #[strum(serialize = "NRT_EXEC_HW_ERR_COLLECTIVES")]
    ExecHwErrCollectives = 1200,
    /// Uncorrectable HBM error.
    #[strum(serialize = "NRT_EXEC_HW_ERR_HBM_UE")]
    ExecHwErrHbmUe = 1201,
    /// Uncorrectable error in a core's own memory.
    #[strum(serialize = "NRT_EXEC_HW_ERR_NC_UE")]
    ExecHwErrNcUe = 1202,
    /// A DMA engine gave up.
    #[strum(serialize = "NRT_EXEC_HW_ERR_DMA_ABORT")]
    ExecHwErrDmaAbort = 1203,
    /// The software notification queue overflowed.
    #[strum(serialize = "NRT_EXEC_SW_NQ_OVERFLOW")]
    ExecSwNqOverflow = 1204,
    /// Uncorrectable HBM error that a repair can remove.
    #[strum(serialize = "NRT_EXEC_HW_ERR_REPAIRABLE_HBM_UE")]
    ExecHwErrRepairableHbmUe = 1205,
    /// The network proxy failed.
    #[strum(serialize = "NRT_NETWORK_PROXY_FAILURE")]
    NetworkProxyFailure = 1206,
}

impl Status {
    /// The C value.
    pub const fn code(self) -> u32 {
        self as u32
    }

    /// `Ok(())` for success, the status itself otherwise.
    pub fn ok(self) -> Result<(), Status> {
        if self == Status::Success { Ok(()) } else { Err(self) }
    }
}
