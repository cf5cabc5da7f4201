//! The queues of the asynchronous calls, against the calls that wait.

use crate::cases::{allocate, close, free, init, must};
use crate::library::Nrt;
use crate::ratios::Judge;
use std::ffi::c_void;
use std::hint::black_box;
use std::ptr::from_mut;
use std::thread;

/// Bytes of one write, writes of one round, bytes of the tensor they go to.
const PIECE: usize = 64 << 10;
const WRITES: usize = 1000;
const TENSOR: usize = 64 << 20;
/// What nobody answers.
const UNWRITTEN: u32 = u32::MAX;

/// Hand all cases to `judge`. The runtime is down before and after.
pub fn all(nrt: &Nrt, judge: &mut impl Judge) {
    init(nrt);
    let data = vec![0x5au8; PIECE];
    let mut tensor = allocate(nrt, TENSOR);
    let mut statuses = vec![UNWRITTEN; WRITES];
    let offset = |n: usize| n * PIECE % TENSOR;
    judge.case(
        "async_write_1000x64KiB_vs_sync_loop",
        Some(1.1),
        || {
            let mut sequence = 0;
            for (n, status) in statuses.iter_mut().enumerate() {
                *status = UNWRITTEN;
                let (data, size, status) = (data.as_ptr().cast(), PIECE as u64, from_mut(status));
                // SAFETY: buffer and places live until the last sequence is completed, below.
                must(unsafe {
                    (nrt.nrta_tensor_write)(tensor, data, offset(n) as u64, size, 0, 0, status, &raw mut sequence)
                });
            }
            completed(nrt, sequence);
            assert!(statuses.iter().all(|&status| status == 0));
        },
        || (0..WRITES).for_each(|n| write_at(nrt, tensor, offset(n), &data)),
    );
    free(nrt, &mut tensor);
    close(nrt);
}

fn write_at(nrt: &Nrt, tensor: *mut c_void, offset: usize, data: &[u8]) {
    // SAFETY: the buffer has the length that is told.
    must(unsafe { (nrt.nrt_tensor_write)(tensor, black_box(data.as_ptr()).cast(), offset, data.len()) });
}

/// Ask until it is, and let the worker run where there is no core for both.
fn completed(nrt: &Nrt, sequence: u64) {
    let mut done = false;
    while !done {
        // SAFETY: `done` is a live local.
        must(unsafe { (nrt.nrta_is_completed)(sequence, &raw mut done) });
        thread::yield_now();
    }
}
