//! The finished `libnrt.so` against `abi/symbols.tsv`. Only this proves the version nodes: a map
//! file and `no_mangle` link without complaint and give unversioned exports.

mod common;

use nrt_tools::abi::elf::{self, Library};
use nrt_tools::abi::{self, table};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

fn library() -> &'static Library {
    static READ: OnceLock<Library> = OnceLock::new();
    READ.get_or_init(|| elf::open(common::library()).expect("the library was just built"))
}

fn symbols() -> Vec<table::Symbol<'static>> {
    table::symbols(abi::SYMBOLS).expect("the table in the repository parses")
}

/// A006 A031 B02: the names of the table, each a function under its node, and nothing else.
#[test]
fn exports_are_exactly_the_table_each_in_its_node_and_default() {
    let wanted: BTreeSet<_> = symbols().iter().map(|s| (s.name.to_string(), Some(s.node.to_string()))).collect();
    let found: BTreeSet<_> = library().exports.iter().map(|e| (e.name.clone(), e.node.clone())).collect();
    assert_eq!(found.difference(&wanted).collect::<Vec<_>>(), Vec::<&_>::new(), "exported but not in the table");
    assert_eq!(wanted.difference(&found).collect::<Vec<_>>(), Vec::<&_>::new(), "in the table but not exported");
    assert_eq!(library().exports.len(), wanted.len(), "a name has two versions");
    for e in &library().exports {
        assert!(e.default, "{} is not the default version", e.name);
        assert!(e.function, "{} is not a function", e.name);
    }
}

#[test]
fn version_nodes_are_the_base_node_and_the_three_of_the_table() {
    let nodes: BTreeMap<&str, &elf::Node> = library().nodes.iter().map(|n| (n.name.as_str(), n)).collect();
    let wanted: BTreeSet<&str> = table::NODES.iter().map(|(name, _)| *name).chain(["libnrt.so.1"]).collect();
    assert_eq!(nodes.keys().copied().collect::<BTreeSet<_>>(), wanted);
    assert!(nodes["libnrt.so.1"].base);
    for (name, parent) in table::NODES {
        // lld drops the edge to the parent; the loader does not look at it.
        let parents = &nodes[name].parents;
        assert!(parents.is_empty() || parents.iter().map(String::as_str).eq(parent), "{name}: {parents:?}");
    }
}

/// A014 A052 A053: one body, two names.
#[test]
fn nc_names_are_the_addresses_of_the_vnc_names() {
    let aliases: Vec<_> = symbols().into_iter().filter(|s| s.alias.is_some()).collect();
    assert_eq!(aliases.len(), 3);
    for s in aliases {
        let address = |name| library().export(name).expect("exported").address;
        assert_eq!(address(s.name), address(s.alias.expect("filtered")), "{}", s.name);
    }
}

/// A002 B03 B04.
#[test]
fn soname_is_the_vendors() {
    assert_eq!(library().soname.as_deref(), Some("libnrt.so.1"));
}

#[test]
fn needs_only_the_c_library_family_and_libgcc() {
    let family = ["libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libutil.so.1"];
    let allowed: BTreeSet<&str> = family.into_iter().chain(["libgcc_s.so.1", "ld-linux-x86-64.so.2"]).collect();
    for needed in &library().needed {
        assert!(allowed.contains(needed.as_str()), "unexpected DT_NEEDED {needed}");
    }
    for import in &library().imports {
        let node = import.node.as_deref().unwrap_or_default();
        assert!(
            ["GLIBC_", "GCC_"].iter().any(|family| node.starts_with(family)),
            "import {} is of {node:?}, not of the C library",
            import.name
        );
    }
    let (major, minor) = library().glibc().expect("something of the C library is used");
    println!("highest C library version needed: GLIBC_{major}.{minor}");
    // What a build on the oldest supported build machine may ask for; release builds ask for 2.28.
    assert!((major, minor) <= (2, 36), "needs GLIBC_{major}.{minor}");
}

#[test]
fn is_hardened_and_stays_mapped() {
    let lib = library();
    assert!(!lib.executable_stack);
    assert!(lib.relro && lib.now, "full RELRO");
    assert!(lib.nodelete, "fork handlers and thread locals must survive a dlclose");
}
