//! Exports of `nrt_version.h`.

use crate::args::Prefix;
use crate::types::nrt_version_t;
use nrt_core::{Status, log_error, version};
use std::mem::offset_of;

/// A record may end before the commit hash, but not before the end of the text.
const SMALLEST: usize = offset_of!(nrt_version_t, git_hash);
/// A record that is larger than this has room for the 40 digits and their NUL.
const WITHOUT_HASH: usize = SMALLEST + 40;

/// Copy `text` into a field that it need not fill; the rest, at least one byte, stays 0.
fn field<const N: usize>(text: &str) -> [u8; N] {
    let mut field = [0; N];
    let len = text.len().min(N - 1);
    field[..len].copy_from_slice(&text.as_bytes()[..len]);
    field
}

export! {
    /// Version of the surface, of this library, and the commit it was built from
    /// (`facts/runtime/lifecycle.md` section 7).
    fn nrt_get_version(ver: Prefix<nrt_version_t>, size: usize) -> NRT_STATUS {
        if size < SMALLEST {
            log_error!(Nrt, CALL.name, "Size is < {SMALLEST}");
            return Err(Status::Failure);
        }
        let [rt_major, rt_minor, rt_patch, rt_maintenance] = version::VENDOR;
        let detail = format!("libnrt version {} (OpenNRT {})", version::VENDOR_TEXT, version::OPENNRT);
        let record = nrt_version_t {
            rt_major,
            rt_minor,
            rt_patch,
            rt_maintenance,
            rt_detail: field(&detail),
            git_hash: field(version::GIT_HASH),
        };
        let len = if size > WITHOUT_HASH { size } else { SMALLEST };
        // SAFETY: the caller says that `size` bytes are there, and `len` is not more; the fields
        // of the record leave no padding.
        unsafe { ver.write(&record, len) };
        Ok(())
    }
}

include!(concat!(env!("OUT_DIR"), "/stubs_nrt_version.rs"));
