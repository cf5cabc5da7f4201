//! Build script of the cdylib.

fn main() {}
