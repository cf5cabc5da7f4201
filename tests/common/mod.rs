//! Helpers of the whole-library tests.

// Every test binary uses its own part of this.
#![allow(dead_code)]

use nrt_tools::abi::{self, table};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// Root of the repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Build `what`, in the profile of this test, and say where `file` is.
fn build(what: &[&str], file: &str) -> PathBuf {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(root()).args(["build", "--quiet"]).args(what);
    // This test runs from target/PROFILE/deps or target/TRIPLE/PROFILE/deps.
    let exe = std::env::current_exe().expect("a test knows its own path");
    let profile = exe.ancestors().nth(2).expect("a test binary is two folders below its profile's");
    cargo.arg("--target-dir").arg(profile.parent().expect("a profile's folder is in the target folder"));
    if profile.ends_with("release") {
        cargo.arg("--release");
    }
    must_succeed(&mut cargo);
    let built = profile.join(file);
    assert!(built.is_file(), "{} was not built", built.display());
    built
}

/// The library. `cargo test` does not build it: a cdylib is nothing a test can link.
pub fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| build(&["--package", "nrt", "--lib"], "libnrt.so"))
}

/// The program `nrt-abi`.
pub fn nrt_abi() -> PathBuf {
    tool("nrt-abi")
}

/// A program of `nrt-tools`, which `cargo test` of this package does not build either.
pub fn tool(name: &str) -> PathBuf {
    build(&["--package", "nrt-tools", "--bin", name], name)
}

/// A fresh install tree `lib/libnrt.so → libnrt.so.1 → libnrt.so.2.31.24.0` and `include/nrt`.
pub fn install() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a temporary folder can be made");
    let lib = dir.path().join("lib");
    std::fs::create_dir_all(&lib).expect("the folder is ours");
    let real = format!("libnrt.so.{}", nrt_core::version::VENDOR_TEXT);
    std::fs::copy(library(), lib.join(&real)).expect("the library was just built");
    std::os::unix::fs::symlink(&real, lib.join("libnrt.so.1")).expect("the folder is empty");
    std::os::unix::fs::symlink("libnrt.so.1", lib.join("libnrt.so")).expect("the folder is empty");
    std::os::unix::fs::symlink(root().join("include"), dir.path().join("include")).expect("the folder is empty");
    dir
}

/// Run to the end; the test fails with the whole output when the exit status is not 0.
pub fn must_succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?} cannot be started: {e}"));
    assert!(
        output.status.success(),
        "{command:?} ended with {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// Lists for the C programs: every header, and `SYMBOL(name, "node")` for every name.
pub fn lists(dir: &Path, keep: impl Fn(&table::Symbol<'_>) -> bool) -> usize {
    let symbols = table::symbols(abi::SYMBOLS).expect("the table in the repository parses");
    let kept: Vec<_> = symbols.iter().filter(|s| keep(s)).collect();
    let names: String = kept.iter().map(|s| format!("SYMBOL({}, \"{}\")\n", s.name, s.node)).collect();
    let headers: String = abi::header::HEADERS.iter().map(|h| format!("#include <nrt/{}>\n", h.name)).collect();
    std::fs::write(dir.join("symbols.inc"), names).expect("the folder is ours");
    std::fs::write(dir.join("all_headers.inc"), headers).expect("the folder is ours");
    kept.len()
}

/// Compile `tests/c/NAME.c`, or `NAME.cpp`, against the headers into `tree`; extra arguments come last.
pub fn program(name: &str, tree: &Path, extra: &[&str]) -> PathBuf {
    compiled("c", name, tree, extra)
}

/// [`program`], from another folder in `tests`.
pub fn compiled(folder: &str, name: &str, tree: &Path, extra: &[&str]) -> PathBuf {
    let exe = tree.join(name);
    let source = |end: &str| root().join(format!("tests/{folder}/{name}.{end}"));
    let (compiler, standard, source) = match source("c") {
        c if c.is_file() => ("gcc", "-std=gnu11", c),
        _ => ("g++", "-std=gnu++17", source("cpp")),
    };
    let mut command = Command::new(compiler);
    command
        .args([standard, "-O1", "-Wall", "-Wextra", "-pedantic", "-Werror", "-D_GNU_SOURCE"])
        .arg(format!("-I{}", root().join("include").display()))
        .arg(format!("-I{}", tree.display()))
        .arg(source)
        .arg("-o")
        .arg(&exe)
        .args(extra);
    must_succeed(&mut command);
    exe
}

/// [`program`], linked with the library of `tree`.
pub fn linked(name: &str, tree: &Path, extra: &[&str]) -> PathBuf {
    let search = format!("-L{}", tree.join("lib").display());
    program(name, tree, &[&[&search, "-lnrt", "-pthread"], extra].concat())
}

/// A command that finds the library of `tree` and none of the variables the library reads.
pub fn command(exe: &Path, tree: &Path) -> Command {
    let mut command = Command::new(exe);
    command.env("LD_LIBRARY_PATH", tree.join("lib"));
    for (variable, _) in std::env::vars_os() {
        let text = variable.to_string_lossy();
        if text.starts_with("NEURON_") || text.starts_with("OPENNRT_") {
            command.env_remove(variable);
        }
    }
    command
}
