//! Cost of the model where it moves bytes or searches tables. `cargo bench -p neuron-kmd`.
//!
//! Absolute times say little on a shared machine, so the last lines give the ratio of a copy
//! through the DMA model to a plain one, measured in turns in the same run.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput};
use neuron_abi::kernel::values::{MAX_CLAIMS, MemLocation};
use neuron_hw::pci::assign;
use neuron_hw::{Host, Silicon, SiliconSpec};
use neuron_kmd::cores::claims::CoreClaims;
use neuron_kmd::device::Device;
use neuron_kmd::dma::Span;
use neuron_kmd::driver::{Driver, LoadConfig};
use neuron_kmd::memory::{self, Chunk, Request};
use neuron_kmd::time::RealClock;

const BYTES: u64 = 1 << 20;

/// Most a copy through the model may cost, as a multiple of a plain one.
const LIMIT: f64 = 1.5;

struct Rig {
    device: Arc<Device>,
    from: Arc<Chunk>,
    to: Arc<Chunk>,
}

impl Rig {
    fn new() -> (Arc<Driver>, Self) {
        let clock = RealClock::new();
        let spec = SiliconSpec::product(0x7364).expect("a modelled product");
        let bus = [Arc::new(Silicon::new(spec, Host::Ram(1 << 28), clock.clone()).expect("a device"))];
        assign(&bus);
        let driver = Driver::load(&LoadConfig::default(), &bus, clock).expect("a driver");
        let device = driver.device(0).expect("the device");
        let chunk = || memory::alloc(&device, &Request::driver(MemLocation::Device, BYTES, 0)).expect("room");
        let (from, to) = (chunk(), chunk());
        // Every page is there and none is zero, so that neither side meets a page fault.
        let bytes: Vec<u8> = (0..BYTES).map(|i| (i * 7 + 1) as u8 | 1).collect();
        for chunk in [&from, &to] {
            device.silicon.space().write(chunk.address, &bytes).expect("device memory");
        }
        (driver, Self { device, from, to })
    }

    fn engine(&self) {
        let span = Span { from: self.from.address, to: self.to.address, bytes: BYTES };
        self.device.own().copies.copy(&self.device, span).expect("a copy");
    }

    fn plain(&self) {
        let space = self.device.silicon.space();
        let at = |chunk: &Chunk| space.slice(chunk.address, BYTES).expect("device memory").as_ptr();
        // SAFETY: `slice` vouched for both ranges, which are two chunks and do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(at(&self.from), at(&self.to), BYTES as usize) };
    }

    /// Best of many turns: copies through the model and plain ones, one after the other.
    fn ratio(&self) -> f64 {
        let time = |work: &dyn Fn()| {
            let begun = Instant::now();
            (0..16).for_each(|_| work());
            begun.elapsed()
        };
        let (mut model, mut plain) = (Duration::MAX, Duration::MAX);
        for _ in 0..200 {
            model = model.min(time(&|| self.engine()));
            plain = plain.min(time(&|| self.plain()));
        }
        model.as_secs_f64() / plain.as_secs_f64()
    }
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let (driver, rig) = Rig::new();
    let mut group = criterion.benchmark_group("copy 1 MiB in device memory");
    group.throughput(Throughput::Bytes(BYTES));
    group.bench_function("memcpy", |b| b.iter(|| rig.plain()));
    group.bench_function("dma model", |b| b.iter(|| rig.engine()));
    group.finish();

    let claims = CoreClaims::default();
    for owner in 0..MAX_CLAIMS as u32 {
        claims.mark(owner + 1, 1, 0, MAX_CLAIMS as u32 - 1).expect("a free core");
    }
    criterion.bench_function("claim search on a full table", |b| {
        b.iter(|| claims.mark(black_box(1000), 1, 0, MAX_CLAIMS as u32 - 1));
    });
    criterion.final_summary();

    let ratio = rig.ratio();
    let verdict = if ratio <= LIMIT { "ok" } else { "too slow" };
    println!("copy of 1 MiB, dma model / memcpy: {ratio:.2} (limit {LIMIT}) {verdict}");
    driver.unload();
    if ratio > LIMIT {
        std::process::exit(1);
    }
}
