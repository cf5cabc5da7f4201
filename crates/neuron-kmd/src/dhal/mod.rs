//! Everything that differs between silicon generations, behind one trait.
//!
//! `V2`, `V3` and `V4` implement [`Dhal`]; V4 holds a V3, forwards to it and
//! overrides a few items. **No other module may match on the architecture**: a new difference is
//! a new item here. Differences between driver releases that hold for one generation only are
//! decided inside the implementation, from [`Env::profile`].

mod v2;
mod v3;
mod v4;

use std::sync::Arc;
use std::time::Duration;

use neuron_abi::kernel::values::{MAX_CORES, Platform, PodElectionState, REVISION_EMU, REVISION_QEMU};
use neuron_hw::regs::{DEAD, Layout, misc};

use crate::env::Env;
use crate::profile::Profile;
use crate::regs::{DEAD_READ_PAUSE, Regs};
use crate::reply::Errno;
use crate::reset::{HandshakeError, Pause, Record};

/// What a window is for. The names `bar0`, `bar2` and `bar4` of descriptors are these roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Registers (APB).
    Registers,
    /// AXI, unused on every modelled generation.
    Axi,
    /// Device memory.
    Dram,
}

impl Role {
    /// All roles, in the order the probe goes through them.
    pub const ALL: [Role; 3] = [Role::Registers, Role::Axi, Role::Dram];
}

/// PCI BAR numbers by role; -1 is "unused".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarProfile {
    /// Registers.
    pub apb: i32,
    /// Unused on every modelled generation.
    pub axi: i32,
    /// Device memory.
    pub dram: i32,
}

impl BarProfile {
    /// BAR number of a role; `None` when the role is unused.
    ///
    /// # Errors
    /// `ENODEV` for a number that is neither a BAR nor -1.
    pub fn number(&self, role: Role) -> Result<Option<usize>, Errno> {
        let number = match role {
            Role::Registers => self.apb,
            Role::Axi => self.axi,
            Role::Dram => self.dram,
        };
        match number {
            -1 => Ok(None),
            0..=5 => Ok(Some(number as usize)),
            _ => Err(Errno::ENODEV),
        }
    }
}

/// What happens when a BAR cannot be reserved or mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarTolerance {
    /// A missing memory window is forgiven.
    pub dram: bool,
    /// A register window without an assigned place is forgiven (and oopses afterwards).
    pub unassigned_registers: bool,
}

impl BarTolerance {
    /// Whether a failing reservation is forgiven.
    pub fn reserve(&self, role: Role) -> bool {
        role == Role::Dram && self.dram
    }

    /// Whether a failing mapping is forgiven.
    pub fn map(&self, role: Role) -> bool {
        match role {
            Role::Registers => self.unassigned_registers,
            Role::Axi => false,
            Role::Dram => self.dram,
        }
    }
}

/// Names the driver prints for a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Names {
    /// `info/architecture/arch_type` of a device.
    pub device_arch: &'static str,
    /// `info/architecture/arch_type` of a core.
    pub core_arch: &'static str,
    /// `info/architecture/instance_type`.
    pub instance: &'static str,
    /// `info/architecture/device_name`.
    pub chip: &'static str,
}

/// Scalars of the reset engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResetTiming {
    /// Deadline of the handshake.
    pub initiate: Duration,
    /// Tries of the completion wait.
    pub retries: u32,
}

/// What a reset callback works on.
pub struct ResetCx<'a> {
    /// Registers of the device.
    pub regs: &'a Regs,
    /// The module load.
    pub env: &'a Env,
    /// Sleep of the worker that a stop cuts short.
    pub pause: &'a Pause<'a>,
    /// Latched PCI revision.
    pub revision: u8,
    /// What resets leave behind.
    pub record: &'a Record,
}

impl ResetCx<'_> {
    /// Reads a mailbox word. A dead one is read again, 15 s long in 2.24.7 and 30 s later;
    /// `None` when it is still dead then.
    ///
    /// # Errors
    /// The engine was stopped meanwhile.
    pub fn misc_alive(&self, offset: u64) -> Result<Option<u32>, HandshakeError> {
        let patience = if self.env.profile == Profile::V2_24_7 { 15 } else { 30 };
        let end = self.pause.now() + Duration::from_secs(patience);
        loop {
            let word = self.regs.misc(offset);
            if word != DEAD {
                return Ok(Some(word));
            }
            if self.pause.now() >= end {
                return Ok(None);
            }
            self.pause.sleep(DEAD_READ_PAUSE).map_err(|_| HandshakeError::Stopped)?;
        }
    }
}

/// Revision of the silicon as the driver tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stepping {
    /// A real part.
    Silicon,
    /// Pre-silicon emulator.
    Emu,
    /// Virtual machine model.
    Qemu,
}

impl Stepping {
    /// From the latched PCI revision byte.
    pub fn of(revision: u8) -> Self {
        match revision {
            REVISION_EMU => Stepping::Emu,
            REVISION_QEMU => Stepping::Qemu,
            _ => Stepping::Silicon,
        }
    }
}

/// Operations and values of one silicon generation.
pub trait Dhal: Send + Sync {
    /// Register and address map.
    fn layout(&self) -> &'static Layout;

    /// Architecture number.
    fn arch(&self) -> u32;

    /// BAR numbers; they depend on the revision.
    fn bars(&self) -> BarProfile;

    /// What the probe forgives.
    fn bar_tolerance(&self) -> BarTolerance;

    /// Cores of a device.
    fn core_count(&self) -> u32;

    /// Names of the product with this PCI device id.
    fn names(&self, device: u16) -> Names;

    /// Whether the log line of a found device begins with the architecture number.
    fn probe_line_has_arch(&self) -> bool;

    /// Whether a copy that hangs while the device is reset is tried again. Such a generation
    /// cannot copy from a client's pages directly.
    fn retries_copies(&self) -> bool;

    /// Whether a memory channel can be mapped as one resource.
    fn maps_channels(&self) -> bool;

    /// First of the [`SCRUB_ENGINES`] engines that clear a memory channel.
    fn scrub_engine(&self, nc_id: u32, hbm_index: u32) -> Option<u32>;

    /// Device index for a routing id.
    fn device_index(&self, device: u16, routing_id: u32) -> u32;

    /// Neighbours of a device among `count`, in the order they are printed. Empty when the
    /// instance has no known topology.
    fn neighbours(&self, device: u16, index: u32, count: u32) -> Vec<u32>;

    /// Physical core of each logical core of all devices, 16 × 8; `None` when the command is
    /// not supported.
    fn core_map(&self, flipped: bool) -> Option<Vec<(u32, u32)>>;

    /// Uncorrectable memory errors. `word` gives a mailbox word, `None` for a dead one.
    fn memory_errors(&self, word: &dyn Fn(u64) -> Option<u32>) -> u32;

    /// Memory errors that can be repaired.
    fn repairable_memory_errors(&self, word: &dyn Fn(u64) -> Option<u32>) -> u32;

    /// Whether `PROGRAM_ENGINE` reaches device memory (measured on Trn3).
    fn programs_memory(&self) -> bool;

    /// Whether the addresses in descriptors of clients are looked at.
    fn checks_descriptors(&self) -> bool;

    /// Whether power profiles are a matter of the firmware; else there is one and it is set.
    fn has_power_profiles(&self) -> bool;

    /// Whether `POD_CTRL` writes a state outside of a pod.
    fn pod_ctrl_writes_state(&self) -> bool;

    /// Reset scalars.
    fn reset_timing(&self) -> ResetTiming;

    /// Firmware map of a core map: low and high word.
    fn reset_map(&self, env: &Env, nc_map: u32) -> (u32, u32);

    /// Starts a reset and waits until the firmware accepted it.
    ///
    /// # Errors
    /// Why it was not accepted.
    fn initiate_reset(&self, cx: &ResetCx<'_>, nc_map: u32) -> Result<(), HandshakeError>;

    /// Waits until the device is through with a reset.
    ///
    /// # Errors
    /// Still busy after the last try, or stopped.
    fn wait_for_reset(&self, cx: &ResetCx<'_>) -> Result<(), HandshakeError>;

    /// Configuration after a whole-device reset.
    ///
    /// # Errors
    /// What the configuration says.
    fn post_reset(&self, cx: &ResetCx<'_>, success: bool, no_reset: bool) -> Result<(), HandshakeError>;
}

/// Engines that clear a memory channel together.
pub const SCRUB_ENGINES: u32 = 16;

/// The operations of an architecture number; `None` for one that is not modelled.
pub fn select(arch: u32, revision: u8, env: &Env) -> Option<Arc<dyn Dhal>> {
    let (profile, stepping) = (env.profile, Stepping::of(revision));
    if arch == 4 && stepping == Stepping::Emu {
        // The emulator of this generation cannot be reset; the parameter shows it.
        let _ = env.params.set("no_reset", "1");
    }
    let asked = env.params.get("nc_per_dev_param").unwrap_or(1).min(MAX_CORES as u64) as u32;
    let small_core_count = (stepping == Stepping::Emu).then_some(asked);
    let pds = env.platform() == Platform::Pds;
    Some(match arch {
        2 => Arc::new(v2::V2 { profile, stepping, small_core_count }),
        3 => Arc::new(v3::V3 { profile, stepping, small_core_count, pds }),
        4 => Arc::new(v4::V4(v3::V3 { profile, stepping, small_core_count, pds })),
        _ => return None,
    })
}

/// BAR numbers of an architecture without a device; `None` for one that is not modelled.
pub fn bar_profile(arch: u32, revision: u8, profile: Profile) -> Option<BarProfile> {
    let (stepping, small_core_count, pds) = (Stepping::of(revision), None, false);
    Some(match arch {
        2 => v2::V2 { profile, stepping, small_core_count }.bars(),
        3 => v3::V3 { profile, stepping, small_core_count, pds }.bars(),
        4 => v4::V4(v3::V3 { profile, stepping, small_core_count, pds }).bars(),
        _ => return None,
    })
}

/// Sum of the error counts of the first `channels` memory channels. A dead word counts nothing.
fn channel_errors(word: &dyn Fn(u64) -> Option<u32>, channels: u32) -> u32 {
    (0..u64::from(channels)).filter_map(|channel| word(misc::ECC_HBM0 + 4 * channel)).map(|w| w & 0xffff).sum()
}

/// Completion wait all generations share: so many status reads with a growing pause after each,
/// also after the last.
fn poll_status(cx: &ResetCx<'_>, tries: u32) -> Result<(), HandshakeError> {
    for index in 0..tries {
        if cx.misc_alive(misc::STATUS)?.is_some_and(|status| status & misc::STATUS_BUSY == 0) {
            return Ok(());
        }
        cx.pause.sleep(COMPLETION_BACKOFF * index).map_err(|_| HandshakeError::Stopped)?;
    }
    Err(HandshakeError::TimedOut)
}

/// Post-reset configuration of the third and fourth generation.
fn configure_after_reset(cx: &ResetCx<'_>, success: bool) -> Result<(), HandshakeError> {
    if !success {
        return Ok(());
    }
    if cx.env.profile >= Profile::V2_27_4 && cx.record.hbm_7200().is_none() {
        // No table says where the kind of memory is read; the emulated parts have the slower one.
        cx.record.found_hbm_7200(false);
    }
    if matches!(cx.env.platform(), Platform::Ultraserver | Platform::Pds) {
        cx.record.elected(elect(cx));
    }
    Ok(())
}

/// A pod election as far as one machine gets: without neighbours it is a pod of its own, and
/// neighbours that belong to other machines are not emulated.
fn elect(cx: &ResetCx<'_>) -> PodElectionState {
    let alone = (0..4).all(|i| cx.regs.misc(misc::NEIGHBOUR_SERIALS + 4 * i) == 0);
    if alone { PodElectionState::SingleNode } else { PodElectionState::Failed }
}

/// Pause after try `i` of the completion wait is `i` times this.
const COMPLETION_BACKOFF: Duration = Duration::from_millis(100);

/// Completion wait of the virtual machine model: the doorbell reads 0 when the reset is done.
fn poll_doorbell(cx: &ResetCx<'_>, doorbell: u64) -> Result<(), HandshakeError> {
    loop {
        if cx.regs.read(doorbell) == 0 {
            return Ok(());
        }
        cx.pause.sleep(Duration::from_secs(2)).map_err(|_| HandshakeError::Stopped)?;
    }
}

/// Neighbours from a table of 16 that repeats in blocks, when the count allows it.
fn from_table(table: &[[u32; 4]; 16], index: u32, count: u32) -> Vec<u32> {
    if count == 0 || !count.is_multiple_of(16) {
        return Vec::new();
    }
    table[index as usize % 16].iter().map(|n| n | index & !15).collect()
}
