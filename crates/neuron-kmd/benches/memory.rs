//! Cost of the model where it moves bytes or searches tables. `cargo bench -p neuron-kmd`.
//!
//! Absolute times say little on a shared machine, so the last lines give ratios, measured in turns
//! in the same run. The exit status is 1 when a limit is exceeded.

#[path = "../../../benches/common/ratios.rs"]
mod ratios;

use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;

use criterion::{Criterion, Throughput};
use neuron_abi::kernel::values::{MAX_CLAIMS, MemLocation};
use neuron_hw::pci::assign;
use neuron_hw::{Host, Silicon, SiliconSpec};
use neuron_kmd::cores::claims::{Claimed, CoreClaims};
use neuron_kmd::device::Device;
use neuron_kmd::dma::Span;
use neuron_kmd::driver::{Driver, LoadConfig};
use neuron_kmd::memory::{self, Chunk, Request};
use neuron_kmd::reply::Errno;
use neuron_kmd::time::RealClock;
use ratios::{Judge, Ratios};

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
}

/// A process that owns no core of a full table.
const SEEKER: u32 = 1000;

fn search(claims: &CoreClaims) -> Result<Claimed, Errno> {
    claims.mark(black_box(SEEKER), 1, 0, MAX_CLAIMS as u32 - 1)
}

fn main() -> ExitCode {
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
        b.iter(|| search(&claims));
    });
    criterion.final_summary();

    let mut ratios = Ratios::default();
    ratios.case("device_copy_1mib_vs_memcpy", Some(LIMIT), || rig.engine(), || rig.plain());
    // On an empty table the same search ends with its first step; what it found has to be given back.
    let free = CoreClaims::default();
    let first = || {
        assert!(search(&free).is_ok_and(|found| found.first.is_some()));
        free.release_process(SEEKER);
    };
    let whole = || assert!(search(&claims).is_ok_and(|found| found.first.is_none()));
    ratios.case("claim_search_512_vs_empty", None, whole, first);
    driver.unload();
    if ratios.report() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
