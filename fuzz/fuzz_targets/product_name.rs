//! Product names, against the C function their grammar is written for.

#![no_main]

use libfuzzer_sys::fuzz_target;
use neuron_abi::{Arch, Family, Size};
use nrt_core::device::product;
use nrt_core::instance::{InstanceInfo, name};
use std::ffi::{CStr, CString};

/// The pieces `strtok` finds between dots.
fn pieces(text: &str) -> Vec<String> {
    let mut buffer = CString::new(text).expect("checked by the caller").into_bytes_with_nul();
    let mut rest = std::ptr::null_mut();
    let mut start = buffer.as_mut_ptr().cast();
    let mut found = Vec::new();
    loop {
        // SAFETY: `start` is a C string the first time and NULL afterwards; `rest` is a live local.
        let piece = unsafe { libc::strtok_r(start, c".".as_ptr(), &raw mut rest) };
        if piece.is_null() {
            return found;
        }
        // SAFETY: strtok_r answers C strings inside `buffer`.
        found.push(unsafe { CStr::from_ptr(piece) }.to_string_lossy().into_owned());
        start = std::ptr::null_mut();
    }
}

fuzz_target!(|text: &str| {
    if text.contains('\0') {
        return;
    }
    let pieces = pieces(text);
    let piece = |at: usize| pieces.get(at).map_or("", String::as_str);
    for arch in [Arch::Sunda, Arch::Cayman, Arch::Mariana] {
        let (family, size) = name::identify(text, arch);
        if !text.starts_with("EPIC-TGH7") && (arch != Arch::Mariana || family != Family::Trn3) {
            assert_eq!(family, name::family(piece(0)));
        }
        if arch != Arch::Mariana || size != Size::X2 {
            assert_eq!(size, name::size(piece(1)));
        }
        let record = InstanceInfo::new(family, size, text).to_bytes();
        assert_eq!((record[23], record[31]), (0, 0), "a field lost its terminator");
    }
    if let Some(product) = product::find(text) {
        assert_eq!(product.name, text);
    }
});
