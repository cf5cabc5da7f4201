//! A driver loaded on one emulated device in virtual time.
#![allow(dead_code)] // each test binary uses its part

use std::sync::Arc;
use std::time::Duration;

use neuron_abi::kernel::values::DeviceState;
use neuron_hw::trace::What;
use neuron_hw::{Fault, Host, Silicon, SiliconSpec};
use neuron_kmd::caller::Caller;
use neuron_kmd::device::Device;
use neuron_kmd::reset::{Submitted, WaitMode, Waited};
use neuron_kmd::sync::Task;
use neuron_kmd::time::{Clock, VirtualClock, sleep};
use neuron_kmd::{Driver, LoadConfig, Profile};

/// Trn1, Trn2 and Trn3.
pub const PRODUCTS: [u16; 3] = [0x7164, 0x7364, 0x7564];

pub struct Machine {
    pub clock: Arc<VirtualClock>,
    pub silicon: Arc<Silicon>,
    pub driver: Arc<Driver>,
    pub main: Arc<Task>,
}

impl Machine {
    pub fn new(product: u16) -> Self {
        Self::with(product, 1, &LoadConfig::default(), |_| {})
    }

    /// `before` sees the device before the driver does.
    pub fn with(product: u16, revision: u8, config: &LoadConfig, before: impl FnOnce(&Silicon)) -> Self {
        let clock = VirtualClock::new();
        let spec = SiliconSpec { revision, ..SiliconSpec::product(product).expect("modelled") };
        let silicon = Arc::new(Silicon::new(spec, Host::Ram(1 << 32), clock.clone()).expect("memory"));
        neuron_hw::pci::assign(std::slice::from_ref(&silicon));
        before(&silicon);
        let driver = Driver::load(config, std::slice::from_ref(&silicon), clock.clone()).expect("load");
        let machine = Self { clock, silicon, driver, main: Task::new() };
        machine.settle();
        machine
    }

    pub fn profile(product: u16, profile: Profile) -> Self {
        Self::with(product, 1, &LoadConfig { profile, ..Default::default() }, |_| {})
    }

    pub fn device(&self) -> Arc<Device> {
        self.driver.devices().pop().expect("the device was probed")
    }

    /// A device that has been through its first reset, with an empty trace.
    pub fn ready(self) -> Self {
        self.pass(1000);
        assert_eq!(self.device().state(), DeviceState::Ready);
        self.silicon.take_trace();
        self
    }

    pub fn pass(&self, millis: u64) {
        sleep(&*self.clock, &self.main, Duration::from_millis(millis));
    }

    pub fn settle(&self) {
        sleep(&*self.clock, &self.main, Duration::from_micros(1));
    }

    pub fn now(&self) -> Duration {
        neuron_hw::Clock::now(&*self.clock)
    }

    pub fn queue(&self, nc_map: u32, id: u32) {
        let device = self.device();
        assert_eq!(device.reset.submit(&*device, &self.main, nc_map, id), Submitted::Accepted);
    }

    pub fn wait(&self, id: u32) -> Waited {
        let device = self.device();
        device.reset.wait(&*device, &Caller::process(id, 0, false), id, WaitMode::Strict)
    }

    /// Submits, waits and says how long it took.
    pub fn reset(&self, nc_map: u32) -> (Waited, Duration) {
        let begun = self.now();
        self.queue(nc_map, 10);
        (self.wait(10), self.now() - begun)
    }

    /// Handshakes since the last call: seconds, kind and map word.
    pub fn handshakes(&self) -> Vec<(f64, u32, u32)> {
        let (events, lost) = self.silicon.take_trace();
        assert_eq!(lost, 0);
        let one = |e: neuron_hw::trace::Event| match e.what {
            What::Handshake { kind, map, .. } => Some((e.at.as_secs_f64(), kind, map)),
            _ => None,
        };
        events.into_iter().filter_map(one).collect()
    }

    /// Events since the last call.
    pub fn events(&self) -> Vec<(Duration, What)> {
        self.silicon.take_trace().0.into_iter().map(|e| (e.at, e.what)).collect()
    }

    pub fn inject(&self, fault: Fault) {
        self.silicon.inject(fault);
    }

    /// BAR 0 offset of a mailbox word.
    pub fn misc(&self, offset: u64) -> u64 {
        self.device().dhal.layout().geometry.misc_ram + offset
    }

    pub fn dynamic(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.clock.close();
    }
}
