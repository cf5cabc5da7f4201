//! Exports of `nrt_experimental.h`.

include!(concat!(env!("OUT_DIR"), "/stubs_nrt_experimental.rs"));
