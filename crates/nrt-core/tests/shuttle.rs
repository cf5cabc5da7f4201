//! The queues of the asynchronous calls under every schedule the explorer tries.
//!
//! `cargo test -p nrt-core --features shuttle --test shuttle`
//!
//! A deadlock, which is what a worker or waiter nobody wakes is, ends the exploration with an error.
