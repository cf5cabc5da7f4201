//! An unmodified Python on the installed library.

mod common;

use common::{command, install, must_succeed, root};
use std::path::Path;
use std::process::Command;

/// `tests/py/smoke.py`, isolated from what is installed for this user.
fn smoke(tree: &Path, args: &[&str]) -> Command {
    let mut python = command(Path::new("python3"), tree);
    python.env_remove("LD_LIBRARY_PATH").arg("-I").arg(root().join("tests/py/smoke.py")).args(args);
    python
}

fn must_be_silent(python: &mut Command) {
    let output = must_succeed(python);
    let printed = [output.stdout, output.stderr].concat();
    assert!(printed.is_empty(), "{}", String::from_utf8_lossy(&printed));
}

/// A095: counts, identity and a tensor, after a load that read no variable.
#[test]
fn python_loads_the_library_by_its_path() {
    let tree = install();
    let file = tree.path().join("lib/libnrt.so.1");
    must_be_silent(&mut smoke(tree.path(), &["path", &file.to_string_lossy()]));
}

/// B03.
#[test]
fn python_loads_the_library_by_its_short_name_from_the_library_path() {
    let tree = install();
    let lost = smoke(tree.path(), &["name"]).output().expect("python3 is installed by make setup");
    assert!(String::from_utf8_lossy(&lost.stderr).contains("libnrt.so.1: cannot open shared object file"));
    must_be_silent(smoke(tree.path(), &["name"]).env("LD_LIBRARY_PATH", tree.path().join("lib")));
}

#[test]
fn python_finds_a_preloaded_library_in_its_process() {
    let tree = install();
    must_be_silent(smoke(tree.path(), &["preloaded"]).env("LD_PRELOAD", tree.path().join("lib/libnrt.so.1")));
}
