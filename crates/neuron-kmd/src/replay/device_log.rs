//! What the device saw, recorded against the model.
//!
//! Compared are the order and the values of handshakes, acknowledgements, status and routing id
//! reads, and of what DMA engines copied. Times are the recording machine's.

use std::sync::Arc;

use neuron_hw::Silicon;
use neuron_hw::trace::What;
use serde_json::Value;

/// One comparable event as text.
fn recorded(event: &Value) -> Option<(String, u64)> {
    let times = event["times"].as_u64().unwrap_or(1);
    let text = if let Some(kind) = event["type"].as_u64() {
        // The map word of a device reset is whatever an earlier scenario left there.
        if kind == 1 { "reset device".into() } else { format!("reset cores {}", event["map_reg"].as_str()?) }
    } else if event.get("ack").is_some() {
        "ack".into()
    } else if event["dma"] == "run" {
        // How many descriptors a copy needs depends on the pages of the recording program.
        format!("dma on engine {} queue {} of {} bytes", event["eng"], event["q"], event["bytes"])
    } else if let Some(status) = event["status_read"].as_u64() {
        format!("status {status}")
    } else {
        match event.get("rid")? {
            Value::String(_) => "routing id busy".into(),
            id => format!("routing id {id}"),
        }
    };
    Some((text, times))
}

fn model(what: What) -> Option<String> {
    Some(match what {
        What::Handshake { kind: 1, .. } => "reset device".into(),
        What::Handshake { map, .. } => format!("reset cores {map:#x}"),
        What::Ack => "ack".into(),
        What::DmaRun { engine, queue, bytes, .. } => format!("dma on engine {engine} queue {queue} of {bytes} bytes"),
        What::Status(status) => format!("status {status}"),
        What::RoutingId(Some(id)) => format!("routing id {id}"),
        What::RoutingId(None) => "routing id busy".into(),
        _ => return None,
    })
}

/// Runs of equal events; a long run of polls is compared by its kind alone, because the number
/// of polls is a matter of speed.
fn runs(events: impl Iterator<Item = (String, u64)>) -> Vec<(String, u64)> {
    const MANY: u64 = 100;
    let mut list: Vec<(String, u64)> = Vec::new();
    for (text, times) in events {
        match list.last_mut() {
            Some((last, count)) if *last == text => *count += times,
            _ => list.push((text, times)),
        }
    }
    list.iter_mut().for_each(|(_, count)| *count = (*count).min(MANY));
    list
}

fn show(list: &[(String, u64)]) -> String {
    list.iter()
        .map(|(text, n)| if *n == 1 { text.clone() } else { format!("{text} x{n}") })
        .collect::<Vec<_>>()
        .join(", ")
}

/// The recorded and the model's log of each device, where they differ.
pub fn differences(transcript: &Value, bus: &[Arc<Silicon>]) -> Option<Vec<(String, String)>> {
    let logs: Vec<&Vec<Value>> = match (transcript["device_log"].as_array(), transcript["device_logs"].as_array()) {
        (Some(log), _) => vec![log],
        (None, Some(logs)) => logs.iter().filter_map(Value::as_array).collect(),
        (None, None) => return None,
    };
    let mut wrong = Vec::new();
    for (log, silicon) in logs.into_iter().zip(bus) {
        let expected = runs(log.iter().filter_map(recorded));
        let (events, _) = silicon.take_trace();
        let mut given = runs(events.into_iter().filter_map(|e| Some((model(e.what)?, 1))));
        // A recording ends with its last step; the model may have gone on.
        given.truncate(expected.len().max(1));
        if expected != given {
            wrong.push((show(&expected), show(&given)));
        }
    }
    Some(wrong)
}
