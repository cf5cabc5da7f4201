//! DMA rings, engines, queues and device programming.

use super::{UserPtr, layout};

layout! {
    /// Argument of `PROGRAM_ENGINE`.
    pub struct ProgramEngine = "neuron_ioctl_program_engine", 24 bytes {
        dst: u64 = 0,
        buffer: UserPtr = 8,
        size: u32 = 16,
        offset: u32 = 20,
    }

    /// Argument of `PROGRAM_ENGINE_NC`.
    pub struct ProgramEngineNc = "neuron_ioctl_program_engine_nc", 32 bytes {
        nc_id: u32 = 0,
        dst: u64 = 8,
        buffer: UserPtr = 16,
        size: u32 = 24,
        offset: u32 = 28,
    }

    /// Argument of `PROGRAM_ENGINE_NC64`.
    pub struct ProgramEngineNc64 = "neuron_ioctl_program_engine_nc64", 40 bytes {
        nc_id: u32 = 0,
        dst: u64 = 8,
        buffer: UserPtr = 16,
        size: u64 = 24,
        offset: u64 = 32,
    }

    /// Argument of `DMA_COPY_DESCRIPTORS`.
    pub struct DmaCopyDescriptors = "neuron_ioctl_dma_copy_descriptors", 32 bytes {
        mem_handle: u64 = 0,
        buffer: UserPtr = 8,
        num_descs: u32 = 16,
        offset: u32 = 20,
        queue_type: u32 = 24,
    }

    /// Argument of `DMA_COPY_DESCRIPTORS64`.
    pub struct DmaCopyDescriptors64 = "neuron_ioctl_dma_copy_descriptors64", 40 bytes {
        mem_handle: u64 = 0,
        buffer: UserPtr = 8,
        num_descs: u32 = 16,
        offset: u64 = 24,
        queue_type: u32 = 32,
    }

    /// Argument of `DMA_QUEUE_INIT`.
    pub struct DmaQueueInit = "neuron_ioctl_dma_queue_init", 48 bytes {
        eng_id: u32 = 0,
        qid: u32 = 4,
        tx_desc_count: u32 = 8,
        rx_desc_count: u32 = 12,
        tx_handle: u64 = 16,
        rx_handle: u64 = 24,
        rxc_handle: u64 = 32,
        axi_port: u32 = 40,
    }

    /// Argument of `DMA_QUEUE_INIT_BATCH`.
    pub struct DmaQueueInitBatch = "neuron_ioctl_dma_queue_init_batch", 12296 bytes {
        count: u32 = 0,
        entries: [DmaQueueInit; 256] = 8,
    }

    /// Argument of `DMA_QUEUE_RELEASE`.
    pub struct DmaQueueRelease = "neuron_ioctl_dma_queue_release", 8 bytes {
        eng_id: u32 = 0,
        qid: u32 = 4,
    }

    /// Argument of the removed queue quiesce command.
    pub struct DmaQuiesceQueues = "neuron_ioctl_dma_quiesce_queues", 264 bytes {
        nc_id: u32 = 0,
        engine_count: u32 = 4,
        queue_mask: [u32; 64] = 8,
    }

    /// Argument of `DMA_ACK_COMPLETED`.
    pub struct DmaAckCompleted = "neuron_ioctl_dma_ack_completed", 12 bytes {
        eng_id: u32 = 0,
        qid: u32 = 4,
        count: u32 = 8,
    }

    /// Argument of `DMA_QUEUE_COPY_START`.
    pub struct DmaQueueCopyStart = "neuron_ioctl_dma_queue_copy_start", 16 bytes {
        eng_id: u32 = 0,
        qid: u32 = 4,
        tx_desc_count: u32 = 8,
        rx_desc_count: u32 = 12,
    }

    /// Argument of `DMA_ENG_INIT`.
    pub struct DmaEngInit = "neuron_ioctl_dma_eng_init", 4 bytes {
        eng_id: u32 = 0,
    }

    /// Argument of `DMA_ENG_SET_STATE`.
    pub struct DmaEngSetState = "neuron_ioctl_dma_eng_set_state", 8 bytes {
        eng_id: u32 = 0,
        state: u32 = 4,
    }

    /// Argument of `DMA_ENG_GET_STATE`.
    pub struct DmaEngGetState = "neuron_ioctl_dma_eng_get_state", 16 bytes {
        eng_id: u32 = 0,
        state: UserPtr = 8,
    }

    /// Argument of `DMA_QUEUE_GET_STATE`.
    pub struct DmaQueueGetState = "neuron_ioctl_dma_queue_get_state", 24 bytes {
        eng_id: u32 = 0,
        qid: u32 = 4,
        tx: UserPtr = 8,
        rx: UserPtr = 16,
    }

    /// Argument of `DMA_DESCRIPTOR_COPYOUT`.
    pub struct DmaDescriptorCopyout = "neuron_ioctl_dma_descriptor_copyout", 32 bytes {
        eng_id: u32 = 0,
        qid: u32 = 4,
        r#type: u32 = 8,
        start_index: u32 = 12,
        count: u32 = 16,
        buffer: UserPtr = 24,
    }

    /// Argument of `HBM_SCRUB_START`.
    pub struct HbmScrubStart = "neuron_ioctl_hbm_scrub_start", 16 bytes {
        nc_id: u32 = 0,
        hbm_index: u32 = 4,
        axi_port: u32 = 8,
        init_val: u32 = 12,
    }

    /// Argument of `HBM_SCRUB_WAIT`.
    pub struct HbmScrubWait = "neuron_ioctl_hbm_scrub_wait", 8 bytes {
        nc_id: u32 = 0,
        hbm_index: u32 = 4,
    }

    /// What `DMA_ENG_GET_STATE` writes through its pointer.
    pub struct DmaEngState = "neuron_dma_eng_state", 20 bytes {
        revision_id: u32 = 0,
        max_queues: u32 = 4,
        num_queues: u32 = 8,
        tx_state: u32 = 12,
        rx_state: u32 = 16,
    }

    /// What `DMA_QUEUE_GET_STATE` writes through its two pointers.
    pub struct DmaQueueState = "neuron_dma_queue_state", 48 bytes {
        hw_status: u32 = 0,
        sw_status: u32 = 4,
        base_addr: u64 = 8,
        length: u32 = 16,
        head_pointer: u32 = 20,
        tail_pointer: u32 = 24,
        completion_base_addr: u64 = 32,
        completion_head: u32 = 40,
    }

    /// Argument of `H2T_DMA_ALLOC_QUEUES`. Since 2.25.4.
    pub struct H2tDmaAllocQueues = "neuron_ioctl_h2t_dma_alloc_queues", 20 bytes {
        sz: u16 = 0,
        nc_id: u16 = 2,
        copy_queue_cnt: u16 = 4,
        service_queue_cnt: u16 = 6,
        copy_queue_bmap: u32 = 8,
        service_queue_bmap: u32 = 12,
        copy_default_queue: u32 = 16,
    }

    /// Argument of `H2T_DMA_FREE_QUEUES`. Since 2.25.4.
    pub struct H2tDmaFreeQueues = "neuron_ioctl_h2t_dma_free_queues", 8 bytes {
        sz: u16 = 0,
        nc_id: u8 = 2,
        fill0: u8 = 3,
        queue_bmap: u32 = 4,
    }

    /// One completion queue of `GET_ASYNC_H2T_DMA_COMPL_QUEUES`. Since 2.27.4.
    pub struct H2tComplQueueInfoEnt = "neuron_h2t_compl_queue_info_ent", 16 bytes {
        mmap_offset: u64 = 0,
        mmap_size: u32 = 8,
    }

    /// Argument of `GET_ASYNC_H2T_DMA_COMPL_QUEUES`. Since 2.27.4.
    pub struct GetAsyncH2tDmaComplQueues = "neuron_ioctl_get_async_h2t_dma_compl_queues", 264 bytes {
        nc_id: u32 = 0,
        qid_bitmap: u32 = 4,
        compl_queue_info: [H2tComplQueueInfoEnt; 16] = 8,
    }
}
