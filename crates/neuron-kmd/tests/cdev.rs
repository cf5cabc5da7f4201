//! Lanes, gates and the attach rules of the char device.

mod common;

use std::time::Duration;

use common::{Machine, Memory, call, open, process, spec};
use neuron_abi::kernel::args as a;
use neuron_abi::kernel::ioctl::{Gate, IOCTLS, Lane, Op, row};
use neuron_kmd::caller::NoMemory;
use neuron_kmd::profile::Profile;
use neuron_kmd::reply::{Errno, Stop};

/// Commands a release has, with every descriptor lane.
fn rows(profile: Profile) -> impl Iterator<Item = &'static neuron_abi::kernel::ioctl::Ioctl> {
    IOCTLS.iter().filter(move |row| row.exists_in(profile.release()))
}

#[test]
fn every_command_of_every_release_reaches_the_room_that_owns_it() {
    for profile in Profile::ALL {
        for product in [0x7164, 0x7364] {
            let mut rows = rows(profile).peekable();
            while rows.peek().is_some() {
                let machine = Machine::new([spec(product, |_| {})]);
                let driver = machine.load(profile);
                for row in rows.by_ref() {
                    let caller = process(10);
                    let file = open(&driver, 0, &caller);
                    let memory = Memory::new(&vec![0; row.size.max(512) as usize]);
                    let reply = file.ioctl(&caller, &memory, row.cmd, Memory::BASE);
                    // What is misrouted answers ENOSYS, which no handler gives for a zero argument.
                    assert_ne!(reply, Err(Errno::ENOSYS.into()), "{} {profile:?}", row.name);
                    if matches!(reply, Err(Stop::Bug(_))) {
                        // A dead caller may hold locks: the others get a new machine.
                        break;
                    }
                    file.flush(&caller);
                }
            }
        }
    }
}

#[test]
fn nineteen_commands_need_an_attached_process() {
    let machine = Machine::new([spec(0x7164, |_| {})]);
    let driver = machine.load(Profile::V2_24_7);
    let (owner, child) = (process(10), process(11));
    let file = open(&driver, 0, &owner);
    let gated: Vec<_> = rows(Profile::V2_24_7).filter(|row| row.gate == Gate::Attach).collect();
    assert_eq!(gated.len(), 19);
    for row in gated {
        assert_eq!(file.ioctl(&child, &NoMemory, row.cmd, 0), Err(Errno::EACCES.into()), "{}", row.name);
    }
}

#[test]
fn free_access_descriptors_see_the_misc_lane_and_take_no_slot() {
    let machine = Machine::new([spec(0x7164, |_| {})]);
    let driver = machine.load(Profile::V2_24_7);
    let caller = process(10);
    let file = driver.open(0, libc::O_WRONLY, &caller).expect("open");
    assert!(file.free_access() && file.device().attach.processes().is_empty());
    for row in rows(Profile::V2_24_7).filter(|row| row.lane == Lane::Main) {
        // A number of the misc lane may take a main-lane value of another size.
        if rows(Profile::V2_24_7).any(|other| other.lane == Lane::Both && other.matches(row.cmd)) {
            continue;
        }
        assert_eq!(file.ioctl(&caller, &NoMemory, row.cmd, 0), Err(Errno::EINVAL.into()), "{}", row.name);
    }
    assert_eq!(call(&file, &caller, Op::DeviceBasicInfo, a::DeviceBasicInfo::default()).0, Ok(0));
}

#[test]
fn copy_faults_give_the_bytes_that_were_left() {
    let machine = Machine::new([spec(0x7164, |_| {})]);
    let driver = machine.load(Profile::V2_24_7);
    let caller = process(10);
    let file = open(&driver, 0, &caller);
    let reply = |op: Op, arg| file.ioctl(&caller, &Memory::new(&[]), row(op).cmd, arg);
    assert_eq!(reply(Op::DeviceBasicInfo, 0), Err(Stop::Uncopied(8)));
    assert_eq!(reply(Op::CrwlReaderEnter, 0), Err(Stop::Uncopied(36)));
    // Five bytes before the end of what is mapped.
    assert_eq!(reply(Op::DeviceBasicInfo, Memory::BASE + 4096 - 5), Err(Stop::Uncopied(3)));
}

#[test]
fn closing_a_dup_drops_the_slot_and_a_fork_child_does_not() {
    let machine = Machine::new([spec(0x7164, |_| {})]);
    let driver = machine.load(Profile::V2_24_7);
    let (parent, child) = (process(10), process(11));
    let file = open(&driver, 0, &parent);
    let inherited = file.clone();
    inherited.flush(&child);
    assert_eq!(file.device().attach.count(10), 1, "another process has no slot to give up");
    let dup = file.clone();
    dup.flush(&parent);
    assert_eq!(file.device().attach.count(10), 0);
    let gated = file.ioctl(&parent, &NoMemory, row(Op::MemFree).cmd, 0);
    assert_eq!(gated, Err(Errno::EACCES.into()));
    assert_eq!(call(&file, &parent, Op::DeviceBasicInfo, a::DeviceBasicInfo::default()).0, Ok(0));
}

#[test]
fn seventeenth_process_is_refused_and_a_second_open_is_not() {
    let machine = Machine::new([spec(0x7164, |_| {})]);
    let driver = machine.load(Profile::V2_24_7);
    let files: Vec<_> = (1..=16).map(|tgid| open(&driver, 0, &process(tgid))).collect();
    assert_eq!(driver.open(0, libc::O_RDONLY, &process(17)).err(), Some(Errno::EBUSY.into()));
    let again = open(&driver, 0, &process(16));
    files[15].flush(&process(16));
    assert_eq!(driver.open(0, libc::O_RDONLY, &process(17)).err(), Some(Errno::EBUSY.into()));
    again.flush(&process(16));
    open(&driver, 0, &process(17));
}

#[test]
fn commands_the_kernel_answers_itself_never_reach_the_driver() {
    let machine = Machine::new([spec(0x7164, |_| {})]);
    let driver = machine.load(Profile::V2_24_7);
    let caller = process(10);
    let file = driver.open(0, libc::O_WRONLY, &caller).expect("open");
    let make = |cmd: u64, arg| file.ioctl(&caller, &Memory::new(&1_u32.to_ne_bytes()), cmd as u32, arg);
    for cmd in [libc::FIOCLEX, libc::FIONCLEX] {
        assert_eq!(make(cmd, 0), Ok(0));
    }
    assert_eq!(make(libc::FIONBIO, Memory::BASE), Ok(0));
    assert_eq!(make(libc::FIONBIO, 0), Err(Errno::EFAULT.into()));
    assert_eq!(make(libc::FIOASYNC, Memory::BASE), Err(Errno::ENOTTY.into()));
    assert_eq!(make(libc::TCGETS, Memory::BASE), Err(Errno::EINVAL.into()));
}

#[test]
fn printk_takes_512_bytes_that_end_with_a_zero() {
    let machine = Machine::new([spec(0x7164, |_| {})]);
    let driver = machine.load(Profile::V2_24_7);
    let caller = process(10);
    let file = open(&driver, 0, &caller);
    let print = |size: u32, last: u8| {
        let mut bytes = vec![b'a'; 4096];
        let mut argument = vec![0; a::Printk::INFO.size];
        neuron_abi::kernel::args::Wire::put(
            &a::Printk { buffer: Memory::BASE + 1024, size, ..Default::default() },
            &mut argument,
        );
        bytes[..argument.len()].copy_from_slice(&argument);
        if size > 0 {
            bytes[1024 + size as usize - 1] = last;
        }
        file.ioctl(&caller, &Memory::new(&bytes), row(Op::Printk).cmd, Memory::BASE)
    };
    assert_eq!((print(4, 0), print(512, 0), print(0, 0)), (Ok(0), Ok(0), Ok(0)));
    assert_eq!(print(513, 0), Err(Errno::EFAULT.into()));
    assert_eq!(print(4, b'a'), Err(Errno::EBADMSG.into()));
    let lines = driver.env().log.lines();
    assert_eq!(lines.iter().filter(|l| l.kind == "user_message").count(), 3);
}

#[test]
fn unload_lets_waiters_go_and_takes_the_nodes_away() {
    let machine = Machine::new([spec(0x7164, |_| {})]);
    let driver = machine.load(Profile::V2_24_7);
    let file = open(&driver, 0, &process(10));
    driver.unload();
    machine.pass(Duration::from_secs(1));
    assert!(driver.devices().is_empty() && driver.regions().is_empty());
    assert_eq!(file.device().reset.lengths(), (0, 0));
}
