//! An unmodified Python on the installed library, and pytest with the plugin for other people's tests.

mod common;
#[path = "common/emu.rs"]
mod emu;

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

/// `tests/py/FILE` under pytest, on a tree with programs and plugin as `make install` lays it out.
fn pytest(file: &str) {
    let tree = install();
    let (bin, plugin) = (tree.path().join("bin"), tree.path().join("share/opennrt/python"));
    std::fs::create_dir(&bin).expect("the folder is ours");
    for program in [emu::program(), common::tool("nrt-info")] {
        let name = program.file_name().expect("a program has a name");
        std::os::unix::fs::symlink(&program, bin.join(name)).expect("the folder is empty");
    }
    std::fs::create_dir_all(&plugin).expect("the folder is ours");
    std::fs::copy(root().join("python/opennrt_testing.py"), plugin.join("opennrt_testing.py")).expect("it is there");
    let mut pytest = command(&root().join("scripts/pytest.sh"), tree.path());
    pytest.env_remove("LD_LIBRARY_PATH").env("OPENNRT_PREFIX", tree.path());
    let output = must_succeed(pytest.args(["-rs"]).arg(root().join("tests/py").join(file)));
    print!("{}", String::from_utf8_lossy(&output.stdout));
}

/// Each test of the file proves its own rule; `-rs` names those that cannot run here.
#[test]
fn tests_of_other_people_get_their_instance_from_the_fixtures() {
    pytest("test_fixture.py");
}

/// The pytest files, the steps of a runner and the rights of a container, as the README has them.
#[test]
fn the_lines_for_other_peoples_ci_in_the_readme_work() {
    pytest("test_readme.py");
}
