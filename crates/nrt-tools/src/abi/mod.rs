//! The C surface as a table, and what a file really exports.

pub mod elf;
pub mod table;

/// `abi/symbols.tsv` as built into this program.
pub const SYMBOLS: &str = include_str!("../../../../abi/symbols.tsv");
/// `abi/enums.tsv` as built into this program.
pub const ENUMS: &str = include_str!("../../../../abi/enums.tsv");
/// `abi/layouts.tsv` as built into this program.
pub const LAYOUTS: &str = include_str!("../../../../abi/layouts.tsv");
/// `abi/constants.tsv` as built into this program.
pub const CONSTANTS: &str = include_str!("../../../../abi/constants.tsv");
