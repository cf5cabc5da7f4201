//! Hostile callers: random sequences of entries from several processes, made from bytes.
//!
//! [`run`] is what a fuzz target calls; `tests/hostile.rs` calls it with random bytes and uses
//! [`Host`] for systematic bad input. A run ends with the bytes. It fails by panicking: an
//! invariant of the driver does not hold, or something else in it panics.
//!
//! Time is virtual, and a process whose call does not come back is killed after
//! [`PATIENCE`]: then its files are closed and another takes its place.

use std::sync::Arc;
use std::time::Duration;

use neuron_abi::kernel::args::StructInfo;
use neuron_abi::kernel::ioctl::{Encoding, IOCTLS, Ioctl};
use neuron_hw::pci::{self, Bdf};
use neuron_hw::{Fault, Host as HostMemory, Silicon, SiliconSpec};
use parking_lot::Mutex;

use crate::caller::{Caller, Descriptors, UserMemory};
use crate::cdev::File;
use crate::driver::{Driver, LoadConfig};
use crate::memory::PAGE;
use crate::memory::dmabuf::DmaBuf;
use crate::memory::mmap::MmapRequest;
use crate::profile::Profile;
use crate::reply::{Reply, Stop};
use crate::sync::{Task, signal};
use crate::time::{Clock, VirtualClock, sleep};

/// Virtual time after which a call counts as stuck. Longer than every deadline of the driver.
pub const PATIENCE: Duration = Duration::from_secs(3600);

/// First address of the memory of a process.
pub const AREA: u64 = 0x7000_0000_0000;

/// Bytes of it.
pub const AREA_BYTES: usize = 0x2_0000;

/// A write that a driver attempted: address and length.
pub type Attempt = (u64, usize);

/// The only memory of a process: one range. Everything else faults. Remembers what the driver
/// tried to write, inside and outside.
#[derive(Debug)]
pub struct Area {
    bytes: Mutex<Vec<u8>>,
    attempts: Mutex<Vec<Attempt>>,
}

impl Default for Area {
    fn default() -> Self {
        Self { bytes: Mutex::new(vec![0; AREA_BYTES]), attempts: Mutex::default() }
    }
}

impl Area {
    /// Puts bytes at an address inside the area; the rest is cut off.
    pub fn put(&self, address: u64, data: &[u8]) {
        let at = (address - AREA) as usize;
        let mut bytes = self.bytes.lock();
        let room = data.len().min(bytes.len().saturating_sub(at));
        bytes[at..at + room].copy_from_slice(&data[..room]);
    }

    /// All bytes.
    pub fn image(&self) -> Vec<u8> {
        self.bytes.lock().clone()
    }

    /// Takes what the driver tried to write.
    pub fn take_attempts(&self) -> Vec<Attempt> {
        std::mem::take(&mut self.attempts.lock())
    }

    /// Start of a range in the area, and how much of it is there.
    fn part(address: u64, bytes: usize) -> (usize, usize) {
        match address.checked_sub(AREA).filter(|at| *at < AREA_BYTES as u64) {
            Some(at) => (at as usize, bytes.min(AREA_BYTES - at as usize)),
            None => (0, 0),
        }
    }
}

impl UserMemory for Area {
    fn read(&self, address: u64, data: &mut [u8]) -> usize {
        let (at, there) = Self::part(address, data.len());
        data[..there].copy_from_slice(&self.bytes.lock()[at..at + there]);
        data.len() - there
    }

    fn write(&self, address: u64, data: &[u8]) -> usize {
        self.attempts.lock().push((address, data.len()));
        let (at, there) = Self::part(address, data.len());
        self.bytes.lock()[at..at + there].copy_from_slice(&data[..there]);
        data.len() - there
    }
}

/// Buffers exported to one process.
#[derive(Debug, Default)]
struct Table(Mutex<Vec<DmaBuf>>);

impl Descriptors for Table {
    fn install(&self, buffer: DmaBuf) -> Option<i32> {
        let mut table = self.0.lock();
        if table.len() == 8 {
            return None;
        }
        table.push(buffer);
        Some(table.len() as i32 + 2)
    }
}

/// One process.
pub struct Actor {
    /// Identity of its calls.
    pub caller: Caller,
    /// Its memory.
    pub memory: Arc<Area>,
    /// Open files; a forked child has those of its parent.
    pub files: Vec<Arc<File>>,
}

/// A loaded driver with a few processes.
pub struct Host {
    /// Time.
    pub clock: Arc<VirtualClock>,
    /// The driver.
    pub driver: Arc<Driver>,
    /// Its device.
    pub silicon: Arc<Silicon>,
    /// The processes.
    pub actors: Vec<Actor>,
    /// What happened so far.
    pub summary: Summary,
    current: Arc<Mutex<Option<Arc<Task>>>>,
    next_tgid: u32,
}

/// What became of the entries of a scenario.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Entries made.
    pub calls: u32,
    /// Those that succeeded.
    pub succeeded: u32,
    /// Those their process died of.
    pub died: u32,
}

impl Host {
    /// Loads a driver of this release on one device of this product, with small memory.
    ///
    /// # Panics
    /// When the product is not modelled or the system cannot give the memory.
    pub fn new(profile: Profile, product: u16) -> Self {
        let clock = VirtualClock::new();
        let spec = SiliconSpec::product(product).expect("a modelled product");
        let spec = SiliconSpec { channel_bytes: 64 << 20, bdf: Bdf { slot: 1, ..Bdf::default() }, ..spec };
        let silicon = Silicon::new(spec, HostMemory::Ram(64 << 20), clock.clone()).expect("a device");
        let bus = [Arc::new(silicon)];
        pci::assign(&bus);
        let config = LoadConfig { profile, ..LoadConfig::default() };
        let driver = Driver::load(&config, &bus, clock.clone()).expect("a driver");
        let [silicon] = bus;
        let current = Arc::new(Mutex::new(None::<Arc<Task>>));
        let (on, watched) = (clock.clone(), current.clone());
        clock.start(
            "killer",
            Box::new(move || {
                let task = Task::new();
                loop {
                    let before = watched.lock().clone();
                    sleep(&*on, &task, PATIENCE);
                    // Only a call that was already running when the time began is stuck.
                    let now = watched.lock().clone();
                    if let (Some(a), Some(b)) = (before, now)
                        && Arc::ptr_eq(&a, &b)
                    {
                        b.raise(&*on, signal::KILL);
                    }
                }
            }),
        );
        let mut host =
            Self { clock, driver, silicon, actors: Vec::new(), summary: Summary::default(), current, next_tgid: 100 };
        // The first reset of the device.
        sleep(&*host.clock, &Task::new(), Duration::from_secs(10));
        for _ in 0..3 {
            let actor = host.process();
            host.actors.push(actor);
        }
        host
    }

    fn process(&mut self) -> Actor {
        self.next_tgid += 1;
        let mut caller = Caller::process(self.next_tgid, 0, self.next_tgid.is_multiple_of(2));
        caller.descriptors = Some(Arc::new(Table::default()));
        Actor { caller, memory: Arc::default(), files: Vec::new() }
    }

    /// Runs an entry as a process, and lets the process die if the entry says so.
    pub fn call<T>(&mut self, actor: usize, entry: impl FnOnce(&Actor, &Driver) -> Result<T, Stop>) -> Result<T, Stop> {
        let who = &mut self.actors[actor];
        who.caller.task = Task::new();
        *self.current.lock() = Some(who.caller.task.clone());
        let result = entry(&self.actors[actor], &self.driver);
        *self.current.lock() = None;
        let dies = matches!(result, Err(Stop::Bug(_) | Stop::Hung)) || self.actors[actor].caller.task.killed();
        self.summary.calls += 1;
        self.summary.succeeded += u32::from(result.is_ok());
        self.summary.died += u32::from(dies);
        if dies {
            self.replace(actor);
        }
        self.check();
        result
    }

    /// Opens the device.
    pub fn open(&mut self, actor: usize, flags: i32) {
        let driver = self.driver.clone();
        let opened = self.call(actor, |a, _| driver.open(0, flags, &a.caller));
        self.actors[actor].files.extend(opened);
    }

    /// Closes a descriptor.
    pub fn close(&mut self, actor: usize, file: usize) {
        if file < self.actors[actor].files.len() {
            let file = self.actors[actor].files.remove(file);
            let _ = self.call(actor, |a, _| {
                file.flush(&a.caller);
                Ok(())
            });
        }
    }

    /// Makes an ioctl.
    pub fn ioctl(&mut self, actor: usize, file: usize, cmd: u32, arg: u64) -> Option<Reply> {
        let file = self.actors[actor].files.get(file)?.clone();
        Some(self.call(actor, |a, _| file.ioctl(&a.caller, &*a.memory, cmd, arg)))
    }

    /// The process dies: its files are closed, another one comes.
    fn replace(&mut self, actor: usize) {
        let new = self.process();
        let old = std::mem::replace(&mut self.actors[actor], new);
        // A dead process waits for nothing: its closes find the kill pending.
        old.caller.task.raise(&*self.clock, signal::KILL);
        for file in &old.files {
            file.flush(&old.caller);
        }
    }

    /// Checks what must hold between any two calls.
    ///
    /// # Panics
    /// When it does not.
    pub fn check(&self) {
        self.driver.claims.check_invariants();
        for device in self.driver.devices() {
            device.check_invariants();
        }
    }

    /// Ends the scenario: every process closes its files, the driver is unloaded.
    pub fn finish(mut self) {
        for actor in 0..self.actors.len() {
            self.replace(actor);
        }
        self.actors.clear();
        self.check();
        self.driver.unload();
        self.clock.close();
    }
}

/// Takes values from a string of bytes; zeros when it is used up.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn u8(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().map_or((0, self.0), |(f, r)| (*f, r));
        self.0 = rest;
        first
    }

    fn below(&mut self, end: usize) -> usize {
        usize::from(self.u8()) % end.max(1)
    }

    fn u64(&mut self) -> u64 {
        (0..8).fold(0, |word, i| word | u64::from(self.u8()) << (8 * i))
    }

    /// A value of a field: mostly one of a kind that gets somewhere.
    fn value(&mut self) -> u64 {
        match self.u8() % 8 {
            0 => 0,
            1 | 2 => self.below(8) as u64,
            3 => AREA + (u64::from(self.u8()) << 8) % AREA_BYTES as u64,
            4 => PAGE << self.below(12),
            5 => u64::from(self.u8()) << 4,
            6 => u64::MAX - u64::from(self.u8()),
            _ => self.u64(),
        }
    }
}

/// Fills a struct with values.
fn argument(bytes: &mut Bytes<'_>, info: Option<&StructInfo>) -> Vec<u8> {
    let mut image = vec![0; info.map_or(16, |i| i.size)];
    for field in info.map_or(&[][..], |i| i.fields) {
        let value = bytes.value().to_le_bytes();
        // Of an array only the first elements matter.
        let size = field.size.min(8);
        image[field.offset..field.offset + size].copy_from_slice(&value[..size]);
    }
    image
}

/// A command value: mostly right, sometimes with a wrong size, direction or type.
fn command(bytes: &mut Bytes<'_>, row: &Ioctl) -> u32 {
    let mut encoding = Encoding::of(row.cmd);
    match bytes.u8() % 16 {
        0 => encoding.size = u32::from(bytes.u8()),
        1 => encoding.dir = Encoding::of(u32::from(bytes.u8()) << 24).dir,
        2 => encoding.kind = bytes.u8(),
        3 => return bytes.u64() as u32,
        _ => {}
    }
    encoding.value()
}

/// Products a run can have.
const PRODUCTS: [u16; 4] = [0x7164, 0x7264, 0x7364, 0x7564];

/// Runs one scenario and tells what became of it.
///
/// # Panics
/// When the driver does something it must not do.
pub fn run(data: &[u8]) -> Summary {
    let bytes = &mut Bytes(data);
    let profile = Profile::ALL[bytes.below(Profile::ALL.len())];
    let mut host = Host::new(profile, PRODUCTS[bytes.below(PRODUCTS.len())]);
    for actor in 0..host.actors.len() {
        host.open(actor, libc::O_RDWR);
    }
    let mut mapped = 0;
    while !bytes.0.is_empty() {
        let actor = bytes.below(host.actors.len());
        let file = bytes.below(host.actors[actor].files.len().max(1));
        match bytes.u8() % 16 {
            0 => host.open(actor, [libc::O_RDWR, libc::O_RDONLY, libc::O_WRONLY, libc::O_RDWR][bytes.below(4)]),
            1 => host.close(actor, file),
            2 => {
                // A child that has the files of its parent, or a dup.
                let to = bytes.below(host.actors.len());
                if let Some(file) =
                    host.actors[actor].files.get(file).cloned().filter(|_| host.actors[to].files.len() < 8)
                {
                    host.actors[to].files.push(file);
                }
            }
            3 | 4 => {
                mapped += 1;
                let (va, offset) = (AREA + (mapped << 24), bytes.value() / PAGE * PAGE);
                let request = MmapRequest { va, offset, bytes: bytes.value(), prot: bytes.below(4) as i32 };
                let file = host.actors[actor].files.get(file).cloned();
                let mapping = file.and_then(|file| host.call(actor, |a, _| file.mmap(&a.caller, request)).ok());
                if let Some(mapping) = mapping {
                    let mut data = [0; 64];
                    let at = bytes.value();
                    mapping.read(at % (mapping.bytes() + 1), &mut data);
                    if mapping.writable {
                        mapping.write(at % (mapping.bytes() + 1), &data);
                    }
                }
            }
            5 => {
                let fault = [
                    Fault::Clear,
                    Fault::DmaStuck(true),
                    Fault::NeverAck(true),
                    Fault::StatusStuck(true),
                    Fault::MailboxSilent(true),
                    Fault::DeadRegisters(true),
                ][bytes.below(6)];
                host.silicon.inject(fault);
            }
            6 => sleep(&*host.clock.clone(), &Task::new(), Duration::from_secs(u64::from(bytes.u8()))),
            _ => {
                let row = &IOCTLS[bytes.below(IOCTLS.len())];
                let image = argument(bytes, row.arg.layout());
                let arg = AREA + (u64::from(bytes.u8()) << 8);
                host.actors[actor].memory.put(arg, &image);
                let cmd = command(bytes, row);
                host.ioctl(actor, file, cmd, arg);
            }
        }
    }
    let summary = host.summary;
    host.finish();
    summary
}
