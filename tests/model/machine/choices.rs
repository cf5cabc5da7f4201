//! What a call is about: choices among what is there, and the arguments that come of them.

use std::ffi::{CString, c_char};
use std::ptr::null;

use super::{INVALID, Machine, OK, STALE};
use crate::ops::{Core, Extent, Pick, Text};

/// An object as a call is told it: the handle, and the number of the object if it is alive.
pub(super) struct Told {
    pub handle: usize,
    pub alive: Option<usize>,
}

impl Told {
    /// What a call that looks it up answers.
    pub fn status(&self) -> u32 {
        match (self.handle, self.alive) {
            (0, _) => INVALID,
            (_, None) => STALE,
            _ => OK,
        }
    }
}

pub(super) fn text(text: Text) -> Option<CString> {
    let text = match text {
        Text::Null => return None,
        Text::Short(n) => format!("name{n}"),
        Text::Longest => "x".repeat(4096),
        Text::TooLong => "x".repeat(4097),
    };
    Some(CString::new(text).expect("no NUL"))
}

/// As it is printed.
pub(super) fn show(text: Option<&CString>) -> String {
    match text {
        None => "NULL".into(),
        Some(text) if text.as_bytes().len() > 20 => format!("<{} bytes>", text.as_bytes().len()),
        Some(text) => format!("{:?}", text.to_string_lossy()),
    }
}

pub(super) fn pointer(text: Option<&CString>) -> *const c_char {
    text.map_or(null(), |text| text.as_ptr())
}

pub(super) fn too_long(text: Option<&CString>) -> bool {
    text.is_some_and(|text| text.as_bytes().len() > 4096)
}

impl Machine<'_> {
    /// The choice among handles, of which some are alive, and how it is printed.
    fn told(pick: &Pick, prefix: char, objects: &[(usize, bool)]) -> Option<(Told, String)> {
        let live: Vec<usize> = (0..objects.len()).filter(|&n| objects[n].1).collect();
        match pick {
            Pick::Live(_) if live.is_empty() => None,
            Pick::Ever(_) if objects.is_empty() => None,
            Pick::Live(index) => {
                let n = *index.get(&live);
                Some((Told { handle: objects[n].0, alive: Some(n) }, format!("{prefix}{n}")))
            }
            Pick::Ever(index) => {
                let n = index.index(objects.len());
                let alive = objects[n].1.then_some(n);
                Some((Told { handle: objects[n].0, alive }, format!("{prefix}{n}")))
            }
            Pick::Null => Some((Told { handle: 0, alive: None }, "NULL".into())),
            Pick::Bogus(index) => {
                let near = objects.first().map_or(8, |object| object.0);
                let handle = [1, usize::MAX, near + 1, near + 8, near.wrapping_sub(64), &raw const near as usize];
                let handle = *index.get(&handle);
                Some((Told { handle, alive: None }, format!("{handle:#x}")))
            }
        }
    }

    pub(super) fn tensor(&self, pick: &Pick) -> Option<(Told, String)> {
        let objects: Vec<_> = self.tensors.iter().map(|tensor| (tensor.handle, tensor.live)).collect();
        Self::told(pick, 't', &objects)
    }

    /// Among those that are alive one that fits, if there is any.
    pub(super) fn tensor_where(&self, pick: &Pick, fits: impl Fn(usize) -> bool) -> Option<(Told, String)> {
        let fitting: Vec<_> = (0..self.tensors.len()).filter(|&n| self.tensors[n].live && fits(n)).collect();
        match pick {
            Pick::Live(index) if !fitting.is_empty() => {
                let n = *index.get(&fitting);
                Some((Told { handle: self.tensors[n].handle, alive: Some(n) }, format!("t{n}")))
            }
            pick => self.tensor(pick),
        }
    }

    pub(super) fn set(&self, pick: &Pick) -> Option<(Told, String)> {
        let objects: Vec<_> = self.sets.iter().map(|set| (set.handle, set.live)).collect();
        Self::told(pick, 's', &objects)
    }

    /// Offset and size in something of `len` bytes.
    pub(super) fn numbers(extent: &Extent, len: usize) -> (usize, usize) {
        match extent {
            Extent::Whole => (0, len),
            Extent::Part(at, size) => {
                let at = at.index(len + 1);
                (at, size.index(len - at + 1))
            }
            Extent::Past(at, over) => {
                let at = at.index(len + 1);
                (at, len - at + over)
            }
            Extent::Wild(offset, size) => (*offset, *size),
        }
    }

    pub(super) fn extent(&self, extent: &Extent, told: &Told) -> (usize, usize) {
        Self::numbers(extent, told.alive.map_or(0, |n| self.tensors[n].len()))
    }

    /// Both offsets and the size of a copy.
    pub(super) fn copied(&self, from: &Told, extent: &Extent, to: &Told, at: &Extent) -> (usize, usize, usize) {
        let (offset, mut size) = self.extent(extent, from);
        let room = to.alive.map_or(0, |n| self.tensors[n].len());
        let at = match at {
            // Mostly where it fits.
            Extent::Part(at, _) => {
                if matches!(extent, Extent::Whole | Extent::Part(..)) {
                    size = size.min(room);
                }
                at.index(room.saturating_sub(size) + 1)
            }
            at => Self::numbers(at, room).0,
        };
        (offset, at, size)
    }

    pub(super) fn core(&self, core: Core) -> i32 {
        let last = self.backend.cores as i32 - 1;
        match core {
            Core::Some(n) => i32::from(n).min(last),
            Core::Last => last,
            Core::Behind => last + 1,
            Core::Number(n) => n,
        }
    }

    pub(super) fn is_core(&self, core: i32) -> bool {
        u32::try_from(core).is_ok_and(|core| core < self.backend.cores)
    }
}
