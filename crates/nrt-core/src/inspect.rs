//! Options objects of captures, continuous profiling and the system trace.
//!
//! The vendor keeps them opaque, but their layouts are known (`facts/abi/structs.tsv`), so the
//! records here have the same size and the same fields at the same places. A caller holds the
//! address of a record as a handle; a [`Registry`] knows which addresses are live, so a freed or
//! made-up handle is an answer and not a crash.

use crate::{Result, Status, log_error, log_warn};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ffi::CString;

/// Cores a capture mask has room for.
pub const MAX_CORES: usize = 256;

/// Fewest events of a core's ring.
pub const MIN_EVENTS_PER_CORE: u64 = 1024;
/// Most events of a core's ring.
pub const MAX_EVENTS_PER_CORE: u64 = 1 << 20;
/// Events of a core's ring unless somebody says otherwise.
pub const DEFAULT_EVENTS_PER_CORE: u64 = 1_000_000;

/// Names of the system-trace event types, in the order of their numbers
/// (`abi/enums.tsv`, enum `nrt_sys_trace_event_type`). The vendor's spellings are not published;
/// these are the internal names in lower case.
pub const EVENT_TYPES: [&str; 46] = [
    "generic",
    "model_load",
    "post_request",
    "execute_api",
    "runtime_execute",
    "cc_load",
    "cc_exec_barrier",
    "device_exec",
    "cc_exec",
    "tensor_read",
    "tensor_write",
    "tensor_read_batch",
    "tensor_write_batch",
    "num_err",
    "enc_barrier_recv",
    "enc_barrier_send",
    "enc_barrier",
    "exec_pre",
    "exec_core",
    "exec_wait",
    "exec_post",
    "model_switch",
    "model_submit",
    "async_sema_wait",
    "hw_notify",
    "timestamp_sync",
    "nc_model_switch",
    "tensor_alloc",
    "tensor_free",
    "tensor_block_while_exec",
    "dmem_buf_copyin",
    "dmem_buf_copyout",
    "dmem_buf_batch_copyin",
    "dmem_buf_batch_copyout",
    "dma_mem_alloc",
    "dma_mem_dealloc",
    "consume_tpb_status_notifications",
    "consume_topsp_cc_notifications",
    "consume_error_notifications",
    "consume_pool_stdio",
    "cc_prepare",
    "cc_schedule",
    "hostcc_build_context",
    "hostcc_load",
    "hostcc_exec",
    "hostcc_wait",
];

/// Activities of a capture and their bits (`abi/enums.tsv`, enum `nrt_inspect_activities_t`).
pub const ACTIVITIES: [(&str, u32); 4] =
    [("system_profile", 1), ("device_profile", 2), ("host_memory", 4), ("cpu_util", 8)];
/// The bits the name `all` stands for.
pub const ALL_ACTIVITIES: u32 = 255;

/// Device profiles of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::FromRepr)]
#[repr(u32)]
pub enum DeviceProfile {
    /// None.
    Disabled = 0,
    /// One per model.
    Model = 1,
    /// One per core and session.
    Session = 2,
}

fn core_index(api: &'static str, core: u64) -> Result<usize> {
    usize::try_from(core).ok().filter(|core| *core < MAX_CORES).ok_or_else(|| {
        log_error!(Nrt, api, "core {core} is out of range; a capture has cores 0 to {}", MAX_CORES - 1);
        Status::Invalid
    })
}

/// Text as `std::string` of the vendor's C++ library lays it out.
#[repr(C)]
#[derive(Debug)]
struct CppString {
    data: usize,
    len: usize,
    capacity: usize,
    unused: usize,
}

/// A [`CppString`] next to the text it points to, which therefore must not be moved apart.
#[derive(Debug)]
struct Folder(CString);

impl Folder {
    fn record(&self) -> CppString {
        let len = self.0.as_bytes().len();
        CppString { data: self.0.as_ptr().expose_provenance(), len, capacity: len, unused: 0 }
    }

    fn new(api: &'static str, path: &[u8]) -> Result<Folder> {
        CString::new(path).map(Folder).map_err(|_| {
            log_error!(Nrt, api, "the output folder contains a NUL; pass a plain path");
            Status::Invalid
        })
    }
}

/// Options of the system trace.
#[repr(C)]
#[derive(Clone, Debug)]
pub struct SysTraceConfig {
    max_events_per_nc: u64,
    capture_enabled_for_nc: [bool; MAX_CORES],
    capture_enabled_for_event_type: [bool; EVENT_TYPES.len()],
}

impl Default for SysTraceConfig {
    fn default() -> SysTraceConfig {
        SysTraceConfig {
            max_events_per_nc: DEFAULT_EVENTS_PER_CORE,
            capture_enabled_for_nc: [true; MAX_CORES],
            capture_enabled_for_event_type: [true; EVENT_TYPES.len()],
        }
    }
}

impl SysTraceConfig {
    /// Set the ring length of a core, in events; out of range, the nearest legal one is taken.
    pub fn set_max_events(&mut self, api: &'static str, events: u64) {
        self.max_events_per_nc = events.clamp(MIN_EVENTS_PER_CORE, MAX_EVENTS_PER_CORE);
        if self.max_events_per_nc != events {
            log_warn!(
                Nrt,
                api,
                "{events} events per core is outside {MIN_EVENTS_PER_CORE} to {MAX_EVENTS_PER_CORE}; using {}",
                self.max_events_per_nc
            );
        }
    }

    /// Ring length of a core, in events.
    pub fn max_events(&self) -> u64 {
        self.max_events_per_nc
    }

    /// Switch the capture of one core.
    ///
    /// # Errors
    ///
    /// `NRT_INVALID` for a core above 255.
    pub fn set_core(&mut self, api: &'static str, core: u32, on: bool) -> Result<()> {
        self.capture_enabled_for_nc[core_index(api, core.into())?] = on;
        Ok(())
    }

    /// Whether a core is captured.
    pub fn core(&self, core: usize) -> bool {
        self.capture_enabled_for_nc.get(core).copied().unwrap_or(false)
    }

    /// Switch one event type.
    ///
    /// # Errors
    ///
    /// `NRT_INVALID` for a name that is none of [`EVENT_TYPES`].
    pub fn set_event_type(&mut self, api: &'static str, name: &str, on: bool) -> Result<()> {
        match EVENT_TYPES.iter().position(|known| *known == name) {
            Some(at) => self.capture_enabled_for_event_type[at] = on,
            None => {
                log_error!(
                    Nrt,
                    api,
                    "`{:.80}` is no event type; nrt_sys_trace_get_event_types lists them",
                    name.escape_debug().to_string()
                );
                return Err(Status::Invalid);
            }
        }
        Ok(())
    }

    /// The event types that are on.
    pub fn enabled_event_types(&self) -> Vec<&'static str> {
        EVENT_TYPES
            .into_iter()
            .zip(self.capture_enabled_for_event_type)
            .filter_map(|(name, on)| on.then_some(name))
            .collect()
    }
}

/// Options of fetching system-trace events.
#[repr(C)]
#[derive(Clone, Debug)]
pub struct FetchOptions {
    max_events_per_nc: u64,
    nc_idx: i32,
}

impl Default for FetchOptions {
    fn default() -> FetchOptions {
        FetchOptions { max_events_per_nc: u64::MAX, nc_idx: FetchOptions::EVERY_CORE }
    }
}

impl FetchOptions {
    const EVERY_CORE: i32 = -1;

    /// Set how many events of one core to take at most.
    pub fn set_max_events(&mut self, events: u64) {
        self.max_events_per_nc = events;
    }

    /// How many events of one core to take at most.
    pub fn max_events(&self) -> u64 {
        self.max_events_per_nc
    }

    /// Set the core to take from; all bits set means every core.
    ///
    /// # Errors
    ///
    /// `NRT_INVALID` for any other core above 255.
    pub fn set_core(&mut self, api: &'static str, core: u64) -> Result<()> {
        self.nc_idx = match core {
            u64::MAX => FetchOptions::EVERY_CORE,
            // A mask holds 256 cores, so the index fits.
            core => core_index(api, core)? as i32,
        };
        Ok(())
    }

    /// The core to take from; `None` for every core.
    pub fn core(&self) -> Option<u32> {
        u32::try_from(self.nc_idx).ok()
    }
}

/// What a caller sees of the options of a capture.
#[repr(C)]
#[derive(Debug)]
struct InspectRecord {
    session_id: i32,
    output_dir: CppString,
    enabled_activities: u32,
    sys_trace_config: SysTraceConfig,
    enable_inspect: bool,
    enable_inspect_on_fail: bool,
    device_profile_mode: u32,
    capture_enabled_for_nc: [bool; MAX_CORES],
}

/// Options of a capture. The record comes first: its address is the handle.
#[repr(C)]
#[derive(Debug)]
pub struct InspectConfig {
    record: InspectRecord,
    folder: Folder,
}

impl Default for InspectConfig {
    fn default() -> InspectConfig {
        let folder = Folder(CString::default());
        InspectConfig {
            record: InspectRecord {
                session_id: 1,
                output_dir: folder.record(),
                enabled_activities: ALL_ACTIVITIES,
                sys_trace_config: SysTraceConfig::default(),
                enable_inspect: false,
                enable_inspect_on_fail: false,
                device_profile_mode: DeviceProfile::Disabled as u32,
                capture_enabled_for_nc: [true; MAX_CORES],
            },
            folder,
        }
    }
}

impl InspectConfig {
    /// Set the number that names the session.
    pub fn set_session(&mut self, session: i32) {
        self.record.session_id = session;
    }

    /// The number that names the session.
    pub fn session(&self) -> i32 {
        self.record.session_id
    }

    /// Set the output folder; empty stands for the default one when the capture starts.
    ///
    /// # Errors
    ///
    /// `NRT_INVALID` for a path with a NUL in it.
    pub fn set_folder(&mut self, api: &'static str, path: &[u8]) -> Result<()> {
        self.folder = Folder::new(api, path)?;
        self.record.output_dir = self.folder.record();
        Ok(())
    }

    /// The output folder as it was set.
    pub fn folder(&self) -> &[u8] {
        self.folder.0.as_bytes()
    }

    /// Switch an activity, or all of them under the name `all`.
    ///
    /// # Errors
    ///
    /// `NRT_INVALID` for another name.
    pub fn set_activity(&mut self, api: &'static str, name: &str, on: bool) -> Result<()> {
        let bits = match ACTIVITIES.iter().find(|(known, _)| *known == name) {
            Some((_, bit)) => *bit,
            None if name == "all" => ALL_ACTIVITIES,
            None => {
                log_error!(
                    Nrt,
                    api,
                    "`{:.80}` is no activity; the activities are {} and all",
                    name.escape_debug().to_string(),
                    ACTIVITIES.map(|(name, _)| name).join(", ")
                );
                return Err(Status::Invalid);
            }
        };
        if on {
            self.record.enabled_activities |= bits;
        } else {
            self.record.enabled_activities &= !bits;
        }
        Ok(())
    }

    /// The activities that are on.
    pub fn enabled_activities(&self) -> Vec<&'static str> {
        let mask = self.record.enabled_activities;
        ACTIVITIES.into_iter().filter_map(|(name, bit)| (mask & bit != 0).then_some(name)).collect()
    }

    /// Switch the capture of one core, for device profiles and the system trace alike.
    ///
    /// # Errors
    ///
    /// `NRT_INVALID` for a core above 255.
    pub fn set_core(&mut self, api: &'static str, core: u32, on: bool) -> Result<()> {
        self.record.sys_trace_config.set_core(api, core, on)?;
        self.record.capture_enabled_for_nc[core_index(api, core.into())?] = on;
        Ok(())
    }

    /// Switch the capture as a whole.
    pub fn set_enabled(&mut self, on: bool) {
        self.record.enable_inspect = on;
    }

    /// Switch the capture of failed runs.
    pub fn set_enabled_on_fail(&mut self, on: bool) {
        self.record.enable_inspect_on_fail = on;
    }

    /// Whether there is a capture, and whether there is one of failed runs.
    pub fn enabled(&self) -> (bool, bool) {
        (self.record.enable_inspect, self.record.enable_inspect_on_fail)
    }

    /// Set which device profiles are taken.
    pub fn set_device_profile(&mut self, mode: DeviceProfile) {
        self.record.device_profile_mode = mode as u32;
    }

    /// The system-trace part.
    pub fn sys_trace(&mut self) -> &mut SysTraceConfig {
        &mut self.record.sys_trace_config
    }
}

/// Options of continuous profiling. The record comes first: its address is the handle.
#[repr(C)]
#[derive(Debug)]
pub struct ContinuousOptions {
    output_dir: CppString,
    folder: Folder,
}

impl Default for ContinuousOptions {
    fn default() -> ContinuousOptions {
        let folder = Folder(CString::default());
        ContinuousOptions { output_dir: folder.record(), folder }
    }
}

impl ContinuousOptions {
    /// Set the output folder.
    ///
    /// # Errors
    ///
    /// `NRT_INVALID` for a path with a NUL in it.
    pub fn set_folder(&mut self, api: &'static str, path: &[u8]) -> Result<()> {
        self.folder = Folder::new(api, path)?;
        self.output_dir = self.folder.record();
        Ok(())
    }

    /// The output folder as it was set.
    pub fn folder(&self) -> &[u8] {
        self.folder.0.as_bytes()
    }
}

const _: () = {
    use std::mem::{offset_of, size_of};
    assert!(size_of::<CppString>() == 32);
    assert!(size_of::<SysTraceConfig>() == 312);
    assert!(offset_of!(SysTraceConfig, capture_enabled_for_nc) == 8);
    assert!(offset_of!(SysTraceConfig, capture_enabled_for_event_type) == 264);
    assert!(size_of::<FetchOptions>() == 16);
    assert!(offset_of!(FetchOptions, nc_idx) == 8);
    assert!(size_of::<InspectRecord>() == 624);
    assert!(offset_of!(InspectRecord, output_dir) == 8);
    assert!(offset_of!(InspectRecord, enabled_activities) == 40);
    assert!(offset_of!(InspectRecord, sys_trace_config) == 48);
    assert!(offset_of!(InspectRecord, enable_inspect) == 360);
    assert!(offset_of!(InspectRecord, enable_inspect_on_fail) == 361);
    assert!(offset_of!(InspectRecord, device_profile_mode) == 364);
    assert!(offset_of!(InspectRecord, capture_enabled_for_nc) == 368);
    assert!(offset_of!(InspectConfig, record) == 0);
    assert!(offset_of!(ContinuousOptions, output_dir) == 0);
};

/// The live objects of one type, by address.
pub struct Registry<T> {
    live: Mutex<BTreeMap<usize, Box<T>>>,
    what: &'static str,
}

impl<T: Default> Registry<T> {
    const fn new(what: &'static str) -> Registry<T> {
        Registry { live: Mutex::new(BTreeMap::new()), what }
    }

    /// Make an object with every field at its default; the answer is its handle.
    pub fn allocate(&self) -> usize {
        let object = Box::<T>::default();
        let address = std::ptr::from_ref(&*object).expose_provenance();
        self.live.lock().insert(address, object);
        address
    }

    /// Free an object.
    ///
    /// # Errors
    ///
    /// `NRT_INVALID_HANDLE` when there is none at that address.
    pub fn free(&self, api: &'static str, address: usize) -> Result<()> {
        self.live.lock().remove(&address).map(drop).ok_or_else(|| self.unknown(api, address))
    }

    /// Read or change an object.
    ///
    /// # Errors
    ///
    /// `NRT_INVALID_HANDLE` when there is none at that address, or what `work` answers.
    pub fn with<R>(&self, api: &'static str, address: usize, work: impl FnOnce(&mut T) -> Result<R>) -> Result<R> {
        match self.live.lock().get_mut(&address) {
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
    use proptest::prelude::*;

    /// Rows of one enum of the committed table: value, and name without its prefix in lower case.
    fn table(of: &str, prefix: &str) -> Vec<(u32, String)> {
        include_str!("../../../abi/enums.tsv")
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
    fn event_types_are_the_enumerators_of_the_table_in_order() {
        let mut wanted = table("nrt_sys_trace_event_type", "NRT_SYS_TRACE_EVENT_TYPE_");
        assert_eq!(wanted.pop(), Some((46, "count".into())));
        for (value, name) in wanted {
            assert_eq!(EVENT_TYPES[value as usize], name);
        }
    }

    #[test]
    fn activities_and_device_profiles_are_the_enumerators_of_the_table() {
        let mut wanted = table("nrt_inspect_activities_t", "");
        assert_eq!(wanted.pop(), Some((ALL_ACTIVITIES, "all".into())));
        assert_eq!(wanted, ACTIVITIES.map(|(name, bit)| (bit, name.to_string())));
        for (value, name) in table("nrt_inspect_device_profile_mode_t", "NRT_INSPECT_DEVICE_PROFILE_MODE_") {
            let mode = DeviceProfile::from_repr(value).expect("known");
            assert_eq!(format!("{mode:?}").to_lowercase(), name);
        }
        assert_eq!(DeviceProfile::from_repr(3), None);
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

    #[test]
    fn the_record_follows_its_folder() {
        let mut c = InspectConfig::default();
        assert_eq!((c.record.output_dir.len, c.folder()), (0, &b""[..]));
        c.set_folder("t", b"/tmp/\xff").expect("any bytes but NUL are a path");
        assert_eq!((c.record.output_dir.len, c.record.output_dir.capacity), (6, 6));
        let moved = c;
        assert_eq!(moved.record.output_dir.data, moved.folder.0.as_ptr().addr());
        assert_eq!(moved.folder(), b"/tmp/\xff");
        let mut o = ContinuousOptions::default();
        o.set_folder("t", b"x").expect("a path");
        assert_eq!((o.output_dir.len, o.folder()), (1, &b"x"[..]));
    }

    #[test]
    fn the_name_all_switches_every_activity() {
        let mut c = InspectConfig::default();
        assert_eq!(c.enabled_activities(), ACTIVITIES.map(|(name, _)| name));
        c.set_activity("t", "all", false).expect("known");
        assert_eq!(c.enabled_activities(), [""; 0]);
        c.set_activity("t", "host_memory", true).expect("known");
        assert_eq!(c.enabled_activities(), ["host_memory"]);
        assert_eq!(c.set_activity("t", "HOST_MEMORY", true), Err(Status::Invalid));
        assert_eq!(c.record.enabled_activities, 4);
    }

    #[test]
    fn a_core_above_255_is_refused_and_changes_nothing() {
        let mut c = InspectConfig::default();
        assert_eq!(c.set_core("t", 256, false), Err(Status::Invalid));
        assert!(c.record.capture_enabled_for_nc.iter().all(|on| *on));
        c.set_core("t", 255, false).expect("in range");
        assert!(!c.record.capture_enabled_for_nc[255] && !c.sys_trace().core(255) && c.sys_trace().core(254));
        let mut f = FetchOptions::default();
        assert_eq!((f.core(), f.max_events()), (None, u64::MAX));
        assert_eq!(f.set_core("t", 256), Err(Status::Invalid));
        assert_eq!(f.set_core("t", u64::from(u32::MAX)), Err(Status::Invalid));
        f.set_core("t", 7).expect("in range");
        assert_eq!(f.core(), Some(7));
        f.set_core("t", u64::MAX).expect("every core");
        assert_eq!(f.core(), None);
    }

    proptest! {
        #[test]
        fn ring_lengths_are_held_between_the_limits(events: u64) {
            let mut c = SysTraceConfig::default();
            c.set_max_events("t", events);
            let mut median = [1024, events, 1_048_576];
            median.sort_unstable();
            prop_assert_eq!(c.max_events(), median[1]);
        }

        #[test]
        fn event_types_are_a_set_that_remembers_the_last_switch(
            switches in prop::collection::vec((0..EVENT_TYPES.len(), any::<bool>()), 0..80)
        ) {
            let mut c = SysTraceConfig::default();
            let mut oracle = vec![true; EVENT_TYPES.len()];
            for (at, on) in switches {
                c.set_event_type("t", EVENT_TYPES[at], on).expect("known");
                oracle[at] = on;
            }
            let wanted: Vec<_> = (0..EVENT_TYPES.len()).filter(|at| oracle[*at]).map(|at| EVENT_TYPES[at]).collect();
            prop_assert_eq!(c.enabled_event_types(), wanted);
        }

        #[test]
        fn unknown_event_types_are_refused(name in "\\PC{0,200}") {
            prop_assume!(!EVENT_TYPES.contains(&name.as_str()));
            prop_assert_eq!(SysTraceConfig::default().set_event_type("t", &name, true), Err(Status::Invalid));
        }
    }
}
