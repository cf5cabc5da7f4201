//! What follows from the tables and lives in the repository: the version script, the headers
//! people compile against, and the list of what works.

use super::Tables;
use super::header::{self, HEADERS};
use super::table::{State, Symbol};
use std::fmt::Write as _;
use std::path::Path;

/// One generated file: path below the root of the repository, and text.
pub type File = (String, String);

/// Everything `nrt-abi generate` writes.
pub fn files(tables: &Tables<'_>) -> Vec<File> {
    let mut files = vec![
        ("symbols.map".to_string(), header::version_script(tables)),
        ("docs/coverage.md".to_string(), coverage(tables)),
    ];
    files.extend(HEADERS.iter().map(|h| (format!("include/nrt/{}", h.name), header::write(h, tables))));
    files
}

/// The files below `root` that differ from what the tables say.
pub fn stale(root: &Path, files: &[File]) -> Vec<String> {
    files
        .iter()
        .filter(|(path, text)| std::fs::read_to_string(root.join(path)).ok().as_ref() != Some(text))
        .map(|(path, _)| path.clone())
        .collect()
}

/// Write the files that differ; the answer is their paths.
///
/// # Errors
///
/// A file cannot be written.
pub fn write(root: &Path, files: &[File]) -> Result<Vec<String>, String> {
    let stale = stale(root, files);
    for (path, text) in files.iter().filter(|(path, _)| stale.contains(path)) {
        let full = root.join(path);
        let folder = full.parent().unwrap_or(root);
        std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::write(&full, text))
            .map_err(|e| format!("{} cannot be written: {e}", full.display()))?;
    }
    Ok(stale)
}

fn state(s: State) -> &'static str {
    match s {
        State::Works => "works",
        State::WorksKernel => "works on devices only",
        State::Stub => "stub",
    }
}

fn coverage(tables: &Tables<'_>) -> String {
    let mut out = String::from(
        "# What works\n\n\
         <!-- Generated from abi/symbols.tsv by `make abi`; edit the table, not this file. -->\n\n\
         A stub is exported and has its prototype, but logs one error line and fails. Every call obeys the\n\
         state gate whatever its state here.\n\n\
         | functions | works | works on devices only | stub |\n|---|---|---|---|\n",
    );
    let (extensions, vendor): (Vec<_>, Vec<_>) = tables.symbols.iter().partition(|s| s.node == "OPENNRT_1.0");
    for (what, rows) in [("of the vendor's surface", &vendor), ("added by OpenNRT", &extensions)] {
        let count = |wanted| rows.iter().filter(|s| s.status == wanted).count();
        writeln!(
            out,
            "| {} {what} | {} | {} | {} |",
            rows.len(),
            count(State::Works),
            count(State::WorksKernel),
            count(State::Stub)
        )
        .expect("a string takes every write");
    }
    for h in HEADERS {
        let rows: Vec<&Symbol<'_>> = tables.symbols.iter().filter(|s| s.header == h.name).collect();
        if rows.is_empty() {
            continue;
        }
        write!(out, "\n## {}\n\n| call | state | node | |\n|---|---|---|---|\n", h.name)
            .expect("a string takes every write");
        for s in rows {
            writeln!(out, "| `{}` | {} | {} | {} |", s.name, state(s.status), s.node, s.note.replace('|', "\\|"))
                .expect("a string takes every write");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::{Sources, Tables};
    use super::*;

    #[test]
    fn the_generated_files_in_the_repository_are_what_the_tables_say() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let sources = Sources::embedded();
        let tables = Tables::parse(&sources).expect("the tables are sound");
        assert_eq!(stale(&root, &files(&tables)), Vec::<String>::new(), "run make abi");
    }

    #[test]
    fn every_header_a_table_names_is_written() {
        let sources = Sources::embedded();
        let tables = Tables::parse(&sources).expect("the tables are sound");
        let named = tables
            .symbols
            .iter()
            .map(|s| s.header)
            .chain(tables.layouts.iter().map(|f| f.header))
            .chain(tables.enums.iter().map(|e| e.header))
            .chain(tables.constants.iter().map(|c| c.header));
        for name in named.filter(|name| *name != "-") {
            assert!(HEADERS.iter().any(|h| h.name == name), "{name}");
        }
    }

    #[test]
    fn a_stale_file_is_found_and_rewritten_once() {
        let dir = tempfile::tempdir().expect("a temporary folder can be made");
        let files = vec![("a/b.h".to_string(), "text\n".to_string())];
        assert_eq!(stale(dir.path(), &files), ["a/b.h"]);
        assert_eq!(write(dir.path(), &files), Ok(vec!["a/b.h".to_string()]));
        assert_eq!(write(dir.path(), &files), Ok(vec![]));
        std::fs::write(dir.path().join("a/b.h"), "other").expect("the folder is ours");
        assert_eq!(stale(dir.path(), &files), ["a/b.h"]);
    }
}
