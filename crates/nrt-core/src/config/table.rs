//! The one table of variables: name, type, default, place, effect — a knob is one line.
//!
//! Names, types, defaults and places are those of `facts/config/env.tsv`; a test holds them together.
//! Where that table says "unknown" the default chosen here is recorded in `docs/compat.md`.

use super::{
    Shape,
    choice::{DeviceProfile, Fake, LegacyNeff, LogLevel, LogLocation, UltraserverMode, Verbosity},
    draft::Draft,
    env::Env,
    grammar::{AlgMask, CpuSet, FetchBits, IramBlocks},
    inspect::{self, CoreFilter, EventFilter},
    lnc::{self, Rung},
    parse::{self, Check, Fault, Ints, Origin, Reason, Text, Value},
    prefix::{MODULE_TAGS, PROFILE_KINDS, Tagged},
    record::{HeapRecord, Histogram, StaticRecord, Zero},
};
use neuron_abi::{Arch, Family};
use std::{borrow::Cow, mem::offset_of};

/// One variable.
pub(crate) struct Knob {
    pub(crate) name: &'static str,
    pub(crate) group: &'static str,
    pub(crate) effect: &'static str,
    pub(crate) places: &'static [Place],
    pub(crate) mark: Mark,
    pub(crate) rule: &'static dyn Rule,
}

/// Where a value ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A member of a record, by record name, member name and offset.
    Member(&'static str, &'static str, usize),
    /// No record; the text says which part of the runtime reads it.
    Elsewhere(&'static str),
}

/// What sets a variable apart, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark(u8);

impl Mark {
    const NONE: Mark = Mark(0);
    /// Switches off a memory-safety check or loads code: an operator should know that it is set.
    pub(crate) const SECURITY: Mark = Mark(1);
    /// A bad text falls back instead of failing init.
    pub(crate) const LENIENT: Mark = Mark(2);
    /// Read again at every model load.
    pub(crate) const LOAD: Mark = Mark(4);
    /// Read again at every begin of an inspection.
    pub(crate) const INSPECT: Mark = Mark(8);

    const fn and(self, other: Mark) -> Mark {
        Mark(self.0 | other.0)
    }

    pub(crate) const fn has(self, other: Mark) -> bool {
        self.0 & other.0 == other.0
    }
}

/// What one variable did to the draft.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) origin: Origin,
    pub(crate) faults: Vec<Fault>,
}

/// How a variable is read; its type is behind this.
pub(crate) trait Rule: Sync {
    /// Look up, parse and store; a bad text stores the default.
    fn apply(&self, name: &'static str, env: &dyn Env, shape: &Shape, draft: &mut Draft) -> Outcome;
    /// The value now, for a person.
    fn show(&self, draft: &Draft) -> String;
    /// What a good text looks like.
    fn form(&self) -> Cow<'static, str>;
    /// How the default follows from the hardware, if it does.
    fn arch_rule(&self) -> Option<&'static str>;
    /// True when even a text that is there cannot be judged without the hardware.
    fn judged_by_shape(&self) -> bool {
        false
    }
    /// The names looked up; more than one where the table has a prefix.
    fn full_names(&self, name: &'static str) -> Vec<String> {
        vec![name.into()]
    }
}

/// The plain rule: a default, a place, perhaps a check.
struct Slot<T: 'static> {
    default: fn(&Shape) -> T,
    arch_rule: Option<&'static str>,
    check: Option<Check<T>>,
    only: Option<Arch>,
    put: fn(&mut Draft) -> &mut T,
    get: fn(&Draft) -> &T,
}

impl<T: Value> Rule for Slot<T> {
    fn apply(&self, name: &'static str, env: &dyn Env, shape: &Shape, draft: &mut Draft) -> Outcome {
        let absent = if self.arch_rule.is_some() { Origin::ArchRule } else { Origin::Default };
        let default = (self.default)(shape);
        let dest = (self.put)(draft);
        if self.only.is_some_and(|arch| arch != shape.arch) {
            *dest = default;
            return Outcome { origin: absent, faults: Vec::new() };
        }
        match parse::read(env, name, default, self.check, dest) {
            Ok(given) => Outcome { origin: if given { Origin::Environment } else { absent }, faults: Vec::new() },
            Err(fault) => Outcome { origin: absent, faults: vec![fault] },
        }
    }

    fn show(&self, draft: &Draft) -> String {
        (self.get)(draft).show()
    }

    fn form(&self) -> Cow<'static, str> {
        T::form()
    }

    fn arch_rule(&self) -> Option<&'static str> {
        self.arch_rule
    }
}

/// A value and the texts that were refused on the way to it.
pub(crate) type Parsed<T> = (T, Vec<Fault>);

/// Apply the variables with `mark` to a fresh draft.
pub(crate) fn apply_marked(mark: Mark, env: &dyn Env, shape: &Shape) -> Parsed<Draft> {
    let mut draft = Draft::new();
    let faults = TABLE
        .iter()
        .filter(|knob| knob.mark.has(mark))
        .flat_map(|knob| knob.rule.apply(knob.name, env, shape, &mut draft).faults)
        .collect();
    (draft, faults)
}

/// Log every fault on behalf of `function`; the worst status wins.
pub(crate) fn report_all<T>(function: &str, (value, faults): Parsed<T>) -> crate::Result<T> {
    let worst = faults.iter().map(|fault| fault.report(function)).max();
    worst.map_or(Ok(value), Err)
}

fn at_most<const MAX: u32>(value: &u32) -> Result<(), Reason> {
    let give = || format!("a whole number from 0 to {MAX}, decimal or 0x hex");
    if *value <= MAX { Ok(()) } else { Err(Reason::rule("is out of range", give())) }
}

fn shorter<const MAX: usize>(text: &Text) -> Result<(), Reason> {
    if text.as_bytes().len() <= MAX {
        return Ok(());
    }
    Err(Reason::rule("is too long", format!("at most {MAX} bytes")))
}

fn power_of_two(value: &u64) -> Result<(), Reason> {
    if value.is_power_of_two() {
        return Ok(());
    }
    Err(Reason::rule("is not a power of two", "a power of two such as 262144"))
}

/// The number of MiB must be positive and its bytes must fit 64 bits.
fn mib(value: &u64) -> Result<(), Reason> {
    if (1..=u64::MAX >> 20).contains(value) {
        return Ok(());
    }
    Err(Reason::rule("is out of range", "a positive number of MiB, officially a multiple of 512 below 4096"))
}

fn some_mib(value: &Option<u64>) -> Result<(), Reason> {
    value.as_ref().map_or(Ok(()), mib)
}

/// Instances with the first-generation NeuronSwitch: the arch 4 families.
fn has_switch_v1(shape: &Shape) -> bool {
    matches!(shape.family, Family::Trn3 | Family::Trn3pds98)
}

fn newer_than_sunda(shape: &Shape) -> bool {
    shape.arch > Arch::Sunda
}

fn hw_decode_toggle(shape: &Shape) -> u32 {
    match shape.arch {
        Arch::Mariana => 11,
        Arch::Cayman => 3,
        Arch::Sunda => 0,
    }
}

macro_rules! place {
    (cfg, $member:ident) => {
        Place::Member("cfg", stringify!($member), offset_of!(StaticRecord, $member))
    };
    (gcfg, $member:ident) => {
        Place::Member("gcfg", stringify!($member), offset_of!(HeapRecord, $member))
    };
    ($root:ident, $member:ident) => {
        Place::Elsewhere(concat!(stringify!($root), " options: ", stringify!($member)))
    };
}

macro_rules! mark {
    (model) => {
        Mark::LOAD
    };
    (inspect) => {
        Mark::INSPECT
    };
    ($other:ident) => {
        Mark::NONE
    };
}

/// `group NAME: type = default => root.member, "effect"`. Options: `= by("rule", function)` for a
/// default that follows the hardware, `NAME + TAGS + suffix` for one variable per tag, `if check`, `only arch`, `in [record.member …]` when the value
/// is held outside the records and a rule carries it there, `+ MARK`.
macro_rules! knob {
    ($group:literal $name:literal: $ty:ty = by($rule:literal, $default:expr)
        $(, only $only:expr)? => $($rest:tt)+) => {
        knob!(@ $group, $name, $ty, $default, Some($rule), [], [$($only)?], $($rest)+)
    };
    ($group:literal $name:literal: $ty:ty = $default:expr $(, if $check:expr)? $(, only $only:expr)? => $($rest:tt)+) => {
        knob!(@ $group, $name, $ty, |_| $default, None, [$($check)?], [$($only)?], $($rest)+)
    };
    (@ $group:literal, $name:literal, $ty:ty, $default:expr, $arch:expr, $check:tt, $only:tt,
        $root:ident.$member:ident, $effect:literal $(+ $mark:ident)*) => {
        knob!(@ $group, $name, $ty, $default, $arch, $check, $only,
            $root.$member in [$root.$member], $effect $(+ $mark)*)
    };
    (@ $group:literal, $name:literal, $ty:ty, $default:expr, $arch:expr, [$($check:expr)?], [$($only:expr)?],
        $root:ident.$member:ident in [$($place:ident.$field:ident),+], $effect:literal $(+ $mark:ident)*) => {
        Knob {
            name: $name,
            group: $group,
            effect: $effect,
            places: &[$(place!($place, $field)),+],
            mark: mark!($root)$(.and(Mark::$mark))*,
            rule: &Slot::<$ty> {
                default: $default,
                arch_rule: $arch,
                check: knob!(@option $($check)?),
                only: knob!(@option $($only)?),
                put: |draft| &mut draft.$root.$member,
                get: |draft| &draft.$root.$member,
            },
        }
    };
    ($group:literal $prefix:literal + $tags:ident + $suffix:literal: $ty:ty => $root:ident.$member:ident, $($rest:tt)+) => {
        knob!($group $prefix + $tags + $suffix: $ty => $root.$member in [$root.$member], $($rest)+)
    };
    ($group:literal $prefix:literal + $tags:ident + $suffix:literal: $ty:ty =>
        $root:ident.$member:ident in [$place:ident.$field:ident], $effect:literal $(+ $mark:ident)*) => {
        Knob {
            name: $prefix,
            group: $group,
            effect: $effect,
            places: &[place!($place, $field)],
            mark: mark!($root)$(.and(Mark::$mark))*,
            rule: &Tagged::<$ty> {
                tags: $tags,
                suffix: $suffix,
                put: |draft| &mut draft.$root.$member,
                get: |draft| &draft.$root.$member,
            },
        }
    };
    (@option) => { None };
    (@option $value:expr) => { Some($value) };
}

/// The two rungs of the size of a logical core.
const fn rung(name: &'static str, effect: &'static str, rule: &'static Rung) -> Knob {
    Knob { name, group: "core", effect, places: &[place!(cfg, virtual_core_size)], mark: Mark::NONE, rule }
}

/// Every variable of the vendor library, 147 of them, grouped by subject.
#[rustfmt::skip]
pub(crate) static TABLE: &[Knob] = &[
    // Which cores, which instance.
    knob!("core" "NEURON_RT_NUM_CORES": u32 = 0 => cfg.num_cores, "number of logical cores to claim, 0 for all of them"),
    knob!("core" "NEURON_RT_VISIBLE_CORES": Ints = Ints::default() => lists.visible_virtual_cores in [cfg.visible_virtual_cores], "which logical cores to claim; stronger than NUM_CORES"),
    rung(lnc::SECOND, "physical cores per logical core, when NEURON_LOGICAL_NC_CONFIG is not set", &Rung(lnc::SECOND)),
    rung(lnc::FIRST, "physical cores per logical core", &Rung(lnc::FIRST)),
    knob!("core" "NEURON_RT_NINFER": Option<u32> = None => runtime.inferences_per_core, "older count of runs in flight per core; no effect here"),
    knob!("core" "NEURON_RT_RESET_CORES": bool = true => cfg.reset_cores, "reset the claimed cores at init"),
    knob!("core" "NEURON_RT_FAKE_INSTANCE_TYPE": Fake = Fake(None) => held.fake in [cfg.funtime, cfg.fake_family, cfg.fake_size, gcfg.funtime], "simulate this instance type inside the process"),
    knob!("core" "NEURON_RT_ULTRASERVER_MODE": UltraserverMode = UltraserverMode::Unset => gcfg.ultraserver_mode, "how the nodes of an UltraServer are linked"),
    knob!("core" "NEURON_RT_ULTRASERVER_SINGLE_NODE": bool = false => held.ultraserver_single_node in [gcfg.ultraserver_mode], "treat an UltraServer node as standalone (mode 4)"),
    knob!("core" "NEURON_DEVICE_COUNT": Option<u32> = None => runtime.device_count, "number of devices to assume; no effect here"),
    knob!("core" "NEURON_SIM_DEBUG_FLAGS": u32 = 85 => cfg.sim_debug_flags, "debug bits of the simulator"),
    // Descriptor engine and the checks around it.
    knob!("dge" "NEURON_RT_DBG_DISABLE_DGE": u32 = 0 => gcfg.dbg_disable_dge, "engines that use software descriptors, one bit each; 255 is all" + SECURITY),
    knob!("dge" "NEURON_RT_DBG_DISABLE_DGE_BOUND_CHECK": u32 = 0 => gcfg.dge_disable_bound_check, "not 0 drops the bounds check of gather and scatter transfers" + SECURITY),
    knob!("dge" "NEURON_RT_DBG_VECTOR_DGE_SKIP_NOTIF": bool = false => gcfg.dbg_vector_dge_skip_notif, "vector descriptors finish without a notice"),
    knob!("dge" "NEURON_RT_ENABLE_DGE_NOTIFICATIONS": bool = false => model.dge_notifications, "notice for each descriptor transfer; the queue may overflow"),
    knob!("dge" "NEURON_RT_DBG_INST_VALIDITY_CHECK": bool = true => model.instruction_check, "check every instruction of a model at load" + SECURITY),
    knob!("dge" "NEURON_RT_DBG_INDIRECT_MEMCPY_BOUND_CHECK": bool = true => model.indirect_copy_bound_check, "check the range of indirect copies" + SECURITY),
    knob!("dge" "NEURON_RT_DBG_EMBEDDING_UPDATE_BOUND_CHECK": bool = true => model.embedding_update_bound_check, "check the range of embedding updates" + SECURITY),
    knob!("dge" "NEURON_RT_DBG_SB_MEMSET": bool = false => model.state_buffer_memset, "fill the state buffer before each run"),
    // DMA rings and packets.
    knob!("dma" "NEURON_RT_DBG_DMA_PACKETIZATION_SIZE": u32 = 4096, if at_most::<0xF_FFFF> => cfg.dma_packetization_size, "largest packet of a DMA ring, bytes"),
    knob!("dma" "NEURON_RT_DBG_DMA_PRIO_PKT_SIZE": [u32; 5] = [0; 5] => gcfg.dma_prio_pkt_size, "packet bytes for each DMA priority, 0 for no preference"),
    knob!("dma" "NEURON_RT_DISABLE_PACK_DESCRIPTORS": bool = false => cfg.v2_disable_pack_descs, "keep descriptors unpacked (arch 2)"),
    knob!("dma" "NEURON_RT_DBG_M2S_PREFETCH_THRESHOLD": u32 = 0 => cfg.m2s_prefetch_threshold, "descriptor prefetch threshold, memory to stream"),
    knob!("dma" "NEURON_RT_DBG_S2M_PREFETCH_THRESHOLD": u32 = 119 => cfg.s2m_prefetch_threshold, "descriptor prefetch threshold, stream to memory"),
    knob!("dma" "NEURON_RT_DBG_DIRECT_BAR4_WRITE_SIZE": u32 = by("4096 above arch 2, else 0", |shape| if newer_than_sunda(shape) { 4096 } else { 0 }) => gcfg.direct_bar4_write_size, "writes up to this many bytes go through the BAR without DMA"),
    knob!("dma" "NEURON_RT_INSTR_FETCH_ON_H2D": FetchBits = by("1 above arch 2, else 0", |shape| FetchBits(newer_than_sunda(shape).into())) => gcfg.instr_fetch_h2d_bitmap, "fetch instructions over host-to-device rings"),
    knob!("dma" "NEURON_RT_ENABLE_DMA_TRACING": bool = false => runtime.dma_tracing, "trace DMA transfers"),
    knob!("dma" "NEURON_RT_DBG_DISABLE_RMV_DST_ROUTING": bool = false => gcfg.dbg_disable_rmv_dst_routing, "leave one DMA routing mode off"),
    knob!("dma" "NEURON_RT_DBG_DISABLE_RMV_DST_ROUTE": bool = false => held.disable_rmv_dst_route in [gcfg.dbg_disable_rmv_dst_routing], "older spelling of DBG_DISABLE_RMV_DST_ROUTING, weaker than it"),
    knob!("dma" "NEURON_RT_IO_RING_CACHE_SIZE": Option<u32> = None => model.io_ring_cache_size, "entries of the ring cache of model inputs and outputs"),
    knob!("dma" "NEURON_RT_ERROR_NQ_COALESCE": bool = false => cfg.notif_error_nq_coalesce, "merge error notices"),
    knob!("dma" "NEURON_RT_DBG_ZEROCOPY": bool = false => gcfg.test_zerocopy, "test path that copies nothing"),
    // Collectives.
    knob!("collectives" "NEURON_RT_CC_ALG_TYPES": AlgMask = AlgMask::ALL => cfg.cc_allowed_alg_types, "collective algorithms to allow, or to exclude after ^"),
    knob!("collectives" "NEURON_RT_CC_CHANNEL_BUFFER_N": u32 = 8 => cfg.cc_nr_channel_chunks, "chunks in one channel buffer"),
    knob!("collectives" "NEURON_RT_CC_CHUNK_SIZE": u32 = 0x20_0000 => cfg.cc_chunk_size, "bytes of one chunk"),
    knob!("collectives" "NEURON_RT_DBG_CC_CHECK_SIGS": bool = true => cfg.dbg_cc_check_sigs, "ranks compare the signatures of their collectives"),
    knob!("collectives" "NEURON_RT_DBG_CC_DMA_PACKET_SIZE": Ints = Ints::default() => lists.dbg_cc_dma_packet_size in [cfg.dbg_cc_dma_packet_size], "copy packet bytes of each stream, 16 streams at most"),
    knob!("collectives" "NEURON_RT_DBG_CC_DMA_COPY_DMA_PRIO_PKT_SIZE": [u32; 5] = [0; 5] => gcfg.cc_dma_copy_prio_pkt_size, "copy packet bytes for each DMA priority, 0 for no preference"),
    knob!("collectives" "NEURON_RT_DBG_CC_CCE_REDUCE_DMA_PRIO_PKT_SIZE": [u32; 5] = [0; 5] => gcfg.cc_cce_reduce_prio_pkt_size, "reduction packet bytes for each DMA priority, 0 for no preference"),
    knob!("collectives" "NEURON_RT_DBG_CC_FORCE_SINGLE_RANK_RG": bool = false => cfg.dbg_cc_force_single_rank_rg, "every replica group has a single rank; results are wrong"),
    knob!("collectives" "NEURON_RT_DBG_CC_INTER_MESH_MAX_NODES": u32 = 16 => cfg.dbg_cc_inter_mesh_max_node_n, "most nodes that use a mesh between them"),
    knob!("collectives" "NEURON_RT_DBG_CC_NOP": bool = false => cfg.dbg_cc_nop, "collectives do nothing; results are wrong"),
    knob!("collectives" "NEURON_RT_DBG_CC_PROXY_HISTOGRAM_CONFIG": Histogram = Histogram::ZERO => cfg.cc_proxy_histogram_config, "latency histogram of the network proxy and its file"),
    knob!("collectives" "NEURON_RT_DBG_CC_SORT_RG": bool = false => cfg.dbg_cc_sort_rg, "sort replica groups"),
    knob!("collectives" "NEURON_RT_DBG_CC_STREAM_MODE": u32 = 1 => cfg.dbg_cc_stream_mode, "how collectives use streams"),
    knob!("collectives" "NEURON_RT_DBG_HIERARCHICAL_CC": u32 = 0 => cfg.dbg_hierarchical_cc_mode, "mode of the hierarchical algorithm, 2 for off"),
    knob!("collectives" "NEURON_RT_DBG_HIER_CC_PIPELINE": u32 = 0 => cfg.dbg_hier_cc_pipeline, "pipelining of the hierarchical algorithm"),
    knob!("collectives" "NEURON_RT_DBG_HYBRID_RING_CC_EN": bool = true => cfg.dbg_hybrid_ring_cc_enabled, "allow the hybrid ring"),
    knob!("collectives" "NEURON_RT_DBG_KANGARING_CC": u32 = 0 => cfg.dbg_kangaring_cc_mode, "mode of the kangaring algorithm, 2 for off"),
    knob!("collectives" "NEURON_RT_DBG_MESH_CC": bool = true => cfg.dbg_mesh_cc_mode, "allow mesh algorithms"),
    knob!("collectives" "NEURON_RT_DBG_MESH_CHANNEL_BUFFER_SIZE": u64 = 0x80_0000 => gcfg.dbg_mesh_ch_buf_size, "bytes of a mesh channel buffer"),
    knob!("collectives" "NEURON_RT_DBG_MESH_DOUBLE_BUF": bool = true => cfg.dbg_mesh_double_buffer, "two buffers per mesh channel"),
    knob!("collectives" "NEURON_RT_DBG_RDH_CC": u32 = 1 => cfg.dbg_rdh_cc_mode, "mode of the RDH algorithm, 0 for off"),
    knob!("collectives" "NEURON_RT_DBG_RDH_DOUBLE_BUF": bool = false => cfg.dbg_rdh_double_buffer, "two buffers per RDH channel"),
    knob!("collectives" "NEURON_RT_DBG_INTRA_RDH_CHANNEL_BUFFER_SIZE": u64 = by("80 MiB on arch 4, else 40 MiB", |shape| if shape.arch == Arch::Mariana { 80 << 20 } else { 40 << 20 }) => gcfg.dbg_intra_rdh_ch_buf_size, "bytes of an RDH channel buffer inside an instance"),
    knob!("collectives" "NEURON_RT_DBG_INTER_RDH_CHANNEL_BUFFER_SIZE": u64 = 0x200_0000 => cfg.dbg_inter_rdh_ch_buf_size, "bytes of an RDH channel buffer between instances"),
    knob!("collectives" "NEURON_RT_DBG_INTER_RDH_RECV_WINDOW_N": u32 = 0 => cfg.dbg_inter_rdh_recv_window_n, "receive window of RDH between instances"),
    knob!("collectives" "NEURON_RT_DBG_ENFORCE_RDH_GLOBAL_HANDSHAKE": u32 = 0 => gcfg.dbg_enforce_rdh_global_handshake, "all ranks shake hands before RDH"),
    knob!("collectives" "NEURON_RT_DBG_ENFORCE_MESH_GLOBAL_HANDSHAKE": u32 = 0 => cfg.dbg_enforce_mesh_global_handshake, "all ranks shake hands before mesh"),
    knob!("collectives" "NEURON_RT_DBG_SINGLE_CYCLE_RING_ALLR_CC": u32 = 2 => cfg.dbg_single_cycle_ring_allr_mode, "mode of the single-cycle ring, 2 for off"),
    knob!("collectives" "NEURON_RT_DBG_EARLY_COMPLETION": bool = true => cfg.dbg_proxy_early_completion, "network proxy may report completion early"),
    knob!("collectives" "NEURON_RT_DBG_EARLY_POSTING": bool = true => cfg.dbg_proxy_early_posting, "network proxy may post requests early"),
    knob!("collectives" "NEURON_RT_DBG_FORCE_2DEV_PROXY": bool = false => cfg.dbg_force_use_2dev_proxy, "always the proxy that serves two devices"),
    knob!("collectives" "NEURON_RT_RANKS_PER_NETWORK_PROXY": u32 = 1 => cfg.ranks_per_network_proxy, "ranks that share a proxy thread; above 1 needs the hardware barrier"),
    knob!("collectives" "NEURON_RT_ROOT_COMM_ID": Text = Text::NULL => texts.cc_root_comm_id in [cfg.cc_root_comm_id], "address of rank 0 as host:port; collective models need it"),
    knob!("collectives" "NEURON_RT_ENABLE_RG_VALIDATION": bool = false => gcfg.enable_replica_group_validation, "check replica groups at load"),
    knob!("collectives" "NEURON_EXPERIMENTAL_COMPRESS_RG": bool = false => model.compress_replica_groups, "compress replica groups"),
    // Asynchronous execution.
    knob!("async" "NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS": u32 = 0 => gcfg.async_exec_max_inflight_requests in [gcfg.async_exec_max_inflight_requests, gcfg.implicit_async_mode], "runs in flight without being waited for, 63 at most; 0 is off"),
    knob!("async" "NEURON_RT_ASYNC_SENDRECV_BOOTSTRAP_PORT": u32 = 0 => gcfg.async_sr_boot_port, "port where asynchronous send and receive meet"),
    knob!("async" "NEURON_RT_ASYNC_SENDRECV_EXPERIMENTAL_ENABLED": bool = false => gcfg.async_sr_experimental_enabled, "allow asynchronous send and receive"),
    knob!("async" "NEURON_RT_XU_COMPUTE_MAX_QUEUED_REQUESTS": u64 = 8 => runtime.compute_queue_depth, "queue depth of the explicit compute unit"),
    // Numbers and their errors.
    knob!("numerics" "NEURON_RT_DBG_FP8_RANGE_EXT": bool = true => gcfg.fp8_range_ext, "FP8 conversion uses the extended range" + LOAD),
    knob!("numerics" "NEURON_RT_DBG_OCP_FP8_SAT": bool = true => gcfg.ocp_fp8_sat, "FP8 conversion saturates as OCP says" + LOAD),
    knob!("numerics" "NEURON_RT_DBG_FP8_SNS": bool = false => gcfg.fp8_sns, "FP8 conversion setting SNS" + LOAD),
    knob!("numerics" "NEURON_RT_DBG_FP8_SIS": bool = false => gcfg.fp8_sis, "FP8 conversion setting SIS" + LOAD),
    knob!("numerics" "NEURON_RT_DBG_FP8_EMAX_E4M3": u32 = 8 => gcfg.fp8_emax_e4m3, "largest exponent of E4M3" + LOAD),
    knob!("numerics" "NEURON_RT_DBG_FP8_EMAX_E5M2": u32 = 15 => gcfg.fp8_emax_e5m2, "largest exponent of E5M2" + LOAD),
    knob!("numerics" "NEURON_RT_STOCHASTIC_ROUNDING_EN": bool = false => gcfg.stochastic_rounding_en, "round stochastically"),
    knob!("numerics" "NEURON_RT_STOCHASTIC_ROUNDING_SEED": u32 = 0 => gcfg.stochastic_rounding_seed, "seed of stochastic rounding"),
    knob!("numerics" "NEURON_RT_DBG_CC_STOCHASTIC_ROUNDING_EN": bool = false => gcfg.dbg_cc_stochastic_rounding_en, "round stochastically inside collectives"),
    knob!("numerics" "NEURON_RT_NUMERICAL_ERRORS_VERBOSITY": Verbosity = Verbosity::None => gcfg.numerical_errors_verbosity, "numerical notices to report: NaN, then overflow, then infinity"),
    knob!("numerics" "NEURON_RT_ENABLE_VERBOSE_NUMERICAL_ERRORS": bool = false => model.verbose_numerical_errors, "longer reports of numerical errors"),
    // Models and code.
    knob!("loading" "NEURON_RT_UCODE_LIB_PATH": Text = Text::NULL => texts.neuron_ucode_path in [cfg.neuron_ucode_path], "library with GPSIMD microcode; its code runs in this process" + SECURITY),
    knob!("loading" "NEURON_RT_DBG_V4_PLUS": u32 = 0, only Arch::Mariana => gcfg.v4_plus, "not 0 takes arch 4 for its revision B; read on arch 4 only"),
    knob!("loading" "NEURON_RT_DBG_HW_DECODE_BINS_DIR": Text = Text::NULL => texts.hw_decode_table_path in [cfg.hw_decode_table_path], "folder of the hardware decode tables"),
    knob!("loading" "NEURON_RT_DBG_HW_DECODE_TOGGLE": u32 = by("11 on arch 4, 3 on arch 3, else 0", hw_decode_toggle) => cfg.hw_decode_toggle, "engines that decode in hardware, one bit each"),
    knob!("loading" "NEURON_RT_ALLOW_LEGACY_NEFF": LegacyNeff = LegacyNeff(0) => gcfg.allow_legacy_neff, "load models built for an older architecture" + LOAD),
    knob!("loading" "NEURON_RT_VALIDATE_HASH": bool = false => model.validate_hash, "check the checksum of a model at load"),
    knob!("loading" "NEURON_RT_DBG_SEQ_IRAM_BLOCK_SIZES_KB": IramBlocks = IramBlocks([0x8000; 5]) => gcfg.seq_instr_block_size, "instruction block of each engine, KiB in the text, bytes in the record"),
    // Memory.
    knob!("memory" "NEURON_SCRATCHPAD_PAGE_SIZE": Option<u64> = None, if some_mib => held.scratchpad_page_mib in [cfg.scratchpad_page_size], "scratchpad page, MiB in the text, bytes in the record"),
    knob!("memory" "NEURON_RT_ONE_TMPBUF_PAGE_SIZE_MB": u64 = 512, if mib => held.one_tmpbuf_page_mib in [cfg.scratchpad_page_size], "older name of NEURON_SCRATCHPAD_PAGE_SIZE, weaker than it"),
    knob!("memory" "NEURON_RT_ONE_TMPBUF_ENABLE": bool = false => model.one_tmpbuf, "one temporary buffer per model"),
    knob!("memory" "NEURON_RT_DBG_SCRATCHPAD_ON_SINGLE_CORE": u32 = 0 => gcfg.scratchpad_on_single_core, "keep the scratchpad on one core"),
    knob!("memory" "NEURON_RT_DBG_EXPERIMENTAL_CONTIGUOUS_SCRATCHPAD": u32 = 0 => gcfg.experimental_contiguous_scratchpad, "scratchpad in one piece"),
    knob!("memory" "NEURON_RT_HBM_INIT_VAL": Option<u32> = None => held.hbm_fill in [cfg.hbm_scrub_init_val, cfg.scrub_hbm], "fill device memory with this 32-bit word at init"),
    knob!("memory" "NEURON_RT_MAP_HBM": bool = false => cfg.map_hbm, "map device memory into the process"),
    knob!("memory" "NEURON_RT_ENABLE_MEMORY_METRICS": bool = true => cfg.enable_memory_metrics, "keep memory metrics"),
    knob!("memory" "NEURON_RT_DBG_VERBOSE_DEV_MEM": bool = false => cfg.dbg_verbose_log_dev_mem, "log each device memory allocation"),
    knob!("memory" "NEURON_RT_MIN_MEM_ERROR_INTERVAL": i64 = 3600 => cfg.v2_min_ignore_nc_memory_error_interval, "seconds in which a repeated memory error is ignored (arch 2)"),
    knob!("memory" "NEURON_RT_DEBUG_MEMLOG_MAX_SIZE": u64 = 1_048_576 => cfg.mem_log_size, "entries of the memory log"),
    knob!("memory" "NEURON_RT_DBG_VIRTUAL_SERVER_SIZE": u32 = 0 => cfg.virtual_server_size, "server size to assume, in cores; 0 for the real one"),
    // Barriers, order and notices.
    knob!("barrier" "NEURON_RT_DISABLE_EXECUTION_BARRIER": bool = false => cfg.disable_execution_barrier, "run without the execution barrier"),
    knob!("barrier" "NEURON_RT_ENABLE_HW_EXECUTION_BARRIER": bool = by("1 on instances with NeuronSwitch-v1 (trn3), else 0", has_switch_v1) => cfg.enable_hw_execution_barrier, "execution barrier in hardware"),
    knob!("barrier" "NEURON_RT_ENABLE_INTERNODE_EXECUTION_BARRIER": bool = true => cfg.enable_internode_execution_barrier, "execution barrier across nodes"),
    knob!("barrier" "NEURON_RT_DBG_FORCE_STRICT_ORDERING": bool = false => cfg.dbg_force_strict_ordering, "strict DMA order; turns hardware decode off"),
    knob!("barrier" "NEURON_RT_EXEC_TIMEOUT": u32 = 30, if at_most::<0x7FFF_FFFF> => model.exec_timeout_secs, "seconds after which a run counts as stuck"),
    knob!("barrier" "NEURON_RT_DBG_DROP_EVENTSEM_NOTIF": bool = true => held.drop_eventsem_notif in [cfg.notif_full_evsem], "drop event semaphore notices; the record holds the opposite"),
    knob!("barrier" "NEURON_RT_DBG_TOPSP_SEMAPHORES_CLEAR_CHECK": bool = false => cfg.dbg_topsp_semaphores_clear_check, "check that the sync engine left its semaphores clear"),
    knob!("barrier" "NEURON_RT_DBG_TOPSP_EVSEM_NOTIF_ENABLED": bool = false => cfg.dbg_topsp_evsem_notif_enabled, "event semaphore notices of the sync engine"),
    knob!("barrier" "NEURON_RT_DBG_TOPSP_SYSTRACE_INCLUDE_DEFAULT_ALGO": bool = false => gcfg.dbg_topsp_event_include_default_algo, "traces of the sync engine include the default algorithm"),
    knob!("barrier" "NEURON_RT_EMBEDDED_SEM_ENB": bool = false => gcfg.embedded_sem_en, "use embedded semaphores"),
    knob!("barrier" "NEURON_RT_DBG_MS_ENABLE_SKIP_TPB_CONFIG_OPT": bool = true => gcfg.enable_model_switch_skip_tpb_config_optimization, "a model switch may skip engine set-up"),
    knob!("barrier" "NEURON_RT_DBG_BRANCH_LABEL_ALIGN_THRESH": u64 = 16 => gcfg.br_label_align_thresh, "alignment threshold of branch labels"),
    // Odds and ends.
    knob!("misc" "NEURON_RT_ENABLE_P2P": bool = true => gcfg.enable_p2p, "peer to peer access and DMA-buf export"),
    knob!("misc" "NEURON_RT_DISABLE_BG_XPOSE": bool = false => gcfg.disable_bg_xpose, "no transposes in the background"),
    knob!("misc" "NEURON_RT_GPSIMD_STDOUT_QUEUE_SIZE_BYTES": u32 = 0 => cfg.pool_stdout_queue_size_bytes, "print buffer of custom operators, bytes; 0 is off"),
    knob!("misc" "NEURON_RT_ONE_THREAD_PER_CORE": bool = false => cfg.one_thread_per_core, "each network proxy thread stays on its own CPU"),
    knob!("misc" "NEURON_RT_LOW_LATENCY_TASKS_CPU_AFFINITY": CpuSet = CpuSet::ZERO => cfg.low_latency_tasks_cpu_affinity_mask, "CPUs for threads that must answer fast"),
    knob!("misc" "NEURON_PROCESS_TAG": Text = Text::NULL => runtime.process_tag, "name shown by monitoring tools; the process id when not set"),
    // Logging.
    knob!("logging" "NEURON_RT_LOG_LEVEL": LogLevel = LogLevel("ERROR") => runtime.log_level, "what every module logs" + LENIENT),
    knob!("logging" "NEURON_RT_LOG_LEVEL_" + MODULE_TAGS + "": LogLevel => runtime.module_levels, "what one module logs; its tag follows the name" + LENIENT),
    knob!("logging" "NEURON_RT_LOG_LOCATION": LogLocation = LogLocation("CONSOLE") => runtime.log_location, "where the log goes" + LENIENT),
    knob!("logging" "NEURON_RT_LOG_LOCATION_" + MODULE_TAGS + "": LogLocation => runtime.module_locations, "where one module logs; its tag follows the name" + LENIENT),
    knob!("logging" "NEURON_RT_LOG_COALESCING_ENABLED": bool = false => gcfg.log_coalescing_enabled, "gather the error lines of one call"),
    knob!("logging" "NEURON_RT_TRACE_NUM_ENTRIES": u64 = 1_048_576 => cfg.max_trace_entries, "entries of the trace ring"),
    knob!("logging" "NEURON_RT_DBG_IO_CRC": bool = false => cfg.dbg_io_crc, "checksums of input and output tensors"),
    knob!("logging" "NEURON_RT_DEBUG_STREAM_BUFFER_SIZE": u64 = 0x4_0000, if power_of_two => gcfg.ndebug_stream_evts_ring_size, "ring of the debug stream, a power of two"),
    // Inspection.
    knob!("inspect" "NEURON_RT_INSPECT_ENABLE": bool = false => inspect.enable, "profile from init on"),
    knob!("inspect" "NEURON_RT_INSPECT_ON_FAIL": bool = false => inspect.on_fail, "keep the profiles of failed runs"),
    knob!("inspect" "NEURON_RT_INSPECT_OUTPUT_DIR": Text = Text::new(inspect::OUTPUT_DIR), if inspect::output_dir_is_usable => inspect.output_dir, "folder of the profiles"),
    knob!("inspect" "NEURON_RT_INSPECT_DEVICE_PROFILE": DeviceProfile = DeviceProfile::Disabled => inspect.device_profile, "device profile: off, per model or per session"),
    knob!("inspect" "NEURON_RT_INSPECT_SYSTEM_PROFILE": bool = true => inspect.system_profile, "system profile, when profiling is on"),
    knob!("inspect" "NEURON_RT_INSPECT_HOST_MEMORY": bool = false => inspect.host_memory, "samples of host memory"),
    knob!("inspect" "NEURON_RT_INSPECT_CPU_UTIL": bool = false => inspect.cpu_util, "samples of CPU use"),
    knob!("inspect" "NEURON_RT_INSPECT_EVENT_FILTER_NC": CoreFilter = CoreFilter([true; 256]) => inspect.cores, "cores to trace"),
    knob!("inspect" "NEURON_RT_INSPECT_EVENT_FILTER_TYPE": EventFilter = EventFilter([true; 46]) => inspect.events, "events to trace, by name or as hardware or software"),
    knob!("inspect" "NEURON_RT_INSPECT_SYS_TRACE_MAX_EVENTS_PER_NC": u32 = 1_000_000 => inspect.max_events_per_core, "events kept per core"),
    knob!("inspect" "NEURON_RT_PROFILING_MODE": u32 = 0 => runtime.profiling_mode, "profiling mode at engine start"),
    knob!("inspect" "NEURON_RT_PROFILE_BUF_" + PROFILE_KINDS + "_MB": u32 => held.profile_buf_sizes in [cfg.profile_buf_sizes], "profile buffer of one kind in MiB; the kind and _MB follow the name"),
    // Dumps.
    knob!("dump" "NEURON_RT_LOCAL_CORE_DUMP_DIRECTORY": Text = Text::new(c"/tmp/neuron-core-dump/dt-%d-cid-%c") => texts.local_core_dump_directory in [gcfg.local_core_dump_directory], "folder of core dumps; %d %c %p %t %l %i are filled in"),
    knob!("dump" "NEURON_RT_S3_CORE_DUMP_PREFIX": Text = Text::NULL => texts.s3_core_dump_prefix in [gcfg.s3_core_dump_prefix], "S3 prefix for core dumps, filled in the same way"),
    knob!("dump" "NEURON_RT_OOM_DUMP_DIRECTORY": Text = Text::new(c"/tmp"), if shorter::<200> => texts.device_oom_dump_directory in [gcfg.device_oom_dump_directory], "folder of out-of-memory reports, 200 bytes at most"),
    knob!("dump" "NEURON_RT_DBG_DUMP_INPUTS_ON_ERR": i64 = 0 => cfg.dump_inputs_on_err, "status that makes a run dump its inputs; 0 is off"),
    knob!("dump" "NEURON_RT_DBG_INPUT_DUMP_DIRECTORY": Text = Text::new(c"/tmp/neuron-input-dump"), if shorter::<4095> => texts.input_dump_directory in [cfg.input_dump_directory], "folder of dumped inputs"),
    // Names without RT.
    knob!("nonrt" "NEURON_NO_COMPILE_MODE": bool = false => cfg.enable_no_compile_mode, "run without compiling"),
    knob!("nonrt" "NEURON_NO_COMPILE_MODE_TIMEOUT": u32 = 120 => cfg.no_compile_mode_timeout, "time limit of NEURON_NO_COMPILE_MODE, seconds"),
    knob!("nonrt" "NEURON_FAIL_ON_NAN": bool = false => cfg.fail_on_nan, "NaN fails a run; numerical notices are at least critical"),
];
