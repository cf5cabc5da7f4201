//! Runs calls on the library and on byte arrays, and says where they differ.

mod bytes;
mod choices;
mod questions;
mod queues;
mod sets;
mod views;

use std::ffi::{c_char, c_int, c_void};
use std::fs::File;
use std::io::Write;
use std::ptr::{null, null_mut};

use choices::{Told, pointer, show, text, too_long};
use nrt_core::Status;
use queues::Queues;

use crate::ops::Op;
use crate::reference::{Backend, Place, Set, Span, Storage, Tensor, difference};
use crate::shared::functions;

/// `nrt_tensor_batch_op_t`.
#[repr(C)]
pub struct BatchOp {
    offset: u64,
    size: u64,
    buffer: *mut c_void,
}

/// `nrt_tensor_batch_t`.
#[repr(C)]
pub struct Batch {
    tensor: usize,
    ops: *const BatchOp,
    num_ops: u32,
}

/// `nrt_tensor_device_allocation_info_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    physical_address: u64,
    size: usize,
    hbm_index: c_int,
}

// Handles are addresses nobody here looks through, hence numbers.
functions! {
    nrt_init: fn(c_int, *const c_char, *const c_char) -> u32;
    nrt_close: fn();
    nrt_tensor_allocate: fn(u32, c_int, usize, *const c_char, *mut usize) -> u32;
    nrt_tensor_allocate_empty: fn(*const c_char, *mut usize) -> u32;
    nrt_tensor_allocate_slice: fn(usize, usize, usize, *const c_char, *mut usize) -> u32;
    nrt_tensor_attach_buffer: fn(usize, *mut c_void, usize) -> u32;
    nrt_tensor_free: fn(*mut usize);
    nrt_tensor_read: fn(usize, *mut c_void, usize, usize) -> u32;
    nrt_tensor_write: fn(usize, *const c_void, usize, usize) -> u32;
    nrt_tensor_read_batch: fn(*const Batch, u64, bool) -> u32;
    nrt_tensor_write_batch: fn(*const Batch, u64, bool) -> u32;
    nrt_tensor_copy: fn(usize, usize, usize, usize, usize) -> u32;
    nrt_tensor_memset: fn(usize, u64, c_int, usize) -> u32;
    nrt_tensor_get_size: fn(usize) -> usize;
    nrt_tensor_get_va: fn(usize) -> *mut u8;
    nrt_tensor_get_device_allocation_info: fn(usize, *mut Info) -> u32;
    nrt_tensor_check_output_completion: fn(usize, i64, u64) -> u32;
    nrt_tensor_reset_output_completion: fn(usize) -> u32;
    nrt_memcpy_to_device: fn(*mut c_void, *const c_void, usize) -> u32;
    nrt_get_vnc_memory_stats: fn(u32, *mut [usize; 2], usize, *mut usize) -> u32;
    nrt_get_hbm_mmap_va: fn(c_int, c_int, *mut usize, *mut usize) -> u32;
    nrt_get_dmabuf_fd: fn(u64, u64, *mut c_int) -> u32;
    nrt_allocate_tensor_set: fn(*mut usize) -> u32;
    nrt_add_tensor_to_tensor_set: fn(usize, *const c_char, usize) -> u32;
    nrt_get_tensor_from_tensor_set: fn(usize, *const c_char, *mut usize) -> u32;
    nrt_destroy_tensor_set: fn(*mut usize);
    nrta_tensor_read: fn(*mut c_void, usize, u64, u64, c_int, c_int, *mut u32, *mut u64) -> u32;
    nrta_tensor_write: fn(usize, *const c_void, u64, u64, c_int, c_int, *mut u32, *mut u64) -> u32;
    nrta_tensor_copy: fn(usize, u64, usize, u64, u64, c_int, c_int, *mut u32, *mut u64) -> u32;
    nrta_is_completed: fn(u64, *mut u8) -> u32;
    nrta_get_sequence: fn(u32, u32, c_int, *mut u64) -> u32;
}

const OK: u32 = Status::Success as u32;
const FAILURE: u32 = Status::Failure as u32;
const INVALID: u32 = Status::Invalid as u32;
const STALE: u32 = Status::InvalidHandle as u32;
const RESOURCE: u32 = Status::Resource as u32;
const TIMEOUT: u32 = Status::Timeout as u32;
const NO_HOST_MEMORY: u32 = Status::FailHostMemAlloc as u32;
const UNINITIALIZED: u32 = Status::Uninitialized as u32;
const CLOSED: u32 = Status::Closed as u32;

/// What stands in a place a call may write to, before it does.
const UNTOUCHED: usize = 0x5eed_0000_5eed;
const SENTINEL: u8 = 0xee;

type Answer<T = ()> = Result<T, String>;

macro_rules! ensure {
    ($cond:expr, $($text:tt)*) => {
        if !$cond {
            return Err(format!($($text)*));
        }
    };
}
use ensure;

/// First of several answers that is none of success, in the order in which a call looks.
fn first(answers: &[u32]) -> u32 {
    answers.iter().copied().find(|&status| status != OK).unwrap_or(OK)
}

fn refused(condition: bool) -> u32 {
    if condition { INVALID } else { OK }
}

/// The library and the model of it, side by side.
pub struct Machine<'a> {
    nrt: &'a Nrt,
    backend: &'a Backend,
    /// The calls so far, for whoever reads a failure.
    transcript: File,
    up: bool,
    cycle: u32,
    tensors: Vec<Tensor>,
    sets: Vec<Set>,
    storages: Vec<Storage>,
    queues: Queues,
}

// SAFETY of the calls below: pointers are NULL or those of live locals, of vectors of the length that is told, or of
// buffers that live as long as the process; a length that is told for more is one the call has to refuse.
impl<'a> Machine<'a> {
    pub fn new(nrt: &'a Nrt, backend: &'a Backend, transcript: File) -> Machine<'a> {
        let (tensors, sets, storages, queues) = (Vec::new(), Vec::new(), Vec::new(), Queues::new());
        Machine { nrt, backend, transcript, up: false, cycle: 0, tensors, sets, storages, queues }
    }

    /// Run a sequence from the first init to the last close.
    pub fn run(&mut self, ops: &[Op]) -> Answer {
        self.init()?;
        for op in ops {
            self.apply(op)?;
        }
        self.finish()
    }

    // ---- what is said and compared ---------------------------------------------------------

    /// Before the call, so that a crash shows which one it was.
    fn say(&mut self, call: String) {
        self.transcript.write_all(call.as_bytes()).expect("the reader is there");
    }

    fn answered(&mut self, have: u32, want: u32) -> Answer {
        self.say(format!(" = {have}\n"));
        ensure!(have == want, "status {have}, expected {want}");
        Ok(())
    }

    fn gate(&self) -> u32 {
        if self.up { OK } else { UNINITIALIZED }
    }

    // ---- the model -------------------------------------------------------------------------

    /// What a call on these bytes answers: memory of devices is gone with the init it was made in.
    fn reach(&self, range: &Option<(usize, std::ops::Range<usize>)>) -> u32 {
        match range {
            None => INVALID,
            Some((storage, _)) if self.gone(*storage) => CLOSED,
            Some(_) => OK,
        }
    }

    fn gone(&self, storage: usize) -> bool {
        let storage = &self.storages[storage];
        self.backend.devices && storage.place != Place::Plain && storage.cycle != self.cycle
    }

    fn range(&self, told: &Told, offset: usize, size: usize) -> Option<(usize, std::ops::Range<usize>)> {
        self.tensors[told.alive?].range(offset, size)
    }

    /// Bytes of the model.
    fn bytes(&self, range: &(usize, std::ops::Range<usize>)) -> &[u8] {
        &self.storages[range.0].bytes[range.1.clone()]
    }

    fn put(&mut self, range: &(usize, std::ops::Range<usize>), data: &[u8]) {
        self.storages[range.0].bytes[range.1.clone()].copy_from_slice(data);
    }

    fn used(&self, storage: usize) -> bool {
        self.tensors.iter().any(|tensor| tensor.live && tensor.span.is_some_and(|span| span.storage == storage))
    }

    /// Bytes of device memory of a core that somebody still has.
    fn counted(&self, core: u32) -> usize {
        (0..self.storages.len())
            .filter(|&n| {
                let storage = &self.storages[n];
                matches!(storage.place, Place::Hbm { .. })
                    && (storage.core, storage.cycle) == (core, self.cycle)
                    && self.used(n)
            })
            .map(|n| self.storages[n].pages())
            .sum()
    }

    /// Bytes of the HBMs a core is wired to.
    fn limit(&self) -> usize {
        let per_hbm = self.backend.cores_per_device / self.backend.hbms;
        self.backend.hbm_bytes * self.backend.lnc.div_ceil(per_hbm) as usize
    }

    // ---- the calls -------------------------------------------------------------------------

    fn init(&mut self) -> Answer {
        self.say("nrt_init()".into());
        // SAFETY: NULL texts are empty ones.
        let status = unsafe { (self.nrt.nrt_init)(1, null(), null()) };
        if !self.up {
            self.cycle += 1;
        }
        self.up = true;
        self.answered(status, OK)
    }

    fn close(&mut self) -> Answer {
        self.say("nrt_close()\n".into());
        // SAFETY: no precondition.
        unsafe { (self.nrt.nrt_close)() };
        self.up = false;
        self.closed()
    }

    fn apply(&mut self, op: &Op) -> Answer {
        match op {
            Op::Init => self.init(),
            Op::Close => self.close(),
            Op::Allocate { placement, core, size, name } => self.allocate(*placement, self.core(*core), *size, *name),
            Op::Empty { name } => {
                let name = text(*name);
                let mut handle = UNTOUCHED;
                self.say(format!("nrt_tensor_allocate_empty({}, &t{})", show(name.as_ref()), self.tensors.len()));
                // SAFETY: see above.
                let status = unsafe { (self.nrt.nrt_tensor_allocate_empty)(pointer(name.as_ref()), &mut handle) };
                self.answered(status, first(&[self.gate(), refused(too_long(name.as_ref()))]))?;
                if status == OK { self.made(handle, name, None) } else { Ok(()) }
            }
            Op::Slice { of, extent, name } => self.slice(of, extent, *name),
            Op::Attach { tensor, size, again } => self.attach(tensor, *size, again.as_ref()),
            Op::AttachNull { tensor, size } => {
                let Some((told, shown)) = self.tensor(tensor) else { return Ok(()) };
                self.say(format!("nrt_tensor_attach_buffer({shown}, NULL, {size})"));
                // SAFETY: see above.
                let status = unsafe { (self.nrt.nrt_tensor_attach_buffer)(told.handle, null_mut(), *size) };
                self.answered(status, first(&[self.gate(), told.status(), refused(*size > 0)]))?;
                if status == OK {
                    let n = told.alive.expect("it was alive");
                    self.storages.push(self.plain(Vec::new(), 0));
                    self.tensors[n].span = Some(Span { storage: self.storages.len() - 1, start: 0, len: 0 });
                }
                Ok(())
            }
            Op::Free { tensor } => {
                let Some((told, shown)) = self.tensor(tensor) else { return Ok(()) };
                self.say(format!("nrt_tensor_free(&{shown})\n"));
                self.free(&told)
            }
            Op::FreeNull => {
                self.say("nrt_tensor_free(NULL), nrt_destroy_tensor_set(NULL)\n".into());
                // SAFETY: see above.
                unsafe {
                    (self.nrt.nrt_tensor_free)(null_mut());
                    (self.nrt.nrt_destroy_tensor_set)(null_mut());
                }
                Ok(())
            }
            Op::Read { tensor, extent } => {
                let Some((told, shown)) = self.tensor(tensor) else { return Ok(()) };
                let (offset, size) = self.extent(extent, &told);
                self.read(&told, &shown, offset, size)
            }
            Op::Write { tensor, extent, seed } => self.write(tensor, extent, *seed),
            Op::ReadBatch { parts, skip_wait } => self.batch(parts, *skip_wait, false),
            Op::WriteBatch { parts, skip_wait } => self.batch(parts, *skip_wait, true),
            Op::NullBatch { write, len } => {
                let call = if *write { self.nrt.nrt_tensor_write_batch } else { self.nrt.nrt_tensor_read_batch };
                self.say(format!("nrt_tensor_{}_batch(NULL, {len}, false)", if *write { "write" } else { "read" }));
                // SAFETY: see above.
                let status = unsafe { call(null(), *len, false) };
                self.answered(status, first(&[self.gate(), refused(*len > 0)]))
            }
            Op::Copy { from, extent, to, at } => {
                let (Some(from), Some(to)) = (self.tensor(from), self.tensor(to)) else { return Ok(()) };
                let (offset, at, size) = self.copied(&from.0, extent, &to.0, at);
                self.copy(from, offset, to, at, size)
            }
            Op::Shift { tensor, by, back } => {
                let (Some(from), Some(to)) = (self.tensor(tensor), self.tensor(tensor)) else { return Ok(()) };
                let len = from.0.alive.map_or(0, |n| self.tensors[n].len());
                let by = by.index(len.min(300) + 1);
                let (offset, at) = if *back { (by, 0) } else { (0, by) };
                self.copy(from, offset, to, at, len - by)
            }
            Op::Memset { tensor, extent, value } => {
                let Some((told, shown)) = self.tensor(tensor) else { return Ok(()) };
                let (offset, size) = self.extent(extent, &told);
                let range = self.range(&told, offset, size);
                self.say(format!("nrt_tensor_memset({shown}, {offset}, {value:#x}, {size})"));
                // SAFETY: see above.
                let status = unsafe { (self.nrt.nrt_tensor_memset)(told.handle, offset as u64, *value, size) };
                let want = first(&[self.gate(), told.status(), self.reach(&range)]);
                if want == CLOSED && size == 0 {
                    // Nobody says what no bytes of memory that is gone are.
                    return self.answered(status, if status == OK { OK } else { want });
                }
                self.answered(status, want)?;
                if let (OK, Some(range)) = (status, range) {
                    self.put(&range, &vec![*value as u8; size]);
                }
                Ok(())
            }
            Op::Size { tensor } => {
                let Some((told, shown)) = self.tensor(tensor) else { return Ok(()) };
                // SAFETY: see above.
                let size = unsafe { (self.nrt.nrt_tensor_get_size)(told.handle) };
                self.say(format!("nrt_tensor_get_size({shown}) = {size}\n"));
                let want = told.alive.map_or(0, |n| self.tensors[n].len());
                ensure!(size == want, "size {size}, expected {want}");
                Ok(())
            }
            Op::Va { tensor } => {
                let Some((told, shown)) = self.tensor(tensor) else { return Ok(()) };
                self.va(&told, &shown).map(drop)
            }
            Op::WriteVa { tensor, extent, seed, by_call } => self.write_va(tensor, extent, *seed, *by_call),
            Op::MemcpyNull { size } => {
                self.say(format!("nrt_memcpy_to_device(NULL, NULL, {size})"));
                // SAFETY: see above.
                let status = unsafe { (self.nrt.nrt_memcpy_to_device)(null_mut(), null(), *size) };
                self.answered(status, refused(*size > 0))
            }
            Op::Info { tensor, null } => {
                let Some((told, shown)) = self.tensor(tensor) else { return Ok(()) };
                self.info(&told, &shown, *null)
            }
            Op::Completion { tensor, expected } => {
                let Some((told, shown)) = self.tensor(tensor) else { return Ok(()) };
                self.say(format!("nrt_tensor_check_output_completion({shown}, 0, {expected})"));
                // SAFETY: see above.
                let status = unsafe { (self.nrt.nrt_tensor_check_output_completion)(told.handle, 0, *expected) };
                // Nothing here ever writes a tensor as an output.
                let late = if *expected > 0 { TIMEOUT } else { OK };
                self.answered(status, first(&[told.status(), late]))
            }
            Op::ResetCompletion { tensor } => {
                let Some((told, shown)) = self.tensor(tensor) else { return Ok(()) };
                self.say(format!("nrt_tensor_reset_output_completion({shown})"));
                // SAFETY: see above.
                let status = unsafe { (self.nrt.nrt_tensor_reset_output_completion)(told.handle) };
                self.answered(status, told.status())
            }
            Op::Stats { core, room, tell } => self.stats(self.core(*core) as u32, *room, *tell),
            Op::Window { device, hbm } => self.window(*device, *hbm),
            Op::Dmabuf { tensor } => {
                let Some((told, shown)) = self.tensor(tensor) else { return Ok(()) };
                let Some(va) = self.va(&told, &shown)? else { return Ok(()) };
                let mut fd = -7;
                self.say(format!("nrt_get_dmabuf_fd({va:#x}, 1, &fd)"));
                // SAFETY: see above.
                let status = unsafe { (self.nrt.nrt_get_dmabuf_fd)(va as u64, 1, &mut fd) };
                // Neither a simulated instance nor a published one can give a descriptor away.
                self.answered(status, first(&[self.gate(), INVALID]))?;
                ensure!(fd == -7, "the descriptor is {fd} though there is none");
                Ok(())
            }
            Op::NewSet => {
                let mut handle = UNTOUCHED;
                self.say(format!("nrt_allocate_tensor_set(&s{})", self.sets.len()));
                // SAFETY: see above.
                let status = unsafe { (self.nrt.nrt_allocate_tensor_set)(&mut handle) };
                self.answered(status, self.gate())?;
                if status == OK {
                    ensure!(self.sets.iter().all(|set| set.handle != handle), "the handle of another set");
                    self.sets.push(Set { handle, live: true, members: Default::default() });
                }
                Ok(())
            }
            Op::Add { set, name, tensor } => self.add(set, *name, tensor),
            Op::Get { set, name } => self.get(set, *name),
            Op::DestroySet { set } => {
                let Some((told, shown)) = self.set(set) else { return Ok(()) };
                let mut handle = told.handle;
                self.say(format!("nrt_destroy_tensor_set(&{shown})\n"));
                // SAFETY: see above.
                unsafe { (self.nrt.nrt_destroy_tensor_set)(&mut handle) };
                ensure!(handle == 0, "the handle is not cleared");
                if let Some(n) = told.alive {
                    self.sets[n].live = false;
                }
                Ok(())
            }
            Op::Queue { work, core, queue, missing, likely, times } => {
                (0..*times).try_for_each(|_| self.queue(work, *core, *queue, *missing, *likely))
            }
            Op::Settle { which } => self.settle(which),
            Op::IsCompleted { sequence, null } => self.poll(sequence, *null),
            Op::LastCompleted { core, unit, queue, null } => {
                self.last_completed(self.core(*core), *unit, *queue, *null)
            }
        }
    }

    // ---- the end ---------------------------------------------------------------------------

    /// Everything there is holds what the model says; then everything is given back.
    fn finish(&mut self) -> Answer {
        if !self.up {
            self.init()?;
        }
        for n in 0..self.tensors.len() {
            let told = Told { handle: self.tensors[n].handle, alive: self.tensors[n].live.then_some(n) };
            if told.alive.is_some() && self.tensors[n].span.is_some() {
                self.read(&told, &format!("t{n}"), 0, self.tensors[n].len())?;
            }
            self.look(n)?;
        }
        for (n, storage) in self.storages.iter().enumerate().filter(|(_, storage)| storage.callers) {
            let Some(va) = storage.va else { continue };
            // SAFETY: the buffer lives as long as the process.
            let have = unsafe { std::slice::from_raw_parts(va as *const u8, storage.bytes.len()) };
            difference(&format!("buffer{n}"), have, &storage.bytes)?;
        }
        for core in 0..self.backend.cores.min(8) {
            self.stats(core, 16, true)?;
        }
        for n in 0..self.tensors.len() {
            if self.tensors[n].live {
                self.say(format!("nrt_tensor_free(&t{n})\n"));
                self.free(&Told { handle: self.tensors[n].handle, alive: Some(n) })?;
            }
        }
        for core in 0..self.backend.cores.min(8) {
            self.stats(core, 16, true)?;
        }
        self.close()
    }
}
