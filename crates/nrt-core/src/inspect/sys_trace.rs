//! Options of the system trace, and of fetching its events.

use super::{MAX_CORES, core_index};
use crate::{Result, Status, log_error, log_warn};

/// Fewest events of a core's ring.
pub const MIN_EVENTS_PER_CORE: u64 = 1024;
/// Most events of a core's ring.
pub const MAX_EVENTS_PER_CORE: u64 = 1 << 20;
/// Events of a core's ring unless somebody says otherwise.
pub const DEFAULT_EVENTS_PER_CORE: u64 = 1_000_000;

/// Names of the system-trace event types, in the order of their numbers
/// (`abi/enums.tsv`, enum `nrt_sys_trace_event_type`). The vendor's spellings are not published;
/// these are the internal names in lower case.
pub const EVENT_TYPES: [&str; 46] = [
    "generic",
    "model_load",
    "post_request",
    "execute_api",
    "runtime_execute",
    "cc_load",
    "cc_exec_barrier",
    "device_exec",
    "cc_exec",
    "tensor_read",
    "tensor_write",
    "tensor_read_batch",
    "tensor_write_batch",
    "num_err",
    "enc_barrier_recv",
    "enc_barrier_send",
    "enc_barrier",
    "exec_pre",
    "exec_core",
    "exec_wait",
    "exec_post",
    "model_switch",
    "model_submit",
    "async_sema_wait",
    "hw_notify",
    "timestamp_sync",
    "nc_model_switch",
    "tensor_alloc",
    "tensor_free",
    "tensor_block_while_exec",
    "dmem_buf_copyin",
    "dmem_buf_copyout",
    "dmem_buf_batch_copyin",
    "dmem_buf_batch_copyout",
    "dma_mem_alloc",
    "dma_mem_dealloc",
    "consume_tpb_status_notifications",
    "consume_topsp_cc_notifications",
    "consume_error_notifications",
    "consume_pool_stdio",
    "cc_prepare",
    "cc_schedule",
    "hostcc_build_context",
    "hostcc_load",
    "hostcc_exec",
    "hostcc_wait",
];

/// Options of the system trace.
#[repr(C)]
#[derive(Clone, Debug)]
pub struct SysTraceConfig {
    max_events_per_nc: u64,
    capture_enabled_for_nc: [bool; MAX_CORES],
    capture_enabled_for_event_type: [bool; EVENT_TYPES.len()],
}

impl Default for SysTraceConfig {
    fn default() -> SysTraceConfig {
        SysTraceConfig {
            max_events_per_nc: DEFAULT_EVENTS_PER_CORE,
            capture_enabled_for_nc: [true; MAX_CORES],
            capture_enabled_for_event_type: [true; EVENT_TYPES.len()],
        }
    }
}

impl SysTraceConfig {
    /// Set the ring length of a core, in events; out of range, the nearest legal one is taken.
    pub fn set_max_events(&mut self, api: &'static str, events: u64) {
        self.max_events_per_nc = events.clamp(MIN_EVENTS_PER_CORE, MAX_EVENTS_PER_CORE);
        if self.max_events_per_nc != events {
            log_warn!(
                Nrt,
                api,
                "{events} events per core is outside {MIN_EVENTS_PER_CORE} to {MAX_EVENTS_PER_CORE}; using {}",
                self.max_events_per_nc
            );
        }
    }

    /// Ring length of a core, in events.
    pub fn max_events(&self) -> u64 {
        self.max_events_per_nc
    }

    /// Switch the capture of one core.
    ///
    /// # Errors
    ///
    /// `NRT_INVALID` for a core above 255.
    pub fn set_core(&mut self, api: &'static str, core: u32, on: bool) -> Result<()> {
        self.capture_enabled_for_nc[core_index(api, core.into())?] = on;
        Ok(())
    }

    /// Whether a core is captured.
    pub fn core(&self, core: usize) -> bool {
        self.capture_enabled_for_nc.get(core).copied().unwrap_or(false)
    }

    /// Switch one event type.
    ///
    /// # Errors
    ///
    /// `NRT_INVALID` for a name that is none of [`EVENT_TYPES`].
    pub fn set_event_type(&mut self, api: &'static str, name: &str, on: bool) -> Result<()> {
        match EVENT_TYPES.iter().position(|known| *known == name) {
            Some(at) => self.capture_enabled_for_event_type[at] = on,
            None => {
                log_error!(
                    Nrt,
                    api,
                    "`{:.80}` is no event type; nrt_sys_trace_get_event_types lists them",
                    name.escape_debug().to_string()
                );
                return Err(Status::Invalid);
            }
        }
        Ok(())
    }

    /// The event types that are on.
    pub fn enabled_event_types(&self) -> Vec<&'static str> {
        EVENT_TYPES
            .into_iter()
            .zip(self.capture_enabled_for_event_type)
            .filter_map(|(name, on)| on.then_some(name))
            .collect()
    }
}

/// Options of fetching system-trace events.
#[repr(C)]
#[derive(Clone, Debug)]
pub struct FetchOptions {
    max_events_per_nc: u64,
    nc_idx: i32,
}

impl Default for FetchOptions {
    fn default() -> FetchOptions {
        FetchOptions { max_events_per_nc: u64::MAX, nc_idx: FetchOptions::EVERY_CORE }
    }
}

impl FetchOptions {
    const EVERY_CORE: i32 = -1;

    /// Set how many events of one core to take at most.
    pub fn set_max_events(&mut self, events: u64) {
        self.max_events_per_nc = events;
    }

    /// How many events of one core to take at most.
    pub fn max_events(&self) -> u64 {
        self.max_events_per_nc
    }

    /// Set the core to take from; all bits set means every core.
    ///
    /// # Errors
    ///
    /// `NRT_INVALID` for any other core above 255.
    pub fn set_core(&mut self, api: &'static str, core: u64) -> Result<()> {
        self.nc_idx = match core {
            u64::MAX => FetchOptions::EVERY_CORE,
            // A mask holds 256 cores, so the index fits.
            core => core_index(api, core)? as i32,
        };
        Ok(())
    }

    /// The core to take from; `None` for every core.
    pub fn core(&self) -> Option<u32> {
        u32::try_from(self.nc_idx).ok()
    }
}

const _: () = {
    use std::mem::{offset_of, size_of};
    assert!(size_of::<SysTraceConfig>() == 312);
    assert!(offset_of!(SysTraceConfig, capture_enabled_for_nc) == 8);
    assert!(offset_of!(SysTraceConfig, capture_enabled_for_event_type) == 264);
    assert!(size_of::<FetchOptions>() == 16);
    assert!(offset_of!(FetchOptions, nc_idx) == 8);
};

#[cfg(test)]
mod tests {
    use super::super::tests::table;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn event_types_are_the_enumerators_of_the_table_in_order() {
        let mut wanted = table("nrt_sys_trace_event_type", "NRT_SYS_TRACE_EVENT_TYPE_");
        assert_eq!(wanted.pop(), Some((46, "count".into())));
        for (value, name) in wanted {
            assert_eq!(EVENT_TYPES[value as usize], name);
        }
    }

    #[test]
    fn a_core_to_fetch_from_is_below_256_or_every_core() {
        let mut f = FetchOptions::default();
        assert_eq!((f.core(), f.max_events()), (None, u64::MAX));
        assert_eq!(f.set_core("t", 256), Err(Status::Invalid));
        assert_eq!(f.set_core("t", u64::from(u32::MAX)), Err(Status::Invalid));
        f.set_core("t", 7).expect("in range");
        assert_eq!(f.core(), Some(7));
        f.set_core("t", u64::MAX).expect("every core");
        assert_eq!(f.core(), None);
    }

    proptest! {
        #[test]
        fn ring_lengths_are_held_between_the_limits(events: u64) {
            let mut c = SysTraceConfig::default();
            c.set_max_events("t", events);
            let mut median = [1024, events, 1_048_576];
            median.sort_unstable();
            prop_assert_eq!(c.max_events(), median[1]);
        }

        #[test]
        fn event_types_are_a_set_that_remembers_the_last_switch(
            switches in prop::collection::vec((0..EVENT_TYPES.len(), any::<bool>()), 0..80)
        ) {
            let mut c = SysTraceConfig::default();
            let mut oracle = vec![true; EVENT_TYPES.len()];
            for (at, on) in switches {
                c.set_event_type("t", EVENT_TYPES[at], on).expect("known");
                oracle[at] = on;
            }
            let wanted: Vec<_> = (0..EVENT_TYPES.len()).filter(|at| oracle[*at]).map(|at| EVENT_TYPES[at]).collect();
            prop_assert_eq!(c.enabled_event_types(), wanted);
        }

        #[test]
        fn unknown_event_types_are_refused(name in "\\PC{0,200}") {
            prop_assume!(!EVENT_TYPES.contains(&name.as_str()));
            prop_assert_eq!(SysTraceConfig::default().set_event_type("t", &name, true), Err(Status::Invalid));
        }
    }
}
