//! Attach table: which processes have a device open.

use std::sync::Arc;

use neuron_abi::kernel::values::MAX_PROCESSES;

use crate::sync::{Mutex, Task, Wait, WaitQueue};
use crate::time::Clock;

/// One slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Slot {
    tgid: u32,
    count: u32,
}

#[derive(Debug, Default)]
struct State {
    slots: [Slot; MAX_PROCESSES],
    /// Descriptors that hold the device, all processes; counts files, not closes.
    open: u32,
    /// Processes whose last close is being carried out.
    closing: u32,
}

/// What a close did to the slot of its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detached {
    /// The process had no slot.
    NotAttached,
    /// Others of its opens remain.
    Remains,
    /// It was the last one: the slot is free.
    Last,
}

/// 16 slots keyed by thread group, and the open count of the device.
#[derive(Debug, Default)]
pub struct AttachTable(Mutex<State>, WaitQueue);

impl AttachTable {
    /// Counts an open of a process; false when there is no slot left.
    pub fn attach(&self, tgid: u32) -> bool {
        let mut state = self.0.lock();
        let held = state.slots.iter().position(|s| s.count != 0 && s.tgid == tgid);
        let Some(i) = held.or_else(|| state.slots.iter().position(|s| s.count == 0)) else { return false };
        state.slots[i].tgid = tgid;
        state.slots[i].count += 1;
        state.open += 1;
        true
    }

    /// Whether a process has a slot.
    pub fn holds(&self, tgid: u32) -> bool {
        self.count(tgid) != 0
    }

    /// Opens counted for a process.
    pub fn count(&self, tgid: u32) -> u32 {
        self.0.lock().slots.iter().find(|s| s.count != 0 && s.tgid == tgid).map_or(0, |s| s.count)
    }

    /// Takes one open of a process back.
    pub fn detach(&self, tgid: u32) -> Detached {
        let mut state = self.0.lock();
        let Some(slot) = state.slots.iter_mut().find(|s| s.count != 0 && s.tgid == tgid) else {
            return Detached::NotAttached;
        };
        slot.count -= 1;
        if slot.count == 0 {
            *slot = Slot::default();
            return Detached::Last;
        }
        Detached::Remains
    }

    /// The last close of a process begins; it may wait for a reset.
    pub fn close_begins(&self) {
        self.0.lock().closing += 1;
    }

    /// It is over.
    pub fn close_ends(&self, clock: &dyn Clock) {
        self.0.lock().closing -= 1;
        self.1.wake_all(clock);
    }

    /// Waits until no last close is being carried out.
    pub fn wait_for_closes(&self, clock: &dyn Clock, task: &Arc<Task>) {
        let guard = self.0.lock();
        drop(self.1.wait(clock, task, &self.0, guard, Wait::uninterruptible(), |s| s.closing == 0));
    }

    /// A file that held the device is gone; true when it was the last one.
    pub fn file_released(&self) -> bool {
        let mut state = self.0.lock();
        state.open = state.open.saturating_sub(1);
        state.open == 0
    }

    /// Files that hold the device.
    pub fn open_count(&self) -> u32 {
        self.0.lock().open
    }

    /// Thread group in slot 0, or 0.
    pub fn first(&self) -> u32 {
        self.0.lock().slots[0].tgid
    }

    /// Thread groups in slot order.
    pub fn processes(&self) -> Vec<u32> {
        self.0.lock().slots.iter().filter(|s| s.count != 0).map(|s| s.tgid).collect()
    }

    /// Checks what must hold between any two calls.
    ///
    /// # Panics
    /// When it does not.
    pub fn check_invariants(&self) {
        let state = self.0.lock();
        let used: Vec<_> = state.slots.iter().filter(|s| s.count != 0).collect();
        assert!(state.slots.iter().all(|s| s.count != 0 || s.tgid == 0), "a free slot names nobody");
        assert!(
            used.iter().enumerate().all(|(i, s)| used[..i].iter().all(|o| o.tgid != s.tgid)),
            "a process has one slot"
        );
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a plain map from process to count that holds 16.
        #[test]
        fn sixteen_processes_attach_and_each_close_takes_one_open_back(
            steps in prop::collection::vec((any::<bool>(), 1_u32..24), 1..200),
        ) {
            let (table, mut model) = (AttachTable::default(), BTreeMap::<u32, u32>::new());
            for (open, tgid) in steps {
                if open {
                    let fits = model.contains_key(&tgid) || model.len() < MAX_PROCESSES;
                    prop_assert_eq!(table.attach(tgid), fits);
                    if fits {
                        *model.entry(tgid).or_default() += 1;
                    }
                } else {
                    let expected = match model.get_mut(&tgid) {
                        None => Detached::NotAttached,
                        Some(1) => {
                            model.remove(&tgid);
                            Detached::Last
                        }
                        Some(count) => {
                            *count -= 1;
                            Detached::Remains
                        }
                    };
                    prop_assert_eq!(table.detach(tgid), expected);
                }
                table.check_invariants();
                let mut processes = table.processes();
                processes.sort_unstable();
                prop_assert_eq!(processes, model.keys().copied().collect::<Vec<_>>());
                prop_assert!(model.iter().all(|(tgid, count)| table.count(*tgid) == *count));
            }
        }
    }

    /// Measured: golden 11. A process that attaches takes the lowest free slot.
    #[test]
    fn the_first_slot_names_nobody_while_it_is_free() {
        let table = AttachTable::default();
        for tgid in [7, 8] {
            assert!(table.attach(tgid));
        }
        table.detach(7);
        assert_eq!((table.first(), table.processes()), (0, vec![8]));
        table.attach(9);
        assert_eq!((table.first(), table.processes()), (9, vec![9, 8]));
    }
}
