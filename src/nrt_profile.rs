//! Exports of `nrt_profile.h`: profiles and captures.

use crate::args::{Handle, Out, Text};
use crate::text;
use crate::types::{nrt_inspect_config_t, nrt_profile_continuous_options_t};
use nrt_core::inspect::{ACTIVITIES, CONTINUOUS, DeviceProfile, INSPECT, InspectConfig};
use nrt_core::{Status, log_error};
use std::ffi::c_char;
use std::ptr::with_exposed_provenance_mut;

type Config = Handle<*mut nrt_inspect_config_t>;
type Continuous = Handle<*mut nrt_profile_continuous_options_t>;

export! {
    /// Make an options object.
    fn nrt_inspect_config_allocate(options: Out<*mut nrt_inspect_config_t>) -> NRT_STATUS {
        options.set(with_exposed_provenance_mut(INSPECT.allocate()));
        Ok(())
    }
}

export! {
    /// Free an options object.
    fn nrt_inspect_config_free(options: Config) -> NRT_STATUS {
        INSPECT.free(CALL.name, options.address())
    }
}

/// An export that stores one value in a capture's options.
macro_rules! setter {
    ($(#[$meta:meta])* $name:ident, $value:ident: $ty:ty, $config:ident => $store:expr) => {
        export! {
            $(#[$meta])*
            fn $name(options: Config, $value: $ty) -> NRT_STATUS {
                INSPECT.with(CALL.name, options.address(), |$config| {
                    $store;
                    Ok(())
                })
            }
        }
    };
}

setter! {
    /// Set the number that names the session.
    nrt_inspect_config_set_session_id, session_id: i32, c => c.set_session(session_id)
}

setter! {
    /// Set the output folder.
    nrt_inspect_config_set_output_dir, output_dir: Text, c => c.set_folder(CALL.name, output_dir.bytes())?
}

setter! {
    /// Switch the capture as a whole.
    nrt_inspect_config_set_enable_inspect, enable_inspect: bool, c => c.set_enabled(enable_inspect)
}

setter! {
    /// Switch the capture of failed runs.
    nrt_inspect_config_set_enable_inspect_on_fail, enable_inspect_on_fail: bool, c =>
        c.set_enabled_on_fail(enable_inspect_on_fail)
}

setter! {
    /// Set the ring length of a core.
    nrt_inspect_config_set_sys_trace_max_events_per_nc, sys_trace_max_events_per_nc: u64, c =>
        c.sys_trace().set_max_events(CALL.name, sys_trace_max_events_per_nc)
}

export! {
    /// Put every field back.
    fn nrt_inspect_config_set_defaults(options: Config) -> NRT_STATUS {
        INSPECT.with(CALL.name, options.address(), |c| {
            *c = InspectConfig::default();
            Ok(())
        })
    }
}

export! {
    /// Set which device profiles are taken.
    fn nrt_inspect_config_set_inspect_device_profile_mode(options: Config, device_profile_mode: u32) -> NRT_STATUS {
        let mode = DeviceProfile::from_repr(device_profile_mode).ok_or_else(|| {
            log_error!(
                Nrt,
                CALL.name,
                "{device_profile_mode} is no device profile mode; pass 0 (disabled), 1 (model) or 2 (session)"
            );
            Status::Invalid
        })?;
        INSPECT.with(CALL.name, options.address(), |c| {
            c.set_device_profile(mode);
            Ok(())
        })
    }
}

export! {
    /// Switch the capture of one core.
    fn nrt_inspect_config_set_capture_enabled_for_nc(options: Config, nc_idx: u32, enabled: bool) -> NRT_STATUS {
        INSPECT.with(CALL.name, options.address(), |c| c.set_core(CALL.name, nc_idx, enabled))
    }
}

export! {
    /// Switch one system-trace event type.
    fn nrt_inspect_config_set_capture_enabled_for_event_type_string(
        options: Config,
        event_type: Text,
        enabled: bool,
    ) -> NRT_STATUS {
        INSPECT.with(CALL.name, options.address(), |c| {
            c.sys_trace().set_event_type(CALL.name, &event_type.lossy(), enabled)
        })
    }
}

export! {
    /// Switch one activity, or all.
    fn nrt_inspect_config_set_activity(options: Config, activity_type: Text, enabled: bool) -> NRT_STATUS {
        INSPECT.with(CALL.name, options.address(), |c| c.set_activity(CALL.name, &activity_type.lossy(), enabled))
    }
}

export! {
    /// Names of all activities.
    fn nrt_inspect_config_get_all_activity_types(
        activity_types: Out<*mut *const c_char>,
        count: Out<usize>,
    ) -> NRT_STATUS {
        activity_types.set(text::list(&ACTIVITIES.map(|(name, _)| name))?);
        count.set(ACTIVITIES.len());
        Ok(())
    }
}

export! {
    /// Names of the activities that are on.
    fn nrt_inspect_config_get_enabled_activity_types(
        options: Config,
        activity_types: Out<*mut *const c_char>,
        count: Out<usize>,
    ) -> NRT_STATUS {
        let names = INSPECT.with(CALL.name, options.address(), |c| Ok(c.enabled_activities()))?;
        activity_types.set(text::list(&names)?);
        count.set(names.len());
        Ok(())
    }
}

export! {
    /// Free a list of activity names.
    fn nrt_inspect_config_free_activity_types(activity_types: *mut *const c_char, count: usize) {
        // SAFETY: the caller promises a list of this library, or NULL.
        unsafe { text::free_list(activity_types, count) }
    }
}

export! {
    /// Make an options object.
    fn nrt_profile_continuous_options_allocate(options: Out<*mut nrt_profile_continuous_options_t>) -> NRT_STATUS {
        options.set(with_exposed_provenance_mut(CONTINUOUS.allocate()));
        Ok(())
    }
}

export! {
    /// Free an options object.
    fn nrt_profile_continuous_options_free(options: Continuous) -> NRT_STATUS {
        CONTINUOUS.free(CALL.name, options.address())
    }
}

export! {
    /// Set the output folder.
    fn nrt_profile_continuous_options_set_output_dir(options: Continuous, output_dir: Text) -> NRT_STATUS {
        CONTINUOUS.with(CALL.name, options.address(), |o| o.set_folder(CALL.name, output_dir.bytes()))
    }
}

include!(concat!(env!("OUT_DIR"), "/stubs_nrt_profile.rs"));
