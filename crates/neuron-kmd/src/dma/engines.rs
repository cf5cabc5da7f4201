//! Engines and queues of one device.

use std::sync::Arc;

use neuron_abi::kernel::values::{DMA_QUEUES, MAX_DMA_ENGINES, NC_MAP_DEVICE};
use neuron_hw::regs::{Layout, engine};

use crate::memory::Chunk;
use crate::regs::Regs;
use crate::reply::{Errno, Stop};
use crate::sync::Mutex;

/// Queues of an engine.
pub const QUEUES: usize = DMA_QUEUES;

/// Descriptors of a ring for host copies.
pub const HOST_RING: u32 = 8192;

/// Bytes of a descriptor.
pub const DESCRIPTOR_BYTES: u64 = 16;

/// A ring pair the driver allocates for itself, such as those of host copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnRing {
    /// Address of the transmit ring as the engine sees it.
    pub tx: u64,
    /// Address of the receive ring.
    pub rx: u64,
    /// Descriptors of each.
    pub descriptors: u32,
}

/// One direction of a queue.
#[derive(Clone, Debug, Default)]
pub struct Ring {
    /// Descriptors; 0 until the queue is initialised.
    pub size: u32,
    /// Next descriptor to hand over.
    pub next: u32,
    /// First descriptor whose completion was not acknowledged.
    pub completed: u32,
    /// Memory of the ring.
    pub memory: Option<Arc<Chunk>>,
}

impl Ring {
    /// Descriptors kept free, so that a full ring differs from an empty one by a cache line.
    const GAP: u32 = 4;

    /// Descriptors that can be handed over now.
    pub fn available(&self) -> u32 {
        let mask = self.size.wrapping_sub(1);
        if self.size == 0 { 0 } else { self.completed.wrapping_sub(self.next.wrapping_add(Self::GAP)) & mask }
    }

    /// Hands descriptors over.
    pub fn advance(&mut self, count: u32) {
        self.next = self.next.wrapping_add(count);
    }

    /// Takes completed descriptors back.
    pub fn acknowledge(&mut self, count: u32) {
        self.completed = self.completed.wrapping_add(count);
    }
}

/// One queue.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    /// Process that initialised it; 0 for none.
    pub owner: u32,
    /// Transmit side.
    pub tx: Ring,
    /// Receive side.
    pub rx: Ring,
    /// Rings of the driver's own.
    pub own: Option<OwnRing>,
    /// Memory of those, when a client has the queue.
    given: Option<[Arc<Chunk>; 2]>,
}

impl Queue {
    /// Whether a client has the queue for host copies.
    pub fn given(&self) -> bool {
        self.given.is_some()
    }

    /// What a queue is after its engine was initialised.
    fn renew(&mut self) {
        let (own, given) = (self.own, self.given.take());
        let side = || Ring { size: own.map_or(0, |own| own.descriptors), ..Ring::default() };
        *self = Self { owner: 0, tx: side(), rx: side(), own, given };
    }
}

/// State behind the lock of one engine.
#[derive(Debug, Default)]
pub struct Engine {
    /// Queues.
    pub queues: [Queue; QUEUES],
    /// Somebody died with the lock held: who takes it now waits for ever.
    pub stuck: bool,
}

/// All engine slots of a device. The driver has the same number on every generation; those
/// without an engine behind them are where it oopses.
#[derive(Debug)]
pub struct Engines {
    layout: &'static Layout,
    slots: Vec<Mutex<Engine>>,
    /// Cores whose engines were initialised since the probe.
    initialised: Mutex<u32>,
    /// Held while queues of host engines change hands.
    pub(super) giving: Mutex<()>,
}

/// Takes the lock of an engine; the lock is stuck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stuck;

impl Engines {
    /// Engines of a generation, not yet initialised.
    pub fn new(layout: &'static Layout) -> Self {
        Self {
            layout,
            slots: (0..MAX_DMA_ENGINES).map(|_| Mutex::default()).collect(),
            giving: Mutex::default(),
            initialised: Mutex::default(),
        }
    }

    /// The slot of an engine id; `None` for an id the driver refuses.
    pub fn slot(&self, id: u32) -> Option<&Mutex<Engine>> {
        self.slots.get(id as usize)
    }

    /// Whether there is an engine behind the slot.
    pub fn bound(&self, id: u32) -> bool {
        self.layout.engine_base(id).is_some()
    }

    /// Engine and queue of host copies for a core: one engine for each core of Trn1 and Inf2,
    /// one for two cores of the later parts.
    pub fn host_queue(&self, core: u32) -> (u32, u32) {
        let geometry = &self.layout.geometry;
        let first = geometry.cores * geometry.engines_per_core;
        let per_engine = geometry.cores / (geometry.engines - first);
        (first + core / per_engine, core % per_engine)
    }

    /// Queues of each host engine that belong to cores; the others can be given to clients.
    pub fn host_queues_taken(&self) -> u32 {
        let geometry = &self.layout.geometry;
        geometry.cores / (geometry.engines - geometry.cores * geometry.engines_per_core)
    }

    /// Gives a queue rings of the driver's own. They are programmed at the next
    /// [`Self::reinit`] of the engine, and positions start over then.
    ///
    /// # Panics
    /// For an engine or queue that does not exist.
    pub fn set_own_ring(&self, id: u32, queue: u32, ring: Option<OwnRing>) {
        self.slots[id as usize].lock().queues[queue as usize].own = ring;
    }

    /// BAR 0 offset of the transmit block of a queue.
    pub fn queue_block(&self, id: u32, queue: u32) -> Option<u64> {
        Some(self.layout.engine_base(id)? + engine::QUEUES + u64::from(queue) * engine::QUEUE_STRIDE)
    }

    /// Engines a reset of these cores re-initialises, ascending.
    fn of_map(&self, nc_map: u32) -> Vec<u32> {
        let geometry = &self.layout.geometry;
        if nc_map == NC_MAP_DEVICE {
            return (0..geometry.engines).collect();
        }
        let cores = (0..geometry.cores).filter(|core| nc_map >> core & 1 != 0);
        let each = geometry.engines_per_core;
        let mut ids: Vec<_> = cores.flat_map(|c| (c * each..(c + 1) * each).chain([self.host_queue(c).0])).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// Initialises the engines of these cores anew: clients' queues are forgotten, the driver's
    /// own rings are programmed and start at their beginning. Returns the cores that had been
    /// initialised before.
    ///
    /// # Errors
    /// [`Stuck`] when the lock of one was left held; those before it are done.
    pub fn reinit(&self, regs: &Regs, nc_map: u32) -> Result<Vec<u32>, Stuck> {
        for id in self.of_map(nc_map) {
            let mut state = self.slots[id as usize].lock();
            if state.stuck {
                return Err(Stuck);
            }
            for (number, queue) in (0..).zip(&mut state.queues) {
                queue.renew();
                self.program_own(regs, id, number, queue);
            }
        }
        let mut initialised = self.initialised.lock();
        let again = *initialised & nc_map;
        *initialised |= nc_map;
        Ok((0..self.layout.geometry.cores).filter(|core| again >> core & 1 != 0).collect())
    }

    fn program_own(&self, regs: &Regs, id: u32, number: u32, queue: &Queue) {
        if let Some(own) = queue.own {
            self.program(regs, id, number, (own.tx, own.descriptors), (own.rx, own.descriptors));
        }
    }

    /// Gives a queue of a host engine to a client, with rings it starts on at once.
    ///
    /// # Panics
    /// For an engine or queue that does not exist.
    pub(super) fn give_queue(&self, regs: &Regs, id: u32, queue: u32, ring: OwnRing, memory: [Arc<Chunk>; 2]) {
        let mut state = self.slots[id as usize].lock();
        let slot = &mut state.queues[queue as usize];
        slot.own = Some(ring);
        slot.given = Some(memory);
        slot.renew();
        self.program_own(regs, id, queue, slot);
    }

    /// Takes a queue back from a client; `None` when none had it. Returns the memory to free.
    pub(super) fn take_queue(&self, id: u32, queue: u32) -> Option<[Arc<Chunk>; 2]> {
        let mut state = self.slots[id as usize].lock();
        let slot = state.queues.get_mut(queue as usize)?;
        let memory = slot.given.take()?;
        slot.own = None;
        slot.renew();
        Some(memory)
    }

    /// Forgets the queues of a process. False when it had none.
    pub(super) fn release_process(&self, tgid: u32) -> bool {
        let mut any = false;
        for slot in &self.slots {
            for queue in slot.lock().queues.iter_mut().filter(|q| q.owner == tgid) {
                queue.renew();
                any = true;
            }
        }
        any
    }

    /// Runs a queue of the driver's own once over rings that are ready.
    ///
    /// # Errors
    /// `EINVAL` for an engine that does not exist; [`Stop::Hung`] when its lock was left held.
    pub(crate) fn run_once(&self, regs: &Regs, id: u32, queue: u32, ring: OwnRing, count: u32) -> Result<(), Stop> {
        let (Some(slot), Some(block)) = (self.slot(id), self.queue_block(id, queue)) else {
            return Err(Errno::EINVAL.into());
        };
        let state = slot.lock();
        if state.stuck {
            return Err(Stop::Hung);
        }
        self.program(regs, id, queue, (ring.tx, ring.descriptors), (ring.rx, ring.descriptors));
        regs.write(block + engine::RX + engine::TAIL_INC, count);
        regs.write(block + engine::TAIL_INC, count);
        Ok(())
    }

    /// Whether a queue of the host engine of a core was given to a client.
    pub fn is_client_host_queue(&self, core: u32, queue: u32) -> bool {
        let slot = self.slot(self.host_queue(core).0);

        queue >= self.host_queues_taken()
            && slot.is_some_and(|s| s.lock().queues.get(queue as usize).is_some_and(Queue::given))
    }

    /// Writes address and length of both rings of a queue; the engine starts at their beginning.
    pub(super) fn program(&self, regs: &Regs, id: u32, queue: u32, tx: (u64, u32), rx: (u64, u32)) {
        let Some(block) = self.queue_block(id, queue) else { return };
        for (side, (address, size)) in [(engine::RX, rx), (0, tx)] {
            regs.write(block + side + engine::RING_LEN, size);
            regs.write(block + side + engine::RING_HI, (address >> 32) as u32);
            regs.write(block + side + engine::RING_LO, address as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use neuron_hw::regs::{V2, V3};

    #[test]
    fn host_copies_have_an_engine_for_each_core_or_pair() {
        let (v2, v3) = (Engines::new(&V2), Engines::new(&V3));
        assert_eq!([0, 1].map(|c| v2.host_queue(c)), [(32, 0), (33, 0)]);
        assert_eq!([0, 1, 2, 7].map(|c| v3.host_queue(c)), [(128, 0), (128, 1), (129, 0), (131, 1)]);
        assert_eq!((v2.host_queues_taken(), v3.host_queues_taken()), (1, 2));
    }

    #[test]
    fn a_reset_reaches_the_engines_of_its_cores_and_their_host_engine() {
        let v2 = Engines::new(&V2);
        assert_eq!(v2.of_map(2), (16..32).chain([33]).collect::<Vec<_>>());
        assert_eq!(v2.of_map(NC_MAP_DEVICE).len(), 34);
        assert!(v2.of_map(0xf0).is_empty(), "cores the device does not have");
        assert_eq!(Engines::new(&V3).of_map(0xff).len(), 132);
    }

    #[test]
    fn a_ring_keeps_four_descriptors_free() {
        let mut ring = Ring { size: 64, ..Ring::default() };
        assert_eq!(ring.available(), 60);
        ring.advance(60);
        assert_eq!(ring.available(), 0);
        ring.acknowledge(7);
        assert_eq!(ring.available(), 7);
        assert_eq!(Ring::default().available(), 0, "a queue that was not initialised takes nothing");
    }
}
