//! One command in flight, and its copies from and to the caller.

use std::sync::Arc;

use neuron_abi::kernel::args::Wire;
use neuron_abi::kernel::ioctl::Ioctl;
use neuron_hw::memory::Piece;

use crate::caller::{Caller, UserMemory};
use crate::cdev::File;
use crate::device::Device;
use crate::driver::Driver;
use crate::reply::{Errno, Stop};

/// A command with everything it works on.
pub struct Call<'a> {
    /// The module load.
    pub driver: &'a Arc<Driver>,
    /// The device of the file.
    pub device: &'a Arc<Device>,
    /// The file.
    pub file: &'a File,
    /// Who calls.
    pub caller: &'a Caller,
    /// The caller's memory.
    pub memory: &'a dyn UserMemory,
    /// Row of the table.
    pub row: &'static Ioctl,
    /// The command as sent: some rows take more than one value.
    pub cmd: u32,
    /// The argument word.
    pub arg: u64,
}

/// A struct copied in from a caller, with the bytes around its fields.
///
/// What is written back is the image the caller sent with the fields replaced, so padding keeps
/// the caller's bytes as it does in the driver.
pub struct User<T: Wire> {
    address: u64,
    image: Vec<u8>,
    /// The fields.
    pub value: T,
}

impl<T: Wire> User<T> {
    /// A struct that the driver fills without reading it.
    pub fn fresh(address: u64) -> Self {
        let image = vec![0; T::SIZE];
        let value = T::get(&image);
        Self { address, image, value }
    }
}

impl Call<'_> {
    /// Copies a struct in from the argument address.
    ///
    /// # Errors
    /// The uncopied count.
    pub fn copy_in<T: Wire>(&self) -> Result<User<T>, Stop> {
        self.copy_in_at(self.arg)
    }

    /// Copies a struct in.
    ///
    /// # Errors
    /// The uncopied count.
    pub fn copy_in_at<T: Wire>(&self, address: u64) -> Result<User<T>, Stop> {
        let mut image = vec![0; T::SIZE];
        self.read(address, &mut image)?;
        let value = T::get(&image);
        Ok(User { address, image, value })
    }

    /// Copies a struct out to where it came from.
    ///
    /// # Errors
    /// The uncopied count.
    pub fn copy_out<T: Wire>(&self, mut user: User<T>) -> Result<i64, Stop> {
        user.value.put(&mut user.image);
        self.write(user.address, &user.image)
    }

    /// Copies one value out.
    ///
    /// # Errors
    /// The uncopied count.
    pub fn put<T: Wire>(&self, address: u64, value: T) -> Result<i64, Stop> {
        let mut image = vec![0; T::SIZE];
        value.put(&mut image);
        self.write(address, &image)
    }

    /// Copies bytes in.
    ///
    /// # Errors
    /// The uncopied count.
    pub fn read(&self, address: u64, data: &mut [u8]) -> Result<(), Stop> {
        match self.memory.read(address, data) {
            0 => Ok(()),
            left => Err(Stop::Uncopied(left)),
        }
    }

    /// Copies bytes out; 0 is the result of most commands that end with it.
    ///
    /// # Errors
    /// The uncopied count.
    pub fn write(&self, address: u64, data: &[u8]) -> Result<i64, Stop> {
        match self.memory.write(address, data) {
            0 => Ok(0),
            left => Err(Stop::Uncopied(left)),
        }
    }

    /// Copies in to memory of a device.
    ///
    /// # Errors
    /// The uncopied count.
    pub fn fetch(&self, address: u64, to: Piece<'_>) -> Result<(), Stop> {
        match self.memory.fetch(address, to) {
            0 => Ok(()),
            left => Err(Stop::Uncopied(left)),
        }
    }

    /// Copies out from memory of a device.
    ///
    /// # Errors
    /// The uncopied count.
    pub fn store(&self, address: u64, from: Piece<'_>) -> Result<(), Stop> {
        match self.memory.store(address, from) {
            0 => Ok(()),
            left => Err(Stop::Uncopied(left)),
        }
    }

    /// An operation that the dispatch gave to the wrong room.
    pub(crate) fn misrouted(&self) -> Stop {
        Stop::Errno(Errno::ENOSYS)
    }
}
