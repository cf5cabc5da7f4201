//! Who may say how much, and where it goes.
//!
//! | variable | value | meaning |
//! |---|---|---|
//! | `NEURON_RT_LOG_LEVEL` | contains ERROR, WARN, INFO, DEBUG or TRACE, tried in this order, any case | level of every module |
//! | | contains QUIET | nothing is printed |
//! | `NEURON_RT_LOG_LOCATION` | starts with `/` or `.` | a file to append to |
//! | | contains SYSLOG, CONSOLE or both, any case | these sinks |
//! | | contains `/` or `.` | a file to append to |
//! | `NEURON_RT_LOG_LEVEL_<TAG>`, `NEURON_RT_LOG_LOCATION_<TAG>` | as above | one module, chosen by the first four bytes of the tag; `all` means every module |
//! | `NEURON_RT_LOG_COALESCING_ENABLED` | `0` or `false` | error lines are printed one by one |
//!
//! Empty means not set. Anything else prints a notice on stdout and means ERROR, or CONSOLE
//! (`facts/runtime/logging.md` section 3, `facts/config/rules.md` section 11).

use super::{Level, Module, line::printable, scope, sink};
use std::{
    ffi::OsString,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
    ptr,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering},
};

const MODULES: usize = Module::ALL.len();
/// Bytes of a bad value that its notice shows.
const SHOWN: usize = 128;

// ---------------------------------------------------------------------------------------------
// The text of the variables

/// Settings of one module.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Slot {
    level: Level,
    location: Location,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Location {
    Named { console: bool, syslog: bool },
    File(PathBuf),
}

const CONSOLE: Location = Location::Named { console: true, syslog: false };

#[derive(Clone, Debug, PartialEq, Eq)]
struct Settings {
    modules: [Slot; MODULES],
    coalescing: bool,
    notices: Vec<String>,
}

fn contains(text: &[u8], word: &str) -> bool {
    text.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word.as_bytes()))
}

fn level(text: &[u8]) -> Option<Level> {
    use Level::{Debug, Disabled, Error, Info, Trace, Warn};
    [Error, Warn, Info, Debug, Trace]
        .into_iter()
        .find(|level| contains(text, level.name()))
        .or_else(|| contains(text, "QUIET").then_some(Disabled))
}

fn location(text: &[u8], files: bool) -> Option<Location> {
    let file = || files.then(|| Location::File(PathBuf::from(OsString::from_vec(text.to_vec()))));
    if matches!(text.first(), Some(b'/' | b'.')) {
        return file();
    }
    let (console, syslog) = (contains(text, "CONSOLE"), contains(text, "SYSLOG"));
    if console || syslog {
        return Some(Location::Named { console, syslog });
    }
    text.iter().any(|byte| matches!(byte, b'/' | b'.')).then(file).flatten()
}

fn bad_level(text: &[u8]) -> String {
    format!("invalid level {}, default to ERROR", printable(text, SHOWN))
}

fn bad_location(text: &[u8]) -> String {
    format!("invalid log location setting {}, default to CONSOLE", printable(text, SHOWN))
}

/// The slots a tag selects, by its first four bytes padded with NUL.
fn selected(tag: &[u8]) -> impl Iterator<Item = usize> {
    let key = |name: &[u8]| std::array::from_fn::<u8, 4, _>(|at| name.get(at).copied().unwrap_or(0));
    let (key_of_tag, all) = (key(tag), tag.eq_ignore_ascii_case(b"all"));
    Module::ALL
        .into_iter()
        .enumerate()
        .filter_map(move |(slot, module)| (all || key(module.tag().as_bytes()) == key_of_tag).then_some(slot))
}

/// What the environment `variables` asks for. `files`: a file may be named as location.
fn parse<'a>(variables: impl IntoIterator<Item = (&'a [u8], &'a [u8])>, files: bool) -> Settings {
    const LEVEL: &[u8] = b"NEURON_RT_LOG_LEVEL";
    const LOCATION: &[u8] = b"NEURON_RT_LOG_LOCATION";

    let mut variables: Vec<_> = variables.into_iter().filter(|(_, value)| !value.is_empty()).collect();
    // The global variable (no tag) comes first, `all` next. Of two names for one slot the shorter
    // is the exact tag, so it comes last and wins. The name settles the rest, so that the order of
    // the environment never matters.
    variables.sort_by_key(|(name, _)| {
        let tag = name.strip_prefix(LEVEL).or_else(|| name.strip_prefix(LOCATION)).unwrap_or_default();
        (!tag.is_empty(), !tag.eq_ignore_ascii_case(b"_all"), std::cmp::Reverse(tag.len()), *name)
    });

    let mut settings = Settings {
        modules: std::array::from_fn(|_| Slot { level: Level::Error, location: CONSOLE }),
        coalescing: true,
        notices: Vec::new(),
    };
    for (name, value) in variables {
        let tagged = |prefix: &[u8]| match name.strip_prefix(prefix)? {
            [] => Some((0..MODULES).collect::<Vec<_>>()),
            [b'_', tag @ ..] => Some(selected(tag).collect()),
            _ => None,
        };
        if let Some(slots) = tagged(LEVEL).filter(|slots| !slots.is_empty()) {
            let level = level(value).unwrap_or_else(|| {
                settings.notices.push(bad_level(value));
                Level::Error
            });
            slots.into_iter().for_each(|slot| settings.modules[slot].level = level);
        } else if let Some(slots) = tagged(LOCATION).filter(|slots| !slots.is_empty()) {
            let location = location(value, files).unwrap_or_else(|| {
                settings.notices.push(bad_location(value));
                CONSOLE
            });
            slots.into_iter().for_each(|slot| settings.modules[slot].location = location.clone());
        } else if name == b"NEURON_RT_LOG_COALESCING_ENABLED" {
            settings.coalescing = !(value == b"0" || value.eq_ignore_ascii_case(b"false"));
        }
    }
    settings
}

/// Door for the fuzz target, not an interface: what is in force, for comparing, and the notices.
pub fn fuzz(variables: &[(&[u8], &[u8])], files: bool) -> (String, Vec<String>) {
    let Settings { modules, coalescing, notices } = parse(variables.iter().copied(), files);
    (format!("{modules:?} {coalescing}"), notices)
}

// ---------------------------------------------------------------------------------------------
// The settings in force

/// Where the lines of one module go. `console` is the level of the console, or of `file` when
/// there is one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sinks {
    pub(super) console: Level,
    pub(super) syslog: Level,
    pub(super) file: Option<&'static Path>,
}

/// One module in one word: highest level, console level, syslog level, a byte each from the low end.
struct Word;

impl Word {
    /// The environment has not been read: higher than every level, so that the check passes on to
    /// the slow path.
    const UNREAD: u32 = 0xff;

    fn pack(console: Level, syslog: Level) -> u32 {
        let (console, syslog) = (console as u32, syslog as u32);
        console.max(syslog) | console << 8 | syslog << 16
    }

    fn console(word: u32) -> Level {
        Level::from_byte((word >> 8) as u8)
    }

    fn syslog(word: u32) -> Level {
        Level::from_byte((word >> 16) as u8)
    }
}

static WORDS: [AtomicU32; MODULES] = [const { AtomicU32::new(Word::UNREAD) }; MODULES];
static FILES: [AtomicPtr<File>; MODULES] = [const { AtomicPtr::new(ptr::null_mut()) }; MODULES];
/// Set by the reader that prints the notices of the first, lazy reading.
static READING: AtomicBool = AtomicBool::new(false);

/// See [`super::enabled`].
#[inline]
pub(super) fn passes(level: Level, module: Module) -> bool {
    let ceiling = WORDS[module as usize].load(Ordering::Relaxed) & 0xff;
    level as u32 <= ceiling && (ceiling != Word::UNREAD || level <= read_and_ask(module))
}

#[cold]
fn read_and_ask(module: Module) -> Level {
    let sinks = sinks(module);
    sinks.console.max(sinks.syslog)
}

/// The sinks of `module`, after reading the environment if nobody has.
pub(super) fn sinks(module: Module) -> Sinks {
    let mut word = WORDS[module as usize].load(Ordering::Acquire);
    if word == Word::UNREAD {
        // Readers that race all find the same and store the same, so none has to wait for another;
        // only one prints.
        read(!READING.swap(true, Ordering::Relaxed));
        word = WORDS[module as usize].load(Ordering::Acquire);
    }
    Sinks { console: Word::console(word), syslog: Word::syslog(word), file: file_of(&FILES[module as usize]) }
}

/// Read the log variables again, as every `nrt_init` does. Values that are not understood are told
/// on stdout, once per reading.
pub fn reconfigure() {
    READING.store(true, Ordering::Relaxed);
    read(true);
}

fn read(tell: bool) {
    let environment = environment();
    let variables = environment.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    let mut settings = parse(variables, !privileged());
    for slot in 0..MODULES {
        let Slot { level, location } = settings.modules[slot].clone();
        let (console, syslog, file) = match location {
            Location::Named { console, syslog } => (console, syslog, None),
            Location::File(path) => {
                let file = intern(&path);
                if file.is_none() {
                    settings.notices.push(bad_location(path.as_os_str().as_bytes()));
                }
                (true, false, file)
            }
        };
        let of = |on: bool| if on { level } else { Level::Disabled };
        FILES[slot].store(file.map_or(ptr::null_mut(), |file| ptr::from_ref(file).cast_mut()), Ordering::Release);
        WORDS[slot].store(Word::pack(of(console), of(syslog)), Ordering::Release);
    }
    scope::set_coalescing(settings.coalescing);
    if tell {
        settings.notices.dedup();
        settings.notices.iter().for_each(|notice| sink::notice(notice));
    }
}

/// The variables of this process whose names start with `NEURON`, sorted by name.
pub fn environment() -> Vec<(OsString, OsString)> {
    let mut found: Vec<_> = std::env::vars_os().filter(|(name, _)| name.as_bytes().starts_with(b"NEURON")).collect();
    found.sort();
    found
}

/// Whether the process has rights its caller lacks (set-uid and the like). The caller must not be
/// able to have such a process write to a file of the caller's choice.
fn privileged() -> bool {
    // SAFETY: getauxval has no preconditions; an unknown key answers 0.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// A log file that was named at some time. Kept for the life of the process, since another thread
/// may be on its way to it; a name that comes again is found again, so this does not grow.
struct File {
    path: PathBuf,
    next: *const File,
}

static HEAD: AtomicPtr<File> = AtomicPtr::new(ptr::null_mut());

fn file(from: *const File) -> Option<&'static File> {
    // SAFETY: every pointer stored in HEAD, FILES or `next` is null or came from `Box::leak` in
    // `intern` and was published with Release after the value was complete.
    unsafe { from.as_ref() }
}

fn file_of(slot: &AtomicPtr<File>) -> Option<&'static Path> {
    file(slot.load(Ordering::Acquire)).map(|file| file.path.as_path())
}

/// The file at `path`, made absolute so that a later change of directory does not move the log;
/// `None` when it cannot be opened for appending.
fn intern(path: &Path) -> Option<&'static File> {
    let path = std::path::absolute(path).ok()?;
    sink::append_to(&path).ok()?;
    let mut head = HEAD.load(Ordering::Acquire);
    let mut at = head.cast_const();
    while let Some(known) = file(at) {
        if known.path == path {
            return Some(known);
        }
        at = known.next;
    }
    let new = Box::leak(Box::new(File { path, next: head }));
    while let Err(now) = HEAD.compare_exchange(head, new, Ordering::Release, Ordering::Acquire) {
        head = now;
        new.next = head;
    }
    Some(new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn settings(variables: &[(&str, &str)]) -> Settings {
        parse(variables.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())), true)
    }

    fn slot(settings: &Settings, module: Module) -> (Level, Location) {
        let Slot { level, location } = &settings.modules[module as usize];
        (*level, location.clone())
    }

    fn named(console: bool, syslog: bool) -> Location {
        Location::Named { console, syslog }
    }

    #[test]
    fn nothing_set_means_errors_on_the_console_and_nothing_in_syslog() {
        let settings = settings(&[]);
        for module in Module::ALL {
            assert_eq!(slot(&settings, module), (Level::Error, CONSOLE));
        }
        assert!(settings.coalescing && settings.notices.is_empty());
    }

    #[test]
    fn level_texts_are_searched_in_the_order_of_the_table() {
        for (text, expected) in [
            ("ERROR", Some(Level::Error)),
            ("warning", Some(Level::Warn)),
            ("Info", Some(Level::Info)),
            ("xxdebugxx", Some(Level::Debug)),
            ("TRACE", Some(Level::Trace)),
            ("TRACE,ERROR", Some(Level::Error)),
            ("DEBUG INFO", Some(Level::Info)),
            ("QUIET", Some(Level::Disabled)),
            ("quiet error", Some(Level::Error)),
            ("DISABLED", None),
            ("3", None),
            ("WARM", None),
        ] {
            assert_eq!(level(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn location_texts() {
        for (text, expected) in [
            ("CONSOLE", Some(named(true, false))),
            ("syslog", Some(named(false, true))),
            ("SYSLOG,CONSOLE", Some(named(true, true))),
            ("console/syslog", Some(named(true, true))),
            ("/var/log/syslog", Some(Location::File("/var/log/syslog".into()))),
            ("./console.log", Some(Location::File("./console.log".into()))),
            ("nrt.log", Some(Location::File("nrt.log".into()))),
            ("logs/nrt", Some(Location::File("logs/nrt".into()))),
            ("stdout", None),
        ] {
            assert_eq!(location(text.as_bytes(), true), expected, "{text}");
        }
        assert_eq!(location(b"/etc/passwd", false), None, "a privileged process takes no file name");
        assert_eq!(location(b"passwd.log", false), None, "a privileged process takes no file name");
    }

    #[test]
    fn one_module_differs_from_the_rest() {
        let settings = settings(&[
            ("NEURON_RT_LOG_LEVEL_TDRV", "debug"),
            ("NEURON_RT_LOG_LOCATION_NRT", "syslog"),
            ("NEURON_RT_LOG_LEVEL", "warn"),
        ]);
        assert_eq!(slot(&settings, Module::Tdrv), (Level::Debug, CONSOLE));
        assert_eq!(slot(&settings, Module::Nrt), (Level::Warn, named(false, true)));
        assert_eq!(slot(&settings, Module::Enc), (Level::Warn, CONSOLE));
    }

    #[test]
    fn a_tag_counts_by_its_first_four_bytes() {
        assert_eq!(slot(&settings(&[("NEURON_RT_LOG_LEVEL_TDRVXYZ", "info")]), Module::Tdrv).0, Level::Info);
        assert_eq!(slot(&settings(&[("NEURON_RT_LOG_LEVEL_NRTX", "info")]), Module::Nrt).0, Level::Error);
        assert_eq!(slot(&settings(&[("NEURON_RT_LOG_LEVELNRT", "info")]), Module::Nrt).0, Level::Error);
        let both = [("NEURON_RT_LOG_LEVEL_TDRVXYZ", "info"), ("NEURON_RT_LOG_LEVEL_TDRV", "trace")];
        assert_eq!(slot(&settings(&both), Module::Tdrv).0, Level::Trace);
        let unknown = settings(&[("NEURON_RT_LOG_LEVEL_WHAT", "?"), ("NEURON_RT_LOG_LEVEL_", "?")]);
        assert_eq!(unknown, settings(&[]), "a tag nobody logs under is ignored, its value too");
    }

    #[test]
    fn the_tag_all_is_every_module_but_an_exact_tag_wins() {
        let settings = settings(&[
            ("NEURON_RT_LOG_LEVEL_NRT", "trace"),
            ("NEURON_RT_LOG_LEVEL_all", "info"),
            ("NEURON_RT_LOG_LEVEL", "warn"),
        ]);
        assert_eq!(slot(&settings, Module::Nrt).0, Level::Trace);
        assert_eq!(slot(&settings, Module::Rust).0, Level::Info);
    }

    /// `facts/config/messages.tsv`; the vendor prints the level text in the second notice.
    #[test]
    fn a_bad_value_is_told_with_its_own_text() {
        let settings = settings(&[("NEURON_RT_LOG_LEVEL", "loud\n"), ("NEURON_RT_LOG_LOCATION", "stdout")]);
        assert_eq!(
            settings.notices,
            ["invalid level loud\\n, default to ERROR", "invalid log location setting stdout, default to CONSOLE"]
        );
        assert_eq!(slot(&settings, Module::Nrt), (Level::Error, CONSOLE));
        let long = "y".repeat(100_000);
        assert!(super::parse([(&b"NEURON_RT_LOG_LEVEL"[..], long.as_bytes())], true).notices[0].len() < 200);
    }

    #[test]
    fn empty_means_not_set() {
        assert_eq!(settings(&[("NEURON_RT_LOG_LEVEL", ""), ("NEURON_RT_LOG_LOCATION_NRT", "")]), settings(&[]));
    }

    #[test]
    fn coalescing_is_on_unless_switched_off() {
        for (text, expected) in
            [("0", false), ("false", false), ("FALSE", false), ("1", true), ("true", true), ("x", true)]
        {
            assert_eq!(settings(&[("NEURON_RT_LOG_COALESCING_ENABLED", text)]).coalescing, expected, "{text}");
        }
    }

    #[test]
    fn a_word_keeps_three_levels() {
        for console in Level::ALL {
            for syslog in Level::ALL {
                let word = Word::pack(console, syslog);
                assert_eq!((Word::console(word), Word::syslog(word)), (console, syslog));
                assert_eq!(word & 0xff, console.max(syslog) as u32);
                assert_ne!(word, Word::UNREAD);
            }
        }
    }

    #[test]
    fn a_file_is_remembered_once() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (folder.path().join("one"), folder.path().join("two"));
        let first = intern(&one).unwrap();
        let second = intern(&two).unwrap();
        assert!(ptr::eq(first, intern(&one).unwrap()) && ptr::eq(second, intern(&two).unwrap()));
        assert!(!ptr::eq(first, second));
        assert!(intern(&folder.path().join("no/such/folder")).is_none());
        assert!(intern(folder.path()).is_none(), "a folder is no log file");
    }

    proptest! {
        #[test]
        fn level_search_agrees_with_a_plain_reading_of_the_rule(
            parts in proptest::collection::vec(prop_oneof![
                Just("ERROR"), Just("warn"), Just("Info"), Just("DEBUG"), Just("trace"), Just("quiet"), Just("RR"), Just("ER"), Just("-"),
            ], 0..4),
        ) {
            let text = parts.concat();
            let upper = text.to_uppercase();
            let expected = ["ERROR", "WARN", "INFO", "DEBUG", "TRACE"].iter().position(|name| upper.contains(name));
            let expected = match expected {
                Some(at) => Some(at as u8 + 1),
                None if upper.contains("QUIET") => Some(0),
                None => None,
            };
            prop_assert_eq!(level(text.as_bytes()).map(|level| level as u8), expected);
        }

        #[test]
        fn the_order_of_the_environment_does_not_matter(
            variables in proptest::sample::subsequence(vec![
                ("NEURON_RT_LOG_LEVEL", "warn"), ("NEURON_RT_LOG_LEVEL_ALL", "info"), ("NEURON_RT_LOG_LEVEL_all", "trace"),
                ("NEURON_RT_LOG_LEVEL_TDRV", "debug"), ("NEURON_RT_LOG_LEVEL_TDRV2", "bad"), ("NEURON_RT_LOG_LOCATION", "x"),
                ("NEURON_RT_LOG_LOCATION_ENC", "syslog"), ("NEURON_RT_LOG_LEVEL_ENC", "worse"),
            ], 0..=8).prop_flat_map(|all| (Just(all.clone()), Just(all).prop_shuffle())),
        ) {
            prop_assert_eq!(settings(&variables.0), settings(&variables.1));
        }

        #[test]
        fn no_value_panics(name in "NEURON_RT_LOG_(LEVEL|LOCATION)(_[A-Z]{0,6})?", value in proptest::collection::vec(any::<u8>(), 0..64)) {
            let settings = parse([(name.as_bytes(), value.as_slice())], true);
            prop_assert!(settings.notices.len() <= 1);
        }
    }
}
