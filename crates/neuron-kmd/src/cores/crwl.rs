//! Reader/writer locks of the cores of one device, keyed by uuid and process
//! (`facts/driver/ioctls.tsv`, CRWL rows).
//!
//! A lock belongs to the process that took it for writing last, under a uuid. That process turns
//! the writer side into one reader, and may add readers; nobody else can.

use std::sync::Arc;
use std::time::Duration;

use neuron_abi::kernel::values::MAX_CORES;

use crate::device::Device;
use crate::reply::Errno;
use crate::sync::{Mutex, Task, Wait, WaitQueue, Woken};
use crate::time::Clock;

/// Name of a lock holder's model.
pub type Uuid = [u8; 32];

/// The driver sleeps 10 to 20 us at a time, and so often before it gives up.
const SLEEP: Duration = Duration::from_micros(15);
const WRITER_SLEEPS: u32 = 200_000;
const READER_SLEEPS: u32 = 50_000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Lock {
    /// Process that took it for writing last; 0 when nobody has.
    owner: u32,
    uuid: Uuid,
    writing: bool,
    readers: u64,
}

impl Lock {
    fn belongs(&self, tgid: u32, uuid: &Uuid) -> bool {
        self.owner == tgid && self.uuid == *uuid
    }
}

/// The locks of one device. There are eight, whatever the device has.
#[derive(Debug, Default)]
pub struct CoreLocks {
    locks: Mutex<[Lock; MAX_CORES]>,
    released: WaitQueue,
}

/// Who asks, and how it sleeps: the waits here end by time or by release, never by a signal.
pub struct Asker<'a> {
    /// Thread group.
    pub tgid: u32,
    /// Its thread.
    pub task: &'a Arc<Task>,
    /// Time.
    pub clock: &'a dyn Clock,
}

fn check(core: u32) -> Result<usize, Errno> {
    let core = core as usize;
    if core < MAX_CORES { Ok(core) } else { Err(Errno::EINVAL) }
}

impl CoreLocks {
    fn wait<T>(
        &self,
        asker: &Asker<'_>,
        sleeps: u32,
        free: impl Fn(&[Lock; MAX_CORES]) -> bool,
        then: impl FnOnce(&mut [Lock; MAX_CORES]) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let wait = Wait::uninterruptible().until(asker.clock.now() + SLEEP * sleeps);
        let guard = self.locks.lock();
        let (mut locks, woken) =
            self.released.wait(asker.clock, asker.task, &self.locks, guard, wait, |locks| free(locks));
        if woken == Woken::Ready { then(&mut locks) } else { Err(Errno::EBUSY) }
    }

    /// Adds a reader.
    ///
    /// # Errors
    /// `EINVAL` for a core of 8 and up, `EBUSY` when it stays locked for writing, `ENOENT` unless
    /// the caller took it for writing before under this uuid.
    pub fn enter_reader(&self, asker: &Asker<'_>, core: u32, uuid: &Uuid) -> Result<(), Errno> {
        let core = check(core)?;
        self.wait(
            asker,
            READER_SLEEPS,
            |locks| !locks[core].writing,
            |locks| {
                if !locks[core].belongs(asker.tgid, uuid) {
                    return Err(Errno::ENOENT);
                }
                locks[core].readers += 1;
                Ok(())
            },
        )
    }

    /// Takes a reader away.
    ///
    /// # Errors
    /// `EINVAL` for a core of 8 and up and when there is no reader, `ENOENT` unless the caller
    /// took it for writing under this uuid.
    pub fn exit_reader(&self, asker: &Asker<'_>, core: u32, uuid: &Uuid) -> Result<(), Errno> {
        let core = check(core)?;
        let lock = &mut self.locks.lock()[core];
        if !lock.belongs(asker.tgid, uuid) {
            return Err(Errno::ENOENT);
        }
        lock.readers = lock.readers.checked_sub(1).ok_or(Errno::EINVAL)?;
        self.released.wake_all(asker.clock);
        Ok(())
    }

    /// Takes the lock for writing.
    ///
    /// # Errors
    /// `EINVAL` for a core of 8 and up, `EBUSY` when it stays taken, also by the caller.
    /// `EALREADY` when the caller had it before under this uuid: the lock **is** taken then.
    pub fn enter_writer(&self, asker: &Asker<'_>, core: u32, uuid: &Uuid) -> Result<(), Errno> {
        let core = check(core)?;
        self.wait(
            asker,
            WRITER_SLEEPS,
            |locks| !locks[core].writing && locks[core].readers == 0,
            |locks| {
                let again = locks[core].belongs(asker.tgid, uuid);
                locks[core] = Lock { owner: asker.tgid, uuid: *uuid, writing: true, readers: 0 };
                if again { Err(Errno::EALREADY) } else { Ok(()) }
            },
        )
    }

    /// Turns the writer into one reader.
    ///
    /// # Errors
    /// `EINVAL` for a core of 8 and up and when nobody writes, `ENOENT` when it is somebody else
    /// or another uuid.
    pub fn downgrade(&self, asker: &Asker<'_>, core: u32, uuid: &Uuid) -> Result<(), Errno> {
        let core = check(core)?;
        let lock = &mut self.locks.lock()[core];
        if !lock.writing {
            return Err(Errno::EINVAL);
        }
        if !lock.belongs(asker.tgid, uuid) {
            return Err(Errno::ENOENT);
        }
        (lock.writing, lock.readers) = (false, 1);
        self.released.wake_all(asker.clock);
        Ok(())
    }

    /// Uuids of the locks of a process among the first `cores`.
    pub fn held(&self, tgid: u32, cores: usize) -> Vec<Option<Uuid>> {
        let locks = self.locks.lock();
        locks[..cores].iter().map(|lock| (lock.owner == tgid).then_some(lock.uuid)).collect()
    }

    /// Gives up every lock of a process, readers included.
    pub fn release(&self, clock: &dyn Clock, tgid: u32) {
        self.locks.lock().iter_mut().filter(|lock| lock.owner == tgid).for_each(|lock| *lock = Lock::default());
        self.released.wake_all(clock);
    }

    /// Checks what must hold between any two calls.
    ///
    /// # Panics
    /// When it does not.
    pub fn check_invariants(&self) {
        for lock in self.locks.lock().iter() {
            assert!(!lock.writing || lock.readers == 0, "a writer is alone");
            assert!(lock.owner != 0 || *lock == Lock::default(), "a lock without owner is free");
        }
    }
}

/// Gives up every lock of a process.
pub(crate) fn release_process(device: &Device, tgid: u32) {
    device.locks.release(&*device.env.clock, tgid);
}
