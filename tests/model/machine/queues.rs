//! Queued work, as a program uses the calls of `nrt_async.h`.
//!
//! A queue works in order, calls that wait see its work as work in flight, and queues have no order among them. So a
//! program that queues work on bytes which another queue is at work on waits for that one first, and so does a program
//! that goes to such bytes without a call that waits. The bytes are then what they would be if each call had done its
//! work at once, which is what the model does. What was read and how it ended is looked at when completion is seen.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd};
use std::ptr::null_mut;
use std::thread::yield_now;

use proptest::sample::Index;

use super::choices::Told;
use super::{Answer, CLOSED, Machine, OK, SENTINEL, UNTOUCHED, ensure, first, refused};
use crate::ops::{Core, Missing, Sequence, Work};
use crate::reference::{Place, Storage, difference, pattern};

/// Queues of each unit; only those of the first one are used.
const UNITS: [i32; 3] = [2, 1, 3];

/// Core and queue.
type Lane = (u8, u8);

/// Bytes of a storage, and whether they are written.
type Use = (usize, Range<usize>, bool);

/// A tensor of a call, and where in it the bytes begin.
struct Part {
    told: Told,
    shown: String,
    offset: usize,
    written: bool,
}

impl Part {
    fn of((told, shown): (Told, String), offset: usize, written: bool) -> Part {
        Part { told, shown, offset, written }
    }
}

fn id(core: u8, unit: u8, queue: u8, number: u64) -> u64 {
    u64::from(core) << 56 | u64::from(queue) << 52 | u64::from(unit) << 48 | number
}

fn in_the_way((storage, range, write): &Use, (other, theirs, written): &Use) -> bool {
    storage == other && (*write || *written) && range.start.max(theirs.start) < range.end.min(theirs.end)
}

/// Memory of the program that the library has until work is completed. It lives as long as the process, so that a late
/// write is seen.
#[derive(Clone, Copy)]
struct Lent {
    start: *mut u8,
    len: usize,
}

impl Lent {
    fn new(bytes: Vec<u8>) -> Lent {
        let len = bytes.len();
        Lent { start: Box::into_raw(bytes.into_boxed_slice()).cast(), len }
    }

    /// A status word on a page that its first write has to copy, which takes so long that a completion that comes too
    /// early is seen before it.
    fn status(page: &File) -> Lent {
        let (access, private) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE);
        // SAFETY: a new mapping of one page of a file.
        let start = unsafe { libc::mmap(null_mut(), 4096, access, private, page.as_raw_fd(), 0) };
        assert_ne!(start, libc::MAP_FAILED, "a page can be mapped");
        Lent { start: start.cast(), len: 4 }
    }

    fn holds(self, what: &str, want: &[u8]) -> Answer {
        // SAFETY: the memory is never freed, and after completion the library has no business with it.
        difference(what, unsafe { std::slice::from_raw_parts(self.start, self.len) }, want)
    }
}

/// Work that is queued, and not yet seen completed.
struct Item {
    uses: Vec<Use>,
    status: Lent,
    want: u32,
    /// The other status it may end with.
    or: u32,
    buffer: Lent,
    /// What the buffer holds in the end.
    holds: Vec<u8>,
}

#[derive(Default)]
struct Queue {
    /// Number of the last one accepted.
    submitted: u64,
    /// Number of the last one seen completed; the items are those behind it.
    completed: u64,
    items: VecDeque<Item>,
}

pub(super) struct Queues {
    /// Those that took work in this init.
    lanes: BTreeMap<Lane, Queue>,
    /// Every sequence there was, in any init.
    given: Vec<u64>,
    /// Memory that is the program's again.
    back: Vec<Lent>,
    /// What status words are mapped from: a page of [`SENTINEL`].
    page: File,
}

impl Queues {
    pub(super) fn new() -> Queues {
        // SAFETY: a C string, and a descriptor that is nobody else's.
        let mut page = unsafe { File::from_raw_fd(libc::memfd_create(c"status".as_ptr(), libc::MFD_CLOEXEC)) };
        page.write_all(&[SENTINEL; 4096]).expect("a page can be written");
        Queues { lanes: BTreeMap::new(), given: Vec::new(), back: Vec::new(), page }
    }

    /// The program writes over what is its own again. Nobody else may read or write it any more.
    fn give_back(&mut self, lent: Lent) {
        // SAFETY: see `holds`.
        unsafe { lent.start.write_bytes(SENTINEL, lent.len) };
        self.back.push(lent);
    }
}

// SAFETY of the calls: as in `machine.rs`; buffers and status words are never freed.
impl Machine<'_> {
    // ---- completion ------------------------------------------------------------------------

    /// Everything up to `number` was seen completed.
    fn seen(&mut self, lane: Lane, number: u64) -> Answer {
        let Some(queue) = self.queues.lanes.get_mut(&lane) else { return Ok(()) };
        let mut done = Vec::new();
        while queue.completed < number {
            done.push(queue.items.pop_front().expect("one for each number"));
            queue.completed += 1;
            let item = &done[done.len() - 1];
            let what = format!("{:#x}", id(lane.0, 0, lane.1, queue.completed));
            let [want, or] = [item.want, item.or].map(u32::to_ne_bytes);
            if item.status.holds("", &or).is_err() {
                item.status.holds(&format!("the status of {what} (of {})", item.want), &want)?;
            }
            item.buffer.holds(&format!("the buffer of {what}"), &item.holds)?;
        }
        for item in done {
            self.queues.give_back(item.status);
            self.queues.give_back(item.buffer);
        }
        Ok(())
    }

    /// Whether a sequence is completed, by a call that is expected to know it.
    fn is_completed(&mut self, sequence: u64) -> Answer<bool> {
        let mut done = SENTINEL;
        // SAFETY: see above.
        let status = unsafe { (self.nrt.nrta_is_completed)(sequence, &mut done) };
        ensure!(status == OK, "status {status} for a sequence that was given out");
        ensure!(done <= 1, "the answer is {done:#x}");
        Ok(done == 1)
    }

    fn wait(&mut self, lane: Lane, number: u64) -> Answer {
        let sequence = id(lane.0, 0, lane.1, number);
        self.say(format!("nrta_is_completed({sequence:#x}) until it is\n"));
        while !self.is_completed(sequence)? {
            yield_now();
        }
        self.seen(lane, number)
    }

    /// In each queue but `own` wait for the last item that fits.
    fn wait_where(&mut self, own: Option<Lane>, fits: impl Fn(&Self, &Item) -> bool) -> Answer {
        let last = |(&lane, queue): (&Lane, &Queue)| {
            let last = queue.items.iter().rposition(|item| fits(self, item))?;
            Some((lane, queue.completed + 1 + last as u64))
        };
        let others = self.queues.lanes.iter().filter(|&(&lane, _)| Some(lane) != own);
        let waits: Vec<_> = others.filter_map(last).collect();
        waits.into_iter().try_for_each(|(lane, number)| self.wait(lane, number))
    }

    fn wait_for_others(&mut self, own: Option<Lane>, uses: &[Use]) -> Answer {
        let conflict = |item: &Item| item.uses.iter().any(|its| uses.iter().any(|ours| in_the_way(its, ours)));
        self.wait_where(own, |_, item| conflict(item))
    }

    /// Nobody is at work on these bytes: whoever comes now need not wait.
    pub(super) fn quiet(&mut self, range: &(usize, Range<usize>), write: bool) -> Answer {
        self.wait_for_others(None, &[(range.0, range.1.clone(), write)])
    }

    /// Memory that only queued work had is gone.
    pub(super) fn forget_orphans(&mut self) -> Answer {
        self.wait_where(None, |this, item| item.uses.iter().any(|(storage, ..)| !this.used(*storage)))
    }

    /// A close has carried everything out, and the next init counts from 1 again.
    pub(super) fn closed(&mut self) -> Answer {
        let ends: Vec<_> = self.queues.lanes.iter().map(|(&lane, queue)| (lane, queue.submitted)).collect();
        ends.into_iter().try_for_each(|(lane, number)| self.seen(lane, number))?;
        self.queues.lanes.clear();
        let back = |lent: &Lent| lent.holds("memory given back, or of a refused call", &vec![SENTINEL; lent.len]);
        self.queues.back.iter().try_for_each(back)
    }

    // ---- submission ------------------------------------------------------------------------

    fn hbm(&self, n: usize) -> Option<(u32, i32)> {
        match self.storages[self.tensors[n].span?.storage].place {
            Place::Hbm { device, hbm } => Some((device, hbm)),
            _ => None,
        }
    }

    /// The HBMs of a core. Devices do not number them as a simulated instance does: there it is the one its tensors are
    /// on, and unknown before the first.
    fn hbms(&self, core: u32) -> Option<Vec<(u32, i32)>> {
        let backend = self.backend;
        if backend.devices {
            let of_core = |storage: &Storage| match storage.place {
                Place::Hbm { device, hbm } if storage.core == core => Some(vec![(device, hbm)]),
                _ => None,
            };
            return self.storages.iter().find_map(of_core);
        }
        let (per, first) = (backend.cores_per_device, core * backend.lnc);
        let hbm = |n: u32| (n / per, (n % per * backend.hbms / per) as i32);
        Some((first..first + backend.lnc).map(hbm).collect())
    }

    pub(super) fn queue(
        &mut self,
        work: &Work,
        core: Option<Core>,
        queue: i32,
        missing: Option<Missing>,
        likely: bool,
    ) -> Answer {
        let on_device = |n: usize| !likely || self.hbm(n).is_some();
        let (one, other, size, seed) = match work {
            Work::Read { tensor, extent } | Work::Write { tensor, extent, .. } => {
                let Some(told) = self.tensor_where(tensor, on_device) else { return Ok(()) };
                let (offset, size) = self.extent(extent, &told.0);
                let seed = if let Work::Write { seed, .. } = work { Some(*seed) } else { None };
                (Part::of(told, offset, seed.is_some()), None, size, seed)
            }
            Work::Copy { from, extent, to, at } => {
                let Some(from) = self.tensor_where(from, on_device) else { return Ok(()) };
                let beside = from.0.alive.and_then(|n| self.hbm(n));
                let Some(to) = self.tensor_where(to, |n| !likely || self.hbm(n) == beside) else { return Ok(()) };
                let (offset, to_offset, size) = self.copied(&from.0, extent, &to.0, at);
                (Part::of(from, offset, false), Some(Part::of(to, to_offset, true)), size, None)
            }
        };
        let parts: Vec<Part> = [one].into_iter().chain(other).collect();
        let core = match core {
            Some(core) => self.core(core),
            None => {
                let span = parts[0].told.alive.and_then(|n| self.tensors[n].span);
                span.map_or(0, |span| self.storages[span.storage].core as i32).min(self.backend.cores as i32 - 1)
            }
        };
        let copy = parts.len() == 2;
        let ranges: Vec<_> = parts.iter().map(|part| self.range(&part.told, part.offset, size)).collect();

        // In the order of the checks.
        let null = parts.iter().any(|part| part.told.handle == 0)
            || missing.is_some_and(|missing| missing != Missing::Buffer || !copy);
        let no_queue = !(0..UNITS[0]).contains(&queue);
        let mut answers = vec![self.gate(), refused(null), refused(no_queue), refused(!self.is_core(core))];
        for Part { told, .. } in &parts {
            answers.push(told.status());
            answers.push(refused(told.alive.is_some_and(|n| self.hbm(n).is_none())));
        }
        if first(&answers) == OK {
            let places: Vec<_> = parts.iter().map(|part| self.hbm(part.told.alive.expect("alive"))).collect();
            let outside = ranges.iter().any(Option::is_none);
            answers.push(refused(outside || places[0] != places[places.len() - 1]));
            let Some(own) = self.hbms(core as u32) else { return Ok(()) };
            answers.push(refused(!own.contains(&places[0].expect("on an HBM"))));
        }
        let want = first(&answers);

        let lane = (core as u8, queue as u8);
        let used = |(range, part): (&Option<(usize, Range<usize>)>, &Part)| {
            range.clone().map(|(storage, range)| (storage, range, part.written))
        };
        let uses: Vec<Use> = ranges.iter().zip(&parts).filter_map(used).collect();
        if want == OK {
            self.wait_for_others(Some(lane), &uses)?;
        }

        // A length that is refused needs no buffer.
        let room = if ranges[0].is_some() { size } else { size.min(1 << 17) };
        let buffer = Lent::new(match (copy, seed) {
            (true, _) => Vec::new(),
            (_, None) => vec![SENTINEL; room],
            (_, Some(seed)) => pattern(seed, room),
        });
        let status = Lent::status(&self.queues.page);
        let mut sequence = UNTOUCHED as u64;
        let shown: Vec<_> = parts.iter().map(|part| format!("{}, {}", part.shown, part.offset)).collect();
        let lacks = missing.map_or(String::new(), |missing| format!(", without {missing:?}"));
        self.say(match seed {
            _ if copy => format!("nrta_tensor_copy({}, {size}, {core}, {queue}{lacks})", shown.join(", ")),
            None => format!("nrta_tensor_read({}, {size}, {core}, {queue}{lacks})", shown[0]),
            Some(seed) => {
                format!("nrta_tensor_write({}, pattern({seed:#x}), {size}, {core}, {queue}{lacks})", shown[0])
            }
        });
        let lacking = |which| missing == Some(which);
        let bytes = if lacking(Missing::Buffer) { null_mut() } else { buffer.start.cast() };
        let word = if lacking(Missing::Status) { null_mut() } else { status.start.cast() };
        let given = if lacking(Missing::Sequence) { null_mut() } else { &raw mut sequence };
        let (handle, offset, length) = (parts[0].told.handle, parts[0].offset as u64, size as u64);
        // SAFETY: see above.
        let answer = unsafe {
            match seed {
                _ if copy => {
                    let (to, at) = (parts[1].told.handle, parts[1].offset as u64);
                    (self.nrt.nrta_tensor_copy)(handle, offset, to, at, length, core, queue, word, given)
                }
                None => (self.nrt.nrta_tensor_read)(bytes, handle, offset, length, core, queue, word, given),
                Some(_) => (self.nrt.nrta_tensor_write)(handle, bytes, offset, length, core, queue, word, given),
            }
        };
        self.answered(answer, want)?;
        if want != OK {
            ensure!(sequence == UNTOUCHED as u64, "a refused call gives the sequence {sequence:#x}");
            status.holds("the status word of a refused call", &[SENTINEL; 4])?;
            if seed.is_none() {
                buffer.holds("the buffer of a refused call", &vec![SENTINEL; buffer.len])?;
            }
            self.queues.give_back(status);
            self.queues.give_back(buffer);
            return Ok(());
        }

        let gone = uses.iter().any(|(storage, ..)| self.gone(*storage));
        let holds = match (copy, seed) {
            (true, _) => Vec::new(),
            (_, None) if gone => vec![SENTINEL; size],
            (_, None) => self.bytes(&(uses[0].0, uses[0].1.clone())).to_vec(),
            (_, Some(seed)) => pattern(seed, size),
        };
        if !gone && (copy || seed.is_some()) {
            let data = if copy { self.bytes(&(uses[0].0, uses[0].1.clone())).to_vec() } else { holds.clone() };
            let (storage, range, _) = &uses[uses.len() - 1];
            self.put(&(*storage, range.clone()), &data);
        }
        let want = if gone { CLOSED } else { OK };
        // Nobody says what no bytes of memory that is gone are.
        let or = if size == 0 { OK } else { want };
        let lanes = self.queues.lanes.entry(lane).or_default();
        lanes.submitted += 1;
        lanes.items.push_back(Item { uses, status, want, or, buffer, holds });
        let next = id(lane.0, 0, lane.1, lanes.submitted);
        ensure!(sequence == next, "the sequence is {sequence:#x}, expected {next:#x}");
        self.queues.given.push(sequence);
        Ok(())
    }

    // ---- questions -------------------------------------------------------------------------

    /// A program waits for some of what is queued.
    pub(super) fn settle(&mut self, which: &Index) -> Answer {
        let waiting = |(&lane, queue): (&Lane, &Queue)| {
            let first = queue.completed + 1;
            (first..first + queue.items.len() as u64).map(move |number| (lane, number))
        };
        let all: Vec<_> = self.queues.lanes.iter().flat_map(waiting).collect();
        if all.is_empty() {
            return Ok(());
        }
        let (lane, number) = *which.get(&all);
        self.wait(lane, number)
    }

    pub(super) fn poll(&mut self, which: &Sequence, null: bool) -> Answer {
        let sequence = match which {
            Sequence::Given(_) if self.queues.given.is_empty() => return Ok(()),
            Sequence::Given(index) => *index.get(&self.queues.given),
            Sequence::Parts { core, unit, queue, number } => id(*core, *unit, *queue, *number),
        };
        let (lane, unit, number) =
            (((sequence >> 56) as u8, (sequence >> 52 & 15) as u8), sequence >> 48 & 15, sequence & ((1 << 48) - 1));
        let queue = self.queues.lanes.get(&lane).filter(|queue| unit == 0 && (1..=queue.submitted).contains(&number));
        let seen = queue.is_some_and(|queue| number <= queue.completed);
        let known = queue.is_some();
        let mut done = SENTINEL;
        let place = if null { null_mut() } else { &raw mut done };
        self.say(format!("nrta_is_completed({sequence:#x}, {})", if null { "NULL" } else { "&done" }));
        // SAFETY: see above.
        let status = unsafe { (self.nrt.nrta_is_completed)(sequence, place) };
        self.answered(status, first(&[self.gate(), refused(null || !known)]))?;
        if status != OK {
            ensure!(done == SENTINEL, "a refused question is answered");
            return Ok(());
        }
        ensure!(done <= 1 && (done == 1 || !seen), "the answer is {done:#x}, though it was completed before: {seen}");
        if done == 1 { self.seen(lane, number) } else { Ok(()) }
    }

    pub(super) fn last_completed(&mut self, core: i32, unit: u32, queue: i32, null: bool) -> Answer {
        let mut sequence = UNTOUCHED as u64;
        let place = if null { null_mut() } else { &raw mut sequence };
        self.say(format!("nrta_get_sequence({core}, {unit}, {queue}, {})", if null { "NULL" } else { "&sequence" }));
        // SAFETY: see above.
        let status = unsafe { (self.nrt.nrta_get_sequence)(core as u32, unit, queue, place) };
        let queues = UNITS.get(unit as usize).copied().unwrap_or(0);
        let nowhere = !(0..queues).contains(&queue) || !self.is_core(core);
        self.answered(status, first(&[self.gate(), refused(null || nowhere)]))?;
        if status != OK {
            ensure!(sequence == UNTOUCHED as u64, "a refused question is answered");
            return Ok(());
        }
        let lane = (core as u8, queue as u8);
        let used = self.queues.lanes.get(&lane).filter(|_| unit == 0);
        let (completed, submitted) = used.map_or((0, 0), |queue| (queue.completed, queue.submitted));
        let before = id(lane.0, unit as u8, lane.1, 0);
        let may = before + completed..=before + submitted;
        ensure!(may.contains(&sequence), "{sequence:#x}, expected one of {may:#x?}");
        if used.is_some() { self.seen(lane, sequence - before) } else { Ok(()) }
    }
}
