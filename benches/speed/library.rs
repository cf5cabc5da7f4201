//! The calls that are measured, and the programs they are measured against.

use crate::shared::{Shared, functions};
use std::ffi::{c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;

functions! {
    nrt_init: fn(c_int, *const c_char, *const c_char) -> u32;
    nrt_close: fn();
    nrt_get_visible_vnc_count: fn(*mut u32) -> u32;
    nrt_get_instance_info: fn(*mut c_void, usize) -> u32;
    nrt_tensor_allocate: fn(u32, c_int, usize, *const c_char, *mut *mut c_void) -> u32;
    nrt_tensor_free: fn(*mut *mut c_void);
    nrt_tensor_write: fn(*mut c_void, *const c_void, usize, usize) -> u32;
    nrta_tensor_write: fn(*mut c_void, *const c_void, u64, u64, c_int, c_int, *mut u32, *mut u64) -> u32;
    nrta_is_completed: fn(u64, *mut bool) -> u32;
    nrt_tensor_read: fn(*const c_void, *mut c_void, usize, usize) -> u32;
    nrt_tensor_get_size: fn(*const c_void) -> usize;
}

/// A call that does nothing, in a shared object of its own.
pub type Empty = unsafe extern "C" fn(*mut c_void, usize) -> c_int;

/// See [`Empty`].
pub fn empty(folder: &Path) -> Empty {
    let library = Shared::open(&compile("empty", folder, &["-shared", "-fPIC"]));
    // SAFETY: `empty.c` says so.
    unsafe { library.function("empty") }
}

/// Compile `benches/speed/NAME.c` into `folder`.
pub fn compile(name: &str, folder: &Path, arguments: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("benches/speed/{name}.c"));
    let out = folder.join(name);
    let mut gcc = Command::new("gcc");
    gcc.args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-o"]).arg(&out).arg(&source).args(arguments);
    let status = gcc.status().expect("gcc can be started; `make setup` says how to install it");
    assert!(status.success(), "gcc cannot compile {}", source.display());
    out
}
