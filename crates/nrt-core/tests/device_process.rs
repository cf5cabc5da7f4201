//! Counting and identity as a process sees them: environment, device files, log lines.
//!
//! Each case plays its role in a child process (this binary again, told so by a variable), because
//! the environment and the cached identity belong to the whole process.

use nrt_core::{Status, device, instance};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// Names the role of a child.
const ROLE: &str = "DEVICE_ROLE";

const ROLES: &[(&str, fn())] = &[
    ("no_device", no_device),
    ("no_device_identity", no_device_identity),
    ("no_device_visible", no_device_visible),
    ("denied", denied),
    ("fake_identity_first", fake_identity_first),
    ("fake_visible_first", fake_visible_first),
    ("fake_total_first", fake_total_first),
    ("ladder", ladder),
    ("devices_appear", devices_appear),
    ("container", container),
    ("racing_threads", racing_threads),
];

/// In a child: its role. In the parent: every role is played by some case.
#[test]
fn a_child_plays_its_role() {
    match std::env::var(ROLE) {
        Ok(role) => ROLES.iter().find(|(name, _)| *name == role).unwrap_or_else(|| panic!("no role {role}")).1(),
        Err(_) => {
            let cases = include_str!("device_process.rs");
            for (name, _) in ROLES {
                assert!(cases.matches(&format!("\"{name}\"")).count() > 1, "nobody plays {name}");
            }
        }
    }
}

struct Stage {
    dir: tempfile::TempDir,
}

impl Stage {
    fn new() -> Stage {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        for name in ["dev", "sys"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        Stage { dir }
    }

    /// Run a role; the answer is its standard error.
    fn play(&self, role: &str, env: &[(&str, &str)]) -> String {
        let mut command = Command::new(std::env::current_exe().unwrap());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("NEURON_") || name.to_string_lossy().starts_with("OPENNRT_") {
                command.env_remove(name);
            }
        }
        command
            .args(["--exact", "a_child_plays_its_role", "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .env("OPENNRT_DEV_DIR", self.dir.path().join("dev"))
            .env("OPENNRT_SYS_DIR", self.dir.path().join("sys"))
            .envs(env.iter().copied());
        let Output { status, stdout, stderr } = command.output().unwrap();
        let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        assert!(status.success(), "{role} failed:\n{stdout}\n{stderr}");
        stderr.into_owned()
    }
}

fn root(name: &str) -> PathBuf {
    std::env::var_os(name).map(PathBuf::from).unwrap()
}

fn put(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn plug_in(index: u32, kind: &str) {
    let class = root("OPENNRT_SYS_DIR").join(format!("class/neuron_device/neuron{index}"));
    put(&class.join("info/architecture/instance_type"), kind);
    put(&root("OPENNRT_DEV_DIR").join(format!("neuron{index}")), "");
}

/// Change the environment of this role.
fn set(name: &str, value: Option<&str>) {
    match value {
        // SAFETY: a role is the only test of its process and starts no other thread before this.
        Some(value) => unsafe { std::env::set_var(name, value) },
        // SAFETY: as above.
        None => unsafe { std::env::remove_var(name) },
    }
}

/// Position of the first line with `text`.
fn line(log: &str, text: &str) -> usize {
    log.lines().position(|l| l.contains(text)).unwrap_or_else(|| panic!("no line with {text:?} in:\n{log}"))
}

/// A032 A079, case B01: the driver's line, one that names what to do, then those of the calls.
#[test]
fn no_device_is_said_once_with_the_switch_named() {
    let log = Stage::new().play("no_device", &[]);
    let tdrv = line(&log, "No neuron device available");
    let advice = line(&log, "No Neuron devices were found");
    assert!(tdrv < advice && advice < line(&log, "Failed to parse vnc config"), "{log}");
    assert!(log.lines().nth(advice).unwrap().contains("NEURON_RT_FAKE_INSTANCE_TYPE"), "{log}");
    assert_eq!(log.lines().count(), 3, "{log}");
    let log = Stage::new().play("no_device_identity", &[]);
    assert!(line(&log, "No Neuron devices") < line(&log, "Failed to get device info by nrt_get_dev_info()"), "{log}");
}

fn no_device() {
    assert_eq!(device::total_vnc_count(), Err(Status::Invalid));
}

fn no_device_identity() {
    assert_eq!(instance::info(), Err(Status::Invalid));
    let mut out = [0xAA; 32];
    assert_eq!(instance::copy_out(32, &mut out), Err(Status::Invalid));
    assert_eq!(out, [0xAA; 32]);
}

/// A028: the hardware is asked before the size is looked at.
#[test]
fn no_device_comes_before_a_bad_core_size() {
    for role in ["no_device", "no_device_visible"] {
        let env = [("NEURON_LOGICAL_NC_CONFIG", "3"), ("NEURON_RT_VISIBLE_CORES", "0-3")];
        let log = Stage::new().play(role, &env);
        line(&log, "No Neuron devices were found");
        assert!(!log.contains("NEURON_LOGICAL_NC_CONFIG"), "{log}");
    }
}

fn no_device_visible() {
    assert_eq!(device::visible_vnc_count_from_env(), Err(Status::Invalid));
}

#[test]
fn a_node_that_may_not_be_opened_is_said_to_be_one() {
    let log = Stage::new().play("denied", &[]);
    assert!(log.lines().nth(line(&log, "may not open")).unwrap().contains("neuron0: "), "{log}");
    assert!(!log.contains("No neuron device available") && !log.contains("No Neuron devices"), "{log}");
}

fn denied() {
    plug_in(0, "Trn2\n");
    plug_in(1, "Trn2\n");
    for index in 0..2 {
        let node = root("OPENNRT_DEV_DIR").join(format!("neuron{index}"));
        fs::set_permissions(node, fs::Permissions::from_mode(0o000)).unwrap();
    }
    // SAFETY: takes numbers only; the root user could open the files whatever their mode.
    if unsafe { libc::geteuid() } == 0 {
        // SAFETY: as above.
        assert_eq!(unsafe { libc::setresuid(65534, 65534, 65534) }, 0);
    }
    assert_eq!(device::total_vnc_count(), Err(Status::Invalid));
}

/// A026 A047 A075 A094: whatever is called first, the fake instance answers, and no device file or
/// sysfs is needed for it.
#[test]
fn a_fake_instance_answers_any_first_call() {
    for role in ["fake_identity_first", "fake_visible_first", "fake_total_first"] {
        let log = Stage::new().play(role, &[("NEURON_RT_FAKE_INSTANCE_TYPE", "trn2u.48xlarge")]);
        assert_eq!(log, "", "{role}");
    }
}

fn fake_identity() {
    let info = instance::info().unwrap();
    assert_eq!((info.family, info.size, info.device_revision), (9, 7, [0; 8]));
    assert_eq!(device::dev_info().unwrap().backend, device::Backend::Fake);
}

fn fake_identity_first() {
    fake_identity();
}

fn fake_visible_first() {
    assert_eq!(device::visible_vnc_count_from_env(), Ok(64));
    fake_identity();
}

fn fake_total_first() {
    assert_eq!(device::total_vnc_count(), Ok(64));
    fake_identity();
}

/// A020 A034 A049 A051 A055: the ladder, rung by rung, read again at each call.
#[test]
fn counts_follow_the_environment_at_each_call() {
    let log = Stage::new().play("ladder", &[("NEURON_RT_FAKE_INSTANCE_TYPE", "trn2.48xlarge")]);
    line(&log, "Specified core not accessible! is /dev/neuron16 visible to process?");
}

fn ladder() {
    let count = device::visible_vnc_count_from_env;
    assert_eq!(count(), Ok(64));
    set("NEURON_RT_NUM_CORES", Some("999"));
    assert_eq!(count(), Ok(999));
    set("NEURON_RT_VISIBLE_CORES", Some("0,1-2,3"));
    assert_eq!(count(), Ok(4));
    set("NEURON_RT_VISIBLE_CORES", Some("60-64"));
    assert_eq!(count(), Err(Status::Invalid));
    set("NEURON_LOGICAL_NC_CONFIG", Some("1"));
    assert_eq!((count(), device::total_vnc_count()), (Ok(5), Ok(128)));
    set("NEURON_LOGICAL_NC_CONFIG", Some("3"));
    assert_eq!((count(), device::total_vnc_count()), (Err(Status::Invalid), Err(Status::Invalid)));
    set("NEURON_RT_VISIBLE_CORES", None);
    assert_eq!(count(), Ok(999), "a number asks nothing of the hardware");
}

/// A071 A080 A092: failures are forgotten, the first success is kept without the machine.
#[test]
fn identity_is_asked_again_until_it_succeeds_and_then_kept() {
    let log = Stage::new().play("devices_appear", &[]);
    line(&log, "No Neuron devices were found");
    line(&log, "product name");
}

fn devices_appear() {
    assert_eq!(instance::info(), Err(Status::Invalid));
    plug_in(1, "Trn1\n");
    assert_eq!(instance::info(), Err(Status::Failure), "no product name");
    let product = root("OPENNRT_SYS_DIR").join("devices/virtual/dmi/id/product_name");
    put(&product, "trn1.2xlarge\n");
    let info = *instance::info().unwrap();
    assert_eq!((info.family, info.size), (2, 1));
    put(&product, "trn2.48xlarge\n");
    assert_eq!(instance::info(), Ok(&info), "not read again");
    for name in ["OPENNRT_DEV_DIR", "OPENNRT_SYS_DIR"] {
        fs::remove_dir_all(root(name)).unwrap();
    }
    assert_eq!(instance::info(), Ok(&info), "no file is needed");
    let mut out = [0; 32];
    assert_eq!(instance::copy_out(64, &mut out), Ok(()));
    assert_eq!(out, info.to_bytes());
}

/// A063 A065: a container that sees devices 1 and 3.
#[test]
fn a_container_counts_and_lists_its_own_devices_only() {
    let log = Stage::new().play("container", &[]);
    line(&log, "Specified core not accessible! is /dev/neuron2 visible to process?");
}

fn container() {
    plug_in(1, "Trn2\n");
    plug_in(3, "Trn2\n");
    assert_eq!(device::total_vnc_count(), Ok(8));
    for (list, answer) in [("4-7,12-15", Ok(8)), ("4", Ok(1)), ("4-8", Err(Status::Invalid))] {
        set("NEURON_RT_VISIBLE_CORES", Some(list));
        assert_eq!(device::visible_vnc_count_from_env(), answer, "{list}");
    }
}

/// A093: many first calls at once, one answer.
#[test]
fn threads_that_race_for_identity_get_one_record() {
    Stage::new().play("racing_threads", &[("NEURON_RT_FAKE_INSTANCE_TYPE", "inf2.24xlarge")]);
}

fn racing_threads() {
    let threads: Vec<_> = (0..16).map(|_| std::thread::spawn(|| instance::info().unwrap())).collect();
    let first = instance::info().unwrap();
    for thread in threads {
        assert!(std::ptr::eq(thread.join().unwrap(), first));
    }
}
