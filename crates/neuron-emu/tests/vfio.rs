//! `neuron-emu vfio-user`, with the client half of the protocol in the place of a machine.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use neuron_abi::kernel::pci::RID_TO_INDEX_TRN1;
use neuron_hw::regs::{Layout, V2, V3, V4, engine, misc};
use vfio_user::Client;

const EMU: &str = env!("CARGO_BIN_EXE_neuron-emu");
const CONFIG: u32 = 7;

/// A served product.
struct Served {
    process: Child,
    dir: PathBuf,
    /// The line of arguments for QEMU.
    arguments: String,
    _folder: tempfile::TempDir,
}

fn command(dir: &Path, instance: &str, options: &[&str]) -> Command {
    let mut command = Command::new(EMU);
    command.args(["vfio-user", "--instance", instance, "--socket-dir"]).arg(dir).args(options);
    command.env_remove("OPENNRT_HBM_MIB").stdout(Stdio::piped());
    command
}

fn start(dir: &Path, instance: &str, options: &[&str]) -> Child {
    command(dir, instance, options).spawn().expect("the program is built")
}

/// Waits until it is ready; returns what it said.
fn ready(process: &mut Child) -> [String; 2] {
    let mut lines = BufReader::new(process.stdout.take().expect("piped")).lines();
    let said = [(); 2].map(|()| lines.next().expect("two lines").expect("text"));
    assert!(said[0].starts_with("ready: "), "{said:?}");
    said
}

impl Served {
    fn start(instance: &str, options: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let dir = folder.path().join("sockets");
        let mut process = start(&dir, instance, options);
        let [_, arguments] = ready(&mut process);
        Self { process, dir, arguments, _folder: folder }
    }

    fn socket(&self, device: u32) -> PathBuf {
        self.dir.join(format!("neuron{device}.sock"))
    }

    fn connect(&self, device: u32) -> Machine {
        Machine(Client::new(&self.socket(device)).expect("it listens"))
    }

    fn end(&mut self, signal: i32) -> Option<i32> {
        end(&mut self.process, signal)
    }
}

fn end(process: &mut Child, signal: i32) -> Option<i32> {
    // SAFETY: plain system call on a process this test started and did not wait for.
    assert_eq!(unsafe { libc::kill(process.id() as i32, signal) }, 0);
    process.wait().expect("our child").code()
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What a machine does to a device.
struct Machine(Client);

impl Machine {
    fn read(&mut self, region: u32, offset: u64) -> u32 {
        let mut word = [0; 4];
        self.0.region_read(region, offset, &mut word).expect("an answer");
        u32::from_le_bytes(word)
    }

    fn write(&mut self, region: u32, offset: u64, value: u32) {
        self.0.region_write(region, offset, &value.to_le_bytes()).expect("an answer");
    }

    /// Size of a BAR pair, as a bus driver finds it out.
    fn probe(&mut self, bar: u64) -> u64 {
        let at = 0x10 + 4 * bar;
        let mut both = |value| {
            self.write(CONFIG, at, value);
            self.write(CONFIG, at + 4, value);
            u64::from(self.read(CONFIG, at + 4)) << 32 | u64::from(self.read(CONFIG, at))
        };
        let mask = both(u32::MAX);
        assert_eq!(mask & 0xf, 0xc, "64 bits, prefetchable");
        both(0);
        !(mask & !0xf) + 1
    }

    /// Requests a reset of `kind`; returns the request word and the busy bit afterwards.
    fn reset_handshake(&mut self, layout: &Layout, kind: u32) -> (u32, u32) {
        let base = layout.geometry.misc_ram;
        for (at, value) in [(misc::RESET_MAP, 3), (misc::RESET_TYPE, kind), (misc::TRIGGER, 1)] {
            self.write(0, base + at, value);
        }
        (self.read(0, base + misc::RESET_TYPE), self.read(0, base + misc::STATUS) & misc::STATUS_BUSY)
    }

    /// Hands copies of (bytes, from, to) to queue 2 of engine 1, by rings in guest memory.
    fn copy(&mut self, layout: &Layout, guest: &Guest, copies: &[(u32, u64, u64)]) {
        let (tx, rx) = (0x20_0000, 0x21_0000);
        let block = layout.engine_base(1).expect("an engine") + engine::QUEUES + 2 * engine::QUEUE_STRIDE;
        for (ring, block) in [(tx, block), (rx, block + engine::RX)] {
            let ring = ring | layout.geometry.pci_host_base;
            self.write(0, block + engine::RING_HI, (ring >> 32) as u32);
            self.write(0, block + engine::RING_LO, ring as u32);
            self.write(0, block + engine::RING_LEN, 16);
        }
        for (i, (bytes, from, to)) in copies.iter().enumerate() {
            for (ring, address) in [(tx, from), (rx, to)] {
                let descriptor = [u64::from(bytes & 0xffff), *address].map(u64::to_le_bytes).concat();
                guest.file.write_all_at(&descriptor, guest.offset(ring + 16 * i as u64)).expect("in the file");
            }
        }
        self.write(0, block + engine::TAIL_INC, copies.len() as u32);
    }
}

/// Memory of a machine: a low piece, a hole, and the rest, which lie in one file without the hole.
struct Guest {
    file: File,
}

impl Guest {
    const LOW: u64 = 0xa_0000;
    const HIGH: u64 = 0x10_0000;
    const BYTES: u64 = 0x100_0000;

    fn new() -> Self {
        let fd = rustix::fs::memfd_create("guest", rustix::fs::MemfdFlags::CLOEXEC).expect("a memfd can be made");
        let file = File::from(fd);
        file.set_len(Self::BYTES).expect("our file");
        Self { file }
    }

    fn offset(&self, address: u64) -> u64 {
        if address < Self::LOW { address } else { address - Self::HIGH + Self::LOW }
    }

    fn plug(&self, machine: &mut Machine) {
        let fd = self.file.as_raw_fd();
        machine.0.dma_map(0, 0, Self::LOW, fd).expect("an answer");
        machine.0.dma_map(Self::LOW, Self::HIGH, Self::BYTES - Self::LOW, fd).expect("an answer");
    }

    fn put(&self, address: u64, bytes: &[u8]) {
        self.file.write_all_at(bytes, self.offset(address)).expect("in the file");
    }

    fn get(&self, address: u64, bytes: usize) -> Vec<u8> {
        let mut data = vec![0; bytes];
        self.file.read_exact_at(&mut data, self.offset(address)).expect("in the file");
        data
    }
}

fn pattern(bytes: usize, seed: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i * 31 + i / 251 + seed) as u8).collect()
}

/// A product of each generation: name, PCI device id, bytes of BAR 0 and BAR 4, register map.
const GENERATIONS: [(&str, u32, u64, u64, &Layout); 4] = [
    ("trn1.2xlarge", 0x7164, 1 << 30, 1 << 35, &V2),
    ("inf2.xlarge", 0x7264, 1 << 30, 1 << 35, &V2),
    ("trn2.3xlarge", 0x7364, 1 << 32, 1 << 38, &V3),
    ("trn3.48xlarge", 0x7564, 1 << 32, 1 << 38, &V4),
];

#[test]
fn every_generation_shows_its_identity_and_its_windows() {
    for (instance, id, bar0, bar4, layout) in GENERATIONS {
        let served = Served::start(instance, &[]);
        let mut machine = served.connect(0);
        assert_eq!(machine.read(CONFIG, 0), id << 16 | 0x1d0f, "{instance}");
        assert_eq!(machine.read(CONFIG, 8), 0x0880_0001, "{instance}: class, and a revision that is no test variant");
        assert_eq!((machine.probe(0), machine.probe(4)), (bar0, bar4), "{instance}");
        let size = |machine: &Machine, index| machine.0.region(index).expect("nine regions").size;
        assert_eq!([0, 2, 4, CONFIG].map(|i| size(&machine, i)), [bar0, 0, bar4, 256], "{instance}");
        assert!(machine.0.region(0).is_some_and(|r| r.sparse_areas.is_empty()), "registers trap");
        let areas = &machine.0.region(4).expect("nine regions").sparse_areas;
        let mapped: u64 = areas.iter().map(|a| a.size).sum();
        assert_eq!(mapped, layout.channels.len() as u64 * layout.geometry.channel_bytes, "{instance}");
        assert_eq!(machine.read(0, layout.geometry.misc_ram + misc::ROUTING_ID), 0, "{instance}");
        assert_eq!(machine.0.get_irq_info(0).expect("an answer").count, 0, "the driver polls");
    }
}

#[test]
fn reset_requests_are_acknowledged() {
    for (instance, .., layout) in GENERATIONS {
        let served = Served::start(instance, &[]);
        let mut machine = served.connect(0);
        for kind in [1, 2] {
            assert_eq!(machine.reset_handshake(layout, kind), (0, 0), "{instance}");
        }
    }
}

#[test]
fn faults_from_the_start_are_seen_by_the_machine() {
    let faults = ["--fault", "reset-no-ack", "--fault", "reset-busy", "--fault", "routing-id-busy:2"];
    let served = Served::start("trn1.2xlarge", &[&faults[..], &["--fault", "no-dram-bar"]].concat());
    let mut machine = served.connect(0);
    assert_eq!(machine.reset_handshake(&V2, 1), (1, misc::STATUS_BUSY));
    let id = V2.geometry.misc_ram + misc::ROUTING_ID;
    assert_eq!([(); 3].map(|()| machine.read(0, id)), [0xdead_beef, 0xdead_beef, 0]);
    assert_eq!(machine.0.region(4).map(|r| (r.size, r.sparse_areas.len())), Some((0, 0)));
}

#[test]
fn copies_go_between_guest_memory_and_what_the_guest_maps() {
    for (instance, .., layout) in GENERATIONS {
        let served = Served::start(instance, &[]);
        let mut machine = served.connect(0);
        let guest = Guest::new();
        guest.plug(&mut machine);
        let host = |address| layout.geometry.pci_host_base | address;
        // The last channel: its address and its place in BAR 4 are far apart.
        let channel = layout.channels.last().expect("a channel");
        let (there, data) = (channel.address + 0x5000, pattern(0x1_0000, 1));
        guest.put(0x30_0000, &data);
        guest.put(0x22_0000, b"done");
        let marker = (4, host(0x22_0000), host(0x22_0004));
        machine.copy(layout, &guest, &[(0x1_0000, host(0x30_0000), there), marker]);
        assert_eq!(guest.get(0x22_0004, 4), b"done", "{instance}");

        let region = machine.0.region(4).expect("nine regions");
        let place = channel.bar4 + 0x5000;
        assert!(region.sparse_areas.iter().any(|a| (a.offset..a.offset + a.size).contains(&place)), "{instance}");
        let memory = region.file_offset.as_ref().expect("a descriptor");
        let mut seen = vec![0; data.len()];
        memory.file().read_exact_at(&mut seen, memory.start() + place).expect("in the file");
        assert!(seen == data, "{instance}: the mapping shows what was copied");
        let fresh = pattern(0x1_0000, 2);
        memory.file().write_all_at(&fresh, memory.start() + place).expect("in the file");
        let mut trapped = [0; 7];
        machine.0.region_read(4, place + 1, &mut trapped).expect("an answer");
        assert_eq!(trapped, fresh[1..8], "{instance}");
        machine.0.region_write(4, place + 3, &[0xee; 6]).expect("an answer");

        guest.put(0x22_0000, b"back");
        machine.copy(layout, &guest, &[(0x1_0000, there, host(0x40_0000)), marker]);
        assert_eq!(guest.get(0x22_0004, 4), b"back", "{instance}");
        let expected = [&fresh[..3], &[0xee; 6], &fresh[9..]].concat();
        assert!(guest.get(0x40_0000, 0x1_0000) == expected, "{instance}");
    }
}

#[test]
fn memory_that_was_unplugged_or_never_plugged_is_not_reached() {
    let served = Served::start("trn1.2xlarge", &[]);
    let mut machine = served.connect(0);
    let guest = Guest::new();
    guest.plug(&mut machine);
    let host = |address| V2.geometry.pci_host_base | address;
    guest.put(0x1000, b"low!");
    // The hole, and what lies behind the end.
    let beyond = Guest::HIGH + Guest::BYTES - Guest::LOW;
    let copies = [(4, host(0xb_0000), host(0x50_0000)), (4, host(beyond), host(0x50_0000))];
    machine.copy(&V2, &guest, &[&copies[..], &[(4, host(0x1000), host(0x50_0004))]].concat());
    assert_eq!(guest.get(0x50_0000, 8), b"\0\0\0\0low!", "bad descriptors do nothing, the next one is done");
    machine.0.dma_unmap(0, Guest::LOW).expect("an answer");
    guest.put(0x1000, b"gone");
    machine.copy(&V2, &guest, &[(4, host(0x1000), host(0x50_0004))]);
    assert_eq!(guest.get(0x50_0004, 4), b"low!");
}

#[test]
fn a_reset_or_a_new_machine_finds_the_device_as_after_power_on() {
    let served = Served::start("trn1.32xlarge", &["--fault", "misc-register:0x44,7"]);
    let base = V2.geometry.misc_ram;
    let scratch = V2.engine_base(3).expect("an engine") + 0x40;
    let guest = Guest::new();
    let mut first = served.connect(5);
    let id = first.read(0, base + misc::ROUTING_ID);
    drop(first);
    // By hand, since the client half reads this flag the wrong way round.
    let mut stream = UnixStream::connect(served.socket(5)).expect("it listens");
    stream.write_all(&message(4, &[&16_u32.to_le_bytes(), &[0; 12]])).expect("it reads");
    let mut info = [0; 32];
    stream.read_exact(&mut info).expect("an answer");
    assert_eq!(info[20] & 3, 3, "a PCI device that can be reset");
    drop(stream);
    let mut first = served.connect(5);
    for new_machine in [false, true] {
        guest.plug(&mut first);
        first.write(CONFIG, 0x10, 0xc000_0000);
        first.write(CONFIG, 4, 6);
        first.write(0, scratch, 0x1234);
        first.write(0, base + misc::RESET_MAP, 3);
        assert_eq!((first.read(CONFIG, 0x10), first.read(CONFIG, 4), first.read(0, scratch)), (0xc000_000c, 6, 0x1234));
        if new_machine {
            drop(first);
            first = served.connect(5);
        } else {
            first.0.reset().expect("an answer");
        }
        assert_eq!((first.read(CONFIG, 0x10), first.read(CONFIG, 4), first.read(0, scratch)), (0xc, 0, 0));
        assert_eq!(first.read(0, base + misc::RESET_MAP), 0);
        assert_eq!(first.read(0, base + misc::ROUTING_ID), id, "the firmware keeps its words");
        assert_eq!(first.read(0, base + misc::ECC_HBM0), 7, "faults stay");
        if new_machine {
            // The memory of the former machine went with it, so its place is free.
            let other = Guest::new();
            other.put(0x1000, b"mine");
            other.plug(&mut first);
            let host = |address| V2.geometry.pci_host_base | address;
            first.copy(&V2, &other, &[(4, host(0x1000), host(0x50_0000))]);
            assert_eq!((other.get(0x50_0000, 4), guest.get(0x50_0000, 4)), (b"mine".to_vec(), vec![0; 4]));
        } else {
            first.0.dma_unmap(0, u64::MAX).expect("an answer");
        }
    }
}

#[test]
fn sixteen_devices_are_served_side_by_side() {
    let served = Served::start("trn1.32xlarge", &[]);
    let mut machines: Vec<_> = (0..16).map(|device| served.connect(device)).collect();
    let base = V2.geometry.misc_ram;
    let mut serials = Vec::new();
    for (device, machine) in machines.iter_mut().enumerate() {
        let routing_id = machine.read(0, base + misc::ROUTING_ID);
        assert_eq!(RID_TO_INDEX_TRN1[routing_id as usize], device as u32, "the driver numbers it as its socket");
        assert_eq!(machine.reset_handshake(&V2, 1), (0, 0));
        serials.push(machine.read(0, base + misc::SERIAL_LO));
        let path = served.socket(device as u32);
        assert!(served.arguments.contains(&format!(r#""path":"{}""#, path.display())), "{}", served.arguments);
    }
    serials.dedup();
    assert_eq!(serials.len(), 16);
    assert_eq!(served.arguments.matches("-device ").count(), 16);
    // One machine has all of them; each reaches its memory.
    let guest = Guest::new();
    let host = |address| V2.geometry.pci_host_base | address;
    for (device, machine) in machines.iter_mut().enumerate() {
        guest.plug(machine);
        guest.put(0x30_0000, &[device as u8; 64]);
        machine.copy(&V2, &guest, &[(64, host(0x30_0000), 0x1000)]);
    }
    for (device, machine) in machines.iter_mut().enumerate() {
        assert_eq!(machine.read(4, 0x1000), u32::from_ne_bytes([device as u8; 4]));
    }
}

#[test]
fn memory_above_the_size_asked_for_is_missing() {
    let served = Served::start("trn1.2xlarge", &["--hbm-gib", "8"]);
    let mut machine = served.connect(0);
    let areas: Vec<_> =
        machine.0.region(4).expect("nine regions").sparse_areas.iter().map(|a| (a.offset, a.size)).collect();
    assert_eq!(areas, [(0, 4 << 30), (16 << 30, 4 << 30)]);
    machine.write(4, (20 << 30) - 4, 5);
    machine.write(4, 20 << 30, 5);
    assert_eq!((machine.read(4, (20 << 30) - 4), machine.read(4, 20 << 30)), (5, u32::MAX));
}

#[test]
fn what_is_no_message_or_out_of_range_ends_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let mut process = command(folder.path(), "trn1.2xlarge", &[]);
    let mut process = process.stderr(Stdio::piped()).spawn().expect("the program is built");
    ready(&mut process);
    let socket = folder.path().join("neuron0.sock");
    // The last two make the protocol code panic: a text without its end, and a size below its own header.
    let text = message(1, &[&[0, 0, 1, 0], b"{}"]);
    let short = [1, 0, 1, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0];
    for junk in [&[0xff; 64][..], &[0; 15], b"GET / HTTP/1.1\r\n\r\n", &text, &short] {
        let mut stream = UnixStream::connect(&socket).expect("it listens");
        stream.write_all(junk).expect("it reads");
        stream.shutdown(std::net::Shutdown::Write).expect("connected");
        // Until it hangs up; an error is a hang-up too.
        let _ = stream.read_to_end(&mut Vec::new());
    }
    // Refused with an error, and the connection goes on: an access behind the end of a region, one
    // that wraps around, and those of regions that are absent.
    let mut stream = UnixStream::connect(&socket).expect("it listens");
    let access = |command, region: u32, offset: u64| {
        message(command, &[&offset.to_le_bytes()[..], &region.to_le_bytes(), &4_u32.to_le_bytes(), &[0; 4]])
    };
    for refused in [access(10, 0, 1 << 30), access(10, CONFIG, u64::MAX), access(10, 2, 0), access(10, 77, 0)] {
        stream.write_all(&refused).expect("it reads");
        let mut reply = [0; 16];
        stream.read_exact(&mut reply).expect("an answer");
        assert_eq!(reply[8] & 0x20, 0x20, "the error bit: {reply:?}");
    }
    drop(stream);
    let mut machine = Machine(Client::new(&socket).expect("it listens"));
    assert_eq!(machine.read(CONFIG, 0), 0x7164_1d0f);
    assert_eq!(end(&mut process, libc::SIGTERM), Some(0));
    let mut said = String::new();
    process.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
    assert_eq!(said.matches("was sent a message that is none").count(), 2, "{said}");
    assert!(said.lines().all(|line| line.starts_with("neuron-emu: device 0 ")), "a sentence each: {said}");
}

/// A message of the protocol.
fn message(command: u16, parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    let header = [&1_u16.to_le_bytes()[..], &command.to_le_bytes(), &(16 + body.len() as u32).to_le_bytes(), &[0; 8]];
    [header.concat(), body].concat()
}

#[test]
fn the_guest_test_without_its_inputs_says_so_and_succeeds() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/vm-test.sh");
    let here = script.display().to_string();
    for (kernel, module, part) in [
        ("", "", "KERNEL is not given"),
        ("/no/kernel", "", "/no/kernel (KERNEL) cannot be read"),
        (&here, "", "NEURON_KO is not given"),
        (&here, &here, "/no/qemu (QEMU) cannot be run"),
    ] {
        let mut command = Command::new(&script);
        command.env("KERNEL", kernel).env("NEURON_KO", module).env("QEMU", "/no/qemu");
        let output = command.output().expect("bash is there");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.lines().count() == 1 && said.contains(part), "{part}: {said}");
    }
}

#[test]
fn it_ends_on_a_signal_and_takes_its_sockets_along() {
    for (signal, made) in [(libc::SIGTERM, true), (libc::SIGINT, false), (libc::SIGHUP, true)] {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let dir = if made { folder.path().join("it's") } else { folder.path().to_owned() };
        let mut process = start(&dir, "trn1.32xlarge", &[]);
        let said = ready(&mut process);
        assert!(said[0].contains("16 devices"), "{said:?}");
        let _machine = Client::new(&dir.join("neuron7.sock")).expect("it listens");
        assert_eq!(end(&mut process, signal), Some(0));
        assert_eq!(dir.exists(), !made);
        assert!(made || fs::read_dir(&dir).is_ok_and(|mut left| left.next().is_none()));
    }
}

#[test]
fn sockets_of_a_killed_one_are_taken_over() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let mut process = start(folder.path(), "trn1.2xlarge", &[]);
    ready(&mut process);
    assert_eq!(end(&mut process, libc::SIGKILL), None);
    assert!(folder.path().join("neuron0.sock").exists());
    let mut process = start(folder.path(), "trn1.2xlarge", &[]);
    ready(&mut process);
    assert!(Client::new(&folder.path().join("neuron0.sock")).is_ok());
    assert_eq!(end(&mut process, libc::SIGTERM), Some(0));
}

#[test]
fn what_cannot_be_served_is_refused_in_a_sentence() {
    let mut served = Served::start("trn1.2xlarge", &[]);
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = |name: &str| folder.path().join(name);
    fs::write(path("file"), "").expect("our folder");
    fs::create_dir(path("taken")).expect("our folder");
    fs::write(path("taken/neuron0.sock"), "not a socket").expect("our folder");
    let missing = path("no/where");
    let long = path(&"x".repeat(120));
    let cases: [(&Path, &[&str], &str); 8] = [
        (&served.dir, &[], "has the sockets of another neuron-emu"),
        (&path("file"), &[], "cannot use "),
        (&missing, &[], "give a directory that you may write to"),
        (&path("taken"), &[], "cannot listen at "),
        (&long, &[], "a shorter name"),
        (&path("a"), &["--hbm-gib", "99"], "use 1024 to 32768"),
        (&path("a"), &["--fault", "dma-stuck@1"], "devices 0 to 0"),
        (&path("a"), &["--fault", "nonsense"], "there is no fault"),
    ];
    for (dir, options, part) in cases {
        let mut command = Command::new(EMU);
        command.args(["vfio-user", "--instance", "trn1.2xlarge", "--socket-dir"]).arg(dir).args(options);
        let output = command.output().expect("the program is built");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(part), "{part}: {said}");
        assert!(output.stdout.is_empty() && said.trim_end().lines().count() <= 3, "{said}");
    }
    assert_eq!(fs::read(path("taken/neuron0.sock")).expect("not ours to remove"), b"not a socket");
    assert!(!long.exists() && !path("a").exists());
    assert!(Client::new(&served.socket(0)).is_ok(), "the first one is not disturbed");
    assert_eq!(served.end(libc::SIGTERM), Some(0));
}
