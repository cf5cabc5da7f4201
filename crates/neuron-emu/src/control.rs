//! The control socket: a JSON object per line each way.
//!
//! | request | answer |
//! |---|---|
//! | `{"command":"status"}` | one object |
//! | `{"command":"fault","fault":"KIND[:ARGS][@DEVICES]"}` | one object |
//! | `{"command":"trace"}` | the events since the last time, one object with a list per device |
//! | `{"command":"reset-log"}` | one object with the driver's lines about resets |
//!
//! An answer has `"ok":true`, or `"ok":false` and a sentence in `"error"`.

use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;

use neuron_hw::trace::What;
use rustix::fs::{Mode, OFlags};
use serde_json::{Value, json};

use crate::faults::Order;
use crate::publish::Published;
use crate::server::Server;
use crate::tree::CONTROL;

/// Longest request line.
const LINE: u64 = 4096;

/// Calls `with` with a path to the socket in `root` that fits into a socket address.
fn short_path<T>(root: &Path, with: impl FnOnce(&str) -> io::Result<T>) -> io::Result<T> {
    let dir = rustix::fs::open(root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    with(&format!("/proc/self/fd/{}/{CONTROL}", dir.as_raw_fd()))
}

/// Starts answering.
///
/// # Errors
/// What the system says.
pub fn listen(published: &Published) -> io::Result<()> {
    let listener = short_path(&published.root, |path| UnixListener::bind(path))?;
    let server = published.server.clone();
    let accept = move || {
        for stream in listener.incoming().flatten() {
            let server = server.clone();
            // A client that cannot have a thread is turned away: its stream closes.
            let _ = std::thread::Builder::new().name("neuron-control".into()).spawn(move || serve(&server, &stream));
        }
    };
    std::thread::Builder::new().name("neuron-control".into()).spawn(accept)?;
    Ok(())
}

fn serve(server: &Arc<Server>, stream: &UnixStream) {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    while matches!(io::Read::take(&mut reader, LINE).read_line(&mut line), Ok(n) if n > 0) {
        let answer = match answer(server, &line) {
            Ok(mut answer) => {
                answer["ok"] = json!(true);
                answer
            }
            Err(error) => json!({ "ok": false, "error": error }),
        };
        line.clear();
        if writeln!(&*stream, "{answer}").is_err() {
            return;
        }
    }
}

fn answer(server: &Server, line: &str) -> Result<Value, String> {
    let known = "use status, fault, trace or reset-log";
    let request: Value =
        serde_json::from_str(line).map_err(|e| format!("the request is not a JSON object ({e}); {known}"))?;
    match request["command"].as_str() {
        Some("status") => Ok(status(server)),
        Some("trace") => Ok(trace(server)),
        Some("reset-log") => Ok(reset_log(server)),
        Some("fault") => {
            let text = request["fault"].as_str().ok_or("the request has no fault; add \"fault\":\"KIND\"")?;
            let order: Order = text.parse().map_err(|e: crate::faults::FaultError| e.to_string())?;
            server.machine.fault(&order).map_err(|e| e.to_string())?;
            Ok(json!({ "fault": order.text }))
        }
        _ => Err(format!("the request has no command that is known; {known}")),
    }
}

fn status(server: &Server) -> Value {
    let machine = &server.machine;
    let devices: Vec<_> = machine
        .driver
        .devices()
        .iter()
        .map(|device| {
            json!({
                "device": device.index,
                "state": format!("{:?}", device.state()).to_uppercase(),
                "open_files": device.attach.open_count(),
                "processes": device.attach.processes(),
                "resets": device.silicon.handshakes(),
            })
        })
        .collect();
    let failures: Vec<_> = machine.driver.failures().iter().map(ToString::to_string).collect();
    json!({
        "pid": std::process::id(),
        "instance": machine.product.name,
        "driver": machine.driver.env().profile.version(),
        "hbm_mib_per_device": machine.bus.first().map(|s| s.channel_bytes()).map(|bytes| {
            let base = neuron_hw::SiliconSpec::product(machine.product.pci_device()).map_or(1, |s| s.channel_bytes);
            u64::from(machine.product.hbm_mib) * bytes / base
        }),
        "shared_mappings": server.sharing.is_some(),
        "devices": devices,
        "failed_probes": failures,
        "kernel_oopses": machine.driver.env().log.lines().iter().filter(|l| l.kind == "kernel_oops").count(),
        "open_files": server.open_files(),
        "closed_but_mapped": server.sharing.as_ref().map_or(0, |s| s.mapped.len()),
        "calls_in_flight": server.waiting.len(),
    })
}

fn trace(server: &Server) -> Value {
    let devices: Vec<_> = server
        .machine
        .bus
        .iter()
        .enumerate()
        .map(|(device, silicon)| {
            let (events, lost) = silicon.take_trace();
            let events: Vec<_> =
                events.iter().map(|e| json!({ "at_us": e.at.as_micros() as u64, "event": event(e.what) })).collect();
            json!({ "device": device, "lost": lost, "events": events })
        })
        .collect();
    json!({ "devices": devices })
}

fn event(what: What) -> Value {
    match what {
        What::Read { offset, value } => json!({ "read": offset, "value": value }),
        What::Write { offset, value } => json!({ "write": offset, "value": value }),
        What::Handshake { number, kind, map } => json!({ "handshake": number, "kind": kind, "map": map }),
        What::Ack => json!({ "ack": true }),
        What::Status(value) => json!({ "status": value }),
        What::RoutingId(id) => json!({ "routing_id": id }),
        What::DmaRun { engine, queue, descriptors, bytes, bad } => {
            json!({ "dma": engine, "queue": queue, "descriptors": descriptors, "bytes": bytes, "bad": bad })
        }
        What::DmaIgnored { engine, queue } => json!({ "dma_ignored": engine, "queue": queue }),
        What::Request { command, bytes, answered } => {
            json!({ "request": command, "bytes": bytes, "answered": answered })
        }
        What::Semaphore { offset, value } => json!({ "semaphore": offset, "value": value }),
        What::WindowWrite { offset, value } => json!({ "window_write": offset, "value": value }),
        What::MiscWrite { offset, value } => json!({ "misc_write": offset, "value": value }),
    }
}

/// Lines of the driver's log that are about resets.
fn reset_log(server: &Server) -> Value {
    let lines = server.machine.driver.env().log.lines();
    let lines: Vec<_> = lines
        .iter()
        .filter(|line| line.kind.starts_with("reset_"))
        .map(|line| json!({ "kind": line.kind, "numbers": line.nums, "text": line.text }))
        .collect();
    json!({ "lines": lines })
}

/// Sends one request to the instance that is published at `root`.
///
/// # Errors
/// A sentence for the user.
pub fn request(root: &Path, request: &Value) -> Result<Value, String> {
    let shown = root.display();
    let stream = short_path(root, |path| UnixStream::connect(path))
        .map_err(|e| format!("no instance answers at {shown}: {e}; give the --root of a serve, or /proc/PID/root/dev/.neuron-emu for a run"))?;
    let gone = |e: io::Error| format!("the instance at {shown} went away: {e}; start it again");
    writeln!(&stream, "{request}").map_err(gone)?;
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line).map_err(gone)?;
    let answer: Value = serde_json::from_str(&line).map_err(|e| gone(e.into()))?;
    match answer["error"].as_str() {
        Some(error) => Err(error.to_owned()),
        None => Ok(answer),
    }
}
