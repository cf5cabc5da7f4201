//! A host in virtual time for tests of the driver.
#![allow(dead_code)] // each test binary uses a part

use std::sync::Arc;

use neuron_abi::kernel::args::Wire;
use neuron_abi::kernel::ioctl::{Op, row};
use neuron_hw::pci::{Bdf, assign};
use neuron_hw::{Host, Silicon, SiliconSpec};
use neuron_kmd::caller::{Caller, UserMemory};
use neuron_kmd::cdev::File;
use neuron_kmd::driver::{Driver, LoadConfig};
use neuron_kmd::probe::Step;
use neuron_kmd::profile::Profile;
use neuron_kmd::reply::{Reply, Stop};
use neuron_kmd::sync::{Mutex, Task};
use neuron_kmd::time::{VirtualClock, sleep};

/// Devices on a bus, before and after the module is loaded.
pub struct Machine {
    pub clock: Arc<VirtualClock>,
    pub bus: Vec<Arc<Silicon>>,
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.clock.close();
    }
}

/// A product with its measured sizes; `change` adapts it.
pub fn spec(device: u16, change: impl FnOnce(&mut SiliconSpec)) -> SiliconSpec {
    let mut spec = SiliconSpec::product(device).expect("a modelled product");
    change(&mut spec);
    spec
}

impl Machine {
    /// A bus with these devices, every window at its place.
    pub fn new(specs: impl IntoIterator<Item = SiliconSpec>) -> Self {
        let machine = Self::unassigned(specs);
        assign(&machine.bus);
        machine
    }

    /// The same before firmware gave the windows a place.
    pub fn unassigned(specs: impl IntoIterator<Item = SiliconSpec>) -> Self {
        let clock = VirtualClock::new();
        let make = |(i, mut spec): (usize, SiliconSpec)| {
            spec.bdf = Bdf { slot: i as u8 + 1, ..Bdf::default() };
            Arc::new(Silicon::new(spec, Host::Ram(1 << 30), clock.clone()).expect("device"))
        };
        Self { bus: specs.into_iter().enumerate().map(make).collect(), clock }
    }

    pub fn load(&self, profile: Profile) -> Arc<Driver> {
        self.load_with(profile, "", None).expect("load")
    }

    pub fn load_with(&self, profile: Profile, params: &str, fail: Option<Step>) -> Result<Arc<Driver>, Stop> {
        let config = LoadConfig { profile, params: params.into(), ..LoadConfig::default() };
        Driver::load_failing(&config, &self.bus, self.clock.clone(), fail)
    }

    /// Lets this much time pass.
    pub fn pass(&self, time: std::time::Duration) {
        sleep(&*self.clock, &Task::new(), time);
    }
}

/// Memory of a test process: one page run.
pub struct Memory(Mutex<Vec<u8>>);

impl Memory {
    /// Address of its first byte.
    pub const BASE: u64 = 0x7000_0000;

    pub fn new(bytes: &[u8]) -> Self {
        let mut content = bytes.to_vec();
        content.resize(content.len().max(1).next_multiple_of(4096), 0);
        Self(Mutex::new(content))
    }

    pub fn bytes(&self, len: usize) -> Vec<u8> {
        self.0.lock()[..len].to_vec()
    }
}

impl UserMemory for Memory {
    fn read(&self, address: u64, data: &mut [u8]) -> usize {
        let content = self.0.lock();
        let inside = address.checked_sub(Self::BASE).filter(|at| *at < content.len() as u64);
        let done = inside.map_or(0, |at| data.len().min(content.len() - at as usize));
        if let Some(at) = inside {
            data[..done].copy_from_slice(&content[at as usize..at as usize + done]);
        }
        data.len() - done
    }

    fn write(&self, address: u64, data: &[u8]) -> usize {
        let mut content = self.0.lock();
        let inside = address.checked_sub(Self::BASE).filter(|at| *at < content.len() as u64);
        let done = inside.map_or(0, |at| data.len().min(content.len() - at as usize));
        if let Some(at) = inside {
            content[at as usize..at as usize + done].copy_from_slice(&data[..done]);
        }
        data.len() - done
    }
}

/// Makes a command with a struct argument; gives the result and the struct afterwards.
pub fn call<T: Wire>(file: &File, caller: &Caller, op: Op, value: T) -> (Reply, T) {
    let mut bytes = vec![0; T::SIZE];
    value.put(&mut bytes);
    let memory = Memory::new(&bytes);
    let reply = file.ioctl(caller, &memory, row(op).cmd, Memory::BASE);
    (reply, T::get(&memory.bytes(T::SIZE)))
}

/// A process of root.
pub fn process(tgid: u32) -> Caller {
    Caller::process(tgid, 0, true)
}

/// Opens a device for reading and writing once it is ready.
pub fn open(driver: &Arc<Driver>, index: u32, caller: &Caller) -> Arc<File> {
    driver.open(index, libc::O_RDWR, caller).expect("open")
}
