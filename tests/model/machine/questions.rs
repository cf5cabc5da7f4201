//! Calls that tell where tensors are and how much memory they take.

use std::ptr::null_mut;

use super::choices::Told;
use super::{Answer, Info, Machine, OK, STALE, UNTOUCHED, ensure, first, refused};
use crate::reference::{Place, Span};

// SAFETY of the calls: as in `machine.rs`.
impl Machine<'_> {
    /// The address of a live tensor, if the call tells one.
    pub(super) fn va(&mut self, told: &Told, shown: &str) -> Answer<Option<usize>> {
        // SAFETY: see above.
        let va = unsafe { (self.nrt.nrt_tensor_get_va)(told.handle) }.expose_provenance();
        self.say(format!("nrt_tensor_get_va({shown}) = {}\n", if va == 0 { "NULL" } else { "address" }));
        let span = told.alive.and_then(|n| self.tensors[n].span).filter(|_| self.up);
        let Some(Span { storage, start, .. }) = span else {
            ensure!(va == 0, "an address of nothing");
            return Ok(None);
        };
        let known = self.storages[storage].va;
        // It may have an address all the same: a mapping stays, and a copy makes one, too.
        let gone = self.gone(storage);
        if va == 0 {
            let mapped = !self.backend.devices || self.storages[storage].place == Place::Plain;
            let nothing = self.storages[storage].bytes.is_empty();
            ensure!(!mapped || nothing, "memory of this process has no address");
            ensure!(known.is_none() || nothing, "it had an address before");
            return Ok(None);
        }
        ensure!(known.is_none_or(|known| known + start == va), "another address than before, or than another view's");
        let (first, len) = (va - start, self.storages[storage].bytes.len());
        for (n, other) in self.storages.iter().enumerate() {
            let Some(theirs) = other.va.filter(|_| n != storage && (other.callers || self.used(n))) else { continue };
            let apart = first + len <= theirs || theirs + other.bytes.len() <= first;
            ensure!(apart, "memory of two tensors overlaps in this process");
        }
        self.storages[storage].va = Some(first);
        Ok(Some(va).filter(|_| !gone))
    }

    pub(super) fn info(&mut self, told: &Told, shown: &str, null: bool) -> Answer {
        let before = Info { physical_address: 7, size: 7, hbm_index: 7 };
        let mut info = before;
        let place = if null { null_mut() } else { &raw mut info };
        self.say(format!("nrt_tensor_get_device_allocation_info({shown}, {})", if null { "NULL" } else { "&info" }));
        // SAFETY: see above.
        let status = unsafe { (self.nrt.nrt_tensor_get_device_allocation_info)(told.handle, place) };
        let span = told.alive.and_then(|n| self.tensors[n].span);
        let on_device = span.and_then(|span| match self.storages[span.storage].place {
            Place::Hbm { hbm, .. } => Some((span, hbm)),
            _ => None,
        });
        let null = refused(null || told.handle == 0);
        self.answered(status, first(&[self.gate(), null, told.status(), refused(on_device.is_none())]))?;
        let want = on_device.filter(|_| status == OK).map_or(before, |(span, hbm)| {
            let storage = &self.storages[span.storage];
            Info {
                physical_address: storage.physical + span.start as u64,
                size: storage.pages() - span.start,
                hbm_index: hbm,
            }
        });
        ensure!(info == want, "{info:?}, expected {want:?}");
        Ok(())
    }

    pub(super) fn stats(&mut self, core: u32, room: usize, tell: bool) -> Answer {
        self.forget_orphans()?;
        let mut stats = [UNTOUCHED; 2];
        let mut written = UNTOUCHED;
        let out = if tell { &raw mut written } else { null_mut() };
        self.say(format!("nrt_get_vnc_memory_stats({}, &stats, {room})", core as i32));
        // SAFETY: see above; the call writes at most the 16 bytes it knows.
        let status = unsafe { (self.nrt.nrt_get_vnc_memory_stats)(core, &mut stats, room, out) };
        self.answered(status, first(&[self.gate(), refused(core >= self.backend.cores)]))?;
        let mut want = [UNTOUCHED; 2];
        if status == OK {
            let all = [self.counted(core), self.limit()];
            want[..room.min(16) / 8].copy_from_slice(&all[..room.min(16) / 8]);
        }
        ensure!(stats == want, "used and limit {stats:?}, expected {want:?}");
        let told = if status == OK && tell { room.min(16) } else { UNTOUCHED };
        ensure!(written == told, "{written} bytes are said to be written, expected {told}");
        Ok(())
    }

    pub(super) fn window(&mut self, device: i32, hbm: i32) -> Answer {
        let (mut start, mut size) = (UNTOUCHED, UNTOUCHED);
        self.say(format!("nrt_get_hbm_mmap_va({device}, {hbm}, &address, &size)"));
        // SAFETY: see above.
        let status = unsafe { (self.nrt.nrt_get_hbm_mmap_va)(device, hbm, &mut start, &mut size) };
        let devices = (self.backend.cores * self.backend.lnc / self.backend.cores_per_device) as i32;
        let past = if hbm >= self.backend.hbms as i32 || !self.backend.windows { STALE } else { OK };
        self.answered(status, first(&[self.gate(), refused(!(0..devices).contains(&device) || hbm < 0), past]))?;
        if status != OK {
            ensure!((start, size) == (UNTOUCHED, UNTOUCHED), "a refused question is answered");
            return Ok(());
        }
        ensure!(size >= self.backend.hbm_bytes, "a window of {size} bytes");
        if self.backend.devices {
            return Ok(());
        }
        // One mapping for all: tensors are where their physical address says.
        let place = Place::Hbm { device: device as u32, hbm };
        for (n, storage) in self.storages.iter().enumerate() {
            if let Some(va) =
                storage.va.filter(|_| storage.place == place && storage.cycle == self.cycle && self.used(n))
            {
                ensure!(
                    va >= start && va + storage.bytes.len() <= start + size,
                    "a tensor outside of its HBM's window"
                );
                let low = storage.physical & ((1 << 36) - 1);
                ensure!((va - start) as u64 == low, "at {:#x} in the window, {low:#x} on the device", va - start);
            }
        }
        Ok(())
    }
}
