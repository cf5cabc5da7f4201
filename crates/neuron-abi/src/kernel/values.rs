//! Enums, limits, datastore layout and per-architecture geometry (`facts/driver/enums.tsv`).

mod enums;
mod geometry;
mod limits;

pub use enums::*;
pub use geometry::*;
pub use limits::*;
