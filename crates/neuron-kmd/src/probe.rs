//! PCI probe: id, arch latch, BAR ladder, routing id, registration (`facts/driver/pci.tsv`,
//! `bars.tsv`).
//!
//! A probe is a list of [`Step`]s. What a step takes is noted, and a failing step gives back
//! everything the steps before it took, the last first.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use neuron_abi::kernel::pci::{self as ids, MAX_ROUTING_ID, MAX_ROUTING_ID_PDS, PciId};
use neuron_abi::kernel::sysfs::DMI_FORCED_RID_0;
use neuron_abi::kernel::values::{MAX_DEVICES, NC_MAP_DEVICE, Platform, RESET_REQUEST_ALL};
use neuron_hw::Silicon;
use neuron_hw::pci::{Bdf, offset};
use neuron_hw::regs::{DEAD, misc};

use crate::device::{Bars, Device, Found, Mapped};
use crate::dhal::{self, Dhal, Role};
use crate::driver::Driver;
use crate::profile::Profile;
use crate::regs::Regs;
use crate::reply::{Bug, Errno};
use crate::sync::Task;

/// Architecture and revision of a module load: the first device decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latched {
    /// Architecture number.
    pub arch: u32,
    /// PCI revision byte.
    pub revision: u8,
}

/// Why a device has no node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProbeError {
    /// The id is not in the table. The real driver is never asked to probe such a device, unless
    /// it is bound by hand.
    #[error(
        "PCI id {vendor:04x}:{device:04x} is not in the driver's id table; bound by hand, the real driver would {effect}"
    )]
    UnknownId {
        /// Vendor id.
        vendor: u16,
        /// Device id.
        device: u16,
        /// What the real driver would do.
        effect: &'static str,
    },
    /// The id belongs to a generation the model does not have.
    #[error("PCI device {device:04x} is architecture {arch}, which is not modelled; use a Trn1, Inf2, Trn2 or Trn3 id")]
    NotModelled {
        /// Device id.
        device: u16,
        /// Architecture number.
        arch: u32,
    },
    /// A step failed; what came before it was undone.
    #[error("probe step {step:?} failed with {errno:?}")]
    Step {
        /// The step.
        step: Step,
        /// What the probe returned.
        errno: Errno,
    },
    /// The real driver takes the kernel down in the probe.
    #[error("the real driver would oops: {}", .0.text)]
    Bug(Bug),
}

/// Steps of the probe, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Enable memory access and bus mastering.
    Enable,
    /// Reserve a window.
    Reserve(Role),
    /// Map a window.
    Map(Role),
    /// Read the routing id.
    RoutingId,
    /// Find a free device index.
    Index,
    /// Set up memory, rings, counters.
    DeviceInit,
    /// Make node and sysfs tree.
    Register,
    /// Start the reset thread and ask for the first reset.
    ResetThread,
}

impl Step {
    /// All steps, in order.
    pub const ALL: [Step; 12] = [
        Step::Enable,
        Step::Reserve(Role::Registers),
        Step::Reserve(Role::Axi),
        Step::Reserve(Role::Dram),
        Step::Map(Role::Registers),
        Step::Map(Role::Axi),
        Step::Map(Role::Dram),
        Step::RoutingId,
        Step::Index,
        Step::DeviceInit,
        Step::Register,
        Step::ResetThread,
    ];
}

/// Routing id reads before the probe gives up.
const ROUTING_ID_TRIES: u32 = 20;

/// Memory access and bus mastering in the PCI command word.
const COMMAND_ON: u16 = 0x0006;

/// Row of the id table that a device binds on, and what happens to one that has none.
///
/// # Errors
/// [`ProbeError::UnknownId`].
pub fn bind(vendor: u16, device: u16, profile: Profile) -> Result<&'static PciId, ProbeError> {
    let effect = if profile >= Profile::V2_26_5 { "hit a kernel BUG (panic)" } else { "treat it as an Inf1 device" };
    ids::find(vendor, device, profile.release()).ok_or(ProbeError::UnknownId { vendor, device, effect })
}

/// Probes one device and registers it with the driver.
///
/// `fail` makes a step fail with `ENOMEM`, for tests of what is undone.
///
/// # Errors
/// Why there is no node. The driver is then as before, but for the arch latch, the kernel log
/// and the device count, which the real driver leaves as well.
pub fn probe(driver: &Driver, silicon: &Arc<Silicon>, fail: Option<Step>) -> Result<Arc<Device>, ProbeError> {
    let (vendor, device, revision) = silicon.config(|c| (c.vendor(), c.device(), c.revision()));
    let id = bind(vendor, device, driver.env.profile)?;
    // The first device decides for all, whatever the later ones are.
    let latched = driver.latch(Latched { arch: id.arch, revision });
    let dhal = dhal::select(latched.arch, latched.revision, &driver.env)
        .ok_or(ProbeError::NotModelled { device, arch: latched.arch })?;
    let mut attempt = Attempt { driver, silicon, dhal, latched, fail, undo: Vec::new() };
    attempt.run().inspect_err(|_| attempt.unwind())
}

/// Something to give back.
enum Undo {
    Disable,
    Region(usize),
    Node(u32),
    Thread(Arc<Device>),
}

struct Attempt<'a> {
    driver: &'a Driver,
    silicon: &'a Arc<Silicon>,
    dhal: Arc<dyn Dhal>,
    latched: Latched,
    fail: Option<Step>,
    undo: Vec<Undo>,
}

impl Attempt<'_> {
    fn step(&self, step: Step, result: Result<(), Errno>) -> Result<(), ProbeError> {
        let errno = match result {
            Err(errno) => errno,
            Ok(()) if self.fail == Some(step) => Errno::ENOMEM,
            Ok(()) => return Ok(()),
        };
        Err(ProbeError::Step { step, errno })
    }

    fn run(&mut self) -> Result<Arc<Device>, ProbeError> {
        self.step(Step::Enable, Ok(()))?;
        self.set_command(COMMAND_ON);
        self.undo.push(Undo::Disable);
        for role in Role::ALL {
            self.reserve(role)?;
        }
        let mut windows = [Mapped::default(); 3];
        for (window, role) in windows.iter_mut().zip(Role::ALL) {
            *window = self.map(role)?;
        }
        let [bar0, bar2, bar4] = windows;
        let bars = Bars { bar0, bar2, bar4 };
        if bar0.address == 0 {
            return Err(ProbeError::Bug(Bug {
                quirk: "missing-register-bar",
                text: "the register window is not mapped and the routing id is read through it".into(),
            }));
        }
        let register_bar = self.dhal.bars().number(Role::Registers).ok().flatten().unwrap_or_default();
        let regs = Regs::new(self.silicon.clone(), register_bar, self.dhal.layout());
        let routing_id = self.routing_id(&regs)?;
        let (index, pci_device) = self.index(routing_id)?;
        let found = Found { index, routing_id, pci_device, revision: self.latched.revision, bars };
        let device = Device::new(found, self.silicon.clone(), regs, self.dhal.clone(), self.driver.env.clone());
        self.step(Step::DeviceInit, device_init(&device))?;
        self.step(Step::Register, Ok(()))?;
        self.driver.add(&device);
        self.undo.push(Undo::Node(index));
        self.step(Step::ResetThread, Ok(()))?;
        self.undo.push(Undo::Thread(device.clone()));
        start(&device);
        Ok(device)
    }

    /// Gives back what was taken, the last first.
    fn unwind(&mut self) {
        while let Some(undo) = self.undo.pop() {
            match undo {
                Undo::Disable => self.set_command(0),
                Undo::Region(bar) => self.driver.release_region(self.silicon.bdf(), bar),
                Undo::Node(index) => self.driver.remove(index),
                Undo::Thread(device) => device.reset.stop(&*device),
            }
        }
    }

    fn set_command(&self, word: u16) {
        self.silicon.config_write(offset::COMMAND, &word.to_le_bytes());
    }

    /// Reserves a window. The kernel succeeds for a window that is not there, and refuses one
    /// whose place is taken.
    fn reserve(&mut self, role: Role) -> Result<(), ProbeError> {
        let forgiven = self.dhal.bar_tolerance().reserve(role);
        let reserved = self.dhal.bars().number(role).and_then(|bar| {
            let Some(bar) = bar else { return Ok(None) };
            let taken = self.driver.reserve_region(self.silicon, bar)?;
            Ok(taken.then_some(bar))
        });
        let injected = self.step(Step::Reserve(role), reserved.map(|_| ()));
        if let Ok(Some(bar)) = reserved {
            self.undo.push(Undo::Region(bar));
        }
        if forgiven { Ok(()) } else { injected }
    }

    /// Maps a window; an unused one, and one that is missing and forgiven, is all zeros.
    fn map(&self, role: Role) -> Result<Mapped, ProbeError> {
        let forgiven = self.dhal.bar_tolerance().map(role);
        let window = self.dhal.bars().number(role).and_then(|bar| {
            let Some(bar) = bar else { return Ok(Mapped::default()) };
            let (address, bytes) = self.silicon.config(|c| (c.bar_address(bar), c.bar_size(bar)));
            if address != 0 && bytes != 0 {
                return Ok(Mapped { address, bytes });
            }
            self.log_missing(bar);
            Err(Errno::ENODEV)
        });
        match self.step(Step::Map(role), window.map(|_| ())) {
            Ok(()) => Ok(window.unwrap_or_default()),
            Err(_) if forgiven => Ok(Mapped::default()),
            Err(error) => Err(error),
        }
    }

    fn log_missing(&self, bar: usize) {
        let Bdf { domain, bus, slot, func } = self.silicon.bdf();
        let place = [format!("{domain:04x}"), format!("{bus:02x}"), format!("{slot:02x}")];
        let nums: [&dyn Display; 6] = [&place[0], &place[1], &place[2], &func, &bar, &0];
        let text = format!("{}.{func}: BAR {bar} has no window", place.join(":"));
        self.driver.env.log.line("probe_bar_missing", &nums, text);
    }

    fn routing_id(&self, regs: &Regs) -> Result<u32, ProbeError> {
        let id = self.read_routing_id(regs);
        self.step(Step::RoutingId, id.map(|_| ()))?;
        self.driver.count_device();
        Ok(id.unwrap_or_default())
    }

    fn read_routing_id(&self, regs: &Regs) -> Result<u32, Errno> {
        let env = &self.driver.env;
        if env.profile >= Profile::V2_26_5 && env.product.starts_with(DMI_FORCED_RID_0) {
            return Ok(0);
        }
        let pds = env.profile >= Profile::V2_26_5 && env.platform() == Platform::Pds;
        let task = Task::new();
        let patience = Duration::from_secs(if env.profile >= Profile::V2_26_5 { 30 } else { 15 });
        for attempt in 0..ROUTING_ID_TRIES {
            if attempt != 0 {
                crate::time::sleep(&*env.clock, &task, Duration::from_secs(1));
            }
            let offset = if pds { misc::SERVER_INFO } else { misc::ROUTING_ID };
            let word = regs.misc_alive(&*env.clock, &task, offset, patience);
            return match word {
                DEAD => continue,
                _ if pds => {
                    let id = word & 0x7fff;
                    if word & 0x8000 != 0 && id < MAX_ROUTING_ID_PDS { Ok(id) } else { Err(Errno::ENODEV) }
                }
                _ if word < MAX_ROUTING_ID => Ok(word),
                _ => Err(Errno::ENODEV),
            };
        }
        Err(Errno::ENODEV)
    }

    /// Device index of the routing id, if no other device has it.
    fn index(&self, routing_id: u32) -> Result<(u32, u16), ProbeError> {
        let driver = self.driver;
        let pci_device = self.silicon.config(|c| c.device());
        let index = self.dhal.device_index(pci_device, routing_id);
        if index as usize >= MAX_DEVICES {
            return Err(ProbeError::Bug(Bug {
                quirk: "device-index",
                text: format!("device table indexed with {index}, which is beyond its end"),
            }));
        }
        let (bdf, arch) = (self.silicon.bdf(), self.dhal.arch());
        let (bus, slot) = (format!("{:02x}", bdf.bus), format!("{:02x}", bdf.slot));
        // The lines of some generations begin with the architecture number.
        let skip = usize::from(!self.dhal.probe_line_has_arch());
        let nums: [&dyn Display; 6] = [&arch, &bus, &slot, &bdf.func, &index, &routing_id];
        let text = format!("{bus}:{slot}.{} routing id {routing_id} is neuron{index}", bdf.func);
        driver.env.log.line("device_number_assigned", &nums[skip..], text);
        let taken = driver.device(index).is_some();
        if taken {
            let nums: [&dyn Display; 2] = [&arch, &routing_id];
            let text = format!("routing id {routing_id} was found before");
            driver.env.log.line("duplicate_routing_id", &nums[skip..], text);
            if driver.env.params.flag("dup_helper_enable") {
                // The helper is a program of the host; the recording guest had none.
                driver.env.log.line("duplicate_routing_id", &[], "module unload scheduled".into());
            }
        }
        self.step(Step::Index, if taken { Err(Errno::ENODEV) } else { Ok(()) })?;
        Ok((index, pci_device))
    }
}

/// Host pools of a device; the parameter gives the bytes of one (measured).
const HOST_POOLS: u64 = 4;

/// Memory, rings and counters of a device that was just put together.
fn device_init(device: &Device) -> Result<(), Errno> {
    let bytes = device.env.params.get("mempool_host_memory_size").unwrap_or(0).saturating_mul(HOST_POOLS);
    device.env.log.line("host_pool_reserved", &[&bytes], format!("{bytes} bytes of host memory reserved"));
    device.set_up()
}

/// The worker starts with a whole-device reset; the metrics thread starts as well.
fn start(device: &Arc<Device>) {
    let target = device.target();
    device.reset.start(target.clone());
    device.reset.submit(&*target, &Task::new(), NC_MAP_DEVICE, RESET_REQUEST_ALL);
    let env = &device.env;
    let delay = env.params.get("nmetric_metric_post_delay").unwrap_or(0);
    let nums: [&dyn Display; 3] = [&METRICS, &delay, &METRICS_TICK_MS];
    let text = format!("metrics of neuron{} are looked at every {METRICS_TICK_MS} ms", device.index);
    env.log.line("metrics_thread_started", &nums, text);
}

/// What the line of the metrics thread says: number of metrics, and the length of its sleep.
const METRICS: u32 = 13;
const METRICS_TICK_MS: u32 = 250;
