//! The four states of the runtime, `nrt_init`, `nrt_close` and fork.
