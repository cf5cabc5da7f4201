//! Exports of `nrt_async.h`: explicit asynchronous execution, version node `NRT_3.0.0`.
//!
//! NULL is looked for after the mode of the runtime and before queue and core, so pointers come as
//! they are (`facts/runtime/tensors.md` section 8). A call that is refused writes to no place of its caller.

use crate::args::Out;
use crate::caller::{ExecRet, Lent, LentMut};
use crate::types::nrt_tensor_t;
use nrt_core::exec::Unit;
use nrt_core::{Result, Status, lifecycle, log_error};
use std::ffi::c_void;

/// The names of pointers, and whether they are NULL.
macro_rules! pointers {
    ($($name:ident),*) => { &[$((stringify!($name), $name.is_null())),*] };
}

export! {
    /// Queue a read of a tensor. Buffer, tensor and status place belong to the library until the
    /// sequence is completed.
    fn nrta_tensor_read(
        buf: *mut c_void,
        tensor: *mut nrt_tensor_t,
        offset: u64,
        size: u64,
        lnc_idx: i32,
        queue: i32,
        exec_ret: *mut u32,
        req_sequence: *mut u64,
    ) -> NRT_STATUS {
        let runtime = lifecycle::runtime()?;
        let null = pointers!(buf, tensor, exec_ret, req_sequence);
        let entry = runtime.scheduler.enter(CALL.name, Unit::TensorOp, lnc_idx, queue, null)?;
        let tensor = entry.tensor(tensor.addr())?;
        // SAFETY: by the contract of the call both places are the caller's until completion.
        let (buf, exec_ret) = unsafe { (LentMut::new(buf, size as usize, CALL.name, "buf")?, ExecRet::new(exec_ret)) };
        // SAFETY: by the contract of the call the place takes a sequence.
        unsafe { give(req_sequence, entry.read(&tensor, offset as usize, Box::new(buf), Box::new(exec_ret))) }
    }
}

export! {
    /// Queue a write to a tensor. Buffer, tensor and status place belong to the library until the
    /// sequence is completed.
    fn nrta_tensor_write(
        tensor: *mut nrt_tensor_t,
        buf: *const c_void,
        offset: u64,
        size: u64,
        lnc_idx: i32,
        queue: i32,
        exec_ret: *mut u32,
        req_sequence: *mut u64,
    ) -> NRT_STATUS {
        let runtime = lifecycle::runtime()?;
        let null = pointers!(tensor, buf, exec_ret, req_sequence);
        let entry = runtime.scheduler.enter(CALL.name, Unit::TensorOp, lnc_idx, queue, null)?;
        let tensor = entry.tensor(tensor.addr())?;
        // SAFETY: by the contract of the call both places are the caller's until completion.
        let (buf, exec_ret) = unsafe { (Lent::new(buf, size as usize, CALL.name, "buf")?, ExecRet::new(exec_ret)) };
        // SAFETY: by the contract of the call the place takes a sequence.
        unsafe { give(req_sequence, entry.write(&tensor, offset as usize, Box::new(buf), Box::new(exec_ret))) }
    }
}

export! {
    /// Queue a copy between two tensors on the same HBM. Tensors and status place belong to the
    /// library until the sequence is completed.
    fn nrta_tensor_copy(
        src: *mut nrt_tensor_t,
        src_offset: u64,
        dst: *mut nrt_tensor_t,
        dst_offset: u64,
        size: u64,
        lnc_idx: i32,
        queue: i32,
        exec_ret: *mut u32,
        req_sequence: *mut u64,
    ) -> NRT_STATUS {
        let runtime = lifecycle::runtime()?;
        let null = pointers!(src, dst, exec_ret, req_sequence);
        let entry = runtime.scheduler.enter(CALL.name, Unit::TensorOp, lnc_idx, queue, null)?;
        let (src, dst) = (entry.tensor(src.addr())?, entry.tensor(dst.addr())?);
        let (from, to) = ((&*src, src_offset as usize), (&*dst, dst_offset as usize));
        // SAFETY: by the contract of the call the place is the caller's until completion.
        let exec_ret = unsafe { ExecRet::new(exec_ret) };
        // SAFETY: by the contract of the call the place takes a sequence.
        unsafe { give(req_sequence, entry.copy(from, to, size as usize, Box::new(exec_ret))) }
    }
}

/// Hand a sequence out; the place is left alone when there is none.
///
/// # Safety
/// The place takes a sequence.
unsafe fn give(place: *mut u64, sequence: Result<u64>) -> Result<()> {
    // SAFETY: the caller's promise; no alignment is asked of C callers that pack their structs.
    sequence.map(|id| unsafe { place.write_unaligned(id) })
}

export! {
    /// Whether a sequence, and all before it in its queue, are completed.
    fn nrta_is_completed(seq: u64, is_completed: Option<Out<bool>>) -> NRT_STATUS {
        let place = given(CALL.name, "is_completed", is_completed)?;
        place.set(lifecycle::with_runtime(|runtime| runtime.scheduler.is_completed(seq))?);
        Ok(())
    }
}

export! {
    /// The last completed sequence of a unit and queue.
    fn nrta_get_sequence(lnc_idx: u32, xu_type: u32, queue: i32, seq: Option<Out<u64>>) -> NRT_STATUS {
        let place = given(CALL.name, "seq", seq)?;
        place.set(lifecycle::with_runtime(|runtime| runtime.scheduler.last_completed(lnc_idx, xu_type, queue))?);
        Ok(())
    }
}

/// The text of these calls is the vendor's.
fn given<T>(call: &'static str, name: &str, place: Option<Out<T>>) -> Result<Out<T>> {
    place.ok_or_else(|| {
        log_error!(Nrt, call, "{name} is NULL");
        Status::Invalid
    })
}

include!(concat!(env!("OUT_DIR"), "/stubs_nrt_async.rs"));
