//! Pointer policy: how a C argument becomes something a body can use without `unsafe`.
//!
//! | parameter type | C | NULL |
//! |---|---|---|
//! | `u32`, `i64`, `usize` … | the same | |
//! | `bool` | `_Bool`, any byte | |
//! | [`Out<T>`] | `T *` to write | `NRT_INVALID` |
//! | [`In<T>`] | `const T *` to read | `NRT_INVALID` |
//! | [`InOut<T>`] | `T *` to read and write | `NRT_INVALID` |
//! | [`Text`] | `const char *` | `NRT_INVALID` |
//! | [`VersionText`] | `const char *`, any address | empty |
//! | [`Handle<*mut T>`], [`Handle<*const T>`] | pointer to an opaque object, never followed | `NRT_INVALID` |
//! | [`Prefix<T>`] | `T *` to a caller's, perhaps older, version of `T` | `NRT_INVALID` |
//! | `Option` of any of these | the same | `None` |
//! | `*const T`, `*mut T` | the same | the body's business |

use nrt_core::{Status, log_error};
use std::borrow::Cow;
use std::ffi::{c_char, c_void};
use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;

/// Something a body takes as a parameter.
pub(crate) trait Arg: Sized {
    /// What C passes.
    type C: Copy + fmt::Debug;

    /// Turn one into the other, or log why not.
    ///
    /// # Safety
    ///
    /// A pointer must be NULL or valid for what the type does with it until the call returns.
    unsafe fn take(c: Self::C, call: &'static str, name: &'static str) -> Result<Self, Status>;
}

/// An argument C passes as a pointer that may be NULL.
pub(crate) trait Nullable: Arg {
    /// Whether C passed NULL.
    fn is_null(c: Self::C) -> bool;
}

macro_rules! as_is {
    ($($ty:ty),*) => { $(
        impl Arg for $ty {
            type C = $ty;
            unsafe fn take(c: $ty, _: &'static str, _: &'static str) -> Result<$ty, Status> {
                Ok(c)
            }
        }
    )* };
}

as_is!(u8, u32, i32, u64, i64, usize);

impl Arg for bool {
    type C = u8;
    unsafe fn take(c: u8, _: &'static str, _: &'static str) -> Result<bool, Status> {
        Ok(c != 0)
    }
}

impl<T> Arg for *const T {
    type C = *const T;
    unsafe fn take(c: *const T, _: &'static str, _: &'static str) -> Result<*const T, Status> {
        Ok(c)
    }
}

impl<T> Arg for *mut T {
    type C = *mut T;
    unsafe fn take(c: *mut T, _: &'static str, _: &'static str) -> Result<*mut T, Status> {
        Ok(c)
    }
}

impl<A: Nullable> Arg for Option<A> {
    type C = A::C;
    unsafe fn take(c: A::C, call: &'static str, name: &'static str) -> Result<Option<A>, Status> {
        if A::is_null(c) {
            return Ok(None);
        }
        // SAFETY: the caller's promise is the same for both types.
        unsafe { A::take(c, call, name) }.map(Some)
    }
}

/// Log that `name` is NULL, or pass it on.
fn not_null<T>(c: *mut T, call: &'static str, name: &'static str) -> Result<NonNull<T>, Status> {
    NonNull::new(c).ok_or_else(|| {
        log_error!(Nrt, call, "{name} is NULL; pass the address of a valid object");
        Status::Invalid
    })
}

/// A place of the caller that is written once.
pub(crate) struct Out<T>(NonNull<T>);

impl<T> Out<T> {
    /// Write the place. The old content is neither read nor dropped: it need not be a value.
    pub(crate) fn set(&self, value: T) {
        // SAFETY: `Arg::take` got a pointer that is valid for a write until the call returns, and
        // no alignment is asked of C callers that pack their structs.
        unsafe { self.0.write_unaligned(value) }
    }
}

impl<T> Arg for Out<T> {
    type C = *mut T;
    unsafe fn take(c: *mut T, call: &'static str, name: &'static str) -> Result<Out<T>, Status> {
        not_null(c, call, name).map(Out)
    }
}

impl<T> Nullable for Out<T> {
    fn is_null(c: *mut T) -> bool {
        c.is_null()
    }
}

/// A value of the caller, copied at the door so that nothing the caller does later changes it.
pub(crate) struct In<T>(T);

impl<T> std::ops::Deref for In<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Copy> Arg for In<T> {
    type C = *const T;
    unsafe fn take(c: *const T, call: &'static str, name: &'static str) -> Result<In<T>, Status> {
        let place = not_null(c.cast_mut(), call, name)?;
        // SAFETY: the caller's promise; `T` is a C struct of integers and pointers, valid with
        // any content.
        Ok(In(unsafe { place.read_unaligned() }))
    }
}

impl<T: Copy> Nullable for In<T> {
    fn is_null(c: *const T) -> bool {
        c.is_null()
    }
}

/// A place of the caller that is read and written, such as a count that comes in as a capacity.
pub(crate) struct InOut<T>(NonNull<T>);

impl<T: Copy> InOut<T> {
    /// What the caller put there.
    pub(crate) fn get(&self) -> T {
        // SAFETY: `Arg::take` got a pointer that is valid for reads until the call returns.
        unsafe { self.0.read_unaligned() }
    }

    /// Replace it.
    pub(crate) fn set(&self, value: T) {
        // SAFETY: as above, for writes.
        unsafe { self.0.write_unaligned(value) }
    }
}

impl<T: Copy> Arg for InOut<T> {
    type C = *mut T;
    unsafe fn take(c: *mut T, call: &'static str, name: &'static str) -> Result<InOut<T>, Status> {
        not_null(c, call, name).map(InOut)
    }
}

impl<T: Copy> Nullable for InOut<T> {
    fn is_null(c: *mut T) -> bool {
        c.is_null()
    }
}

/// A C string, copied at the door. At most [`Text::LIMIT`] bytes are read.
#[derive(Debug)]
pub(crate) struct Text(Vec<u8>);

impl Text {
    /// Longest text the entry layer takes, in bytes without the NUL: the longest path of Linux.
    pub(crate) const LIMIT: usize = 4096;

    /// The bytes, for paths.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The text, for names and messages; bytes that are not UTF-8 become U+FFFD.
    pub(crate) fn lossy(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }
}

impl Arg for Text {
    type C = *const c_char;
    unsafe fn take(c: *const c_char, call: &'static str, name: &'static str) -> Result<Text, Status> {
        let start = not_null(c.cast_mut(), call, name)?.cast::<u8>();
        // SAFETY: the caller promises a C string, so reading up to the NUL stays inside it; strnlen
        // stops at the limit when there is none.
        let len = unsafe { libc::strnlen(start.as_ptr().cast(), Text::LIMIT + 1) };
        if len > Text::LIMIT {
            log_error!(Nrt, call, "{name} is longer than {} bytes; pass a shorter text", Text::LIMIT);
            return Err(Status::Invalid);
        }
        // SAFETY: strnlen has just walked these bytes.
        Ok(Text(unsafe { std::slice::from_raw_parts(start.as_ptr(), len) }.to_vec()))
    }
}

impl Nullable for Text {
    fn is_null(c: *const c_char) -> bool {
        c.is_null()
    }
}

/// A text that only informs, at an address that may be anything.
///
/// A program built against an `nrt_init` with fewer arguments leaves in the others what the
/// registers held: a small number, an unmapped address, bytes that are no text. So the kernel
/// copies, which answers where a pointer followed here would crash, and what is no version is left
/// out instead of refused. Where a sandbox forbids that call, every text is empty.
pub(crate) struct VersionText(String);

impl VersionText {
    /// Longest version that is read, in bytes; longer ones are cut.
    const LIMIT: usize = 255;

    /// Printable ASCII up to the first byte that is not, or that cannot be read.
    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    fn read(address: usize) -> String {
        const PAGE: usize = 4096;
        let mut text = String::new();
        while let Some(at) = address.checked_add(text.len()).filter(|_| text.len() < Self::LIMIT) {
            // Not across a page: the next one need not be there.
            let mut piece = [0; Self::LIMIT];
            let len = (PAGE - at % PAGE).min(Self::LIMIT - text.len());
            let into = libc::iovec { iov_base: piece.as_mut_ptr().cast(), iov_len: len };
            let from = libc::iovec { iov_base: at as *mut c_void, iov_len: len };
            // SAFETY: `into` has `len` bytes; the kernel checks `from` and answers EFAULT.
            let copied = unsafe { libc::process_vm_readv(libc::getpid(), &into, 1, &from, 1, 0) };
            let Ok(copied @ 1..) = usize::try_from(copied) else { break };
            let printable = piece[..copied].iter().take_while(|byte| matches!(byte, b' '..=b'~'));
            let before = text.len();
            text.extend(printable.map(|&byte| char::from(byte)));
            if text.len() - before < copied {
                break;
            }
        }
        text
    }
}

impl Arg for VersionText {
    type C = *const c_char;
    unsafe fn take(c: *const c_char, _: &'static str, _: &'static str) -> Result<VersionText, Status> {
        Ok(VersionText(VersionText::read(c as usize)))
    }
}

/// The address of an opaque object: a key to look up, never a pointer to follow, so a bogus or
/// freed handle is an answer and not a crash.
pub(crate) struct Handle<P> {
    address: usize,
    of: PhantomData<P>,
}

impl<P> Handle<P> {
    /// The key.
    pub(crate) fn address(&self) -> usize {
        self.address
    }
}

macro_rules! handle {
    ($($ptr:tt)*) => {
        impl<T> Arg for Handle<$($ptr)* T> {
            type C = $($ptr)* T;
            unsafe fn take(c: Self::C, call: &'static str, name: &'static str) -> Result<Self, Status> {
                let place = not_null(c as *mut T, call, name)?;
                Ok(Handle { address: place.as_ptr() as usize, of: PhantomData })
            }
        }

        impl<T> Nullable for Handle<$($ptr)* T> {
            fn is_null(c: Self::C) -> bool {
                c.is_null()
            }
        }
    };
}

handle!(*mut);
handle!(*const);

/// A caller's record whose size comes as another argument and may be that of an older or newer
/// version of `T`.
pub(crate) struct Prefix<T>(NonNull<T>);

impl<T> Prefix<T> {
    /// Write the first `len` bytes of `value`, never more than it has.
    ///
    /// # Safety
    ///
    /// The caller's buffer must hold `len` bytes, and `T` must have no padding.
    pub(crate) unsafe fn write(&self, value: &T, len: usize) {
        let len = len.min(size_of::<T>());
        // SAFETY: source and length are within `value`; the destination is the caller's promise.
        unsafe { self.0.cast::<u8>().copy_from_nonoverlapping(NonNull::from(value).cast(), len) }
    }
}

impl<T> Prefix<T> {
    /// Write bytes of a record that was cut to the caller's size already.
    ///
    /// # Safety
    ///
    /// The caller's buffer must hold `bytes.len()` bytes.
    pub(crate) unsafe fn write_bytes(&self, bytes: &[u8]) {
        // SAFETY: the destination is the caller's promise; a slice of this library overlaps nothing
        // of the caller's.
        unsafe { self.0.cast::<u8>().as_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) }
    }
}

impl<T> Arg for Prefix<T> {
    type C = *mut T;
    unsafe fn take(c: *mut T, call: &'static str, name: &'static str) -> Result<Prefix<T>, Status> {
        not_null(c, call, name).map(Prefix)
    }
}
