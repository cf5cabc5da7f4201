//! What one parse of the environment yields, before anything is published.

use super::{
    choice::{Fake, LogLevel, LogLocation},
    inspect::InspectOptions,
    model::ModelOptions,
    parse::{Ints, Text},
    record::{Addr, HeapRecord, IntVec, StaticRecord, Zero},
};
use std::collections::BTreeMap;

/// Texts the records point to. They live as long as the draft does.
#[derive(Default)]
pub(crate) struct Texts {
    pub(crate) cc_root_comm_id: Text,
    pub(crate) neuron_ucode_path: Text,
    pub(crate) hw_decode_table_path: Text,
    pub(crate) input_dump_directory: Text,
    pub(crate) device_oom_dump_directory: Text,
    pub(crate) local_core_dump_directory: Text,
    pub(crate) s3_core_dump_prefix: Text,
}

/// Lists the records point to.
#[derive(Default)]
pub(crate) struct Lists {
    pub(crate) visible_virtual_cores: Ints,
    pub(crate) dbg_cc_dma_packet_size: Ints,
}

/// Values that reach a record through a rule and not one to one.
#[derive(Default)]
pub(crate) struct Held {
    pub(crate) fake: Fake,
    pub(crate) ultraserver_single_node: bool,
    pub(crate) one_tmpbuf_page_mib: u64,
    pub(crate) scratchpad_page_mib: Option<u64>,
    pub(crate) drop_eventsem_notif: bool,
    pub(crate) disable_rmv_dst_route: bool,
    pub(crate) hbm_fill: Option<u32>,
    /// MiB by `notification_type`.
    pub(crate) profile_buf_sizes: BTreeMap<u32, u32>,
}

/// Values without a place in the records.
pub(crate) struct Runtime {
    pub(crate) inferences_per_core: Option<u32>,
    pub(crate) device_count: Option<u32>,
    pub(crate) dma_tracing: bool,
    pub(crate) compute_queue_depth: u64,
    pub(crate) profiling_mode: u32,
    pub(crate) process_tag: Text,
    pub(crate) log_level: LogLevel,
    pub(crate) log_location: LogLocation,
    pub(crate) module_levels: BTreeMap<u32, LogLevel>,
    pub(crate) module_locations: BTreeMap<u32, LogLocation>,
}

/// Everything one parse yields.
pub(crate) struct Draft {
    pub(crate) cfg: StaticRecord,
    pub(crate) gcfg: HeapRecord,
    pub(crate) texts: Texts,
    pub(crate) lists: Lists,
    pub(crate) held: Held,
    pub(crate) model: ModelOptions,
    pub(crate) inspect: InspectOptions,
    pub(crate) runtime: Runtime,
}

impl Draft {
    /// Records all zero, nothing parsed yet.
    pub(crate) fn new() -> Draft {
        Draft {
            cfg: StaticRecord::ZERO,
            gcfg: HeapRecord::ZERO,
            texts: Texts::default(),
            lists: Lists::default(),
            held: Held::default(),
            model: ModelOptions::default(),
            inspect: InspectOptions::default(),
            runtime: Runtime {
                inferences_per_core: None,
                device_count: None,
                dma_tracing: false,
                compute_queue_depth: 0,
                profiling_mode: 0,
                process_tag: Text::NULL,
                log_level: LogLevel("ERROR"),
                log_location: LogLocation("CONSOLE"),
                module_levels: BTreeMap::new(),
                module_locations: BTreeMap::new(),
            },
        }
    }

    /// Point the records at the texts and lists. Their buffers do not move when the draft does.
    pub(crate) fn seal(&mut self) {
        let at = |text: &Text| text.as_c_str().map_or(Addr(0), |text| Addr::of(text.as_ptr()));
        let Texts {
            cc_root_comm_id,
            neuron_ucode_path,
            hw_decode_table_path,
            input_dump_directory,
            device_oom_dump_directory,
            local_core_dump_directory,
            s3_core_dump_prefix,
        } = &self.texts;
        self.cfg.cc_root_comm_id = at(cc_root_comm_id);
        self.cfg.neuron_ucode_path = at(neuron_ucode_path);
        self.cfg.hw_decode_table_path = at(hw_decode_table_path);
        self.cfg.input_dump_directory = at(input_dump_directory);
        self.gcfg.device_oom_dump_directory = at(device_oom_dump_directory);
        self.gcfg.local_core_dump_directory = at(local_core_dump_directory);
        self.gcfg.s3_core_dump_prefix = at(s3_core_dump_prefix);
        self.cfg.visible_virtual_cores = IntVec::over(&self.lists.visible_virtual_cores.0);
        self.cfg.dbg_cc_dma_packet_size = IntVec::over(&self.lists.dbg_cc_dma_packet_size.0);
    }
}
