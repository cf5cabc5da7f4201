//! Sequence ids: what a caller gets for a submission and asks about later (`nrta_seq_t`,
//! `facts/runtime/tensors.md` section 8).

use super::unit::{Slot, Unit};

const NUMBER_BITS: u32 = 48;
const UNIT_BITS: u32 = 4;
const CORE_AT: u32 = 56;

/// Largest number of a sequence (`NRTA_SEQ_NUM_MAX`).
pub const NUMBER_MAX: u64 = (1 << NUMBER_BITS) - 1;

/// The place of a submission: bits 63 to 56 of its id are the core, 55 to 52 the queue, 51 to 48 the
/// unit, the rest the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// Logical core, counted in the visible set.
    pub core: u8,
    /// Unit and queue.
    pub slot: Slot,
    /// Place in the order of its queue, from 1 on; 0 is before the first.
    pub number: u64,
}

impl Sequence {
    /// As C sees it.
    pub fn id(self) -> u64 {
        let place = u64::from(self.slot.queue) << UNIT_BITS | self.slot.unit as u64;
        u64::from(self.core) << CORE_AT | place << NUMBER_BITS | self.number
    }

    /// The place an id means; `None` for a unit or queue that no core has.
    pub fn of(id: u64) -> Option<Sequence> {
        let place = (id >> NUMBER_BITS) as u8;
        let unit = Unit::from_repr(place & ((1 << UNIT_BITS) - 1))?;
        let slot = Slot::new(unit, i64::from(place >> UNIT_BITS))?;
        Some(Sequence { core: (id >> CORE_AT) as u8, slot, number: id & NUMBER_MAX })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_number_has_the_bits_of_the_committed_constants() {
        let table = include_str!("../../../../abi/constants.tsv");
        let value = |name: &str| {
            let row = table.lines().map(|line| line.split('\t').collect::<Vec<_>>()).find(|row| row[0] == name);
            row.unwrap_or_else(|| panic!("{name} is in the table"))[1].to_owned()
        };
        assert_eq!(value("NRTA_SEQ_NUM_MAX"), format!("((UINT64_C(1) << {NUMBER_BITS}) - 1)"));
        assert_eq!(value("NRTA_SEQ_NUM_MASK"), "NRTA_SEQ_NUM_MAX");
        assert!(value("NRTA_SEQ_GET_XU_ID(seq_id)").contains(&format!(">> {NUMBER_BITS}")));
    }

    #[test]
    fn ids_have_the_documented_layout() {
        for (core, unit, queue, number, id) in [
            (0, Unit::TensorOp, 0, 1, 0x0000_0000_0000_0001),
            (0, Unit::TensorOp, 1, 1, 0x0010_0000_0000_0001),
            (3, Unit::Compute, 0, 2, 0x0301_0000_0000_0002),
            (127, Unit::Collectives, 2, NUMBER_MAX, 0x7f22_ffff_ffff_ffff),
        ] {
            let sequence = Sequence { core, slot: Slot::new(unit, queue).unwrap(), number };
            assert_eq!(sequence.id(), id, "{sequence:?}");
        }
    }

    proptest! {
        #[test]
        fn an_id_that_means_a_place_is_the_id_of_that_place(id: u64) {
            if let Some(sequence) = Sequence::of(id) {
                prop_assert_eq!(sequence.id(), id);
            }
        }

        #[test]
        fn every_place_comes_back_from_its_id(core: u8, unit in 0u8..3, queue in 0i64..3, number in 0..=NUMBER_MAX) {
            if let Some(slot) = Slot::new(Unit::from_repr(unit).unwrap(), queue) {
                let sequence = Sequence { core, slot, number };
                prop_assert_eq!(Sequence::of(sequence.id()), Some(sequence));
            }
        }
    }
}
