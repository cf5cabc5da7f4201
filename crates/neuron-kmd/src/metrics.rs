//! Counters of a device that sysfs shows (`facts/driver/sysfs.tsv`).
//!
//! Every counter is a [`Counter`]; a [`Node`] says which one. Writers name what happened
//! ([`Metrics::memory_changed`], [`Metrics::count`]), sysfs reads and zeroes single values.

use neuron_abi::kernel::sysfs::{CORE_DEVICE_MEMORY, HOST_MEMORY, OTHER_INFO, STATUS};
use neuron_abi::kernel::values::{MAX_CORES, MemCategory, MemLocation};

use crate::sync::Mutex;

/// One counter. Writing to one of its files zeroes that value and leaves the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counter {
    /// Events so far, or bytes in use. Zeroing it while bytes are in use makes it wrap below
    /// zero when they are freed.
    pub total: u64,
    /// Size of the last change; not a gauge.
    pub present: u64,
    /// Highest total; memory only.
    pub peak: u64,
}

impl Counter {
    fn change(&mut self, by: i64) {
        self.total = self.total.wrapping_add_signed(by);
        self.present = by.unsigned_abs();
        if by > 0 {
            self.peak = self.peak.max(self.total);
        }
    }

    /// The value a file of the counter shows.
    pub fn file(&self, name: &str) -> u64 {
        match name {
            "total" => self.total,
            "present" => self.present,
            _ => self.peak,
        }
    }

    fn file_mut(&mut self, name: &str) -> &mut u64 {
        match name {
            "total" => &mut self.total,
            "present" => &mut self.present,
            _ => &mut self.peak,
        }
    }
}

/// Which counter. Indices are those of the tables in [`neuron_abi::kernel::sysfs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    /// Host memory of the device by use, index into [`HOST_MEMORY`].
    HostMemory(usize),
    /// Host memory of a core.
    CoreHost(usize),
    /// Device memory of a core.
    CoreDevice(usize),
    /// Device memory of a core by use, index into [`CORE_DEVICE_MEMORY`].
    CoreDeviceMemory(usize, usize),
    /// Execution outcomes of a core, index into [`STATUS`].
    Status(usize, usize),
    /// Other events of a core, index into [`OTHER_INFO`].
    Other(usize, usize),
}

#[derive(Debug, Default)]
struct Core {
    host: Counter,
    device: Counter,
    memory: [Counter; CORE_DEVICE_MEMORY.len()],
    status: [Counter; STATUS.len()],
    other: [Counter; OTHER_INFO.len()],
}

#[derive(Debug, Default)]
struct State {
    host: [Counter; HOST_MEMORY.len()],
    cores: [Core; MAX_CORES],
}

impl Node {
    /// The same counter of another core.
    pub(crate) fn of_core(self, core: usize) -> Self {
        match self {
            Node::HostMemory(i) => Node::HostMemory(i),
            Node::CoreHost(_) => Node::CoreHost(core),
            Node::CoreDevice(_) => Node::CoreDevice(core),
            Node::CoreDeviceMemory(_, i) => Node::CoreDeviceMemory(core, i),
            Node::Status(_, i) => Node::Status(core, i),
            Node::Other(_, i) => Node::Other(core, i),
        }
    }
}

impl State {
    fn counter(&mut self, node: Node) -> &mut Counter {
        match node {
            Node::HostMemory(i) => &mut self.host[i],
            Node::CoreHost(core) => &mut self.cores[core].host,
            Node::CoreDevice(core) => &mut self.cores[core].device,
            Node::CoreDeviceMemory(core, i) => &mut self.cores[core].memory[i],
            Node::Status(core, i) => &mut self.cores[core].status[i],
            Node::Other(core, i) => &mut self.cores[core].other[i],
        }
    }
}

/// All counters of a device.
#[derive(Debug)]
pub struct Metrics {
    cores: usize,
    state: Mutex<State>,
}

/// Counter of [`HOST_MEMORY`] that a category of host memory belongs to.
fn host_use(category: u32) -> Option<&'static str> {
    use MemCategory as C;
    Some(match MemCategory::from_raw(category) {
        Some(C::CodeHost) => "dma_buffers",
        Some(C::TensorsHost) => "tensors",
        Some(C::ConstantsHost) => "constants",
        Some(C::MiscHost) => "application_memory",
        Some(C::NcdevHost) => "driver_memory",
        Some(C::NotificationHost) => "notifications",
        Some(C::DmaRingsHost) => "dma_rings",
        Some(C::UnknownHost) | None => "uncategorized",
        // Host memory of a device category shows in no use, only in the sum of its core.
        Some(_) => return None,
    })
}

/// Counter of [`CORE_DEVICE_MEMORY`] that a category of device memory belongs to.
fn device_use(category: u32) -> Option<&'static str> {
    use MemCategory as C;
    Some(match MemCategory::from_raw(category) {
        Some(C::CodeDevice) => "model_code",
        Some(C::TensorsDevice) => "tensors",
        Some(C::ConstantsDevice) => "constants",
        Some(C::ScratchpadDevice | C::ContiguousScratchpadDevice) => "model_shared_scratchpad",
        Some(C::MiscDevice) => "runtime_memory",
        Some(C::NcdevDevice) => "driver_memory",
        Some(C::CollectivesDevice) => "collectives",
        Some(C::ScratchpadNonsharedDevice) => "nonshared_scratchpad",
        Some(C::NotificationDevice) => "notifications",
        Some(C::DmaRingsDevice) => "dma_rings",
        Some(C::UnknownDevice) | None => "uncategorized",
        Some(_) => return None,
    })
}

fn index(names: &[&str], name: &str) -> usize {
    names.iter().position(|n| *n == name).expect("a name of the table")
}

fn other(core: usize, name: &str) -> Node {
    Node::Other(core, index(&OTHER_INFO, name))
}

impl Metrics {
    /// Counters at zero for a device with so many cores.
    pub fn new(cores: u32) -> Self {
        Self { cores: cores as usize, state: Mutex::default() }
    }

    /// Memory of a core was allocated (positive) or freed (negative). A category is a
    /// [`MemCategory`] number; one out of range counts as unknown.
    ///
    /// # Panics
    /// For a core of 8 and up.
    pub fn memory_changed(&self, location: MemLocation, category: u32, core: usize, bytes: i64) {
        let mut state = self.state.lock();
        let (sum, by_use) = match location {
            MemLocation::Host => {
                let by_use = host_use(category).map(|name| Node::HostMemory(index(&HOST_MEMORY, name)));
                (Node::CoreHost(core), by_use)
            }
            MemLocation::Device => {
                let by_use = device_use(category);
                let by_use = by_use.map(|name| Node::CoreDeviceMemory(core, index(&CORE_DEVICE_MEMORY, name)));
                (Node::CoreDevice(core), by_use)
            }
        };
        state.counter(sum).change(bytes);
        if let Some(node) = by_use {
            state.counter(node).change(bytes);
        }
    }

    /// Adds to an event counter.
    pub fn count(&self, node: Node, events: u32) {
        self.state.lock().counter(node).change(events.into());
    }

    /// A reset of this core was asked for.
    pub fn count_reset_request(&self, core: usize) {
        self.count(other(core, "reset_req_count"), 1);
    }

    /// A run of the reset engine failed: counts on every core.
    pub fn count_reset_failure(&self) {
        (0..self.cores).for_each(|core| self.count(other(core, "reset_fail_count"), 1));
    }

    /// Reset requests of a core.
    pub fn reset_requests(&self, core: usize) -> Counter {
        self.get(other(core, "reset_req_count"))
    }

    /// Failed reset runs of a core.
    pub fn reset_failures(&self, core: usize) -> Counter {
        self.get(other(core, "reset_fail_count"))
    }

    /// A counter.
    pub fn get(&self, node: Node) -> Counter {
        *self.state.lock().counter(node)
    }

    /// Zeroes the value one file of a counter shows.
    pub fn zero(&self, node: Node, file: &str) {
        *self.state.lock().counter(node).file_mut(file) = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Measured: golden 63.
    #[test]
    fn total_is_the_use_present_the_last_change_and_peak_the_highest_total() {
        let metrics = Metrics::new(2);
        let tensors = Node::CoreDeviceMemory(0, index(&CORE_DEVICE_MEMORY, "tensors"));
        let change = |bytes| metrics.memory_changed(MemLocation::Device, MemCategory::TensorsDevice as u32, 0, bytes);
        change(1_048_576);
        change(8192);
        change(-1_048_576);
        assert_eq!(metrics.get(tensors), Counter { total: 8192, present: 1_048_576, peak: 1_056_768 });
        assert_eq!(metrics.get(Node::CoreDevice(0)), metrics.get(tensors));
        assert_eq!(metrics.get(Node::CoreDevice(1)), Counter::default());
        metrics.zero(tensors, "total");
        change(-8192);
        assert_eq!(metrics.get(tensors).total, 8192_u64.wrapping_neg());
        assert_eq!(metrics.get(tensors).peak, 1_056_768);
        assert_eq!(metrics.get(Node::CoreDevice(0)).total, 0);
    }

    /// Measured: golden 51 allocates one page run of every category in both places.
    #[test]
    fn a_category_of_the_other_place_counts_in_the_sum_only() {
        let metrics = Metrics::new(2);
        let every: Vec<u32> = (0..=18).chain([20, 31, 255, u32::MAX]).collect();
        every.iter().for_each(|c| metrics.memory_changed(MemLocation::Host, *c, 1, 1));
        every.iter().chain(&[19]).for_each(|c| metrics.memory_changed(MemLocation::Device, *c, 1, 1));
        assert_eq!(metrics.get(Node::CoreHost(1)).total, 23);
        assert_eq!(metrics.get(Node::CoreDevice(1)).total, 24);
        let host: Vec<_> = (0..HOST_MEMORY.len()).map(|i| metrics.get(Node::HostMemory(i)).total).collect();
        assert_eq!(host, [1, 1, 1, 1, 1, 1, 1, 5]);
        let device = (0..CORE_DEVICE_MEMORY.len()).map(|i| metrics.get(Node::CoreDeviceMemory(1, i)).total);
        assert_eq!(device.collect::<Vec<_>>(), [1, 1, 1, 2, 1, 1, 1, 1, 1, 1, 5]);
    }

    #[test]
    fn a_failed_run_counts_on_every_core_of_the_device() {
        let metrics = Metrics::new(2);
        metrics.count_reset_failure();
        let failures: Vec<_> = (0..3).map(|core| metrics.reset_failures(core).total).collect();
        assert_eq!(failures, [1, 1, 0]);
    }
}
