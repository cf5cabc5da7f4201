//! The firmware handshake all generations share.

use std::time::Duration;

use neuron_abi::kernel::values::{FwResetType, NC_MAP_DEVICE};
use neuron_hw::regs::misc;

use crate::dhal::ResetCx;
use crate::profile::Profile;
use crate::reply::Errno;

/// Re-issue interval of a whole-device reset.
const DEVICE_REISSUE: Duration = Duration::from_secs(30);
/// Re-issue interval of a core reset.
const CORE_REISSUE: Duration = Duration::from_secs(10);
/// Time between two looks at the acknowledgement.
const POLL: Duration = Duration::from_millis(100);

/// Why a stage of a reset failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeError {
    /// The engine was stopped.
    Stopped,
    /// The deadline passed.
    TimedOut,
    /// The acknowledgement took no time at all (2.24.7 only).
    NoTime,
    /// A stage other than the handshake.
    Stage(Errno),
}

impl HandshakeError {
    /// The number the driver carries around.
    pub fn errno(self, profile: Profile) -> Errno {
        match self {
            HandshakeError::Stage(errno) => errno,
            _ if profile == Profile::V2_24_7 => Errno::EPERM,
            HandshakeError::Stopped => Errno::EINTR,
            HandshakeError::TimedOut => Errno::ETIMEDOUT,
            HandshakeError::NoTime => Errno::EPERM,
        }
    }
}

/// Triggers a reset and waits until the firmware accepts it, triggering again at intervals.
///
/// # Errors
/// Stopped, or not accepted within `limit` of the first trigger.
pub fn handshake(cx: &ResetCx<'_>, nc_map: u32, map: (u32, u32), limit: Duration) -> Result<(), HandshakeError> {
    let device = nc_map == NC_MAP_DEVICE;
    let interval = if device { DEVICE_REISSUE } else { CORE_REISSUE };
    let trigger = || {
        if !device {
            cx.regs.set_misc(misc::RESET_MAP, map.0);
            if cx.env.profile >= Profile::V2_27_4 {
                cx.regs.set_misc(misc::RESET_MAP_HI, map.1);
            }
        }
        let kind = if device { FwResetType::Device } else { FwResetType::Tpb };
        cx.regs.set_misc(misc::RESET_TYPE, kind as u32);
        cx.regs.set_misc(misc::TRIGGER, 1);
    };
    trigger();
    let start = cx.pause.now();
    let mut reissue = start + interval;
    while cx.pause.now() < start + limit {
        cx.pause.sleep(POLL).map_err(|_| HandshakeError::Stopped)?;
        if cx.misc_alive(misc::RESET_TYPE)? == Some(0) {
            let took = cx.pause.now() - start;
            cx.record.accepted(took);
            return in_time(cx.env.profile, took);
        }
        if cx.pause.now() >= reissue {
            trigger();
            reissue = cx.pause.now() + interval;
        }
    }
    cx.record.deadline();
    Err(HandshakeError::TimedOut)
}

/// What an acceptance is worth: 2.24.7 takes one in no time for an error, later releases warn.
fn in_time(profile: Profile, took: Duration) -> Result<(), HandshakeError> {
    if took.is_zero() && profile == Profile::V2_24_7 { Err(HandshakeError::NoTime) } else { Ok(()) }
}
