//! DMA queues of clients, notification queues, semaphores, registers and firmware requests.
#![cfg(not(feature = "shuttle"))]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{Machine, Memory, call, open, process, spec};
use neuron_abi::kernel::args as a;
use neuron_abi::kernel::args::Wire;
use neuron_abi::kernel::ioctl::{Op, row};
use neuron_abi::kernel::values::{MemCategory, MemLifespan, MemLocation, NC_MAP_DEVICE};
use neuron_hw::Clock as _;
use neuron_hw::regs::{core, engine, misc};
use neuron_hw::trace::What;
use neuron_hw::{Fault, Silicon};
use neuron_kmd::caller::Caller;
use neuron_kmd::cdev::File;
use neuron_kmd::device::Device;
use neuron_kmd::memory::{self, Chunk, Request};
use neuron_kmd::profile::Profile;
use neuron_kmd::reply::{Bug, Errno, Reply, Stop};
use neuron_kmd::reset::WaitMode;
use neuron_kmd::sync::signal;
use neuron_kmd::time::{Clock, Thread};

const PRODUCTS: [u16; 3] = [0x7164, 0x7364, 0x7564];

/// A device with a process that has it open.
struct Setup {
    machine: Machine,
    device: Arc<Device>,
    file: Arc<File>,
    caller: Caller,
}

impl Setup {
    fn new(product: u16, profile: Profile) -> Self {
        let machine = Machine::new([spec(product, |_| {})]);
        let driver = machine.load(profile);
        machine.pass(Duration::from_secs(1));
        let caller = process(100);
        let file = open(&driver, 0, &caller);
        machine.bus[0].take_trace();
        Self { device: driver.devices().pop().expect("device"), machine, file, caller }
    }

    fn newest(product: u16) -> Self {
        Self::new(product, Profile::V2_27_4)
    }

    fn call<T: Wire>(&self, op: Op, value: T) -> (Reply, T) {
        call(&self.file, &self.caller, op, value)
    }

    fn silicon(&self) -> &Silicon {
        &self.machine.bus[0]
    }

    fn chunk(&self, location: MemLocation, bytes: u64) -> (Arc<Chunk>, u64) {
        let request = Request {
            bytes,
            align: 0,
            location,
            channel: 0,
            core: 0,
            category: Some(MemCategory::MiscDevice),
            lifespan: MemLifespan::CurProcess,
            owner: self.caller.tgid,
        };
        let chunk = memory::alloc(&self.device, &request).expect("memory");
        let handle = self.device.memory.handle(&chunk).expect("handle");
        (chunk, handle)
    }

    /// A queue of 64 descriptors on an engine, with rings in device memory.
    fn queue(&self, eng_id: u32, qid: u32) -> [u64; 2] {
        let rings = [(); 2].map(|()| self.chunk(MemLocation::Device, 4096).1);
        assert_eq!(self.init(eng_id, qid, 64, rings), Ok(0));
        rings
    }

    fn init(&self, eng_id: u32, qid: u32, size: u32, [tx_handle, rx_handle]: [u64; 2]) -> Reply {
        let wanted = a::DmaQueueInit {
            eng_id,
            qid,
            tx_desc_count: size,
            rx_desc_count: size,
            tx_handle,
            rx_handle,
            ..Default::default()
        };
        self.call(Op::DmaQueueInit, wanted).0
    }

    fn start(&self, eng_id: u32, qid: u32, count: u32) -> Reply {
        let wanted = a::DmaQueueCopyStart { eng_id, qid, tx_desc_count: count, rx_desc_count: count };
        self.call(Op::DmaQueueCopyStart, wanted).0
    }

    /// Writes one descriptor to the start of a ring.
    fn describe(&self, ring: u64, queue_type: u32, bytes: u32, address: u64) -> Reply {
        let mut content = vec![0; 4096 + 16];
        content[4096..4100].copy_from_slice(&bytes.to_le_bytes());
        content[4104..4112].copy_from_slice(&address.to_le_bytes());
        let wanted = a::DmaCopyDescriptors {
            mem_handle: ring,
            buffer: Memory::BASE + 4096,
            num_descs: 1,
            queue_type,
            ..Default::default()
        };
        wanted.put(&mut content);
        let memory = Memory::new(&content);
        self.file.ioctl(&self.caller, &memory, row(Op::DmaCopyDescriptors).cmd, Memory::BASE)
    }

    fn reset(&self, nc_map: u32) {
        self.device.reset.submit(&*self.device, &self.caller.task, nc_map, self.caller.tgid);
        self.device.reset.wait(&*self.device, &self.caller, self.caller.tgid, WaitMode::Strict);
    }
}

fn bug(reply: &Reply) -> &'static str {
    match reply {
        Err(Stop::Bug(Bug { quirk, .. })) => quirk,
        other => panic!("no bug: {other:?}"),
    }
}

#[test]
fn dma_queue_of_a_client_copies_what_its_descriptors_say() {
    for product in PRODUCTS {
        for location in [MemLocation::Device, MemLocation::Host] {
            let setup = Setup::newest(product);
            let [tx, rx] = setup.queue(3, 15);
            let ((source, _), (target, _)) = (setup.chunk(location, 4096), setup.chunk(location, 4096));
            let space = setup.silicon().space();
            space.write(source.address, b"forty-two bytes that an engine has to move").expect("chunk");
            assert_eq!(setup.describe(tx, 0, 42, source.address), Ok(0));
            assert_eq!(setup.describe(rx, 1, 42, target.address), Ok(0));
            assert_eq!(setup.start(3, 15, 1), Ok(0));
            let mut copy = [0; 42];
            space.read(target.address, &mut copy).expect("chunk");
            assert_eq!(&copy, b"forty-two bytes that an engine has to move", "{product:#x} {location:?}");
            let ack = a::DmaAckCompleted { eng_id: 3, qid: 15, count: 1 };
            assert_eq!(setup.call(Op::DmaAckCompleted, ack).0, Ok(0));
        }
    }
}

#[test]
fn dma_queue_takes_60_of_64_descriptors_until_some_are_acknowledged() {
    let setup = Setup::newest(0x7364);
    setup.queue(0, 0);
    assert_eq!(setup.start(0, 0, 61), Err(Errno::EPERM.into()));
    assert_eq!(setup.start(0, 0, 60), Ok(0));
    assert_eq!(setup.start(0, 0, 1), Err(Errno::EPERM.into()));
    let ack = a::DmaAckCompleted { eng_id: 0, qid: 0, count: 2 };
    assert_eq!(setup.call(Op::DmaAckCompleted, ack).0, Ok(0));
    assert_eq!([setup.start(0, 0, 3), setup.start(0, 0, 2)], [Err(Errno::EPERM.into()), Ok(0)]);
}

#[test]
fn dma_stuck_engine_takes_the_doorbell_and_does_nothing() {
    let setup = Setup::newest(0x7364);
    let [tx, rx] = setup.queue(3, 0);
    let (target, _) = setup.chunk(MemLocation::Host, 4096);
    assert_eq!(setup.describe(tx, 0, 4, target.address + 64), Ok(0));
    assert_eq!(setup.describe(rx, 1, 4, target.address), Ok(0));
    setup.silicon().space().write(target.address + 64, &[7; 4]).expect("chunk");
    setup.silicon().inject(Fault::DmaStuck(true));
    setup.silicon().take_trace();
    assert_eq!(setup.start(3, 0, 1), Ok(0));
    let seen: Vec<_> = setup.silicon().take_trace().0.into_iter().map(|e| e.what).collect();
    assert_eq!(seen, [What::DmaIgnored { engine: 3, queue: 0 }]);
    // The driver's own copies hang too, so descriptors cannot be written any more.
    assert_eq!(setup.describe(tx, 0, 4, target.address), Err(Errno::EPERM.into()));
}

#[test]
fn dma_queue_sizes_are_multiples_of_16_from_32_on() {
    let setup = Setup::newest(0x7164);
    let table = [
        (0, Err(Errno::EINVAL.into())),
        (16, Err(Errno::EINVAL.into())),
        (31, Err(Errno::EPERM.into())),
        (32, Ok(0)),
        (100, Err(Errno::EPERM.into())),
        (112, Ok(0)),
        (1 << 20, Ok(0)),
    ];
    for (size, expected) in table {
        assert_eq!(setup.init(0, 0, size, [0, 0]), expected, "{size}");
    }
    assert_eq!(setup.init(132, 0, 64, [0, 0]), Err(Errno::EINVAL.into()));
    assert_eq!(setup.init(0, 16, 64, [0, 0]), Err(Errno::EINVAL.into()));
}

#[test]
fn dma_reset_forgets_the_queues_of_its_cores_only() {
    for product in PRODUCTS {
        let setup = Setup::newest(product);
        setup.queue(0, 0);
        setup.queue(16, 0);
        setup.reset(0b1);
        assert_eq!(setup.start(0, 0, 1), Err(Errno::EPERM.into()), "engine of core 0");
        assert_eq!(setup.start(16, 0, 1), Ok(0), "engine of core 1");
        setup.reset(NC_MAP_DEVICE);
        assert_eq!(setup.start(16, 0, 1), Err(Errno::EPERM.into()));
    }
}

#[test]
fn dma_queues_end_with_their_process() {
    let setup = Setup::newest(0x7364);
    let other = process(200);
    setup.queue(0, 0);
    setup.queue(0, 1);
    let release = a::DmaQueueRelease { eng_id: 0, qid: 1 };
    assert_eq!(setup.call(Op::DmaQueueRelease, release).0, Ok(0));
    setup.file.flush(&setup.caller);
    let start = |qid| {
        let wanted = a::DmaQueueCopyStart { eng_id: 0, qid, tx_desc_count: 1, rx_desc_count: 1 };
        call(&setup.file, &other, Op::DmaQueueCopyStart, wanted).0
    };
    assert_eq!(start(0), Err(Errno::EPERM.into()));
    assert_eq!(start(1), Ok(0), "given up before, so nobody's");
}

/// Measured: golden 95.
#[test]
fn dma_engine_that_does_not_exist_is_an_oops_that_keeps_its_lock() {
    let setup = Setup::newest(0x7164);
    let state = |eng_id| setup.call(Op::DmaEngGetState, a::DmaEngGetState { eng_id, state: Memory::BASE + 64 }).0;
    assert_eq!(bug(&state(34)), "dma-engine-missing");
    assert_eq!(state(132), Err(Errno::EINVAL.into()));
    let queue = |eng_id| setup.call(Op::DmaQueueGetState, a::DmaQueueGetState { eng_id, ..Default::default() }).0;
    for id in [34, 132, u32::MAX] {
        assert_eq!(bug(&queue(id)), "dma-engine-missing");
    }
    // Who takes the lock sleeps until it is killed.
    let (file, caller) = (setup.file.clone(), setup.caller.clone());
    let clock: Arc<dyn Clock> = setup.machine.clock.clone();
    let thread = Thread::spawn(&clock, "stuck", move || {
        let reply = call(&file, &caller, Op::DmaEngSetState, a::DmaEngSetState { eng_id: 34, state: 2 }).0;
        assert_eq!(reply, Err(Stop::Hung));
    });
    setup.machine.pass(Duration::from_secs(3600));
    assert!(!thread.finished());
    setup.caller.task.raise(&*clock, signal::KILL);
    thread.join(&*clock);
    assert_eq!(state(0), Ok(0), "other engines go on");
}

/// Measured: golden 99i on both releases.
#[test]
fn dma_start_of_an_uninitialised_queue_is_an_oops_in_the_oldest_release() {
    for profile in Profile::ALL {
        let setup = Setup::new(0x7164, profile);
        assert_eq!(setup.start(6, 3, 1), Err(Errno::EPERM.into()));
        let reply = setup.start(5, 3, 0);
        if profile == Profile::V2_24_7 {
            assert_eq!(bug(&reply), "dma-start-uninitialised");
        } else {
            assert_eq!(reply, Err(Errno::EPERM.into()));
        }
    }
}

/// A choice of the model: the worker of the real driver hangs on the lost lock for ever.
#[test]
fn dma_lost_lock_hangs_the_reset_of_its_core_until_the_device_goes() {
    let setup = Setup::new(0x7164, Profile::V2_24_7);
    setup.start(5, 3, 0).expect_err("oops");
    setup.device.reset.submit(&*setup.device, &setup.caller.task, 1, 100);
    setup.machine.pass(Duration::from_secs(3600));
    assert_eq!(setup.device.reset.lengths(), (1, 0));
    setup.device.reset.stop(&*setup.device);
    assert_eq!(setup.device.reset.lengths(), (0, 0));
}

#[test]
fn dma_descriptor_addresses_are_checked_from_the_third_generation_on() {
    for product in PRODUCTS {
        let setup = Setup::newest(product);
        let [tx, _] = setup.queue(0, 0);
        let (host, handle) = setup.chunk(MemLocation::Host, 8192);
        let layout = setup.device.dhal.layout();
        let known = [
            layout.channels[1].address,
            layout.cores.address,
            layout.topsps[5].address + 4096,
            host.address,
            host.address + 8191,
        ];
        for address in known {
            assert_eq!(setup.describe(tx, 0, 4, address), Ok(0), "{product:#x} {address:#x}");
        }
        assert_eq!(setup.call(Op::MemFree, a::MemFree { mem_handle: handle }).0, Ok(0));
        let unknown = [host.address, 0x7f00_0000_0000, layout.cores.address + layout.cores.bytes];
        let expected = if product == 0x7164 { Ok(0) } else { Err(Errno::EINVAL.into()) };
        for address in unknown {
            assert_eq!(setup.describe(tx, 0, 4, address), expected, "{product:#x} {address:#x}");
        }
        assert_eq!(setup.describe(tx, 2, 4, layout.cores.address), Err(Errno::EPERM.into()));
        assert_eq!(setup.describe(9999, 0, 4, 0), Err(Errno::EINVAL.into()));
    }
}

/// Measured: golden 80; numbers on Trn1 and Trn3.
#[test]
fn host_queues_are_given_lowest_first_and_defaults_stay() {
    for (product, last, first) in [(0x7164, 1, 1), (0x7364, 7, 2), (0x7564, 7, 2)] {
        let setup = Setup::newest(product);
        let alloc = |nc_id, copy_queue_cnt, service_queue_cnt| {
            let wanted = a::H2tDmaAllocQueues { nc_id, copy_queue_cnt, service_queue_cnt, ..Default::default() };
            let (reply, given) = setup.call(Op::H2tDmaAllocQueues, wanted);
            reply.map(|_| (given.copy_queue_bmap, given.service_queue_bmap, given.copy_default_queue))
        };
        let free = |nc_id, queue_bmap| {
            setup.call(Op::H2tDmaFreeQueues, a::H2tDmaFreeQueues { nc_id, queue_bmap, ..Default::default() }).0
        };
        assert_eq!(alloc(0, 1, 2), Ok((1 << first, 6 << first, 0)));
        assert_eq!(alloc(last, 1, 0), Ok((1 << first, 0, u32::from(last) % first)));
        assert_eq!(alloc(0, 8, 8), Err(Errno::E2BIG.into()));
        assert_eq!(alloc(last + 1, 1, 0), Err(Errno::E2BIG.into()));
        let left = 16 - first as u16 - 3;
        assert_eq!(alloc(0, left + 1, 0), Err(Errno::EPERM.into()));
        assert_eq!(free(0, 1), Ok(0), "the default queue is not the client's to give back");
        assert_eq!(free(0, 6 << first), Ok(0));
        assert_eq!(free(0, 3 << first), Err(Errno::ENXIO.into()), "one is not given, the other is freed");
        assert_eq!(alloc(0, left + 3, 0).map(|given| given.0), Ok((0xffff << first) & 0xffff));
        let info = a::GetAsyncH2tDmaComplQueues { qid_bitmap: 1 << 15, ..Default::default() };
        assert_eq!(setup.call(Op::GetAsyncH2tDmaComplQueues, info).0, Ok(0));
        assert_eq!(free(0, 0xffff), Ok(0));
        assert_eq!(setup.call(Op::GetAsyncH2tDmaComplQueues, info).0, Err(Errno::ENOENT.into()));
    }
}

/// Measured: golden 90.
#[test]
fn notification_queue_keeps_its_memory_until_it_is_replaced_or_its_core_is_reset() {
    let setup = Setup::newest(0x7364);
    let init = |size, force_alloc_mem| {
        let wanted = a::NotificationsInitWithReallocV2 {
            nq_dev_id: 1,
            size,
            on_host_memory: 1,
            force_alloc_mem,
            ..Default::default()
        };
        let (reply, given) = setup.call(Op::NotificationsInitWithReallocV2, wanted);
        reply.map(|_| (given.mem_handle, given.mmap_offset))
    };
    let first = init(65536, 0).expect("queue");
    assert_eq!(init(131_072, 0), Ok(first), "the size of a queue that exists means nothing");
    let replaced = init(131_072, 1).expect("queue");
    assert_eq!(replaced.0, first.0, "the handle is used again");
    assert_eq!(setup.device.memory.chunk(first.0).map(|c| c.bytes), Some(131_072));
    setup.reset(0b1);
    assert!(setup.device.memory.chunk(first.0).is_some(), "another core's reset");
    setup.reset(0b10);
    assert!(setup.device.memory.chunk(first.0).is_none());
    for (size, errno) in [(0, Errno::ENOMEM), (3, Errno::EINVAL), (5000, Errno::EINVAL)] {
        assert_eq!(init(size, 0), Err(errno.into()), "{size}");
    }
}

#[test]
fn notification_queue_of_a_topsp_goes_with_the_core_it_is_booked_on() {
    for (product, per_core) in [(0x7164, 3), (0x7364, 2)] {
        let setup = Setup::newest(product);
        let handles: Vec<_> = (0..2 * per_core)
            .map(|nq_dev_id| {
                let wanted = a::NotificationsInitV2 {
                    nq_dev_id,
                    nq_dev_type: 1,
                    size: 4096,
                    on_host_memory: 1,
                    ..Default::default()
                };
                let (reply, given) = setup.call(Op::NotificationsInitV2, wanted);
                assert_eq!(reply, Ok(0));
                given.mem_handle
            })
            .collect();
        setup.reset(0b10);
        let there: Vec<_> = handles.iter().map(|h| setup.device.memory.chunk(*h).is_some()).collect();
        let expected: Vec<_> = (0..2 * per_core).map(|topsp| topsp < per_core).collect();
        assert_eq!(there, expected, "{product:#x}");
    }
}

#[test]
fn semaphores_and_events_are_separate_words_of_each_core() {
    for product in PRODUCTS {
        let setup = Setup::newest(product);
        let cores = setup.device.dhal.core_count();
        let semaphore = |op, nc_id, semaphore_index, value| {
            let (reply, user) = setup.call(op, a::Semaphore { nc_id, semaphore_index, value });
            reply.map(|_| user.value)
        };
        for core in 0..cores {
            semaphore(Op::SemaphoreWrite, core, core, core + 5).expect("write");
            semaphore(Op::EventSet, core, core, 1).expect("set");
        }
        for core in 0..cores {
            assert_eq!(semaphore(Op::SemaphoreIncrement, core, core, 10), Ok(10));
            assert_eq!(semaphore(Op::SemaphoreDecrement, core, core, 1), Ok(1));
            assert_eq!(semaphore(Op::SemaphoreRead, core, core, 0), Ok(core + 14));
            assert_eq!(semaphore(Op::EventGet, core, core, 0), Ok(1));
            assert_eq!(semaphore(Op::SemaphoreRead, core, core + 1, 0), Ok(0));
        }
        assert_eq!(semaphore(Op::SemaphoreRead, cores, 0, 0), Err(Errno::E2BIG.into()));
        assert_eq!(semaphore(Op::SemaphoreRead, 0, 256, 0), Err(Errno::EINVAL.into()));
        // Measured: one event more than there are.
        assert_eq!(semaphore(Op::EventGet, 0, 256, 0), Ok(0));
        assert_eq!(semaphore(Op::EventGet, 0, 257, 0), Err(Errno::EINVAL.into()));
        // The core of an event is not checked; far behind the window there is nothing to read.
        let (reply, _) = setup.call(Op::EventGet, a::Semaphore { nc_id: 64, semaphore_index: 0, value: 0 });
        assert_eq!(bug(&reply), "event-core-unchecked");
    }
}

#[test]
fn semaphore_of_a_dead_device_is_an_error() {
    for (profile, patience) in [(Profile::V2_24_7, 15), (Profile::V2_27_4, 0)] {
        let setup = Setup::new(0x7164, profile);
        // Semaphores live in a window; only the registers around it can be dead.
        setup.silicon().inject(Fault::DeadRegisters(true));
        let begun = setup.machine.clock.now();
        let (reply, _) = setup.call(Op::SemaphoreRead, a::Semaphore::default());
        assert_eq!(reply, Err(Errno::EIO.into()));
        let took = setup.machine.clock.now() - begun;
        assert_eq!(took.as_secs(), patience, "{profile:?}");
    }
}

/// Offset of a register to the register window as a client names it.
fn register(setup: &Setup, op: Op, bar: u32, offset: u64) -> Reply {
    let (_, info) = setup.call(Op::DeviceInfo, a::DeviceInfo::default());
    let mut content = vec![0; 4096 + 64];
    let wanted = a::BarRw { bar, address: Memory::BASE + 4096, data: Memory::BASE + 4096 + 32, count: 1 };
    wanted.put(&mut content);
    content[4096..4104].copy_from_slice(&info.bar_address[0].wrapping_add(offset).to_le_bytes());
    let memory = Memory::new(&content);
    setup.file.ioctl(&setup.caller, &memory, row(op).cmd, Memory::BASE)
}

/// `facts/driver/bars.tsv`, row bar0_write_block: on no engine and no queue can a client move the
/// rings or ring the doorbell.
#[test]
fn bar_writes_to_rings_and_mailbox_are_refused_everywhere() {
    for product in PRODUCTS {
        let setup = Setup::newest(product);
        let layout = setup.device.dhal.layout();
        let refused = Err(Errno::EINVAL.into());
        for id in 0..layout.geometry.engines {
            let base = layout.engine_base(id).expect("engine");
            for queue in 0..engine::COUNT {
                for side in [0, engine::RX] {
                    let block = base + engine::QUEUES + side + queue * engine::QUEUE_STRIDE;
                    for at in [engine::RING_LO, engine::RING_HI, engine::TAIL_INC] {
                        assert_eq!(register(&setup, Op::BarWrite, 0, block + at), refused);
                    }
                }
            }
            assert_eq!(register(&setup, Op::BarWrite, 0, base + engine::QUEUES + engine::RING_LEN), Ok(0));
        }
        for at in misc::WRITE_BLOCKED {
            assert_eq!(register(&setup, Op::BarWrite, 0, layout.geometry.misc_ram + at), refused);
        }
        let seen = setup.silicon().take_trace().0;
        assert!(!seen.iter().any(|e| matches!(e.what, What::DmaRun { .. } | What::Request { .. })), "{product:#x}");
        assert_eq!(register(&setup, Op::BarRead, 0, layout.cores.bar0 + core::EVENTS), Ok(0));
    }
}

/// Measured: golden 99e, 99f, 99j.
#[test]
fn bar_access_outside_the_window_is_an_oops_in_the_oldest_release() {
    for profile in Profile::ALL {
        let setup = Setup::new(0x7164, profile);
        let end = setup.device.bars.bar0.bytes;
        let old = profile == Profile::V2_24_7;
        for (op, bar, offset, quirk) in [
            (Op::BarRead, 0, end, "bar-read-unchecked"),
            (Op::BarRead, 0, 0_u64.wrapping_sub(4), "bar-read-unchecked"),
            (Op::BarRead, 2, 0, "bar-read-unchecked"),
            (Op::BarWrite, 0, end, "bar-write-at-end"),
        ] {
            let reply = register(&setup, op, bar, offset);
            if old {
                assert_eq!(bug(&reply), quirk, "{op:?} {bar} {offset:#x}");
            } else {
                assert_eq!(reply, Err(Errno::EINVAL.into()), "{op:?} {bar} {offset:#x}");
            }
        }
        assert_eq!(register(&setup, Op::BarWrite, 0, end + 4), Err(Errno::EINVAL.into()));
        assert_eq!(register(&setup, Op::BarRead, 0, end - 4), Ok(0));
    }
}

/// Measured: golden 92.
#[test]
fn firmware_that_is_silent_is_asked_every_second_for_15_or_30_seconds() {
    for (profile, tries) in [(Profile::V2_24_7, 15), (Profile::V2_26_5, 30), (Profile::V2_27_4, 30)] {
        let setup = Setup::new(0x7164, profile);
        let post = || {
            let metric = a::PostMetric { data: Memory::BASE, data_size: 16 };
            setup.call(Op::PostMetric, metric).0
        };
        assert_eq!(post(), Ok(0));
        setup.silicon().inject(Fault::MailboxSilent(true));
        setup.silicon().take_trace();
        let begun = setup.machine.clock.now();
        assert_eq!(post(), Err(Errno::EPERM.into()));
        assert_eq!((setup.machine.clock.now() - begun).as_secs(), tries);
        let asked = setup.silicon().take_trace().0;
        let asked = asked.iter().filter(|e| matches!(e.what, What::Request { command: 2, bytes: 24, answered: false }));
        assert_eq!(asked.count() as u64, tries);
    }
}

#[test]
fn firmware_requests_of_several_threads_take_turns() {
    let setup = Setup::newest(0x7164);
    let clock: Arc<dyn Clock> = setup.machine.clock.clone();
    setup.silicon().inject(Fault::MailboxSilent(true));
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let file = setup.file.clone();
            Thread::spawn(&clock, "post", move || {
                let metric = a::PostMetric { data: Memory::BASE, data_size: 4 };
                assert_eq!(call(&file, &process(100), Op::PostMetric, metric).0, Err(Errno::EPERM.into()));
            })
        })
        .collect();
    let begun = clock.now();
    threads.iter().for_each(|t| t.join(&*clock));
    assert_eq!((clock.now() - begun).as_secs(), 90, "30 seconds each");
}
