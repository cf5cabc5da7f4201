//! The public C structs, with the vendor's names and layouts. `checks.rs`, generated from
//! `abi/layouts.tsv`, holds every size and offset against the table at compile time.

use std::ffi::{c_char, c_void};

/// A type whose content only this library knows.
macro_rules! opaque {
    ($($(#[$meta:meta])* $name:ident;)*) => { $(
        $(#[$meta])*
        #[repr(C)]
        pub(crate) struct $name {
            _content: [u8; 0],
        }
    )* };
}

opaque! {
    /// A tensor.
    nrt_tensor_t;
    /// A loaded model.
    nrt_model_t;
    /// A prepared collective.
    nrt_cc_context_t;
    /// Options of a capture.
    nrt_inspect_config_t;
    /// Options of continuous profiling.
    nrt_profile_continuous_options_t;
    /// Options of the system trace.
    nrt_sys_trace_config_t;
    /// Options of fetching system-trace events.
    nrt_sys_trace_fetch_options_t;
    /// A send or receive communicator.
    nrt_async_sendrecv_comm_t;
    /// A send or receive in flight.
    nrt_async_sendrecv_request_t;
}

/// A set of named tensors; the header makes it `void`.
pub(crate) type nrt_tensor_set_t = c_void;

/// What the implicit asynchronous mode calls after each run.
#[allow(clippy::upper_case_acronyms)]
pub(crate) type NRT_ASYNC_EXEC_STATUS_CALLBACK =
    Option<unsafe extern "C" fn(params: *mut c_void, model_id: u32, vnc: u32, job_id: u64, status: u32)>;

/// Answer of `nrt_get_instance_info`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct nrt_instance_info_t {
    pub(crate) family: u32,
    pub(crate) size: u32,
    pub(crate) arch_name: [c_char; 16],
    pub(crate) device_revision: [c_char; 8],
}

/// Answer of `nrt_get_version`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct nrt_version_t {
    pub(crate) rt_major: u64,
    pub(crate) rt_minor: u64,
    pub(crate) rt_patch: u64,
    pub(crate) rt_maintenance: u64,
    pub(crate) rt_detail: [u8; 128],
    pub(crate) git_hash: [u8; 64],
}

/// One transfer of a batch.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct nrt_tensor_batch_op_t {
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) buffer: *mut c_void,
}

/// The transfers of one tensor.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct nrt_tensor_batch_t {
    pub(crate) tensor: *const nrt_tensor_t,
    pub(crate) ops: *const nrt_tensor_batch_op_t,
    pub(crate) num_ops: u32,
}

/// Where the memory of a tensor is.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct nrt_tensor_device_allocation_info_t {
    pub(crate) physical_address: u64,
    pub(crate) size: usize,
    pub(crate) hbm_index: i32,
}

/// Memory of a core.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct nrt_vnc_memory_stats_t {
    pub(crate) bytes_used: usize,
    pub(crate) bytes_limit: usize,
}

/// Participants of a collective.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct nrt_cc_comm_t {
    pub(crate) replica_group: *mut u32,
    pub(crate) rank: u32,
    pub(crate) rank_n: u32,
    pub(crate) ctx_device_id: u32,
    pub(crate) ctx_device_count: u32,
    pub(crate) vnc: u32,
}

/// Tensors of a collective.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct nrt_tensor_list_t {
    pub(crate) tensors: *mut *mut nrt_tensor_t,
    pub(crate) num_tensors: usize,
}

/// One input or output of a model.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct nrt_tensor_info_t {
    pub(crate) name: [c_char; 256],
    pub(crate) usage: u32,
    pub(crate) size: usize,
    pub(crate) dtype: u32,
    pub(crate) shape: *mut u32,
    pub(crate) ndim: u32,
}

/// Inputs and outputs of a model.
#[repr(C)]
pub(crate) struct nrt_tensor_info_array_t {
    pub(crate) tensor_count: u64,
    pub(crate) tensor_array: [nrt_tensor_info_t; 0],
}

/// One image of the pooling engine's microcode.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct nrt_ucode_img {
    pub(crate) bin: *mut u8,
    pub(crate) size: usize,
}

/// Microcode of the pooling engine.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct nrt_ucode_info {
    pub(crate) iram: nrt_ucode_img,
    pub(crate) dram: nrt_ucode_img,
}

/// Facts of a loaded model.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct nrt_model_info_t {
    pub(crate) vnc: u32,
}

/// Head of a debug event.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct ndebug_stream_event_header_t {
    pub(crate) data_size: u64,
    pub(crate) r#type: u32,
    pub(crate) reserved: [c_char; 52],
}

/// A host buffer of the collectives library.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct enc_host_mem_t {
    pub(crate) mem_handle: *mut c_void,
    pub(crate) va: *mut c_void,
    pub(crate) pa: u64,
    pub(crate) size: usize,
}
