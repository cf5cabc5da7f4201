//! Exports of `nrt_status.h`.

use std::ffi::c_char;

include!(concat!(env!("OUT_DIR"), "/status_names.rs"));

export! {
    /// Name of a status. The vendor declares it without exporting it; clients look it up.
    fn nrt_get_status_as_str(status: u32) -> *const c_char {
        status_name(status).as_ptr()
    }
}

include!(concat!(env!("OUT_DIR"), "/stubs_nrt_status.rs"));
