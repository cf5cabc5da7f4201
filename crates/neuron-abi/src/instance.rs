//! Architectures and the instance identity numbers (`facts/runtime/instance.tsv`, `arch.tsv`).

/// Silicon generation. The numbers are the ones the runtime and the kernel driver share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, strum::FromRepr, strum::EnumIter)]
#[repr(u32)]
pub enum Arch {
    /// Trn1 and Inf2 (NeuronCore-v2), two cores per device.
    Sunda = 2,
    /// Trn2 (NeuronCore-v3), eight cores per device.
    Cayman = 3,
    /// Trn3 (NeuronCore-v4), eight cores per device.
    Mariana = 4,
}

/// Instance family, `NRT_INSTANCE_*`. The display form is the product-name token.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    strum::FromRepr,
    strum::IntoStaticStr,
    strum::Display,
    strum::EnumIter,
)]
#[repr(u32)]
#[strum(serialize_all = "lowercase")]
#[allow(missing_docs)] // the names are the documentation: one product family each
pub enum Family {
    Unknown = 0,
    Inf1 = 1,
    Trn1 = 2,
    Trn1n = 3,
    Inf2 = 4,
    Trn2 = 5,
    Trn2n = 6,
    Inf2e = 7,
    Trn2p = 8,
    Trn2u = 9,
    Trn2e = 10,
    Trn2eu = 11,
    Trn2ac = 12,
    Trn2uac = 13,
    Trn3 = 14,
    Trn3pds98 = 15,
}

/// Instance size, `NRT_INSTANCE_SIZE_*`. The display form is the product-name token.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    strum::FromRepr,
    strum::IntoStaticStr,
    strum::Display,
    strum::EnumIter,
)]
#[repr(u32)]
#[allow(missing_docs)] // the names are the documentation: one product size each
pub enum Size {
    #[strum(serialize = "xlarge")]
    X1 = 0,
    #[strum(serialize = "2xlarge")]
    X2 = 1,
    #[strum(serialize = "4xlarge")]
    X4 = 2,
    #[strum(serialize = "6xlarge")]
    X6 = 3,
    #[strum(serialize = "8xlarge")]
    X8 = 4,
    #[strum(serialize = "24xlarge")]
    X24 = 5,
    #[strum(serialize = "32xlarge")]
    X32 = 6,
    #[strum(serialize = "48xlarge")]
    X48 = 7,
    #[strum(serialize = "3xlarge")]
    X3 = 8,
    #[strum(serialize = "unknown")]
    Unknown = 9,
}
