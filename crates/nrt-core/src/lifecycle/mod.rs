//! The life of the runtime: `nrt_init`, `nrt_close`, fork, and what is up in between
//! (`facts/runtime/lifecycle.md`).
//!
//! Order of an init: discover the devices, read the configuration, ask the driver whether it fits,
//! claim cores, open and reset their devices, set up memory, publish. Each step owns what it made, so
//! a failing step drops the earlier ones and leaves START.

mod fork;
mod host;
mod state;
mod usage;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use arc_swap::ArcSwapOption;
use neuron_abi::Status;
use neuron_abi::kernel::values::NdsDeviceCounter;
use neuron_driver::requests::CoreMap;
use parking_lot::Mutex;

pub use host::{host_device_id, no_attached_adapter, routing_ids};
pub use state::{GateClass, State, decide, gate, state};
pub use usage::Usage;

use crate::device::claim::{self, Grant};
use crate::device::count::Wanted;
use crate::device::layer::{self, Broken, Layer};
use crate::device::{self, Backend, DevInfo, Source};
use crate::exec::{self, Scheduler};
use crate::tensor::{TensorStore, memory};
use crate::{Result, config, coredump, dump, log, log_debug, log_error, log_info, log_warn, version};

/// Largest `nrt_framework_type_t` (`abi/enums.tsv`).
const FRAMEWORK_MAX: u32 = 5;

/// Who brings the runtime up, as `nrt_init` is told.
#[derive(Clone, Copy)]
struct Framework<'a> {
    number: u32,
    version: &'a str,
    fal_version: &'a str,
}

/// What is up between `nrt_init` and `nrt_close`.
pub struct Runtime {
    /// Hardware shape found by discovery.
    pub info: DevInfo,
    /// The logical cores of this process; the API's `vnc` is a position in this run.
    pub grant: Grant,
    /// Use counters of those cores.
    pub usage: Usage,
    /// Tensors and the memory behind them.
    pub tensors: TensorStore,
    /// Queues of the asynchronous calls.
    pub scheduler: Scheduler,
    /// What is held of real devices; `None` in simulation. `nrt_close` takes it out, because it must
    /// be gone before another init, and calls that are still at work keep the rest of this alive.
    layer: Mutex<Option<Layer>>,
}

/// Read without a lock: polls come all the time, and none may wait for an init or close.
static RUNTIME: ArcSwapOption<Runtime> = ArcSwapOption::const_empty();

/// The running runtime. A call holds its own reference, so a racing `nrt_close` cannot pull the
/// memory from under it.
///
/// # Errors
/// `Uninitialized` when nothing is up; the gate has usually said so before.
pub fn runtime() -> Result<Arc<Runtime>> {
    runtime_if_up().ok_or_else(not_up)
}

/// [`runtime`] for the length of `body` alone, which must not wait for anything: cheaper for calls
/// that are made all the time.
///
/// # Errors
/// As [`runtime`], and those of `body`.
pub fn with_runtime<R>(body: impl FnOnce(&Runtime) -> Result<R>) -> Result<R> {
    match &*RUNTIME.load() {
        Some(runtime) if state() == State::Init => body(runtime),
        _ => Err(not_up()),
    }
}

fn not_up() -> Status {
    decide(GateClass::InitRequired, state()).err().unwrap_or(Status::Uninitialized)
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
    // Not from the configuration while up: a caller that loses the processor between state and number
    // would find what the parse of the next init leaves there for a while.
    if let Some(runtime) = runtime_if_up() {
        return Ok(runtime.grant.count);
    }
    match state() {
        State::Child => Ok(config::visible_len()),
        State::Start | State::Init | State::Closed => device::visible_vnc_count_from_env(),
    }
}

/// Physical cores of a logical core: what `nrt_init` settled, or before it what the environment asks for.
///
/// # Errors
/// Before init, the status of the device query or of the logical core size.
pub fn lnc_size() -> Result<u32> {
    match runtime_if_up() {
        Some(runtime) => Ok(runtime.grant.size),
        None => config::lnc_size(&device::shape(&device::dev_info()?)),
    }
}

fn runtime_if_up() -> Option<Arc<Runtime>> {
    if state() == State::Init { RUNTIME.load_full() } else { None }
}

/// Which backend is, or before init would be, at work; `None` when there is no device at all.
pub fn backend() -> Option<Backend> {
    match runtime_if_up() {
        Some(runtime) => Some(runtime.info.backend),
        None => device::look().ok().map(|info| info.backend),
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
        State::Child | State::Closed => return gate("nrt_init", GateClass::InitRequired),
    }
    fork::register()?;
    let _turn = fork::Transition::begin();
    match state() {
        State::Start => {}
        State::Init => return already_up(),
        State::Child | State::Closed => return gate("nrt_init", GateClass::InitRequired),
    }
    log::reconfigure();
    match bring_up(Framework { number: framework, version: fw_version, fal_version }) {
        Ok(runtime) => {
            if dump::due(log::Level::Info) {
                dump::dump_success(&facts(Some(&runtime)));
            }
            Ok(())
        }
        Err(Broken { status, error }) => {
            match error {
                Some(error) => report_device_failure("nrt_init", status, &error),
                None => report_failure("nrt_init", status),
            }
            Err(status)
        }
    }
}

/// Print the information dump for the first call of the process that failed.
pub fn report_failure(api: &str, status: Status) {
    if dump::due(log::Level::Error) {
        dump::dump_failure(&facts(runtime_if_up().as_deref()), api, status);
    }
}

/// [`report_failure`] of a call that `error` of a device made fail. A device that is broken, not one
/// that was asked for too much, is handed over to the core-dump helper, once a process: what it
/// would find the next time is the same.
pub(crate) fn report_device_failure(api: &str, status: Status, error: &neuron_driver::Error) {
    static DUMPED: AtomicU64 = AtomicU64::new(0);
    report_failure(api, status);
    let bit = 1_u64.checked_shl(error.device).unwrap_or(0);
    if !layer::is_device_failure(error) || DUMPED.fetch_or(bit, Ordering::Relaxed) & bit != 0 {
        return;
    }
    let templates = config::core_dump_templates();
    let request = coredump::Request {
        variables: &coredump::PathVariables::of_this_thread(None, None),
        failure: status,
        neff_name: None,
        neff_uuid: None,
        error_location: Some(error.what),
        device: Some(error.device),
        core: None,
        generated: None,
    };
    if let Err(error) = coredump::run_helper(&coredump::Gate::new(templates.local, templates.s3), &request) {
        log_error!(Nrt, api, "The core-dump helper {} failed: {error}", coredump::HELPER);
    }
}

fn already_up() -> Result<()> {
    log_settings();
    Ok(())
}

/// The vendor's line about an init, which shows three members of the configuration.
fn log_settings() {
    if log::enabled(log::Level::Debug, log::Module::Nrt) {
        let root = config::cc_root_comm_id().unwrap_or_else(|| "(null)".into());
        let (cores, reset) = (config::num_cores_requested(), u32::from(config::reset_cores()));
        log_debug!(Nrt, "nrt_init", "API:IN: (cc_root_comm_id={root}, num_cores={cores}, reset_cores={reset})");
    }
}

fn bring_up(framework: Framework<'_>) -> std::result::Result<Arc<Runtime>, Broken> {
    const API: &str = "nrt_init";
    if framework.number > FRAMEWORK_MAX {
        log_error!(
            Nrt,
            API,
            "framework type {} is not one of 0 to {FRAMEWORK_MAX}, use NRT_FRAMEWORK_TYPE_NO_FW",
            framework.number
        );
        return Err(Status::Invalid.into());
    }
    step(Step::Discover)?;
    let info = device::dev_info()?;

    step(Step::Configure)?;
    let shape = device::shape(&info);
    let pending = config::parse_init(&shape)?;
    log::set_coalescing(config::log_coalescing());
    log_settings();
    log_info!(
        Nrt,
        API,
        "Neuron Runtime {} built on {} (OpenNRT {}, {} backend)",
        version::VENDOR_TEXT,
        version::BUILT_ON,
        version::OPENNRT,
        info.backend.name()
    );
    let Framework { number, version, fal_version } = framework;
    log_debug!(Nrt, API, "framework {number} \"{version}\" \"{fal_version}\"");

    let mut layer = match device::source()? {
        Source::Simulated(_) => None,
        Source::Kernel(host) => {
            step(Step::Compatible)?;
            Some(Layer::new(&host, &info)?)
        }
    };

    step(Step::Claim)?;
    let size = config::lnc_size(&shape)?;
    let wanted = Wanted::from_config()?;
    let number_set = config::num_cores()?.is_some();
    let mut simulated = claim::Simulated;
    let marker: &mut dyn claim::Marker = match &mut layer {
        Some(layer) => layer,
        None => &mut simulated,
    };
    let grant = claim::allocate(&info, size, &wanted, number_set, marker)?;
    let usage = Usage::new(grant.count as usize).inspect_err(|_| {
        log_error!(
            Nrt,
            API,
            "{} logical cores are more than one process can use, ask for at most {}",
            grant.count,
            usage::MAX_CORES
        )
    })?;

    if let Some(layer) = &mut layer {
        bring_up_devices(layer, grant, framework).inspect_err(|broken| {
            log_error!(Nrt, API, "Failed to initialize devices, error:{}", broken.status.code());
        })?;
    }

    step(Step::Memory)?;
    let spec = memory::Spec {
        arch: info.arch,
        devices: info.devices.clone(),
        cores_per_device: info.cores_per_device,
        core_map: layer.as_ref().map_or_else(CoreMap::default, |layer| layer.core_map().clone()),
        lnc: size,
        visible: grant.logical().collect(),
        hbm_bytes_per_device: u64::from(info.hbm_mib()?) << 20,
        p2p: config::p2p_enabled(),
        funtime: info.backend == Backend::Fake,
    };
    let tensors = match &layer {
        None => TensorStore::fake(spec)?,
        Some(layer) => {
            let memory = memory::driver::DriverMemory::new(info.arch, info.cores_per_device, layer.devices());
            TensorStore::with_backend(spec, Box::new(memory))?
        }
    };

    step(Step::Publish)?;
    let visible: Vec<u32> = grant.logical().collect();
    config::set_visible(&visible);
    config::publish(pending);
    let settings =
        exec::Settings { compute_depth: config::compute_queue_depth(), in_flight: config::implicit_in_flight() };
    let scheduler = Scheduler::new(tensors.cores(), settings);
    let runtime = Arc::new(Runtime { info, grant, usage, tensors, scheduler, layer: Mutex::new(layer) });
    RUNTIME.store(Some(runtime.clone()));
    fork::mark_used();
    state::set(State::Init);
    Ok(runtime)
}

/// The part of an init that only real devices need: open, reset, clear, announce.
fn bring_up_devices(layer: &mut Layer, grant: Grant, framework: Framework<'_>) -> std::result::Result<(), Broken> {
    step(Step::Open)?;
    layer.open(grant)?;

    step(Step::Reset)?;
    if config::reset_cores() {
        layer.reset()?;
    }

    step(Step::Scrub)?;
    if let Some(value) = config::hbm_scrub() {
        layer.scrub(value)?;
    }

    step(Step::Announce)?;
    let mut versions = vec![(NdsDeviceCounter::RuntimeVersion, layer::version_counter(version::VENDOR_TEXT))];
    if framework.number != 0 {
        versions.push((NdsDeviceCounter::FrameworkVersion, layer::version_counter(framework.version)));
        versions.push((NdsDeviceCounter::FalVersion, layer::version_counter(framework.fal_version)));
    }
    layer.publish(&versions);
    for vcore in 0..grant.count {
        log_info!(Tdrv, "tdrv_init", "Initialized vcore: {vcore}");
    }
    Ok(())
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
    if exec::on_worker() {
        log_error!(Nrt, API, "The callback of a job cannot close the runtime, which waits for it; use another thread");
        return;
    }
    let _turn = fork::Transition::begin();
    if state() != State::Init {
        return;
    }
    state::set(State::Closed);
    let runtime = RUNTIME.swap(None);
    if let Some(runtime) = &runtime {
        // First: what was accepted still needs everything else.
        runtime.scheduler.close();
        let users = Arc::strong_count(runtime) - 1;
        if users > 0 {
            log_warn!(Nrt, API, "{users} calls are still at work, what they use is released when they end");
        }
        // Claims and descriptors, which calls at work keep for themselves as long as they need them.
        drop(runtime.layer.lock().take());
    }
    drop(runtime);
    config::unpublish();
    state::set(State::Start);
}

fn facts(runtime: Option<&Runtime>) -> dump::Facts {
    let mut facts = dump::Facts {
        git_hash: version::GIT_HASH.into(),
        driver: device::driver_version(),
        ..dump::Facts::of_this_host()
    };
    if let Some(runtime) = runtime {
        facts.lnc = runtime.grant.size;
        facts.visible_cores = runtime.grant.logical().collect();
    }
    facts
}

/// The points of `nrt_init` between which something is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumIter)]
enum Step {
    Discover,
    Configure,
    Compatible,
    Claim,
    Open,
    Reset,
    Scrub,
    Announce,
    Memory,
    Publish,
}

#[cfg(test)]
impl Step {
    /// Steps a simulated instance does not take.
    fn of_devices(self) -> bool {
        use Step::{Announce, Compatible, Open, Reset, Scrub};
        matches!(self, Compatible | Open | Reset | Scrub | Announce)
    }
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

#[cfg(test)]
mod tests;
