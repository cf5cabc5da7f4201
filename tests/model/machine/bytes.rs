//! Calls that move bytes, and programs that do so without a call.

use super::choices::Told;
use super::{Answer, Batch, BatchOp, CLOSED, Machine, OK, SENTINEL, first, refused};
use crate::ops::{Extent, Pick, Piece};
use crate::reference::{Place, difference, pattern};

// SAFETY of the calls: as in `machine.rs`.
impl Machine<'_> {
    pub(super) fn read(&mut self, told: &Told, shown: &str, offset: usize, size: usize) -> Answer {
        let range = self.range(told, offset, size);
        // A length that is refused needs no buffer.
        let mut out = vec![SENTINEL; if range.is_some() { size } else { size.min(1 << 17) }];
        self.say(format!("nrt_tensor_read({shown}, buffer, {offset}, {size})"));
        // SAFETY: see above.
        let status = unsafe { (self.nrt.nrt_tensor_read)(told.handle, out.as_mut_ptr().cast(), offset, size) };
        let want = first(&[self.gate(), told.status(), self.reach(&range)]);
        if want == CLOSED && size == 0 {
            return self.answered(status, if status == OK { OK } else { want });
        }
        self.answered(status, want)?;
        match range {
            Some(range) if status == OK => difference("what was read", &out, self.bytes(&range)),
            _ => difference("the buffer of a refused read", &out, &vec![SENTINEL; out.len()]),
        }
    }

    pub(super) fn write(&mut self, tensor: &Pick, extent: &Extent, seed: u8) -> Answer {
        let Some((told, shown)) = self.tensor(tensor) else { return Ok(()) };
        let (offset, size) = self.extent(extent, &told);
        let range = self.range(&told, offset, size);
        let data = pattern(seed, if range.is_some() { size } else { size.min(1 << 17) });
        self.say(format!("nrt_tensor_write({shown}, pattern({seed:#x}), {offset}, {size})"));
        // SAFETY: see above.
        let status = unsafe { (self.nrt.nrt_tensor_write)(told.handle, data.as_ptr().cast(), offset, size) };
        let want = first(&[self.gate(), told.status(), self.reach(&range)]);
        if want == CLOSED && size == 0 {
            return self.answered(status, if status == OK { OK } else { want });
        }
        self.answered(status, want)?;
        if let (OK, Some(range)) = (status, range) {
            self.put(&range, &data);
        }
        Ok(())
    }

    pub(super) fn batch(&mut self, parts: &[(Pick, Vec<Piece>)], skip_wait: bool, write: bool) -> Answer {
        let mut told = Vec::new();
        for (pick, pieces) in parts {
            let Some((tensor, shown)) = self.tensor(pick) else { return Ok(()) };
            let numbers: Vec<_> = pieces.iter().map(|piece| self.extent(&piece.extent, &tensor)).collect();
            told.push((tensor, shown, numbers));
        }
        if skip_wait {
            for (tensor, _, numbers) in &told {
                for &(offset, size) in numbers {
                    let Some(range) = self.range(tensor, offset, size) else { continue };
                    self.quiet(&range, write)?;
                }
            }
        }
        let mut buffers: Vec<Vec<Vec<u8>>> = told
            .iter()
            .zip(parts)
            .map(|((_, _, numbers), (_, pieces))| {
                let data = |(numbers, piece): (&(usize, usize), &Piece)| {
                    if write { pattern(piece.seed, numbers.1) } else { vec![SENTINEL; numbers.1] }
                };
                numbers.iter().zip(pieces).map(data).collect()
            })
            .collect();
        let arrays: Vec<Vec<BatchOp>> = told
            .iter()
            .zip(&mut buffers)
            .map(|((_, _, numbers), buffers)| {
                let op = |(&(offset, size), buffer): (&(usize, usize), &mut Vec<u8>)| BatchOp {
                    offset: offset as u64,
                    size: size as u64,
                    buffer: buffer.as_mut_ptr().cast(),
                };
                numbers.iter().zip(buffers).map(op).collect()
            })
            .collect();
        let batches: Vec<Batch> = told
            .iter()
            .zip(&arrays)
            .map(|((tensor, ..), ops)| Batch { tensor: tensor.handle, ops: ops.as_ptr(), num_ops: ops.len() as u32 })
            .collect();
        let shown: Vec<String> = told
            .iter()
            .zip(parts)
            .map(|((_, shown, numbers), (_, pieces))| {
                let piece = |(&(offset, size), piece): (&(usize, usize), &Piece)| match write {
                    true => format!("pattern({:#x}), {offset}, {size}", piece.seed),
                    false => format!("{offset}, {size}"),
                };
                let pieces: Vec<String> = numbers.iter().zip(pieces).map(piece).collect();
                format!("{shown}: [{}]", pieces.join("; "))
            })
            .collect();
        let name = if write { "write" } else { "read" };
        self.say(format!("nrt_tensor_{name}_batch({{{}}}, {}, {skip_wait})", shown.join(", "), batches.len()));
        let call = if write { self.nrt.nrt_tensor_write_batch } else { self.nrt.nrt_tensor_read_batch };
        // SAFETY: see above.
        let status = unsafe { call(batches.as_ptr(), batches.len() as u64, skip_wait) };

        // In turn, up to the first that fails.
        let mut want = self.gate();
        for ((tensor, _, numbers), buffers) in told.iter().zip(&buffers) {
            want = first(&[want, tensor.status()]);
            for (&(offset, size), buffer) in numbers.iter().zip(buffers) {
                let range = self.range(tensor, offset, size);
                let reach = self.reach(&range);
                let nothing = reach == CLOSED && size == 0 && status == OK;
                want = first(&[want, if nothing { OK } else { reach }]);
                match range {
                    Some(range) if want == OK && write => self.put(&range, buffer),
                    Some(range) if want == OK => difference("what was read", buffer, self.bytes(&range))?,
                    _ if write => {}
                    _ => difference("a buffer behind the failure", buffer, &vec![SENTINEL; size])?,
                }
            }
        }
        self.answered(status, want)
    }

    pub(super) fn copy(
        &mut self,
        (source, shown): (Told, String),
        offset: usize,
        (target, shown_target): (Told, String),
        target_offset: usize,
        size: usize,
    ) -> Answer {
        let (range, target_range) = (self.range(&source, offset, size), self.range(&target, target_offset, size));
        self.say(format!("nrt_tensor_copy({shown}, {offset}, {shown_target}, {target_offset}, {size})"));
        // SAFETY: see above.
        let status = unsafe { (self.nrt.nrt_tensor_copy)(source.handle, offset, target.handle, target_offset, size) };
        let apart = match (&range, &target_range) {
            (Some((from, _)), Some((to, _))) => {
                let (from, to) = (self.storages[*from].place, self.storages[*to].place);
                from != Place::Plain && to != Place::Plain && from != to
            }
            _ => true,
        };
        let null = refused(source.handle == 0 || target.handle == 0);
        let handles = first(&[self.gate(), null, source.status(), target.status(), refused(apart)]);
        let want = first(&[handles, self.reach(&range), self.reach(&target_range)]);
        if want == CLOSED && size == 0 {
            return self.answered(status, if status == OK { OK } else { want });
        }
        self.answered(status, want)?;
        if let (OK, Some(range), Some(target)) = (status, range, target_range) {
            let data = self.bytes(&range).to_vec();
            self.put(&target, &data);
        }
        Ok(())
    }

    pub(super) fn write_va(&mut self, tensor: &Pick, extent: &Extent, seed: u8, by_call: bool) -> Answer {
        let Some((told, shown)) = self.tensor(tensor) else { return Ok(()) };
        let Some(n) = told.alive else { return Ok(()) };
        let (offset, size) = self.extent(extent, &told);
        let Some(va) = self.va(&told, &shown)? else { return Ok(()) };
        let Some(range) = self.tensors[n].range(offset, size) else { return Ok(()) };
        self.quiet(&range, true)?;
        let there: *mut u8 = std::ptr::with_exposed_provenance_mut(va + offset);
        // SAFETY: the range is inside the tensor, which is mapped there.
        let have = unsafe { std::slice::from_raw_parts(there, size) }.to_vec();
        difference("at the address", &have, self.bytes(&range))?;
        let data = pattern(seed, size);
        let name = if by_call { "nrt_memcpy_to_device" } else { "memcpy" };
        self.say(format!("{name}(address of {shown} + {offset}, pattern({seed:#x}), {size})"));
        let mut status = OK;
        // SAFETY: as above.
        unsafe {
            match by_call {
                true => status = (self.nrt.nrt_memcpy_to_device)(there.cast(), data.as_ptr().cast(), size),
                false => there.copy_from_nonoverlapping(data.as_ptr(), size),
            }
        }
        self.answered(status, OK)?;
        self.put(&range, &data);
        Ok(())
    }
}
