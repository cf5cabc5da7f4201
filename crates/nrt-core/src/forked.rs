//! What a forked child must know: that it is one, and state it shares with nobody.
//!
//! A child inherits every lock in the state it had, while the threads that held them are gone. So
//! state behind a lock that calls without a state gate need is a [`ForkLocal`], and memory that is
//! shared with the parent remembers the [`Process`] that may free it.

use std::{
    marker::PhantomData,
    ptr,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicPtr, AtomicU8, AtomicU64, Ordering},
    },
};

/// One process of a line of forks. Asking costs a load, where the process id would be a system call
/// for every tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process(u64);

/// How many forks lie between the first process that loaded this library and this one. Changes only
/// while a child has one thread, so it orders nothing. A child made by the bare system call runs no
/// handlers and passes for its parent.
static GENERATION: AtomicU64 = AtomicU64::new(0);

extern "C" fn child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

impl Process {
    /// This one.
    #[inline]
    pub fn current() -> Process {
        const OPEN: u8 = 0;
        const COUNTED: u8 = 1;
        const REFUSED: u8 = 2;
        static HANDLER: AtomicU8 = AtomicU8::new(OPEN);
        #[cold]
        fn register() -> u8 {
            // Not a `Once`, for which a child forked in the middle would wait for ever. Of two
            // threads the first decides; a handler registered twice counts a fork twice, which is
            // as good.
            // SAFETY: `child` is a function for the life of the process (the library is linked with
            // -z nodelete) and touches one atomic.
            let ret = unsafe { libc::pthread_atfork(None, None, Some(child)) };
            let outcome = if ret == 0 { COUNTED } else { REFUSED };
            HANDLER.compare_exchange(OPEN, outcome, Ordering::AcqRel, Ordering::Acquire).err().unwrap_or(outcome)
        }
        let known = HANDLER.load(Ordering::Acquire);
        match if known == OPEN { register() } else { known } {
            COUNTED => Process(GENERATION.load(Ordering::Relaxed)),
            // The C library had no memory for the handler.
            _ => Process(std::process::id().into()),
        }
    }
}

/// State behind locks that a forked child must not wait for: the first use in a child makes a
/// fresh one and leaves the parent's alone, in whatever state it is.
pub struct ForkLocal<T> {
    cell: AtomicPtr<Own<T>>,
    /// The pointer alone would pass between threads whatever is behind it.
    of: PhantomData<*mut T>,
}

// SAFETY: a value is made by one thread, used by all and dropped by any.
unsafe impl<T: Send + Sync> Sync for ForkLocal<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Send for ForkLocal<T> {}

struct Own<T> {
    process: Process,
    value: T,
}

impl<T: Default> ForkLocal<T> {
    /// No state yet.
    pub const fn new() -> Self {
        ForkLocal { cell: AtomicPtr::new(ptr::null_mut()), of: PhantomData }
    }

    /// The state of this process.
    #[inline]
    pub fn get(&self) -> &T {
        let process = Process::current();
        let current = self.cell.load(Ordering::Acquire);
        // SAFETY: the cell holds NULL or a box made below, which lives as long as `self`.
        match unsafe { current.as_ref() } {
            Some(own) if own.process == process => &own.value,
            _ => self.fresh(process, current),
        }
    }

    #[cold]
    fn fresh(&self, process: Process, current: *mut Own<T>) -> &T {
        let fresh = Box::into_raw(Box::new(Own { process, value: T::default() }));
        let winner = match self.cell.compare_exchange(current, fresh, Ordering::AcqRel, Ordering::Acquire) {
            // What stood there is the parent's, and may be locked for ever: it stays where it is.
            Ok(_) => fresh,
            Err(other) => {
                // SAFETY: made above, and nobody else has seen it.
                drop(unsafe { Box::from_raw(fresh) });
                other
            }
        };
        // SAFETY: the cell only ever goes from another process' state to one of this process, so
        // this is one of the boxes made here, which live as long as `self`.
        unsafe { &(*winner).value }
    }
}

impl<T: Default> Default for ForkLocal<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Drop for ForkLocal<T> {
    fn drop(&mut self) {
        let own = *self.cell.get_mut();
        // SAFETY: NULL or a box made in `fresh`.
        if unsafe { own.as_ref() }.is_some_and(|own| own.process == Process::current()) {
            // SAFETY: as above; `self` is going, so nobody borrows from it.
            drop(unsafe { Box::from_raw(own) });
        }
    }
}

/// Lock, whether or not an earlier holder panicked: every critical section of the rooms that use
/// this leaves its data whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_another_process_with_a_state_of_its_own() {
        let state = ForkLocal::<Mutex<u32>>::new();
        let parent = Process::current();
        *lock(state.get()) = 7;
        let held = lock(state.get());
        // SAFETY: the child only uses atomics, the allocator (which glibc keeps usable across fork),
        // a mutex nobody has locked and `_exit`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let other = Process::current() != parent && Process::current() == Process::current();
            // The parent's mutex is locked here for ever.
            let fresh = *lock(state.get()) == 0;
            // SAFETY: leaves without running the parent's exit handlers a second time.
            unsafe { libc::_exit(i32::from(!(other && fresh))) };
        }
        let mut status = -1;
        // SAFETY: waits for the child made above and writes to a live local.
        assert_eq!((unsafe { libc::waitpid(child, &raw mut status, 0) }, status), (child, 0));
        assert_eq!((*held, Process::current()), (7, parent));
    }

    #[test]
    fn of_many_first_users_all_get_the_same_state() {
        let state = ForkLocal::<Mutex<u32>>::new();
        let first: Vec<usize> = std::thread::scope(|scope| {
            let users: Vec<_> = (0..8).map(|_| scope.spawn(|| ptr::from_ref(state.get()).addr())).collect();
            users.into_iter().map(|user| user.join().unwrap()).collect()
        });
        assert!(first.iter().all(|address| *address == first[0]));
    }
}
