//! The program `nrt-info` as a person or a script meets it.

use serde_json::Value;
use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};

/// The program on a machine without devices and with nothing configured.
fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nrt-info"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("NEURON_") || name.to_string_lossy().starts_with("OPENNRT_") {
            command.env_remove(name);
        }
    }
    command.env("OPENNRT_DEV_DIR", "/nonexistent/dev").env("OPENNRT_SYS_DIR", "/nonexistent/sys");
    command
}

fn run(args: &[&str], env: &[(&str, &str)]) -> Output {
    program().args(args).envs(env.iter().copied()).output().unwrap()
}

fn json(env: &[(&str, &str)]) -> Value {
    let out = run(&["--json"], env);
    assert_eq!((out.status.code(), String::from_utf8_lossy(&out.stderr).as_ref()), (Some(0), ""));
    serde_json::from_slice(&out.stdout).unwrap()
}

fn fake(name: &str) -> (&'static str, &str) {
    ("NEURON_RT_FAKE_INSTANCE_TYPE", name)
}

fn put(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn the_backend_comes_first_and_every_physical_number_says_so() {
    let out = run(&[], &[fake("trn2.48xlarge")]);
    let text = String::from_utf8(out.stdout).unwrap();
    assert_eq!(out.status.code(), Some(0));
    assert!(text.starts_with("Backend           fake: simulated"), "{text}");
    for line in [
        "Product           trn2.48xlarge",
        "Instance          family 5 (trn2), size 7 (48xlarge)",
        "Architecture      3 (cayman), name trn2, device revision none",
        "Devices           16",
        "Device memory     96 GiB per device, 1536 GiB in total",
        "Physical cores    128 in total, 8 per device",
        "Logical cores     64 in total, each of 2 physical cores",
        "Visible cores     64 (all)",
        "nrt_init          takes logical cores 0-63 (physical 0-127) when they are free",
        "Device  Logical cores  Physical cores  Connected devices",
        "     0  0-3            0-7             12, 1, 3, 4",
        "    15  60-63          120-127         14, 3, 11, 12",
    ] {
        assert!(text.lines().any(|l| l == line), "no line {line:?} in\n{text}");
    }
    assert!(text.lines().all(|l| l.trim_end() == l), "{text}");
}

/// B09, A018: trn2.3xlarge is one chip; both names of the size variable.
#[test]
fn one_chip_shows_four_logical_cores_or_eight() {
    for (env, total) in [
        (None, 4),
        (Some(("NEURON_RT_VIRTUAL_CORE_SIZE", "1")), 8),
        (Some(("NEURON_RT_VIRTUAL_CORE_SIZE", "2")), 4),
        (Some(("NEURON_LOGICAL_NC_CONFIG", "1")), 8),
        (Some(("NEURON_LOGICAL_NC_CONFIG", "8")), 1),
    ] {
        let env: Vec<_> = [fake("trn2.3xlarge")].into_iter().chain(env).collect();
        let report = json(&env);
        assert_eq!(report["logical_cores"]["total"], total, "{env:?}");
        assert_eq!(report["logical_cores"]["visible"], total, "{env:?}");
        assert_eq!(report["instance"]["family_name"], "trn2");
        assert_eq!(report["devices"].as_array().unwrap().len(), 1);
    }
}

/// B08: a list with ranges counts its cores; a gap fails only in `nrt_init`.
#[test]
fn a_list_is_counted_and_what_init_would_do_is_told() {
    let report = json(&[fake("trn2.48xlarge"), ("NEURON_RT_VISIBLE_CORES", "0,1-2,3")]);
    assert_eq!(report["logical_cores"]["visible"], 4);
    assert_eq!(report["logical_cores"]["visible_list"], serde_json::json!([0, 1, 2, 3]));
    assert_eq!(report["init"]["takes"]["physical_cores"], serde_json::json!({"first": 0, "last": 7}));
    let report = json(&[fake("trn2.48xlarge"), ("NEURON_RT_VISIBLE_CORES", "0,2-3,5")]);
    assert_eq!(report["logical_cores"]["visible"], 4);
    assert_eq!(report["init"]["refuses"]["status"], "NRT_INVALID");
    assert_eq!(report["init"]["refuses"]["reason"], "Logical Neuron cores are not contiguous");
    let report = json(&[fake("trn2.48xlarge"), ("NEURON_RT_NUM_CORES", "999")]);
    assert_eq!(report["logical_cores"]["visible"], 999);
    assert_eq!(report["logical_cores"]["visible_by"], "NEURON_RT_NUM_CORES");
    assert_eq!(report["init"]["refuses"]["status"], "NRT_INVALID");
}

#[test]
fn no_device_is_one_sentence_with_the_switch_and_status_1() {
    let out = run(&[], &[]);
    let err = String::from_utf8(out.stderr).unwrap();
    assert_eq!((out.status.code(), out.stdout.len()), (Some(1), 0));
    assert_eq!(err.lines().count(), 1, "{err}");
    for part in ["No Neuron devices", "/nonexistent/dev", "NEURON_RT_FAKE_INSTANCE_TYPE"] {
        assert!(err.contains(part), "{err}");
    }
}

#[test]
fn a_value_that_cannot_be_used_ends_with_status_1() {
    for env in [
        fake("trn2.47xlarge"),
        fake("inf1.xlarge"),
        ("NEURON_LOGICAL_NC_CONFIG", "3"),
        ("NEURON_RT_VISIBLE_CORES", "64"),
        ("NEURON_RT_VISIBLE_CORES", "x"),
    ] {
        let out = run(&[], &[fake("trn2.48xlarge"), env]);
        assert_eq!((out.status.code(), out.stdout.len()), (Some(1), 0), "{env:?}");
        assert!(!out.stderr.is_empty(), "{env:?}");
    }
    let out = run(&[], &[fake("trn2.48xlarge"), ("NEURON_RT_VISIBLE_CORES", "63-64")]);
    let err = String::from_utf8(out.stderr).unwrap();
    assert_eq!(
        err,
        "nrt-info: NEURON_RT_VISIBLE_CORES: Specified core not accessible! is /dev/neuron16 visible to process?\n"
    );
    assert_eq!(run(&["--nonsense"], &[]).status.code(), Some(2));
}

#[test]
fn device_files_are_reported_as_the_driver_shows_them() {
    let root = tempfile::tempdir().unwrap();
    for (index, links) in [(1, "0, 13, 5, 2\n"), (3, "\n")] {
        let class = root.path().join(format!("sys/class/neuron_device/neuron{index}"));
        put(&class.join("info/architecture/instance_type"), "Trn2\n");
        put(&class.join("core_count"), "8");
        put(&class.join("connected_devices"), links);
        put(&root.path().join(format!("dev/neuron{index}")), "");
    }
    let dirs = [root.path().join("dev"), root.path().join("sys")];
    let env = [("OPENNRT_DEV_DIR", dirs[0].to_str().unwrap()), ("OPENNRT_SYS_DIR", dirs[1].to_str().unwrap())];
    let out = run(&["--json"], &env);
    let report: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(report["instance"], Value::Null, "no product name");
    assert!(!out.stderr.is_empty(), "and that is said");
    put(&root.path().join("sys/devices/virtual/dmi/id/product_name"), "trn2u.48xlarge\n");
    let report = json(&env);
    assert_eq!(report["backend"]["kind"], "kernel");
    assert_eq!(report["product"], "trn2u.48xlarge");
    assert_eq!(report["instance"]["family"], 9);
    assert_eq!(report["logical_cores"]["total"], 8);
    let devices = &report["devices"];
    assert_eq!(devices[0]["index"], 1);
    assert_eq!(devices[0]["connected_devices"], serde_json::json!([0, 13, 5, 2]));
    assert_eq!(devices[0]["logical_cores"], serde_json::json!({"first": 4, "last": 7}));
    assert_eq!(devices[1]["connected_devices"], serde_json::json!([]));
    assert_eq!(report["init"]["refuses"]["status"], "NRT_FAILURE", "two devices apart are no run");
}

#[test]
fn help_names_every_variable_and_the_exit_status() {
    let help = String::from_utf8(run(&["--help"], &[]).stdout).unwrap();
    for part in ["--json", "--config", "NEURON_RT_FAKE_INSTANCE_TYPE", "NEURON_RT_VISIBLE_CORES", "Exit status"] {
        assert!(help.contains(part), "{help}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut child = program()
        .env("NEURON_RT_FAKE_INSTANCE_TYPE", "trn2.48xlarge")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let out = child.wait_with_output().unwrap();
    assert_eq!((out.status.code(), String::from_utf8_lossy(&out.stderr).as_ref()), (Some(0), ""));
}

/// B054: the ids with their aliases, the stale shipped line, and the devices of the host.
#[test]
fn pci_lists_ids_aliases_the_stale_hint_and_matching_devices() {
    let sys = tempfile::tempdir().unwrap();
    let listing = |json: &[&str]| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_nrt-info"))
            .arg("--pci")
            .args(json)
            .env("OPENNRT_SYS_DIR", sys.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let text = listing(&[]);
    for id in ["1d0f:7164", "1d0f:7264", "1d0f:7364", "1d0f:7564", "1d0f:7565"] {
        assert!(text.contains(id), "{text}");
    }
    assert!(text.contains("pci:v00001D0Fd00007064") && text.contains("is stale"), "{text}");
    assert!(text.contains("No device of this host matches"), "{text}");

    let device = sys.path().join("bus/pci/devices/0000:00:1e.0");
    std::fs::create_dir_all(&device).unwrap();
    for (name, value) in [("vendor", "0x1d0f\n"), ("device", "0x7364\n"), ("revision", "0x01\n")] {
        std::fs::write(device.join(name), value).unwrap();
    }
    let json: serde_json::Value = serde_json::from_str(&listing(&["--json"])).unwrap();
    assert_eq!(json["devices"][0]["address"], "0000:00:1e.0");
    assert_eq!((&json["devices"][0]["arch"], &json["devices"][0]["revision"]), (&3.into(), &1.into()));
    assert_eq!(json["shipped_alias"]["in_table"], false);
}
