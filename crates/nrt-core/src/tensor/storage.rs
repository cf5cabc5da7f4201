//! Storage: the bytes behind one or more tensor views, and who may use them when.

use std::sync::Arc;

use super::{
    gate::Gate,
    memory::{Allocation, Bytes, Place, copy},
};
use crate::Result;

/// The bytes behind a tensor. They go when the last view and the last call in flight are gone.
pub struct Storage {
    backing: Backing,
    gate: Gate,
}

/// What holds the bytes (`facts/runtime/tensors.md` section 1, storage type).
pub enum Backing {
    /// Driver memory on an HBM (type DMA).
    Device(Allocation),
    /// Driver memory on the host (type DMA, HBM −1).
    Pinned(Box<dyn Bytes>),
    /// Plain host memory: the library's own or the caller's (type MALLOC).
    Malloc(Box<dyn Bytes>),
}

impl Storage {
    /// Storage nobody uses yet.
    pub fn new(backing: Backing) -> Arc<Storage> {
        Arc::new(Storage { backing, gate: Gate::default() })
    }

    /// What holds the bytes.
    pub fn backing(&self) -> &Backing {
        &self.backing
    }

    /// The bytes, without waiting for anybody.
    pub fn bytes(&self) -> &dyn Bytes {
        match &self.backing {
            Backing::Device(allocation) => allocation.block(),
            Backing::Pinned(bytes) | Backing::Malloc(bytes) => &**bytes,
        }
    }

    /// For driver memory the HBM, `None` for the host's; `None` for plain memory.
    pub fn dma_place(&self) -> Option<Option<Place>> {
        match &self.backing {
            Backing::Device(allocation) => Some(Some(allocation.place())),
            Backing::Pinned(_) => Some(None),
            Backing::Malloc(_) => None,
        }
    }

    /// Use the bytes at once, if that means waiting for nobody.
    #[inline]
    pub(super) fn try_use(&self, access: Access) -> Option<Use<'_>> {
        self.gate.try_enter(access).then(|| Use { storage: self, access })
    }

    /// Copy from `source`, by the device where both are on it. Ranges are checked already.
    pub fn copy_from(&self, offset: usize, source: &Storage, source_offset: usize, len: usize) -> Result<()> {
        let by_engine = match (&self.backing, &source.backing) {
            (Backing::Device(to), Backing::Device(from)) => {
                to.block().engine_copy(offset, from.block(), source_offset, len)
            }
            _ => None,
        };
        by_engine.unwrap_or_else(|| copy(source.bytes(), source_offset, self.bytes(), offset, len))
    }
}

/// What a user of a storage does with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Waits for pending writes.
    Read,
    /// Waits for every user in flight.
    Write,
}

/// A use of a borrowed storage; ends when dropped.
#[must_use]
pub(super) struct Use<'a> {
    storage: &'a Storage,
    access: Access,
}

impl Drop for Use<'_> {
    #[inline]
    fn drop(&mut self) {
        self.storage.gate.leave(self.access);
    }
}

/// A use of a storage in flight; ends when dropped, on any thread. Its holder must reach the bytes
/// through [`Storage::bytes`] or with [`Wait::Skip`](super::Wait::Skip): waiting again behind a
/// writer that waits for this very use would never end.
#[must_use]
pub struct Hold {
    storage: Arc<Storage>,
    access: Access,
}

impl Hold {
    /// Wait until `storage` may be used.
    pub fn new(storage: &Arc<Storage>, access: Access) -> Hold {
        Hold::of(Arc::clone(storage), access)
    }

    /// The same for a storage nobody needs afterwards.
    pub(super) fn of(storage: Arc<Storage>, access: Access) -> Hold {
        storage.gate.enter(access);
        Hold { storage, access }
    }

    /// The bytes.
    pub(super) fn bytes(&self) -> &dyn Bytes {
        self.storage.bytes()
    }

    pub(super) fn is_of(&self, storage: &Arc<Storage>) -> bool {
        Arc::ptr_eq(&self.storage, storage)
    }

    /// Count as a user of `storage` without waiting for the others: work that is queued is in flight
    /// from then on, and the order among queues is the caller's business
    /// (`facts/runtime/tensors.md` section 8).
    pub fn pending(storage: &Arc<Storage>, access: Access) -> Hold {
        storage.gate.count(access);
        Hold { storage: Arc::clone(storage), access }
    }

    /// Wait until all of them may be used. Callers with the same storages in any order and in any
    /// mixture do not block each other for good; a storage named twice is held once, for writing
    /// if anybody writes.
    pub fn all<'a>(uses: impl IntoIterator<Item = (&'a Arc<Storage>, Access)>) -> Vec<Hold> {
        let mut uses: Vec<_> = uses.into_iter().collect();
        // One order for everybody; the stronger use first, the others of the same storage go.
        uses.sort_by_key(|(storage, access)| (Arc::as_ptr(storage).addr(), std::cmp::Reverse(*access)));
        uses.dedup_by_key(|(storage, _)| Arc::as_ptr(storage).addr());
        uses.into_iter().map(|(storage, access)| Hold::new(storage, access)).collect()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.storage.gate.leave(self.access);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::memory::fake::HostBytes;
    use std::thread;

    fn storage() -> Arc<Storage> {
        Storage::new(Backing::Malloc(Box::new(HostBytes::new(8).unwrap())))
    }

    #[test]
    fn a_writer_gets_in_after_the_readers_before_it_and_on_another_thread() {
        let storage = storage();
        let reading = [Hold::new(&storage, Access::Read), Hold::new(&storage, Access::Read)];
        thread::scope(|scope| {
            let writer = scope.spawn(|| drop(Hold::new(&storage, Access::Write)));
            while storage.gate.census().2 == 0 {
                thread::yield_now();
            }
            assert_eq!(storage.gate.census().1, 0);
            // Holds move between threads: the queue that finishes work is not the caller.
            scope.spawn(move || drop(reading));
            writer.join().unwrap();
        });
        assert_eq!(storage.gate.census(), (0, 0, 0));
    }

    #[test]
    fn a_storage_named_twice_is_held_once_for_the_stronger_use() {
        let (a, b) = (storage(), storage());
        let held = Hold::all([(&a, Access::Read), (&b, Access::Read), (&a, Access::Write)]);
        assert_eq!(held.len(), 2);
        assert_eq!((a.gate.census(), b.gate.census()), ((0, 1, 0), (1, 0, 0)));
    }

    #[test]
    fn queued_users_wait_for_nobody_and_are_waited_for() {
        let storage = storage();
        let queued = [Access::Write, Access::Read, Access::Write].map(|access| Hold::pending(&storage, access));
        thread::scope(|scope| {
            let reader = scope.spawn(|| drop(Hold::new(&storage, Access::Read)));
            let writer = scope.spawn(|| drop(Hold::new(&storage, Access::Write)));
            while storage.gate.census().2 == 0 {
                thread::yield_now();
            }
            assert_eq!(storage.gate.census().1, 2);
            drop(queued);
            reader.join().unwrap();
            writer.join().unwrap();
        });
        assert_eq!(storage.gate.census(), (0, 0, 0));
    }
}
