//! Device files through the kernel: lanes, processes, closes, blocking calls, mappings, sysfs.

mod common;

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use common::{Called, Emu, can_emulate, kill};
use neuron_abi::kernel::args::{CrwlNcMapExt, Wire};
use neuron_abi::kernel::ioctl::{IOCTLS, Op};
use neuron_kmd::Profile;

const COMPATIBLE_VERSION: u32 = 0x4008_4e5d;
const DEVICE_BASIC_INFO: u32 = 0x4008_4e64;
const DEVICE_BDF: u32 = 0x8008_4e65;
const DRIVER_INFO_GET: u32 = 0x8018_4e6e;
const DEVICE_READY: u32 = 0x8001_4e02;
const DEVICE_APP_PID: u32 = 0x8004_4e06;
const NC_RESET: u32 = 0x8008_4e67;
const NC_RESET_READY: u32 = 0x8008_4e68;
const NC_RANGE_MARK: u32 = 0xc050_4e55;

const RDONLY: i32 = libc::O_RDONLY;
const WRONLY: i32 = libc::O_WRONLY;
const RDWR: i32 = libc::O_RDWR;

fn ok(bytes: &[u8]) -> Called {
    Called { ret: 0, errno: 0, bytes: bytes.to_vec() }
}

fn words(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|n| n.to_le_bytes()).collect()
}

fn refused(errno: i32) -> (i64, i32) {
    (-1, errno)
}

#[test]
fn numbers_of_this_file_are_those_of_the_table() {
    for (op, cmd) in [
        (Op::CompatibleVersion, COMPATIBLE_VERSION),
        (Op::DeviceBasicInfo, DEVICE_BASIC_INFO),
        (Op::DeviceBdf, DEVICE_BDF),
        (Op::DriverInfoGet, DRIVER_INFO_GET),
        (Op::DeviceReady, DEVICE_READY),
        (Op::DeviceAppPid, DEVICE_APP_PID),
        (Op::NcReset, NC_RESET),
        (Op::NcResetReady, NC_RESET_READY),
        (Op::CrwlNcRangeMarkExt0, NC_RANGE_MARK),
    ] {
        assert!(IOCTLS.iter().any(|row| row.op == op && row.cmd == cmd), "{op:?}");
    }
}

#[test]
fn identity_commands_answer_for_every_product_and_release() {
    if !can_emulate("identity") {
        return;
    }
    for (instance, driver, arch, versions, features) in [
        ("trn1.2xlarge", "2.24.7", 2, [7, 5], 0xff),
        ("inf2.xlarge", "2.26.5", 2, [7, 5], 0x1ff),
        ("trn2.3xlarge", "2.27.4", 3, [11, 10], 0x1ff),
        ("trn3pd98.3xlarge", "2.27.4", 4, [11, 10], 0x1ff),
    ] {
        let emu = Emu::serve(instance, &["--driver", driver]);
        let mut client = emu.client();
        assert_eq!(client.open('f', RDWR, 0), "ok", "{instance}");
        assert_eq!(client.ioctl('f', DEVICE_BASIC_INFO, &[0; 8]), ok(&words(&[arch, 1])), "{instance}");
        assert_eq!(client.ioctl('f', COMPATIBLE_VERSION, &[0; 8]), ok(&words(&versions)), "{instance}");
        let info = client.ioctl('f', DRIVER_INFO_GET, &[0; 24]);
        assert_eq!(info, ok(&words(&[arch, 1, 0, 24, features, 0])), "{instance}");
        let text = fs::read_to_string(emu.sys("module/neuron/version")).expect("version");
        let version: Profile = driver.parse().expect("a release");
        assert_eq!(text, format!("{}\n", version.version()));
        let product = fs::read_to_string(emu.sys("class/dmi/id/product_name")).expect("product");
        assert_eq!(product, format!("{instance}\n"));
    }
}

#[test]
fn the_write_only_lane_has_no_slot_and_no_main_commands() {
    if !can_emulate("lanes") {
        return;
    }
    let emu = Emu::serve("trn1.2xlarge", &[]);
    let mut client = emu.client();
    assert_eq!(client.open('m', WRONLY, 0), "ok");
    assert_eq!(client.ioctl('m', COMPATIBLE_VERSION, &[0; 8]), ok(&words(&[7, 5])));
    let called = client.ioctl('m', DEVICE_READY, &[0]);
    assert_eq!((called.ret, called.errno), refused(libc::EINVAL));
    assert_eq!(emu.status()["devices"][0]["processes"], serde_json::json!([]));
    assert_eq!(client.open('r', RDONLY, 0), "ok");
    assert_eq!(emu.status()["devices"][0]["processes"], serde_json::json!([client.pid()]), "a query takes a slot");
    // The access mode that is neither: not a normal open either.
    assert_eq!(client.open('n', 3, 0), "ok");
    let called = client.ioctl('n', DEVICE_READY, &[0]);
    assert_eq!((called.ret, called.errno), refused(libc::EINVAL));
}

#[test]
fn files_answer_like_a_character_device_without_those_operations() {
    if !can_emulate("file operations") {
        return;
    }
    let emu = Emu::serve("trn1.2xlarge", &[]);
    let mut client = emu.client();
    assert_eq!(client.open('f', RDWR, 0), "ok");
    assert_eq!(client.ask("read f 8"), format!("-1 {}", libc::EINVAL));
    assert_eq!(client.ask("write f 00"), format!("-1 {}", libc::EINVAL));
    assert_eq!(client.ask("pread f 8"), format!("-1 {}", libc::EINVAL));
    assert_eq!(client.ask("truncate f"), format!("-1 {}", libc::EINVAL));
    let both = libc::POLLIN | libc::POLLOUT;
    assert_eq!(client.ask("poll f"), format!("1 0 {both}"), "always ready");
    let flags = client.ioctl('f', 0x8008_6601, &[0; 8]);
    assert_eq!((flags.ret, flags.errno), refused(libc::ENOTTY), "flag commands never get to a device");
    // A bad pointer: the driver's count of bytes where the kernel asks first, EFAULT where it does not.
    assert_eq!(client.ask(&format!("ioctl f {DEVICE_BDF:#x} bad")), "8 0");
    assert_eq!(client.ask(&format!("ioctl f {DEVICE_BASIC_INFO:#x} bad")), format!("-1 {}", libc::EFAULT));
    assert_eq!(client.open('t', RDWR | libc::O_TRUNC, 0), "ok", "truncation means nothing to a device");
    assert_eq!(client.open('x', RDWR, 1), format!("errno {}", libc::ENOENT));
}

#[test]
fn the_seventeenth_process_is_refused_until_one_leaves() {
    if !can_emulate("attach limit") {
        return;
    }
    let emu = Emu::serve("trn1.2xlarge", &[]);
    let mut clients: Vec<_> = (0..17).map(|_| emu.client()).collect();
    for client in &mut clients[..16] {
        assert_eq!(client.open('f', RDWR, 0), "ok");
    }
    let busy = format!("errno {}", libc::EBUSY);
    assert_eq!(clients[16].open('f', RDWR, 0), busy);
    assert_eq!(clients[3].open('g', RDWR, 0), "ok", "a process that has a slot opens again");
    assert_eq!(clients[3].ask("close g"), "ok");
    assert_eq!(clients[16].open('f', RDWR, 0), busy, "one open of that process remains");
    assert_eq!(clients[16].open('m', WRONLY, 0), "ok", "the other lane needs no slot");
    assert_eq!(clients[5].ask("close f"), "ok");
    assert_eq!(clients[16].open('f', RDWR, 0), "ok");
}

#[test]
fn closing_a_duplicate_drops_the_slot() {
    if !can_emulate("dup") {
        return;
    }
    let emu = Emu::serve("trn1.2xlarge", &[]);
    let mut client = emu.client();
    assert_eq!(client.open('f', RDWR, 0), "ok");
    assert_eq!(client.ask("dup f d"), "ok");
    let release = IOCTLS.iter().find(|row| row.op == Op::MemFree).expect("a gated command").cmd;
    assert_ne!(client.ioctl('f', release, &[0; 8]).errno, libc::EACCES);
    assert_eq!(client.ask("close d"), "ok");
    assert_eq!(client.ioctl('f', release, &[0; 8]).errno, libc::EACCES, "gated");
    assert_eq!(client.ioctl('f', DEVICE_READY, &[9]), ok(&[1]), "not gated");
    let status = emu.status();
    assert_eq!(
        (&status["devices"][0]["processes"], &status["devices"][0]["open_files"]),
        (&serde_json::json!([]), &serde_json::json!(1))
    );
}

#[test]
fn a_forked_child_has_no_slot_and_its_close_takes_nothing() {
    if !can_emulate("fork") {
        return;
    }
    let emu = Emu::serve("trn1.2xlarge", &[]);
    let mut client = emu.client();
    assert_eq!(client.open('f', RDWR, 0), "ok");
    let release = IOCTLS.iter().find(|row| row.op == Op::MemFree).expect("a gated command").cmd;
    let gated = client.ask(&format!("child ioctl f {release:#x} 0000000000000000"));
    assert_eq!(common::called(&gated).errno, libc::EACCES);
    assert_eq!(client.ask(&format!("child ioctl f {DEVICE_READY:#x} 09")), "0 0 01");
    assert_eq!(client.ask("child close f"), "ok");
    assert_ne!(client.ioctl('f', release, &[0; 8]).errno, libc::EACCES, "the parent keeps its slot");
    // A thread is the process.
    let gated = client.ask(&format!("thread ioctl f {release:#x} 0000000000000000"));
    assert_ne!(common::called(&gated).errno, libc::EACCES);
    // A descriptor outlives exec under the same process id.
    assert_eq!(client.ask("exec"), "ok");
    assert_eq!(client.ask("pid"), client.pid().to_string());
    assert_eq!(emu.status()["devices"][0]["processes"], serde_json::json!([client.pid()]));
}

#[test]
fn a_killed_process_leaves_no_slot_and_no_claim() {
    if !can_emulate("kill") {
        return;
    }
    let emu = Emu::serve("trn1.2xlarge", &[]);
    for round in 0..20 {
        let mut client = emu.client();
        assert_eq!(client.open('f', RDWR, 0), "ok");
        assert_eq!(client.open('m', WRONLY, 0), "ok");
        assert_eq!(claim(&mut client, 2), 0, "round {round}: both cores are free");
        let mut other = emu.client();
        assert_eq!(other.open('m', WRONLY, 0), "ok");
        assert_eq!(claim(&mut other, 1), libc::EBUSY);
        kill(client.pid(), libc::SIGKILL);
        assert_eq!(client.ended_by(), Some(libc::SIGKILL));
        // The wait above ends when the process is gone, and its descriptors go before that.
        assert_eq!(emu.status()["devices"][0]["processes"], serde_json::json!([]));
        assert_eq!(claim(&mut other, 2), 0);
    }
}

#[test]
fn closing_a_duplicate_gives_the_claims_back() {
    if !can_emulate("dup of claims") {
        return;
    }
    let emu = Emu::serve("trn1.2xlarge", &[]);
    let (mut client, mut other) = (emu.client(), emu.client());
    assert_eq!((client.open('m', WRONLY, 0), other.open('m', WRONLY, 0)), ("ok".into(), "ok".into()));
    assert_eq!(claim(&mut client, 2), 0);
    assert_eq!(client.ask("dup m d"), "ok");
    assert_eq!(claim(&mut other, 1), libc::EBUSY);
    assert_eq!(client.ask("close d"), "ok");
    assert_eq!(claim(&mut other, 2), 0, "all of them, although the first descriptor is open");
    assert_eq!(claim(&mut client, 1), libc::EBUSY);
    assert_eq!(other.ask("close m"), "ok");
    assert_eq!(claim(&mut client, 2), 0, "which still works");
}

#[test]
fn claims_through_an_inherited_descriptor_are_the_childs() {
    if !can_emulate("claims of a child") {
        return;
    }
    let emu = Emu::serve("trn1.2xlarge", &[]);
    let (mut client, mut other) = (emu.client(), emu.client());
    assert_eq!((client.open('m', WRONLY, 0), other.open('m', WRONLY, 0)), ("ok".into(), "ok".into()));
    let both = range(2);
    // The child's claims end with it, although the descriptor is open in its parent.
    assert_eq!(common::called(&client.ask(&format!("child ioctl m {NC_RANGE_MARK:#x} {both}"))).errno, 0);
    assert_eq!(claim(&mut client, 2), 0);
    // And the end of a child takes nothing from the parent; nor can it have what the parent has.
    assert_eq!(common::called(&client.ask(&format!("child ioctl m {NC_RANGE_MARK:#x} {both}"))).errno, libc::EBUSY);
    assert_eq!(client.ask("child close m"), "ok");
    assert_eq!(claim(&mut other, 1), libc::EBUSY);
    // A thread is the process.
    let thread = client.ask(&format!("thread ioctl m {NC_RANGE_MARK:#x} {both}"));
    assert_eq!(common::called(&thread).errno, libc::EBUSY);
}

#[test]
fn claims_outlive_an_exec_unless_the_descriptor_is_closed_by_it() {
    if !can_emulate("exec") {
        return;
    }
    let emu = Emu::serve("trn1.2xlarge", &[]);
    for (flags, kept) in [(0, true), (libc::O_CLOEXEC, false)] {
        let (mut client, mut other) = (emu.client(), emu.client());
        assert_eq!(client.open('f', RDWR | flags, 0), "ok");
        assert_eq!(client.open('m', WRONLY | flags, 0), "ok");
        assert_eq!(other.open('m', WRONLY, 0), "ok");
        assert_eq!(claim(&mut client, 2), 0);
        assert_eq!(client.ask("exec"), "ok");
        let status = emu.status();
        let processes = if kept { serde_json::json!([client.pid()]) } else { serde_json::json!([]) };
        assert_eq!(status["devices"][0]["processes"], processes, "kept {kept}");
        assert_eq!(claim(&mut other, 1), if kept { libc::EBUSY } else { 0 }, "kept {kept}");
    }
}

/// Claims `count` of the two cores of device 0; returns the error number.
fn claim(client: &mut common::Client, count: u32) -> i32 {
    let bytes = common::unhex(&range(count));
    client.ioctl('m', NC_RANGE_MARK, &bytes).errno
}

/// Argument of such a claim.
fn range(count: u32) -> String {
    let range = CrwlNcMapExt { nc_count: count, start_nc_index: 0, end_nc_index: 1, ..CrwlNcMapExt::default() };
    let mut bytes = vec![0; CrwlNcMapExt::SIZE];
    range.put(&mut bytes);
    common::hex(&bytes)
}

/// Starts a wait for a reset that is never acknowledged.
fn blocked_in_a_reset(emu: &Emu) -> common::Client {
    emu.fault("reset-no-ack");
    let mut client = emu.client();
    assert_eq!(client.open('f', RDWR, 0), "ok");
    let pid = client.pid();
    assert_eq!(client.ioctl('f', NC_RESET, &words(&[1, pid])), ok(&words(&[1, pid])));
    client.send(&format!("ioctl f {NC_RESET_READY:#x} {}", common::hex(&words(&[pid, 7]))));
    emu.until("the call is in flight", |s| s["calls_in_flight"] == 1);
    client
}

#[test]
fn a_client_killed_in_a_reset_wait_is_let_go_and_delays_nobody() {
    if !can_emulate("kill in a reset wait") {
        return;
    }
    let emu = Emu::serve("trn1.2xlarge", &[]);
    let mut client = blocked_in_a_reset(&emu);
    let mut other = emu.client();
    assert_eq!(other.open('f', RDWR, 0), "ok");
    for _ in 0..100 {
        assert_eq!(other.ioctl('f', DEVICE_BASIC_INFO, &[0; 8]), ok(&words(&[2, 1])));
    }
    assert!(!client.answers_within(0), "still waiting");
    kill(client.pid(), libc::SIGKILL);
    assert_eq!(client.ended_by(), Some(libc::SIGKILL));
    emu.until("its slot is free", |s| s["devices"][0]["processes"] == serde_json::json!([other.pid()]));
    assert_eq!(emu.status()["calls_in_flight"], 0);
}

#[test]
fn only_a_kill_or_a_terminate_sent_to_the_thread_ends_a_reset_wait() {
    if !can_emulate("signals in a reset wait") {
        return;
    }
    let emu = Emu::serve("trn1.2xlarge", &[]);
    emu.fault("reset-no-ack");
    let mut client = emu.client();
    let pid = client.pid();
    for signal in [libc::SIGUSR1, libc::SIGTERM] {
        assert_eq!(client.ask(&format!("handler {signal}")), "ok");
    }
    assert_eq!(client.open('f', RDWR, 0), "ok");
    client.ioctl('f', NC_RESET, &words(&[1, pid]));
    client.send(&format!("ioctl f {NC_RESET_READY:#x} {}", common::hex(&words(&[pid, 7]))));
    emu.until("the call is in flight", |s| s["calls_in_flight"] == 1);
    kill(pid, libc::SIGUSR1);
    kill(pid, libc::SIGTERM);
    assert!(!client.answers_within(300), "signals to the process mean nothing to the driver");
    // SAFETY: plain system call on a thread of our child.
    assert_eq!(unsafe { libc::syscall(libc::SYS_tgkill, pid, pid, libc::SIGTERM) }, 0);
    assert_eq!(client.called(), ok(&words(&[pid, -libc::EINTR as u32])), "measured");
    // A process that ends with a reset of its own waits for it; one that is killed does not.
    kill(pid, libc::SIGKILL);
    assert_eq!(client.ended_by(), Some(libc::SIGKILL));
    emu.until("its slot is free", |s| s["devices"][0]["processes"] == serde_json::json!([]));
}

#[test]
fn an_open_waits_for_the_end_of_a_device_reset_and_the_other_lane_does_not() {
    if !can_emulate("open during reset") {
        return;
    }
    let emu = Emu::serve("trn1.2xlarge", &[]);
    emu.fault("reset-no-ack");
    fs::write(emu.sys("class/neuron_device/neuron0/reset"), "1").expect("nobody has it open");
    let mut clients: Vec<_> = (0..8).map(|_| emu.client()).collect();
    for client in &mut clients {
        let command = client.open_command('f', RDWR, 0);
        client.send(&command);
    }
    emu.until("all wait", |s| s["calls_in_flight"] == 8);
    let mut other = emu.client();
    assert_eq!(other.open('m', WRONLY, 0), "ok");
    kill(clients[0].pid(), libc::SIGKILL);
    assert_eq!(clients[0].ended_by(), Some(libc::SIGKILL));
    assert!(clients[1..].iter().all(|c| !c.answers_within(0)));
    // The firmware answers the next request, which the driver repeats after a while; without
    // that patience a reset is asked for again.
    assert_eq!(emu.status()["devices"][0]["state"], "RESET");
}

#[test]
fn opens_that_waited_for_a_reset_are_let_in_when_it_ends() {
    if !can_emulate("open after a reset") {
        return;
    }
    let emu = Emu::serve("trn1.2xlarge", &[]);
    emu.fault("reset-hold:600000");
    fs::write(emu.sys("class/neuron_device/neuron0/reset"), "1").expect("nobody has it open");
    let mut clients: Vec<_> = (0..16).map(|_| emu.client()).collect();
    for client in &mut clients {
        let command = client.open_command('f', RDWR, 0);
        client.send(&command);
    }
    emu.until("all wait", |s| s["calls_in_flight"] == 16);
    assert_eq!(emu.status()["devices"][0]["state"], "RESET");
    emu.fault("clear");
    for client in &mut clients {
        assert_eq!(client.receive(), "ok");
        assert_eq!(client.ioctl('f', DEVICE_READY, &[9]), ok(&[1]));
    }
    assert_eq!(emu.status()["devices"][0]["processes"].as_array().map(Vec::len), Some(16));
}

#[test]
fn attributes_have_the_modes_and_texts_of_sysfs() {
    if !can_emulate("sysfs") {
        return;
    }
    let emu = Emu::serve("trn1.32xlarge", &[]);
    let device = emu.sys("class/neuron_device/neuron3");
    let link = fs::read_link(&device).expect("a link");
    assert_eq!(link, Path::new("../../devices/virtual/neuron_device/neuron3"));
    assert_eq!(fs::read_to_string(device.join("core_count")).expect("readable"), "2");
    assert_eq!(fs::read_to_string(device.join("connected_devices")).expect("readable"), "15, 2, 7, 0\n");
    for (name, mode) in [("reset", 0o600), ("core_count", 0o400), ("info/serial_number", 0o644)] {
        let meta = fs::metadata(device.join(name)).expect(name);
        assert_eq!((meta.permissions().mode() & 0o7777, meta.len(), meta.uid()), (mode, 4096, 0), "{name}");
    }
    // A write through every way a shell has.
    let total = device.join("neuron_core0/stats/status/success/total");
    for options in [fs::OpenOptions::new().write(true).truncate(true), fs::OpenOptions::new().append(true)] {
        options.open(&total).expect("writable").write_all(b"7\n").expect("taken");
        assert_eq!(fs::read_to_string(&total).expect("readable"), "0\n", "any write zeroes it");
    }
    let refused = fs::OpenOptions::new().write(true).open(device.join("core_count"));
    assert_eq!(refused.expect_err("no write bit").raw_os_error(), Some(libc::EACCES), "even for root");
    let new = fs::File::create(device.join("other"));
    assert_eq!(new.expect_err("no new names").raw_os_error(), Some(libc::EACCES));
    assert_eq!(fs::remove_file(total).expect_err("names stay").raw_os_error(), Some(libc::EPERM));
    // Names of the class directory: a link per device and the attributes of the release.
    let names = fs::read_dir(emu.sys("class/neuron_device")).expect("a directory");
    let devices = names.flatten().filter(|e| e.file_type().is_ok_and(|t| t.is_symlink())).count();
    assert_eq!(devices, 16);
    let nodes: Vec<_> = fs::read_dir(emu.root.join("dev")).expect("a directory").flatten().collect();
    assert_eq!(nodes.len(), 16);
    assert!(nodes.iter().all(|n| n.metadata().expect("a node").permissions().mode() == 0o100_666));
}

#[test]
fn modes_hold_for_other_users_and_can_be_changed() {
    if !can_emulate("modes") {
        return;
    }
    let emu = Emu::serve("trn1.2xlarge", &[]);
    // The folder of the test is for its owner only.
    let parent = emu.root.parent().expect("a folder");
    fs::set_permissions(parent, fs::Permissions::from_mode(0o755)).expect("our folder");
    let node = emu.root.join("dev/neuron0");
    let mut client = emu.client();
    assert_eq!(client.ask("uid 65534"), "ok");
    assert_eq!(client.open('f', RDWR, 0), "ok", "0666");
    assert_eq!(client.ioctl('f', DEVICE_READY, &[9]), ok(&[1]), "memory of another user is reached");
    let denied = format!("errno {}", libc::EACCES);
    let reset = emu.sys("class/neuron_device/neuron0/reset");
    assert_eq!(client.ask(&format!("open r 0 {}", reset.display())), denied);
    let info = emu.sys("class/neuron_device/neuron0/info/serial_number");
    assert_eq!(client.ask(&format!("open i 0 {}", info.display())), "ok");
    fs::set_permissions(&node, fs::Permissions::from_mode(0o600)).expect("root may");
    assert_eq!(client.open('g', RDWR, 0), denied);
    let control = emu.root.join("control");
    assert_eq!(fs::metadata(control).expect("a socket").permissions().mode() & 0o7777, 0o600);
}

#[test]
fn a_device_that_was_not_found_has_no_node() {
    if !can_emulate("faults at the start") {
        return;
    }
    let options = ["--driver", "2.26.5", "--fault", "no-dram-bar@1", "--fault", "routing-id-wrong@2"];
    let emu = Emu::serve("inf2.24xlarge", &options);
    let mut names: Vec<_> = fs::read_dir(emu.root.join("dev"))
        .expect("a directory")
        .flatten()
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert_eq!(names, ["neuron0", "neuron3", "neuron4", "neuron5"]);
    assert_eq!(emu.status()["failed_probes"].as_array().map(Vec::len), Some(2));
}

#[test]
fn control_refuses_with_a_sentence() {
    if !can_emulate("control") {
        return;
    }
    let emu = Emu::serve("trn1.2xlarge", &[]);
    for (fault, part) in
        [("nonsense", "there is no fault"), ("dma-stuck@4", "devices 0 to 0"), ("no-dram-bar", "--fault")]
    {
        let output = emu.ctl(&["fault", fault]);
        assert_eq!(output.status.code(), Some(1));
        let said = common::text(&output);
        assert!(said.contains(part) && said.lines().count() == 1, "{said}");
    }
    let log = common::text(&emu.ctl(&["reset-log"]));
    assert!(log.lines().any(|l| l.contains("reset_run_done")), "{log}");
    let trace = common::text(&emu.ctl(&["trace"]));
    assert!(trace.contains("handshake"), "{trace}");
    assert!(!common::text(&emu.ctl(&["trace"])).contains("handshake"), "taken events are gone");
    let nowhere = std::process::Command::new(common::EMU).args(["ctl", "--root", "/nowhere", "status"]).output();
    let nowhere = common::text(&nowhere.expect("the program is built"));
    assert!(nowhere.contains("no instance answers at /nowhere"), "{nowhere}");
}
