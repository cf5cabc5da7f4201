//! Defects of the driver that a client can see, reproduced on purpose.
//!
//! Each has a name that the code and [`crate::reply::Bug`] refer to. A room adds its rows here;
//! nothing in the model may deviate from sense without one.

use crate::profile::Profile;

/// One defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quirk {
    /// Name.
    pub name: &'static str,
    /// First profile that has it.
    pub since: Profile,
    /// Last profile that has it.
    pub last: Profile,
    /// What a client sees.
    pub effect: &'static str,
}

const fn quirk(name: &'static str, since: Profile, last: Profile, effect: &'static str) -> Quirk {
    Quirk { name, since, last, effect }
}

use Profile::{V2_24_7 as OLD, V2_27_4 as NEW};

/// All of them, by name.
pub static QUIRKS: &[Quirk] = &[
    quirk("bar-read-unchecked", OLD, OLD, "BAR_READ outside the register window, or of BAR 2, is a kernel oops"),
    quirk("bar-write-at-end", OLD, OLD, "BAR_WRITE right behind the register window is a kernel oops"),
    quirk("bdf-ext-index", OLD, NEW, "DEVICE_BDF_EXT with an absolute index of 64 and up is a kernel BUG"),
    quirk(
        "claim-search-skip",
        OLD,
        NEW,
        "a core claim that hits an occupied core at j goes on at j + 2: j + 1 is never a start",
    ),
    quirk(
        "copyout-start-ignored",
        OLD,
        NEW,
        "DMA_DESCRIPTOR_COPYOUT returns the start of the ring; start_index only counts against its end",
    ),
    quirk("device-index", OLD, NEW, "a routing id whose device index is 64 and up is a kernel BUG in the probe"),
    quirk(
        "device-info-pad",
        OLD,
        NEW,
        "unused neighbour slots and the pad are stale kernel bytes; the model gives zeros",
    ),
    quirk(
        "dma-engine-missing",
        OLD,
        NEW,
        "state of a DMA engine that does not exist is a kernel oops, with the engine's lock held where there is one",
    ),
    quirk(
        "dma-start-uninitialised",
        OLD,
        OLD,
        "start with count 0 of a queue that was not initialised is a kernel oops with the engine's lock held",
    ),
    quirk("empty-copy", OLD, NEW, "a copy or fill of size 0 moves 64 KiB: that is what length 0 means to the engine"),
    quirk("event-core-unchecked", OLD, NEW, "an event of a core far behind the last is a kernel oops"),
    quirk(
        "folded-all-request",
        OLD,
        NEW,
        "an ALL reset behind another request is folded in: the state stays RESET for ever",
    ),
    quirk("host-scratchpad-free", OLD, NEW, "freeing host memory of the contiguous scratchpad type never returns"),
    quirk(
        "missing-register-bar",
        OLD,
        Profile::V2_26_5,
        "V3 and V4 forgive a register window that is missing, then oops",
    ),
    quirk("no-memory-reset-state", OLD, NEW, "an ALL request that cannot be allocated leaves the state RESET"),
    quirk(
        "post-config-uncounted",
        OLD,
        NEW,
        "a reset that fails in post-reset configuration does not count as a failure",
    ),
    quirk("reset-books-rings", OLD, NEW, "each reset of a core adds to the host memory booked on it"),
    quirk("unattached-alloc", OLD, NEW, "MEM_ALLOC_V2 by a process without a slot is a kernel BUG"),
    quirk("wrapping-bounds", OLD, OLD, "offset plus size may wrap around and pass the test against the chunk"),
    quirk("zero-copy-of-nothing", OLD, OLD, "a zero copy of size 0 is an oops"),
];

/// Whether a profile has a defect.
///
/// # Panics
/// For a name that is not in the list.
pub fn has(name: &str, profile: Profile) -> bool {
    let quirk = QUIRKS.iter().find(|q| q.name == name).unwrap_or_else(|| panic!("no quirk named {name}"));
    (quirk.since..=quirk.last).contains(&profile)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_unique() {
        assert!(QUIRKS.windows(2).all(|w| w[0].name < w[1].name));
    }
}
