//! Trn3: Trn2 with overrides.

use neuron_hw::regs::{self, Layout};

use super::v3::V3;
use super::{BarProfile, BarTolerance, Dhal, Names, ResetCx, ResetTiming, Stepping};
use crate::env::Env;
use crate::reset::HandshakeError;

/// Operations of the fourth generation.
pub(super) struct V4(pub V3);

/// Items that are the third generation's.
macro_rules! inherit {
    ($(fn $name:ident(&self $(, $arg:ident: $ty:ty)*) -> $ret:ty;)*) => {
        $(fn $name(&self $(, $arg: $ty)*) -> $ret {
            self.0.$name($($arg),*)
        })*
    };
}

impl Dhal for V4 {
    fn layout(&self) -> &'static Layout {
        &regs::V4
    }

    fn arch(&self) -> u32 {
        4
    }

    fn names(&self, _device: u16) -> Names {
        Names { device_arch: "NDv4", core_arch: "NCv4", instance: "Trn3", chip: "Trainium3" }
    }

    fn has_power_profiles(&self) -> bool {
        true
    }

    /// The emulator answers at once.
    fn wait_for_reset(&self, cx: &ResetCx<'_>) -> Result<(), HandshakeError> {
        if self.0.stepping == Stepping::Emu { Ok(()) } else { self.0.wait_for_reset(cx) }
    }

    inherit! {
        fn bars(&self) -> BarProfile;
        fn bar_tolerance(&self) -> BarTolerance;
        fn core_count(&self) -> u32;
        fn probe_line_has_arch(&self) -> bool;
        fn retries_copies(&self) -> bool;
        fn maps_channels(&self) -> bool;
        fn scrub_engine(&self, nc_id: u32, hbm_index: u32) -> Option<u32>;
        fn device_index(&self, device: u16, routing_id: u32) -> u32;
        fn neighbours(&self, device: u16, index: u32, count: u32) -> Vec<u32>;
        fn core_map(&self, flipped: bool) -> Option<Vec<(u32, u32)>>;
        fn memory_errors(&self, word: &dyn Fn(u64) -> Option<u32>) -> u32;
        fn repairable_memory_errors(&self, word: &dyn Fn(u64) -> Option<u32>) -> u32;
        fn programs_memory(&self) -> bool;
        fn checks_descriptors(&self) -> bool;
        fn pod_ctrl_writes_state(&self) -> bool;
        fn reset_timing(&self) -> ResetTiming;
        fn reset_map(&self, env: &Env, nc_map: u32) -> (u32, u32);
        fn initiate_reset(&self, cx: &ResetCx<'_>, nc_map: u32) -> Result<(), HandshakeError>;
        fn post_reset(&self, cx: &ResetCx<'_>, success: bool, no_reset: bool) -> Result<(), HandshakeError>;
    }
}
