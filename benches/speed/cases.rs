//! What is measured, each against a baseline that does the unavoidable part.

use crate::library::{self, Empty, Nrt};
use crate::ratios::{Judge, ROUNDS, Ratios, time};
use std::ffi::{CStr, c_void};
use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::ptr::{null, null_mut};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

const MIB: usize = 1 << 20;
/// Rounds that start a process each.
const PROCESSES: usize = 51;

/// The status of a call that cannot fail here.
pub fn must(status: u32) {
    assert_eq!(status, 0, "a call that is measured failed");
}

/// Hand all cases to `judge`. The runtime is down before and after.
pub fn all(nrt: &Nrt, empty: Empty, judge: &mut impl Judge) {
    before_init(nrt, empty, judge);
    init(nrt);
    tensors(nrt, empty, judge);
    close(nrt);
}

/// Bring the runtime up.
pub fn init(nrt: &Nrt) {
    // SAFETY: here and below, the types are those of the headers and every pointer is NULL or valid as they ask.
    must(unsafe { (nrt.nrt_init)(1, null(), null()) });
}

/// Take the runtime down.
pub fn close(nrt: &Nrt) {
    // SAFETY: no precondition.
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
            init(nrt);
            close(nrt);
        },
        fork_exec_true,
    );
}

fn tensors(nrt: &Nrt, empty: Empty, judge: &mut impl Judge) {
    let data = vec![0x5au8; MIB];
    let mut target = vec![0u8; MIB];
    let mut tensor = allocate(nrt, MIB);
    judge.case(
        "tensor_write_1mib_vs_memcpy",
        None,
        || write(nrt, tensor, &data),
        || target.copy_from_slice(black_box(&data)),
    );
    judge.case(
        "tensor_write_64b_vs_empty_call",
        None,
        || write(nrt, tensor, &data[..64]),
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

/// Time of one call with a second thread in the same call all the time, against that without.
pub fn two_threads(nrt: Nrt, ratios: &mut Ratios) {
    const CALLS: u32 = 100_000;
    let one = || time(&mut || instance_info(&nrt), CALLS);
    let two = || {
        let (busy, started) = (AtomicBool::new(true), Barrier::new(2));
        thread::scope(|scope| {
            scope.spawn(|| {
                started.wait();
                while busy.load(Relaxed) {
                    (0..64).for_each(|_| instance_info(&nrt));
                }
            });
            started.wait();
            let time = one();
            busy.store(false, Relaxed);
            time
        })
    };
    ratios.add("instance_info_2_threads_vs_1", Some(1.2), ROUNDS, two, one);
}

/// Loading the library, against loading one every system has.
pub fn dlopen(library: &Path, folder: &Path, ratios: &mut Ratios) {
    let program = library::compile("dlopen_time", folder, &["-ldl"]);
    let load = |library: &Path| {
        let output = Command::new(&program).arg(library).output().expect("the program was just compiled");
        let text = String::from_utf8_lossy(&output.stdout);
        text.trim().parse().unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)))
    };
    ratios.add("dlopen_vs_libm_dlopen", None, PROCESSES, || load(library), || load(Path::new("libm.so.6")));
}

/// One call whose answer is cached.
fn instance_info(nrt: &Nrt) {
    let mut record = [0u8; 32];
    // SAFETY: the record has 32 bytes.
    must(unsafe { (nrt.nrt_get_instance_info)(black_box(record.as_mut_ptr()).cast(), 32) });
}

/// A tensor in device memory of the first core.
pub fn allocate(nrt: &Nrt, size: usize) -> *mut c_void {
    let mut tensor = null_mut();
    // SAFETY: the name may be NULL, and `tensor` is a live local. Placement 0 is device memory.
    must(unsafe { (nrt.nrt_tensor_allocate)(0, 0, size, null(), &raw mut tensor) });
    tensor
}

/// Write to the start of a tensor.
pub fn write(nrt: &Nrt, tensor: *mut c_void, data: &[u8]) {
    // SAFETY: the buffer has the length that is told.
    must(unsafe { (nrt.nrt_tensor_write)(tensor, black_box(data.as_ptr()).cast(), 0, data.len()) });
}

/// Give it back.
pub fn free(nrt: &Nrt, tensor: &mut *mut c_void) {
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
