//! What a line looks like: the header of 92 characters and the escaped message.

use super::{Level, Local, Module};
use std::fmt::{self, Write};

/// Length of the header while process and thread id have at most five digits, the module tag at
/// most five characters and the function name at most 40.
#[cfg(test)]
const HEADER: usize = 92;

/// Append the header to `out` (`facts/runtime/logging.md` section 1).
pub(super) fn header(out: &mut String, at: &Local, pid: u32, tid: u32, level: Level, module: Module, function: &str) {
    let Local { year, day, hour, minute, second, micros, .. } = at;
    let _ = write!(
        out,
        "{year:4}-{:>3}-{day:02} {hour:02}:{minute:02}:{second:02}.{micros:06} {pid:>5}:{tid:<5}",
        at.month_name()
    );
    signature(out, level, module, function);
}

/// The tail of the header, which is also how a syslog record starts: level, module, function.
pub(super) fn signature(out: &mut String, level: Level, module: Module, function: &str) {
    let _ = write!(out, " {:>5} {:>5}:{function:<40}", level.name(), module.tag());
}

/// The message as it is printed: whatever the arguments write, with control characters escaped.
pub(super) fn escaped(message: fmt::Arguments<'_>) -> String {
    let mut out = Escaper(String::new());
    // An argument whose `Display` fails has printed all it could.
    let _ = out.write_fmt(message);
    out.0
}

struct Escaper(String);

impl Write for Escaper {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut clean = 0;
        for (at, c) in text.char_indices().filter(|&(_, c)| breaks_a_line(c)) {
            self.0.push_str(&text[clean..at]);
            push_escape(&mut self.0, c);
            clean = at + c.len_utf8();
        }
        self.0.push_str(&text[clean..]);
        Ok(())
    }
}

/// Control characters, and the separators and direction marks with which a terminal or an editor
/// can be made to show one line as two or in another order.
fn breaks_a_line(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Cut `text` to at most `limit` bytes, between characters.
pub(super) fn cut(text: &mut String, limit: usize) {
    let boundary = (0..=limit.min(text.len())).rev().find(|&at| text.is_char_boundary(at));
    text.truncate(boundary.unwrap_or(0));
}

fn push_escape(out: &mut String, c: char) {
    let _ = match c {
        '\n' => out.write_str("\\n"),
        '\r' => out.write_str("\\r"),
        '\t' => out.write_str("\\t"),
        c if c.is_ascii() => write!(out, "\\x{:02x}", c as u32),
        c => write!(out, "\\u{{{:x}}}", c as u32),
    };
}

/// Bytes of a caller or of the environment, ready to be shown. See [`printable`].
#[derive(Clone, Copy, Debug)]
pub struct Printable<'a> {
    bytes: &'a [u8],
    limit: usize,
}

/// Show at most `limit` bytes of `bytes`: control characters as in every line, bytes that are not
/// UTF-8 as `\xNN`, and `...` after a value that was cut (at a character, never inside one).
pub fn printable(bytes: &[u8], limit: usize) -> Printable<'_> {
    Printable { bytes, limit }
}

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = Escaper(String::new());
        let mut left = self.limit;
        'value: for chunk in self.bytes.utf8_chunks() {
            for c in chunk.valid().chars() {
                let Some(rest) = left.checked_sub(c.len_utf8()) else { break 'value };
                left = rest;
                out.write_char(c)?;
            }
            for &byte in chunk.invalid() {
                let Some(rest) = left.checked_sub(1) else { break 'value };
                left = rest;
                write!(out.0, "\\x{byte:02x}")?;
            }
        }
        f.write_str(&out.0)?;
        if self.bytes.len() > self.limit { f.write_str("...") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SAMPLE: Local = Local { year: 2026, month: 3, day: 25, hour: 10, minute: 11, second: 12, micros: 123 };

    fn made(pid: u32, tid: u32, level: Level, module: Module, function: &str) -> String {
        let mut out = String::new();
        header(&mut out, &SAMPLE, pid, tid, level, module, function);
        out
    }

    #[test]
    fn the_header_is_the_published_one() {
        assert_eq!(
            made(15042, 15042, Level::Error, Module::Tdrv, "exec_consume_infer_status_notifications"),
            "2026-Mar-25 10:11:12.000123 15042:15042 ERROR  TDRV:exec_consume_infer_status_notifications "
        );
        assert_eq!(
            made(7, 8, Level::Warn, Module::Nrt, "nrt_init"),
            "2026-Mar-25 10:11:12.000123     7:8      WARN   NRT:nrt_init                                "
        );
    }

    #[test]
    fn longer_fields_push_the_message_to_the_right() {
        let long = "x".repeat(41);
        assert_eq!(made(1_234_567, 1, Level::Info, Module::Nrt, "f").len(), HEADER + 2);
        assert_eq!(made(1, 1, Level::Info, Module::Nrt, &long).len(), HEADER + 1);
    }

    proptest! {
        #[test]
        fn the_header_has_92_characters(
            pid in 0u32..=99_999, tid in 0u32..=99_999, level in 1u8..=5, module in 0usize..8, function in "[a-z_]{0,40}",
        ) {
            let line = made(pid, tid, Level::from_byte(level), Module::ALL[module], &function);
            prop_assert_eq!(line.len(), HEADER);
            prop_assert!(line[52..].starts_with(&function));
        }

        #[test]
        fn one_message_stays_one_line(text in any::<String>()) {
            let out = escaped(format_args!("{text}"));
            prop_assert!(!out.chars().any(breaks_a_line), "{out:?}");
            prop_assert_eq!(&escaped(format_args!("{out}")), &out, "escaping again changes nothing");
        }

        #[test]
        fn escaping_is_per_character(text in "[\\x00-\\x7f\u{80}-\u{9f}\u{2028}\u{202e}é漢]{0,40}") {
            // Oracle: the standard library's escapes, where they write the same thing.
            let expected: String = text.chars().map(|c| match c as u32 {
                9 | 10 | 13 => c.escape_default().to_string(),
                0..=31 | 127 => format!("\\x{:02x}", c as u32),
                0x80..=0x9f | 0x2028 | 0x202e => c.escape_unicode().to_string(),
                _ => c.to_string(),
            }).collect();
            prop_assert_eq!(escaped(format_args!("{text}")), expected);
        }

        #[test]
        fn printable_keeps_good_text_and_bounds_bad_bytes(
            bytes in proptest::collection::vec(any::<u8>(), 0..64), limit in 0usize..64,
        ) {
            let out = printable(&bytes, limit).to_string();
            prop_assert!(!out.chars().any(breaks_a_line));
            // The longest form of one byte is a two-byte character shown as `\u{9f}`.
            prop_assert!(out.len() <= limit * 4 + 3);
            prop_assert_eq!(out.ends_with("...") && bytes.len() > limit, bytes.len() > limit);
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_shown_as_numbers() {
        assert_eq!(printable(b"a\xff\nb", 64).to_string(), "a\\xff\\nb");
        assert_eq!(printable("äöü".as_bytes(), 3).to_string(), "ä...");
        assert_eq!(printable(b"", 0).to_string(), "");
    }
}
