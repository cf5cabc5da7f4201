//! Exports of `ndebug_stream.h`: the debug event stream of a core.

include!(concat!(env!("OUT_DIR"), "/stubs_ndebug_stream.rs"));
