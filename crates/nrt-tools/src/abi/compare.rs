//! Differences: a library against the table, two libraries, and a client against a library.

use super::elf::{Export, Import, Library};
use super::table::Symbol;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Symbol, or the ELF property.
    pub name: String,
    /// What should be.
    pub wanted: Option<String>,
    /// What is.
    pub found: Option<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |text: &Option<String>| text.as_deref().map_or("nothing".to_string(), clean);
        write!(f, "{}: wanted {}, found {}", clean(&self.name), show(&self.wanted), show(&self.found))
    }
}

/// A name out of a file, fit for a terminal.
fn clean(text: &str) -> String {
    const LONGEST: usize = 200;
    let mut out: String = text.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if text.chars().count() > LONGEST {
        out.push('…');
    }
    out
}

fn version(e: &Export) -> String {
    let node = e.node.as_deref().unwrap_or("no version");
    let weak = if e.default { "" } else { " (not the default)" };
    let kind = if e.function { "" } else { " (not a function)" };
    format!("{node}{weak}{kind}")
}

fn by_name(lib: &Library) -> BTreeMap<&str, Vec<String>> {
    let mut map: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for e in &lib.exports {
        map.entry(&e.name).or_default().push(version(e));
    }
    map
}

fn joined(versions: Option<&Vec<String>>) -> Option<String> {
    versions.map(|v| v.join(" and "))
}

/// `lib` against the table. A file without the node of our extensions is another maker's: it
/// needs none of them, and its old spellings need not share an address with the new ones.
pub fn with_table(symbols: &[Symbol<'_>], lib: &Library) -> Vec<Difference> {
    const EXTENSIONS: &str = "OPENNRT_1.0";
    let ours = lib.nodes.iter().any(|n| n.name == EXTENSIONS);
    let mut out = Vec::new();
    let soname = "libnrt.so.1";
    if lib.soname.as_deref() != Some(soname) {
        out.push(Difference { name: "SONAME".into(), wanted: Some(soname.into()), found: lib.soname.clone() });
    }
    let found = by_name(lib);
    for s in symbols.iter().filter(|s| ours || s.node != EXTENSIONS) {
        let is = joined(found.get(s.name));
        if is.as_deref() != Some(s.node) {
            out.push(Difference { name: s.name.into(), wanted: Some(s.node.into()), found: is });
        } else if let Some(target) = s.alias.filter(|_| ours) {
            let address = |name: &str| lib.export(name).map(|e| format!("address {:#x}", e.address));
            if address(s.name) != address(target) {
                out.push(Difference { name: s.name.into(), wanted: address(target), found: address(s.name) });
            }
        }
    }
    let known: BTreeSet<&str> = symbols.iter().map(|s| s.name).collect();
    for (name, versions) in found.iter().filter(|(name, _)| !known.contains(*name)) {
        out.push(Difference { name: (*name).into(), wanted: None, found: joined(Some(versions)) });
    }
    out
}

/// `new` against `old`.
pub fn libraries(old: &Library, new: &Library) -> Vec<Difference> {
    let mut out = Vec::new();
    if old.soname != new.soname {
        out.push(Difference { name: "SONAME".into(), wanted: old.soname.clone(), found: new.soname.clone() });
    }
    let (old, new) = (by_name(old), by_name(new));
    let names: BTreeSet<&str> = old.keys().chain(new.keys()).copied().collect();
    for name in names {
        let (wanted, found) = (joined(old.get(name)), joined(new.get(name)));
        if wanted != found {
            out.push(Difference { name: name.into(), wanted, found });
        }
    }
    out
}

/// Whether the loader would look for `import` in a libnrt: the client was linked against one, or
/// the name is of its families.
fn wants_libnrt(import: &Import, lib: &Library) -> bool {
    let of_library = import.library.is_some() && import.library.as_deref() == lib.soname.as_deref();
    let of_surface = ["nrt_", "nrta_", "nec_", "opennrt_"].iter().any(|p| import.name.starts_with(p));
    of_library || import.library.as_deref().is_some_and(|l| l.starts_with("libnrt.so")) || of_surface
}

/// What `client` needs of a libnrt and `lib` does not export.
pub fn missing(lib: &Library, client: &Library) -> Vec<Difference> {
    let found = by_name(lib);
    client
        .imports
        .iter()
        .filter(|i| wants_libnrt(i, lib))
        .filter(|i| !lib.exports.iter().any(|e| e.name == i.name && (i.node.is_none() || e.node == i.node)))
        .map(|i| Difference {
            name: i.name.clone(),
            wanted: Some(i.node.clone().unwrap_or_else(|| "any version".into())),
            found: joined(found.get(i.name.as_str())),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::{SYMBOLS, elf::Node, table};
    use super::*;

    /// A library that exports what the table says, each at its own address.
    fn sound(extensions: bool) -> Library {
        let symbols = table::symbols(SYMBOLS).expect("the table parses");
        let at = |name: &str| symbols.iter().position(|s| s.name == name).expect("in the table") as u64;
        let exports = symbols
            .iter()
            .filter(|s| extensions || s.node != "OPENNRT_1.0")
            .map(|s| Export {
                name: s.name.into(),
                node: Some(s.node.into()),
                default: true,
                address: at(s.alias.unwrap_or(s.name)),
                function: true,
            })
            .collect();
        let node = |name: &str| Node { name: name.into(), parents: vec![], base: false };
        let nodes = if extensions { vec![node("OPENNRT_1.0")] } else { vec![node("NRT_2.0.0")] };
        Library { soname: Some("libnrt.so.1".into()), exports, nodes, ..Library::default() }
    }

    fn check(lib: &Library) -> Vec<String> {
        let symbols = table::symbols(SYMBOLS).expect("the table parses");
        with_table(&symbols, lib).iter().map(ToString::to_string).collect()
    }

    fn import(name: &str, node: Option<&str>, library: Option<&str>) -> Import {
        Import { name: name.into(), node: node.map(Into::into), library: library.map(Into::into) }
    }

    #[test]
    fn a_sound_library_has_no_difference_with_or_without_the_extensions() {
        assert_eq!(check(&sound(true)), Vec::<String>::new());
        assert_eq!(check(&sound(false)), Vec::<String>::new());
    }

    #[test]
    fn every_kind_of_difference_to_the_table_is_named() {
        let mut lib = sound(true);
        lib.soname = None;
        let of = |lib: &mut Library, name: &str| lib.exports.iter().position(|e| e.name == name).expect("there");
        let at = of(&mut lib, "nrt_init");
        lib.exports.remove(at);
        let at = of(&mut lib, "nrt_close");
        lib.exports[at].node = None;
        let at = of(&mut lib, "nrt_load");
        lib.exports[at].node = Some("NRT_3.0.0".into());
        let at = of(&mut lib, "nrt_unload");
        lib.exports[at].default = false;
        let at = of(&mut lib, "nrt_get_total_nc_count");
        lib.exports[at].address = 0xfff;
        lib.exports.push(Export {
            name: "extra\u{1b}[31m".into(),
            node: None,
            default: true,
            address: 0,
            function: false,
        });
        let target = sound(true).export("nrt_get_total_vnc_count").expect("there").address;
        assert_eq!(
            check(&lib),
            [
                "SONAME: wanted libnrt.so.1, found nothing".to_string(),
                "nrt_close: wanted NRT_2.0.0, found no version".to_string(),
                format!("nrt_get_total_nc_count: wanted address {target:#x}, found address 0xfff"),
                "nrt_init: wanted NRT_2.0.0, found nothing".to_string(),
                "nrt_load: wanted NRT_2.0.0, found NRT_3.0.0".to_string(),
                "nrt_unload: wanted NRT_2.0.0, found NRT_2.0.0 (not the default)".to_string(),
                "extra\\u{1b}[31m: wanted nothing, found no version (not a function)".to_string(),
            ]
        );
    }

    #[test]
    fn two_libraries_differ_by_name_and_node() {
        let (old, mut new) = (sound(false), sound(false));
        assert_eq!(libraries(&old, &new), []);
        new.exports.retain(|e| e.name != "nrt_init");
        new.exports[0].node = Some("NRT_9.0.0".into());
        let names: Vec<_> = libraries(&old, &new).into_iter().map(|d| d.name).collect();
        assert_eq!(names, ["nec_build_port_and_rid_map", "nrt_init"]);
    }

    #[test]
    fn a_client_misses_names_and_nodes_of_libnrt_and_nothing_else() {
        let lib = sound(false);
        let client = Library {
            imports: vec![
                import("malloc", Some("GLIBC_2.2.5"), Some("libc.so.6")),
                import("nrt_init", Some("NRT_2.0.0"), Some("libnrt.so.1")),
                import("nrt_close", None, None),
                import("nrt_tensor_copy", Some("NRT_1.0.0"), Some("libnrt.so.1")),
                import("nrta_event_register_xu_completion", Some("NRT_3.0.0"), Some("libnrt.so.1")),
                import("nec_unheard_of", None, None),
            ],
            ..Library::default()
        };
        let found: Vec<_> = missing(&lib, &client).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "nrt_tensor_copy: wanted NRT_1.0.0, found NRT_2.0.0",
                "nrta_event_register_xu_completion: wanted NRT_3.0.0, found nothing",
                "nec_unheard_of: wanted any version, found nothing",
            ]
        );
    }

    #[test]
    fn a_name_longer_than_a_line_is_cut() {
        let d = Difference { name: "x".repeat(100_000), wanted: None, found: None };
        assert!(d.to_string().len() < 300);
    }
}
