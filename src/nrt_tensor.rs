//! The tensor part of `nrt.h`.

use crate::args::{Handle, InOut, Out, Text};
use crate::caller::{attached, bytes, bytes_mut};
use crate::types::{
    nrt_tensor_batch_op_t, nrt_tensor_batch_t, nrt_tensor_device_allocation_info_t, nrt_tensor_set_t, nrt_tensor_t,
};
use nrt_core::tensor::{self, Wait};
use nrt_core::{Result, lifecycle, log_debug};
use std::ffi::{CString, c_void};

/// A name as the core room takes it. The text was read up to its NUL, so it holds none.
fn name(text: &Option<Text>) -> Option<CString> {
    text.as_ref().map(|text| CString::new(text.bytes()).unwrap_or_default())
}

/// Hand a new handle out; NULL when there is none, so that nobody frees what a variable held before.
fn give<T>(place: &Out<*mut T>, made: Result<usize>) -> Result<()> {
    place.set(made.unwrap_or(0) as *mut T);
    made.map(drop)
}

export! {
    /// Allocate a tensor on a core of this process or in host memory.
    fn nrt_tensor_allocate(
        tensor_placement: u32,
        vnc: i32,
        size: usize,
        name: Option<Text>,
        tensor: Out<*mut nrt_tensor_t>,
    ) -> NRT_STATUS {
        let name = self::name(&name);
        give(&tensor, lifecycle::runtime()?.tensors.allocate(tensor_placement, vnc, size, name.as_deref()))
    }
}

export! {
    /// A tensor without memory, to attach a buffer to.
    fn nrt_tensor_allocate_empty(name: Option<Text>, tensor: Out<*mut nrt_tensor_t>) -> NRT_STATUS {
        give(&tensor, tensor::allocate_empty(self::name(&name).as_deref()))
    }
}

export! {
    /// Another view of a part of a tensor.
    fn nrt_tensor_allocate_slice(
        tensor_source: Handle<*const nrt_tensor_t>,
        offset: usize,
        size: usize,
        name: Option<Text>,
        tensor_slice: Out<*mut nrt_tensor_t>,
    ) -> NRT_STATUS {
        let source = tensor::resolve(CALL.name, tensor_source.address())?;
        give(&tensor_slice, tensor::allocate_slice(&source, offset, size, self::name(&name).as_deref()))
    }
}

export! {
    /// Make a tensor a view of a buffer that stays the caller's.
    fn nrt_tensor_attach_buffer(tensor: Handle<*mut nrt_tensor_t>, buffer: *mut c_void, size: usize) -> NRT_STATUS {
        let tensor = tensor::resolve(CALL.name, tensor.address())?;
        // SAFETY: by the contract of the call the buffer outlives the tensor.
        tensor.attach(Box::new(unsafe { attached(buffer, size, CALL.name, "buffer") }?));
        Ok(())
    }
}

export! {
    /// Free a tensor and clear the caller's handle. Works in every state: programs free their
    /// tensors after `nrt_close` too.
    fn nrt_tensor_free(tensor: Option<InOut<*mut nrt_tensor_t>>) {
        release(CALL.name, tensor, tensor::free);
    }
}

export! {
    /// Destroy a set, not its tensors, and clear the caller's handle. Works in every state.
    fn nrt_destroy_tensor_set(tensor_set: Option<InOut<*mut nrt_tensor_set_t>>) {
        release(CALL.name, tensor_set, tensor::destroy_set);
    }
}

fn release<T>(call: &'static str, place: Option<InOut<*mut T>>, free: fn(usize) -> Result<()>) {
    let Some(place) = place else { return };
    if lifecycle::state() != lifecycle::State::Init {
        log_debug!(Nrt, call, "released in state {}", lifecycle::state().name());
    }
    // A bogus handle is logged where it is found out; the caller has no status to look at.
    let _ = free(place.get() as usize);
    place.set(std::ptr::null_mut());
}

export! {
    /// Copy bytes of a tensor to the caller.
    fn nrt_tensor_read(tensor: Handle<*const nrt_tensor_t>, buf: *mut c_void, offset: usize, size: usize) -> NRT_STATUS {
        let tensor = tensor::resolve(CALL.name, tensor.address())?;
        // SAFETY: by the contract of the call the buffer has `size` bytes.
        tensor.read(offset, unsafe { bytes_mut(buf, size, CALL.name, "buf") }?)
    }
}

export! {
    /// Copy bytes of the caller to a tensor.
    fn nrt_tensor_write(tensor: Handle<*mut nrt_tensor_t>, buf: *const c_void, offset: usize, size: usize) -> NRT_STATUS {
        let tensor = tensor::resolve(CALL.name, tensor.address())?;
        // SAFETY: by the contract of the call the buffer has `size` bytes.
        tensor.write(offset, unsafe { bytes(buf, size, CALL.name, "buf") }?)
    }
}

/// A caller's array, copied element by element at the door. NULL goes with length 0 only.
///
/// # Safety
/// The array must hold `len` elements.
unsafe fn array<T: Copy>(start: *const T, len: u64, call: &'static str, name: &'static str) -> Result<Vec<T>> {
    let size = usize::try_from(len).ok().and_then(|len| len.checked_mul(size_of::<T>())).unwrap_or(usize::MAX);
    // SAFETY: the caller's promise; the bytes only show that address and length can be right.
    unsafe { bytes(start.cast(), size, call, name) }?;
    // SAFETY: as above, and `add` stays inside the array.
    Ok((0..len as usize).map(|i| unsafe { start.add(i).read_unaligned() }).collect())
}

/// Run `each` for every tensor of a batch, up to the first failure.
///
/// # Safety
/// The arrays and buffers must hold what their lengths say.
unsafe fn batch(
    batches: *const nrt_tensor_batch_t,
    num_batches: u64,
    call: &'static str,
    each: impl Fn(&tensor::Tensor, Vec<nrt_tensor_batch_op_t>) -> Result<()>,
) -> Result<()> {
    // SAFETY: the caller's promise.
    for one in unsafe { array(batches, num_batches, call, "batches") }? {
        let tensor = tensor::resolve(call, one.tensor as usize)?;
        // SAFETY: the caller's promise.
        each(&tensor, unsafe { array(one.ops, u64::from(one.num_ops), call, "ops") }?)?;
    }
    Ok(())
}

fn wait(skip: bool) -> Wait {
    if skip { Wait::Skip } else { Wait::InFlight }
}

export! {
    /// Many reads of many tensors; with `unsafe` without waiting for other calls in flight.
    fn nrt_tensor_read_batch(batches: *const nrt_tensor_batch_t, num_batches: u64, r#unsafe: bool) -> NRT_STATUS {
        let each = |tensor: &tensor::Tensor, ops: Vec<nrt_tensor_batch_op_t>| {
            let mut refused = Ok(());
            let buffers = ops.iter().map_while(|op| {
                // SAFETY: by the contract of the call the buffer has `size` bytes.
                let buffer = unsafe { bytes_mut(op.buffer, op.size as usize, CALL.name, "buffer") };
                Some((op.offset as usize, buffer.map_err(|status| refused = Err(status)).ok()?))
            });
            // Those before a buffer that is refused take effect.
            tensor.read_batch(buffers, wait(r#unsafe))?;
            refused
        };
        // SAFETY: by the contract of the call the arrays hold what their lengths say.
        unsafe { batch(batches, num_batches, CALL.name, each) }
    }
}

export! {
    /// Many writes of many tensors; with `unsafe` without waiting for other calls in flight.
    fn nrt_tensor_write_batch(batches: *const nrt_tensor_batch_t, num_batches: u64, r#unsafe: bool) -> NRT_STATUS {
        let each = |tensor: &tensor::Tensor, ops: Vec<nrt_tensor_batch_op_t>| {
            let mut refused = Ok(());
            let buffers = ops.iter().map_while(|op| {
                // SAFETY: by the contract of the call the buffer has `size` bytes.
                let buffer = unsafe { bytes(op.buffer, op.size as usize, CALL.name, "buffer") };
                Some((op.offset as usize, buffer.map_err(|status| refused = Err(status)).ok()?))
            });
            // Those before a buffer that is refused take effect.
            tensor.write_batch(buffers, wait(r#unsafe))?;
            refused
        };
        // SAFETY: by the contract of the call the arrays hold what their lengths say.
        unsafe { batch(batches, num_batches, CALL.name, each) }
    }
}

export! {
    /// Copy between two tensors on the same HBM, or to or from host memory.
    fn nrt_tensor_copy(
        src: Handle<*const nrt_tensor_t>,
        src_offset: usize,
        dst: Handle<*mut nrt_tensor_t>,
        dst_offset: usize,
        size: usize,
    ) -> NRT_STATUS {
        let src = tensor::resolve(CALL.name, src.address())?;
        let dst = tensor::resolve(CALL.name, dst.address())?;
        tensor::copy(&src, src_offset, &dst, dst_offset, size)
    }
}

export! {
    /// Set bytes of a tensor to the low 8 bits of `value`.
    fn nrt_tensor_memset(tensor: Handle<*mut nrt_tensor_t>, offset: u64, value: i32, size: usize) -> NRT_STATUS {
        tensor::resolve(CALL.name, tensor.address())?.memset(offset as usize, value, size)
    }
}

export! {
    /// Bytes of a tensor, in every state; 0 for a handle that is not alive.
    fn nrt_tensor_get_size(tensor: Handle<*const nrt_tensor_t>) -> usize, quick known_size {
        tensor::size(tensor.address())?
    }
}

/// The size of a live tensor, with no guard around the one look it takes.
unsafe fn known_size(tensor: *const nrt_tensor_t) -> Option<usize> {
    tensor::size_if_alive(tensor.addr())
}

export! {
    /// Where a tensor begins in this process; NULL when it is not mapped.
    fn nrt_tensor_get_va(tensor: Handle<*const nrt_tensor_t>) -> *mut c_void {
        tensor::resolve(CALL.name, tensor.address())?.va().unwrap_or(0) as *mut c_void
    }
}

export! {
    /// Where a tensor lies in device memory.
    fn nrt_tensor_get_device_allocation_info(
        tensor: Handle<*const nrt_tensor_t>,
        alloc_info: Out<nrt_tensor_device_allocation_info_t>,
    ) -> NRT_STATUS {
        let place = tensor::resolve(CALL.name, tensor.address())?.device_allocation()?;
        alloc_info.set(nrt_tensor_device_allocation_info_t {
            physical_address: place.physical_address,
            size: place.size,
            hbm_index: place.hbm_index as i32,
        });
        Ok(())
    }
}

export! {
    /// Wait until `expected_completion_count` runs have written a tensor, at most `timeout`
    /// microseconds, for ever when negative.
    fn nrt_tensor_check_output_completion(
        output_tensor: Option<Handle<*const nrt_tensor_t>>,
        timeout: i64,
        expected_completion_count: u64,
    ) -> NRT_STATUS {
        let tensor = output_tensor.map_or(0, |tensor| tensor.address());
        tensor::check_output_completion(tensor, timeout, expected_completion_count)
    }
}

export! {
    /// Count the runs that write a tensor from 0 again.
    fn nrt_tensor_reset_output_completion(output_tensor: Option<Handle<*mut nrt_tensor_t>>) -> NRT_STATUS {
        tensor::reset_output_completion(output_tensor.map_or(0, |tensor| tensor.address()))
    }
}

export! {
    /// An empty tensor set.
    fn nrt_allocate_tensor_set(result: Out<*mut nrt_tensor_set_t>) -> NRT_STATUS {
        result.set(tensor::allocate_set()? as *mut nrt_tensor_set_t);
        Ok(())
    }
}

export! {
    /// Put a tensor into a set under a name, in place of the one there. The set takes no ownership.
    fn nrt_add_tensor_to_tensor_set(
        tensor_set: Handle<*mut nrt_tensor_set_t>,
        tensor_name: Text,
        tensor: Handle<*mut nrt_tensor_t>,
    ) -> NRT_STATUS {
        let name = CString::new(tensor_name.bytes()).unwrap_or_default();
        tensor::resolve_set(CALL.name, tensor_set.address())?.add(&name, tensor.address())
    }
}

export! {
    /// The tensor of that name; 1, and the place untouched, when there is none.
    fn nrt_get_tensor_from_tensor_set(
        tensor_set: Handle<*mut nrt_tensor_set_t>,
        tensor_name: Text,
        tensor: Out<*mut nrt_tensor_t>,
    ) -> NRT_STATUS {
        let name = CString::new(tensor_name.bytes()).unwrap_or_default();
        tensor.set(tensor::resolve_set(CALL.name, tensor_set.address())?.get(&name)? as *mut nrt_tensor_t);
        Ok(())
    }
}
