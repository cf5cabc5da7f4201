//! The information dump: what a support request needs, printed at most once per severity
//! (`facts/runtime/lifecycle.md` section 7).

use crate::{
    log::{self, Level, Module, printable},
    version,
};
use neuron_abi::Status;
use std::{
    ffi::OsString,
    os::unix::ffi::OsStrExt,
    sync::atomic::{AtomicU8, Ordering::Relaxed},
};

/// Name the vendor's dump lines carry in the function column.
const FUNCTION: &str = "nrt_infodump";
/// Most variables shown; with the fixed lines, and what nrt_init says about a bad configuration, a
/// failure stays below a screen of 50 lines.
const VARIABLES: usize = 16;
/// Most bytes shown of one value.
const VALUE: usize = 96;
/// Most bytes of one line, whatever a version file or a host name holds.
const LINE: usize = 240;
/// Most cores shown.
const CORES: usize = 32;

/// What the dump tells. Unknown things stay `None`; texts may hold anything, they are escaped.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Commit this library was built from, 40 hexadecimal digits.
    pub git_hash: String,
    /// Version of the microcode library.
    pub firmware: Option<String>,
    /// Version and compatibility id of the collectives library.
    pub collectives: Option<(String, u64)>,
    /// Version of the collectives firmware; no line when there is none.
    pub collectives_firmware: Option<String>,
    /// Cloud instance id.
    pub instance_id: Option<String>,
    /// Id of the cluster the instance is part of.
    pub cluster_id: Option<u64>,
    /// Kernel release.
    pub kernel: String,
    /// Host name.
    pub nodename: String,
    /// Version of the kernel driver.
    pub driver: Option<String>,
    /// Physical cores per logical core.
    pub lnc: u32,
    /// Logical cores of this process.
    pub visible_cores: Vec<u32>,
    /// Variables whose names start with `NEURON`.
    pub environment: Vec<(OsString, OsString)>,
}

impl Facts {
    /// What this host tells about itself: kernel, name and environment. The rest is the caller's.
    pub fn of_this_host() -> Facts {
        let host = rustix::system::uname();
        Facts {
            kernel: host.release().to_string_lossy().into_owned(),
            nodename: host.nodename().to_string_lossy().into_owned(),
            environment: log::environment(),
            ..Facts::default()
        }
    }

    /// The lines, in the vendor's order; an ERROR dump has the line about the failure.
    fn lines(&self, failure: Option<(&str, Status)>) -> Vec<String> {
        let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "N/A".into());
        let mut lines = vec![
            "Neuron runtime information - please include in any support request:".into(),
            "------------->8------------[ cut here ]------------>8-------------".into(),
            format!("NRT version: {} ({})", version::VENDOR_TEXT, self.git_hash),
            format!("Embedded FW version: {}", text(&self.firmware)),
            match &self.collectives {
                Some((version, id)) => format!("CCOM version: {version} (compat {id})"),
                None => "CCOM version: N/A (compat 0)".into(),
            },
        ];
        lines.extend(self.collectives_firmware.as_ref().map(|version| format!("NCFW version {version}")));
        lines.extend([
            format!("Instance ID: {}", text(&self.instance_id)),
            self.cluster_id.map_or_else(|| "Cluster ID: 0".into(), |id| format!("Cluster ID: {id:016x}")),
            format!("Kernel: {}", self.kernel),
            format!("Nodename: {}", self.nodename),
            format!("Driver version: {}", text(&self.driver)),
            String::new(),
        ]);
        lines.extend(failure.map(|(api, status)| format!("Failure: {status} in {api}()")));
        lines.extend([
            format!("LNC: {}", self.lnc),
            format!("Visible cores: {}", cores(&self.visible_cores)),
            "Environment:".into(),
        ]);
        for (name, value) in self.environment.iter().take(VARIABLES) {
            let (name, value) = (printable(name.as_bytes(), VALUE), printable(value.as_bytes(), VALUE));
            lines.push(format!("    {name}={value}"));
        }
        if let Some(more) = self.environment.len().checked_sub(VARIABLES + 1) {
            lines.push(format!("    ... and {} more", more + 1));
        }
        lines.push("-------------8<-----------[ cut to here ]-----------8<------------".into());
        lines.iter().map(|line| printable(line.as_bytes(), LINE).to_string()).collect()
    }
}

fn cores(cores: &[u32]) -> String {
    let mut list = cores.iter().take(CORES).map(u32::to_string).collect::<Vec<_>>().join(", ");
    if cores.len() > CORES {
        list.push_str(&format!(", ... ({} in all)", cores.len()));
    }
    list
}

/// Worst severity dumped so far: 0 nothing, 1 a success, 2 a failure.
static WORST: AtomicU8 = AtomicU8::new(0);

/// The severity a dump of `level` has in `worst`.
fn severity(level: Level) -> u8 {
    if level == Level::Error { 2 } else { 1 }
}

/// Take the right to dump at `level`; one caller gets it.
fn claim(worst: &AtomicU8, level: Level) -> bool {
    worst.fetch_max(severity(level), Relaxed) < severity(level)
}

/// Whether a dump of `level` (INFO or ERROR) is still due and would be seen: worth a look before
/// [`Facts`] are collected.
pub fn due(level: Level) -> bool {
    log::enabled(level, Module::Nrt) && WORST.load(Relaxed) < severity(level)
}

fn dump(level: Level, facts: &Facts, failure: Option<(&str, Status)>) {
    if due(level) && claim(&WORST, level) {
        for line in facts.lines(failure) {
            log::emit_now(level, Module::Nrt, FUNCTION, format_args!("{line}"));
        }
    }
}

/// The INFO dump of the first successful `nrt_init`. Silent when INFO is off, and after any dump.
pub fn dump_success(facts: &Facts) {
    dump(Level::Info, facts, None);
}

/// The ERROR dump of the first public call that fails, `api`, with what it returns. Silent after
/// an earlier ERROR dump. Printed at once, even inside an open [`log::Scope`].
pub fn dump_failure(facts: &Facts, api: &str, status: Status) {
    dump(Level::Error, facts, Some((api, status)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts {
            git_hash: "0123".into(),
            kernel: "6.1.0".into(),
            nodename: "host".into(),
            driver: Some("2.27.4.0".into()),
            lnc: 2,
            visible_cores: vec![0, 1],
            environment: vec![("NEURON_RT_NUM_CORES".into(), "2\n".into())],
            ..Facts::default()
        }
    }

    #[test]
    fn the_lines_of_a_failure_in_order() {
        let expected = "\
Neuron runtime information - please include in any support request:
------------->8------------[ cut here ]------------>8-------------
NRT version: 2.31.24.0 (0123)
Embedded FW version: N/A
CCOM version: N/A (compat 0)
Instance ID: N/A
Cluster ID: 0
Kernel: 6.1.0
Nodename: host
Driver version: 2.27.4.0

Failure: NRT_INVALID in nrt_init()
LNC: 2
Visible cores: 0, 1
Environment:
    NEURON_RT_NUM_CORES=2\\n
-------------8<-----------[ cut to here ]-----------8<------------";
        assert_eq!(facts().lines(Some(("nrt_init", Status::Invalid))).join("\n"), expected);
        let success = facts().lines(None);
        assert!(!success.iter().any(|line| line.starts_with("Failure")));
        assert_eq!(success.len(), expected.lines().count() - 1);
    }

    #[test]
    fn known_things_are_told() {
        let lines = Facts {
            firmware: Some("1.2".into()),
            collectives: Some(("2.29".into(), 89)),
            collectives_firmware: Some("3.4".into()),
            instance_id: Some("i-0abc".into()),
            cluster_id: Some(0xbeef),
            ..facts()
        }
        .lines(None);
        assert_eq!(
            lines[3..8],
            [
                "Embedded FW version: 1.2",
                "CCOM version: 2.29 (compat 89)",
                "NCFW version 3.4",
                "Instance ID: i-0abc",
                "Cluster ID: 000000000000beef",
            ]
        );
    }

    #[test]
    fn the_dump_stays_below_a_screen() {
        let huge = Facts {
            collectives_firmware: Some("1".into()),
            driver: Some("9".repeat(1 << 20)),
            visible_cores: (0..512).collect(),
            environment: (0..500).map(|n| (format!("NEURON_{n}").into(), "v".repeat(100_000).into())).collect(),
            ..facts()
        };
        let lines = huge.lines(Some(("nrt_init", Status::Failure)));
        // A bad configuration says up to 12 lines of its own.
        assert!(lines.len() <= 38, "{}", lines.len());
        assert!(lines.iter().all(|line| line.len() <= LINE + 3));
        assert!(lines.contains(&"    ... and 484 more".to_owned()));
        assert!(lines.iter().any(|line| line.ends_with("30, 31, ... (512 in all)")));
    }

    #[test]
    fn exactly_the_cap_leaves_nothing_out() {
        let facts = Facts { environment: vec![("NEURON_A".into(), "1".into()); VARIABLES], ..facts() };
        assert!(!facts.lines(None).iter().any(|line| line.contains("more")));
    }

    #[test]
    fn one_dump_per_severity_and_no_success_after_a_failure() {
        use Level::{Error, Info};
        for (calls, expected) in [
            ([Info, Info, Error, Error], [true, false, true, false]),
            ([Error, Info, Error, Info], [true, false, false, false]),
            ([Info, Error, Info, Error], [true, true, false, false]),
        ] {
            let worst = AtomicU8::new(0);
            assert_eq!(calls.map(|level| claim(&worst, level)), expected, "{calls:?}");
        }
    }

    #[test]
    fn the_host_names_itself() {
        let facts = Facts::of_this_host();
        let read = |file: &str| std::fs::read_to_string(file).unwrap().trim_end().to_owned();
        assert_eq!(facts.kernel, read("/proc/sys/kernel/osrelease"));
        assert_eq!(facts.nodename, read("/proc/sys/kernel/hostname"));
    }
}
