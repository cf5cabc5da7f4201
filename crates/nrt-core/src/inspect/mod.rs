//! Options objects of captures, continuous profiling and the system trace.
//!
//! The vendor keeps them opaque, but their layouts are known (`facts/abi/structs.tsv`), so the
//! records here have the same size and the same fields at the same places. A caller holds the
//! address of a record as a handle; a [`Registry`] knows which addresses are live, so a freed or
//! made-up handle is an answer and not a crash.

mod capture;
mod sys_trace;

pub use capture::{ACTIVITIES, ALL_ACTIVITIES, ContinuousOptions, DeviceProfile, InspectConfig};
pub use sys_trace::{
    DEFAULT_EVENTS_PER_CORE, EVENT_TYPES, FetchOptions, MAX_EVENTS_PER_CORE, MIN_EVENTS_PER_CORE, SysTraceConfig,
};

use crate::{
    Result, Status,
    forked::{ForkLocal, lock},
    log_error,
};
use std::{collections::BTreeMap, sync::Mutex};

/// Cores a capture mask has room for.
pub const MAX_CORES: usize = 256;

fn core_index(api: &'static str, core: u64) -> Result<usize> {
    usize::try_from(core).ok().filter(|core| *core < MAX_CORES).ok_or_else(|| {
        log_error!(Nrt, api, "core {core} is out of range; a capture has cores 0 to {}", MAX_CORES - 1);
        Status::Invalid
    })
}

/// The live objects of one type, by address. A forked child starts without any: the lock it
/// inherits may never be given back, so handles of the parent are unknown to it.
pub struct Registry<T> {
    live: ForkLocal<Mutex<BTreeMap<usize, Box<T>>>>,
    what: &'static str,
}

impl<T: Default> Registry<T> {
    const fn new(what: &'static str) -> Registry<T> {
        Registry { live: ForkLocal::new(), what }
    }

    /// Make an object with every field at its default; the answer is its handle.
    pub fn allocate(&self) -> usize {
        let object = Box::<T>::default();
        let address = std::ptr::from_ref(&*object).expose_provenance();
        lock(self.live.get()).insert(address, object);
        address
    }

    /// Free an object.
    ///
    /// # Errors
    ///
    /// `NRT_INVALID_HANDLE` when there is none at that address.
    pub fn free(&self, api: &'static str, address: usize) -> Result<()> {
        lock(self.live.get()).remove(&address).map(drop).ok_or_else(|| self.unknown(api, address))
    }

    /// Read or change an object.
    ///
    /// # Errors
    ///
    /// `NRT_INVALID_HANDLE` when there is none at that address, or what `work` answers.
    pub fn with<R>(&self, api: &'static str, address: usize, work: impl FnOnce(&mut T) -> Result<R>) -> Result<R> {
        match lock(self.live.get()).get_mut(&address) {
            Some(object) => work(object),
            None => Err(self.unknown(api, address)),
        }
    }

    fn unknown(&self, api: &'static str, address: usize) -> Status {
        log_error!(Nrt, api, "{address:#x} is no {}; it was freed or never allocated", self.what);
        Status::InvalidHandle
    }
}

/// Options of captures.
pub static INSPECT: Registry<InspectConfig> = Registry::new("capture options object");
/// Options of continuous profiling.
pub static CONTINUOUS: Registry<ContinuousOptions> = Registry::new("continuous profiling options object");
/// Options of the system trace.
pub static SYS_TRACE: Registry<SysTraceConfig> = Registry::new("system-trace options object");
/// Options of fetching system-trace events.
pub static FETCH: Registry<FetchOptions> = Registry::new("system-trace fetch options object");

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of one enum of the committed table: value, and name without its prefix in lower case.
    pub(super) fn table(of: &str, prefix: &str) -> Vec<(u32, String)> {
        include_str!("../../../../abi/enums.tsv")
            .lines()
            .map(|line| line.split('\t').collect::<Vec<_>>())
            .filter(|cells| cells[0] == of)
            .map(|cells| {
                let name = cells[1].strip_prefix(prefix).expect("every name has the prefix").to_lowercase();
                (cells[2].parse().expect("a number"), name)
            })
            .collect()
    }

    #[test]
    fn a_handle_that_was_freed_or_made_up_is_refused() {
        let a = INSPECT.allocate();
        assert_eq!(INSPECT.with("t", a, |c| Ok(c.session())), Ok(1));
        assert_eq!(INSPECT.with("t", a + 8, |_| Ok(())), Err(Status::InvalidHandle));
        assert_eq!(SYS_TRACE.with("t", a, |_| Ok(())), Err(Status::InvalidHandle));
        assert_eq!(INSPECT.free("t", a), Ok(()));
        assert_eq!(INSPECT.free("t", a), Err(Status::InvalidHandle));
        assert_eq!(INSPECT.with("t", a, |_| Ok(())), Err(Status::InvalidHandle));
    }
}
