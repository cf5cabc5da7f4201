//! Exports of `opennrt.h`: what OpenNRT adds, version node `OPENNRT_1.0`.

include!(concat!(env!("OUT_DIR"), "/stubs_opennrt.rs"));
