//! Library side of the programs `nrt-abi` (surface of a libnrt file) and `nrt-info` (what this
//! machine and configuration look like).

pub mod abi;
pub mod info;
