//! Exports of `nrt_experimental.h`.

use nrt_core::{Status, log_error};
use std::ffi::c_void;
use std::sync::atomic::{Ordering, fence};

export! {
    /// Copy to a mapped device address. The barrier makes the stores visible before anything the
    /// caller does next, such as ringing a doorbell.
    fn nrt_memcpy_to_device(dest: *mut c_void, src: *const c_void, size: usize) -> NRT_STATUS {
        if size > 0 {
            if dest.is_null() || src.is_null() {
                log_error!(Nrt, CALL.name, "dest or src is NULL; pass two buffers of {size} bytes");
                return Err(Status::Invalid);
            }
            // SAFETY: the caller promises two buffers of `size` bytes; they may overlap.
            unsafe { dest.cast::<u8>().copy_from(src.cast(), size) };
        }
        fence(Ordering::SeqCst);
        Ok(())
    }
}

include!(concat!(env!("OUT_DIR"), "/stubs_nrt_experimental.rs"));
