//! `nrt-info`.

fn main() {}
