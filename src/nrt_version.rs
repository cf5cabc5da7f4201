//! Exports of `nrt_version.h`.

include!(concat!(env!("OUT_DIR"), "/stubs_nrt_version.rs"));
