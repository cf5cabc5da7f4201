//! Requests of the kernel as calls of the driver.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use fuse_abi::linux as abi;
use neuron_kmd::caller::Caller;
use neuron_kmd::cdev::File;
use neuron_kmd::reply::Stop;
use neuron_kmd::sync::Task;
use parking_lot::{Mutex, RwLock};
use zerocopy::IntoBytes;

use crate::client::{self, Memory};
use crate::fuse::pool::Handler;
use crate::fuse::{Connection, Request};
use crate::machine::Machine;
use crate::mapped::{Mapped, Node as MappedNode};
use crate::tree::{Kind, Node, ROOT, Tree};
use crate::waiting::Waiting;

/// Bytes of an attribute that one read can give: a page, as in the kernel.
const ATTRIBUTE_BYTES: usize = 4096;

/// Seconds the kernel may keep a name: names do not go away while the mount lives.
const NAME_VALID: u64 = 3600;

/// Seconds the kernel may keep owner and mode; a change goes through the kernel anyway.
const ATTR_VALID: u64 = 1;

/// How device files share memory with their clients.
pub struct Sharing {
    /// Number of each device's memory file with the kernel.
    pub backing: HashMap<u32, i32>,
    /// Files that are closed but mapped.
    pub mapped: Arc<Mapped>,
}

enum Handle {
    Device {
        file: Arc<File>,
        inode: u64,
        /// Thread groups that used it.
        clients: Mutex<Vec<u32>>,
    },
    Attribute {
        /// What a read from the start gave; later parts come from it.
        text: Mutex<Vec<u8>>,
    },
}

/// The server of one mount.
pub struct Server {
    /// What is published.
    pub machine: Machine,
    /// Its names.
    pub tree: Tree,
    /// Calls in flight.
    pub waiting: Arc<Waiting>,
    /// Shared mappings, where the kernel and the rights allow them.
    pub sharing: Option<Sharing>,
    /// Device number of the mount, once it is known.
    pub device_number: OnceLock<u64>,
    handles: RwLock<HashMap<u64, Arc<Handle>>>,
    next_handle: AtomicU64,
    started: u64,
}

type Answer = Result<Body, i32>;

/// What goes back to the kernel.
enum Body {
    Bytes(Vec<u8>),
    Empty,
    /// Nothing: the request takes no answer.
    None,
}

fn body(answer: &(impl IntoBytes + zerocopy::Immutable)) -> Answer {
    Ok(Body::Bytes(answer.as_bytes().to_vec()))
}

fn errno(stop: &Stop) -> i32 {
    (-stop.as_return()).clamp(1, 511) as i32
}

impl Server {
    /// A server for a machine.
    pub fn new(machine: Machine, waiting: Arc<Waiting>, sharing: Option<Sharing>) -> Self {
        Self {
            tree: Tree::new(machine.driver.clone()),
            machine,
            waiting,
            sharing,
            device_number: OnceLock::new(),
            handles: RwLock::default(),
            next_handle: AtomicU64::new(1),
            started: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()),
        }
    }

    /// Files that are open now.
    pub fn open_files(&self) -> usize {
        self.handles.read().len()
    }

    fn attr(&self, inode: u64, node: &Node) -> abi::fuse_attr {
        let dir = node.kind == Kind::Dir;
        let size = match &node.kind {
            Kind::Attribute(_) => ATTRIBUTE_BYTES as u64,
            Kind::Link(target) => target.len() as u64,
            _ => 0,
        };
        abi::fuse_attr {
            ino: inode,
            size,
            atime: self.started,
            mtime: self.started,
            ctime: self.started,
            mode: node.mode(),
            nlink: if dir { 2 } else { 1 },
            uid: node.owner.uid,
            gid: node.owner.gid,
            blksize: 4096,
            ..Default::default()
        }
    }

    fn entry(&self, (inode, node): (u64, Node)) -> Answer {
        body(&abi::fuse_entry_out {
            nodeid: inode,
            generation: 0,
            entry_valid: NAME_VALID,
            attr_valid: ATTR_VALID,
            entry_valid_nsec: 0,
            attr_valid_nsec: 0,
            attr: self.attr(inode, &node),
        })
    }

    fn attributes(&self, inode: u64) -> Answer {
        let node = self.tree.node(inode).ok_or(libc::ENOENT)?;
        let attr = self.attr(inode, &node);
        body(&abi::fuse_attr_out { attr_valid: ATTR_VALID, attr_valid_nsec: 0, dummy: 0, attr })
    }

    fn lookup(&self, parent: u64, name: &[u8]) -> Answer {
        let name = std::str::from_utf8(name).map_err(|_| libc::ENOENT)?;
        self.entry(self.tree.lookup(parent, name).ok_or(libc::ENOENT)?)
    }

    /// `chmod` and `chown` are kept; the size of a node cannot be set, that of an attribute is
    /// not looked at.
    fn setattr(&self, inode: u64, change: &abi::fuse_setattr_in) -> Answer {
        let node = self.tree.node(inode).ok_or(libc::ENOENT)?;
        if change.valid & FATTR_SIZE != 0 && matches!(node.kind, Kind::Device(_)) {
            return Err(libc::EINVAL);
        }
        self.tree.set_owner(inode, |owner| {
            if change.valid & FATTR_MODE != 0 {
                owner.mode = change.mode & 0o7777;
            }
            if change.valid & FATTR_UID != 0 {
                owner.uid = change.uid;
            }
            if change.valid & FATTR_GID != 0 {
                owner.gid = change.gid;
            }
        });
        self.attributes(inode)
    }

    /// The control socket is the only node that can be made, and only by this process.
    fn mknod(&self, header: &abi::fuse_in_header, mode: u32, name: &[u8]) -> Answer {
        let ours = header.pid != 0 && client::thread_group(header.pid) == Some(std::process::id());
        let socket = header.nodeid == ROOT && mode & libc::S_IFMT == libc::S_IFSOCK;
        if !(ours && socket && name == crate::tree::CONTROL.as_bytes()) {
            return Err(libc::EACCES);
        }
        if !self.tree.add_socket() {
            return Err(libc::EEXIST);
        }
        self.lookup(ROOT, name)
    }

    fn list(&self, inode: u64, read: &abi::fuse_read_in) -> Answer {
        let listed = self.tree.list(inode).ok_or(libc::ENOENT)?;
        let mut out = Vec::new();
        let dots = [(inode, ".".to_owned(), libc::S_IFDIR), (inode, "..".to_owned(), libc::S_IFDIR)];
        let named = listed.into_iter().map(|(inode, node)| {
            let name = node.path.rsplit('/').next().unwrap_or_default().to_owned();
            (inode, name, node.mode() & libc::S_IFMT)
        });
        for (place, (inode, name, kind)) in dots.into_iter().chain(named).enumerate().skip(read.offset as usize) {
            let bytes = (DIRENT + name.len()).next_multiple_of(8);
            if out.len() + bytes > read.size as usize {
                break;
            }
            let end = out.len() + bytes;
            out.extend(inode.to_ne_bytes());
            out.extend((place as u64 + 1).to_ne_bytes());
            out.extend((name.len() as u32).to_ne_bytes());
            out.extend((kind >> 12).to_ne_bytes());
            out.extend(name.as_bytes());
            out.resize(end, 0);
        }
        Ok(Body::Bytes(out))
    }

    fn add(&self, handle: Handle, open_flags: u32, backing_id: i32) -> Answer {
        let fh = self.next_handle.fetch_add(1, Ordering::Relaxed);
        self.handles.write().insert(fh, Arc::new(handle));
        body(&abi::fuse_open_out { fh, open_flags, backing_id })
    }

    fn handle(&self, fh: u64) -> Result<Arc<Handle>, i32> {
        self.handles.read().get(&fh).cloned().ok_or(libc::EBADF)
    }

    /// Identity of the calling thread, as the driver wants it.
    fn caller(&self, header: &abi::fuse_in_header, task: Arc<Task>) -> Result<Caller, i32> {
        // A process outside of the namespace of this server has no number here, and the tables
        // of the driver need one.
        let tgid = client::thread_group(header.pid).filter(|tgid| *tgid != 0).ok_or(libc::EPERM)?;
        // Raw mappings are never asked for here: the kernel does not say when something is mapped.
        Ok(Caller { tgid, tid: header.pid, uid: header.uid, raw_io: false, task, descriptors: None })
    }

    fn open(&self, header: &abi::fuse_in_header, flags: i32) -> Answer {
        let node = self.tree.node(header.nodeid).ok_or(libc::ENOENT)?;
        match node.kind {
            Kind::Device(index) => {
                let task = Task::new();
                let _entry = self.waiting.enter(header.unique, header.pid, task.clone());
                let caller = self.caller(header, task)?;
                self.look_at_mappings();
                let file = self.machine.driver.open(index, flags, &caller).map_err(|stop| errno(&stop))?;
                let clients = Mutex::new(vec![caller.tgid]);
                let handle = Handle::Device { file, inode: header.nodeid, clients };
                // Not "non-seekable" as well: the kernel refuses that together with a passthrough.
                let direct = abi::FOPEN_DIRECT_IO;
                match self.sharing.as_ref().and_then(|s| s.backing.get(&index)) {
                    Some(id) => self.add(handle, direct | abi::FOPEN_PASSTHROUGH, *id),
                    None => self.add(handle, direct, 0),
                }
            }
            Kind::Attribute(_) => {
                // The kernel refuses these even to root, and only after its own test of the mode.
                let mode = flags & libc::O_ACCMODE;
                if mode != libc::O_RDONLY && node.owner.mode & 0o222 == 0
                    || mode != libc::O_WRONLY && node.owner.mode & 0o444 == 0
                {
                    return Err(libc::EACCES);
                }
                self.add(Handle::Attribute { text: Mutex::default() }, abi::FOPEN_DIRECT_IO, 0)
            }
            _ => Err(libc::EINVAL),
        }
    }

    fn look_at_mappings(&self) {
        if let Some(sharing) = &self.sharing {
            sharing.mapped.look_again();
        }
    }

    fn read(&self, header: &abi::fuse_in_header, read: &abi::fuse_read_in) -> Answer {
        let handle = self.handle(read.fh)?;
        let text = match &*handle {
            Handle::Device { file, .. } => return file.read().map(|_| Body::Empty).map_err(|stop| errno(&stop)),
            Handle::Attribute { text } => text,
        };
        if read.offset == 0 {
            let node = self.tree.node(header.nodeid).ok_or(libc::ENOENT)?;
            let task = Task::new();
            let _entry = self.waiting.enter(header.unique, header.pid, task.clone());
            let fresh = match self.tree.text(node.sysfs_path()) {
                Some(text) => text,
                None => {
                    let caller = self.attribute_caller(header, task)?;
                    self.tree.sysfs().read(node.sysfs_path(), &caller).map_err(|e| e.0)?
                }
            };
            let mut fresh = fresh.into_bytes();
            fresh.truncate(ATTRIBUTE_BYTES);
            *text.lock() = fresh;
        }
        let text = text.lock();
        let start = text.len().min(read.offset as usize);
        let end = text.len().min(start + read.size as usize);
        Ok(Body::Bytes(text[start..end].to_vec()))
    }

    /// The kernel tested the mode when the file was opened, for the user of that time.
    fn attribute_caller(&self, header: &abi::fuse_in_header, task: Arc<Task>) -> Result<Caller, i32> {
        Ok(Caller { uid: 0, ..self.caller(header, task)? })
    }

    fn write(&self, header: &abi::fuse_in_header, write: &abi::fuse_write_in, data: &[u8]) -> Answer {
        let handle = self.handle(write.fh)?;
        if let Handle::Device { file, .. } = &*handle {
            return file.write().map(|_| Body::Empty).map_err(|stop| errno(&stop));
        }
        let node = self.tree.node(header.nodeid).ok_or(libc::ENOENT)?;
        let task = Task::new();
        let _entry = self.waiting.enter(header.unique, header.pid, task.clone());
        let caller = self.attribute_caller(header, task)?;
        self.look_at_mappings();
        let data = data.get(..write.size as usize).ok_or(libc::EIO)?;
        let taken = self.tree.sysfs().write(node.sysfs_path(), data, &caller).map_err(|e| e.0)?;
        body(&abi::fuse_write_out { size: taken as u32, padding: 0 })
    }

    fn ioctl(&self, header: &abi::fuse_in_header, call: &abi::fuse_ioctl_in) -> Answer {
        let handle = self.handle(call.fh)?;
        let Handle::Device { file, clients, .. } = &*handle else { return Err(libc::ENOTTY) };
        // The driver has no entry for 32-bit callers. The other test: flag commands of the file
        // system layer never get to a device, but the kernel brings them here.
        if call.flags & abi::FUSE_IOCTL_COMPAT != 0 || call.cmd >> 8 & 0xff == u32::from(b'f') {
            return Err(libc::ENOTTY);
        }
        let task = Task::new();
        let _entry = self.waiting.enter(header.unique, header.pid, task.clone());
        let caller = self.caller(header, task)?;
        {
            let mut clients = clients.lock();
            if !clients.contains(&caller.tgid) {
                clients.push(caller.tgid);
            }
        }
        let result = match file.ioctl(&caller, &Memory::of(header.pid), call.cmd, call.arg) {
            Ok(result) => result,
            Err(stop) => {
                if let Stop::Bug(bug) = &stop {
                    oops(caller.tgid, &bug.text);
                }
                stop.as_return()
            }
        };
        // Error numbers go back as a result too: the header takes none above 511, and the driver
        // lets 524 escape.
        body(&abi::fuse_ioctl_out { result: result as i32, flags: 0, in_iovs: 0, out_iovs: 0 })
    }

    fn flush(&self, header: &abi::fuse_in_header, fh: u64) -> Answer {
        let handle = self.handle(fh)?;
        if let Handle::Device { file, .. } = &*handle {
            let task = Task::new();
            let _entry = self.waiting.enter(header.unique, header.pid, task.clone());
            let caller = self.caller(header, task)?;
            file.flush(&caller);
            self.look_at_mappings();
        }
        Ok(Body::Empty)
    }

    fn release(&self, fh: u64) -> Answer {
        let handle = self.handles.write().remove(&fh);
        if let Some(Handle::Device { file, inode, clients }) = handle.and_then(Arc::into_inner)
            && let (Some(sharing), Some(device)) = (&self.sharing, self.device_number.get())
        {
            sharing.mapped.release(file, MappedNode { device: *device, inode }, &clients.into_inner());
        }
        Ok(Body::Empty)
    }

    fn dispatch(&self, connection: &Connection, request: &Request<'_>) -> Answer {
        use abi::fuse_opcode as op;
        const fn is(opcode: u32, code: op) -> bool {
            opcode == code as u32
        }
        let header = &request.header;
        let code = header.opcode;
        match code {
            _ if is(code, op::FUSE_IOCTL) => self.ioctl(header, &request.argument()?.0),
            _ if is(code, op::FUSE_LOOKUP) => self.lookup(header.nodeid, Request::name(request.body()).as_bytes()),
            _ if is(code, op::FUSE_FORGET) || is(code, op::FUSE_BATCH_FORGET) => Ok(Body::None),
            _ if is(code, op::FUSE_GETATTR) => self.attributes(header.nodeid),
            _ if is(code, op::FUSE_SETATTR) => self.setattr(header.nodeid, &request.argument()?.0),
            _ if is(code, op::FUSE_READLINK) => match self.tree.node(header.nodeid).map(|n| n.kind) {
                Some(Kind::Link(target)) => Ok(Body::Bytes(target.into_bytes())),
                _ => Err(libc::EINVAL),
            },
            _ if is(code, op::FUSE_MKNOD) => {
                let (node, name) = request.argument::<abi::fuse_mknod_in>()?;
                self.mknod(header, node.mode, Request::name(name).as_bytes())
            }
            _ if is(code, op::FUSE_OPEN) => self.open(header, request.argument::<abi::fuse_open_in>()?.0.flags as i32),
            _ if is(code, op::FUSE_READ) => self.read(header, &request.argument()?.0),
            _ if is(code, op::FUSE_WRITE) => {
                let (write, data) = request.argument::<abi::fuse_write_in>()?;
                self.write(header, &write, data)
            }
            _ if is(code, op::FUSE_FLUSH) => self.flush(header, request.argument::<abi::fuse_flush_in>()?.0.fh),
            _ if is(code, op::FUSE_RELEASE) => self.release(request.argument::<abi::fuse_release_in>()?.0.fh),
            _ if is(code, op::FUSE_OPENDIR) => body(&abi::fuse_open_out::default()),
            _ if is(code, op::FUSE_READDIR) => self.list(header.nodeid, &request.argument()?.0),
            _ if is(code, op::FUSE_RELEASEDIR) || is(code, op::FUSE_DESTROY) => Ok(Body::Empty),
            _ if is(code, op::FUSE_STATFS) => {
                body(&abi::fuse_kstatfs { bsize: 4096, namelen: 255, ..Default::default() })
            }
            _ if is(code, op::FUSE_INTERRUPT) => {
                let unique = request.argument::<abi::fuse_interrupt_in>()?.0.unique;
                if !self.waiting.interrupt(unique) {
                    // Another thread may hold the request and not have entered it yet: the kernel
                    // asks again as long as it is not answered.
                    connection.fail(header.unique, libc::EAGAIN);
                }
                Ok(Body::None)
            }
            // What a character device without these operations answers.
            _ if is(code, op::FUSE_FSYNC) => Err(libc::EINVAL),
            _ if is(code, op::FUSE_FALLOCATE) => Err(libc::ENODEV),
            _ if is(code, op::FUSE_CREATE) => Err(libc::EACCES),
            _ if [op::FUSE_UNLINK, op::FUSE_RMDIR, op::FUSE_MKDIR, op::FUSE_SYMLINK, op::FUSE_LINK]
                .iter()
                .chain(&[op::FUSE_RENAME, op::FUSE_RENAME2])
                .any(|c| *c as u32 == code) =>
            {
                Err(libc::EPERM)
            }
            // Without a poll operation the kernel reports every file readable and writable.
            _ => Err(libc::ENOSYS),
        }
    }
}

/// The real driver takes the calling process down with an oops; so does this.
fn oops(tgid: u32, text: &str) {
    eprintln!("neuron-emu: process {tgid} is killed where the real driver would oops: {text}");
    if let Some(process) = rustix::process::Pid::from_raw(tgid as i32) {
        // Without the right to, the error number has to do.
        let _ = rustix::process::kill_process(process, rustix::process::Signal::KILL);
    }
}

/// `FATTR_*` of the protocol.
const FATTR_MODE: u32 = 1 << 0;
const FATTR_UID: u32 = 1 << 1;
const FATTR_GID: u32 = 1 << 2;
const FATTR_SIZE: u32 = 1 << 3;

/// Bytes of a directory entry before its name.
const DIRENT: usize = 24;

impl Handler for Server {
    fn refuse(&self, connection: &Connection, request: &Request<'_>) -> bool {
        let header = &request.header;
        let may =
            [abi::fuse_opcode::FUSE_OPEN, abi::fuse_opcode::FUSE_IOCTL].iter().any(|c| *c as u32 == header.opcode);
        if may {
            connection.fail(header.unique, libc::EAGAIN);
        }
        may
    }

    fn handle(&self, connection: &Connection, request: &Request<'_>) {
        let unique = request.header.unique;
        match self.dispatch(connection, request) {
            Ok(Body::Bytes(bytes)) => connection.answer(unique, &bytes),
            Ok(Body::Empty) => connection.answer(unique, &[]),
            Ok(Body::None) => {}
            Err(errno) => connection.fail(unique, errno),
        }
    }
}
