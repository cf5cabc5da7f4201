//! Signals as something to wait for.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

/// Signals that end or steer a program and that can be passed on.
pub const PASSED_ON: [i32; 6] =
    [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGUSR1, libc::SIGUSR2];

/// Signals that are held back and read instead. Made before any thread starts, so that no thread
/// takes one with its default action.
pub struct Signals {
    file: OwnedFd,
    before: libc::sigset_t,
}

/// One signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal {
    /// Number.
    pub number: i32,
    /// Whether it came from the terminal, which sends it to the whole process group.
    pub from_terminal: bool,
}

/// What ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// A signal.
    Signal(Signal),
    /// The other descriptor.
    Other,
}

fn set(signals: &[i32]) -> libc::sigset_t {
    // SAFETY: sigemptyset initialises the set; sigaddset gets valid numbers.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for signal in signals {
            libc::sigaddset(&mut set, *signal);
        }
        set
    }
}

impl Signals {
    /// Holds these signals back from now on; `quiet` ones are held back and never seen.
    ///
    /// # Errors
    /// What the system says.
    pub fn hold(seen: &[i32], quiet: &[i32]) -> io::Result<Self> {
        let all = set(&[seen, quiet].concat());
        let mut before = set(&[]);
        // SAFETY: both sets are initialised; the descriptor is new and has no other owner.
        unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, &all, &mut before);
            let fd = libc::signalfd(-1, &set(seen), libc::SFD_CLOEXEC);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(Self { file: OwnedFd::from_raw_fd(fd), before })
        }
    }

    /// The mask before.
    pub fn before(&self) -> libc::sigset_t {
        self.before
    }

    fn read(&self) -> io::Result<Signal> {
        let mut bytes = [0; size_of::<libc::signalfd_siginfo>()];
        rustix::io::retry_on_intr(|| rustix::io::read(&self.file, &mut bytes))?;
        // SAFETY: plain numbers; the kernel filled all of them.
        let info: libc::signalfd_siginfo = unsafe { std::mem::transmute(bytes) };
        Ok(Signal { number: info.ssi_signo as i32, from_terminal: info.ssi_code == libc::SI_KERNEL })
    }

    /// Waits for a signal, or until `other` has one of these conditions; signals come first.
    ///
    /// # Errors
    /// What the system says.
    pub fn wait(&self, other: &impl AsFd, conditions: PollFlags) -> io::Result<Woken> {
        let mut fds = [PollFd::new(&self.file, PollFlags::IN), PollFd::new(other, conditions)];
        rustix::io::retry_on_intr(|| poll(&mut fds, None))?;
        if fds[0].revents().is_empty() { Ok(Woken::Other) } else { self.read().map(Woken::Signal) }
    }
}

/// Something that happens once, to wait for together with signals.
pub struct Event(OwnedFd);

impl Event {
    /// It has not happened.
    ///
    /// # Errors
    /// What the system says.
    pub fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC)?))
    }

    /// It happens.
    pub fn raise(&self) {
        // The counter cannot overflow: it is raised once.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Event {
    fn as_raw_fd(&self) -> i32 {
        self.0.as_raw_fd()
    }
}
