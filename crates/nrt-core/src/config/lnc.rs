//! Size of a logical core, in physical cores (`facts/config/rules.md` section 4).

use super::{
    Shape,
    draft::Draft,
    env::Env,
    parse::{Fault, Origin, Reason, Value},
    table::{Outcome, Rule},
};
use neuron_abi::Arch;
use std::borrow::Cow;

pub(crate) const FIRST: &str = "NEURON_LOGICAL_NC_CONFIG";
pub(crate) const SECOND: &str = "NEURON_RT_VIRTUAL_CORE_SIZE";

/// A resolved size and the variable that gave it, if one did.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Lnc {
    pub(crate) size: u32,
    pub(crate) from: Option<&'static str>,
}

/// The size for `shape`: 1 on arch 2 whatever the variables hold; else the first variable that is
/// set; else 2, or 1 where a device has one core. The checks hold for the default too.
pub(crate) fn resolve(env: &dyn Env, shape: &Shape) -> Result<Lnc, Fault> {
    if shape.arch == Arch::Sunda {
        return Ok(Lnc { size: 1, from: None });
    }
    let found = [FIRST, SECOND].into_iter().find_map(|name| env.get(name).map(|text| (name, text)));
    let Some((name, text)) = found else {
        let size = default(shape);
        return match check(size, shape) {
            Ok(()) => Ok(Lnc { size, from: None }),
            Err(reason) => Err(Fault::new(FIRST, b"(default)", reason, u32::form())),
        };
    };
    let size = u32::parse(&text).and_then(|size| check(size, shape).map(|()| size));
    size.map(|size| Lnc { size, from: Some(name) }).map_err(|reason| Fault::new(name, &text, reason, u32::form()))
}

fn default(shape: &Shape) -> u32 {
    if shape.cores_per_device == 1 { 1 } else { 2 }
}

fn check(size: u32, shape: &Shape) -> Result<(), Reason> {
    let cores = shape.cores_per_device;
    if size.is_power_of_two() && cores.is_multiple_of(size) {
        return Ok(());
    }
    let fit: Vec<String> = (0..u32::BITS)
        .map(|bit| 1u32 << bit)
        .filter(|size| *size <= cores && cores.is_multiple_of(*size))
        .map(|size| size.to_string())
        .collect();
    Err(Reason::rule(
        format!(
            "is refused: Logical core size ({size}) must be a power of two and less than or equal to {cores}, \
             and divide the {cores} cores of a device"
        ),
        fit.join(" or "),
    ))
}

/// One of the two variables in the table. The rung that gives the value stores it and is the only
/// one looked at; the first rung stands for the default as well.
pub(crate) struct Rung(pub(crate) &'static str);

impl Rule for Rung {
    fn apply(&self, _name: &'static str, env: &dyn Env, shape: &Shape, draft: &mut Draft) -> Outcome {
        match resolve(env, shape) {
            Ok(lnc) => {
                draft.cfg.virtual_core_size = lnc.size;
                let origin = if lnc.from == Some(self.0) { Origin::Environment } else { Origin::ArchRule };
                Outcome { origin, faults: Vec::new() }
            }
            Err(fault) => {
                draft.cfg.virtual_core_size = default(shape);
                let mine = fault.name == self.0;
                Outcome { origin: Origin::ArchRule, faults: mine.then_some(fault).into_iter().collect() }
            }
        }
    }

    fn show(&self, draft: &Draft) -> String {
        draft.cfg.virtual_core_size.show()
    }

    fn form(&self) -> Cow<'static, str> {
        u32::form()
    }

    fn arch_rule(&self) -> Option<&'static str> {
        Some("1 on arch 2 and on single-core devices, else 2")
    }

    fn judged_by_shape(&self) -> bool {
        true
    }
}
