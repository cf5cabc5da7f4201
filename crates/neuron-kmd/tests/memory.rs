//! Rules of memory that no recording shows, or that a claim asks for by name.

mod common;

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use common::{Machine, Memory, call, spec};
use neuron_abi::kernel::args as a;
use neuron_abi::kernel::ioctl::{Op, row};
use neuron_abi::kernel::values::{MAX_PROCESSES, MemLocation};
use neuron_hw::trace::What;
use neuron_hw::{Fault, Host, Silicon};
use neuron_kmd::Profile;
use neuron_kmd::caller::{Caller, Descriptors, UserMemory};
use neuron_kmd::cdev::File;
use neuron_kmd::driver::Driver;
use neuron_kmd::memory::dmabuf::DmaBuf;
use neuron_kmd::memory::mmap::MmapRequest;
use neuron_kmd::memory::{self, PAGE, Request};
use neuron_kmd::metrics::Node;
use neuron_kmd::probe::{ProbeError, Step};
use neuron_kmd::reply::{Errno, Stop};
use neuron_kmd::sync::Mutex;
use neuron_kmd::time::Thread;

const TRN1: u16 = 0x7164;
const TRN2: u16 = 0x7364;

/// A loaded driver on one device whose first reset is over, and a process that has it open.
struct Rig {
    machine: Machine,
    driver: Arc<Driver>,
    file: Arc<File>,
    caller: Caller,
}

impl Rig {
    fn new(product: u16, profile: Profile) -> Self {
        let machine = Machine::new([spec(product, |_| ())]);
        let driver = machine.load(profile);
        machine.pass(Duration::from_secs(5));
        let caller = Caller::process(100, 1000, false);
        let file = driver.open(0, libc::O_RDWR, &caller).expect("open");
        machine.bus[0].take_trace();
        Self { machine, driver, file, caller }
    }

    fn alloc(&self, bytes: u64, host: bool) -> u64 {
        let to = Memory::BASE + 64;
        let arg = a::MemAllocV2 {
            size: bytes,
            align: 0,
            host_memory: host.into(),
            dram_channel: 0,
            dram_region: 0,
            nc_id: 0,
            mem_handle: to,
        };
        let mut image = vec![0; 72];
        a::Wire::put(&arg, &mut image);
        let memory = Memory::new(&image);
        let reply = self.file.ioctl(&self.caller, &memory, row(Op::MemAllocV2).cmd, Memory::BASE);
        assert_eq!(reply, Ok(0));
        a::Wire::get(&memory.bytes(72)[64..])
    }

    fn copy(&self, from: u64, to: u64, size: u64) -> Result<i64, Stop> {
        let arg = a::MemCopy64 { src_mem_handle: from, dst_mem_handle: to, size, src_offset: 0, dst_offset: 0 };
        call(&self.file, &self.caller, Op::MemCopy64, arg).0
    }

    /// What the engines copied since the last look: engine and bytes.
    fn dma(&self) -> Vec<(u32, u64)> {
        let (events, _) = self.machine.bus[0].take_trace();
        let runs = events.into_iter().filter_map(|e| match e.what {
            What::DmaRun { engine, bytes, .. } => Some((engine, bytes)),
            _ => None,
        });
        runs.collect()
    }

    fn zero_copy(&self, handle: u64, offset: u64, size: u64, threshold: u32, to_device: bool) -> Result<i64, Stop> {
        let arg = a::MemBufCopy64zc {
            mem_handle: handle,
            buffer: Memory::BASE,
            size,
            offset,
            is_copy_to_device: to_device.into(),
            bar4_wr_threshold: threshold,
            h2t_qid: -1,
            dummy: 0,
        };
        call(&self.file, &self.caller, Op::MemBufZerocopy64Zc, arg).0
    }
}

#[test]
fn b029_fills_come_from_a_host_buffer_of_one_descriptor() {
    let rig = Rig::new(TRN1, Profile::V2_27_4);
    let chunk = rig.alloc(1 << 20, false);
    rig.dma();
    let arg = a::Memset64 { mem_handle: chunk, offset: 0, value: 0x1_5a, size: 1 << 20 };
    assert_eq!(call(&rig.file, &rig.caller, Op::Memset64, arg).0, Ok(0));
    // The buffer once, each run with its marker; the rest is copied from what is there already.
    assert_eq!(rig.dma(), [(32, 65536 + 4), (32, (1 << 20) - 65536 + 4)]);
    let address = rig.driver.device(0).expect("device").memory.chunk(chunk).expect("chunk").address;
    let mut bytes = vec![0; 1 << 20];
    rig.machine.bus[0].space().read(address, &mut bytes).expect("device memory");
    assert!(bytes.iter().all(|b| *b == 0x5a), "the low byte of the value, everywhere");
}

#[test]
fn b029_a_probe_without_room_for_its_buffers_fails_cleanly() {
    let machine = Machine::new([]);
    let small = |bytes| {
        let silicon = Silicon::new(spec(TRN1, |_| ()), Host::Ram(bytes), machine.clock.clone()).expect("device");
        let bus = [Arc::new(silicon)];
        neuron_hw::pci::assign(&bus);
        let driver = Driver::load(&Default::default(), &bus, machine.clock.clone()).expect("load");
        let failures = driver.failures();
        driver.unload();
        failures
    };
    let step = |e: &ProbeError| matches!(e, ProbeError::Step { step: Step::DeviceInit, errno: Errno::ENOMEM });
    let failures = small(4 << 20);
    assert!(failures.len() == 1 && step(&failures[0]), "{failures:?}");
    assert!(small(64 << 20).is_empty());
}

/// Copies while the engines are stuck; after a second a core reset begins, after two the engines
/// work again. Gives the result of the copy.
fn copy_through_a_reset(product: u16, reset: bool) -> Result<i64, Stop> {
    let rig = Arc::new(Rig::new(product, Profile::V2_27_4));
    let (from, to) = (rig.alloc(1 << 20, false), rig.alloc(1 << 20, false));
    rig.machine.bus[0].inject(Fault::DmaStuck(true));
    let result = Arc::new(Mutex::new(None));
    let (in_thread, slot) = (rig.clone(), result.clone());
    let clock: Arc<dyn neuron_kmd::time::Clock> = rig.machine.clock.clone();
    let thread = Thread::spawn(&clock, "copy", move || {
        let answer = in_thread.copy(from, to, 1 << 20);
        *slot.lock() = Some(answer);
    });
    rig.machine.pass(Duration::from_secs(1));
    if reset {
        let arg = a::DeviceReset { nc_map: 1, request_id: 0 };
        assert_eq!(call(&rig.file, &rig.caller, Op::NcReset, arg).0, Ok(0));
    }
    rig.machine.pass(Duration::from_secs(1));
    rig.machine.bus[0].inject(Fault::Clear);
    thread.join(&*rig.machine.clock);
    let answer = result.lock().take();
    answer.expect("an answer")
}

#[test]
fn c138_only_the_second_generation_retries_a_copy_that_meets_a_reset() {
    assert_eq!(copy_through_a_reset(TRN1, true), Ok(0));
    assert_eq!(copy_through_a_reset(TRN1, false), Err(Errno::EPERM.into()), "no reset, no second try");
    assert_eq!(copy_through_a_reset(TRN2, true), Err(Errno::EPERM.into()));
    assert_eq!(copy_through_a_reset(TRN2, false), Err(Errno::EPERM.into()));
}

#[test]
fn a_copy_works_again_after_one_that_hung() {
    let rig = Rig::new(TRN2, Profile::V2_26_5);
    let chunk = rig.alloc(1 << 20, false);
    rig.machine.bus[0].inject(Fault::DmaStuck(true));
    assert_eq!(rig.copy(chunk, chunk, 4096), Err(Errno::EPERM.into()));
    rig.machine.bus[0].inject(Fault::Clear);
    for _ in 0..10_000 {
        assert_eq!(rig.copy(chunk, chunk, 4096), Ok(0), "more copies than the ring has places");
    }
}

#[test]
fn a_long_copy_is_split_into_batches_that_fit_the_ring() {
    let rig = Rig::new(TRN2, Profile::V2_27_4);
    let (from, to) = (rig.alloc(600 << 20, false), rig.alloc(600 << 20, false));
    let memory = &rig.driver.device(0).expect("device").memory;
    let place = |handle| memory.chunk(handle).expect("chunk").address;
    let space = rig.machine.bus[0].space();
    space.write(place(from) + (600 << 20) - 8, b"the end!").expect("device memory");
    rig.dma();
    assert_eq!(rig.copy(from, to, 600 << 20), Ok(0));
    let runs = rig.dma();
    assert!(runs.len() > 1 && runs.iter().all(|(engine, _)| *engine == 128), "{runs:?}");
    assert_eq!(runs.iter().map(|(_, bytes)| bytes - 4).sum::<u64>(), 600 << 20);
    let mut tail = [0; 8];
    space.read(place(to) + (600 << 20) - 8, &mut tail).expect("device memory");
    assert_eq!(&tail, b"the end!");
}

#[test]
fn bounds_wrap_in_the_oldest_release_only() {
    for (profile, wraps) in [(Profile::V2_24_7, true), (Profile::V2_26_5, false), (Profile::V2_27_4, false)] {
        let rig = Rig::new(TRN2, profile);
        let chunk = rig.alloc(1 << 20, false);
        let copy = |size, offset| {
            let arg =
                a::MemCopy64 { src_mem_handle: chunk, dst_mem_handle: chunk, size, src_offset: offset, dst_offset: 0 };
            call(&rig.file, &rig.caller, Op::MemCopy64, arg).0
        };
        assert_eq!(copy(4096, u64::MAX - 2047).is_ok(), wraps, "{profile:?}");
        assert_eq!(copy(1 << 20, 0), Ok(0));
        assert_eq!(copy(1 << 20, 1), Err(Errno::EINVAL.into()));
    }
}

#[test]
fn zero_copy_takes_small_whole_words_through_the_memory_window() {
    let rig = Rig::new(TRN2, Profile::V2_27_4);
    let chunk = rig.alloc(1 << 20, false);
    rig.dma();
    // Offset, size, threshold, to the device; whether an engine copies.
    let cases = [
        (0, 48, 8192, true, false),
        (4, 48, 48, true, false),
        (4, 48, 47, true, true),
        (2, 48, 8192, true, true),
        (0, 46, 8192, true, true),
        (0, 48, 8192, false, true),
        (0, 48, 0, true, true),
    ];
    for (offset, size, threshold, to_device, engine) in cases {
        assert_eq!(rig.zero_copy(chunk, offset, size, threshold, to_device), Ok(0));
        assert_eq!(!rig.dma().is_empty(), engine, "{offset} {size} {threshold} {to_device}");
    }
    let host = rig.alloc(4096, true);
    rig.dma();
    assert_eq!(rig.zero_copy(host, 0, 48, 8192, true), Ok(0));
    assert_eq!(rig.dma().len(), 1, "host memory is not behind the window");
}

/// A copy with a buffer that begins a page behind its argument.
fn with_buffer(
    rig: &Rig,
    op: Op,
    memory: &dyn UserMemory,
    handle: u64,
    size: u64,
    to_device: bool,
) -> Result<i64, Stop> {
    let buffer = Memory::BASE + PAGE;
    let (is_copy_to_device, copy_to_mem_handle) = (to_device.into(), to_device.into());
    let mut image = vec![0; 48];
    if op == Op::MemBufZerocopy64Zc {
        let arg = a::MemBufCopy64zc {
            mem_handle: handle,
            buffer,
            size,
            is_copy_to_device,
            h2t_qid: -1,
            ..Default::default()
        };
        a::Wire::put(&arg, &mut image);
    } else {
        let arg = a::MemBufCopy64 { mem_handle: handle, buffer, size, offset: 0, copy_to_mem_handle };
        a::Wire::put(&arg, &mut image[..40]);
    }
    assert_eq!(memory.write(Memory::BASE, &image), 0);
    rig.file.ioctl(&rig.caller, memory, row(op).cmd, Memory::BASE)
}

/// Both kinds of copy, with all bytes and with a buffer that ends too early.
#[test]
fn a_long_zero_copy_is_one_run_of_an_engine_and_a_missing_page_ends_it() {
    const BYTES: usize = 3 << 20;
    let rig = Rig::new(TRN2, Profile::V2_27_4);
    let (device, handle) = (rig.driver.device(0).expect("a device"), rig.alloc(BYTES as u64, false));
    let address = device.memory.chunk(handle).expect("allocated").address;
    let space = rig.machine.bus[0].space();
    let data: Vec<u8> = (0..BYTES).map(|i| (i * 7 + (i >> 8)) as u8 | 1).collect();
    let image = [&[0; PAGE as usize][..], &data].concat();
    let memory = Memory::new(&image);
    rig.dma();
    assert_eq!(with_buffer(&rig, Op::MemBufZerocopy64Zc, &memory, handle, BYTES as u64, true), Ok(0));
    assert_eq!(rig.dma(), [(128, BYTES as u64 + 4)], "no bounce buffer");
    let mut there = vec![0; BYTES];
    space.read(address, &mut there).expect("memory of the device");
    assert!(there == data);
    let out = Memory::new(&vec![0; image.len()]);
    assert_eq!(with_buffer(&rig, Op::MemBufZerocopy64Zc, &out, handle, BYTES as u64, false), Ok(0));
    assert!(out.bytes(image.len())[PAGE as usize..] == data);

    space.fill(address, BYTES as u64, 0).expect("memory of the device");
    let short = Memory::new(&image[..(1 << 20) + PAGE as usize]);
    let copied = with_buffer(&rig, Op::MemBufZerocopy64Zc, &short, handle, BYTES as u64, true);
    assert_eq!(copied, Err(Errno::ENOMEM.into()));
    space.read(address, &mut there).expect("memory of the device");
    assert!(there[..1 << 20] == data[..1 << 20] && there[1 << 20..].iter().all(|byte| *byte == 0));
    let copied = with_buffer(&rig, Op::MemBufCopy64, &short, handle, BYTES as u64, true);
    assert!(matches!(copied, Err(Stop::Uncopied(left)) if left > 0), "{copied:?}");
    assert_eq!(
        with_buffer(&rig, Op::MemBufZerocopy64Zc, &memory, handle, BYTES as u64, true),
        Ok(0),
        "as if nothing was"
    );
}

/// Memory that does something else at the first read behind an address.
struct Meddling<'a> {
    memory: Memory,
    behind: u64,
    then: RefCell<Option<Box<dyn FnOnce() + 'a>>>,
}

impl UserMemory for Meddling<'_> {
    fn read(&self, address: u64, data: &mut [u8]) -> usize {
        if address >= self.behind
            && let Some(then) = self.then.take()
        {
            then();
        }
        self.memory.read(address, data)
    }

    fn write(&self, address: u64, data: &[u8]) -> usize {
        self.memory.write(address, data)
    }
}

#[test]
fn memory_that_is_given_back_in_the_middle_of_a_copy_is_nobody_elses_before_its_end() {
    const BYTES: u64 = 1 << 20;
    let rig = Rig::new(TRN2, Profile::V2_27_4);
    let device = rig.driver.device(0).expect("a device");
    let address = |handle| device.memory.chunk(handle).expect("allocated").address;
    let handle = rig.alloc(BYTES, false);
    let (first, mut other) = (address(handle), 0);
    let meddling = Meddling {
        memory: Memory::new(&vec![7; (BYTES + PAGE) as usize]),
        behind: Memory::BASE + PAGE + BYTES / 2,
        then: RefCell::new(Some(Box::new(|| {
            assert_eq!(call(&rig.file, &rig.caller, Op::MemFree, a::MemFree { mem_handle: handle }).0, Ok(0));
            other = address(rig.alloc(BYTES, false));
        }))),
    };
    assert_eq!(with_buffer(&rig, Op::MemBufCopy64, &meddling, handle, BYTES, true), Ok(0));
    drop(meddling);
    assert_ne!(other, 0, "the copy went by there");
    assert_ne!(other, first);
    assert!(device.memory.chunk(handle).is_none(), "gone with the copy");
    assert_eq!(address(rig.alloc(BYTES, false)), first);
}

#[test]
fn zero_copy_is_refused_on_the_second_generation_unless_a_parameter_allows_it() {
    let rig = Rig::new(TRN1, Profile::V2_27_4);
    let chunk = rig.alloc(1 << 20, false);
    assert_eq!(rig.zero_copy(chunk, 0, 48, 0, true), Err(Errno::EINVAL.into()));
    rig.driver.env().params.set("zerocopy_trn1_override", "1").expect("a parameter");
    assert_eq!(rig.zero_copy(chunk, 0, 48, 0, true), Ok(0));
}

#[test]
fn without_a_memory_window_only_special_resources_and_host_memory_can_be_mapped() {
    let machine = Machine::new([spec(TRN2, |s| s.bar4_bytes = 0)]);
    let driver = machine.load(Profile::V2_27_4);
    machine.pass(Duration::from_secs(5));
    let (user, root) = (Caller::process(7, 1000, false), Caller::process(8, 0, true));
    let file = driver.open(0, libc::O_RDWR, &user).expect("open");
    let device = driver.device(0).expect("device");
    let map = |caller: &Caller, offset, bytes| {
        let request = MmapRequest { va: 0, offset, bytes, prot: libc::PROT_READ | libc::PROT_WRITE };
        file.mmap(caller, request).map(|m| m.bytes())
    };
    let request = |location| Request { owner: 7, ..Request::driver(location, 8192, 0) };
    let chunk = memory::alloc(&device, &request(MemLocation::Device)).expect("room");
    let host = memory::alloc(&device, &request(MemLocation::Host)).expect("room");
    assert_eq!(map(&user, chunk.address, 8192), Err(Errno::EINVAL.into()));
    assert_eq!(map(&user, host.address, 8192), Ok(8192));
    assert_eq!(map(&user, 0x20_0270_0000, 0x2000), Ok(0x2000), "semaphores of core 0");
    assert_eq!(map(&user, 0, 0x6_0000_0000), Ok(0x6_0000_0000), "a whole channel is special too");
    assert_eq!(map(&user, 0x1000, PAGE), Err(Errno::EPERM.into()));
    assert_eq!(map(&root, 0x1000, PAGE), Err(Errno::EINVAL.into()));
}

#[derive(Debug, Default)]
struct Table(Mutex<Vec<DmaBuf>>);

impl Descriptors for Table {
    fn install(&self, buffer: DmaBuf) -> Option<i32> {
        self.0.lock().push(buffer);
        Some(2 + self.0.lock().len() as i32)
    }
}

#[test]
fn an_exported_buffer_keeps_its_memory_until_it_is_dropped() {
    let mut rig = Rig::new(TRN2, Profile::V2_27_4);
    let table = Arc::new(Table::default());
    rig.caller.descriptors = Some(table.clone());
    let handle = rig.alloc(1 << 20, false);
    let device = rig.driver.device(0).expect("device");
    let chunk = device.memory.chunk(handle).expect("chunk");
    let va = 0x5000_0000;
    let request = MmapRequest { va, offset: chunk.address, bytes: 1 << 20, prot: libc::PROT_READ };
    rig.file.mmap(&rig.caller, request).expect("mapping");
    let export = |va| {
        let arg = a::DmabufFd { va, size: 4096, fd: Memory::BASE + 24 };
        let mut image = vec![0; 28];
        a::Wire::put(&arg, &mut image);
        let memory = Memory::new(&image);
        rig.file.ioctl(&rig.caller, &memory, row(Op::DmabufFd).cmd, Memory::BASE)
    };
    assert_eq!(export(va + (1 << 20)), Err(Errno::EINVAL.into()), "behind the mapping");
    assert_eq!(export(va + 4096), Ok(0));
    assert_eq!(table.0.lock()[0].address, chunk.address + 4096);
    let freed = call(&rig.file, &rig.caller, Op::MemFree, a::MemFree { mem_handle: handle }).0;
    assert_eq!(freed, Ok(0));
    assert!(device.memory.at(chunk.address).is_some(), "the export still holds it");
    table.0.lock().clear();
    assert!(device.memory.at(chunk.address).is_none());
    assert_eq!(export(va), Err(Errno::EINVAL.into()), "a mapping of what is gone cannot be exported");
    rig.file.munmap(&rig.caller, va);
    device.check_invariants();
}

#[test]
fn there_are_as_many_datastores_as_attach_slots_and_a_reused_one_is_clear() {
    let rig = Rig::new(TRN1, Profile::V2_27_4);
    let acquire = |tgid: u32, pid: i32| {
        let caller = Caller::process(tgid, 0, false);
        let arg = a::NeuronDsInfo { pid, mmap_offset: 0, size: 0 };
        let (reply, info) = call(&rig.file, &caller, Op::AcquireNeuronDs, arg);
        reply.map(|_| info.mmap_offset)
    };
    let release = |tgid: u32, pid: i32| {
        let caller = Caller::process(tgid, 0, false);
        call(&rig.file, &caller, Op::ReleaseNeuronDs, a::NeuronDsInfo { pid, mmap_offset: 0, size: 0 }).0
    };
    let places: Vec<_> = (1..=MAX_PROCESSES as u32).map(|tgid| acquire(tgid, 0).expect("a place")).collect();
    assert_eq!(acquire(99, 0), Err(Errno::ENOMEM.into()));
    assert_eq!(acquire(3, 0), Ok(places[2]), "the same one again");
    assert_eq!(acquire(99, 3), Ok(places[2]), "another process reads it");
    let space = rig.machine.bus[0].space();
    space.write(places[2], b"counters").expect("host memory");
    assert_eq!(release(99, 3), Ok(0));
    assert_eq!(acquire(99, 3), Ok(places[2]), "only its owner gives it back");
    assert_eq!(release(3, 3), Ok(0));
    assert_eq!(acquire(99, 3), Err(Errno::ENOENT.into()));
    assert_eq!(acquire(99, 0), Ok(places[2]));
    let mut bytes = [1; 8];
    space.read(places[2], &mut bytes).expect("host memory");
    assert_eq!(bytes, [0; 8]);
}

#[test]
fn fresh_host_memory_is_zeroed_and_device_memory_is_not() {
    let rig = Rig::new(TRN1, Profile::V2_27_4);
    let device = rig.driver.device(0).expect("device");
    for (host, first) in [(true, 0), (false, 7)] {
        let handle = rig.alloc(4096, host);
        let address = device.memory.chunk(handle).expect("chunk").address;
        rig.machine.bus[0].space().fill(address, 4096, 7).expect("memory");
        call(&rig.file, &rig.caller, Op::MemFree, a::MemFree { mem_handle: handle }).0.expect("free");
        let again = device.memory.chunk(rig.alloc(4096, host)).expect("chunk");
        let mut byte = [1];
        rig.machine.bus[0].space().read(again.address, &mut byte).expect("memory");
        assert_eq!((again.address, byte[0]), (address, first));
    }
}

#[test]
fn a_scrub_clears_a_channel_behind_the_memory_of_the_driver() {
    let rig = Rig::new(TRN2, Profile::V2_27_4);
    let space = rig.machine.bus[0].space();
    let marks = [8 << 20, 16 << 20, 0x5_ffff_fff8_u64];
    for at in marks {
        space.write(at, b"old data").expect("channel 0");
    }
    let start = a::HbmScrubStart { nc_id: 0, hbm_index: 0, axi_port: 0, init_val: 0 };
    let wait = a::HbmScrubWait { nc_id: 0, hbm_index: 0 };
    let device = rig.driver.device(0).expect("device");
    let used = || device.metrics.get(Node::CoreHost(0)).total;
    let before = used();
    assert_eq!(call(&rig.file, &rig.caller, Op::HbmScrubWait, wait).0, Err(Errno::EPERM.into()));
    assert_eq!(call(&rig.file, &rig.caller, Op::HbmScrubStart, start).0, Ok(0));
    assert_eq!(call(&rig.file, &rig.caller, Op::HbmScrubWait, wait).0, Ok(0));
    assert_eq!(used(), before, "what it needed is given back");
    let engines: Vec<_> = rig.dma().into_iter().map(|(engine, _)| engine).collect();
    assert_eq!(engines, (0..16).collect::<Vec<_>>());
    let read = marks.map(|at| {
        let mut bytes = [1; 8];
        space.read(at, &mut bytes).expect("channel 0");
        bytes
    });
    assert_eq!(read, [*b"old data", [0; 8], [0; 8]]);
}
