//! Semaphores, events and raw register access.

use neuron_abi::kernel::args::{BarRw, Semaphore};
use neuron_abi::kernel::ioctl::Op;
use neuron_hw::regs::{DEAD, core, engine, misc};

use crate::cdev::{Call, window_address};
use crate::quirks;
use crate::regs::dead_patience;
use crate::reply::{Bug, Errno, Reply, Stop};

/// Registers of a semaphore: its value, and the three that change it.
const SET: u64 = 1;
const INCREMENT: u64 = 2;
const DECREMENT: u64 = 3;

/// Reads a register of a core or TopSP window. A dead one is read again as long as the driver
/// does, and fails then.
fn read_alive(call: &Call<'_>, offset: u64) -> Result<u32, Stop> {
    let env = &call.device.env;
    let patience = dead_patience(env.profile);
    match call.device.regs.read_alive(&*env.clock, &call.caller.task, offset, patience) {
        DEAD => Err(Errno::EIO.into()),
        word => Ok(word),
    }
}

pub(super) fn semaphore(call: &Call<'_>) -> Reply {
    let mut user = call.copy_in::<Semaphore>()?;
    let Semaphore { nc_id, semaphore_index: index, value } = user.value;
    if nc_id >= call.device.dhal.core_count() {
        return Err(Errno::E2BIG.into());
    }
    let layout = call.device.dhal.layout();
    if index >= layout.geometry.semaphores {
        return Err(Errno::EINVAL.into());
    }
    let base = layout.cores.bar0 + u64::from(nc_id) * core::STRIDE + core::SEMAPHORES + 4 * u64::from(index);
    let operation = match call.row.op {
        Op::SemaphoreWrite => SET,
        Op::SemaphoreIncrement => INCREMENT,
        Op::SemaphoreDecrement => DECREMENT,
        _ => {
            user.value.value = read_alive(call, base)?;
            return call.copy_out(user);
        }
    };
    call.device.regs.write(base + operation * core::SEMAPHORE_OP, value);
    Ok(0)
}

/// Events. The core is not checked and the index may be one too large, as in the driver.
pub(super) fn event(call: &Call<'_>) -> Reply {
    let mut user = call.copy_in::<Semaphore>()?;
    let Semaphore { nc_id, semaphore_index: index, value } = user.value;
    let layout = call.device.dhal.layout();
    if index > layout.geometry.events {
        return Err(Errno::EINVAL.into());
    }
    let offset = layout.cores.bar0 + u64::from(nc_id) * core::STRIDE + core::EVENTS + 4 * u64::from(index);
    if offset >= call.device.bars.bar0.bytes {
        return Err(Bug {
            quirk: "event-core-unchecked",
            text: format!("event {index} of core {nc_id} lies behind the register window"),
        }
        .into());
    }
    if call.row.op == Op::EventSet {
        call.device.regs.write(offset, value);
        return Ok(0);
    }
    user.value.value = read_alive(call, offset)?;
    call.copy_out(user)
}

/// The register window by the addresses the driver hands out for it.
pub(super) fn bar(call: &Call<'_>) -> Reply {
    let user = call.copy_in::<BarRw>()?.value;
    for i in 0..u64::from(user.count) {
        let mut address = [0; 8];
        call.read(user.address.wrapping_add(8 * i), &mut address)?;
        let offset = u64::from_le_bytes(address).wrapping_sub(window_address(call.device.index));
        let data = user.data.wrapping_add(4 * i);
        if call.row.op == Op::BarRead {
            read(call, user.bar, offset, data)?;
        } else {
            write(call, user.bar, offset, data)?;
        }
    }
    Ok(0)
}

fn read(call: &Call<'_>, bar: u32, offset: u64, data: u64) -> Result<(), Stop> {
    if bar != 0 && bar != 2 {
        return Err(Errno::EINVAL.into());
    }
    // Nothing is ever mapped in the role of BAR 2.
    if bar == 2 || offset >= call.device.bars.bar0.bytes {
        if quirks::has("bar-read-unchecked", call.device.env.profile) {
            let text = format!("BAR {bar} read at {offset:#x} from the start of the register window");
            return Err(Bug { quirk: "bar-read-unchecked", text }.into());
        }
        return Err(Errno::EINVAL.into());
    }
    call.write(data, &call.device.regs.read(offset).to_le_bytes()).map(|_| ())
}

fn write(call: &Call<'_>, bar: u32, offset: u64, data: u64) -> Result<(), Stop> {
    let mut word = [0; 4];
    call.read(data, &mut word)?;
    let bytes = call.device.bars.bar0.bytes;
    let at_end = offset == bytes && quirks::has("bar-write-at-end", call.device.env.profile);
    if bar != 0 || (offset >= bytes && !at_end) || blocked(call, offset) {
        return Err(Errno::EINVAL.into());
    }
    if at_end {
        let text = "register write right behind the register window".into();
        return Err(Bug { quirk: "bar-write-at-end", text }.into());
    }
    call.device.regs.write(offset, u32::from_le_bytes(word));
    Ok(())
}

/// Registers a client must not write: they make the device read or write host memory.
fn blocked(call: &Call<'_>, offset: u64) -> bool {
    let layout = call.device.dhal.layout();
    if offset.checked_sub(layout.geometry.misc_ram).is_some_and(|at| misc::WRITE_BLOCKED.contains(&at)) {
        return true;
    }
    let Some((_, at)) = layout.engine_at(offset) else { return false };
    let in_block = |first: u64| at.checked_sub(first).filter(|b| *b < engine::COUNT * engine::QUEUE_STRIDE);
    [engine::QUEUES, engine::QUEUES + engine::RX]
        .into_iter()
        .filter_map(in_block)
        .any(|b| matches!(b % engine::QUEUE_STRIDE, engine::RING_LO | engine::RING_HI | engine::TAIL_INC))
}
