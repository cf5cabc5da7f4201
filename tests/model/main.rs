//! The tensor calls of the finished library against plain byte arrays.
//!
//! Random sequences of calls run on both, on simulated instances and on device files of `neuron-emu serve`. Every
//! sequence has a process of its own, so that a crash is an answer like another one and that no sequence depends on
//! what was before it. One that fails is made as short as it can be and printed as the calls it consists of.

#[path = "../common/child.rs"]
mod child;
#[path = "../common/mod.rs"]
mod common;
#[path = "../common/emu.rs"]
mod emu;
mod machine;
mod ops;
mod reference;
#[path = "../common/shared.rs"]
mod shared;

use std::cell::Cell;
use std::ffi::OsStr;
use std::fs::File;
use std::sync::OnceLock;

use machine::{Machine, Nrt};
use nrt_tools::abi::{self, table};
use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestError, TestRunner};
use reference::Backend;
use shared::Shared;

const GIB: usize = 1 << 30;

const TRN1: Backend = Backend {
    product: "trn1.2xlarge",
    lnc: 1,
    cores: 2,
    cores_per_device: 2,
    hbms: 2,
    hbm_bytes: 16 * GIB,
    pinned_by_name: true,
    windows: false,
    devices: false,
};
const TRN2: Backend = Backend {
    product: "trn2.3xlarge",
    lnc: 2,
    cores: 4,
    cores_per_device: 8,
    hbms: 4,
    hbm_bytes: 24 * GIB,
    pinned_by_name: false,
    windows: true,
    devices: false,
};

/// The calls, opened before any process is forked.
fn nrt() -> &'static Nrt {
    static NRT: OnceLock<Nrt> = OnceLock::new();
    NRT.get_or_init(|| Nrt::of(Shared::open(common::library())))
}

/// Many sequences on one instance.
fn sequences(backend: &Backend, cases: u32, variables: &[(&str, &OsStr)]) {
    let lnc = backend.lnc.to_string();
    let mut all = vec![("NEURON_RT_LOG_LEVEL", OsStr::new("QUIET")), ("NEURON_LOGICAL_NC_CONFIG", OsStr::new(&lnc))];
    all.extend(variables);
    let nrt = nrt();
    // Work in queues does not fail in every run: a shorter sequence gets some more chances to fail, too.
    let failed = Cell::new(false);
    let config =
        ProptestConfig { cases, failure_persistence: None, max_shrink_time: 60_000, ..ProptestConfig::default() };
    let result = TestRunner::new(config).run(&prop::collection::vec(ops::op(), 1..80), |ops| {
        let run = |transcript: &mut File| {
            // SAFETY: no precondition. A call that never comes back ends the process.
            unsafe { libc::alarm(60) };
            Machine::new(nrt, backend, transcript.try_clone().expect("a descriptor is free")).run(&ops)
        };
        let mut runs = 0..if failed.get() { 30 } else { 1 };
        let result = runs.try_for_each(|_| child::in_child(&all, run));
        failed.set(failed.get() || result.is_err());
        result.map_err(TestCaseError::fail)
    });
    match result {
        Ok(()) => {}
        Err(TestError::Fail(reason, _)) => panic!("on {}, after these calls:\n\n{reason}", backend.product),
        Err(TestError::Abort(reason)) => panic!("{reason}"),
    }
}

fn simulated(backend: &Backend) {
    sequences(backend, 250, &[("NEURON_RT_FAKE_INSTANCE_TYPE", OsStr::new(backend.product))]);
}

fn served(backend: Backend) {
    let Some(served) = emu::Served::start(&emu::program(), backend.product, &[]) else { return };
    let (dev, sys) = (served.dev(), served.sys());
    let variables = [
        ("OPENNRT_DEV_DIR", dev.as_os_str()),
        ("OPENNRT_SYS_DIR", sys.as_os_str()),
        ("NEURON_RT_RESET_CORES", OsStr::new("0")),
    ];
    sequences(&Backend { devices: true, ..backend }, 100, &variables);
}

#[test]
fn sequences_on_a_simulated_trn1_do_what_byte_arrays_do() {
    simulated(&Backend { product: "trn1.32xlarge", cores: 32, ..TRN1 });
}

/// Two logical cores share an HBM.
#[test]
fn sequences_on_a_simulated_trn2_do_what_byte_arrays_do() {
    simulated(&Backend { lnc: 1, cores: 8, ..TRN2 });
}

/// One logical core has two HBMs, and pinned memory is not refused.
#[test]
fn sequences_on_a_simulated_trn3_do_what_byte_arrays_do() {
    let (lnc, cores, hbm_bytes) = (4, 2, 36 * GIB);
    simulated(&Backend { product: "trn3pd98.3xlarge", lnc, cores, hbm_bytes, pinned_by_name: true, ..TRN2 });
}

#[test]
fn sequences_on_trn1_device_files_do_what_byte_arrays_do() {
    served(TRN1);
}

#[test]
fn sequences_on_trn2_device_files_do_what_byte_arrays_do() {
    served(TRN2);
}

/// A tensor call that is added later is missed here.
#[test]
fn every_call_about_tensors_is_in_the_sequences() {
    let symbols = table::symbols(abi::SYMBOLS).expect("the table in the repository parses");
    let about = |s: &table::Symbol<'_>| {
        let name = s.name;
        let queued = name.starts_with("nrta_tensor_") || ["nrta_is_completed", "nrta_get_sequence"].contains(&name);
        (queued || name.starts_with("nrt_tensor_") || name.ends_with("tensor_set")) && s.status != table::State::Stub
    };
    let missing: Vec<_> =
        symbols.iter().filter(|s| about(s) && !Nrt::NAMES.contains(&s.name)).map(|s| s.name).collect();
    assert!(missing.is_empty(), "no sequence makes these calls: {missing:?}");
}
