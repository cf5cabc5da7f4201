//! Bad input over the whole command surface: whatever a caller sends, the driver does not panic,
//! does not write outside of what the caller named, and keeps its invariants.

use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

use neuron_abi::kernel::ioctl::{Dir, Encoding, IOCTLS, Ioctl, Op};
use neuron_kmd::Profile;
use neuron_kmd::hostile::{self, AREA, AREA_BYTES, Host};
use neuron_kmd::reply::Stop;
use proptest::prelude::*;

/// One product of each generation that each release knows.
const HOSTS: [(Profile, u16); 8] = [
    (Profile::V2_24_7, 0x7164),
    (Profile::V2_24_7, 0x7364),
    (Profile::V2_26_5, 0x7164),
    (Profile::V2_26_5, 0x7364),
    (Profile::V2_26_5, 0x7564),
    (Profile::V2_27_4, 0x7264),
    (Profile::V2_27_4, 0x7364),
    (Profile::V2_27_4, 0x7564),
];

/// Panics of threads of the driver, which would otherwise end with their thread.
static FAILED: AtomicUsize = AtomicUsize::new(0);

fn watch_threads() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if std::thread::current().name().is_some_and(|name| name.starts_with("nd") || name == "killer") {
                FAILED.fetch_add(1, Ordering::Relaxed);
            }
            before(info);
        }));
    });
}

fn no_thread_failed() {
    assert_eq!(FAILED.load(Ordering::Relaxed), 0, "a thread of the driver panicked");
}

/// A process with every kind of descriptor: attached, free access, and one it got from a parent.
fn prepared(profile: Profile, product: u16) -> Host {
    let mut host = Host::new(profile, product);
    host.open(0, libc::O_RDWR);
    host.open(0, libc::O_WRONLY);
    let inherited = host.actors[0].files[0].clone();
    host.actors[1].files.push(inherited);
    host
}

/// Opens again what a process that died had open.
fn repair(host: &mut Host) {
    if host.actors[0].files.is_empty() {
        host.open(0, libc::O_RDWR);
        host.open(0, libc::O_WRONLY);
    }
    if host.actors[1].files.is_empty()
        && let Some(file) = host.actors[0].files.first().cloned()
    {
        host.actors[1].files.push(file);
    }
}

/// Every command value that is near a row: itself, other sizes, directions and types.
fn near(row: &Ioctl) -> Vec<u32> {
    let right = Encoding::of(row.cmd);
    let sizes = [0, 1, 4, 8, row.size.saturating_sub(1), row.size + 1, row.size + 8, 0x3fff];
    let sizes = sizes.map(|size| Encoding { size, ..right }.value());
    let dirs = [Dir::None, Dir::Read, Dir::Write, Dir::ReadWrite].map(|dir| Encoding { dir, ..right }.value());
    let kinds = [0, b'n', 0xff].map(|kind| Encoding { kind, ..right }.value());
    let mut all: Vec<u32> = [row.cmd].into_iter().chain(sizes).chain(dirs).chain(kinds).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Makes a call on each descriptor.
fn everywhere(host: &mut Host, cmd: u32, arg: u64) {
    for (actor, file) in [(0, 0), (0, 1), (1, 0)] {
        host.ioctl(actor, file, cmd, arg);
        repair(host);
    }
}

fn each_release_and_generation(mut test: impl FnMut(&mut Host)) {
    watch_threads();
    for (profile, product) in HOSTS {
        let mut host = prepared(profile, product);
        test(&mut host);
        host.finish();
    }
    no_thread_failed();
}

#[test]
fn null_and_unmapped_arguments_are_refused_by_every_command() {
    each_release_and_generation(|host| {
        for row in IOCTLS {
            for arg in [0, 8, AREA - 1, AREA + AREA_BYTES as u64, 0xffff_8880_0000_0000, u64::MAX, u64::MAX - 7] {
                everywhere(host, row.cmd, arg);
            }
        }
        let before = vec![0; AREA_BYTES];
        assert!(host.actors.iter().all(|a| a.memory.image() == before), "an unmapped argument reached mapped memory");
    });
}

#[test]
fn arguments_that_are_cut_off_by_the_end_of_memory_are_refused() {
    each_release_and_generation(|host| {
        for row in IOCTLS {
            for there in [1, 4, 8, 16] {
                everywhere(host, row.cmd, AREA + AREA_BYTES as u64 - there);
            }
        }
    });
}

#[test]
fn wrong_encodings_of_every_command_keep_the_driver_whole() {
    each_release_and_generation(|host| {
        for row in IOCTLS {
            for cmd in near(row) {
                for fill in [0, 0xff] {
                    host.actors.iter().for_each(|a| a.memory.put(AREA + 0x1000, &[fill; 512]));
                    everywhere(host, cmd, AREA + 0x1000);
                }
            }
        }
    });
}

/// The list of applications is as long as its header says, behind the argument.
fn flexible(row: &Ioctl) -> bool {
    row.op == Op::DeviceGetAllAppsInfo
}

#[test]
fn no_command_writes_behind_its_argument() {
    const ARG: u64 = AREA + 0x8000;
    each_release_and_generation(|host| {
        for row in IOCTLS.iter().filter(|r| !flexible(r)) {
            let own = row.arg.layout().map_or(8, |info| info.size).max(row.size as usize) as u64;
            for fill in [0, 0xff] {
                // All pointers in the argument are then null or the last address.
                host.actors.iter().for_each(|a| a.memory.put(ARG, &vec![fill; own as usize]));
                host.actors.iter().for_each(|a| drop(a.memory.take_attempts()));
                everywhere(host, row.cmd, ARG);
                for actor in &host.actors {
                    for (address, bytes) in actor.memory.take_attempts() {
                        let outside = !(AREA..AREA + AREA_BYTES as u64).contains(&address);
                        let inside = address >= ARG && address + bytes as u64 <= ARG + own;
                        assert!(
                            outside || inside,
                            "{} writes {bytes} bytes at +{:#x}",
                            row.name,
                            address.wrapping_sub(ARG)
                        );
                    }
                }
            }
        }
    });
}

#[test]
fn commands_of_other_releases_are_unknown() {
    for profile in Profile::ALL {
        let mut host = prepared(profile, 0x7364);
        for row in IOCTLS.iter().filter(|r| !r.exists_in(profile.release())) {
            let other = IOCTLS.iter().any(|r| r.exists_in(profile.release()) && r.matches(row.cmd));
            let reply = host.ioctl(0, 0, row.cmd, 0).expect("an open file");
            if !other {
                assert_eq!(reply, Err(Stop::Errno(neuron_kmd::reply::Errno::EINVAL)), "{} in {profile:?}", row.name);
            }
        }
        host.finish();
    }
}

/// Random sequences must get somewhere, or they prove nothing.
#[test]
fn random_sequences_reach_the_driver() {
    let mut seed = 1_u64;
    let mut byte = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 56) as u8
    };
    let (mut calls, mut succeeded, mut died) = (0, 0, 0);
    for _ in 0..20 {
        let data: Vec<u8> = (0..3000).map(|_| byte()).collect();
        let summary = hostile::run(&data);
        calls += summary.calls;
        succeeded += summary.succeeded;
        died += summary.died;
    }
    assert!(succeeded * 5 > calls, "{succeeded} of {calls} calls succeed");
    assert!(died > 0 && died * 4 < calls, "{died} of {calls} calls kill their process");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn random_sequences_of_several_callers_keep_every_invariant(
        data in prop::collection::vec(any::<u8>(), 0..3000),
    ) {
        watch_threads();
        let summary = hostile::run(&data);
        prop_assert!(summary.calls as usize <= data.len() + 3);
        no_thread_failed();
    }

    #[test]
    fn random_bytes_in_every_argument_keep_every_invariant(
        which in 0..HOSTS.len(),
        picks in prop::collection::vec((0..IOCTLS.len(), prop::collection::vec(any::<u8>(), 64..320)), 1..80),
    ) {
        let mut host = prepared(HOSTS[which].0, HOSTS[which].1);
        for (row, bytes) in picks {
            host.actors.iter().for_each(|a| a.memory.put(AREA, &bytes));
            everywhere(&mut host, IOCTLS[row].cmd, AREA);
        }
        host.finish();
    }
}
