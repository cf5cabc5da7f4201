//! Module parameters, readable and writable at run time through sysfs.

use neuron_abi::kernel::sysfs::PARAMS;

use crate::profile::Profile;
use crate::reply::Errno;
use crate::sync::Mutex;

/// Values of the parameters a release has.
#[derive(Debug)]
pub struct Params {
    profile: Profile,
    values: Mutex<[u64; PARAMS.len()]>,
}

impl Params {
    /// Defaults, then `name=value` words as `insmod` takes them.
    ///
    /// # Errors
    /// `EINVAL` for a value that is not a number. Unknown names are ignored, as by the kernel.
    pub fn parse(profile: Profile, text: &str) -> Result<Self, Errno> {
        let params = Self { profile, values: Mutex::new(PARAMS.map(|p| p.default)) };
        for word in text.split_whitespace() {
            let (name, value) = word.split_once('=').unwrap_or((word, "1"));
            match params.set(name, value) {
                Err(Errno::ENOENT) | Ok(()) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(params)
    }

    fn index(&self, name: &str) -> Option<usize> {
        PARAMS.iter().position(|p| p.name == name && p.since <= self.profile.release())
    }

    /// Names, in table order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        PARAMS.iter().filter(|p| p.since <= self.profile.release()).map(|p| p.name)
    }

    /// The value; `None` for a name this release does not have.
    pub fn get(&self, name: &str) -> Option<u64> {
        Some(self.values.lock()[self.index(name)?])
    }

    /// Whether a parameter is set; false for one the release does not have.
    pub fn flag(&self, name: &str) -> bool {
        self.get(name).is_some_and(|v| v != 0)
    }

    /// Sets a value from text: decimal, `0x` hexadecimal or `0` octal, as the kernel reads numbers.
    ///
    /// # Errors
    /// `ENOENT` for an unknown name, `EINVAL` for text that is not a number.
    pub fn set(&self, name: &str, text: &str) -> Result<(), Errno> {
        let index = self.index(name).ok_or(Errno::ENOENT)?;
        let text = text.trim_end_matches('\n');
        let value = match (text.strip_prefix("0x").or(text.strip_prefix("0X")), text.strip_prefix('0')) {
            (Some(hex), _) => u64::from_str_radix(hex, 16).ok(),
            (None, Some(octal)) if !octal.is_empty() => u64::from_str_radix(octal, 8).ok(),
            _ => text.parse().ok(),
        };
        self.values.lock()[index] = value.ok_or(Errno::EINVAL)?;
        Ok(())
    }
}
