//! The same requests to a driver model in this process and to device files of `neuron-emu serve`.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use neuron_driver::requests::{Chunk, Kind, Marked};
use neuron_driver::{
    Call, Cause, Driver, File, InProcess, KernelBackend, Learned, Mapping, Mode, Node, Result, Session,
};
use neuron_hw::Fault;
use neuron_kmd::time::{Clock, RealClock, VirtualClock};
use neuron_kmd::{LoadConfig, Profile, instance};
use parking_lot::Mutex;

#[path = "../../../tests/common/emu.rs"]
mod emu;
use emu::Served;

fn neuron_emu() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(emu::program)
}

/// A model in this process.
fn model(
    product: &str,
    profile: Profile,
    gib: u32,
    clock: Arc<dyn Clock>,
) -> (Arc<InProcess>, Vec<Arc<neuron_hw::Silicon>>) {
    let product = neuron_abi::product::find(product).unwrap();
    let bus = instance::bus(product, Some(gib << 10), &clock).unwrap();
    let config = LoadConfig { profile, params: String::new(), product: product.name.into() };
    let model = neuron_kmd::Driver::load(&config, &bus, clock).unwrap();
    (Arc::new(InProcess::new(model)), bus)
}

/// One machine to test.
struct Machine<'a> {
    driver: Arc<dyn Driver>,
    /// Gives a fault to all devices, by its name with neuron-emu.
    fault: &'a dyn Fn(&str),
}

/// Claims belong to a process, so tests of one process take turns.
static TURN: Mutex<()> = Mutex::new(());

/// Runs a test on both, with devices of 8 GiB.
fn both(product: &str, profile: Profile, test: impl Fn(&Machine<'_>)) {
    both_with(product, profile, 8, test);
}

/// Runs a test on both, with devices of so many GiB.
fn both_with(product: &str, profile: Profile, gib: u32, test: impl Fn(&Machine<'_>)) {
    let _turn = TURN.lock();
    let (driver, bus) = model(product, profile, gib, RealClock::new());
    let fault = |name: &str| {
        let fault = match name {
            "reset-busy" => Fault::StatusStuck(true),
            "clear" => Fault::Clear,
            _ => unreachable!("{name}"),
        };
        bus.iter().for_each(|silicon| silicon.inject(fault));
    };
    test(&Machine { driver: driver.clone(), fault: &fault });
    driver.model().unload();
    let version = profile.version().rsplit_once('.').unwrap().0;
    let memory = gib.to_string();
    let Some(served) = Served::start(neuron_emu(), product, &["--hbm-gib", &memory, "--driver", version]) else {
        return;
    };
    let driver = Arc::new(KernelBackend::new(served.dev(), served.sys()));
    test(&Machine { driver, fault: &|name| drop(served.ctl(&["fault", name])) });
}

fn cause<T>(result: Result<T>) -> Cause {
    result.err().expect("an error").cause
}

#[test]
fn a_device_says_who_it_is() {
    for (product, arch, range) in [("trn1.2xlarge", 2, (5, 7)), ("trn2.3xlarge", 3, (10, 11))] {
        both(product, Profile::default(), |machine| {
            let driver = &machine.driver;
            assert_eq!((driver.node(0), driver.node(1)), (Node::Ready, Node::Missing));
            assert_eq!(driver.first(), Some(0));
            for mode in [Mode::Misc, Mode::Info, Mode::Full] {
                let file = driver.open(0, mode).unwrap();
                assert_eq!(file.identity().unwrap().architecture, arch);
                assert_eq!(file.compatible_versions().unwrap(), range);
                let features = file.features().unwrap();
                assert!(features.dmabuf() && features.big_core_maps() && features.hbm_scrub());
                assert!(features.allocation_kinds() && features.large_allocations());
            }
            let misc = driver.open(0, Mode::Misc).unwrap();
            assert_eq!(cause(misc.processes()), Cause::Refused, "not a command of this descriptor");
            let info = driver.open(0, Mode::Info).unwrap();
            assert_eq!(info.processes().unwrap(), [std::process::id()]);
            assert_eq!(driver.sysfs("module/neuron/version").unwrap(), "2.27.4.0");
            assert_eq!(driver.sysfs("devices/virtual/dmi/id/product_name").unwrap(), product);
            assert!(driver.sysfs("class/neuron_device/neuron0/none").is_err());
            assert!(driver.sysfs_names("class/neuron_device").unwrap().contains(&"neuron0".to_owned()));
            assert_eq!(cause(driver.open(1, Mode::Full)), Cause::Missing);
        });
    }
}

/// The map of the facts: device 0 of Trn2 begins with physical core 4; Trn1 has none.
#[test]
fn core_numbers_lead_to_physical_cores() {
    for (product, per_device, first) in [("trn1.2xlarge", 2, 0), ("trn2.3xlarge", 8, 4)] {
        both(product, Profile::default(), |machine| {
            let map = machine.driver.open(0, Mode::Misc).unwrap().core_map().unwrap();
            let mut cores: Vec<_> = (0..per_device).map(|n| map.locate(n, per_device)).collect();
            assert_eq!(cores[0], (0, first));
            cores.sort_unstable();
            assert_eq!(cores, (0..per_device).map(|core| (0, core)).collect::<Vec<_>>());
        });
    }
}

#[test]
fn claims_are_taken_refused_and_given_back() {
    both("trn1.32xlarge", Profile::V2_24_7, |machine| {
        let misc = machine.driver.open(0, Mode::Misc).unwrap();
        assert_eq!(misc.mark_cores(2, 0, 31, 5).unwrap(), Marked::From(0));
        assert_eq!(misc.mark_cores(2, 0, 31, 20).unwrap(), Marked::From(5));
        assert_eq!(misc.mark_cores(2, 0, 31, 8).unwrap(), Marked::Busy { longest_run: 7 });
        assert_eq!(misc.mark_cores(2, 3, 4, 1).unwrap(), Marked::Busy { longest_run: 0 });
        misc.unmark_cores(2, 3, 2).unwrap();
        assert_eq!(misc.mark_cores(2, 0, 31, 2).unwrap(), Marked::From(3));
        assert_eq!(cause(misc.mark_cores(2, 9, 8, 1)), Cause::Refused);
        assert_eq!(cause(misc.mark_cores(2, 0, 512, 1)), Cause::Refused);
        // From a device that is not the first one the same numbers mean the same cores.
        let later = machine.driver.open(3, Mode::Misc).unwrap();
        assert_eq!(later.mark_cores(2, 25, 31, 3).unwrap(), Marked::From(25));
        assert_eq!(cause(later.mark_cores(2, 5, 31, 3)), Cause::Refused);
        // Any close of such a descriptor gives everything back.
        drop(later);
        assert_eq!(misc.mark_cores(2, 0, 31, 32).unwrap(), Marked::From(0));
        drop(misc);
    });
}

#[test]
fn memory_is_taken_copied_filled_and_given_back() {
    both("trn2.3xlarge", Profile::default(), |machine| {
        let file = machine.driver.open(0, Mode::Full).unwrap();
        let (a, b) =
            (file.allocate(Kind::Device, 0, 2, 3 << 20).unwrap(), file.allocate(Kind::Device, 1, 2, 100).unwrap());
        let host = file.allocate(Kind::Host, 0, 0, 8192).unwrap();
        let address = file.physical_address(a).unwrap();
        assert!(file.chunks(2).unwrap().contains(&Chunk { address, bytes: 3 << 20 }));

        let data: Vec<u8> = (0..2_000_003_u32).map(|n| (n % 251) as u8).collect();
        file.write(a, 777, &data).unwrap();
        let mut out = vec![0; data.len()];
        file.read(a, 777, &mut out).unwrap();
        assert!(out == data);
        file.copy((a, 777 + 5000), (b, 96), 4000).unwrap();
        file.fill(b, 100, 50, 0xee).unwrap();
        let mut out = vec![0; 100];
        file.read(b, 90, &mut out).unwrap();
        assert_eq!((&out[6..10], &out[10..60], &out[60..]), (&data[5000..5004], &[0xee; 50][..], &data[5054..5094]));
        file.write(host, 8000, &data[..100]).unwrap();
        file.read(host, 8000, &mut out).unwrap();
        assert_eq!(out, data[..100]);

        assert_eq!(cause(file.read(b, 4090, &mut out)), Cause::Refused, "beyond the end");
        assert_eq!(cause(file.fill(b, u64::MAX - 1, 4, 0)), Cause::Refused);
        assert_eq!(cause(file.copy((a, 0), (b, 0), 5000)), Cause::Refused);
        assert_eq!(cause(file.read(4711, 0, &mut out)), Cause::Refused);
        assert_eq!(cause(file.allocate(Kind::Device, 0, 2, 1 << 40)), Cause::NoMemory);
        assert_eq!(cause(file.allocate(Kind::Device, 0, 4, 4096)), Cause::Refused, "no such channel");
        for handle in [a, b, host] {
            file.free(handle).unwrap();
        }
        assert_eq!(cause(file.free(a)), Cause::Refused);
        assert!(!file.chunks(2).unwrap().iter().any(|chunk| chunk.address == address));
    });
}

#[test]
fn mapped_memory_is_the_memory_of_the_device() {
    both("trn2.3xlarge", Profile::default(), |machine| {
        use std::sync::atomic::Ordering::SeqCst;
        let file = machine.driver.open(0, Mode::Full).unwrap();
        let handle = file.allocate(Kind::Device, 0, 1, 64 << 10).unwrap();
        let address = file.physical_address(handle).unwrap();
        let mapping = file.map(address, 64 << 10).unwrap();
        assert_eq!((mapping.bytes(), mapping.address() % 4096), (64 << 10, 0));
        file.write(handle, 4096, &7_u64.to_ne_bytes()).unwrap();
        assert_eq!(mapping.words()[512].load(SeqCst), 7);
        mapping.words()[513].store(8, SeqCst);
        let mut out = [0; 8];
        file.read(handle, 4104, &mut out).unwrap();
        assert_eq!(u64::from_ne_bytes(out), 8);

        let (offset, bytes) = file.datastore(None).unwrap();
        assert_eq!((bytes, file.datastore(None).unwrap()), (0x40000, (offset, bytes)));
        assert_eq!(file.datastore(Some(std::process::id())).unwrap(), (offset, bytes));
        assert_eq!(cause(file.datastore(Some(1))), Cause::NotFound);
        let store = file.map(offset, bytes).unwrap();
        assert!(store.words().iter().all(|word| word.load(SeqCst) == 0));
        // Nobody has told the driver of neuron-emu about the mapping, and the model hands out no
        // descriptors: both say so.
        assert!(file.dmabuf(mapping.address() as u64, 4096).is_err());
        let info = machine.driver.open(0, Mode::Info).unwrap();
        assert_eq!(cause(info.map(address, 64 << 10)), Cause::NotMappable);
    });
}

const PROFILES: [Profile; 3] = [Profile::V2_24_7, Profile::V2_26_5, Profile::V2_27_4];

/// Bytes that differ from place to place.
fn pattern(bytes: usize, seed: usize) -> Vec<u8> {
    (0..bytes).map(|n| ((n + seed) ^ (n >> 9)) as u8).collect()
}

/// Zero copy on Trn2, the driver's own buffer on Trn1, in every release; host memory as well.
#[test]
fn a_mapping_and_every_kind_of_copy_see_the_same_bytes() {
    use std::sync::atomic::Ordering::SeqCst;
    const BYTES: usize = 1 << 20;
    for (product, profile) in ["trn1.2xlarge", "trn2.3xlarge"].into_iter().flat_map(|p| PROFILES.map(|v| (p, v))) {
        both(product, profile, |machine| {
            let file = machine.driver.open(0, Mode::Full).unwrap();
            for kind in [Kind::Device, Kind::Host] {
                let handle = file.allocate(kind, 0, 0, BYTES as u64).unwrap();
                let mapping = file.map(file.physical_address(handle).unwrap(), BYTES).unwrap();
                let mapped =
                    || -> Vec<u8> { mapping.words().iter().flat_map(|w| w.load(SeqCst).to_ne_bytes()).collect() };
                let mut want = pattern(BYTES, 3);
                file.write(handle, 0, &want).unwrap();
                assert!(mapped() == want, "{product} {kind:?}: written");
                mapping.words()[77].store(0x1234, SeqCst);
                want[77 * 8..78 * 8].copy_from_slice(&0x1234_u64.to_ne_bytes());
                let mut out = vec![0; BYTES];
                file.read(handle, 0, &mut out).unwrap();
                assert!(out == want, "{product} {kind:?}: stored");
                file.write(handle, 5, b"small").unwrap();
                want[5..10].copy_from_slice(b"small");
                file.fill(handle, 70_001, 200_001, 0x5a).unwrap();
                want[70_001..270_002].fill(0x5a);
                file.copy((handle, 0), (handle, BYTES as u64 / 2), 100_003).unwrap();
                want.copy_within(..100_003, BYTES / 2);
                assert!(mapped() == want, "{product} {kind:?}: filled and copied");
                file.read(handle, 9, &mut out[..1001]).unwrap();
                assert!(out[..1001] == want[9..1010], "{product} {kind:?}: read");
                drop(mapping);
                file.free(handle).unwrap();
            }
        });
    }
}

/// Offsets that do not fit in 32 bits; a piece over the border, one right behind it, and the last bytes.
#[test]
fn memory_above_4_gib_is_reached_in_every_release() {
    const BORDER: u64 = 1 << 32;
    const SIZE: u64 = BORDER + (1 << 30);
    const BYTES: usize = 3 << 20;
    for profile in PROFILES {
        both_with("trn2.3xlarge", profile, 32, |machine| {
            let file = machine.driver.open(0, Mode::Full).unwrap();
            let (handle, other) =
                (file.allocate(Kind::Device, 0, 0, SIZE).unwrap(), file.allocate(Kind::Device, 0, 0, 1 << 20).unwrap());
            let mut out = vec![0; BYTES];
            let places = [BORDER - (1 << 20) - 3, BORDER + (16 << 20) + 1, SIZE - BYTES as u64];
            for (seed, at) in places.into_iter().enumerate() {
                file.write(handle, at, &pattern(BYTES, seed)).unwrap();
            }
            for (seed, at) in places.into_iter().enumerate() {
                file.read(handle, at, &mut out).unwrap();
                assert!(out == pattern(BYTES, seed), "{at:#x}");
            }
            let mut want = pattern(BYTES, 0);
            file.fill(handle, BORDER - 5, 100_000, 0xee).unwrap();
            let border = (1 << 20) + 3;
            want[border - 5..][..100_000].fill(0xee);
            file.copy((handle, places[1]), (handle, BORDER + 200_000), 300_000).unwrap();
            want[border + 200_000..][..300_000].copy_from_slice(&pattern(BYTES, 1)[..300_000]);
            file.read(handle, places[0], &mut out).unwrap();
            assert!(out == want);
            file.copy((handle, BORDER - 5), (other, 11), 50_000).unwrap();
            file.read(other, 11, &mut out[..50_000]).unwrap();
            assert!(out[..50_000].iter().all(|byte| *byte == 0xee));
            // Nothing landed where a cut offset leads.
            file.read(handle, 0, &mut out).unwrap();
            assert!(out.iter().all(|byte| *byte == 0), "fresh memory of an instance nobody has used");
            assert_eq!(cause(file.write(handle, SIZE - 1, &[1, 2])), Cause::Refused);
            file.free(handle).unwrap();
        });
    }
}

/// What another process, played by this program, is to do with the devices; see [`SERVED_DEV`].
fn play(test: &str, dev: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(SERVED_DEV, dev);
    command
}

#[test]
fn a_process_killed_in_the_middle_of_a_copy_leaves_the_device_and_its_memory_to_others() {
    const BYTES: u64 = 256 << 20;
    if let Some(dev) = std::env::var_os(SERVED_DEV) {
        let file = KernelBackend::new(dev, "/sys").open(0, Mode::Full).unwrap();
        let handle = file.allocate(Kind::Device, 0, 0, BYTES).unwrap();
        let data = vec![0x77; BYTES as usize];
        println!("begins");
        loop {
            file.write(handle, 0, &data).unwrap();
        }
    }
    let _turn = TURN.lock();
    for product in ["trn2.3xlarge", "trn1.2xlarge"] {
        let Some(served) = Served::start(neuron_emu(), product, &["--hbm-gib", "8"]) else { return };
        let driver = KernelBackend::new(served.dev(), served.sys());
        let file = driver.open(0, Mode::Full).unwrap();
        let before = file.chunks(0).unwrap();
        let test = "a_process_killed_in_the_middle_of_a_copy_leaves_the_device_and_its_memory_to_others";
        let mut other = play(test, &served.dev()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(other.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("begins")));
        assert_ne!(file.chunks(0).unwrap(), before);
        while !served.ctl(&["status"]).contains("\"calls_in_flight\": 1") {
            std::thread::yield_now();
        }
        other.kill().unwrap();
        other.wait().unwrap();
        // The engine may still be at the copy nobody waits for; its memory goes back with its end.
        while file.chunks(0).unwrap() != before {
            std::thread::yield_now();
        }
        assert_eq!(file.processes().unwrap(), [std::process::id()]);
        let handle = file.allocate(Kind::Device, 0, 0, BYTES).unwrap();
        let (data, mut out) = (pattern(5 << 20, 1), vec![0; 5 << 20]);
        file.write(handle, 12345, &data).unwrap();
        file.read(handle, 12345, &mut out).unwrap();
        assert!(out == data);
    }
}

#[test]
fn a_reset_ends_or_fails_and_the_device_recovers() {
    both("trn1.2xlarge", Profile::default(), |machine| {
        let file = machine.driver.open(0, Mode::Full).unwrap();
        let ticket = file.reset(0b11).unwrap();
        file.await_reset(ticket).unwrap();
        // One that nobody waited for does not stand in the way of the next.
        let _forgotten = file.reset(0b01).unwrap();
        let ticket = file.reset(0b10).unwrap();
        file.await_reset(ticket).unwrap();

        (machine.fault)("reset-busy");
        let ticket = file.reset(0b11).unwrap();
        let error = file.await_reset(ticket).unwrap_err();
        assert_eq!(error.cause, Cause::ResetFailed);
        assert!(error.to_string().starts_with("NC_RESET_READY on neuron0: the reset failed"), "{error}");
        (machine.fault)("clear");
        let ticket = file.reset(0b11).unwrap();
        file.await_reset(ticket).unwrap();
    });
}

/// In virtual time: the two minutes Trn1 gives its firmware pass at once.
#[test]
fn a_reset_the_firmware_never_acknowledges_fails_after_two_minutes() {
    let _turn = TURN.lock();
    let clock = VirtualClock::new();
    let (driver, bus) = model("trn1.2xlarge", Profile::default(), 8, clock.clone());
    let file = driver.open(0, Mode::Full).unwrap();
    bus[0].inject(Fault::NeverAck(true));
    let before = neuron_hw::Clock::now(&*clock);
    let ticket = file.reset(0b11).unwrap();
    assert_eq!(cause(file.await_reset(ticket)), Cause::ResetFailed);
    assert!(neuron_hw::Clock::now(&*clock) - before >= Duration::from_secs(120));
    bus[0].inject(Fault::Clear);
    let ticket = file.reset(0b11).unwrap();
    file.await_reset(ticket).unwrap();
    drop(file);
    driver.model().unload();
    clock.close();
}

/// A driver that lacks the newer forms of some commands.
struct Older(Box<dyn File>, &'static [&'static str]);

impl File for Older {
    fn device(&self) -> u32 {
        self.0.device()
    }

    fn call(&self, call: &mut Call<'_>) -> Result<u32> {
        if self.1.contains(&call.name()) {
            return Err(neuron_driver::Error { device: 0, what: call.name(), cause: Cause::Refused });
        }
        self.0.call(call)
    }

    fn learned(&self) -> &Learned {
        self.0.learned()
    }

    fn map(&self, offset: u64, bytes: usize) -> Result<Mapping> {
        self.0.map(offset, bytes)
    }
}

#[test]
fn older_forms_serve_where_the_newer_are_not_known() {
    both("trn1.32xlarge", Profile::V2_24_7, |machine| {
        const NEWER: &[&str] = &[
            "CRWL_NC_RANGE_MARK_EXT0",
            "CRWL_NC_RANGE_UNMARK_EXT0",
            "MEM_ALLOC_V2MT64",
            "MEM_ALLOC_V2MT",
            "MEM_BUF_ZEROCOPY64",
            "MEM_BUF_COPY64",
            "MEM_COPY64",
            "MEMSET64",
            "DRIVER_INFO_GET",
            "GET_LOGICAL_TO_PHYSICAL_NC_MAP",
        ];
        let older = |mode| -> Box<dyn File> { Box::new(Older(machine.driver.open(0, mode).unwrap(), NEWER)) };
        let (file, misc) = (older(Mode::Full), older(Mode::Misc));
        assert_eq!(misc.features().unwrap(), Default::default());
        assert_eq!(misc.core_map().unwrap(), Default::default());
        assert_eq!(misc.mark_cores(2, 4, 31, 3).unwrap(), Marked::From(4));
        assert_eq!(misc.mark_cores(2, 4, 511, 61).unwrap(), Marked::Busy { longest_run: 57 }, "64 bits only");
        assert_eq!(misc.mark_cores(2, 64, 511, 1).unwrap(), Marked::Busy { longest_run: 0 });
        misc.unmark_cores(2, 4, 3).unwrap();
        assert_eq!(misc.mark_cores(2, 0, 31, 32).unwrap(), Marked::From(0));
        let (a, b) =
            (file.allocate(Kind::Device, 0, 0, 8192).unwrap(), file.allocate(Kind::Device, 0, 0, 8192).unwrap());
        file.write(a, 10, b"older").unwrap();
        file.copy((a, 10), (b, 20), 5).unwrap();
        file.fill(b, 24, 1, b's').unwrap();
        let mut out = [0; 5];
        file.read(b, 20, &mut out).unwrap();
        assert_eq!(&out, b"oldes");
        assert_eq!(
            cause(file.read(b, 1 << 40, &mut out)),
            Cause::Refused,
            "the older form has no room for this offset"
        );
    });
}

#[test]
fn a_session_has_one_descriptor_of_each_kind_and_closes_all() {
    both("trn1.32xlarge", Profile::default(), |machine| {
        let session = Session::new(machine.driver.clone(), 0).unwrap();
        assert_eq!(session.misc().mark_cores(2, 0, 31, 32).unwrap(), Marked::From(0));
        let processes = |index| machine.driver.open(index, Mode::Info).unwrap().processes().unwrap();
        let info = session.info(5).unwrap();
        assert!(Arc::ptr_eq(&info, &session.info(5).unwrap()));
        let device = session.open(3).unwrap();
        assert!(Arc::ptr_eq(&device, &session.open(3).unwrap()));
        assert!(Arc::ptr_eq(&device.file().unwrap(), &session.info(3).unwrap()), "the open one answers queries too");
        let at_work = device.file().unwrap();
        let handle = at_work.allocate(Kind::Device, 0, 0, 4096).unwrap();
        drop((info, session));
        assert_eq!(cause(device.file()), Cause::Closed);
        at_work.free(handle).expect("who is at work finishes first");
        drop(at_work);
        assert_eq!(processes(3), [std::process::id()], "only the one that asks");
        let misc = machine.driver.open(0, Mode::Misc).unwrap();
        assert_eq!(misc.mark_cores(2, 0, 31, 32).unwrap(), Marked::From(0), "the claims are given back");
    });
}

/// Where another process, played by this program, finds the device files; set for it only.
const SERVED_DEV: &str = "BOTH_SERVED_DEV";

/// What a forked child does with the files of its parent, on real processes.
#[test]
fn a_forked_child_is_refused_and_takes_nothing_from_its_parent() {
    if let Some(dev) = std::env::var_os(SERVED_DEV) {
        let misc = KernelBackend::new(dev, "/sys").open(0, Mode::Misc).unwrap();
        println!("{:?}", misc.mark_cores(2, 0, 1, 1).unwrap());
        return;
    }
    let _turn = TURN.lock();
    let Some(served) = Served::start(neuron_emu(), "trn1.2xlarge", &["--hbm-gib", "8"]) else { return };
    let driver: Arc<dyn Driver> = Arc::new(KernelBackend::new(served.dev(), served.sys()));
    let session = Session::new(driver.clone(), 0).unwrap();
    let device = session.open(0).unwrap();
    let file = device.file().unwrap();
    let handle = file.allocate(Kind::Device, 0, 0, 4096).unwrap();
    assert_eq!(session.misc().mark_cores(2, 0, 1, 2).unwrap(), Marked::From(0));
    // SAFETY: the child calls nothing but the requests below, which allocate at most, and leaves
    // without running anything of the parent.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        let refused = [
            cause(file.free(handle)) == Cause::Forked,
            cause(file.reset(0b11)) == Cause::Forked,
            cause(file.allocate(Kind::Device, 0, 0, 4096)) == Cause::Forked,
            cause(session.misc().unmark_cores(2, 0, 2)) == Cause::Forked,
            cause(file.map(0, 4096)) == Cause::Forked,
        ];
        drop((file, device, session));
        // SAFETY: takes a number and does not return.
        unsafe { libc::_exit(i32::from(refused.contains(&false))) };
    }
    let mut status = 0;
    // SAFETY: our own child and a place for its status.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
    let mut out = [0; 8];
    file.read(handle, 0, &mut out).unwrap();
    file.free(handle).unwrap();
    let other = play("a_forked_child_is_refused_and_takes_nothing_from_its_parent", &served.dev()).output().unwrap();
    assert!(String::from_utf8_lossy(&other.stdout).contains("Busy { longest_run: 0 }"), "{other:?}");
}
