//! The C surface as a table, and what a file really exports.

pub mod compare;
pub mod elf;
pub mod generate;
pub mod header;
pub mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use table::{Constant, Enumerator, Error, Field, Symbol};

/// `abi/symbols.tsv` as built into this program.
pub const SYMBOLS: &str = include_str!("../../../../abi/symbols.tsv");
const ENUMS: &str = include_str!("../../../../abi/enums.tsv");
const LAYOUTS: &str = include_str!("../../../../abi/layouts.tsv");
const CONSTANTS: &str = include_str!("../../../../abi/constants.tsv");

/// The text of the four tables.
pub struct Sources {
    symbols: String,
    enums: String,
    layouts: String,
    constants: String,
}

impl Sources {
    /// The tables built into this program.
    pub fn embedded() -> Sources {
        let [symbols, enums, layouts, constants] = [SYMBOLS, ENUMS, LAYOUTS, CONSTANTS].map(String::from);
        Sources { symbols, enums, layouts, constants }
    }

    /// The tables of a working tree.
    ///
    /// # Errors
    ///
    /// A table cannot be read.
    pub fn read(root: &Path) -> Result<Sources, Error> {
        let read = |name: &str| {
            let path = root.join(name);
            std::fs::read_to_string(&path).map_err(|e| {
                format!("{} cannot be read: {e}; name the root of the repository with --root", path.display())
            })
        };
        Ok(Sources {
            symbols: read(table::SYMBOLS)?,
            enums: read(table::ENUMS)?,
            layouts: read(table::LAYOUTS)?,
            constants: read(table::CONSTANTS)?,
        })
    }
}

/// The four tables, parsed.
pub struct Tables<'a> {
    /// Exports.
    pub symbols: Vec<Symbol<'a>>,
    /// Enumerators.
    pub enums: Vec<Enumerator<'a>>,
    /// Struct fields and typedefs.
    pub layouts: Vec<Field<'a>>,
    /// Macros and limits.
    pub constants: Vec<Constant<'a>>,
}

impl<'a> Tables<'a> {
    /// Parse the tables and check that they agree with themselves.
    ///
    /// # Errors
    ///
    /// A row is malformed, an alias has no target like it, or a layout overlaps or has a hole.
    pub fn parse(sources: &'a Sources) -> Result<Tables<'a>, Error> {
        let tables = Tables {
            symbols: table::symbols(&sources.symbols)?,
            enums: table::enums(&sources.enums)?,
            layouts: table::layouts(&sources.layouts)?,
            constants: table::constants(&sources.constants)?,
        };
        tables.check()?;
        Ok(tables)
    }

    fn check(&self) -> Result<(), Error> {
        self.check_symbols()?;
        for (name, fields) in self.structs() {
            check_tiling(name, &fields)?;
        }
        Ok(())
    }

    fn check_symbols(&self) -> Result<(), Error> {
        let mut seen: BTreeMap<&str, &Symbol<'_>> = BTreeMap::new();
        for s in &self.symbols {
            if seen.insert(s.name, s).is_some() {
                return Err(format!("{} lists {} twice", table::SYMBOLS, s.name));
            }
        }
        for s in &self.symbols {
            let Some(alias) = s.alias else { continue };
            let same = |t: &&&Symbol<'_>| {
                let types = |s: &Symbol<'_>| s.params.iter().map(|p| p.ctype.to_string()).collect::<Vec<_>>();
                t.alias.is_none()
                    && (t.node, t.ret, t.gate, t.status, t.header) == (s.node, s.ret, s.gate, s.status, s.header)
                    && types(t) == types(s)
            };
            if seen.get(alias).filter(same).is_none() {
                return Err(format!(
                    "{}: {} is an alias of {alias}, so both must be there with the same node, types, header, gate and status",
                    table::SYMBOLS,
                    s.name
                ));
            }
        }
        Ok(())
    }

    /// Structs with known fields, in table order.
    pub fn structs(&self) -> Vec<(&'a str, Vec<&Field<'a>>)> {
        let mut groups: Vec<(&'a str, Vec<&Field<'a>>)> = Vec::new();
        for f in self.layouts.iter().filter(|f| f.kind != "typedef" && f.name != "-") {
            match groups.last_mut() {
                Some((name, fields)) if *name == f.of => fields.push(f),
                _ => groups.push((f.of, vec![f])),
            }
        }
        groups
    }

    /// Names of all enums that have one.
    pub fn enum_names(&self) -> BTreeSet<&'a str> {
        self.enums.iter().map(|e| e.of).filter(|name| !name.starts_with('(')).collect()
    }
}

/// Fields must lie inside the struct, in order, and neither overlap (except as members of one
/// union, at one offset) nor leave a hole that no alignment explains. Nested members lie inside
/// their aggregate by the same rule.
fn check_tiling(name: &str, fields: &[&Field<'_>]) -> Result<(), Error> {
    const LARGEST_ALIGNMENT: usize = 8;
    let wrong = |f: &Field<'_>, what: &str| Err(format!("{}: {name}.{} {what}", table::LAYOUTS, f.name));
    // Of an opaque struct the table has the fields somebody could see, not all.
    let opaque = fields[0].kind == "opaque";
    let mut ends: BTreeMap<&str, (usize, usize, usize)> = BTreeMap::new();
    for f in fields {
        let (Some(offset), Some(size), Some(total)) = (f.offset, f.size, f.total) else {
            return wrong(f, "has no offset, size or total size");
        };
        if fields[0].total != f.total {
            return wrong(f, "disagrees about the size of the struct");
        }
        let (parent, first, last) = match f.name.rsplit_once('.') {
            None => ("", 0, total),
            Some((parent, _)) => match fields.iter().find(|p| p.name == parent) {
                Some(p) => (parent, p.offset.unwrap_or(0), p.offset.unwrap_or(0) + p.size.unwrap_or(0)),
                None => return wrong(f, "has no row for the aggregate it is in"),
            },
        };
        if offset + size > last {
            return wrong(f, "ends outside its struct");
        }
        let (start, end, _) = ends.get(parent).copied().unwrap_or((usize::MAX, first, last));
        let union = offset == start;
        let follows = offset >= end && (opaque || offset - end < LARGEST_ALIGNMENT);
        if !union && !follows {
            return wrong(f, "overlaps the field before it or leaves a hole");
        }
        ends.insert(parent, (offset, if union { end.max(offset + size) } else { offset + size }, last));
    }
    for (parent, (_, end, last)) in ends {
        if !opaque && last - end >= LARGEST_ALIGNMENT {
            return Err(format!("{}: {name}{parent} has a hole at its end", table::LAYOUTS));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with<T>(check: impl FnOnce(&Tables<'_>) -> T) -> T {
        let sources = Sources::embedded();
        let tables = Tables::parse(&sources).expect("the tables in the repository are sound");
        check(&tables)
    }

    #[test]
    fn the_surface_counts_145_functions_by_family_and_node() {
        with(|t| {
            let vendor: Vec<_> = t.symbols.iter().filter(|s| s.node != "OPENNRT_1.0").collect();
            let family = |prefix: &str| vendor.iter().filter(|s| s.name.starts_with(prefix)).count();
            assert_eq!(vendor.len(), 145);
            assert_eq!([family("nrt_"), family("nec_"), family("nrta_")], [121, 16, 8]);
            let node = |name: &str| vendor.iter().filter(|s| s.node == name).count();
            assert_eq!([node("NRT_2.0.0"), node("NRT_3.0.0")], [137, 8]);
            assert!(vendor.iter().all(|s| (s.node == "NRT_3.0.0") == s.name.starts_with("nrta_")));
            assert_eq!(vendor.iter().filter(|s| s.libnccom).count(), 20);
        });
    }

    #[test]
    fn the_tables_hold_every_enum_struct_and_constant_of_the_surface() {
        with(|t| {
            assert_eq!(t.enums.len(), 271);
            assert_eq!(t.enums.iter().map(|e| (e.of, e.kind)).collect::<BTreeSet<_>>().len(), 29);
            assert_eq!(t.layouts.len(), 399);
            assert_eq!(t.layouts.iter().filter(|f| f.kind == "typedef").count(), 10);
            assert_eq!(
                t.layouts.iter().filter(|f| f.kind == "opaque").map(|f| f.of).collect::<BTreeSet<_>>().len(),
                10
            );
            let open = t.structs().into_iter().filter(|(_, f)| f[0].kind != "opaque").count();
            assert_eq!(open, 48);
            assert_eq!(t.constants.iter().filter(|c| c.kind != "limit").count(), 39);
        });
    }

    /// A009: counting, identity and version need no init.
    #[test]
    fn count_identity_and_version_calls_have_no_state_gate() {
        with(|t| {
            for name in [
                "total_vnc_count",
                "total_nc_count",
                "visible_vnc_count",
                "visible_nc_count",
                "instance_info",
                "version",
            ] {
                let row = t.symbols.iter().find(|s| s.name.strip_prefix("nrt_get_") == Some(name)).expect(name);
                assert_eq!(row.gate, table::Gate::Any, "{name}");
            }
        });
    }

    /// A054: what a count query hands out is a count of logical cores; the one call that names
    /// the ratio to physical cores hands out the ratio.
    #[test]
    fn no_call_returns_a_count_of_physical_cores() {
        with(|t| {
            let counts: Vec<&str> = t.symbols.iter().filter(|s| s.name.contains("count")).map(|s| s.name).collect();
            assert_eq!(
                counts,
                [
                    "nec_get_device_count",
                    "nrt_get_model_instance_count",
                    "nrt_get_model_nc_count",
                    "nrt_get_model_vnc_count",
                    "nrt_get_total_nc_count",
                    "nrt_get_total_vnc_count",
                    "nrt_get_visible_nc_count",
                    "nrt_get_visible_vnc_count"
                ]
            );
            let physical = |text: &str| ["pnc", "physical", "ptpb"].iter().any(|word| text.contains(word));
            for s in &t.symbols {
                assert!(!physical(s.name), "{}", s.name);
                assert!(s.params.iter().all(|p| !physical(p.name)), "{}", s.name);
            }
        });
    }

    #[test]
    fn status_numbers_and_names_are_those_of_the_runtime() {
        with(|t| {
            let table: Vec<(i64, &str)> =
                t.enums.iter().filter(|e| e.of == "NRT_STATUS").map(|e| (e.value, e.name)).collect();
            assert_eq!(table.len(), 28);
            for (value, name) in table {
                let status = neuron_abi::Status::from_repr(value as u32).expect(name);
                assert_eq!(<&str>::from(status), name);
            }
        });
    }

    #[test]
    fn an_alias_without_its_target_is_refused() {
        let mut sources = Sources::embedded();
        sources.symbols = sources.symbols.replace("nrt_get_total_vnc_count\tNRT", "nrt_get_total_xnc_count\tNRT");
        let error = Tables::parse(&sources).err().expect("refused");
        assert!(error.contains("nrt_get_total_nc_count is an alias"), "{error}");
    }

    #[test]
    fn a_hole_and_an_overlap_in_a_layout_are_refused() {
        let good = "\trt_patch\tuint64_t\t16\t8\t224";
        for bad in [
            "\trt_patch\tuint64_t\t12\t8\t224",
            "\trt_patch\tuint64_t\t24\t8\t224",
            "\trt_patch\tuint64_t\t16\t900\t224",
        ] {
            let mut sources = Sources::embedded();
            assert!(sources.layouts.contains(good));
            sources.layouts = sources.layouts.replace(good, bad);
            let error = Tables::parse(&sources).err().expect(bad);
            assert!(error.contains("nrt_version"), "{error}");
        }
    }
}
