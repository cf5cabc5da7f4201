//! Configuration: the two records, the table of variables and their parsers.

use crate::{
    Result,
    device::product::{self, Product},
};
use neuron_abi::{Arch, Family};

/// What the defaults and checks of the variables depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Silicon generation.
    pub arch: Arch,
    /// Instance family.
    pub family: Family,
    /// Physical cores of one device.
    pub cores_per_device: u32,
}

/// The simulated product, once seen set pinned for the life of the process; `None` when not asked for.
pub fn fake_product() -> Result<Option<&'static Product>> {
    Ok(std::env::var("NEURON_RT_FAKE_INSTANCE_TYPE").ok().and_then(|n| product::find(&n)))
}
