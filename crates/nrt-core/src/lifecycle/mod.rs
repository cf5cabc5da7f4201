//! The life of the runtime: `nrt_init`, `nrt_close`, fork, and what is up in between
//! (`facts/runtime/lifecycle.md`).
//!
//! Order of an init: discover the devices, read the configuration, claim cores, set up memory,
//! publish. Each step owns what it made, so a failing step drops the earlier ones and leaves START.

mod fork;
mod state;
mod usage;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use neuron_abi::Status;
use parking_lot::{Mutex, RwLock};

pub use state::{GateClass, State, decide, gate, state};
pub use usage::Usage;

use crate::device::{self, Backend, DevInfo};
use crate::{Result, config, dump, instance, log, log_debug, log_error, log_info, log_warn, tensor, version};

/// Largest `nrt_framework_type_t` (`abi/enums.tsv`).
const FRAMEWORK_MAX: u32 = 5;

/// What is up between `nrt_init` and `nrt_close`.
pub struct Runtime {
    /// Hardware shape found by discovery.
    pub info: DevInfo,
    /// Logical core size.
    pub lnc: u32,
    /// Instance-wide indices of this process's logical cores; the API's `vnc` is a position here.
    pub visible: Vec<u32>,
    /// Use counters of those cores.
    pub usage: Usage,
    /// Tensors and the memory behind them.
    pub tensors: tensor::TensorStore,
    /// Settings a running program can ask for.
    pub settings: config::Settings,
}

/// Serialises `nrt_init` and `nrt_close`. Never taken in a forked child: see [`fork`].
static TRANSITION: Mutex<()> = Mutex::new(());
static RUNTIME: RwLock<Option<Arc<Runtime>>> = RwLock::new(None);
/// Length of the visible list, kept for INIT and CHILD so that counting needs no lock.
static VISIBLE: AtomicU32 = AtomicU32::new(0);

/// The running runtime. A call holds its own reference, so a racing `nrt_close` cannot pull the
/// memory from under it.
///
/// # Errors
/// `Uninitialized` when nothing is up; the gate has usually said so before.
pub fn runtime() -> Result<Arc<Runtime>> {
    if state() != State::Init {
        return decide(GateClass::Init, state()).and(Err(Status::Uninitialized));
    }
    RUNTIME.read().clone().ok_or(Status::Uninitialized)
}

/// Number of logical cores of the whole instance. Works in every state.
///
/// # Errors
/// The status of the device query or of the logical core size.
pub fn total_vnc_count() -> Result<u32> {
    device::total_vnc_count()
}

/// Number of logical cores this process can use: what `nrt_init` got, or, before it, what the
/// environment asks for.
///
/// # Errors
/// Before init, the status of the device query, the logical core size or the list of cores.
pub fn visible_vnc_count() -> Result<u32> {
    match state() {
        State::Init | State::Child => Ok(VISIBLE.load(Ordering::Acquire)),
        State::Start | State::Closed => device::visible_vnc_count_from_env(),
    }
}

/// Which backend is, or before init would be, at work; `None` when there is no device at all.
pub fn backend() -> Option<Backend> {
    match RUNTIME.try_read().as_deref() {
        Some(Some(runtime)) => Some(runtime.info.backend),
        _ => device::peek_backend(),
    }
}

/// `nrt_init`. A second call while up does nothing and succeeds.
///
/// # Errors
/// `Failure` in a forked child or for busy cores, `Closed` while a close is at work, `Invalid` for
/// no device, a bad setting or a framework number above 5. After an error the state is START and
/// nothing is held.
pub fn init(framework: u32, fw_version: &str, fal_version: &str) -> Result<()> {
    match state() {
        State::Start => {}
        State::Init => return already_up(),
        State::Child | State::Closed => return gate("nrt_init", GateClass::Init),
    }
    fork::register()?;
    let _lock = TRANSITION.lock();
    match state() {
        State::Start => {}
        State::Init => return already_up(),
        State::Child | State::Closed => return gate("nrt_init", GateClass::Init),
    }
    let _transition = fork::Transition::begin();
    log::reconfigure();
    let result = bring_up(framework, fw_version, fal_version);
    match &result {
        Ok(runtime) => dump::dump_success(&facts(Some(runtime))),
        Err(status) => dump::dump_failure(&facts(None), "nrt_init", *status),
    }
    result.map(drop)
}

fn already_up() -> Result<()> {
    let (root, cores, reset) = config::summary();
    log_debug!(Nrt, "nrt_init", "API:IN: (cc_root_comm_id={root}, num_cores={cores}, reset_cores={reset})");
    log_debug!(Nrt, "nrt_init", "API:OUT: (ret=0)");
    Ok(())
}

fn bring_up(framework: u32, fw_version: &str, fal_version: &str) -> Result<Arc<Runtime>> {
    const API: &str = "nrt_init";
    if framework > FRAMEWORK_MAX {
        log_error!(Nrt, API, "framework type {framework} is not one of 0 to {FRAMEWORK_MAX}, use NRT_FRAMEWORK_TYPE_NO_FW");
        return Err(Status::Invalid);
    }
    step(Step::Discover)?;
    let info = device::dev_info()?;
    let family = instance::family_now()?;

    step(Step::Configure)?;
    let shape = config::Shape { arch: info.arch, family, cores_per_device: info.cores_per_device };
    let pending = config::parse_init(&shape)?;
    let settings = pending.settings();
    log::set_coalescing(settings.log_coalescing);
    log_info!(
        Nrt,
        API,
        "Neuron Runtime {} built on {} (OpenNRT {}, {} backend, framework {framework} {fw_version} {fal_version})",
        version::VENDOR_TEXT,
        version::BUILT_ON,
        version::OPENNRT,
        info.backend
    );
    if info.backend == Backend::Kernel {
        log_error!(
            Nrt,
            API,
            "OpenNRT {} counts and identifies real devices but cannot start them yet, set NEURON_RT_FAKE_INSTANCE_TYPE to simulate",
            version::OPENNRT
        );
        return Err(Status::Failure);
    }

    step(Step::Claim)?;
    let lnc = settings.lnc;
    let visible = device::claim::resolve(&info, lnc, settings.visible_cores.as_deref(), settings.num_cores)?;

    step(Step::Memory)?;
    let usage = Usage::new(visible.len()).inspect_err(|_| {
        log_error!(Nrt, API, "{} logical cores are more than one process can use, ask for at most {}", visible.len(), usage::MAX_CORES)
    })?;
    let tensors = tensor::TensorStore::new(&tensor::Layout {
        arch: info.arch,
        devices: info.devices.clone(),
        cores_per_device: info.cores_per_device,
        lnc,
        visible: visible.clone(),
        hbm_bytes_per_device: hbm_bytes_per_device()?,
        p2p: settings.enable_p2p,
        simulated: info.backend == Backend::Fake,
    })?;

    step(Step::Publish)?;
    config::set_visible(&visible);
    config::publish(pending);
    VISIBLE.store(visible.len() as u32, Ordering::Release);
    let runtime = Arc::new(Runtime { info, lnc, visible, usage, tensors, settings });
    *RUNTIME.write() = Some(runtime.clone());
    fork::mark_used();
    state::set(State::Init);
    Ok(runtime)
}

fn hbm_bytes_per_device() -> Result<u64> {
    let product = config::fake_product()?.map_or(0, |p| u64::from(p.hbm_mib) << 20);
    Ok(config::opennrt_hbm_mib()?.map_or(product, |mib| mib << 20))
}

/// `nrt_close`. Does nothing unless the runtime is up.
///
/// The vendor's library logs an ERROR here when it is not up; programs that close in an exit
/// handler without ever having used a device complained, so it is a DEBUG line.
pub fn close() {
    const API: &str = "nrt_close";
    if state() != State::Init {
        log_debug!(Nrt, API, "nothing to close in state {}", state().name());
        return;
    }
    let _lock = TRANSITION.lock();
    if state() != State::Init {
        return;
    }
    let _transition = fork::Transition::begin();
    state::set(State::Closed);
    let runtime = RUNTIME.write().take();
    if let Some(runtime) = &runtime {
        let users = Arc::strong_count(runtime) - 1;
        if users > 0 {
            log_warn!(Nrt, API, "{users} calls are still at work, what they use is released when they end");
        }
    }
    drop(runtime);
    config::unpublish();
    state::set(State::Start);
}

fn facts(runtime: Option<&Runtime>) -> dump::Facts {
    dump::Facts::gather(runtime.map(|r| (r.lnc, r.visible.as_slice())))
}

/// The points of `nrt_init` between which something is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumIter)]
enum Step {
    Discover,
    Configure,
    Claim,
    Memory,
    Publish,
}

#[cfg(not(test))]
#[inline(always)]
fn step(_: Step) -> Result<()> {
    Ok(())
}

#[cfg(test)]
thread_local!(static FAIL_AT: std::cell::Cell<Option<Step>> = const { std::cell::Cell::new(None) });

#[cfg(test)]
fn step(step: Step) -> Result<()> {
    if FAIL_AT.get() == Some(step) { Err(Status::Resource) } else { Ok(()) }
}
