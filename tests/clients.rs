//! Programs that use the library as its real clients do (`tests/clients`), on simulated instances
//! and on the device files of `neuron-emu serve`: a table of patterns by backends.

#[path = "common/client.rs"]
mod client;
mod common;
#[path = "common/emu.rs"]
mod emu;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use client::Client;
use common::{command, compiled, install, must_succeed, root};
use emu::Served;
use nrt_tools::abi::elf;
use nrt_tools::abi::table::{self, State};
use nrt_tools::abi::{self};

/// How a program comes to the library.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    /// Linked with it; the library path says where it is.
    Linked,
    /// Linked with it, with a runpath and no library path.
    Runpath,
    /// Not linked: it opens the path it is given. No library path.
    Opens,
    /// An extension with a runpath that the script of the same name loads into Python.
    Python,
}

const PATTERNS: &[(&str, Way)] = &[
    ("network_library", Way::Opens),
    ("rdma_benchmark", Way::Runpath),
    ("caching_allocator", Way::Linked),
    ("device_backend", Way::Linked),
    ("python_extension", Way::Python),
    ("counting_loop", Way::Linked),
    ("late_environment", Way::Linked),
    ("null_texts", Way::Linked),
    ("stale_view", Way::Linked),
    ("memory_holder", Way::Linked),
    ("multi_thread_stream", Way::Linked),
];

/// Simulated instances of every generation, small and large.
const SIMULATED: &[&str] = &["trn1.2xlarge", "inf2.xlarge", "trn2.48xlarge", "trn3.48xlarge"];

/// Emulated instances.
const EMULATED: &[&str] = &["trn1.2xlarge", "trn2.3xlarge"];

/// Device memory of a device, so that programs which use it up come to an end, in GiB.
const MEMORY_GIB: u32 = 1;

/// The programs, built once, and the library they are built with.
fn built() -> &'static Path {
    static BUILT: OnceLock<tempfile::TempDir> = OnceLock::new();
    BUILT
        .get_or_init(|| {
            let tree = install();
            let lib = tree.path().join("lib").display().to_string();
            let (search, runpath) = (format!("-L{lib}"), format!("-Wl,-rpath,{lib}"));
            for &(name, way) in PATTERNS {
                let linked = [search.as_str(), "-lnrt", "-pthread", "-ldl"];
                let more: &[&str] = match way {
                    Way::Linked => &[],
                    Way::Runpath => &[&runpath],
                    Way::Python => &[&runpath, "-shared", "-fPIC"],
                    Way::Opens => {
                        compiled("clients", name, tree.path(), &["-ldl", "-pthread"]);
                        continue;
                    }
                };
                compiled("clients", name, tree.path(), &[&linked[..], more].concat());
            }
            tree
        })
        .path()
}

fn way(name: &str) -> Way {
    PATTERNS.iter().find(|(n, _)| *n == name).expect("in the table").1
}

/// A command that starts a program of the table, without a word about the backend.
fn start(name: &str) -> Command {
    let tree = built();
    let program = tree.join(name);
    let way = way(name);
    let mut start = match way {
        Way::Python => command(Path::new("python3"), tree),
        _ => command(&program, tree),
    };
    match way {
        Way::Opens => start.arg(tree.join("lib/libnrt.so.1")),
        Way::Python => start.arg("-I").arg(root().join("tests/clients/python_extension.py")).arg(&program),
        Way::Linked | Way::Runpath => &mut start,
    };
    if way != Way::Linked {
        start.env_remove("LD_LIBRARY_PATH");
    }
    start
}

/// The variables of a simulated instance.
fn simulated(product: &str) -> Vec<(&'static str, PathBuf)> {
    vec![("NEURON_RT_FAKE_INSTANCE_TYPE", product.into()), ("OPENNRT_HBM_MIB", (MEMORY_GIB * 1024).to_string().into())]
}

fn served(product: &str) -> Option<Served> {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let memory = MEMORY_GIB.to_string();
    Served::start(PROGRAM.get_or_init(emu::program), product, &["--hbm-gib", &memory])
}

/// Runs every program of the table there; all failures are told, not only the first.
fn every_pattern(backend: &str, variables: &[(&str, PathBuf)]) {
    let mut failures = String::new();
    for &(name, way) in PATTERNS {
        let mut start = start(name);
        start.envs(variables.iter().cloned()).stdin(Stdio::null());
        let output = start.output().unwrap_or_else(|e| panic!("{start:?} cannot be started: {e}"));
        let [out, log] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        let said = match way {
            Way::Python => out == "made 34 freed 10 closed 1 freed 24 forgotten 1\n",
            _ => true,
        };
        if !output.status.success() || !said || log.contains("internal error") {
            failures.push_str(&format!("{name} on {backend}: {}\n{out}{log}\n", output.status));
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

/// B04, B10, B12 among others; the head of each program says what it stands for.
#[test]
fn every_pattern_works_on_simulated_instances() {
    for product in SIMULATED {
        every_pattern(&format!("a simulated {product}"), &simulated(product));
    }
}

#[test]
fn every_pattern_works_on_device_files() {
    for product in EMULATED {
        let Some(served) = served(product) else { return };
        every_pattern(&format!("an emulated {product}"), &served.variables());
    }
}

/// A program in the folder that nobody runs proves nothing.
#[test]
fn every_program_of_the_folder_is_in_the_table() {
    let mut there: Vec<String> = std::fs::read_dir(root().join("tests/clients"))
        .expect("the folder is in the repository")
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.extension().is_some_and(|end| end == "c" || end == "cpp"))
        .map(|path| path.file_stem().expect("a file").to_string_lossy().into_owned())
        .collect();
    there.sort();
    let mut table: Vec<&str> = PATTERNS.iter().map(|(name, _)| *name).collect();
    table.sort_unstable();
    assert_eq!(there, table);
}

/// A006: what a client of the vendor's library was linked to, and how it finds it.
#[test]
fn linked_clients_bind_versions_and_the_one_that_opens_binds_nothing() {
    let symbols = table::symbols(abi::SYMBOLS).expect("parses");
    for &(name, way) in PATTERNS {
        let file = elf::open(&built().join(name)).expect("gcc just wrote it");
        let ours: Vec<_> = file.imports.iter().filter(|i| i.name.starts_with("nrt")).collect();
        let needed = file.needed.iter().any(|n| n == "libnrt.so.1");
        if way == Way::Opens {
            assert!(ours.is_empty() && !needed, "{name}");
            continue;
        }
        assert!(!ours.is_empty() && needed, "{name}");
        for import in ours {
            let row = symbols.iter().find(|s| s.name == import.name).unwrap_or_else(|| panic!("{}", import.name));
            assert_eq!(import.node.as_deref(), Some(row.node), "{name}: {}", import.name);
            assert_ne!(row.status, State::Stub, "{name} uses {}, which is none of the calls that work", import.name);
        }
    }
    let benchmark = elf::open(&built().join("rdma_benchmark")).expect("gcc just wrote it");
    let va = benchmark.imports.iter().find(|i| i.name == "nrt_tensor_get_va").expect("it asks for addresses");
    assert_eq!((va.node.as_deref(), va.library.as_deref()), (Some("NRT_2.0.0"), Some("libnrt.so.1")));
}

/// What is read of a version: printable bytes, to the end of what can be read.
#[test]
fn versions_are_read_as_far_as_they_are_versions() {
    let mut start = start("null_texts");
    start.envs(simulated("trn1.2xlarge")).env("NEURON_RT_LOG_LEVEL", "DEBUG");
    let output = must_succeed(&mut start);
    let log = String::from_utf8_lossy(&output.stdout);
    let cut = format!("\"{}\"", "x".repeat(255));
    for read in ["\"\"", "\"2.9.1-unterminated\"", "\"2.9.1-across\"", "\"2.9.1-cut\"", &cut] {
        for line in [format!("framework 3 \"2.9\" {read}"), format!("framework 3 {read} {read}")] {
            assert!(log.lines().any(|l| l.ends_with(&line)), "no line ends in {line}");
        }
    }
}

/// B05, B06: memory and cores of a process belong to the next one as soon as it is gone, however it
/// ended; and to its own second life.
fn memory_comes_back(backend: &str, variables: &[(&str, PathBuf)], open_files: impl Fn() -> Option<u64>) {
    let holder = || {
        let mut start = start("memory_holder");
        start.envs(variables.iter().cloned());
        Client::start(start)
    };
    let mut first = holder();
    let all = first.answer();
    assert!(all.starts_with("held ") && !all.starts_with("held 0 "), "{backend}: {all}");
    assert_eq!(first.ask("again"), all, "{backend}: after a close");
    assert_ne!(open_files(), Some(0), "{backend}");
    first.kill();
    for round in 0..5 {
        assert_eq!(open_files().unwrap_or(0), 0, "{backend}: a dead process has nothing open");
        let mut next = holder();
        assert_eq!(next.answer(), all, "{backend}: after a kill, round {round}");
        next.kill();
    }
    let mut last = holder();
    assert_eq!(last.answer(), all, "{backend}");
    assert_eq!(last.end().0, Some(0), "{backend}: ends without a close");
    assert_eq!(holder().answer(), all, "{backend}: after an end without a close");
}

#[test]
fn a_killed_holder_returns_its_memory_on_device_files() {
    for product in ["trn1.2xlarge", "inf2.xlarge", "trn2.3xlarge", "trn3pd98.3xlarge"] {
        let Some(served) = served(product) else { return };
        let open_files = || {
            let status = served.ctl(&["status"]);
            let line = status.lines().find(|l| l.trim_start().starts_with("\"open_files\"")).expect("it is reported");
            line.split(':').nth(1)?.trim().trim_end_matches(',').parse().ok()
        };
        memory_comes_back(product, &served.variables(), open_files);
    }
}

#[test]
fn a_killed_holder_returns_its_memory_in_simulation() {
    for product in SIMULATED {
        memory_comes_back(product, &simulated(product), || None);
    }
}
