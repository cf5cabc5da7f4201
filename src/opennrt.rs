//! Exports of `opennrt.h`: what OpenNRT adds, version node `OPENNRT_1.0`.

use crate::text::literal;
use std::ffi::c_char;

export! {
    /// Version of OpenNRT itself.
    fn opennrt_version() -> *const c_char {
        const { literal(concat!(env!("CARGO_PKG_VERSION"), "\0")) }.as_ptr()
    }
}

include!(concat!(env!("OUT_DIR"), "/stubs_opennrt.rs"));
