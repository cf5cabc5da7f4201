//! What is measured, each against a baseline that does the unavoidable part.

use crate::library::{self, Empty, Nrt};
use crate::ratios::{Judge, ROUNDS, Ratios, time};
use std::cell::RefCell;
use std::ffi::{CStr, c_void};
use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::ptr::{null, null_mut, with_exposed_provenance_mut};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Barrier, Mutex};
use std::{fs, thread};

const KIB_4: usize = 4 << 10;
const MIB: usize = 1 << 20;
/// Of every tensor.
const NAME: &CStr = c"layers.17.mlp.weight";
/// Rounds of cases that move tens of megabytes.
const LARGE_ROUNDS: usize = 51;
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

/// Blocks of the heap that one tensor of the vendor's needs (facts/runtime/tensors.md section 1): its view and its
/// storage, cleared, the name, and a node that says which range of the device's memory it has. No table of live handles.
fn bookkeeping() {
    // SAFETY: what was just allocated is freed.
    unsafe {
        let blocks =
            [libc::calloc(1, 192), libc::calloc(1, 320), libc::malloc(NAME.count_bytes() + 1), libc::malloc(48)];
        black_box(blocks).iter().rev().for_each(|block| libc::free(*block));
    }
}

fn tensors(nrt: &Nrt, empty: Empty, judge: &mut impl Judge) {
    // Whole pages apart, where memcpy is at its best: two blocks of malloc would be one page and 16 bytes apart, at which
    // distance the copy instruction of some processors crawls.
    let mut memory = vec![0x5au8; 3 * KIB_4];
    let (data, target) = memory.split_at_mut(2 * KIB_4);
    let data = &data[..KIB_4];
    let mutex = Mutex::new(());
    let mut tensor = allocate(nrt, KIB_4);
    judge.case(
        "write_4KiB_vs_memcpy_plus_mutex",
        Some(2.0),
        || write(nrt, tensor, data),
        || {
            let _held = mutex.lock();
            black_box(&mut target[..]).copy_from_slice(black_box(data));
        },
    );
    // All that is known of a tensor from its handle alone is its size.
    judge.case(
        "handle_check_vs_mutex_plus_call",
        Some(1.0),
        || {
            // SAFETY: the tensor lives.
            black_box(unsafe { (nrt.nrt_tensor_get_size)(black_box(tensor)) });
        },
        || {
            let _held = mutex.lock();
            // SAFETY: the function does nothing.
            unsafe { black_box(empty)(black_box(tensor), 0) };
        },
    );
    free(nrt, &mut tensor);
    judge.case(
        "alloc_free_vs_malloc_free_bookkeeping",
        Some(5.0),
        || free(nrt, &mut allocate(nrt, KIB_4)),
        bookkeeping,
    );
}

/// Large tensors and many of them.
pub fn amounts(nrt: &Nrt, ratios: &mut Ratios) {
    init(nrt);
    held_by_many(nrt, ratios);
    large(nrt, ratios);
    two_writers(*nrt, ratios);
    close(nrt);
}

/// Memory of this process that small tensors hold, handles included, in bytes each against the 512 they may.
fn held_by_many(nrt: &Nrt, ratios: &mut Ratios) {
    const TENSORS: usize = 100_000;
    let private = || {
        let status = fs::read_to_string("/proc/self/status").expect("/proc is mounted");
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("Linux 4.5 or later");
        line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") * 1024
    };
    // The handles themselves are the program's, and there before.
    let mut tensors = vec![allocate(nrt, KIB_4); TENSORS];
    free(nrt, &mut tensors[0].clone());
    let before = private();
    tensors.iter_mut().for_each(|tensor| *tensor = allocate(nrt, KIB_4));
    let each = (private() - before) as f64 / TENSORS as f64;
    tensors.iter_mut().for_each(|tensor| free(nrt, tensor));
    ratios.add("memory_per_tensor_vs_512_bytes", Some(1.0), 1, || each, || 512.0);
}

/// Bytes in and out of one large tensor.
fn large(nrt: &Nrt, ratios: &mut Ratios) {
    const SIZE: usize = 64 * MIB;
    let (mut data, mut target) = (vec![0x5au8; SIZE], vec![1u8; SIZE]);
    let mut tensor = allocate(nrt, SIZE);
    write(nrt, tensor, &data);
    let memcpy = |target: &mut [u8], data: &[u8]| time(&mut || target.copy_from_slice(black_box(data)), 1);
    ratios.add(
        "write_64MiB_vs_memcpy",
        Some(1.15),
        LARGE_ROUNDS,
        || time(&mut || write(nrt, tensor, &data), 1),
        || memcpy(&mut target, &data),
    );
    // Both into the same buffer.
    let out = RefCell::new(&mut data);
    ratios.add(
        "read_64MiB_vs_memcpy",
        Some(1.15),
        LARGE_ROUNDS,
        || time(&mut || read(nrt, tensor, &mut out.borrow_mut()), 1),
        || memcpy(&mut out.borrow_mut(), &target),
    );
    free(nrt, &mut tensor);
}

/// Time of one call with a second thread in calls of its own all the time, against that without.
fn with_a_second(mut one: impl FnMut() -> f64, other: impl Fn() + Sync) -> f64 {
    let (busy, started) = (AtomicBool::new(true), Barrier::new(2));
    thread::scope(|scope| {
        scope.spawn(|| {
            started.wait();
            while busy.load(Relaxed) {
                other();
            }
        });
        started.wait();
        let time = one();
        busy.store(false, Relaxed);
        time
    })
}

/// Two threads that write to tensors of their own: together 1.8 times what one does, so each takes at most 1/0.9 of the
/// time.
fn two_writers(nrt: Nrt, ratios: &mut Ratios) {
    const CALLS: u32 = 64;
    let data = [vec![1u8; MIB], vec![2u8; MIB]];
    let mut tensors = [0, 1].map(|_| allocate(&nrt, MIB));
    let [mine, others] = tensors.map(|tensor| tensor.expose_provenance());
    let write = |tensor, data| write(&nrt, with_exposed_provenance_mut(tensor), data);
    let one = || time(&mut || write(mine, &data[0]), CALLS);
    let two = || with_a_second(one, || write(others, &data[1]));
    ratios.add("two_threads_1MiB_throughput", Some(1.0 / 0.9), ROUNDS, two, one);
    tensors.iter_mut().for_each(|tensor| free(&nrt, tensor));
}

/// Time of one call with a second thread in the same call all the time, against that without.
pub fn two_threads(nrt: Nrt, ratios: &mut Ratios) {
    const CALLS: u32 = 100_000;
    let one = || time(&mut || instance_info(&nrt), CALLS);
    let two = || with_a_second(one, || (0..64).for_each(|_| instance_info(&nrt)));
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
    // SAFETY: the name is a C string, and `tensor` is a live local. Placement 0 is device memory.
    must(unsafe { (nrt.nrt_tensor_allocate)(0, 0, size, NAME.as_ptr(), &raw mut tensor) });
    tensor
}

/// Write to the start of a tensor.
pub fn write(nrt: &Nrt, tensor: *mut c_void, data: &[u8]) {
    // SAFETY: the buffer has the length that is told.
    must(unsafe { (nrt.nrt_tensor_write)(tensor, black_box(data.as_ptr()).cast(), 0, data.len()) });
}

/// Read from the start of a tensor.
fn read(nrt: &Nrt, tensor: *mut c_void, out: &mut [u8]) {
    // SAFETY: the buffer has the length that is told.
    must(unsafe { (nrt.nrt_tensor_read)(tensor, black_box(out.as_mut_ptr()).cast(), 0, out.len()) });
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
