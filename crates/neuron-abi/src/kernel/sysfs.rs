//! Names, modes and formats of the sysfs tree (`facts/driver/sysfs.tsv`).
//!
//! The tables hold leaf names; the directories are spelled where the tree is built. A counter
//! `x` is a directory with the files of [`COUNTER_FILES`] or [`MEMORY_FILES`].

use super::Release;
use super::values::Platform;

/// Directory of the device class, under the sysfs root.
pub const CLASS_DIR: &str = "class/neuron_device";

/// Directory that really holds the devices; the class directory has links to it.
pub const DEVICE_DIR: &str = "devices/virtual/neuron_device";

/// Directory of the module.
pub const MODULE_DIR: &str = "module/neuron";

/// Files of an event counter.
pub const COUNTER_FILES: [&str; 2] = ["total", "present"];

/// Files of a memory counter.
pub const MEMORY_FILES: [&str; 3] = ["total", "present", "peak"];

/// `stats/memory_usage/host_mem/X` of a device.
pub const HOST_MEMORY: [&str; 8] = [
    "dma_buffers",
    "tensors",
    "constants",
    "application_memory",
    "driver_memory",
    "notifications",
    "dma_rings",
    "uncategorized",
];

/// `neuron_coreK/stats/memory_usage/device_mem/X` of a core; the directory has the memory files
/// itself as well, and so has `host_mem` beside it.
pub const CORE_DEVICE_MEMORY: [&str; 11] = [
    "model_code",
    "tensors",
    "constants",
    "model_shared_scratchpad",
    "runtime_memory",
    "driver_memory",
    "collectives",
    "nonshared_scratchpad",
    "notifications",
    "dma_rings",
    "uncategorized",
];

/// `neuron_coreK/stats/status/X`.
pub const STATUS: [&str; 24] = [
    "success",
    "failure",
    "timeout",
    "exec_bad_input",
    "hw_error",
    "execute_completed_with_error",
    "execute_completed_with_num_error",
    "generic_error",
    "resource_error",
    "resource_nc_error",
    "execute_failed_to_queue",
    "invalid_error",
    "unsupported_neff_version",
    "oob_error",
    "hw_collectives_error",
    "hw_hbm_ue_error",
    "hw_nc_ue_error",
    "hw_dma_abort_error",
    "execute_sw_nq_overflow",
    "execute_sw_semaphore_error",
    "execute_sw_event_error",
    "execute_sw_psum_collision",
    "execute_sw_sequencer_fatal",
    "hw_repairable_hbm_ue_error",
];

/// `neuron_coreK/stats/other_info/X`.
pub const OTHER_INFO: [&str; 6] =
    ["model_load_count", "reset_req_count", "reset_fail_count", "inference_count", "flop_count", "nc_time_in_use"];

/// `stats/hardware/X` of a device.
pub const HARDWARE: [&str; 3] = ["sram_ecc_uncorrected", "mem_ecc_uncorrected", "mem_ecc_repairable_uncorrected"];

/// `info/architecture/X` of a device; a core has `arch_type` only.
pub const ARCHITECTURE: [&str; 3] = ["arch_type", "instance_type", "device_name"];

/// One attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr {
    /// Path below the directory of its kind.
    pub path: &'static str,
    /// Permission bits.
    pub mode: u16,
    /// First release that has it.
    pub since: Release,
    /// Last release that shows it on every platform; later ones only on `platforms`.
    pub everywhere_until: Option<Release>,
    /// Platforms that show it after that; empty means all.
    pub platforms: &'static [Platform],
}

const fn attr(path: &'static str, mode: u16, since: Release) -> Attr {
    Attr { path, mode, since, everywhere_until: None, platforms: &[] }
}

/// Attributes of the class directory.
pub const CLASS_ATTRS: [Attr; 10] = [
    ultraserver("node_id_2", &[Platform::Ultraserver]),
    ultraserver("node_id_4", &[Platform::Ultraserver]),
    ultraserver("server_id_2", &[Platform::Ultraserver]),
    ultraserver("server_id_4", &[Platform::Ultraserver]),
    ultraserver("ultraserver_mode", &[Platform::Ultraserver, Platform::Pds]),
    pds("node_id"),
    pds("node_cnt"),
    pds("reservation_id"),
    attr("hbm_7200_capable", 0o444, Release::V2_27_4),
    attr("current_perf_profile", 0o444, Release::V2_27_4),
];

const fn ultraserver(path: &'static str, platforms: &'static [Platform]) -> Attr {
    // 2.26.5 was measured to list them on a standard platform, so the restriction is 2.27's.
    Attr { path, mode: 0o444, since: Release::V2_24_7, everywhere_until: Some(Release::V2_26_5), platforms }
}

const fn pds(path: &'static str) -> Attr {
    Attr { path, mode: 0o444, since: Release::V2_27_4, everywhere_until: None, platforms: &[Platform::Pds] }
}

impl Attr {
    /// Whether a driver of this release shows the attribute on this platform.
    pub fn shown(&self, release: Release, platform: Platform) -> bool {
        self.since <= release
            && (self.platforms.is_empty()
                || self.everywhere_until.is_some_and(|last| release <= last)
                || self.platforms.contains(&platform))
    }
}

/// Attributes of a device directory that are not metrics.
pub const DEVICE_ATTRS: [Attr; 4] = [
    attr("reset", 0o600, Release::V2_24_7),
    attr("core_count", 0o400, Release::V2_24_7),
    attr("connected_devices", 0o400, Release::V2_24_7),
    attr("fw_api_version", 0o444, Release::V2_27_4),
];

/// Permission bits of every metric file.
pub const METRIC_MODE: u16 = 0o644;

/// Heading line of `tensor_engine/pe_cntrs`.
pub const PE_HEADER: &str = "xrow_grp,mm_active,wl_active,idle";

/// One module parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param {
    /// Name.
    pub name: &'static str,
    /// Default; a page is 4096 bytes.
    pub default: u64,
    /// First release that has it.
    pub since: Release,
}

const fn param(name: &'static str, default: u64, since: Release) -> Param {
    Param { name, default, since }
}

/// Module parameters; all have mode [`PARAM_MODE`]. The defaults of `reset_top_dma` and of the
/// last three are in no table; 0 keeps the behaviour of the releases before them. The last three
/// were measured on 2.26.5 and are missing in the facts.
pub const PARAMS: [Param; 20] = [
    param("no_reset", 0, Release::V2_24_7),
    param("dup_helper_enable", 1, Release::V2_24_7),
    param("wc_enable", 1, Release::V2_24_7),
    param("mempool_min_alloc_size", 4096, Release::V2_24_7),
    param("mempool_host_memory_size", 33_554_432, Release::V2_24_7),
    param("mempool_small_pool_size", 1_073_741_824, Release::V2_24_7),
    param("mempool_small_alloc_max", 524_288, Release::V2_24_7),
    param("nmetric_metric_post_delay", 150_000, Release::V2_24_7),
    param("nmetric_log_posts", 1, Release::V2_24_7),
    param("nc_per_dev_param", 1, Release::V2_24_7),
    param("dev_nc_map", 1, Release::V2_24_7),
    param("force_userver", 0, Release::V2_24_7),
    param("force_die_flip", 0, Release::V2_24_7),
    param("userver_ctl", 0, Release::V2_24_7),
    param("userver_etimeout", 600, Release::V2_24_7),
    param("dma_teardown_on_exit", 1, Release::V2_26_5),
    param("reset_top_dma", 0, Release::V2_27_4),
    param("userver_pds_node_cnt", 0, Release::V2_26_5),
    param("userver_pds_server_id", 0, Release::V2_26_5),
    param("zerocopy_trn1_override", 0, Release::V2_26_5),
];

/// Permission bits of a module parameter.
pub const PARAM_MODE: u16 = 0o660;

/// DMI product names that select a platform, with the first release that knows them. A name
/// matches when it begins with the entry; anything else is [`Platform::Std`].
pub const DMI_PLATFORMS: [(&str, Platform, Release); 9] = [
    ("trn2p.48xlarge", Platform::Ultraserver, Release::V2_24_7),
    ("trn2eu.48xlarge", Platform::Ultraserver, Release::V2_24_7),
    ("trn2u.48xlarge", Platform::Ultraserver, Release::V2_24_7),
    ("trn2u-ac.24xlarge", Platform::Ultraserver, Release::V2_25_4),
    ("trn2es.48xlarge", Platform::Pds, Release::V2_25_4),
    ("trn3s.48xlarge", Platform::Pds, Release::V2_25_4),
    ("trn3-dev0.48xlarge", Platform::Pds, Release::V2_25_4),
    ("trn3p.48xlarge", Platform::Ultraserver, Release::V2_26_5),
    ("trn3pd98.3xlarge", Platform::Std, Release::V2_25_4),
];

/// Product name that forces routing id 0.
pub const DMI_FORCED_RID_0: &str = "trn3pd98.3xlarge";
