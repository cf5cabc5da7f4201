//! Exports of `nrt_async_sendrecv.h`: point-to-point transfers.

include!(concat!(env!("OUT_DIR"), "/stubs_nrt_async_sendrecv.rs"));
