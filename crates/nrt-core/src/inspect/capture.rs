//! Options of a capture, and of continuous profiling.

use super::sys_trace::SysTraceConfig;
use super::{MAX_CORES, core_index};
use crate::{Result, Status, log_error};
use std::ffi::CString;

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

#[cfg(test)]
mod tests {
    use super::super::tests::table;
    use super::*;

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
    }
}
