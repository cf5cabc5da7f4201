//! Cost of the reset engine and of the way into the driver. `cargo bench -p neuron-kmd --bench reset`.
//!
//! The hardware of these resets accepts at once: what is measured is queueing, waking, driving and
//! reaping. How often the hardware was reset is counted and printed at the end, with the ratios.

#[path = "../../../benches/common/ratios.rs"]
mod ratios;

use std::hint::black_box;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput};
use neuron_abi::kernel::ioctl::{Op, row};
use neuron_abi::kernel::values::DeviceState;
use neuron_hw::pci::assign;
use neuron_hw::{Host, Silicon, SiliconSpec};
use neuron_kmd::caller::{Caller, NoMemory};
use neuron_kmd::driver::{Driver, LoadConfig};
use neuron_kmd::reset::{HandshakeError, Pause, ResetEngine, ResetEvent, ResetTarget, Submitted, WaitMode, Waited};
use neuron_kmd::time::RealClock;
use ratios::{Judge, ROUNDS, Ratios};

/// Requests of the coalesced case.
const MANY: u32 = 64;

/// Hardware that accepts at once, or when its gate is open.
#[derive(Default)]
struct Hardware {
    runs: AtomicU64,
    closed: Mutex<bool>,
    opened: Condvar,
}

impl Hardware {
    fn gate(&self, closed: bool) {
        *self.closed.lock().expect("gate") = closed;
        self.opened.notify_all();
    }
}

impl ResetTarget for Hardware {
    fn thread_name(&self) -> String {
        "nd0 reset".into()
    }

    fn no_reset(&self) -> bool {
        false
    }

    fn set_state(&self, _: DeviceState) {}

    fn teardown_core(&self, core: usize) {
        black_box(core);
    }

    fn initiate(&self, _: &Pause<'_>, _: u32) -> Result<(), HandshakeError> {
        self.runs.fetch_add(1, Ordering::Relaxed);
        drop(self.opened.wait_while(self.closed.lock().expect("gate"), |closed| *closed).expect("gate"));
        Ok(())
    }

    fn wait_for_completion(&self, _: &Pause<'_>) -> Result<(), HandshakeError> {
        Ok(())
    }

    fn reinit_dma(&self, _: &Pause<'_>, _: u32) -> Result<(), HandshakeError> {
        Ok(())
    }

    fn post_config(&self, _: &Pause<'_>, _: u32, _: bool, _: bool) -> Result<(), HandshakeError> {
        Ok(())
    }

    fn count_failure(&self) {}

    fn log(&self, event: ResetEvent) {
        black_box(event);
    }
}

struct Rig {
    engine: Arc<ResetEngine>,
    hardware: Arc<Hardware>,
    callers: Vec<Caller>,
}

impl Rig {
    fn new() -> Self {
        let engine = ResetEngine::new(RealClock::new());
        let hardware = Arc::new(Hardware::default());
        engine.start(hardware.clone());
        Self { engine, hardware, callers: (1..=MANY + 1).map(|id| Caller::process(id, 0, false)).collect() }
    }

    fn submit(&self, caller: &Caller) {
        let submitted = self.engine.submit(&*self.hardware, &caller.task, 1, caller.tgid);
        assert_eq!(submitted, Submitted::Accepted);
    }

    fn wait(&self, caller: &Caller) {
        let waited = self.engine.wait(&*self.hardware, caller, caller.tgid, WaitMode::Strict);
        assert_eq!(waited, Waited::Ok);
    }

    /// Starts a run, queues so many requests behind it, and returns how long it took until all of
    /// them were taken off after the first run was let go.
    fn behind_a_run(&self, requests: u32) -> Duration {
        let before = self.hardware.runs.load(Ordering::Relaxed);
        self.hardware.gate(true);
        self.submit(&self.callers[0]);
        while self.hardware.runs.load(Ordering::Relaxed) == before {
            std::thread::yield_now();
        }
        let behind = &self.callers[1..=requests as usize];
        behind.iter().for_each(|caller| self.submit(caller));
        let begun = Instant::now();
        self.hardware.gate(false);
        behind.iter().for_each(|caller| self.wait(caller));
        let took = begun.elapsed();
        self.wait(&self.callers[0]);
        took
    }

    /// Hardware runs of so many requests behind a run, without that one.
    fn runs_of(&self, requests: u32) -> u64 {
        let before = self.hardware.runs.load(Ordering::Relaxed);
        self.behind_a_run(requests);
        self.hardware.runs.load(Ordering::Relaxed) - before - 1
    }
}

#[inline(never)]
fn nothing(cmd: u32) -> i64 {
    i64::from(black_box(cmd))
}

fn main() -> ExitCode {
    let mut criterion = Criterion::default().configure_from_args();
    let rig = Rig::new();
    let mut group = criterion.benchmark_group("reset");
    group.throughput(Throughput::Elements(1));
    group.bench_function("submit and wait", |b| {
        b.iter(|| {
            rig.submit(&rig.callers[0]);
            rig.wait(&rig.callers[0]);
        });
    });
    for requests in [1, MANY] {
        group.throughput(Throughput::Elements(requests.into()));
        group.bench_function(format!("{requests} behind a run"), |b| {
            b.iter_custom(|turns| (0..turns).map(|_| rig.behind_a_run(requests)).sum());
        });
    }
    group.finish();

    let clock = RealClock::new();
    let spec = SiliconSpec::product(0x7364).expect("a modelled product");
    let bus = [Arc::new(Silicon::new(spec, Host::Ram(1 << 28), clock.clone()).expect("a device"))];
    assign(&bus);
    let driver = Driver::load(&LoadConfig::default(), &bus, clock).expect("a driver");
    let caller = Caller::process(1, 0, true);
    let file = driver.open(0, libc::O_RDWR, &caller).expect("open");
    // The one command that does nothing at all, so that what is left is the way to it: table,
    // gate and dispatch.
    let cmd = row(Op::DmaEngInit).cmd;
    let mut group = criterion.benchmark_group("ioctl");
    group.bench_function("empty function", |b| b.iter(|| nothing(black_box(cmd))));
    group.bench_function("dispatch", |b| b.iter(|| file.ioctl(&caller, &NoMemory, black_box(cmd), 0)));
    group.finish();
    criterion.final_summary();

    let mut ratios = Ratios::default();
    for (requests, name) in [(1, "reset_1_hardware_runs"), (MANY, "reset_64_hardware_runs")] {
        let runs = rig.runs_of(requests);
        assert_eq!(runs, 1, "they are one run");
        ratios.count(name, runs);
    }
    // Time until all requests are taken off, so the ratio is 64 where nothing is coalesced.
    let behind = |requests| rig.behind_a_run(requests).as_nanos() as f64;
    ratios.add("reset_64_coalesced_vs_1", None, ROUNDS, || behind(MANY), || behind(1));
    let dispatch = || drop(black_box(file.ioctl(&caller, &NoMemory, black_box(cmd), 0)));
    ratios.case("ioctl_dispatch_vs_empty_call", None, dispatch, || {
        nothing(black_box(cmd));
    });
    let pass = ratios.report();
    rig.engine.stop(&*rig.hardware);
    file.flush(&caller);
    drop(file);
    driver.unload();
    if pass { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
