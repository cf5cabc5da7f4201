//! Calls on tensor sets.

use super::choices::{pointer, show, text, too_long};
use super::{Answer, FAILURE, Machine, OK, STALE, UNTOUCHED, ensure, first, refused};
use crate::ops::{Pick, Text};

// SAFETY of the calls: as in `machine.rs`.
impl Machine<'_> {
    pub(super) fn add(&mut self, set: &Pick, name: Text, tensor: &Pick) -> Answer {
        let (Some((set, shown)), Some((tensor, shown_tensor))) = (self.set(set), self.tensor(tensor)) else {
            return Ok(());
        };
        let name = text(name);
        self.say(format!("nrt_add_tensor_to_tensor_set({shown}, {}, {shown_tensor})", show(name.as_ref())));
        // SAFETY: see above.
        let status =
            unsafe { (self.nrt.nrt_add_tensor_to_tensor_set)(set.handle, pointer(name.as_ref()), tensor.handle) };
        let null = refused(set.handle == 0 || name.is_none() || too_long(name.as_ref()) || tensor.handle == 0);
        self.answered(status, first(&[self.gate(), null, set.status(), tensor.status()]))?;
        if let (OK, Some(set), Some(tensor), Some(name)) = (status, set.alive, tensor.alive, name) {
            self.sets[set].members.insert(name.to_string_lossy().into_owned(), tensor);
        }
        Ok(())
    }

    pub(super) fn get(&mut self, set: &Pick, name: Text) -> Answer {
        let Some((set, shown)) = self.set(set) else { return Ok(()) };
        let name = text(name);
        let mut found = UNTOUCHED;
        self.say(format!("nrt_get_tensor_from_tensor_set({shown}, {}, &found)", show(name.as_ref())));
        // SAFETY: see above.
        let status =
            unsafe { (self.nrt.nrt_get_tensor_from_tensor_set)(set.handle, pointer(name.as_ref()), &mut found) };
        let null = refused(set.handle == 0 || name.is_none() || too_long(name.as_ref()));
        let member = set.alive.zip(name).and_then(|(set, name)| self.sets[set].members.get(&*name.to_string_lossy()));
        let member = member.map(|&n| (self.tensors[n].handle, self.tensors[n].live));
        let there = match member {
            None => FAILURE,
            Some((_, false)) => STALE,
            Some((_, true)) => OK,
        };
        let want = first(&[self.gate(), null, set.status(), there]);
        self.answered(status, want)?;
        let want = member.map(|(handle, _)| handle).filter(|_| status == OK).unwrap_or(UNTOUCHED);
        ensure!(found == want, "found {found:#x}, expected {want:#x}");
        Ok(())
    }
}
