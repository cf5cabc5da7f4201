//! A process for a part of a test: the library keeps process-wide state, and may die.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Set a variable of a process that has no other thread.
fn set(name: &str, value: &OsStr) {
    let [name, value] = [name.as_bytes(), value.as_encoded_bytes()].map(|text| CString::new(text).expect("no NUL"));
    // SAFETY: both are C strings, and no other thread is there.
    assert_eq!(unsafe { libc::setenv(name.as_ptr(), value.as_ptr(), 1) }, 0);
}

/// Run `body` in a child with these variables. What it has written comes back when it fails, with its reason or the
/// signal it died of at the end. The library must be open already.
pub fn in_child(
    variables: &[(&str, &OsStr)],
    body: impl FnOnce(&mut File) -> Result<(), String>,
) -> Result<(), String> {
    let (mut reader, writer) = std::io::pipe().expect("a pipe can be made");
    // SAFETY: the child has one thread and leaves with `_exit`; until then it uses its own memory, the library and a
    // pipe, and no lock that another thread could have held here.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "no process can be made");
    if child == 0 {
        drop(reader);
        variables.iter().for_each(|(name, value)| set(name, value));
        let mut out = File::from(OwnedFd::from(writer));
        let reason = match catch_unwind(AssertUnwindSafe(|| body(&mut out))) {
            Ok(Ok(())) => None,
            Ok(Err(reason)) => Some(reason),
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
                Some(format!("panic of the test: {}", text.unwrap_or("?")))
            }
        };
        if let Some(reason) = &reason {
            let _ = writeln!(out, "\n  {reason}");
        }
        // SAFETY: no destructor and no handler of the parent is to run.
        unsafe { libc::_exit(reason.is_some().into()) };
    }
    drop(writer);
    let mut written = String::new();
    reader.read_to_string(&mut written).expect("it writes text");
    let mut status = 0;
    // SAFETY: waits for the child made above and writes to a live local.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    match status {
        0 => Ok(()),
        _ if libc::WIFSIGNALED(status) => {
            Err(format!("{written}\n  the process died of signal {}", libc::WTERMSIG(status)))
        }
        _ => Err(written),
    }
}
