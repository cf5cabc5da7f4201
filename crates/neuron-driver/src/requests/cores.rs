//! Claims of cores, their reset, and clearing the memory next to them.

use neuron_abi::kernel::args::{CrwlNcMap, CrwlNcMapExt, DeviceReady, DeviceReset, HbmScrubStart, HbmScrubWait, Wire};
use neuron_abi::kernel::ioctl::Op;
use neuron_abi::kernel::values::MAX_CLAIMS;

use crate::call::{Buffer, Call};
use crate::{Cause, File, Result};

/// Answer to a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marked {
    /// The cores from this number on belong to the process now.
    From(u32),
    /// Nothing was claimed.
    Busy {
        /// Longest run of free cores.
        longest_run: u32,
    },
}

/// A reset that was asked for.
#[derive(Debug)]
#[must_use = "a reset nobody waits for makes the next one of this process fail"]
pub struct ResetTicket(u32);

/// Clearing of one memory channel, started.
#[derive(Debug)]
#[must_use = "the driver keeps its buffers until somebody waits"]
pub struct Scrub {
    core: u32,
    channel: u32,
}

/// Bits of the plain form of a core map.
const PLAIN_BITS: u32 = 64;

/// The range in numbers relative to the descriptor's device, in both forms.
fn relative(base: u32, first: u32, last: u32) -> Option<(u32, u32)> {
    Some((first.checked_sub(base)?, last.checked_sub(base)?))
}

/// Bits `first..first + count` of a map of `N` words.
fn bits<const N: usize>(first: u32, count: u32) -> [u64; N] {
    let set = |word: usize| {
        let start = word as u32 * u64::BITS;
        (0..u64::BITS).filter(|bit| (first..first + count).contains(&(start + bit))).fold(0, |map, bit| map | 1 << bit)
    };
    std::array::from_fn(set)
}

fn lowest(map: &[u64]) -> Option<u32> {
    let word = map.iter().position(|word| *word != 0)?;
    Some(word as u32 * u64::BITS + map[word].trailing_zeros())
}

impl dyn File + '_ {
    /// Claims the first run of `count` free cores in `first..=last` for this process. Cores are
    /// numbered over the whole host, `per_device` on each device; the range must not begin before
    /// the device of this descriptor. Meant for the misc descriptor, whose close gives claims back.
    ///
    /// # Errors
    /// Those of any command; [`Cause::Refused`] for a range that is none.
    pub fn mark_cores(&self, per_device: u32, first: u32, last: u32, count: u32) -> Result<Marked> {
        let base = self.device() * per_device;
        let op = Op::CrwlNcRangeMarkExt0;
        // The older form is sent with a shorter range, so it cannot be the one to refuse this.
        let range = relative(base, first, last).filter(|&(start, end)| start <= end && last < MAX_CLAIMS as u32);
        let (start, end) = range.ok_or_else(|| self.error(op, Cause::Refused))?;
        let answer = |result: u32, op, map: &[u64], longest_run| match result {
            0 => Ok(match lowest(map) {
                Some(core) => Marked::From(base + core),
                // No core was asked for, so none is marked.
                None => Marked::From(first),
            }),
            left if left == BUSY => Ok(Marked::Busy { longest_run }),
            left => Err(self.error(op, Cause::Fault { left })),
        };
        let newer = || {
            let argument =
                CrwlNcMapExt { nc_count: count, start_nc_index: start, end_nc_index: end, ..Default::default() };
            let (result, a) = self.marked(op, &argument)?;
            answer(result, op, &a.bitmap, a.max_nc_available)
        };
        let older = || {
            // The older form tells no core beyond its 64 bits, so none is asked for there.
            let op = Op::CrwlNcRangeMark;
            let end = end.min(PLAIN_BITS - 1);
            if start > end {
                return Ok(Marked::Busy { longest_run: 0 });
            }
            let argument =
                CrwlNcMap { nc_count: count, start_nc_index: start, end_nc_index: end, ..Default::default() };
            let (result, a) = self.marked(op, &argument)?;
            answer(result, op, &[a.bitmap], a.max_nc_available)
        };
        self.either(newer, older)
    }

    /// Sends a claim. The driver fills the argument also when it answers busy.
    fn marked<T: Wire>(&self, op: Op, argument: &T) -> Result<(u32, T)> {
        let mut image = vec![0; T::SIZE];
        argument.put(&mut image);
        match self.call(&mut Call { op, image: &mut image, buffer: Buffer::None }) {
            Ok(result) => Ok((result, T::get(&image))),
            Err(error) if error.cause == Cause::Busy => Ok((BUSY, T::get(&image))),
            Err(error) => Err(error),
        }
    }

    /// Gives back those of `count` cores from `first` on that belong to this process, numbered as
    /// in [`mark_cores`](#method.mark_cores).
    ///
    /// # Errors
    /// Those of any command.
    pub fn unmark_cores(&self, per_device: u32, first: u32, count: u32) -> Result<()> {
        let op = Op::CrwlNcRangeUnmarkExt0;
        let base = self.device() * per_device;
        let start = first.checked_sub(base).ok_or_else(|| self.error(op, Cause::Refused))?;
        let newer = || {
            let argument = CrwlNcMapExt { nc_count: count, bitmap: bits::<8>(start, count), ..Default::default() };
            self.ask(op, &argument, Buffer::None).map(drop)
        };
        let older = || {
            let [bitmap] = bits::<1>(start, count);
            let argument = CrwlNcMap { nc_count: count, bitmap, ..Default::default() };
            self.ask(Op::CrwlNcRangeUnmark, &argument, Buffer::None).map(drop)
        };
        self.either(newer, older)
    }

    /// Asks for a reset of the physical cores in `map`. A reset that this process left behind is
    /// waited for and forgotten first.
    ///
    /// # Errors
    /// Those of any command; [`Cause::ResetPending`] when one is at work all the same.
    pub fn reset(&self, map: u32) -> Result<ResetTicket> {
        let argument = DeviceReset { nc_map: map, request_id: 0 };
        for left_behind in [true, false] {
            match self.exchange(Op::NcReset, &argument, Buffer::None)? {
                (0, a) => return Ok(ResetTicket(a.request_id)),
                // How it ended does not matter to anybody any more; an interrupted wait does.
                (1, _) if left_behind => match self.await_reset(ResetTicket(std::process::id())) {
                    Err(e) if e.cause != Cause::ResetFailed => return Err(e),
                    _ => {}
                },
                (1, _) => break,
                (left, _) => return Err(self.error(Op::NcReset, Cause::Fault { left })),
            }
        }
        Err(self.error(Op::NcReset, Cause::ResetPending))
    }

    /// Waits until a reset is over: 2 minutes on Trn1 and Inf2, 8 minutes later, at most.
    ///
    /// # Errors
    /// [`Cause::ResetFailed`]; [`Cause::Interrupted`] by a SIGTERM sent to this thread, after which
    /// the reset goes on.
    pub fn await_reset(&self, ticket: ResetTicket) -> Result<()> {
        let argument = DeviceReady { request_id: ticket.0, result: 0 };
        match self.ask(Op::NcResetReady, &argument, Buffer::None)?.result {
            0 => Ok(()),
            r if r == -libc::EINTR => Err(self.error(Op::NcResetReady, Cause::Interrupted)),
            _ => Err(self.error(Op::NcResetReady, Cause::ResetFailed)),
        }
    }

    /// Starts to fill a memory channel with `value`, except for the driver's share of it, through
    /// the engines of physical core `core`.
    ///
    /// # Errors
    /// Those of any command.
    pub fn scrub(&self, core: u32, channel: u32, value: u32) -> Result<Scrub> {
        let argument = HbmScrubStart { nc_id: core, hbm_index: channel, axi_port: 0, init_val: value };
        self.ask(Op::HbmScrubStart, &argument, Buffer::None)?;
        Ok(Scrub { core, channel })
    }

    /// Waits until the channel is filled.
    ///
    /// # Errors
    /// [`Cause::NoAnswer`] when the engines do not finish.
    pub fn await_scrub(&self, scrub: Scrub) -> Result<()> {
        let argument = HbmScrubWait { nc_id: scrub.core, hbm_index: scrub.channel };
        self.ask(Op::HbmScrubWait, &argument, Buffer::None).map(drop)
    }
}

/// Stands for EBUSY among the results of a claim, where the argument counts as well.
const BUSY: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_have_the_bits_of_the_cores() {
        assert_eq!(bits::<1>(0, 0), [0]);
        assert_eq!(bits::<1>(3, 2), [0b11000]);
        assert_eq!(bits::<8>(62, 4)[..3], [3 << 62, 3, 0]);
        assert_eq!(bits::<8>(0, 512), [u64::MAX; 8]);
        for first in [0, 1, 63, 64, 130, 511] {
            assert_eq!(lowest(&bits::<8>(first, 1)), Some(first));
        }
        assert_eq!(lowest(&[0, 0]), None);
    }
}
