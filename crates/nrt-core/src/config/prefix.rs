//! Variables whose name goes on: one per log module, one per kind of profile buffer.

use super::{
    Shape,
    draft::Draft,
    env::Env,
    parse::{Fault, Origin, UNSET, Value},
    table::{Outcome, Rule},
};
use std::{borrow::Cow, collections::BTreeMap};

/// Module tags of the log; a variable of another tag selects nothing.
pub(crate) const MODULE_TAGS: &[(&str, u32)] =
    &[("NRT", 0), ("TDRV", 1), ("NMGR", 2), ("KMGR", 3), ("ENC", 4), ("HAL", 5), ("RUST", 6), ("NLOG", 7)];

/// Kinds of profile buffers and their `notification_type`.
pub(crate) const PROFILE_KINDS: &[(&str, u32)] =
    &[("EVENT", 1), ("DMA", 4), ("THROTTLE", 5), ("CC_CORE_INSTRUCTION", 6), ("CC_CORE_EVENT", 7)];

/// The variables `prefix` + tag + `suffix`, one value for each tag that is set.
pub(crate) struct Tagged<T: 'static> {
    pub(crate) tags: &'static [(&'static str, u32)],
    pub(crate) suffix: &'static str,
    pub(crate) put: fn(&mut Draft) -> &mut BTreeMap<u32, T>,
    pub(crate) get: fn(&Draft) -> &BTreeMap<u32, T>,
}

impl<T> Tagged<T> {
    /// The full names that begin with `prefix`.
    pub(crate) fn names(&self, prefix: &str) -> impl Iterator<Item = (String, u32)> {
        self.tags.iter().map(move |(tag, key)| (format!("{prefix}{tag}{}", self.suffix), *key))
    }
}

impl<T: Value> Rule for Tagged<T> {
    fn apply(&self, prefix: &'static str, env: &dyn Env, _shape: &Shape, draft: &mut Draft) -> Outcome {
        let values = (self.put)(draft);
        values.clear();
        let mut outcome = Outcome { origin: Origin::Default, faults: Vec::new() };
        for (name, key) in self.names(prefix) {
            let Some(text) = env.get(&name) else { continue };
            match T::parse(&text) {
                Ok(value) => {
                    outcome.origin = Origin::Environment;
                    values.insert(key, value);
                }
                Err(reason) => outcome.faults.push(Fault::new(name, &text, reason, T::form())),
            }
        }
        outcome
    }

    fn show(&self, draft: &Draft) -> String {
        let values = (self.get)(draft);
        let shown: Vec<String> = self
            .tags
            .iter()
            .filter_map(|(tag, key)| values.get(key).map(|value| format!("{tag}={}", value.show())))
            .collect();
        if shown.is_empty() { UNSET.into() } else { shown.join(",") }
    }

    fn form(&self) -> Cow<'static, str> {
        T::form()
    }

    fn arch_rule(&self) -> Option<&'static str> {
        None
    }

    fn full_names(&self, prefix: &'static str) -> Vec<String> {
        self.names(prefix).map(|(name, _)| name).collect()
    }
}
