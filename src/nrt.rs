//! Exports of `nrt.h`: lifecycle, models, tensors, counting and identity.

include!(concat!(env!("OUT_DIR"), "/stubs_nrt.rs"));
