//! Names of the published tree: `control`, `dev/neuronN` and `sys/...`.

use std::collections::HashMap;
use std::sync::Arc;

use neuron_abi::kernel::sysfs::{CLASS_DIR, DEVICE_DIR, MODULE_DIR};
use neuron_kmd::Driver;
use neuron_kmd::sysfs::{self, Sysfs};
use parking_lot::Mutex;

/// Inode number of the root.
pub const ROOT: u64 = 1;

/// Name of the control socket in the root.
pub const CONTROL: &str = "control";

/// Directory of the DMI texts, under the sysfs root.
pub const DMI_DIR: &str = "devices/virtual/dmi/id";

/// What a name is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A directory.
    Dir,
    /// A device node.
    Device(u32),
    /// A file of sysfs with these permission bits.
    Attribute(u16),
    /// A symbolic link.
    Link(String),
    /// The control socket.
    Socket,
}

/// One name of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The name.
    pub name: String,
    /// What it is.
    pub kind: Kind,
}

/// Owner and permission bits that somebody changed.
#[derive(Clone, Copy, Debug)]
pub struct Owner {
    /// Permission bits.
    pub mode: u32,
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// A name with its inode number.
#[derive(Clone, Debug)]
pub struct Node {
    /// Path from the root, without a leading slash.
    pub path: String,
    /// What it is.
    pub kind: Kind,
    /// Owner and permission bits.
    pub owner: Owner,
}

impl Node {
    /// Path below the sysfs root, for what lies there.
    pub fn sysfs_path(&self) -> &str {
        self.path.strip_prefix("sys/").unwrap_or_default()
    }

    /// File type and permission bits as `stat` shows them.
    pub fn mode(&self) -> u32 {
        let kind = match self.kind {
            Kind::Dir => libc::S_IFDIR,
            // A node of the type of a character device would be opened by the kernel's own table.
            Kind::Device(_) | Kind::Attribute(_) => libc::S_IFREG,
            Kind::Link(_) => libc::S_IFLNK,
            Kind::Socket => libc::S_IFSOCK,
        };
        kind | self.owner.mode
    }
}

#[derive(Default)]
struct Inodes {
    by_path: HashMap<String, u64>,
    nodes: Vec<Node>,
}

/// The tree of a driver. Inode numbers are given at the first look and stay.
pub struct Tree {
    driver: Arc<Driver>,
    sysfs: Sysfs,
    inodes: Mutex<Inodes>,
    socket: Mutex<bool>,
}

impl Tree {
    /// The tree.
    pub fn new(driver: Arc<Driver>) -> Self {
        let root = Node { path: String::new(), kind: Kind::Dir, owner: Owner { mode: 0o755, uid: 0, gid: 0 } };
        let inodes = Inodes { by_path: HashMap::from([(String::new(), ROOT)]), nodes: vec![root] };
        Self { sysfs: Sysfs::new(driver.clone()), driver, inodes: Mutex::new(inodes), socket: Mutex::new(false) }
    }

    /// The files of sysfs.
    pub fn sysfs(&self) -> &Sysfs {
        &self.sysfs
    }

    /// Makes the control socket appear; false when it is there already.
    pub fn add_socket(&self) -> bool {
        !std::mem::replace(&mut *self.socket.lock(), true)
    }

    /// The node with this number.
    pub fn node(&self, inode: u64) -> Option<Node> {
        self.inodes.lock().nodes.get(usize::try_from(inode.checked_sub(ROOT)?).ok()?).cloned()
    }

    /// The node with this name in a directory.
    pub fn lookup(&self, parent: u64, name: &str) -> Option<(u64, Node)> {
        let path = self.node(parent)?.path;
        let found = self.names(&path).into_iter().find(|n| n.name == name)?;
        Some(self.enter(join(&path, name), found.kind))
    }

    /// Names in the directory with this number, with inode numbers.
    pub fn list(&self, inode: u64) -> Option<Vec<(u64, Node)>> {
        let node = self.node(inode)?;
        let names = self.names(&node.path).into_iter();
        Some(names.map(|n| self.enter(join(&node.path, &n.name), n.kind)).collect())
    }

    fn enter(&self, path: String, kind: Kind) -> (u64, Node) {
        let mut inodes = self.inodes.lock();
        if let Some(inode) = inodes.by_path.get(&path) {
            return (*inode, inodes.nodes[(*inode - ROOT) as usize].clone());
        }
        let mode = match kind {
            Kind::Dir => 0o755,
            // What the rule that comes with the driver package sets.
            Kind::Device(_) => 0o666,
            Kind::Attribute(mode) => u32::from(mode),
            Kind::Link(_) => 0o777,
            Kind::Socket => 0o600,
        };
        let node = Node { path: path.clone(), kind, owner: Owner { mode, uid: 0, gid: 0 } };
        inodes.nodes.push(node.clone());
        let inode = ROOT + inodes.nodes.len() as u64 - 1;
        inodes.by_path.insert(path, inode);
        (inode, node)
    }

    /// Changes owner and permission bits.
    pub fn set_owner(&self, inode: u64, change: impl FnOnce(&mut Owner)) {
        if let Some(node) = self.inodes.lock().nodes.get_mut((inode - ROOT) as usize) {
            change(&mut node.owner);
        }
    }

    /// Text of an attribute that is not the driver's.
    pub fn text(&self, sysfs_path: &str) -> Option<String> {
        (sysfs_path == format!("{DMI_DIR}/product_name")).then(|| format!("{}\n", self.driver.env().product))
    }

    /// Names in a directory; empty for what is none.
    fn names(&self, path: &str) -> Vec<Name> {
        let dir = |name: &str| Name { name: name.into(), kind: Kind::Dir };
        match path {
            "" => {
                let socket = self.socket.lock().then(|| Name { name: CONTROL.into(), kind: Kind::Socket });
                socket.into_iter().chain([dir("dev"), dir("sys")]).collect()
            }
            "dev" => {
                let devices = self.driver.devices();
                let node = |index| Name { name: format!("neuron{index}"), kind: Kind::Device(index) };
                devices.iter().map(|d| node(d.index)).collect()
            }
            "sys/class/dmi" => vec![Name { name: "id".into(), kind: Kind::Link(format!("../../{DMI_DIR}")) }],
            _ => {
                let Some(below) = path.strip_prefix("sys").map(|p| p.trim_start_matches('/')) else { return vec![] };
                if below == DMI_DIR {
                    return vec![Name { name: "product_name".into(), kind: Kind::Attribute(0o444) }];
                }
                if [CLASS_DIR, DEVICE_DIR, MODULE_DIR].iter().any(|top| within(below, top)) {
                    let entries = self.sysfs.list(below).unwrap_or_default();
                    return entries.into_iter().map(from_sysfs).collect();
                }
                // The directories that lead to the ones above.
                let mut names: Vec<_> = [CLASS_DIR, DEVICE_DIR, MODULE_DIR, DMI_DIR, "class/dmi"]
                    .iter()
                    .filter_map(|top| {
                        let rest = if below.is_empty() { top } else { top.strip_prefix(below)?.strip_prefix('/')? };
                        rest.split('/').next()
                    })
                    .collect();
                names.sort_unstable();
                names.dedup();
                names.into_iter().map(dir).collect()
            }
        }
    }
}

fn from_sysfs(entry: sysfs::Entry) -> Name {
    let kind = match entry.kind {
        sysfs::Kind::Dir => Kind::Dir,
        sysfs::Kind::File(mode) => Kind::Attribute(mode),
        sysfs::Kind::Link(target) => Kind::Link(target),
    };
    Name { name: entry.name, kind }
}

fn join(dir: &str, name: &str) -> String {
    if dir.is_empty() { name.to_owned() } else { format!("{dir}/{name}") }
}

fn within(path: &str, top: &str) -> bool {
    path.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
