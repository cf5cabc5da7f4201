//! Exports of `nec.h`: what the collectives library asks of the runtime.

include!(concat!(env!("OUT_DIR"), "/stubs_nec.rs"));
