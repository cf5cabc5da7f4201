//! Exports of `nrt_experimental.h`.

use crate::args::Arg;
use crate::types::NRT_ASYNC_EXEC_STATUS_CALLBACK;
use nrt_core::exec::{self, Callback, Report};
use nrt_core::{Status, lifecycle, log_error};
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

impl Arg for NRT_ASYNC_EXEC_STATUS_CALLBACK {
    type C = Self;
    unsafe fn take(c: Self, _: &'static str, _: &'static str) -> Result<Self, Status> {
        Ok(c)
    }
}

/// A function of the caller with what it asked for to be passed.
struct Registered {
    function: unsafe extern "C" fn(params: *mut c_void, model_id: u32, vnc: u32, job_id: u64, status: u32),
    params: *mut c_void,
}

// SAFETY: `params` is passed on and never followed; by the contract of the registration the function
// may be called on any thread.
unsafe impl Send for Registered {}
// SAFETY: as above; the workers of several cores may call it at the same time.
unsafe impl Sync for Registered {}

impl Callback for Registered {
    fn report(&self, Report { model, core, job, status }: Report) {
        // SAFETY: the prototype is that of the header, and the function stays until another replaces it.
        unsafe { (self.function)(self.params, model, core, job, status.code()) };
    }
}

export! {
    /// Have `callback` called after each job of the implicit asynchronous mode, in place of the one
    /// before; NULL brings the default back, which logs jobs that fail.
    fn nrt_register_async_exec_callback(callback: NRT_ASYNC_EXEC_STATUS_CALLBACK, params: *mut c_void) -> NRT_STATUS {
        exec::register(callback.map(|function| Box::new(Registered { function, params }) as Box<dyn Callback>));
        Ok(())
    }
}

export! {
    /// Wait until the jobs of the implicit asynchronous mode that were queued on a core are through.
    fn nrt_async_drain_queued_execs(vnc_idx: i32) -> NRT_STATUS {
        lifecycle::runtime()?.scheduler.drain(vnc_idx)
    }
}

include!(concat!(env!("OUT_DIR"), "/stubs_nrt_experimental.rs"));
