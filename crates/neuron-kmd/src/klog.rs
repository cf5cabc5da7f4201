//! The driver's kernel log: bounded, for tests, replay and people.

use std::collections::VecDeque;
use std::fmt::Display;

use crate::sync::Mutex;

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// What kind of line it is: a name of this project, the same for every driver release.
    pub kind: &'static str,
    /// The numbers in the line, in order of appearance, as the line spells them.
    pub nums: Vec<String>,
    /// The line as a person reads it.
    pub text: String,
}

#[derive(Debug, Default)]
struct State {
    lines: VecDeque<Line>,
    /// The last line has no end yet.
    open: bool,
}

/// Lines since the module was loaded; the newest [`Klog::CAPACITY`] are kept.
#[derive(Debug, Default)]
pub struct Klog(Mutex<State>);

impl Klog {
    /// Lines kept.
    pub const CAPACITY: usize = 16_384;

    /// Adds a line.
    pub fn line(&self, kind: &'static str, nums: &[&dyn Display], text: String) {
        self.add(kind, nums, text, false);
    }

    /// Adds a line the driver forgets to end: nobody sees it before the next one.
    pub fn open_line(&self, kind: &'static str, nums: &[&dyn Display], text: String) {
        self.add(kind, nums, text, true);
    }

    fn add(&self, kind: &'static str, nums: &[&dyn Display], text: String, open: bool) {
        let mut state = self.0.lock();
        if state.lines.len() == Self::CAPACITY {
            state.lines.pop_front();
        }
        state.lines.push_back(Line { kind, nums: nums.iter().map(ToString::to_string).collect(), text });
        state.open = open;
    }

    /// All lines kept that a reader sees, oldest first.
    pub fn lines(&self) -> Vec<Line> {
        let state = self.0.lock();
        state.lines.iter().take(state.lines.len() - usize::from(state.open)).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_without_end_appears_with_the_next_one() {
        let log = Klog::default();
        log.line("first", &[&1], "first".into());
        log.open_line("open", &[], "open".into());
        assert_eq!(log.lines().len(), 1);
        log.line("last", &[], "last".into());
        assert_eq!(log.lines().iter().map(|l| l.kind).collect::<Vec<_>>(), ["first", "open", "last"]);
    }
}
