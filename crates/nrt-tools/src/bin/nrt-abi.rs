//! `nrt-abi`.

fn main() {}
