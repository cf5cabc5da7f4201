//! A driver model in this process.

use std::cell::RefCell;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use neuron_hw::memory::Piece;
use neuron_kmd::caller::{Caller, UserMemory};
use neuron_kmd::memory::mmap::MmapRequest;
use neuron_kmd::reply::{Errno as ModelErrno, Stop};
use neuron_kmd::sync::Task;
use neuron_kmd::sysfs::Sysfs;
use neuron_kmd::{Driver as Model, cdev};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

use crate::call::{Buffer, Learned};
use crate::{Call, Cause, Driver, File, Mapping, Mode, Node, Result};

const PRODUCT_NAME: &str = "devices/virtual/dmi/id/product_name";

/// The devices of a loaded [`neuron_kmd::Driver`]. The caller of every entry is the calling thread
/// of this process.
pub struct InProcess {
    model: Arc<Model>,
    sysfs: Sysfs,
}

impl InProcess {
    /// The devices of this load.
    pub fn new(model: Arc<Model>) -> InProcess {
        InProcess { sysfs: Sysfs::new(Arc::clone(&model)), model }
    }

    /// The driver model.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }
}

/// The calling thread, as a driver sees it. No signal reaches it: a model in the same process
/// cannot be interrupted by what this process gets.
fn caller() -> Caller {
    Caller {
        tgid: std::process::id(),
        tid: rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs(),
        uid: rustix::process::geteuid().as_raw(),
        raw_io: false,
        task: Task::new(),
        descriptors: None,
    }
}

/// What a failed entry would be as the result of a system call.
fn failed(stop: &Stop) -> std::result::Result<u32, Errno> {
    match stop.as_return() {
        result @ ..0 => Err(Errno::from_raw_os_error(-result as i32)),
        result => Ok(result as u32),
    }
}

fn system(error: ModelErrno) -> io::Error {
    io::Error::from_raw_os_error(error.0)
}

impl Driver for InProcess {
    fn node(&self, index: u32) -> Node {
        if self.model.device(index).is_some() { Node::Ready } else { Node::Missing }
    }

    fn open(&self, index: u32, mode: Mode) -> Result<Box<dyn File>> {
        let flags = match mode {
            Mode::Full => libc::O_RDWR,
            Mode::Info => libc::O_RDONLY,
            Mode::Misc => libc::O_WRONLY,
        };
        let at = |cause: Cause| cause.at(index, "open");
        match self.model.open(index, flags, &caller()) {
            Ok(file) => {
                let (process, learned) = (std::process::id(), Learned::default());
                Ok(Box::new(ModelFile { file: Some(file), process, learned }))
            }
            Err(stop) => Err(at(failed(&stop).map_or_else(Cause::of_open, |_| Cause::Bug))),
        }
    }

    fn sysfs(&self, path: &str) -> io::Result<String> {
        if path == PRODUCT_NAME {
            return Ok(self.model.env().product.clone());
        }
        self.sysfs.read(path, &caller()).map(|text| text.trim().to_owned()).map_err(system)
    }

    fn sysfs_names(&self, path: &str) -> io::Result<Vec<String>> {
        let entries = self.sysfs.list(path).map_err(system)?;
        Ok(entries.into_iter().map(|entry| entry.name).collect())
    }
}

struct ModelFile {
    /// Taken when dropped.
    file: Option<Arc<cdev::File>>,
    process: u32,
    learned: Learned,
}

impl ModelFile {
    fn file(&self) -> &Arc<cdev::File> {
        self.file.as_ref().expect("present until the drop")
    }

    fn index(&self) -> u32 {
        self.file().device().index
    }
}

impl File for ModelFile {
    fn device(&self) -> u32 {
        self.index()
    }

    fn call(&self, call: &mut Call<'_>) -> Result<u32> {
        let at = |cause: Cause| cause.at(self.index(), call.name());
        if self.process != std::process::id() {
            return Err(at(Cause::Forked));
        }
        let (op, command, name) = (call.op, call.command(), call.name());
        let argument = call.image.as_mut_ptr().expose_provenance() as u64;
        let memory = Regions(RefCell::new([Buffer::Out(call.image), call.buffer.again()]));
        let result = match self.file().ioctl(&caller(), &memory, command, argument) {
            Ok(result) => Ok(result as u32),
            Err(stop) => failed(&stop),
        };
        result.map_err(|errno| Cause::of_ioctl(op, errno).at(self.index(), name))
    }

    fn learned(&self) -> &Learned {
        &self.learned
    }

    fn map(&self, offset: u64, bytes: usize) -> Result<Mapping> {
        let at = |cause: Cause| cause.at(self.index(), "mmap");
        if self.process != std::process::id() {
            return Err(at(Cause::Forked));
        }
        let system = |errno: Errno| at(Cause::of_map(errno));
        // SAFETY: a new mapping without access at an address of the kernel's choice: it holds the
        // place whose address the driver wants to know.
        let base =
            unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::empty(), MapFlags::PRIVATE) };
        let base = NonNull::new(base.map_err(system)?.cast::<u8>()).ok_or_else(|| at(Cause::NotMappable))?;
        let va = base.as_ptr().expose_provenance() as u64;
        let gone = Gone { file: Some(Arc::clone(self.file())), va, process: self.process };
        // SAFETY: just mapped, owned by nobody else; nothing reads it before it is mapped over below,
        // and an error drops it first.
        let mapping = unsafe { Mapping::new(base, bytes, Some(Box::new(gone))) };
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        let asked = self.file().mmap(&caller(), MmapRequest { va, offset, bytes: bytes as u64, prot });
        let found = asked.map_err(|stop| at(failed(&stop).map_or_else(Cause::of_map, |_| Cause::Bug)))?;
        let protection = if found.writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        let mut done = 0;
        for part in &found.parts {
            let length = (part.bytes as usize).min(bytes - done);
            let address = part.address.ok_or_else(|| at(Cause::NotMappable))?;
            let place = base.as_ptr().wrapping_add(done).cast();
            let flags = MapFlags::SHARED | MapFlags::FIXED;
            // SAFETY: replaces a part of the reservation above, which belongs to `mapping`.
            unsafe { rustix::mm::mmap(place, length, protection, flags, found.space.file(), address) }
                .map_err(system)?;
            done += length;
        }
        Ok(mapping)
    }
}

impl Drop for ModelFile {
    fn drop(&mut self) {
        let file = self.file.take().expect("dropped once");
        if self.process == std::process::id() {
            file.flush(&caller());
        } else {
            // The child has a copy of the model whose locks may be taken for ever.
            std::mem::forget(file);
        }
    }
}

/// Tells the driver that a mapping is gone.
struct Gone {
    file: Option<Arc<cdev::File>>,
    va: u64,
    process: u32,
}

impl Drop for Gone {
    fn drop(&mut self) {
        let file = self.file.take().expect("dropped once");
        if self.process == std::process::id() {
            file.munmap(&caller(), self.va);
        } else {
            std::mem::forget(file);
        }
    }
}

/// The memory of the caller that a command is about: its argument and its buffer.
struct Regions<'a>(RefCell<[Buffer<'a>; 2]>);

impl Regions<'_> {
    /// The region an address lies in, and where in it.
    fn find<R>(&self, address: u64, with: impl FnOnce(&mut Buffer<'_>, usize) -> R) -> Option<R> {
        let regions = &mut *self.0.borrow_mut();
        let at =
            |region: &mut Buffer<'_>| address.checked_sub(region.address()).filter(|at| *at < region.bytes() as u64);
        regions.iter_mut().find_map(|region| at(region).map(|at| (region, at as usize))).map(|(r, at)| with(r, at))
    }

    /// Lends at most `bytes` bytes at an address for reading; how many there were.
    fn readable(&self, address: u64, bytes: usize, with: impl FnOnce(&[u8])) -> usize {
        let lent = self.find(address, |region, at| {
            let source: &[u8] = match region {
                Buffer::None => &[],
                Buffer::In(bytes) => bytes,
                Buffer::Out(bytes) => bytes,
            };
            let there = (source.len() - at).min(bytes);
            with(&source[at..at + there]);
            there
        });
        lent.unwrap_or(0)
    }

    /// The same for writing.
    fn writable(&self, address: u64, bytes: usize, with: impl FnOnce(&mut [u8])) -> usize {
        let lent = self.find(address, |region, at| {
            let Buffer::Out(target) = region else { return 0 };
            let there = (target.len() - at).min(bytes);
            with(&mut target[at..at + there]);
            there
        });
        lent.unwrap_or(0)
    }
}

impl UserMemory for Regions<'_> {
    fn read(&self, address: u64, data: &mut [u8]) -> usize {
        data.len() - self.readable(address, data.len(), |source| data[..source.len()].copy_from_slice(source))
    }

    fn write(&self, address: u64, data: &[u8]) -> usize {
        data.len() - self.writable(address, data.len(), |target| target.copy_from_slice(&data[..target.len()]))
    }

    fn fetch(&self, address: u64, to: Piece<'_>) -> usize {
        to.len() - self.readable(address, to.len(), |source| to.write(source))
    }

    fn store(&self, address: u64, from: Piece<'_>) -> usize {
        from.len() - self.writable(address, from.len(), |target| from.read(target))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_argument_and_the_buffer_are_memory_of_the_caller() {
        let (mut image, data) = ([1, 2, 3, 4], [5, 6, 7, 8]);
        let (argument, buffer) = (image.as_ptr().addr() as u64, data.as_ptr().addr() as u64);
        let mut out = [0; 3];
        let memory = Regions(RefCell::new([Buffer::Out(&mut image), Buffer::In(&data)]));
        assert_eq!((memory.read(argument + 1, &mut out), out), (0, [2, 3, 4]));
        assert_eq!((memory.read(buffer + 2, &mut out), out), (1, [7, 8, 4]));
        assert_eq!(memory.read(8, &mut out), 3);
        assert_eq!(memory.read(u64::MAX, &mut out), 3);
        assert_eq!(memory.write(argument + 2, &[9, 9, 9]), 1);
        assert_eq!(memory.write(buffer, &[9]), 1, "the driver only reads it");
        assert_eq!(image, [1, 2, 9, 9]);
    }
}
