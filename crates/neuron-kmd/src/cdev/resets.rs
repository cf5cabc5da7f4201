//! Reset commands.

use neuron_abi::kernel::args::{DeviceReady, DeviceReset};
use neuron_abi::kernel::ioctl::Op;
use neuron_abi::kernel::values::NC_MAP_DEVICE;

use super::Call;
use crate::reply::{Errno, Reply};
use crate::reset::{Submitted, WaitMode, Waited};

pub(super) fn ioctl(call: &Call<'_>) -> Reply {
    let (device, caller) = (call.device, call.caller);
    let submit = |nc_map, id| device.reset.submit(&**device, &caller.task, nc_map, id);
    let wait = |id, mode| device.reset.wait(&**device, caller, id, mode);
    match call.row.op {
        Op::DeviceReset => {
            submit(NC_MAP_DEVICE, caller.tgid);
            Ok(0)
        }
        Op::DeviceReady => call.put(call.arg, u8::from(wait(caller.tgid, WaitMode::Check) == Waited::Ok)),
        Op::NcReset => {
            let mut user = call.copy_in::<DeviceReset>()?;
            // A refused request is a positive result and leaves the argument as it was.
            if submit(user.value.nc_map, caller.tgid) == Submitted::Refused {
                return Ok(1);
            }
            user.value.request_id = caller.tgid;
            call.copy_out(user)
        }
        Op::NcResetReady => {
            let mut user = call.copy_in::<DeviceReady>()?;
            user.value.result = match wait(user.value.request_id, WaitMode::Strict) {
                Waited::Ok => 0,
                Waited::Failed => 1,
                Waited::Interrupted => -Errno::EINTR.0,
            };
            call.copy_out(user)
        }
        Op::DeviceResetStatus => call.put(call.arg, 1_u8),
        _ => Err(call.misrouted()),
    }
}
