//! Build script of the cdylib: link arguments that make the file `libnrt.so.1`, and the parts of
//! the entry layer that follow from the tables under `abi/`, so that no name, version node,
//! state gate or prototype is written down twice.

// The programs use more of the table's module than this script does.
#[allow(dead_code)]
#[path = "crates/nrt-tools/src/abi/table.rs"]
mod table;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use table::{Error, Field, Gate, State, Symbol};

fn main() {
    if let Err(sentence) = run() {
        println!("cargo::error={sentence}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), Error> {
    let env = |name: &str| std::env::var(name).unwrap_or_default();
    if (env("CARGO_CFG_TARGET_ARCH").as_str(), env("CARGO_CFG_TARGET_OS").as_str()) != ("x86_64", "linux") {
        return Err(format!(
            "OpenNRT is for x86-64 Linux, not for {}; build with --target x86_64-unknown-linux-gnu",
            env("TARGET")
        ));
    }
    let package = PathBuf::from(env("CARGO_MANIFEST_DIR"));
    // The fuzz crate, one folder below, makes a plain Rust library of the same sources.
    let fuzz = env("CARGO_PKG_NAME") == "nrt-fuzz";
    let root = if fuzz { package.join("..") } else { package };
    let out = PathBuf::from(env("OUT_DIR"));
    println!("cargo::rerun-if-changed={}", root.join("build.rs").display());
    println!("cargo::rerun-if-changed={}", root.join("symbols.map").display());

    let symbols = read(&root, table::SYMBOLS)?;
    let symbols = table::symbols(&symbols)?;
    let enums = read(&root, table::ENUMS)?;
    let enums = table::enums(&enums)?;
    let layouts = read(&root, table::LAYOUTS)?;
    let layouts = table::layouts(&layouts)?;

    write(
        &out,
        "exports.rs",
        &if fuzz { exports(&symbols, false) + &surface(&symbols) } else { exports(&symbols, true) },
    )?;
    write(&out, "checks.rs", &(signatures(&symbols, &enums)? + &layout_checks(&symbols, &layouts)))?;
    write(&out, "status_names.rs", &status_names(&enums))?;
    let modules: BTreeSet<&str> = symbols.iter().map(Symbol::module).collect();
    for module in modules {
        write(&out, &format!("stubs_{module}.rs"), &stubs(module, &symbols, &enums)?)?;
    }

    if !fuzz {
        link(&root);
    }
    Ok(())
}

fn read(root: &Path, name: &str) -> Result<String, Error> {
    let path = root.join(name);
    println!("cargo::rerun-if-changed={}", path.display());
    std::fs::read_to_string(path).map_err(|e| format!("{name} cannot be read: {e}"))
}

fn write(out: &Path, name: &str, text: &str) -> Result<(), Error> {
    let path = out.join(name);
    std::fs::write(&path, text).map_err(|e| format!("{} cannot be written: {e}", path.display()))
}

/// The linker must be lld, which this toolchain uses by itself, or zig's: GNU ld refuses a second
/// version script next to the one rustc writes.
fn link(root: &Path) {
    let map = root.join("symbols.map");
    for arg in [
        &format!("--version-script={}", map.display()),
        "-soname,libnrt.so.1",
        // Fork handlers and thread locals must survive a dlclose.
        "-z,nodelete",
        "-z,relro",
        "-z,now",
        "-z,noexecstack",
    ] {
        println!("cargo::rustc-cdylib-link-arg=-Wl,{arg}");
    }
}

/// `publish!`, which gives an export (and its aliases) their version node, and `call!`, which
/// says what the guard needs to know about it. A program can have no version nodes.
fn exports(symbols: &[Symbol<'_>], versions: bool) -> String {
    let mut publish = String::from("macro_rules! publish {\n");
    let mut call = String::from("macro_rules! call {\n");
    for s in symbols.iter().filter(|s| s.alias.is_none()) {
        let name = s.name;
        let symver = |of: &str, node: &str| match versions {
            true => format!(".symver {of}, {of}@@{node}\\n"),
            false => String::new(),
        };
        let mut asm = symver(name, s.node);
        for a in symbols.iter().filter(|a| a.alias == Some(name)) {
            let alias = a.name;
            asm += &format!(".globl {alias}\\n.type {alias}, @function\\n.set {alias}, {name}\\n");
            asm += &symver(alias, a.node);
        }
        writeln!(publish, "    ({name}) => {{ ::core::arch::global_asm!(\"{asm}\"); }};").expect("as above");
        let gate = match s.gate {
            Gate::Any | Gate::Body => "Any",
            Gate::Init => "InitRequired",
            Gate::Probe => "InitProbe",
            Gate::BeforeInit => "BeforeInit",
        };
        writeln!(
            call,
            "    ({name}) => {{ $crate::guard::Call {{ name: \"{name}\", \
             gate: ::nrt_core::lifecycle::GateClass::{gate} }} }};"
        )
        .expect("as above");
    }
    publish + "}\n" + &call + "}\n"
}

/// Every export that is no alias, by name and address: the way in for the fuzz targets.
fn surface(symbols: &[Symbol<'_>]) -> String {
    let rows: String = symbols
        .iter()
        .filter(|s| s.alias.is_none())
        .map(|s| {
            let (name, module) = (s.name, s.module());
            // SAFETY of the text: a function pointer for a function pointer, not called as it stands.
            format!(
                "    (\"{name}\", unsafe {{ transmute::<*const (), Export>(crate::{module}::{name} as *const ()) }}),\n"
            )
        })
        .collect();
    format!(
        "type Export = unsafe extern \"C\" fn();\nuse ::core::mem::transmute;\n/// Every export.\n\
         pub static SURFACE: &[(&str, Export)] = &[\n{rows}];\n"
    )
}

/// A C type as the entry layer spells it. `_Bool` parameters arrive as a byte, so that a caller
/// that passes something else than 0 and 1 meets a check and not undefined behaviour.
fn rust_type(ctype: &str, enums: &BTreeSet<&str>) -> Result<String, Error> {
    let mut text = ctype.replace("volatile ", "");
    let mut pointers = Vec::new();
    while let Some(rest) = text.trim_end().strip_suffix('*') {
        text = rest.trim_end().to_string();
        pointers.push("*mut");
    }
    let base = match text.strip_prefix("const ") {
        Some(base) => {
            // `const T **` is a pointer to a pointer to constant T: the innermost star is constant.
            if let Some(innermost) = pointers.last_mut() {
                *innermost = "*const";
            }
            base.to_string()
        }
        None => text,
    };
    let base = match base.as_str() {
        "void" if pointers.is_empty() => "()".into(),
        "void" => "::core::ffi::c_void".into(),
        "char" => "::core::ffi::c_char".into(),
        "int" | "int32_t" => "i32".into(),
        "uint32_t" => "u32".into(),
        "uint64_t" | "nrta_seq_t" => "u64".into(),
        "int64_t" => "i64".into(),
        "uint8_t" => "u8".into(),
        "size_t" => "usize".into(),
        "bool" if pointers.is_empty() => "u8".into(),
        "bool" => "bool".into(),
        name if enums.contains(name) => "u32".into(),
        name if name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') => format!("crate::types::{name}"),
        _ => return Err(format!("{} has the type `{ctype}`, which build.rs does not know", table::SYMBOLS)),
    };
    Ok(pointers.iter().map(|p| format!("{p} ")).collect::<String>() + &base)
}

fn enum_names<'a>(enums: &[table::Enumerator<'a>]) -> BTreeSet<&'a str> {
    enums.iter().map(|e| e.of).collect()
}

fn return_type(ctype: &str, enums: &BTreeSet<&str>) -> Result<String, Error> {
    if ctype == "bool" { Ok("bool".into()) } else { rust_type(ctype, enums) }
}

/// One constant per export whose type is the prototype of the table: an export that is missing
/// or differs does not compile.
fn signatures(symbols: &[Symbol<'_>], enums: &[table::Enumerator<'_>]) -> Result<String, Error> {
    let enums = enum_names(enums);
    let mut text = String::new();
    for s in symbols.iter().filter(|s| s.alias.is_none()) {
        let params = s.params.iter().map(|p| rust_type(p.ctype, &enums)).collect::<Result<Vec<_>, _>>()?;
        writeln!(
            text,
            "const _: unsafe extern \"C\" fn({}) -> {} = crate::{}::{};",
            params.join(", "),
            return_type(s.ret, &enums)?,
            s.module(),
            s.name
        )
        .expect("a string takes every write");
    }
    Ok(text)
}

/// Size and offsets of every struct a prototype leads to, against `types.rs`.
fn layout_checks(symbols: &[Symbol<'_>], layouts: &[Field<'_>]) -> String {
    fn base(ctype: &str) -> &str {
        let text = ctype.trim_start_matches("const ").trim_start_matches("volatile ");
        text.split([' ', '*', '[']).next().unwrap_or(text)
    }
    let mut wanted: BTreeSet<&str> = symbols.iter().flat_map(|s| s.params.iter().map(|p| base(p.ctype))).collect();
    loop {
        let more: Vec<&str> = layouts
            .iter()
            .filter(|f| f.kind == "public" && wanted.contains(f.typedef))
            .map(|f| base(f.ctype))
            .filter(|t| !wanted.contains(t))
            .collect();
        if more.is_empty() {
            break;
        }
        wanted.extend(more);
    }
    let mut text = String::new();
    for f in layouts.iter().filter(|f| f.kind == "public" && f.typedef != "-" && wanted.contains(f.typedef)) {
        let (t, name) = (f.typedef, f.name);
        let (offset, total) = (f.offset.unwrap_or(0), f.total.unwrap_or(0));
        write!(
            text,
            "const _: () = assert!(::core::mem::offset_of!(crate::types::{t}, r#{name}) == {offset});\n\
             const _: () = assert!(::core::mem::size_of::<crate::types::{t}>() == {total});\n"
        )
        .expect("a string takes every write");
    }
    text
}

/// The stubs of one header: every row with status `stub` that is not an alias.
fn stubs(module: &str, symbols: &[Symbol<'_>], enums: &[table::Enumerator<'_>]) -> Result<String, Error> {
    let enums = enum_names(enums);
    let mut text = String::new();
    for s in symbols.iter().filter(|s| s.module() == module && s.status == State::Stub && s.alias.is_none()) {
        let params = s
            .params
            .iter()
            // `unsafe` is a parameter name of the C header and a keyword here.
            .map(|p| Ok(format!("r#{}: {}", p.name, rust_type(p.ctype, &enums)?)))
            .collect::<Result<Vec<_>, Error>>()?;
        let ret = match s.ret {
            "void" => String::new(),
            "NRT_STATUS" => " -> NRT_STATUS".into(),
            ret => format!(" -> {}", return_type(ret, &enums)?),
        };
        writeln!(text, "export_stub! {{ fn {}({}){ret} }}", s.name, params.join(", "))
            .expect("a string takes every write");
    }
    Ok(text)
}

/// Status number to static C text.
fn status_names(enums: &[table::Enumerator<'_>]) -> String {
    let arms: String = enums
        .iter()
        .filter(|e| e.of == "NRT_STATUS")
        .map(|e| format!("        {} => c\"{}\",\n", e.value, e.name))
        .collect();
    format!(
        "/// Name of a status number, `UNKNOWN` for a number that is none.\n\
         pub(crate) fn status_name(status: u32) -> &'static ::core::ffi::CStr {{\n    match status {{\n\
         {arms}        _ => c\"UNKNOWN\",\n    }}\n}}\n"
    )
}
