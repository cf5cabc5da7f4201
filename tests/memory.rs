//! Memory to the last page: device memory of every core of every product, and host memory under a limit.

#[path = "common/child.rs"]
mod child;
mod common;
#[path = "common/emu.rs"]
mod emu;
#[path = "common/shared.rs"]
mod shared;

use std::ffi::{OsStr, c_char, c_int, c_void};
use std::fmt::Display;
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

use neuron_abi::Arch;
use neuron_abi::product::{PRODUCTS, Product};
use shared::{Shared, functions};

functions! {
    nrt_init: fn(c_int, *const c_char, *const c_char) -> u32;
    nrt_close: fn();
    nrt_get_visible_vnc_count: fn(*mut u32) -> u32;
    nrt_tensor_allocate: fn(u32, c_int, usize, *const c_char, *mut usize) -> u32;
    nrt_tensor_free: fn(*mut usize);
    nrt_tensor_read: fn(usize, *mut c_void, usize, usize) -> u32;
    nrt_tensor_write: fn(usize, *const c_void, usize, usize) -> u32;
    nrt_get_vnc_memory_stats: fn(u32, *mut [usize; 2], usize, *mut usize) -> u32;
}

const PAGE: usize = 4096;
const MIB: usize = 1 << 20;
const GIB: usize = 1 << 30;
/// What the driver keeps of an HBM, as docs/compat.md says.
const DRIVERS: usize = 16 * MIB;
const DEVICE: u32 = 0;
const HOST: u32 = 1;
const VIRTUAL: u32 = 2;
const RESOURCE: u32 = 4;
const NO_HOST_MEMORY: u32 = 11;

type Answer<T = ()> = Result<T, String>;

macro_rules! ensure {
    ($cond:expr, $($text:tt)*) => {
        if !$cond {
            return Err(format!($($text)*));
        }
    };
}

/// The calls, opened before any process is forked.
fn nrt() -> &'static Nrt {
    static NRT: OnceLock<Nrt> = OnceLock::new();
    NRT.get_or_init(|| Nrt::of(Shared::open(common::library())))
}

/// The next of a sequence that only looks like chance.
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// A tensor somebody has.
struct Block {
    handle: usize,
    core: u32,
    size: usize,
}

impl Block {
    /// What it takes of the memory.
    fn pages(&self) -> usize {
        self.size.next_multiple_of(PAGE)
    }
}

/// What an instance has.
struct Expected {
    /// Logical cores.
    cores: u32,
    /// Cores that share HBMs, from 0 on.
    sharing: u32,
    /// Bytes tensors can have on the HBMs that so many cores share.
    usable: usize,
    /// Bytes `nrt_get_vnc_memory_stats` tells of a core.
    limit: usize,
    /// Largest block to begin with.
    largest: usize,
}

struct Filler {
    nrt: &'static Nrt,
    expected: Expected,
    random: u64,
    blocks: Vec<Block>,
}

impl Filler {
    /// What the library is told of here lives until the call is over.
    fn stats(&self, core: u32) -> Answer<[usize; 2]> {
        let mut stats = [0; 2];
        // SAFETY: the record has 16 bytes, and the last pointer may be NULL.
        let status = unsafe { (self.nrt.nrt_get_vnc_memory_stats)(core, &mut stats, 16, null_mut()) };
        ensure!(status == 0, "no memory stats of core {core}: {status}");
        Ok(stats)
    }

    fn held(&self, core: u32) -> usize {
        self.blocks.iter().filter(|block| block.core == core).map(Block::pages).sum()
    }

    /// Used and limit of every core are what was taken and what is documented.
    fn accounted(&self) -> Answer {
        for core in 0..self.expected.cores {
            let (stats, want) = (self.stats(core)?, [self.held(core), self.expected.limit]);
            ensure!(stats == want, "core {core}: used and limit are {stats:?}, expected {want:?}");
        }
        Ok(())
    }

    /// The bytes at both ends of a block belong to it alone.
    fn mark(&self, block: &Block) -> Answer {
        let tag = block.handle.to_le_bytes();
        let len = tag.len().min(block.size);
        for offset in [0, block.size - len] {
            // SAFETY: the buffer has as many bytes.
            let status = unsafe { (self.nrt.nrt_tensor_write)(block.handle, tag.as_ptr().cast(), offset, len) };
            ensure!(status == 0, "a block of {} bytes cannot be written: {status}", block.size);
        }
        Ok(())
    }

    fn marked(&self, block: &Block) -> Answer {
        let tag = block.handle.to_le_bytes();
        let len = tag.len().min(block.size);
        let mut out = [0; 8];
        // SAFETY: the buffer has as many bytes.
        let status =
            unsafe { (self.nrt.nrt_tensor_read)(block.handle, out.as_mut_ptr().cast(), block.size - len, len) };
        ensure!(status == 0, "a block of {} bytes cannot be read: {status}", block.size);
        ensure!(out[..len] == tag[..len], "two blocks share bytes");
        Ok(())
    }

    /// Take blocks of chance sizes, smaller ones when they are refused, until not a page is left.
    fn fill(&mut self, core: u32) -> Answer {
        let mut most = self.expected.largest;
        loop {
            let size = 1 + (next(&mut self.random) % most as u64) as usize;
            let mut handle = 7;
            // SAFETY: the name may be NULL, and the place is a live local.
            let status = unsafe { (self.nrt.nrt_tensor_allocate)(DEVICE, core as c_int, size, null(), &mut handle) };
            match status {
                0 => {
                    let block = Block { handle, core, size };
                    self.mark(&block)?;
                    self.blocks.push(block);
                }
                RESOURCE => {
                    ensure!(handle == 0, "a refused allocation leaves {handle:#x}");
                    if size <= PAGE {
                        return Ok(());
                    }
                    most = size / 2;
                }
                other => return Err(format!("{size} bytes on core {core} are refused with {other}")),
            }
        }
    }

    fn fill_all(&mut self) -> Answer {
        for core in 0..self.expected.cores {
            self.fill(core)?;
        }
        for first in (0..self.expected.cores).step_by(self.expected.sharing as usize) {
            let taken: usize = (first..first + self.expected.sharing).map(|core| self.held(core)).sum();
            let usable = self.expected.usable;
            ensure!(taken == usable, "cores from {first} on took {taken} bytes, they have {usable}");
        }
        self.accounted()
    }

    /// Give blocks back in a random order, until `left` are left.
    fn free(&mut self, left: usize) -> Answer {
        while self.blocks.len() > left {
            let n = (next(&mut self.random) % self.blocks.len() as u64) as usize;
            let block = self.blocks.swap_remove(n);
            self.marked(&block)?;
            let used = self.stats(block.core)?[0];
            let mut handle = block.handle;
            // SAFETY: the place is a live local.
            unsafe { (self.nrt.nrt_tensor_free)(&mut handle) };
            let now = self.stats(block.core)?[0];
            ensure!(used - now == block.pages(), "{used} bytes used, {now} after freeing {}", block.size);
        }
        self.accounted()
    }

    /// Everything: full, half of it given back, full again, empty, full once more, empty.
    fn run(&mut self) -> Answer {
        // SAFETY: NULL texts are empty ones.
        let status = unsafe { (self.nrt.nrt_init)(1, null(), null()) };
        ensure!(status == 0, "init: {status}");
        let mut cores = 0;
        // SAFETY: the place is a live local.
        let status = unsafe { (self.nrt.nrt_get_visible_vnc_count)(&mut cores) };
        ensure!((status, cores) == (0, self.expected.cores), "{cores} cores");
        self.accounted()?;
        self.fill_all()?;
        self.free(self.blocks.len() / 2)?;
        self.fill_all()?;
        self.free(0)?;
        self.fill_all()?;
        self.free(0)?;
        // SAFETY: no precondition.
        unsafe { (self.nrt.nrt_close)() };
        Ok(())
    }
}

fn hbms(arch: Arch) -> u32 {
    if arch == Arch::Sunda { 2 } else { 4 }
}

/// Fill an instance in a process of its own. `device` is what one device has, `drivers` what the driver keeps of an HBM,
/// `told` what a device is said to have.
fn full(
    product: &Product,
    lnc: u32,
    [device, drivers, told, largest]: [usize; 4],
    variables: &[(&str, &OsStr)],
    what: impl Display,
) {
    let nrt = nrt();
    let (per, hbms) = (product.cores_per_device, hbms(product.arch));
    // Physical cores that are wired to one HBM.
    let wired = per / hbms;
    let spanned = lnc.div_ceil(wired);
    let expected = Expected {
        cores: product.devices * per / lnc,
        sharing: wired.div_ceil(lnc),
        usable: (device / hbms as usize - drivers) * spanned as usize,
        limit: told / hbms as usize * spanned as usize,
        largest,
    };
    let size = lnc.to_string();
    let mut all = vec![("NEURON_RT_LOG_LEVEL", OsStr::new("QUIET")), ("NEURON_LOGICAL_NC_CONFIG", OsStr::new(&size))];
    all.extend(variables);
    let mut filler = Filler { nrt, expected, random: 0x2545_f491_4f6c_dd1d, blocks: Vec::new() };
    child::in_child(&all, |_| filler.run()).unwrap_or_else(|why| panic!("{} {what}:{why}", product.name));
}

fn default_lnc(arch: Arch) -> u32 {
    if arch == Arch::Sunda { 1 } else { 2 }
}

#[test]
fn every_core_of_every_product_gives_all_its_memory_and_takes_it_back() {
    const DEVICE_MIB: usize = 8;
    let mib = DEVICE_MIB.to_string();
    for product in PRODUCTS {
        let variables =
            [("NEURON_RT_FAKE_INSTANCE_TYPE", OsStr::new(product.name)), ("OPENNRT_HBM_MIB", OsStr::new(&mib))];
        let device = DEVICE_MIB * MIB;
        let sizes = if product.devices == 1 && product.arch != Arch::Sunda { vec![1, 2, 4, 8] } else { vec![] };
        let default = vec![default_lnc(product.arch)];
        for lnc in if sizes.is_empty() { default } else { sizes } {
            full(product, lnc, [device, 0, device, MIB / 2], &variables, format!("with LNC {lnc}"));
        }
    }
}

#[test]
fn real_sizes_are_given_to_the_last_page_but_the_drivers_share() {
    for product in PRODUCTS.iter().filter(|product| product.devices == 1) {
        let variables = [("NEURON_RT_FAKE_INSTANCE_TYPE", OsStr::new(product.name))];
        let device = product.hbm_mib as usize * MIB;
        full(product, default_lnc(product.arch), [device, DRIVERS, device, 8 * GIB], &variables, "at its real size");
    }
}

#[test]
fn device_files_give_all_their_memory_and_take_it_back() {
    let emulator = emu::program();
    for name in ["trn1.2xlarge", "trn2.3xlarge"] {
        let product = neuron_abi::product::find(name).expect("a product of the table");
        let Some(served) = emu::Served::start(&emulator, name, &["--hbm-gib", "1"]) else { return };
        let (dev, sys) = (served.dev(), served.sys());
        let variables = [
            ("OPENNRT_DEV_DIR", dev.as_os_str()),
            ("OPENNRT_SYS_DIR", sys.as_os_str()),
            ("NEURON_RT_RESET_CORES", OsStr::new("0")),
        ];
        let told = product.hbm_mib as usize * MIB;
        full(product, default_lnc(product.arch), [GIB, DRIVERS, told, 64 * MIB], &variables, "on device files");
    }
}

/// Take host memory until it is refused; how many blocks there were. All are given back.
fn exhaust(nrt: &Nrt, placement: u32, size: usize) -> Answer<usize> {
    let mut handles = Vec::new();
    let status = loop {
        let mut handle = 7;
        // SAFETY: the name may be NULL, and the place is a live local.
        match unsafe { (nrt.nrt_tensor_allocate)(placement, -1, size, null(), &mut handle) } {
            0 => handles.push(handle),
            status => break status,
        }
    };
    ensure!(status == NO_HOST_MEMORY, "placement {placement}: {status} when host memory is used up");
    let count = handles.len();
    for mut handle in handles {
        // SAFETY: the place is a live local.
        unsafe { (nrt.nrt_tensor_free)(&mut handle) };
    }
    Ok(count)
}

#[test]
fn host_memory_that_is_used_up_is_status_11_and_comes_back() {
    const ROOM: u64 = 512 << 20;
    const BLOCK: usize = 4 << 20;
    let nrt = nrt();
    let variables =
        [("NEURON_RT_FAKE_INSTANCE_TYPE", OsStr::new("trn1.2xlarge")), ("NEURON_RT_LOG_LEVEL", OsStr::new("QUIET"))];
    let run = |_: &mut std::fs::File| {
        // SAFETY: NULL texts are empty ones.
        let status = unsafe { (nrt.nrt_init)(1, null(), null()) };
        ensure!(status == 0, "init: {status}");
        let pages = std::fs::read_to_string("/proc/self/statm").map_err(|e| e.to_string())?;
        let pages: u64 = pages.split(' ').next().and_then(|n| n.parse().ok()).ok_or("statm has no numbers")?;
        let limit = pages * PAGE as u64 + ROOM;
        let limit = libc::rlimit { rlim_cur: limit, rlim_max: limit };
        // SAFETY: the record is a live local.
        ensure!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) } == 0, "no limit");
        for placement in [VIRTUAL, HOST] {
            let most = ROOM as usize / BLOCK;
            let counts = [exhaust(nrt, placement, BLOCK)?, exhaust(nrt, placement, BLOCK)?];
            // Some of the room goes to the allocator and to the records of the tensors.
            ensure!(counts.iter().all(|&count| count >= most / 2), "{counts:?} blocks, room for {most}");
        }
        // SAFETY: no precondition.
        unsafe { (nrt.nrt_close)() };
        Ok(())
    };
    child::in_child(&variables, run).unwrap_or_else(|why| panic!("{why}"));
}
