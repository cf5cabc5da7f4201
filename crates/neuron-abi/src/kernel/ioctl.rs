//! The table of all commands (`facts/driver/ioctls.tsv`).

use super::Release;
use super::args::*;

/// Character every command is encoded with.
pub const TYPE: u8 = b'N';

/// Direction bits of a command, seen from the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dir {
    /// `_IO`: no data encoded.
    None,
    /// `_IOW`: the caller writes.
    Write,
    /// `_IOR`: the caller reads.
    Read,
    /// `_IOWR`.
    ReadWrite,
}

/// What the argument word is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arg {
    /// Not looked at.
    None,
    /// Address of one integer of this C type.
    Scalar(&'static str),
    /// Address of a struct although the command encodes the size of a pointer.
    Pointer(&'static StructInfo),
    /// Address of a struct that no release looks at.
    Opaque(&'static str),
    /// Address of a struct of the encoded size.
    Struct(&'static StructInfo),
}

impl Arg {
    /// Layout of the struct behind the argument.
    pub fn layout(self) -> Option<&'static StructInfo> {
        match self {
            Arg::Pointer(info) | Arg::Struct(info) => Some(info),
            Arg::None | Arg::Scalar(_) | Arg::Opaque(_) => None,
        }
    }
}

/// Which file descriptors reach a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Descriptors that took an attach slot.
    Main,
    /// These and the free-access ones (opened for writing only).
    Both,
    /// Not known: only in development sources.
    Unknown,
}

/// What is tested before a command runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// Nothing.
    None,
    /// The caller's thread group must hold an attach slot, else `EACCES`.
    Attach,
    /// Nothing; reachable without a slot through the misc lane.
    Misc,
    /// Not known: only in development sources.
    Unknown,
}

/// How a command value is matched with a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// All 32 bits.
    Exact,
    /// The number picks a handler that then compares all 32 bits.
    NrThenExact,
    /// The number, then the encoded size; direction and type character are ignored.
    NrThenSize,
    /// The number, then the direction; the size is a lower bound of a command that answers.
    NrThenDir,
    /// The number alone.
    Nr,
    /// Not known: only in development sources.
    Unknown,
}

/// One command.
#[derive(Debug, PartialEq, Eq)]
pub struct Ioctl {
    /// The command as a value to match on.
    pub op: Op,
    /// Name without the `NEURON_IOCTL_` prefix.
    pub name: &'static str,
    /// Number field.
    pub nr: u8,
    /// Direction field.
    pub dir: Dir,
    /// Size field, bytes.
    pub size: u32,
    /// The whole 32-bit value.
    pub cmd: u32,
    /// Shape of the argument.
    pub arg: Arg,
    /// Bytes the driver copies in before it does anything.
    pub copied_in: usize,
    /// Who reaches it.
    pub lane: Lane,
    /// What is tested first.
    pub gate: Gate,
    /// How a value is matched.
    pub rule: Rule,
    /// First release that has the row.
    pub since: Release,
    /// Last release that has the row.
    pub last: Release,
}

macro_rules! commands {
    ($($op:ident = $name:literal: $nr:literal, $dir:ident, $size:literal, $cmd:literal, $arg:expr,
        $copied:literal, $lane:ident, $gate:ident, $rule:ident, $since:ident, $last:ident;)*) => {
        /// Every command, for `match`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs)] // the names are the driver's; the table has the rest
        pub enum Op { $($op),* }

        /// All commands, in the order of their numbers.
        pub static IOCTLS: &[Ioctl] = &[$(Ioctl {
            op: Op::$op,
            name: $name,
            nr: $nr,
            dir: Dir::$dir,
            size: $size,
            cmd: $cmd,
            arg: $arg,
            copied_in: $copied,
            lane: Lane::$lane,
            gate: Gate::$gate,
            rule: Rule::$rule,
            since: Release::$since,
            last: Release::$last,
        }),*];
    };
}

#[rustfmt::skip]
commands! {
    // op, nr, direction, size, command, argument, bytes copied in, lane, gate, rule, since, last
    DeviceReset = "DEVICE_RESET": 1, None, 0, 0x00004e01, Arg::None, 0, Main, None, Exact, V2_24_7, Next;
    DeviceReady = "DEVICE_READY": 2, Read, 1, 0x80014e02, Arg::Scalar("__u8"), 0, Main, None, Exact, V2_24_7, Next;
    DeviceInfo = "DEVICE_INFO": 3, Read, 8, 0x80084e03, Arg::Pointer(DeviceInfo::INFO), 0, Main, None, Exact, V2_24_7, Next;
    DeviceInit = "DEVICE_INIT": 4, Read, 8, 0x80084e04, Arg::Pointer(DeviceInit::INFO), 0, Main, None, Exact, V2_24_7, Next;
    DeviceRelease = "DEVICE_RELEASE": 5, None, 0, 0x00004e05, Arg::None, 0, Main, None, Exact, V2_24_7, Next;
    DeviceAppPid = "DEVICE_APP_PID": 6, Read, 4, 0x80044e06, Arg::Scalar("__s32"), 0, Main, None, Exact, V2_24_7, Next;
    DeviceGetAllAppsInfo = "DEVICE_GET_ALL_APPS_INFO": 7, Read, 8, 0x80084e07, Arg::Pointer(GetAppsInfo::INFO), 16, Main, None, Exact, V2_24_7, Next;
    BarRead = "BAR_READ": 11, Read, 8, 0x80084e0b, Arg::Pointer(BarRw::INFO), 32, Main, None, Exact, V2_24_7, Next;
    BarWrite = "BAR_WRITE": 12, Write, 8, 0x40084e0c, Arg::Pointer(BarRw::INFO), 32, Main, Attach, Exact, V2_24_7, Next;
    PostMetric = "POST_METRIC": 13, Write, 8, 0x40084e0d, Arg::Pointer(PostMetric::INFO), 16, Main, Attach, Exact, V2_24_7, Next;
    MemAlloc = "MEM_ALLOC": 21, Read, 8, 0x80084e15, Arg::Pointer(MemAlloc::INFO), 32, Main, Attach, Exact, V2_24_7, Next;
    MemFree = "MEM_FREE": 22, Read, 8, 0x80084e16, Arg::Pointer(MemFree::INFO), 8, Main, Attach, Exact, V2_24_7, Next;
    MemCopy = "MEM_COPY": 23, Read, 8, 0x80084e17, Arg::Pointer(MemCopy::INFO), 32, Main, Attach, NrThenExact, V2_24_7, Next;
    MemCopy64 = "MEM_COPY64": 23, Read, 40, 0x80284e17, Arg::Struct(MemCopy64::INFO), 40, Main, None, NrThenExact, V2_24_7, Next;
    MemBufCopy = "MEM_BUF_COPY": 24, ReadWrite, 8, 0xc0084e18, Arg::Pointer(MemBufCopy::INFO), 32, Main, None, NrThenExact, V2_24_7, Next;
    MemBufCopy64 = "MEM_BUF_COPY64": 24, ReadWrite, 40, 0xc0284e18, Arg::Struct(MemBufCopy64::INFO), 40, Main, None, NrThenExact, V2_24_7, Next;
    MemGetPa = "MEM_GET_PA": 25, Read, 8, 0x80084e19, Arg::Pointer(MemGetPa::INFO), 16, Main, Attach, Exact, V2_24_7, Next;
    MemGetInfo = "MEM_GET_INFO": 26, Read, 8, 0x80084e1a, Arg::Pointer(MemGetInfo::INFO), 24, Main, Attach, Exact, V2_24_7, Next;
    ProgramEngine = "PROGRAM_ENGINE": 27, ReadWrite, 8, 0xc0084e1b, Arg::Pointer(ProgramEngine::INFO), 24, Main, None, Exact, V2_24_7, Next;
    Memset = "MEMSET": 28, Read, 8, 0x80084e1c, Arg::Pointer(Memset::INFO), 24, Main, None, NrThenExact, V2_24_7, Next;
    Memset64 = "MEMSET64": 28, Read, 32, 0x80204e1c, Arg::Struct(Memset64::INFO), 32, Main, None, NrThenExact, V2_24_7, Next;
    MemGetExtendedInfo = "MEM_GET_EXTENDED_INFO": 29, Read, 8, 0x80084e1d, Arg::Pointer(MemGetExtendedInfo::INFO), 48, Main, None, Exact, V2_24_7, Next;
    DmaEngInit = "DMA_ENG_INIT": 30, Read, 8, 0x80084e1e, Arg::Pointer(DmaEngInit::INFO), 0, Main, Attach, Exact, V2_24_7, Next;
    DmaEngSetState = "DMA_ENG_SET_STATE": 31, Read, 8, 0x80084e1f, Arg::Pointer(DmaEngSetState::INFO), 8, Main, Attach, Exact, V2_24_7, Next;
    DmaEngGetState = "DMA_ENG_GET_STATE": 32, ReadWrite, 8, 0xc0084e20, Arg::Pointer(DmaEngGetState::INFO), 16, Main, None, Exact, V2_24_7, Next;
    DmaQueueInit = "DMA_QUEUE_INIT": 33, Read, 8, 0x80084e21, Arg::Pointer(DmaQueueInit::INFO), 48, Main, Attach, Exact, V2_24_7, Next;
    DmaQueueRelease = "DMA_QUEUE_RELEASE": 34, Read, 8, 0x80084e22, Arg::Pointer(DmaQueueRelease::INFO), 8, Main, Attach, Exact, V2_24_7, Next;
    DmaQueueCopyStart = "DMA_QUEUE_COPY_START": 35, Read, 8, 0x80084e23, Arg::Pointer(DmaQueueCopyStart::INFO), 16, Main, None, Exact, V2_24_7, Next;
    DmaAckCompleted = "DMA_ACK_COMPLETED": 36, Read, 8, 0x80084e24, Arg::Pointer(DmaAckCompleted::INFO), 12, Main, Attach, Exact, V2_24_7, Next;
    DmaQueueGetState = "DMA_QUEUE_GET_STATE": 37, ReadWrite, 8, 0xc0084e25, Arg::Pointer(DmaQueueGetState::INFO), 24, Main, None, Exact, V2_24_7, Next;
    DmaCopyDescriptors = "DMA_COPY_DESCRIPTORS": 38, Read, 8, 0x80084e26, Arg::Pointer(DmaCopyDescriptors::INFO), 32, Main, Attach, NrThenExact, V2_24_7, Next;
    DmaCopyDescriptors64 = "DMA_COPY_DESCRIPTORS64": 38, Read, 40, 0x80284e26, Arg::Struct(DmaCopyDescriptors64::INFO), 40, Main, None, NrThenExact, V2_24_7, Next;
    DmaDescriptorCopyout = "DMA_DESCRIPTOR_COPYOUT": 39, ReadWrite, 8, 0xc0084e27, Arg::Pointer(DmaDescriptorCopyout::INFO), 32, Main, None, Exact, V2_24_7, Next;
    DmaQuiesceQueues = "DMA_QUIESCE_QUEUES": 40, Read, 8, 0x80084e28, Arg::Opaque("neuron_ioctl_dma_quiesce_all"), 0, Main, None, Exact, V2_24_7, Next;
    SemaphoreIncrement = "SEMAPHORE_INCREMENT": 41, Read, 8, 0x80084e29, Arg::Pointer(Semaphore::INFO), 12, Main, None, Exact, V2_24_7, Next;
    SemaphoreDecrement = "SEMAPHORE_DECREMENT": 42, Read, 8, 0x80084e2a, Arg::Pointer(Semaphore::INFO), 12, Main, None, Exact, V2_24_7, Next;
    SemaphoreRead = "SEMAPHORE_READ": 43, ReadWrite, 8, 0xc0084e2b, Arg::Pointer(Semaphore::INFO), 12, Main, None, Exact, V2_24_7, Next;
    SemaphoreWrite = "SEMAPHORE_WRITE": 44, Read, 8, 0x80084e2c, Arg::Pointer(Semaphore::INFO), 12, Main, None, Exact, V2_24_7, Next;
    EventSet = "EVENT_SET": 45, Read, 8, 0x80084e2d, Arg::Pointer(Semaphore::INFO), 12, Main, None, Exact, V2_24_7, Next;
    EventGet = "EVENT_GET": 46, ReadWrite, 8, 0xc0084e2e, Arg::Pointer(Semaphore::INFO), 12, Main, None, Exact, V2_24_7, Next;
    NotificationsInitV1 = "NOTIFICATIONS_INIT_V1": 51, Read, 8, 0x80084e33, Arg::Pointer(NotificationsInitV1::INFO), 24, Main, Attach, Exact, V2_24_7, Next;
    NotificationsDestroyV1 = "NOTIFICATIONS_DESTROY_V1": 52, Read, 8, 0x80084e34, Arg::Pointer(NotificationsDestroy::INFO), 0, Main, None, Exact, V2_24_7, Next;
    NotificationsInitV2 = "NOTIFICATIONS_INIT_V2": 53, Read, 8, 0x80084e35, Arg::Pointer(NotificationsInitV2::INFO), 48, Main, Attach, Exact, V2_24_7, Next;
    NotificationsInitWithReallocV2 = "NOTIFICATIONS_INIT_WITH_REALLOC_V2": 54, Read, 8, 0x80084e36, Arg::Pointer(NotificationsInitWithReallocV2::INFO), 56, Main, Attach, Exact, V2_24_7, Next;
    NotificationsQueueInfo = "NOTIFICATIONS_QUEUE_INFO": 58, Read, 8, 0x80084e3a, Arg::Pointer(NotificationsQueueInfo::INFO), 0, Main, None, Exact, V2_24_7, Next;
    ReadHwCounters = "READ_HW_COUNTERS": 61, Read, 8, 0x80084e3d, Arg::Pointer(ReadHwCounters::INFO), 24, Main, None, Exact, V2_24_7, Next;
    AcquireNeuronDs = "ACQUIRE_NEURON_DS": 71, Read, 8, 0x80084e47, Arg::Pointer(NeuronDsInfo::INFO), 24, Main, None, Exact, V2_24_7, Next;
    ReleaseNeuronDs = "RELEASE_NEURON_DS": 72, Read, 8, 0x80084e48, Arg::Pointer(NeuronDsInfo::INFO), 24, Main, None, Exact, V2_24_7, Next;
    CrwlReaderEnter = "CRWL_READER_ENTER": 81, Write, 8, 0x40084e51, Arg::Pointer(Crwl::INFO), 36, Main, None, Exact, V2_24_7, Next;
    CrwlReaderExit = "CRWL_READER_EXIT": 82, Write, 8, 0x40084e52, Arg::Pointer(Crwl::INFO), 36, Main, None, Exact, V2_24_7, Next;
    CrwlWriterEnter = "CRWL_WRITER_ENTER": 83, Write, 8, 0x40084e53, Arg::Pointer(Crwl::INFO), 36, Main, None, Exact, V2_24_7, Next;
    CrwlWriterDowngrade = "CRWL_WRITER_DOWNGRADE": 84, Write, 8, 0x40084e54, Arg::Pointer(Crwl::INFO), 36, Main, None, Exact, V2_24_7, Next;
    CrwlNcRangeMark = "CRWL_NC_RANGE_MARK": 85, Write, 8, 0x40084e55, Arg::Pointer(CrwlNcMap::INFO), 24, Both, Misc, Exact, V2_24_7, Next;
    CrwlNcRangeMarkExt0 = "CRWL_NC_RANGE_MARK_EXT0": 85, ReadWrite, 80, 0xc0504e55, Arg::Struct(CrwlNcMapExt::INFO), 80, Both, Misc, Exact, V2_24_7, Next;
    CrwlNcRangeUnmark = "CRWL_NC_RANGE_UNMARK": 86, Write, 8, 0x40084e56, Arg::Pointer(CrwlNcMap::INFO), 24, Both, Misc, Exact, V2_24_7, Next;
    CrwlNcRangeUnmarkExt0 = "CRWL_NC_RANGE_UNMARK_EXT0": 86, Write, 80, 0x40504e56, Arg::Struct(CrwlNcMapExt::INFO), 80, Both, Misc, Exact, V2_24_7, Next;
    CinitSetState = "CINIT_SET_STATE": 91, Write, 8, 0x40084e5b, Arg::Pointer(CinitSet::INFO), 12, Main, None, Exact, V2_24_7, Next;
    NcModelStartedCount = "NC_MODEL_STARTED_COUNT": 92, Write, 8, 0x40084e5c, Arg::Pointer(NcModelStartedCount::INFO), 16, Main, None, Exact, V2_24_7, Next;
    CompatibleVersion = "COMPATIBLE_VERSION": 93, Write, 8, 0x40084e5d, Arg::Pointer(CompatibleVersion::INFO), 0, Both, Misc, Exact, V2_24_7, Next;
    DeviceBasicInfo = "DEVICE_BASIC_INFO": 100, Write, 8, 0x40084e64, Arg::Pointer(DeviceBasicInfo::INFO), 0, Both, Misc, Exact, V2_24_7, Next;
    DeviceBdf = "DEVICE_BDF": 101, Read, 8, 0x80084e65, Arg::Pointer(DeviceBdf::INFO), 0, Main, None, Exact, V2_24_7, Next;
    MemAllocV2 = "MEM_ALLOC_V2": 102, Read, 8, 0x80084e66, Arg::Pointer(MemAllocV2::INFO), 40, Main, None, NrThenExact, V2_24_7, Next;
    MemAllocV2mt = "MEM_ALLOC_V2MT": 102, Read, 48, 0x80304e66, Arg::Struct(MemAllocV2MemType::INFO), 48, Main, None, NrThenExact, V2_24_7, Next;
    MemAllocV2mt64 = "MEM_ALLOC_V2MT64": 102, Read, 56, 0x80384e66, Arg::Struct(MemAllocV2MemType64::INFO), 56, Main, None, NrThenExact, V2_24_7, Next;
    MemAllocV2mt64Pa = "MEM_ALLOC_V2MT64_PA": 102, ReadWrite, 64, 0xc0404e66, Arg::Struct(MemAllocV2MemType64Pa::INFO), 64, Main, None, NrThenExact, Next, Next;
    NcReset = "NC_RESET": 103, Read, 8, 0x80084e67, Arg::Pointer(DeviceReset::INFO), 8, Main, None, Exact, V2_24_7, Next;
    NcResetReady = "NC_RESET_READY": 104, Read, 8, 0x80084e68, Arg::Pointer(DeviceReady::INFO), 8, Main, None, Exact, V2_24_7, Next;
    ProgramEngineNc = "PROGRAM_ENGINE_NC": 105, ReadWrite, 8, 0xc0084e69, Arg::Pointer(ProgramEngineNc::INFO), 32, Main, None, NrThenExact, V2_24_7, Next;
    ProgramEngineNc64 = "PROGRAM_ENGINE_NC64": 105, ReadWrite, 40, 0xc0284e69, Arg::Struct(ProgramEngineNc64::INFO), 40, Main, None, NrThenExact, V2_24_7, Next;
    DeviceResetStatus = "DEVICE_RESET_STATUS": 106, Read, 1, 0x80014e6a, Arg::Scalar("__u8"), 0, Main, None, Exact, V2_24_7, Next;
    DeviceBdfExt = "DEVICE_BDF_EXT": 106, Read, 8, 0x80084e6a, Arg::Pointer(DeviceBdfExt::INFO), 16, Both, Misc, Exact, V2_24_7, Next;
    DmabufFd = "DMABUF_FD": 107, Read, 8, 0x80084e6b, Arg::Pointer(DmabufFd::INFO), 24, Both, Misc, Exact, V2_24_7, Next;
    MemCopyAsync = "MEM_COPY_ASYNC": 108, ReadWrite, 48, 0xc0304e6c, Arg::Struct(MemCopyAsync::INFO), 48, Main, Attach, NrThenExact, V2_24_7, Next;
    MemCopyAsync64 = "MEM_COPY_ASYNC64": 108, ReadWrite, 56, 0xc0384e6c, Arg::Struct(MemCopyAsync64::INFO), 56, Main, None, NrThenExact, V2_24_7, Next;
    MemCopyAsyncWait = "MEM_COPY_ASYNC_WAIT": 109, Write, 24, 0x40184e6d, Arg::Struct(MemCopyAsyncWait::INFO), 24, Main, Attach, Exact, V2_24_7, Next;
    DriverInfoGet = "DRIVER_INFO_GET": 110, Read, 24, 0x80184e6e, Arg::Struct(DeviceDriverInfo::INFO), 0, Both, Misc, NrThenDir, V2_24_7, Next;
    DriverInfoSet = "DRIVER_INFO_SET": 110, Write, 24, 0x40184e6e, Arg::Struct(DeviceDriverInfo::INFO), 0, Both, Attach, NrThenDir, V2_24_7, Next;
    MemMcGetInfo = "MEM_MC_GET_INFO": 111, ReadWrite, 24, 0xc0184e6f, Arg::Struct(MemGetMcMmapInfo::INFO), 24, Main, None, NrThenSize, V2_24_7, Next;
    MemMcGetInfoV2 = "MEM_MC_GET_INFO_V2": 111, ReadWrite, 32, 0xc0204e6f, Arg::Struct(MemGetMcMmapInfoV2::INFO), 32, Main, None, NrThenSize, V2_24_7, Next;
    ResourceMmapInfo = "RESOURCE_MMAP_INFO": 112, ReadWrite, 32, 0xc0204e70, Arg::Struct(ResourceMmapInfo::INFO), 32, Main, None, Exact, V2_24_7, Next;
    Printk = "PRINTK": 113, Write, 16, 0x40104e71, Arg::Struct(Printk::INFO), 16, Both, Misc, Exact, V2_24_7, Next;
    HostDeviceId = "HOST_DEVICE_ID": 114, Read, 4, 0x80044e72, Arg::Struct(HostDeviceId::INFO), 0, Main, None, Exact, V2_24_7, Next;
    HostDeviceIdToRidMap = "HOST_DEVICE_ID_TO_RID_MAP": 115, ReadWrite, 260, 0xc1044e73, Arg::Struct(HostDeviceIdToRidMap::INFO), 0, Both, Misc, NrThenSize, V2_24_7, Next;
    DumpMemChunks = "DUMP_MEM_CHUNKS": 116, Read, 8, 0x80084e74, Arg::Pointer(DumpMemChunks::INFO), 24, Main, None, Exact, V2_24_7, Next;
    NcPidStateDump = "NC_PID_STATE_DUMP": 117, ReadWrite, 16, 0xc0104e75, Arg::Struct(NcPidStateDump::INFO), 16, Both, Misc, Exact, V2_24_7, Next;
    HbmScrubStart = "HBM_SCRUB_START": 118, ReadWrite, 16, 0xc0104e76, Arg::Struct(HbmScrubStart::INFO), 16, Main, None, Exact, V2_24_7, Next;
    HbmScrubWait = "HBM_SCRUB_WAIT": 119, ReadWrite, 8, 0xc0084e77, Arg::Struct(HbmScrubWait::INFO), 8, Main, None, Exact, V2_24_7, Next;
    GetLogicalToPhysicalNcMap = "GET_LOGICAL_TO_PHYSICAL_NC_MAP": 120, ReadWrite, 16, 0xc0104e78, Arg::Struct(GetLogicalToPhysicalNcMap::INFO), 16, Both, Misc, Exact, V2_24_7, Next;
    PodInfo = "POD_INFO": 121, ReadWrite, 260, 0xc1044e79, Arg::Struct(PodInfo::INFO), 260, Both, Misc, NrThenExact, V2_24_7, Next;
    PodStatus = "POD_STATUS": 122, ReadWrite, 268, 0xc10c4e7a, Arg::Struct(PodStatus::INFO), 268, Both, Misc, NrThenExact, V2_24_7, Next;
    PodStatusV2 = "POD_STATUS_V2": 122, ReadWrite, 276, 0xc1144e7a, Arg::Struct(PodStatusV2::INFO), 276, Both, Misc, NrThenExact, V2_24_7, Next;
    PodCtrl = "POD_CTRL": 123, ReadWrite, 16, 0xc0104e7b, Arg::Struct(PodCtrl::INFO), 16, Both, Misc, NrThenExact, V2_24_7, Next;
    PodCtrlV2 = "POD_CTRL_V2": 123, ReadWrite, 20, 0xc0144e7b, Arg::Struct(PodCtrlV2::INFO), 20, Both, Misc, NrThenExact, V2_24_7, Next;
    MemBufZerocopy64 = "MEM_BUF_ZEROCOPY64": 124, ReadWrite, 40, 0xc0284e7c, Arg::Struct(MemBufCopy64::INFO), 40, Main, None, Nr, V2_24_7, V2_24_7;
    MemBufZerocopy64Zc = "MEM_BUF_ZEROCOPY64": 124, ReadWrite, 48, 0xc0304e7c, Arg::Struct(MemBufCopy64zc::INFO), 48, Main, None, Nr, V2_25_4, Next;
    MemBufZerocopy64Seq = "MEM_BUF_ZEROCOPY64_SEQ": 124, ReadWrite, 64, 0xc0404e7c, Arg::Struct(MemBufCopy64zcSeq::INFO), 64, Main, None, Unknown, Next, Next;
    H2tDmaAllocQueues = "H2T_DMA_ALLOC_QUEUES": 125, ReadWrite, 20, 0xc0144e7d, Arg::Struct(H2tDmaAllocQueues::INFO), 20, Main, None, Exact, V2_25_4, Next;
    H2tDmaFreeQueues = "H2T_DMA_FREE_QUEUES": 126, ReadWrite, 8, 0xc0084e7e, Arg::Struct(H2tDmaFreeQueues::INFO), 8, Main, None, Exact, V2_25_4, Next;
    PowerProfile = "POWER_PROFILE": 127, Write, 8, 0x40084e7f, Arg::Struct(PowerProfile::INFO), 8, Main, None, Exact, V2_25_4, Next;
    MetricsCtrl = "METRICS_CTRL": 128, Write, 4, 0x40044e80, Arg::Struct(MetricsCtrl::INFO), 4, Main, None, Exact, V2_25_4, Next;
    MemBufZerocopy64Batches = "MEM_BUF_ZEROCOPY64_BATCHES": 129, ReadWrite, 32, 0xc0204e81, Arg::Struct(MemBufCopy64zcBatches::INFO), 32, Main, None, Exact, V2_25_4, Next;
    ThrottlingNotifications = "THROTTLING_NOTIFICATIONS": 130, Write, 4, 0x40044e82, Arg::Struct(ThrottlingNotifications::INFO), 4, Main, None, Exact, V2_26_5, Next;
    GetVaPlacement = "GET_VA_PLACEMENT": 131, Write, 16, 0x40104e83, Arg::Struct(GetVaPlacement::INFO), 16, Both, Misc, Nr, V2_26_5, Next;
    GetPerformanceProfile = "GET_PERFORMANCE_PROFILE": 132, ReadWrite, 8, 0xc0084e84, Arg::Struct(PowerProfile::INFO), 8, Main, None, Exact, V2_27_4, Next;
    DmaQueueInitBatch = "DMA_QUEUE_INIT_BATCH": 133, Read, 12296, 0xb0084e85, Arg::Struct(DmaQueueInitBatch::INFO), 12296, Main, None, Exact, V2_24_7, Next;
    AvailablePerfProfiles = "AVAILABLE_PERF_PROFILES": 134, ReadWrite, 36, 0xc0244e86, Arg::Struct(AvailablePerfProfiles::INFO), 36, Main, None, Exact, V2_27_4, Next;
    GetAsyncH2tDmaComplQueues = "GET_ASYNC_H2T_DMA_COMPL_QUEUES": 135, ReadWrite, 264, 0xc1084e87, Arg::Struct(GetAsyncH2tDmaComplQueues::INFO), 264, Main, None, Exact, V2_27_4, Next;
    HostMemPin = "HOST_MEM_PIN": 136, ReadWrite, 24, 0xc0184e88, Arg::Struct(HostMemPin::INFO), 24, Main, Unknown, Unknown, Next, Next;
    HostMemUnpin = "HOST_MEM_UNPIN": 137, Write, 8, 0x40084e89, Arg::Struct(HostMemUnpin::INFO), 8, Main, Unknown, Unknown, Next, Next;
    DmabufFdV2 = "DMABUF_FD_V2": 138, Read, 8, 0x80084e8a, Arg::Pointer(DmabufFdV2::INFO), 32, Unknown, Unknown, Unknown, Next, Next;
}

/// Fields of a command value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoding {
    /// Direction.
    pub dir: Dir,
    /// Type character.
    pub kind: u8,
    /// Number.
    pub nr: u8,
    /// Size in bytes, below 16384.
    pub size: u32,
}

impl Encoding {
    /// Takes a value apart.
    pub fn of(cmd: u32) -> Self {
        let dir = match cmd >> 30 {
            0 => Dir::None,
            1 => Dir::Write,
            2 => Dir::Read,
            _ => Dir::ReadWrite,
        };
        Self { dir, kind: (cmd >> 8) as u8, nr: cmd as u8, size: cmd >> 16 & 0x3fff }
    }

    /// Puts a value together.
    pub fn value(self) -> u32 {
        let dir = match self.dir {
            Dir::None => 0,
            Dir::Write => 1,
            Dir::Read => 2,
            Dir::ReadWrite => 3,
        };
        dir << 30 | self.size << 16 | u32::from(self.kind) << 8 | u32::from(self.nr)
    }
}

impl Ioctl {
    /// Whether a driver of this release has the row.
    pub fn exists_in(&self, release: Release) -> bool {
        self.since <= release && release <= self.last
    }

    /// Whether the gate stands before this command value: the list of gated commands holds exact
    /// values, so a form that selects the row by its number alone is let through.
    pub fn gates(&self, cmd: u32) -> bool {
        self.gate == Gate::Attach && cmd == self.cmd
    }

    /// Whether a caller's command value selects this row.
    pub fn matches(&self, cmd: u32) -> bool {
        let sent = Encoding::of(cmd);
        match self.rule {
            Rule::Exact | Rule::NrThenExact => cmd == self.cmd,
            Rule::NrThenSize => sent.nr == self.nr && sent.size == self.size,
            // Measured: nobody looks at the size of the writing form (golden 72).
            Rule::NrThenDir => {
                sent.nr == self.nr && sent.dir == self.dir && (sent.size >= self.size || self.dir == Dir::Write)
            }
            Rule::Nr => sent.nr == self.nr,
            Rule::Unknown => false,
        }
    }
}

/// The row a command value selects in a driver of this release; `free_access` descriptors see
/// the misc lane only.
pub fn lookup(cmd: u32, free_access: bool, release: Release) -> Option<&'static Ioctl> {
    IOCTLS.iter().find(|row| row.exists_in(release) && (!free_access || row.lane == Lane::Both) && row.matches(cmd))
}

/// The row of an operation.
pub fn row(op: Op) -> &'static Ioctl {
    &IOCTLS[op as usize]
}
