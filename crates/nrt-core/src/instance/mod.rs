//! Instance identity: family, size, architecture name, device revision.

use crate::{
    Result, Status,
    device::{self, Source, kernel::Host},
    log_error, log_warn,
    sync::{AtomicPtr, Ordering},
};
use neuron_abi::{Arch, Family, Size};
use std::{
    mem::{offset_of, size_of},
    ptr,
    sync::atomic::AtomicBool,
};

pub mod name;
pub mod publish;

use publish::Publish;

/// The record behind `nrt_get_instance_info` (`facts/runtime/instance_info_struct.tsv`).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstanceInfo {
    /// Number of a [`Family`].
    pub family: u32,
    /// Number of a [`Size`].
    pub size: u32,
    /// Architecture name, zero-filled; the last byte is always 0.
    pub arch_name: [u8; 16],
    /// Device revision, zero-filled; empty on a simulated instance.
    pub device_revision: [u8; 8],
}

const _: () = {
    assert!(size_of::<InstanceInfo>() == 32);
    assert!(offset_of!(InstanceInfo, family) == 0);
    assert!(offset_of!(InstanceInfo, size) == 4);
    assert!(offset_of!(InstanceInfo, arch_name) == 8);
    assert!(offset_of!(InstanceInfo, device_revision) == 24);
};

/// Text in a fixed field: cut so that at least one zero follows.
fn field<const N: usize>(text: &str) -> [u8; N] {
    let mut bytes = [0; N];
    let len = text.len().min(N - 1);
    bytes[..len].copy_from_slice(&text.as_bytes()[..len]);
    bytes
}

impl InstanceInfo {
    /// A record; `revision` may be empty.
    pub fn new(family: Family, size: Size, revision: &str) -> InstanceInfo {
        InstanceInfo {
            family: family as u32,
            size: size as u32,
            arch_name: field(name::arch_name(family)),
            device_revision: field(revision),
        }
    }

    /// The bytes a C caller sees.
    pub fn to_bytes(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes[..4].copy_from_slice(&self.family.to_ne_bytes());
        bytes[4..8].copy_from_slice(&self.size.to_ne_bytes());
        bytes[8..24].copy_from_slice(&self.arch_name);
        bytes[24..].copy_from_slice(&self.device_revision);
        bytes
    }
}

/// Stepping of the silicon, as far as it decides anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stepping {
    A,
    B,
}

/// Revision text: first silicon of arch 4 is pre-production, every other names its stepping.
fn revision(arch: Arch, stepping: Stepping) -> &'static str {
    match (arch, stepping) {
        (Arch::Mariana, Stepping::A) => "pre",
        (_, Stepping::A) => "A",
        (_, Stepping::B) => "B",
    }
}

/// Family on hardware of generation `arch`; `Unknown` when no product name can be read.
pub(crate) fn family(source: &Source, arch: Arch) -> Family {
    match source {
        Source::Simulated(product) => product.family,
        Source::Kernel(host) => name::identify(&host.product_name().unwrap_or_default(), arch).0,
    }
}

fn identify(source: &Source) -> Result<InstanceInfo> {
    match source {
        Source::Simulated(product) => Ok(InstanceInfo::new(product.family, product.size, "")),
        Source::Kernel(host) => identify_host(host),
    }
}

fn identify_host(host: &Host) -> Result<InstanceInfo> {
    let function = "nrt_get_instance_info";
    let arch = match host.discover() {
        Ok(dev) => dev.arch,
        Err(absent) => {
            let status = absent.log();
            log_error!(Nrt, function, "Failed to get device info by nrt_get_dev_info()");
            return Err(status);
        }
    };
    let product = host.product_name().map_err(|e| {
        log_error!(
            Nrt,
            function,
            "The product name of this machine cannot be read ({e}); make {}/devices/virtual/dmi/id/product_name readable",
            host.sys.display()
        );
        Status::Failure
    })?;
    let (family, size) = name::identify(&product, arch);
    let stepping = if arch == Arch::Mariana && host.has_v4_plus() { Stepping::B } else { Stepping::A };
    Ok(InstanceInfo::new(family, size, revision(arch, stepping)))
}

static CACHED: Publish<InstanceInfo> = Publish::over(AtomicPtr::new(ptr::null_mut()));

/// Who we are: computed at the first call that succeeds, the same for the life of the process.
///
/// Errors, each after an ERROR line and with nothing cached: the dispatcher's status without
/// devices, `NRT_INVALID` for a fake type that does not exist, `NRT_FAILURE` when the machine does
/// not tell its product name.
pub fn info() -> Result<&'static InstanceInfo> {
    CACHED.get_or_try(|| identify(&device::source()?))
}

/// The identity, when it is cached and a caller whose structure has `len` bytes gets no remark.
/// Never logs.
#[inline]
pub fn known(len: usize) -> Option<&'static InstanceInfo> {
    if len <= size_of::<InstanceInfo>() { CACHED.get() } else { None }
}

/// Bytes copied to a caller whose structure has `len` bytes.
pub const fn copy_len(len: usize) -> usize {
    if len < size_of::<InstanceInfo>() { len } else { size_of::<InstanceInfo>() }
}

/// The once-per-process remark about a structure longer than this library knows.
fn oversize(len: usize, said: &AtomicBool) -> Option<String> {
    let known = size_of::<InstanceInfo>();
    (len > known && !said.swap(true, Ordering::Relaxed))
        .then(|| format!("Not all fields will be returned, info size is: {len}, copy size is: {known}"))
}

/// `nrt_get_instance_info` for a caller whose structure has `len` bytes; `out` is its first
/// [`copy_len`]`(len)` bytes. Nothing is written on an error, which are those of [`info`].
pub fn copy_out(len: usize, out: &mut [u8]) -> Result<()> {
    static SAID: AtomicBool = AtomicBool::new(false);
    let warn = |text: String| log_warn!(Nrt, "nrt_get_instance_info", "{text}");
    copy_out_of(info, len, out, &SAID, warn)
}

/// The remark about the length comes first, so a failing or a cached call makes it too.
fn copy_out_of<'a>(
    info: impl FnOnce() -> Result<&'a InstanceInfo>,
    len: usize,
    out: &mut [u8],
    said: &AtomicBool,
    warn: impl FnOnce(String),
) -> Result<()> {
    if let Some(text) = oversize(len, said) {
        warn(text);
    }
    copy(info()?, out);
    Ok(())
}

fn copy(info: &InstanceInfo, out: &mut [u8]) {
    let len = copy_len(out.len());
    out[..len].copy_from_slice(&info.to_bytes()[..len]);
}

/// The product name the machine reports, or the simulated one; `None` when it cannot be read.
pub fn product_name() -> Option<String> {
    match device::source().ok()? {
        Source::Simulated(product) => Some(product.name.to_owned()),
        Source::Kernel(host) => host.product_name().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{kernel::tests::Root, product::PRODUCTS};

    fn bytes(family: u32, size: u32, arch_name: &str, revision: &str) -> [u8; 32] {
        let mut all = [0; 32];
        all[0] = family as u8;
        all[4] = size as u8;
        all[8..8 + arch_name.len()].copy_from_slice(arch_name.as_bytes());
        all[24..24 + revision.len()].copy_from_slice(revision.as_bytes());
        all
    }

    fn identity(root: &Root) -> [u8; 32] {
        identify_host(&root.host()).unwrap().to_bytes()
    }

    /// A081 A088: a fake sysfs root, all 32 bytes against an oracle.
    #[test]
    fn a_host_is_known_by_its_product_name() {
        for (product, kind, family, size, name) in [
            ("trn2.48xlarge", "Trn2", 5, 7, "trn2"),
            ("trn1n.32xlarge", "Trn1", 3, 6, "trn1"),
            ("inf2.xlarge", "Inf2", 4, 0, "inf2"),
            ("EPIC-TGH7-X", "Trn2", 5, 9, "trn2"),
            ("EPIC-TGH7-X", "Trn1", 5, 9, "trn2"),
            ("something.else", "Trn2", 0, 9, "unknown"),
        ] {
            let root = Root::new();
            root.device(0, kind, "8").product(product);
            assert_eq!(identity(&root), bytes(family, size, name, "A"), "{product}");
        }
    }

    /// A084 A085 A086: arch 4, both steppings, known and unknown names.
    #[test]
    fn arch_4_tells_pre_production_silicon_apart() {
        for (product, size) in [("trn3.48xlarge", 7), ("something.else", 1)] {
            let root = Root::new();
            root.device(0, "Trn3", "8").product(product);
            let pci = "sys/bus/pci/devices/0000:00:1f.0";
            root.put(&format!("{pci}/vendor"), "0x1d0f\n").put(&format!("{pci}/device"), "0x7564\n");
            assert_eq!(identity(&root), bytes(14, size, "trn3", "pre"), "{product}");
            root.put(&format!("{pci}/device"), "0x7565\n");
            assert_eq!(identity(&root), bytes(14, size, "trn3", "B"), "{product}");
            root.put(&format!("{pci}/vendor"), "0x8086\n");
            assert_eq!(identity(&root), bytes(14, size, "trn3", "pre"), "another vendor's id");
        }
        assert_eq!(revision(Arch::Cayman, Stepping::A), "A");
        assert!(Stepping::A < Stepping::B);
    }

    #[test]
    fn the_class_link_serves_where_the_device_directory_does_not() {
        let root = Root::new();
        root.device(0, "Trn1", "2").put("sys/class/dmi/id/product_name", "trn1.2xlarge\n");
        assert_eq!(identity(&root), bytes(2, 1, "trn1", "A"));
    }

    #[test]
    fn without_devices_or_product_name_there_is_no_identity() {
        let root = Root::new();
        root.product("trn2.48xlarge");
        assert_eq!(identify_host(&root.host()), Err(Status::Invalid));
        let root = Root::new();
        root.device(0, "Trn2", "8");
        assert_eq!(identify_host(&root.host()), Err(Status::Failure));
    }

    /// A077: family and size of the product, revision all zero, no file read.
    #[test]
    fn a_simulated_identity_needs_no_machine() {
        for p in PRODUCTS {
            let info = identify(&Source::Simulated(p)).unwrap().to_bytes();
            assert_eq!(info, bytes(p.family as u32, p.size as u32, name::arch_name(p.family), ""), "{}", p.name);
        }
    }

    /// A078: cut to leave a terminator.
    #[test]
    fn a_field_keeps_its_terminator() {
        assert_eq!(field::<16>("0123456789abcdefgh"), *b"0123456789abcde\0");
        assert_eq!(field::<8>("1234567"), *b"1234567\0");
        assert_eq!(field::<8>("1234567890"), *b"1234567\0");
        assert_eq!(field::<8>(""), [0; 8]);
    }

    /// A069 A070 A073: any length; bytes past the record stay.
    #[test]
    fn the_smaller_of_both_lengths_is_copied() {
        let info = InstanceInfo::new(Family::Trn2, Size::X48, "A");
        for len in [0, 1, 4, 8, 9, 31, 32, 33, 64] {
            let mut out = [0xAA; 64];
            copy(&info, &mut out[..len]);
            let copied = len.min(32);
            assert_eq!(copy_len(len), copied);
            assert_eq!(out[..copied], bytes(5, 7, "trn2", "A")[..copied], "{len}");
            assert!(out[copied..].iter().all(|b| *b == 0xAA), "{len}");
        }
        assert_eq!(copy_len(usize::MAX), 32);
    }

    /// A072: once, with both numbers.
    #[test]
    fn a_longer_structure_is_remarked_on_once() {
        let said = AtomicBool::new(false);
        assert_eq!(oversize(0, &said), None);
        assert_eq!(oversize(32, &said), None);
        assert_eq!(
            oversize(64, &said).as_deref(),
            Some("Not all fields will be returned, info size is: 64, copy size is: 32")
        );
        assert_eq!(oversize(64, &said), None);
        assert_eq!(oversize(33, &said), None);
    }

    /// A074: before the cache is looked at, so a failing call makes the remark and a cached one too.
    #[test]
    fn the_remark_comes_before_the_answer() {
        let cached = InstanceInfo::new(Family::Trn2, Size::X48, "A");
        for answer in [Err(Status::Invalid), Ok(&cached)] {
            let events = std::cell::RefCell::new(Vec::new());
            let (said, mut out) = (AtomicBool::new(false), [0xAA; 32]);
            let info = || {
                events.borrow_mut().push("answer".to_owned());
                answer
            };
            let result = copy_out_of(info, 64, &mut out, &said, |text| events.borrow_mut().push(text));
            assert_eq!(result, answer.map(|_| ()));
            assert_eq!(out, answer.map_or([0xAA; 32], InstanceInfo::to_bytes));
            let events = events.into_inner();
            assert!(
                events.len() == 2 && events[0].starts_with("Not all fields") && events[1] == "answer",
                "{events:?}"
            );
        }
    }

    /// A080: a failure leaves the cell empty, the first success stays (A092).
    #[test]
    fn only_success_is_published() {
        let cell = Publish::over(AtomicPtr::new(ptr::null_mut()));
        assert_eq!(cell.get_or_try(|| Err::<u32, _>("no device")), Err("no device"));
        assert_eq!(cell.get(), None);
        assert_eq!(cell.get_or_try(|| Ok::<_, ()>(1)), Ok(&1));
        assert_eq!(cell.get_or_try(|| -> std::result::Result<u32, ()> { unreachable!() }), Ok(&1));
        assert_eq!(cell.publish(2), &1);
    }
}
