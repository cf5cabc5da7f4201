//! Calls that make and end tensors.

use std::ffi::{CStr, CString, c_char};

use proptest::sample::Index;

use super::choices::{Told, pointer, show, text, too_long};
use super::{Answer, Info, Machine, NO_HOST_MEMORY, OK, RESOURCE, UNTOUCHED, ensure, first, refused};
use crate::ops::{Extent, Pick, Text};
use crate::reference::{Place, Span, Storage, Tensor, pattern};

// SAFETY of the calls: as in `machine.rs`.
impl Machine<'_> {
    pub(super) fn allocate(&mut self, placement: u32, core: i32, size: usize, name: Text) -> Answer {
        let name = text(name);
        let mut handle = UNTOUCHED;
        let new = self.tensors.len();
        self.say(format!("nrt_tensor_allocate({placement}, {core}, {size}, {}, &t{new})", show(name.as_ref())));
        // SAFETY: see above.
        let status =
            unsafe { (self.nrt.nrt_tensor_allocate)(placement, core, size, pointer(name.as_ref()), &mut handle) };
        let device = placement == 0;
        let no_core = !self.is_core(core) && (device || core != -1);
        let by_name = placement == 1 && !self.backend.pinned_by_name;
        let huge = size > isize::MAX as usize;
        let full = match placement {
            0 => size > self.backend.hbm_bytes,
            2 => size > 1 << 46,
            _ => size > 4 << 20,
        };
        let refusal = |condition, status| if condition { status } else { OK };
        let want = first(&[
            self.gate(),
            refused(too_long(name.as_ref())),
            refused(no_core),
            refusal(by_name || huge && size > 0, RESOURCE),
            refused(size == 0),
            refusal(full, if device { RESOURCE } else { NO_HOST_MEMORY }),
        ]);
        self.answered(status, want)?;
        if status != OK {
            ensure!(handle == 0 || !self.up || too_long(name.as_ref()), "a failed allocation leaves {handle:#x}");
            return Ok(());
        }
        let place = match placement {
            0 => Place::Hbm { device: core as u32 * self.backend.lnc / self.backend.cores_per_device, hbm: -1 },
            2 => Place::Plain,
            _ => Place::Pinned,
        };
        self.storages.push(Storage {
            bytes: vec![0; size],
            place,
            core: core as u32,
            physical: 0,
            va: None,
            cycle: self.cycle,
            callers: false,
        });
        let storage = self.storages.len() - 1;
        self.made(handle, name, Some(Span { storage, start: 0, len: size }))?;
        if device {
            self.locate(storage)?;
        }
        // Fresh memory holds what its last owner left: on devices also that of another process.
        if device || self.backend.devices && placement != 2 {
            let mut bytes = vec![0; size];
            // SAFETY: see above.
            let status = unsafe { (self.nrt.nrt_tensor_read)(handle, bytes.as_mut_ptr().cast(), 0, size) };
            ensure!(status == OK, "fresh memory cannot be read: {status}");
            let (new, place) = (self.storages[storage].pages_at(), self.storages[storage].place);
            let used = |old: &Storage| {
                let pages = old.pages_at();
                old.place == place && pages.start < new.end && new.start < pages.end
            };
            let nobodys = !self.backend.devices && !self.storages[..storage].iter().any(used);
            ensure!(!nobodys || bytes.iter().all(|&byte| byte == 0), "memory nobody had before is not zero");
            self.storages[storage].bytes = bytes;
        }
        Ok(())
    }

    /// Learn where the memory of the newest tensor is; it must be nobody else's.
    pub(super) fn locate(&mut self, storage: usize) -> Answer {
        let handle = self.tensors.last().expect("just made").handle;
        let mut info = Info { physical_address: 0, size: 0, hbm_index: -1 };
        // SAFETY: see above.
        let status = unsafe { (self.nrt.nrt_tensor_get_device_allocation_info)(handle, &mut info) };
        ensure!(status == OK, "a device tensor has no place: {status}");
        let backend = self.backend;
        let this = &mut self.storages[storage];
        let Place::Hbm { device, .. } = this.place else { return Ok(()) };
        let hbm = info.hbm_index;
        ensure!((0..backend.hbms as i32).contains(&hbm), "HBM {hbm}");
        let nearest = this.core * backend.lnc % backend.cores_per_device * backend.hbms / backend.cores_per_device;
        ensure!(backend.devices || hbm == nearest as i32, "HBM {hbm}, the core is next to {nearest}");
        this.place = Place::Hbm { device, hbm };
        this.physical = info.physical_address;
        let (place, core, start, end) = (this.place, this.core, this.physical, this.physical + this.pages() as u64);
        for (n, other) in self.storages[..storage].iter().enumerate() {
            if other.cycle != self.cycle || !matches!(other.place, Place::Hbm { .. }) || !self.used(n) {
                continue;
            }
            ensure!(other.core != core || other.place == place, "the same core on {:?} and {place:?}", other.place);
            let apart = end <= other.physical || other.physical + other.pages() as u64 <= start;
            ensure!(other.place != place || apart, "memory of two tensors overlaps at {start:#x}");
        }
        Ok(())
    }

    /// Enter a tensor; what lies at its address is what the vendor's clients look at.
    pub(super) fn made(&mut self, handle: usize, name: Option<CString>, span: Option<Span>) -> Answer {
        ensure!(handle != 0 && handle != UNTOUCHED, "no handle");
        let taken = self.tensors.iter().any(|tensor| tensor.handle == handle);
        ensure!(!taken, "the handle of another tensor, or of one just freed");
        let name = name.map_or("_unknown_".into(), |name| name.to_string_lossy().into_owned());
        self.tensors.push(Tensor { handle, live: true, name, span });
        self.look(self.tensors.len() - 1)
    }

    /// The vendor's 192 bytes at the handle: name, storage, offset, size; they stay readable for ever.
    pub(super) fn look(&self, n: usize) -> Answer {
        let tensor = &self.tensors[n];
        // SAFETY: the address of a tensor stays mapped, also after a free.
        let [name, storage, offset, size] = unsafe { (tensor.handle as *const [usize; 4]).read_volatile() };
        if !tensor.live {
            ensure!([name, storage, offset, size] == [0; 4], "a freed t{n} still shows something");
            return Ok(());
        }
        // SAFETY: the name of a live tensor is a C string.
        let name = unsafe { CStr::from_ptr(name as *const c_char) }.to_string_lossy();
        ensure!(name == tensor.name, "t{n} shows the name {name}");
        let want = tensor.span.map_or((false, 0, 0), |span| (true, span.start, span.len));
        // Only the storage begins at its first byte; a view of a part of a buffer does, too.
        let callers = tensor.span.is_some_and(|span| self.storages[span.storage].callers);
        let want = if callers { (true, offset, want.2) } else { want };
        ensure!((storage != 0, offset, size) == want, "t{n} shows offset {offset} and size {size}");
        Ok(())
    }

    pub(super) fn slice(&mut self, of: &Pick, extent: &Extent, name: Text) -> Answer {
        let Some((told, shown)) = self.tensor(of) else { return Ok(()) };
        let (offset, size) = self.extent(extent, &told);
        let name = text(name);
        let mut handle = UNTOUCHED;
        let range = self.range(&told, offset, size);
        let new = self.tensors.len();
        self.say(format!("nrt_tensor_allocate_slice({shown}, {offset}, {size}, {}, &t{new})", show(name.as_ref())));
        // SAFETY: see above.
        let status = unsafe {
            (self.nrt.nrt_tensor_allocate_slice)(told.handle, offset, size, pointer(name.as_ref()), &mut handle)
        };
        let null = refused(told.handle == 0 || too_long(name.as_ref()));
        self.answered(status, first(&[self.gate(), null, told.status(), refused(range.is_none())]))?;
        match range {
            Some((storage, range)) if status == OK => {
                self.made(handle, name, Some(Span { storage, start: range.start, len: size }))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn plain(&self, bytes: Vec<u8>, va: usize) -> Storage {
        let (place, cycle) = (Place::Plain, self.cycle);
        Storage { bytes, place, core: 0, physical: 0, va: Some(va).filter(|&va| va != 0), cycle, callers: true }
    }

    pub(super) fn attach(&mut self, tensor: &Pick, size: usize, again: Option<&(Index, Extent)>) -> Answer {
        let Some((told, shown)) = self.tensor(tensor) else { return Ok(()) };
        let old: Vec<usize> =
            (0..self.storages.len()).filter(|&n| self.storages[n].callers && self.storages[n].va.is_some()).collect();
        let (storage, start, len, shown_buffer) = match again {
            Some((index, extent)) if !old.is_empty() => {
                let storage = *index.get(&old);
                let have = self.storages[storage].bytes.len();
                // The caller says how long its buffer is: nobody can refuse too long a one.
                let (start, len) = Self::numbers(extent, have);
                let (start, len) = if start <= have && len <= have - start { (start, len) } else { (0, have) };
                (storage, start, len, format!("buffer{storage} + {start}"))
            }
            _ => {
                let data = pattern(size as u8, size);
                let buffer: &'static mut [u8] = Box::leak(data.clone().into_boxed_slice());
                self.storages.push(self.plain(data, buffer.as_mut_ptr().expose_provenance()));
                let storage = self.storages.len() - 1;
                (storage, 0, size, format!("buffer{storage}"))
            }
        };
        self.say(format!("nrt_tensor_attach_buffer({shown}, {shown_buffer}, {len})"));
        let address = self.storages[storage].va.expect("buffers have addresses") + start;
        let buffer = std::ptr::with_exposed_provenance_mut(address);
        // SAFETY: the buffer lives as long as the process.
        let status = unsafe { (self.nrt.nrt_tensor_attach_buffer)(told.handle, buffer, len) };
        self.answered(status, first(&[self.gate(), told.status()]))?;
        if let (OK, Some(n)) = (status, told.alive) {
            self.tensors[n].span = Some(Span { storage, start, len });
            self.look(n)?;
        }
        Ok(())
    }

    pub(super) fn free(&mut self, told: &Told) -> Answer {
        let mut handle = told.handle;
        // SAFETY: see above.
        unsafe { (self.nrt.nrt_tensor_free)(&mut handle) };
        ensure!(handle == 0, "the handle is not cleared");
        if let Some(n) = told.alive {
            self.tensors[n].live = false;
            self.look(n)?;
        }
        Ok(())
    }
}
