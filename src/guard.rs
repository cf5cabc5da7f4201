//! What happens around every public call: panic guard, error scope, state gate, call log; and the
//! two macros that define exports.
//!
//! ```text
//! export! {
//!     /// Logical cores of the whole instance.
//!     fn nrt_get_total_vnc_count(nc_count: Out<u32>) -> NRT_STATUS {
//!         nc_count.set(nrt_core::instance::total()?);
//!         Ok(())
//!     }
//! }
//! ```
//!
//! A parameter's type is how the body sees it; [`Arg`](crate::args::Arg) says what C passes for it
//! and turns one into the other after the state gate, as the vendor library checks the state
//! before its arguments. A body of `-> NRT_STATUS` ends in `Ok(())`; any other body ends in its
//! value and may use `?` on a status, which becomes the failure value of that type. `CALL.name` is
//! the C name, for log lines.
//!
//! A call that is made all the time may name a function that looks first, as in `-> NRT_STATUS,
//! quick known { … }`. It gets what C passed and answers true, or the value of a call that has no
//! status, when it did everything the call does, which must then neither log, fail, panic nor
//! depend on the state.

use nrt_core::lifecycle::{self, GateClass};
use nrt_core::log::{self, Level, Module, Scope};
use nrt_core::{Status, log_debug, log_error};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::sync::atomic::{AtomicBool, Ordering};

/// What the guard knows about a call; `call!(name)` makes it from the table.
pub(crate) struct Call {
    /// C name.
    pub(crate) name: &'static str,
    /// When it may run.
    pub(crate) gate: GateClass,
}

/// What a call returns when it cannot do its work.
pub(crate) trait Answer: fmt::Debug {
    /// The failure value that stands for `status`.
    fn failed(status: Status) -> Self;
}

impl Answer for Status {
    fn failed(status: Status) -> Status {
        status
    }
}

impl Answer for () {
    fn failed(_: Status) {}
}

impl Answer for i32 {
    fn failed(_: Status) -> i32 {
        -1
    }
}

impl Answer for usize {
    fn failed(_: Status) -> usize {
        0
    }
}

impl Answer for bool {
    fn failed(_: Status) -> bool {
        false
    }
}

impl<T> Answer for *const T {
    fn failed(_: Status) -> *const T {
        std::ptr::null()
    }
}

impl<T> Answer for *mut T {
    fn failed(_: Status) -> *mut T {
        std::ptr::null_mut()
    }
}

/// Run the body of a public call. Nothing unwinds out of here.
pub(crate) fn run<R: Answer>(call: &Call, args: fmt::Arguments<'_>, body: impl FnOnce() -> Result<R, Status>) -> R {
    install_hook();
    let caught = panic::catch_unwind(AssertUnwindSafe(|| {
        // Found once: finding a thread's variables is a call in a library that was opened at run time.
        DEPTH.with(|depth| {
            let _here = InCall::enter(depth);
            let _scope = Scope::enter(call.name);
            log_debug!(Nrt, call.name, "API:IN: ({args})");
            let answer = lifecycle::gate(call.name, call.gate).and_then(|()| body()).unwrap_or_else(R::failed);
            log_debug!(Nrt, call.name, "API:OUT: (ret={answer:?})");
            answer
        })
    }));
    caught.unwrap_or_else(|payload| {
        // Dropping a payload runs code of whoever panicked, which could panic again.
        std::mem::forget(payload);
        let cause = LAST_PANIC.try_with(|p| p.borrow_mut().take()).ok().flatten();
        let cause = cause.as_deref().unwrap_or("no message");
        // The logger may be what panicked.
        let _ = panic::catch_unwind(|| {
            log_error!(Nrt, call.name, "internal error: {cause}; this is a bug in OpenNRT, please report it");
        });
        R::failed(Status::Failure)
    })
}

/// The whole of a stub.
pub(crate) fn not_built<R: Answer>(call: &Call) -> Result<R, Status> {
    log_error!(
        Nrt,
        call.name,
        "{} is not implemented in OpenNRT {}; docs/coverage.md lists the calls that are",
        call.name,
        nrt_core::version::OPENNRT
    );
    Err(Status::Failure)
}

/// Whether calls are logged, so that none may be answered without the guard.
#[inline]
pub(crate) fn logged() -> bool {
    log::enabled(Level::Debug, Module::Nrt)
}

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static LAST_PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Marks that this thread is inside a public call.
struct InCall<'a>(&'a Cell<u32>);

impl InCall<'_> {
    fn enter(depth: &Cell<u32>) -> InCall<'_> {
        depth.set(depth.get() + 1);
        InCall(depth)
    }
}

impl Drop for InCall<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// Keep the text of a panic inside a call for the one log line, instead of the standard report
/// on stderr. The hook belongs to this library's own copy of the standard library, so a Rust
/// program that loads it keeps its hook. It must not log: a panic in a hook aborts.
///
/// Not a `Once`: a child forked while another thread is in there would wait for it for ever.
fn install_hook() {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    if TAKEN.load(Ordering::Relaxed) || TAKEN.swap(true, Ordering::Relaxed) {
        return;
    }
    let previous = panic::take_hook();
    panic::set_hook(Box::new(move |info: &PanicHookInfo<'_>| {
        if DEPTH.get() == 0 {
            return previous(info);
        }
        let text = info.payload_as_str().unwrap_or("no message");
        let text = match info.location() {
            Some(at) => format!("{text} at {}:{}", at.file(), at.line()),
            None => text.to_string(),
        };
        let _ = LAST_PANIC.try_with(|p| p.try_borrow_mut().map(|mut p| *p = Some(text)));
    }));
}

/// `name=value` for every argument, as C passed it.
macro_rules! show {
    () => { format_args!("") };
    ($first:ident $(, $more:ident)*) => {
        format_args!(
            concat!(stringify!($first), "={:?}" $(, ", ", stringify!($more), "={:?}")*),
            $first $(, $more)*
        )
    };
}

/// Define an export. See the head of this file.
macro_rules! export {
    ($(#[$meta:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> NRT_STATUS, quick $quick:ident $body:block) => {
        export! { @status [$(#[$meta])*] $name($($arg: $ty),*) [
            // SAFETY: the promise of the caller is that of the whole call.
            if !$crate::guard::logged() && unsafe { $quick($($arg),*) } {
                return ::nrt_core::Status::Success.code();
            }
        ] $body }
    };
    ($(#[$meta:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> NRT_STATUS $body:block) => {
        export! { @status [$(#[$meta])*] $name($($arg: $ty),*) [] $body }
    };
    ($(#[$meta:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty, quick $quick:ident $body:block) => {
        export! { @define [$(#[$meta])*] $name($($arg: $ty),*) [-> $ret] [
            // SAFETY: the promise of the caller is that of the whole call.
            if !$crate::guard::logged() && let Some(answer) = unsafe { $quick($($arg),*) } {
                return answer;
            }
        ] [] [Ok($body)] }
    };
    ($(#[$meta:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty $body:block) => {
        export! { @define [$(#[$meta])*] $name($($arg: $ty),*) [-> $ret] [] [] [Ok($body)] }
    };
    ($(#[$meta:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $body:block) => {
        export! { @define [$(#[$meta])*] $name($($arg: $ty),*) [-> ()] [] [] [Ok($body)] }
    };
    (@status [$($meta:tt)*] $name:ident($($arg:ident: $ty:ty),*) [$($first:tt)*] $body:block) => {
        export! { @define [$($meta)*] $name($($arg: $ty),*) [-> u32] [$($first)*] [.code()] [{
            let body = || -> ::nrt_core::Result<()> { $body };
            body().map(|()| ::nrt_core::Status::Success)
        }] }
    };
    (@define [$($meta:tt)*] $name:ident($($arg:ident: $ty:ty),*) [$($ret:tt)*] [$($first:tt)*] [$($convert:tt)*]
        [$body:expr]) => {
        publish!($name);
        $($meta)*
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name($($arg: <$ty as $crate::args::Arg>::C),*) $($ret)* {
            const CALL: $crate::guard::Call = call!($name);
            $($first)*
            $crate::guard::run(&CALL, show!($($arg),*), || {
                $(
                    // SAFETY: by the contract of every public call a pointer is NULL or valid for
                    // what the prototype does with it, for the length of the call.
                    let $arg = unsafe { <$ty as $crate::args::Arg>::take($arg, CALL.name, stringify!($arg)) }?;
                )*
                $body
            })$($convert)*
        }
    };
}

/// Define an export that is not built yet: one ERROR line and the failure value. Written by
/// `build.rs` for every row with status `stub`.
macro_rules! export_stub {
    (fn $name:ident($($arg:ident: $ty:ty),*) -> NRT_STATUS) => {
        export_stub! { @define $name($($arg: $ty),*) [-> u32] [::nrt_core::Status] [.code()] }
    };
    (fn $name:ident($($arg:ident: $ty:ty),*) -> $ret:ty) => {
        export_stub! { @define $name($($arg: $ty),*) [-> $ret] [$ret] [] }
    };
    (fn $name:ident($($arg:ident: $ty:ty),*)) => {
        export_stub! { @define $name($($arg: $ty),*) [-> ()] [()] [] }
    };
    (@define $name:ident($($arg:ident: $ty:ty),*) [$($ret:tt)*] [$answer:ty] [$($convert:tt)*]) => {
        publish!($name);
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name($($arg: $ty),*) $($ret)* {
            const CALL: $crate::guard::Call = call!($name);
            $crate::guard::run(&CALL, show!($($arg),*), || $crate::guard::not_built::<$answer>(&CALL))$($convert)*
        }
    };
}
