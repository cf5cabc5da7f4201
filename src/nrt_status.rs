//! Exports of `nrt_status.h`.

include!(concat!(env!("OUT_DIR"), "/stubs_nrt_status.rs"));
