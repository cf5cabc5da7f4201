//! Files of a device directory: which there are, what they show, what a write does.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use neuron_abi::kernel::Release;
use neuron_abi::kernel::sysfs::{
    ARCHITECTURE, CLASS_ATTRS, CORE_DEVICE_MEMORY, COUNTER_FILES, DEVICE_ATTRS, HARDWARE, HOST_MEMORY, MEMORY_FILES,
    METRIC_MODE, OTHER_INFO, PE_HEADER, STATUS,
};
use neuron_abi::kernel::values::{NC_MAP_DEVICE, RESET_REQUEST_ALL};
use neuron_hw::regs::{DEAD, misc};

use super::{Entry, Kind};
use crate::caller::Caller;
use crate::device::Device;
use crate::driver::Driver;
use crate::metrics::Node;
use crate::regs::dead_patience;
use crate::reply::Errno;

/// Character device major; the kernel hands out a free one at load.
const MAJOR: u32 = 250;

/// What a file shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shows {
    Dev,
    Uevent,
    Reset,
    CoreCount,
    ConnectedDevices,
    FirmwareApi,
    NotifyDelay,
    Serial,
    Arch(&'static str),
    CoreArch,
    Hardware(&'static str),
    Power,
    TensorEngine,
    /// One value of a counter; in a core directory the node is that of core 0.
    Counter(Node, &'static str),
}

/// One file.
#[derive(Clone, Copy, Debug)]
pub(super) struct File {
    pub mode: u16,
    since: Release,
    shows: Shows,
    core: usize,
}

/// Files by path, for iteration over a directory.
type Files = BTreeMap<String, File>;

fn add(files: &mut Files, path: impl Into<String>, mode: u16, since: Release, shows: Shows) {
    files.insert(path.into(), File { mode, since, shows, core: 0 });
}

/// Metric files are there in every release.
fn metric(files: &mut Files, path: impl Into<String>, shows: Shows) {
    add(files, path, METRIC_MODE, Release::V2_24_7, shows);
}

fn counters(files: &mut Files, dir: &str, names: &[&'static str], node: Node) {
    for name in names {
        metric(files, format!("{dir}/{name}"), Shows::Counter(node, name));
    }
}

static DEVICE_FILES: LazyLock<Files> = LazyLock::new(|| {
    let mut files = Files::new();
    add(&mut files, "dev", 0o444, Release::V2_24_7, Shows::Dev);
    add(&mut files, "uevent", 0o644, Release::V2_24_7, Shows::Uevent);
    for attr in DEVICE_ATTRS {
        let shows = match attr.path {
            "reset" => Shows::Reset,
            "core_count" => Shows::CoreCount,
            "connected_devices" => Shows::ConnectedDevices,
            _ => Shows::FirmwareApi,
        };
        add(&mut files, attr.path, attr.mode, attr.since, shows);
    }
    metric(&mut files, "info/notify_delay", Shows::NotifyDelay);
    metric(&mut files, "info/serial_number", Shows::Serial);
    for name in ARCHITECTURE {
        metric(&mut files, format!("info/architecture/{name}"), Shows::Arch(name));
    }
    for name in HARDWARE {
        metric(&mut files, format!("stats/hardware/{name}"), Shows::Hardware(name));
    }
    metric(&mut files, "stats/power/utilization", Shows::Power);
    for (i, name) in HOST_MEMORY.iter().enumerate() {
        let dir = format!("stats/memory_usage/host_mem/{name}");
        counters(&mut files, &dir, &MEMORY_FILES, Node::HostMemory(i));
    }
    files
});

static CORE_FILES: LazyLock<Files> = LazyLock::new(|| {
    let mut files = Files::new();
    metric(&mut files, "info/architecture/arch_type", Shows::CoreArch);
    metric(&mut files, "stats/tensor_engine/pe_cntrs", Shows::TensorEngine);
    for (i, name) in STATUS.iter().enumerate() {
        counters(&mut files, &format!("stats/status/{name}"), &COUNTER_FILES, Node::Status(0, i));
    }
    for (i, name) in OTHER_INFO.iter().enumerate() {
        counters(&mut files, &format!("stats/other_info/{name}"), &COUNTER_FILES, Node::Other(0, i));
    }
    counters(&mut files, "stats/memory_usage/host_mem", &MEMORY_FILES, Node::CoreHost(0));
    counters(&mut files, "stats/memory_usage/device_mem", &MEMORY_FILES, Node::CoreDevice(0));
    for (i, name) in CORE_DEVICE_MEMORY.iter().enumerate() {
        let dir = format!("stats/memory_usage/device_mem/{name}");
        counters(&mut files, &dir, &MEMORY_FILES, Node::CoreDeviceMemory(0, i));
    }
    files
});

/// Core number and the rest of a path that begins with a core directory.
fn core_path(device: &Device, path: &str) -> Option<(usize, String)> {
    let (first, rest) = path.split_once('/').unwrap_or((path, ""));
    let core = first.strip_prefix("neuron_core")?.parse().ok()?;
    // Only the canonical spelling is a name: no "neuron_core01".
    (core < device.dhal.core_count() as usize && first == format!("neuron_core{core}")).then(|| (core, rest.into()))
}

/// The file with this path below the device directory.
pub(super) fn find(device: &Device, path: &str) -> Option<File> {
    let file = match core_path(device, path) {
        Some((core, rest)) => File { core, ..*CORE_FILES.get(&rest)? },
        None => *DEVICE_FILES.get(path)?,
    };
    (file.since <= device.env.profile.release()).then_some(file)
}

/// Names in a directory below the device directory; empty when there is no such directory.
pub(super) fn list(device: &Device, below: &str) -> Vec<Entry> {
    let mut entries: Vec<Entry> = match core_path(device, below) {
        Some((_, rest)) => children(device, &CORE_FILES, &rest),
        None => children(device, &DEVICE_FILES, below),
    };
    if below.is_empty() {
        let cores = (0..device.dhal.core_count()).map(|core| Entry::dir(format!("neuron_core{core}")));
        entries.extend(cores);
        let class = format!("../../../../{}", neuron_abi::kernel::sysfs::CLASS_DIR);
        entries.push(Entry { name: "subsystem".into(), kind: Kind::Link(class) });
    }
    entries
}

fn children(device: &Device, files: &Files, dir: &str) -> Vec<Entry> {
    let prefix = if dir.is_empty() { String::new() } else { format!("{dir}/") };
    let mut entries: Vec<Entry> = files
        .range(prefix.clone()..)
        .take_while(|(path, _)| path.starts_with(&prefix))
        .filter(|(_, file)| file.since <= device.env.profile.release())
        .map(|(path, file)| {
            let rest = &path[prefix.len()..];
            match rest.split_once('/') {
                Some((dir, _)) => Entry::dir(dir.into()),
                None => Entry { name: rest.into(), kind: Kind::File(file.mode) },
            }
        })
        .collect();
    entries.dedup();
    entries
}

impl File {
    pub(super) fn read(&self, driver: &Driver, device: &Device, caller: &Caller) -> String {
        let names = device.dhal.names(device.pci_device);
        // Registers are read as the driver reads them: a dead one may hold the caller up.
        let word = |offset| {
            let env = &device.env;
            let word = device.regs.misc_alive(&*env.clock, &caller.task, offset, dead_patience(env.profile));
            (word != DEAD).then_some(word)
        };
        match self.shows {
            Shows::Dev => format!("{MAJOR}:{}\n", device.index),
            Shows::Uevent => format!("MAJOR={MAJOR}\nMINOR={0}\nDEVNAME=neuron{0}\n", device.index),
            Shows::Reset => format!("{}\n", device.state() as u32),
            Shows::CoreCount => device.dhal.core_count().to_string(),
            Shows::ConnectedDevices => {
                let list = device.dhal.neighbours(device.pci_device, device.index, driver.counted());
                let list: Vec<_> = list.iter().map(u32::to_string).collect();
                format!("{}\n", list.join(", "))
            }
            Shows::FirmwareApi => {
                word(misc::API_VERSION).map_or_else(|| "busy\n".into(), |version| format!("{version}\n"))
            }
            Shows::NotifyDelay => if driver.notifies() { "0\n" } else { "-1\n" }.into(),
            Shows::Serial => match (device.regs.misc(misc::SERIAL_LO), device.regs.misc(misc::SERIAL_HI)) {
                (DEAD, _) | (_, DEAD) | (0, 0) => "\n".into(),
                (low, high) => format!("{:016x}\n", u64::from(high) << 32 | u64::from(low)),
            },
            Shows::Arch("arch_type") => format!("{}\n", names.device_arch),
            Shows::Arch("instance_type") => format!("{}\n", names.instance),
            Shows::Arch(_) => format!("{}\n", names.chip),
            Shows::CoreArch => format!("{}\n", names.core_arch),
            Shows::Hardware("sram_ecc_uncorrected") => {
                format!("{}\n", word(misc::ECC_SRAM).map_or(0, |w| w & 0xffff))
            }
            Shows::Hardware("mem_ecc_uncorrected") => format!("{}\n", device.dhal.memory_errors(&word)),
            Shows::Hardware(_) => format!("{}\n", device.dhal.repairable_memory_errors(&word)),
            // The firmware interface of the model has no power samples.
            Shows::Power => format!("POWER_STATUS_NO_DATA,{},0.00,0.00,0.00\n", device.env.clock.epoch_seconds()),
            // Nothing in the model counts array activity.
            Shows::TensorEngine => format!("{PE_HEADER}\n0,0,0,0\n1,0,0,0\n2,0,0,0\n3,0,0,0\n"),
            Shows::Counter(node, file) => format!("{}\n", device.metrics.get(node.of_core(self.core)).file(file)),
        }
    }

    /// Takes what was written. The kernel does not call the driver for an empty write.
    pub(super) fn write(&self, driver: &Driver, device: &Device, data: &[u8], caller: &Caller) {
        match self.shows {
            _ if data.is_empty() => {}
            Shows::Reset => {
                // The write takes the lock a last close holds while it waits for its reset.
                device.attach.wait_for_closes(&*device.env.clock, &caller.task);
                if device.attach.open_count() == 0 {
                    device.reset.submit(device, &caller.task, NC_MAP_DEVICE, RESET_REQUEST_ALL);
                }
            }
            Shows::NotifyDelay => match std::str::from_utf8(data).map(str::trim_end) {
                Ok("0") => driver.set_notifies(true),
                Ok("-1") => driver.set_notifies(false),
                _ => {}
            },
            Shows::Counter(node, file) => device.metrics.zero(node.of_core(self.core), file),
            _ => {}
        }
    }
}

/// Whether a class attribute is there.
pub(super) fn class_shown(driver: &Driver, attr: &neuron_abi::kernel::sysfs::Attr) -> bool {
    attr.shown(driver.env.profile.release(), driver.env.platform())
}

/// Text of a class attribute outside of a pod.
pub(super) fn read_class(driver: &Driver, name: &str) -> Result<String, Errno> {
    let attr = CLASS_ATTRS.iter().find(|a| a.path == name && class_shown(driver, a)).ok_or(Errno::ENOENT)?;
    // The driver has no operations to ask before a first device was probed.
    if driver.latched().is_none() {
        return Ok(String::new());
    }
    Ok(match attr.path {
        "hbm_7200_capable" => return Ok(fast_memory(driver)),
        // Firmware of the emulated interface version has no profiles.
        "node_id_2" | "node_id_4" | "node_id" | "current_perf_profile" => "-1\n",
        "node_cnt" => "0\n",
        "ultraserver_mode" => "\n",
        _ => "0000000000000000\n",
    }
    .into())
}

/// Whether the memory of all devices is of the faster kind: busy while a reset has yet to find
/// out about one of them, -1 when they differ.
fn fast_memory(driver: &Driver) -> String {
    let found: Option<Vec<_>> = driver.devices().iter().map(|d| d.reset_record.hbm_7200()).collect();
    match found.as_deref() {
        None => "busy\n".into(),
        Some([first, rest @ ..]) if rest.iter().all(|other| other == first) => format!("{}\n", u32::from(*first)),
        Some(_) => "-1\n".into(),
    }
}
