//! Locks, atomics and threads of this room: those of the standard library, or with the feature
//! `shuttle` those of the schedule explorer, whose signatures are the same.

#[cfg(feature = "shuttle")]
use shuttle as primitives;
#[cfg(not(feature = "shuttle"))]
use std as primitives;

use std::{io, sync::PoisonError};

pub(super) use primitives::{
    sync::{
        Condvar, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::JoinHandle,
    thread_local,
};

/// Take a lock. Nothing below one panics half-way, so a poisoned one is as good as any.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sleep until woken; the lock is free meanwhile.
pub(super) fn wait<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condvar.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

/// Start a thread that no signal handler of the program runs on.
pub(super) fn spawn(name: String, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    let _blocked = Blocked::new();
    primitives::thread::Builder::new().name(name).spawn(body)
}

/// Signals are kept from this thread, and from those it starts, until this is dropped. A program
/// chooses which of its threads handles a signal, and does not know of ours. Those a thread causes
/// itself stay, so that a crash handler has its say.
struct Blocked(libc::sigset_t);

impl Blocked {
    fn new() -> Blocked {
        // SAFETY: plain data for which zeros are valid; the calls below write it or read it.
        let (mut all, mut before) = unsafe { std::mem::zeroed::<(libc::sigset_t, libc::sigset_t)>() };
        // SAFETY: live locals and signal numbers that exist.
        unsafe {
            libc::sigfillset(&raw mut all);
            for own in [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGABRT] {
                libc::sigdelset(&raw mut all, own);
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        }
        Blocked(before)
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: the mask this thread had before.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut()) };
    }
}
