//! One way from text to a value: the trait [`Value`], its six plain impls (signed long, unsigned
//! int, unsigned long, bool, text, integer ranges) and the get–default–store path all knobs share
//! (`facts/config/rules.md` sections 2 and 3).

use super::env::Env;
use neuron_abi::Status;
use std::{
    borrow::Cow,
    ffi::{CStr, CString},
    fmt,
};

/// A type that a variable can hold.
pub(crate) trait Value: Sized {
    /// What a good text looks like, to follow the word "give".
    fn form() -> Cow<'static, str>;
    /// The value of a text that is present; the whole text must be used.
    fn parse(text: &[u8]) -> Result<Self, Reason>;
    /// The value for a person to read.
    fn show(&self) -> String;
}

/// Why a text is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reason {
    what: Cow<'static, str>,
    give: Option<Cow<'static, str>>,
}

impl Reason {
    /// `what` is wrong; the form of the type says what to give.
    pub(crate) fn new(what: impl Into<Cow<'static, str>>) -> Reason {
        Reason { what: what.into(), give: None }
    }

    /// `what` is wrong and `give` is narrower than the form of the type.
    pub(crate) fn rule(what: impl Into<Cow<'static, str>>, give: impl Into<Cow<'static, str>>) -> Reason {
        Reason { what: what.into(), give: Some(give.into()) }
    }
}

/// A variable with a text that is refused. The display form is one sentence: name, text, reason, next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) name: Cow<'static, str>,
    text: String,
    what: Cow<'static, str>,
    give: Cow<'static, str>,
}

impl Fault {
    /// `form` is what to give when the reason does not say it.
    pub(crate) fn new(
        name: impl Into<Cow<'static, str>>,
        text: &[u8],
        reason: Reason,
        form: impl Into<Cow<'static, str>>,
    ) -> Fault {
        let give = reason.give.unwrap_or_else(|| form.into());
        Fault { name: name.into(), text: excerpt(text), what: reason.what, give }
    }

    /// Log the sentence on behalf of `function` and answer with the status it stands for.
    pub(crate) fn report(&self, function: &str) -> Status {
        crate::log_error!(Nrt, function, "{self}");
        Status::Invalid
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fault { name, text, what, give } = self;
        write!(f, "{name}=\"{text}\" {what}; give {give}, or unset it")
    }
}

/// A text made safe to print: control and non-ASCII bytes escaped, cut at 80 bytes so that no
/// value, however long, fills the screen.
pub(crate) fn excerpt(text: &[u8]) -> String {
    const LIMIT: usize = 80;
    let head = text[..text.len().min(LIMIT)].escape_ascii().to_string();
    if text.len() > LIMIT { format!("{head}… ({} bytes)", text.len()) } else { head }
}

/// Where a value came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    ArchRule,
    Environment,
    /// Another variable decided; the text names it.
    Coupled(&'static str),
}

/// A rule a parsed value must also fulfil.
pub(crate) type Check<T> = fn(&T) -> Result<(), Reason>;

/// The path of every knob: look up, else default, parse, store. A bad text keeps the default.
pub(crate) fn read<T: Value>(
    env: &dyn Env,
    name: &'static str,
    default: T,
    check: Option<Check<T>>,
    dest: &mut T,
) -> Result<bool, Fault> {
    *dest = default;
    let Some(text) = env.get(name) else { return Ok(false) };
    let value = T::parse(&text).and_then(|value| match check {
        Some(check) => check(&value).map(|()| value),
        None => Ok(value),
    });
    *dest = value.map_err(|reason| Fault::new(name, &text, reason, T::form()))?;
    Ok(true)
}

/// The text as UTF-8; every grammar but plain text is ASCII.
pub(crate) fn utf8(text: &[u8]) -> Result<&str, Reason> {
    std::str::from_utf8(text).map_err(|_| Reason::new("is not text"))
}

/// A whole number from `min` to `max`: decimal, or hex after `0x`; ASCII spaces around it are allowed.
pub(crate) fn number(text: &[u8], min: i128, max: i128) -> Result<i128, Reason> {
    let text = utf8(text)?.trim_ascii();
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let hex = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"));
    let (digits, radix) = hex.map_or((digits, 10), |digits| (digits, 16));
    if text.is_empty() {
        return Err(Reason::new("is empty"));
    }
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
        return Err(Reason::new("is not a whole number"));
    }
    if negative && min >= 0 {
        return Err(Reason::new("is negative"));
    }
    // Only the length of the text can make this fail now, and then it is out of every range.
    let magnitude = i128::from_str_radix(digits, radix).unwrap_or(i128::MAX);
    let value = if negative { -magnitude } else { magnitude };
    if (min..=max).contains(&value) { Ok(value) } else { Err(Reason::new("is out of range")) }
}

macro_rules! number_value {
    ($($ty:ty),+) => { $(
        impl Value for $ty {
            fn form() -> Cow<'static, str> {
                format!("a whole number from {} to {}, decimal or 0x hex", <$ty>::MIN, <$ty>::MAX).into()
            }
            fn parse(text: &[u8]) -> Result<Self, Reason> {
                number(text, <$ty>::MIN.into(), <$ty>::MAX.into()).map(|value| value as $ty)
            }
            fn show(&self) -> String {
                self.to_string()
            }
        }
    )+ };
}

number_value!(i64, u32, u64);

impl Value for bool {
    fn form() -> Cow<'static, str> {
        "0, 1, true or false".into()
    }

    fn parse(text: &[u8]) -> Result<Self, Reason> {
        match text {
            b"1" => Ok(true),
            b"0" => Ok(false),
            _ if text.eq_ignore_ascii_case(b"true") => Ok(true),
            _ if text.eq_ignore_ascii_case(b"false") => Ok(false),
            _ => Err(Reason::new("is neither true nor false")),
        }
    }

    fn show(&self) -> String {
        u8::from(*self).to_string()
    }
}

/// A private copy of a text, or none (a NULL pointer in the records).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text(Option<CString>);

impl Text {
    pub(crate) const NULL: Text = Text(None);

    pub(crate) fn new(text: &CStr) -> Text {
        Text(Some(text.into()))
    }

    /// The text with its NUL, when there is one.
    pub fn as_c_str(&self) -> Option<&CStr> {
        self.0.as_deref()
    }

    /// The bytes without the NUL; empty when there is no text.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_ref().map_or(&[], |text| text.as_bytes())
    }
}

impl Value for Text {
    fn form() -> Cow<'static, str> {
        "any text".into()
    }

    fn parse(text: &[u8]) -> Result<Self, Reason> {
        CString::new(text).map(|text| Text(Some(text))).map_err(|_| Reason::new("holds a NUL byte"))
    }

    fn show(&self) -> String {
        self.0.as_ref().map_or_else(|| UNSET.into(), |text| format!("\"{}\"", excerpt(text.as_bytes())))
    }
}

/// How a value that is not there reads.
pub(crate) const UNSET: &str = "(unset)";

/// A variable whose absence means something other than any number.
impl<T: Value> Value for Option<T> {
    fn form() -> Cow<'static, str> {
        T::form()
    }

    fn parse(text: &[u8]) -> Result<Self, Reason> {
        T::parse(text).map(Some)
    }

    fn show(&self) -> String {
        self.as_ref().map_or_else(|| UNSET.into(), T::show)
    }
}

/// A list of integers written as items `N` or `A-B`, ends included, split by commas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ints(pub(crate) Vec<i32>);

/// Longest list; a range such as `0-2000000000` is a mistake and must not become memory.
pub(crate) const LONGEST_LIST: usize = 65536;

impl Value for Ints {
    fn form() -> Cow<'static, str> {
        "numbers and ranges such as 0,2,4-7".into()
    }

    fn parse(text: &[u8]) -> Result<Self, Reason> {
        let text = utf8(text)?;
        let mut list = Vec::new();
        for item in text.split(',') {
            // A leading minus is a sign, every later one is the range mark.
            let split = item.trim_ascii_start().get(1..).and_then(|rest| rest.find('-'));
            let (first, last) = match split {
                Some(at) => {
                    let item = item.trim_ascii_start();
                    (int(&item[..=at])?, int(&item[at + 2..])?)
                }
                None => int(item).map(|number| (number, number))?,
            };
            if first > last {
                return Err(Reason::new(format!("has the descending range {first}-{last}")));
            }
            // Both ends are at least 0, so the difference fits.
            if list.len() + (last - first) as usize >= LONGEST_LIST {
                return Err(Reason::new(format!("has more than {LONGEST_LIST} numbers")));
            }
            list.extend(first..=last);
        }
        Ok(Ints(list))
    }

    fn show(&self) -> String {
        show_ints(&self.0)
    }
}

/// One number of a list. Decimal only: the vendor converts the parts of a list in base 10.
fn int(item: &str) -> Result<i32, Reason> {
    let item = item.trim_ascii();
    if item.is_empty() {
        return Err(Reason::new("has an empty item"));
    }
    let named = |what: &str| Reason::new(format!("has the item \"{}\", which {what}", excerpt(item.as_bytes())));
    if item.contains(['x', 'X']) {
        return Err(named("is not a whole number"));
    }
    number(item.as_bytes(), 0, i32::MAX.into()).map(|value| value as i32).map_err(|reason| named(&reason.what))
}

/// A list as ranges, cut after the first few.
pub(crate) fn show_ints(list: &[i32]) -> String {
    const SHOWN: usize = 16;
    if list.is_empty() {
        return "(empty)".into();
    }
    let mut runs: Vec<(i32, i32)> = Vec::new();
    for &number in list {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
            _ => runs.push((number, number)),
        }
    }
    let mut shown: Vec<String> = runs
        .iter()
        .take(SHOWN)
        .map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") })
        .collect();
    if runs.len() > SHOWN {
        shown.push(format!("… ({} numbers)", list.len()));
    }
    shown.join(",")
}
