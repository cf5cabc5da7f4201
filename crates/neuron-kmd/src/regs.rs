//! Register access of one device: BAR 0 and the firmware mailbox in it.

use std::sync::Arc;

use std::time::Duration;

use neuron_hw::Silicon;
use neuron_hw::memory::Window;
use neuron_hw::regs::{DEAD, Layout};

use crate::profile::Profile;
use crate::sync::Task;
use crate::time::{Clock, sleep};

/// Time between two reads of a dead word (measured: 14 ms).
pub(crate) const DEAD_READ_PAUSE: Duration = Duration::from_millis(14);

/// How long a dead word is tried again where the driver looks at firmware values: 2.24.7 tries
/// for 15 s, later releases were measured to give up at once.
pub fn dead_patience(profile: Profile) -> Duration {
    if profile == Profile::V2_24_7 { Duration::from_secs(15) } else { Duration::ZERO }
}

/// The mapped register window.
#[derive(Clone)]
pub struct Regs {
    silicon: Arc<Silicon>,
    bar: usize,
    misc: u64,
}

impl Regs {
    /// The window behind a BAR number.
    pub fn new(silicon: Arc<Silicon>, bar: usize, layout: &Layout) -> Self {
        Self { silicon, bar, misc: layout.geometry.misc_ram }
    }

    /// Reads a word.
    pub fn read(&self, offset: u64) -> u32 {
        self.silicon.read32(self.bar, offset)
    }

    /// Writes a word.
    pub fn write(&self, offset: u64, value: u32) {
        self.silicon.write32(self.bar, offset, value);
    }

    /// Writes a word while the memory of a process is on the bus.
    pub fn write_with(&self, offset: u64, value: u32, window: Window<'_>) {
        self.silicon.write32_with(self.bar, offset, value, window);
    }

    /// Reads a mailbox word.
    pub fn misc(&self, offset: u64) -> u32 {
        self.read(self.misc + offset)
    }

    /// Writes a mailbox word.
    pub fn set_misc(&self, offset: u64, value: u32) {
        self.write(self.misc + offset, value);
    }

    /// Reads a word; a dead one is read again for as long as `patience` says. The sleep is one
    /// that no signal ends.
    pub fn read_alive(&self, clock: &dyn Clock, task: &Arc<Task>, offset: u64, patience: Duration) -> u32 {
        let end = clock.now() + patience;
        loop {
            let word = self.read(offset);
            if word != DEAD || clock.now() >= end {
                return word;
            }
            sleep(clock, task, DEAD_READ_PAUSE);
        }
    }

    /// [`Self::read_alive`] of a mailbox word.
    pub fn misc_alive(&self, clock: &dyn Clock, task: &Arc<Task>, offset: u64, patience: Duration) -> u32 {
        self.read_alive(clock, task, self.misc + offset, patience)
    }
}
