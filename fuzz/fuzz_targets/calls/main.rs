//! Random sequences of public calls on a simulated instance, through the C functions themselves.
//!
//! The table `abi/symbols.tsv` says which calls there are and what they take; `arguments.rs` makes up the arguments, right ones
//! most of the time. Between calls the environment changes. Everything an input made is freed at its end, so that a leak shows.

#![no_main]

mod arguments;
#[allow(dead_code)]
#[path = "../../../crates/nrt-tools/src/abi/table.rs"]
mod table;

use arguments::{Call, Handles, Input};
use libfuzzer_sys::fuzz_target;
use std::collections::HashMap;
use std::ffi::{CStr, c_char};
use std::sync::LazyLock;
use table::{State, Symbol};

/// Most calls of one input.
const CALLS: usize = 100;

/// How every public function can be called: all parameters are integers or pointers, at most nine, and one that does not look at
/// a register does not mind what it holds.
pub type Function = unsafe extern "C" fn(u64, u64, u64, u64, u64, u64, u64, u64, u64) -> u64;

/// The calls, those that work first.
struct Surface {
    symbols: Vec<Symbol<'static>>,
    working: usize,
    addresses: HashMap<&'static str, Function>,
}

static SURFACE: LazyLock<Surface> = LazyLock::new(|| {
    let mut symbols = table::symbols(include_str!("../../../abi/symbols.tsv")).expect("the table parses");
    symbols.retain(|symbol| symbol.alias.is_none());
    symbols.sort_by_key(|symbol| symbol.status == State::Stub);
    let working = symbols.iter().take_while(|symbol| symbol.status != State::Stub).count();
    let addresses = nrt::SURFACE
        .iter()
        // SAFETY: a pointer to a function for another; what it is called with is said at `Function`.
        .map(|&(name, address)| (name, unsafe { std::mem::transmute::<unsafe extern "C" fn(), Function>(address) }))
        .collect();
    Surface { symbols, working, addresses }
});

impl Surface {
    fn address(&self, name: &str) -> Function {
        self.addresses[name]
    }

    fn symbol(&self, name: &str) -> &Symbol<'static> {
        self.symbols.iter().find(|symbol| symbol.name == name).expect("a name of the table")
    }
}

/// Read by AddressSanitizer at start: a size no allocator has is answered as the C library does, for the library to handle.
#[unsafe(no_mangle)]
extern "C" fn __asan_default_options() -> *const c_char {
    c"allocator_may_return_null=1".as_ptr()
}

/// What may change between two calls, with texts that are good, bad and absurd. The log goes nowhere, at times loudly: putting
/// its lines together is part of a call.
const ENVIRONMENT: [(&str, &[&str]); 9] = [
    ("NEURON_RT_NUM_CORES", &["1", "2", "4", "0", "8", "3", "4294967295", "x"]),
    ("NEURON_RT_VISIBLE_CORES", &["0", "0-3", "1,2", "3-1", "0-4294967295", "0,0", "7", ""]),
    ("NEURON_LOGICAL_NC_CONFIG", &["1", "2", "4", "8", "0", "3"]),
    ("NEURON_RT_VIRTUAL_CORE_SIZE", &["1", "2", "16"]),
    ("OPENNRT_HBM_MIB", &["64", "1", "98304", "0", "4294967295"]),
    ("NEURON_RT_ENABLE_P2P", &["0", "1"]),
    ("NEURON_RT_LOG_COALESCING_ENABLED", &["0", "1"]),
    ("NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS", &["0", "64", "-1"]),
    ("NEURON_RT_LOG_LEVEL", &["QUIET", "DEBUG", "ERROR"]),
];

fn prepare() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    // SAFETY: the fuzzer's own thread does not look at the environment.
    ONCE.call_once(|| unsafe {
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"NEURON")) {
            std::env::remove_var(name);
        }
        // The first look at this variable holds for the life of the process.
        std::env::set_var("NEURON_RT_FAKE_INSTANCE_TYPE", "trn2.3xlarge");
        std::env::set_var("NEURON_RT_LOG_LOCATION", "/dev/null");
        // The library turns a panic into a failure; here it is a find. Its hook is set by the first call, so ours stays.
        SURFACE.address("opennrt_version")(0, 0, 0, 0, 0, 0, 0, 0, 0);
        std::panic::set_hook(Box::new(|panic| {
            eprintln!("{panic}\n{}", std::backtrace::Backtrace::force_capture());
            std::process::abort();
        }));
    });
    for (name, _) in ENVIRONMENT {
        // SAFETY: as above.
        unsafe { std::env::remove_var(name) };
    }
    // SAFETY: as above.
    unsafe { std::env::set_var("NEURON_RT_LOG_LEVEL", "QUIET") };
}

fn change_environment(input: &mut Input<'_>) {
    let (name, texts) = input.pick(&ENVIRONMENT);
    let keep = *name == "NEURON_RT_LOG_LEVEL" || input.one_in(4);
    // SAFETY: as in `prepare`.
    unsafe { if keep { std::env::set_var(name, input.pick(texts)) } else { std::env::remove_var(name) } }
}

/// Make a call, see that its answer makes sense, and note what it made.
fn make(call: &mut Call<'_>, handles: &mut Handles) {
    let surface = &*SURFACE;
    let a = call.arguments;
    // SAFETY: `arguments.rs` keeps the promises of a C caller.
    let answer = unsafe { surface.address(call.symbol.name)(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8]) };
    let status = (call.symbol.ret == "NRT_STATUS").then_some(answer as u32);
    if let Some(status) = status {
        // SAFETY: the call takes a number.
        let name = unsafe { surface.address("nrt_get_status_as_str")(status.into(), 0, 0, 0, 0, 0, 0, 0, 0) };
        // SAFETY: it answers a static text.
        let name = unsafe { CStr::from_ptr(std::ptr::with_exposed_provenance::<c_char>(name as usize)) };
        assert_ne!(name, c"UNKNOWN", "{} answers {status}", call.symbol.name);
    }
    call.collect(status, handles, |name, list, count| {
        // SAFETY: the list and its count come from the library.
        unsafe { surface.address(name)(list, count, 0, 0, 0, 0, 0, 0, 0) };
    });
}

/// Free everything and bring the runtime down.
fn clean(handles: &mut Handles) {
    for (ctype, free) in arguments::FREE {
        for handle in handles.take(ctype) {
            let mut place = handle;
            let by_place = SURFACE.symbol(free).params[0].ctype.ends_with("**");
            let argument = if by_place { (&raw mut place).expose_provenance() as u64 } else { handle };
            // SAFETY: a handle, or the place of one; an old handle is refused.
            unsafe { SURFACE.address(free)(argument, 0, 0, 0, 0, 0, 0, 0, 0) };
        }
    }
    // SAFETY: no precondition.
    unsafe { SURFACE.address("nrt_close")(0, 0, 0, 0, 0, 0, 0, 0, 0) };
}

fuzz_target!(|data: &[u8]| {
    prepare();
    let surface = &*SURFACE;
    let mut input = Input::new(data);
    let mut handles = Handles::default();
    let mut calls = Vec::new();
    // Most calls need a runtime; an input that begins with 0 starts without.
    if input.byte() != 0 {
        let mut init = Call::plain(surface.symbol("nrt_init"));
        make(&mut init, &mut handles);
    }
    while !input.is_empty() && calls.len() < CALLS {
        let symbol = match input.byte() {
            0..8 => {
                change_environment(&mut input);
                continue;
            }
            8..16 => input.pick(&surface.symbols[surface.working..]),
            // Often enough that the sequences in between matter, and no more.
            pick if surface.symbols[usize::from(pick) % surface.working].name == "nrt_close" && !input.one_in(4) => {
                continue;
            }
            pick => &surface.symbols[usize::from(pick) % surface.working],
        };
        let mut call = Call::random(symbol, &mut input, &handles);
        make(&mut call, &mut handles);
        // Buffers live to the end: some are attached to tensors.
        calls.push(call);
    }
    clean(&mut handles);
});
