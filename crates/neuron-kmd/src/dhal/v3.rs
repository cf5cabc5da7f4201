//! Trn2.

use std::time::Duration;

use neuron_abi::kernel::pci::RID_TO_INDEX_TRN2;
use neuron_abi::kernel::topology::{CORE_PATTERN_OF_DEVICE, CORE_PATTERNS, DIE_FLIP, PDS_PATTERNS, TRN2_NEIGHBOURS};
use neuron_hw::regs::{self, Layout, misc};

use super::{
    BarProfile, BarTolerance, Dhal, Names, ResetCx, ResetTiming, SCRUB_ENGINES, Stepping, channel_errors, from_table,
    poll_status,
};
use crate::env::Env;
use crate::profile::Profile;
use crate::reset::{HandshakeError, handshake};

/// Doorbell of the virtual machine model.
const QEMU_DOORBELL: u64 = 0x0630_0010;

/// Operations of the third generation.
pub(super) struct V3 {
    pub profile: Profile,
    pub stepping: Stepping,
    pub small_core_count: Option<u32>,
    /// Devices are joined through switches.
    pub pds: bool,
}

impl Dhal for V3 {
    fn layout(&self) -> &'static Layout {
        &regs::V3
    }

    fn arch(&self) -> u32 {
        3
    }

    fn bars(&self) -> BarProfile {
        let moved = self.stepping == Stepping::Qemu && self.profile == Profile::V2_24_7;
        BarProfile { apb: if moved { 2 } else { 0 }, axi: -1, dram: 4 }
    }

    fn bar_tolerance(&self) -> BarTolerance {
        BarTolerance { dram: true, unassigned_registers: self.profile <= Profile::V2_26_5 }
    }

    fn core_count(&self) -> u32 {
        self.small_core_count.unwrap_or(self.layout().geometry.cores)
    }

    fn names(&self, _device: u16) -> Names {
        Names { device_arch: "NDv3", core_arch: "NCv3", instance: "Trn2", chip: "Trainium2" }
    }

    fn retries_copies(&self) -> bool {
        false
    }

    fn maps_channels(&self) -> bool {
        true
    }

    fn scrub_engine(&self, nc_id: u32, hbm_index: u32) -> Option<u32> {
        let _ = hbm_index;
        nc_id.checked_mul(SCRUB_ENGINES)
    }

    fn probe_line_has_arch(&self) -> bool {
        true
    }

    fn device_index(&self, _device: u16, routing_id: u32) -> u32 {
        if self.pds {
            return routing_id;
        }
        routing_id / 16 * 16 + RID_TO_INDEX_TRN2[routing_id as usize % 16]
    }

    fn neighbours(&self, _device: u16, index: u32, count: u32) -> Vec<u32> {
        from_table(&TRN2_NEIGHBOURS, index, count)
    }

    fn core_map(&self, flipped: bool) -> Option<Vec<(u32, u32)>> {
        let flip = if flipped && !self.pds { DIE_FLIP } else { 0 };
        let of = |device: usize| {
            let pattern = if self.pds { PDS_PATTERNS[device % 2] } else { CORE_PATTERN_OF_DEVICE[device] };
            let pattern = CORE_PATTERNS[pattern];
            (0..pattern.len()).map(move |core| (device as u32, pattern[core ^ flip]))
        };
        Some((0..CORE_PATTERN_OF_DEVICE.len()).flat_map(of).collect())
    }

    /// A pending repair hides the errors it will remove. Measured: golden 04, 04b.
    fn memory_errors(&self, word: &dyn Fn(u64) -> Option<u32>) -> u32 {
        let old = self.profile == Profile::V2_24_7;
        let hidden = match word(misc::HBM_REPAIR) {
            // Of the four states of 2.24.7 two are measured: 2 shows, 3 hides.
            Some(repair) if old => repair & 1 == 1,
            Some(repair) => repair & 3 == 1,
            None => old,
        };
        if hidden { 0 } else { channel_errors(word, self.layout().geometry.dram_channels) }
    }

    /// The word is read, and no value of it was seen to give a count.
    fn repairable_memory_errors(&self, word: &dyn Fn(u64) -> Option<u32>) -> u32 {
        word(misc::HBM_REPAIR);
        0
    }

    fn programs_memory(&self) -> bool {
        true
    }

    fn checks_descriptors(&self) -> bool {
        true
    }

    fn has_power_profiles(&self) -> bool {
        false
    }

    fn pod_ctrl_writes_state(&self) -> bool {
        false
    }

    fn reset_timing(&self) -> ResetTiming {
        let retries = if self.stepping == Stepping::Silicon { 5 } else { 5000 };
        ResetTiming { initiate: Duration::from_secs(480), retries }
    }

    fn reset_map(&self, env: &Env, nc_map: u32) -> (u32, u32) {
        if nc_map == u32::MAX {
            return (0, 0);
        }
        let cores = nc_map & 0xff;
        let low = cores | cores << 8 | cores << 16;
        let top = env.params.flag("reset_top_dma");
        let pair = |s: u32| cores >> (2 * s) & 3 == 3;
        let high = (0..4).filter(|s| top && pair(*s)).fold(0, |word, s| word | 1 << s);
        (low, high)
    }

    fn initiate_reset(&self, cx: &ResetCx<'_>, nc_map: u32) -> Result<(), HandshakeError> {
        let map = self.reset_map(cx.env, nc_map);
        if self.stepping == Stepping::Qemu {
            cx.regs.write(QEMU_DOORBELL, map.0);
            return Ok(());
        }
        handshake(cx, nc_map, map, self.reset_timing().initiate)
    }

    fn wait_for_reset(&self, cx: &ResetCx<'_>) -> Result<(), HandshakeError> {
        if self.stepping == Stepping::Qemu {
            return super::poll_doorbell(cx, QEMU_DOORBELL);
        }
        poll_status(cx, self.reset_timing().retries)
    }

    fn post_reset(&self, cx: &ResetCx<'_>, success: bool, _no_reset: bool) -> Result<(), HandshakeError> {
        super::configure_after_reset(cx, success)
    }
}
