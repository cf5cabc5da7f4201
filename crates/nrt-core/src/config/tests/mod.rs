//! Tests of the parse as a whole. Everything here is pure: variables come from [`Vars`].

use super::env::Env;
use std::collections::BTreeMap;

/// An environment of a test.
pub(crate) struct Vars(BTreeMap<String, Vec<u8>>);

impl Vars {
    pub(crate) fn new(set: &[(&str, &str)]) -> Vars {
        Vars(set.iter().map(|(name, text)| ((*name).into(), (*text).into())).collect())
    }
}

impl Env for Vars {
    fn get(&self, name: &str) -> Option<Vec<u8>> {
        self.0.get(name).cloned()
    }

    fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }
}
