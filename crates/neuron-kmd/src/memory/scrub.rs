//! Clearing a memory channel: 16 engines, each a run of descriptors over its sixteenth.

use std::sync::Arc;
use std::time::Duration;

use neuron_abi::kernel::args as a;
use neuron_abi::kernel::ioctl::Op;
use neuron_abi::kernel::values::{MAX_DMA_ENGINES, MemLocation};

use super::{Chunk, PAGE, Request, alloc, free};
use crate::cdev::Call;
use crate::device::Device;
use crate::dhal::SCRUB_ENGINES;
use crate::dma::OwnRing;
use crate::dma::copy::PIECE;
use crate::dma::engines::DESCRIPTOR_BYTES;
use crate::reply::{Errno, Reply, Stop};
use crate::sync::{Mutex, Task};
use crate::time::sleep;

/// Start of a channel that is left alone: the driver's own memory.
const SKIPPED: u64 = 16 << 20;

/// What a finished engine leaves in its completion word.
const MARKER: u32 = 0xabcd_ef02;

/// Longest wait for all engines (a choice: a recording needed 41 s on a slow machine).
const PATIENCE: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(1);

/// A scrub that was started: its memory, to be freed by the wait.
#[derive(Debug, Default)]
struct Scrub {
    chunks: Vec<Arc<Chunk>>,
    completions: Vec<u64>,
}

/// Scrubs of a device by channel.
#[derive(Debug)]
pub struct Scrubs(Vec<Mutex<Option<Scrub>>>);

impl Scrubs {
    pub(super) fn new(channels: usize) -> Self {
        Self((0..channels).map(|_| Mutex::default()).collect())
    }

    /// A bad channel is a bare -1 in the driver.
    fn of(&self, channel: u32) -> Result<&Mutex<Option<Scrub>>, Errno> {
        self.0.get(channel as usize).ok_or(Errno::EPERM)
    }
}

pub(super) fn ioctl(call: &Call<'_>) -> Reply {
    let (device, scrubs) = (call.device, &call.device.own().scrubs);
    if call.row.op == Op::HbmScrubStart {
        let u = call.copy_in::<a::HbmScrubStart>()?.value;
        let slot = scrubs.of(u.hbm_index)?;
        let first = device.dhal.scrub_engine(u.nc_id, u.hbm_index);
        let last = first.and_then(|f| f.checked_add(SCRUB_ENGINES)).filter(|l| *l <= MAX_DMA_ENGINES as u32);
        let (Some(first), Some(_)) = (first, last) else { return Err(Errno::EINVAL.into()) };
        if slot.lock().is_some() {
            return Err(Errno::EPERM.into());
        }
        let mut scrub = Scrub::default();
        let started = start(device, &mut scrub, first, u.hbm_index, u.init_val);
        if started.is_err() {
            release(device, scrub)?;
        } else {
            *slot.lock() = Some(scrub);
        }
        return started.map(|()| 0);
    }
    let u = call.copy_in::<a::HbmScrubWait>()?.value;
    let scrub = scrubs.of(u.hbm_index)?.lock().take().ok_or(Errno::EPERM)?;
    let done = wait(device, &scrub);
    release(device, scrub)?;
    done.map(|()| 0)
}

fn start(device: &Device, scrub: &mut Scrub, first: u32, channel: u32, value: u32) -> Result<(), Stop> {
    let space = device.silicon.space();
    let place = &device.dhal.layout().channels[channel as usize];
    let part = (device.channel_bytes().saturating_sub(SKIPPED)) / u64::from(SCRUB_ENGINES);
    // The rest of the division has its own descriptor, even when it is 0 and so means 64 KiB
    // (measured: one more descriptor than the part has pieces).
    let pieces = part / PIECE + 1;
    let places = (pieces + 1).next_power_of_two();
    let host = |scrub: &mut Scrub, bytes| -> Result<u64, Stop> {
        let chunk = alloc(device, &Request::driver(MemLocation::Host, bytes, 0))?;
        scrub.chunks.push(chunk.clone());
        Ok(chunk.address)
    };
    let put = |address, data: &[u8]| space.write(address, data).map_err(|_| Stop::from(Errno::ENOMEM));
    let pattern = host(scrub, PIECE)?;
    put(pattern, &value.to_le_bytes().repeat(PIECE as usize / 4))?;
    let words = host(scrub, PAGE)?;
    put(words, &MARKER.to_le_bytes())?;
    let mut engines = Vec::new();
    for i in 0..SCRUB_ENGINES {
        let (tx, rx) = (host(scrub, places * DESCRIPTOR_BYTES)?, host(scrub, places * DESCRIPTOR_BYTES)?);
        let (mut from, mut to) = (Vec::new(), Vec::new());
        let mut describe = |source: u64, target: u64, bytes: u64| {
            for (image, address) in [(&mut from, source), (&mut to, target)] {
                image.extend_from_slice(&(bytes & 0xffff).to_le_bytes());
                image.extend_from_slice(&address.to_le_bytes());
            }
        };
        let base = place.address + SKIPPED + u64::from(i) * part;
        for piece in 0..pieces {
            describe(pattern, base + piece * PIECE, (part - piece * PIECE).min(PIECE));
        }
        let completion = words + 8 * u64::from(i + 1);
        describe(words, completion, 4);
        put(tx, &from)?;
        put(rx, &to)?;
        scrub.completions.push(completion);
        engines.push((first + i, OwnRing { tx, rx, descriptors: places as u32 }));
    }
    for (id, ring) in engines {
        device.dma.run_once(&device.regs, id, 0, ring, (pieces + 1) as u32)?;
    }
    Ok(())
}

fn wait(device: &Device, scrub: &Scrub) -> Result<(), Stop> {
    let (clock, task) = (&*device.env.clock, Task::new());
    let end = clock.now() + PATIENCE;
    let done = |address: &u64| {
        let mut word = [0; 4];
        device.silicon.space().read(*address, &mut word).is_ok_and(|()| u32::from_le_bytes(word) == MARKER)
    };
    while !scrub.completions.iter().all(done) {
        if clock.now() >= end {
            return Err(Errno::EPERM.into());
        }
        sleep(clock, &task, POLL);
    }
    Ok(())
}

fn release(device: &Device, scrub: Scrub) -> Result<(), Stop> {
    scrub.chunks.iter().try_for_each(|chunk| free(device, chunk))
}
