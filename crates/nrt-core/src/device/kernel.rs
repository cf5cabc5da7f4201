//! What a kernel driver (or `neuron-emu`) shows of its devices: the nodes in the device directory
//! and their sysfs attributes (`facts/driver/cdev.md`, `facts/driver/sysfs.tsv`).
//!
//! As long as sysfs tells what is asked, nothing is opened here: opening a node for reading takes
//! one of the sixteen attach slots of the device and waits while it resets.

use super::{Absent, Backend, DevInfo, product};
use crate::log_info;
use neuron_abi::Arch;
use neuron_abi::kernel::pci;
use neuron_driver::{Driver, KernelBackend, MAX_DEVICES, Mode, Node};
use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The device files and sysfs of this machine, wherever they are mounted.
pub(crate) struct Host {
    /// Directory of the nodes.
    pub dev: PathBuf,
    /// Mount point of sysfs.
    pub sys: PathBuf,
    /// Both, as the runtime uses them.
    pub driver: Arc<dyn Driver>,
}

impl Host {
    /// The configured places.
    pub fn configured() -> Host {
        Host::at(crate::config::dev_dir(), crate::config::sys_dir())
    }

    /// These places.
    pub fn at(dev: PathBuf, sys: PathBuf) -> Host {
        let driver = Arc::new(KernelBackend::new(&dev, &sys));
        Host { dev, sys, driver }
    }

    /// The devices this process can use.
    pub fn discover(&self) -> Result<DevInfo, Absent> {
        discover(&self.dev, &*self.driver)
    }

    /// The product name the firmware reports, without the line end.
    pub fn product_name(&self) -> io::Result<String> {
        let read = |path| self.driver.sysfs(path);
        read("devices/virtual/dmi/id/product_name").or_else(|_| read("class/dmi/id/product_name"))
    }

    /// Version of the driver; `None` when it cannot be read.
    pub fn driver_version(&self) -> Option<String> {
        self.driver.sysfs("module/neuron/version").ok()
    }

    /// Whether a PCI function of the newer arch-4 silicon is present (`facts/runtime/arch.tsv`,
    /// id 0x7565). The class devices do not link to their PCI functions, so the whole bus is asked.
    pub fn has_v4_plus(&self) -> bool {
        !self.pci_functions(|device| device == 0x7565).is_empty()
    }

    /// PCI addresses of the Elastic Fabric Adapters of the host, ascending.
    pub fn network_adapters(&self) -> Vec<String> {
        self.pci_functions(|device| (0xefa0..=0xefaf).contains(&device))
    }

    /// PCI functions of the vendor of all these parts with a device id that is wanted.
    fn pci_functions(&self, wanted: impl Fn(u16) -> bool) -> Vec<String> {
        const FUNCTIONS: &str = "bus/pci/devices";
        let id = |function: &str, file: &str| {
            let text = self.driver.sysfs(&format!("{FUNCTIONS}/{function}/{file}")).ok()?;
            u16::from_str_radix(text.strip_prefix("0x")?, 16).ok()
        };
        let ours = |f: &String| id(f, "vendor") == Some(pci::VENDOR) && id(f, "device").is_some_and(&wanted);
        let mut functions = self.driver.sysfs_names(FUNCTIONS).unwrap_or_default();
        functions.retain(ours);
        functions.sort();
        functions
    }
}

fn attribute(driver: &dyn Driver, index: u32, name: &str) -> io::Result<String> {
    driver.sysfs(&format!("class/neuron_device/neuron{index}/{name}"))
}

/// Silicon generation of a device, or what stands in the way of telling.
fn arch(driver: &dyn Driver, index: u32) -> Result<Arch, String> {
    // arch_type is of no use here: Inf2 and Trn2 print the same value.
    let (mut unknown, mut unread) = (None, String::new());
    for name in ["instance_type", "device_name"] {
        match attribute(driver, index, &format!("info/architecture/{name}")) {
            Ok(text) => match text.as_str() {
                "Trn1" | "Inf2" | "Trainium1" | "Inferentia2" => return Ok(Arch::Sunda),
                "Trn2" | "Trainium2" => return Ok(Arch::Cayman),
                "Trn3" | "Trainium3" => return Ok(Arch::Mariana),
                other => unknown = Some(format!("{name} is {other:?}, a part this runtime does not know")),
            },
            Err(e) if unread.is_empty() => unread = format!("{name} in sysfs: {e}"),
            Err(_) => {}
        }
    }
    if let Some(why) = unknown {
        return Err(why);
    }
    // Where sysfs is hidden the device itself is asked. For queries, not for claims: closing a
    // descriptor for claims would give back those of an nrt_init that is at work in another thread.
    let asked = driver.open(index, Mode::Info).and_then(|file| file.identity());
    match asked {
        Ok(identity) => Arch::from_repr(identity.architecture)
            .ok_or_else(|| format!("architecture {} is one this runtime does not know", identity.architecture)),
        Err(error) => Err(format!("{unread}; {error}")),
    }
}

/// Physical cores of a device; `None` when this process may not read that.
fn core_count(driver: &dyn Driver, index: u32) -> Result<Option<u32>, String> {
    match attribute(driver, index, "core_count") {
        Ok(text) => match text.parse() {
            Ok(n @ 1..=8) => Ok(Some(n)),
            _ => Err(format!("core_count is {text:?}, not a number from 1 to 8")),
        },
        Err(_) => Ok(None),
    }
}

/// Linked devices in the driver's order; `None` when this process may not read that.
pub(crate) fn connected(driver: &dyn Driver, index: u32) -> Option<Vec<u32>> {
    let text = attribute(driver, index, "connected_devices").ok()?;
    text.split(',').map(str::trim).filter(|t| !t.is_empty()).map(|t| t.parse().ok()).collect()
}

/// The devices this process can use, ascending; holes are allowed and nothing is cut at 32.
///
/// Generation and core count are those of the first one: the driver runs one generation per host.
pub(crate) fn discover(dev_dir: &Path, driver: &dyn Driver) -> Result<DevInfo, Absent> {
    let mut usable = Vec::new();
    let mut denied = Vec::new();
    for index in 0..MAX_DEVICES {
        match driver.node(index) {
            Node::Ready => usable.push(index),
            Node::Denied(why) => denied.push(why),
            Node::Missing => {}
        }
    }
    let Some(&first) = usable.first() else {
        return Err(match denied.into_iter().next() {
            Some(why) => Absent::Denied(why),
            None => Absent::NoNodes { dev_dir: dev_dir.to_owned() },
        });
    };
    for why in &denied {
        log_info!(Tdrv, "tdrv_get_dev_info", "Device left out, this process may not open it: {why}");
    }
    let unknown = |why| Absent::Unknown { device: first, why };
    let arch = arch(driver, first).map_err(unknown)?;
    let cores = core_count(driver, first).map_err(unknown)?;
    Ok(DevInfo {
        backend: Backend::Kernel,
        devices: usable,
        cores_per_device: cores.unwrap_or(product::cores_per_device(arch)),
        arch,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use neuron_driver::{Cause, Error, File};
    use std::{fs, os::unix::fs::symlink};

    /// A directory that looks like `/dev` and `/sys` of a host with these devices.
    pub(crate) struct Root {
        dir: tempfile::TempDir,
    }

    impl Root {
        pub fn new() -> Root {
            Root { dir: tempfile::tempdir().unwrap() }
        }

        pub fn host(&self) -> Host {
            Host::at(self.dir.path().join("dev"), self.dir.path().join("sys"))
        }

        pub fn put(&self, path: &str, text: &str) -> &Root {
            let path = self.dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
            self
        }

        pub fn device(&self, index: u32, instance_type: &str, cores: &str) -> &Root {
            let class = format!("sys/class/neuron_device/neuron{index}");
            self.put(&format!("dev/neuron{index}"), "")
                .put(&format!("{class}/info/architecture/instance_type"), &format!("{instance_type}\n"))
                .put(&format!("{class}/core_count"), cores)
        }

        pub fn product(&self, name: &str) -> &Root {
            self.put("sys/devices/virtual/dmi/id/product_name", &format!("{name}\n"))
        }

        pub fn discover(&self) -> Result<DevInfo, Absent> {
            self.host().discover()
        }
    }

    #[test]
    fn nodes_are_listed_ascending_with_holes_and_strangers_ignored() {
        let root = Root::new();
        for index in [10, 2, 63] {
            root.device(index, "Trn2", "8");
        }
        root.put("dev/neuron64", "").put("dev/neuronX", "").put("dev/neuron", "").put("dev/null", "");
        symlink("/nowhere/at/all", root.host().dev.join("neuron5")).unwrap();
        let dev = root.discover().unwrap();
        assert_eq!(dev.devices, [2, 10, 63]);
        assert_eq!((dev.arch, dev.cores_per_device, dev.backend), (Arch::Cayman, 8, Backend::Kernel));
    }

    /// A022: a node that cannot even be opened (a socket) counts, so nothing opens it.
    #[test]
    fn nodes_are_not_opened() {
        let root = Root::new();
        root.device(0, "Trn2", "8");
        let node = root.host().dev.join("neuron0");
        fs::remove_file(&node).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(&node).unwrap();
        assert!(fs::File::open(&node).is_err());
        assert_eq!(root.discover().unwrap().devices, [0]);
    }

    /// A027: more than 32 device files are all listed.
    #[test]
    fn nothing_is_cut_at_32_devices() {
        let root = Root::new();
        for index in 0..64 {
            root.device(index, "Trn1", "2");
        }
        assert_eq!(root.discover().unwrap().devices, (0..64).collect::<Vec<_>>());
        assert_eq!(root.discover().unwrap().total_physical(), 128);
    }

    /// A024: the four answers of the dispatcher for every part the driver can name.
    #[test]
    fn the_generation_comes_from_instance_type_or_device_name() {
        for line in include_str!("../../tests/data/device/arch.tsv").lines().skip(2) {
            let row: Vec<_> = line.split('\t').collect();
            for names in row[4].split(';') {
                let names: Vec<_> = names.split('/').collect();
                let root = Root::new();
                root.device(0, names[1], row[2]);
                let dev = root.discover().unwrap();
                assert_eq!((dev.arch as u32).to_string(), row[1], "{}", names[1]);
                assert_eq!(dev.cores_per_device.to_string(), row[2], "{}", names[1]);
                let class = "sys/class/neuron_device/neuron0/info/architecture";
                let root = Root::new();
                root.put("dev/neuron0", "").put(&format!("{class}/device_name"), &format!("{}\n", names[2]));
                assert_eq!((root.discover().unwrap().arch as u32).to_string(), row[1], "{}", names[2]);
            }
        }
    }

    #[test]
    fn an_unreadable_core_count_means_that_of_the_generation() {
        let root = Root::new();
        root.device(0, "Trn3", "8");
        fs::remove_file(root.host().sys.join("class/neuron_device/neuron0/core_count")).unwrap();
        assert_eq!(root.discover().unwrap().cores_per_device, 8);
    }

    #[test]
    fn a_device_that_cannot_be_told_is_an_error_naming_it() {
        let unknown = |kind: &str, cores: &str| {
            let root = Root::new();
            root.device(3, kind, cores);
            root.discover().unwrap_err().to_string()
        };
        assert!(unknown("Inf1", "4").contains("neuron3 "), "{}", unknown("Inf1", "4"));
        assert!(unknown("Inf1", "4").contains("Inf1"));
        for cores in ["", "0", "9", "-1", "eight", "4294967296"] {
            assert!(unknown("Trn2", cores).contains("core_count"), "{cores}");
        }
        let root = Root::new();
        root.put("dev/neuron0", "");
        assert!(root.discover().unwrap_err().to_string().contains("neuron0 "));
    }

    #[test]
    fn no_node_at_all_names_the_directory_and_the_switch() {
        let root = Root::new();
        let absent = root.discover().unwrap_err();
        assert!(matches!(absent, Absent::NoNodes { .. }));
        for part in [root.host().dev.to_str().unwrap(), "No Neuron devices", "NEURON_RT_FAKE_INSTANCE_TYPE"] {
            assert!(absent.to_string().contains(part), "{absent}");
        }
        assert_eq!(absent.to_string().lines().count(), 1);
    }

    #[test]
    fn network_adapters_are_told_by_vendor_and_device() {
        let root = Root::new();
        assert_eq!(root.host().network_adapters(), [""; 0]);
        for (address, vendor, device) in [
            ("0000:02:00.0", "0x1d0f", "0xefa1"),
            ("0000:01:00.0", "0x1d0f", "0xEFA0"),
            ("0000:03:00.0", "0x1d0f", "0x7364"),
            ("0000:04:00.0", "0x8086", "0xefa1"),
            ("0000:05:00.0", "0x1d0f", "efa1"),
        ] {
            let function = format!("sys/bus/pci/devices/{address}");
            root.put(&format!("{function}/vendor"), vendor).put(&format!("{function}/device"), device);
        }
        assert_eq!(root.host().network_adapters(), ["0000:01:00.0", "0000:02:00.0"]);
    }

    struct Denied(Vec<u32>, Vec<u32>);

    impl Driver for Denied {
        fn node(&self, index: u32) -> Node {
            match (self.0.contains(&index), self.1.contains(&index)) {
                (true, _) => Node::Denied(format!("/dev/neuron{index}: Permission denied")),
                (_, true) => Node::Ready,
                _ => Node::Missing,
            }
        }
        fn open(&self, device: u32, _: Mode) -> neuron_driver::Result<Box<dyn File>> {
            Err(Error { device, what: "open", cause: Cause::Denied })
        }
        fn sysfs(&self, path: &str) -> io::Result<String> {
            if path.ends_with("instance_type") { Ok("Trn2".into()) } else { Err(io::ErrorKind::NotFound.into()) }
        }
        fn sysfs_names(&self, _: &str) -> io::Result<Vec<String>> {
            Ok(Vec::new())
        }
    }

    /// A065: a node that may not be opened is no device of this process.
    #[test]
    fn a_denied_node_is_left_out_and_denied_nodes_alone_say_so() {
        let dir = Path::new("/dev");
        assert_eq!(discover(dir, &Denied(vec![0, 2], vec![1, 3])).unwrap().devices, [1, 3]);
        let absent = discover(dir, &Denied(vec![4, 5], vec![])).unwrap_err();
        assert!(absent.to_string().contains("/dev/neuron4: Permission denied"), "{absent}");
        assert!(!absent.to_string().contains("No Neuron devices"), "{absent}");
    }

    #[test]
    fn links_are_read_as_the_driver_prints_them() {
        let root = Root::new();
        root.device(0, "Trn1", "2");
        let links = || connected(&*root.host().driver, 0);
        assert_eq!(links(), None);
        for (text, expected) in [("12, 3, 4, 1\n", Some(vec![12, 3, 4, 1])), ("\n", Some(vec![])), ("1, x\n", None)] {
            root.put("sys/class/neuron_device/neuron0/connected_devices", text);
            assert_eq!(links(), expected, "{text:?}");
        }
    }
}
