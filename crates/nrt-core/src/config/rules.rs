//! The whole parse: every variable of the table, then what variables do to each other
//! (`facts/config/rules.md` section 13).

use super::{
    Shape,
    choice::{UltraserverMode, Verbosity},
    draft::Draft,
    env::Env,
    parse::Origin,
    record::{Fp8Bundle, Zero},
    table::{Mark, Outcome, TABLE},
};
use neuron_abi::{Arch, Status};
use std::fmt;

/// A remark about values that are each fine alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) name: &'static str,
    pub(crate) weight: Weight,
    pub(crate) text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.text)
    }
}

/// How much a finding weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weight {
    /// An ERROR line; init fails with `Invalid`.
    Fatal,
    /// An ERROR line; init goes on.
    Error,
    /// A WARN line.
    Warn,
    /// A WARN line, once in the life of a process.
    WarnOnce,
}

/// One parse of an environment.
pub(crate) struct Build {
    pub(crate) draft: Draft,
    /// In the order of [`TABLE`].
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) findings: Vec<Finding>,
}

/// Parse everything. Never stops at a bad text: its default is in the draft and its fault in the outcomes.
pub(crate) fn build(env: &dyn Env, shape: &Shape) -> Build {
    let mut draft = Draft::new();
    let outcomes = TABLE.iter().map(|knob| knob.rule.apply(knob.name, env, shape, &mut draft)).collect();
    let mut build = Build { draft, outcomes, findings: Vec::new() };
    build.carry();
    build.couple(shape);
    build.draft.seal();
    build
}

impl Build {
    /// The worst status of all variables and rules.
    pub(crate) fn worst(&self) -> Status {
        let bad = TABLE
            .iter()
            .zip(&self.outcomes)
            .any(|(knob, outcome)| !knob.mark.has(Mark::LENIENT) && !outcome.faults.is_empty());
        let fatal = self.findings.iter().any(|finding| finding.weight == Weight::Fatal);
        if bad || fatal { Status::Invalid } else { Status::Success }
    }

    fn position(name: &str) -> usize {
        TABLE.iter().position(|knob| knob.name == name).expect("rules name variables of the table")
    }

    /// True when the variable is set and its text is good.
    fn given(&self, name: &str) -> bool {
        self.outcomes[Build::position(name)].origin == Origin::Environment
    }

    fn overrule(&mut self, name: &str, by: &'static str) {
        self.outcomes[Build::position(name)].origin = Origin::Coupled(by);
    }

    fn find(&mut self, weight: Weight, name: &'static str, text: impl Into<String>) {
        self.findings.push(Finding { name, weight, text: text.into() });
    }

    /// Bring the held values to their members.
    fn carry(&mut self) {
        const PAGE: &str = "NEURON_SCRATCHPAD_PAGE_SIZE";
        const OLD_PAGE: &str = "NEURON_RT_ONE_TMPBUF_PAGE_SIZE_MB";
        let draft = &mut self.draft;

        draft.cfg.notif_full_evsem = !draft.held.drop_eventsem_notif;
        if let Some(word) = draft.held.hbm_fill {
            draft.cfg.hbm_scrub_init_val = word;
            draft.cfg.scrub_hbm = true;
        }
        if let Some(product) = draft.held.fake.0 {
            draft.cfg.funtime = true;
            draft.cfg.fake_family = product.family as u32;
            draft.cfg.fake_size = product.size as u32;
            draft.gcfg.funtime = true;
        }
        // The older name is the default of the newer one.
        let mib = draft.held.scratchpad_page_mib.unwrap_or(draft.held.one_tmpbuf_page_mib);
        draft.cfg.scratchpad_page_size = mib << 20;
        draft.held.scratchpad_page_mib = Some(mib);
        let gcfg = &mut draft.gcfg;
        gcfg.default_fp8_cfg = Fp8Bundle {
            fp8_range_extension: gcfg.fp8_range_ext,
            emax_fp8_e4m3: gcfg.fp8_emax_e4m3,
            emax_fp8_e5m2: gcfg.fp8_emax_e5m2,
            ocp_sat: gcfg.ocp_fp8_sat,
            sis: gcfg.fp8_sis,
            sns: gcfg.fp8_sns,
            ..Fp8Bundle::ZERO
        };
        if !self.given(PAGE) && self.given(OLD_PAGE) {
            self.overrule(PAGE, OLD_PAGE);
        }
        if !mib.is_multiple_of(512) || mib >= 4096 {
            let name = if self.given(PAGE) { PAGE } else { OLD_PAGE };
            self.find(Weight::Warn, name, format!("is {mib} MiB; pages are multiples of 512 MiB below 4096"));
        }
        const ROUTING: &str = "NEURON_RT_DBG_DISABLE_RMV_DST_ROUTING";
        const ROUTE: &str = "NEURON_RT_DBG_DISABLE_RMV_DST_ROUTE";
        if !self.given(ROUTING) && self.given(ROUTE) {
            self.draft.gcfg.dbg_disable_rmv_dst_routing = self.draft.held.disable_rmv_dst_route;
            self.overrule(ROUTING, ROUTE);
        }
    }

    /// What variables do to each other, and what is worth a line.
    fn couple(&mut self, shape: &Shape) {
        const DECODE: &str = "NEURON_RT_DBG_HW_DECODE_TOGGLE";
        if shape.arch == Arch::Sunda && self.given(DECODE) {
            self.draft.cfg.hw_decode_toggle = 0;
            self.overrule(DECODE, "arch 2");
            self.find(Weight::Error, DECODE, "is ignored: arch 2 has no hardware decode; unset it");
        }
        if self.draft.cfg.dbg_force_strict_ordering && self.draft.cfg.hw_decode_toggle != 0 {
            self.draft.cfg.hw_decode_toggle = 0;
            self.overrule(DECODE, "NEURON_RT_DBG_FORCE_STRICT_ORDERING");
        }

        if self.draft.cfg.fail_on_nan && self.draft.gcfg.numerical_errors_verbosity < Verbosity::Critical {
            self.draft.gcfg.numerical_errors_verbosity = Verbosity::Critical;
            self.overrule("NEURON_RT_NUMERICAL_ERRORS_VERBOSITY", "NEURON_FAIL_ON_NAN");
        }

        if self.draft.held.ultraserver_single_node && self.draft.gcfg.ultraserver_mode != UltraserverMode::X1 {
            self.draft.gcfg.ultraserver_mode = UltraserverMode::X1;
            self.overrule("NEURON_RT_ULTRASERVER_MODE", "NEURON_RT_ULTRASERVER_SINGLE_NODE");
        }

        const IN_FLIGHT: &str = "NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS";
        const MOST_IN_FLIGHT: u32 = 63;
        let in_flight = self.draft.gcfg.async_exec_max_inflight_requests;
        if in_flight > MOST_IN_FLIGHT {
            self.draft.gcfg.async_exec_max_inflight_requests = MOST_IN_FLIGHT;
            self.find(
                Weight::Warn,
                IN_FLIGHT,
                format!("is {in_flight}; {MOST_IN_FLIGHT} is used, the most there can be"),
            );
        }
        self.draft.gcfg.implicit_async_mode = in_flight > 0;

        const PROXY: &str = "NEURON_RT_RANKS_PER_NETWORK_PROXY";
        let ranks = self.draft.cfg.ranks_per_network_proxy;
        if ranks > 1 && !self.draft.cfg.enable_hw_execution_barrier {
            self.find(
                Weight::Fatal,
                PROXY,
                format!(
                    "is {ranks}, and more than 1 needs the hardware execution barrier; \
                     set NEURON_RT_ENABLE_HW_EXECUTION_BARRIER=1 or unset it"
                ),
            );
        }

        const STREAMS: usize = 16;
        const PER_STREAM: &str = "NEURON_RT_DBG_CC_DMA_PACKET_SIZE";
        let sizes = &mut self.draft.lists.dbg_cc_dma_packet_size.0;
        let entries = sizes.len();
        sizes.truncate(STREAMS);
        let largest = sizes.iter().copied().max().unwrap_or(0);
        if entries > STREAMS {
            self.find(
                Weight::Warn,
                PER_STREAM,
                format!("has more items than streams: {entries}, of which {STREAMS} are used"),
            );
        }
        if largest > 65536 {
            self.find(
                Weight::Warn,
                PER_STREAM,
                format!("asks for packets of {largest} bytes; 65536 is the documented maximum"),
            );
        }
        for per_priority in [
            "NEURON_RT_DBG_DMA_PRIO_PKT_SIZE",
            "NEURON_RT_DBG_CC_DMA_COPY_DMA_PRIO_PKT_SIZE",
            "NEURON_RT_DBG_CC_CCE_REDUCE_DMA_PRIO_PKT_SIZE",
        ] {
            if self.given(PER_STREAM) && self.given(per_priority) {
                self.find(
                    Weight::Warn,
                    per_priority,
                    format!(
                        "conflicts with {PER_STREAM}: packets cannot follow the stream and the priority; unset one"
                    ),
                );
            }
        }

        let queue = self.draft.cfg.pool_stdout_queue_size_bytes;
        if queue != 0 && (!queue.is_power_of_two() || queue > 131_072) {
            self.find(
                Weight::Warn,
                "NEURON_RT_GPSIMD_STDOUT_QUEUE_SIZE_BYTES",
                format!("is {queue}; a power of two up to 131072 is documented"),
            );
        }
        if self.draft.cfg.dbg_cc_nop {
            self.find(Weight::Warn, "NEURON_RT_DBG_CC_NOP", "is on: collectives do nothing and results are wrong");
        }
        if self.draft.cfg.dbg_cc_force_single_rank_rg {
            self.find(
                Weight::Warn,
                "NEURON_RT_DBG_CC_FORCE_SINGLE_RANK_RG",
                "is on: every replica group has one rank and results are wrong",
            );
        }
        let bypasses = [
            ("NEURON_RT_DBG_DISABLE_DGE", self.draft.gcfg.dbg_disable_dge),
            ("NEURON_RT_DBG_DISABLE_DGE_BOUND_CHECK", self.draft.gcfg.dge_disable_bound_check),
        ];
        for (name, value) in bypasses {
            if value != 0 {
                self.find(
                    Weight::WarnOnce,
                    name,
                    format!("is {value}: DMA bounds checks are bypassed, and a model can reach memory outside its own"),
                );
            }
        }
    }
}
