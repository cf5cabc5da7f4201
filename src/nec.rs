//! Exports of `nec.h`: what the collectives library asks of the runtime.

use crate::args::Out;
use nrt_core::{device, lifecycle};

export! {
    /// Physical cores of a logical core.
    fn nec_get_virtual_core_size(virtual_core_size: Out<u32>) -> NRT_STATUS {
        virtual_core_size.set(lifecycle::lnc_size()?);
        Ok(())
    }
}

export! {
    /// Indices of the devices of this host, as many as fit, and how many there are; -1 without any.
    fn nec_get_device_count(available_devices_array: *mut i32, array_size: u32) -> i32 {
        let devices = device::dev_info()?.devices;
        if !available_devices_array.is_null() {
            for (i, device) in devices.iter().take(array_size as usize).enumerate() {
                // SAFETY: by the contract of the call the array has `array_size` elements.
                unsafe { available_devices_array.add(i).write_unaligned(*device as i32) };
            }
        }
        devices.len() as i32
    }
}

include!(concat!(env!("OUT_DIR"), "/stubs_nec.rs"));
