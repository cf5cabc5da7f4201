//! Runs calls on the library and on byte arrays, and says where they differ.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fs::File;
use std::io::Write;
use std::ptr::{null, null_mut};

use nrt_core::Status;

use crate::ops::{Core, Extent, Op, Pick, Piece, Text};
use crate::reference::{Backend, Place, Set, Span, Storage, Tensor, difference, pattern};
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

/// An object as a call is told it: the handle, and the number of the object if it is alive.
struct Told {
    handle: usize,
    alive: Option<usize>,
}

impl Told {
    /// What a call that looks it up answers.
    fn status(&self) -> u32 {
        match (self.handle, self.alive) {
            (0, _) => INVALID,
            (_, None) => STALE,
            _ => OK,
        }
    }
}

fn text(text: Text) -> Option<CString> {
    let text = match text {
        Text::Null => return None,
        Text::Short(n) => format!("name{n}"),
        Text::Longest => "x".repeat(4096),
        Text::TooLong => "x".repeat(4097),
    };
    Some(CString::new(text).expect("no NUL"))
}

/// As it is printed.
fn show(text: Option<&CString>) -> String {
    match text {
        None => "NULL".into(),
        Some(text) if text.as_bytes().len() > 20 => format!("<{} bytes>", text.as_bytes().len()),
        Some(text) => format!("{:?}", text.to_string_lossy()),
    }
}

fn pointer(text: Option<&CString>) -> *const c_char {
    text.map_or(null(), |text| text.as_ptr())
}

fn too_long(text: Option<&CString>) -> bool {
    text.is_some_and(|text| text.as_bytes().len() > 4096)
}

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
}

// SAFETY of the calls below: pointers are NULL or those of live locals, of vectors of the length that is told, or of
// buffers that live as long as the process; a length that is told for more is one the call has to refuse.
impl<'a> Machine<'a> {
    pub fn new(nrt: &'a Nrt, backend: &'a Backend, transcript: File) -> Machine<'a> {
        let (tensors, sets, storages) = (Vec::new(), Vec::new(), Vec::new());
        Machine { nrt, backend, transcript, up: false, cycle: 0, tensors, sets, storages }
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

    // ---- choices ---------------------------------------------------------------------------

    /// The choice among handles, of which some are alive, and how it is printed.
    fn told(pick: &Pick, prefix: char, objects: &[(usize, bool)]) -> Option<(Told, String)> {
        let live: Vec<usize> = (0..objects.len()).filter(|&n| objects[n].1).collect();
        match pick {
            Pick::Live(_) if live.is_empty() => None,
            Pick::Ever(_) if objects.is_empty() => None,
            Pick::Live(index) => {
                let n = *index.get(&live);
                Some((Told { handle: objects[n].0, alive: Some(n) }, format!("{prefix}{n}")))
            }
            Pick::Ever(index) => {
                let n = index.index(objects.len());
                let alive = objects[n].1.then_some(n);
                Some((Told { handle: objects[n].0, alive }, format!("{prefix}{n}")))
            }
            Pick::Null => Some((Told { handle: 0, alive: None }, "NULL".into())),
            Pick::Bogus(index) => {
                let near = objects.first().map_or(8, |object| object.0);
                let handle = [1, usize::MAX, near + 1, near + 8, near.wrapping_sub(64), &raw const near as usize];
                let handle = *index.get(&handle);
                Some((Told { handle, alive: None }, format!("{handle:#x}")))
            }
        }
    }

    fn tensor(&self, pick: &Pick) -> Option<(Told, String)> {
        let objects: Vec<_> = self.tensors.iter().map(|tensor| (tensor.handle, tensor.live)).collect();
        Self::told(pick, 't', &objects)
    }

    fn set(&self, pick: &Pick) -> Option<(Told, String)> {
        let objects: Vec<_> = self.sets.iter().map(|set| (set.handle, set.live)).collect();
        Self::told(pick, 's', &objects)
    }

    /// Offset and size in something of `len` bytes.
    fn numbers(extent: &Extent, len: usize) -> (usize, usize) {
        match extent {
            Extent::Whole => (0, len),
            Extent::Part(at, size) => {
                let at = at.index(len + 1);
                (at, size.index(len - at + 1))
            }
            Extent::Past(at, over) => {
                let at = at.index(len + 1);
                (at, len - at + over)
            }
            Extent::Wild(offset, size) => (*offset, *size),
        }
    }

    fn extent(&self, extent: &Extent, told: &Told) -> (usize, usize) {
        Self::numbers(extent, told.alive.map_or(0, |n| self.tensors[n].len()))
    }

    fn core(&self, core: Core) -> i32 {
        let last = self.backend.cores as i32 - 1;
        match core {
            Core::Some(n) => i32::from(n).min(last),
            Core::Last => last,
            Core::Behind => last + 1,
            Core::Number(n) => n,
        }
    }

    fn is_core(&self, core: i32) -> bool {
        u32::try_from(core).is_ok_and(|core| core < self.backend.cores)
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

    fn close(&mut self) {
        self.say("nrt_close()\n".into());
        // SAFETY: no precondition.
        unsafe { (self.nrt.nrt_close)() };
        self.up = false;
    }

    fn apply(&mut self, op: &Op) -> Answer {
        match op {
            Op::Init => self.init(),
            Op::Close => {
                self.close();
                Ok(())
            }
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
                let (offset, mut size) = self.extent(extent, &from.0);
                let room = to.0.alive.map_or(0, |n| self.tensors[n].len());
                let at = match at {
                    // Mostly where it fits.
                    Extent::Part(at, _) => {
                        if matches!(extent, Extent::Whole | Extent::Part(..)) {
                            size = size.min(room);
                        }
                        at.index(room.saturating_sub(size) + 1)
                    }
                    at => Self::numbers(at, room).0,
                };
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
        }
    }

    fn allocate(&mut self, placement: u32, core: i32, size: usize, name: Text) -> Answer {
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
            self.settle(storage)?;
        }
        // Fresh memory of devices holds what its last owner left.
        if self.backend.devices && placement != 2 {
            let mut bytes = vec![0; size];
            // SAFETY: see above.
            let status = unsafe { (self.nrt.nrt_tensor_read)(handle, bytes.as_mut_ptr().cast(), 0, size) };
            ensure!(status == OK, "fresh memory cannot be read: {status}");
            self.storages[storage].bytes = bytes;
        }
        Ok(())
    }

    /// Learn where the memory of the newest tensor is; it must be nobody else's.
    fn settle(&mut self, storage: usize) -> Answer {
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
    fn made(&mut self, handle: usize, name: Option<CString>, span: Option<Span>) -> Answer {
        ensure!(handle != 0 && handle != UNTOUCHED, "no handle");
        let taken = self.tensors.iter().any(|tensor| tensor.handle == handle);
        ensure!(!taken, "the handle of another tensor, or of one just freed");
        let name = name.map_or("_unknown_".into(), |name| name.to_string_lossy().into_owned());
        self.tensors.push(Tensor { handle, live: true, name, span });
        self.look(self.tensors.len() - 1)
    }

    /// The vendor's 192 bytes at the handle: name, storage, offset, size; they stay readable for ever.
    fn look(&self, n: usize) -> Answer {
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

    fn slice(&mut self, of: &Pick, extent: &Extent, name: Text) -> Answer {
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

    fn plain(&self, bytes: Vec<u8>, va: usize) -> Storage {
        let (place, cycle) = (Place::Plain, self.cycle);
        Storage { bytes, place, core: 0, physical: 0, va: Some(va).filter(|&va| va != 0), cycle, callers: true }
    }

    fn attach(&mut self, tensor: &Pick, size: usize, again: Option<&(proptest::sample::Index, Extent)>) -> Answer {
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

    fn free(&mut self, told: &Told) -> Answer {
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

    fn read(&mut self, told: &Told, shown: &str, offset: usize, size: usize) -> Answer {
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

    fn write(&mut self, tensor: &Pick, extent: &Extent, seed: u8) -> Answer {
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

    fn batch(&mut self, parts: &[(Pick, Vec<Piece>)], skip_wait: bool, write: bool) -> Answer {
        let mut told = Vec::new();
        for (pick, pieces) in parts {
            let Some((tensor, shown)) = self.tensor(pick) else { return Ok(()) };
            let numbers: Vec<_> = pieces.iter().map(|piece| self.extent(&piece.extent, &tensor)).collect();
            told.push((tensor, shown, numbers));
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

    fn copy(
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

    /// The address of a live tensor, if the call tells one.
    fn va(&mut self, told: &Told, shown: &str) -> Answer<Option<usize>> {
        // SAFETY: see above.
        let va = unsafe { (self.nrt.nrt_tensor_get_va)(told.handle) }.expose_provenance();
        self.say(format!("nrt_tensor_get_va({shown}) = {}\n", if va == 0 { "NULL" } else { "address" }));
        let span = told.alive.and_then(|n| self.tensors[n].span).filter(|_| self.up);
        let Some(Span { storage, start, .. }) = span else {
            ensure!(va == 0, "an address of nothing");
            return Ok(None);
        };
        let known = self.storages[storage].va;
        let gone = self.gone(storage);
        if va == 0 {
            let mapped = !self.backend.devices || self.storages[storage].place == Place::Plain;
            let nothing = self.storages[storage].bytes.is_empty();
            ensure!(!mapped || nothing, "memory of this process has no address");
            ensure!(known.is_none() || nothing, "it had an address before");
            return Ok(None);
        }
        ensure!(known.is_none_or(|known| known + start == va), "another address than before, or than another view's");
        ensure!(!gone || known.is_some(), "memory that is gone has got an address");
        let (first, len) = (va - start, self.storages[storage].bytes.len());
        for (n, other) in self.storages.iter().enumerate() {
            let Some(theirs) = other.va.filter(|_| n != storage && (other.callers || self.used(n))) else { continue };
            let apart = first + len <= theirs || theirs + other.bytes.len() <= first;
            ensure!(apart, "memory of two tensors overlaps in this process");
        }
        self.storages[storage].va = Some(first);
        Ok(Some(va).filter(|_| !gone))
    }

    fn write_va(&mut self, tensor: &Pick, extent: &Extent, seed: u8, by_call: bool) -> Answer {
        let Some((told, shown)) = self.tensor(tensor) else { return Ok(()) };
        let Some(n) = told.alive else { return Ok(()) };
        let (offset, size) = self.extent(extent, &told);
        let Some(va) = self.va(&told, &shown)? else { return Ok(()) };
        let Some(range) = self.tensors[n].range(offset, size) else { return Ok(()) };
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

    fn info(&mut self, told: &Told, shown: &str, null: bool) -> Answer {
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

    fn stats(&mut self, core: u32, room: usize, tell: bool) -> Answer {
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

    fn window(&mut self, device: i32, hbm: i32) -> Answer {
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

    fn add(&mut self, set: &Pick, name: Text, tensor: &Pick) -> Answer {
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

    fn get(&mut self, set: &Pick, name: Text) -> Answer {
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
        self.close();
        Ok(())
    }
}
