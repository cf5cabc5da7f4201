//! Core dumps: path templates, the gate, and the external helper that writes them
//! (`facts/runtime/lifecycle.md` section 8, `facts/config/rules.md` section 16).

use crate::log::{self, Local};
use neuron_abi::Status;
use std::{
    ffi::{OsStr, OsString},
    io,
    mem::{offset_of, size_of},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

/// Longest expanded folder, in bytes; longer ones are cut.
pub const DIR_MAX: usize = 0x1000;
/// Longest expanded file name, in bytes; longer ones are cut.
pub const NAME_MAX: usize = 0xff;
/// Folder template when `NEURON_RT_LOCAL_CORE_DUMP_DIRECTORY` is not set.
pub const DEFAULT_DIRECTORY: &str = "/tmp/neuron-core-dump/dt-%d-cid-%c";
/// The program that writes a dump; it is not part of this library.
pub const HELPER: &str = "/opt/aws/neuron/bin/neuron-dump";
/// File name of the log the runtime writes for the helper.
pub const LOG_NAME: &str = "%i-nrt-pid-%p.log";

/// File name of the hardware dump of one core.
pub fn hardware_name(device: u32, core: u32) -> String {
    format!("%i-nd{device}-nc{core}-pid-%p-tid-%t-lid-%l")
}

/// Values of the template variables, NUL-terminated texts in the layout of `nrt_path_variables_t`
/// (`facts/config/substructs.tsv`, 101 bytes).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathVariables {
    pid: [u8; 14],
    tid: [u8; 14],
    log_id: [u8; 14],
    cluster_id: [u8; 20],
    datetime: [u8; 16],
    instance_id: [u8; 23],
}

const _: () = {
    assert!(size_of::<PathVariables>() == 101);
    assert!(offset_of!(PathVariables, pid) == 0);
    assert!(offset_of!(PathVariables, tid) == 14);
    assert!(offset_of!(PathVariables, log_id) == 28);
    assert!(offset_of!(PathVariables, cluster_id) == 42);
    assert!(offset_of!(PathVariables, datetime) == 62);
    assert!(offset_of!(PathVariables, instance_id) == 78);
};

/// `text` with at least one NUL after it, cut to fit.
fn field<const N: usize>(text: &str) -> [u8; N] {
    let mut field = [0; N];
    let length = text.len().min(N - 1);
    field[..length].copy_from_slice(&text.as_bytes()[..length]);
    field
}

fn text(field: &[u8]) -> &[u8] {
    field.split(|&byte| byte == 0).next().unwrap_or_default()
}

impl PathVariables {
    /// The values for one dump. Ids that are not known become `none`; what would leave the folder
    /// or end the name in an instance id becomes `_`.
    pub fn new(pid: u32, tid: u32, log_id: u32, cluster: Option<u64>, at: &Local, instance: Option<&str>) -> Self {
        let Local { year, month, day, hour, minute, second, .. } = at;
        let none = || "none".to_owned();
        let safe = |c: char| if c.is_ascii_graphic() && c != '/' { c } else { '_' };
        PathVariables {
            pid: field(&pid.to_string()),
            tid: field(&tid.to_string()),
            log_id: field(&log_id.to_string()),
            cluster_id: field(&cluster.map_or_else(none, |id| format!("{id:016x}"))),
            datetime: field(&format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}")),
            instance_id: field(&instance.map_or_else(none, |id| id.chars().map(safe).collect())),
        }
    }

    /// The values for a dump of the calling thread, now, under the next log id.
    pub fn of_this_thread(cluster: Option<u64>, instance: Option<&str>) -> Self {
        let tid = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        PathVariables::new(std::process::id(), tid, next_log_id(), cluster, &log::now(), instance)
    }

    fn value(&self, token: u8) -> Option<&[u8]> {
        Some(text(match token {
            b'p' => &self.pid,
            b't' => &self.tid,
            b'l' => &self.log_id,
            b'c' => &self.cluster_id,
            b'd' => &self.datetime,
            b'i' => &self.instance_id,
            _ => return None,
        }))
    }
}

fn next_log_id() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Relaxed)
}

/// The folder `template` names: `%p %t %l %c %d %i` replaced, any other percent sign kept, cut at
/// [`DIR_MAX`] bytes.
pub fn expand_dir(template: &OsStr, variables: &PathVariables) -> OsString {
    expand(template, variables, DIR_MAX)
}

/// The file name `template` names: as [`expand_dir`], cut at [`NAME_MAX`] bytes.
pub fn expand_name(template: &OsStr, variables: &PathVariables) -> OsString {
    expand(template, variables, NAME_MAX)
}

fn expand(template: &OsStr, variables: &PathVariables, bound: usize) -> OsString {
    let mut out = Vec::new();
    let mut rest = template.as_bytes();
    while let [byte, tail @ ..] = rest
        && out.len() < bound
    {
        rest = tail;
        if let (b'%', [token, after @ ..]) = (byte, tail)
            && let Some(value) = variables.value(*token)
        {
            out.extend_from_slice(value);
            rest = after;
        } else {
            out.push(*byte);
        }
    }
    out.truncate(bound);
    OsString::from_vec(out)
}

/// Whether dumps are wanted and possible, and where they go.
#[derive(Clone, Debug)]
pub struct Gate {
    directory: OsString,
    prefix: OsString,
    helper: PathBuf,
}

impl Gate {
    /// `directory` and `prefix`: the templates in force (`NEURON_RT_LOCAL_CORE_DUMP_DIRECTORY`,
    /// default [`DEFAULT_DIRECTORY`], and `NEURON_RT_S3_CORE_DUMP_PREFIX`). Both empty: no dumps.
    pub fn new(directory: impl Into<OsString>, prefix: impl Into<OsString>) -> Gate {
        Gate { directory: directory.into(), prefix: prefix.into(), helper: HELPER.into() }
    }

    /// Another helper than [`HELPER`].
    pub fn with_helper(self, helper: impl Into<PathBuf>) -> Gate {
        Gate { helper: helper.into(), ..self }
    }

    /// Dumps are wanted and the helper can be executed.
    pub fn is_open(&self) -> bool {
        (!self.directory.is_empty() || !self.prefix.is_empty())
            && self.helper.is_file()
            && rustix::fs::access(&self.helper, rustix::fs::Access::EXEC_OK).is_ok()
    }

    /// The folder template; the default when only the prefix is given.
    fn directory(&self) -> &OsStr {
        if self.directory.is_empty() { OsStr::new(DEFAULT_DIRECTORY) } else { &self.directory }
    }
}

/// One failure to dump. Unknown things stay `None` and their options are not passed.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Values for the templates and the options of the same names.
    pub variables: &'a PathVariables,
    /// What the failing call returns.
    pub failure: Status,
    /// Name of the model file.
    pub neff_name: Option<&'a str>,
    /// Unique id of the model file.
    pub neff_uuid: Option<&'a str>,
    /// Where it went wrong.
    pub error_location: Option<&'a str>,
    /// Device, counted from 0.
    pub device: Option<u32>,
    /// Physical core of the device, counted from 0.
    pub core: Option<u32>,
    /// A log the runtime wrote for this dump.
    pub generated: Option<&'a Path>,
}

/// Run the helper for one failure and wait for it, however long it takes.
///
/// `None`: nothing was run, because the gate is closed or `failure` is a success. The error is that
/// of starting or waiting; in a process that ignores SIGCHLD the helper's own status is lost
/// (`ECHILD`).
pub fn run_helper(gate: &Gate, request: &Request<'_>) -> io::Result<Option<ExitStatus>> {
    if request.failure == Status::Success || !gate.is_open() {
        return Ok(None);
    }
    Command::new(&gate.helper).args(arguments(gate, request)).stdin(Stdio::null()).status().map(Some)
}

fn arguments(gate: &Gate, request: &Request<'_>) -> Vec<OsString> {
    let variables = request.variables;
    let of = |field: &[u8]| Some(OsString::from_vec(text(field).to_vec()));
    let prefix = (!gate.prefix.is_empty()).then(|| expand_dir(&gate.prefix, variables));
    let generated = request.generated.filter(|path| {
        let there = path.exists();
        if !there {
            let name = log::printable(path.as_os_str().as_bytes(), DIR_MAX);
            crate::log_error!(Nrt, "coredump", "Unable to find file: {name}");
        }
        there
    });
    [
        ("--pid", of(&variables.pid)),
        ("--tid", of(&variables.tid)),
        ("--log-id", of(&variables.log_id)),
        ("--instance-id", of(&variables.instance_id)),
        ("--local-output-dir", Some(expand_dir(gate.directory(), variables))),
        ("--s3-output-prefix", prefix),
        ("--cluster-id", of(&variables.cluster_id)),
        ("--date-time", of(&variables.datetime)),
        ("--neff-name", request.neff_name.map(OsString::from)),
        ("--neff-uuid", request.neff_uuid.map(OsString::from)),
        ("--error-location", request.error_location.map(OsString::from)),
        ("--error-code", Some(request.failure.code().to_string().into())),
        ("--device-id", request.device.map(|id| id.to_string().into())),
        ("--core-id", request.core.map(|id| id.to_string().into())),
        ("--runtime-generated", generated.map(OsString::from)),
    ]
    .into_iter()
    .filter_map(|(option, value)| Some([OsString::from(option), value?]))
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::{fs, os::unix::fs::PermissionsExt};

    const AT: Local = Local { year: 2026, month: 4, day: 9, hour: 7, minute: 8, second: 9, micros: 10 };

    fn variables() -> PathVariables {
        PathVariables::new(11, 22, 33, Some(0xabc), &AT, Some("i-0123"))
    }

    #[test]
    fn each_token_has_its_value() {
        for (template, expected) in [
            ("%p", "11"),
            ("%t", "22"),
            ("%l", "33"),
            ("%c", "0000000000000abc"),
            ("%d", "20260409-070809"),
            ("%i", "i-0123"),
            ("%x", "%x"),
            ("%", "%"),
            ("a%", "a%"),
            ("%%p", "%11"),
            ("%P", "%P"),
            ("", ""),
            (DEFAULT_DIRECTORY, "/tmp/neuron-core-dump/dt-20260409-070809-cid-0000000000000abc"),
            (LOG_NAME, "i-0123-nrt-pid-11.log"),
            (&hardware_name(4, 5), "i-0123-nd4-nc5-pid-11-tid-22-lid-33"),
        ] {
            assert_eq!(expand_name(template.as_ref(), &variables()), expected, "{template}");
        }
    }

    #[test]
    fn unknown_ids_are_none_and_no_value_leaves_its_field() {
        let unknown = PathVariables::new(0, 0, 0, None, &AT, None);
        assert_eq!(expand_dir("%c/%i".as_ref(), &unknown), "none/none");
        let long = PathVariables::new(u32::MAX, u32::MAX, u32::MAX, Some(u64::MAX), &AT, Some(&"i/\n".repeat(50)));
        assert_eq!(
            expand_dir("%p %t %l %c %i".as_ref(), &long),
            "4294967295 4294967295 4294967295 ffffffffffffffff i__i__i__i__i__i__i__i"
        );
    }

    #[test]
    fn bytes_that_are_no_text_pass_through() {
        assert_eq!(expand_dir(OsStr::from_bytes(b"\xff%p\xfe"), &variables()).as_bytes(), b"\xff11\xfe");
    }

    proptest! {
        /// Oracle: cut the template at the percent signs; each later piece stands for one of them.
        #[test]
        fn expansion_agrees_with_cutting_at_percent_signs(
            template in "([a-z/]{0,3}%?[ptlcdixPz%]?){0,2000}",
        ) {
            let values = [('p', "11"), ('t', "22"), ('l', "33"), ('c', "0000000000000abc"), ('d', "20260409-070809"), ('i', "i-0123")];
            let mut pieces = template.split('%');
            let mut expected = pieces.next().unwrap().to_owned();
            for piece in pieces {
                match values.iter().find(|(token, _)| piece.starts_with(*token)) {
                    Some((_, value)) => expected.extend([value, &piece[1..]]),
                    None => expected.extend(["%", piece]),
                }
            }
            for (bound, got) in [
                (DIR_MAX, expand_dir(template.as_ref(), &variables())),
                (NAME_MAX, expand_name(template.as_ref(), &variables())),
            ] {
                prop_assert!(got.len() <= bound);
                prop_assert_eq!(got.to_str().unwrap(), &expected[..expected.len().min(bound)]);
            }
        }
    }

    #[test]
    fn long_results_are_cut_at_the_bounds() {
        let template = "%d".repeat(1000);
        assert_eq!(expand_dir(template.as_ref(), &variables()).len(), 0x1000);
        assert_eq!(expand_name(template.as_ref(), &variables()).len(), 0xff);
    }

    #[test]
    fn log_ids_are_never_given_twice() {
        let mut ids: Vec<u32> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..4).map(|_| scope.spawn(|| (0..100).map(|_| next_log_id()).collect::<Vec<_>>())).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 400);
    }

    /// A helper that writes its arguments, one a line, next to itself and leaves with status 7.
    fn helper(folder: &Path) -> PathBuf {
        let path = folder.join("helper");
        let script = "#!/bin/sh\nprintf '%s\\n' \"$@\" > \"${0%/*}/arguments\"\nexit 7\n";
        // Another process writes the file: a descriptor open for writing here could be inherited by
        // a child some other test starts, and the kernel refuses to execute a file open for writing.
        let written = Command::new("/bin/sh")
            .args(["-c", "printf '%s' \"$1\" > \"$2\" && chmod 755 \"$2\"", "sh", script])
            .arg(&path)
            .status();
        assert!(written.unwrap().success());
        path
    }

    fn request(variables: &PathVariables) -> Request<'_> {
        Request {
            variables,
            failure: Status::Timeout,
            neff_name: None,
            neff_uuid: None,
            error_location: None,
            device: None,
            core: None,
            generated: None,
        }
    }

    fn passed(folder: &Path) -> Vec<String> {
        fs::read_to_string(folder.join("arguments")).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn the_helper_gets_exactly_the_options_that_are_known() {
        let folder = tempfile::tempdir().unwrap();
        let gate = Gate::new("/d/%p", "").with_helper(helper(folder.path()));
        let variables = variables();
        let status = run_helper(&gate, &request(&variables)).unwrap().unwrap();
        assert_eq!(status.code(), Some(7), "the parent waited");
        assert_eq!(
            passed(folder.path()).join(" "),
            "--pid 11 --tid 22 --log-id 33 --instance-id i-0123 --local-output-dir /d/11 \
             --cluster-id 0000000000000abc --date-time 20260409-070809 --error-code 5"
        );
    }

    #[test]
    fn the_helper_gets_every_option() {
        let folder = tempfile::tempdir().unwrap();
        let gate = Gate::new("", "s3://b/%i").with_helper(helper(folder.path()));
        let log = folder.path().join("log");
        fs::write(&log, "").unwrap();
        let variables = variables();
        let request = Request {
            neff_name: Some("my model"),
            neff_uuid: Some("u-1"),
            error_location: Some("here"),
            device: Some(3),
            core: Some(1),
            generated: Some(&log),
            ..request(&variables)
        };
        run_helper(&gate, &request).unwrap().unwrap();
        let expected = format!(
            "--pid|11|--tid|22|--log-id|33|--instance-id|i-0123|--local-output-dir|\
             /tmp/neuron-core-dump/dt-20260409-070809-cid-0000000000000abc|--s3-output-prefix|s3://b/i-0123|\
             --cluster-id|0000000000000abc|--date-time|20260409-070809|--neff-name|my model|--neff-uuid|u-1|\
             --error-location|here|--error-code|5|--device-id|3|--core-id|1|--runtime-generated|{}",
            log.display()
        );
        assert_eq!(passed(folder.path()).join("|"), expected);
    }

    #[test]
    fn the_gate_needs_a_place_and_a_helper() {
        let folder = tempfile::tempdir().unwrap();
        let good = helper(folder.path());
        let plain = folder.path().join("plain");
        fs::write(&plain, "").unwrap();
        fs::set_permissions(&plain, PermissionsExt::from_mode(0o644)).unwrap();
        for (directory, prefix, helper, open) in [
            ("/d", "", good.as_path(), true),
            ("", "s3://b", &good, true),
            ("/d", "s3://b", &good, true),
            ("", "", &good, false),
            ("/d", "", &plain, false),
            ("/d", "", folder.path(), false),
            ("/d", "", Path::new("/no/such/helper"), false),
        ] {
            assert_eq!(
                Gate::new(directory, prefix).with_helper(helper).is_open(),
                open,
                "{directory} {prefix} {helper:?}"
            );
        }
    }

    #[test]
    fn nothing_runs_without_a_failure_or_behind_a_closed_gate() {
        let folder = tempfile::tempdir().unwrap();
        let helper = helper(folder.path());
        let variables = variables();
        let success = Request { failure: Status::Success, ..request(&variables) };
        assert!(run_helper(&Gate::new("/d", "").with_helper(&helper), &success).unwrap().is_none());
        assert!(run_helper(&Gate::new("", "").with_helper(&helper), &request(&variables)).unwrap().is_none());
        assert!(!folder.path().join("arguments").exists());
    }
}
