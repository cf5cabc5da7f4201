//! C programs that link or load the finished library, as its users do.

mod common;

use common::{command, install, linked, lists, must_succeed, nrt_abi, program, root};
use nrt_tools::abi::{self, elf, table};
use std::process::Command;

/// A006 A031 B02: all 145 names resolve, each reference under the node of the table.
#[test]
fn a_program_that_uses_every_name_starts_with_all_of_them_bound() {
    let tree = install();
    let count = lists(tree.path(), |s| s.node != "OPENNRT_1.0");
    assert_eq!(count, 145);
    let lib = tree.path().join("lib");
    let exe = linked("link", tree.path(), &[]);

    let output = must_succeed(Command::new(&exe).env("LD_BIND_NOW", "1").env("LD_LIBRARY_PATH", &lib));
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{count}\n"));

    let client = elf::open(&exe).expect("gcc just wrote it");
    assert!(client.needed.iter().any(|n| n == "libnrt.so.1"), "{:?}", client.needed);
    for s in table::symbols(abi::SYMBOLS).expect("parses").iter().filter(|s| s.node != "OPENNRT_1.0") {
        let import = client.imports.iter().find(|i| i.name == s.name).expect(s.name);
        assert_eq!(import.node.as_deref(), Some(s.node), "{}", s.name);
        assert_eq!(import.library.as_deref(), Some("libnrt.so.1"), "{}", s.name);
    }
}

/// B03: the file is found by its SONAME where the loader is told to look, and nowhere else.
#[test]
fn a_program_finds_the_library_through_the_library_path_or_its_runpath() {
    let tree = install();
    lists(tree.path(), |s| s.node == "NRT_2.0.0");
    let lib = tree.path().join("lib");
    let exe = linked("link", tree.path(), &[]);

    let lost = Command::new(&exe).env_remove("LD_LIBRARY_PATH").output().expect("the loader starts");
    assert!(!lost.status.success());
    let text = String::from_utf8_lossy(&lost.stderr);
    assert!(text.contains("libnrt.so.1: cannot open shared object file"), "{text}");

    must_succeed(Command::new(&exe).env("LD_LIBRARY_PATH", &lib));
    let runpath = format!("-Wl,-rpath,{}", lib.display());
    let exe = linked("link", tree.path(), &[&runpath]);
    must_succeed(Command::new(&exe).env_remove("LD_LIBRARY_PATH"));
}

/// A002: the link chain of an installed tree ends at one file with the SONAME in the middle.
#[test]
fn the_installed_links_lead_to_the_file_of_this_version() {
    let tree = install();
    let lib = tree.path().join("lib");
    let real = lib.join("libnrt.so.2.31.24.0").canonicalize().expect("installed");
    for link in ["libnrt.so", "libnrt.so.1"] {
        assert_eq!(lib.join(link).canonicalize().expect(link), real);
    }
}

/// B04: by full path, then by SONAME: one handle; every name under its node and no other; the
/// library outlives its last dlclose.
#[test]
fn a_program_that_loads_the_library_twice_gets_one_and_every_name_has_its_node() {
    let tree = install();
    let count = lists(tree.path(), |_| true);
    let exe = program("dlopen_dlvsym", tree.path(), &["-ldl"]);
    let full = tree.path().join("lib/libnrt.so.1");
    let output = must_succeed(Command::new(&exe).arg(&full).env_remove("LD_LIBRARY_PATH"));
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{count}\n"));
}

/// B02: an older runtime library shadows the one a client was built with. The loader stops at the
/// first name; `nrt-abi missing` says beforehand which ones there are.
#[test]
fn an_older_library_lacks_what_nrt_abi_names() {
    const NEW: &[&str] = &["nrt_cc_create_stream", "nrt_tensor_copy", "nrta_tensor_copy"];
    let tree = install();
    let tree = tree.path();
    lists(tree, |s| s.node != "OPENNRT_1.0");
    let client = linked("link", tree, &[]);

    let symbols = table::symbols(abi::SYMBOLS).expect("parses");
    let old = symbols.iter().filter(|s| s.node != "OPENNRT_1.0" && !NEW.contains(&s.name));
    let code: String = old.map(|s| format!("void {}(void) {{}}\n", s.name)).collect();
    let (folder, source) = (tree.join("older"), tree.join("older.c"));
    std::fs::create_dir(&folder).expect("the folder is ours");
    std::fs::write(&source, code).expect("the folder is ours");
    let older = folder.join("libnrt.so.1");
    must_succeed(
        Command::new("gcc")
            .args(["-shared", "-fPIC", "-Wl,-soname,libnrt.so.1"])
            .arg(format!("-Wl,--version-script={}", root().join("symbols.map").display()))
            .arg(source)
            .arg("-o")
            .arg(&older),
    );

    let mut shadowed = command(&client, tree);
    let stopped = shadowed.env("LD_LIBRARY_PATH", &folder).env("LD_BIND_NOW", "1").output().expect("the loader starts");
    let text = String::from_utf8_lossy(&stopped.stderr);
    assert!(!stopped.status.success() && NEW.iter().any(|name| text.contains(name)), "{text}");

    let missing = |lib: &std::path::Path| {
        let output = Command::new(nrt_abi()).arg("missing").args([lib, &client]).output().expect("just built");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (code, text) = missing(&older);
    let named: Vec<&str> = text.lines().skip(1).collect();
    let wanted = [
        "  nrt_cc_create_stream: wanted NRT_2.0.0, found nothing",
        "  nrt_tensor_copy: wanted NRT_2.0.0, found nothing",
        "  nrta_tensor_copy: wanted NRT_3.0.0, found nothing",
    ];
    assert_eq!((code, named), (Some(1), wanted.to_vec()));
    let (code, text) = missing(&tree.join("lib/libnrt.so.1"));
    assert!(code == Some(0) && text.contains("no difference"), "{text}");
}
