//! Exports of `nrt_sys_trace.h`: the system trace.

include!(concat!(env!("OUT_DIR"), "/stubs_nrt_sys_trace.rs"));
