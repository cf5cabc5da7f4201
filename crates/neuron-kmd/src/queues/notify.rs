//! Notification queues: memory that engines of a core or a TopSP write events to.

use std::collections::BTreeMap;
use std::sync::Arc;

use neuron_abi::kernel::args::{NotificationsInitV1, NotificationsInitV2, NotificationsInitWithReallocV2};
use neuron_abi::kernel::values::{MemCategory, MemLifespan, MemLocation, NQ_TYPE_MAX, NqDeviceType};

use crate::cdev::Call;
use crate::device::Device;
use crate::memory::{self, Chunk, Request};
use crate::reply::{Errno, Reply, Stop};
use crate::sync::Mutex;

/// What a notification queue belongs to. Cores come first: a reset destroys their queues before
/// those of the TopSPs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// A core.
    Core(u32),
    /// A TopSP.
    TopSp(u32),
}

/// Identity of a queue. The driver does not limit the engine index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id {
    /// Core or TopSP.
    pub owner: Owner,
    /// Engine of the owner.
    pub engine: u32,
    /// Kind of notification, below 6.
    pub kind: u32,
}

/// The notification queues of a device, with their memory.
#[derive(Debug)]
pub struct NotificationQueues {
    topsps_per_core: u32,
    memory: Mutex<BTreeMap<Id, Arc<Chunk>>>,
}

/// A queue a client asks for.
struct Wanted {
    id: Id,
    bytes: u32,
    host: bool,
    channel: u32,
    /// Whether it gets new memory when it has some.
    replace: bool,
}

impl NotificationQueues {
    /// No queues on a device with so many cores and TopSPs.
    pub fn new(cores: u32, topsps: u32) -> Self {
        Self { topsps_per_core: topsps / cores, memory: Mutex::default() }
    }

    /// Core a queue is booked on, and destroyed with.
    fn core(&self, owner: Owner) -> u32 {
        match owner {
            Owner::Core(core) => core,
            Owner::TopSp(topsp) => topsp / self.topsps_per_core,
        }
    }

    /// Destroys the queues of a core and of its TopSPs. Returns their memory in the order in
    /// which it must be freed.
    pub fn destroy_core(&self, core: u32) -> Vec<Arc<Chunk>> {
        let mut freed = Vec::new();
        self.memory.lock().retain(|id, memory| {
            let gone = self.core(id.owner) == core;
            if gone {
                freed.push(memory.clone());
            }
            !gone
        });
        freed
    }

    /// The memory of a queue, which it gets now unless it has some.
    fn init(&self, device: &Device, caller: u32, wanted: &Wanted) -> Result<Arc<Chunk>, Stop> {
        let mut queues = self.memory.lock();
        if let Some(memory) = queues.get(&wanted.id).filter(|_| !wanted.replace) {
            return Ok(memory.clone());
        }
        let (location, category) = match wanted.host {
            true => (MemLocation::Host, MemCategory::NotificationHost),
            false => (MemLocation::Device, MemCategory::NotificationDevice),
        };
        let memory = memory::alloc(
            device,
            &Request {
                bytes: wanted.bytes.into(),
                align: 0,
                location,
                channel: wanted.channel,
                core: self.core(wanted.id.owner),
                category: Some(category),
                lifespan: MemLifespan::Device,
                owner: caller,
            },
        )?;
        // The old memory goes after the new was found, and before that gets its handle, which is
        // therefore the same (measured).
        if let Some(old) = queues.insert(wanted.id, memory.clone()) {
            memory::free(device, &old)?;
        }
        Ok(memory)
    }
}

/// Checks what a client asks for, in the order of the driver.
fn check(call: &Call<'_>, kind: u32, owner: u32, engine: u32, notification: u32, bytes: u32) -> Result<Id, Errno> {
    let geometry = &call.device.dhal.layout().geometry;
    let (owner, count) = match NqDeviceType::from_raw(kind).ok_or(Errno::ENOSYS)? {
        NqDeviceType::NeuronCore => (Owner::Core(owner), geometry.cores),
        NqDeviceType::Topsp => (Owner::TopSp(owner), geometry.topsps),
    };
    let (Owner::Core(number) | Owner::TopSp(number)) = owner;
    let power = bytes & bytes.wrapping_sub(1) == 0;
    if number >= count || notification >= NQ_TYPE_MAX || !power {
        return Err(Errno::EINVAL);
    }
    Ok(Id { owner, engine, kind: notification })
}

/// Offset to map a queue with; a queue in device memory cannot be mapped.
fn mmap_offset(memory: &Chunk) -> u64 {
    if memory.is_host() { memory.address } else { u64::MAX }
}

/// `NOTIFICATIONS_INIT_V1`: cores only, host memory only, no handle.
pub(super) fn init_v1(call: &Call<'_>) -> Reply {
    let mut user = call.copy_in::<NotificationsInitV1>()?;
    let v = user.value;
    let id = check(call, NqDeviceType::NeuronCore as u32, v.nc_id, v.engine_index, v.nq_type, v.size)?;
    let wanted = Wanted { id, bytes: v.size, host: true, channel: 0, replace: false };
    let memory = call.device.queues.init(call.device, call.caller.tgid, &wanted)?;
    user.value.mmap_offset = mmap_offset(&memory);
    call.copy_out(user)
}

/// `NOTIFICATIONS_INIT_V2`.
pub(super) fn init_v2(call: &Call<'_>) -> Reply {
    let mut user = call.copy_in::<NotificationsInitV2>()?;
    let v = user.value;
    let id = check(call, v.nq_dev_type, v.nq_dev_id, v.engine_index, v.nq_type, v.size)?;
    let wanted = Wanted { id, bytes: v.size, host: v.on_host_memory != 0, channel: v.dram_channel, replace: false };
    let memory = call.device.queues.init(call.device, call.caller.tgid, &wanted)?;
    user.value.mmap_offset = mmap_offset(&memory);
    user.value.mem_handle = call.device.memory.handle(&memory)?;
    call.copy_out(user)
}

/// `NOTIFICATIONS_INIT_WITH_REALLOC_V2`.
pub(super) fn init_with_realloc(call: &Call<'_>) -> Reply {
    let mut user = call.copy_in::<NotificationsInitWithReallocV2>()?;
    let v = user.value;
    let id = check(call, v.nq_dev_type, v.nq_dev_id, v.engine_index, v.nq_type, v.size)?;
    let (host, replace) = (v.on_host_memory != 0, v.force_alloc_mem != 0);
    let wanted = Wanted { id, bytes: v.size, host, channel: v.dram_channel, replace };
    let memory = call.device.queues.init(call.device, call.caller.tgid, &wanted)?;
    user.value.mmap_offset = mmap_offset(&memory);
    user.value.mem_handle = call.device.memory.handle(&memory)?;
    call.copy_out(user)
}
