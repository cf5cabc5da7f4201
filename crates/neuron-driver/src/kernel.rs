//! Device files and real system calls.

use std::fs;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

use rustix::fs::{Access, AtFlags, Mode as FileMode, OFlags};
use rustix::io::Errno;
use rustix::ioctl::{IoctlOutput, Opcode};
use rustix::mm::{MapFlags, ProtFlags};

use crate::call::{Learned, patiently};
use crate::{Call, Cause, Driver, File, Mapping, Mode, Node, Result};

/// Bytes of a sysfs file that are read: a wrong path under an override must not fill memory.
const ATTRIBUTE: u64 = 4096;

/// The device files and sysfs of this machine, wherever they are mounted.
#[derive(Clone, Debug)]
pub struct KernelBackend {
    dev: PathBuf,
    sys: PathBuf,
}

impl KernelBackend {
    /// `dev` is the directory of the nodes, `sys` the mount point of sysfs. Nothing is opened.
    pub fn new(dev: impl Into<PathBuf>, sys: impl Into<PathBuf>) -> KernelBackend {
        KernelBackend { dev: dev.into(), sys: sys.into() }
    }

    fn path(&self, index: u32) -> PathBuf {
        self.dev.join(format!("neuron{index}"))
    }

    fn open_file(&self, index: u32, mode: Mode) -> Result<KernelFile> {
        let flags = OFlags::CLOEXEC
            | match mode {
                Mode::Full => OFlags::RDWR,
                Mode::Info => OFlags::RDONLY,
                Mode::Misc => OFlags::WRONLY,
            };
        let path = self.path(index);
        let open = || rustix::fs::open(&path, flags, FileMode::empty());
        let fd = patiently(|| open().map_err(|errno| Cause::of_open(errno).at(index, "open")))?;
        Ok(KernelFile { device: index, fd, process: std::process::id(), learned: Learned::default() })
    }
}

/// Ask the kernel whether this process has `mode` on `path`, with its effective ids; unlike reading
/// the mode bits this includes the device rules of a container.
fn access(path: &Path, mode: Access) -> rustix::io::Result<()> {
    rustix::fs::accessat(rustix::fs::CWD, path, mode, AtFlags::EACCESS)
}

impl Driver for KernelBackend {
    fn node(&self, index: u32) -> Node {
        let path = self.path(index);
        let usable = access(&path, Access::EXISTS).and_then(|()| access(&path, Access::READ_OK | Access::WRITE_OK));
        match usable {
            Ok(()) => Node::Ready,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Node::Missing,
            Err(errno) => Node::Denied(format!("{}: {}", path.display(), io::Error::from(errno))),
        }
    }

    fn open(&self, index: u32, mode: Mode) -> Result<Box<dyn File>> {
        Ok(Box::new(self.open_file(index, mode)?))
    }

    fn sysfs(&self, path: &str) -> io::Result<String> {
        let mut text = Vec::new();
        fs::File::open(self.sys.join(path))?.take(ATTRIBUTE).read_to_end(&mut text)?;
        Ok(String::from_utf8_lossy(&text).trim().to_owned())
    }

    fn sysfs_names(&self, path: &str) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(self.sys.join(path))?;
        entries.map(|entry| entry.map(|e| e.file_name().to_string_lossy().into_owned())).collect()
    }
}

struct KernelFile {
    device: u32,
    fd: OwnedFd,
    /// Who opened it.
    process: u32,
    learned: Learned,
}

/// A command for the kernel.
struct Raw {
    command: Opcode,
    argument: *mut rustix::ffi::c_void,
}

// SAFETY: the argument is that of a `Call`, whose maker vouches for the address and the command.
unsafe impl rustix::ioctl::Ioctl for Raw {
    type Output = IoctlOutput;
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        self.command
    }

    fn as_ptr(&mut self) -> *mut rustix::ffi::c_void {
        self.argument
    }

    unsafe fn output_from_ptr(result: IoctlOutput, _: *mut rustix::ffi::c_void) -> rustix::io::Result<IoctlOutput> {
        Ok(result)
    }
}

impl KernelFile {
    fn own(&self, what: &'static str) -> Result<()> {
        if self.process == std::process::id() { Ok(()) } else { Err(Cause::Forked.at(self.device, what)) }
    }
}

impl File for KernelFile {
    fn device(&self) -> u32 {
        self.device
    }

    fn call(&self, call: &mut Call<'_>) -> Result<u32> {
        self.own(call.name())?;
        let (command, argument) = (call.command(), call.image.as_mut_ptr().cast());
        // SAFETY: `image` is the argument struct of this command, exclusively borrowed, and any
        // address in it is that of the call's buffer with at least the length it states. The
        // driver reads and writes nothing else of this process.
        let asked = unsafe { rustix::ioctl::ioctl(&self.fd, Raw { command: command as Opcode, argument }) };
        asked.map(|result| result as u32).map_err(|errno| Cause::of_ioctl(call.op, errno).at(self.device, call.name()))
    }

    fn learned(&self) -> &Learned {
        &self.learned
    }

    fn map(&self, offset: u64, bytes: usize) -> Result<Mapping> {
        self.own("mmap")?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), bytes, protection, MapFlags::SHARED, &self.fd, offset) };
        let base = base.map_err(|errno| Cause::of_map(errno).at(self.device, "mmap"))?;
        let base = NonNull::new(base.cast()).ok_or(Cause::NotMappable.at(self.device, "mmap"))?;
        // SAFETY: just mapped, shared, with this length; the driver maps whole pages only.
        Ok(unsafe { Mapping::new(base, bytes, None) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use neuron_abi::kernel::args::DeviceBasicInfo;

    fn files() -> (tempfile::TempDir, KernelBackend) {
        let dir = tempfile::tempdir().unwrap();
        let backend = KernelBackend::new(dir.path(), dir.path());
        (dir, backend)
    }

    #[test]
    fn a_node_that_is_no_device_is_an_error_and_not_a_device() {
        let (dir, backend) = files();
        assert_eq!(backend.node(0), Node::Missing);
        assert_eq!(backend.open(0, Mode::Full).err().unwrap().cause, Cause::Missing);
        fs::write(dir.path().join("neuron0"), "").unwrap();
        assert_eq!(backend.node(0), Node::Ready);
        let file = backend.open(0, Mode::Full).unwrap();
        let asked = file.ask(
            neuron_abi::kernel::ioctl::Op::DeviceBasicInfo,
            &DeviceBasicInfo::default(),
            crate::call::Buffer::None,
        );
        assert_eq!(asked.unwrap_err().cause, Cause::UnknownCommand);
    }

    #[test]
    fn descriptors_are_closed_on_exec() {
        let (dir, backend) = files();
        fs::write(dir.path().join("neuron3"), "").unwrap();
        for mode in [Mode::Full, Mode::Info, Mode::Misc] {
            let flags = rustix::io::fcntl_getfd(&backend.open_file(3, mode).unwrap().fd).unwrap();
            assert!(flags.contains(rustix::io::FdFlags::CLOEXEC), "{mode:?}");
        }
    }

    #[test]
    fn a_file_of_another_process_is_not_used() {
        let (dir, _) = files();
        fs::write(dir.path().join("neuron0"), "").unwrap();
        let fd = rustix::fs::open(dir.path().join("neuron0"), OFlags::RDWR, FileMode::empty()).unwrap();
        let file: Box<dyn File> =
            Box::new(KernelFile { device: 0, fd, process: std::process::id() + 1, learned: Learned::default() });
        assert_eq!(file.map(0, 4096).err().unwrap().cause, Cause::Forked);
        assert_eq!(file.reset(1).unwrap_err().cause, Cause::Forked);
    }

    #[test]
    fn a_long_attribute_is_cut() {
        let (dir, backend) = files();
        fs::create_dir(dir.path().join("sub")).unwrap();
        fs::write(dir.path().join("sub/long"), "x".repeat(9999)).unwrap();
        fs::write(dir.path().join("sub/text"), " two words\n\n").unwrap();
        assert_eq!(backend.sysfs("sub/long").unwrap().len(), 4096);
        assert_eq!(backend.sysfs("sub/text").unwrap(), "two words");
        let mut names = backend.sysfs_names("sub").unwrap();
        names.sort();
        assert_eq!(names, ["long", "text"]);
        assert!(backend.sysfs("sub/none").is_err());
    }
}
