//! Texts for C callers.

use nrt_core::Status;
use std::ffi::{CStr, CString, c_char};

/// A list of texts in memory from `malloc`, array and texts alike, because callers may free it
/// piece by piece. An empty list still has an address.
pub(crate) fn list(names: &[&str]) -> Result<*mut *const c_char, Status> {
    // SAFETY: calloc has no requirements.
    let array: *mut *const c_char = unsafe { libc::calloc(names.len().max(1), size_of::<*const c_char>()) }.cast();
    if array.is_null() {
        return Err(Status::Resource);
    }
    for (at, name) in names.iter().enumerate() {
        // The names are constants of this library; none contains a NUL.
        let text = CString::new(*name).unwrap_or_default();
        // SAFETY: strdup reads a C string.
        let copy = unsafe { libc::strdup(text.as_ptr()) };
        if copy.is_null() {
            // SAFETY: the array holds `at` texts of strdup.
            unsafe { free_list(array, at) };
            return Err(Status::Resource);
        }
        // SAFETY: `at` is inside the array, which has room for every name.
        unsafe { array.add(at).write(copy) };
    }
    Ok(array)
}

/// Free a list of `count` texts. NULL, for the list or for a text, is no error.
///
/// # Safety
///
/// The list must come from [`list`], or look like it.
pub(crate) unsafe fn free_list(list: *mut *const c_char, count: usize) {
    if list.is_null() {
        return;
    }
    for at in 0..count {
        // SAFETY: the caller promises `count` texts from malloc.
        unsafe { libc::free(list.add(at).read().cast_mut().cast()) };
    }
    // SAFETY: the caller promises an array from malloc.
    unsafe { libc::free(list.cast()) };
}

/// Static text with its NUL, from a literal made at compile time.
pub(crate) const fn literal(text: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("a literal ends in its only NUL"),
    }
}
