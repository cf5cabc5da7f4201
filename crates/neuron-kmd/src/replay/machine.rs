//! The recorded host: devices on a bus, and what a step does to them.

use std::sync::Arc;
use std::time::Duration;

use neuron_hw::pci::Bdf;
use neuron_hw::{Fault, Host, Silicon, SiliconSpec};
use serde_json::{Value, json};

use super::ReplayError;
use crate::driver::Driver;
use crate::time::VirtualClock;

fn bad(text: impl Into<String>) -> ReplayError {
    ReplayError::Malformed(text.into())
}

fn hex(value: &Value) -> Option<u64> {
    let text = value.as_str()?;
    u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}

/// Host memory of each device, sparse.
const HOST_BYTES: u64 = 1 << 36;

/// PCI id in the name of the folder a transcript is in.
fn product(transcript: &Value) -> Result<u16, ReplayError> {
    let name = transcript["device"].as_str().ok_or_else(|| bad("no device"))?;
    let id = name.split_once('-').and_then(|(_, id)| u16::from_str_radix(id, 16).ok());
    id.ok_or_else(|| bad(format!("device {name:?} has no PCI id")))
}

/// Devices as `device_config` says: a list with an entry per device, or a count. When the steps
/// are those of another product's transcript, its devices stand for the same ones of this.
pub fn devices(
    identity: &Value,
    transcript: &Value,
    clock: &Arc<VirtualClock>,
) -> Result<Vec<Arc<Silicon>>, ReplayError> {
    let (id, lender) = (product(identity)?, product(transcript)?);
    let entries = match &transcript["device_config"] {
        Value::Array(list) => list.clone(),
        Value::Object(map) => {
            let count = map.get("count").and_then(Value::as_u64).unwrap_or(1);
            (0..count).map(|rid| json!({ "RID": format!("{rid:x}") })).collect()
        }
        _ => vec![json!({})],
    };
    // A guest with many devices had smaller memory windows, which is told nowhere else.
    let steps = transcript["steps"].as_array().into_iter().flatten();
    let first_lspci = steps.clone().find(|s| s["op"] == "lspci").and_then(|s| s["res"]["devs"].as_array());
    let mut bus = Vec::new();
    for (i, entry) in entries.iter().enumerate() {
        let number = |key: &str| hex(&entry[key]);
        let device = number("DEVID").map(|d| d as u16).filter(|d| *d != lender).unwrap_or(id);
        let mut spec =
            SiliconSpec::product(device).ok_or_else(|| bad(format!("device {device:#06x} is not modelled")))?;
        spec.bdf = Bdf { slot: i as u8 + 1, ..Bdf::default() };
        spec.routing_id = number("RID").unwrap_or(0) as u32;
        spec.serial = number("SERIAL").unwrap_or(0);
        spec.api_version = number("APIV").unwrap_or(0) as u32;
        spec.revision = number("REVID").map_or(spec.revision, |r| r as u8);
        let recorded = first_lspci.and_then(|devs| recorded_sizes(&devs.get(i)?["resource"]).get(DRAM_BAR).copied());
        spec.bar4_bytes = number("B4").or(recorded).unwrap_or(spec.bar4_bytes);
        if number("NODRAM") == Some(1) {
            spec.bar4_bytes = 0;
        }
        let silicon = Silicon::new(spec, Host::Ram(HOST_BYTES), clock.clone()).map_err(|e| bad(e.to_string()))?;
        bus.push(Arc::new(silicon));
    }
    neuron_hw::pci::assign(&bus);
    Ok(bus)
}

/// What a `devctl` entry asks for.
pub fn fault(entry: &Value) -> Option<Fault> {
    let (key, value) = entry.as_object()?.iter().find(|(k, _)| *k != "value" && *k != "device")?;
    let number = value.as_u64().or_else(|| hex(value))?;
    let time = Duration::from_millis(number);
    Some(match key.as_str() {
        "normal" => Fault::Clear,
        "hold_ack_ms" => Fault::AckHold(time),
        "never_ack" => Fault::NeverAck(number != 0),
        "status_busy_stuck" => Fault::StatusStuck(number != 0),
        "status_busy_reads" => Fault::StatusBusyReads(number as u32),
        "status_busy_ms_after_ack" => Fault::StatusBusyAfterAck(time),
        "routing_id_busy_reads" => Fault::RoutingIdBusyReads(number as u32),
        "firmware_mailbox_silent" => Fault::MailboxSilent(number != 0),
        "set_misc_reg" => Fault::MiscRegister { offset: number, value: hex(&entry["value"])? as u32 },
        _ => return None,
    })
}

/// The bus as `lspci` shows it. Addresses are the recording machine's business, so a window is
/// compared by its size and flags.
pub fn lspci(bus: &[Arc<Silicon>], driver: Option<&Driver>) -> Vec<Value> {
    bus.iter()
        .map(|silicon| {
            let bdf = silicon.bdf();
            let bound = driver.is_some_and(|d| d.devices().iter().any(|n| Arc::ptr_eq(&n.silicon, silicon)));
            let sizes: Vec<u64> = silicon.config(|c| (0..6).map(|bar| c.bar_size(bar)).collect());
            json!({
                "bdf": format!("{:04x}:{:02x}:{:02x}.{}", bdf.domain, bdf.bus, bdf.slot, bdf.func),
                "device": format!("{:#06x}", silicon.config(|c| c.device())),
                "driver": bound.then_some("neuron-driver"),
                "resource": sizes,
            })
        })
        .collect()
}

/// BAR of the memory window, on every product.
const DRAM_BAR: usize = 4;

/// Sizes of the windows a recorded `lspci` line names.
pub fn recorded_sizes(resource: &Value) -> Vec<u64> {
    let window = |line: &Value| {
        let words: Vec<_> = line.as_str().unwrap_or_default().split(' ').map(|w| hex(&json!(w)).unwrap_or(0)).collect();
        match words[..] {
            [0, 0, _] => 0,
            [start, end, _] => end - start + 1,
            _ => 0,
        }
    };
    resource.as_array().into_iter().flatten().map(window).collect()
}
