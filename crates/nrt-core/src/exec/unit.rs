//! The execution units of a logical core and their queues (`facts/runtime/tensors.md` section 8).

/// An execution unit (`nrta_xu_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumIter, strum::FromRepr)]
#[repr(u8)]
pub enum Unit {
    /// Reads, writes and copies of tensors.
    TensorOp = 0,
    /// Runs of models.
    Compute = 1,
    /// Standalone collectives.
    Collectives = 2,
}

/// Name and number of queues of each unit, by number.
const UNITS: [(&str, u32); 3] = [("TENSOR_OP", 2), ("COMPUTE", 1), ("COLLECTIVES", 3)];

/// Queues of one core.
pub(super) const QUEUES: usize = {
    let (mut sum, mut unit) = (0, 0);
    while unit < UNITS.len() {
        sum += UNITS[unit].1 as usize;
        unit += 1;
    }
    sum
};

impl Unit {
    /// The name, without the prefix of the C enum.
    pub const fn name(self) -> &'static str {
        UNITS[self as usize].0
    }

    /// How many queues it has; they are numbered from 0.
    pub const fn queues(self) -> u32 {
        UNITS[self as usize].1
    }
}

/// A queue of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Whose queue it is.
    pub unit: Unit,
    /// Which of them; below [`Unit::queues`].
    pub queue: u8,
}

impl Slot {
    /// Queue `queue` of `unit`, if it has so many.
    pub fn new(unit: Unit, queue: i64) -> Option<Slot> {
        let queue = u8::try_from(queue).ok().filter(|&queue| u32::from(queue) < unit.queues())?;
        Some(Slot { unit, queue })
    }

    /// Its place among the queues of a core, below [`QUEUES`].
    pub(super) fn index(self) -> usize {
        UNITS[..self.unit as usize].iter().map(|&(_, queues)| queues as usize).sum::<usize>() + usize::from(self.queue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use strum::IntoEnumIterator;

    #[test]
    fn units_and_queues_are_those_of_the_committed_enum() {
        let rows: Vec<Vec<&str>> = include_str!("../../../../abi/enums.tsv")
            .lines()
            .map(|line| line.split('\t').collect())
            .filter(|row: &Vec<&str>| row[0] == "nrta_xu_t" && row[4] == "public")
            .collect();
        let unit = |unit: Unit| {
            let queues = format!("; {} queue{}", unit.queues(), if unit.queues() == 1 { "" } else { "s" });
            (format!("NRTA_XU_{}", unit.name()), (unit as u8).to_string(), queues)
        };
        assert_eq!(rows.len(), Unit::iter().count() + 1);
        for (row, unit) in rows.iter().zip(Unit::iter().map(unit)) {
            assert_eq!((row[1], row[2]), (&*unit.0, &*unit.1));
            assert!(row[6].ends_with(&unit.2), "{row:?}");
        }
        assert_eq!((rows[3][1], rows[3][2]), ("NRTA_XU_TYPE_NUM", "3"));
    }

    #[test]
    fn every_queue_has_a_place_of_its_own() {
        let slots: Vec<Slot> =
            Unit::iter().flat_map(|unit| (-1..5).filter_map(move |queue| Slot::new(unit, queue))).collect();
        assert_eq!(slots.len(), QUEUES);
        let places: HashSet<usize> = slots.iter().map(|slot| slot.index()).collect();
        assert!(places.len() == QUEUES && places.iter().all(|&place| place < QUEUES));
        for bad in [i64::MIN, -1, 3, 256, 1 << 32] {
            assert_eq!(Slot::new(Unit::Collectives, bad), None);
        }
    }
}
