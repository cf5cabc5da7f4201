//! Copies the driver makes itself, through the engine that every host copy of the real one runs
//! on: queue 0 of the first host engine (measured: 32 on Trn1 and Inf2, 128 on Trn2 and Trn3).
//!
//! A batch is a run of descriptors of at most 64 KiB, and one more that copies a marker word into
//! a completion word. The engine works in order, so that the marker says that all before it is
//! done. One doorbell hands the batch over.

use std::sync::Arc;
use std::time::Duration;

use neuron_abi::kernel::values::{H2T_CONTEXTS, MAX_DESC_BYTES, MemLocation};
use neuron_hw::memory::Window;
use neuron_hw::regs::engine;

use super::engines::{DESCRIPTOR_BYTES, HOST_RING, OwnRing};
use crate::device::Device;
use crate::memory::{self, Chunk, Request};
use crate::reply::{Errno, Stop};
use crate::sync::{Mutex, SleepLock, Task};
use crate::time::sleep;

/// Data descriptors of one batch.
const BATCH: usize = HOST_RING as usize / 2 - 1;

/// Bytes one descriptor moves at most. A length field of 0 stands for this many.
pub const PIECE: u64 = MAX_DESC_BYTES as u64;

/// Bytes of one batch at most.
pub const LONGEST: u64 = BATCH as u64 * PIECE;

/// What the marker descriptor copies.
const MARKER: u32 = 0xabcd_ef01;

/// Longest time a batch may take, and the time between two looks at its completion word. The
/// limit is a choice: no recording shows an engine that hangs.
const PATIENCE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(1);

/// Which completion word a copy uses: 0 is for calls that wait, 1 and 2 are the asynchronous ones.
pub type Context = usize;

/// The context of calls that wait for their copy.
pub const SYNC: Context = 0;

/// One range to copy, device-side addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Source.
    pub from: u64,
    /// Target.
    pub to: u64,
    /// Bytes. 0 still makes a descriptor, whose length field then means 64 KiB: quirk
    /// "empty-copy".
    pub bytes: u64,
}

/// A batch the engine did not complete in time, or whose engine nobody can lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failed {
    TimedOut,
    EngineStuck,
}

/// The queue of host copies.
#[derive(Debug)]
pub struct CopyQueue {
    engine: u32,
    queue: u32,
    tx: Arc<Chunk>,
    rx: Arc<Chunk>,
    /// Marker at its start, completion word of context `i` at `8 * (i + 1)`.
    completion: Arc<Chunk>,
    /// Held from the doorbell until the engine is through.
    busy: SleepLock,
    /// What was started in each context and not waited for.
    started: Mutex<[Option<Span>; H2T_CONTEXTS]>,
}

impl CopyQueue {
    /// Allocates the rings of every core, tells the engines about them, and gives the queue of
    /// core 0 back, which all copies use.
    ///
    /// # Errors
    /// `ENOMEM` when there is no host memory for the rings.
    pub fn new(device: &Device) -> Result<Self, Errno> {
        let bytes = u64::from(HOST_RING) * DESCRIPTOR_BYTES;
        let mut first = None;
        for core in 0..device.dhal.core_count() {
            let part = |bytes| memory::alloc(device, &Request::driver(MemLocation::Host, bytes, core));
            let (tx, rx, completion) = (part(bytes)?, part(bytes)?, part(memory::PAGE)?);
            let (engine, queue) = device.dma.host_queue(core);
            let ring = OwnRing { tx: tx.address, rx: rx.address, descriptors: HOST_RING };
            device.dma.set_own_ring(engine, queue, Some(ring));
            if core == 0 {
                let (busy, started) = (SleepLock::default(), Mutex::default());
                first = Some(Self { engine, queue, tx, rx, completion, busy, started });
            }
        }
        let this = first.ok_or(Errno::ENOMEM)?;
        device.silicon.space().write(this.completion.address, &MARKER.to_le_bytes()).map_err(|_| Errno::ENOMEM)?;
        this.restart(device);
        Ok(this)
    }

    /// Copies and waits.
    ///
    /// # Errors
    /// `EPERM` when the engine does not answer in time; [`Stop::Hung`] when its lock is lost.
    pub fn copy(&self, device: &Device, span: Span) -> Result<(), Stop> {
        let mut rest = span;
        loop {
            let now = rest.bytes.min(LONGEST);
            let batch = Span { bytes: now, ..rest };
            self.complete(device, SYNC, batch, None)?;
            rest = Span { from: rest.from.wrapping_add(now), to: rest.to.wrapping_add(now), bytes: rest.bytes - now };
            if rest.bytes == 0 {
                return Ok(());
            }
        }
    }

    /// Copies at most [`LONGEST`] bytes and waits, while the memory of the caller is on the bus.
    ///
    /// # Errors
    /// As [`Self::copy`].
    pub fn copy_with(&self, device: &Device, span: Span, window: Window<'_>) -> Result<(), Stop> {
        debug_assert!(span.bytes <= LONGEST, "one batch");
        self.complete(device, SYNC, span, Some(window))
    }

    /// Starts a copy without waiting for its end. One that was started before in the same
    /// context is forgotten.
    ///
    /// # Errors
    /// As [`Self::copy`]: all batches of a long copy but the last are waited for.
    pub fn start(&self, device: &Device, context: Context, span: Span) -> Result<(), Stop> {
        let last = (span.bytes.max(1) - 1) / LONGEST * LONGEST;
        if last != 0 {
            self.copy(device, Span { bytes: last, ..span })?;
        }
        let span =
            Span { from: span.from.wrapping_add(last), to: span.to.wrapping_add(last), bytes: span.bytes - last };
        let _busy = self.busy.lock(&*device.env.clock);
        self.hand_over(device, context, span, None).map_err(|_| Stop::Hung)?;
        self.started.lock()[context] = Some(span);
        Ok(())
    }

    /// Whether a copy of this context was started and not waited for.
    pub fn started(&self, context: Context) -> bool {
        self.started.lock().get(context).is_some_and(Option::is_some)
    }

    /// Waits for the copy that was started in a context.
    ///
    /// # Errors
    /// `EINVAL` when there is none; otherwise as [`Self::copy`].
    pub fn wait(&self, device: &Device, context: Context) -> Result<(), Stop> {
        let begun = device.env.clock.now();
        let span = self.started.lock().get_mut(context).and_then(Option::take).ok_or(Errno::EINVAL)?;
        let busy = self.busy.lock(&*device.env.clock);
        let looked = self.look_until_done(device, context);
        drop(busy);
        looked.or_else(|failed| self.retry(device, context, (span, None), begun, failed))
    }

    /// Runs one batch to its end.
    fn complete(&self, device: &Device, context: Context, span: Span, window: Option<Window<'_>>) -> Result<(), Stop> {
        let begun = device.env.clock.now();
        let ran = self.run(device, context, span, window);
        ran.or_else(|failed| self.retry(device, context, (span, window), begun, failed))
    }

    /// A batch hung. The second generation loses copies that meet a reset, so its driver starts
    /// the rings anew and tries once more when the batch began inside the window of one.
    fn retry(
        &self,
        device: &Device,
        context: Context,
        (span, window): (Span, Option<Window<'_>>),
        begun: Duration,
        failed: Failed,
    ) -> Result<(), Stop> {
        if failed == Failed::EngineStuck {
            return Err(Stop::Hung);
        }
        let n = device.index;
        device.env.log.line(
            "dma_timeout",
            &[&n, &self.engine],
            format!("nd{n}: a copy on engine {} hangs", self.engine),
        );
        self.restart(device);
        let no_reset = device.env.params.flag("no_reset");
        if device.dhal.retries_copies() && device.reset.in_window(no_reset, begun) {
            return self.run(device, context, span, window).map_err(|_| Errno::EPERM.into());
        }
        Err(Errno::EPERM.into())
    }

    fn run(&self, device: &Device, context: Context, span: Span, window: Option<Window<'_>>) -> Result<(), Failed> {
        let _busy = self.busy.lock(&*device.env.clock);
        self.hand_over(device, context, span, window)?;
        self.look_until_done(device, context)
    }

    /// Looks at the completion word, and sleeps between looks when it is not there at once.
    fn look_until_done(&self, device: &Device, context: Context) -> Result<(), Failed> {
        let (clock, task) = (&*device.env.clock, Task::new());
        let mut end = None;
        while !self.done(device, context) {
            let now = clock.now();
            if now >= *end.get_or_insert(now + PATIENCE) {
                return Err(Failed::TimedOut);
            }
            sleep(clock, &task, POLL);
        }
        Ok(())
    }

    fn done(&self, device: &Device, context: Context) -> bool {
        let mut word = [0; 4];
        let read = device.silicon.space().read(self.word(context), &mut word);
        read.is_ok() && u32::from_le_bytes(word) == MARKER
    }

    fn word(&self, context: Context) -> u64 {
        self.completion.address + 8 * (context as u64 + 1)
    }

    /// Writes the descriptors of a batch and rings the doorbell.
    fn hand_over(
        &self,
        device: &Device,
        context: Context,
        span: Span,
        window: Option<Window<'_>>,
    ) -> Result<(), Failed> {
        let (space, engines) = (device.silicon.space(), &device.dma);
        // Host memory of the driver itself: these writes cannot leave it.
        let put = |address: u64, data: &[u8]| space.write(address, data).expect("the driver's own host memory");
        put(self.word(context), &[0; 4]);
        let (Some(slot), Some(block)) = (engines.slot(self.engine), engines.queue_block(self.engine, self.queue))
        else {
            return Err(Failed::EngineStuck);
        };
        let mut engine = slot.lock();
        if engine.stuck {
            return Err(Failed::EngineStuck);
        }
        let queue = &mut engine.queues[self.queue as usize];
        let start = queue.tx.next;
        let mut count = 0;
        let mut describe = |from: u64, to: u64, bytes: u64| {
            let at = u64::from(start.wrapping_add(count) % HOST_RING) * DESCRIPTOR_BYTES;
            for (ring, address) in [(&self.tx, from), (&self.rx, to)] {
                let mut descriptor = [0; DESCRIPTOR_BYTES as usize];
                descriptor[..2].copy_from_slice(&(bytes as u16).to_le_bytes());
                descriptor[8..].copy_from_slice(&address.to_le_bytes());
                put(ring.address + at, &descriptor);
            }
            count += 1;
        };
        let mut at = 0;
        loop {
            let bytes = (span.bytes - at).min(PIECE);
            describe(span.from.wrapping_add(at), span.to.wrapping_add(at), bytes);
            at += bytes;
            if at >= span.bytes {
                break;
            }
        }
        describe(self.completion.address, self.word(context), 4);
        for ring in [&mut queue.tx, &mut queue.rx] {
            ring.advance(count);
            ring.acknowledge(count);
        }
        device.regs.write(block + engine::RX + engine::TAIL_INC, count);
        match window {
            Some(window) => device.regs.write_with(block + engine::TAIL_INC, count, window),
            None => device.regs.write(block + engine::TAIL_INC, count),
        }
        Ok(())
    }

    /// Programs the rings anew; the engine and the driver start at their beginning.
    fn restart(&self, device: &Device) {
        let Some(slot) = device.dma.slot(self.engine) else { return };
        let mut engine = slot.lock();
        let queue = &mut engine.queues[self.queue as usize];
        (queue.tx.next, queue.rx.next, queue.tx.completed, queue.rx.completed) = (0, 0, 0, 0);
        let (tx, rx) = ((self.tx.address, HOST_RING), (self.rx.address, HOST_RING));
        device.dma.program(&device.regs, self.engine, self.queue, tx, rx);
    }
}
