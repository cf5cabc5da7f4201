//! How many models sit on each logical core (`facts/runtime/lifecycle.md` section 10).

use neuron_abi::Status;
use parking_lot::Mutex;

use crate::Result;

/// Most logical cores one process can have.
pub const MAX_CORES: usize = 256;

/// Per-core use counters; a load without a core of its own goes to the least used one.
#[derive(Debug)]
pub struct Usage(Mutex<Vec<u32>>);

impl Usage {
    /// Counters for `cores` logical cores, all zero.
    ///
    /// # Errors
    /// `Invalid` above 256.
    pub fn new(cores: usize) -> Result<Usage> {
        if cores > MAX_CORES { Err(Status::Invalid) } else { Ok(Usage(Mutex::new(vec![0; cores]))) }
    }

    /// Count one more use of core `vnc`, or of the least used core when `None` (lowest index on a
    /// tie), and say which it was.
    ///
    /// # Errors
    /// `Invalid` for a core this process does not have.
    pub fn take(&self, vnc: Option<usize>) -> Result<usize> {
        let mut counts = self.0.lock();
        let index = match vnc {
            Some(index) => index,
            None => (0..counts.len()).min_by_key(|&i| counts[i]).ok_or(Status::Invalid)?,
        };
        *counts.get_mut(index).ok_or(Status::Invalid)? += 1;
        Ok(index)
    }

    /// Take one use of core `vnc` back.
    pub fn give_back(&self, vnc: usize) {
        if let Some(count) = self.0.lock().get_mut(vnc) {
            *count = count.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_used_core_is_taken_lowest_first() {
        let usage = Usage::new(3).unwrap();
        assert_eq!([(); 4].map(|()| usage.take(None).unwrap()), [0, 1, 2, 0]);
        usage.give_back(2);
        assert_eq!(usage.take(None), Ok(2));
        assert_eq!(usage.take(Some(1)), Ok(1));
    }

    #[test]
    fn absent_core_is_refused() {
        assert_eq!(Usage::new(2).unwrap().take(Some(2)), Err(Status::Invalid));
        assert_eq!(Usage::new(0).unwrap().take(None), Err(Status::Invalid));
        assert!(Usage::new(MAX_CORES).is_ok());
        assert!(Usage::new(MAX_CORES + 1).is_err());
    }
}
