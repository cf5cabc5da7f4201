//! The one funnel to the environment, and the variables that are our own.
//!
//! Every parser takes an [`Env`], so that all of them are pure; only this file touches the process
//! environment. Nothing is read at load: each query reads what it needs at that moment.

use super::parse::{self, Fault};
use crate::Result;
use std::{ffi::OsString, os::unix::ffi::OsStringExt, path::PathBuf};

/// Where variables are looked up.
pub(crate) trait Env {
    /// The text of `name`, or `None` when it is not set.
    fn get(&self, name: &str) -> Option<Vec<u8>>;
    /// All names that are set, for prefix variables and the report.
    fn names(&self) -> Vec<String>;
}

/// The environment of this process.
pub(crate) struct Process;

impl Env for Process {
    fn get(&self, name: &str) -> Option<Vec<u8>> {
        std::env::var_os(name).map(OsStringExt::into_vec)
    }

    fn names(&self) -> Vec<String> {
        std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect()
    }
}

/// Another environment with one variable replaced.
pub(crate) struct With<'a> {
    pub(crate) below: &'a dyn Env,
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
}

impl Env for With<'_> {
    fn get(&self, name: &str) -> Option<Vec<u8>> {
        if name == self.name { Some(self.text.into()) } else { self.below.get(name) }
    }

    fn names(&self) -> Vec<String> {
        let mut names = self.below.names();
        if !names.iter().any(|name| name == self.name) {
            names.push(self.name.into());
        }
        names
    }
}

/// A variable of this project, not of the vendor.
pub(crate) struct Own {
    /// Name in the environment.
    pub(crate) name: &'static str,
    /// What holds when it is not set.
    pub(crate) default: &'static str,
    /// What it does, in one line.
    pub(crate) effect: &'static str,
}

pub(crate) const HBM_MIB: &str = "OPENNRT_HBM_MIB";

/// All variables of our own that belong to the configuration.
pub(crate) const OWN: [Own; 3] = [
    Own { name: "OPENNRT_DEV_DIR", default: "/dev", effect: "folder of the device files neuron0, neuron1 …" },
    Own { name: "OPENNRT_SYS_DIR", default: "/sys", effect: "root of the sysfs tree that is read" },
    Own { name: HBM_MIB, default: "size of the product", effect: "device memory of one simulated device, in MiB" },
];

/// Folder of the device files (`OPENNRT_DEV_DIR`, default `/dev`).
pub fn dev_dir() -> PathBuf {
    folder(&Process, trusted(), &OWN[0])
}

/// Root of the sysfs tree (`OPENNRT_SYS_DIR`, default `/sys`).
pub fn sys_dir() -> PathBuf {
    folder(&Process, trusted(), &OWN[1])
}

/// Device memory of one simulated device in MiB (`OPENNRT_HBM_MIB`), at least 1; `None` when not set.
///
/// # Errors
/// `Invalid` when the text is not such a number; the reason is logged.
pub fn hbm_mib() -> Result<Option<u32>> {
    parse_hbm_mib(&Process, trusted()).map_err(|fault| fault.report("hbm_mib"))
}

/// False in a set-uid or set-gid process, where whoever starts it must not steer which files it opens.
pub(crate) fn trusted() -> bool {
    // SAFETY: getauxval reads the vector the kernel handed over at exec; it takes no pointer and
    // answers 0 for a type it does not know.
    unsafe { libc::getauxval(libc::AT_SECURE) == 0 }
}

/// The text of a variable of our own; empty means not set.
pub(crate) fn own(env: &dyn Env, trusted: bool, name: &str) -> Option<Vec<u8>> {
    env.get(name).filter(|text| trusted && !text.is_empty())
}

fn folder(env: &dyn Env, trusted: bool, own_variable: &Own) -> PathBuf {
    own(env, trusted, own_variable.name)
        .map_or_else(|| own_variable.default.into(), |text| OsString::from_vec(text).into())
}

pub(crate) fn parse_hbm_mib(env: &dyn Env, trusted: bool) -> std::result::Result<Option<u32>, Fault> {
    let name = HBM_MIB;
    let Some(text) = own(env, trusted, name) else { return Ok(None) };
    let form = "1 to 4294967295 MiB, decimal or 0x hex";
    parse::number(&text, 1, u32::MAX.into())
        .map(|mib| Some(mib as u32))
        .map_err(|reason| Fault::new(name, &text, reason, form))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::Vars;

    #[test]
    fn own_variables_have_defaults_and_empty_means_not_set() {
        let unset = Vars::new(&[("OPENNRT_SYS_DIR", "")]);
        assert_eq!(folder(&unset, true, &OWN[0]), PathBuf::from("/dev"));
        assert_eq!(folder(&unset, true, &OWN[1]), PathBuf::from("/sys"));
        assert!(matches!(parse_hbm_mib(&unset, true), Ok(None)));
    }

    #[test]
    fn own_variables_are_ignored_in_a_set_uid_process() {
        let set = Vars::new(&[("OPENNRT_DEV_DIR", "/tmp/x"), ("OPENNRT_HBM_MIB", "bad")]);
        assert_eq!(folder(&set, true, &OWN[0]), PathBuf::from("/tmp/x"));
        assert_eq!(folder(&set, false, &OWN[0]), PathBuf::from("/dev"));
        assert!(matches!(parse_hbm_mib(&set, false), Ok(None)));
    }

    #[test]
    fn device_memory_is_a_positive_number_of_mib() {
        let ask = |text| parse_hbm_mib(&Vars::new(&[("OPENNRT_HBM_MIB", text)]), true);
        assert!(matches!(ask("64"), Ok(Some(64))));
        for bad in ["0", "-1", "x", "4294967296"] {
            let fault = ask(bad).expect_err(bad).to_string();
            assert!(fault.starts_with(&format!("OPENNRT_HBM_MIB=\"{bad}\"")), "{fault}");
        }
    }
}
