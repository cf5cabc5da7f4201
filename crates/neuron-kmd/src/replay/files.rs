//! Steps on descriptors and mappings of the char device.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

use super::compare::{Fields, hex};
use super::ioctls::unhex;
use super::process::PAGE;
use super::session::{Session, result};
use crate::caller::UserMemory;
use crate::memory::mmap::MmapRequest;
use crate::reply::{Errno, Stop};

impl Session<'_> {
    pub(super) fn open(&mut self, step: &Value, actor: &str, fields: &mut Fields) {
        let path = step["path"].as_str().unwrap_or_default();
        let index = path.strip_prefix("/dev/neuron").and_then(|n| n.parse().ok()).unwrap_or(u32::MAX);
        let flags = step["flags"].as_i64().unwrap_or(0) as i32;
        let name = step["as"].as_str().unwrap_or_default().to_owned();
        let caller = self.process(actor).caller(false);
        self.process(actor).files.retain(|(n, _)| *n != name);
        let slot = Arc::new(Mutex::new(None));
        let (driver, opened) = (self.driver.clone(), slot.clone());
        self.call(step, None, Some((name, slot)), fields, move || {
            let driver = driver.ok_or(Errno::ENOENT)?;
            // The recording host had no rule that opens the node to others: root's, mode 0600.
            if caller.uid != 0 {
                return Err(Errno::EACCES.into());
            }
            *opened.lock() = Some(driver.open(index, flags, &caller)?);
            Ok(0)
        });
    }

    pub(super) fn close(&mut self, step: &Value, actor: &str, fields: &mut Fields) {
        let name = step["fd"].as_str().unwrap_or_default();
        let process = self.process(actor);
        let at = process.files.iter().position(|(n, _)| n == name);
        let file = at.map(|i| process.files.remove(i).1);
        let caller = process.caller(false);
        self.call(step, None, None, fields, move || {
            file.ok_or(Errno::EBADF)?.flush(&caller);
            Ok(0)
        });
    }

    /// Operations the driver has no handler for.
    pub(super) fn plain(&mut self, step: &Value, op: &str, actor: &str, fields: &mut Fields) {
        let file = self.process(actor).file(step["fd"].as_str().unwrap_or_default());
        let answer = file.ok_or(Stop::Errno(Errno::EBADF)).and_then(|file| match op {
            "read" => file.read().map(|n| n as i64),
            "write" => file.write().map(|n| n as i64),
            "lseek" => Err(Errno::ESPIPE.into()),
            "epoll" => Err(Errno::EPERM.into()),
            _ => Ok(1),
        });
        result(&step["res"], &answer, fields);
    }

    pub(super) fn mmap(&mut self, step: &Value, actor: &str, fields: &mut Fields) {
        let offset = match &step["off"] {
            Value::Object(off) => {
                let base = off["var"].as_str().and_then(|v| self.variables.get(v)).copied().unwrap_or(0);
                base.wrapping_add(off.get("add").and_then(Value::as_u64).unwrap_or(0))
            }
            other => other.as_u64().unwrap_or(0),
        };
        let (bytes, prot) = (step["len"].as_u64().unwrap_or(0), step["prot"].as_i64().unwrap_or(0) as i32);
        let name = step["as"].as_str().unwrap_or_default().to_owned();
        let process = self.process(actor);
        let caller = process.caller(false);
        let file = process.file(step["fd"].as_str().unwrap_or_default());
        let answer = file.ok_or(Stop::Errno(Errno::EBADF)).and_then(|file| {
            if bytes == 0 || !offset.is_multiple_of(PAGE) {
                return Err(Errno::EINVAL.into());
            }
            let va = process.memory.place(bytes);
            let mapping = file.mmap(&caller, MmapRequest { va, offset, bytes, prot })?;
            let private = step["mflags"].as_i64() == Some(libc::MAP_PRIVATE.into());
            process.memory.map(va, mapping, prot, private, file);
            process.maps.insert(name, (va, bytes.next_multiple_of(PAGE)));
            Ok(0)
        });
        result(&step["res"], &answer, fields);
    }

    pub(super) fn touch(&mut self, step: &Value, op: &str, actor: &str, fields: &mut Fields) {
        let process = self.process(actor);
        let base = process.maps.get(step["map"].as_str().unwrap_or_default()).map_or(0, |m| m.0);
        let address = base.wrapping_add(step["off"].as_u64().unwrap_or(0));
        let fault = Err(Errno::EFAULT.into());
        if op == "poke" {
            let text = step["hex"].as_str().unwrap_or_default();
            let bytes: Vec<u8> = unhex(text).collect();
            let left = process.memory.write(address, &bytes);
            result(&step["res"], &if left == bytes.len() { fault } else { Ok((bytes.len() - left) as i64) }, fields);
            return;
        }
        let mut bytes = vec![0; step["len"].as_u64().unwrap_or(0) as usize];
        let left = process.memory.read(address, &mut bytes);
        let done = bytes.len() - left;
        result(&step["res"], &if done == 0 { fault } else { Ok(done as i64) }, fields);
        if let Some(text) = step["res"]["data"]["hex"].as_str() {
            fields.bytes("data", text, &bytes[..done]);
        } else if let Some(byte) = step["res"]["data"]["uniform"].as_u64()
            && bytes[..done].iter().any(|b| u64::from(*b) != byte)
        {
            fields.differ("data", byte, hex(&bytes[..done.min(32)]));
        }
    }

    pub(super) fn dup(&mut self, step: &Value, actor: &str, fields: &mut Fields) {
        let process = self.process(actor);
        let file = process.file(step["fd"].as_str().unwrap_or_default());
        if let Some(file) = &file {
            process.files.push((step["as"].as_str().unwrap_or_default().into(), file.clone()));
        }
        result(&step["res"], &file.map(|_| 0).ok_or(Errno::EBADF.into()), fields);
    }

    pub(super) fn fstat(&mut self, step: &Value, actor: &str, fields: &mut Fields) {
        let file = self.process(actor).file(step["fd"].as_str().unwrap_or_default());
        let minor = file.map_or(u64::MAX, |f| f.device().index.into());
        fields.equal("minor", &step["res"]["minor"], minor);
    }

    pub(super) fn munmap(&mut self, step: &Value, actor: &str) {
        let process = self.process(actor);
        if let Some((address, _)) = process.maps.remove(step["map"].as_str().unwrap_or_default()) {
            let caller = process.caller(false);
            process.memory.unmap(&caller, address);
        }
    }
}
