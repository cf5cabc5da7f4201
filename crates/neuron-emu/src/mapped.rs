//! Files that are closed but still mapped.
//!
//! A mapping that was passed through no longer holds the file it was made with, so the kernel
//! reports the release of a file whose memory a process still uses. With the real driver the
//! release comes when the mapping goes. Such files are kept here until every process that used
//! them has gone or mapped nothing of the device any more.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use neuron_kmd::cdev::File;
use parking_lot::Mutex;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

use crate::client;

/// Identity of a node as mappings show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// Device number of the mount.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
}

struct Kept {
    /// Dropped with this: the release of the driver.
    _file: Arc<File>,
    node: Node,
    processes: HashMap<u32, OwnedFd>,
}

/// The files that are kept.
pub struct Mapped {
    kept: Mutex<Vec<Kept>>,
    changed: OwnedFd,
}

impl Mapped {
    /// Keeps nothing yet; a thread that waits for the end of processes is started and stays.
    ///
    /// # Errors
    /// What the system says.
    pub fn new() -> io::Result<Arc<Self>> {
        let changed = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let mapped = Arc::new(Self { kept: Mutex::default(), changed });
        let watched = mapped.clone();
        std::thread::Builder::new().name("neuron-mapped".into()).spawn(move || {
            loop {
                watched.wait();
            }
        })?;
        Ok(mapped)
    }

    /// Takes over a released file. It is dropped at once when none of the processes maps the
    /// node.
    pub fn release(&self, file: Arc<File>, node: Node, processes: &[u32]) {
        let still = |tgid: &u32| client::maps(*tgid, node.device, node.inode);
        let processes = processes.iter().filter(|tgid| still(tgid));
        let processes: HashMap<_, _> = processes.filter_map(|tgid| Some((*tgid, client::pidfd(*tgid)?))).collect();
        if !processes.is_empty() {
            self.kept.lock().push(Kept { _file: file, node, processes });
            self.wake();
        }
    }

    /// Looks again which processes map their node: unmapping makes no event. Called before
    /// anything that depends on whether a device is in use.
    pub fn look_again(&self) {
        let mut kept = self.kept.lock();
        if kept.is_empty() {
            return;
        }
        for item in &mut *kept {
            let node = item.node;
            item.processes.retain(|tgid, _| client::maps(*tgid, node.device, node.inode));
        }
        self.settle(kept);
    }

    /// Files kept now.
    pub fn len(&self) -> usize {
        self.kept.lock().len()
    }

    /// Whether no file is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn settle(&self, mut kept: parking_lot::MutexGuard<'_, Vec<Kept>>) {
        let gone: Vec<_> = kept.extract_if(.., |item| item.processes.is_empty()).collect();
        drop(kept);
        if !gone.is_empty() {
            self.wake();
        }
    }

    fn wake(&self) {
        // A counter that cannot be raised any more is readable already.
        let _ = rustix::io::write(&self.changed, &1_u64.to_ne_bytes());
    }

    /// Waits for the end of a process, or a change of the list.
    fn wait(&self) {
        // Copies of the descriptors, so that the list is free while this sleeps.
        let watched: Vec<(u32, OwnedFd)> = {
            let kept = self.kept.lock();
            let all = kept.iter().flat_map(|item| &item.processes);
            all.filter_map(|(tgid, fd)| Some((*tgid, fd.try_clone().ok()?))).collect()
        };
        let mut fds = vec![PollFd::new(&self.changed, PollFlags::IN)];
        fds.extend(watched.iter().map(|(_, fd)| PollFd::new(fd, PollFlags::IN)));
        if poll(&mut fds, None).is_err() {
            return;
        }
        let ended: Vec<u32> = watched
            .iter()
            .zip(&fds[1..])
            .filter(|(_, fd)| !fd.revents().is_empty())
            .map(|((tgid, _), _)| *tgid)
            .collect();
        drop(fds);
        let _ = rustix::io::read(&self.changed, &mut [0; 8]);
        let mut kept = self.kept.lock();
        for item in &mut *kept {
            item.processes.retain(|tgid, _| !ended.contains(tgid));
        }
        self.settle(kept);
    }
}
