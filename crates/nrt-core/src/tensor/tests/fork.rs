//! A forked child shares pages and handles with its parent (B07).

use super::*;

/// Run `body` in a forked child; its answer, or `None` when it died or hung for a minute.
fn in_child(body: impl FnOnce() -> bool) -> Option<bool> {
    // SAFETY: the child runs `body` alone, which takes no lock another thread may have held, and
    // leaves by `_exit`; glibc keeps the allocator usable across fork.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: plain system calls; the alarm ends a child that hangs.
        unsafe {
            libc::alarm(60);
            libc::_exit(i32::from(!body()));
        }
    }
    let mut status = -1;
    // SAFETY: waits for the child made above and writes to a live local.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status) == 0)
}

#[test]
fn a_free_in_the_child_takes_nothing_from_the_parent() {
    let store = trn1();
    let tensor = made(&store, DEVICE, 0, 5000);
    tensor.memset(0, 0x77, 5000).unwrap();
    let handle = tensor.handle();
    drop(tensor);
    assert_eq!(in_child(|| free(handle).is_ok()), Some(true));
    let tensor = resolve("test", handle).unwrap();
    assert_eq!(bytes(&tensor), vec![0x77; 5000]);
    assert_eq!(store.memory_stats(0).unwrap().bytes_used, 8192);
}

#[test]
fn the_calls_without_a_gate_answer_in_the_child() {
    let handle = allocate_empty(None).unwrap();
    let answers = || {
        let size = resolve("test", handle).map(|tensor| tensor.size());
        let waited = check_output_completion(handle, 1000, 1);
        let reset = reset_output_completion(handle);
        size == Ok(0) && waited == Err(Status::Timeout) && reset.is_ok()
    };
    // The parent's lock of the completion wait is held at the moment of the fork.
    let answer = completion::with_bell_locked(|| in_child(answers));
    assert_eq!(answer, Some(true));
}
