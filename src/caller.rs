//! Buffers of the caller: as slices for the length of a call, as memory a tensor is attached to, and
//! lent to the library until queued work is done.

use nrt_core::exec::Completion;
use nrt_core::tensor::memory::Shared;
use nrt_core::tensor::{Source, Target};
use nrt_core::{Result, Status, log_error};
use std::ffi::c_void;

fn checked<T>(start: *const T, len: usize, call: &'static str, name: &'static str) -> Result<()> {
    if isize::try_from(len).is_err() {
        log_error!(Nrt, call, "{name} cannot have {len} bytes; pass the size of the buffer");
        return Err(Status::Invalid);
    }
    if start.is_null() && len != 0 {
        log_error!(Nrt, call, "{name} is NULL; pass the address of {len} bytes");
        return Err(Status::Invalid);
    }
    Ok(())
}

/// `len` bytes to read; NULL goes with length 0 only.
///
/// # Safety
/// The caller's buffer must hold `len` bytes for as long as the slice is used.
pub(crate) unsafe fn bytes<'a>(
    start: *const c_void,
    len: usize,
    call: &'static str,
    name: &'static str,
) -> Result<&'a [u8]> {
    checked(start, len, call, name)?;
    if len == 0 {
        return Ok(&[]);
    }
    // SAFETY: not NULL, not longer than isize::MAX, and the caller's promise for the rest.
    Ok(unsafe { std::slice::from_raw_parts(start.cast(), len) })
}

/// `len` bytes to write; NULL goes with length 0 only.
///
/// # Safety
/// As [`bytes`], and nobody else may use the buffer meanwhile.
pub(crate) unsafe fn bytes_mut<'a>(
    start: *mut c_void,
    len: usize,
    call: &'static str,
    name: &'static str,
) -> Result<&'a mut [u8]> {
    checked(start.cast_const(), len, call, name)?;
    if len == 0 {
        return Ok(&mut []);
    }
    // SAFETY: not NULL, not longer than isize::MAX, and the caller's promise for the rest.
    Ok(unsafe { std::slice::from_raw_parts_mut(start.cast(), len) })
}

/// A buffer that stays the caller's while a tensor is a view of it.
///
/// # Safety
/// The buffer must hold `len` bytes until the tensor and its slices are gone.
pub(crate) unsafe fn attached(
    start: *mut c_void,
    len: usize,
    call: &'static str,
    name: &'static str,
) -> Result<Shared> {
    checked(start.cast_const(), len, call, name)?;
    // SAFETY: the caller's promise, and only copies of the library reach it from here.
    Ok(unsafe { Shared::new(start.cast(), len) })
}

/// A buffer that queued work reads.
pub(crate) struct Lent(&'static [u8]);

impl Lent {
    /// # Safety
    /// The buffer must hold `len` bytes until this is gone.
    pub(crate) unsafe fn new(start: *const c_void, len: usize, call: &'static str, name: &'static str) -> Result<Lent> {
        // SAFETY: the caller's promise; the slice lives no longer than what holds it.
        unsafe { bytes(start, len, call, name) }.map(Lent)
    }
}

impl Source for Lent {
    fn bytes(&self) -> &[u8] {
        self.0
    }
}

/// A buffer that queued work fills.
pub(crate) struct LentMut(&'static mut [u8]);

impl LentMut {
    /// # Safety
    /// The buffer must hold `len` bytes, and be nobody else's, until this is gone.
    pub(crate) unsafe fn new(
        start: *mut c_void,
        len: usize,
        call: &'static str,
        name: &'static str,
    ) -> Result<LentMut> {
        // SAFETY: the caller's promise; the slice lives no longer than what holds it.
        unsafe { bytes_mut(start, len, call, name) }.map(LentMut)
    }
}

impl Target for LentMut {
    fn bytes(&mut self) -> &mut [u8] {
        self.0
    }
}

/// Where the caller looks for the status of queued work, once its sequence is completed.
pub(crate) struct ExecRet(*mut u32);

// SAFETY: the place is plain memory of the process, written once by the thread that has this.
unsafe impl Send for ExecRet {}

impl ExecRet {
    /// # Safety
    /// The place must take a status until the sequence of the work is completed.
    pub(crate) unsafe fn new(place: *mut u32) -> ExecRet {
        ExecRet(place)
    }
}

impl Completion for ExecRet {
    fn complete(self: Box<Self>, _: u64, status: Status) {
        // SAFETY: the promise of `new`, and the sequence is not completed before this returns.
        unsafe { self.0.write_unaligned(status.code()) };
    }
}
