//! Comparison of a recorded value with the model's, with symbols and masked bytes.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::Field;
use crate::driver::Driver;
use crate::memory::Chunk;

/// Values bound to symbols.
#[derive(Default)]
pub struct Symbols {
    values: BTreeMap<String, u64>,
    /// Memory that lay at a host address when its symbol was bound.
    memory: BTreeMap<String, Arc<Chunk>>,
    driver: Option<Arc<Driver>>,
}

impl Symbols {
    /// Tells where host addresses are looked up.
    pub fn look_in(&mut self, driver: Option<Arc<Driver>>) {
        self.driver = driver;
    }

    /// Binds a symbol before the replay starts.
    pub fn bind(&mut self, name: &str, value: u64) {
        self.values.insert(name.to_owned(), value);
    }

    /// Whether a value is what a symbol (`$name` or `$name+0xoff`) stands for; an unbound one
    /// takes the value. So does a host address whose memory is gone: whether a page that was
    /// freed is handed out again is the recording kernel's business.
    pub fn matches(&mut self, symbol: &str, value: u64) -> bool {
        let (name, offset) = match symbol.split_once('+') {
            Some((name, offset)) => {
                let offset = offset.strip_prefix("0x").map_or_else(|| offset.parse(), |h| u64::from_str_radix(h, 16));
                (name, offset.unwrap_or(0))
            }
            None => (symbol, 0),
        };
        let base = value.wrapping_sub(offset);
        match self.values.get(name) {
            Some(bound) if *bound == base => return true,
            Some(_) if !self.freed(name) => return false,
            _ => {}
        }
        self.values.insert(name.to_owned(), base);
        match self.chunk(base) {
            Some(chunk) if name.starts_with("$hostpa") => self.memory.insert(name.to_owned(), chunk),
            _ => self.memory.remove(name),
        };
        true
    }

    fn chunk(&self, address: u64) -> Option<Arc<Chunk>> {
        self.driver.as_ref()?.devices().iter().find_map(|device| device.memory.at(address))
    }

    /// Whether the memory a symbol stood for was freed since.
    fn freed(&self, name: &str) -> bool {
        let Some(was) = self.memory.get(name) else { return false };
        self.chunk(was.address).is_none_or(|now| !Arc::ptr_eq(&now, was))
    }
}

/// Collects the fields of a step that differ.
#[derive(Default)]
pub struct Fields(pub Vec<Field>);

impl Fields {
    /// Notes a difference.
    pub fn differ(&mut self, name: &str, recorded: impl ToString, model: impl ToString) {
        self.0.push(Field { name: name.into(), recorded: recorded.to_string(), model: model.to_string() });
    }

    /// Compares two texts.
    pub fn equal(&mut self, name: &str, recorded: impl ToString, model: impl ToString) {
        let (recorded, model) = (recorded.to_string(), model.to_string());
        if recorded != model {
            self.differ(name, recorded, model);
        }
    }

    /// Compares bytes with hex in which `xx` stands for any byte and `(hh*n)` for n equal ones.
    pub fn bytes(&mut self, name: &str, recorded: &str, model: &[u8]) {
        let recorded = &expand(recorded);
        let digits = recorded.as_bytes().chunks(2);
        let same = |(i, pair): (usize, &[u8])| {
            pair == b"xx" || model.get(i).is_some_and(|b| format!("{b:02x}").as_bytes() == pair)
        };
        if digits.len() != model.len() || !digits.enumerate().all(same) {
            self.differ(name, recorded, hex(model));
        }
    }

    /// Compares a kernel log number or a number in a struct, symbols included.
    pub fn number(&mut self, name: &str, recorded: &Value, model: u64, symbols: &mut Symbols) {
        let ok = match recorded {
            Value::String(s) if s.starts_with('$') => symbols.matches(s, model),
            Value::String(s) => *s == model.to_string(),
            other => other.as_u64() == Some(model) || other.as_i64() == Some(model as i64),
        };
        if !ok {
            self.differ(name, recorded, model);
        }
    }
}

/// Writes runs in hex out.
fn expand(text: &str) -> String {
    let mut parts = text.split('(');
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (run, rest) = part.split_once(')').unwrap_or((part, ""));
        let (byte, times) = run.split_once('*').unwrap_or((run, "1"));
        whole += &byte.repeat(times.parse().unwrap_or(1));
        whole += rest;
    }
    whole
}

/// Bytes as hex.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// 64-bit FNV-1a.
pub fn fnv64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, b| (hash ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3))
}
