//! The model checker's primitives with the signatures of `src/sync.rs`.

pub(crate) use loom::sync::{
    MutexGuard,
    atomic::{AtomicPtr, AtomicU64, Ordering, fence},
};

#[derive(Default)]
pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap()
    }
}

pub(crate) use loom::sync::Condvar;

pub(crate) fn wait<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condvar.wait(guard).unwrap()
}
