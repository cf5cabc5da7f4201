//! One recorded actor: memory, descriptors, mappings.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::caller::{Caller, Descriptors, UserMemory};
use crate::cdev::File;
use crate::memory::dmabuf::DmaBuf;
use crate::memory::mmap::Mapping;
use crate::sync::Task;
use parking_lot::Mutex;

/// Size of a page.
pub const PAGE: u64 = 4096;

/// Where a range of user addresses leads.
enum Backing {
    Bytes(Vec<u8>),
    Device {
        mapping: Mapping,
        readable: bool,
        writable: bool,
        file: Arc<File>,
        /// Bytes written to a private mapping: nobody else sees them.
        private: Option<BTreeMap<u64, u8>>,
    },
}

/// Sparse memory of a process. Ranges are whole pages with a hole after each.
#[derive(Default)]
pub struct Memory {
    ranges: Mutex<BTreeMap<u64, Backing>>,
    next: Mutex<u64>,
}

impl Memory {
    /// Finds room for a mapping.
    pub fn place(&self, bytes: u64) -> u64 {
        let mut next = self.next.lock();
        let address = (*next).max(0x7f00_0000_0000);
        *next = address + (bytes.max(1)).next_multiple_of(PAGE) + PAGE;
        address
    }

    /// New bytes; whole pages are there, zeros behind the content.
    pub fn add(&self, content: &[u8]) -> u64 {
        let address = self.place(content.len() as u64);
        let mut bytes = content.to_vec();
        bytes.resize(content.len().max(1).next_multiple_of(PAGE as usize), 0);
        self.ranges.lock().insert(address, Backing::Bytes(bytes));
        address
    }

    /// A mapping of a device at a place that was found for it, shared or private.
    pub fn map(&self, address: u64, mapping: Mapping, prot: i32, private: bool, file: Arc<File>) {
        let readable = prot & (libc::PROT_READ | libc::PROT_WRITE) != 0;
        let writable = prot & libc::PROT_WRITE != 0 && mapping.writable;
        let private = private.then(BTreeMap::new);
        self.ranges.lock().insert(address, Backing::Device { mapping, readable, writable, file, private });
    }

    /// Takes a mapping away.
    pub fn unmap(&self, caller: &Caller, address: u64) {
        // The range may hold the last reference to its file: let go of it outside the lock.
        let gone = self.ranges.lock().remove(&address);
        if let Some(Backing::Device { file, .. }) = gone {
            file.munmap(caller, address);
        }
    }

    /// Bytes of a range made by [`Self::add`].
    pub fn bytes(&self, address: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        let left = self.read(address, &mut bytes);
        bytes.truncate(len - left);
        bytes
    }

    /// Copies what a child inherits: bytes, not device mappings.
    pub fn fork(&self) -> Self {
        let ranges = self.ranges.lock();
        let bytes = ranges.iter().filter_map(|(at, b)| match b {
            Backing::Bytes(bytes) => Some((*at, Backing::Bytes(bytes.clone()))),
            Backing::Device { .. } => None,
        });
        Self { ranges: Mutex::new(bytes.collect()), next: Mutex::new(*self.next.lock()) }
    }

    fn access(&self, address: u64, len: usize, mut one: impl FnMut(&mut Backing, u64, usize, usize) -> bool) -> usize {
        let mut ranges = self.ranges.lock();
        let mut done = 0;
        while done < len {
            let Some(at) = address.checked_add(done as u64) else { break };
            let Some((base, backing)) = ranges.range_mut(..=at).next_back() else { break };
            let size = match backing {
                Backing::Bytes(bytes) => bytes.len() as u64,
                Backing::Device { mapping, .. } => mapping.bytes(),
            };
            let offset = at - base;
            if offset >= size {
                break;
            }
            let step = (len - done).min((size - offset) as usize);
            if !one(backing, offset, done, step) {
                break;
            }
            done += step;
        }
        len - done
    }
}

impl UserMemory for Memory {
    fn read(&self, address: u64, data: &mut [u8]) -> usize {
        self.access(address, data.len(), |backing, offset, done, step| match backing {
            Backing::Bytes(bytes) => {
                data[done..done + step].copy_from_slice(&bytes[offset as usize..offset as usize + step]);
                true
            }
            Backing::Device { mapping, readable, private, .. } => {
                let target = &mut data[done..done + step];
                let read = *readable && mapping.read(offset, target);
                for (at, byte) in private.iter().flat_map(|p| p.range(offset..offset + step as u64)) {
                    target[(at - offset) as usize] = *byte;
                }
                read
            }
        })
    }

    fn write(&self, address: u64, data: &[u8]) -> usize {
        self.access(address, data.len(), |backing, offset, done, step| match backing {
            Backing::Bytes(bytes) => {
                bytes[offset as usize..offset as usize + step].copy_from_slice(&data[done..done + step]);
                true
            }
            Backing::Device { writable: false, .. } => false,
            Backing::Device { private: Some(private), .. } => {
                private.extend((offset..).zip(data[done..done + step].iter().copied()));
                true
            }
            Backing::Device { mapping, .. } => mapping.write(offset, &data[done..done + step]),
        })
    }
}

/// Numbers the recording program had in use before it opened a device.
const FIRST_FD: usize = 9;

/// Descriptor numbers of an actor: device files first, then buffers, as the recordings make them.
#[derive(Debug)]
struct Table {
    files: usize,
    buffers: Arc<Mutex<Vec<DmaBuf>>>,
}

impl Descriptors for Table {
    fn install(&self, buffer: DmaBuf) -> Option<i32> {
        let mut buffers = self.buffers.lock();
        buffers.push(buffer);
        i32::try_from(FIRST_FD + self.files + buffers.len() - 1).ok()
    }
}

/// One actor.
pub struct Process {
    /// Thread group.
    pub tgid: u32,
    /// User.
    pub uid: u32,
    /// Memory.
    pub memory: Arc<Memory>,
    /// Descriptors by name; `dup` and `fork` share files. Insertion order is number order.
    pub files: Vec<(String, Arc<File>)>,
    /// Buffers exported to it; they follow the files in number order.
    pub buffers: Arc<Mutex<Vec<DmaBuf>>>,
    /// Mappings by name: address and bytes.
    pub maps: BTreeMap<String, (u64, u64)>,
    /// Task of the call in flight.
    pub task: Arc<Task>,
    /// Last signal a handler saw.
    pub got_signal: i64,
    /// It exited or was killed.
    pub dead: bool,
}

impl Process {
    /// A new process of root.
    pub fn new(tgid: u32) -> Self {
        Self {
            tgid,
            uid: 0,
            memory: Arc::default(),
            files: Vec::new(),
            buffers: Arc::default(),
            maps: BTreeMap::new(),
            task: Task::new(),
            got_signal: 0,
            dead: false,
        }
    }

    /// A child: same memory content, same files, no mappings.
    pub fn fork(&self, tgid: u32) -> Self {
        Self { uid: self.uid, memory: Arc::new(self.memory.fork()), files: self.files.clone(), ..Self::new(tgid) }
    }

    /// Identity of a call in the main thread, or in a second one. Each call has a fresh task:
    /// signals that arrived before it were handled.
    pub fn caller(&mut self, second_thread: bool) -> Caller {
        self.task = Task::new();
        let tid = if second_thread { self.tgid + 1000 } else { self.tgid };
        // setuid to an ordinary user drops the capabilities.
        let descriptors: Arc<dyn Descriptors> =
            Arc::new(Table { files: self.files.len(), buffers: self.buffers.clone() });
        let (uid, task, descriptors) = (self.uid, self.task.clone(), Some(descriptors));
        Caller { tgid: self.tgid, tid, uid, raw_io: uid == 0, task, descriptors }
    }

    /// The file behind a name.
    pub fn file(&self, name: &str) -> Option<Arc<File>> {
        self.files.iter().find(|(n, _)| n == name).map(|(_, f)| f.clone())
    }

    /// Takes all descriptors and mappings away, as an exit does.
    pub fn take_all(&mut self) -> Vec<(String, Arc<File>)> {
        self.dead = true;
        let caller = self.caller(false);
        for (address, _) in std::mem::take(&mut self.maps).into_values() {
            self.memory.unmap(&caller, address);
        }
        std::mem::take(&mut self.files)
    }
}
