//! Exports of `nrt_profile.h`: profiles and captures.

include!(concat!(env!("OUT_DIR"), "/stubs_nrt_profile.rs"));
