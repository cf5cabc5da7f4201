//! Tensor sets: names for tensors, without ownership (`facts/runtime/tensors.md` section 5).

use std::{collections::BTreeMap, ffi::CStr};

use parking_lot::Mutex;

use super::{TensorRef, resolve};
use crate::{
    Result, Status,
    handle::{Lease, Object, Opaque, Ref, Registry},
    log_error,
};

static SETS: Registry<TensorSet> = Registry::new();

/// A tensor set.
pub struct TensorSet {
    view: Lease<TensorSet>,
    tensors: Mutex<BTreeMap<Box<CStr>, Member>>,
}

/// The address alone could name another tensor by now.
struct Member {
    handle: usize,
    generation: u64,
}

impl Object for TensorSet {
    type View = Opaque;
}

/// `nrt_allocate_tensor_set`: an empty set; its handle. NRT_RESOURCE when there are too many.
pub fn allocate_set() -> Result<usize> {
    let made = SETS.create(|view| TensorSet { view, tensors: Mutex::default() });
    made.map(|set| set.view.handle()).ok_or_else(|| {
        log_error!(Nrt, "nrt_allocate_tensor_set", "Failed to allocate a tensor set: destroy some first");
        Status::Resource
    })
}

/// The set behind a handle: NRT_INVALID for 0, NRT_INVALID_HANDLE for one that is not alive.
pub fn resolve_set(api: &'static str, handle: usize) -> Result<Ref<TensorSet>> {
    if handle == 0 {
        log_error!(Nrt, api, "The tensor set is NULL; pass one from nrt_allocate_tensor_set");
        return Err(Status::Invalid);
    }
    SETS.get(handle).ok_or_else(|| {
        log_error!(Nrt, api, "{handle:#x} is no tensor set of this process, or it was destroyed");
        Status::InvalidHandle
    })
}

/// `nrt_destroy_tensor_set`: the tensors stay. 0 is fine; NRT_INVALID_HANDLE for a set that is not
/// alive.
pub fn destroy_set(handle: usize) -> Result<()> {
    const API: &str = "nrt_destroy_tensor_set";
    if handle == 0 || SETS.remove(handle).is_some() {
        return Ok(());
    }
    log_error!(Nrt, API, "{handle:#x} is no tensor set of this process, or it was destroyed before");
    Err(Status::InvalidHandle)
}

impl TensorSet {
    /// `nrt_add_tensor_to_tensor_set`: add, or replace the tensor of that name. Takes no
    /// ownership. Errors are those of [`resolve`].
    pub fn add(&self, name: &CStr, handle: usize) -> Result<()> {
        let tensor = resolve("nrt_add_tensor_to_tensor_set", handle)?;
        self.tensors.lock().insert(name.into(), Member { handle, generation: tensor.generation() });
        Ok(())
    }

    /// `nrt_get_tensor_from_tensor_set`: the handle of the tensor of that name. NRT_FAILURE when
    /// there is none, NRT_INVALID_HANDLE when it was freed meanwhile.
    pub fn get(&self, name: &CStr) -> Result<usize> {
        const API: &str = "nrt_get_tensor_from_tensor_set";
        match self.tensors.lock().get(name) {
            None => {
                log_error!(Nrt, API, "No tensor {} in the set", name.to_string_lossy());
                Err(Status::Failure)
            }
            Some(member) if member.alive().is_none() => {
                log_error!(Nrt, API, "Tensor {} of the set was freed; add it again", name.to_string_lossy());
                Err(Status::InvalidHandle)
            }
            Some(member) => Ok(member.handle),
        }
    }

    /// All names in byte order, with their tensors; `None` for a tensor that was freed.
    pub fn members(&self) -> Vec<(Box<CStr>, Option<TensorRef>)> {
        self.tensors.lock().iter().map(|(name, member)| (name.clone(), member.alive())).collect()
    }
}

impl Member {
    fn alive(&self) -> Option<TensorRef> {
        // A call in flight may keep a freed tensor for a moment: the registry decides.
        super::TENSORS.get(self.handle).filter(|tensor| tensor.generation() == self.generation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::allocate_empty;

    #[test]
    fn a_new_tensor_at_an_old_address_is_not_the_freed_one() {
        let tensor = resolve("test", allocate_empty(None).unwrap()).unwrap();
        let (handle, generation) = (tensor.handle(), tensor.generation());
        assert!(Member { handle, generation }.alive().is_some());
        assert!(Member { handle, generation: generation + 1 }.alive().is_none());
    }
}
