//! Logging: levels, modules, sinks, line format, error scopes (`facts/runtime/logging.md`,
//! `facts/config/rules.md` section 11).
//!
//! Three rules shape this module:
//!
//! * A line that is switched off costs one relaxed load; its arguments are not evaluated.
//! * A line that is printed is put together in memory and handed over by one `write(2)`. No lock is
//!   taken on the way, so any thread may log at any time, and so may a child forked from a process
//!   with many threads.
//! * One call of a macro is one line: control characters, line ends included, come out escaped.
//!
//! What the outside does to the sinks is borne, not reported, because there is nobody to report it
//! to: a closed stream, a full non-blocking pipe or a missing syslog daemon loses the line. A write
//! to a pipe nobody reads raises SIGPIPE exactly as the program's own `write` would; whether that
//! kills the process is the program's choice, and a library must not change it behind its back. A
//! blocking stream that nobody drains blocks the caller, as with `printf`.

mod clock;
mod line;
mod scope;
mod settings;
mod sink;

pub use clock::{Local, now};
pub use line::{Printable, printable};
pub use scope::{Scope, set_coalescing};
#[doc(hidden)]
pub use settings::fuzz;
pub use settings::{environment, reconfigure};

use std::fmt;

/// Severity (`facts/config/enums.tsv`, `nrt_log_level_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// Nothing is printed. A setting only; no line has this level.
    Disabled = 0,
    /// Something failed.
    Error = 1,
    /// Something is odd but goes on.
    Warn = 2,
    /// Progress.
    Info = 3,
    /// Calls and decisions.
    Debug = 4,
    /// Everything.
    Trace = 5,
}

impl Level {
    const ALL: [Level; 6] = [Level::Disabled, Level::Error, Level::Warn, Level::Info, Level::Debug, Level::Trace];

    /// The name printed in a line, and the text a setting is searched for.
    pub const fn name(self) -> &'static str {
        match self {
            Level::Disabled => "DISABLED",
            Level::Error => "ERROR",
            Level::Warn => "WARN",
            Level::Info => "INFO",
            Level::Debug => "DEBUG",
            Level::Trace => "TRACE",
        }
    }

    fn from_byte(byte: u8) -> Level {
        Level::ALL.get(usize::from(byte)).copied().unwrap_or(Level::Disabled)
    }
}

/// Who speaks. The vendor library has twelve slots; these eight are the ones whose tags are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Module {
    /// The public calls.
    Nrt,
    /// The device layer.
    Tdrv,
    /// The model manager.
    Nmgr,
    /// The name the documentation gives the model manager.
    Kmgr,
    /// Collectives.
    Enc,
    /// Per-generation hardware code.
    Hal,
    /// The logger itself.
    Nlog,
    /// The parts the vendor wrote in Rust.
    Rust,
}

impl Module {
    const ALL: [Module; 8] =
        [Module::Nrt, Module::Tdrv, Module::Nmgr, Module::Kmgr, Module::Enc, Module::Hal, Module::Nlog, Module::Rust];

    /// The tag: printed in a line and appended to the names of the per-module variables.
    pub const fn tag(self) -> &'static str {
        match self {
            Module::Nrt => "NRT",
            Module::Tdrv => "TDRV",
            Module::Nmgr => "NMGR",
            Module::Kmgr => "KMGR",
            Module::Enc => "ENC",
            Module::Hal => "HAL",
            Module::Nlog => "NLOG",
            Module::Rust => "RUST",
        }
    }
}

/// Whether a line of this level and module would reach any sink.
///
/// One relaxed load once the settings have been read; the first query of the process reads them.
#[inline]
pub fn enabled(level: Level, module: Module) -> bool {
    level != Level::Disabled && settings::passes(level, module)
}

/// Write one line. Use the [`log_error!`](crate::log_error) family instead: it asks [`enabled`]
/// first. An ERROR line inside an open [`Scope`] may be kept until the scope ends.
pub fn emit(level: Level, module: Module, function: &str, message: fmt::Arguments<'_>) {
    // The arguments are user code as far as this module knows: they may log or panic, so they are
    // formatted before any state of the thread is borrowed.
    let message = line::escaped(message);
    let sinks = settings::sinks(module);
    if level == Level::Error {
        scope::error(module, function, message, sinks);
    } else {
        sink::deliver(level, module, function, &message, None, sinks);
    }
}

/// Write one line at once, even inside an open [`Scope`].
pub(crate) fn emit_now(level: Level, module: Module, function: &str, message: fmt::Arguments<'_>) {
    let message = line::escaped(message);
    sink::deliver(level, module, function, &message, None, settings::sinks(module));
}

/// The body of the four public macros.
#[doc(hidden)]
#[macro_export]
macro_rules! __log {
    ($level:ident, $m:ident, $f:expr, $($a:tt)+) => {
        if $crate::log::enabled($crate::log::Level::$level, $crate::log::Module::$m) {
            $crate::log::emit($crate::log::Level::$level, $crate::log::Module::$m, $f, ::core::format_args!($($a)+));
        }
    };
}

/// `log_error!(Nrt, "function", "text {}", value)`. The arguments are evaluated only when the line
/// is printed.
#[macro_export]
macro_rules! log_error { ($m:ident, $f:expr, $($a:tt)+) => { $crate::__log!(Error, $m, $f, $($a)+) } }
/// As [`log_error!`](crate::log_error), level WARN.
#[macro_export]
macro_rules! log_warn { ($m:ident, $f:expr, $($a:tt)+) => { $crate::__log!(Warn, $m, $f, $($a)+) } }
/// As [`log_error!`](crate::log_error), level INFO.
#[macro_export]
macro_rules! log_info { ($m:ident, $f:expr, $($a:tt)+) => { $crate::__log!(Info, $m, $f, $($a)+) } }
/// As [`log_error!`](crate::log_error), level DEBUG.
#[macro_export]
macro_rules! log_debug { ($m:ident, $f:expr, $($a:tt)+) => { $crate::__log!(Debug, $m, $f, $($a)+) } }

#[cfg(test)]
mod tests {
    use super::*;

    /// `facts/config/enums.tsv`, enum `nrt_log_level_t`.
    #[test]
    fn level_numbers_and_names_are_the_vendors() {
        let table = [("DISABLED", 0), ("ERROR", 1), ("WARN", 2), ("INFO", 3), ("DEBUG", 4), ("TRACE", 5)];
        assert_eq!(table.len(), Level::ALL.len());
        for (name, number) in table {
            let level = Level::from_byte(number);
            assert_eq!((level.name(), level as u8), (name, number));
        }
    }

    #[test]
    fn module_order_matches_the_discriminants_and_tags_fit_four_bytes() {
        for (index, module) in Module::ALL.into_iter().enumerate() {
            assert_eq!(module as usize, index);
            assert!(matches!(module.tag().len(), 3 | 4), "{module:?}");
        }
    }

    #[test]
    fn no_line_has_the_level_disabled() {
        assert!(!enabled(Level::Disabled, Module::Nrt));
    }
}
