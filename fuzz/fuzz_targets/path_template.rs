//! Templates of core-dump paths, against a plain substitution.
//!
//! The text up to the first NUL is the instance id, the rest is the template.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nrt_core::coredump::{DIR_MAX, NAME_MAX, PathVariables, expand_dir, expand_name};
use nrt_core::log;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

fn expand(template: &[u8], values: &[(u8, &[u8])], limit: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < template.len() {
        let value = (template[at] == b'%').then(|| template.get(at + 1)).flatten();
        match value.and_then(|token| values.iter().find(|(known, _)| known == token)) {
            Some((_, value)) => {
                out.extend_from_slice(value);
                at += 2;
            }
            None => {
                out.push(template[at]);
                at += 1;
            }
        }
    }
    out.truncate(limit);
    out
}

fuzz_target!(|data: &[u8]| {
    let split = data.iter().position(|byte| *byte == 0).unwrap_or(0);
    let (instance, template) = data.split_at(split);
    let instance = String::from_utf8_lossy(instance);
    let at = log::now();
    let variables = PathVariables::new(7, u32::MAX, 9, Some(u64::MAX), &at, Some(&instance));
    let one = |token| expand_dir(OsStr::new(token), &variables).as_bytes().to_vec();
    let (id, time) = (one("%i"), one("%d"));
    assert!(id.len() <= 22 && id.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'/'), "{id:?}");
    assert_eq!(time.len(), 15);
    let values: [(u8, &[u8]); 6] =
        [(b'p', b"7"), (b't', b"4294967295"), (b'l', b"9"), (b'c', b"ffffffffffffffff"), (b'd', &time), (b'i', &id)];
    let text = OsStr::from_bytes(template);
    assert_eq!(expand_dir(text, &variables).as_bytes(), expand(template, &values, DIR_MAX));
    assert_eq!(expand_name(text, &variables).as_bytes(), expand(template, &values, NAME_MAX));
});
