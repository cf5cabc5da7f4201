//! What every schedule call checks before its work is queued, and the operations on tensors.

use super::{Completion, Scheduler, Slot, Unit};
use crate::{
    Result, Status, log_error,
    tensor::{self, Source, Target, Tensor, TensorRef, Transfer, memory::Place},
};

/// A call that may use a queue of a core. The checks come in the order of
/// `facts/runtime/tensors.md` section 8; then those of the operation.
pub struct Entry<'a> {
    scheduler: &'a Scheduler,
    api: &'static str,
    core: u8,
    slot: Slot,
}

impl Scheduler {
    /// Let call `api` in. `arguments` are its pointers in order, by name and whether they are NULL.
    ///
    /// # Errors
    /// `Failure` in the implicit mode, `Invalid` for a NULL, a queue the unit does not have or a core
    /// this process does not have, `ExecUnitUnrecoverable` after a device failure on that core.
    pub fn enter(
        &self,
        api: &'static str,
        unit: Unit,
        core: i32,
        queue: i32,
        arguments: &[(&str, bool)],
    ) -> Result<Entry<'_>> {
        if self.jobs().is_some() {
            // The blank at the end is the vendor's, as is the rest.
            log_error!(
                Nrt,
                api,
                "Explicit async API cannot be used in implicit async mode \
                 (where NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS is set). "
            );
            return Err(Status::Failure);
        }
        if let Some((name, _)) = arguments.iter().find(|(_, null)| *null) {
            log_error!(Nrt, api, "{name} is NULL");
            return Err(Status::Invalid);
        }
        let slot = super::slot(api, unit, queue)?;
        let core = self.usable(api, core.into())?;
        Ok(Entry { scheduler: self, api, core, slot })
    }
}

/// The HBM a tensor is on; `None` for host memory of whatever kind.
fn hbm(tensor: &Tensor) -> Option<Place> {
    tensor.storage()?.dma_place().flatten()
}

impl Entry<'_> {
    /// The tensor behind a handle, which must be in device memory.
    ///
    /// # Errors
    /// `InvalidHandle` for one that is not alive, `Invalid` for memory elsewhere.
    pub fn tensor(&self, handle: usize) -> Result<TensorRef> {
        let tensor = tensor::resolve(self.api, handle)?;
        if hbm(&tensor).is_none() {
            log_error!(
                Nrt,
                self.api,
                "Async APIs only supports device allocated tensors; tensor {} is elsewhere, \
                 allocate it with NRT_TENSOR_PLACEMENT_DEVICE",
                tensor.name()
            );
            return Err(Status::Invalid);
        }
        Ok(tensor)
    }

    /// Refuse a tensor that is not on an HBM of this core. The text is the vendor's.
    fn near(&self, tensor: &Tensor) -> Result<()> {
        let Some(place) = hbm(tensor) else {
            // A buffer was attached since `tensor` looked; the transfer has taken the memory it found.
            return Ok(());
        };
        let core = &self.scheduler.cores[usize::from(self.core)];
        if core.place.places().any(|own| own == place) {
            return Ok(());
        }
        let (name, hbm) = (tensor.name(), place.hbm);
        log_error!(
            Nrt,
            self.api,
            "Tensor {name} allocated on HBM {hbm} was passed to a model loaded on lnc {}.",
            self.core
        );
        Err(Status::Invalid)
    }

    /// Queue a read of all of `to` from the bytes of `tensor` at `offset` on; its sequence id.
    ///
    /// # Errors
    /// `Invalid` for bytes that are not inside, or a tensor of another HBM; those of
    /// [`Scheduler::submit`].
    pub fn read(&self, tensor: &Tensor, offset: usize, to: Box<dyn Target>, done: Box<dyn Completion>) -> Result<u64> {
        let transfer = Transfer::read(self.api, tensor, offset, to)?;
        self.near(tensor)?;
        self.submit(transfer, done)
    }

    /// Queue a write of all of `from` to the bytes of `tensor` at `offset` on; its sequence id.
    ///
    /// # Errors
    /// As [`Entry::read`].
    pub fn write(
        &self,
        tensor: &Tensor,
        offset: usize,
        from: Box<dyn Source>,
        done: Box<dyn Completion>,
    ) -> Result<u64> {
        let transfer = Transfer::write(self.api, tensor, offset, from)?;
        self.near(tensor)?;
        self.submit(transfer, done)
    }

    /// Queue a copy of `size` bytes between two tensors on the same HBM; its sequence id.
    ///
    /// # Errors
    /// As [`Entry::read`].
    pub fn copy(
        &self,
        from: (&Tensor, usize),
        to: (&Tensor, usize),
        size: usize,
        done: Box<dyn Completion>,
    ) -> Result<u64> {
        let transfer = Transfer::copy(self.api, from, to, size)?;
        self.near(from.0).and_then(|()| self.near(to.0))?;
        self.submit(transfer, done)
    }

    fn submit(&self, transfer: Transfer, done: Box<dyn Completion>) -> Result<u64> {
        self.scheduler.submit(self.api, self.core.into(), self.slot, Box::new(|| transfer.run()), done)
    }
}
