//! Options that are read again at every model load.

use super::{
    Shape,
    choice::LegacyNeff,
    draft::Draft,
    env::{Env, Process},
    table::{self, Mark},
};
use crate::Result;
use neuron_abi::{Arch, Family};

/// The FP8 settings the environment gives; each one that is there wins over the model file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // named as the members of the record
pub struct Fp8Overrides {
    pub range_ext: Option<bool>,
    pub ocp_sat: Option<bool>,
    pub sns: Option<bool>,
    pub sis: Option<bool>,
    pub emax_e4m3: Option<u32>,
    pub emax_e5m2: Option<u32>,
}

/// Options of one model load (`facts/config/env.tsv`, rows read at load).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelOptions {
    /// Time limit of one execution in seconds, 0 to 2147483647.
    pub exec_timeout_secs: u32,
    /// Entries of the I/O ring cache; `None` leaves the choice to the loader.
    pub io_ring_cache_size: Option<u32>,
    /// Check the checksum of the model file.
    pub validate_hash: bool,
    /// Report transfers of the descriptor engine.
    pub dge_notifications: bool,
    /// One temporary buffer for the whole model.
    pub one_tmpbuf: bool,
    /// Check each instruction.
    pub instruction_check: bool,
    /// Range check of indirect copies.
    pub indirect_copy_bound_check: bool,
    /// Range check of embedding updates.
    pub embedding_update_bound_check: bool,
    /// Fill the state buffer before a run.
    pub state_buffer_memset: bool,
    /// Longer reports of numerical errors.
    pub verbose_numerical_errors: bool,
    /// Compress replica groups.
    pub compress_replica_groups: bool,
    /// Accept models built for an older architecture when not 0.
    pub allow_legacy_neff: u32,
    /// FP8 settings that win over the model file.
    pub fp8: Fp8Overrides,
}

/// The options of a load that starts now.
///
/// # Errors
/// `Invalid` when one of the variables has a bad text; every one is logged.
pub fn model_options() -> Result<ModelOptions> {
    table::report_all("nrt_config_parse_model_config", parse_model(&Process))
}

pub(crate) fn parse_model(env: &dyn Env) -> table::Parsed<ModelOptions> {
    // No option of a load depends on the shape (a test holds the table to that).
    let shape = Shape { arch: Arch::Cayman, family: Family::Unknown, cores_per_device: 1 };
    let (draft, faults) = table::apply_marked(Mark::LOAD, env, &shape);
    (options(&draft, env), faults)
}

fn options(draft: &Draft, env: &dyn Env) -> ModelOptions {
    fn given<T>(env: &dyn Env, name: &str, value: T) -> Option<T> {
        env.get(name).map(|_| value)
    }
    let LegacyNeff(allow_legacy_neff) = draft.gcfg.allow_legacy_neff;
    ModelOptions {
        allow_legacy_neff,
        fp8: Fp8Overrides {
            range_ext: given(env, "NEURON_RT_DBG_FP8_RANGE_EXT", draft.gcfg.fp8_range_ext),
            ocp_sat: given(env, "NEURON_RT_DBG_OCP_FP8_SAT", draft.gcfg.ocp_fp8_sat),
            sns: given(env, "NEURON_RT_DBG_FP8_SNS", draft.gcfg.fp8_sns),
            sis: given(env, "NEURON_RT_DBG_FP8_SIS", draft.gcfg.fp8_sis),
            emax_e4m3: given(env, "NEURON_RT_DBG_FP8_EMAX_E4M3", draft.gcfg.fp8_emax_e4m3),
            emax_e5m2: given(env, "NEURON_RT_DBG_FP8_EMAX_E5M2", draft.gcfg.fp8_emax_e5m2),
        },
        ..draft.model.clone()
    }
}
