//! Version numbers of the surface this library implements.

/// Level of the vendor surface: major, minor, patch, maintenance.
pub const VENDOR: [u64; 4] = [2, 31, 24, 0];
/// The same as text.
pub const VENDOR_TEXT: &str = "2.31.24.0";
/// This project's own version.
pub const OPENNRT: &str = env!("CARGO_PKG_VERSION");
/// Commit this library was built from, 40 hexadecimal digits; zeros when there was none.
pub const GIT_HASH: &str = env!("OPENNRT_GIT_HASH");
/// Date of that commit, as the banner shows it.
pub const BUILT_ON: &str = env!("OPENNRT_BUILT_ON");
