//! Values that are one of a few words or numbers (`facts/config/rules.md` sections 10, 11 and 15).

use super::parse::{Reason, UNSET, Value};
use crate::device::product::{self, PRODUCTS, Product};
use std::borrow::Cow;

/// Whether models of an older architecture may load: officially a switch, stored as a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct LegacyNeff(pub(crate) u32);

impl Value for LegacyNeff {
    fn form() -> Cow<'static, str> {
        "true, false or a whole number".into()
    }

    fn parse(text: &[u8]) -> Result<Self, Reason> {
        match bool::parse(text) {
            Ok(on) => Ok(LegacyNeff(on.into())),
            Err(_) => u32::parse(text).map(LegacyNeff).map_err(|_| Reason::new("is neither a switch nor a number")),
        }
    }

    fn show(&self) -> String {
        self.0.to_string()
    }
}

/// A value with a short list of names, matched in any letter case.
macro_rules! named {
    ($(#[$meta:meta])* $vis:vis enum $ty:ident : $($(#[$item:meta])* $variant:ident = $number:literal as $($name:literal)|+,)+) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u32)]
        $vis enum $ty { $($(#[$item])* $variant = $number,)+ }

        impl Value for $ty {
            fn form() -> Cow<'static, str> {
                let names: &[&str] = &[$($($name,)+)+];
                format!("one of {}", names.join(", ")).into()
            }

            fn parse(text: &[u8]) -> Result<Self, Reason> {
                $($(if text.eq_ignore_ascii_case($name.as_bytes()) { return Ok($ty::$variant); })+)+
                Err(Reason::new("is not a known name"))
            }

            fn show(&self) -> String {
                let name = match self { $($ty::$variant => [$($name),+][0],)+ };
                let number = (*self as u32).to_string();
                if name == number { number } else { format!("{name} ({number})") }
            }
        }
    };
}

named! {
    /// Which numerical notices are reported (`numerical_error_notification_verbosity_t`).
    pub(crate) enum Verbosity:
    None = 0 as "none",
    Critical = 1 as "critical",
    Debug = 2 as "debug",
    Verbose = 3 as "verbose",
}

named! {
    /// Device profile mode of an inspection (`nrt_inspect_device_profile_mode_t`).
    pub enum DeviceProfile:
    /// No device profile.
    Disabled = 0 as "0",
    /// One profile per model.
    Model = 1 as "1" | "model",
    /// One profile for the whole session.
    Session = 2 as "session",
}

/// Shape of an UltraServer (`neuron_ultraserver_mode`), given as its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::FromRepr)]
#[repr(u32)]
pub(crate) enum UltraserverMode {
    Unset = 0,
    X4 = 1,
    X2H = 2,
    X2V = 3,
    X1 = 4,
}

impl Value for UltraserverMode {
    fn form() -> Cow<'static, str> {
        "0 (unset), 1 (four nodes), 2 or 3 (two nodes, horizontal or vertical links) or 4 (one node)".into()
    }

    fn parse(text: &[u8]) -> Result<Self, Reason> {
        let number = u32::parse(text)?;
        UltraserverMode::from_repr(number).ok_or(Reason::new("is no UltraServer mode"))
    }

    fn show(&self) -> String {
        (*self as u32).to_string()
    }
}

/// The simulated product; an empty text means not set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fake(pub(crate) Option<&'static Product>);

impl Value for Fake {
    fn form() -> Cow<'static, str> {
        let names: Vec<&str> = PRODUCTS.iter().map(|product| product.name).collect();
        format!("one of {}", names.join(", ")).into()
    }

    fn parse(text: &[u8]) -> Result<Self, Reason> {
        if text.is_empty() {
            return Ok(Fake(None));
        }
        let found = std::str::from_utf8(text).ok().and_then(product::find);
        found.map(|product| Fake(Some(product))).ok_or(Reason::new("is no instance type that can be simulated"))
    }

    fn show(&self) -> String {
        self.0.map_or_else(|| UNSET.into(), |product| product.name.into())
    }
}

/// A log level. The log reads the variable by itself; this knows which texts it understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogLevel(pub(crate) &'static str);

impl Value for LogLevel {
    fn form() -> Cow<'static, str> {
        "ERROR, WARN, INFO, DEBUG or TRACE".into()
    }

    fn parse(text: &[u8]) -> Result<Self, Reason> {
        let text = text.to_ascii_uppercase();
        ["ERROR", "WARN", "INFO", "DEBUG", "TRACE"]
            .into_iter()
            .find(|level| holds(&text, level))
            .map(LogLevel)
            .ok_or(Reason::new("names no log level, so ERROR holds"))
    }

    fn show(&self) -> String {
        self.0.into()
    }
}

/// Where the log goes. As [`LogLevel`], read by the log itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogLocation(pub(crate) &'static str);

impl Value for LogLocation {
    fn form() -> Cow<'static, str> {
        "CONSOLE, SYSLOG or both".into()
    }

    fn parse(text: &[u8]) -> Result<Self, Reason> {
        let text = text.to_ascii_uppercase();
        match (holds(&text, "SYSLOG"), holds(&text, "CONSOLE")) {
            (true, true) => Ok(LogLocation("SYSLOG,CONSOLE")),
            (true, false) => Ok(LogLocation("SYSLOG")),
            (false, true) => Ok(LogLocation("CONSOLE")),
            (false, false) => Err(Reason::new("names no log location, so CONSOLE holds")),
        }
    }

    fn show(&self) -> String {
        self.0.into()
    }
}

fn holds(text: &[u8], word: &str) -> bool {
    text.windows(word.len()).any(|window| window == word.as_bytes())
}
