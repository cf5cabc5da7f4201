//! Queues of the host engines that clients get for host copies of their own.

use neuron_abi::kernel::args::{GetAsyncH2tDmaComplQueues, H2tComplQueueInfoEnt, H2tDmaAllocQueues, H2tDmaFreeQueues};
use neuron_abi::kernel::values::MemLocation;

use super::engines::{DESCRIPTOR_BYTES, HOST_RING, OwnRing, QUEUES};
use crate::cdev::Call;
use crate::device::Device;
use crate::memory::{self, Request};
use crate::reply::{Errno, Reply, Stop};

/// Host engine of a core, its default queue, and the queues of that engine no client can have.
struct Place {
    engine: u32,
    default: u32,
    reserved: u32,
}

fn place(device: &Device, core: u32) -> Result<Place, Errno> {
    if core >= device.dhal.core_count() {
        return Err(Errno::E2BIG);
    }
    let (engine, default) = device.dma.host_queue(core);
    Ok(Place { engine, default, reserved: (1 << device.dma.host_queues_taken()) - 1 })
}

/// Sets a queue up with rings in host memory.
fn give(device: &Device, core: u32, engine: u32, queue: u32) -> Result<(), Errno> {
    let bytes = u64::from(HOST_RING) * DESCRIPTOR_BYTES;
    let request = Request::driver(MemLocation::Host, bytes, core);
    let tx = memory::alloc(device, &request)?;
    let rx = match memory::alloc(device, &request) {
        Ok(rx) => rx,
        Err(errno) => {
            let _ = memory::free(device, &tx);
            return Err(errno);
        }
    };
    let ring = OwnRing { tx: tx.address, rx: rx.address, descriptors: HOST_RING };
    device.dma.give_queue(&device.regs, engine, queue, ring, [tx, rx]);
    Ok(())
}

/// Takes a queue back; false when no client had it.
fn take(device: &Device, engine: u32, queue: u32) -> bool {
    let Some(rings) = device.dma.take_queue(engine, queue) else { return false };
    for ring in rings {
        // The caller gave the queue up whatever becomes of its memory.
        let _ = memory::free(device, &ring);
    }
    true
}

pub(super) fn alloc(call: &Call<'_>) -> Reply {
    let mut user = call.copy_in::<H2tDmaAllocQueues>()?;
    let device = call.device;
    let wanted = &mut user.value;
    let place = place(device, wanted.nc_id.into())?;
    let (copy, service) = (usize::from(wanted.copy_queue_cnt), usize::from(wanted.service_queue_cnt));
    if copy + service >= QUEUES {
        return Err(Errno::E2BIG.into());
    }
    let _one_at_a_time = device.dma.giving.lock();
    let given = |queue: &u32| device.dma.slot(place.engine).is_some_and(|s| s.lock().queues[*queue as usize].given());
    let free: Vec<u32> =
        (0..QUEUES as u32).filter(|q| place.reserved >> q & 1 == 0 && !given(q)).take(copy + service).collect();
    if free.len() < copy + service {
        return Err(Errno::EPERM.into());
    }
    for (done, queue) in free.iter().enumerate() {
        if let Err(errno) = give(device, wanted.nc_id.into(), place.engine, *queue) {
            for queue in &free[..done] {
                take(device, place.engine, *queue);
            }
            return Err(errno.into());
        }
    }
    let map = |queues: &[u32]| queues.iter().fold(0, |map, queue| map | 1 << queue);
    wanted.copy_queue_bmap = map(&free[..copy]);
    wanted.service_queue_bmap = map(&free[copy..]);
    wanted.copy_default_queue = place.default;
    call.copy_out(user)
}

/// Gives queues back; those of the driver stay, and those nobody has make it fail at the end.
pub(super) fn free(call: &Call<'_>) -> Reply {
    let user = call.copy_in::<H2tDmaFreeQueues>()?.value;
    let place = place(call.device, user.nc_id.into())?;
    let _one_at_a_time = call.device.dma.giving.lock();
    let mut result = Ok(0);
    for queue in (0..u32::BITS).filter(|queue| user.queue_bmap >> queue & 1 != 0) {
        if place.reserved >> queue & 1 == 0 && !take(call.device, place.engine, queue) {
            result = Err(Stop::Errno(Errno::ENXIO));
        }
    }
    result
}

/// Completion queues of asynchronous copies. The model completes a copy before it returns, so
/// there is none to map.
pub(super) fn completion_queues(call: &Call<'_>) -> Reply {
    let mut user = call.copy_in::<GetAsyncH2tDmaComplQueues>()?;
    let core = user.value.nc_id;
    let place = place(call.device, core)?;
    let usable = |queue| queue == place.default || call.device.dma.is_client_host_queue(core, queue);
    if (0..u32::BITS).any(|queue| user.value.qid_bitmap >> queue & 1 != 0 && !usable(queue)) {
        return Err(Errno::ENOENT.into());
    }
    user.value.compl_queue_info = [H2tComplQueueInfoEnt::default(); QUEUES];
    call.copy_out(user)
}
