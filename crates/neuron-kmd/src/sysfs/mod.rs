//! The sysfs tree.
//!
//! [`Sysfs`] is a view on a loaded driver: it holds nothing but the tree of names, which is made
//! from the tables of `neuron_abi::kernel::sysfs`. Paths are relative to the sysfs root, without
//! a leading slash; `class/neuron_device/neuronN` and `devices/virtual/neuron_device/neuronN`
//! are the same directory.

mod tree;

use std::sync::Arc;

use neuron_abi::kernel::sysfs::{CLASS_ATTRS, CLASS_DIR, DEVICE_DIR, MODULE_DIR, PARAM_MODE};

use crate::caller::Caller;
use crate::driver::Driver;
use crate::reply::Errno;

/// What a name of a directory is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A directory.
    Dir,
    /// A file with these permission bits; owner is root.
    File(u16),
    /// A symbolic link with this target.
    Link(String),
}

/// One name of a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Name.
    pub name: String,
    /// What it is.
    pub kind: Kind,
}

impl Entry {
    fn dir(name: String) -> Self {
        Self { name, kind: Kind::Dir }
    }

    fn file(name: impl Into<String>, mode: u16) -> Self {
        Self { name: name.into(), kind: Kind::File(mode) }
    }
}

/// The tree of a driver.
#[derive(Clone)]
pub struct Sysfs(Arc<Driver>);

/// Where a path leads.
enum Place<'a> {
    Class(&'a str),
    Device(u32, &'a str),
    Module(&'a str),
}

fn place(path: &str) -> Option<Place<'_>> {
    let path = path.trim_matches('/');
    let below = |dir: &str| path.strip_prefix(dir).map(|rest| rest.trim_start_matches('/'));
    if let Some(rest) = below(MODULE_DIR) {
        return Some(Place::Module(rest));
    }
    let rest = below(CLASS_DIR).or_else(|| below(DEVICE_DIR))?;
    let (first, file) = rest.split_once('/').unwrap_or((rest, ""));
    match first.strip_prefix("neuron").and_then(|n| n.parse().ok()) {
        Some(index) => Some(Place::Device(index, file)),
        None => Some(Place::Class(rest)),
    }
}

/// The virtual file system's test before a file of root is read.
fn may_read(mode: u16, caller: &Caller) -> Result<(), Errno> {
    if caller.uid == 0 || mode & 0o004 != 0 { Ok(()) } else { Err(Errno::EACCES) }
}

/// The test before it is written. The kernel refuses files without a write bit even to root.
fn may_write(mode: u16, caller: &Caller) -> Result<(), Errno> {
    let bits = if caller.uid == 0 { 0o222 } else { 0o002 };
    if mode & bits != 0 { Ok(()) } else { Err(Errno::EACCES) }
}

impl Sysfs {
    /// The tree of this driver.
    pub fn new(driver: Arc<Driver>) -> Self {
        Self(driver)
    }

    /// Reads a file. May take time: some files read registers, and a dead one is tried again.
    ///
    /// # Errors
    /// `ENOENT` without such a file, `EACCES` when the mode forbids it.
    pub fn read(&self, path: &str, caller: &Caller) -> Result<String, Errno> {
        let driver = &*self.0;
        match place(path).ok_or(Errno::ENOENT)? {
            Place::Class(name) => tree::read_class(driver, name),
            Place::Device(index, file) => {
                let device = driver.device(index).ok_or(Errno::ENOENT)?;
                let file = tree::find(&device, file).ok_or(Errno::ENOENT)?;
                may_read(file.mode, caller)?;
                Ok(file.read(driver, &device, caller))
            }
            Place::Module("version") => Ok(format!("{}\n", driver.env.profile.version())),
            Place::Module(name) => {
                let name = name.strip_prefix("parameters/").ok_or(Errno::ENOENT)?;
                let value = driver.env.params.get(name).ok_or(Errno::ENOENT)?;
                may_read(PARAM_MODE, caller)?;
                Ok(format!("{value}\n"))
            }
        }
    }

    /// Writes a file; returns the bytes taken.
    ///
    /// # Errors
    /// `ENOENT` without such a file, `EACCES` when the mode forbids it, `EINVAL` for a module
    /// parameter that is not a number.
    pub fn write(&self, path: &str, data: &[u8], caller: &Caller) -> Result<usize, Errno> {
        let driver = &*self.0;
        match place(path).ok_or(Errno::ENOENT)? {
            Place::Class(name) => tree::read_class(driver, name).and(Err(Errno::EACCES)),
            Place::Device(index, file) => {
                let device = driver.device(index).ok_or(Errno::ENOENT)?;
                let file = tree::find(&device, file).ok_or(Errno::ENOENT)?;
                may_write(file.mode, caller)?;
                file.write(driver, &device, data, caller);
                Ok(data.len())
            }
            Place::Module(name) => {
                let name = name.strip_prefix("parameters/").ok_or(Errno::EACCES)?;
                driver.env.params.get(name).ok_or(Errno::ENOENT)?;
                may_write(PARAM_MODE, caller)?;
                let text = std::str::from_utf8(data).map_err(|_| Errno::EINVAL)?;
                driver.env.params.set(name, text).map(|()| data.len())
            }
        }
    }

    /// Names in a directory, sorted.
    ///
    /// # Errors
    /// `ENOENT` without such a directory.
    pub fn list(&self, path: &str) -> Result<Vec<Entry>, Errno> {
        let driver = &*self.0;
        let mut entries: Vec<Entry> = match place(path).ok_or(Errno::ENOENT)? {
            Place::Class("") if path.trim_matches('/') == CLASS_DIR => {
                let attrs = CLASS_ATTRS.iter().filter(|a| tree::class_shown(driver, a));
                let files = attrs.map(|a| Entry::file(a.path, a.mode));
                let link = |index| Entry {
                    name: format!("neuron{index}"),
                    kind: Kind::Link(format!("../../{DEVICE_DIR}/neuron{index}")),
                };
                files.chain(driver.devices().iter().map(|d| link(d.index))).collect()
            }
            Place::Class("") => driver.devices().iter().map(|d| Entry::dir(format!("neuron{}", d.index))).collect(),
            Place::Class(_) => return Err(Errno::ENOENT),
            Place::Device(index, below) => {
                let device = driver.device(index).ok_or(Errno::ENOENT)?;
                let entries = tree::list(&device, below);
                if entries.is_empty() {
                    return Err(Errno::ENOENT);
                }
                entries
            }
            Place::Module("") => vec![Entry::dir("parameters".into()), Entry::file("version", 0o444)],
            Place::Module("parameters") => driver.env.params.names().map(|n| Entry::file(n, PARAM_MODE)).collect(),
            Place::Module(_) => return Err(Errno::ENOENT),
        };
        entries.sort();
        Ok(entries)
    }
}
