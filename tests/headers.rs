//! The headers in `include/nrt`, seen by C and C++ compilers.

mod common;

use common::{must_succeed, root};
use nrt_tools::abi::header::{self, HEADERS};
use nrt_tools::abi::table::Field;
use nrt_tools::abi::{Sources, Tables};
use std::path::Path;
use std::process::Command;

const STRICT: [&str; 5] = ["-fsyntax-only", "-Wall", "-Wextra", "-pedantic", "-Werror"];

fn accept(compiler: &str, args: &[&str], source: &Path) {
    let mut command = Command::new(compiler);
    command.args(STRICT).args(args).arg("-I").arg(root().join("include")).arg(source);
    must_succeed(&mut command);
}

/// Write `text` as `name` and let both compilers accept it.
fn accept_text(text: &str, also: &[(&str, &[&str])]) {
    let dir = tempfile::tempdir().expect("a temporary folder can be made");
    let source = dir.path().join("test.c");
    std::fs::write(&source, text).expect("the folder is ours");
    for (compiler, args) in also {
        accept(compiler, args, &source);
    }
}

const BOTH: &[(&str, &[&str])] = &[("gcc", &["-std=c11"]), ("g++", &["-std=c++17", "-x", "c++"])];

#[test]
fn every_header_compiles_alone_in_c11_and_cpp17() {
    let written = std::fs::read_dir(root().join("include/nrt")).expect("the folder is in the repository").count();
    assert_eq!(written, HEADERS.len());
    for h in HEADERS {
        accept_text(&format!("#include \"nrt/{}\"\n#include <nrt/{}>\n", h.name, h.name), BOTH);
    }
}

#[test]
fn headers_also_compile_in_older_and_newer_dialects_and_all_at_once() {
    let all: String = HEADERS.iter().rev().map(|h| format!("#include <nrt/{}>\n", h.name)).collect();
    accept_text(&all, BOTH);
    accept_text(
        "#include <nrt/nrt.h>\n#include <nrt/nrt_profile.h>\n",
        &[
            ("gcc", &["-std=c99"]),
            ("gcc", &["-std=gnu17"]),
            ("g++", &["-std=c++11", "-x", "c++"]),
            ("g++", &["-std=c++20", "-x", "c++"]),
        ],
    );
}

/// A069 A070, and every other size and offset of the table.
#[test]
fn sizes_offsets_and_values_are_those_of_the_tables() {
    let sources = Sources::embedded();
    let tables = Tables::parse(&sources).expect("the tables are sound");
    let mut text: String = HEADERS.iter().map(|h| format!("#include <nrt/{}>\n", h.name)).collect();
    let spelled = |f: &Field<'_>| match f.typedef {
        "-" => format!("struct {}", f.of),
        typedef => typedef.to_string(),
    };
    let mut checked = 0;
    for f in tables.layouts.iter().filter(|f| f.kind == "public") {
        let (t, name) = (spelled(f), f.name);
        let (offset, size, total) = (f.offset.unwrap(), f.size.unwrap(), f.total.unwrap());
        text += &format!("static_assert(offsetof({t}, {name}) == {offset}, \"{t}.{name}\");\n");
        text += &format!("static_assert(sizeof({t}) == {total}, \"{t}\");\n");
        if size > 0 {
            text += &format!("static_assert(sizeof((({t} *)0)->{name}) == {size}, \"{t}.{name} size\");\n");
        }
        checked += 1;
    }
    assert_eq!(checked, 364);
    for f in tables.layouts.iter().filter(|f| f.kind == "typedef" && f.size.is_some()) {
        text += &format!("static_assert(sizeof({0}) == {1}, \"{0}\");\n", f.typedef, f.size.unwrap());
    }
    for e in tables.enums.iter().filter(|e| e.kind == "public") {
        text += &format!("static_assert({} == {}, \"{}\");\n", e.name, e.value, e.name);
    }
    for name in
        tables.enum_names().into_iter().filter(|n| tables.enums.iter().any(|e| e.of == *n && e.kind == "public"))
    {
        text += &format!("static_assert(sizeof({name}) == 4, \"{name}\");\n");
    }
    accept_text(&text, BOTH);
}

/// A031: a definition with the prototype of the table is no conflicting declaration.
#[test]
fn prototypes_are_those_of_the_table() {
    let sources = Sources::embedded();
    let tables = Tables::parse(&sources).expect("the tables are sound");
    let mut text: String = HEADERS.iter().map(|h| format!("#include <nrt/{}>\n", h.name)).collect();
    text += "#ifdef __cplusplus\nextern \"C\" {\n#endif\n";
    for s in &tables.symbols {
        text += &format!("{};\n", header::prototype(s));
        text += &format!("{} (*const p_{})({}) = {};\n", s.ret, s.name, s.prototype, s.name);
    }
    text += "#ifdef __cplusplus\n}\n#endif\n";
    accept_text(&text, BOTH);
}

/// The five calls whose prototypes changed after the published headers.
#[test]
fn asynchronous_calls_have_the_prototypes_of_2_31_24_0() {
    accept_text(
        "#include <nrt/nrt_async.h>\n\
         NRT_STATUS use(nrt_tensor_t *t, nrt_model_t *m, nrt_tensor_set_t *set, nrt_cc_context_t **ctx, char *buf);\n\
         NRT_STATUS use(nrt_tensor_t *t, nrt_model_t *m, nrt_tensor_set_t *set, nrt_cc_context_t **ctx, char *buf) {\n\
             NRT_STATUS done = NRT_SUCCESS;\n\
             nrta_seq_t seq = 0;\n\
             uint64_t zero = 0;\n\
             int lnc = 0, queue = 0;\n\
             nrta_tensor_write(t, buf, zero, zero, lnc, queue, &done, &seq);\n\
             nrta_tensor_read(buf, t, zero, zero, lnc, queue, &done, &seq);\n\
             nrta_tensor_copy(t, zero, t, zero, zero, lnc, queue, &done, &seq);\n\
             nrta_execute_schedule(m, set, set, queue, &done, &seq);\n\
             return nrta_cc_schedule(ctx, queue, &done, &seq);\n\
         }\n\
         static_assert(NRTA_XU_TENSOR_OP == 0 && NRTA_XU_COMPUTE == 1 && NRTA_XU_COLLECTIVES == 2, \"\");\n",
        BOTH,
    );
}
