//! Calls into the finished library from C.

mod common;

use common::{install, lists, must_succeed, program};
use nrt_tools::abi::table::{self, Gate, State};
use nrt_tools::abi::{self};
use std::collections::BTreeMap;
use std::process::Command;

/// Every call survives being handed nothing, and a stub says that it is one: the failure value of
/// its type, and an error line with its name.
#[test]
fn every_call_survives_zeros_and_every_stub_fails_by_name() {
    let tree = install();
    let count = lists(tree.path(), |_| true);
    let lib = tree.path().join("lib");
    let search = format!("-L{}", lib.display());
    // The cast from one function type to another is the point.
    let exe = program("zeros", tree.path(), &[&search, "-lnrt", "-Wno-cast-function-type"]);
    let mut command = Command::new(&exe);
    command.env("LD_LIBRARY_PATH", &lib).env_remove("NEURON_RT_FAKE_INSTANCE_TYPE");
    command.env("OPENNRT_DEV_DIR", tree.path()).env("OPENNRT_SYS_DIR", tree.path());
    let output = must_succeed(&mut command);
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    let answers: BTreeMap<&str, u64> = stdout
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(name, value)| Some((name, value.parse().ok()?)))
        .collect();
    assert_eq!(answers.len(), count);

    let symbols = table::symbols(abi::SYMBOLS).expect("the table in the repository parses");
    for s in symbols.iter().filter(|s| s.status == State::Stub) {
        let rax = answers[s.name];
        match s.ret {
            "void" => {}
            "NRT_STATUS" => {
                let wanted = if s.gate == Gate::Init { 13 } else { 1 };
                assert_eq!(rax as u32, wanted, "{}", s.name);
            }
            "int" => assert_eq!(rax as i32, -1, "{}", s.name),
            "bool" => assert_eq!(rax as u8, 0, "{}", s.name),
            "size_t" | "void *" | "const char *" => assert_eq!(rax, 0, "{}", s.name),
            other => panic!("{} returns {other}, which this test does not know", s.name),
        }
        if matches!(s.gate, Gate::Any | Gate::Body | Gate::BeforeInit) {
            let name = s.alias.unwrap_or(s.name);
            let said = format!("{name} is not implemented in OpenNRT");
            assert_eq!(
                stderr.matches(&said).count(),
                symbols.iter().filter(|o| o.alias.unwrap_or(o.name) == name).count(),
                "{said}"
            );
        }
    }
}

/// A001, and what the calls that need no device answer.
#[test]
fn builders_version_and_names_answer_a_c_program() {
    let tree = install();
    let lib = tree.path().join("lib");
    let search = format!("-L{}", lib.display());
    let exe = program("builders", tree.path(), &[&search, "-lnrt"]);
    must_succeed(Command::new(&exe).env("LD_LIBRARY_PATH", &lib));
}
