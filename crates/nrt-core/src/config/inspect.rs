//! Options of an inspection (`NEURON_RT_INSPECT_*`): read at init and again when an inspection begins.

use super::{
    Shape,
    choice::DeviceProfile,
    env::{Env, Process},
    grammar::set,
    parse::{Reason, Text, Value, excerpt, show_ints, utf8},
    table::{self, Mark},
};
use crate::inspect::EVENT_TYPES;
use neuron_abi::{Arch, Family};
use std::{borrow::Cow, ffi::OsString, os::unix::ffi::OsStringExt, path::PathBuf};

/// Where profiles go when no folder is named.
pub(crate) const OUTPUT_DIR: &std::ffi::CStr = c"./output";

/// What an inspection records and where to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InspectOptions {
    /// Profile from init on.
    pub enable: bool,
    /// Keep the profiles of failed runs.
    pub on_fail: bool,
    /// Folder of the profiles as the variable gives it; use [`InspectOptions::output_dir`].
    pub output_dir: Text,
    /// Device profile mode.
    pub device_profile: DeviceProfile,
    /// System profile.
    pub system_profile: bool,
    /// Host memory samples.
    pub host_memory: bool,
    /// CPU use samples.
    pub cpu_util: bool,
    /// Cores to trace.
    pub cores: CoreFilter,
    /// Kinds of events to keep.
    pub events: EventFilter,
    /// Ring length per core, in events.
    pub max_events_per_core: u32,
}

impl Default for InspectOptions {
    fn default() -> InspectOptions {
        InspectOptions {
            enable: false,
            on_fail: false,
            output_dir: Text::new(OUTPUT_DIR),
            device_profile: DeviceProfile::Disabled,
            system_profile: true,
            host_memory: false,
            cpu_util: false,
            cores: CoreFilter([true; 256]),
            events: EventFilter([true; 46]),
            max_events_per_core: 1_000_000,
        }
    }
}

impl InspectOptions {
    /// Folder of the profiles; an empty one means the default.
    pub fn output_dir(&self) -> PathBuf {
        let text =
            if self.output_dir.as_bytes().is_empty() { OUTPUT_DIR.to_bytes() } else { self.output_dir.as_bytes() };
        OsString::from_vec(text.into()).into()
    }

    /// Activities as the bits of `nrt_inspect_activities_t`.
    pub fn activities(&self) -> u32 {
        let bits =
            [self.system_profile, self.device_profile != DeviceProfile::Disabled, self.host_memory, self.cpu_util];
        bits.into_iter().enumerate().map(|(bit, on)| u32::from(on) << bit).sum()
    }
}

/// Folders that would lose or litter the profiles are refused.
pub(crate) fn output_dir_is_usable(text: &Text) -> Result<(), Reason> {
    match text.as_bytes() {
        b"/dev/null" | b"./tmp" | b"./tmp/" => Err(Reason::rule(
            "is refused: Tmp is not acceptable for output directory name.",
            "a folder other than /dev/null and ./tmp",
        )),
        _ => Ok(()),
    }
}

/// The options of an inspection that begins now.
///
/// # Errors
/// `Invalid` when one of the variables has a bad text; every one is logged.
pub fn inspect_options() -> crate::Result<InspectOptions> {
    const FUNCTION: &str = "nrt_config_parse_inspect_config";
    let options = table::report_all(FUNCTION, parse_inspect(&Process))?;
    if options.output_dir.as_bytes().is_empty() {
        crate::log_warn!(
            Nrt,
            FUNCTION,
            "provided inspect output directory is empty. Defaulting to {}",
            options.output_dir().display()
        );
    }
    Ok(options)
}

pub(crate) fn parse_inspect(env: &dyn Env) -> table::Parsed<InspectOptions> {
    // No option of an inspection depends on the shape (a test holds the table to that).
    let shape = Shape { arch: Arch::Cayman, family: Family::Unknown, cores_per_device: 1 };
    let (draft, faults) = table::apply_marked(Mark::INSPECT, env, &shape);
    (draft.inspect, faults)
}

/// The cores an inspection traces, by logical core number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreFilter(pub [bool; 256]);

impl Value for CoreFilter {
    fn form() -> Cow<'static, str> {
        "core numbers from 0 to 255, as in 0,2,4 or 0-3".into()
    }

    fn parse(text: &[u8]) -> Result<Self, Reason> {
        let mut cores = [false; 256];
        for core in set(text, 256, "core")? {
            cores[core as usize] = true;
        }
        Ok(CoreFilter(cores))
    }

    fn show(&self) -> String {
        if self.0.iter().all(|on| *on) {
            return "all".into();
        }
        show_ints(&(0..256).filter(|core| self.0[*core as usize]).collect::<Vec<_>>())
    }
}

/// The event numbers the hardware makes; all others are software events.
pub(crate) const HARDWARE_EVENTS: [usize; 7] = [6, 7, 8, 13, 24, 25, 26];

/// The kinds of events an inspection keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFilter(pub [bool; 46]);

impl Value for EventFilter {
    fn form() -> Cow<'static, str> {
        "event names, hardware or software, split by commas, each after ^ to exclude it".into()
    }

    fn parse(text: &[u8]) -> Result<Self, Reason> {
        let text = utf8(text)?;
        // A list that starts by excluding something excludes it from everything.
        let mut kept = [text.trim_ascii_start().starts_with('^'); 46];
        for item in text.split(',').map(str::trim_ascii) {
            let (keep, name) = item.strip_prefix('^').map_or((true, item), |name| (false, name));
            let mut found = false;
            for (number, known) in EVENT_TYPES.iter().enumerate() {
                let group = if HARDWARE_EVENTS.contains(&number) { "hardware" } else { "software" };
                if name.eq_ignore_ascii_case(known) || name.eq_ignore_ascii_case(group) {
                    kept[number] = keep;
                    found = true;
                }
            }
            if !found {
                return Err(Reason::new(format!("names \"{}\", which is no event", excerpt(item.as_bytes()))));
            }
        }
        Ok(EventFilter(kept))
    }

    fn show(&self) -> String {
        if self.0.iter().all(|on| *on) {
            return "all".into();
        }
        let kept: Vec<&str> = (0..46).filter(|&number| self.0[number]).map(|number| EVENT_TYPES[number]).collect();
        if kept.is_empty() { "none".into() } else { kept.join(",") }
    }
}
