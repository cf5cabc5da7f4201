//! Tensors: named views of bytes on a device or on the host, tensor sets, and the memory below
//! (`facts/runtime/tensors.md` sections 1 to 5).
//!
//! | file | content |
//! |---|---|
//! | `mod.rs` | the tensor: views, moving data, questions |
//! | `store.rs` | making tensors, memory of the devices: what belongs to one init cycle |
//! | `storage.rs` | the bytes behind views |
//! | `gate.rs` | the order of their users |
//! | `view.rs` | the vendor's layout at the handle's address |
//! | `completion.rs` | waiting for outputs |
//! | `set.rs` | tensor sets |
//! | `transfer.rs` | reads, writes and copies that are checked now and carried out later |
//! | `memory/` | accounting, the seam to the backend, the backend of the simulated instance |
//!
//! Tensors live in a table of the process, not in the runtime: they outlive `nrt_close`, and the
//! memory of their init cycle with them. Where the vendor's library asserts, these calls answer
//! NRT_INVALID and say why.

use std::{
    ffi::{CStr, CString},
    sync::{Arc, atomic::Ordering::Relaxed},
};

use parking_lot::RwLock;

use crate::{
    Result, Status,
    handle::{Lease, Object, Ref, Registry},
    log_error,
};

mod completion;
mod gate;
pub mod memory;
mod set;
mod storage;
mod store;
#[cfg(test)]
mod tests;
mod transfer;
mod view;

pub use completion::{check_output_completion, reset_output_completion};
pub use set::{TensorSet, allocate_set, destroy_set, resolve_set};
pub use storage::{Access, Backing, Hold, Storage};
pub use store::{Placement, TensorStore};
pub use transfer::{Source, Target, Transfer};
pub use view::TensorView;

static TENSORS: Registry<Tensor> = Registry::new();

/// A tensor: a name and a view of a storage. Lies in its slot of the registry, behind the view that
/// C callers see, so that a small one costs little more than the vendor's.
pub struct Tensor {
    view: Lease<Tensor>,
    name: CString,
    span: RwLock<Option<Span>>,
}

// With its view and the word before it, a slot is four cache lines.
const _: () = assert!(size_of::<TensorView>() + 8 + size_of::<Tensor>() <= 256);

/// A tensor in use: it outlives its handle until this is gone.
pub type TensorRef = Ref<Tensor>;

/// Which bytes of which storage. Replaced as a whole, so that nobody sees the size of one storage
/// with the bytes of another.
#[derive(Clone)]
struct Span {
    storage: Arc<Storage>,
    offset: usize,
    size: usize,
}

impl Span {
    fn has(&self, offset: usize, size: usize) -> bool {
        offset.checked_add(size).is_some_and(|end| end <= self.size)
    }
}

impl Object for Tensor {
    type View = TensorView;
}

/// Whether a call waits for others in flight on the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Reads wait for writes, writes for everybody.
    InFlight,
    /// Not at all: the caller knows the order (batches with `unsafe`), or holds the storage.
    Skip,
}

/// Answer of `nrt_tensor_get_device_allocation_info`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceAllocation {
    /// Where the view begins, as the device's engines see it.
    pub physical_address: u64,
    /// Bytes from there to the end of the allocation; at least the tensor's size.
    pub size: usize,
    /// HBM, counted inside its device.
    pub hbm_index: u32,
}

fn name_or_unknown(name: Option<&CStr>) -> &CStr {
    name.unwrap_or(c"_unknown_")
}

/// The tensor behind a handle: NRT_INVALID for 0, NRT_INVALID_HANDLE for one that is not alive.
#[inline]
pub fn resolve(api: &'static str, handle: usize) -> Result<TensorRef> {
    TENSORS.get(handle).ok_or_else(|| unknown(api, handle))
}

#[cold]
fn unknown(api: &'static str, handle: usize) -> Status {
    if handle == 0 {
        log_error!(Nrt, api, "The tensor is NULL; pass one from nrt_tensor_allocate");
        return Status::Invalid;
    }
    log_error!(Nrt, api, "{handle:#x} is no tensor of this process, or it was freed");
    Status::InvalidHandle
}

/// `nrt_tensor_get_size`: bytes of the view, in every state of the runtime. Errors are those of
/// [`resolve`].
pub fn size(handle: usize) -> Result<usize> {
    size_if_alive(handle).ok_or_else(|| unknown("nrt_tensor_get_size", handle))
}

/// The same for one look, without a word about a handle that is not alive.
#[inline]
pub fn size_if_alive(handle: usize) -> Option<usize> {
    TENSORS.glance(handle, |view| view.size.load(Relaxed))
}

/// `nrt_tensor_free`, in every state of the runtime. 0 is fine; NRT_INVALID_HANDLE for a tensor
/// that is not alive. The bytes go with their last view and the last call in flight.
pub fn free(handle: usize) -> Result<()> {
    if handle == 0 || TENSORS.remove(handle).is_some() {
        return Ok(());
    }
    log_error!(Nrt, "nrt_tensor_free", "{handle:#x} is no tensor of this process, or it was freed before");
    Err(Status::InvalidHandle)
}

/// `nrt_tensor_allocate_empty`: a tensor without bytes; its handle.
pub fn allocate_empty(name: Option<&CStr>) -> Result<usize> {
    let name = name_or_unknown(name);
    Tensor::register(name, None).map(|tensor| tensor.handle()).inspect_err(|_| {
        log_error!(Nrt, "nrt_tensor_allocate_empty", "Failed to allocate empty nrt tensor {}", name.to_string_lossy());
    })
}

/// `nrt_tensor_allocate_slice`: another view of `size` bytes of `source` from its byte `offset` on;
/// its handle. NRT_INVALID when they are not inside, or `source` has no bytes.
pub fn allocate_slice(source: &Tensor, offset: usize, size: usize, name: Option<&CStr>) -> Result<usize> {
    const API: &str = "nrt_tensor_allocate_slice";
    let slice = source
        .range(API, "slice", offset, size)
        .and_then(|(storage, offset)| Tensor::register(name_or_unknown(name), Some(Span { storage, offset, size })));
    slice
        .map(|tensor| tensor.handle())
        .inspect_err(|_| log_error!(Nrt, API, "Failed to set nrt tensor slice with src: {}", source.name()))
}

/// `nrt_tensor_copy`: copy `size` bytes; overlapping ranges of one storage act as if through a
/// third buffer. NRT_INVALID for a range that is not inside its tensor, and between driver memories
/// that are not on the same HBM.
pub fn copy(source: &Tensor, source_offset: usize, to: &Tensor, to_offset: usize, size: usize) -> Result<()> {
    let route = Route::new("nrt_tensor_copy", (source, source_offset), (to, to_offset), size)?;
    let _held = Hold::all([(&route.from, Access::Read), (&route.to, Access::Write)]);
    route.run()
}

/// A copy between two tensors whose ranges and places were found right.
struct Route {
    from: Arc<Storage>,
    from_start: usize,
    to: Arc<Storage>,
    to_start: usize,
    size: usize,
}

impl Route {
    fn new(api: &'static str, from: (&Tensor, usize), to: (&Tensor, usize), size: usize) -> Result<Route> {
        let (from, from_start) = from.0.range(api, "read", from.1, size)?;
        let (to, to_start) = to.0.range(api, "write", to.1, size)?;
        if let (Some(from), Some(to)) = (from.dma_place(), to.dma_place())
            && from != to
        {
            log_error!(Nrt, api, "{}", different_hbms(from, to));
            return Err(Status::Invalid);
        }
        Ok(Route { from, from_start, to, to_start, size })
    }

    fn run(&self) -> Result<()> {
        self.to.copy_from(self.to_start, &self.from, self.from_start, self.size)
    }
}

/// The vendor's text; its host memory counts as HBM −1.
fn different_hbms(from: Option<memory::Place>, to: Option<memory::Place>) -> String {
    let number = |place: Option<memory::Place>| place.map_or(u32::MAX, |place| place.hbm);
    let mut text = format!("Tensors must be allocated on same HBM (SRC: {}) (DST: {})", number(from), number(to));
    if let (Some(from), Some(to)) = (from, to)
        && from.device != to.device
    {
        text += &format!(" of one device, not of {} and {}", from.device, to.device);
    }
    text
}

impl Tensor {
    fn register(name: &CStr, span: Option<Span>) -> Result<TensorRef> {
        let make = |view: Lease<Tensor>| {
            let tensor = Tensor { view, name: name.to_owned(), span: RwLock::new(span) };
            tensor.view.name.store(tensor.name.as_ptr().addr(), Relaxed);
            tensor.view.ref_count.0.store(1, Relaxed);
            tensor.show(tensor.span.read().as_ref());
            tensor
        };
        TENSORS.create(make).ok_or(Status::Resource)
    }

    fn show(&self, span: Option<&Span>) {
        let (storage, offset, size) =
            span.map_or((0, 0, 0), |span| (Arc::as_ptr(&span.storage).addr(), span.offset, span.size));
        self.view.set_span(storage, offset, size);
    }

    /// The address C callers hold.
    pub fn handle(&self) -> usize {
        self.view.handle()
    }

    /// The name, for a text.
    pub fn name(&self) -> std::borrow::Cow<'_, str> {
        self.name.to_string_lossy()
    }

    /// Bytes of the view.
    pub fn size(&self) -> usize {
        self.view.size.load(Relaxed)
    }

    /// The storage, `None` for an empty tensor.
    pub fn storage(&self) -> Option<Arc<Storage>> {
        self.span.read().as_ref().map(|span| Arc::clone(&span.storage))
    }

    /// `nrt_tensor_get_va`: where the view begins in this process; `None` for an empty tensor or
    /// memory that is not mapped.
    pub fn va(&self) -> Option<usize> {
        // Not with the lock held: the driver maps the memory now.
        let span = self.span.read().clone()?;
        Some(span.storage.bytes().addr()? + span.offset)
    }

    /// `nrt_tensor_get_device_allocation_info`. NRT_INVALID when the tensor is not on a device.
    pub fn device_allocation(&self) -> Result<DeviceAllocation> {
        let span = self.span.read().clone();
        match span.as_ref().map(|span| (span, span.storage.backing())) {
            Some((span, Backing::Device(allocation))) => Ok(DeviceAllocation {
                physical_address: allocation.block().physical_address() + span.offset as u64,
                size: allocation.block().size() - span.offset,
                hbm_index: allocation.place().hbm,
            }),
            _ => {
                let api = "nrt_tensor_get_device_allocation_info";
                log_error!(Nrt, api, "Tensor {} is not in device memory; allocate it there", self.name());
                Err(Status::Invalid)
            }
        }
    }

    /// `nrt_tensor_attach_buffer`: from now on a view of all of `memory`, which stays the caller's
    /// and must live as long as this tensor, its slices made from now on and calls on them.
    pub fn attach(&self, memory: Box<dyn memory::Bytes>) {
        let size = memory.size();
        let span = Span { storage: Storage::new(Backing::Malloc(memory)), offset: 0, size };
        let mut current = self.span.write();
        self.show(Some(&span));
        let old = current.replace(span);
        drop(current);
        // Not with the lock held: it may be the last view of a large memory.
        drop(old);
    }

    /// `nrt_tensor_read`: copy the bytes from `offset` on into `out`. NRT_INVALID when they are not
    /// inside the tensor.
    pub fn read(&self, offset: usize, out: &mut [u8]) -> Result<()> {
        self.one("nrt_tensor_read", "read", Access::Read, offset, out.len(), |bytes, start| bytes.read_at(start, out))
    }

    /// `nrt_tensor_write`: copy `data` to `offset` on. NRT_INVALID when it does not fit.
    pub fn write(&self, offset: usize, data: &[u8]) -> Result<()> {
        self.one("nrt_tensor_write", "write", Access::Write, offset, data.len(), |bytes, start| {
            bytes.write_at(start, data)
        })
    }

    /// The part of one tensor in `nrt_tensor_read_batch`: the operations in turn, up to the first
    /// that fails.
    pub fn read_batch<'a>(&self, ops: impl IntoIterator<Item = (usize, &'a mut [u8])>, wait: Wait) -> Result<()> {
        let mut held = None;
        ops.into_iter().try_for_each(|(offset, out)| {
            let (storage, start) = self.range("nrt_tensor_read", "read", offset, out.len())?;
            hold(&mut held, storage, Access::Read, wait, |bytes| bytes.read_at(start, out))
        })
    }

    /// The part of one tensor in `nrt_tensor_write_batch`, as [`Tensor::read_batch`].
    pub fn write_batch<'a>(&self, ops: impl IntoIterator<Item = (usize, &'a [u8])>, wait: Wait) -> Result<()> {
        let mut held = None;
        ops.into_iter().try_for_each(|(offset, data)| {
            let (storage, start) = self.range("nrt_tensor_write", "write", offset, data.len())?;
            hold(&mut held, storage, Access::Write, wait, |bytes| bytes.write_at(start, data))
        })
    }

    /// `nrt_tensor_memset`: set `size` bytes from `offset` on to the low 8 bits of `value`.
    /// NRT_INVALID when they are not inside the tensor.
    pub fn memset(&self, offset: usize, value: i32, size: usize) -> Result<()> {
        self.one("nrt_tensor_memset", "set", Access::Write, offset, size, |bytes, start| {
            bytes.fill(start, value as u8, size)
        })
    }

    /// Do one thing with a range of bytes when it is its turn.
    #[inline]
    fn one(
        &self,
        api: &'static str,
        verb: &str,
        access: Access,
        offset: usize,
        size: usize,
        work: impl FnOnce(&dyn memory::Bytes, usize) -> Result<()>,
    ) -> Result<()> {
        {
            // With nobody in the way the lock keeps the storage for as long as the bytes move: an
            // attach waits for that, as it would for the storage. Whoever has to wait lets it go.
            let span = self.span.read();
            if let Some(span) = span.as_ref().filter(|span| span.has(offset, size))
                && let Some(_in_use) = span.storage.try_use(access)
            {
                return work(span.storage.bytes(), span.offset + offset);
            }
        }
        let (storage, start) = self.range(api, verb, offset, size)?;
        work(Hold::of(storage, access).bytes(), start)
    }

    /// The storage, and where in it the asked range begins.
    fn range(&self, api: &'static str, verb: &str, offset: usize, size: usize) -> Result<(Arc<Storage>, usize)> {
        let span = self.span.read();
        if let Some(span) = span.as_ref().filter(|span| span.has(offset, size)) {
            return Ok((Arc::clone(&span.storage), span.offset + offset));
        }
        let has = span.as_ref().map(|span| span.size);
        drop(span);
        Err(self.refuse(api, verb, offset, size, has))
    }

    #[cold]
    fn refuse(&self, api: &'static str, verb: &str, offset: usize, size: usize, has: Option<usize>) -> Status {
        let name = self.name();
        match has {
            None => log_error!(Nrt, api, "Tensor {name} has no memory; attach a buffer first"),
            Some(has) => log_error!(
                Nrt,
                api,
                "Cannot {verb} {size} bytes at offset {offset} of tensor {name}: it has {has} bytes"
            ),
        }
        Status::Invalid
    }
}

/// Do one operation of a batch. Its storage stays held for the rest of the batch; another one is
/// held when a buffer was attached in between.
fn hold(
    held: &mut Option<Hold>,
    storage: Arc<Storage>,
    access: Access,
    wait: Wait,
    work: impl FnOnce(&dyn memory::Bytes) -> Result<()>,
) -> Result<()> {
    if wait == Wait::Skip {
        return work(storage.bytes());
    }
    if held.as_ref().is_some_and(|held| !held.is_of(&storage)) {
        *held = None;
    }
    work(held.get_or_insert_with(|| Hold::of(storage, access)).bytes())
}
