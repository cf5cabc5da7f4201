//! Exports of `nrt_async.h`: explicit asynchronous execution, version node `NRT_3.0.0`.

include!(concat!(env!("OUT_DIR"), "/stubs_nrt_async.rs"));
