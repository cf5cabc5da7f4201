//! Memory: allocation, copies, addresses and mappings.

use super::{UserPtr, layout};

layout! {
    /// Argument of `MEM_ALLOC`.
    pub struct MemAlloc = "neuron_ioctl_mem_alloc", 32 bytes {
        size: u64 = 0,
        host_memory: u32 = 8,
        dram_channel: u32 = 12,
        dram_region: u32 = 16,
        nc_id: u32 = 20,
        mem_handle: UserPtr = 24,
    }

    /// Argument of `MEM_ALLOC_V2`.
    pub struct MemAllocV2 = "neuron_ioctl_mem_alloc_v2", 40 bytes {
        size: u64 = 0,
        align: u64 = 8,
        host_memory: u32 = 16,
        dram_channel: u32 = 20,
        dram_region: u32 = 24,
        nc_id: u32 = 28,
        mem_handle: UserPtr = 32,
    }

    /// Argument of `MEM_ALLOC_V2MT`.
    pub struct MemAllocV2MemType = "neuron_ioctl_mem_alloc_v2_mem_type", 48 bytes {
        size: u64 = 0,
        align: u64 = 8,
        host_memory: u32 = 16,
        dram_channel: u32 = 20,
        dram_region: u32 = 24,
        nc_id: u32 = 28,
        mem_type: u32 = 32,
        mem_handle: UserPtr = 40,
    }

    /// Argument of `MEM_ALLOC_V2MT64`.
    pub struct MemAllocV2MemType64 = "neuron_ioctl_mem_alloc_v2_mem_type64", 56 bytes {
        size: u64 = 0,
        align: u64 = 8,
        host_memory: u32 = 16,
        dram_channel: u32 = 20,
        dram_region: u32 = 24,
        nc_id: u32 = 28,
        mem_type: u32 = 32,
        mem_handle: UserPtr = 40,
        pad: u32 = 48,
    }

    /// Argument of `MEM_GET_INFO`.
    pub struct MemGetInfo = "neuron_ioctl_mem_get_info", 24 bytes {
        mem_handle: u64 = 0,
        mmap_offset: UserPtr = 8,
        pa: UserPtr = 16,
    }

    /// Argument of `MEM_GET_PA`.
    pub struct MemGetPa = "neuron_ioctl_mem_get_pa", 16 bytes {
        mem_handle: u64 = 0,
        pa: UserPtr = 8,
    }

    /// Argument of `MEM_GET_EXTENDED_INFO`.
    pub struct MemGetExtendedInfo = "neuron_ioctl_mem_get_extended_info", 48 bytes {
        mem_handle: u64 = 0,
        version: u32 = 8,
        host_memory: u32 = 12,
        mmap_offset: u64 = 16,
        pa: u64 = 24,
        pid: u64 = 32,
        size: u64 = 40,
    }

    /// Argument of `MEM_FREE`.
    pub struct MemFree = "neuron_ioctl_mem_free", 8 bytes {
        mem_handle: u64 = 0,
    }

    /// Argument of `MEM_COPY`.
    pub struct MemCopy = "neuron_ioctl_mem_copy", 32 bytes {
        src_mem_handle: u64 = 0,
        dst_mem_handle: u64 = 8,
        size: u32 = 16,
        src_offset: u32 = 20,
        dst_offset: u32 = 24,
    }

    /// Argument of `MEM_COPY64`.
    pub struct MemCopy64 = "neuron_ioctl_mem_copy64", 40 bytes {
        src_mem_handle: u64 = 0,
        dst_mem_handle: u64 = 8,
        size: u64 = 16,
        src_offset: u64 = 24,
        dst_offset: u64 = 32,
    }

    /// Argument of `MEM_COPY_ASYNC`.
    pub struct MemCopyAsync = "neuron_ioctl_mem_copy_async", 48 bytes {
        src_mem_handle: u64 = 0,
        dst_mem_handle: u64 = 8,
        size: u32 = 16,
        src_offset: u32 = 20,
        dst_offset: u32 = 24,
        host_prefetch_addr: u64 = 32,
        pwait_handle: u32 = 40,
        wait_handle: u32 = 44,
    }

    /// Argument of `MEM_COPY_ASYNC64`.
    pub struct MemCopyAsync64 = "neuron_ioctl_mem_copy_async64", 56 bytes {
        src_mem_handle: u64 = 0,
        dst_mem_handle: u64 = 8,
        size: u64 = 16,
        src_offset: u64 = 24,
        dst_offset: u64 = 32,
        host_prefetch_addr: u64 = 40,
        pwait_handle: u32 = 48,
        wait_handle: u32 = 52,
    }

    /// Argument of `MEM_COPY_ASYNC_WAIT`.
    pub struct MemCopyAsyncWait = "neuron_ioctl_mem_copy_async_wait", 24 bytes {
        src_mem_handle: u64 = 0,
        dst_mem_handle: u64 = 8,
        pwait_handle: u32 = 16,
    }

    /// Argument of `MEMSET`.
    pub struct Memset = "neuron_ioctl_memset", 24 bytes {
        mem_handle: u64 = 0,
        offset: u64 = 8,
        value: u32 = 16,
        size: u32 = 20,
    }

    /// Argument of `MEMSET64`.
    pub struct Memset64 = "neuron_ioctl_memset64", 32 bytes {
        mem_handle: u64 = 0,
        offset: u64 = 8,
        value: u32 = 16,
        size: u64 = 24,
    }

    /// Argument of `MEM_BUF_COPY`.
    pub struct MemBufCopy = "neuron_ioctl_mem_buf_copy", 32 bytes {
        mem_handle: u64 = 0,
        buffer: UserPtr = 8,
        size: u32 = 16,
        offset: u32 = 20,
        copy_to_mem_handle: u32 = 24,
    }

    /// Argument of `MEM_BUF_COPY64`, `MEM_BUF_ZEROCOPY64`.
    pub struct MemBufCopy64 = "neuron_ioctl_mem_buf_copy64", 40 bytes {
        mem_handle: u64 = 0,
        buffer: UserPtr = 8,
        size: u64 = 16,
        offset: u64 = 24,
        copy_to_mem_handle: u32 = 32,
    }

    /// Argument of `ACQUIRE_NEURON_DS`, `RELEASE_NEURON_DS`.
    pub struct NeuronDsInfo = "neuron_ioctl_neuron_ds_info", 24 bytes {
        pid: i32 = 0,
        mmap_offset: u64 = 8,
        size: u32 = 16,
    }

    /// Argument of `DMABUF_FD`.
    pub struct DmabufFd = "neuron_ioctl_dmabuf_fd", 24 bytes {
        va: u64 = 0,
        size: u64 = 8,
        fd: UserPtr = 16,
    }

    /// Argument of `MEM_MC_GET_INFO`.
    pub struct MemGetMcMmapInfo = "neuron_ioctl_mem_get_mc_mmap_info", 24 bytes {
        pa: u64 = 0,
        mmap_offset: u64 = 8,
        size: u64 = 16,
    }

    /// Argument of `MEM_MC_GET_INFO_V2`.
    pub struct MemGetMcMmapInfoV2 = "neuron_ioctl_mem_get_mc_mmap_info_v2", 32 bytes {
        pa: u64 = 0,
        mmap_offset: u64 = 8,
        size: u64 = 16,
        mem_handle: u64 = 24,
    }

    /// Argument of `DUMP_MEM_CHUNKS`.
    pub struct DumpMemChunks = "neuron_ioctl_dump_mem_chunks", 24 bytes {
        hbm_index: u32 = 0,
        num_entries_in: u32 = 4,
        num_entries_out: u32 = 8,
        data: UserPtr = 16,
    }

    /// One chunk of `DUMP_MEM_CHUNKS`.
    pub struct MemChunkInfo = "neuron_ioctl_mem_chunk_info", 24 bytes {
        pa: u64 = 0,
        size: u64 = 8,
        mem_type: u32 = 16,
    }

    /// Argument of `MEM_BUF_ZEROCOPY64`. Since 2.25.4.
    pub struct MemBufCopy64zc = "neuron_ioctl_mem_buf_copy64zc", 48 bytes {
        mem_handle: u64 = 0,
        buffer: UserPtr = 8,
        size: u64 = 16,
        offset: u64 = 24,
        is_copy_to_device: u32 = 32,
        bar4_wr_threshold: u32 = 36,
        h2t_qid: i32 = 40,
        dummy: u32 = 44,
    }

    /// Argument of `MEM_BUF_ZEROCOPY64_BATCHES`. Since 2.25.4.
    pub struct MemBufCopy64zcBatches = "neuron_ioctl_mem_buf_copy64zc_batches", 32 bytes {
        sequence_num: u64 = 0,
        batches_ptr: UserPtr = 8,
        num_batches: u32 = 16,
        is_copy_to_device: u16 = 20,
        h2t_qid: i32 = 24,
        flags: u16 = 28,
    }

    /// One operation of a batched zero copy. Since 2.25.4.
    pub struct TensorBatchOp = "nrt_tensor_batch_op", 24 bytes {
        offset: u64 = 0,
        size: u64 = 8,
        buffer: UserPtr = 16,
    }

    /// One batch of a batched zero copy. Since 2.25.4.
    pub struct MemcpyBatch = "neuron_memcpy_batch", 40 bytes {
        mem_handle: u64 = 0,
        mem_handle_offset: u64 = 8,
        ops_ptr: UserPtr = 16,
        num_ops: u32 = 24,
        bar4_wr_threshold: u16 = 28,
        flags: u16 = 30,
        context: UserPtr = 32,
    }

    /// Argument of `GET_VA_PLACEMENT`. Since 2.26.5.
    pub struct GetVaPlacement = "neuron_ioctl_get_va_placement", 16 bytes {
        va: u64 = 0,
        device_index: i32 = 8,
        hbm_index: i32 = 12,
    }

    /// Argument of `MEM_ALLOC_V2MT64_PA`. Only in development drivers (2.28, 2.29).
    pub struct MemAllocV2MemType64Pa = "neuron_ioctl_mem_alloc_v2_mem_type64_pa", 64 bytes {
        size: u64 = 0,
        align: u64 = 8,
        host_memory: u32 = 16,
        hbm_index: u32 = 20,
        dram_region_unused: u32 = 24,
        nc_id: u32 = 28,
        mem_type: u32 = 32,
        mem_handle: UserPtr = 40,
        pad: u32 = 48,
        pa: u64 = 56,
    }

    /// Argument of `MEM_BUF_ZEROCOPY64_SEQ`. Only in development drivers (2.28, 2.29).
    pub struct MemBufCopy64zcSeq = "neuron_ioctl_mem_buf_copy64zc_seq", 64 bytes {
        mem_handle: u64 = 0,
        buffer: UserPtr = 8,
        size: u64 = 16,
        offset: u64 = 24,
        is_copy_to_device: u32 = 32,
        bar4_wr_threshold: u32 = 36,
        h2t_qid: i32 = 40,
        dummy: u32 = 44,
        sequence_num: u64 = 48,
        context: UserPtr = 56,
    }

    /// Argument of `HOST_MEM_PIN`. Only in development drivers (2.28, 2.29).
    pub struct HostMemPin = "neuron_ioctl_host_mem_pin", 24 bytes {
        va: u64 = 0,
        size: u64 = 8,
        pa: u64 = 16,
    }

    /// Argument of `HOST_MEM_UNPIN`. Only in development drivers (2.28, 2.29).
    pub struct HostMemUnpin = "neuron_ioctl_host_mem_unpin", 8 bytes {
        va: u64 = 0,
    }

    /// Argument of `DMABUF_FD_V2`. Only in development drivers (2.28, 2.29).
    pub struct DmabufFdV2 = "neuron_ioctl_dmabuf_fd_v2", 32 bytes {
        va: u64 = 0,
        size: u64 = 8,
        fd: UserPtr = 16,
        offset: UserPtr = 24,
    }
}
