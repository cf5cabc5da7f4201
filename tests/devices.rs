//! The library on device files, with real processes, against `neuron-emu serve`.

#[path = "common/client.rs"]
mod client;
mod common;
#[path = "common/emu.rs"]
mod emu;

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use client::Client;
use emu::Served;

/// The install tree and the compiled client.
fn client_program() -> &'static (tempfile::TempDir, PathBuf) {
    static BUILT: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    BUILT.get_or_init(|| {
        let tree = common::install();
        let exe = common::linked("client", tree.path(), &[]);
        (tree, exe)
    })
}

fn emulator() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(emu::program)
}

fn serve(instance: &str, more: &[&str]) -> Option<Served> {
    Served::start(emulator(), instance, &[&["--hbm-gib", "8"], more].concat())
}

fn command(variables: &[(&str, &str)]) -> Command {
    let (tree, exe) = client_program();
    let mut command = common::command(exe, tree.path());
    command.envs(variables.iter().copied());
    command
}

/// A process on an emulated instance.
fn on(served: &Served, variables: &[(&str, &str)]) -> Client {
    let mut command = command(variables);
    command.envs(served.variables());
    Client::start(command)
}

/// A process on a simulated instance.
fn simulated(instance: &str, variables: &[(&str, &str)]) -> Client {
    let mut command = command(variables);
    command.env("NEURON_RT_FAKE_INSTANCE_TYPE", instance);
    Client::start(command)
}

/// Waits until the reset of device 0 that the driver does when it is loaded is over: an open does.
fn settled(served: &Served) {
    std::fs::File::open(served.dev().join("neuron0")).expect("the device is in service");
}

/// Waits until somebody waits for the driver.
fn in_flight(served: &Served) {
    while !served.ctl(&["status"]).contains("\"calls_in_flight\": 1") {
        std::thread::yield_now();
    }
}

/// Lines of a log with this text.
fn lines<'a>(log: &'a str, text: &str) -> Vec<&'a str> {
    log.lines().filter(|line| line.contains(text)).collect()
}

fn held(served: &Served) -> (u64, String) {
    let status = served.ctl(&["status"]);
    let field = |name: &str| {
        let line = status.lines().find(|l| l.trim_start().starts_with(&format!("\"{name}\""))).unwrap_or_default();
        line.split(':').nth(1).unwrap_or_default().trim().trim_end_matches(',').parse().unwrap_or(u64::MAX)
    };
    (field("open_files"), status)
}

#[test]
fn init_on_devices_says_what_it_does_and_close_gives_all_back() {
    let Some(served) = serve("trn1.2xlarge", &[]) else { return };
    let mut client = on(&served, &[("NEURON_RT_LOG_LEVEL", "INFO")]);
    assert_eq!(client.ask("counts"), "0 2 0 2");
    assert_eq!(held(&served).0, 0, "counting opens nothing");
    for _ in 0..2 {
        assert_eq!(client.ask("init"), "0");
        assert_eq!(client.ask("counts"), "0 2 0 2");
        let (open, status) = held(&served);
        assert_ne!(open, 0);
        assert!(status.contains(&client.pid().to_string()), "{status}");
        assert_eq!(client.ask("trip 1 100000 0"), "ok hbm 1 mapped");
        assert_eq!(client.ask("close"), "closed");
        let (open, status) = held(&served);
        assert_eq!(open, 0, "{status}");
    }
    let (code, log) = client.end();
    assert_eq!(code, Some(0));
    for text in [
        "kernel backend)",
        "Found neuron driver: 2.27",
        "LNC info: first lnc 0 last lnc 1 first pnc 0 last pnc 1",
        "Reset triggered for nd 0 nc_map 0x3",
        "Initialized vcore: 0",
        "Initialized vcore: 1",
        "Driver version: 2.27.4.0",
    ] {
        assert!(!lines(&log, text).is_empty(), "no line with {text:?} in:\n{log}");
    }
    assert!(lines(&log, "WARN").is_empty() && lines(&log, "ERROR").is_empty(), "{log}");
}

/// B05: the first has all cores, the second is told so, and gets them when the first has ended.
#[test]
fn a_second_process_waits_for_the_first_to_end() {
    let Some(served) = serve("trn1.2xlarge", &[]) else { return };
    let (mut first, mut second) = (on(&served, &[]), on(&served, &[]));
    assert_eq!(first.ask("init"), "0");
    assert_eq!(first.ask("keep 0 5000"), "0 0");
    assert_eq!(second.ask("init"), "1");
    let log = second.log();
    let text = "Logical Neuron Core(s) not available - Requested:2 Available:0 Logical Core size 1";
    assert_eq!(lines(&log, text).len(), 1, "{log}");
    let holders = lines(&log, "Processes that use these devices: ");
    assert!(holders.len() == 1 && holders[0].ends_with(&format!(": {}", first.pid())), "{log}");
    assert_eq!(first.ask("check"), "0 same");
    assert_eq!(first.end().0, Some(0), "ends without a close");
    assert_eq!(second.ask("init"), "0");
    assert_eq!(second.ask("trip 0 4096 0"), "ok hbm 0 mapped");
}

#[test]
fn an_explicit_range_is_taken_beside_another_or_refused_by_name() {
    let Some(served) = serve("trn1.2xlarge", &[]) else { return };
    let list = |cores| [("NEURON_RT_VISIBLE_CORES", cores), ("NEURON_RT_LOG_LEVEL", "INFO")];
    let (mut first, mut second) = (on(&served, &list("1")), on(&served, &list("0-1")));
    assert_eq!(first.ask("init"), "0");
    assert!(!lines(&first.log(), "Reset triggered for nd 0 nc_map 0x2").is_empty(), "{}", first.log());
    assert_eq!(second.ask("init"), "1");
    let text = "Requested:lnc0-lnc1 Available:1 Logical Core size 1";
    assert_eq!(lines(&second.log(), text).len(), 1, "{}", second.log());
    let mut third = on(&served, &[("NEURON_RT_NUM_CORES", "1")]);
    assert_eq!(third.ask("init"), "0");
    assert_eq!(
        (first.ask("trip 0 9999 0"), third.ask("trip 0 9999 0")),
        ("ok hbm 1 mapped".into(), "ok hbm 0 mapped".into())
    );
    assert_eq!(third.ask("trip 1 9999 0"), "allocate 2", "one core each");
}

/// B06: a process that was killed holds nothing.
#[test]
fn a_killed_process_leaves_its_cores_at_once() {
    let Some(served) = serve("trn1.2xlarge", &[]) else { return };
    for _ in 0..3 {
        let mut first = on(&served, &[]);
        assert_eq!(first.ask("init"), "0");
        assert_eq!(first.ask("keep 1 1000000"), "0 0");
        first.kill();
        let mut second = on(&served, &[]);
        assert_eq!(second.ask("init"), "0", "{}", second.log());
    }
}

/// B07 on devices: the child gets nothing and takes nothing.
#[test]
fn a_forked_child_does_not_disturb_its_parent() {
    let Some(served) = serve("trn1.2xlarge", &[]) else { return };
    let mut client = on(&served, &[]);
    assert_eq!(client.ask("init"), "0");
    assert_eq!(client.ask("keep 0 70000"), "0 0");
    for _ in 0..2 {
        assert_eq!(client.ask("fork"), "visible 0 2 allocate 1 init 1 exit 0");
        assert_eq!(client.ask("check"), "0 same");
        assert_eq!(client.ask("trip 1 5000 0"), "ok hbm 1 mapped");
    }
    let mut other = on(&served, &[]);
    assert_eq!(other.ask("init"), "1", "the cores are still the parent's");
    assert_eq!(client.ask("close"), "closed");
    assert_eq!(other.ask("init"), "0");
}

/// No end of a process needs nrt_close: what it held is free when it is gone.
#[test]
fn a_process_may_end_or_begin_anew_without_a_close() {
    let Some(served) = serve("trn1.2xlarge", &[]) else { return };
    let mut next = on(&served, &[]);
    for (how, signal) in [("exit", None), ("_exit", None), ("abort", Some(6))] {
        let mut client = on(&served, &[]);
        assert_eq!(client.ask("init"), "0", "{how}");
        assert_eq!(client.ask("keep 0 70000"), "0 0");
        client.send(&format!("leave {how}"));
        assert_eq!(client.wait().signal(), signal, "{how}: {}", client.log());
        assert_eq!(held(&served).0, 0, "{how}");
        assert_eq!((next.ask("init"), next.ask("close")), ("0".into(), "closed".into()), "{how}: {}", next.log());
    }
    // The same process, another program: its descriptors are closed on the way.
    let mut client = on(&served, &[]);
    assert_eq!(client.ask("init"), "0");
    assert_eq!(client.ask("leave exec"), "again");
    assert_eq!(held(&served).0, 0);
    assert_eq!(next.ask("init"), "0", "{}", next.log());
    assert_eq!(client.ask("init"), "1", "another has them now");
    assert_eq!(next.ask("close"), "closed");
    assert_eq!(client.ask("init"), "0", "{}", client.log());
    assert_eq!(client.ask("trip 1 5000 0"), "ok hbm 1 mapped");
}

/// A process a client has left behind; gone when dropped.
struct Left(String);

impl Left {
    fn proc(&self, file: &str) -> PathBuf {
        Path::new("/proc").join(&self.0).join(file)
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-9", &self.0]).status();
    }
}

/// The claims are the parent's alone: a child has its descriptors until it ends, but no cores.
#[test]
fn a_child_that_outlives_its_parent_holds_no_core() {
    let Some(served) = serve("trn1.2xlarge", &[]) else { return };
    for child in ["child", "program"] {
        let mut parent = on(&served, &[]);
        assert_eq!(parent.ask("init"), "0", "{child}");
        let left = Left(parent.ask(child));
        parent.send("leave _exit");
        assert_eq!(parent.wait().code(), Some(0));
        let mut next = on(&served, &[]);
        assert_eq!(next.ask("init"), "0", "{child}: {}", next.log());
        assert_eq!(next.ask("trip 0 5000 0"), "ok hbm 0 mapped");
        let state = std::fs::read_to_string(left.proc("stat")).expect("the child lives on");
        assert!(!state.contains(") Z "), "{state}");
    }
}

/// Programs a process starts inherit nothing.
#[test]
fn a_started_program_has_no_descriptor_of_a_device() {
    let Some(served) = serve("trn1.2xlarge", &[]) else { return };
    let mut client = on(&served, &[]);
    assert_eq!(client.ask("init"), "0");
    let device_files = |process: &Left| {
        let files = std::fs::read_dir(process.proc("fd")).unwrap().flatten();
        files.filter_map(|f| std::fs::read_link(f.path()).ok()).filter(|path| path.starts_with(served.dev())).count()
    };
    let child = Left(client.ask("child"));
    assert_ne!(device_files(&child), 0, "a child that is no other program has what its parent has");
    let program = Left(client.ask("program"));
    // It is the other program from the moment its name is; before, it is the child.
    while std::fs::read_to_string(program.proc("comm")).unwrap().trim_end() != "sleep" {
        std::thread::yield_now();
    }
    assert_eq!(device_files(&program), 0);
    assert_eq!(client.ask("close"), "closed");
    let mut other = on(&served, &[]);
    assert_eq!(other.ask("init"), "0", "{}", other.log());
}

/// An init in the middle of a reset that somebody else asked for waits for its end.
#[test]
fn an_init_while_the_device_resets_waits_for_it() {
    let Some(served) = serve("trn1.2xlarge", &[]) else { return };
    settled(&served);
    served.ctl(&["fault", "reset-hold:600000"]);
    std::fs::write(served.sys().join("class/neuron_device/neuron0/reset"), "1").expect("nobody has it open");
    let mut client = on(&served, &[]);
    assert_eq!(client.ask("begin"), "0");
    in_flight(&served);
    assert!(served.ctl(&["status"]).contains("\"state\": \"RESET\""));
    let mut watcher = on(&served, &[]);
    assert_eq!(watcher.ask("counts"), "0 2 0 2", "who only counts does not wait");
    served.ctl(&["fault", "clear"]);
    assert_eq!(client.ask("finish"), "0", "{}", client.log());
    assert_eq!(client.ask("trip 0 5000 0"), "ok hbm 0 mapped");
}

/// A child forked while an init has claimed its cores and waits for their reset.
#[test]
fn a_child_forked_in_the_middle_of_an_init_does_not_disturb_it() {
    let Some(served) = serve("trn1.2xlarge", &[]) else { return };
    settled(&served);
    served.ctl(&["fault", "reset-hold:600000"]);
    let mut client = on(&served, &[]);
    assert_eq!(client.ask("begin"), "0");
    in_flight(&served);
    assert_eq!(client.ask("fork"), "visible 0 0 allocate 1 init 1 exit 0");
    served.ctl(&["fault", "clear"]);
    assert_eq!(client.ask("finish"), "0", "{}", client.log());
    assert_eq!(client.ask("trip 0 5000 0"), "ok hbm 0 mapped");
    let mut other = on(&served, &[]);
    assert_eq!(other.ask("init"), "1", "the cores are still the parent's");
}

/// The status of a device that does not come back; 6 is NRT_HW_ERROR.
#[test]
fn a_failed_reset_is_an_error_and_the_next_init_recovers() {
    let Some(served) = serve("trn1.2xlarge", &[]) else { return };
    settled(&served);
    served.ctl(&["fault", "reset-busy"]);
    let mut client = on(&served, &[]);
    assert_eq!(client.ask("init"), "6");
    let log = client.log();
    assert_eq!(lines(&log, "NC_RESET_READY on neuron0: the reset failed").len(), 1, "{log}");
    assert_eq!(lines(&log, "Failed to initialize devices, error:6").len(), 1, "{log}");
    assert!(log.lines().count() < 50, "{log}");
    assert_eq!(held(&served).0, 0);
    assert_eq!(client.ask("init"), "6", "still broken");
    served.ctl(&["fault", "reset-busy:off"]);
    assert_eq!(client.ask("init"), "0");
    assert_eq!(client.ask("close"), "closed");
    served.ctl(&["fault", "reset-busy"]);
    let mut without = on(&served, &[("NEURON_RT_RESET_CORES", "0")]);
    assert_eq!(without.ask("init"), "0", "nobody asked for a reset");
}

/// The driver's own reset failed, so it lets nobody in.
#[test]
fn a_device_out_of_service_is_said_to_be_so() {
    let Some(served) = serve("trn1.2xlarge", &["--fault", "reset-busy"]) else { return };
    let mut client = on(&served, &[]);
    assert_eq!((client.ask("counts"), client.ask("init")), ("0 2 0 2".into(), "6".into()));
    let log = client.log();
    let text = "Could not open the nd0: open on neuron0: the device is out of service after a failed reset";
    assert_eq!(lines(&log, text).len(), 1, "{log}");
    assert_eq!(held(&served).0, 0);
}

/// A process that waits for a reset which never ends can be killed, and the device comes back.
#[test]
fn a_process_stuck_in_a_reset_is_let_go_when_it_is_killed() {
    let Some(served) = serve("trn1.2xlarge", &[]) else { return };
    settled(&served);
    served.ctl(&["fault", "reset-no-ack"]);
    let mut client = on(&served, &[]);
    client.send("init");
    in_flight(&served);
    client.kill();
    let mut blocked = on(&served, &[("NEURON_RT_RESET_CORES", "0")]);
    assert_eq!(blocked.ask("init"), "0", "cores and slot are free: {}", blocked.log());
    assert_eq!(blocked.end().0, Some(0));
    served.ctl(&["fault", "clear"]);
    let mut next = on(&served, &[]);
    assert_eq!(next.ask("init"), "0", "{}", next.log());
}

/// Tensors of every placement, used-up memory, and what is mapped.
#[test]
fn tensors_live_in_the_memory_of_the_devices() {
    let Some(served) = serve("trn2.3xlarge", &[]) else { return };
    let mut client = on(&served, &[]);
    assert_eq!(client.ask("init"), "0", "{}", client.log());
    assert_eq!(client.ask("counts"), "0 4 0 4");
    // The driver's core map: logical core 0 is physical cores 4 and 5, next to HBM 2.
    for (vnc, hbm) in [(0, 2), (1, 3), (2, 1), (3, 0)] {
        assert_eq!(client.ask(&format!("trip {vnc} 1234567 0")), format!("ok hbm {hbm} mapped"));
    }
    assert_eq!(client.ask("trip 0 50000 2"), "ok hbm 2 mapped", "from plain memory");
    assert_eq!(client.ask("stats 0"), format!("0 0 {}", 24_u64 << 30));
    assert_eq!(client.ask("keep 1 4097"), "0 0");
    assert_eq!(client.ask("stats 1"), format!("0 8192 {}", 24_u64 << 30));
    assert_eq!(client.ask("fill 2 536870912"), "2 refused 4 again 0", "an HBM of 2 GiB, less the driver's share");
    assert_eq!(client.ask("window 0 3"), format!("0 {}", 24_u64 << 30));
    assert_eq!(client.ask("window 0 4"), "3 0");
    assert_ne!(client.ask("dmabuf"), "0", "an emulator cannot hand out descriptors");
    assert_eq!(client.ask("close"), "closed");
    assert_eq!(client.ask("check"), "13 other");
    assert_eq!(client.ask("drop"), "gone", "freeing after close is safe");
    let mut pinned = on(&served, &[]);
    assert_eq!(pinned.ask("init"), "0");
    assert_eq!(pinned.ask("trip 0 50000 1"), "allocate 0", "Trn2 refuses placement 1");
}

#[test]
fn pinned_memory_and_old_drivers_work() {
    let Some(served) = serve("trn1.2xlarge", &["--driver", "2.24.7"]) else { return };
    let mut client = on(&served, &[("NEURON_RT_LOG_LEVEL", "INFO")]);
    assert_eq!(client.ask("init"), "0", "{}", client.log());
    assert_eq!(client.ask("trip 0 50000 1"), "ok hbm 0 mapped", "pinned host memory");
    assert_eq!(client.ask("window 0 0"), "3 0", "no such mapping on Trn1");
    assert!(!lines(&client.log(), "Found neuron driver: 2.24").is_empty());
}

/// Zero copy, and the copies of the driver where there is none.
#[test]
fn a_storm_of_signals_loses_nothing_of_a_large_copy() {
    for (instance, driver) in [("trn2.3xlarge", "2.27.4"), ("trn1.2xlarge", "2.24.7")] {
        let Some(served) = serve(instance, &["--driver", driver]) else { return };
        let mut client = on(&served, &[]);
        assert_eq!(client.ask("init"), "0", "{}", client.log());
        assert_eq!(client.ask("storm 0 268435456"), "same", "{}", client.log());
    }
}

/// Many devices, and a container that sees two of them.
#[test]
fn claims_count_in_the_numbers_of_the_instance() {
    let Some(served) = serve("trn1.32xlarge", &[]) else { return };
    let mut all = on(&served, &[("NEURON_RT_LOG_LEVEL", "INFO")]);
    assert_eq!(all.ask("init"), "0", "{}", all.log());
    assert_eq!(lines(&all.log(), "Reset triggered for nd ").len(), 16);
    assert_eq!(all.ask("trip 31 5000 0"), "ok hbm 1 mapped");
    assert_eq!(all.end().0, Some(0));

    let view = tempfile::tempdir().unwrap();
    for index in [3, 5] {
        let name = format!("neuron{index}");
        std::os::unix::fs::symlink(served.dev().join(&name), view.path().join(&name)).unwrap();
    }
    let view = view.path().to_str().unwrap();
    let contained = |variables: &[(&str, &str)]| {
        let mut command = command(variables);
        command.env("OPENNRT_DEV_DIR", view).env("OPENNRT_SYS_DIR", served.sys());
        Client::start(command)
    };
    let mut one = contained(&[("NEURON_RT_VISIBLE_CORES", "10-11"), ("NEURON_RT_LOG_LEVEL", "INFO")]);
    assert_eq!((one.ask("counts"), one.ask("init")), ("0 4 0 2".into(), "0".into()));
    assert!(!lines(&one.log(), "Reset triggered for nd 5 nc_map 0x3").is_empty(), "{}", one.log());
    let mut two = contained(&[("NEURON_RT_NUM_CORES", "2"), ("NEURON_RT_LOG_LEVEL", "INFO")]);
    assert_eq!(two.ask("init"), "0", "{}", two.log());
    assert!(!lines(&two.log(), "Reset triggered for nd 3 nc_map 0x3").is_empty(), "{}", two.log());
    assert_eq!(two.ask("trip 0 5000 0"), "ok hbm 0 mapped");
    let mut three = contained(&[("NEURON_RT_VISIBLE_CORES", "8")]);
    assert_eq!(three.ask("init"), "2");
    assert!(three.log().contains("is /dev/neuron4 visible to process?"), "{}", three.log());
}

/// The same answers as in simulation.
#[test]
fn counts_and_identity_are_those_of_the_simulated_instance() {
    for product in ["trn1.2xlarge", "inf2.24xlarge", "trn2.48xlarge", "trn3.48xlarge"] {
        let Some(served) = serve(product, &[]) else { return };
        for variables in [&[][..], &[("NEURON_LOGICAL_NC_CONFIG", "1")], &[("NEURON_RT_VISIBLE_CORES", "1")]] {
            let (mut real, mut fake) = (on(&served, variables), simulated(product, variables));
            assert_eq!(real.ask("counts"), fake.ask("counts"), "{product} {variables:?}");
            assert_eq!(real.ask("init"), fake.ask("init"), "{product} {variables:?}: {}", real.log());
            assert_eq!(real.ask("counts"), fake.ask("counts"), "{product} {variables:?}");
            let (real, fake) = (real.ask("info"), fake.ask("info"));
            // A simulated instance has no silicon, and so no revision.
            let revision = if product.starts_with("trn3") { "pre" } else { "A" };
            assert_eq!(real, format!("{fake} {revision}").replace("  ", " "), "{product}");
        }
    }
}

/// Versions of the process, where monitoring tools read them.
#[test]
fn a_running_process_shows_its_versions_to_others() {
    use neuron_driver::{Driver, KernelBackend, Mode};
    use std::sync::atomic::Ordering::Relaxed;
    let Some(served) = serve("trn1.2xlarge", &[]) else { return };
    let mut client = on(&served, &[]);
    assert_eq!(client.ask("init"), "0");
    let driver = KernelBackend::new(served.dev(), served.sys());
    let file = driver.open(0, Mode::Full).unwrap();
    let (offset, bytes) = file.datastore(Some(client.pid())).unwrap();
    let store = file.map(offset, bytes).unwrap();
    let word = |index: usize| store.words()[index].load(Relaxed);
    assert_eq!(&word(0).to_ne_bytes()[..4], b"nds\0");
    // Runtime 2.31.24.0, then what the client says to nrt_init.
    assert_eq!([word(1), word(2), word(3)], [0x021f_0000_0018, 0x0209_0000_0001, 0x0102_0000_0003]);
    assert_eq!(client.ask("close"), "closed");
    assert!(file.datastore(Some(client.pid())).is_err());
}

/// NEURON_RT_HBM_INIT_VAL: the HBM of the one claimed core is filled, the other is not.
#[test]
fn memory_is_filled_where_it_belongs_to_the_process() {
    // What is filled becomes real memory, so there is little of it: 512 MiB each.
    let Some(served) = Served::start(emulator(), "trn1.2xlarge", &["--hbm-gib", "1"]) else { return };
    let variables = [("NEURON_RT_VISIBLE_CORES", "1"), ("NEURON_RT_HBM_INIT_VAL", "0xabcd1234")];
    let mut client = on(&served, &variables);
    assert_eq!(client.ask("init"), "0", "{}", client.log());
    assert_eq!(client.ask("peek 0 200000000"), "0 abcd1234 abcd1234");
    let mut other = on(&served, &[("NEURON_RT_VISIBLE_CORES", "0")]);
    assert_eq!(other.ask("init"), "0");
    assert_eq!(other.ask("peek 0 200000000"), "0 0 0");
}

#[test]
fn the_core_dump_helper_sees_a_broken_device_once() {
    let Some(served) = serve("trn1.2xlarge", &[]) else { return };
    settled(&served);
    served.ctl(&["fault", "reset-busy"]);
    let (tree, exe) = client_program();
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("arguments");
    // A private /opt with a helper that notes what it is called with.
    let script = format!(
        "mount -t tmpfs none /opt && mkdir -p /opt/aws/neuron/bin && \
         printf '#!/bin/sh\\necho \"$@\" >> {record}\\n' > /opt/aws/neuron/bin/neuron-dump && \
         chmod 755 /opt/aws/neuron/bin/neuron-dump && exec {exe}",
        record = record.display(),
        exe = exe.display()
    );
    let mut command = common::command(Path::new("unshare"), tree.path());
    command.args(["-m", "sh", "-c", &script]).envs(served.variables());
    command.env("NEURON_RT_LOCAL_CORE_DUMP_DIRECTORY", "/d/%p");
    let mut client = Client::start(command);
    assert_eq!((client.ask("init"), client.ask("init")), ("6".into(), "6".into()));
    let calls = std::fs::read_to_string(&record).unwrap_or_else(|e| panic!("{e}: {}", client.log()));
    assert_eq!(calls.lines().count(), 1, "{calls}");
    for option in [format!("--local-output-dir /d/{}", client.pid()), "--error-code 6".into(), "--device-id 0".into()] {
        assert!(calls.contains(&option), "{calls}");
    }
}
