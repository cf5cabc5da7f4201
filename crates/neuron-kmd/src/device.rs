//! One device of the driver: its parts and the state between them.
//!
//! Each part has its own lock and is reached through a method of the part. Lock order: reset
//! engine, attach table, core states, notification queues, hand-over of host queues, memory, DMA,
//! mappings, metrics; a part may call parts to its right while it holds its lock. Nobody sleeps
//! with a lock.

use std::sync::{Arc, OnceLock, Weak};

use neuron_abi::kernel::values::{DeviceState, MemCategory, MemLocation, NC_MAP_DEVICE};
use neuron_hw::Silicon;
use neuron_hw::pci::Bdf;

use crate::attach::AttachTable;
use crate::caller::Caller;
use crate::cores::crwl::CoreLocks;
use crate::cores::state::CoreStates;
use crate::dhal::{Dhal, ResetCx};
use crate::dma::Engines;
use crate::dma::engines::{DESCRIPTOR_BYTES, HOST_RING};
use crate::env::Env;
use crate::memory::{self, Own, Pools};
use crate::metrics::Metrics;
use crate::profile::Profile;
use crate::queues::{Mailbox, NotificationQueues};
use crate::regs::Regs;
use crate::reply::{Bug, Errno};
use crate::reset::{HandshakeError, Pause, Record, ResetEngine, ResetEvent, ResetTarget};
use crate::sync::{Mutex, Wait, WaitQueue, Woken};

/// A window as the probe mapped it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mapped {
    /// Bus address; 0 when it is not mapped.
    pub address: u64,
    /// Bytes.
    pub bytes: u64,
}

/// The three windows by role. The names are roles, not BAR numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bars {
    /// Registers.
    pub bar0: Mapped,
    /// AXI, never mapped.
    pub bar2: Mapped,
    /// Device memory.
    pub bar4: Mapped,
}

/// One device.
pub struct Device {
    /// Number in `/dev/neuronN`; also the minor.
    pub index: u32,
    /// Routing id it was found with.
    pub routing_id: u32,
    /// PCI device id.
    pub pci_device: u16,
    /// Place on the bus.
    pub bdf: Bdf,
    /// Latched PCI revision; that of the first device of the load.
    pub revision: u8,
    /// Mapped windows.
    pub bars: Bars,
    /// The device itself.
    pub silicon: Arc<Silicon>,
    /// Its registers.
    pub regs: Regs,
    /// Operations of its generation.
    pub dhal: Arc<dyn Dhal>,
    /// The module load.
    pub env: Arc<Env>,
    /// Reset engine.
    pub reset: Arc<ResetEngine>,
    /// What its resets left behind.
    pub reset_record: Record,
    /// Processes that have it open.
    pub attach: AttachTable,
    /// Reader/writer locks of its cores.
    pub locks: CoreLocks,
    /// States of its cores.
    pub cores: CoreStates,
    /// DMA engines.
    pub dma: Engines,
    /// Requests to the firmware.
    pub mailbox: Mailbox,
    /// Notification queues.
    pub queues: NotificationQueues,
    /// Counters of the sysfs tree.
    pub metrics: Metrics,
    /// Memory pools, chunks and handles.
    pub memory: Pools,
    own: OnceLock<Own>,
    state: Mutex<DeviceState>,
    state_changed: WaitQueue,
    this: Weak<Device>,
}

/// What the probe found out before it makes a device.
pub struct Found {
    /// Number.
    pub index: u32,
    /// Routing id.
    pub routing_id: u32,
    /// PCI device id.
    pub pci_device: u16,
    /// Latched revision.
    pub revision: u8,
    /// Windows.
    pub bars: Bars,
}

impl Device {
    /// Puts the parts together; nothing runs yet.
    pub fn new(found: Found, silicon: Arc<Silicon>, regs: Regs, dhal: Arc<dyn Dhal>, env: Arc<Env>) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            index: found.index,
            routing_id: found.routing_id,
            pci_device: found.pci_device,
            bdf: silicon.bdf(),
            revision: found.revision,
            bars: found.bars,
            reset: ResetEngine::new(env.clock.clone()),
            reset_record: Record::default(),
            attach: AttachTable::default(),
            locks: CoreLocks::default(),
            cores: CoreStates::default(),
            dma: Engines::new(dhal.layout()),
            mailbox: Mailbox::default(),
            queues: NotificationQueues::new(dhal.layout().geometry.cores, dhal.layout().geometry.topsps),
            metrics: Metrics::new(dhal.core_count()),
            memory: Pools::new(&env, &*dhal, &silicon),
            own: OnceLock::new(),
            silicon,
            regs,
            dhal,
            env,
            state: Mutex::new(DeviceState::Reset),
            state_changed: WaitQueue::default(),
            this: this.clone(),
        })
    }

    /// Allocates what the driver needs itself; the last step before a device is registered.
    ///
    /// # Errors
    /// `ENOMEM` when there is not enough host memory.
    pub fn set_up(&self) -> Result<(), Errno> {
        let own = Own::new(self)?;
        self.own.get_or_init(|| own);
        Ok(())
    }

    /// The driver's own memory on the device.
    ///
    /// # Panics
    /// Before [`Self::set_up`].
    pub fn own(&self) -> &Own {
        self.own.get().expect("a device that was set up")
    }

    /// Device state.
    pub fn state(&self) -> DeviceState {
        *self.state.lock()
    }

    /// Waits as an open does: while the state is RESET.
    ///
    /// # Errors
    /// `EINTR` on a fatal signal, `EINVAL` when the state is INVALID.
    pub fn wait_ready(&self, caller: &Caller) -> Result<(), Errno> {
        let guard = self.state.lock();
        let clock = &*self.env.clock;
        let (state, woken) = self
            .state_changed
            .wait(clock, &caller.task, &self.state, guard, Wait::signalled(), |s| *s != DeviceState::Reset);
        match (woken, *state) {
            (Woken::Ready, DeviceState::Invalid) => Err(Errno::EINVAL),
            (Woken::Ready, _) => Ok(()),
            _ => Err(Errno::EINTR),
        }
    }

    /// Bytes of a memory channel: what the product has, unless the device has less.
    pub fn channel_bytes(&self) -> u64 {
        self.dhal.layout().geometry.channel_bytes.min(self.silicon.channel_bytes())
    }

    /// Notes that the real driver oopses here. The calling process dies of it (measured: the
    /// device goes on serving others, without the locks the dead process held).
    pub fn oops(&self, bug: &Bug) {
        self.env.log.line("kernel_oops", &[], format!("neuron{}: {} ({})", self.index, bug.text, bug.quirk));
    }

    /// Checks what must hold between any two calls of its parts.
    ///
    /// # Panics
    /// When it does not.
    pub fn check_invariants(&self) {
        self.attach.check_invariants();
        self.locks.check_invariants();
        self.reset.check_invariants();
        self.memory.check_invariants();
    }

    fn reset_cx<'a>(&'a self, pause: &'a Pause<'a>) -> ResetCx<'a> {
        ResetCx { regs: &self.regs, env: &self.env, pause, revision: self.revision, record: &self.reset_record }
    }

    /// The device as what its reset engine drives.
    pub(crate) fn target(&self) -> Arc<dyn ResetTarget> {
        self.this.upgrade().expect("a device that runs is alive")
    }
}

impl ResetTarget for Device {
    fn thread_name(&self) -> String {
        format!("nd{} reset", self.index)
    }

    fn no_reset(&self) -> bool {
        self.env.params.flag("no_reset")
    }

    fn set_state(&self, state: DeviceState) {
        *self.state.lock() = state;
        self.state_changed.wake_all(&*self.env.clock);
    }

    fn teardown_core(&self, core: usize) {
        self.cores.reset(&*self.env.clock, core);
        for chunk in self.queues.destroy_core(core as u32) {
            // The queue is gone whatever becomes of its memory.
            let _ = memory::free(self, &chunk);
        }
        self.metrics.count_reset_request(core);
    }

    fn initiate(&self, pause: &Pause<'_>, nc_map: u32) -> Result<(), HandshakeError> {
        self.dhal.initiate_reset(&self.reset_cx(pause), nc_map)
    }

    fn wait_for_completion(&self, pause: &Pause<'_>) -> Result<(), HandshakeError> {
        self.dhal.wait_for_reset(&self.reset_cx(pause))
    }

    fn reinit_dma(&self, pause: &Pause<'_>, nc_map: u32) -> Result<(), HandshakeError> {
        // The lock of an engine that a dead process holds is never given back: the worker of
        // the driver hangs here. The model's lets itself be stopped.
        let again = self.dma.reinit(&self.regs, nc_map).map_err(|_| {
            pause.until_stopped();
            HandshakeError::Stopped
        })?;
        // Quirk "reset-books-rings": what the driver allocates for a core it initialises anew
        // stays booked together with what it had.
        let completions = memory::PAGE as i64;
        let rings = 2 * i64::from(HOST_RING) * DESCRIPTOR_BYTES as i64;
        let bytes = if self.env.profile == Profile::V2_24_7 { completions } else { rings + completions };
        for core in again {
            let category = MemCategory::NcdevHost as u32;
            self.metrics.memory_changed(MemLocation::Host, category, core as usize, bytes);
        }
        Ok(())
    }

    fn post_config(&self, pause: &Pause<'_>, nc_map: u32, success: bool, no_reset: bool) -> Result<(), HandshakeError> {
        if nc_map != NC_MAP_DEVICE && !(no_reset && self.env.profile >= Profile::V2_27_4) {
            return Ok(());
        }
        self.dhal.post_reset(&self.reset_cx(pause), success, no_reset)
    }

    fn count_failure(&self) {
        self.metrics.count_reset_failure();
    }

    fn log(&self, event: ResetEvent) {
        let n = u64::from(self.index);
        let (kind, number, text) = match event {
            ResetEvent::Coalesced(count) => ("reset_coalesced", count, format!("{count} reset requests run as one")),
            ResetEvent::Begins(id) => ("reset_run_begins", id, format!("reset {id:#x} begins")),
            ResetEvent::Done(id) => ("reset_run_done", id, format!("reset {id:#x} completed")),
            ResetEvent::Problem(id, Some(map)) if self.env.profile >= Profile::V2_26_5 => {
                let map = format!("{map:#x}");
                let text = format!("nd{n}: reset {id:#x} of cores {map} was not accepted");
                return self.env.log.line("reset_problem", &[&n, &id, &map], text);
            }
            ResetEvent::Problem(id, _) => ("reset_problem", id, format!("reset {id:#x} failed")),
            ResetEvent::Duplicate(id) => {
                let text = format!("nd{n}: reset {id:#x} is requested already");
                return self.env.log.line("reset_duplicate", &[&id, &n], text);
            }
            ResetEvent::WaitInterrupted(id) => {
                return self.env.log.line(
                    "reset_wait_interrupted",
                    &[&id],
                    format!("wait for reset {id:#x} interrupted"),
                );
            }
            ResetEvent::UnknownId(id) => {
                return self.env.log.open_line("reset_unknown_id", &[&id], format!("Invalid reset request id {id:#x}"));
            }
        };
        self.env.log.line(kind, &[&n, &number], format!("nd{n}: {text}"));
    }
}
