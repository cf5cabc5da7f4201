//! Who calls: identity, pending signals and memory of a client.
//!
//! The driver serves many processes at once and never looks at the process it runs in. Callers
//! inside this process, behind a file server and in tests differ only in what they put here.

use std::sync::Arc;

use neuron_hw::memory::Piece;

use crate::memory::dmabuf::DmaBuf;
use crate::sync::Task;

/// Identity of the thread that makes a call.
#[derive(Debug, Clone)]
pub struct Caller {
    /// Thread group: what owner tables hold.
    pub tgid: u32,
    /// Thread.
    pub tid: u32,
    /// Effective user.
    pub uid: u32,
    /// Whether it has `CAP_SYS_RAWIO`, which opens raw mappings of the memory window.
    pub raw_io: bool,
    /// Where the call sleeps and where signals for this thread arrive.
    pub task: Arc<Task>,
    /// Where descriptors the driver makes for the caller go; without it none can be made.
    pub descriptors: Option<Arc<dyn Descriptors>>,
}

/// Descriptor table of a process.
pub trait Descriptors: std::fmt::Debug + Send + Sync {
    /// Gives a buffer the lowest free number, closed on exec; `None` when the table is full.
    fn install(&self, buffer: DmaBuf) -> Option<i32>;
}

impl Caller {
    /// A single-threaded process with these rights and no pending signal.
    pub fn process(tgid: u32, uid: u32, raw_io: bool) -> Self {
        Self { tgid, tid: tgid, uid, raw_io, task: Task::new(), descriptors: None }
    }
}

/// Memory of the calling process.
pub trait UserMemory {
    /// Copies from `address`; returns how many bytes at the end could **not** be read.
    fn read(&self, address: u64, data: &mut [u8]) -> usize;

    /// Copies to `address`; returns how many bytes at the end could **not** be written.
    fn write(&self, address: u64, data: &[u8]) -> usize;

    /// As [`Self::read`], to memory of a device; bytes behind those that could not be read may have
    /// been copied as well. Whoever can do it without a copy in between does.
    fn fetch(&self, address: u64, to: Piece<'_>) -> usize {
        staged(to.len(), |at, stage| {
            let left = self.read(address.wrapping_add(at as u64), stage);
            to.part(at, stage.len()).write(&stage[..stage.len() - left]);
            left
        })
    }

    /// As [`Self::write`], from memory of a device.
    fn store(&self, address: u64, from: Piece<'_>) -> usize {
        staged(from.len(), |at, stage| {
            from.part(at, stage.len()).read(stage);
            self.write(address.wrapping_add(at as u64), stage)
        })
    }
}

/// Moves bytes in stages; `one` says how many of its stage it did not move.
fn staged(bytes: usize, mut one: impl FnMut(usize, &mut [u8]) -> usize) -> usize {
    const STAGE: usize = 64 << 10;
    let mut stage = vec![0; bytes.min(STAGE)];
    for at in (0..bytes).step_by(STAGE) {
        let now = STAGE.min(bytes - at);
        let left = one(at, &mut stage[..now]);
        if left != 0 {
            return bytes - at - now + left;
        }
    }
    0
}

/// A caller without memory: every copy faults.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoMemory;

impl UserMemory for NoMemory {
    fn read(&self, _: u64, data: &mut [u8]) -> usize {
        data.len()
    }

    fn write(&self, _: u64, data: &[u8]) -> usize {
        data.len()
    }
}
