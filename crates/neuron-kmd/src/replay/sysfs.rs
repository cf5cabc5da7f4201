//! Steps on the sysfs tree.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::compare::Fields;
use super::session::{PATIENCE, Session, result};
use crate::caller::Caller;
use crate::reply::Errno;
use crate::sysfs::{Kind, Sysfs};

impl Session<'_> {
    fn sysfs(&self) -> Result<Sysfs, Errno> {
        self.driver.clone().map(Sysfs::new).ok_or(Errno::ENOENT)
    }

    pub(super) fn read_file(&mut self, step: &Value, actor: &str, fields: &mut Fields) {
        let (path, sysfs, text) = (sys_path(step), self.sysfs(), Arc::new(Mutex::new(None)));
        let (caller, slot) = (self.process(actor).caller(false), text.clone());
        let running = self.start(move || {
            *slot.lock() = Some(sysfs?.read(&path, &caller)?);
            Ok(0)
        });
        let answer = self.wait(&running, PATIENCE);
        match (text.lock().take(), answer) {
            (Some(text), _) => self.text("text", &step["res"]["text"], &text, fields),
            (None, Some(answer)) => result(&step["res"], &answer, fields),
            (None, None) => fields.differ("result", &step["res"], "blocked"),
        };
    }

    pub(super) fn write_file(&mut self, step: &Value, actor: &str, fields: &mut Fields) {
        let data = step["data"].as_str().unwrap_or_default().as_bytes().to_vec();
        let (path, sysfs) = (sys_path(step), self.sysfs());
        let caller = self.process(actor).caller(false);
        self.call(step, None, None, fields, move || Ok(sysfs?.write(&path, &data, &caller)? as i64));
    }

    /// Compares text in which `$name` stands for a decimal number or a word.
    fn text(&mut self, name: &str, recorded: &Value, model: &str, fields: &mut Fields) {
        let Some(expected) = recorded.as_str() else { return fields.differ(name, recorded, model) };
        if !expected.contains('$') {
            return fields.equal(name, expected, model);
        }
        let split = |text: &str| text.split([':', ',', '\n', ' ', '=']).map(str::to_owned).collect::<Vec<_>>();
        let (left, right) = (split(expected), split(model));
        let same = left.len() == right.len()
            && left.iter().zip(&right).all(|(l, r)| match (l.as_str(), r.parse()) {
                ("$epoch", parsed) => parsed.is_ok(),
                // The recording's list of what varies has this word.
                ("POWER_STATUS_VALID" | "POWER_STATUS_NO_DATA", _) => r.starts_with("POWER_STATUS_"),
                (symbol, Ok(number)) if symbol.starts_with('$') => self.symbols.matches(l, number),
                (symbol, _) => symbol.starts_with('$') || l == r,
            });
        if !same {
            fields.differ(name, expected, model);
        }
    }

    pub(super) fn list(&mut self, step: &Value, fields: &mut Fields) {
        let path = step["path"].as_str().unwrap_or_default();
        let names: Result<Vec<String>, Errno> = if path == "/dev" {
            Ok(self.driver.as_ref().map_or(Vec::new(), |d| {
                let mut names: Vec<_> = d.devices().iter().map(|n| format!("neuron{}", n.index)).collect();
                names.sort();
                names
            }))
        } else {
            let list = self.sysfs().and_then(|s| s.list(path.trim_start_matches("/sys/")));
            list.map(|entries| entries.into_iter().map(|e| e.name).collect())
        };
        match names {
            Ok(names) => {
                let prefix = step["prefix"].as_str().unwrap_or_default();
                let names: Vec<_> = names.into_iter().filter(|n| n.starts_with(prefix)).map(Value::String).collect();
                fields.equal("names", &step["res"]["names"], Value::Array(names));
            }
            Err(errno) => result(&step["res"], &Err(errno.into()), fields),
        }
    }

    pub(super) fn tree(&mut self, step: &Value, fields: &mut Fields) {
        let Ok(sysfs) = self.sysfs() else { return fields.differ("tree", "a tree", "no driver") };
        let root =
            step["root"].as_str().unwrap_or_default().trim_start_matches("/sys/").trim_end_matches('/').to_owned();
        let reader = Caller::process(1, 0, true);
        let mut found = BTreeMap::new();
        let mut open = vec![String::new()];
        while let Some(dir) = open.pop() {
            let path = if dir.is_empty() { root.clone() } else { format!("{root}/{dir}") };
            for entry in sysfs.list(&path).unwrap_or_default() {
                let name = if dir.is_empty() { entry.name.clone() } else { format!("{dir}/{}", entry.name) };
                match entry.kind {
                    Kind::File(mode) => {
                        let text = sysfs.read(&format!("{root}/{name}"), &reader).unwrap_or_default();
                        found.insert(name, (format!("{mode:04o}"), text));
                    }
                    Kind::Link(target) => {
                        found.insert(name, ("link".into(), target));
                    }
                    Kind::Dir => open.push(name),
                }
            }
        }
        for (name, recorded) in step["res"]["tree"].as_object().into_iter().flatten() {
            match found.remove(name) {
                None => fields.differ(name, recorded, "missing"),
                Some((mode, text)) if mode == "link" => fields.equal(name, &recorded["link"], json!(text)),
                Some((mode, text)) => {
                    fields.equal(name, recorded[0].as_str().unwrap_or_default(), mode);
                    self.text(name, &recorded[1], &text, fields);
                }
            }
        }
        for (name, (mode, _)) in found {
            fields.differ(&name, "missing", mode);
        }
    }
}

/// Path below the sysfs root; relative ones start at the class directory.
fn sys_path(step: &Value) -> String {
    let path = step["path"].as_str().unwrap_or_default();
    match path.strip_prefix("/sys/") {
        Some(path) => path.to_owned(),
        None => format!("{}/{path}", neuron_abi::kernel::sysfs::CLASS_DIR),
    }
}
