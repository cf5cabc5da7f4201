//! Error scopes: the error lines of one public call, told as one block.
//!
//! While the scope of a call is open on a thread and coalescing is on, ERROR lines are gathered
//! (`facts/runtime/logging.md` section 4). The call's own ERROR (module NRT, function = the call)
//! prints them under itself; lines still there when the scope ends are printed under an ERROR
//! `Generic API Failure` of module NLOG. Below the first line each gathered line stands after a line
//! end and a tab, with `MODULE:function ` in front unless module NRT said it.

use super::{Level, Module, line, settings, settings::Sinks, sink};
use neuron_abi::Status;
use std::{
    cell::RefCell,
    fmt::Write,
    marker::PhantomData,
    path::Path,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

/// Most bytes one scope gathers; later lines are counted only.
const BLOCK: usize = 16 * 1024;
/// The module whose own ERROR ends a block.
const API: Module = Module::Nrt;

static COALESCING: AtomicBool = AtomicBool::new(true);

/// Switch gathering on or off (`NEURON_RT_LOG_COALESCING_ENABLED`). Lines already gathered are
/// printed when their scope ends, whatever the switch says then.
pub fn set_coalescing(on: bool) {
    COALESCING.store(on, Relaxed);
}

/// What the outermost open scope of a thread has seen.
struct Context {
    api: &'static str,
    cause: Option<Status>,
    block: Block,
}

/// Gathered lines, each with the line end and tab it is printed after.
#[derive(Default)]
struct Block {
    lines: String,
    dropped: usize,
}

impl Block {
    fn add(&mut self, module: Module, function: &str, message: &str) {
        let at = self.lines.len();
        self.lines.push_str("\n\t");
        if module != API {
            let _ = write!(self.lines, "{}:{function} ", module.tag());
        }
        self.lines.push_str(message);
        // A first line that does not fit is cut; a later one is left out.
        if at == 0 {
            line::cut(&mut self.lines, BLOCK);
        } else if self.lines.len() > BLOCK {
            self.lines.truncate(at);
            self.dropped += 1;
        }
    }

    /// The text to print, and an empty block.
    fn take(&mut self) -> Option<String> {
        let Block { mut lines, dropped } = std::mem::take(self);
        if dropped > 0 {
            let _ = write!(lines, "\n\t({dropped} more left out)");
        }
        (!lines.is_empty()).then_some(lines)
    }
}

impl Context {
    #[cold]
    fn flush_unclaimed(&mut self) {
        if let Some(block) = self.block.take() {
            let sinks = settings::sinks(Module::Nlog);
            let sinks = Sinks { syslog: sinks.syslog, ..flush_sinks() };
            sink::deliver(Level::Error, Module::Nlog, self.api, "Generic API Failure", Some(&block), sinks);
        }
    }
}

/// Each line of a block passed the level of its module, so the block is printed even when its
/// headline would not be.
fn flush_sinks() -> Sinks {
    Sinks { console: Level::Error, ..settings::sinks(API) }
}

/// A thread that ends, or is cancelled, inside a call still tells what it gathered.
impl Drop for Context {
    // Every call comes here, and most gathered nothing.
    #[inline]
    fn drop(&mut self) {
        if !self.block.lines.is_empty() {
            self.flush_unclaimed();
        }
    }
}

thread_local! {
    static CONTEXT: RefCell<Option<Context>> = const { RefCell::new(None) };
}

/// Run `body` on this thread's slot; `None` while the thread is being torn down.
fn with_context<T>(body: impl FnOnce(&mut Option<Context>) -> T) -> Option<T> {
    CONTEXT.try_with(|slot| slot.try_borrow_mut().ok().map(|mut slot| body(&mut slot))).ok().flatten()
}

/// An ERROR line: printed, gathered, or printed with what was gathered.
pub(super) fn error(module: Module, function: &str, message: String, sinks: Sinks) {
    let outcome = with_context(|slot| {
        let context = slot.as_mut()?;
        if module == API && function == context.api {
            return context.block.take().map(Outcome::Flush);
        }
        (COALESCING.load(Relaxed) && sinks.console != Level::Disabled && same_place(sinks.file)).then(|| {
            context.block.add(module, function, &message);
            Outcome::Gathered
        })
    });
    match outcome.flatten() {
        None => sink::deliver(Level::Error, module, function, &message, None, sinks),
        Some(Outcome::Flush(block)) => {
            let sinks = Sinks { syslog: sinks.syslog, ..flush_sinks() };
            sink::deliver(Level::Error, module, function, &message, Some(&block), sinks);
        }
        Some(Outcome::Gathered) => {
            let sinks = Sinks { console: Level::Disabled, ..sinks };
            sink::deliver(Level::Error, module, function, &message, None, sinks);
        }
    }
}

enum Outcome {
    Flush(String),
    Gathered,
}

/// A module with a place of its own writes there at once; its lines do not move to the API's place.
fn same_place(file: Option<&Path>) -> bool {
    let api = settings::sinks(API);
    api.console != Level::Disabled && api.file == file
}

/// Error scope of one public call: gathers the ERROR lines of this thread until it is dropped.
///
/// A scope opened inside another is part of it. A scope stays on its thread:
///
/// ```compile_fail
/// let scope = nrt_core::log::Scope::enter("nrt_init");
/// std::thread::spawn(move || drop(scope));
/// ```
#[must_use = "the scope ends when this value is dropped"]
#[derive(Debug)]
pub struct Scope {
    outermost: bool,
    this_thread: PhantomData<*const ()>,
}

impl Scope {
    /// Open the scope of public call `api` on this thread.
    pub fn enter(api: &'static str) -> Scope {
        let outermost = with_context(|slot| {
            let free = slot.is_none();
            if free {
                *slot = Some(Context { api, cause: None, block: Block::default() });
            }
            free
        });
        Scope { outermost: outermost.unwrap_or(false), this_thread: PhantomData }
    }

    /// Note why the call fails. The first cause stands; another one is told as a WARN.
    pub fn cause(&self, status: Status) {
        let first = with_context(|slot| {
            let context = slot.as_mut()?;
            let first = context.cause?;
            Some((context.api, first))
        });
        match first.flatten() {
            Some((api, first)) => {
                crate::log_warn!(Nlog, api, "Error cause is already defined as {}", first.code());
            }
            None => {
                with_context(|slot| slot.as_mut().map(|context| context.cause = Some(status)));
            }
        }
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        if self.outermost {
            // Taken out first: printing must not find the slot borrowed.
            drop(with_context(Option::take));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_block_never_outgrows_its_limit(lengths in proptest::collection::vec(0usize..9_000, 1..12)) {
            let mut block = Block::default();
            let mut fitting = 0;
            let mut dropped = 0;
            for (number, length) in lengths.iter().enumerate() {
                block.add(Module::Nrt, "f", &"é".repeat(*length));
                let size = 2 + 2 * length;
                if fitting + size <= BLOCK {
                    fitting += size;
                } else if number == 0 {
                    fitting = BLOCK;
                } else {
                    dropped += 1;
                }
            }
            prop_assert!(block.lines.len() <= BLOCK);
            prop_assert_eq!((block.lines.len(), block.dropped), (fitting, dropped));
            let text = block.take().unwrap();
            prop_assert_eq!(text.contains("more left out"), dropped > 0);
            prop_assert_eq!(block.take(), None);
        }
    }
}
