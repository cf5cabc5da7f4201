//! The steps of a transcript, made by processes.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;

use neuron_abi::kernel::args::{self, StructInfo};
use neuron_abi::kernel::ioctl::{Arg, IOCTLS};
use serde_json::Value;

use crate::common::{self, Client, Emu, hex, unhex};
use crate::notation::{Outcome, equal, expected, fnv64, integer, place, put, row, same_bytes, same_text, word};

struct Actor {
    client: Client,
    /// Address of the client's buffer, which holds all user buffers of a step.
    buffer: u64,
    /// Letters of its descriptors.
    files: Vec<String>,
}

impl Actor {
    fn letter(&mut self, name: &str) -> char {
        let at = self.files.iter().position(|f| f == name).unwrap_or_else(|| {
            self.files.push(name.to_owned());
            self.files.len() - 1
        });
        char::from(b'A' + at as u8)
    }
}

/// A transcript at work on a published instance.
pub struct Replay<'a> {
    emu: &'a Emu,
    defaults: Value,
    actors: BTreeMap<String, Actor>,
    variables: BTreeMap<String, u64>,
}

impl<'a> Replay<'a> {
    /// Nobody has done anything yet. `defaults` is what ioctl steps leave out.
    pub fn new(emu: &'a Emu, defaults: Value) -> Replay<'a> {
        Replay { emu, defaults, actors: BTreeMap::new(), variables: BTreeMap::new() }
    }

    fn actor(&mut self, name: &str) -> &mut Actor {
        if !self.actors.contains_key(name) {
            let mut client = self.emu.client();
            let buffer = client.ask("buffer 00").parse().expect("an address");
            self.variables.insert(format!("pid:{name}"), client.pid().into());
            self.actors.insert(name.to_owned(), Actor { client, buffer, files: Vec::new() });
        }
        self.actors.get_mut(name).expect("just made")
    }

    /// Makes one step and compares its result.
    pub fn step(&mut self, step: &Value) -> Outcome {
        let name = step["actor"].as_str().or(self.defaults["actor"].as_str()).unwrap_or("p1").to_owned();
        let res = &step["res"];
        let fd = step["fd"].as_str().or(self.defaults["fd"].as_str()).unwrap_or("f").to_owned();
        match step["op"].as_str() {
            None => self.ioctl(step, &name, &fd),
            // The instance was published as these left it; log and bus are not files of a device.
            Some("insmod" | "waitready" | "dmesg" | "lspci") => Ok(()),
            Some("sleep") => {
                std::thread::sleep(std::time::Duration::from_millis(step["ms"].as_u64().unwrap_or(0)));
                Ok(())
            }
            Some("sysread") => {
                let path = step["path"].as_str().unwrap_or_default();
                let path = match path.strip_prefix("/sys/") {
                    Some(path) => path.to_owned(),
                    None => format!("class/neuron_device/{path}"),
                };
                match std::fs::read(self.emu.sys(&path)) {
                    Ok(text) => same_text(res["text"].as_str().unwrap_or_default(), &String::from_utf8_lossy(&text)),
                    Err(error) => equal("error", expected(res), (-1, error.raw_os_error().unwrap_or(0))),
                }
            }
            Some("fstat") => {
                let node = std::fs::metadata(self.emu.root.join("dev/neuron0")).map_err(|e| e.to_string())?;
                equal("mode", res["mode"].as_str().unwrap_or_default(), &format!("{:o}", node.mode()))
            }
            Some("ls") => {
                let path = step["path"].as_str().unwrap_or_default().trim_start_matches('/');
                let prefix = step["prefix"].as_str().unwrap_or_default();
                let entries = std::fs::read_dir(self.emu.root.join(path)).map_err(|e| e.to_string())?.flatten();
                let given: BTreeSet<_> = entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
                let names = res["names"].as_array().into_iter().flatten().filter_map(Value::as_str);
                let given = given.into_iter().filter(|name| name.starts_with(prefix)).collect();
                equal("names", names.map(str::to_owned).collect::<BTreeSet<_>>(), given)
            }
            Some("mmap") => {
                let number = |key: &str| step[key].as_u64().unwrap_or(0);
                let offset = match &step["off"] {
                    Value::Object(off) => {
                        self.variables[off["var"].as_str().expect("a name")]
                            + off.get("add").and_then(integer).unwrap_or(0)
                    }
                    other => other.as_u64().unwrap_or(0),
                };
                let prot = ["", "r", "w", "rw"][number("prot") as usize & 3];
                let actor = self.actor(&name);
                let (letter, map) = (actor.letter(&fd), actor.letter(&format!("map:{}", step["as"])));
                let answer = actor.client.ask(&format!("mmap {map} {letter} {offset} {} {prot}", number("len")));
                self.ok_or_errno(res, &answer)
            }
            Some("munmap") => {
                let actor = self.actor(&name);
                let map = actor.letter(&format!("map:{}", step["map"]));
                actor.client.ask(&format!("munmap {map}"));
                Ok(())
            }
            Some(op @ ("read" | "write" | "lseek" | "poll" | "epoll")) => {
                let arguments = match op {
                    "read" => " 8",
                    "write" => " 00",
                    _ => "",
                };
                let actor = self.actor(&name);
                let letter = actor.letter(&fd);
                let answer = actor.client.ask(&format!("{op} {letter}{arguments}"));
                let mut numbers = answer.split(' ').map(|n| n.parse::<i64>().expect("a number"));
                let given = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0) as i32);
                equal("result", expected(res), given)?;
                equal("events", res["revents"].as_i64(), numbers.next().filter(|_| op == "poll"))
            }
            Some("open") => {
                let node =
                    step["path"].as_str().and_then(|p| p.strip_prefix("/dev/neuron")).and_then(|n| n.parse().ok());
                let (as_name, flags) = (step["as"].as_str().unwrap_or("f"), step["flags"].as_i64().unwrap_or(0) as i32);
                let actor = self.actor(&name);
                let letter = actor.letter(as_name);
                let answer = actor.client.open(letter, flags, node.expect("a device"));
                self.ok_or_errno(res, &answer)
            }
            Some("close") => {
                let actor = self.actor(&name);
                let letter = actor.letter(&fd);
                let answer = actor.client.ask(&format!("close {letter}"));
                self.ok_or_errno(res, &answer)
            }
            Some("dup") => {
                let as_name = step["as"].as_str().unwrap_or("g");
                let actor = self.actor(&name);
                let (from, to) = (actor.letter(&fd), actor.letter(as_name));
                let answer = actor.client.ask(&format!("dup {from} {to}"));
                self.ok_or_errno(res, &answer)
            }
            Some("exit" | "kill9") => {
                if let Some(mut actor) = self.actors.remove(&name) {
                    if step["op"] == "exit" {
                        actor.client.send("exit 0");
                    } else {
                        common::kill(actor.client.pid(), libc::SIGKILL);
                    }
                    actor.client.ended_by();
                }
                Ok(())
            }
            Some(other) => panic!("{other} is none of OPS"),
        }
    }

    fn ok_or_errno(&self, res: &Value, answer: &str) -> Outcome {
        let given = match answer.strip_prefix("errno ") {
            Some(number) => (-1, number.parse().expect("a number")),
            None => (0, 0),
        };
        let (ret, errno) = expected(res);
        equal("result", (ret.min(0), errno), given)
    }

    fn value(&mut self, value: &Value, buffers: &BTreeMap<String, (usize, usize)>, base: u64) -> u64 {
        if let Value::Array(pair) = value {
            return self.value(&pair[0], buffers, base).wrapping_add(pair.get(1).and_then(integer).unwrap_or(0));
        }
        match value.as_str() {
            Some(text) if text.starts_with('$') => {
                if let Some(actor) = text.strip_prefix("$pid:") {
                    self.actor(actor);
                }
                *self.variables.get(&text[1..]).unwrap_or_else(|| panic!("no variable {text}"))
            }
            Some(text) if text.starts_with("buf:") => base + buffers[&text[4..]].0 as u64,
            _ => integer(value).unwrap_or_else(|| panic!("value {value}")),
        }
    }

    fn ioctl(&mut self, step: &Value, name: &str, fd: &str) -> Outcome {
        let (res, defaults) = (&step["res"], self.defaults.clone());
        let sent = step.get("cmd").and_then(integer).map(|cmd| cmd as u32);
        let row =
            IOCTLS.iter().find(|r| Some(r.cmd) == sent).or_else(|| row(step["name"].as_str().unwrap_or_default()));
        let cmd = sent.unwrap_or_else(|| row.unwrap_or_else(|| panic!("{step}")).cmd);
        let layout = row.and_then(|r| r.arg.layout());

        // All user buffers in one, with a gap between them.
        let mut arena = Vec::new();
        let mut buffers = BTreeMap::new();
        for (key, spec) in step["in_bufs"].as_object().into_iter().flatten() {
            let len = spec["len"].as_u64().expect("a length") as usize;
            let mut bytes = vec![spec["fill"].as_u64().unwrap_or(0) as u8; len];
            if let Some(m) = spec["inc"].as_u64() {
                bytes.iter_mut().enumerate().for_each(|(i, b)| *b = (i as u64 * m + (i as u64 >> 8)) as u8);
            }
            if let Some(text) = spec["hex"].as_str() {
                bytes.iter_mut().zip(unhex(text)).for_each(|(b, v)| *b = v);
            }
            for patch in spec["patch"].as_array().into_iter().flatten() {
                let value = match patch["var"].as_str() {
                    Some(name) => self.variables[name].wrapping_add(patch["add"].as_u64().unwrap_or(0)),
                    None => integer(&patch["val"]).expect("a value"),
                };
                put(
                    &mut bytes,
                    patch["off"].as_u64().unwrap_or(0) as usize,
                    patch["size"].as_u64().unwrap_or(8) as usize,
                    value,
                );
            }
            buffers.insert(key.clone(), (arena.len(), len));
            arena.extend(bytes);
            arena.resize(arena.len().next_multiple_of(64) + 64, 0);
        }
        let base = self.actor(name).buffer;

        let spec = step.get("arg").or_else(|| defaults.get("arg"));
        let mut argument = match spec {
            Some(Value::Null) => Err("null".to_owned()),
            Some(spec) if spec.get("raw").is_some() => {
                Err(format!("raw:{:#x}", integer(&spec["raw"]).expect("a number")))
            }
            Some(spec) => {
                let info = spec["struct"].as_str().and_then(args::find_struct).or(layout);
                let size = spec["size"].as_u64().unwrap_or(8) as usize;
                let mut bytes = vec![spec["fill"].as_u64().map_or(0xa5, |f| f as u8); size];
                if let (None, Some(info)) = (spec.get("fill"), info) {
                    bytes[..info.size.min(size)].fill(0);
                }
                Ok((bytes, info))
            }
            None if row.is_some_and(|r| matches!(r.arg, Arg::None)) => Err("null".to_owned()),
            None => Ok((vec![0; layout.map_or(8, |l| l.size)], layout)),
        };
        if let Ok((bytes, info)) = &mut argument {
            for (field, value) in step["in"].as_object().into_iter().flatten() {
                let (offset, size) = place(field, *info);
                if let Some(text) = value.as_str().filter(|t| size > 8 && t.len() == 2 * size) {
                    bytes.iter_mut().skip(offset).zip(unhex(text)).for_each(|(b, v)| *b = v);
                } else {
                    put(bytes, offset, size, self.value(value, &buffers, base));
                }
            }
        }

        let actor = self.actor(name);
        let letter = actor.letter(fd);
        if !arena.is_empty() {
            actor.client.ask(&format!("buffer {}", hex(&arena)));
        }
        let thread = if step.get("thread").is_some() { "thread " } else { "" };
        let shown = match &argument {
            Err(text) => text.clone(),
            Ok((bytes, _)) if bytes.is_empty() => format!("raw:{base:#x}"),
            Ok((bytes, _)) => hex(bytes),
        };
        let answer = actor.client.ask(&format!("{thread}ioctl {letter} {cmd:#x} {shown}"));
        assert_ne!(answer, "unknown command", "{step}");
        let called = common::called(&answer);
        let after = match arena.len() {
            0 => Vec::new(),
            len => unhex(&actor.client.ask(&format!("show {len}"))),
        };
        for save in step["save"].as_array().into_iter().flatten() {
            let (offset, size) =
                (save["off"].as_u64().unwrap_or(0) as usize, save["size"].as_u64().unwrap_or(8) as usize);
            let from = save["from"].as_str().unwrap_or_default();
            let value = match from.strip_prefix("buf:") {
                Some(name) => word(&after, buffers[name].0 + offset, size),
                None => word(&called.bytes, offset, size),
            };
            self.variables.insert(save["var"].as_str().expect("a name").to_owned(), value);
        }

        // The kernel reads what a command says it gives before the file system hears of it.
        let unreadable = argument.is_err() && cmd >> 30 & 1 != 0 && cmd >> 16 & 0x3fff != 0;
        let result = if unreadable { (-1, libc::EFAULT) } else { expected(res) };
        equal("result", result, (called.ret, called.errno))?;
        if let Ok((before, info)) = &argument {
            let trimmed = res["out_hex_trimmed"].as_str();
            match res["out_hex"].as_str().or(trimmed) {
                Some(text) => {
                    let known = if trimmed.is_some() { (text.len() / 2).min(before.len()) } else { before.len() };
                    let known = if text.contains('(') { before.len() } else { known.min(text.len() / 2) };
                    if !same_bytes(text, &called.bytes[..known]) {
                        return Err(format!("argument: recorded {text}, given {}", hex(&called.bytes)));
                    }
                    if trimmed.is_none() {
                        equal("behind the argument", &before[known..], &called.bytes[known..])?;
                    }
                    self.pids(&res["out"], *info, &called.bytes)?;
                }
                None => equal("argument", before, &called.bytes)?,
            }
        }
        for (key, recorded) in res["bufs"].as_object().into_iter().flatten() {
            let (at, len) = buffers[key];
            let (before, after) = (&arena[at..at + len], &after[at..at + len]);
            let number = |value: &Value, size: usize, signed: bool| match integer(value) {
                Some(recorded) if signed => equal(key, recorded, word(after, 0, size) as u32 as i32 as u64),
                Some(recorded) => equal(key, recorded, word(after, 0, size)),
                None => Ok(()),
            };
            if recorded == "unchanged" {
                equal(key, before, after)?;
            } else if let Some(value) = recorded.get("u64") {
                number(value, 8, false)?;
            } else if let Some(value) = recorded.get("u32") {
                number(value, 4, false)?;
            } else if let Some(value) = recorded.get("s32") {
                number(value, 4, true)?;
            } else if let Some(text) = recorded["hex"].as_str() {
                if !same_bytes(text, after) {
                    return Err(format!("{key}: recorded {text}, given {}", hex(after)));
                }
            } else if let Some(byte) = recorded["uniform"].as_u64() {
                equal(key, Some(byte), after.iter().all(|b| u64::from(*b) == byte).then_some(byte))?;
            } else if let Some(hash) = recorded["fnv64"].as_str() {
                equal(key, hash, &format!("{:016x}", fnv64(after)))?;
            } else {
                assert!(
                    recorded.as_str().is_some_and(|t| t.starts_with('(')),
                    "a form this test does not know: {recorded}"
                );
            }
        }
        Ok(())
    }

    /// Process ids are symbols in a recording; here they are those of the clients.
    fn pids(&self, out: &Value, info: Option<&StructInfo>, bytes: &[u8]) -> Outcome {
        let pid = |value: &Value| {
            value
                .as_str()
                .and_then(|t| t.strip_prefix('$'))
                .and_then(|t| t.starts_with("pid:").then(|| self.variables.get(t)).flatten())
                .copied()
        };
        if let Some(pid) = pid(out) {
            return equal("pid", pid, word(bytes, 0, 4));
        }
        for (name, value) in out.as_object().into_iter().flatten() {
            if let (Some(pid), Some(field)) = (pid(value), info.and_then(|i| i.field(name))) {
                equal(name, pid, word(bytes, field.offset, field.size))?;
            }
        }
        Ok(())
    }
}
