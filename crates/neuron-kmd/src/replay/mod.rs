//! Replay of recorded transcripts against the model.
//!
//! [`replay`] takes the text of one transcript (layout: `golden/README.md`), loads a driver of
//! its release on emulated devices in virtual time, runs step by step and compares every answer.
//!
//! | step | becomes |
//! |---|---|
//! | `insmod`, `waitready`, `dmesg`, `lspci` | [`Driver::load`](crate::Driver::load), state polling, the log, the bus |
//! | ioctl, `open`, `close`, `dup`, `mmap`, `forkchild`, `exit`, `kill9` | calls of a process: memory, descriptors and mappings of one actor |
//! | `sysread`, `syswrite`, `tree`, `ls` | [`Sysfs`](crate::sysfs::Sysfs) |
//! | `signal`, `tsignal`, `handler`, `gotsig` | tokens on the task of the call in flight |
//! | `devctl` | [`Fault`](neuron_hw::Fault)s |
//! | `sleep` | virtual time |
//!
//! Every call runs in a thread of the virtual clock, so that one that blocks is noticed: after
//! the time an `async` step gives, after `blocked_ms`, or never. `still_blocked` and
//! `completes_step` refer to it later. Each step takes [`STEP_TIME`].
//!
//! Values that change from run to run are symbols in a transcript; the first value seen is bound
//! and later ones must be equal. `dur` is not compared: it is the speed of a recording machine.

mod compare;
mod device_log;
mod files;
mod ioctls;
mod kernel_log;
mod machine;
mod process;
mod session;
mod sysfs;

use std::fmt;
use std::time::Duration;

use serde_json::Value;

/// Virtual time between two steps. The recording guest needed between 10 and 100 ms.
pub const STEP_TIME: Duration = Duration::from_millis(10);

/// A place where the model answers differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Step number, or `None` for the device log at the end.
    pub step: Option<u64>,
    /// What was called.
    pub what: String,
    /// Field by field: what was recorded and what the model gives.
    pub fields: Vec<Field>,
}

/// One field of a difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name.
    pub name: String,
    /// Recorded.
    pub recorded: String,
    /// Given by the model.
    pub model: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.step {
            Some(step) => write!(f, "step {step} {}", self.what)?,
            None => write!(f, "{}", self.what)?,
        }
        for field in &self.fields {
            let cut = |text: &str| text.chars().take(120).collect::<String>();
            write!(f, "; {} recorded {} model {}", field.name, cut(&field.recorded), cut(&field.model))?;
        }
        Ok(())
    }
}

/// Result of one transcript.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Steps compared; the device log counts as one.
    pub total: usize,
    /// Steps that are equal.
    pub matched: usize,
    /// The others, in order.
    pub differences: Vec<Difference>,
}

/// A transcript that cannot be replayed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// Not JSON.
    #[error("the transcript is not JSON: {0}; give a file as golden/README.md describes")]
    NotJson(String),
    /// JSON without a key it must have, or with a value of another form.
    #[error("the transcript is not usable: {0}; give a file as golden/README.md describes")]
    Malformed(String),
}

/// Parses a transcript.
///
/// # Errors
/// When it is not JSON.
pub fn parse(text: &str) -> Result<Value, ReplayError> {
    serde_json::from_str(text).map_err(|e| ReplayError::NotJson(e.to_string()))
}

/// The file a transcript says it equals, as a path below the same folder of recordings.
pub fn same_as(transcript: &Value) -> Option<&str> {
    transcript.get("same_as")?.as_str()
}

/// Replays a transcript. One that is the same as another has no steps of its own: replay that
/// one with the identity of this (`original`).
///
/// # Errors
/// When the transcript has not the form it should have.
pub fn replay(transcript: &Value, original: Option<&Value>) -> Result<Outcome, ReplayError> {
    let recorded = original.unwrap_or(transcript);
    if !recorded["steps"].is_array() {
        return Err(ReplayError::Malformed("it has no list of steps".into()));
    }
    session::run(transcript, recorded)
}
