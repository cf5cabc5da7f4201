//! An emulated instance for a test, published by `neuron-emu serve`.

// Every test binary uses its own part of this.
#![allow(dead_code)]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The program `neuron-emu`, in the profile of this test. `cargo test` of another package does not
/// build it.
pub fn program() -> PathBuf {
    let exe = std::env::current_exe().expect("a test knows its own path");
    let profile = exe.ancestors().nth(2).expect("a test binary is two folders below its profile's");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(env!("CARGO_MANIFEST_DIR")).args(["build", "--quiet", "--package", "neuron-emu"]);
    cargo.arg("--target-dir").arg(profile.parent().expect("a profile's folder is in the target folder"));
    if profile.ends_with("release") {
        cargo.arg("--release");
    }
    assert!(cargo.status().expect("cargo can be started").success(), "neuron-emu must build");
    profile.join("neuron-emu")
}

/// A published instance; gone when dropped.
pub struct Served {
    program: PathBuf,
    root: PathBuf,
    child: Child,
    _dir: tempfile::TempDir,
}

impl Served {
    /// Publishes `instance` with more arguments of `neuron-emu serve`. `None`, with a remark, where
    /// nothing can be mounted; in a CI run that is a failure.
    pub fn start(program: &Path, instance: &str, more: &[&str]) -> Option<Served> {
        let root_user = std::fs::read_to_string("/proc/self/status")
            .is_ok_and(|s| s.lines().any(|l| l.starts_with("Uid:") && l.split_whitespace().nth(2) == Some("0")));
        if !root_user || !Path::new("/dev/fuse").exists() {
            assert!(std::env::var_os("CI").is_none(), "an emulated instance needs root and /dev/fuse");
            eprintln!("skipped: an emulated instance needs root and /dev/fuse");
            return None;
        }
        let dir = tempfile::tempdir().expect("a temporary folder can be made");
        let root = dir.path().join("root");
        let mut command = Command::new(program);
        command.args(["serve", "--instance", instance, "--root"]).arg(&root).args(more).stdout(Stdio::piped());
        let mut child = command.spawn().expect("neuron-emu can be started");
        let mut line = String::new();
        let out = child.stdout.take().expect("the output is a pipe");
        BufReader::new(out).read_line(&mut line).expect("neuron-emu says something");
        assert!(line.starts_with("ready: "), "{line:?}");
        Some(Served { program: program.to_owned(), root, child, _dir: dir })
    }

    /// Where the device files are.
    pub fn dev(&self) -> PathBuf {
        self.root.join("dev")
    }

    /// Where sysfs is.
    pub fn sys(&self) -> PathBuf {
        self.root.join("sys")
    }

    /// The variables that lead programs here.
    pub fn variables(&self) -> [(&'static str, PathBuf); 2] {
        [("OPENNRT_DEV_DIR", self.dev()), ("OPENNRT_SYS_DIR", self.sys())]
    }

    /// Asks the instance something; the answer is JSON text.
    pub fn ctl(&self, words: &[&str]) -> String {
        let mut command = Command::new(&self.program);
        command.args(["ctl", "--root"]).arg(&self.root).args(words);
        let output = command.output().expect("neuron-emu can be started");
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("JSON is UTF-8")
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // The process ends in order on this signal; killing it leaves the clean-up to its helper.
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
    }
}
