//! The finished library as a program meets it: a file, opened with `dlopen`, called through the addresses of `dlsym`.

// Every test binary uses its own part of this.
#![allow(dead_code)]

use std::ffi::{CString, c_void};
use std::path::Path;

/// A shared object, open for the rest of the process.
#[derive(Clone, Copy)]
pub struct Shared(*mut c_void);

impl Shared {
    /// Open the file.
    pub fn open(path: &Path) -> Shared {
        let name = CString::new(path.as_os_str().as_encoded_bytes()).expect("a path has no NUL");
        // SAFETY: the constructors of the libraries opened here need nothing.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!handle.is_null(), "{} cannot be opened", path.display());
        Shared(handle)
    }

    /// The function `name`.
    ///
    /// # Safety
    /// `F` must be the type of a pointer to it.
    pub unsafe fn function<F: Copy>(self, name: &str) -> F {
        let text = CString::new(name).expect("a name has no NUL");
        // SAFETY: the handle is open and the name is a C string.
        let address = unsafe { libc::dlsym(self.0, text.as_ptr()) };
        assert!(!address.is_null(), "{name} is not there");
        assert_eq!(size_of::<F>(), size_of_val(&address));
        // SAFETY: the caller says that `F` is a pointer to this function.
        unsafe { std::mem::transmute_copy(&address) }
    }
}

/// A table `Nrt` of functions, looked up by their names.
macro_rules! functions {
    ($($(#[$meta:meta])* $name:ident: fn($($arg:ty),*) $(-> $ret:ty)?;)*) => {
        /// Calls of the library.
        #[derive(Clone, Copy)]
        #[allow(missing_docs)] // the names are the C calls'
        pub struct Nrt { $(pub $name: unsafe extern "C" fn($($arg),*) $(-> $ret)?,)* }

        impl Nrt {
            /// Their names.
            #[allow(dead_code)] // not every program asks
            pub const NAMES: &[&str] = &[$(stringify!($name)),*];

            /// Look every one of them up.
            pub fn of(library: $crate::shared::Shared) -> Nrt {
                // SAFETY: the types are those of the headers.
                unsafe { Nrt { $($name: library.function(stringify!($name)),)* } }
            }
        }
    };
}

pub(crate) use functions;
