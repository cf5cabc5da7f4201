//! `nrt-abi`: the surface of a libnrt file, and the files that follow from the tables.
//!
//! Exit status: 0 no difference, 1 a difference, 2 an input that cannot be read.

use clap::{Parser, Subcommand};
use nrt_tools::abi::compare::{self, Difference};
use nrt_tools::abi::elf::{self, Library};
use nrt_tools::abi::{SYMBOLS, Sources, Tables, generate, table};
use serde::Serialize;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Compare what libnrt files export, by name and version node.
#[derive(Parser)]
#[command(version)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Compare a library with the surface this program was built for (2.31.24.0)
    Check {
        /// A libnrt.so.1, ours or another
        lib: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Compare the exports of two libraries
    Diff {
        /// What should be
        lib_a: PathBuf,
        /// What is
        lib_b: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List what programs and plugins need of a libnrt and a library lacks
    Missing {
        /// A libnrt.so.1, ours or another
        lib: PathBuf,
        /// Programs or shared libraries that use it
        #[arg(required = true)]
        clients: Vec<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Write symbols.map, include/nrt and docs/coverage.md from the tables in abi/
    Generate {
        /// Only say whether something would change
        #[arg(long)]
        check: bool,
        /// Root of the repository
        #[arg(long, default_value = ".")]
        root: PathBuf,
    },
}

/// What one command found out about one file.
#[derive(Serialize)]
struct Report<'a> {
    file: &'a Path,
    soname: Option<&'a str>,
    build_id: Option<&'a str>,
    /// Oldest C library the file runs on.
    glibc: Option<String>,
    exports: usize,
    differences: Vec<Difference>,
}

impl<'a> Report<'a> {
    fn new(file: &'a Path, lib: &'a Library, differences: Vec<Difference>) -> Report<'a> {
        Report {
            file,
            soname: lib.soname.as_deref(),
            build_id: lib.build_id.as_deref(),
            glibc: lib.glibc().map(|(major, minor)| format!("{major}.{minor}")),
            exports: lib.exports.len(),
            differences,
        }
    }
}

fn main() -> ExitCode {
    match run(Args::parse().command, &mut io::stdout().lock()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(sentence) => {
            eprintln!("nrt-abi: {sentence}");
            ExitCode::from(2)
        }
    }
}

/// Whether there is no difference.
fn run(command: Command, out: &mut impl Write) -> Result<bool, String> {
    match command {
        Command::Check { lib, json } => {
            let symbols = table::symbols(SYMBOLS)?;
            let read = elf::open(&lib)?;
            print(out, json, &[Report::new(&lib, &read, compare::with_table(&symbols, &read))])
        }
        Command::Diff { lib_a, lib_b, json } => {
            let (a, b) = (elf::open(&lib_a)?, elf::open(&lib_b)?);
            print(out, json, &[Report::new(&lib_b, &b, compare::libraries(&a, &b))])
        }
        Command::Missing { lib, clients, json } => {
            let lib = elf::open(&lib)?;
            let read = clients.iter().map(|c| elf::open(c)).collect::<Result<Vec<_>, _>>()?;
            let reports: Vec<_> = clients
                .iter()
                .zip(&read)
                .map(|(path, client)| Report::new(path, client, compare::missing(&lib, client)))
                .collect();
            print(out, json, &reports)
        }
        Command::Generate { check, root } => {
            let sources = Sources::read(&root)?;
            let files = generate::files(&Tables::parse(&sources)?);
            let stale = if check { generate::stale(&root, &files) } else { generate::write(&root, &files)? };
            for path in &stale {
                say(out, format_args!("{path} {}", if check { "is out of date" } else { "written" }))?;
            }
            if check && !stale.is_empty() {
                say(out, format_args!("run make abi"))?;
            }
            Ok(!check || stale.is_empty())
        }
    }
}

fn say(out: &mut impl Write, text: std::fmt::Arguments<'_>) -> Result<(), String> {
    match writeln!(out, "{text}") {
        // Whoever reads through `head` has seen enough.
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(format!("the result cannot be written: {e}")),
        _ => Ok(()),
    }
}

fn print(out: &mut impl Write, json: bool, reports: &[Report<'_>]) -> Result<bool, String> {
    /// More lines than this help nobody on a terminal.
    const MOST: usize = 50;
    if json {
        let text = serde_json::to_string_pretty(reports).map_err(|e| format!("the result cannot be written: {e}"))?;
        say(out, format_args!("{text}"))?;
    } else {
        for r in reports {
            let soname = r.soname.unwrap_or("no SONAME").escape_debug();
            let glibc = r.glibc.as_deref().map_or(String::new(), |v| format!(", needs C library {v}"));
            let build = r.build_id.map_or(String::new(), |id| format!(", build id {}", &id[..id.len().min(40)]));
            let file = r.file.display();
            match r.differences.len() {
                0 => say(out, format_args!("{file} ({soname}, {} exports{glibc}{build}): no difference", r.exports))?,
                n => say(out, format_args!("{file} ({soname}, {} exports{glibc}{build}): {n} differences", r.exports))?,
            }
            for d in r.differences.iter().take(MOST) {
                say(out, format_args!("  {d}"))?;
            }
            if let Some(more) = r.differences.len().checked_sub(MOST).filter(|n| *n > 0) {
                say(out, format_args!("  and {more} more; --json lists them all"))?;
            }
        }
    }
    Ok(reports.iter().all(|r| r.differences.is_empty()))
}
