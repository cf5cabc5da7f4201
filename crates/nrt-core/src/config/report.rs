//! The configuration as a person or a program wants to read it: every variable, its value now,
//! where it came from and where it goes. Pure: nothing is logged, pinned or published.

use super::{
    Shape, dev_dir,
    env::{self, Env, OWN, Process},
    fake,
    parse::{Origin, excerpt},
    rules::{self, Build, Weight},
    table::{Knob, Mark, Outcome, Place, TABLE},
};
use crate::device;
use neuron_abi::{Arch, Family};

/// Names of other releases and tools that this runtime does not read
/// (`facts/config/env_documented_elsewhere.tsv`).
pub(crate) const ELSEWHERE: [&str; 12] = [
    "NEURON_RT_MULTI_INSTANCE_SHARED_WEIGHTS",
    "NEURON_RT_CONTIGUOUS_SCRATCHPAD",
    "NEURON_RT_ENABLE_DEVICE_MEMORY_OOM_LOG",
    "NEURON_RT_INSPECT_PRECACHE_ENABLE",
    "NEURON_RT_INSPECT_DURATION_NSEC",
    "NEURON_RT_INSPECT_START_OFFSET_NSEC",
    "NEURON_RT_DEBUG_OUTPUT_DIR",
    "NEURON_RT_ULTRASERVER_SERVER_ID",
    "NEURON_RT_ULTRASERVER_NODE_ID",
    "NEURON_RT_NUM_SOFTWARE_NQS",
    "NEURON_RT_DBG_A2A_CC",
    "NEURON_RT_ASYNC_EXEC_MODE",
];

/// Everything about the configuration of this environment.
#[derive(Clone, Debug)]
pub struct Report {
    /// The hardware the defaults are for; `None` when there is no device and no simulated one.
    pub shape: Option<Shape>,
    /// Name of the simulated instance type, if one is asked for.
    pub simulated: Option<&'static str>,
    /// One row per variable of the vendor library, 147.
    pub rows: Vec<Row>,
    /// The variables of this project.
    pub own: Vec<OwnRow>,
    /// Names in the environment that begin with `NEURON_RT_` and that nothing reads.
    pub strangers: Vec<Stranger>,
}

/// One variable.
#[derive(Clone, Debug)]
pub struct Row {
    /// Name; prefix variables end in an underscore.
    pub name: &'static str,
    /// Subject.
    pub group: &'static str,
    /// The text in the environment, made safe to print.
    pub text: Option<String>,
    /// The value that holds; `None` when only a device can tell.
    pub value: Option<String>,
    /// `default`, `arch rule`, `environment` or the variable that decided.
    pub origin: &'static str,
    /// How the default follows from the hardware, if it does.
    pub arch_rule: Option<&'static str>,
    /// Where the value goes: members of the records.
    pub members: Vec<Member>,
    /// Who reads the value when it has no member.
    pub reader: Option<&'static str>,
    /// What it does, in one line.
    pub effect: &'static str,
    /// What a good text looks like.
    pub form: String,
    /// Switches off a safety check or loads code.
    pub security: bool,
    /// What is wrong with the text; init fails on it unless `tolerated`.
    pub faults: Vec<String>,
    /// Remarks that do not fail init.
    pub remarks: Vec<String>,
    /// The runtime falls back from a bad text and goes on.
    pub tolerated: bool,
}

/// One variable of this project.
#[derive(Clone, Debug)]
pub struct OwnRow {
    /// Name.
    pub name: &'static str,
    /// The value that holds.
    pub value: String,
    /// `default` or `environment`.
    pub origin: &'static str,
    /// What it does, in one line.
    pub effect: &'static str,
    /// What is wrong with the text.
    pub fault: Option<String>,
}

/// One member of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// `cfg` (656 bytes, static) or `gcfg` (296 bytes, heap).
    pub record: &'static str,
    /// Name of the member.
    pub field: &'static str,
    /// Offset in bytes.
    pub offset: usize,
}

/// A name nothing reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stranger {
    /// Name, made safe to print.
    pub name: String,
    /// The known name that is nearest, or `None` for a name of another release or tool.
    pub nearest: Option<String>,
}

impl Report {
    /// Number of bad values.
    pub fn bad(&self) -> usize {
        let vendor: usize = self.rows.iter().map(|row| row.faults.len()).sum();
        vendor + self.own.iter().filter(|row| row.fault.is_some()).count()
    }
}

/// The configuration of this process, for the simulated instance if one is asked for, else for the
/// hardware of this machine, else for none.
pub fn report() -> Report {
    make(&Process, detect, env::trusted())
}

/// The hardware of this machine. Without a device file nobody is asked, so nothing is logged.
fn detect() -> Option<Shape> {
    let is_device = |name: &str| name.strip_prefix("neuron").is_some_and(|index| index.parse::<u32>().is_ok());
    let mut files = std::fs::read_dir(dev_dir()).ok()?.flatten();
    files.find(|file| file.file_name().to_str().is_some_and(is_device))?;
    let info = device::dev_info().ok()?;
    // Defaults tell families apart by the switch alone, and all families of arch 4 have it.
    let family = if info.arch == Arch::Mariana { Family::Trn3 } else { Family::Unknown };
    Some(Shape { arch: info.arch, family, cores_per_device: info.cores_per_device })
}

pub(crate) fn make(env: &dyn Env, detect: impl FnOnce() -> Option<Shape>, trusted: bool) -> Report {
    let simulated = fake::parse(env);
    let shape = match simulated {
        Ok(Some(product)) => {
            Some(Shape { arch: product.arch, family: product.family, cores_per_device: product.cores_per_device })
        }
        Ok(None) => detect(),
        Err(_) => None,
    };
    // Without hardware the newest one stands in: it has the fewest rules a value can break.
    let stand_in = Shape { arch: Arch::Mariana, family: Family::Trn3, cores_per_device: 8 };
    let build = rules::build(env, &shape.unwrap_or(stand_in));
    let rows = TABLE
        .iter()
        .zip(&build.outcomes)
        .map(|(knob, outcome)| row(env, knob, outcome, &build, shape.is_some()))
        .collect();
    let simulated = simulated.ok().flatten().map(|product| product.name);
    let own = OWN.iter().map(|own| own_row(env, trusted, own)).collect();
    Report { shape, simulated, rows, own, strangers: strangers(env) }
}

fn own_row(env: &dyn Env, trusted: bool, own: &env::Own) -> OwnRow {
    let given = env::own(env, trusted, own.name);
    let number = own.name == env::HBM_MIB && given.is_some();
    let fault = if number { env::parse_hbm_mib(env, trusted).err() } else { None };
    let (value, origin) = match given {
        Some(text) if fault.is_none() => (excerpt(&text), "environment"),
        _ => (own.default.into(), "default"),
    };
    OwnRow { name: own.name, value, origin, effect: own.effect, fault: fault.map(|fault| fault.to_string()) }
}

fn row(env: &dyn Env, knob: &'static Knob, outcome: &Outcome, build: &Build, judged: bool) -> Row {
    let arch_rule = knob.rule.arch_rule();
    let open = !judged && arch_rule.is_some() && (outcome.origin == Origin::ArchRule || knob.rule.judged_by_shape());
    let mut faults: Vec<String> = outcome.faults.iter().map(ToString::to_string).collect();
    if open && knob.rule.judged_by_shape() {
        faults.clear();
    }
    let mut remarks = Vec::new();
    for finding in build.findings.iter().filter(|finding| finding.name == knob.name) {
        if finding.weight == Weight::Fatal { &mut faults } else { &mut remarks }.push(finding.to_string());
    }
    let members = knob.places.iter().filter_map(|place| match *place {
        Place::Member(record, field, offset) => Some(Member { record, field, offset }),
        Place::Elsewhere(_) => None,
    });
    let reader = knob.places.iter().find_map(|place| match *place {
        Place::Elsewhere(reader) => Some(reader),
        Place::Member(..) => None,
    });
    Row {
        name: knob.name,
        group: knob.group,
        text: env.get(knob.name).map(|text| excerpt(&text)),
        value: (!open).then(|| knob.rule.show(&build.draft)),
        origin: match outcome.origin {
            Origin::Default => "default",
            Origin::ArchRule => "arch rule",
            Origin::Environment => "environment",
            Origin::Coupled(by) => by,
        },
        arch_rule,
        members: members.collect(),
        reader,
        effect: knob.effect,
        form: knob.rule.form().into_owned(),
        security: knob.mark.has(Mark::SECURITY),
        faults,
        remarks,
        tolerated: knob.mark.has(Mark::LENIENT),
    }
}

impl Row {
    /// The value, or what is missing to tell it.
    pub fn value_text(&self) -> &str {
        self.value.as_deref().unwrap_or("needs a device")
    }
}

fn strangers(env: &dyn Env) -> Vec<Stranger> {
    let known: Vec<String> = TABLE.iter().flat_map(|knob| knob.rule.full_names(knob.name)).collect();
    let mut unread: Vec<String> =
        env.names().into_iter().filter(|name| name.starts_with("NEURON_RT_") && !known.contains(name)).collect();
    unread.sort_unstable();
    unread
        .iter()
        .map(|name| {
            let nearest = known.iter().min_by_key(|candidate| distance(name.as_bytes(), candidate.as_bytes()));
            Stranger {
                name: excerpt(name.as_bytes()),
                nearest: nearest.filter(|_| !ELSEWHERE.contains(&name.as_str())).cloned(),
            }
        })
        .collect()
}

/// Edit distance (insert, delete, replace). A name is cut at 128 bytes, past the longest known one,
/// so that a huge one costs no time.
pub(crate) fn distance(a: &[u8], b: &[u8]) -> usize {
    let a = &a[..a.len().min(128)];
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
