//! The life of the runtime: `nrt_init`, `nrt_close`, fork, and what is up in between
//! (`facts/runtime/lifecycle.md`).
//!
//! Order of an init: discover the devices, read the configuration, claim cores, set up memory,
//! publish. Each step owns what it made, so a failing step drops the earlier ones and leaves START.

mod fork;
mod state;
mod usage;

use std::sync::Arc;

use neuron_abi::Status;
use parking_lot::RwLock;

pub use state::{GateClass, State, decide, gate, state};
pub use usage::Usage;

use crate::device::claim::{self, Grant};
use crate::device::count::Wanted;
use crate::device::{self, Backend, DevInfo};
use crate::tensor::{TensorStore, memory};
use crate::{Result, config, dump, log, log_debug, log_error, log_info, log_warn, version};

/// Largest `nrt_framework_type_t` (`abi/enums.tsv`).
const FRAMEWORK_MAX: u32 = 5;

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
}

static RUNTIME: RwLock<Option<Arc<Runtime>>> = RwLock::new(None);

/// The running runtime. A call holds its own reference, so a racing `nrt_close` cannot pull the
/// memory from under it.
///
/// # Errors
/// `Uninitialized` when nothing is up; the gate has usually said so before.
pub fn runtime() -> Result<Arc<Runtime>> {
    runtime_if_up().ok_or_else(|| decide(GateClass::InitRequired, state()).err().unwrap_or(Status::Uninitialized))
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
        State::Init | State::Child => Ok(config::visible_len()),
        State::Start | State::Closed => device::visible_vnc_count_from_env(),
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
    if state() == State::Init { RUNTIME.read().clone() } else { None }
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
    match bring_up(framework, fw_version, fal_version) {
        Ok(runtime) => {
            if dump::due(log::Level::Info) {
                dump::dump_success(&facts(Some(&runtime)));
            }
            Ok(())
        }
        Err(status) => {
            report_failure("nrt_init", status);
            Err(status)
        }
    }
}

/// Print the information dump for the first call of the process that failed, and hand a failed
/// device over to the core-dump helper.
pub fn report_failure(api: &str, status: Status) {
    if dump::due(log::Level::Error) {
        dump::dump_failure(&facts(runtime_if_up().as_deref()), api, status);
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

fn bring_up(framework: u32, fw_version: &str, fal_version: &str) -> Result<Arc<Runtime>> {
    const API: &str = "nrt_init";
    if framework > FRAMEWORK_MAX {
        log_error!(
            Nrt,
            API,
            "framework type {framework} is not one of 0 to {FRAMEWORK_MAX}, use NRT_FRAMEWORK_TYPE_NO_FW"
        );
        return Err(Status::Invalid);
    }
    step(Step::Discover)?;
    let info = device::dev_info()?;

    step(Step::Configure)?;
    let pending = config::parse_init(&device::shape(&info))?;
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
    log_debug!(Nrt, API, "framework {framework} \"{fw_version}\" \"{fal_version}\"");
    if info.backend == Backend::Kernel {
        log_error!(
            Nrt,
            API,
            "OpenNRT {} counts and identifies real devices but cannot start them yet, \
             set NEURON_RT_FAKE_INSTANCE_TYPE to simulate an instance",
            version::OPENNRT
        );
        return Err(Status::Failure);
    }

    step(Step::Claim)?;
    let size = config::lnc_size(&device::shape(&info))?;
    let wanted = Wanted::from_config()?;
    let number_set = config::num_cores()?.is_some();
    let grant = claim::allocate(&info, size, &wanted, number_set, &mut claim::Simulated)?;

    step(Step::Memory)?;
    let usage = Usage::new(grant.count as usize).inspect_err(|_| {
        log_error!(
            Nrt,
            API,
            "{} logical cores are more than one process can use, ask for at most {}",
            grant.count,
            usage::MAX_CORES
        )
    })?;
    let tensors = TensorStore::fake(memory::Spec {
        arch: info.arch,
        devices: info.devices.clone(),
        cores_per_device: info.cores_per_device,
        lnc: size,
        visible: grant.logical().collect(),
        hbm_bytes_per_device: u64::from(info.hbm_mib()?) << 20,
        p2p: config::p2p_enabled(),
        funtime: info.backend == Backend::Fake,
    })?;

    step(Step::Publish)?;
    let visible: Vec<u32> = grant.logical().collect();
    config::set_visible(&visible);
    config::publish(pending);
    let runtime = Arc::new(Runtime { info, grant, usage, tensors });
    *RUNTIME.write() = Some(runtime.clone());
    fork::mark_used();
    state::set(State::Init);
    Ok(runtime)
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
    let _turn = fork::Transition::begin();
    if state() != State::Init {
        return;
    }
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
    let mut facts = dump::Facts { git_hash: version::GIT_HASH.into(), ..dump::Facts::of_this_host() };
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

#[cfg(test)]
mod tests {
    use super::*;
    use strum::IntoEnumIterator;

    fn nothing_is_held() {
        assert_eq!(state(), State::Start);
        assert!(RUNTIME.read().is_none());
        assert!(config::raw_records().gcfg.is_null());
        assert_eq!(runtime().err(), Some(Status::Uninitialized));
    }

    /// Drives the process-wide lifecycle, so it runs alone, in a child of its own.
    #[test]
    fn failure_at_each_step_leaves_start_and_holds_nothing() {
        const CHILD: &str = "OPENNRT_TEST_CHILD";
        if std::env::var_os(CHILD).is_none() {
            let test = "lifecycle::tests::failure_at_each_step_leaves_start_and_holds_nothing";
            let status = std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", test, "--nocapture"])
                .env(CHILD, "1")
                .env("NEURON_RT_FAKE_INSTANCE_TYPE", "trn1.2xlarge")
                .status()
                .unwrap();
            assert!(status.success());
            return;
        }
        for step in Step::iter() {
            FAIL_AT.set(Some(step));
            assert_eq!(init(1, "", ""), Err(Status::Resource), "{step:?}");
            nothing_is_held();
            FAIL_AT.set(None);
            assert_eq!(init(1, "", ""), Ok(()), "{step:?}");
            assert_eq!(state(), State::Init);
            close();
            nothing_is_held();
        }
    }
}
