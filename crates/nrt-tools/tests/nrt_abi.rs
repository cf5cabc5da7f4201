//! `nrt-abi` as a person meets it: output, exit status, and input that is not what it should be.

use nrt_tools::abi::elf;
use proptest::prelude::*;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// A small libnrt, another one, and a client of the first, made once.
struct Files {
    dir: tempfile::TempDir,
}

impl Files {
    fn get() -> &'static Files {
        static MADE: OnceLock<Files> = OnceLock::new();
        MADE.get_or_init(|| {
            let dir = tempfile::tempdir().expect("a temporary folder can be made");
            let root = dir.path();
            let write = |name: &str, text: &str| std::fs::write(root.join(name), text).expect("the folder is ours");
            write("a.c", "int nrt_init(void) { return 0; }\nvoid nrt_close(void) {}\nint nrta_x(void) { return 0; }\n");
            write("b.c", "int nrt_init(void) { return 0; }\nint nrt_other(void) { return 0; }\n");
            write("a.map", "NRT_2.0.0 { global: nrt_*; local: *; };\nNRT_3.0.0 { global: nrta_*; } NRT_2.0.0;\n");
            write(
                "client.c",
                "int nrt_init(void); void nrt_close(void); int main(void) { nrt_close(); return nrt_init(); }\n",
            );
            let gcc = |args: &[&str]| {
                let out = Command::new("gcc").current_dir(root).args(args).output().expect("gcc is installed");
                assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
            };
            let shared = ["-shared", "-fPIC", "-Wl,-soname,libnrt.so.1"];
            gcc(&[&shared[..], &["a.c", "-Wl,--version-script=a.map", "-o", "liba.so"]].concat());
            gcc(&[&shared[..], &["b.c", "-Wl,--version-script=a.map", "-o", "libb.so"]].concat());
            gcc(&["client.c", "./liba.so", "-o", "client"]);
            Files { dir }
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

fn run(args: &[&str], dir: &Path) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = Command::new(env!("CARGO_BIN_EXE_nrt-abi"))
        .current_dir(dir)
        .args(args)
        .output()
        .expect("the program was built");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the program prints text");
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn check_names_what_a_library_lacks_and_ends_with_1() {
    let (code, out, _) = run(&["check", "liba.so"], Files::get().dir.path());
    assert_eq!(code, Some(1));
    assert!(out.starts_with("liba.so (libnrt.so.1, 3 exports"), "{out}");
    assert!(out.contains("  nec_get_device_count: wanted NRT_2.0.0, found nothing\n"), "{out}");
    assert!(!out.contains("nrt_init:"), "{out}");
    assert!(out.lines().count() <= 52, "more than a screen");
    assert!(out.contains("more; --json lists them all"), "{out}");
}

#[test]
fn json_lists_every_difference() {
    let (code, out, _) = run(&["check", "liba.so", "--json"], Files::get().dir.path());
    assert_eq!(code, Some(1));
    let json: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    let report = &json[0];
    assert_eq!(report["soname"], "libnrt.so.1");
    // 145 of the surface less the two that are there, and one that is not of the surface.
    assert_eq!(report["differences"].as_array().expect("a list").len(), 145 - 2 + 1);
}

#[test]
fn diff_is_silent_about_equal_files_and_names_what_differs() {
    let dir = Files::get().dir.path();
    let (code, out, _) = run(&["diff", "liba.so", "liba.so"], dir);
    assert_eq!((code, out.contains("no difference")), (Some(0), true), "{out}");
    let (code, out, _) = run(&["diff", "liba.so", "libb.so"], dir);
    assert_eq!(code, Some(1));
    let lines: Vec<&str> = out.lines().skip(1).collect();
    assert_eq!(
        lines,
        [
            "  nrt_close: wanted NRT_2.0.0, found nothing",
            "  nrt_other: wanted nothing, found NRT_2.0.0",
            "  nrta_x: wanted NRT_3.0.0, found nothing"
        ]
    );
}

#[test]
fn missing_names_what_a_client_needs_and_a_library_lacks() {
    let dir = Files::get().dir.path();
    assert_eq!(run(&["missing", "liba.so", "client"], dir).0, Some(0));
    let (code, out, _) = run(&["missing", "libb.so", "client", "client"], dir);
    assert_eq!(code, Some(1));
    assert_eq!(out.matches("  nrt_close: wanted NRT_2.0.0, found nothing\n").count(), 2, "{out}");
}

#[test]
fn input_that_cannot_be_read_ends_with_2_and_one_sentence() {
    let files = Files::get();
    let dir = files.dir.path();
    std::fs::write(files.path("text"), "no library").expect("the folder is ours");
    std::fs::write(files.path("empty"), "").expect("the folder is ours");
    let whole = std::fs::read(files.path("liba.so")).expect("just built");
    std::fs::write(files.path("short"), &whole[..100]).expect("the folder is ours");
    let mut other = whole.clone();
    other[18] = 183;
    std::fs::write(files.path("arm"), &other).expect("the folder is ours");
    for (name, says) in [
        ("nothing-here", "cannot be opened"),
        (".", "not a regular file"),
        ("/dev/zero", "not a regular file"),
        ("text", "not an ELF file"),
        ("empty", "not an ELF file"),
        ("short", "not a sound ELF file"),
        ("arm", "for another machine"),
    ] {
        let (code, out, err) = run(&["check", name], dir);
        assert_eq!((code, out.as_str()), (Some(2), ""), "{name}");
        assert!(err.contains(says) && err.contains(name), "{name}: {err}");
        assert_eq!(err.lines().count(), 1, "{name}: {err}");
    }
}

#[test]
fn generate_check_finds_a_stale_file_and_says_what_to_run() {
    let dir = tempfile::tempdir().expect("a temporary folder can be made");
    let tables = dir.path().join("abi");
    std::fs::create_dir(&tables).expect("the folder is ours");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../abi");
    for name in ["symbols.tsv", "enums.tsv", "layouts.tsv", "constants.tsv"] {
        std::fs::copy(source.join(name), tables.join(name)).expect("the tables are in the repository");
    }
    let check = || run(&["generate", "--check"], dir.path());
    let (code, out, _) = check();
    assert_eq!((code, out.lines().last()), (Some(1), Some("run make abi")), "{out}");
    assert_eq!(run(&["generate"], dir.path()).0, Some(0));
    assert_eq!(check(), (Some(0), String::new(), String::new()));

    let path = tables.join("symbols.tsv");
    let text = std::fs::read_to_string(&path).expect("just copied");
    std::fs::write(&path, text.replace("\tinit\tstub", "\tinit\tworks")).expect("the folder is ours");
    let (code, out, _) = check();
    assert_eq!((code, out.lines().last()), (Some(1), Some("run make abi")), "{out}");
    assert!(out.contains("docs/coverage.md is out of date"), "{out}");

    std::fs::write(&path, text.replace("NRT_2.0.0", "NRT_2.0.1")).expect("the folder is ours");
    let (code, _, err) = check();
    assert_eq!((code, err.lines().count()), (Some(2), 1), "{err}");
    assert_eq!(run(&["generate", "--root", "nowhere"], dir.path()).0, Some(2));
}

#[test]
fn a_reader_that_closes_early_is_no_error() {
    let script =
        format!("{} check liba.so | head -1 >/dev/null; exit ${{PIPESTATUS[0]}}", env!("CARGO_BIN_EXE_nrt-abi"));
    let out = Command::new("bash").arg("-c").arg(script).current_dir(Files::get().dir.path()).output().expect("bash");
    assert_eq!((out.status.code(), out.stderr.as_slice()), (Some(1), &b""[..]));
}

fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let whole = std::fs::read(Files::get().path("liba.so")).expect("just built");
    let len = whole.len();
    // Headers, the dynamic tables at the start and the section table at the end hold the structure.
    let place = prop_oneof![0..0x40usize, 0x40..0x800usize, 0..len, len - 0x800..len];
    let change = (place, any::<u8>());
    (prop::collection::vec(change, 1..12), prop_oneof![4 => Just(len), 1 => 0..len]).prop_map(move |(changes, keep)| {
        let mut bytes = whole.clone();
        for (at, value) in changes {
            bytes[at] = value;
        }
        bytes.truncate(keep);
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    /// Reading ends, in a library or a sentence, whatever the bytes are.
    #[test]
    fn damaged_files_never_panic(bytes in mutated()) {
        if let Err(error) = elf::read(&bytes) {
            prop_assert_eq!(error.to_string().lines().count(), 1);
        }
    }

    #[test]
    fn random_bytes_after_a_good_start_never_panic(tail in prop::collection::vec(any::<u8>(), 0..2048)) {
        let mut bytes = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0\x01\0\0\0".to_vec();
        bytes.extend(tail);
        prop_assert!(elf::read(&bytes).is_err());
    }
}
