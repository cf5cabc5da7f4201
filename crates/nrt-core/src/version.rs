//! Version numbers of the surface this library implements.

/// Level of the vendor surface: major, minor, patch, maintenance.
pub const VENDOR: [u64; 4] = [2, 31, 24, 0];
/// The same as text.
pub const VENDOR_TEXT: &str = "2.31.24.0";
/// This project's own version.
pub const OPENNRT: &str = env!("CARGO_PKG_VERSION");
