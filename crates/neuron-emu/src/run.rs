//! `neuron-emu run`: a program on an emulated instance of its own.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;

use rustix::event::PollFlags;

use crate::fuse::pool::MAX_THREADS;
use crate::keeper::{self, GO, Keeper, OWN_FAILURE};
use crate::machine::{Machine, MachineError, Wanted};
use crate::namespace::{self, NamespaceError, View};
use crate::publish::{NO_SHARING, PublishError, Published, publish};
use crate::signals::{Event, PASSED_ON, Signals, Woken};

/// Why the program was not started.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// No machine.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// No namespace.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// Not published.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// Something else of the system.
    #[error("cannot set up the run: {0}")]
    System(#[from] io::Error),
}

/// Result of a body that runs beside the main thread.
pub(crate) type Prepared<T, E> = mpsc::Receiver<Result<T, E>>;

/// Runs `body` in a thread, so that the main thread can watch for signals meanwhile: a probe may
/// take minutes when a fault asks for it. The event happens when the result is there.
pub(crate) fn beside<T: Send + 'static, E: Send + 'static>(
    body: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> io::Result<(Prepared<T, E>, Arc<Event>)> {
    let (sender, receiver) = mpsc::channel();
    let ready = Arc::new(Event::new()?);
    let raised = ready.clone();
    std::thread::Builder::new().name("neuron-start".into()).spawn(move || {
        // The main thread leaves only with the whole process.
        let _ = sender.send(body());
        raised.raise();
    })?;
    Ok((receiver, ready))
}

/// Runs a program; returns its exit status as a shell counts it.
///
/// # Errors
/// See [`RunError`]; the program was not started.
pub fn run(wanted: Wanted, command: &[OsString]) -> Result<u8, RunError> {
    namespace::enter()?;
    let signals = Signals::hold(&[&PASSED_ON[..], &[libc::SIGCHLD]].concat(), &[])?;
    // A shell that became this process may have had children of its own.
    let others = keeper::children();
    // What is left below a keeper that was killed comes to this process.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).map_err(io::Error::from)?;
    let mask = signals.before();
    let keeper = Keeper::fork(|socket| keeper::run(command, mask, socket))?;
    let (prepared, ready) = beside(move || prepare(&wanted))?;
    let published = loop {
        match signals.wait(&*ready, PollFlags::IN)? {
            Woken::Other => break prepared.recv().expect("the event follows the result")?,
            // Nothing is running yet and nothing outside was touched.
            Woken::Signal(signal) if signal.number != libc::SIGCHLD => return Ok(128 + signal.number as u8),
            Woken::Signal(_) => {}
        }
    };
    keeper.tell(GO)?;
    let never = Event::new()?;
    let status = loop {
        if let Some(status) = keeper.ended() {
            break status;
        }
        if let Woken::Signal(signal) = signals.wait(&never, PollFlags::IN)?
            && signal.number != libc::SIGCHLD
            && !signal.from_terminal
        {
            // A keeper that has just ended is seen above.
            let _ = keeper.tell(signal.number as u8);
        }
    };
    keeper::kill_below(&others);
    published.end();
    Ok(status.code().map_or(OWN_FAILURE, |code| code as u8))
}

fn prepare(wanted: &Wanted) -> Result<Published, RunError> {
    let machine = Machine::new(wanted)?;
    let devices: Vec<_> = machine.driver.devices().iter().map(|d| d.index).collect();
    let mut view = View::default();
    view.cover_dev()?;
    let published = publish(machine, Path::new(namespace::ROOT), MAX_THREADS)?;
    view.place_all(devices.into_iter())?;
    if published.server.sharing.is_none() {
        eprintln!("neuron-emu: {NO_SHARING}");
    }
    Ok(published)
}
