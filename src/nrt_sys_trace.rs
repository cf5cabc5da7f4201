//! Exports of `nrt_sys_trace.h`: the system trace.

use crate::args::{Handle, Out, Text};
use crate::text;
use crate::types::{nrt_sys_trace_config_t, nrt_sys_trace_fetch_options_t};
use nrt_core::inspect::{EVENT_TYPES, FETCH, FetchOptions, SYS_TRACE, SysTraceConfig};
use std::ffi::c_char;
use std::ptr::with_exposed_provenance_mut;

type Config = Handle<*mut nrt_sys_trace_config_t>;
type Fetch = Handle<*mut nrt_sys_trace_fetch_options_t>;

export! {
    /// Make an options object.
    fn nrt_sys_trace_config_allocate(options: Out<*mut nrt_sys_trace_config_t>) -> NRT_STATUS {
        options.set(with_exposed_provenance_mut(SYS_TRACE.allocate()));
        Ok(())
    }
}

export! {
    /// Free an options object; NULL is no error, as with `free`.
    fn nrt_sys_trace_config_free(options: Option<Config>) {
        if let Some(options) = options {
            SYS_TRACE.free(CALL.name, options.address())?;
        }
    }
}

export! {
    /// Put every field back.
    fn nrt_sys_trace_config_set_defaults(options: Config) {
        SYS_TRACE.with(CALL.name, options.address(), |c| {
            *c = SysTraceConfig::default();
            Ok(())
        })?;
    }
}

export! {
    /// Switch the capture of one core.
    fn nrt_sys_trace_config_set_capture_enabled_for_nc(options: Config, nc_idx: u32, enabled: bool) {
        SYS_TRACE.with(CALL.name, options.address(), |c| c.set_core(CALL.name, nc_idx, enabled))?;
    }
}

export! {
    /// Switch one event type.
    fn nrt_sys_trace_config_set_capture_enabled_for_event_type(
        options: Config,
        event_type: Text,
        enabled: bool,
    ) -> NRT_STATUS {
        SYS_TRACE.with(CALL.name, options.address(), |c| c.set_event_type(CALL.name, &event_type.lossy(), enabled))
    }
}

export! {
    /// Set the ring length of a core.
    fn nrt_sys_trace_config_set_max_events_per_nc(options: Config, max_events_per_nc: u64) {
        SYS_TRACE.with(CALL.name, options.address(), |c| {
            c.set_max_events(CALL.name, max_events_per_nc);
            Ok(())
        })?;
    }
}

export! {
    /// Names of the event types that are on.
    fn nrt_sys_trace_config_get_enabled_event_types(
        options: Config,
        event_types: Out<*mut *const c_char>,
        count: Out<usize>,
    ) -> NRT_STATUS {
        let names = SYS_TRACE.with(CALL.name, options.address(), |c| Ok(c.enabled_event_types()))?;
        event_types.set(text::list(&names)?);
        count.set(names.len());
        Ok(())
    }
}

export! {
    /// Names of all event types.
    fn nrt_sys_trace_get_event_types(event_types: Out<*mut *const c_char>, count: Out<usize>) -> NRT_STATUS {
        event_types.set(text::list(&EVENT_TYPES)?);
        count.set(EVENT_TYPES.len());
        Ok(())
    }
}

export! {
    /// Free a list of event type names.
    fn nrt_sys_trace_free_event_types(event_types: *mut *const c_char, count: usize) {
        // SAFETY: the caller promises a list of this library, or NULL.
        unsafe { text::free_list(event_types, count) }
    }
}

export! {
    /// Make an options object.
    fn nrt_sys_trace_fetch_options_allocate(options: Out<*mut nrt_sys_trace_fetch_options_t>) -> NRT_STATUS {
        options.set(with_exposed_provenance_mut(FETCH.allocate()));
        Ok(())
    }
}

export! {
    /// Free an options object; NULL is no error, as with `free`.
    fn nrt_sys_trace_fetch_options_free(options: Option<Fetch>) {
        if let Some(options) = options {
            FETCH.free(CALL.name, options.address())?;
        }
    }
}

export! {
    /// Put every field back.
    fn nrt_sys_trace_fetch_options_set_defaults(options: Fetch) {
        FETCH.with(CALL.name, options.address(), |f| {
            *f = FetchOptions::default();
            Ok(())
        })?;
    }
}

export! {
    /// Set how many events of one core to take at most.
    fn nrt_sys_trace_fetch_options_set_max_events_per_nc(options: Fetch, max_events_per_nc: u64) {
        FETCH.with(CALL.name, options.address(), |f| {
            f.set_max_events(max_events_per_nc);
            Ok(())
        })?;
    }
}

export! {
    /// Set the core to take from.
    fn nrt_sys_trace_fetch_options_set_nc_idx(options: Fetch, nc_idx: u64) {
        FETCH.with(CALL.name, options.address(), |f| f.set_core(CALL.name, nc_idx))?;
    }
}

include!(concat!(env!("OUT_DIR"), "/stubs_nrt_sys_trace.rs"));
