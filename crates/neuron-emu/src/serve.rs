//! `neuron-emu serve`: an instance for any number of processes.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::event::PollFlags;
use rustix::fs::{FlockOperation, flock};

use crate::fuse::mount;
use crate::fuse::pool::MAX_THREADS;
use crate::keeper::{self, Keeper};
use crate::machine::{Machine, MachineError, Wanted};
use crate::publish::{NO_SHARING, PublishError, Published, publish};
use crate::run::beside;
use crate::signals::{Signals, Woken};

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The directory cannot be used.
    #[error("cannot use {}: {error}; give a directory that you may make or that is empty", path.display())]
    Root {
        /// The directory.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// It holds something.
    #[error("{} is not empty; give an empty directory, or one that does not exist", .0.display())]
    NotEmpty(PathBuf),
    /// Another instance is there.
    #[error("{} has an instance already; give another directory, or stop that one first", .0.display())]
    InUse(PathBuf),
    /// No machine.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// Not published.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// Something else of the system.
    #[error("cannot serve: {0}")]
    System(#[from] io::Error),
}

/// The directory an instance is published in.
struct Root {
    path: PathBuf,
    made: bool,
}

impl Root {
    fn prepare(path: &Path) -> Result<Self, ServeError> {
        let failed = |error| ServeError::Root { path: path.to_owned(), error };
        let absolute = std::path::absolute(path).map_err(failed)?;
        if mount::mounted(&absolute) {
            if fs::metadata(&absolute).is_ok() {
                return Err(ServeError::InUse(absolute));
            }
            // What a killed emulator left.
            mount::unmount(&absolute).map_err(failed)?;
        }
        let made = match fs::create_dir(&absolute) {
            Ok(()) => true,
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => false,
            Err(e) => return Err(failed(e)),
        };
        let path = fs::canonicalize(&absolute).map_err(failed)?;
        if mount::mounted(&path) {
            return Err(ServeError::InUse(path));
        }
        if fs::read_dir(&path).map_err(failed)?.next().is_some() {
            return Err(ServeError::NotEmpty(path));
        }
        Ok(Self { path, made })
    }

    /// Holds others off that start at the same time, as long as the result lives. Not inherited
    /// by the helper: that one may still be cleaning up when the next instance starts.
    fn lock(&self) -> Result<fs::File, ServeError> {
        let lock = fs::File::open(&self.path)?;
        let held = flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok();
        if held && !mount::mounted(&self.path) { Ok(lock) } else { Err(ServeError::InUse(self.path.clone())) }
    }

    fn leave(&self) {
        if self.made {
            // Somebody may have put something there.
            let _ = fs::remove_dir(&self.path);
        }
    }
}

/// A word as a shell takes it.
pub(crate) fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,:@%".contains(c);
    if text.chars().all(plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// Publishes an instance at `root` until SIGTERM, SIGINT or SIGHUP comes, somebody takes the mount
/// away, or `tied_to`, if given, comes to its end. Says on `out` when it is ready.
///
/// # Errors
/// See [`ServeError`].
pub fn serve(wanted: Wanted, root: &Path, tied_to: Option<io::Stdin>, out: &mut dyn Write) -> Result<(), ServeError> {
    let root = Root::prepare(root)?;
    let signals = Signals::hold(&[libc::SIGTERM, libc::SIGINT, libc::SIGHUP], &[])?;
    let keeper = Keeper::fork(|mut socket| keeper::sweep(&root.path, root.made, &mut socket))?;
    let result = root.lock().and_then(|_lock| {
        if let Some(input) = tied_to {
            terminate_at_the_end_of(input)?;
        }
        let result = served(wanted, &root, &signals, out);
        root.leave();
        result
    });
    // Everything is in order; a helper that is gone does not need to know.
    let _ = keeper.tell(keeper::GO);
    result
}

/// The end of `input` is one more SIGTERM, so that every wait that hears signals hears of it too.
fn terminate_at_the_end_of(mut input: io::Stdin) -> io::Result<()> {
    let watch = move || {
        // One that cannot be read has nobody at its other end either.
        let _ = io::copy(&mut input, &mut io::sink());
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TERM);
    };
    std::thread::Builder::new().name("neuron-stdin".into()).spawn(watch).map(drop)
}

fn served(wanted: Wanted, root: &Root, signals: &Signals, out: &mut dyn Write) -> Result<(), ServeError> {
    let path = root.path.clone();
    let (prepared, ready) = beside(move || -> Result<Published, ServeError> {
        let machine = Machine::new(&wanted)?;
        Ok(publish(machine, &path, MAX_THREADS)?)
    })?;
    let published = match signals.wait(&*ready, PollFlags::IN)? {
        Woken::Other => prepared.recv().expect("the event follows the result")?,
        Woken::Signal(_) => {
            // The mount may have been made in this moment.
            if mount::mounted(&root.path) {
                mount::unmount(&root.path)?;
            }
            return Ok(());
        }
    };
    if published.server.sharing.is_none() {
        eprintln!("neuron-emu: {NO_SHARING}");
    }
    let machine = &published.server.machine;
    let said = writeln!(
        out,
        "ready: {}, {} devices, driver {}; export OPENNRT_DEV_DIR={} OPENNRT_SYS_DIR={}",
        machine.product.name,
        machine.driver.devices().len(),
        machine.driver.env().profile.version(),
        quoted(&published.root.join("dev").to_string_lossy()),
        quoted(&published.root.join("sys").to_string_lossy()),
    )
    .and_then(|()| out.flush());
    // A reader that went away does not want an instance either.
    let ended = said.and_then(|()| until_the_end(signals, &root.path));
    published.end();
    Ok(ended?)
}

/// Waits for a signal, or until the mount is gone: the control socket lies in the mount and keeps
/// it alive, so the kernel does not tell through the device.
fn until_the_end(signals: &Signals, root: &Path) -> io::Result<()> {
    // A change of the mounts is an exceptional condition of this file.
    let mounts = fs::File::open("/proc/self/mountinfo")?;
    while mount::mounted(root) {
        if signals.wait(&mounts, PollFlags::PRI)? != Woken::Other {
            return Ok(());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_quoted_only_where_a_shell_needs_it() {
        assert_eq!(quoted("/tmp/x-1/dev"), "/tmp/x-1/dev");
        assert_eq!(quoted("/tmp/it's"), r"'/tmp/it'\''s'");
    }
}
