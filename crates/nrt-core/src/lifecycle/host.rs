//! Where the devices of this process are on their host (`facts/runtime/tensor_api.tsv`). Device
//! numbers can be asked in every state but that of a forked child, whose descriptors are its parent's.

use neuron_driver::{File, Mode};

use super::{State, runtime_if_up, state};
use crate::device::{self, DevInfo, Source, layer};
use crate::{Result, Status, log_debug, log_error};

/// Host-wide number of the device this process calls `device`. NRT_INVALID for a device it has not.
///
/// # Errors
/// As [`device::dev_info`]; what the driver answers.
pub fn host_device_id(device: i32) -> Result<u32> {
    const API: &str = "nrt_host_device_id_get";
    let devices = own(API)?.devices;
    let Some(device) = u32::try_from(device).ok().filter(|device| devices.contains(device)) else {
        log_error!(Nrt, API, "No device {device}, this process has {devices:?}");
        return Err(Status::Invalid);
    };
    match device::source()? {
        Source::Simulated(_) => Ok(device),
        Source::Kernel(host) => ask(API, &host, device, |file| file.host_device_id()),
    }
}

/// Routing id of every device of the host, by its number there.
///
/// # Errors
/// As [`device::dev_info`]; what the driver answers.
pub fn routing_ids() -> Result<Vec<u32>> {
    const API: &str = "nrt_host_device_id_rid_map_get";
    let devices = own(API)?.devices;
    match device::source()? {
        Source::Simulated(product) => Ok(devices.iter().map(|&device| product.routing_id(device)).collect()),
        Source::Kernel(host) => {
            let known = ask(API, &host, devices[0], |file| file.routing_ids())?;
            // A driver that is too old to tell numbers them alike (`facts/driver/cdev.md`).
            Ok(known.unwrap_or(devices))
        }
    }
}

/// Why no network adapter is attached to a device: simulated and emulated instances have none. Which
/// of the adapters of a real host is near a device stands in no source, so the log says that it is
/// not known. `Failure` in both cases.
pub fn no_attached_adapter() -> Status {
    const API: &str = "nrt_get_attached_efa_bdf";
    let adapters = match device::source() {
        Ok(Source::Simulated(_)) => Vec::new(),
        Ok(Source::Kernel(host)) => host.network_adapters(),
        Err(status) => return status,
    };
    if adapters.is_empty() {
        // Network libraries ask for every memory they register: nothing is wrong.
        log_debug!(Nrt, API, "No network adapter is attached to the devices of this instance");
    } else {
        log_error!(Nrt, API, "Which of {adapters:?} is near the device is not known; choose the adapter by hand");
    }
    Status::Failure
}

fn own(api: &'static str) -> Result<DevInfo> {
    if state() == State::Child {
        log_error!(Nrt, api, "The devices belong to the process this one was forked from; ask before the fork");
        return Err(Status::Failure);
    }
    device::dev_info()
}

/// Ask a device over the descriptor of the runtime, or, while it is down, over one of its own.
fn ask<T>(
    api: &'static str,
    host: &device::kernel::Host,
    device: u32,
    question: impl Fn(&dyn File) -> neuron_driver::Result<T>,
) -> Result<T> {
    let runtime = runtime_if_up();
    let layer = runtime.as_ref().map(|runtime| runtime.layer.lock());
    let answer = match layer.as_ref().and_then(|layer| layer.as_ref()) {
        Some(layer) => layer.file(device).and_then(|file| question(&**file)),
        None => host.driver.open(device, Mode::Info).and_then(|file| question(&*file)),
    };
    answer.map_err(|error| {
        log_error!(Tdrv, api, "{error}");
        layer::status(&error)
    })
}
