//! The tables under `abi/`: one parser for the build script, the generator and the tests.
//!
//! This file uses nothing but the standard library, because the build script of the cdylib
//! includes it by path.

/// `abi/symbols.tsv`.
pub const SYMBOLS: &str = "abi/symbols.tsv";
/// `abi/enums.tsv`.
pub const ENUMS: &str = "abi/enums.tsv";
/// `abi/layouts.tsv`.
pub const LAYOUTS: &str = "abi/layouts.tsv";
/// `abi/constants.tsv`.
pub const CONSTANTS: &str = "abi/constants.tsv";

/// Version nodes in file order, each with its parent.
pub const NODES: [(&str, Option<&str>); 3] =
    [("NRT_2.0.0", None), ("NRT_3.0.0", Some("NRT_2.0.0")), ("OPENNRT_1.0", None)];

/// What went wrong with a table, as one sentence.
pub type Error = String;

/// When a call may run (`facts/runtime/lifecycle.md` section 1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// In every state.
    Any,
    /// Only while the runtime is up; 13, 14 or 1 otherwise.
    Init,
    /// Only while the runtime is up; one log line and no effect otherwise.
    Probe,
    /// Only before `nrt_init`.
    BeforeInit,
    /// The body asks, because the call acts in more than one state.
    Body,
}

impl Gate {
    /// The spelling in the table.
    pub const ALL: [(&'static str, Gate); 5] = [
        ("any", Gate::Any),
        ("init", Gate::Init),
        ("probe", Gate::Probe),
        ("before-init", Gate::BeforeInit),
        ("body", Gate::Body),
    ];
}

/// How far a call is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// On every backend.
    Works,
    /// On the kernel backend only.
    WorksKernel,
    /// One log line and a failure value.
    Stub,
}

impl State {
    /// The spelling in the table.
    pub const ALL: [(&'static str, State); 3] =
        [("works", State::Works), ("works:kernel", State::WorksKernel), ("stub", State::Stub)];
}

/// One parameter of a prototype.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param<'a> {
    /// C type, without the name.
    pub ctype: &'a str,
    /// C name.
    pub name: &'a str,
}

/// One row of `abi/symbols.tsv`.
#[derive(Clone, Debug)]
pub struct Symbol<'a> {
    /// Exported name.
    pub name: &'a str,
    /// Version node.
    pub node: &'a str,
    /// C return type.
    pub ret: &'a str,
    /// Parameters as C text.
    pub prototype: &'a str,
    /// The same, split.
    pub params: Vec<Param<'a>>,
    /// Header that declares it.
    pub header: &'a str,
    /// Name whose address this name shares.
    pub alias: Option<&'a str>,
    /// When it may run.
    pub gate: Gate,
    /// How far it is built.
    pub status: State,
    /// Whether the collectives library needs it at load time.
    pub libnccom: bool,
    /// What it does, in one line.
    pub note: &'a str,
}

impl Symbol<'_> {
    /// Module of the entry layer that defines it: the header's name without its end.
    pub fn module(&self) -> &str {
        self.header.trim_end_matches(".h")
    }
}

/// One row of `abi/enums.tsv`.
#[derive(Clone, Debug)]
pub struct Enumerator<'a> {
    /// Name of the enum; in parentheses when the C enum has none.
    pub of: &'a str,
    /// C name.
    pub name: &'a str,
    /// Value.
    pub value: i64,
    /// Header that declares it, or `-`.
    pub header: &'a str,
    /// `public`, `internal` or `superseded`.
    pub kind: &'a str,
    /// Meaning in one line, or `-`.
    pub meaning: &'a str,
}

/// One row of `abi/layouts.tsv`.
#[derive(Clone, Debug)]
pub struct Field<'a> {
    /// `public`, `opaque`, `removed` or `typedef`.
    pub kind: &'a str,
    /// Tag of the struct, or `-`.
    pub of: &'a str,
    /// Typedef name, or `-`.
    pub typedef: &'a str,
    /// Field name with the dots of nested members, or `-`.
    pub name: &'a str,
    /// C type.
    pub ctype: &'a str,
    /// Offset in bytes.
    pub offset: Option<usize>,
    /// Size in bytes.
    pub size: Option<usize>,
    /// Size of the whole struct in bytes.
    pub total: Option<usize>,
    /// Header that declares it.
    pub header: &'a str,
    /// `yes`, `fields`, `size` or `no`: what more than one source agrees on.
    pub verified: &'a str,
    /// Remark, or `-`.
    pub note: &'a str,
}

/// One row of `abi/constants.tsv`.
#[derive(Clone, Debug)]
pub struct Constant<'a> {
    /// C name, with the parameter of a function-like macro.
    pub name: &'a str,
    /// C text, or `-` when unknown.
    pub value: &'a str,
    /// Header that declares it, or `-`.
    pub header: &'a str,
    /// `macro`, `function` or `limit`.
    pub kind: &'a str,
    /// Remark, or `-`.
    pub note: &'a str,
}

/// Rows of a table with a fixed column count, heading skipped, with line numbers for messages.
fn rows<'a, const N: usize>(
    file: &'a str,
    text: &'a str,
    heading: &'static str,
) -> Result<Vec<(usize, [&'a str; N])>, Error> {
    let mut lines = text.lines().enumerate();
    if lines.next().map(|(_, l)| l) != Some(heading) {
        return Err(format!("{file} does not start with the heading `{heading}`"));
    }
    lines
        .map(|(at, line)| {
            let cells: Vec<&str> = line.split('\t').collect();
            <[&str; N]>::try_from(cells)
                .map(|cells| (at + 1, cells))
                .map_err(|cells| format!("{file} line {} has {} columns, not {N}", at + 1, cells.len()))
        })
        .collect()
}

fn one_of<T: Copy>(file: &str, at: usize, text: &str, known: &[(&str, T)]) -> Result<T, Error> {
    known.iter().find(|(name, _)| *name == text).map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        format!("{file} line {at} says `{text}` where one of {} is expected", names.join(", "))
    })
}

fn number(file: &str, at: usize, text: &str) -> Result<Option<usize>, Error> {
    match text {
        "-" => Ok(None),
        _ => text.parse().map(Some).map_err(|_| format!("{file} line {at} has `{text}` where a number is expected")),
    }
}

/// Split `const void *va, char **out` into types and names.
pub fn params(prototype: &str) -> Result<Vec<Param<'_>>, Error> {
    if prototype == "void" {
        return Ok(Vec::new());
    }
    prototype
        .split(',')
        .map(|part| {
            let part = part.trim();
            let start = part.rfind(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).map_or(0, |at| at + 1);
            let (ctype, name) = (part[..start].trim_end(), &part[start..]);
            if ctype.is_empty() || name.is_empty() {
                return Err(format!("`{part}` is not a parameter with a type and a name"));
            }
            Ok(Param { ctype, name })
        })
        .collect()
}

/// Parse `abi/symbols.tsv`.
pub fn symbols(text: &str) -> Result<Vec<Symbol<'_>>, Error> {
    rows::<10>(SYMBOLS, text, "name\tnode\treturn\tparams\theader\talias\tgate\tstatus\tlibnccom\tnote")?
        .into_iter()
        .map(|(at, [name, node, ret, prototype, header, alias, gate, status, libnccom, note])| {
            if !NODES.iter().any(|(n, _)| *n == node) {
                return Err(format!("{SYMBOLS} line {at} names the unknown version node `{node}`"));
            }
            Ok(Symbol {
                name,
                node,
                ret,
                prototype,
                params: params(prototype).map_err(|e| format!("{SYMBOLS} line {at}: {e}"))?,
                header,
                alias: (alias != "-").then_some(alias),
                gate: one_of(SYMBOLS, at, gate, &Gate::ALL)?,
                status: one_of(SYMBOLS, at, status, &State::ALL)?,
                libnccom: one_of(SYMBOLS, at, libnccom, &[("yes", true), ("no", false)])?,
                note,
            })
        })
        .collect()
}

/// Parse `abi/enums.tsv`.
pub fn enums(text: &str) -> Result<Vec<Enumerator<'_>>, Error> {
    rows::<7>(ENUMS, text, "enum\tenumerator\tvalue\theader\tkind\tverified\tmeaning")?
        .into_iter()
        .map(|(at, [of, name, value, header, kind, _verified, meaning])| {
            let value =
                value.parse().map_err(|_| format!("{ENUMS} line {at} has `{value}` where a number is expected"))?;
            Ok(Enumerator { of, name, value, header, kind, meaning })
        })
        .collect()
}

/// Parse `abi/layouts.tsv`.
pub fn layouts(text: &str) -> Result<Vec<Field<'_>>, Error> {
    rows::<11>(LAYOUTS, text, "kind\tstruct\ttypedef\tfield\ttype\toffset\tsize\ttotal\theader\tverified\tnote")?
        .into_iter()
        .map(|(at, [kind, of, typedef, name, ctype, offset, size, total, header, verified, note])| {
            Ok(Field {
                kind,
                of,
                typedef,
                name,
                ctype,
                offset: number(LAYOUTS, at, offset)?,
                size: number(LAYOUTS, at, size)?,
                total: number(LAYOUTS, at, total)?,
                header,
                verified,
                note,
            })
        })
        .collect()
}

/// Parse `abi/constants.tsv`.
pub fn constants(text: &str) -> Result<Vec<Constant<'_>>, Error> {
    Ok(rows::<5>(CONSTANTS, text, "name\tvalue\theader\tkind\tnote")?
        .into_iter()
        .map(|(_, [name, value, header, kind, note])| Constant { name, value, header, kind, note })
        .collect())
}
