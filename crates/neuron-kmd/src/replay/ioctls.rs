//! Ioctl steps: building the call and comparing what it left behind.

use std::collections::BTreeMap;

use neuron_abi::kernel::args::{self, StructInfo};
use neuron_abi::kernel::ioctl::{self, Arg};
use serde_json::Value;

use super::ReplayError;
use super::compare::{Fields, Symbols, fnv64, hex};
use super::process::Process;
use crate::caller::UserMemory;

/// What a buffer holds when the step does not say: the recorder fills what lies behind a struct.
const BEHIND: u8 = 0xa5;

/// A user buffer of a step.
struct Buffer {
    address: u64,
    before: Vec<u8>,
}

/// An ioctl ready to be made.
pub struct Prepared {
    /// Command value.
    pub cmd: u32,
    /// Argument word.
    pub arg: u64,
    argument: Option<Buffer>,
    buffers: BTreeMap<String, Buffer>,
}

fn bad(text: impl Into<String>) -> ReplayError {
    ReplayError::Malformed(text.into())
}

fn integer(value: &Value) -> Option<u64> {
    match value {
        Value::String(s) => u64::from_str_radix(s.strip_prefix("0x")?, 16).ok(),
        other => other.as_u64().or_else(|| other.as_i64().map(|n| n as u64)),
    }
}

/// What an argument holds that a step does not describe: zeros, unless the session says so.
fn default_fill(defaults: &Value) -> u8 {
    defaults["fill"].as_u64().unwrap_or(0) as u8
}

/// The table row a step names: `NAME`, or `NAME_48` for a repeated name's row of that size.
fn row(name: &str) -> Option<&'static ioctl::Ioctl> {
    let named = |name: &str, size: Option<u32>| {
        ioctl::IOCTLS.iter().find(|r| r.name == name && size.is_none_or(|s| r.size == s))
    };
    named(name, None).or_else(|| {
        let (base, size) = name.rsplit_once('_')?;
        named(base, Some(size.parse().ok()?))
    })
}

fn put(bytes: &mut [u8], offset: usize, size: usize, value: u64) {
    let image = value.to_le_bytes();
    for (i, slot) in bytes.iter_mut().skip(offset).take(size).enumerate() {
        *slot = image.get(i).copied().unwrap_or(0);
    }
}

/// Saved variables of a transcript.
pub type Variables = BTreeMap<String, u64>;

impl Prepared {
    /// Lays out argument and buffers in the memory of the actor.
    pub fn new(step: &Value, defaults: &Value, process: &Process, variables: &Variables) -> Result<Self, ReplayError> {
        let name = step["name"].as_str().unwrap_or_default();
        let sent = step.get("cmd").and_then(integer).map(|cmd| cmd as u32);
        let row = ioctl::IOCTLS.iter().find(|r| Some(r.cmd) == sent).or_else(|| row(name));
        let cmd = match sent {
            Some(cmd) => cmd,
            None => row.ok_or_else(|| bad(format!("no command named {name}")))?.cmd,
        };
        let layout = row.and_then(|r| r.arg.layout());
        let mut buffers = BTreeMap::new();
        for (key, spec) in step["in_bufs"].as_object().into_iter().flatten() {
            let before = content(spec, variables)?;
            buffers.insert(key.clone(), Buffer { address: process.memory.add(&before), before });
        }
        let spec = step.get("arg").or_else(|| defaults.get("arg"));
        let mut prepared = Self { cmd, arg: 0, argument: None, buffers };
        let (mut bytes, info) = match spec {
            Some(Value::Null) => return Ok(prepared),
            Some(spec) if spec.get("raw").is_some() => {
                prepared.arg = integer(&spec["raw"]).ok_or_else(|| bad(format!("raw {spec}")))?;
                return Ok(prepared);
            }
            Some(spec) => {
                let size = spec["size"].as_u64().unwrap_or(8) as usize;
                let info = spec["struct"].as_str().and_then(args::find_struct).or(layout);
                let fill = spec["fill"].as_u64().map_or(BEHIND, |f| f as u8);
                let mut bytes = vec![fill; size];
                if let (None, Some(info)) = (spec.get("fill"), info) {
                    let own = info.size.min(size);
                    bytes[..own].fill(0);
                }
                (bytes, info)
            }
            None => match row.map(|r| r.arg) {
                Some(Arg::None) => return Ok(prepared),
                _ => (vec![default_fill(defaults); layout.map_or(8, |l| l.size)], layout),
            },
        };
        for (field, value) in step["in"].as_object().into_iter().flatten() {
            let (offset, size) = place(field, info)?;
            if let Some(text) = value.as_str().filter(|t| size > 8 && t.len() == 2 * size) {
                bytes.iter_mut().skip(offset).zip(unhex(text)).for_each(|(b, v)| *b = v);
                continue;
            }
            let value = prepared.value(value, process, variables)?;
            put(&mut bytes, offset, size, value);
        }
        prepared.arg = process.memory.add(&bytes);
        prepared.argument = Some(Buffer { address: prepared.arg, before: bytes });
        Ok(prepared)
    }

    fn value(&self, value: &Value, process: &Process, variables: &Variables) -> Result<u64, ReplayError> {
        let base = |text: &str| -> Result<u64, ReplayError> {
            let missing = || bad(format!("value {text}"));
            if let Some(name) = text.strip_prefix('$') {
                return variables.get(name).copied().ok_or_else(missing);
            }
            if let Some(name) = text.strip_prefix("buf:") {
                return self.buffers.get(name).map(|b| b.address).ok_or_else(missing);
            }
            if let Some(name) = text.strip_prefix("map:") {
                return Ok(process.maps.get(name).map_or(0, |m| m.0));
            }
            integer(&Value::String(text.into())).ok_or_else(missing)
        };
        match value {
            Value::String(text) => base(text),
            Value::Array(pair) => {
                let text = pair.first().and_then(Value::as_str).ok_or_else(|| bad(format!("value {value}")))?;
                Ok(base(text)?.wrapping_add(pair.get(1).and_then(integer).unwrap_or(0)))
            }
            other => integer(other).ok_or_else(|| bad(format!("value {other}"))),
        }
    }

    /// Keeps what the step saves for later ones.
    pub fn save(&self, step: &Value, process: &Process, variables: &mut Variables) {
        for save in step["save"].as_array().into_iter().flatten() {
            let (Some(name), Some(from)) = (save["var"].as_str(), save["from"].as_str()) else { continue };
            let buffer = match from.strip_prefix("buf:") {
                Some(name) => self.buffers.get(name),
                None => self.argument.as_ref(),
            };
            let Some(buffer) = buffer else { continue };
            let (offset, size) = (save["off"].as_u64().unwrap_or(0), save["size"].as_u64().unwrap_or(8) as usize);
            let mut image = [0; 8];
            process.memory.read(buffer.address + offset, &mut image[..size.min(8)]);
            variables.insert(name.into(), u64::from_le_bytes(image));
        }
    }

    /// Compares argument and buffers after the call.
    pub fn compare(&self, recorded: &Value, process: &Process, symbols: &mut Symbols, fields: &mut Fields) {
        if let Some(argument) = &self.argument {
            let after = process.memory.bytes(argument.address, argument.before.len());
            let trimmed = recorded["out_hex_trimmed"].as_str();
            match recorded["out_hex"].as_str().or(trimmed) {
                Some(text) => {
                    // The recorder cut what it knew to be beyond the answer.
                    let known = (text.len() / 2).min(after.len());
                    fields.bytes("argument", text, &after[..known]);
                    if trimmed.is_none() && after[known..] != argument.before[known..] {
                        fields.differ("behind the argument", "unchanged", hex(&after[known..]));
                    }
                    self.symbols(recorded, &after, symbols, fields);
                }
                None if after != argument.before => fields.differ("argument", "unchanged", hex(&after)),
                None => {}
            }
        }
        for (name, expected) in recorded["bufs"].as_object().into_iter().flatten() {
            let Some(buffer) = self.buffers.get(name) else { continue };
            let after = process.memory.bytes(buffer.address, buffer.before.len());
            compare_buffer(name, expected, buffer, &after, symbols, fields);
        }
    }

    /// Masked bytes of the argument that stand for a symbol.
    fn symbols(&self, recorded: &Value, after: &[u8], symbols: &mut Symbols, fields: &mut Fields) {
        if let Some(symbol) = recorded["out"].as_str().filter(|s| s.starts_with('$')) {
            let word = after.get(..4).map_or(0, |b| u64::from(u32::from_le_bytes([b[0], b[1], b[2], b[3]])));
            if !symbols.matches(symbol, word) {
                fields.differ("value", symbol, word);
            }
            return;
        }
        let Some(info) = row_layout(self.cmd) else { return };
        for (name, value) in recorded["out"].as_object().into_iter().flatten() {
            let (Some(field), Some(symbol)) = (info.field(name), value.as_str()) else { continue };
            if symbol.starts_with('$') && field.size <= 8 {
                let mut image = [0; 8];
                image[..field.size].copy_from_slice(&after[field.offset..field.offset + field.size]);
                let word = u64::from_le_bytes(image);
                if !symbols.matches(symbol, word) {
                    fields.differ(name, symbol, word);
                }
            }
        }
    }
}

fn row_layout(cmd: u32) -> Option<&'static StructInfo> {
    ioctl::IOCTLS.iter().find(|r| r.cmd == cmd)?.arg.layout()
}

/// Bytes of a hex text; pairs that are not hex are left out.
pub fn unhex(text: &str) -> impl Iterator<Item = u8> + '_ {
    text.as_bytes().chunks(2).filter_map(|p| u8::from_str_radix(std::str::from_utf8(p).ok()?, 16).ok())
}

/// Offset and size of a field: `name`, `name[i]` or `@offset:size`.
fn place(field: &str, info: Option<&StructInfo>) -> Result<(usize, usize), ReplayError> {
    let missing = || bad(format!("no field {field}"));
    if let Some((offset, size)) = field.strip_prefix('@').and_then(|f| f.split_once(':')) {
        return Ok((offset.parse().map_err(|_| missing())?, size.parse().map_err(|_| missing())?));
    }
    let info = info.ok_or_else(missing)?;
    if let Some((name, index)) = field.strip_suffix(']').and_then(|f| f.split_once('[')) {
        let array = info.field(name).ok_or_else(missing)?;
        let index: usize = index.parse().map_err(|_| missing())?;
        return Ok((array.offset + index * array.element, array.element));
    }
    let field = info.field(field).ok_or_else(missing)?;
    Ok((field.offset, field.size))
}

/// Content of a user buffer before the call.
fn content(spec: &Value, variables: &Variables) -> Result<Vec<u8>, ReplayError> {
    let len = spec["len"].as_u64().ok_or_else(|| bad("buffer without len"))? as usize;
    let mut bytes = vec![spec["fill"].as_u64().unwrap_or(0) as u8; len];
    if let Some(m) = spec["inc"].as_u64() {
        bytes.iter_mut().enumerate().for_each(|(i, b)| *b = (i as u64 * m + (i as u64 >> 8)) as u8);
    }
    if let Some(text) = spec["hex"].as_str() {
        bytes.iter_mut().zip(unhex(text)).for_each(|(b, v)| *b = v);
    }
    for patch in spec["patch"].as_array().into_iter().flatten() {
        let value = match patch["var"].as_str() {
            Some(name) => {
                let base = variables.get(name).ok_or_else(|| bad(format!("no variable {name}")))?;
                base.wrapping_add(patch["add"].as_u64().unwrap_or(0))
            }
            None => integer(&patch["val"]).ok_or_else(|| bad(format!("patch {patch}")))?,
        };
        let (offset, size) = (patch["off"].as_u64().unwrap_or(0), patch["size"].as_u64().unwrap_or(8));
        put(&mut bytes, offset as usize, size as usize, value);
    }
    Ok(bytes)
}

fn compare_buffer(
    name: &str,
    expected: &Value,
    buffer: &Buffer,
    after: &[u8],
    symbols: &mut Symbols,
    fields: &mut Fields,
) {
    let number = |size: usize| {
        let mut image = [0; 8];
        image[..size].copy_from_slice(&after[..size]);
        u64::from_le_bytes(image)
    };
    if expected == "unchanged" {
        if after != buffer.before {
            fields.differ(name, "unchanged", hex(after));
        }
    } else if expected.as_str().is_some_and(|text| text.starts_with('(')) {
        // The content was not recorded.
    } else if let Some(value) = expected.get("u64").filter(|_| after.len() >= 8) {
        fields.number(name, value, number(8), symbols);
    } else if let Some(value) = expected.get("u32").filter(|_| after.len() >= 4) {
        fields.number(name, value, number(4), symbols);
    } else if let Some(value) = expected.get("s32").filter(|_| after.len() >= 4) {
        fields.number(name, value, number(4) as u32 as i32 as u64, symbols);
    } else if let Some(text) = expected["hex"].as_str() {
        fields.bytes(name, text, after);
        let info = expected["struct"].as_str().and_then(args::find_struct);
        for (field, value) in expected["fields"].as_object().into_iter().flatten() {
            let at = info.and_then(|i| i.field(field)).filter(|f| f.size <= 8 && f.offset + f.size <= after.len());
            if let (Some(at), Some(symbol)) = (at, value.as_str().filter(|s| s.starts_with('$'))) {
                let mut image = [0; 8];
                image[..at.size].copy_from_slice(&after[at.offset..at.offset + at.size]);
                fields.number(field, &Value::String(symbol.into()), u64::from_le_bytes(image), symbols);
            }
        }
    } else if let Some(byte) = expected["uniform"].as_u64() {
        if after.iter().any(|b| u64::from(*b) != byte) {
            fields.differ(name, format!("all {byte:#x}"), hex(&after[..after.len().min(32)]));
        }
    } else if let Some(hash) = expected["fnv64"].as_str() {
        let given = format!("{:016x}", fnv64(after));
        if given != hash {
            fields.differ(name, expected["head"].as_str().unwrap_or(hash), hex(&after[..after.len().min(32)]));
        }
    } else {
        fields.differ(name, expected, "a form the replay does not know");
    }
}
