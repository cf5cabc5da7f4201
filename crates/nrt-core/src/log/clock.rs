//! Local wall-clock time without holding a lock.
//!
//! libc's `localtime_r` takes a process-wide lock, which a forked child may inherit locked for
//! ever. It is therefore asked only for the distance to UTC, once per quarter of an hour (no zone
//! changes its clock between quarters), and a forked child lives with its parent's last answer.

use std::{
    sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    time::{SystemTime, UNIX_EPOCH},
};

/// A moment on the local calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Local {
    /// Gregorian year.
    pub year: i64,
    /// Month, 1 to 12.
    pub month: u8,
    /// Day of the month, 1 to 31.
    pub day: u8,
    /// Hour, 0 to 23.
    pub hour: u8,
    /// Minute, 0 to 59.
    pub minute: u8,
    /// Second, 0 to 59.
    pub second: u8,
    /// Microsecond, 0 to 999999.
    pub micros: u32,
}

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

impl Local {
    /// English three-letter month, whatever the locale.
    pub fn month_name(&self) -> &'static str {
        MONTHS[usize::from(self.month - 1)]
    }

    /// The calendar moment `seconds` after the epoch of a clock that already shows local time.
    /// Days to date by 400-year eras that start on 1 March, so that the leap day ends a year.
    fn from_local_seconds(seconds: i64, micros: u32) -> Local {
        let (days, time) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        let shifted = days + 719_468;
        let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
        let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        Local {
            year: era * 400 + year_of_era + i64::from(month <= 2),
            month: month as u8,
            day: (day_of_year - (153 * month_from_march + 2) / 5 + 1) as u8,
            hour: (time / 3_600) as u8,
            minute: (time / 60 % 60) as u8,
            second: (time % 60) as u8,
            micros,
        }
    }
}

/// Local time now; the epoch itself when the system clock stands before 1970.
pub fn now() -> Local {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = since.as_secs() as i64;
    Local::from_local_seconds(seconds + i64::from(offset_of(seconds)), since.subsec_micros())
}

/// Quarter of an hour the offset was asked for (upper half, never 0 once filled) and the offset.
static OFFSET: AtomicU64 = AtomicU64::new(0);
/// Process that filled [`OFFSET`]; 0 before.
static OWNER: AtomicU32 = AtomicU32::new(0);

fn offset_of(utc_seconds: i64) -> i32 {
    let slot = (utc_seconds / 900) as u32 | 1 << 31;
    let cached = OFFSET.load(Relaxed);
    let owner = OWNER.load(Relaxed);
    let pid = std::process::id();
    if (cached >> 32) as u32 == slot || (owner != 0 && owner != pid) {
        return cached as u32 as i32;
    }
    let offset = ask_libc(utc_seconds);
    OFFSET.store(u64::from(slot) << 32 | u64::from(offset as u32), Relaxed);
    OWNER.store(pid, Relaxed);
    offset
}

fn ask_libc(utc_seconds: i64) -> i32 {
    let time: libc::time_t = utc_seconds;
    let mut parts = std::mem::MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: both pointers are to live objects of the right type; all-zero is a valid `tm`, so the
    // value is initialised whether or not the call succeeds.
    let parts = unsafe {
        libc::localtime_r(&time, parts.as_mut_ptr());
        parts.assume_init()
    };
    parts.tm_gmtoff as i32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn libc_calendar(seconds: i64) -> Local {
        let mut parts = std::mem::MaybeUninit::<libc::tm>::zeroed();
        // SAFETY: as in `ask_libc`.
        let tm = unsafe {
            libc::gmtime_r(&seconds, parts.as_mut_ptr());
            parts.assume_init()
        };
        Local {
            year: i64::from(tm.tm_year) + 1900,
            month: tm.tm_mon as u8 + 1,
            day: tm.tm_mday as u8,
            hour: tm.tm_hour as u8,
            minute: tm.tm_min as u8,
            second: tm.tm_sec as u8,
            micros: 0,
        }
    }

    proptest! {
        #[test]
        fn calendar_agrees_with_libc(seconds in -62_000_000_000i64..250_000_000_000) {
            prop_assert_eq!(Local::from_local_seconds(seconds, 0), libc_calendar(seconds));
        }
    }

    #[test]
    fn every_day_of_four_centuries_agrees_with_libc() {
        for day in 0..146_097 {
            assert_eq!(Local::from_local_seconds(day * 86_400 + 86_399, 0), libc_calendar(day * 86_400 + 86_399));
        }
    }

    #[test]
    fn the_offset_is_the_one_libc_gives() {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
        assert_eq!(offset_of(seconds), ask_libc(seconds));
        assert_eq!(offset_of(seconds), ask_libc(seconds), "second answer comes from the cache");
    }
}
