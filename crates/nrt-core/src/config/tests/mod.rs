//! Tests of the parse as a whole. Everything here is pure: variables come from [`Vars`].
//! The facts tables under `tests/data` are the project's copy of `facts/config`.

use super::{Shape, env::Env, lnc, rules};
use neuron_abi::{Arch, Family};
use std::collections::BTreeMap;

mod grammars;
mod layout;
mod reporting;
mod rule;
mod variables;

/// An environment of a test.
pub(crate) struct Vars(BTreeMap<String, Vec<u8>>);

impl Vars {
    pub(crate) fn new(set: &[(&str, &str)]) -> Vars {
        Vars(set.iter().map(|(name, text)| ((*name).into(), (*text).into())).collect())
    }
}

impl Env for Vars {
    fn get(&self, name: &str) -> Option<Vec<u8>> {
        self.0.get(name).cloned()
    }

    fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }
}

const TRN1: Shape = Shape { arch: Arch::Sunda, family: Family::Trn1, cores_per_device: 2 };
const TRN2: Shape = Shape { arch: Arch::Cayman, family: Family::Trn2, cores_per_device: 8 };
const TRN3: Shape = Shape { arch: Arch::Mariana, family: Family::Trn3, cores_per_device: 8 };

/// A facts table: rows of cells, without comments and the header.
fn rows(text: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    text.lines().filter(|line| !line.starts_with('#')).skip(1).map(|line| line.split('\t').collect())
}

const ENV: &str = include_str!("../../../tests/data/env.tsv");
const CFG: &str = include_str!("../../../tests/data/nrt_config.tsv");
const GCFG: &str = include_str!("../../../tests/data/nrt_global_config.tsv");
const SUBSTRUCTS: &str = include_str!("../../../tests/data/substructs.tsv");
const ENUMS: &str = include_str!("../../../tests/data/enums.tsv");
const TEXTS: &str = include_str!("../../../tests/data/texts.tsv");
const OTHERS: &str = include_str!("../../../tests/data/env_documented_elsewhere.tsv");

/// A095, A117: one file reads the configuration environment, and the log its own variables.
#[test]
fn the_environment_has_one_funnel() {
    fn sources(folder: &std::path::Path, found: &mut Vec<std::path::PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, found);
            } else {
                found.push(path);
            }
        }
    }
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    // Put together here so that this file does not find itself.
    let readers = ["env::", "get"].map(|start| format!("{start}{}", if start == "get" { "env" } else { "var" }));
    // Unit tests tell their children apart by a variable of their own.
    let is_test = |file: &std::path::Path| file.iter().any(|part| part == "tests" || part == "tests.rs");
    let found: Vec<_> = files
        .iter()
        .filter(|file| !is_test(file.strip_prefix(&root).unwrap()))
        .filter(|file| {
            let text = std::fs::read_to_string(file).unwrap();
            let text = text.split("#[cfg(test)]\nmod ").next().unwrap();
            readers.iter().any(|reader| text.contains(reader.as_str()))
        })
        .map(|file| file.strip_prefix(&root).unwrap())
        .filter(|file| !file.starts_with("log"))
        .collect();
    assert_eq!(found, [std::path::Path::new("config/env.rs")]);
}

/// The bytes of a record.
fn bytes<T: super::record::Zero>(record: &T) -> &[u8] {
    // SAFETY: the records have no implicit padding (asserted where they are defined), so every
    // byte is initialised; the slice lives as long as the borrow.
    unsafe { std::slice::from_raw_parts((&raw const *record).cast(), size_of::<T>()) }
}

/// A member as a reader with only the C type sees it.
fn decode(record: &[u8], offset: usize, c_type: &str) -> String {
    let word = |at: usize| u64::from_le_bytes(record[at..at + 8].try_into().unwrap());
    let half = |at: usize| u32::from_le_bytes(record[at..at + 4].try_into().unwrap());
    let join = |list: Vec<String>| list.join(",");
    match c_type {
        "bool" => record[offset].to_string(),
        "uint32_t" | "numerical_error_notification_verbosity_t" => half(offset).to_string(),
        "uint64_t" | "size_t" => word(offset).to_string(),
        "int64_t" | "time_t" => (word(offset) as i64).to_string(),
        "uint32_t[5]" => join((0..5).map(|i| half(offset + 4 * i).to_string()).collect()),
        "uint64_t[5]" => join((0..5).map(|i| word(offset + 8 * i).to_string()).collect()),
        "cpu_set_t" => join(
            (0..1024)
                .filter(|bit| word(offset + bit / 64 * 8) >> (bit % 64) & 1 == 1)
                .map(|bit| bit.to_string())
                .collect(),
        ),
        "const char *" => match word(offset) {
            0 => "NULL".into(),
            address => {
                let text = std::ptr::with_exposed_provenance(address as usize);
                // SAFETY: a pointer member that is not NULL holds a NUL-terminated text owned by
                // the draft, which the caller keeps alive.
                unsafe { std::ffi::CStr::from_ptr(text) }.to_str().unwrap().into()
            }
        },
        "std::vector<int>" => {
            let (begin, end) = (word(offset) as usize, word(offset + 8) as usize);
            assert_eq!(word(offset + 16) as usize, end);
            let at = |address: usize| {
                // SAFETY: begin and end enclose the ints of a list owned by the draft.
                unsafe { std::ptr::with_exposed_provenance::<i32>(address).read() }
            };
            join((begin..end).step_by(4).map(|address| at(address).to_string()).collect())
        }
        "enc_proxy_histogram_config_t" => {
            let path = &record[offset + 40..offset + 168];
            let end = path.iter().position(|byte| *byte == 0).unwrap();
            let path = std::str::from_utf8(&path[..end]).unwrap();
            let [a, b, c, d] = [8, 16, 24, 32].map(|at| word(offset + at));
            format!("{} {a} {b} {c} {d} {path}", record[offset])
        }
        other => panic!("no decoder for {other}"),
    }
}
