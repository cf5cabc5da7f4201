//! A command on its way to a driver.

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

/// Bytes of the longest argument of fixed size that is sent.
const LONGEST: usize = 512;

impl dyn File + '_ {
    /// Sends a command whose argument has a fixed size. Gives back the driver's result and the
    /// argument as it left it.
    pub(crate) fn exchange<T: Wire>(&self, op: Op, argument: &T, buffer: Buffer<'_>) -> Result<(u32, T)> {
        const { assert!(T::SIZE <= LONGEST) };
        let mut image = [0; LONGEST];
        let image = &mut image[..T::SIZE];
        argument.put(image);
        let result = self.call(&mut Call { op, image, buffer })?;
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
