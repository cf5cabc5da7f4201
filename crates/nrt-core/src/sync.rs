//! Primitives of the files that run under the model checker: `tests/loom` compiles these very files
//! over its own `crate::sync`.

pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering, fence};

pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};

/// Sleep until woken; the lock is free meanwhile.
pub(crate) fn wait<'a, T>(condvar: &Condvar, mut guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condvar.wait(&mut guard);
    guard
}
