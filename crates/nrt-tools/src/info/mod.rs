//! What `nrt-info` shows: the machine as a program linked against this library would find it.

use neuron_abi::{Family, Size};
use nrt_core::{
    Status, config as settings,
    device::{
        self, Absent, Backend, DevInfo,
        claim::{Simulated, resolve_request},
        codename,
        count::{Refusal, Wanted, logical_count},
        product,
    },
    instance,
};
use serde::Serialize;

pub mod config;
pub mod pci;
pub mod text;

/// Why there is nothing to show.
#[derive(Debug)]
pub enum Failure {
    /// One sentence for a person.
    Sentence(String),
    /// The library has already written its reason to standard error.
    Logged(Status),
}

impl From<Status> for Failure {
    fn from(status: Status) -> Failure {
        Failure::Logged(status)
    }
}

impl From<Absent> for Failure {
    fn from(absent: Absent) -> Failure {
        match absent {
            Absent::Config(status) => Failure::Logged(status),
            other => Failure::Sentence(other.to_string()),
        }
    }
}

/// First and last number of a run, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Span {
    /// First number.
    pub first: u32,
    /// Last number.
    pub last: u32,
}

/// Who answers.
#[derive(Clone, Debug, Serialize)]
pub struct BackendReport {
    /// `fake` or `kernel`.
    pub kind: &'static str,
    /// What that means, in words.
    pub meaning: &'static str,
}

/// Identity, as `nrt_get_instance_info` gives it, with the names of its numbers.
#[derive(Clone, Debug, Serialize)]
pub struct InstanceReport {
    /// Family number.
    pub family: u32,
    /// Product-name token of the family.
    pub family_name: &'static str,
    /// Size number.
    pub size: u32,
    /// Product-name token of the size.
    pub size_name: &'static str,
    /// Architecture name.
    pub arch_name: String,
    /// Device revision; empty on a simulated instance.
    pub device_revision: String,
}

/// One device.
#[derive(Clone, Debug, Serialize)]
pub struct DeviceReport {
    /// Number of the device.
    pub index: u32,
    /// Its logical cores, numbered over the whole instance.
    pub logical_cores: Span,
    /// Its physical cores, numbered over the whole instance.
    pub physical_cores: Span,
    /// Linked devices in the driver's order; `null` when this process may not know.
    pub connected_devices: Option<Vec<u32>>,
}

/// Logical cores and who may see them.
#[derive(Clone, Debug, Serialize)]
pub struct LogicalReport {
    /// Physical cores of one logical core.
    pub physical_cores_per_logical_core: u32,
    /// What `nrt_get_total_vnc_count` answers.
    pub total: u32,
    /// What `nrt_get_visible_vnc_count` answers before `nrt_init`.
    pub visible: u32,
    /// Variable that decides what is visible; `null` when all is.
    pub visible_by: Option<&'static str>,
    /// The list of `NEURON_RT_VISIBLE_CORES`, expanded.
    pub visible_list: Option<Vec<u32>>,
}

/// What `nrt_init` would do with the cores, were all of them free.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum InitReport {
    /// It would take these.
    Takes {
        /// Logical cores, numbered over the whole instance.
        logical_cores: Span,
        /// Physical cores behind them.
        physical_cores: Span,
    },
    /// It would fail.
    Refuses {
        /// Name of the status.
        status: &'static str,
        /// The log text.
        reason: String,
    },
}

/// Everything.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Where the other answers come from.
    pub backend: BackendReport,
    /// Product name of the machine, or the simulated one.
    pub product: Option<String>,
    /// Whether the numbers of a simulated product are inferred from its siblings.
    pub product_is_inferred: bool,
    /// Identity; `null` when it cannot be told.
    pub instance: Option<InstanceReport>,
    /// Number of the silicon generation.
    pub architecture: u32,
    /// Its code name.
    pub architecture_codename: &'static str,
    /// Physical cores of one device.
    pub physical_cores_per_device: u32,
    /// Physical cores of all visible devices.
    pub physical_cores_total: u32,
    /// Logical cores.
    pub logical_cores: LogicalReport,
    /// What `nrt_init` would take.
    pub init: InitReport,
    /// Nominal memory of one device, in MiB.
    pub memory_mib_per_device: u32,
    /// Nominal memory of all visible devices, in MiB.
    pub memory_mib_total: u64,
    /// The devices this process can see.
    pub devices: Vec<DeviceReport>,
}

fn text(field: &[u8]) -> String {
    String::from_utf8_lossy(field).trim_end_matches('\0').to_owned()
}

fn instance_report() -> Option<InstanceReport> {
    let info = instance::info().ok()?;
    Some(InstanceReport {
        family: info.family,
        family_name: Family::from_repr(info.family)?.into(),
        size: info.size,
        size_name: Size::from_repr(info.size)?.into(),
        arch_name: text(&info.arch_name),
        device_revision: text(&info.device_revision),
    })
}

fn init_report(dev: &DevInfo, size: u32, wanted: &Wanted) -> InitReport {
    match resolve_request(dev, size, wanted, &mut Simulated) {
        Ok(grant) => {
            let span = |r: std::ops::Range<u32>| Span { first: r.start, last: r.end - 1 };
            InitReport::Takes { logical_cores: span(grant.logical()), physical_cores: span(grant.physical()) }
        }
        Err(refusal) => InitReport::Refuses { status: refusal.status().into(), reason: refusal.to_string() },
    }
}

/// Look at the machine.
pub fn gather() -> Result<Report, Failure> {
    let dev = device::look()?;
    let size = settings::lnc_size(&device::shape(&dev))?;
    let wanted = Wanted::from_config()?;
    let sentence = |refusal: Refusal| {
        let variable = if matches!(wanted, Wanted::List(_)) { "NEURON_RT_VISIBLE_CORES: " } else { "" };
        Failure::Sentence(format!("{variable}{refusal}"))
    };
    let per = dev.cores_per_device;
    let product = instance::product_name();
    let simulated = product.as_deref().filter(|_| dev.backend == Backend::Fake).and_then(product::find);
    Ok(Report {
        backend: match dev.backend {
            Backend::Fake => BackendReport {
                kind: "fake",
                meaning: "simulated inside the process, asked for by NEURON_RT_FAKE_INSTANCE_TYPE",
            },
            Backend::Kernel => BackendReport { kind: "kernel", meaning: "device files of a kernel driver" },
        },
        product_is_inferred: simulated.is_some_and(|p| p.inferred),
        product,
        instance: instance_report(),
        architecture: dev.arch as u32,
        architecture_codename: codename(dev.arch),
        physical_cores_per_device: per,
        physical_cores_total: dev.total_physical(),
        logical_cores: LogicalReport {
            physical_cores_per_logical_core: size,
            total: logical_count(dev.total_physical(), size).map_err(sentence)?,
            visible: wanted.count(&dev, size).map_err(sentence)?,
            visible_by: match wanted {
                Wanted::List(_) => Some("NEURON_RT_VISIBLE_CORES"),
                Wanted::Number(_) => Some("NEURON_RT_NUM_CORES"),
                Wanted::All => None,
            },
            visible_list: match &wanted {
                Wanted::List(list) => Some(list.clone()),
                _ => None,
            },
        },
        init: init_report(&dev, size, &wanted),
        memory_mib_per_device: dev.hbm_mib()?,
        memory_mib_total: u64::from(dev.hbm_mib()?) * dev.devices.len() as u64,
        devices: dev
            .devices
            .iter()
            .map(|&index| {
                let (first, last) = (index * per, index * per + per - 1);
                DeviceReport {
                    index,
                    logical_cores: Span { first: first / size, last: last / size },
                    physical_cores: Span { first, last },
                    connected_devices: device::neighbours(&dev, index),
                }
            })
            .collect(),
    })
}
