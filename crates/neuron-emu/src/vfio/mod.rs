//! `neuron-emu vfio-user`: the PCI devices of a product for virtual machines, one socket each.
//!
//! The machine brings the driver: only the silicon is emulated. A device has a thread of its own,
//! which takes one machine after another. Everything that a machine does to a device comes through
//! the socket, in order, except what it does to device memory, which it maps.

mod function;
mod guest;

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixListener;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use neuron_hw::{Host, Silicon};
use neuron_kmd::instance;
use neuron_kmd::time::{Clock, RealClock};
use rustix::event::PollFlags;
use rustix::fs::{FlockOperation, flock};
use serde_json::json;

use crate::faults::{FaultError, Order};
use crate::machine::{self, MachineError};
use crate::serve::quoted;
use crate::signals::{Event, Signals, Woken};
use function::Function;
use guest::GuestRam;

/// What to serve.
#[derive(Clone, Debug)]
pub struct Devices {
    /// Product name, such as `trn1.32xlarge`.
    pub instance: String,
    /// Memory of one device; `None` is what the product has.
    pub hbm_mib: Option<u32>,
    /// Faults from the start.
    pub faults: Vec<Order>,
}

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
pub enum VfioError {
    /// The directory cannot be used.
    #[error("cannot use {}: {error}; give a directory that you may write to with --socket-dir", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// Another emulator serves there.
    #[error("{} has the sockets of another neuron-emu; give another directory, or stop that one first", .0.display())]
    InUse(PathBuf),
    /// A socket cannot be made.
    #[error("cannot listen at {}: {error}; give a directory with a shorter name, without a file of that name", path.display())]
    Socket {
        /// The socket.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// No devices.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// A fault for a device that is not there.
    #[error(transparent)]
    Fault(#[from] FaultError),
    /// A device takes no machine any more.
    #[error("a device cannot be served any more; its own line says why")]
    Stopped,
    /// Something else of the system.
    #[error("cannot serve: {0}")]
    System(#[from] io::Error),
}

/// The directory of the sockets. What was made in it is removed at the end.
struct Sockets {
    dir: PathBuf,
    made: bool,
    paths: Vec<PathBuf>,
    /// Holds others off as long as it is open, and no longer when this process is killed.
    _lock: fs::File,
}

impl Sockets {
    fn prepare(dir: &Path) -> Result<Self, VfioError> {
        let failed = |error| VfioError::Directory { path: dir.to_owned(), error };
        let made = match fs::create_dir(dir) {
            Ok(()) => true,
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => false,
            Err(e) => return Err(failed(e)),
        };
        let dir = fs::canonicalize(dir).map_err(failed)?;
        let lock = fs::read_dir(&dir).and_then(|_| fs::File::open(&dir)).map_err(failed)?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(VfioError::InUse(dir));
        }
        Ok(Self { dir, made, paths: Vec::new(), _lock: lock })
    }

    fn listen(&mut self, number: usize) -> Result<UnixListener, VfioError> {
        let path = self.dir.join(format!("neuron{number}.sock"));
        // Under the lock a socket of that name can only be what a killed emulator left.
        if fs::symlink_metadata(&path).is_ok_and(|m| m.file_type().is_socket()) {
            let _ = fs::remove_file(&path);
        }
        let listener = UnixListener::bind(&path).map_err(|error| VfioError::Socket { path: path.clone(), error })?;
        self.paths.push(path);
        Ok(listener)
    }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        for path in &self.paths {
            let _ = fs::remove_file(path);
        }
        if self.made {
            // Somebody may have put something there.
            let _ = fs::remove_dir(&self.dir);
        }
    }
}

/// A line about a device. When nobody reads standard error there is nobody to tell.
fn say(number: usize, what: &str) {
    let _ = writeln!(io::stderr(), "neuron-emu: device {number} {what}");
}

/// Arguments that give the devices to QEMU.
fn qemu_arguments(paths: &[PathBuf]) -> String {
    let device = |path: &PathBuf| {
        let device = json!({ "driver": "vfio-user-pci", "socket": { "type": "unix", "path": path.to_string_lossy() } });
        format!(" -device {}", quoted(&device.to_string()))
    };
    let memory = "-object memory-backend-memfd,id=mem,size=4G,share=on -machine q35,memory-backend=mem";
    memory.to_owned() + &paths.iter().map(device).collect::<String>()
}

/// Serves the devices of a product in `dir` until SIGTERM, SIGINT or SIGHUP comes. Says on `out`
/// when it is ready: a line with the number of devices, and a line of arguments for QEMU.
///
/// # Errors
/// See [`VfioError`].
pub fn serve(wanted: &Devices, dir: &Path, out: &mut dyn Write) -> Result<(), VfioError> {
    let product = machine::product(&wanted.instance, wanted.hbm_mib)?;
    let signals = Signals::hold(&[libc::SIGTERM, libc::SIGINT, libc::SIGHUP], &[])?;
    let clock: Arc<dyn Clock> = RealClock::new();
    let failed = |error| MachineError::System { instance: product.name, error };
    let rams = (0..product.devices).map(|_| GuestRam::new().map(Arc::new)).collect::<io::Result<Vec<_>>>();
    let rams = rams.map_err(failed)?;
    let bus: Vec<Arc<Silicon>> =
        instance::devices(product, wanted.hbm_mib, &clock, |index| Host::Other(rams[index as usize].clone()))
            .map_err(failed)?;
    for order in &wanted.faults {
        machine::inject(&bus, order)?;
    }
    let mut sockets = Sockets::prepare(dir)?;
    hush();
    let stopped = Arc::new(Event::new()?);
    for (number, (silicon, ram)) in bus.into_iter().zip(rams).enumerate() {
        let function = Function { number, silicon, ram };
        let listener = sockets.listen(number)?;
        let server = vfio_user::Server::from_owned_fd(listener.into(), true, Function::irqs(), function.regions());
        let stopped = stopped.clone();
        std::thread::Builder::new().name(format!("device {number}")).spawn(move || {
            let error = attend(function, &server);
            say(number, &format!("takes no machine any more: {error}"));
            stopped.raise();
        })?;
    }
    let count = sockets.paths.len();
    let devices = if count == 1 { "1 device" } else { &format!("{count} devices") };
    let said = writeln!(
        out,
        "ready: {}, {devices}; sockets {}; give them to QEMU 10.1 or later with\n{}",
        product.name,
        quoted(&sockets.dir.join("neuron*.sock").to_string_lossy()),
        qemu_arguments(&sockets.paths)
    );
    // A reader that went away does not want devices either.
    said.and_then(|()| out.flush())?;
    match signals.wait(&*stopped, PollFlags::IN)? {
        Woken::Signal(_) => Ok(()),
        Woken::Other => Err(VfioError::Stopped),
    }
}

/// Lets the protocol code panic without a word: [`attend`] has a sentence for it.
fn hush() {
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let protocol = info.location().is_some_and(|l| l.file().contains("vfio_user"));
        // Release builds find out about a size below its header only when they ask for the memory.
        if !protocol && info.payload_as_str() != Some("capacity overflow") {
            before(info);
        }
    }));
}

/// Takes one machine after another; returns what keeps it from taking the next.
fn attend(mut function: Function, server: &vfio_user::Server) -> io::Error {
    loop {
        // The protocol code panics on some messages that no machine sends.
        let ended = catch_unwind(AssertUnwindSafe(|| server.run(&mut function)));
        if let Err(error) = function.leave() {
            return error;
        }
        let number = function.number;
        match ended {
            Ok(Ok(())) => {}
            Ok(Err(vfio_user::Error::SocketAccept(error))) => return error,
            Ok(Err(error)) => say(number, &format!("lost its machine: {error}; it takes the next one")),
            Err(_) => say(number, "was sent a message that is none; it takes the next machine"),
        }
    }
}
