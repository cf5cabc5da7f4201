//! Cores: claims over all devices, reader/writer locks and state of the cores of one device.

pub mod claims;
pub mod crwl;
pub mod state;

use neuron_abi::kernel::args as a;
use neuron_abi::kernel::ioctl::Op;
use neuron_abi::kernel::values::MAX_CLAIMS;

use crate::cdev::Call;
use crate::reply::{Errno, Reply};
use claims::Map;

pub(crate) fn ioctl(call: &Call<'_>) -> Reply {
    match call.row.op {
        Op::CrwlReaderEnter | Op::CrwlReaderExit | Op::CrwlWriterEnter | Op::CrwlWriterDowngrade => lock(call),
        Op::CrwlNcRangeMark => {
            let mut user = call.copy_in::<a::CrwlNcMap>()?;
            let v = &mut user.value;
            let range = Range { count: v.nc_count, start: v.start_nc_index, end: v.end_nc_index };
            let marked = mark(call, range);
            (v.max_nc_available, v.bitmap) = (marked.longest_failed, marked.map[0]);
            marked.answer(call.copy_out(user))
        }
        Op::CrwlNcRangeMarkExt0 => {
            let mut user = call.copy_in::<a::CrwlNcMapExt>()?;
            let v = &mut user.value;
            let range = Range { count: v.nc_count, start: v.start_nc_index, end: v.end_nc_index };
            let marked = mark(call, range);
            (v.max_nc_available, v.bitmap) = (marked.longest_failed, marked.map);
            marked.answer(call.copy_out(user))
        }
        Op::CrwlNcRangeUnmark => {
            let mut map = Map::default();
            map[0] = call.copy_in::<a::CrwlNcMap>()?.value.bitmap;
            unmark(call, &map)
        }
        Op::CrwlNcRangeUnmarkExt0 => {
            let map = call.copy_in::<a::CrwlNcMapExt>()?.value.bitmap;
            unmark(call, &map)
        }
        Op::CinitSetState => {
            let mut user = call.copy_in::<a::CinitSet>()?;
            let core = core_index(call, user.value.nc_id)?;
            let state = call.device.cores.set(&*call.device.env.clock, &call.caller.task, core, user.value.state);
            user.value.new_state = state as u32;
            call.copy_out(user)
        }
        Op::NcModelStartedCount => {
            let mut user = call.copy_in::<a::NcModelStartedCount>()?;
            let core = core_index(call, user.value.nc_id)?;
            user.value.started_count = call.device.cores.start_model(core);
            call.copy_out(user)
        }
        Op::NcPidStateDump => {
            // What it dumps is the driver's audit ring, which no client can read.
            let user = call.copy_in::<a::NcPidStateDump>()?.value;
            if user.nc_id as usize >= MAX_CLAIMS { Err(Errno::ENOENT.into()) } else { Ok(0) }
        }
        _ => Err(call.misrouted()),
    }
}

fn core_index(call: &Call<'_>, core: u32) -> Result<usize, Errno> {
    if core < call.device.dhal.core_count() { Ok(core as usize) } else { Err(Errno::E2BIG) }
}

fn lock(call: &Call<'_>) -> Reply {
    let user = call.copy_in::<a::Crwl>()?.value;
    let locks = &call.device.locks;
    let asker = crwl::Asker { tgid: call.caller.tgid, task: &call.caller.task, clock: &*call.device.env.clock };
    match call.row.op {
        Op::CrwlReaderEnter => locks.enter_reader(&asker, user.nc_id, &user.uuid.value),
        Op::CrwlReaderExit => locks.exit_reader(&asker, user.nc_id, &user.uuid.value),
        Op::CrwlWriterEnter => locks.enter_writer(&asker, user.nc_id, &user.uuid.value),
        _ => locks.downgrade(&asker, user.nc_id, &user.uuid.value),
    }?;
    Ok(0)
}

/// A claim as asked for: indices are relative to the first core of the device.
struct Range {
    count: u32,
    start: u32,
    end: u32,
}

#[derive(Default)]
struct Marked {
    longest_failed: u32,
    /// Relative as well; empty when nothing was claimed.
    map: Map,
    error: Option<Errno>,
}

impl Marked {
    /// The fields are written in any case, then a claim that found nothing fails.
    fn answer(&self, copied: Reply) -> Reply {
        copied.and_then(|ok| self.error.map_or(Ok(ok), |errno| Err(errno.into())))
    }
}

/// Index of the first core of the call's device on the host.
fn first_core(call: &Call<'_>) -> u32 {
    call.device.dhal.core_count() * call.device.index
}

fn mark(call: &Call<'_>, range: Range) -> Marked {
    let base = first_core(call);
    let (start, end) = (range.start.wrapping_add(base), range.end.wrapping_add(base));
    let claimed = match call.driver.claims.mark(call.caller.tgid, range.count, start, end) {
        Ok(claimed) => claimed,
        Err(errno) => return Marked { error: Some(errno), ..Marked::default() },
    };
    let longest_failed = claimed.longest_failed;
    let Some(first) = claimed.first else {
        return Marked { longest_failed, error: Some(Errno::EBUSY), ..Marked::default() };
    };
    let map = claims::shifted_down(&claims::run(first, range.count), base as usize);
    Marked { longest_failed, map, error: None }
}

fn unmark(call: &Call<'_>, map: &Map) -> Reply {
    let map = claims::shifted_up(map, first_core(call) as usize);
    call.driver.claims.unmark(call.caller.tgid, &map);
    Ok(0)
}
