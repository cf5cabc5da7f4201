//! The private view of `run`: `/dev` and `/sys` with the emulated names in place of the real ones.
//!
//! Everything is a mount in a namespace of its own, so nothing outside changes and the kernel
//! takes all of it away with the last process inside. A name that does not exist outside cannot
//! be made there: the directory it belongs into is covered with a fresh one that shows everything
//! the old one shows.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use neuron_abi::kernel::sysfs::{CLASS_DIR, DEVICE_DIR, MODULE_DIR};
use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, MountPropagationFlags};
use rustix::thread::UnshareFlags;

use crate::fuse::mount::ROOTLESS;
use crate::tree::DMI_DIR;

/// Where the emulated tree itself is inside the namespace.
pub const ROOT: &str = "/dev/.neuron-emu";

/// A step that the system refused.
#[derive(Debug, thiserror::Error)]
pub enum NamespaceError {
    /// No right to make a namespace.
    #[error("cannot make a private mount namespace: {0}; run as root, or {ROOTLESS}")]
    Unshare(io::Error),
    /// A mount failed.
    #[error("cannot put the emulated files in place at {}: {error}", path.display())]
    Place {
        /// Where.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

/// Moves this process into a mount namespace of its own. Only while it has one thread.
///
/// # Errors
/// [`NamespaceError::Unshare`].
pub fn enter() -> Result<(), NamespaceError> {
    // SAFETY: a mount namespace does not touch anything Rust relies on, and there is one thread.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }.map_err(|e| NamespaceError::Unshare(e.into()))?;
    // Mounts of the outside keep coming in, ours do not go out.
    let slave = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", slave).map_err(|e| NamespaceError::Unshare(e.into()))
}

/// Directories that can be written in: covered ones, and what was made in them.
#[derive(Default)]
pub struct View {
    ours: HashSet<PathBuf>,
}

/// Whether a name of `/dev` is a device node of the driver.
fn is_device_node(name: &str) -> bool {
    name.strip_prefix("neuron").is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

impl View {
    /// Covers `/dev`, without the nodes of a real driver, and makes the directory [`ROOT`].
    ///
    /// # Errors
    /// [`NamespaceError::Place`].
    pub fn cover_dev(&mut self) -> Result<(), NamespaceError> {
        self.cover(Path::new("/dev"), |name| !is_device_node(name))?;
        fs::create_dir(ROOT).map_err(|error| NamespaceError::Place { path: ROOT.into(), error })
    }

    /// Puts the names of the tree at [`ROOT`] where programs look for them.
    ///
    /// # Errors
    /// [`NamespaceError::Place`].
    pub fn place_all(&mut self, devices: impl Iterator<Item = u32>) -> Result<(), NamespaceError> {
        for index in devices {
            self.place(&format!("dev/neuron{index}"))?;
        }
        for dir in [CLASS_DIR, DEVICE_DIR, MODULE_DIR] {
            self.place(&format!("sys/{dir}"))?;
        }
        self.place(&format!("sys/{DMI_DIR}/product_name"))?;
        // On a host with DMI the class leads to the file that was just replaced.
        if !Path::new("/sys/class/dmi").exists() {
            self.place("sys/class/dmi")?;
        }
        Ok(())
    }

    fn place(&mut self, name: &str) -> Result<(), NamespaceError> {
        let (source, target) = (Path::new(ROOT).join(name), Path::new("/").join(name));
        let failed = |error| NamespaceError::Place { path: target.clone(), error };
        if fs::symlink_metadata(&target).is_err() {
            let existing = target.ancestors().skip(1).find(|p| p.is_dir()).unwrap_or(Path::new("/"));
            if !self.ours.contains(existing) {
                self.cover(existing, |_| true)?;
            }
            let mut missing: Vec<_> = target.ancestors().skip(1).take_while(|p| *p != existing).collect();
            while let Some(dir) = missing.pop() {
                fs::create_dir(dir).map_err(failed)?;
                self.ours.insert(dir.to_owned());
            }
            make_place(&target, source.is_dir()).map_err(failed)?;
        }
        rustix::mount::mount_bind(&source, &target).map_err(|e| failed(e.into()))
    }

    /// Covers a directory with a fresh one that has the same entries, except those that `keep`
    /// refuses.
    fn cover(&mut self, dir: &Path, keep: impl Fn(&str) -> bool) -> Result<(), NamespaceError> {
        let failed = |path: &Path, error| NamespaceError::Place { path: path.to_owned(), error };
        let at = |error: io::Error| failed(dir, error);
        let old = rustix::fs::open(dir, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|e| at(e.into()))?;
        let old = PathBuf::from(format!("/proc/self/fd/{}", old.as_raw_fd())).join(".");
        let mut entries = Vec::new();
        for entry in fs::read_dir(dir).map_err(at)? {
            let entry = entry.map_err(at)?;
            if keep(&entry.file_name().to_string_lossy()) {
                entries.push((entry.file_name(), entry.file_type().map_err(at)?));
            }
        }
        rustix::mount::mount("neuron-emu", dir, "tmpfs", MountFlags::NOSUID | MountFlags::NOEXEC, c"mode=755")
            .map_err(|e| at(e.into()))?;
        self.ours.insert(dir.to_owned());
        for (name, kind) in entries {
            let (source, target) = (old.join(&name), dir.join(&name));
            let result = if kind.is_symlink() {
                fs::read_link(&source).and_then(|to| symlink(to, &target))
            } else {
                make_place(&target, kind.is_dir())
                    .and_then(|()| Ok(rustix::mount::mount_bind_recursive(&source, &target)?))
            };
            match result {
                // It went away meanwhile.
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                result => result.map_err(|e| failed(&target, e))?,
            }
        }
        Ok(())
    }
}

/// Makes something to mount on.
fn make_place(target: &Path, dir: bool) -> io::Result<()> {
    if dir { fs::create_dir(target) } else { fs::File::create_new(target).map(drop) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbered_nodes_belong_to_the_driver() {
        for (name, ours) in
            [("neuron0", true), ("neuron63", true), ("neuron", false), ("neuronx", false), ("null", false)]
        {
            assert_eq!(is_device_node(name), ours, "{name}");
        }
    }
}
