//! Trn1 and Inf2.

use std::time::Duration;

use neuron_abi::kernel::pci::RID_TO_INDEX_TRN1;
use neuron_abi::kernel::topology::{INF2_LINE, INF2_RING, TRN1_NEIGHBOURS};
use neuron_hw::regs::{self, Layout};

use super::{
    BarProfile, BarTolerance, Dhal, Names, ResetCx, ResetTiming, SCRUB_ENGINES, Stepping, channel_errors, from_table,
    poll_status,
};
use crate::env::Env;
use crate::profile::Profile;
use crate::reset::{HandshakeError, handshake};

/// Device id of Inf2; the other product of this generation is Trn1.
const INF2: u16 = 0x7264;

/// Operations of the second generation.
pub(super) struct V2 {
    pub profile: Profile,
    pub stepping: Stepping,
    pub small_core_count: Option<u32>,
}

impl Dhal for V2 {
    fn layout(&self) -> &'static Layout {
        &regs::V2
    }

    fn arch(&self) -> u32 {
        2
    }

    fn bars(&self) -> BarProfile {
        BarProfile { apb: if self.stepping == Stepping::Qemu { 2 } else { 0 }, axi: -1, dram: 4 }
    }

    fn bar_tolerance(&self) -> BarTolerance {
        BarTolerance { dram: self.profile >= Profile::V2_27_4, unassigned_registers: false }
    }

    fn core_count(&self) -> u32 {
        self.small_core_count.unwrap_or(self.layout().geometry.cores)
    }

    fn names(&self, device: u16) -> Names {
        if device == INF2 {
            Names { device_arch: "NDv3", core_arch: "NCv2", instance: "Inf2", chip: "Inferentia2" }
        } else {
            Names { device_arch: "NDv2", core_arch: "NCv2", instance: "Trn1", chip: "Trainium1" }
        }
    }

    fn retries_copies(&self) -> bool {
        true
    }

    fn maps_channels(&self) -> bool {
        false
    }

    fn scrub_engine(&self, nc_id: u32, hbm_index: u32) -> Option<u32> {
        // The core is not looked at (measured: a core the device does not have is accepted).
        let _ = nc_id;
        Some(hbm_index * SCRUB_ENGINES)
    }

    fn probe_line_has_arch(&self) -> bool {
        false
    }

    fn device_index(&self, device: u16, routing_id: u32) -> u32 {
        if device == INF2 {
            return routing_id;
        }
        routing_id / 16 * 16 + RID_TO_INDEX_TRN1[routing_id as usize % 16]
    }

    fn neighbours(&self, device: u16, index: u32, count: u32) -> Vec<u32> {
        if device != INF2 {
            return from_table(&TRN1_NEIGHBOURS, index, count);
        }
        match count {
            INF2_LINE => {
                let mut list = Vec::with_capacity(2);
                list.extend(index.checked_sub(1));
                list.extend(Some(index + 1).filter(|n| *n < count));
                list
            }
            INF2_RING => vec![(index + count - 1) % count, (index + 1) % count],
            _ => Vec::new(),
        }
    }

    fn core_map(&self, _flipped: bool) -> Option<Vec<(u32, u32)>> {
        None
    }

    fn memory_errors(&self, word: &dyn Fn(u64) -> Option<u32>) -> u32 {
        channel_errors(word, self.layout().geometry.dram_channels)
    }

    /// This generation cannot repair; the repair word is not read.
    fn repairable_memory_errors(&self, _word: &dyn Fn(u64) -> Option<u32>) -> u32 {
        0
    }

    fn programs_memory(&self) -> bool {
        false
    }

    fn checks_descriptors(&self) -> bool {
        false
    }

    fn has_power_profiles(&self) -> bool {
        false
    }

    fn pod_ctrl_writes_state(&self) -> bool {
        true
    }

    fn reset_timing(&self) -> ResetTiming {
        let retries = if self.stepping == Stepping::Emu { 5000 } else { 5 };
        ResetTiming { initiate: Duration::from_secs(120), retries }
    }

    fn reset_map(&self, _env: &Env, nc_map: u32) -> (u32, u32) {
        if nc_map == u32::MAX {
            return (0, 0);
        }
        // The loop of the driver visits eight cores whatever the device has, so the top of the
        // triplet of core 7 falls off the word.
        let word = (0..8).filter(|i| nc_map >> i & 1 != 0).fold(0_u64, |word, i| word | 1 << i | 7 << (8 + 3 * i));
        (word as u32, 0)
    }

    fn initiate_reset(&self, cx: &ResetCx<'_>, nc_map: u32) -> Result<(), HandshakeError> {
        if self.stepping == Stepping::Qemu {
            cx.regs.write(0x3065_7010, 1);
        }
        handshake(cx, nc_map, self.reset_map(cx.env, nc_map), self.reset_timing().initiate)
    }

    fn wait_for_reset(&self, cx: &ResetCx<'_>) -> Result<(), HandshakeError> {
        if self.stepping == Stepping::Qemu {
            return super::poll_doorbell(cx, 0x3065_7010);
        }
        poll_status(cx, self.reset_timing().retries)
    }

    fn post_reset(&self, cx: &ResetCx<'_>, _success: bool, _no_reset: bool) -> Result<(), HandshakeError> {
        if self.profile >= Profile::V2_27_4 {
            cx.record.found_hbm_7200(false);
        }
        Ok(())
    }
}
