//! The guard around every public call, on exports made for this test: the library's own test
//! build is off, because version directives must not reach a test binary.

// The bodies that only panic never reach what the macro puts after them.
#![allow(missing_docs, unreachable_code)]

macro_rules! publish {
    ($name:ident) => {};
}

macro_rules! call {
    ($name:ident) => {
        crate::guard::Call {
            name: stringify!($name),
            gate: if stringify!($name).as_bytes()[5] == b'g' {
                nrt_core::lifecycle::GateClass::InitRequired
            } else {
                nrt_core::lifecycle::GateClass::Any
            },
        }
    };
}

#[allow(dead_code)]
#[path = "../src/args.rs"]
mod args;
#[macro_use]
#[path = "../src/guard.rs"]
mod guard;

use args::{Handle, In, InOut, Out, Text};
use nrt_core::Status;
use std::ffi::{CString, c_char};
use std::ptr::{null, null_mut};

export! {
    fn test_panics(what: u32) -> NRT_STATUS {
        match what {
            0 => panic!("boom"),
            1 => panic!("boom {}", 2),
            2 => std::panic::panic_any(Bomb),
            _ => Ok(()),
        }
    }
}

export! { fn test_panics_int() -> i32 { panic!("boom") } }
export! { fn test_panics_size() -> usize { panic!("boom") } }
export! { fn test_panics_bool() -> bool { panic!("boom") } }
export! { fn test_panics_pointer() -> *const c_char { panic!("boom") } }
export! { fn test_panics_void() { panic!("boom") } }

export! {
    fn test_gated(out: Out<u32>) -> NRT_STATUS {
        out.set(1);
        Ok(())
    }
}

export! {
    fn test_needs(out: Out<u32>, both: InOut<u32>, input: In<u32>, text: Text, handle: Handle<*mut u8>) -> NRT_STATUS {
        out.set(both.get() + *input + text.bytes().len() as u32 + handle.address() as u32);
        both.set(0);
        Ok(())
    }
}

export! {
    fn test_takes_null(out: Option<Out<u32>>, text: Option<Text>) -> NRT_STATUS {
        if let Some(out) = out {
            out.set(text.map_or(0, |t| t.lossy().chars().count() as u32));
        }
        Ok(())
    }
}

export! { fn test_flag(flag: bool) -> bool { flag } }

export! {
    fn test_error_of_a_size() -> usize {
        let failed: Result<usize, Status> = Err(Status::Timeout);
        failed?
    }
}

/// Does the work of [`test_quick`] for one value, and leaves a mark.
unsafe fn seven(place: *mut u32) -> bool {
    // SAFETY: the tests pass NULL or a live local.
    let Some(place) = (unsafe { place.as_mut() }) else { return false };
    let known = *place == 7;
    *place += if known { 1 } else { 0 };
    known
}

export! {
    fn test_quick(place: InOut<u32>) -> NRT_STATUS, quick seven {
        place.set(place.get() + 100);
        Ok(())
    }
}

export_stub! { fn test_stub(r#unsafe: u8) -> NRT_STATUS }
export_stub! { fn test_stub_void() }
export_stub! { fn test_stub_int() -> i32 }

/// A payload that panics again when somebody drops it.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

/// Call an export.
macro_rules! c {
    ($call:expr) => {
        // SAFETY: every pointer in these tests is NULL or points to a live local.
        unsafe { $call }
    };
}

#[test]
fn a_panic_is_the_failure_value_of_the_type_and_the_next_call_works() {
    assert_eq!([0, 1, 2, 3].map(|what| c!(test_panics(what))), [1, 1, 1, 0]);
    assert_eq!(c!(test_panics_int()), -1);
    assert_eq!(c!(test_panics_size()), 0);
    assert!(!c!(test_panics_bool()));
    assert!(c!(test_panics_pointer()).is_null());
    c!(test_panics_void());
    assert_eq!(c!(test_error_of_a_size()), 0);
}

#[test]
fn the_state_is_checked_before_the_arguments() {
    assert_eq!(c!(test_gated(null_mut())), 13);
}

#[test]
fn null_is_invalid_where_a_value_is_wanted() {
    let (mut out, mut both, input, text, mut byte) = (0, 1, 2, CString::new("abc").expect("no NUL"), 0u8);
    let (o, b, i, t, h) = (&raw mut out, &raw mut both, &raw const input, text.as_ptr(), &raw mut byte);
    assert_eq!(c!(test_needs(o, b, i, t, h)), 0);
    assert_eq!((out, both), (6u32.wrapping_add(h.addr() as u32), 0));
    out = 77;
    assert_eq!(c!(test_needs(null_mut(), b, i, t, h)), 2);
    assert_eq!(c!(test_needs(o, null_mut(), i, t, h)), 2);
    assert_eq!(c!(test_needs(o, b, null(), t, h)), 2);
    assert_eq!(c!(test_needs(o, b, i, null(), h)), 2);
    assert_eq!(c!(test_needs(o, b, i, t, null_mut())), 2);
    assert_eq!(out, 77);
}

#[test]
fn null_is_nothing_where_nothing_is_allowed() {
    let mut out = 9;
    assert_eq!(c!(test_takes_null(null_mut(), null())), 0);
    assert_eq!(c!(test_takes_null(&raw mut out, null())), 0);
    assert_eq!(out, 0);
}

#[test]
fn a_text_may_hold_any_bytes_up_to_the_limit() {
    let mut out = 0;
    let mut count = |bytes: Vec<u8>| {
        let text = CString::new(bytes).expect("no NUL");
        (c!(test_takes_null(&raw mut out, text.as_ptr())), out)
    };
    assert_eq!(count(b"a\xffb".to_vec()), (0, 3));
    assert_eq!(count(vec![b'x'; Text::LIMIT]), (0, 4096));
    assert_eq!(count(vec![b'x'; Text::LIMIT + 1]).0, 2);
}

#[test]
fn any_byte_but_zero_is_true() {
    assert!([1, 2, 255].into_iter().all(|flag| c!(test_flag(flag))));
    assert!(!c!(test_flag(0)));
}

#[test]
fn a_stub_fails_with_the_value_of_its_type() {
    assert_eq!(c!(test_stub(0)), 1);
    assert_eq!(c!(test_stub_int()), -1);
    c!(test_stub_void());
}

fn quick(mut value: u32) -> (u32, u32) {
    (c!(test_quick(&raw mut value)), value)
}

#[test]
fn a_quick_answer_stands_for_the_body_and_a_missing_one_does_not() {
    assert_eq!(quick(7), (0, 8));
    assert_eq!(quick(1), (0, 101));
    assert_eq!(c!(test_quick(null_mut())), 2);
}

#[test]
fn no_call_is_answered_quickly_while_calls_are_logged() {
    const CHILD: &str = "OPENNRT_TEST_CHILD";
    if std::env::var_os(CHILD).is_some() {
        assert_eq!(quick(7), (0, 107));
        return;
    }
    let exe = std::env::current_exe().expect("a test knows its own path");
    let child = std::process::Command::new(exe)
        .args(["--exact", "no_call_is_answered_quickly_while_calls_are_logged", "--nocapture"])
        .env(CHILD, "1")
        .env("NEURON_RT_LOG_LEVEL", "DEBUG")
        .output()
        .expect("the test can start itself");
    let text = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success(), "{text}");
    assert!(text.contains("API:IN: (place=0x") && text.contains("API:OUT: (ret="), "{text}");
}

#[test]
fn a_panic_is_one_error_line_with_the_call_and_the_place() {
    const CHILD: &str = "OPENNRT_TEST_CHILD";
    // In the child nothing else writes to stderr.
    if std::env::var_os(CHILD).is_some() {
        c!(test_panics(0));
        return;
    }
    let exe = std::env::current_exe().expect("a test knows its own path");
    let child = std::process::Command::new(exe)
        .args(["--exact", "a_panic_is_one_error_line_with_the_call_and_the_place", "--nocapture"])
        .env(CHILD, "1")
        .env_remove("NEURON_RT_LOG_LEVEL")
        .output()
        .expect("the test can start itself");
    let text = String::from_utf8_lossy(&child.stderr);
    let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(lines.len(), 1, "{text}");
    for part in ["test_panics", "internal error: boom at ", "guard.rs:", "please report it"] {
        assert!(lines[0].contains(part), "{part}: {text}");
    }
}
