//! Exports of `opennrt.h`: what OpenNRT adds, version node `OPENNRT_1.0`.

use crate::args::Out;
use crate::text::literal;
use nrt_core::device::Backend;
use nrt_core::{config, lifecycle};
use std::ffi::{c_char, c_void};

export! {
    /// Version of OpenNRT itself.
    fn opennrt_version() -> *const c_char {
        const { literal(concat!(env!("CARGO_PKG_VERSION"), "\0")) }.as_ptr()
    }
}

export! {
    /// The backend at work, or before `nrt_init` the one it would take: `fake`, `kernel` or `none`.
    fn opennrt_backend() -> *const c_char {
        match lifecycle::backend() {
            Some(Backend::Fake) => c"fake",
            Some(Backend::Kernel) => c"kernel",
            None => c"none",
        }
        .as_ptr()
    }
}

export! {
    /// The two configuration records as bytes, for conformance tests. `gcfg` is NULL, and its
    /// length 0, outside `nrt_init` and `nrt_close`, which frees it.
    fn opennrt_config_raw(
        cfg: Out<*const c_void>,
        cfg_len: Out<usize>,
        gcfg: Out<*const c_void>,
        gcfg_len: Out<usize>,
    ) -> NRT_STATUS {
        let records = config::raw_records();
        cfg.set(records.cfg.cast());
        cfg_len.set(records.cfg_len);
        gcfg.set(records.gcfg.cast());
        gcfg_len.set(if records.gcfg.is_null() { 0 } else { records.gcfg_len });
        Ok(())
    }
}

include!(concat!(env!("OUT_DIR"), "/stubs_opennrt.rs"));
