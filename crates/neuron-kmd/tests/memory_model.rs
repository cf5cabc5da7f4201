//! Pools and handles against a simple model: a list of page states per channel and a stack of
//! handles.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{Machine, spec};
use neuron_abi::kernel::values::{MemCategory, MemLifespan, MemLocation};
use neuron_kmd::Profile;
use neuron_kmd::memory::{self, Chunk, PAGE, Request};
use neuron_kmd::reply::Errno;
use proptest::prelude::*;

/// Pages of a channel of the test device, of which the top ones are the small pool.
const PAGES: usize = 16_384;
const SMALL: usize = (PAGES - RESERVED) / 2;
const MAIN: usize = PAGES - SMALL;
const RESERVED: usize = 4096;

/// Pages of a request that prefers the small pool.
const SMALL_MAX: u64 = 524_288 / PAGE;

struct Channel {
    used: Vec<bool>,
    scratchpad: usize,
}

impl Channel {
    fn new() -> Self {
        Self { used: (0..PAGES).map(|page| page < RESERVED).collect(), scratchpad: 0 }
    }

    /// Lowest aligned run between two pages; the alignment is a power of two of pages.
    fn run(&self, from: usize, to: usize, pages: usize, align: usize) -> Option<usize> {
        (from..to).step_by(align.max(1)).find(|at| at + pages <= to && !self.used[*at..at + pages].contains(&true))
    }

    fn place(&self, pages: usize, align: usize, scratchpad: bool) -> Option<usize> {
        if scratchpad {
            let at = MAIN.checked_sub(self.scratchpad)?.checked_sub(pages)?;
            return (!self.used[at..at + pages].contains(&true)).then_some(at);
        }
        let (main, small) = (|| self.run(0, MAIN, pages, align), || self.run(MAIN, PAGES, pages, align));
        if pages as u64 <= SMALL_MAX { small().or_else(main) } else { main().or_else(small) }
    }
}

#[derive(Default)]
struct Handles {
    next: u64,
    freed: Vec<u64>,
}

impl Handles {
    fn give(&mut self) -> u64 {
        self.freed.pop().unwrap_or_else(|| {
            self.next += 1;
            self.next
        })
    }
}

#[derive(Clone, Debug)]
enum Step {
    Alloc { channel: u32, bytes: u64, align: u32, scratchpad: bool, host: bool },
    Free(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let bytes = prop_oneof![1..20_000_u64, 500_000..550_000_u64, 1_000_000..9_000_000_u64, Just(0), Just(1 << 40),];
    let align = prop_oneof![Just(0), Just(13), Just(16), Just(20)];
    let alloc = (0..5_u32, bytes, align, prop::bool::weighted(0.2), prop::bool::weighted(0.2));
    let alloc = alloc.prop_map(|(channel, bytes, align, scratchpad, host)| Step::Alloc {
        channel,
        bytes,
        align: if align == 0 || host { 0 } else { 1 << align },
        scratchpad: scratchpad && !host,
        host,
    });
    prop::collection::vec(
        prop_oneof![3 => alloc, 2 => any::<prop::sample::Index>().prop_map(|i| Step::Free(i.index(64)))],
        1..120,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn placement_and_handles_are_those_of_the_model(steps in steps()) {
        let machine = Machine::new([spec(0x7364, |s| s.channel_bytes = (PAGES as u64) * PAGE)]);
        let driver = machine.load(Profile::V2_27_4);
        machine.pass(Duration::from_secs(5));
        let device = driver.device(0).expect("device");
        let bases: Vec<u64> = device.dhal.layout().channels.iter().map(|c| c.address).collect();
        let mut channels: Vec<_> = bases.iter().map(|_| Channel::new()).collect();
        let mut handles = Handles::default();
        let mut live: Vec<(Arc<Chunk>, u64)> = Vec::new();
        for step in steps {
            match step {
                Step::Free(i) if i < live.len() => {
                    let (chunk, handle) = live.remove(i);
                    if !chunk.is_host() {
                        let channel = &mut channels[chunk.channel as usize];
                        let (at, pages) = ((chunk.address - bases[chunk.channel as usize]) / PAGE, chunk.bytes / PAGE);
                        channel.used[at as usize..(at + pages) as usize].fill(false);
                        channel.scratchpad -= if chunk.is_scratchpad() { pages as usize } else { 0 };
                    }
                    memory::free(&device, &chunk).expect("free");
                    prop_assert!(device.memory.chunk(handle).is_none());
                    handles.freed.push(handle);
                }
                Step::Free(_) => {}
                Step::Alloc { channel, bytes, align, scratchpad, host } => {
                    let category = scratchpad.then_some(MemCategory::ContiguousScratchpadDevice);
                    let location = if host { MemLocation::Host } else { MemLocation::Device };
                    let (core, lifespan, owner) = (0, MemLifespan::CurProcess, 1);
                    let request = Request { bytes, align: align.into(), location, channel, core, category, lifespan, owner };
                    let given = memory::alloc(&device, &request);
                    let pages = bytes.div_ceil(PAGE) as usize;
                    if channel as usize >= channels.len() {
                        prop_assert_eq!(given.map(|_| ()), Err(Errno::EINVAL));
                        continue;
                    }
                    if host {
                        prop_assert_eq!(given.is_ok(), (1..=1024).contains(&pages));
                    } else {
                        let model = &mut channels[channel as usize];
                        let align = (align as usize / PAGE as usize).max(1);
                        let place = (1..=PAGES).contains(&pages).then(|| model.place(pages, align, scratchpad)).flatten();
                        let address = place.map(|at| bases[channel as usize] + at as u64 * PAGE);
                        prop_assert_eq!(given.as_ref().map(|c| c.address).map_err(|e| *e), address.ok_or(Errno::ENOMEM));
                        if let Some(at) = place {
                            model.used[at..at + pages].fill(true);
                            model.scratchpad += if scratchpad { pages } else { 0 };
                        }
                    }
                    if let Ok(chunk) = given {
                        prop_assert_eq!(chunk.bytes, pages as u64 * PAGE);
                        let handle = device.memory.handle(&chunk).expect("a handle");
                        prop_assert_eq!(handle, handles.give());
                        prop_assert_eq!(device.memory.handle(&chunk), Ok(handle), "a chunk has one handle");
                        live.push((chunk, handle));
                    }
                }
            }
            device.check_invariants();
            for (chunk, handle) in &live {
                let found = device.memory.chunk(*handle);
                prop_assert!(found.is_some_and(|c| Arc::ptr_eq(&c, chunk)));
                let inside = device.memory.at(chunk.end() - 1);
                prop_assert!(inside.is_some_and(|c| Arc::ptr_eq(&c, chunk)));
            }
        }
    }
}
