//! What is measured, each against a baseline that does the unavoidable part.

use crate::library::{Empty, Nrt};
use std::ffi::{CStr, c_void};
use std::hint::black_box;
use std::ptr::{null, null_mut};

const MIB: usize = 1 << 20;

/// Somebody who measures cases.
pub trait Judge {
    /// Measure `subject` and `baseline`. `limit` is the most the ratio of the two may be.
    fn case(&mut self, name: &'static str, limit: Option<f64>, subject: impl FnMut(), baseline: impl FnMut());
}

fn must(status: u32) {
    assert_eq!(status, 0, "a call that is measured failed");
}

/// Hand all cases to `judge`. The runtime is down before and after.
pub fn all(nrt: &Nrt, empty: Empty, judge: &mut impl Judge) {
    before_init(nrt, empty, judge);
    // SAFETY: here and below, the types are those of the headers and every pointer is NULL or valid as they ask.
    must(unsafe { (nrt.nrt_init)(1, null(), null()) });
    tensors(nrt, empty, judge);
    // SAFETY: as above.
    unsafe { (nrt.nrt_close)() };
}

fn before_init(nrt: &Nrt, empty: Empty, judge: &mut impl Judge) {
    judge.case(
        "count_vs_3_getenv",
        Some(5.0),
        || {
            let mut count = 0;
            // SAFETY: `count` is a live local.
            must(unsafe { (nrt.nrt_get_visible_vnc_count)(black_box(&mut count)) });
        },
        || {
            for name in [c"NEURON_RT_VISIBLE_CORES", c"NEURON_RT_NUM_CORES", c"NEURON_LOGICAL_NC_CONFIG"] {
                black_box(getenv(name));
            }
        },
    );
    judge.case(
        "instance_info_cached_vs_empty_call",
        Some(5.0),
        || instance_info(nrt),
        || {
            let mut record = [0u8; 32];
            // SAFETY: the function does nothing.
            unsafe { black_box(empty)(black_box(record.as_mut_ptr()).cast(), 32) };
        },
    );
    judge.case(
        "init_close_trn2_48xl_vs_fork_exec_true",
        Some(1.0),
        || {
            // SAFETY: the version texts may be NULL.
            must(unsafe { (nrt.nrt_init)(1, null(), null()) });
            // SAFETY: no precondition.
            unsafe { (nrt.nrt_close)() };
        },
        fork_exec_true,
    );
}

fn tensors(nrt: &Nrt, empty: Empty, judge: &mut impl Judge) {
    let data = vec![0x5au8; MIB];
    let mut target = vec![0u8; MIB];
    let mut tensor = allocate(nrt, MIB);
    let write = |tensor: *mut c_void, size| {
        // SAFETY: `data` has MIB bytes, and `size` is not more.
        must(unsafe { (nrt.nrt_tensor_write)(tensor, black_box(data.as_ptr()).cast(), 0, size) });
    };
    judge.case("tensor_write_1mib_vs_memcpy", None, || write(tensor, MIB), || target.copy_from_slice(black_box(&data)));
    judge.case(
        "tensor_write_64b_vs_empty_call",
        None,
        || write(tensor, 64),
        || {
            // SAFETY: the function does nothing.
            unsafe { black_box(empty)(null_mut(), 64) };
        },
    );
    free(nrt, &mut tensor);
    judge.case(
        "tensor_alloc_free_vs_malloc_free",
        None,
        || free(nrt, &mut allocate(nrt, 4096)),
        || {
            // SAFETY: what was just allocated is freed.
            unsafe { libc::free(black_box(libc::malloc(4096))) };
        },
    );
}

/// One call whose answer is cached.
pub fn instance_info(nrt: &Nrt) {
    let mut record = [0u8; 32];
    // SAFETY: the record has 32 bytes.
    must(unsafe { (nrt.nrt_get_instance_info)(black_box(record.as_mut_ptr()).cast(), 32) });
}

fn allocate(nrt: &Nrt, size: usize) -> *mut c_void {
    let mut tensor = null_mut();
    // SAFETY: the name may be NULL, and `tensor` is a live local. Placement 0 is device memory.
    must(unsafe { (nrt.nrt_tensor_allocate)(0, 0, size, null(), &raw mut tensor) });
    tensor
}

fn free(nrt: &Nrt, tensor: &mut *mut c_void) {
    // SAFETY: the place holds a tensor.
    unsafe { (nrt.nrt_tensor_free)(tensor) };
}

fn getenv(name: &CStr) -> *const libc::c_char {
    // SAFETY: the name is a C string, and nothing changes the environment meanwhile.
    unsafe { libc::getenv(name.as_ptr()) }
}

/// What a shell does to run a program that does nothing.
fn fork_exec_true() {
    let program = c"/bin/true";
    let arguments = [program.as_ptr(), null()];
    // SAFETY: between fork and exec the child calls nothing else.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: the arguments end in NULL, and `_exit` runs no handlers of the parent.
        unsafe {
            libc::execv(program.as_ptr(), arguments.as_ptr());
            libc::_exit(1)
        };
    }
    let mut status = -1;
    // SAFETY: waits for the child made above and writes to a live local.
    assert_eq!((unsafe { libc::waitpid(child, &raw mut status, 0) }, status), (child, 0));
}
