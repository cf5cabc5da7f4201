//! Driver releases the model can be.

use std::str::FromStr;

use neuron_abi::kernel::Release;
use neuron_abi::kernel::values as v;

/// The release a model instance behaves like. Ordered by age: `self >= Profile::V2_26_5` reads
/// "from 2.26.5 on". What changed in 2.25.4 shows from [`Profile::V2_26_5`] on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Profile {
    /// 2.24.7.0, measured.
    V2_24_7,
    /// 2.26.5.0, measured.
    V2_26_5,
    /// 2.27.4.0, from documents.
    #[default]
    V2_27_4,
}

impl Profile {
    /// All profiles.
    pub const ALL: [Profile; 3] = [Profile::V2_24_7, Profile::V2_26_5, Profile::V2_27_4];

    /// The release whose table rows it has.
    pub fn release(self) -> Release {
        match self {
            Profile::V2_24_7 => Release::V2_24_7,
            Profile::V2_26_5 => Release::V2_26_5,
            Profile::V2_27_4 => Release::V2_27_4,
        }
    }

    /// Text of `/sys/module/neuron/version`.
    pub fn version(self) -> &'static str {
        match self {
            Profile::V2_24_7 => "2.24.7.0",
            Profile::V2_26_5 => "2.26.5.0",
            Profile::V2_27_4 => "2.27.4.0",
        }
    }

    /// Feature bits of `DRIVER_INFO_GET`.
    pub fn features(self) -> u64 {
        let base = v::FEATURE_DMABUF
            | v::FEATURE_ASYNC_DMA
            | v::FEATURE_BATCH_DMAQ_INIT
            | v::FEATURE_BIG_CORE_MAPS
            | v::FEATURE_MEM_ALLOC_TYPE
            | v::FEATURE_HBM_SCRUB
            | v::FEATURE_MEM_ALLOC64
            | v::FEATURE_CONTIGUOUS_SCRATCHPAD;
        if self >= Profile::V2_26_5 { base | v::FEATURE_ZEROCOPY } else { base }
    }
}

impl FromStr for Profile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Profile::ALL
            .into_iter()
            .find(|p| p.version() == text || p.version().strip_suffix(".0") == Some(text))
            .ok_or_else(|| format!("driver version {text:?} is not modelled; use 2.24.7, 2.26.5 or 2.27.4"))
    }
}
