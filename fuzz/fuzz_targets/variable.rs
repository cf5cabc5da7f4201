//! One variable, any text: every grammar of the table, by its own parser.
//!
//! The first byte picks the variable, the second the machine, the rest is the text.

#![no_main]

mod common;

use libfuzzer_sys::fuzz_target;
use nrt_core::config::fuzz::{Variable, variables};
use std::sync::LazyLock;

static VARIABLES: LazyLock<Vec<Variable>> = LazyLock::new(variables);

fuzz_target!(|data: &[u8]| {
    let [variable, machine, text @ ..] = data else { return };
    let variable = &VARIABLES[usize::from(*variable) % VARIABLES.len()];
    let shape = &common::SHAPES[usize::from(*machine) % common::SHAPES.len()];
    let (value, faults) = variable.parse(Some(text), shape);
    common::one_short_line(&value);
    for fault in &faults {
        common::one_short_line(fault);
        assert!(fault.starts_with(&format!("{}=\"", variable.name)), "{fault}");
    }
    if !faults.is_empty() {
        assert_eq!(faults.len(), 1);
        assert_eq!(value, variable.parse(None, shape).0, "a text that is refused leaves the default");
    }
});
