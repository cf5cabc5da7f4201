//! `neuron-emu run`: exit status, signals, and that nothing is left behind.

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Output, Stdio};

use common::{Client, EMU, can_emulate, kill, mounts, processes_with, raw_client, text};

fn run(instance: &str, options: &[&str], command: &[&str]) -> Output {
    let mut program = Command::new(EMU);
    program.args(["run", "--instance", instance]).args(options).arg("--").args(command);
    program.output().expect("the program is built")
}

/// A run whose program says `started` and then sleeps; the word marks everything below it.
fn sleeping(marker: &str) -> (Child, u32) {
    // A child in the background, one in a session of its own, and the program itself.
    let script = "trap '' HUP; sleep 1000 & setsid sh -c 'echo >&2; sleep 1000' _ \"$0\" & \
                  exec 3</dev/neuron0; echo started $$; wait";
    let mut run = Command::new(EMU)
        .args(["run", "--instance", "trn1.2xlarge", "--", "sh", "-c", script, marker])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program is built");
    let mut line = String::new();
    BufReader::new(run.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
    let pid = line.trim().strip_prefix("started ").and_then(|p| p.parse().ok()).unwrap_or_else(|| panic!("{line:?}"));
    (run, pid)
}

/// Waits until no process has the word in its arguments: the kernel takes them away on its own.
fn until_none_is_left(marker: &str) {
    for _ in 0..3000 {
        if processes_with(marker).is_empty() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("left behind: {:?}", processes_with(marker));
}

fn nothing_outside() {
    // Somebody else may be serving an instance in a folder of theirs.
    let point = |line: &String| line.split(' ').nth(4).is_some_and(|p| p.starts_with("/dev") || p.starts_with("/sys"));
    assert_eq!(mounts().into_iter().filter(point).collect::<Vec<_>>(), Vec::<String>::new());
    assert!(!fs::exists("/dev/.neuron-emu").expect("/dev"));
    assert!(!fs::exists("/dev/neuron0").expect("/dev") || fs::exists("/sys/module/neuron").expect("/sys"));
}

#[test]
fn the_exit_status_is_that_of_the_program() {
    if !can_emulate("exit status") {
        return;
    }
    for (command, status) in [
        (&["true"][..], 0),
        (&["sh", "-c", "exit 77"], 77),
        (&["sh", "-c", "exit 255"], 255),
        (&["sh", "-c", "kill -TERM $$"], 128 + libc::SIGTERM),
        (&["sh", "-c", "kill -KILL $$"], 128 + libc::SIGKILL),
        (&["/nowhere/program"], 127),
        (&["no-such-program-in-path"], 127),
        (&["/etc/passwd"], 126),
        (&["/tmp"], 126),
    ] {
        let output = run("trn1.2xlarge", &[], command);
        assert_eq!(output.status.code(), Some(status), "{command:?}: {}", text(&output));
        let said = String::from_utf8_lossy(&output.stderr).lines().count();
        assert_eq!(said, usize::from([126, 127].contains(&status)), "one sentence at most: {}", text(&output));
    }
    nothing_outside();
}

#[test]
fn what_cannot_be_set_up_is_one_sentence_and_125() {
    if !can_emulate("failures") {
        return;
    }
    for (instance, options, part) in [
        ("trn9.xlarge", &[][..], "there is no instance type"),
        ("trn3.48xlarge", &["--driver", "2.24.7"], "use --driver 2.26.5"),
        ("trn1.2xlarge", &["--hbm-gib", "0"], "use 1024 to 32768"),
    ] {
        let output = run(instance, options, &["true"]);
        let said = text(&output);
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(said.contains(part) && said.lines().count() == 1, "{said}");
    }
    let output = run("trn1.2xlarge", &["--fault", "nonsense"], &["true"]);
    assert_eq!(output.status.code(), Some(2), "wrong arguments");
}

#[test]
fn without_rights_the_rootless_way_is_named() {
    if !can_emulate("rights") {
        return;
    }
    // Another user may not get at the build folder.
    let dir = tempfile::tempdir_in("/tmp").expect("a temporary folder can be made");
    fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("our folder");
    let copy = dir.path().join("neuron-emu");
    fs::copy(EMU, &copy).expect("a copy");
    let root = dir.path().join("root");
    fs::create_dir(&root).expect("our folder");
    std::os::unix::fs::chown(&root, Some(65534), Some(65534)).expect("root may");
    let root = root.to_string_lossy();
    for args in [
        &["run", "--instance", "trn1.2xlarge", "--", "true"][..],
        &["serve", "--instance", "trn1.2xlarge", "--root", &root],
    ] {
        let mut program = Command::new("setpriv");
        program.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&copy).args(args);
        let output = program.output().expect("setpriv");
        let said = text(&output);
        assert!(!output.status.success() && said.lines().count() == 1, "{said}");
        assert!(said.contains("a shell started with `unshare -Urm`"), "{said}");
    }
}

#[test]
fn the_program_sees_an_instance_in_place_of_the_host() {
    if !can_emulate("the view") {
        return;
    }
    let before: Vec<_> = fs::read_dir("/dev").expect("/dev").flatten().map(|e| e.file_name()).collect();
    // Nothing in this script knows about the emulator.
    let script = r#"
import os
names = os.listdir("/sys/class/neuron_device")
devices = sorted(n for n in names if n.startswith("neuron"))
cores = [open(f"/sys/class/neuron_device/{d}/core_count").read() for d in devices]
fd = os.open("/dev/neuron0", os.O_RDWR)
with open("/sys/devices/virtual/dmi/id/product_name") as f: product = f.read().strip()
with open("/sys/module/neuron/version") as f: version = f.read().strip()
real = os.path.realpath("/sys/class/neuron_device/neuron1")
other = os.listdir("/sys/class/net"), os.path.exists("/dev/null"), os.path.exists("/dev/shm")
lo = open("/sys/class/net/lo/mtu").read()
print(len(devices), set(cores), product, version, real, "lo" in other[0], other[1:], int(lo) > 0)
"#;
    let output = run("trn2.48xlarge", &["--driver", "2.26.5"], &["python3", "-c", script]);
    let expected =
        "16 {'8'} trn2.48xlarge 2.26.5.0 /sys/devices/virtual/neuron_device/neuron1 True (True, True) True\n";
    assert_eq!(text(&output), expected);
    let after: Vec<_> = fs::read_dir("/dev").expect("/dev").flatten().map(|e| e.file_name()).collect();
    assert_eq!(before, after);
    nothing_outside();
}

#[test]
fn signals_go_to_the_program() {
    if !can_emulate("signals") {
        return;
    }
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGUSR1, libc::SIGUSR2] {
        let script = format!("trap 'echo got; exit 9' {signal}; echo started; while :; do sleep 0.01; done");
        let mut command = Command::new(EMU);
        command.args(["run", "--instance", "trn1.2xlarge", "--", "sh", "-c", &script]).stdout(Stdio::piped());
        // A background job has some of them ignored, and a shell cannot trap what it was started to ignore.
        // SAFETY: signal is async-signal-safe and the numbers are constants.
        unsafe {
            command.pre_exec(move || {
                libc::signal(signal, libc::SIG_DFL);
                Ok(())
            });
        }
        let mut run = command.spawn().expect("the program is built");
        let mut out = BufReader::new(run.stdout.take().expect("piped"));
        let mut line = String::new();
        out.read_line(&mut line).expect("a line");
        assert_eq!(line, "started\n");
        kill(run.id(), signal);
        line.clear();
        out.read_line(&mut line).expect("a line");
        assert_eq!(line, "got\n", "signal {signal}");
        assert_eq!(run.wait().expect("our child").code(), Some(9));
    }
}

#[test]
fn nothing_is_left_when_the_program_ends_and_leaves_processes() {
    if !can_emulate("leftovers of the program") {
        return;
    }
    let marker = format!("marker-end-{}", std::process::id());
    let script = "setsid sleep 1000 & (sh -c 'sleep 1000' _ \"$0\" &) ; exit 3";
    let output = run("trn1.2xlarge", &[], &["sh", "-c", script, &marker]);
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(processes_with(&marker), Vec::<u32>::new());
    nothing_outside();
}

#[test]
fn children_that_a_shell_had_before_are_left_alone() {
    if !can_emulate("earlier children") {
        return;
    }
    let marker = format!("marker-before-{}", std::process::id());
    let script = "sh -c 'while :; do sleep 0.1; done' \"$1\" >&2 & exec \"$0\" run --instance trn1.2xlarge -- true";
    let status = Command::new("sh").args(["-c", script, EMU, &marker]).status().expect("a shell");
    assert_eq!(status.code(), Some(0));
    let left = processes_with(&marker);
    assert_eq!(left.len(), 1, "{left:?}");
    kill(left[0], libc::SIGKILL);
}

#[test]
fn nothing_is_left_when_the_program_or_the_emulator_is_killed() {
    if !can_emulate("leftovers of a kill") {
        return;
    }
    for who in ["program", "emulator", "helper"] {
        let marker = format!("marker-{who}-{}", std::process::id());
        let (mut run, program) = sleeping(&marker);
        assert!(processes_with(&marker).len() >= 3, "emulator, helper and program");
        let helper = parent(program);
        let (victim, expected) = match who {
            "program" => (program, Some(128 + libc::SIGKILL)),
            "emulator" => (run.id(), None),
            _ => (helper, Some(125)),
        };
        kill(victim, libc::SIGKILL);
        let status = run.wait().expect("our child");
        assert_eq!(status.code(), expected, "{who}");
        if who == "emulator" {
            assert_eq!(status.signal(), Some(libc::SIGKILL));
        }
        until_none_is_left(&marker);
        nothing_outside();
    }
}

fn parent(pid: u32) -> u32 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("a process");
    stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)).and_then(|p| p.parse().ok()).expect("a number")
}

#[test]
fn a_program_in_a_blocked_call_ends_with_the_emulator() {
    if !can_emulate("blocked with a dead emulator") {
        return;
    }
    let marker = format!("marker-blocked-{}", std::process::id());
    // The open waits for the first reset, which never ends.
    let script = "echo started; exec 3</dev/neuron0; echo opened";
    let mut run = Command::new(EMU)
        .args(["run", "--instance", "trn1.2xlarge", "--fault", "reset-no-ack", "--", "sh", "-c", script, &marker])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program is built");
    let mut out = BufReader::new(run.stdout.take().expect("piped"));
    let mut line = String::new();
    out.read_line(&mut line).expect("a line");
    kill(run.id(), libc::SIGKILL);
    run.wait().expect("our child");
    line.clear();
    assert_eq!(out.read_line(&mut line).expect("the pipe"), 0, "{line}");
    until_none_is_left(&marker);
}

#[test]
fn a_signal_during_the_start_ends_it() {
    if !can_emulate("signal during the start") {
        return;
    }
    // The probe waits minutes for a routing id.
    let marker = format!("marker-start-{}", std::process::id());
    let mut run = Command::new(EMU)
        .args(["run", "--instance", "trn1.2xlarge", "--fault", "routing-id-busy", "--", "true", &marker])
        .spawn()
        .expect("the program is built");
    while processes_with(&marker).len() < 2 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    kill(run.id(), libc::SIGTERM);
    assert_eq!(run.wait().expect("our child").code(), Some(128 + libc::SIGTERM));
    until_none_is_left(&marker);
}

#[test]
fn control_works_from_inside_and_from_outside() {
    if !can_emulate("control of a run") {
        return;
    }
    let marker = format!("marker-control-{}", std::process::id());
    let (mut run, _) = sleeping(&marker);
    let root = format!("/proc/{}/root/dev/.neuron-emu", run.id());
    let outside = Command::new(EMU).args(["ctl", "--root", &root, "status"]).output().expect("the program is built");
    assert!(text(&outside).contains("\"trn1.2xlarge\""), "{}", text(&outside));
    kill(run.id(), libc::SIGTERM);
    run.wait().expect("our child");
    let inside = self::run("trn1.2xlarge", &[], &[EMU, "ctl", "status"]);
    assert!(text(&inside).contains("\"trn1.2xlarge\""), "{}", text(&inside));
}

#[test]
fn rootless_everything_but_shared_mappings_works() {
    if !can_emulate("rootless") {
        return;
    }
    let able = Command::new("unshare").args(["-Urm", "true"]).status().is_ok_and(|s| s.success());
    if !able {
        common::skip("rootless", "user namespaces are switched off");
        return;
    }
    let script = r#"
        mkfifo $1/fifo; $0 serve --instance trn1.2xlarge --root $1/root > $1/fifo & read ready < $1/fifo
        cat $1/root/sys/class/neuron_device/neuron0/core_count; kill $!; wait $!; echo " $?"
    "#;
    let dir = tempfile::tempdir().expect("a temporary folder can be made");
    let serve = Command::new("unshare").args(["-Urm", "sh", "-c", script, EMU]).arg(dir.path()).output();
    assert_eq!(String::from_utf8_lossy(&serve.expect("unshare").stdout), "2 0\n");
    let mut program = Command::new("unshare");
    program.args(["-Urm", EMU, "run", "--instance", "inf2.24xlarge", "--"]).arg(raw_client());
    let mut client = Client::start(program, "/dev".into());
    assert_eq!(client.open('f', libc::O_RDWR, 5), "ok");
    assert_eq!(client.ask("ioctl f 0x40084e64 0000000000000000"), "0 0 0200000001000000");
    assert_eq!(client.ask("mmap a f 0 4096 rw"), format!("errno {}", libc::ENODEV));
    assert_eq!(client.ask("open r 0 /sys/class/neuron_device/neuron5/reset"), "ok");
    client.send("exit 5");
    assert_eq!(client.process.wait().expect("our child").code(), Some(5));
    nothing_outside();
}
