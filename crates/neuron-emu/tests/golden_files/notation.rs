//! How a transcript writes numbers, bytes and results, and how they are compared with given ones.

use neuron_abi::kernel::args::StructInfo;
use neuron_abi::kernel::ioctl::{IOCTLS, Ioctl};
use serde_json::Value;

/// Error numbers by their names.
fn errno(name: &str) -> i32 {
    match name {
        "EPERM" => libc::EPERM,
        "ENOENT" => libc::ENOENT,
        "EINTR" => libc::EINTR,
        "ENXIO" => libc::ENXIO,
        "E2BIG" => libc::E2BIG,
        "EBADF" => libc::EBADF,
        "EAGAIN" => libc::EAGAIN,
        "ENOMEM" => libc::ENOMEM,
        "EACCES" => libc::EACCES,
        "EFAULT" => libc::EFAULT,
        "EBUSY" => libc::EBUSY,
        "EEXIST" => libc::EEXIST,
        "ENODEV" => libc::ENODEV,
        "EINVAL" => libc::EINVAL,
        "ENOTTY" => libc::ENOTTY,
        "ENOSPC" => libc::ENOSPC,
        "ERANGE" => libc::ERANGE,
        "ENOSYS" => libc::ENOSYS,
        "EALREADY" => libc::EALREADY,
        "ESPIPE" => libc::ESPIPE,
        "EBADMSG" => libc::EBADMSG,
        "EFBIG" => libc::EFBIG,
        "64" => 64,
        "EOPNOTSUPP" => libc::EOPNOTSUPP,
        "524" => 524,
        _ => panic!("an error this test does not know: {name}"),
    }
}

pub fn integer(value: &Value) -> Option<u64> {
    match value {
        Value::String(s) => u64::from_str_radix(s.strip_prefix("0x")?, 16).ok(),
        other => other.as_u64().or_else(|| other.as_i64().map(|n| n as u64)),
    }
}

pub fn row(name: &str) -> Option<&'static Ioctl> {
    let named =
        |name: &str, size: Option<u32>| IOCTLS.iter().find(|r| r.name == name && size.is_none_or(|s| r.size == s));
    named(name, None).or_else(|| {
        let (base, size) = name.rsplit_once('_')?;
        named(base, Some(size.parse().ok()?))
    })
}

/// Offset and size of a field: `name`, `name[i]` or `@offset:size`.
pub fn place(field: &str, info: Option<&StructInfo>) -> (usize, usize) {
    if let Some((offset, size)) = field.strip_prefix('@').and_then(|f| f.split_once(':')) {
        return (offset.parse().expect(field), size.parse().expect(field));
    }
    let info = info.unwrap_or_else(|| panic!("no struct with {field}"));
    if let Some((name, index)) = field.strip_suffix(']').and_then(|f| f.split_once('[')) {
        let array = info.field(name).expect(field);
        return (array.offset + index.parse::<usize>().expect(field) * array.element, array.element);
    }
    let field = info.field(field).unwrap_or_else(|| panic!("no field {field}"));
    (field.offset, field.size)
}

pub fn put(bytes: &mut [u8], offset: usize, size: usize, value: u64) {
    bytes
        .iter_mut()
        .skip(offset)
        .take(size)
        .zip(value.to_le_bytes().into_iter().chain(std::iter::repeat(0)))
        .for_each(|(b, v)| *b = v);
}

pub fn word(bytes: &[u8], offset: usize, size: usize) -> u64 {
    let mut image = [0; 8];
    let size = size.min(8);
    image[..size].copy_from_slice(&bytes[offset..offset + size]);
    u64::from_le_bytes(image)
}

/// Whether bytes are those of a hex text with `xx` for any byte and `(hh*n)` for n equal ones.
pub fn same_bytes(recorded: &str, bytes: &[u8]) -> bool {
    let mut parts = recorded.split('(');
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (run, rest) = part.split_once(')').expect("a run ends");
        let (byte, times) = run.split_once('*').expect("a run has a length");
        whole += &byte.repeat(times.parse().expect("a number"));
        whole += rest;
    }
    let pairs = whole.as_bytes().chunks(2);
    pairs.len() == bytes.len() && pairs.zip(bytes).all(|(p, b)| p == b"xx" || format!("{b:02x}").as_bytes() == p)
}

pub fn fnv64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, b| (hash ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3))
}

/// What differs in a step, or nothing.
pub type Outcome = Result<(), String>;

pub fn equal<T: PartialEq + std::fmt::Debug>(what: &str, recorded: T, given: T) -> Outcome {
    if recorded == given { Ok(()) } else { Err(format!("{what}: recorded {recorded:?}, given {given:?}")) }
}

/// Whether two texts are equal; `$name` in a recorded one stands for any word.
pub fn same_text(recorded: &str, given: &str) -> Outcome {
    let words = |text: &str| text.split([':', ',', '\n', ' ', '=']).map(str::to_owned).collect::<Vec<_>>();
    let (left, right) = (words(recorded), words(given));
    if left.len() == right.len() && left.iter().zip(&right).all(|(l, r)| l.starts_with('$') || l == r) {
        return Ok(());
    }
    Err(format!("text: recorded {recorded:?}, given {given:?}"))
}

/// Return value and error number a result stands for.
pub fn expected(res: &Value) -> (i64, i32) {
    match (&res["errno"], &res["ret"]) {
        (Value::String(name), _) => (-1, errno(name)),
        (Value::Number(number), _) => (-1, number.as_i64().expect("small") as i32),
        (_, ret) => (ret.as_i64().unwrap_or_else(|| panic!("{res}")), 0),
    }
}
