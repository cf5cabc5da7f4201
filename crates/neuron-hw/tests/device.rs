//! A device as a driver sees it: registers, handshake, semaphores and DMA.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use neuron_hw::memory::{Piece, Remote, Window};
use neuron_hw::regs::{Layout, V2, V3, V4, core, engine, misc};
use neuron_hw::trace::What;
use neuron_hw::{Clock, Fault, Host, Silicon, SiliconSpec};

/// Time that moves when a test says so, milliseconds.
#[derive(Default)]
struct Hand(AtomicU64);

impl Clock for Hand {
    fn now(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }
}

fn device(id: u16) -> (Silicon, Arc<Hand>, &'static Layout) {
    let clock = Arc::new(Hand::default());
    let spec = SiliconSpec::product(id).expect("modelled");
    let arch = neuron_abi::kernel::pci::IDS.iter().find(|i| i.device == id).expect("known").arch;
    let silicon = Silicon::new(spec, Host::Ram(1 << 30), clock.clone()).expect("memory");
    (silicon, clock, Layout::of(arch).expect("modelled"))
}

/// Events without the plain mailbox writes.
fn events(silicon: &Silicon) -> Vec<What> {
    let (events, lost) = silicon.take_trace();
    assert_eq!(lost, 0);
    events.into_iter().map(|e| e.what).filter(|w| !matches!(w, What::MiscWrite { .. })).collect()
}

#[test]
fn an_acknowledgement_is_given_when_the_hold_is_over() {
    for id in [0x7164, 0x7364, 0x7564] {
        let (silicon, clock, layout) = device(id);
        let base = layout.geometry.misc_ram;
        silicon.inject(Fault::AckHold(Duration::from_millis(2500)));
        for (at, value) in [(misc::RESET_MAP, 0x701), (misc::RESET_TYPE, 2), (misc::TRIGGER, 1)] {
            silicon.write32(0, base + at, value);
        }
        clock.0.store(2499, Ordering::Relaxed);
        assert_eq!(silicon.read32(0, base + misc::RESET_TYPE), 2);
        clock.0.store(2500, Ordering::Relaxed);
        assert_eq!(silicon.read32(0, base + misc::RESET_TYPE), 0);
        assert_eq!(silicon.read32(0, base + misc::STATUS), 0);
        let expected = [What::Handshake { number: 1, kind: 2, map: 0x701 }, What::Ack, What::Status(0)];
        assert_eq!(events(&silicon), expected);
    }
}

#[test]
fn never_ack_drops_a_held_acknowledgement_and_clear_gives_it() {
    let (silicon, clock, layout) = device(0x7164);
    let base = layout.geometry.misc_ram;
    let trigger = || {
        silicon.write32(0, base + misc::RESET_TYPE, 1);
        silicon.write32(0, base + misc::TRIGGER, 1);
    };
    silicon.inject(Fault::AckHold(Duration::from_secs(9)));
    trigger();
    silicon.inject(Fault::Clear);
    assert_eq!(silicon.read32(0, base + misc::RESET_TYPE), 0);
    silicon.inject(Fault::NeverAck(true));
    trigger();
    silicon.inject(Fault::Clear);
    clock.0.store(1_000_000, Ordering::Relaxed);
    assert_eq!(silicon.read32(0, base + misc::RESET_TYPE), 1, "it was never due");
}

#[test]
fn a_busy_routing_id_reads_dead_for_so_many_reads() {
    let (silicon, _, layout) = device(0x7264);
    silicon.inject(Fault::RoutingIdBusyReads(2));
    silicon.inject(Fault::RoutingId(17));
    let at = layout.geometry.misc_ram + misc::ROUTING_ID;
    let reads = [(); 3].map(|()| silicon.read32(0, at));
    assert_eq!(reads, [0xdead_beef, 0xdead_beef, 17]);
    assert_eq!(events(&silicon), [What::RoutingId(None), What::RoutingId(None), What::RoutingId(Some(17))]);
}

#[test]
fn c126_the_status_bit_means_busy() {
    let (silicon, _, layout) = device(0x7364);
    let at = layout.geometry.misc_ram + misc::STATUS;
    silicon.inject(Fault::StatusBusyReads(1));
    assert_eq!([silicon.read32(0, at), silicon.read32(0, at)], [8, 0]);
}

#[test]
fn c132_the_status_word_lies_where_the_facts_say() {
    assert_eq!(V2.geometry.misc_ram + misc::STATUS, 0x30fa_0808);
    assert_eq!(V3.geometry.misc_ram + misc::STATUS, 0x06c8_4808);
    assert_eq!(V4.geometry.misc_ram + misc::STATUS, 0x06c8_4808);
}

#[test]
fn semaphores_set_increment_and_decrement_one_value() {
    let (silicon, _, layout) = device(0x7364);
    let core = layout.cores.bar0 + 3 * core::STRIDE;
    let op = |op: u64, index: u64| core + core::SEMAPHORES + op * core::SEMAPHORE_OP + 4 * index;
    silicon.write32(0, op(1, 255), 7);
    silicon.write32(0, op(2, 255), 5);
    silicon.write32(0, op(3, 255), 13);
    assert_eq!(silicon.read32(0, op(0, 255)), u32::MAX);
    let mut word = [0; 4];
    let address = layout.cores.address + 3 * core::STRIDE + core::SEMAPHORES + 4 * 255;
    silicon.space().read(address, &mut word).expect("window");
    assert_eq!(word, [0xff; 4], "a mapping of the page shows the value");
}

#[test]
fn dma_copies_in_order_between_host_and_every_channel() {
    for id in [0x7164, 0x7364, 0x7565] {
        let (silicon, _, layout) = device(id);
        let host = layout.geometry.pci_host_base;
        let space = silicon.space();
        let (tx, rx, data, marker) = (host | 0x1000, host | 0x2000, host | 0x10000, host | 0x3000);
        let mut bytes = vec![0; 65536];
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = (i * 7 + (i >> 8)) as u8;
        }
        space.write(data, &bytes).expect("host");
        space.write(marker, &0xabcd_ef01_u32.to_le_bytes()).expect("host");
        let id = layout.geometry.engines - 2;
        let block = layout.engine_base(id).expect("engine") + engine::QUEUES;
        for (side, ring) in [(0, tx), (engine::RX, rx)] {
            silicon.write32(0, block + side + engine::RING_LO, ring as u32);
            silicon.write32(0, block + side + engine::RING_HI, (ring >> 32) as u32);
            silicon.write32(0, block + side + engine::RING_LEN, 32);
        }
        let descriptor = |ring: u64, i: u64, bytes: u32, address: u64| {
            space.write(ring + 16 * i, &bytes.to_le_bytes()).expect("ring");
            space.write(ring + 16 * i + 8, &address.to_le_bytes()).expect("ring");
        };
        let mut next = 0;
        for channel in layout.channels {
            let target = channel.address + 0x5000;
            for (bytes, from, to) in [(0x1_0000, data, target), (4, marker, marker + 8)] {
                descriptor(tx, next, bytes & 0xffff, from);
                descriptor(rx, next, bytes & 0xffff, to);
                next += 1;
            }
            silicon.write32(0, block + engine::TAIL_INC, 2);
            let mut copy = vec![0; 65536];
            space.read(target, &mut copy).expect("channel");
            assert_eq!(copy, bytes);
            let mut seen = [0; 4];
            space.read(marker + 8, &mut seen).expect("host");
            assert_eq!(u32::from_le_bytes(seen), 0xabcd_ef01);
            space.fill(marker + 8, 4, 0).expect("host");
            assert_eq!(events(&silicon), [What::DmaRun { engine: id, queue: 0, descriptors: 2, bytes: 65540, bad: 0 }]);
            assert_eq!(silicon.read32(4, channel.bar4 + 0x5004), u32::from_le_bytes([28, 35, 42, 49]));
        }
    }
}

/// Memory of another process that remembers the transfers, as (offset, bytes, to the device).
struct Far {
    bytes: RefCell<Vec<u8>>,
    transfers: RefCell<Vec<(u64, usize, bool)>>,
}

impl Remote for Far {
    fn fetch(&self, at: u64, to: Piece<'_>) -> bool {
        self.transfers.borrow_mut().push((at, to.len(), true));
        let bytes = self.bytes.borrow();
        let there = bytes.get(at as usize..at as usize + to.len());
        there.map(|there| to.write(there)).is_some()
    }

    fn store(&self, at: u64, from: Piece<'_>) -> bool {
        self.transfers.borrow_mut().push((at, from.len(), false));
        let mut bytes = self.bytes.borrow_mut();
        let there = bytes.get_mut(at as usize..at as usize + from.len());
        there.map(|there| from.read(there)).is_some()
    }
}

/// Neighbouring descriptors are one transfer, also over the end of the ring; what is behind the window is
/// reached only in the register access it is given with.
#[test]
fn dma_reaches_the_memory_of_another_process_for_one_doorbell() {
    for id in [0x7164, 0x7364, 0x7565] {
        let (silicon, _, layout) = device(id);
        let host = layout.geometry.pci_host_base;
        let space = silicon.space();
        let (tx, rx, marker) = (host | 0x1000, host | 0x2000, host | 0x3000);
        let block = layout.engine_base(0).expect("engine") + engine::QUEUES;
        for (side, ring) in [(0, tx), (engine::RX, rx)] {
            silicon.write32(0, block + side + engine::RING_LO, ring as u32);
            silicon.write32(0, block + side + engine::RING_HI, (ring >> 32) as u32);
            silicon.write32(0, block + side + engine::RING_LEN, 8);
        }
        let mut next = 0;
        let mut describe = |from: u64, to: u64, bytes: u32| {
            for (ring, address) in [(tx, from), (rx, to)] {
                space.write(ring + 16 * (next % 8), &(bytes & 0xffff).to_le_bytes()).expect("ring");
                space.write(ring + 16 * (next % 8) + 8, &address.to_le_bytes()).expect("ring");
            }
            next += 1;
        };
        let bytes: Vec<u8> = (0..0x2_8000).map(|i: u32| (i * 7 + (i >> 8)) as u8).collect();
        let far = Far { bytes: RefCell::new(bytes.clone()), transfers: RefCell::default() };
        let address = (1 << 40) + 0x123;
        let window = Window { address, bytes: bytes.len() as u64, memory: &far };
        let (client, target) = (host | address, layout.channels[1].address + 0x5003);

        // Three neighbours, the marker, one more.
        space.write(marker, &0xabcd_ef01_u32.to_le_bytes()).expect("host");
        describe(client, target, 0x1_0000);
        describe(client + 0x1_0000, target + 0x1_0000, 0x1_0000);
        describe(client + 0x2_0000, target + 0x2_0000, 0x7000);
        describe(marker, marker + 8, 4);
        describe(client + 0x2_7000, target + 0x2_7000, 0x1000);
        silicon.write32_with(0, block + engine::TAIL_INC, 5, window);
        assert_eq!(far.transfers.take(), [(0, 0x2_7000, true), (0x2_7000, 0x1000, true)]);
        let mut copy = vec![0; bytes.len()];
        space.read(target, &mut copy).expect("channel");
        assert!(copy == bytes);
        let mut seen = [0; 4];
        space.read(marker + 8, &mut seen).expect("host");
        assert_eq!(u32::from_le_bytes(seen), 0xabcd_ef01);

        // Back, in two parts that do not touch, over the end of the ring.
        far.bytes.borrow_mut().fill(0);
        describe(target, client, 0x1_0000);
        describe(target + 0x1_0000, client + 0x1_0000, 0x1_0000);
        describe(target + 1, client + 0x2_0000, 0x100);
        describe(target, client + 0x2_0200, 0x100);
        silicon.write32_with(0, block + engine::TAIL_INC, 4, window);
        let parts = [(0, 0x2_0000, false), (0x2_0000, 0x100, false), (0x2_0200, 0x100, false)];
        assert_eq!(far.transfers.take(), parts);
        assert!(far.bytes.borrow()[..0x2_0000] == bytes[..0x2_0000]);
        assert!(far.bytes.borrow()[0x2_0200..0x2_0300] == bytes[..0x100]);
        events(&silicon);

        // Some of it is not there; a range that leaves the window is no address at all; neither is the
        // window when it was not given.
        far.bytes.borrow_mut().truncate(0x1_8000);
        describe(client, target, 0x1_0000);
        describe(client + 0x1_0000, target + 0x1_0000, 0x1_0000);
        describe(client + 0x2_0000, target, 0x1_0000);
        silicon.write32_with(0, block + engine::TAIL_INC, 3, window);
        describe(client, target, 4);
        silicon.write32(0, block + engine::TAIL_INC, 1);
        let bad: Vec<_> =
            events(&silicon).into_iter().map(|e| matches!(e, What::DmaRun { bad, .. } if bad > 0)).collect();
        assert_eq!(bad, [true, true]);
        assert_eq!(far.transfers.take(), [(0, 0x2_0000, true)]);
    }
}

#[test]
fn descriptors_outside_the_device_are_counted_and_skipped() {
    let (silicon, _, layout) = device(0x7164);
    let block = layout.engine_base(0).expect("engine") + engine::QUEUES;
    for side in [0, engine::RX] {
        silicon.write32(0, block + side + engine::RING_LEN, 32);
    }
    let bad = 0x8_0000_0000_u64;
    silicon.space().write(8, &bad.to_le_bytes()).expect("channel 0");
    silicon.write32(0, block + engine::TAIL_INC, 1);
    assert_eq!(events(&silicon), [What::DmaRun { engine: 0, queue: 0, descriptors: 1, bytes: 65536, bad: 1 }]);
}

#[test]
fn a_queue_without_ring_and_a_stuck_engine_ignore_the_doorbell() {
    let (silicon, _, layout) = device(0x7564);
    let block = layout.engine_base(130).expect("engine") + engine::QUEUES + 15 * engine::QUEUE_STRIDE;
    silicon.write32(0, block + engine::TAIL_INC, 1);
    assert_eq!(events(&silicon), [What::DmaIgnored { engine: 130, queue: 15 }]);
}

#[test]
fn reads_behind_a_window_are_all_ones_and_writes_are_lost() {
    let (silicon, _, _) = device(0x7164);
    for (bar, offset) in [(0, 1 << 30), (4, 1 << 35), (2, 0), (0, u64::MAX), (4, u64::MAX)] {
        silicon.write32(bar, offset, 1);
        assert_eq!(silicon.read32(bar, offset), u32::MAX, "BAR {bar} {offset:#x}");
    }
}

/// Every fault there is, what a driver sees of it, and that it can be taken back at run time.
#[test]
fn faults_are_settable_and_take_effect_at_run_time() {
    for id in [0x7164, 0x7364, 0x7564] {
        let (silicon, clock, layout) = device(id);
        let base = layout.geometry.misc_ram;
        let read = |at| silicon.read32(0, base + at);
        let reset = || {
            silicon.write32(0, base + misc::RESET_TYPE, 1);
            silicon.write32(0, base + misc::TRIGGER, 1);
        };

        silicon.inject(Fault::NeverAck(true));
        reset();
        clock.0.fetch_add(1_000_000, Ordering::Relaxed);
        assert_eq!(read(misc::RESET_TYPE), 1, "no ack");
        silicon.inject(Fault::NeverAck(false));
        reset();
        assert_eq!(read(misc::RESET_TYPE), 0);

        silicon.inject(Fault::StatusStuck(true));
        assert_eq!([read(misc::STATUS), read(misc::STATUS)], [8, 8], "busy for ever");
        silicon.inject(Fault::StatusStuck(false));
        silicon.inject(Fault::StatusBusyReads(2));
        assert_eq!([read(misc::STATUS), read(misc::STATUS), read(misc::STATUS)], [8, 8, 0], "busy for two reads");
        silicon.inject(Fault::StatusBusyAfterAck(Duration::from_millis(350)));
        reset();
        assert_eq!(read(misc::RESET_TYPE), 0);
        let looks = [0, 349, 1].map(|millis| {
            clock.0.fetch_add(millis, Ordering::Relaxed);
            read(misc::STATUS)
        });
        assert_eq!(looks, [8, 8, 0], "busy after the acknowledgement");

        silicon.inject(Fault::RoutingId(0xffff_ffff));
        assert_eq!(read(misc::ROUTING_ID), 0xffff_ffff, "wrong routing id");

        silicon.inject(Fault::DeadRegisters(true));
        assert_eq!([read(misc::STATUS), read(misc::SERIAL_LO), silicon.read32(0, 0)], [0xdead_beef; 3]);
        silicon.inject(Fault::DeadRegisters(false));
        assert_eq!(read(misc::SERIAL_LO), 0x5566_7788);

        silicon.inject(Fault::MiscRegister { offset: misc::API_VERSION, value: 7 });
        assert_eq!(read(misc::API_VERSION), 7);

        for count in [3, 4] {
            silicon.inject(Fault::HbmUncorrectable { channel: 1, count });
        }
        assert_eq!(read(misc::ECC_HBM0 + 4) & 0xffff, 7, "uncorrectable memory errors add up");
        assert_eq!(read(misc::ECC_HBM0) & 0xffff, 0);

        let block = layout.engine_base(0).expect("engine") + engine::QUEUES;
        for side in [0, engine::RX] {
            silicon.write32(0, block + side + engine::RING_LEN, 32);
        }
        silicon.take_trace();
        silicon.inject(Fault::DmaStuck(true));
        silicon.write32(0, block + engine::TAIL_INC, 1);
        assert_eq!(events(&silicon), [What::DmaIgnored { engine: 0, queue: 0 }], "DMA stuck");
        silicon.inject(Fault::DmaStuck(false));
        silicon.write32(0, block + engine::TAIL_INC, 1);
        assert!(matches!(events(&silicon)[..], [What::DmaRun { descriptors: 1, .. }]));

        assert_ne!(silicon.config(|c| c.bar_size(4)), 0);
        silicon.inject(Fault::NoDramBar);
        assert_eq!(silicon.config(|c| (c.bar_size(4), c.bar_address(4))), (0, 0), "no DRAM BAR");
    }
}

#[test]
fn clear_takes_every_lasting_fault_back() {
    let (silicon, _, layout) = device(0x7164);
    let base = layout.geometry.misc_ram;
    for fault in [
        Fault::NeverAck(true),
        Fault::StatusStuck(true),
        Fault::StatusBusyReads(9),
        Fault::RoutingIdBusyReads(9),
        Fault::DmaStuck(true),
        Fault::MailboxSilent(true),
        Fault::DeadRegisters(true),
        Fault::AckHold(Duration::from_secs(9)),
    ] {
        silicon.inject(fault);
    }
    silicon.inject(Fault::Clear);
    silicon.write32(0, base + misc::RESET_TYPE, 2);
    silicon.write32(0, base + misc::TRIGGER, 1);
    let words = [misc::RESET_TYPE, misc::STATUS, misc::ROUTING_ID].map(|at| silicon.read32(0, base + at));
    assert_eq!(words, [0, 0, 0]);
}

#[test]
fn register_trace_is_off_until_it_is_asked_for_and_keeps_the_newest() {
    let (silicon, clock, _) = device(0x7164);
    silicon.write32(0, 0x2000_0000, 1);
    assert!(silicon.take_trace().0.is_empty());
    silicon.trace_registers(true);
    clock.0.store(5, Ordering::Relaxed);
    silicon.write32(0, 0x2000_0000, 2);
    silicon.read32(0, 0x2000_0000);
    let (seen, _) = silicon.take_trace();
    let seen: Vec<_> = seen.into_iter().map(|e| (e.at.as_millis(), e.what)).collect();
    assert_eq!(
        seen,
        [(5, What::Write { offset: 0x2000_0000, value: 2 }), (5, What::Read { offset: 0x2000_0000, value: 2 })]
    );
    let kept = neuron_hw::trace::Trace::CAPACITY as u32;
    for value in 0..kept + 10 {
        silicon.write32(0, 0x2000_0000, value);
    }
    let (seen, lost) = silicon.take_trace();
    assert_eq!((seen.len() as u32, lost), (kept, 10));
    assert_eq!(seen[0].what, What::Write { offset: 0x2000_0000, value: 10 });
}

#[test]
fn a_function_reset_forgets_what_the_driver_wrote_and_nothing_else() {
    for id in [0x7164, 0x7364, 0x7564] {
        let (silicon, clock, layout) = device(id);
        let base = layout.geometry.misc_ram;
        let queue = layout.engine_base(0).expect("an engine") + engine::QUEUES;
        silicon.inject(Fault::AckHold(Duration::from_millis(10)));
        silicon.inject(Fault::HbmUncorrectable { channel: 0, count: 3 });
        silicon.inject(Fault::RoutingId(5));
        silicon.space().write(0x1000, b"kept").expect("memory");
        silicon.config_write(neuron_hw::pci::offset::BAR0, &0xf8_0000_0000_u64.to_le_bytes());
        for word in misc::DRIVER_WORDS {
            silicon.write32(0, base + word, 1);
        }
        silicon.write32(0, queue + engine::RING_LEN, 16);
        silicon.function_reset();
        clock.0.store(10, Ordering::Relaxed);
        for word in misc::DRIVER_WORDS {
            assert_eq!(silicon.read32(0, base + word), 0, "{word:#x}");
        }
        assert_eq!((silicon.read32(0, queue + engine::RING_LEN), silicon.config(|c| c.bar_address(0))), (0, 0));
        assert_eq!(silicon.read32(0, base + misc::ROUTING_ID), 5);
        assert_eq!(silicon.read32(0, base + misc::ECC_HBM0), 3);
        let mut word = [0; 4];
        silicon.space().read(0x1000, &mut word).expect("memory");
        assert_eq!(&word, b"kept");
        // No acknowledgement of the request before the reset is left to come.
        silicon.write32(0, base + misc::RESET_TYPE, 1);
        assert_eq!(silicon.read32(0, base + misc::RESET_TYPE), 1);
    }
}
