//! Resets down to the registers, in virtual time: handshake, deadlines, completion, maps.
//!
//! Ids in comments are statements of `docs/claims.tsv`.
#![cfg(not(feature = "shuttle"))]

#[path = "rig/machine.rs"]
mod machine;

use std::sync::Arc;
use std::time::Duration;

use machine::{Machine, PRODUCTS};
use neuron_abi::kernel::values::{DeviceState, NC_MAP_DEVICE};
use neuron_hw::regs::misc;
use neuron_hw::trace::What;
use neuron_hw::{Fault, Host, Silicon, SiliconSpec};
use neuron_kmd::dhal::{self, Dhal, ResetCx};
use neuron_kmd::env::Env;
use neuron_kmd::klog::Klog;
use neuron_kmd::params::Params;
use neuron_kmd::regs::Regs;
use neuron_kmd::reset::{HandshakeError, Pause, Record, ResetEngine, ResetEvent, ResetTarget, Waited};
use neuron_kmd::sync::Task;
use neuron_kmd::time::{VirtualClock, sleep};
use neuron_kmd::{LoadConfig, Profile};

/// A sleep lasts up to this much longer than asked for.
const TICK: Duration = Duration::from_millis(4);

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn deadline(product: u16) -> u64 {
    if product == 0x7164 { 120 } else { 480 }
}

/// C012 C106 C107 C110 C124 C128 C130: the words of a core reset in their order, on three
/// generations and three releases; only the newest has a high word.
#[test]
fn handshake_writes_map_type_and_doorbell_in_this_order() {
    for product in PRODUCTS {
        for profile in Profile::ALL {
            if product == 0x7564 && profile == Profile::V2_24_7 {
                continue;
            }
            let machine = Machine::profile(product, profile).ready();
            machine.silicon.trace_registers(true);
            assert_eq!(machine.reset(0b1).0, Waited::Ok);
            let base = machine.misc(0);
            let words: Vec<_> = machine
                .events()
                .into_iter()
                .filter_map(|(_, what)| match what {
                    What::Write { offset, value } if offset >= base && offset < base + misc::BYTES => {
                        Some(('w', offset - base, value))
                    }
                    What::Read { offset, value } if offset >= base && offset < base + misc::BYTES => {
                        Some(('r', offset - base, value))
                    }
                    _ => None,
                })
                .collect();
            let low = if product == 0x7164 { 0x701 } else { 0x1_0101 };
            let mut expected = vec![('w', misc::RESET_MAP, low)];
            if profile == Profile::V2_27_4 {
                expected.push(('w', misc::RESET_MAP_HI, 0));
            }
            expected.extend([
                ('w', misc::RESET_TYPE, 2),
                ('w', misc::TRIGGER, 1),
                ('r', misc::RESET_TYPE, 0),
                ('r', misc::STATUS, 0),
            ]);
            assert_eq!(words, expected, "{product:#x} {profile:?}");
        }
    }
}

/// C110: the first trigger comes before any pause; C111: the first look after one of 100 ms.
#[test]
fn handshake_triggers_at_once_and_looks_after_a_pause() {
    let machine = Machine::new(0x7164).ready();
    machine.silicon.trace_registers(true);
    let begun = machine.now();
    machine.reset(1);
    let (base, events) = (machine.misc(0), machine.events());
    let first = |wanted: &dyn Fn(&What) -> bool| events.iter().find(|e| wanted(&e.1)).expect("event").0 - begun;
    assert_eq!(first(&|w| matches!(w, What::Handshake { .. })), Duration::ZERO);
    let look = first(&|w| matches!(w, What::Read { offset, .. } if *offset == base + misc::RESET_TYPE));
    assert!((Duration::from_millis(100)..=Duration::from_millis(100) + TICK).contains(&look), "{look:?}");
}

/// C013 C116 C117 C118 C121: the deadline counts from the first trigger, adds to the device
/// metric and, through the failed run, to the counter of every core.
#[test]
fn deadline_is_120_or_480_seconds_from_the_first_trigger() {
    for product in PRODUCTS {
        for (map, again) in [(1, 10), (NC_MAP_DEVICE, 30)] {
            let machine = Machine::new(product).ready();
            machine.inject(Fault::NeverAck(true));
            let (waited, took) = machine.reset(map);
            let limit = deadline(product);
            assert_eq!(waited, Waited::Failed);
            assert!((secs(limit)..secs(limit) + Duration::from_millis(110)).contains(&took), "{took:?}");
            // Each re-issue drifts by the poll it falls into, so the last one would be too late.
            assert_eq!(machine.handshakes().len() as u64, limit / again, "{product:#x} {map:#x}");
            let device = machine.device();
            assert_eq!(device.reset_record.deadlines(), 1);
            let counted: Vec<_> =
                (0..device.dhal.core_count() as usize).map(|core| device.metrics.reset_failures(core).total).collect();
            assert!(counted.iter().all(|n| *n == 1), "{counted:?}");
            assert_eq!(device.state(), DeviceState::Ready);
        }
    }
    let timing = |product| Machine::new(product).device().dhal.reset_timing().initiate;
    assert_eq!(PRODUCTS.map(timing), [secs(120), secs(480), secs(480)]);
}

/// C109 C115 (measured: golden 39): the same words again every 10 s for cores, 30 s for a device.
#[test]
fn re_issue_repeats_the_same_words_at_its_interval() {
    for (map, kind, interval) in [(0b11, 2, 10.0), (NC_MAP_DEVICE, 1, 30.0)] {
        let machine = Machine::new(0x7164).ready();
        machine.inject(Fault::NeverAck(true));
        machine.reset(map);
        let seen = machine.handshakes();
        for pair in seen.windows(2) {
            let apart = pair[1].0 - pair[0].0;
            assert!((interval..interval + 0.11).contains(&apart), "{apart}");
            assert_eq!((pair[0].1, pair[0].2), (pair[1].1, pair[1].2));
        }
        assert_eq!(seen[0].1, kind);
        if kind == 2 {
            assert_eq!(seen[0].2, 0x3f03);
        }
    }
}

/// C114: an acknowledgement that is there at the look where a re-issue is due wins.
#[test]
fn re_issue_comes_after_the_look_for_an_acknowledgement() {
    let machine = Machine::new(0x7164).ready();
    machine.inject(Fault::NeverAck(true));
    machine.reset(1);
    let seen = machine.handshakes();
    let due = seen[1].0 - seen[0].0;
    // Due between the look before the second trigger and that trigger.
    machine.inject(Fault::Clear);
    machine.inject(Fault::AckHold(Duration::from_secs_f64(due - 0.01)));
    assert_eq!(machine.reset(1).0, Waited::Ok);
    assert_eq!(machine.handshakes().len(), 1);
}

/// C113: the time to the acknowledgement goes to the metrics, once.
#[test]
fn acknowledgement_time_is_recorded_once() {
    let machine = Machine::new(0x7364).ready();
    let before = machine.device().reset_record.accepted_count();
    machine.inject(Fault::AckHold(secs(3)));
    machine.reset(1);
    let record = &machine.device().reset_record;
    assert_eq!(record.accepted_count(), before + 1);
    let took = record.last_accepted().expect("one");
    assert!((secs(3)..secs(3) + Duration::from_millis(110)).contains(&took), "{took:?}");
    assert_eq!(record.deadlines(), 0);
}

/// C122 C126 (measured: golden 38, 41): five looks, a pause that grows by 100 ms after each, also
/// after the last; bit 8 set means busy.
#[test]
fn completion_backs_off_between_five_looks() {
    for product in PRODUCTS {
        let machine = Machine::new(product).ready();
        machine.inject(Fault::StatusStuck(true));
        let (waited, took) = machine.reset(1);
        assert_eq!(waited, Waited::Failed);
        let looks: Vec<_> =
            machine.events().into_iter().filter_map(|(at, w)| matches!(w, What::Status(8)).then_some(at)).collect();
        let steps: Vec<_> = looks.windows(2).map(|w| (w[1] - w[0]).as_millis() / 100).collect();
        assert_eq!(steps, [0, 1, 2, 3]);
        let all = took - Duration::from_millis(100);
        assert!((secs(1)..secs(1) + 6 * TICK).contains(&all), "{all:?}");
        let device = machine.device();
        assert_eq!(device.reset_record.deadlines(), 0, "the device metric is the handshake's");
        assert_eq!(device.metrics.reset_failures(0).total, 1);
    }
}

/// C107: busy for some looks is no failure.
#[test]
fn completion_succeeds_at_the_first_look_that_is_not_busy() {
    for (busy, expected) in [(4, Waited::Ok), (5, Waited::Failed)] {
        let machine = Machine::new(0x7164).ready();
        machine.inject(Fault::StatusBusyReads(busy));
        assert_eq!(machine.reset(1).0, expected, "{busy} busy looks");
    }
}

/// C123 C125: an emulator gets a thousand times the looks; the one of the fourth generation is not
/// reset at all.
#[test]
fn completion_has_5000_looks_on_an_emulator() {
    for product in [0x7164, 0x7364] {
        let machine = Machine::with(product, 240, &LoadConfig::default(), |_| {}).ready();
        machine.inject(Fault::StatusStuck(true));
        assert_eq!(machine.reset(1).0, Waited::Failed);
        let looks = machine.events().into_iter().filter(|(_, w)| matches!(w, What::Status(_))).count();
        assert_eq!(looks, 5000, "{product:#x}");
    }
    let machine = Machine::with(0x7564, 240, &LoadConfig::default(), |_| {}).ready();
    assert!(machine.handshakes().is_empty());
    assert_eq!(machine.driver.env().params.get("no_reset"), Some(1));
    assert_eq!(machine.reset(1), (Waited::Ok, Duration::ZERO));
}

/// A dead register is read again for 15 s, from 2.25.4 on for 30 s, and then counts as "not yet";
/// the deadline still holds.
#[test]
fn dead_register_waits_are_15_or_30_seconds_long() {
    for (profile, patience) in [(Profile::V2_24_7, 15), (Profile::V2_27_4, 30)] {
        let machine = Machine::profile(0x7164, profile).ready();
        machine.inject(Fault::DeadRegisters(true));
        machine.queue(1, 10);
        machine.pass(patience * 1000 - 500);
        assert_eq!(machine.handshakes().len(), 1, "no second trigger while a look is under way");
        machine.pass(1000);
        assert_eq!(machine.handshakes().len(), 1, "the interval was over long ago");
        machine.inject(Fault::DeadRegisters(false));
        machine.pass(1000);
        assert_eq!(machine.wait(10), Waited::Ok);
        // In the completion wait a dead word is one look.
        machine.inject(Fault::DeadRegisters(true));
        let (waited, took) = machine.reset(1);
        assert_eq!(waited, Waited::Failed);
        assert!(took >= secs(120) && took < secs(120 + patience + 1), "{took:?}");
    }
}

/// C133: TopSPs of the second generation come in triplets; C059: eight cores are looked at.
#[test]
fn map_words_are_those_of_the_generation() {
    let machine = Machine::new(0x7164);
    let device = machine.device();
    let word = |map| device.dhal.reset_map(machine.driver.env(), map);
    assert_eq!(word(0b01), (0x701, 0));
    assert_eq!(word(0b10), (0x3802, 0));
    assert_eq!(word(0b11), (0x3f03, 0));
    // Measured: core 7, which the part does not have, loses the top of its triplet.
    assert_eq!(word(0x80), (0xe000_0080, 0));
    assert_eq!(word(0xffff_ff00), (0, 0));
    assert_eq!(word(NC_MAP_DEVICE), (0, 0));
    for product in [0x7364, 0x7564] {
        let machine = Machine::new(product);
        let device = machine.device();
        for map in 0..=0xff_u32 {
            let low = map | map << 8 | map << 16;
            assert_eq!(device.dhal.reset_map(machine.driver.env(), map), (low, 0));
        }
        assert_eq!(device.dhal.reset_map(machine.driver.env(), NC_MAP_DEVICE), (0, 0));
    }
}

/// C128 C130: the high word names pairs of cores, under `reset_top_dma` only, and reaches the
/// firmware.
#[test]
fn map_high_word_follows_reset_top_dma() {
    let config = LoadConfig { params: "reset_top_dma=1".into(), ..Default::default() };
    for product in [0x7364, 0x7564] {
        let machine = Machine::with(product, 1, &config, |_| {}).ready();
        let device = machine.device();
        let high = |map| device.dhal.reset_map(machine.driver.env(), map).1;
        let table = [(0b11, 1), (0b1, 0), (0b110, 0), (0b1100, 2), (0xff, 0xf), (0xf0, 0xc), (NC_MAP_DEVICE, 0)];
        for (map, expected) in table {
            assert_eq!(high(map), expected, "{map:#x}");
        }
        machine.reset(0xf0);
        assert_eq!(machine.silicon.read32(0, machine.misc(misc::RESET_MAP_HI)), 0xc);
        assert_eq!(machine.silicon.read32(0, machine.misc(misc::RESET_MAP)), 0x00f0_f0f0);
    }
    let old = LoadConfig { profile: Profile::V2_26_5, ..config };
    let machine = Machine::with(0x7364, 1, &old, |_| {});
    assert_eq!(machine.device().dhal.reset_map(machine.driver.env(), 0xff).1, 0, "the parameter is new in 2.27");
}

/// A generation's callbacks on a bare register window, without a driver.
struct Bare {
    dhal: Arc<dyn Dhal>,
    regs: Regs,
    env: Env,
    record: Record,
}

impl Bare {
    fn cx<'a>(&'a self, pause: &'a Pause<'a>) -> ResetCx<'a> {
        ResetCx { regs: &self.regs, env: &self.env, pause, revision: 255, record: &self.record }
    }
}

impl ResetTarget for Bare {
    fn thread_name(&self) -> String {
        "bare".into()
    }

    fn no_reset(&self) -> bool {
        false
    }

    fn set_state(&self, _: DeviceState) {}

    fn teardown_core(&self, _: usize) {}

    fn initiate(&self, pause: &Pause<'_>, nc_map: u32) -> Result<(), HandshakeError> {
        self.dhal.initiate_reset(&self.cx(pause), nc_map)
    }

    fn wait_for_completion(&self, pause: &Pause<'_>) -> Result<(), HandshakeError> {
        self.dhal.wait_for_reset(&self.cx(pause))
    }

    fn reinit_dma(&self, _: &Pause<'_>, _: u32) -> Result<(), HandshakeError> {
        Ok(())
    }

    fn post_config(&self, _: &Pause<'_>, _: u32, _: bool, _: bool) -> Result<(), HandshakeError> {
        Ok(())
    }

    fn count_failure(&self) {}

    fn log(&self, _: ResetEvent) {}
}

/// Doorbell writes and handshakes of a core reset under the virtual machine model of a
/// generation, and the time it took once the doorbell was cleared.
fn under_qemu(product: u16, doorbell: u64) -> (Vec<u32>, usize, Duration) {
    let clock = VirtualClock::new();
    let spec = SiliconSpec::product(product).expect("modelled");
    let silicon = Arc::new(Silicon::new(spec, Host::Ram(1 << 30), clock.clone()).expect("memory"));
    let profile = Profile::default();
    let env = Env {
        profile,
        params: Params::parse(profile, "").expect("empty"),
        product: String::new(),
        clock: clock.clone(),
        log: Klog::default(),
    };
    let arch = neuron_abi::kernel::pci::IDS.iter().find(|i| i.device == product).expect("known").arch;
    let dhal = dhal::select(arch, 255, &env).expect("modelled");
    let regs = Regs::new(silicon.clone(), 0, dhal.layout());
    let bare = Arc::new(Bare { dhal, regs, env, record: Record::default() });
    let engine = ResetEngine::new(clock.clone());
    engine.start(bare.clone());
    silicon.trace_registers(true);
    let task = Task::new();
    engine.submit(&*bare, &task, 0b1, 10);
    sleep(&*clock, &task, secs(7));
    assert_eq!(engine.lengths(), (1, 0), "it waits for the doorbell");
    silicon.write32(0, doorbell, 0);
    let cleared = neuron_hw::Clock::now(&*clock);
    while engine.lengths().1 == 0 {
        sleep(&*clock, &task, Duration::from_millis(10));
    }
    let took = neuron_hw::Clock::now(&*clock) - cleared;
    let events = silicon.take_trace().0;
    let rung = events.iter().filter_map(|e| match e.what {
        What::Write { offset, value } if offset == doorbell && value != 0 => Some(value),
        _ => None,
    });
    let handshakes = events.iter().filter(|e| matches!(e.what, What::Handshake { .. })).count();
    let result = (rung.collect(), handshakes, took);
    engine.stop(&*bare);
    clock.close();
    result
}

/// C011 C124 C129 C134: under a virtual machine the second generation rings its own doorbell before the
/// handshake; the later ones write the low map word there and make no handshake. The doorbell is
/// read every two seconds until it is 0.
#[test]
fn qemu_revision_rings_a_doorbell_of_its_own() {
    for (product, doorbell, word, handshakes) in
        [(0x7164, 0x3065_7010, 1, 1), (0x7364, 0x0630_0010, 0x1_0101, 0), (0x7564, 0x0630_0010, 0x1_0101, 0)]
    {
        let (rung, made, took) = under_qemu(product, doorbell);
        assert_eq!((rung, made), (vec![word], handshakes), "{product:#x}");
        assert!(took <= secs(2) + TICK, "{took:?}");
    }
}
