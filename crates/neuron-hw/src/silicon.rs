//! One device.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use neuron_abi::kernel::{Release, pci as ids};
use parking_lot::Mutex;

use crate::Clock;
use crate::dma::{Bus, Engines, Ring};
use crate::fault::{Fault, Faults};
use crate::mailbox::{Mailbox, Request};
use crate::memory::{AddressSpace, HostMemory, HostRam, Placed, Window};
use crate::pci::{Bdf, ConfigSpace};
use crate::regs::{self, DEAD, Layout, core, engine, misc};
use crate::trace::{Event, Trace, What};

/// What a device is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiliconSpec {
    /// PCI device id; must be one of the table (Trn1 to Trn3).
    pub device: u16,
    /// PCI revision byte.
    pub revision: u8,
    /// Place on the bus.
    pub bdf: Bdf,
    /// Routing id.
    pub routing_id: u32,
    /// Serial number.
    pub serial: u64,
    /// Firmware interface version.
    pub api_version: u32,
    /// Bytes of the register window, a power of two.
    pub bar0_bytes: u64,
    /// Bytes of the memory window, a power of two; 0 leaves it out.
    pub bar4_bytes: u64,
    /// Bytes of a memory channel; at most what the architecture has.
    pub channel_bytes: u64,
}

impl SiliconSpec {
    /// A device as the transcripts were recorded with: revision 1, BARs and channels of the
    /// product, firmware interface 0. `None` for an id that is not modelled.
    pub fn product(device: u16) -> Option<Self> {
        let arch = ids::find(ids::VENDOR, device, Release::Next)?.arch;
        let layout = Layout::of(arch)?;
        let (bar0_bytes, bar4_bytes) = if arch == 2 { (1 << 30, 1 << 35) } else { (1 << 32, 1 << 38) };
        Some(Self {
            device,
            revision: 1,
            bdf: Bdf { slot: 1, ..Bdf::default() },
            routing_id: 0,
            serial: 0x1122_3344_5566_7788,
            api_version: 0,
            bar0_bytes,
            bar4_bytes,
            channel_bytes: layout.geometry.channel_bytes,
        })
    }
}

/// Where the host memory is that the device reaches.
pub enum Host {
    /// In the device's own file, this many bytes from bus address 0.
    Ram(u64),
    /// Somewhere else, such as the memory of a virtual machine. The device's file then begins
    /// with the memory as BAR 4 shows it, so that the machine can map it.
    Other(Arc<dyn HostMemory>),
}

const PAGE_WORDS: usize = 1024;

/// Words of the register window that were written, by page.
#[derive(Default)]
struct Registers(HashMap<u64, Box<[u32; PAGE_WORDS]>>);

impl Registers {
    fn get(&self, offset: u64) -> u32 {
        self.0.get(&(offset >> 12)).map_or(0, |page| page[(offset as usize & 0xfff) / 4])
    }

    fn set(&mut self, offset: u64, value: u32) {
        let page = self.0.entry(offset >> 12).or_insert_with(|| Box::new([0; PAGE_WORDS]));
        page[(offset as usize & 0xfff) / 4] = value;
    }
}

struct State {
    config: ConfigSpace,
    registers: Registers,
    mailbox: Mailbox,
    faults: Faults,
    trace: Trace,
}

/// One emulated device.
pub struct Silicon {
    layout: &'static Layout,
    bdf: Bdf,
    channel_bytes: u64,
    state: Mutex<State>,
    engines: Engines,
    space: Arc<AddressSpace>,
    host: Arc<dyn HostMemory>,
    ram: Option<Arc<HostRam>>,
    clock: Arc<dyn Clock>,
}

impl Silicon {
    /// Makes a device.
    ///
    /// # Errors
    /// `InvalidInput` for a device id that is not modelled; otherwise what the system says when
    /// the memory cannot be set up.
    pub fn new(spec: SiliconSpec, host: Host, clock: Arc<dyn Clock>) -> io::Result<Self> {
        let layout =
            ids::find(ids::VENDOR, spec.device, Release::Next).and_then(|id| Layout::of(id.arch)).ok_or_else(|| {
                let text = format!(
                    "PCI device id {:#06x} is not modelled; use one of 0x7164, 0x7264, 0x7364, 0x7564, 0x7565",
                    spec.device
                );
                io::Error::new(io::ErrorKind::InvalidInput, text)
            })?;
        let channel_bytes = spec.channel_bytes.min(layout.geometry.channel_bytes);
        let windows = std::iter::once(&layout.cores).chain(layout.topsps);
        let space = Arc::new(match host {
            Host::Ram(bytes) => {
                let mut regions: Vec<_> = layout.channels.iter().map(|c| (c.address, channel_bytes)).collect();
                regions.extend(windows.map(|w| (w.address, w.bytes)));
                regions.push((layout.geometry.pci_host_base, bytes));
                AddressSpace::new(&regions)?
            }
            Host::Other(_) => {
                let channel = |c: &regs::Channel| Placed { address: c.address, bytes: channel_bytes, offset: c.bar4 };
                let mut regions: Vec<_> = layout.channels.iter().map(channel).collect();
                for window in windows {
                    let offset = regions.last().map_or(0, |r| r.offset + r.bytes);
                    regions.push(Placed { address: window.address, bytes: window.bytes, offset });
                }
                AddressSpace::placed(regions)?
            }
        });
        let (host, ram): (Arc<dyn HostMemory>, _) = match host {
            Host::Ram(bytes) => {
                let ram = Arc::new(HostRam::new(space.clone(), layout.geometry.pci_host_base, bytes));
                (ram.clone(), Some(ram))
            }
            Host::Other(host) => (host, None),
        };
        let mut registers = Registers::default();
        let base = layout.geometry.misc_ram;
        registers.set(base + misc::API_VERSION, spec.api_version);
        registers.set(base + misc::ROUTING_ID, spec.routing_id);
        registers.set(base + misc::SERIAL_LO, spec.serial as u32);
        registers.set(base + misc::SERIAL_HI, (spec.serial >> 32) as u32);
        let config = ConfigSpace::new(spec.device, spec.revision, [spec.bar0_bytes, 0, spec.bar4_bytes]);
        let state = State {
            config,
            registers,
            mailbox: Mailbox::default(),
            faults: Faults::default(),
            trace: Trace::default(),
        };
        Ok(Self {
            layout,
            bdf: spec.bdf,
            channel_bytes,
            state: Mutex::new(state),
            engines: Engines::new(layout),
            space,
            host,
            ram,
            clock,
        })
    }

    /// Place on the bus.
    pub fn bdf(&self) -> Bdf {
        self.bdf
    }

    /// Bytes of one memory channel.
    pub fn channel_bytes(&self) -> u64 {
        self.channel_bytes
    }

    /// Reads the config space.
    pub fn config<T>(&self, read: impl FnOnce(&ConfigSpace) -> T) -> T {
        read(&self.state.lock().config)
    }

    /// Writes the config space.
    pub fn config_write(&self, offset: usize, data: &[u8]) {
        self.state.lock().config.write(offset, data);
    }

    /// Pieces of BAR 4 that have memory behind them, as (offset, bytes), ascending; none when
    /// the BAR is absent.
    pub fn bar4_memory(&self) -> Vec<(u64, u64)> {
        let end = self.config(|c| c.bar_size(4));
        let pieces = self.layout.channels.iter().map(|c| (c.bar4, self.channel_bytes.min(end.saturating_sub(c.bar4))));
        pieces.filter(|(_, bytes)| *bytes != 0).collect()
    }

    /// Resets the function, as the bus does when a machine starts over: BARs, command and the
    /// registers a driver wrote are forgotten, a pending handshake is dropped. What the firmware
    /// says, faults, memory and the trace stay.
    pub fn function_reset(&self) {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let base = self.layout.geometry.misc_ram;
        state.config.reset();
        state.registers.0.retain(|page, _| *page == base >> 12);
        for word in misc::DRIVER_WORDS {
            state.registers.set(base + word, 0);
        }
        state.mailbox.forget();
        drop(guard);
        self.engines.restart_all();
    }

    /// The device-side address space.
    pub fn space(&self) -> &Arc<AddressSpace> {
        &self.space
    }

    /// The host memory in the device's file, when it was made with [`Host::Ram`].
    pub fn host_ram(&self) -> Option<&Arc<HostRam>> {
        self.ram.as_ref()
    }

    /// Changes the behaviour.
    pub fn inject(&self, fault: Fault) {
        let now = self.clock.now();
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let base = self.layout.geometry.misc_ram;
        match fault {
            Fault::Clear => {
                state.faults = Faults::default();
                state.mailbox.release(now);
            }
            Fault::AckHold(hold) => {
                state.faults.ack_hold = hold;
                state.faults.never_ack = false;
            }
            Fault::NeverAck(on) => {
                state.faults.never_ack = on;
                if on {
                    state.mailbox.drop_ack();
                }
            }
            Fault::StatusStuck(on) => state.faults.status_stuck = on,
            Fault::StatusBusyReads(reads) => state.faults.status_busy_reads = reads,
            Fault::StatusBusyAfterAck(time) => state.faults.status_busy_after_ack = time,
            Fault::RoutingIdBusyReads(reads) => state.faults.routing_id_busy_reads = reads,
            Fault::RoutingId(id) => state.registers.set(base + misc::ROUTING_ID, id),
            Fault::DmaStuck(on) => state.faults.dma_stuck = on,
            Fault::MailboxSilent(on) => state.faults.mailbox_silent = on,
            Fault::DeadRegisters(on) => state.faults.dead_registers = on,
            Fault::MiscRegister { offset, value } => state.registers.set(base + (offset & 0xffc), value),
            Fault::HbmUncorrectable { channel, count } => {
                let word = base + misc::ECC_HBM0 + 4 * u64::from(channel % 4);
                let value = state.registers.get(word);
                state.registers.set(word, value & 0xffff_0000 | u32::from((value as u16).saturating_add(count)));
            }
            Fault::NoDramBar => state.config.remove_bar(4),
        }
    }

    /// Turns recording of every register access on or off.
    pub fn trace_registers(&self, on: bool) {
        self.state.lock().trace.set_registers(on);
    }

    /// Takes the recorded events, oldest first, and how many were lost before them.
    pub fn take_trace(&self) -> (Vec<Event>, u64) {
        let mut state = self.state.lock();
        let lost = state.trace.dropped();
        (state.trace.take(), lost)
    }

    /// Resets requested since the device was made.
    pub fn handshakes(&self) -> u32 {
        self.state.lock().mailbox.handshakes()
    }

    /// Reads a 32-bit word of a BAR (0 or 4). Unaligned offsets read the word they lie in; a
    /// BAR that is absent, or a place behind its end, reads as all ones.
    pub fn read32(&self, bar: usize, offset: u64) -> u32 {
        let offset = offset & !3;
        if bar == 4 {
            return self.bar4_word(offset, |space, address| {
                let mut word = [0; 4];
                space.read(address, &mut word).ok().map(|()| u32::from_le_bytes(word))
            });
        }
        let now = self.clock.now();
        let mut guard = self.state.lock();
        let state = &mut *guard;
        if bar != 0 || offset >= state.config.bar_size(0) {
            return u32::MAX;
        }
        let value = if state.faults.dead_registers { DEAD } else { self.register(state, now, offset) };
        state.trace.push(now, What::Read { offset, value });
        value
    }

    fn register(&self, state: &mut State, now: std::time::Duration, offset: u64) -> u32 {
        if let Some(at) = self.misc_offset(offset) {
            match at {
                misc::ROUTING_ID => {
                    let busy = state.faults.routing_id_busy_reads > 0;
                    state.faults.routing_id_busy_reads = state.faults.routing_id_busy_reads.saturating_sub(1);
                    let id = (!busy).then(|| state.registers.get(offset));
                    state.trace.push(now, What::RoutingId(id));
                    return id.unwrap_or(DEAD);
                }
                misc::RESET_TYPE if state.mailbox.acknowledges(now, &state.faults) => {
                    state.registers.set(offset, 0);
                    state.trace.push(now, What::Ack);
                }
                misc::STATUS => {
                    let value = state.mailbox.status(now, &mut state.faults);
                    state.trace.push(now, What::Status(value));
                    return value;
                }
                _ => {}
            }
            return state.registers.get(offset);
        }
        if let Some(address) = self.window_address(offset) {
            let mut word = [0; 4];
            let address = semaphore_value(address, self.layout.cores).unwrap_or(address);
            return self.space.read(address, &mut word).map_or(u32::MAX, |()| u32::from_le_bytes(word));
        }
        state.registers.get(offset)
    }

    /// Writes a 32-bit word of a BAR (0 or 4). Writes to an absent BAR, or behind its end, are
    /// lost.
    pub fn write32(&self, bar: usize, offset: u64, value: u32) {
        self.write(bar, offset, value, None);
    }

    /// The same while the memory of another process is on the bus. A window hides host memory at
    /// the same bus addresses.
    pub fn write32_with(&self, bar: usize, offset: u64, value: u32, window: Window<'_>) {
        self.write(bar, offset, value, Some(window));
    }

    fn write(&self, bar: usize, offset: u64, value: u32, window: Option<Window<'_>>) {
        let offset = offset & !3;
        if bar == 4 {
            self.bar4_word(offset, |space, address| space.write(address, &value.to_le_bytes()).ok().map(|()| 0));
            return;
        }
        let now = self.clock.now();
        let mut guard = self.state.lock();
        let state = &mut *guard;
        if bar != 0 || offset >= state.config.bar_size(0) {
            return;
        }
        state.trace.push(now, What::Write { offset, value });
        if let Some(at) = self.misc_offset(offset) {
            state.registers.set(offset, value);
            if !(misc::METRICS..misc::METRICS + misc::METRICS_BYTES).contains(&at) {
                state.trace.push(now, What::MiscWrite { offset: at, value });
            }
            if at == misc::TRIGGER {
                self.doorbell(state, now);
            }
        } else if let Some(address) = self.window_address(offset) {
            self.window_write(state, now, offset, address, value);
        } else {
            state.registers.set(offset, value);
            if let Some((engine, at)) = self.layout.engine_at(offset) {
                drop(guard);
                self.engine_write(now, offset, (engine, at), value, window);
            }
        }
    }

    fn misc_offset(&self, offset: u64) -> Option<u64> {
        offset.checked_sub(self.layout.geometry.misc_ram).filter(|at| *at < misc::BYTES)
    }

    /// Device-side address of a BAR 0 offset inside a core or TopSP window.
    fn window_address(&self, offset: u64) -> Option<u64> {
        std::iter::once(&self.layout.cores).chain(self.layout.topsps).find_map(|w| {
            let at = offset.checked_sub(w.bar0)?;
            (at < w.bytes).then_some(w.address + at)
        })
    }

    fn window_write(&self, state: &mut State, now: std::time::Duration, offset: u64, address: u64, value: u32) {
        // The windows are regions of the space, so neither access can fail.
        let put = |address, value: u32| self.space.write(address, &value.to_le_bytes());
        if let Some(target) = semaphore_value(address, self.layout.cores) {
            let mut word = [0; 4];
            let _ = self.space.read(target, &mut word);
            let old = u32::from_le_bytes(word);
            let new = match ((address - self.layout.cores.address) % core::STRIDE / core::SEMAPHORE_OP) & 3 {
                0 => old,
                1 => value,
                2 => old.wrapping_add(value),
                _ => old.wrapping_sub(value),
            };
            let _ = put(target, new);
            state.trace.push(now, What::Semaphore { offset, value });
        } else {
            let _ = put(address, value);
            state.trace.push(now, What::WindowWrite { offset, value });
        }
    }

    fn doorbell(&self, state: &mut State, now: std::time::Duration) {
        let base = self.layout.geometry.misc_ram;
        let kind = state.registers.get(base + misc::RESET_TYPE);
        if kind != 0 {
            let map = state.registers.get(base + misc::RESET_MAP);
            let event = state.mailbox.reset_requested(now, &state.faults, kind, map);
            state.trace.push(now, event);
            return;
        }
        let address = |at| {
            let (hi, lo) = (state.registers.get(base + at), state.registers.get(base + at + 4));
            (u64::from(hi) << 32 | u64::from(lo)) & !self.layout.host_mask
        };
        let (from, to) = (address(misc::REQUEST_HI), address(misc::RESPONSE_HI));
        if let Some(what) = self.answer(state, from, to) {
            state.trace.push(now, what);
        }
    }

    /// Answers the request in host memory. Register reads are answered with a value made from
    /// the address, as the recorded device did: its firmware has no counters.
    fn answer(&self, state: &State, from: u64, to: u64) -> Option<What> {
        let header = self.host.slice(from, Request::HEADER)?;
        // SAFETY: `slice` vouches for 8 bytes; the memory has no alignment promise.
        let request = Request::parse(unsafe { header.cast::<[u8; 8]>().as_ptr().read_unaligned() });
        let answered = !state.faults.mailbox_silent;
        let what = What::Request { command: request.command, bytes: request.bytes, answered };
        if !answered {
            return Some(what);
        }
        let registers = request.registers();
        let list = self.host.slice(from + Request::HEADER, 8 * registers)?;
        let size = 4 + 4 * registers;
        let response = self.host.slice(to, size)?;
        for i in 0..registers as usize {
            // SAFETY: both lists were vouched for above; unaligned access throughout.
            unsafe {
                let address = list.cast::<u64>().as_ptr().add(i).read_unaligned();
                response.cast::<u32>().as_ptr().add(1 + i).write_unaligned(address as u32 ^ 0x5a5a_0000);
            }
        }
        let size = (size as u16).to_le_bytes();
        // SAFETY: the response has at least 4 bytes. The sequence goes last: the driver polls it.
        unsafe {
            response.as_ptr().add(1).write(0);
            response.as_ptr().add(2).write(size[0]);
            response.as_ptr().add(3).write(size[1]);
            std::sync::atomic::fence(std::sync::atomic::Ordering::Release);
            response.as_ptr().write_volatile(request.sequence);
        }
        Some(what)
    }

    fn engine_write(
        &self,
        now: std::time::Duration,
        offset: u64,
        (engine, at): (u32, u64),
        value: u32,
        window: Option<Window<'_>>,
    ) {
        let Some(in_queues) = at.checked_sub(engine::QUEUES) else { return };
        let queue = in_queues / engine::QUEUE_STRIDE;
        if queue >= engine::COUNT {
            return;
        }
        let queue = queue as u32;
        match in_queues % engine::QUEUE_STRIDE {
            engine::RING_LO => self.engines.restart(engine, queue),
            engine::TAIL_INC => {
                let block = offset - engine::TAIL_INC;
                let what = match self.rings(block) {
                    Some((tx, rx)) => {
                        let bus = Bus { layout: self.layout, space: &self.space, host: &*self.host, window };
                        let run = self.engines.run(&bus, engine, queue, tx, rx, value);
                        What::DmaRun { engine, queue, descriptors: run.descriptors, bytes: run.bytes, bad: run.bad }
                    }
                    None => What::DmaIgnored { engine, queue },
                };
                self.state.lock().trace.push(now, what);
            }
            _ => {}
        }
    }

    /// The rings of a queue, unless one is missing or the engines are stuck.
    fn rings(&self, block: u64) -> Option<(Ring, Ring)> {
        let state = self.state.lock();
        let ring = |block: u64| {
            let word = |at| state.registers.get(block + at);
            let base = u64::from(word(engine::RING_HI)) << 32 | u64::from(word(engine::RING_LO));
            Ring { base, len: word(engine::RING_LEN) }
        };
        let (tx, rx) = (ring(block), ring(block + engine::RX));
        (!state.faults.dma_stuck && tx.len != 0 && rx.len != 0).then_some((tx, rx))
    }

    fn bar4_word(&self, offset: u64, access: impl FnOnce(&AddressSpace, u64) -> Option<u32>) -> u32 {
        if offset >= self.config(|c| c.bar_size(4)) {
            return u32::MAX;
        }
        let address = self.layout.channels.iter().find_map(|c| {
            let at = offset.checked_sub(c.bar4)?;
            (at < self.channel_bytes).then_some(c.address + at)
        });
        address.and_then(|a| access(&self.space, a)).unwrap_or(u32::MAX)
    }
}

/// Where the value of a semaphore register lies, for an address inside the semaphore page.
fn semaphore_value(address: u64, cores: regs::Window) -> Option<u64> {
    let at = address.checked_sub(cores.address).filter(|at| *at < cores.bytes)?;
    let in_core = at % core::STRIDE;
    let register = in_core.checked_sub(core::SEMAPHORES).filter(|r| *r < 4 * core::SEMAPHORE_OP)?;
    Some(cores.address + at - register + register % core::SEMAPHORE_OP)
}
