//! The helper process that cleans up when the emulator is killed.
//!
//! It is forked before any thread exists and holds one end of a socket. The end of the emulator,
//! however it comes, is the end of that socket.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus};

use rustix::event::PollFlags;
use rustix::process::{Pid, Signal as Kill, WaitOptions};

use crate::signals::{PASSED_ON, Signals, Woken};

/// Exit status when the program to run does not exist.
pub const MISSING: u8 = 127;
/// Exit status when it exists and cannot be run.
pub const CANNOT_RUN: u8 = 126;
/// Exit status for failures of the emulator itself.
pub const OWN_FAILURE: u8 = 125;

/// The helper as its parent sees it.
pub struct Keeper {
    /// Its process.
    pub pid: Pid,
    socket: UnixStream,
}

impl Keeper {
    /// Forks; the child runs `body` and ends with the number it returns.
    ///
    /// # Errors
    /// What the system says.
    ///
    /// # Panics
    /// When other threads run already: a fork would leave their locks behind.
    pub fn fork(body: impl FnOnce(UnixStream) -> u8) -> io::Result<Self> {
        let threads = fs::read_dir("/proc/self/task")?.count();
        assert_eq!(threads, 1, "the helper is forked before any thread starts");
        let (ours, theirs) = UnixStream::pair()?;
        // SAFETY: there is one thread, so the child may do what any process may.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                drop(ours);
                let status = body(theirs);
                // SAFETY: ends this process; exit handlers belong to the parent.
                unsafe { libc::_exit(i32::from(status)) }
            }
            pid => Ok(Self { pid: Pid::from_raw(pid).expect("a process id is not 0"), socket: ours }),
        }
    }

    /// Sends one byte.
    ///
    /// # Errors
    /// When the helper is gone.
    pub fn tell(&self, byte: u8) -> io::Result<()> {
        (&self.socket).write_all(&[byte])
    }

    /// The exit status, once it has ended.
    pub fn ended(&self) -> Option<ExitStatus> {
        let status = rustix::process::waitpid(Some(self.pid), WaitOptions::NOHANG).ok()??.1;
        Some(ExitStatus::from_raw(status.as_raw()))
    }
}

/// Byte that starts the program.
pub const GO: u8 = 0;

/// Exit status as a shell counts it.
pub fn shell_status(status: ExitStatus) -> u8 {
    match status.code() {
        Some(code) => code as u8,
        None => 128 + status.signal().unwrap_or(0) as u8,
    }
}

/// Body of the helper of `serve`: waits for the end of the emulator and takes a mount away that
/// it left.
pub fn sweep(root: &Path, made: bool, socket: &mut UnixStream) -> u8 {
    let _held = Signals::hold(&[], &PASSED_ON);
    let mut byte = [0];
    // A byte says that everything is in order. A mount that answers belongs to the next one.
    if matches!(socket.read(&mut byte), Ok(0) | Err(_)) {
        if fs::metadata(root).is_err() {
            let _ = crate::fuse::mount::unmount(root);
        }
        if made {
            let _ = fs::remove_dir(root);
        }
    }
    0
}

/// Body of the helper of `run`: starts the program when told to, passes signals on, and when the
/// program or the emulator has ended kills what is left below it.
pub fn run(command: &[OsString], mask: libc::sigset_t, mut socket: UnixStream) -> u8 {
    match start_and_wait(command, mask, &mut socket) {
        Ok(status) => status,
        Err(error) => {
            let _ = writeln!(io::stderr(), "neuron-emu: the helper process failed: {error}");
            OWN_FAILURE
        }
    }
}

fn start_and_wait(command: &[OsString], mask: libc::sigset_t, socket: &mut UnixStream) -> io::Result<u8> {
    // Orphans below the program come back to this process instead of to init.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let signals = Signals::hold(&[libc::SIGCHLD], &PASSED_ON)?;
    let mut byte = [0];
    if socket.read(&mut byte)? == 0 {
        return Ok(OWN_FAILURE);
    }
    let (name, args) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut program = Command::new(name);
    program.args(args);
    let parent = rustix::process::getpid();
    // SAFETY: the closure makes plain system calls only.
    unsafe {
        program.pre_exec(move || {
            rustix::process::set_parent_process_death_signal(Some(Kill::KILL))?;
            // The parent may have died before the line above.
            if rustix::process::getppid() != Some(parent) {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &mask, std::ptr::null_mut());
            Ok(())
        });
    }
    let child = match program.spawn() {
        Ok(child) => Pid::from_raw(child.id() as i32).expect("a process id is not 0"),
        Err(error) => {
            let missing = error.kind() == io::ErrorKind::NotFound;
            let next = if missing { "check the name and PATH" } else { "give a program that you may execute" };
            let name = name.to_string_lossy();
            let _ = writeln!(io::stderr(), "neuron-emu: cannot run {name}: {error}; {next}");
            return Ok(if missing { MISSING } else { CANNOT_RUN });
        }
    };
    let status = loop {
        match signals.wait(socket, PollFlags::IN)? {
            Woken::Signal(_) => {
                if let Some(status) = reap(child) {
                    break shell_status(status);
                }
            }
            Woken::Other => match socket.read(&mut byte) {
                Ok(1) => {
                    if let Some(signal) = Kill::from_named_raw(i32::from(byte[0])) {
                        // It may have ended in this moment; then there is nobody to tell.
                        let _ = rustix::process::kill_process(child, signal);
                    }
                }
                _ => break OWN_FAILURE,
            },
        }
    };
    kill_below(&[]);
    Ok(status)
}

/// Takes the status of every child that has ended; that of `child` is returned.
fn reap(child: Pid) -> Option<ExitStatus> {
    let mut found = None;
    while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
        if pid == child {
            found = Some(ExitStatus::from_raw(status.as_raw()));
        }
    }
    found
}

/// Children of this process, from `/proc`.
pub fn children() -> Vec<Pid> {
    let me = rustix::process::getpid().as_raw_nonzero().get();
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = numbers.filter_map(|e| e.file_name().to_string_lossy().parse::<i32>().ok());
    numbers
        .filter(|pid| {
            // The name is in brackets and may hold anything; the state and the parent follow.
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let parent = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1));
            parent.and_then(|p| p.parse::<i32>().ok()) == Some(me)
        })
        .filter_map(Pid::from_raw)
        .collect()
}

/// Kills until there is no child but these: what was below a killed one comes here in turn.
pub fn kill_below(others: &[Pid]) {
    loop {
        let mut children = children();
        children.retain(|child| !others.contains(child));
        if children.is_empty() {
            return;
        }
        for child in children {
            let _ = rustix::process::kill_process(child, Kill::KILL);
            let _ = rustix::process::waitpid(Some(child), WaitOptions::empty());
        }
    }
}
