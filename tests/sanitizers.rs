//! C programs under the tools that see what a test does not: AddressSanitizer and LeakSanitizer, valgrind,
//! ThreadSanitizer. `make test-sanitizers` runs these alone.
//!
//! The first two look at the library everybody uses: allocations are intercepted, so a leak and a wrong address in the
//! C program or in a call are seen. ThreadSanitizer needs a library of its own, which `scripts/sanitize.sh` builds.

mod common;

use std::process::{Command, Output};

use common::{command, install, linked, lists, root};
use nrt_tools::abi::table::Gate;

/// A tool that runs a program.
struct Tool {
    name: &'static str,
    /// For gcc.
    compile: &'static [&'static str],
    /// In front of the program.
    before: &'static [&'static str],
    variables: &'static [(&'static str, &'static str)],
}

const ADDRESS: Tool = Tool {
    name: "AddressSanitizer",
    compile: &["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"],
    before: &[],
    variables: &[("ASAN_OPTIONS", "detect_leaks=1")],
};

const VALGRIND: Tool = Tool {
    name: "valgrind",
    compile: &["-g"],
    // What is still reachable is not lost: the tables of handles live as long as the process, freed ones wait in them.
    before: &[
        "valgrind",
        "-q",
        "--leak-check=full",
        "--show-leak-kinds=definite,indirect",
        "--errors-for-leak-kinds=definite,indirect",
        "--error-exitcode=33",
    ],
    // It looks for pointers in everything that is mapped, and would fill the memory of an HBM of real size by that.
    variables: &[("OPENNRT_HBM_MIB", "64")],
};

impl Tool {
    fn output(&self, program: &str, arguments: &[&str]) -> Output {
        let tree = install();
        lists(tree.path(), |s| s.gate == Gate::Init);
        let exe = linked(program, tree.path(), &[self.compile, &["-Wno-cast-function-type"]].concat());
        let exe = exe.to_str().expect("the path is text");
        let line = [self.before, &[exe], arguments].concat();
        let mut command = command(line[0].as_ref(), tree.path());
        command.args(&line[1..]).envs(self.variables.iter().copied());
        command.output().unwrap_or_else(|e| panic!("{command:?} cannot be started: {e}"))
    }

    /// The program works, and the tool has nothing to say.
    fn finds_nothing_in(&self, program: &str, arguments: &[&str]) {
        let output = self.output(program, arguments);
        let text = text(&output);
        assert!(output.status.success(), "{program} under {}: {}\n{text}", self.name, output.status);
        let scenarios = text.lines().find(|line| line.contains(" scenarios, ")).unwrap_or("done");
        println!("ran {program} under {}: {scenarios}", self.name);
    }

    /// The tool sees what is wrong in `wrong.c`.
    fn finds(&self, what: &str, sign: &str) {
        let text = text(&self.output("wrong", &[what]));
        assert!(text.contains(sign), "{} does not say {sign:?} of a {what}:\n{text}", self.name);
        assert!(text.contains("1 scenarios, 1 failed\n"), "{text}");
    }
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// One test for each program and tool.
macro_rules! programs {
    ($tool:ident: $($name:ident $program:literal $($argument:literal)*;)*) => {
        $(#[test]
        fn $name() {
            $tool.finds_nothing_in($program, &[$($argument),*]);
        })*
    };
}

// `fork` is not among them, and of `async` not the scenario that forks while workers run: a child that is forked while
// another thread allocates waits for ever in gcc 12's own allocator of the sanitizer.
programs! { ADDRESS:
    address_sanitizer_finds_nothing_in_lifecycle "lifecycle";
    address_sanitizer_finds_nothing_in_tensors "tensors";
    address_sanitizer_finds_nothing_in_builders "builders";
    address_sanitizer_finds_nothing_in_reports "reports";
    address_sanitizer_finds_nothing_in_threads "threads";
    address_sanitizer_finds_nothing_in_hammer "hammer";
    address_sanitizer_finds_nothing_in_async "async" "no-fork";
}

// One thread at a time and each many times slower: the programs with thousands of rounds are left out. A child that
// `async` forks has lost what only the other threads had.
programs! { VALGRIND:
    valgrind_finds_nothing_in_lifecycle "lifecycle";
    valgrind_finds_nothing_in_tensors "tensors";
    valgrind_finds_nothing_in_builders "builders";
    valgrind_finds_nothing_in_reports "reports";
    valgrind_finds_nothing_in_hammer "hammer";
    valgrind_finds_nothing_in_async "async" "no-fork";
}

#[test]
fn the_tools_find_a_leak_and_a_wrong_read() {
    ADDRESS.finds("leak", "4321 byte(s) leaked in 1 allocation(s)");
    ADDRESS.finds("read", "heap-buffer-overflow");
    VALGRIND.finds("leak", "4,321 bytes in 1 blocks are definitely lost");
    VALGRIND.finds("read", "Invalid read of size 1");
}

/// `hammer` for tensors, `threads` for init and close under calls of all kinds, `async` for queues; its scenario that
/// forks is left out, because the tool has no support for threads in such a child.
#[test]
fn thread_sanitizer_finds_nothing_in_ten_seconds_of_eight_threads_and_finds_a_race() {
    let tree = tempfile::tempdir().expect("a temporary folder can be made");
    lists(tree.path(), |s| s.gate == Gate::Init);
    let sanitize = |arguments: &[&str]| {
        let mut script = Command::new(root().join("scripts/sanitize.sh"));
        let output = script.arg(tree.path()).args(arguments).output().expect("the script is in the repository");
        (output.status.success(), text(&output))
    };
    let (clean, said) = sanitize(&["hammer", "10", "--", "threads", "--", "async", "no-fork"]);
    assert!(clean, "{said}");
    println!("{}", said.trim_end());
    let (clean, said) = sanitize(&["wrong", "race"]);
    assert!(!clean && said.contains("WARNING: ThreadSanitizer: data race"), "a race is not seen:\n{said}");
}
