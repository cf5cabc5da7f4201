//! The finished library as a program meets it: a file, opened with `dlopen`, called through the addresses of `dlsym`.

use std::ffi::{CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;

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
    unsafe fn function<F: Copy>(self, name: &str) -> F {
        let text = CString::new(name).expect("a name has no NUL");
        // SAFETY: the handle is open and the name is a C string.
        let address = unsafe { libc::dlsym(self.0, text.as_ptr()) };
        assert!(!address.is_null(), "{name} is not there");
        assert_eq!(size_of::<F>(), size_of_val(&address));
        // SAFETY: the caller says that `F` is a pointer to this function.
        unsafe { std::mem::transmute_copy(&address) }
    }
}

macro_rules! functions {
    ($($(#[$meta:meta])* $name:ident: fn($($arg:ty),*) $(-> $ret:ty)?;)*) => {
        /// The calls that are measured.
        #[derive(Clone, Copy)]
        #[allow(missing_docs)] // the names are the C calls'
        pub struct Nrt { $(pub $name: unsafe extern "C" fn($($arg),*) $(-> $ret)?,)* }

        impl Nrt {
            /// Look every one of them up.
            pub fn of(library: Shared) -> Nrt {
                // SAFETY: the types are those of the headers.
                unsafe { Nrt { $($name: library.function(stringify!($name)),)* } }
            }
        }
    };
}

functions! {
    nrt_init: fn(c_int, *const c_char, *const c_char) -> u32;
    nrt_close: fn();
    nrt_get_visible_vnc_count: fn(*mut u32) -> u32;
    nrt_get_instance_info: fn(*mut c_void, usize) -> u32;
    nrt_tensor_allocate: fn(u32, c_int, usize, *const c_char, *mut *mut c_void) -> u32;
    nrt_tensor_free: fn(*mut *mut c_void);
    nrt_tensor_write: fn(*mut c_void, *const c_void, usize, usize) -> u32;
    nrta_tensor_write: fn(*mut c_void, *const c_void, u64, u64, c_int, c_int, *mut u32, *mut u64) -> u32;
    nrta_is_completed: fn(u64, *mut bool) -> u32;
    nrt_tensor_read: fn(*const c_void, *mut c_void, usize, usize) -> u32;
    nrt_tensor_get_size: fn(*const c_void) -> usize;
}

/// A call that does nothing, in a shared object of its own.
pub type Empty = unsafe extern "C" fn(*mut c_void, usize) -> c_int;

/// See [`Empty`].
pub fn empty(folder: &Path) -> Empty {
    let library = Shared::open(&compile("empty", folder, &["-shared", "-fPIC"]));
    // SAFETY: `empty.c` says so.
    unsafe { library.function("empty") }
}

/// Compile `benches/speed/NAME.c` into `folder`.
pub fn compile(name: &str, folder: &Path, arguments: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("benches/speed/{name}.c"));
    let out = folder.join(name);
    let mut gcc = Command::new("gcc");
    gcc.args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-o"]).arg(&out).arg(&source).args(arguments);
    let status = gcc.status().expect("gcc can be started; `make setup` says how to install it");
    assert!(status.success(), "gcc cannot compile {}", source.display());
    out
}
