//! A command on its way to a driver.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use neuron_abi::kernel::args::Wire;
use neuron_abi::kernel::ioctl::{self, Op};

use crate::{Cause, File, Result};

/// A buffer the argument of a command points to.
pub(crate) enum Buffer<'a> {
    /// None.
    None,
    /// The driver reads it.
    In(&'a [u8]),
    /// The driver writes it.
    Out(&'a mut [u8]),
}

impl Buffer<'_> {
    /// The address a field of the argument is to hold.
    pub(crate) fn address(&mut self) -> u64 {
        match self {
            Buffer::None => 0,
            Buffer::In(bytes) => bytes.as_ptr().expose_provenance() as u64,
            Buffer::Out(bytes) => bytes.as_mut_ptr().expose_provenance() as u64,
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        match self {
            Buffer::None => 0,
            Buffer::In(bytes) => bytes.len(),
            Buffer::Out(bytes) => bytes.len(),
        }
    }

    /// The same buffer for one of several uses.
    pub(crate) fn again(&mut self) -> Buffer<'_> {
        match self {
            Buffer::None => Buffer::None,
            Buffer::In(bytes) => Buffer::In(bytes),
            Buffer::Out(bytes) => Buffer::Out(bytes),
        }
    }
}

/// A command with its argument. Only this crate makes them: every address in the argument is that
/// of its one buffer, with a length the buffer has.
pub struct Call<'a> {
    pub(crate) op: Op,
    /// The argument struct, with what follows it.
    pub(crate) image: &'a mut [u8],
    /// Keeps the buffer borrowed; a kernel finds it by its address.
    #[cfg_attr(not(feature = "in-process"), allow(dead_code))]
    pub(crate) buffer: Buffer<'a>,
}

impl Call<'_> {
    /// Name of the command.
    pub fn name(&self) -> &'static str {
        ioctl::row(self.op).name
    }

    pub(crate) fn command(&self) -> u32 {
        ioctl::row(self.op).cmd
    }
}

/// Which form of a command a device takes. A driver says so by refusing the others, and it says the
/// same of an argument that is out of range; so a form is known when it has worked once.
#[derive(Debug, Default)]
pub(crate) struct Form(AtomicU8);

/// The forms a file has learned, one for each command that bytes move by.
#[derive(Debug, Default)]
pub struct Learned {
    /// Copies from and to a buffer.
    pub(crate) buffer: Form,
    /// Copies inside the device.
    pub(crate) copy: Form,
    /// Fills.
    pub(crate) fill: Form,
}

impl Form {
    const UNKNOWN: u8 = 0;

    /// Asks with the form that is known, or with each of `forms`, numbers from 1 on, until one is
    /// not refused.
    pub(crate) fn ask<T>(
        &self,
        forms: impl IntoIterator<Item = u8>,
        mut with: impl FnMut(u8) -> Result<T>,
    ) -> Result<T> {
        let known = self.0.load(Ordering::Relaxed);
        if known != Self::UNKNOWN {
            return with(known);
        }
        let mut forms = forms.into_iter().peekable();
        while let Some(form) = forms.next() {
            match with(form) {
                Ok(answer) => {
                    self.0.store(form, Ordering::Relaxed);
                    return Ok(answer);
                }
                Err(error) if error.suggests_older_form() && forms.peek().is_some() => {}
                Err(error) => return Err(error),
            }
        }
        unreachable!("a command has a form")
    }

    pub(crate) fn is_known(&self) -> bool {
        self.0.load(Ordering::Relaxed) != Self::UNKNOWN
    }
}

/// Tries again what a signal has cut short, and what found the other side out of threads. Both end:
/// a signal that stays blocked cuts every try short, and a server may never recover.
pub(crate) fn patiently<T>(mut once: impl FnMut() -> Result<T>) -> Result<T> {
    /// Tries in vain after which the signal is taken for one that stays.
    const SIGNALS: u32 = 100;
    /// Together a few seconds.
    const WAITS: u32 = 1000;
    let (mut signals, mut waits) = (0, 0);
    loop {
        match once() {
            Err(error) if error.cause == Cause::Interrupted && signals < SIGNALS => signals += 1,
            Err(error) if error.cause == Cause::Unavailable && waits < WAITS => {
                waits += 1;
                std::thread::sleep(Duration::from_millis(u64::from(waits.min(5))));
            }
            answer => return answer,
        }
    }
}

/// Bytes of the longest argument of fixed size that is sent.
const LONGEST: usize = 512;

impl dyn File + '_ {
    /// Sends a command until the driver has had the time for it.
    pub(crate) fn send(&self, call: &mut Call<'_>) -> Result<u32> {
        patiently(|| self.call(call))
    }

    /// Sends a command whose argument has a fixed size. Gives back the driver's result and the
    /// argument as it left it.
    pub(crate) fn exchange<T: Wire>(&self, op: Op, argument: &T, buffer: Buffer<'_>) -> Result<(u32, T)> {
        const { assert!(T::SIZE <= LONGEST) };
        let mut image = [0; LONGEST];
        let image = &mut image[..T::SIZE];
        argument.put(image);
        let result = self.send(&mut Call { op, image, buffer })?;
        Ok((result, T::get(image)))
    }

    /// The same for a command whose only result is success: a positive one is the number of bytes
    /// that could not be copied.
    pub(crate) fn ask<T: Wire>(&self, op: Op, argument: &T, buffer: Buffer<'_>) -> Result<T> {
        match self.exchange(op, argument, buffer)? {
            (0, answer) => Ok(answer),
            (left, _) => Err(self.error(op, Cause::Fault { left })),
        }
    }

    /// The newer form of a command, and the older one where the driver refuses that.
    pub(crate) fn either<T>(&self, newer: impl FnOnce() -> Result<T>, older: impl FnOnce() -> Result<T>) -> Result<T> {
        match newer() {
            Err(error) if error.suggests_older_form() => older(),
            answer => answer,
        }
    }

    pub(crate) fn error(&self, op: Op, cause: Cause) -> crate::Error {
        cause.at(self.device(), ioctl::row(op).name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails in turn, then answers 7.
    fn after(mut causes: Vec<Cause>) -> (std::result::Result<u32, Cause>, usize) {
        let before = causes.len();
        let answer = patiently(|| causes.pop().map_or(Ok(7), |cause| Err(cause.at(0, "test"))));
        (answer.map_err(|error| error.cause), before - causes.len())
    }

    #[test]
    fn signals_and_shortage_are_waited_out_and_nothing_else() {
        assert_eq!(after(vec![Cause::Interrupted, Cause::Unavailable, Cause::Interrupted]), (Ok(7), 3));
        assert_eq!(after(vec![Cause::Refused, Cause::Interrupted]), (Err(Cause::Refused), 2));
        assert_eq!(after(vec![Cause::Interrupted; 500]), (Err(Cause::Interrupted), 101));
    }

    /// What each form answers, and which were asked.
    fn asked(form: &Form, answers: [Result<()>; 3]) -> (Result<u8>, Vec<u8>) {
        let mut asked = Vec::new();
        let answer = form.ask(1..=3, |form| {
            asked.push(form);
            answers[usize::from(form) - 1].clone().map(|()| form)
        });
        (answer, asked)
    }

    #[test]
    fn a_form_is_known_when_it_has_worked_and_not_before() {
        let (refused, unknown) = (|| Err(Cause::Refused.at(0, "test")), || Err(Cause::UnknownCommand.at(0, "test")));
        let form = Form::default();
        assert_eq!(asked(&form, [refused(), unknown(), refused()]), (refused().map(|()| 0), vec![1, 2, 3]));
        let full = || Err(Cause::NoMemory.at(0, "test"));
        assert_eq!(asked(&form, [full(), Ok(()), Ok(())]), (full().map(|()| 0), vec![1]), "not a question of form");
        assert!(!form.is_known());
        assert_eq!(asked(&form, [refused(), Ok(()), Ok(())]), (Ok(2), vec![1, 2]));
        assert_eq!(
            asked(&form, [Ok(()), refused(), Ok(())]),
            (refused().map(|()| 0), vec![2]),
            "it means the argument"
        );
        assert_eq!(asked(&form, [Ok(()), Ok(()), Ok(())]), (Ok(2), vec![2]));
    }
}
