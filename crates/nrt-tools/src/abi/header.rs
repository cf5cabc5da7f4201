//! One C header from the tables.
//!
//! Why not cbindgen: it names a struct after its Rust type, so it cannot keep a tag that differs
//! from the typedef (`struct nrt_tensor` and `nrt_tensor_t`), and it does not see functions that a
//! macro makes, which all exports here are. The tables hold what the headers need, also for the
//! many types of `nec.h` that the library itself never touches.

use super::Tables;
use super::table::{Field, Gate, NODES, State, Symbol};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// A header to write.
pub struct Header {
    /// File name below `include/nrt`.
    pub name: &'static str,
    about: &'static str,
    /// Other headers of this folder it needs.
    needs: &'static [&'static str],
    /// System headers beyond the integer and boolean types.
    system: &'static [&'static str],
}

macro_rules! headers {
    ($($name:literal: $about:literal, [$($needs:literal),*] [$($system:literal),*];)*) => {
        /// Every header, in the order in which one may need another.
        pub const HEADERS: &[Header] = &[$(Header {
            name: $name, about: $about, needs: &[$($needs),*], system: &[$($system),*],
        }),*];
    };
}

headers! {
    "nrt_status.h": "Status of a call.", [] [];
    "nrt_version.h": "Version of the runtime.", ["nrt_status.h"] [];
    "neuron_driver_shared_tensor_batch_op.h": "One transfer of a batch.", [] [];
    "nrt.h": "Lifecycle, models, tensors, counting and identity.",
        ["nrt_status.h", "neuron_driver_shared_tensor_batch_op.h"] [];
    "nrt_async.h": "Explicit asynchronous execution.", ["nrt.h"] [];
    "nrt_async_sendrecv.h": "Point-to-point transfers.", ["nrt.h"] [];
    "nrt_experimental.h": "Calls that may still change.", ["nrt.h"] [];
    "nrt_profile.h": "Profiles and captures.", ["nrt.h"] [];
    "nrt_sys_trace.h": "System trace.", ["nrt.h"] [];
    "ndebug_stream.h": "Debug event stream of a core.", ["nrt_status.h"] [];
    "nec.h": "What the collectives library asks of the runtime.", ["nrt.h"] ["pthread.h", "time.h"];
    "neuron_ds.h": "Records a process publishes through the driver.", [] [];
    "opennrt.h": "What OpenNRT adds to the vendor's surface.", ["nrt_status.h"] [];
}

/// First lines of every generated C file.
pub const NOTICE: &str = "/* SPDX-License-Identifier: Apache-2.0 */\n\
                          /* Generated from the tables in abi/ by `make abi`; edit those, not this file. */\n";

/// The whole text of `header`.
pub fn write(header: &Header, tables: &Tables<'_>) -> String {
    let guard = format!("OPENNRT_{}", header.name.replace('.', "_").to_uppercase());
    let mut out = format!("{NOTICE}\n/** @file\n * {}\n */\n#ifndef {guard}\n#define {guard}\n\n", header.about);
    for name in header.system.iter().chain(&["assert.h", "stdbool.h", "stddef.h", "stdint.h"]) {
        line(&mut out, format_args!("#include <{name}>"));
    }
    if !header.needs.is_empty() {
        out.push('\n');
    }
    for name in header.needs {
        line(&mut out, format_args!("#include \"nrt/{name}\""));
    }
    out.push_str("\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n");
    constants(&mut out, header.name, tables);
    enums(&mut out, header.name, tables);
    types(&mut out, header.name, tables);
    for s in tables.symbols.iter().filter(|s| s.header == header.name) {
        out.push('\n');
        comment(&mut out, "", &format!("{} {}", s.note, remark(s)));
        line(&mut out, format_args!("{};", prototype(s)));
    }
    out.push_str("\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n");
    out
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(out, "{text}").expect("a string takes every write");
}

/// `type name`, with the star next to the name.
fn declare(ctype: &str, name: &str) -> String {
    let (base, dimensions) = match ctype.find('[') {
        Some(at) => ctype.split_at(at),
        None => (ctype, ""),
    };
    let space = if base.ends_with('*') { "" } else { " " };
    format!("{base}{space}{name}{dimensions}")
}

/// The C declaration of an export, without its semicolon.
pub fn prototype(s: &Symbol<'_>) -> String {
    declare(s.ret, &format!("{}({})", s.name, s.prototype))
}

fn remark(s: &Symbol<'_>) -> String {
    let state = match s.status {
        State::Works => "Works on every backend",
        State::WorksKernel => "Works on devices only",
        State::Stub => "Not implemented yet: logs an error and fails",
    };
    let gate = match s.gate {
        Gate::Any => "callable in every state",
        Gate::Init => "needs nrt_init",
        Gate::Probe => "without effect unless the runtime is up",
        Gate::BeforeInit => "only before nrt_init",
        Gate::Body => "callable in every state, with an effect that depends on it",
    };
    format!("{state}; {gate}. Version node {}.", s.node)
}

/// A documentation comment, wrapped.
fn comment(out: &mut String, indent: &str, text: &str) {
    const WIDTH: usize = 100;
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("starts with one");
        if !last.is_empty() && indent.len() + 4 + last.len() + 1 + word.len() > WIDTH {
            lines.push(word.to_string());
        } else {
            if !last.is_empty() {
                last.push(' ');
            }
            last.push_str(word);
        }
    }
    match lines.as_slice() {
        [one] => line(out, format_args!("{indent}/** {one} */")),
        more => {
            line(out, format_args!("{indent}/**"));
            for text in more {
                line(out, format_args!("{indent} * {text}"));
            }
            line(out, format_args!("{indent} */"));
        }
    }
}

fn constants(out: &mut String, header: &str, tables: &Tables<'_>) {
    let mut first = true;
    for c in tables.constants.iter().filter(|c| c.header == header && c.kind != "limit") {
        if std::mem::take(&mut first) {
            out.push('\n');
        }
        if c.note != "-" {
            comment(out, "", &format!("{}.", capital(c.note)));
        }
        line(out, format_args!("#define {} {}", c.name, c.value));
    }
}

fn enums(out: &mut String, header: &str, tables: &Tables<'_>) {
    let rows: Vec<_> = tables.enums.iter().filter(|e| e.header == header && e.kind == "public").collect();
    for group in rows.chunk_by(|a, b| a.of == b.of) {
        let of = group[0].of;
        out.push('\n');
        match of.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
            Some(about) => {
                comment(out, "", &format!("{}.", capital(about)));
                line(out, format_args!("enum {{"));
            }
            None => line(out, format_args!("typedef enum {of} {{")),
        }
        for e in group {
            if e.meaning != "-" {
                comment(out, "    ", &format!("{}.", capital(e.meaning)));
            }
            line(out, format_args!("    {} = {},", e.name, e.value));
        }
        match of.starts_with('(') {
            true => line(out, format_args!("}};")),
            false => line(out, format_args!("}} {of};")),
        }
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|c| c.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

/// Name of the struct or union behind a C type that holds it by value.
fn held(ctype: &str) -> Option<&str> {
    let base = ctype.split('[').next().unwrap_or(ctype).trim();
    (!base.contains('*')).then(|| base.trim_start_matches("struct "))
}

fn types(out: &mut String, header: &str, tables: &Tables<'_>) {
    let here = |f: &&Field<'_>| f.header == header;
    let mut tags: Vec<&str> = Vec::new();
    let mut opaque = Vec::new();
    for f in tables.layouts.iter().filter(here) {
        if f.kind == "opaque" && !opaque.iter().any(|(tag, _)| *tag == f.of) {
            opaque.push((f.of, f.typedef));
        }
        if f.kind != "public" {
            continue;
        }
        if let Some(tag) = f.ctype.trim_start_matches("const ").strip_prefix("struct ")
            && let Some((tag, _)) = tag.split_once(' ')
            && !tags.contains(&tag)
        {
            tags.push(tag);
        }
    }
    if !opaque.is_empty() {
        out.push('\n');
    }
    for (tag, typedef) in opaque {
        line(out, format_args!("typedef struct {tag} {typedef};"));
    }
    // A struct that is first mentioned inside another one or inside a prototype would otherwise
    // be another type in each.
    if !tags.is_empty() {
        out.push('\n');
        tags.sort_unstable();
    }
    for tag in tags {
        line(out, format_args!("struct {tag};"));
    }
    let typedefs: Vec<_> = tables.layouts.iter().filter(here).filter(|f| f.kind == "typedef").collect();
    if !typedefs.is_empty() {
        out.push('\n');
    }
    for f in typedefs {
        match f.ctype.split_once("(*)") {
            Some((ret, params)) => line(out, format_args!("typedef {ret}(*{}){params};", f.typedef)),
            None => line(out, format_args!("typedef {};", declare(f.ctype, f.typedef))),
        }
    }

    let mut left: Vec<_> = tables
        .structs()
        .into_iter()
        .filter(|(_, fields)| fields[0].kind == "public" && fields[0].header == header)
        .collect();
    let mut sizes = String::new();
    while !left.is_empty() {
        let waiting: BTreeSet<&str> = left.iter().flat_map(|(name, f)| [*name, f[0].typedef]).collect();
        let ready = left
            .iter()
            .position(|(_, fields)| fields.iter().filter_map(|f| held(f.ctype)).all(|t| !waiting.contains(t)))
            .expect("no struct of the table holds itself");
        let (name, fields) = left.remove(ready);
        structure(out, name, &fields);
        let typedef = fields[0].typedef;
        let spelled = if typedef == "-" { format!("struct {name}") } else { typedef.to_string() };
        let total = fields[0].total.unwrap_or(0);
        line(&mut sizes, format_args!("static_assert(sizeof({spelled}) == {total}, \"{spelled} is {total} bytes\");"));
    }
    if !sizes.is_empty() {
        // Older dialects have no static assertion; other machines have another pthread_mutex_t.
        write!(out, "\n#if defined(__x86_64__) && defined(__LP64__) && (defined(static_assert) || defined(__cplusplus))\n{sizes}#endif\n")
            .expect("a string takes every write");
    }
}

/// Tag of a nested aggregate. C++ forbids types that are defined inside an anonymous union, so
/// each one is a struct of its own.
fn nested(of: &str, path: &str) -> String {
    format!("opennrt_{of}_{}", path.replace('.', "_"))
}

fn structure(out: &mut String, name: &str, fields: &[&Field<'_>]) {
    for f in fields.iter().rev().filter(|f| f.ctype.starts_with("anonymous struct")) {
        let tag = nested(name, f.name);
        let inside: Vec<_> = members(fields, f.name);
        line(out, format_args!("\nstruct {tag} {{"));
        if inside.is_empty() {
            // The table knows the size only; the alignment is that of the pointers around it.
            let count = f.ctype.split(['[', ']']).nth(1).and_then(|n| n.parse().ok()).unwrap_or(1);
            line(out, format_args!("    uint64_t content[{}];", f.size.unwrap_or(0) / count / 8));
        } else {
            body(out, name, &inside);
        }
        line(out, format_args!("}};"));
    }
    out.push('\n');
    let notes: BTreeSet<&str> = fields.iter().map(|f| f.note).filter(|n| *n != "-").collect();
    for note in notes.iter().filter(|_| fields.iter().all(|f| f.note == fields[0].note)) {
        comment(out, "", &format!("{}.", capital(note)));
    }
    let typedef = fields[0].typedef;
    line(out, format_args!("{}struct {name} {{", if typedef == "-" { "" } else { "typedef " }));
    body(out, name, &members(fields, ""));
    match typedef {
        "-" => line(out, format_args!("}};")),
        _ => line(out, format_args!("}} {typedef};")),
    }
}

/// Fields directly inside the aggregate `path` (empty for the struct itself).
fn members<'f, 'a>(fields: &[&'f Field<'a>], path: &str) -> Vec<&'f Field<'a>> {
    fields.iter().filter(|f| f.name.rsplit_once('.').map_or("", |(parent, _)| parent) == path).copied().collect()
}

fn body(out: &mut String, of: &str, fields: &[&Field<'_>]) {
    for group in fields.chunk_by(|a, b| a.offset == b.offset && b.size != Some(0)) {
        let union = group.len() > 1;
        let indent = if union { "        " } else { "    " };
        if union {
            line(out, format_args!("    union {{"));
        }
        for f in group {
            let name = f.name.rsplit('.').next().unwrap_or(f.name);
            let ctype = match f.ctype.strip_prefix("anonymous struct") {
                Some(dimensions) => format!("struct {}{dimensions}", nested(of, f.name)),
                None => f.ctype.to_string(),
            };
            // C++ has flexible array members only as an extension.
            let extension = if ctype.ends_with("[]") { "__extension__ " } else { "" };
            line(out, format_args!("{indent}{extension}{};", declare(&ctype, name)));
        }
        if union {
            line(out, format_args!("    }};"));
        }
    }
}

/// `symbols.map`, the version script of the library.
pub fn version_script(tables: &Tables<'_>) -> String {
    let mut out = format!("{NOTICE}\n");
    for (node, parent) in NODES {
        line(&mut out, format_args!("{node} {{\n  global:"));
        for s in tables.symbols.iter().filter(|s| s.node == node) {
            line(&mut out, format_args!("    {};", s.name));
        }
        if parent.is_none() && node == NODES[0].0 {
            out.push_str("  local:\n    *;\n");
        }
        match parent {
            Some(parent) => line(&mut out, format_args!("}} {parent};\n")),
            None => line(&mut out, format_args!("}};\n")),
        }
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}
