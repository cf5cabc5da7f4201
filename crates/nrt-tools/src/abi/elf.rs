//! What an ELF file exports and wants, read without running it.

use object::LittleEndian;
use object::elf;
use object::read::elf::{Dyn, FileHeader, ProgramHeader, Sym};
use serde::Serialize;
use std::fmt;

/// A dynamic symbol the file defines.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Export {
    /// Name.
    pub name: String,
    /// Version node; `None` when the symbol has no version.
    pub node: Option<String>,
    /// Whether an unversioned reference binds to it (`name@@node`).
    pub default: bool,
    /// Address in the file's own space.
    pub address: u64,
    /// Whether it is a function.
    pub function: bool,
}

/// A dynamic symbol the file wants from another one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Import {
    /// Name.
    pub name: String,
    /// Version node; `None` when any version will do.
    pub node: Option<String>,
    /// File the version was linked against.
    pub library: Option<String>,
}

/// A version node the file defines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Node {
    /// Name.
    pub name: String,
    /// Parents, nearest first.
    pub parents: Vec<String>,
    /// Whether it is the file's own base node, which holds no symbols.
    pub base: bool,
}

/// The dynamic side of one file.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Library {
    /// `DT_SONAME`.
    pub soname: Option<String>,
    /// `DT_NEEDED`, in order.
    pub needed: Vec<String>,
    /// Exports, sorted.
    pub exports: Vec<Export>,
    /// Imports that must resolve (weak ones are left out), sorted.
    pub imports: Vec<Import>,
    /// Version nodes in file order.
    pub nodes: Vec<Node>,
    /// Whether the file asks for an executable stack.
    pub executable_stack: bool,
    /// Whether there is a segment that turns read-only after relocation.
    pub relro: bool,
    /// Whether everything is bound at load time.
    pub now: bool,
    /// Whether `dlclose` leaves the file mapped.
    pub nodelete: bool,
    /// GNU build id in hexadecimal.
    pub build_id: Option<String>,
    /// Bytes the file occupies in memory, about its size when stripped.
    pub loaded_size: u64,
}

impl Library {
    /// Highest `GLIBC_x.y` among the imports: the oldest C library the file runs on.
    pub fn glibc(&self) -> Option<(u32, u32)> {
        self.imports
            .iter()
            .filter_map(|i| {
                let mut parts = i.node.as_deref()?.strip_prefix("GLIBC_")?.split('.');
                Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
            })
            .max()
    }

    /// The export `name`, the default one when there are several.
    pub fn export(&self, name: &str) -> Option<&Export> {
        self.exports.iter().filter(|e| e.name == name).max_by_key(|e| e.default)
    }
}

/// Why a file could not be read, for a sentence that starts with its name.
#[derive(Debug, PartialEq, Eq)]
pub struct Unreadable(String);

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unreadable {}

impl From<object::read::Error> for Unreadable {
    fn from(cause: object::read::Error) -> Unreadable {
        Unreadable(format!("is not a sound ELF file ({cause}); copy it again from where it was built"))
    }
}

type Header = elf::FileHeader64<LittleEndian>;
const LE: LittleEndian = LittleEndian;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Read a file from its bytes.
///
/// # Errors
///
/// The bytes are not a 64-bit little-endian x86-64 ELF file with dynamic symbols, or are damaged.
pub fn read(data: &[u8]) -> Result<Library, Unreadable> {
    if !data.starts_with(&elf::ELFMAG) {
        return Err(Unreadable("is not an ELF file; name a shared library or a program".into()));
    }
    let ident = data.get(..20).ok_or_else(|| Unreadable("ends inside its ELF header".into()))?;
    if ident[4] != 2 || ident[5] != 1 || ident[18..20] != elf::EM_X86_64.0.to_le_bytes() {
        return Err(Unreadable("is an ELF file for another machine; only x86-64 is read".into()));
    }
    let header = Header::parse(data)?;
    let segments = header.program_headers(LE, data)?;
    let sections = header.sections(LE, data)?;

    let mut lib = Library::default();
    for segment in segments {
        match segment.p_type(LE) {
            elf::PT_GNU_STACK => lib.executable_stack = segment.p_flags(LE).contains(elf::PF_X),
            elf::PT_GNU_RELRO => lib.relro = true,
            elf::PT_LOAD => lib.loaded_size = lib.loaded_size.saturating_add(segment.p_filesz(LE)),
            _ => {}
        }
        if let Some(notes) = segment.notes(LE, data)? {
            read_build_id(notes, &mut lib)?;
        }
    }

    let dynsym = sections.symbols(LE, data, elf::SHT_DYNSYM)?;
    if dynsym.is_empty() {
        return Err(Unreadable("has no dynamic symbols; name a shared library or a dynamic program".into()));
    }
    if let Some((entries, link)) = sections.dynamic(LE, data)? {
        let strings = sections.strings(LE, data, link)?;
        let string = |d: &elf::Dyn64<LittleEndian>| -> Result<String, Unreadable> {
            let bytes = u32::try_from(d.d_val(LE)).ok().and_then(|at| strings.get(at).ok());
            bytes.map(text).ok_or_else(|| Unreadable("has a dynamic entry that points outside its strings".into()))
        };
        for d in entries {
            let value = d.d_val(LE);
            match d.d_tag(LE) {
                elf::DT_SONAME => lib.soname = Some(string(d)?),
                elf::DT_NEEDED => lib.needed.push(string(d)?),
                elf::DT_FLAGS => lib.now |= value & elf::DF_BIND_NOW.0 != 0,
                elf::DT_BIND_NOW => lib.now = true,
                elf::DT_FLAGS_1 => {
                    lib.now |= value & elf::DF_1_NOW.0 != 0;
                    lib.nodelete |= value & elf::DF_1_NODELETE.0 != 0;
                }
                _ => {}
            }
        }
    }

    if let Some((mut verdefs, link)) = sections.gnu_verdef(LE, data)? {
        let strings = sections.strings(LE, data, link)?;
        while let Some((verdef, mut aux)) = verdefs.next()? {
            let mut names = Vec::new();
            while let Some(entry) = aux.next()? {
                names.push(text(entry.name(LE, strings)?));
            }
            let base = verdef.vd_flags.get(LE).contains(elf::VER_FLG_BASE);
            let mut names = names.into_iter();
            if let Some(name) = names.next() {
                lib.nodes.push(Node { name, parents: names.collect(), base });
            }
        }
    }

    let versions = sections.versions(LE, data)?;
    for (index, symbol) in dynsym.enumerate() {
        let name = text(dynsym.symbol_name(LE, symbol)?);
        if name.is_empty() || symbol.is_local() {
            continue;
        }
        let (mut node, mut library, mut default) = (None, None, true);
        if let Some(versions) = &versions {
            let at = versions.version_index(LE, index);
            default = !at.is_hidden();
            if let Some(version) = versions.version(at.index())? {
                node = Some(text(version.name()));
                library = version.file().map(text);
            }
        }
        if symbol.st_shndx(LE) == elf::SHN_UNDEF {
            if symbol.st_bind() != elf::STB_WEAK {
                lib.imports.push(Import { name, node, library });
            }
        } else {
            // A linker may mark each version node with an absolute symbol of the node's name.
            let marker = symbol.st_shndx(LE) == elf::SHN_ABS && node.as_deref() == Some(name.as_str());
            if !marker {
                let (address, function) = (symbol.st_value(LE), symbol.st_type() == elf::STT_FUNC);
                lib.exports.push(Export { name, node, default, address, function });
            }
        }
    }
    lib.exports.sort();
    lib.imports.sort();
    Ok(lib)
}

fn read_build_id(mut notes: object::read::elf::NoteIterator<'_, Header>, lib: &mut Library) -> Result<(), Unreadable> {
    while let Some(note) = notes.next()? {
        if note.name() == elf::ELF_NOTE_GNU && note.n_type(LE) == elf::NT_GNU_BUILD_ID {
            lib.build_id = Some(note.desc().iter().map(|b| format!("{b:02x}")).collect());
        }
    }
    Ok(())
}

/// Read the file at `path`; the sentence of an error starts with its name.
///
/// # Errors
///
/// The file cannot be opened, or [`read`] refuses it.
pub fn open(path: &std::path::Path) -> Result<Library, String> {
    // A device or a fifo would never end.
    let meta = std::fs::metadata(path).map_err(|e| format!("{} cannot be opened: {e}", path.display()))?;
    if !meta.is_file() {
        return Err(format!("{} is not a regular file; name a shared library", path.display()));
    }
    let data = std::fs::read(path).map_err(|e| format!("{} cannot be read: {e}", path.display()))?;
    read(&data).map_err(|e| format!("{} {e}", path.display()))
}
