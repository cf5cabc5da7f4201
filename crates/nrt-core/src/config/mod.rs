//! Configuration: the two records, the table of variables and their parsers.
//!
//! Every parser is a pure function of an environment lookup; this file binds them to the process.
//! The environment is read at the first query that needs it and again at each init, never at load.

mod choice;
mod cxx;
mod draft;
mod env;
mod fake;
#[doc(hidden)]
pub mod fuzz;
mod grammar;
mod inspect;
mod lnc;
mod model;
mod parse;
mod prefix;
mod record;
mod report;
mod rules;
mod store;
mod table;
#[cfg(test)]
mod tests;

pub use choice::DeviceProfile;
pub use env::{dev_dir, hbm_mib, sys_dir};
pub use fake::fake_product;
pub use inspect::{CoreFilter, EventFilter, InspectOptions, inspect_options};
pub use model::{Fp8Overrides, ModelOptions, model_options};
pub use parse::Text;
pub use report::{Member, OwnRow, Report, Row, Stranger, report};
pub use store::{RawRecords, raw_records};

use crate::Result;
use draft::Draft;
use env::{Env, Process, With};
use neuron_abi::{Arch, Family};
use parking_lot::Mutex;
use parse::{Fault, Ints, Value};
use rules::Weight;
use std::{
    collections::BTreeSet,
    ffi::OsString,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::PathBuf,
    sync::Arc,
};

/// What the defaults and checks of the variables depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Silicon generation.
    pub arch: Arch,
    /// Instance family.
    pub family: Family,
    /// Physical cores of one device.
    pub cores_per_device: u32,
}

/// Physical cores per logical core, read afresh and noted in the static record.
///
/// 1 on arch 2, whatever the variables hold; else `NEURON_LOGICAL_NC_CONFIG`, else
/// `NEURON_RT_VIRTUAL_CORE_SIZE`, else 2 (1 where a device has one core).
///
/// # Errors
/// `Invalid` when the size is no power of two that divides the cores of a device; the reason is logged.
pub fn lnc_size(shape: &Shape) -> Result<u32> {
    let lnc = lnc::resolve(&Process, shape).map_err(|fault| fault.report("parse_vnc_config"))?;
    store::note_lnc(lnc.size);
    Ok(lnc.size)
}

fn lookup<T: Value>(env: &dyn Env, name: &'static str) -> std::result::Result<Option<T>, Fault> {
    let Some(text) = env.get(name) else { return Ok(None) };
    T::parse(&text).map(Some).map_err(|reason| Fault::new(name, &text, reason, T::form()))
}

/// `NEURON_RT_NUM_CORES` as it is now, unchecked against the machine; `None` when not set.
///
/// # Errors
/// `Invalid` for a text that is no number; the reason is logged.
pub fn num_cores() -> Result<Option<u32>> {
    lookup(&Process, "NEURON_RT_NUM_CORES").map_err(|fault| fault.report("nrt_config_parse"))
}

/// `NEURON_RT_VISIBLE_CORES` as it is now, expanded in the order given, duplicates kept; `None` when not set.
///
/// # Errors
/// `Invalid` for a text that is no list; the reason is logged.
pub fn visible_cores() -> Result<Option<Vec<u32>>> {
    let list =
        lookup(&Process, "NEURON_RT_VISIBLE_CORES").map_err(|fault| fault.report("parse_visible_virtual_cores"))?;
    Ok(list.map(|Ints(list)| list.into_iter().map(|core| core as u32).collect()))
}

/// A parse whose heap record is not visible yet.
#[must_use = "the heap record appears only when it is published"]
pub struct Pending(Arc<Draft>);

/// Read every variable, for `nrt_init`. The static record is written even when a text is bad (with
/// the default in its place), as the vendor's parser does; the heap record waits in the answer.
///
/// # Errors
/// The worst status of all variables; each bad text has its own ERROR line, up to a number of them
/// that still fits on a screen.
pub fn parse_init(shape: &Shape) -> Result<Pending> {
    const FUNCTION: &str = "nrt_config_parse_init_config";
    /// Refused settings told one by one: more would push the first ones off the screen.
    const MOST: usize = 8;
    static WARNED: Mutex<BTreeSet<&str>> = Mutex::new(BTreeSet::new());

    let build = match fake::find(&Process) {
        Ok(Some(product)) => rules::build(&With { below: &Process, name: fake::VARIABLE, text: product.name }, shape),
        // The table meets a bad text again and reports it.
        Ok(None) | Err(_) => rules::build(&Process, shape),
    };
    // The log has its own say about the texts it falls back from.
    let told = table::TABLE.iter().zip(&build.outcomes).filter(|(knob, _)| !knob.mark.has(table::Mark::LENIENT));
    let faults = told.flat_map(|(_, outcome)| &outcome.faults).map(ToString::to_string);
    let (grave, slight): (Vec<_>, Vec<_>) =
        build.findings.iter().partition(|finding| matches!(finding.weight, Weight::Fatal | Weight::Error));
    let errors: Vec<String> = faults.chain(grave.iter().map(ToString::to_string)).collect();
    for error in errors.iter().take(MOST) {
        crate::log_error!(Nrt, FUNCTION, "{error}");
    }
    if errors.len() > MOST {
        let more = errors.len() - MOST;
        crate::log_error!(Nrt, FUNCTION, "{more} more settings are refused; nrt-info --config shows all of them");
    }
    for finding in slight {
        if finding.weight == Weight::Warn || WARNED.lock().insert(finding.name) {
            crate::log_warn!(Nrt, FUNCTION, "{finding}");
        }
    }
    let worst = build.worst();
    let draft = Arc::new(build.draft);
    store::install(&draft);
    worst.ok().map(|()| Pending(draft))
}

/// Make the heap record visible: the last step of the parse.
pub fn publish(pending: Pending) {
    store::publish(pending.0);
}

/// Free the heap record, at close or when init fails after [`publish`].
pub fn unpublish() {
    store::unpublish();
}

/// Fill the vector of claimed logical cores in the static record.
pub fn set_visible(cores: &[u32]) {
    store::set_visible(cores);
}

/// Number of claimed logical cores, from the last [`set_visible`] or parse. Takes no lock, so it
/// answers in a forked child too.
pub fn visible_len() -> u32 {
    store::visible_len()
}

/// Something of the last parse; before the first one, of an environment without variables.
fn last<R>(read: impl FnOnce(&Draft) -> R) -> R {
    match store::draft() {
        Some(draft) => read(&draft),
        None => {
            let shape = Shape { arch: Arch::Sunda, family: Family::Unknown, cores_per_device: 1 };
            read(&rules::build(&Nothing, &shape).draft)
        }
    }
}

struct Nothing;

impl Env for Nothing {
    fn get(&self, _name: &str) -> Option<Vec<u8>> {
        None
    }

    fn names(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Templates of the places for core dumps. Both empty: no dumps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreDumpTemplates {
    /// Folder, empty for none.
    pub local: OsString,
    /// S3 prefix, empty for none.
    pub s3: OsString,
}

fn os(text: &Text) -> OsString {
    OsString::from_vec(text.as_bytes().into())
}

/// Where core dumps go, from the last parse.
pub fn core_dump_templates() -> CoreDumpTemplates {
    last(|draft| CoreDumpTemplates {
        local: os(&draft.texts.local_core_dump_directory),
        s3: os(&draft.texts.s3_core_dump_prefix),
    })
}

/// Name of this process in monitoring tools: `NEURON_PROCESS_TAG` of the last parse, else the process id.
pub fn process_tag() -> OsString {
    let tag = last(|draft| os(&draft.runtime.process_tag));
    if tag.as_bytes().is_empty() { std::process::id().to_string().into() } else { tag }
}

/// `NEURON_RT_NUM_CORES` of the last parse; 0 asks for every core.
pub fn num_cores_requested() -> u32 {
    last(|draft| draft.cfg.num_cores)
}

/// Whether init resets the claimed cores, from the last parse.
pub fn reset_cores() -> bool {
    last(|draft| draft.cfg.reset_cores)
}

/// Word that init fills device memory with, from the last parse; `None` to leave it as it is.
pub fn hbm_scrub() -> Option<u32> {
    last(|draft| draft.cfg.scrub_hbm.then_some(draft.cfg.hbm_scrub_init_val))
}

/// Library with GPSIMD microcode, from the last parse; an empty text counts as none.
pub fn ucode_path() -> Option<PathBuf> {
    last(|draft| Some(os(&draft.texts.neuron_ucode_path)).filter(|path| !path.is_empty()).map(PathBuf::from))
}

/// Whether error lines of one call are gathered, from the last parse.
pub fn log_coalescing() -> bool {
    last(|draft| draft.gcfg.log_coalescing_enabled)
}

/// Time limit of one execution in seconds, 0 to 2147483647, from the last parse. A model load reads
/// it again ([`model_options`]).
pub fn exec_timeout_secs() -> u32 {
    last(|draft| draft.model.exec_timeout_secs)
}

/// Items the explicit compute queue takes, from the last parse.
pub fn compute_queue_depth() -> u64 {
    last(|draft| draft.runtime.compute_queue_depth)
}

/// Jobs in flight a core may have in the implicit asynchronous mode, 0 to 63, from the last parse; 0
/// when the mode is off.
pub fn implicit_in_flight() -> u32 {
    last(|draft| draft.gcfg.async_exec_max_inflight_requests)
}

/// Whether peer-to-peer access and DMA-buf export are allowed, from the last parse.
pub fn p2p_enabled() -> bool {
    last(|draft| draft.gcfg.enable_p2p)
}

/// Address of rank 0, from the last parse.
pub fn cc_root_comm_id() -> Option<String> {
    last(|draft| {
        draft.texts.cc_root_comm_id.as_c_str().map(|text| String::from_utf8_lossy(text.to_bytes()).into_owned())
    })
}

/// Whether arch 4 counts as its revision B, from the last parse.
pub fn v4_plus() -> bool {
    last(|draft| draft.gcfg.v4_plus != 0)
}
