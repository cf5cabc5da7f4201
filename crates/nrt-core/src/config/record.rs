//! The two records other programs read as raw bytes: 656 static bytes (`cfg`) and 296 heap bytes
//! (`gcfg`). Names, offsets and sizes: `facts/config/nrt_config.tsv`, `nrt_global_config.tsv`, `substructs.tsv`.
//!
//! Pointers are stored as plain addresses ([`Addr`]): the memory behind them is owned elsewhere in
//! safe containers, and the records stay copyable data without a byte of undefined padding.

use super::{
    choice::{LegacyNeff, UltraserverMode, Verbosity},
    grammar::{AlgMask, CpuSet, FetchBits, IramBlocks},
};
use std::mem::{offset_of, size_of};

/// One member of a record, for the tests that compare it with the facts.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) offset: usize,
    pub(crate) size: usize,
}

/// All bytes zero, as the vendor's static storage and zero-filled allocation are.
pub(crate) trait Zero: Copy {
    const ZERO: Self;
}

macro_rules! zero {
    ($($ty:ty = $zero:expr),+ $(,)?) => { $(impl Zero for $ty { const ZERO: Self = $zero; })+ };
}

zero! {
    bool = false, u8 = 0, u32 = 0, u64 = 0, i64 = 0, Addr = Addr(0),
    AlgMask = AlgMask(0), CpuSet = CpuSet([0; 16]), FetchBits = FetchBits(0), IramBlocks = IramBlocks([0; 5]),
    LegacyNeff = LegacyNeff(0), UltraserverMode = UltraserverMode::Unset, Verbosity = Verbosity::None,
}

impl<T: Zero, const N: usize> Zero for [T; N] {
    const ZERO: Self = [T::ZERO; N];
}

/// The address of something Rust owns, as a C reader sees it: a pointer, zero for NULL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Addr(pub(crate) usize);

impl Addr {
    pub(crate) fn of<T: ?Sized>(place: *const T) -> Addr {
        Addr(place.cast::<u8>().expose_provenance())
    }

    pub(crate) const fn plus(self, bytes: usize) -> Addr {
        Addr(self.0 + bytes)
    }
}

/// Defines a record from `member @ offset: type` lines. Padding is spelled out (`_pad…`), so the
/// sum of the sizes equals the size of the record: every byte belongs to a member and is written.
macro_rules! record {
    ($(#[$meta:meta])* $vis:vis struct $name:ident[$total:literal] { $($field:ident @ $offset:literal: $ty:ty,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug)]
        #[repr(C)]
        $vis struct $name { $(pub(crate) $field: $ty,)+ }

        #[cfg(test)]
        impl $name {
            /// Every member in order, padding included.
            pub(crate) const FIELDS: &'static [Field] = &[
                $(Field { name: stringify!($field), offset: offset_of!($name, $field), size: size_of::<$ty>() },)+
            ];
        }

        impl Zero for $name {
            const ZERO: Self = $name { $($field: <$ty as Zero>::ZERO,)+ };
        }

        const _: () = {
            $(assert!(offset_of!($name, $field) == $offset);)+
            assert!(size_of::<$name>() == $total);
            assert!(0 $(+ size_of::<$ty>())+ == $total);
        };
    };
}

record! {
    /// `std::vector<int>` of libstdc++: three pointers.
    pub(crate) struct IntVec[24] {
        begin @ 0: Addr,
        end @ 8: Addr,
        end_of_storage @ 16: Addr,
    }
}

record! {
    /// `std::map<notification_type, uint32_t>` of libstdc++: the comparator, the header node, the count.
    pub(crate) struct IntMap[48] {
        key_compare @ 0: u64,
        color @ 8: u32,
        _pad12 @ 12: [u8; 4],
        parent @ 16: Addr,
        left @ 24: Addr,
        right @ 32: Addr,
        node_count @ 40: u64,
    }
}

record! {
    /// One node of the map.
    pub(crate) struct MapNode[40] {
        color @ 0: u32,
        _pad4 @ 4: [u8; 4],
        parent @ 8: Addr,
        left @ 16: Addr,
        right @ 24: Addr,
        key @ 32: u32,
        value @ 36: u32,
    }
}

record! {
    /// Proxy latency histogram (`enc_proxy_histogram_config_t`).
    pub(crate) struct Histogram[168] {
        enable @ 0: bool,
        _pad1 @ 1: [u8; 7],
        bucket_usecs @ 8: u64,
        num_buckets @ 16: u64,
        per_neff_warmup @ 24: u64,
        warmup @ 32: u64,
        output_path @ 40: [u8; 128],
    }
}

record! {
    /// FP8 conversion settings as one bundle (`kbin_fp8_conv_cfg_t`).
    pub(crate) struct Fp8Bundle[16] {
        fp8_range_extension @ 0: bool,
        _pad1 @ 1: [u8; 3],
        emax_fp8_e4m3 @ 4: u32,
        emax_fp8_e5m2 @ 8: u32,
        ocp_sat @ 12: bool,
        sis @ 13: bool,
        sns @ 14: bool,
        _pad15 @ 15: [u8; 1],
    }
}

record! {
    /// The static record.
    pub(crate) struct StaticRecord[656] {
        metric_send_interval_secs @ 0: u32,
        dlr_worker_count @ 4: u32,
        virtual_core_size @ 8: u32,
        num_cores @ 12: u32,
        visible_virtual_cores @ 16: IntVec,
        cc_root_comm_id @ 40: Addr,
        sim_debug_flags @ 48: u32,
        _pad52 @ 52: [u8; 4],
        scratchpad_page_size @ 56: u64,
        reset_cores @ 64: bool,
        _pad65 @ 65: [u8; 7],
        mem_log_size @ 72: u64,
        max_trace_entries @ 80: u64,
        dbg_force_strict_ordering @ 88: bool,
        dbg_io_crc @ 89: bool,
        dbg_cc_nop @ 90: bool,
        dbg_cc_force_single_rank_rg @ 91: bool,
        dbg_cc_check_sigs @ 92: bool,
        dbg_verbose_log_dev_mem @ 93: bool,
        notif_error_nq_coalesce @ 94: bool,
        notif_full_evsem @ 95: bool,
        v2_min_ignore_nc_memory_error_interval @ 96: i64,
        dbg_hierarchical_cc_mode @ 104: u32,
        dbg_kangaring_cc_mode @ 108: u32,
        dbg_single_cycle_ring_allr_mode @ 112: u32,
        dbg_rdh_cc_mode @ 116: u32,
        dbg_inter_rdh_ch_buf_size @ 120: u64,
        dbg_inter_rdh_recv_window_n @ 128: u32,
        pool_stdout_queue_size_bytes @ 132: u32,
        dbg_cc_stream_mode @ 136: u32,
        dbg_mesh_cc_mode @ 140: bool,
        dbg_mesh_double_buffer @ 141: bool,
        dbg_rdh_double_buffer @ 142: bool,
        _pad143 @ 143: [u8; 1],
        dbg_enforce_mesh_global_handshake @ 144: u32,
        dbg_proxy_early_completion @ 148: bool,
        dbg_proxy_early_posting @ 149: bool,
        _pad150 @ 150: [u8; 2],
        ranks_per_network_proxy @ 152: u32,
        one_thread_per_core @ 156: bool,
        dbg_topsp_semaphores_clear_check @ 157: bool,
        _pad158 @ 158: [u8; 2],
        dbg_hier_cc_pipeline @ 160: u32,
        dbg_cc_inter_mesh_max_node_n @ 164: u32,
        dbg_cc_dma_packet_size @ 168: IntVec,
        cc_nr_channel_chunks @ 192: u32,
        cc_chunk_size @ 196: u32,
        cc_allowed_alg_types @ 200: AlgMask,
        dbg_topsp_evsem_notif_enabled @ 204: bool,
        disable_execution_barrier @ 205: bool,
        enable_hw_execution_barrier @ 206: bool,
        enable_internode_execution_barrier @ 207: bool,
        v2_disable_pack_descs @ 208: bool,
        _pad209 @ 209: [u8; 3],
        dma_packetization_size @ 212: u32,
        enable_memory_metrics @ 216: bool,
        _pad217 @ 217: [u8; 7],
        neuron_ucode_path @ 224: Addr,
        hw_decode_table_path @ 232: Addr,
        hw_decode_toggle @ 240: u32,
        enable_no_compile_mode @ 244: bool,
        _pad245 @ 245: [u8; 3],
        no_compile_mode_timeout @ 248: u32,
        fail_on_nan @ 252: bool,
        _pad253 @ 253: [u8; 3],
        dump_inputs_on_err @ 256: i64,
        input_dump_directory @ 264: Addr,
        hbm_scrub_init_val @ 272: u32,
        scrub_hbm @ 276: bool,
        _pad277 @ 277: [u8; 3],
        profile_buf_sizes @ 280: IntMap,
        m2s_prefetch_threshold @ 328: u32,
        s2m_prefetch_threshold @ 332: u32,
        map_hbm @ 336: bool,
        funtime @ 337: bool,
        _pad338 @ 338: [u8; 2],
        fake_family @ 340: u32,
        fake_size @ 344: u32,
        virtual_server_size @ 348: u32,
        low_latency_tasks_cpu_affinity_mask @ 352: CpuSet,
        cc_proxy_histogram_config @ 480: Histogram,
        dbg_force_use_2dev_proxy @ 648: bool,
        dbg_hybrid_ring_cc_enabled @ 649: bool,
        dbg_cc_sort_rg @ 650: bool,
        _pad651 @ 651: [u8; 5],
    }
}

record! {
    /// The heap record.
    pub(crate) struct HeapRecord[296] {
        allow_legacy_neff @ 0: LegacyNeff,
        _pad4 @ 4: [u8; 4],
        device_oom_dump_directory @ 8: Addr,
        scratchpad_on_single_core @ 16: u32,
        implicit_async_mode @ 20: bool,
        _pad21 @ 21: [u8; 3],
        async_exec_max_inflight_requests @ 24: u32,
        dbg_disable_dge @ 28: u32,
        dge_disable_bound_check @ 32: u32,
        dbg_vector_dge_skip_notif @ 36: bool,
        _pad37 @ 37: [u8; 3],
        ultraserver_mode @ 40: UltraserverMode,
        dma_prio_pkt_size @ 44: [u32; 5],
        cc_dma_copy_prio_pkt_size @ 64: [u32; 5],
        cc_cce_reduce_prio_pkt_size @ 84: [u32; 5],
        async_sr_boot_port @ 104: u32,
        async_sr_experimental_enabled @ 108: bool,
        _pad109 @ 109: [u8; 3],
        experimental_contiguous_scratchpad @ 112: u32,
        enable_p2p @ 116: bool,
        _pad117 @ 117: [u8; 3],
        seq_instr_block_size @ 120: IramBlocks,
        br_label_align_thresh @ 160: u64,
        local_core_dump_directory @ 168: Addr,
        s3_core_dump_prefix @ 176: Addr,
        funtime @ 184: bool,
        _pad185 @ 185: [u8; 3],
        stochastic_rounding_seed @ 188: u32,
        stochastic_rounding_en @ 192: bool,
        dbg_cc_stochastic_rounding_en @ 193: bool,
        enable_replica_group_validation @ 194: bool,
        dbg_disable_rmv_dst_routing @ 195: bool,
        embedded_sem_en @ 196: bool,
        dbg_topsp_event_include_default_algo @ 197: bool,
        _pad198 @ 198: [u8; 2],
        numerical_errors_verbosity @ 200: Verbosity,
        test_zerocopy @ 204: bool,
        _pad205 @ 205: [u8; 3],
        direct_bar4_write_size @ 208: u32,
        log_coalescing_enabled @ 212: bool,
        _pad213 @ 213: [u8; 3],
        ndebug_stream_evts_ring_size @ 216: u64,
        disable_bg_xpose @ 224: bool,
        _pad225 @ 225: [u8; 3],
        instr_fetch_h2d_bitmap @ 228: FetchBits,
        v4_plus @ 232: u32,
        default_fp8_cfg @ 236: Fp8Bundle,
        fp8_range_ext @ 252: bool,
        ocp_fp8_sat @ 253: bool,
        fp8_sns @ 254: bool,
        fp8_sis @ 255: bool,
        fp8_emax_e4m3 @ 256: u32,
        fp8_emax_e5m2 @ 260: u32,
        dbg_mesh_ch_buf_size @ 264: u64,
        dbg_intra_rdh_ch_buf_size @ 272: u64,
        enable_host_cc @ 280: bool,
        _pad281 @ 281: [u8; 3],
        dbg_enforce_rdh_global_handshake @ 284: u32,
        enable_model_switch_skip_tpb_config_optimization @ 288: bool,
        _pad289 @ 289: [u8; 7],
    }
}
