//! Exports of `nrt.h`: lifecycle, counting and identity here, tensors in `tensor.rs`.

use crate::args::{InOut, Out, Prefix, VersionText};
use crate::types::{nrt_instance_info_t, nrt_vnc_memory_stats_t};
use nrt_core::{Status, instance, lifecycle, log_error};
use std::ffi::{c_char, c_void};

#[path = "nrt_tensor.rs"]
mod tensor;
pub(crate) use tensor::*;

export! {
    /// Bring the runtime up. Works in every state; what each answers is in
    /// `facts/runtime/lifecycle.md` section 1.1.
    fn nrt_init(framework: u32, fw_version: VersionText, fal_version: VersionText) -> NRT_STATUS {
        lifecycle::init(framework, fw_version.text(), fal_version.text())
    }
}

export! {
    /// Bring the runtime down; nothing when it is not up.
    fn nrt_close() {
        lifecycle::close();
    }
}

export! {
    /// Logical cores of the whole instance.
    fn nrt_get_total_vnc_count(nc_count: Out<u32>) -> NRT_STATUS {
        nc_count.set(lifecycle::total_vnc_count()?);
        Ok(())
    }
}

export! {
    /// Logical cores this process has, or before `nrt_init` would have.
    fn nrt_get_visible_vnc_count(nc_count: Out<u32>) -> NRT_STATUS {
        nc_count.set(lifecycle::visible_vnc_count()?);
        Ok(())
    }
}

export! {
    /// Identity of the instance: the first `instance_info_len` bytes of the record, at most 32.
    fn nrt_get_instance_info(info: Prefix<nrt_instance_info_t>, instance_info_len: usize) -> NRT_STATUS, quick known {
        let mut record = [0; size_of::<nrt_instance_info_t>()];
        let len = instance::copy_len(instance_info_len);
        instance::copy_out(instance_info_len, &mut record[..len])?;
        // SAFETY: the caller says that `instance_info_len` bytes are there, and `len` is not more.
        unsafe { info.write_bytes(&record[..len]) };
        Ok(())
    }
}

/// Programs ask who they are all the time, and the answer never changes: no guard for a copy.
///
/// # Safety
/// `info` is NULL or has room for `len` bytes.
#[inline]
unsafe fn known(info: *mut nrt_instance_info_t, len: usize) -> bool {
    let Some(record) = instance::known(len) else { return false };
    if info.is_null() {
        return false;
    }
    let (from, to) = (std::ptr::from_ref(record).cast::<u8>(), info.cast::<u8>());
    if len == size_of_val(record) {
        // SAFETY: both sides have the bytes of a whole record. A length the compiler knows is two moves.
        unsafe { to.copy_from_nonoverlapping(from, size_of_val(record)) };
    } else {
        // SAFETY: the caller's promise; `known` answers for lengths up to that of a record only.
        unsafe { to.copy_from_nonoverlapping(from, len) };
    }
    true
}

export! {
    /// Memory of one core of this process, as many bytes of the record as the caller has room for.
    fn nrt_get_vnc_memory_stats(
        vnc: u32,
        stats: Prefix<nrt_vnc_memory_stats_t>,
        stats_size_in: usize,
        stats_size_out: Option<Out<usize>>,
    ) -> NRT_STATUS {
        let now = lifecycle::runtime()?.tensors.memory_stats(vnc)?;
        let record = nrt_vnc_memory_stats_t { bytes_used: now.bytes_used as usize, bytes_limit: now.bytes_limit as usize };
        let len = stats_size_in.min(size_of_val(&record));
        // SAFETY: the caller says that `stats_size_in` bytes are there; the record has no padding.
        unsafe { stats.write(&record, len) };
        if let Some(out) = stats_size_out {
            out.set(len);
        }
        Ok(())
    }
}

export! {
    /// Address and size of a whole HBM in this process; 3 past the last one.
    fn nrt_get_hbm_mmap_va(device_id: i32, hbm_idx: i32, addr: Out<*mut c_void>, size: Out<usize>) -> NRT_STATUS {
        let (start, len) = lifecycle::runtime()?.tensors.hbm_window(device_id, hbm_idx)?;
        addr.set(start as *mut c_void);
        size.set(len);
        Ok(())
    }
}

export! {
    /// A DMA-buf descriptor of device memory, which the caller closes.
    fn nrt_get_dmabuf_fd(va: u64, size: u64, fd: InOut<i32>) -> NRT_STATUS {
        use std::os::fd::IntoRawFd;
        fd.set(lifecycle::runtime()?.tensors.dmabuf_fd(va, size)?.into_raw_fd());
        Ok(())
    }
}

export! {
    /// Host-wide number of a device.
    fn nrt_host_device_id_get(neuron_dev: i32, host_device_id: Out<u32>) -> NRT_STATUS {
        host_device_id.set(lifecycle::host_device_id(neuron_dev)?);
        Ok(())
    }
}

export! {
    /// Routing id of every device by its host-wide number. `count` is the room of the map on entry
    /// and the number of devices on return, also when the map was too small for them.
    fn nrt_host_device_id_rid_map_get(count: InOut<u32>, host_did_to_rid_map: *mut u32) -> NRT_STATUS {
        let ids = lifecycle::routing_ids()?;
        let room = count.get() as usize;
        count.set(ids.len() as u32);
        if host_did_to_rid_map.is_null() || room < ids.len() {
            log_error!(Nrt, CALL.name, "The map has room for {room} devices and there are {}; pass as many", ids.len());
            return Err(Status::Invalid);
        }
        for (i, id) in ids.into_iter().enumerate() {
            // SAFETY: by the contract of the call the map has `room` elements, and `i` is below that.
            unsafe { host_did_to_rid_map.add(i).write_unaligned(id) };
        }
        Ok(())
    }
}

export! {
    /// PCI address of the network adapter attached to the device of an address. None is ever told.
    fn nrt_get_attached_efa_bdf(va: *const c_void, efa_bdf: *mut c_char, len: InOut<usize>) -> NRT_STATUS {
        let _ = (va, efa_bdf, len);
        Err(lifecycle::no_attached_adapter())
    }
}

include!(concat!(env!("OUT_DIR"), "/stubs_nrt.rs"));
