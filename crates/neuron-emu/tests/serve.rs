//! `neuron-emu serve`: its life, and what is left of it.

mod common;

use std::fs;
use std::process::{Command, Stdio};

use common::{EMU, Emu, can_emulate, kill, mounts, text};

fn refused(root: &std::path::Path) -> String {
    let output = Command::new(EMU).args(["serve", "--instance", "trn1.2xlarge", "--root"]).arg(root).output();
    let output = output.expect("the program is built");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let said = text(&output);
    assert_eq!(said.lines().count(), 1, "{said}");
    said
}

fn mounted(root: &std::path::Path) -> bool {
    let escaped = root.to_string_lossy().replace(' ', r"\040");
    mounts().iter().any(|line| line.contains(&escaped))
}

#[test]
fn it_ends_cleanly_on_a_signal_with_files_open() {
    if !can_emulate("end of serve") {
        return;
    }
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
        let mut emu = Emu::serve("trn1.2xlarge", &[]);
        let mut client = emu.client();
        assert_eq!(client.open('f', libc::O_RDWR, 0), "ok");
        assert_eq!(emu.end(signal).code(), Some(0));
        assert!(!mounted(&emu.root) && !emu.root.exists(), "the folder it made is gone as well");
        let called = client.ioctl('f', 0x4008_4e64, &[0; 8]);
        assert_eq!((called.ret, called.errno), (-1, libc::ENOTCONN));
    }
}

#[test]
fn a_client_in_a_blocked_call_is_let_go_at_the_end() {
    if !can_emulate("end of serve with a blocked call") {
        return;
    }
    let mut emu = Emu::serve("trn1.2xlarge", &[]);
    emu.fault("reset-no-ack");
    fs::write(emu.sys("class/neuron_device/neuron0/reset"), "1").expect("nobody has it open");
    let mut client = emu.client();
    let command = client.open_command('f', libc::O_RDWR, 0);
    client.send(&command);
    emu.until("the open waits", |s| s["calls_in_flight"] == 1);
    assert_eq!(emu.end(libc::SIGTERM).code(), Some(0));
    assert!(client.receive().starts_with("errno "));
}

#[test]
fn a_folder_in_use_is_refused() {
    if !can_emulate("folder in use") {
        return;
    }
    let emu = Emu::serve("trn1.2xlarge", &[]);
    assert!(refused(&emu.root).contains("has an instance already"));
    let full = tempfile::tempdir().expect("a temporary folder can be made");
    fs::write(full.path().join("file"), "").expect("our folder");
    assert!(refused(full.path()).contains("is not empty"));
    assert!(refused(std::path::Path::new("/nowhere/at/all")).contains("cannot use /nowhere/at/all"));
    assert!(refused(&full.path().join("file")).contains("cannot use "));
    let status = emu.status();
    assert_eq!(status["instance"], "trn1.2xlarge", "the first one is not disturbed");
}

#[test]
fn a_kill_leaves_no_mount_and_the_folder_can_be_used_again() {
    if !can_emulate("kill of serve") {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let root = folder.path().join("an instance");
    for _ in 0..3 {
        let mut process = Command::new(EMU)
            .args(["serve", "--instance", "trn1.2xlarge", "--root"])
            .arg(&root)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program is built");
        let mut line = String::new();
        let out = process.stdout.take().expect("piped");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).expect("a line");
        let dir = root.display();
        let variables = format!("export OPENNRT_DEV_DIR='{dir}/dev' OPENNRT_SYS_DIR='{dir}/sys'");
        assert!(line.trim_end().ends_with(&variables), "{line}");
        kill(process.id(), libc::SIGKILL);
        process.wait().expect("our child");
        // The helper takes the mount away when it hears of the end.
        while mounted(&root) || root.exists() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}

/// An emulator that is given a pipe as its input.
fn tied(root: &std::path::Path, more: &[&str]) -> std::process::Child {
    let mut command = Command::new(EMU);
    command.args(["serve", "--instance", "trn1.2xlarge", "--root"]).arg(root).args(more);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the program is built")
}

#[test]
fn it_ends_in_order_when_its_standard_input_closes_and_it_was_asked_to() {
    if !can_emulate("end of standard input") {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let root = folder.path().join("instance");
    // While it starts, and when it serves.
    for wait_until_ready in [false, true] {
        let mut process = tied(&root, &["--until-stdin-closes"]);
        let mut out = std::io::BufReader::new(process.stdout.take().expect("piped"));
        let mut line = String::new();
        if wait_until_ready {
            std::io::BufRead::read_line(&mut out, &mut line).expect("a line");
            assert!(mounted(&root), "{line}");
            let mut input = process.stdin.as_ref().expect("piped");
            std::io::Write::write_all(&mut input, b"text is not the end\n").expect("it reads");
            let control = Command::new(EMU).args(["ctl", "--root"]).arg(&root).arg("status").output();
            assert!(control.expect("the program is built").status.success());
        }
        drop(process.stdin.take());
        assert_eq!(process.wait().expect("our child").code(), Some(0));
        assert!(!mounted(&root) && !root.exists());
    }
}

#[test]
fn it_outlives_its_standard_input_when_nobody_asked() {
    if !can_emulate("closed standard input") {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let root = folder.path().join("instance");
    let mut process = tied(&root, &[]);
    drop(process.stdin.take());
    let mut line = String::new();
    let mut out = std::io::BufReader::new(process.stdout.take().expect("piped"));
    std::io::BufRead::read_line(&mut out, &mut line).expect("a line");
    assert!(line.starts_with("ready: ") && mounted(&root), "{line:?}");
    kill(process.id(), libc::SIGTERM);
    assert_eq!(process.wait().expect("our child").code(), Some(0));
}

#[test]
fn it_ends_when_somebody_takes_the_mount_away() {
    if !can_emulate("unmount") {
        return;
    }
    let mut emu = Emu::serve("trn1.2xlarge", &[]);
    common::must_succeed(Command::new("umount").arg("-l").arg(&emu.root));
    assert_eq!(emu.process.wait().expect("our child").code(), Some(0));
}

#[test]
fn sixteen_devices_are_all_there_when_it_says_ready() {
    if !can_emulate("sixteen devices") {
        return;
    }
    for instance in ["trn1.32xlarge", "trn2.48xlarge", "trn3.48xlarge"] {
        let emu = Emu::serve(instance, &[]);
        let mut client = emu.client();
        for device in 0..16 {
            assert_eq!(client.open('f', libc::O_RDWR, device), "ok", "{instance}");
        }
        let devices = emu.status()["devices"].as_array().map(Vec::len);
        assert_eq!(devices, Some(16), "{instance}");
    }
}
