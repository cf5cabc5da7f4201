//! What several targets need.

#![allow(dead_code)]

use neuron_abi::{Arch, Family};
use nrt_core::config::Shape;

/// One machine of each generation, and one with single-core devices.
pub const SHAPES: [Shape; 4] = [
    Shape { arch: Arch::Sunda, family: Family::Trn1, cores_per_device: 2 },
    Shape { arch: Arch::Cayman, family: Family::Trn2, cores_per_device: 8 },
    Shape { arch: Arch::Mariana, family: Family::Trn3, cores_per_device: 8 },
    Shape { arch: Arch::Cayman, family: Family::Unknown, cores_per_device: 1 },
];

/// No sentence for a person, whatever the input, may break its line or fill the screen.
pub fn one_short_line(text: &str) {
    assert!(text.len() < 1500, "{} bytes: {text}", text.len());
    assert!(!text.contains(char::is_control), "{text:?}");
}
