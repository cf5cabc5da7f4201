//! The C entry layer of `libnrt.so.1`: one module per public header, nothing but exports.
//!
//! `abi/symbols.tsv` is the truth about names, version nodes, prototypes, state gates and how far
//! a call is built; `build.rs` turns it into the stubs, the version directives and the constants
//! that stop an export from drifting from its prototype. What a call does is in `nrt-core`.

include!(concat!(env!("OUT_DIR"), "/exports.rs"));

// Some argument types wait for calls that are still stubs.
#[allow(dead_code)]
mod args;
mod caller;
#[macro_use]
mod guard;
#[allow(non_camel_case_types, dead_code)]
mod types;

mod text;

mod ndebug_stream;
mod nec;
mod nrt;
mod nrt_async;
mod nrt_async_sendrecv;
mod nrt_experimental;
mod nrt_profile;
mod nrt_status;
mod nrt_sys_trace;
mod nrt_version;
mod opennrt;

include!(concat!(env!("OUT_DIR"), "/checks.rs"));
