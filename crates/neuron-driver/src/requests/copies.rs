//! Bytes on their way to, from and inside the memory of a device.
//!
//! A buffer has four forms of a copy, from the newest:
//!
//! | form | since | the driver |
//! |---|---|---|
//! | `MEM_BUF_ZEROCOPY64`, 48 bytes | 2.25.4, not on Trn1 and Inf2 | lets the engine at the caller's pages |
//! | `MEM_BUF_ZEROCOPY64`, 40 bytes | 2.24 only | the same, on trial |
//! | `MEM_BUF_COPY64` | | copies through a buffer of its own |
//! | `MEM_BUF_COPY` | | the same, below 4 GiB |
//!
//! The first copy of an open file finds out which one the device takes. After that a refusal means
//! the argument.

use neuron_abi::kernel::args::{MemBufCopy, MemBufCopy64, MemBufCopy64zc, MemCopy, MemCopy64, Memset, Memset64};
use neuron_abi::kernel::ioctl::Op;
use neuron_abi::kernel::values::H2T_DEFAULT_QID;

use crate::call::Buffer;
use crate::{Cause, File, Result};

/// Bytes of one command at most. The driver counts some of them in 32 bits, and a signal can make it
/// start a command anew, so what is lost then must be little: a few milliseconds.
const STEP: usize = 32 << 20;

/// Forms of a copy with a buffer, from the newest.
const QUEUE: u8 = 1;
const TRIAL: u8 = 2;
const WIDE: u8 = 3;
const NARROW: u8 = 4;

/// Offset and length of each command for `bytes` bytes, of which there is none for 0: the driver
/// takes that for 64 KiB, or fails over it.
fn steps(bytes: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..bytes).step_by(STEP).map(move |at| (at, (bytes - at).min(STEP as u64)))
}

impl dyn File + '_ {
    /// Copies from the memory behind a handle into `out`.
    ///
    /// # Errors
    /// [`Cause::Refused`] for a bad handle or range. What comes before the failure has been copied.
    pub fn read(&self, handle: u64, offset: u64, out: &mut [u8]) -> Result<()> {
        self.range(Op::MemBufCopy64, offset, out.len() as u64)?;
        let mut pieces = out.chunks_mut(STEP).zip((offset..).step_by(STEP));
        pieces.try_for_each(|(piece, at)| self.buffer_copy(handle, at, Buffer::Out(piece)))
    }

    /// Copies `data` into the memory behind a handle.
    ///
    /// # Errors
    /// [`Cause::Refused`] for a bad handle or range. What comes before the failure has been copied.
    pub fn write(&self, handle: u64, offset: u64, data: &[u8]) -> Result<()> {
        self.range(Op::MemBufCopy64, offset, data.len() as u64)?;
        let mut pieces = data.chunks(STEP).zip((offset..).step_by(STEP));
        pieces.try_for_each(|(piece, at)| self.buffer_copy(handle, at, Buffer::In(piece)))
    }

    /// Refuses a range with no end: the oldest driver does not see that it wraps, and may never come
    /// back (`facts/driver/cdev.md`, bounds).
    fn range(&self, op: Op, offset: u64, bytes: u64) -> Result<()> {
        offset.checked_add(bytes).map(drop).ok_or_else(|| self.error(op, Cause::Refused))
    }

    fn buffer_copy(&self, handle: u64, offset: u64, mut piece: Buffer<'_>) -> Result<()> {
        let form = &self.learned().buffer;
        let newest = if form.is_known() { WIDE } else { self.newest_form()? };
        let narrow = u32::try_from(offset).is_ok();
        let forms = (newest..=NARROW).filter(|form| (newest != QUEUE || *form != TRIAL) && (*form != NARROW || narrow));
        form.ask(forms, |form| match self.buffer_copy_as(form, handle, offset, piece.again()) {
            // Not every page can be pinned: those of mapped device memory cannot. The driver can
            // still copy them itself, and says how many bytes are not there when they are not.
            Err(error) if form < WIDE && matches!(error.cause, Cause::NoMemory | Cause::Fault { .. }) => {
                let bounced = self.buffer_copy_as(WIDE, handle, offset, piece.again());
                bounced.map_err(|bounced| if bounced.suggests_older_form() { error } else { bounced })
            }
            answer => answer,
        })
    }

    /// The form of a copy to try first.
    fn newest_form(&self) -> Result<u8> {
        if self.features()?.zero_copy() {
            return Ok(QUEUE);
        }
        // Trn1 and Inf2 lose a copy that meets a reset. Later drivers refuse zero copy there, because
        // only their other copies are tried again; the trial takes it.
        Ok(if self.identity()?.architecture == 2 { WIDE } else { TRIAL })
    }

    fn buffer_copy_as(&self, form: u8, mem_handle: u64, offset: u64, mut piece: Buffer<'_>) -> Result<()> {
        let to_device = u32::from(matches!(piece, Buffer::In(_)));
        let (buffer, size) = (piece.address(), piece.bytes() as u64);
        let wide = MemBufCopy64 { mem_handle, buffer, size, offset, copy_to_mem_handle: to_device };
        match form {
            QUEUE => {
                let argument = MemBufCopy64zc {
                    mem_handle,
                    buffer,
                    size,
                    offset,
                    is_copy_to_device: to_device,
                    // Never through BAR 4: devices that refuse zero copy take that, and it would
                    // look as if they had the form.
                    bar4_wr_threshold: 0,
                    h2t_qid: H2T_DEFAULT_QID,
                    dummy: 0,
                };
                self.ask(Op::MemBufZerocopy64Zc, &argument, piece).map(drop)
            }
            TRIAL => self.ask(Op::MemBufZerocopy64, &wide, piece).map(drop),
            WIDE => self.ask(Op::MemBufCopy64, &wide, piece).map(drop),
            _ => {
                let offset = self.narrow(Op::MemBufCopy, offset)?;
                let (size, copy_to_mem_handle) = (size as u32, to_device);
                let argument = MemBufCopy { mem_handle, buffer, size, offset, copy_to_mem_handle };
                self.ask(Op::MemBufCopy, &argument, piece).map(drop)
            }
        }
    }

    /// A number for the older form of a command.
    fn narrow(&self, op: Op, number: u64) -> Result<u32> {
        u32::try_from(number).map_err(|_| self.error(op, Cause::Refused))
    }

    /// Copies between two memories of this device with its own engines. The ranges must not overlap.
    ///
    /// # Errors
    /// [`Cause::Refused`] for a bad handle or range. What comes before the failure has been copied.
    pub fn copy(&self, from: (u64, u64), to: (u64, u64), bytes: u64) -> Result<()> {
        let ((src_mem_handle, from), (dst_mem_handle, to)) = (from, to);
        self.range(Op::MemCopy64, from, bytes)?;
        self.range(Op::MemCopy64, to, bytes)?;
        steps(bytes).try_for_each(|(at, size)| {
            let (src_offset, dst_offset) = (from + at, to + at);
            self.learned().copy.ask([WIDE, NARROW], |form| {
                if form == WIDE {
                    let argument = MemCopy64 { src_mem_handle, dst_mem_handle, size, src_offset, dst_offset };
                    return self.ask(Op::MemCopy64, &argument, Buffer::None).map(drop);
                }
                let narrow = |number| self.narrow(Op::MemCopy, number);
                let (src_offset, dst_offset) = (narrow(src_offset)?, narrow(dst_offset)?);
                let argument = MemCopy { src_mem_handle, dst_mem_handle, size: size as u32, src_offset, dst_offset };
                self.ask(Op::MemCopy, &argument, Buffer::None).map(drop)
            })
        })
    }

    /// Sets `bytes` bytes from `offset` on to `value`.
    ///
    /// # Errors
    /// [`Cause::Refused`] for a bad handle or range. What comes before the failure has been set.
    pub fn fill(&self, mem_handle: u64, offset: u64, bytes: u64, value: u8) -> Result<()> {
        let value = u32::from(value);
        self.range(Op::Memset64, offset, bytes)?;
        steps(bytes).try_for_each(|(at, size)| {
            let offset = offset + at;
            self.learned().fill.ask([WIDE, NARROW], |form| {
                // The older form counts only its length in 32 bits.
                if form == WIDE {
                    return self
                        .ask(Op::Memset64, &Memset64 { mem_handle, offset, value, size }, Buffer::None)
                        .map(drop);
                }
                let argument = Memset { mem_handle, offset, value, size: size as u32 };
                self.ask(Op::Memset, &argument, Buffer::None).map(drop)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use neuron_abi::kernel::args::{DeviceBasicInfo, DeviceDriverInfo, Wire};
    use neuron_abi::kernel::values::FEATURE_ZEROCOPY;
    use parking_lot::Mutex;

    use super::*;
    use crate::{Call, Learned, Mapping};

    /// What a driver answers to the n-th time of a command with the same offset, n from 0; bytes
    /// move when it is a result.
    type Script = fn(Op, usize) -> std::result::Result<u32, Cause>;

    /// A driver that does what a script says, with two memories.
    struct Scripted {
        script: Script,
        features: u64,
        architecture: u32,
        /// Empty where bytes do not matter.
        memories: Mutex<[Vec<u8>; 2]>,
        tries: Mutex<BTreeMap<(u16, u64), usize>>,
        /// Commands, with offset and size where they have one.
        asked: Mutex<Vec<(Op, u64, u64)>>,
        /// Those that moved all their bytes.
        moved: Mutex<Vec<(Op, u64, u64)>>,
        learned: Learned,
    }

    impl Scripted {
        fn new(bytes: usize, script: Script) -> Scripted {
            let memories = Mutex::new([vec![0; bytes], vec![0; bytes]]);
            Scripted {
                script,
                features: FEATURE_ZEROCOPY,
                architecture: 3,
                memories,
                tries: Mutex::default(),
                asked: Mutex::default(),
                moved: Mutex::default(),
                learned: Learned::default(),
            }
        }

        /// Moves the first `bytes` bytes of a command.
        fn perform(&self, call: &mut Call<'_>, bytes: u64) {
            let mut memories = self.memories.lock();
            if memories[0].is_empty() {
                return;
            }
            let (image, n) = (&*call.image, bytes as usize);
            let ((handle, offset), other) = match call.op {
                Op::MemBufCopy64 | Op::MemBufZerocopy64 => {
                    let a = MemBufCopy64::get(image);
                    ((a.mem_handle, a.offset), None)
                }
                Op::MemBufZerocopy64Zc => {
                    let a = MemBufCopy64zc::get(image);
                    assert_eq!((a.h2t_qid, a.bar4_wr_threshold), (-1, 0));
                    ((a.mem_handle, a.offset), None)
                }
                Op::MemBufCopy => {
                    let a = MemBufCopy::get(image);
                    ((a.mem_handle, u64::from(a.offset)), None)
                }
                Op::MemCopy64 => {
                    let a = MemCopy64::get(image);
                    ((a.dst_mem_handle, a.dst_offset), Some((a.src_mem_handle, a.src_offset as usize)))
                }
                Op::Memset64 => {
                    let a = Memset64::get(image);
                    let at = a.offset as usize;
                    memories[a.mem_handle as usize][at..at + n].fill(a.value as u8);
                    return;
                }
                op => panic!("{op:?} moves nothing"),
            };
            let at = offset as usize;
            if let Some((from, from_at)) = other {
                let bytes = memories[from as usize][from_at..from_at + n].to_vec();
                memories[handle as usize][at..at + n].copy_from_slice(&bytes);
                return;
            }
            let memory = &mut memories[handle as usize][at..at + n];
            match &mut call.buffer {
                Buffer::In(data) => memory.copy_from_slice(&data[..n]),
                Buffer::Out(out) => out[..n].copy_from_slice(memory),
                Buffer::None => panic!("{:?} has a buffer", call.op),
            }
        }

        /// Offset and size of a command.
        fn range(call: &Call<'_>) -> (u64, u64) {
            let image = &*call.image;
            match call.op {
                Op::MemBufCopy64 | Op::MemBufZerocopy64 => {
                    let a = MemBufCopy64::get(image);
                    (a.offset, a.size)
                }
                Op::MemBufZerocopy64Zc => {
                    let a = MemBufCopy64zc::get(image);
                    (a.offset, a.size)
                }
                Op::MemBufCopy => {
                    let a = MemBufCopy::get(image);
                    (a.offset.into(), a.size.into())
                }
                Op::MemCopy64 => {
                    let a = MemCopy64::get(image);
                    (a.dst_offset, a.size)
                }
                Op::Memset64 => {
                    let a = Memset64::get(image);
                    (a.offset, a.size)
                }
                _ => (0, 0),
            }
        }

        fn ops(&self) -> Vec<Op> {
            std::mem::take(&mut *self.asked.lock()).into_iter().map(|(op, ..)| op).collect()
        }
    }

    impl File for Scripted {
        fn device(&self) -> u32 {
            0
        }

        fn learned(&self) -> &Learned {
            &self.learned
        }

        fn call(&self, call: &mut Call<'_>) -> Result<u32> {
            let (op, (offset, size)) = (call.op, Self::range(call));
            self.asked.lock().push((op, offset, size));
            let mut tries = self.tries.lock();
            let tried = tries.entry((op as u16, offset)).or_default();
            *tried += 1;
            let time = *tried - 1;
            drop(tries);
            match (self.script)(op, time) {
                Ok(left) => {
                    match op {
                        Op::DriverInfoGet => {
                            let info = DeviceDriverInfo { feature_flags1: self.features, ..Default::default() };
                            info.put(call.image);
                        }
                        Op::DeviceBasicInfo => {
                            DeviceBasicInfo { architecture: self.architecture, ..Default::default() }.put(call.image);
                        }
                        _ if left == 0 => {
                            self.perform(call, size);
                            self.moved.lock().push((op, offset, size));
                        }
                        _ => {}
                    }
                    Ok(left)
                }
                Err(cause) => {
                    if cause == Cause::Interrupted {
                        self.perform(call, size / 2);
                    }
                    Err(cause.at(0, call.name()))
                }
            }
        }

        fn map(&self, _: u64, _: usize) -> Result<Mapping> {
            Err(Cause::NotMappable.at(0, "mmap"))
        }
    }

    /// Every step is cut short by a signal half-way and finds the driver busy before it succeeds.
    fn storm(op: Op, time: usize) -> std::result::Result<u32, Cause> {
        match (op, time) {
            (Op::DriverInfoGet | Op::DeviceBasicInfo, _) | (_, 3..) => Ok(0),
            (_, 1) => Err(Cause::Unavailable),
            _ => Err(Cause::Interrupted),
        }
    }

    const BYTES: usize = 3 * STEP + 4099;
    const OFFSET: usize = 77;

    /// The steps that moved their bytes are one after the other, each once.
    fn in_order(file: &Scripted, op: Op) {
        let mut end = OFFSET as u64;
        for (moved, at, size) in std::mem::take(&mut *file.moved.lock()) {
            assert_eq!((moved, at), (op, end));
            assert!(size <= STEP as u64);
            end += size;
        }
        assert_eq!(end, (OFFSET + BYTES) as u64);
        let asked = std::mem::take(&mut *file.asked.lock());
        let mut last = 0;
        for (_, at, _) in asked.into_iter().filter(|(asked, ..)| *asked == op) {
            assert!(at >= last, "a step that was done is not done again");
            last = at;
        }
        file.tries.lock().clear();
    }

    #[test]
    fn signals_and_a_busy_driver_in_each_step_lose_and_repeat_nothing() {
        let scripted = Scripted::new(OFFSET + BYTES + 100, storm);
        let file: &dyn File = &scripted;
        // A length no step is a multiple of.
        let mut data = (0..4099).map(|n| (n ^ (n >> 3)) as u8).collect::<Vec<_>>().repeat(BYTES / 4099 + 1);
        data.truncate(BYTES);
        file.write(0, OFFSET as u64, &data).unwrap();
        in_order(&scripted, Op::MemBufZerocopy64Zc);
        assert!(scripted.memories.lock()[0][OFFSET..][..BYTES] == data);

        let mut out = vec![0; BYTES];
        file.read(0, OFFSET as u64, &mut out).unwrap();
        in_order(&scripted, Op::MemBufZerocopy64Zc);
        assert!(out == data);

        file.copy((0, OFFSET as u64), (1, OFFSET as u64), BYTES as u64).unwrap();
        in_order(&scripted, Op::MemCopy64);
        assert!(scripted.memories.lock()[1][OFFSET..][..BYTES] == data);

        file.fill(1, OFFSET as u64, BYTES as u64, 9).unwrap();
        in_order(&scripted, Op::Memset64);
        let memories = scripted.memories.lock();
        assert!(memories[1][OFFSET..][..BYTES] == vec![9; BYTES]);
        let around = [&memories[1][..OFFSET], &memories[1][OFFSET + BYTES..], &memories[0][..OFFSET]];
        assert!(around.into_iter().flatten().all(|byte| *byte == 0), "nothing beside the range is touched");
    }

    /// No command comes near what 32 bits count, also where all has to be counted in more.
    #[test]
    fn more_than_4_gib_goes_in_steps_to_its_end() {
        let scripted = Scripted::new(0, |_, _| Ok(0));
        let file: &dyn File = &scripted;
        let bytes = (5 << 30) + 1;
        file.fill(0, 3, bytes, 1).unwrap();
        file.copy((0, 1 << 40), (1, 3), bytes).unwrap();
        for op in [Op::Memset64, Op::MemCopy64] {
            let moved = scripted.moved.lock();
            let mut end = 3;
            for (_, at, size) in moved.iter().filter(|(moved, ..)| *moved == op) {
                assert_eq!(*at, end);
                assert!(*size <= STEP as u64);
                end += size;
            }
            assert_eq!(end, 3 + bytes);
        }
    }

    #[test]
    fn a_signal_that_stays_is_an_error_and_what_was_done_stays() {
        fn last_step(op: Op, _: usize) -> std::result::Result<u32, Cause> {
            if op == Op::MemBufZerocopy64Zc { Err(Cause::Interrupted) } else { Ok(0) }
        }
        let scripted = Scripted::new(BYTES, last_step);
        let file: &dyn File = &scripted;
        assert_eq!(file.write(0, 0, &[1; 64]).unwrap_err().cause, Cause::Interrupted);
        assert_eq!(scripted.asked.lock().len(), 1 + 101);
    }

    /// Devices and drivers of `facts/driver/ioctls.tsv`: features, architecture, what is refused, and
    /// what a first and a second copy ask.
    #[test]
    fn the_form_a_device_takes_is_found_once() {
        use Op::{
            DeviceBasicInfo as Who, DriverInfoGet as Info, MemBufCopy as Narrow, MemBufCopy64 as Wide,
            MemBufZerocopy64 as Trial, MemBufZerocopy64Zc as Queue,
        };
        let table: [(u64, u32, Script, &[Op], Op); 5] = [
            (0x1ff, 3, |_, _| Ok(0), &[Info, Queue], Queue),
            (0xff, 3, |_, _| Ok(0), &[Info, Who, Trial], Trial),
            (0xff, 2, |_, _| Ok(0), &[Info, Who, Wide], Wide),
            (0x1ff, 2, |op, _| if op == Queue { Err(Cause::Refused) } else { Ok(0) }, &[Info, Queue, Wide], Wide),
            (
                0,
                3,
                |op, _| if matches!(op, Info | Trial | Wide) { Err(Cause::Refused) } else { Ok(0) },
                &[Info, Who, Trial, Wide, Narrow],
                Narrow,
            ),
        ];
        for (features, architecture, script, first, then) in table {
            let scripted = Scripted { features, architecture, ..Scripted::new(64, script) };
            let file: &dyn File = &scripted;
            file.write(0, 0, &[7; 5]).unwrap();
            assert_eq!(scripted.ops(), first, "{features:#x} {architecture}");
            let mut out = [0; 5];
            file.read(0, 0, &mut out).unwrap();
            assert_eq!((scripted.ops(), out), (vec![then], [7; 5]));
        }
    }

    #[test]
    fn pages_that_cannot_be_pinned_are_copied_by_the_driver_which_says_when_they_are_not_there() {
        fn not_pinned(op: Op, time: usize) -> std::result::Result<u32, Cause> {
            match (op, time) {
                (Op::MemBufZerocopy64Zc, 1) => Err(Cause::NoMemory),
                (Op::MemBufZerocopy64Zc, 2) => Err(Cause::Fault { left: u32::MAX }),
                (Op::MemBufZerocopy64Zc, 3) => Err(Cause::NoAnswer),
                (Op::MemBufCopy64, 1) => Ok(4096),
                _ => Ok(0),
            }
        }
        let scripted = Scripted::new(64, not_pinned);
        let file: &dyn File = &scripted;
        file.write(0, 0, &[1; 5]).unwrap();
        assert_eq!(scripted.ops(), [Op::DriverInfoGet, Op::MemBufZerocopy64Zc]);
        file.write(0, 0, &[2; 5]).unwrap();
        assert_eq!(scripted.ops(), [Op::MemBufZerocopy64Zc, Op::MemBufCopy64], "for this copy only");
        assert_eq!(scripted.memories.lock()[0][..5], [2; 5]);
        assert_eq!(file.write(0, 0, &[3; 5]).unwrap_err().cause, Cause::Fault { left: 4096 });
        assert_eq!(scripted.ops(), [Op::MemBufZerocopy64Zc, Op::MemBufCopy64]);
        assert_eq!(file.write(0, 0, &[4; 5]).unwrap_err().cause, Cause::NoAnswer);
        assert_eq!(scripted.ops(), [Op::MemBufZerocopy64Zc], "other errors are no reason to try again");
        assert_eq!(scripted.memories.lock()[0][..5], [2; 5]);
    }

    #[test]
    fn nothing_and_ranges_without_end_are_not_sent() {
        let scripted = Scripted::new(64, |_, _| Ok(0));
        let file: &dyn File = &scripted;
        file.write(0, u64::MAX, &[]).unwrap();
        file.read(0, 64, &mut []).unwrap();
        file.fill(0, 64, 0, 1).unwrap();
        file.copy((0, 64), (1, 64), 0).unwrap();
        for refused in [
            file.write(0, u64::MAX, &[0]),
            file.read(0, u64::MAX - 3, &mut [0; 5]),
            file.fill(0, 1, u64::MAX, 1),
            file.copy((0, 1), (1, 0), u64::MAX),
            file.copy((0, 0), (1, 1), u64::MAX),
        ] {
            assert_eq!(refused.unwrap_err().cause, Cause::Refused);
        }
        assert!(scripted.asked.lock().is_empty());
    }
}
