//! Every product of the facts, as one table.

use neuron_abi::{Arch, Family, Size};

/// One product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Product {
    /// Name as DMI and `NEURON_RT_FAKE_INSTANCE_TYPE` spell it.
    pub name: &'static str,
    /// Family number.
    pub family: Family,
    /// Size number.
    pub size: Size,
    /// Silicon generation.
    pub arch: Arch,
    /// Devices of the instance.
    pub devices: u32,
    /// Physical cores of one device.
    pub cores_per_device: u32,
    /// Device memory of one device, in MiB.
    pub hbm_mib: u32,
}

/// All products that can be simulated.
pub const PRODUCTS: &[Product] = &[
    Product {
        name: "trn1.32xlarge",
        family: Family::Trn1,
        size: Size::X32,
        arch: Arch::Sunda,
        devices: 16,
        cores_per_device: 2,
        hbm_mib: 32 * 1024,
    },
    Product {
        name: "trn2.48xlarge",
        family: Family::Trn2,
        size: Size::X48,
        arch: Arch::Cayman,
        devices: 16,
        cores_per_device: 8,
        hbm_mib: 96 * 1024,
    },
];

/// The product with exactly this name.
pub fn find(name: &str) -> Option<&'static Product> {
    PRODUCTS.iter().find(|p| p.name == name)
}
