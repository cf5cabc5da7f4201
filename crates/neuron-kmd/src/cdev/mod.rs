//! The character device: lanes, gates, dispatch (`facts/driver/cdev.md`).
//!
//! [`File::ioctl`] finds the row of the command in the `neuron-abi` table, tests the gate, and
//! hands a [`Call`] to the room that owns the operation. A room has one function
//! `ioctl(&Call) -> Reply` with one `match` over its operations.

mod call;
mod identity;
mod resets;

use std::sync::Arc;

use neuron_abi::kernel::ioctl::{self, Op};

pub use call::{Call, User};
pub(crate) use identity::window_address;

use crate::attach::Detached;
use crate::caller::{Caller, UserMemory};
use crate::device::Device;
use crate::driver::Driver;
use crate::memory::mmap::{Mapping, MmapRequest};
use crate::reply::{Errno, Reply, Stop};
use crate::reset::WaitMode;
use crate::sync::{Mutex, Wait, WaitQueue};
use crate::{cores, datastore, dma, memory, queues};

/// An open file: what `dup` and `fork` share.
pub struct File {
    driver: Arc<Driver>,
    device: Arc<Device>,
    free_access: bool,
    flags: i32,
}

impl File {
    pub(crate) fn open(
        driver: Arc<Driver>,
        device: Arc<Device>,
        flags: i32,
        caller: &Caller,
    ) -> Result<Arc<Self>, Stop> {
        let free_access = flags & libc::O_WRONLY != 0;
        if !free_access {
            device.wait_ready(caller)?;
            if device.memory.stuck() {
                hang(&driver, caller);
                return Err(Stop::Hung);
            }
            if !device.attach.attach(caller.tgid) {
                return Err(Errno::EBUSY.into());
            }
        }
        Ok(Arc::new(Self { driver, device, free_access, flags }))
    }

    /// The device behind it.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Flags it was opened with.
    pub fn flags(&self) -> i32 {
        self.flags
    }

    /// Whether it was opened for writing only: no slot, misc lane only.
    pub fn free_access(&self) -> bool {
        self.free_access
    }

    /// `ioctl(2)`. A positive number is a result, not an error.
    ///
    /// # Errors
    /// See [`Stop`]. After a bug the caller must be treated as killed; others go on.
    pub fn ioctl(&self, caller: &Caller, memory: &dyn UserMemory, cmd: u32, arg: u64) -> Reply {
        if let Some(reply) = generic(memory, cmd, arg) {
            return reply;
        }
        let row = ioctl::lookup(cmd, self.free_access, self.driver.env.profile.release()).ok_or(Errno::EINVAL)?;
        if row.gates(cmd) && !self.free_access && !self.device.attach.holds(caller.tgid) {
            return Err(Errno::EACCES.into());
        }
        let call = Call { driver: &self.driver, device: &self.device, file: self, caller, memory, row, cmd, arg };
        let reply = dispatch(&call);
        if cfg!(debug_assertions) {
            self.driver.claims.check_invariants();
            self.device.check_invariants();
        }
        match reply {
            Err(Stop::Bug(bug)) => {
                self.device.oops(&bug);
                Err(Stop::Bug(bug))
            }
            Err(Stop::Hung) => {
                hang(&self.driver, caller);
                Err(Stop::Hung)
            }
            reply => reply,
        }
    }

    /// `read(2)`: the driver has no handler.
    ///
    /// # Errors
    /// Always: `EBADF` when the file is not open for reading, else `EINVAL`.
    pub fn read(&self) -> Result<usize, Stop> {
        let readable = matches!(self.flags & libc::O_ACCMODE, libc::O_RDONLY | libc::O_RDWR);
        Err(if readable { Errno::EINVAL } else { Errno::EBADF }.into())
    }

    /// `write(2)`: the driver has no handler.
    ///
    /// # Errors
    /// Always: `EBADF` when the file is not open for writing, else `EINVAL`.
    pub fn write(&self) -> Result<usize, Stop> {
        let writable = matches!(self.flags & libc::O_ACCMODE, libc::O_WRONLY | libc::O_RDWR);
        Err(if writable { Errno::EINVAL } else { Errno::EBADF }.into())
    }

    /// `mmap(2)`.
    ///
    /// # Errors
    /// See `facts/driver/cdev.md`, section mmap.
    pub fn mmap(&self, caller: &Caller, request: MmapRequest) -> Result<Mapping, Stop> {
        if self.flags & libc::O_ACCMODE != libc::O_RDWR {
            return Err(Errno::EACCES.into());
        }
        memory::mmap::map(&self.device, caller, request)
    }

    /// `munmap(2)` of a whole mapping that was made at this address.
    pub fn munmap(&self, caller: &Caller, va: u64) {
        self.device.own().mappings.forget(caller.tgid, va);
    }

    /// One `close(2)` of any descriptor of this file, by any process.
    pub fn flush(&self, caller: &Caller) {
        let device = &self.device;
        if self.free_access {
            self.driver.claims.release_process(caller.tgid);
            return;
        }
        if device.attach.count(caller.tgid) == 1 {
            device.attach.close_begins();
            if self.clean_up(caller).is_err() {
                // The close never returns, and the slot stays.
                return hang(&self.driver, caller);
            }
            device.attach.close_ends(&*device.env.clock);
        }
        if device.attach.detach(caller.tgid) == Detached::NotAttached {
            device.env.log.line("close_not_attached", &[&caller.tgid], "close by a process without a slot".into());
        }
    }

    /// Full clean-up of a process, in the driver's order.
    fn clean_up(&self, caller: &Caller) -> Result<(), Stop> {
        let device = &self.device;
        device.reset.wait(&**device, caller, caller.tgid, WaitMode::Check);
        dma::release_process(device, caller);
        cores::crwl::release_process(device, caller.tgid);
        datastore::release_process(device, caller.tgid);
        memory::release_process(device, caller.tgid)
    }
}

/// The last reference is gone: no descriptor and no mapping is left.
impl Drop for File {
    fn drop(&mut self) {
        if !self.free_access && self.device.attach.file_released() {
            datastore::clear(&self.device);
            // Pools that a dead process left locked keep what they hold.
            let _ = memory::release_all_processes(&self.device);
        }
    }
}

/// Commands of every file that the kernel answers itself, before the driver is asked.
fn generic(memory: &dyn UserMemory, cmd: u32, arg: u64) -> Option<Reply> {
    let mut on = [0; 4];
    match u64::from(cmd) {
        libc::FIOCLEX | libc::FIONCLEX => Some(Ok(0)),
        libc::FIONBIO => {
            let fault = memory.read(arg, &mut on) != 0;
            Some(if fault { Err(Errno::EFAULT.into()) } else { Ok(0) })
        }
        libc::FIOASYNC => Some(match (memory.read(arg, &mut on), u32::from_ne_bytes(on)) {
            (0, 0) => Ok(0),
            // The driver announces nothing.
            (0, _) => Err(Errno::ENOTTY.into()),
            _ => Err(Errno::EFAULT.into()),
        }),
        _ => None,
    }
}

/// Sleeps until the caller is killed: a lock is held by a caller that died.
fn hang(driver: &Driver, caller: &Caller) {
    let never = (Mutex::new(()), WaitQueue::default());
    let wait = Wait { deaf: true, killable: true, deadline: None };
    let guard = never.0.lock();
    drop(never.1.wait(&*driver.env.clock, &caller.task, &never.0, guard, wait, |()| false));
}

/// Hands a call to the room that owns it.
fn dispatch(call: &Call<'_>) -> Reply {
    use Op::*;
    match call.row.op {
        DeviceReset | DeviceReady | NcReset | NcResetReady | DeviceResetStatus => resets::ioctl(call),
        DeviceInfo
        | DeviceInit
        | DeviceRelease
        | DeviceAppPid
        | DeviceGetAllAppsInfo
        | CompatibleVersion
        | DeviceBasicInfo
        | DeviceBdf
        | DeviceBdfExt
        | DriverInfoGet
        | DriverInfoSet
        | Printk
        | HostDeviceId
        | HostDeviceIdToRidMap
        | GetLogicalToPhysicalNcMap
        | PodInfo
        | PodStatus
        | PodStatusV2
        | PodCtrl
        | PodCtrlV2
        | DmaQuiesceQueues => identity::ioctl(call),
        CrwlReaderEnter
        | CrwlReaderExit
        | CrwlWriterEnter
        | CrwlWriterDowngrade
        | CrwlNcRangeMark
        | CrwlNcRangeMarkExt0
        | CrwlNcRangeUnmark
        | CrwlNcRangeUnmarkExt0
        | CinitSetState
        | NcModelStartedCount
        | NcPidStateDump => cores::ioctl(call),
        MemAlloc
        | MemFree
        | MemCopy
        | MemCopy64
        | MemBufCopy
        | MemBufCopy64
        | MemGetPa
        | MemGetInfo
        | ProgramEngine
        | Memset
        | Memset64
        | MemGetExtendedInfo
        | MemAllocV2
        | MemAllocV2mt
        | MemAllocV2mt64
        | MemAllocV2mt64Pa
        | ProgramEngineNc
        | ProgramEngineNc64
        | DmabufFd
        | MemCopyAsync
        | MemCopyAsync64
        | MemCopyAsyncWait
        | MemMcGetInfo
        | MemMcGetInfoV2
        | ResourceMmapInfo
        | DumpMemChunks
        | HbmScrubStart
        | HbmScrubWait
        | MemBufZerocopy64
        | MemBufZerocopy64Zc
        | MemBufZerocopy64Seq
        | MemBufZerocopy64Batches
        | GetVaPlacement
        | HostMemPin
        | HostMemUnpin
        | DmabufFdV2 => memory::ioctl(call),
        DmaEngInit
        | DmaEngSetState
        | DmaEngGetState
        | DmaQueueInit
        | DmaQueueRelease
        | DmaQueueCopyStart
        | DmaAckCompleted
        | DmaQueueGetState
        | DmaCopyDescriptors
        | DmaCopyDescriptors64
        | DmaDescriptorCopyout
        | DmaQueueInitBatch
        | H2tDmaAllocQueues
        | H2tDmaFreeQueues
        | GetAsyncH2tDmaComplQueues => dma::ioctl(call),
        SemaphoreIncrement
        | SemaphoreDecrement
        | SemaphoreRead
        | SemaphoreWrite
        | EventSet
        | EventGet
        | NotificationsInitV1
        | NotificationsDestroyV1
        | NotificationsInitV2
        | NotificationsInitWithReallocV2
        | NotificationsQueueInfo
        | BarRead
        | BarWrite
        | PostMetric
        | ReadHwCounters
        | PowerProfile
        | MetricsCtrl
        | ThrottlingNotifications
        | GetPerformanceProfile
        | AvailablePerfProfiles => queues::ioctl(call),
        AcquireNeuronDs | ReleaseNeuronDs => datastore::ioctl(call),
    }
}
