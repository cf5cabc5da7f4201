//! What a whole process writes, record by record.
//!
//! Settings, sinks and dumps belong to the process, so each test runs its body in a child: this
//! program again, with a clean environment, running that one test. The child's streams are
//! SOCK_SEQPACKET sockets: what one `write` sends, one read receives, so the records are the writes.

use neuron_abi::Status;
use nrt_core::{
    dump::{Facts, dump_failure, dump_success},
    log::{self, Level, Module, Scope},
    log_debug, log_error, log_info, log_warn,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::{
    io::{Read, Write},
    os::fd::OwnedFd,
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

const ROLE: &str = "LOG_TEST_CHILD";
const MARK: &[u8] = b"@@@\n";

struct Seen {
    stdout: Vec<String>,
    stderr: Vec<String>,
}

/// This program as a child that runs the test `name` only.
fn child(name: &str, variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env_clear()
        .envs(variables.iter().copied())
        .env(ROLE, name)
        .stdin(Stdio::null());
    command
}

/// In the child `name`: run `body` and leave, so that the test harness says nothing more.
fn in_child(name: &str, body: impl FnOnce()) {
    if std::env::var(ROLE).as_deref() == Ok(name) {
        let mut stdout = std::io::stdout();
        stdout.write_all(b"\n").unwrap();
        stdout.write_all(MARK).unwrap();
        stdout.flush().unwrap();
        body();
        std::process::exit(0);
    }
}

fn packets() -> (OwnedFd, OwnedFd) {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
}

fn records(from: OwnedFd) -> Vec<Vec<u8>> {
    let mut buffer = vec![0; 1 << 18];
    std::iter::from_fn(|| match rustix::io::read(&from, &mut buffer).unwrap() {
        0 => None,
        length => Some(buffer[..length].to_vec()),
    })
    .collect()
}

/// Run `body` in a child with these `variables`; what it wrote, one entry per write.
fn run(name: &str, variables: &[(&str, &str)], body: impl FnOnce()) -> Seen {
    in_child(name, body);
    let ((out, out_child), (err, err_child)) = (packets(), packets());
    // The command holds the child's ends and goes away at the end of this statement.
    let mut child = child(name, variables).stdout(out_child).stderr(err_child).spawn().unwrap();
    let err = std::thread::spawn(move || records(err));
    let stdout = records(out);
    let stderr = err.join().unwrap();
    let text = |records: &[Vec<u8>]| -> Vec<String> {
        records.iter().map(|record| String::from_utf8(record.clone()).expect("lines are UTF-8")).collect()
    };
    let stderr = text(&stderr);
    assert!(child.wait().unwrap().success(), "{stderr:?}");
    let mark = stdout.iter().position(|record| record.ends_with(MARK)).expect("the child began");
    Seen { stdout: text(&stdout[mark + 1..]), stderr }
}

/// Level, module, function and message of a record.
fn parts(record: &str) -> (&str, &str, &str, &str) {
    assert!(record.len() > 92, "{record:?}");
    let (header, message) = record.split_at(92);
    (header[40..45].trim(), header[46..51].trim(), header[52..].trim(), message)
}

macro_rules! name {
    () => {{
        fn here() {}
        std::any::type_name_of_val(&here).rsplit("::").nth(1).unwrap()
    }};
}

#[test]
fn a_line_is_exactly_one_write() {
    let long = "x".repeat(20_000);
    let seen = run(name!(), &[], || {
        log_error!(Tdrv, "open", "short {}", 7);
        log_error!(Nrt, "nrt_init", "{long}");
        log_error!(Nrt, "nrt_init", "two\nlines\u{7}");
    });
    assert_eq!(seen.stderr.len(), 3);
    assert_eq!(parts(&seen.stderr[0]), ("ERROR", "TDRV", "open", "short 7\n"));
    assert_eq!(parts(&seen.stderr[1]), ("ERROR", "NRT", "nrt_init", &*format!("{long}\n")), "the console cuts nothing");
    assert_eq!(parts(&seen.stderr[2]).3, "two\\nlines\\x07\n");
    assert_eq!(seen.stdout, [""; 0]);
}

#[test]
fn by_default_only_errors_are_printed_and_no_argument_is_evaluated() {
    let seen = run(name!(), &[], || {
        let argument = || -> u32 { panic!("evaluated") };
        log_warn!(Nrt, "f", "{}", argument());
        log_info!(Nrt, "f", "{}", argument());
        log_debug!(Nrt, "f", "{}", argument());
        assert!(!log::enabled(Level::Warn, Module::Nrt) && log::enabled(Level::Error, Module::Nrt));
        drop(Scope::enter("nrt_init"));
        dump_success(&Facts::of_this_host());
    });
    assert!(seen.stdout.is_empty() && seen.stderr.is_empty(), "success is silent");
}

#[test]
fn errors_go_to_stderr_and_the_rest_to_stdout() {
    let seen = run(name!(), &[("NEURON_RT_LOG_LEVEL", "trace")], || {
        log_error!(Enc, "f", "1");
        log_warn!(Enc, "f", "2");
        log_info!(Hal, "f", "3");
        log_debug!(Rust, "f", "4");
        log::emit(Level::Trace, Module::Kmgr, "f", format_args!("5"));
    });
    assert_eq!(seen.stderr.iter().map(|line| parts(line)).collect::<Vec<_>>(), [("ERROR", "ENC", "f", "1\n")]);
    assert_eq!(
        seen.stdout.iter().map(|line| parts(line)).collect::<Vec<_>>(),
        [
            ("WARN", "ENC", "f", "2\n"),
            ("INFO", "HAL", "f", "3\n"),
            ("DEBUG", "RUST", "f", "4\n"),
            ("TRACE", "KMGR", "f", "5\n")
        ]
    );
}

#[test]
fn quiet_silences_everything() {
    let seen = run(name!(), &[("NEURON_RT_LOG_LEVEL", "QUIET")], || {
        let scope = Scope::enter("nrt_init");
        log_error!(Tdrv, "f", "x");
        log_error!(Nrt, "nrt_init", "x");
        drop(scope);
        dump_failure(&Facts::of_this_host(), "nrt_init", Status::Failure);
    });
    assert!(seen.stdout.is_empty() && seen.stderr.is_empty());
}

#[test]
fn syslog_alone_leaves_the_console_silent() {
    let seen = run(name!(), &[("NEURON_RT_LOG_LOCATION", "SYSLOG"), ("NEURON_RT_LOG_LEVEL", "info")], || {
        let scope = Scope::enter("nrt_init");
        log_error!(Tdrv, "f", "x");
        log_info!(Nrt, "f", "x");
        drop(scope);
    });
    assert!(seen.stdout.is_empty() && seen.stderr.is_empty());
}

#[test]
fn bad_values_are_told_once_per_reading() {
    let variables = [("NEURON_RT_LOG_LEVEL", "loud"), ("NEURON_RT_LOG_LOCATION", "stdout")];
    let seen = run(name!(), &variables, || {
        log_debug!(Nrt, "f", "x");
        log_error!(Nrt, "f", "x");
        log::reconfigure();
    });
    let notices =
        ["invalid level loud, default to ERROR\n", "invalid log location setting stdout, default to CONSOLE\n"];
    assert_eq!(seen.stdout, [notices, notices].concat());
    assert_eq!(seen.stderr.len(), 1);
}

#[test]
fn reconfigure_reads_the_environment_again() {
    let seen = run(name!(), &[], || {
        log_info!(Tdrv, "f", "before");
        // SAFETY: no other thread of this child touches the environment.
        unsafe { std::env::set_var("NEURON_RT_LOG_LEVEL_TDRV", "INFO") };
        log_info!(Tdrv, "f", "not read yet");
        log::reconfigure();
        log_info!(Tdrv, "f", "after");
        log_info!(Nrt, "f", "another module");
        // SAFETY: as above.
        unsafe { std::env::remove_var("NEURON_RT_LOG_LEVEL_TDRV") };
        log::reconfigure();
        log_info!(Tdrv, "f", "off again");
    });
    assert_eq!(seen.stdout.iter().map(|line| parts(line).3).collect::<Vec<_>>(), ["after\n"]);
}

#[test]
fn a_file_takes_the_lines_of_its_module() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nrt.log");
    std::fs::write(&file, "kept\n").unwrap();
    let variables = [("FOLDER", folder.path().to_str().unwrap()), ("NEURON_RT_LOG_LOCATION_TDRV", "nrt.log")];
    let seen = run(name!(), &variables, || {
        std::env::set_current_dir(std::env::var_os("FOLDER").unwrap()).unwrap();
        assert!(log::enabled(Level::Error, Module::Tdrv));
        std::env::set_current_dir("/").unwrap();
        let scope = Scope::enter("nrt_init");
        log_error!(Tdrv, "f", "to the file");
        log_error!(Hal, "f", "gathered");
        drop(scope);
    });
    let text = std::fs::read_to_string(&file).unwrap();
    let (kept, line) = text.split_once('\n').unwrap();
    assert_eq!((kept, parts(line).3), ("kept", "to the file\n"));
    assert_eq!(seen.stderr.len(), 1);
    assert_eq!(parts(&seen.stderr[0]).3, "Generic API Failure\n\tHAL:f gathered\n\n");
}

#[test]
fn a_file_that_cannot_be_opened_is_told_and_the_console_used() {
    let seen = run(name!(), &[("NEURON_RT_LOG_LOCATION", "/no/such/folder/log")], || log_error!(Nrt, "f", "x"));
    assert_eq!(seen.stdout, ["invalid log location setting /no/such/folder/log, default to CONSOLE\n"]);
    assert_eq!(parts(&seen.stderr[0]).3, "x\n");
}

/// A030: a count call that fails below ends with the flush line, which carries what was gathered.
#[test]
fn a030_a_failed_call_ends_with_the_generic_failure_and_its_block() {
    let seen = run(name!(), &[], || {
        let scope = Scope::enter("nrt_get_visible_vnc_count");
        log_error!(Tdrv, "tdrv_get_dev_info", "No neuron device available");
        log_error!(Nrt, "parse_visible_virtual_cores", "Specified core\nnot accessible!");
        drop(scope);
    });
    assert_eq!(seen.stderr.len(), 1, "one write");
    assert_eq!(
        parts(&seen.stderr[0]),
        (
            "ERROR",
            "NLOG",
            "nrt_get_visible_vnc_count",
            "Generic API Failure\n\tTDRV:tdrv_get_dev_info No neuron device available\n\tSpecified core\\nnot accessible!\n\n"
        )
    );
}

/// A030: the call's own error ends the block.
#[test]
fn a030_the_calls_own_error_carries_the_block() {
    let seen = run(name!(), &[], || {
        let scope = Scope::enter("nrt_get_total_vnc_count");
        log_error!(Hal, "f", "deep");
        log_error!(Nrt, "nrt_get_total_vnc_count", "Failed to parse vnc config");
        drop(scope);
        log_error!(Hal, "f", "after the scope");
    });
    assert_eq!(seen.stderr.len(), 2);
    assert_eq!(
        parts(&seen.stderr[0]),
        ("ERROR", "NRT", "nrt_get_total_vnc_count", "Failed to parse vnc config\n\tHAL:f deep\n\n")
    );
    assert_eq!(parts(&seen.stderr[1]), ("ERROR", "HAL", "f", "after the scope\n"));
}

#[test]
fn an_own_error_with_nothing_gathered_is_a_plain_line() {
    let seen = run(name!(), &[], || {
        let _scope = Scope::enter("nrt_load");
        log_error!(Nrt, "nrt_load", "NRT uninitialized");
        log_warn!(Nrt, "nrt_load", "off");
    });
    assert_eq!(seen.stderr.iter().map(|line| parts(line).3).collect::<Vec<_>>(), ["NRT uninitialized\n"]);
}

#[test]
fn without_coalescing_lines_are_printed_one_by_one() {
    let body = || {
        let scope = Scope::enter("nrt_init");
        log_error!(Tdrv, "f", "first");
        log_error!(Nrt, "nrt_init", "second");
        drop(scope);
    };
    let seen = run(name!(), &[("NEURON_RT_LOG_COALESCING_ENABLED", "0")], || {
        body();
        log::set_coalescing(true);
        body();
    });
    assert_eq!(
        seen.stderr.iter().map(|line| parts(line).3).collect::<Vec<_>>(),
        ["first\n", "second\n", "second\n\tTDRV:f first\n\n"]
    );
}

#[test]
fn scopes_nest_end_in_any_order_and_survive_panics_and_threads() {
    let seen = run(name!(), &[], || {
        let outer = Scope::enter("outer");
        let inner = Scope::enter("inner");
        log_error!(Nrt, "inner", "part of outer");
        drop(inner);
        log_error!(Enc, "f", "also");
        drop(outer);

        let first = Scope::enter("first");
        let stale = Scope::enter("stale");
        drop(first);
        let next = Scope::enter("next");
        drop(stale);
        log_error!(Enc, "f", "kept for next");
        drop(next);

        let caught = std::panic::catch_unwind(|| {
            let _scope = Scope::enter("panics");
            log_error!(Enc, "f", "before");
            std::panic::resume_unwind(Box::new(()));
        });
        assert!(caught.is_err());

        std::thread::spawn(|| {
            let scope = Scope::enter("thread");
            log_error!(Enc, "f", "the thread ends inside the call");
            std::mem::forget(scope);
        })
        .join()
        .unwrap();

        let _here = Scope::enter("here");
        std::thread::spawn(|| log_error!(Enc, "f", "another thread has no scope")).join().unwrap();
    });
    let seen: Vec<_> = seen.stderr.iter().map(|line| parts(line)).map(|(_, m, f, text)| (m, f, text)).collect();
    assert_eq!(
        seen,
        [
            ("NLOG", "outer", "Generic API Failure\n\tpart of outer\n\tENC:f also\n\n"),
            ("NLOG", "next", "Generic API Failure\n\tENC:f kept for next\n\n"),
            ("NLOG", "panics", "Generic API Failure\n\tENC:f before\n\n"),
            ("NLOG", "thread", "Generic API Failure\n\tENC:f the thread ends inside the call\n\n"),
            ("ENC", "f", "another thread has no scope\n"),
        ]
    );
}

#[test]
fn an_argument_may_log_itself() {
    struct Chatty;
    impl std::fmt::Display for Chatty {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            log_error!(Enc, "inner", "from inside");
            f.write_str("outside")
        }
    }
    let seen = run(name!(), &[], || {
        let _scope = Scope::enter("api");
        log_error!(Tdrv, "outer", "{}", Chatty);
    });
    assert_eq!(parts(&seen.stderr[0]).3, "Generic API Failure\n\tENC:inner from inside\n\tTDRV:outer outside\n\n");
}

#[test]
fn a_block_is_bounded_and_says_what_it_left_out() {
    let seen = run(name!(), &[], || {
        let _scope = Scope::enter("api");
        for _ in 0..1_000 {
            log_error!(Nrt, "f", "{}", "y".repeat(98));
        }
    });
    assert_eq!(seen.stderr.len(), 1, "one write");
    let block = parts(&seen.stderr[0]).3;
    // 163 lines of 100 bytes fit in 16 KiB.
    assert_eq!(block.lines().filter(|line| line.ends_with('y')).count(), 163);
    assert!(block.ends_with("\n\t(837 more left out)\n\n"));
}

#[test]
fn a_second_cause_is_told() {
    let seen = run(name!(), &[("NEURON_RT_LOG_LEVEL", "warn")], || {
        let scope = Scope::enter("nrt_execute");
        scope.cause(Status::Timeout);
        let inner = Scope::enter("inner");
        inner.cause(Status::Failure);
        drop((inner, scope));
        Scope::enter("nrt_execute").cause(Status::Failure);
    });
    assert_eq!(
        seen.stdout.iter().map(|line| parts(line)).collect::<Vec<_>>(),
        [("WARN", "NLOG", "nrt_execute", "Error cause is already defined as 5\n")]
    );
}

#[test]
fn each_dump_is_printed_once_and_at_once() {
    let variables = [("NEURON_RT_LOG_LEVEL", "info"), ("NEURON_X", "a\u{1b}b"), ("OTHER", "hidden")];
    let seen = run(name!(), &variables, || {
        let facts = Facts::of_this_host();
        dump_success(&facts);
        dump_success(&facts);
        let _scope = Scope::enter("nrt_load");
        log_error!(Tdrv, "f", "gathered");
        dump_failure(&facts, "nrt_load", Status::Invalid);
        dump_failure(&facts, "nrt_load", Status::Invalid);
        dump_success(&facts);
    });
    let count = |lines: &[String], text: &str| lines.iter().filter(|line| parts(line).3.starts_with(text)).count();
    assert_eq!(count(&seen.stdout, "------------->8---"), 1);
    assert_eq!(count(&seen.stdout, "Failure:"), 0);
    assert_eq!(count(&seen.stdout, "    NEURON_X=a\\x1bb\n"), 1);
    assert_eq!(count(&seen.stdout, "    OTHER"), 0);
    assert_eq!(count(&seen.stderr, "------------->8---"), 1);
    assert_eq!(count(&seen.stderr, "Failure: NRT_INVALID in nrt_load()\n"), 1);
    assert_eq!(parts(seen.stderr.last().unwrap()).3, "Generic API Failure\n\tTDRV:f gathered\n\n");
    assert_eq!(parts(&seen.stderr[0]).2, "nrt_infodump");
}

#[test]
fn the_time_is_local_time() {
    // Fixed zone without a zone file: five and a half hours east.
    let before = std::time::SystemTime::now();
    let seen = run(name!(), &[("TZ", "XST-5:30")], || log_error!(Nrt, "f", "x"));
    let after = std::time::SystemTime::now();
    let stamp = &seen.stderr[0][..27];
    let number = |from: usize, to: usize| stamp[from..to].parse::<i32>().unwrap();
    let months = "JanFebMarAprMayJunJulAugSepOctNovDec";
    // SAFETY: all-zero is a valid `tm`.
    let mut parts: libc::tm = unsafe { std::mem::zeroed() };
    parts.tm_year = number(0, 4) - 1900;
    parts.tm_mon = months.find(&stamp[5..8]).unwrap() as i32 / 3;
    parts.tm_mday = number(9, 11);
    parts.tm_hour = number(12, 14);
    parts.tm_min = number(15, 17);
    parts.tm_sec = number(18, 20);
    // SAFETY: the pointer is to a live `tm`.
    let seconds = unsafe { libc::timegm(&mut parts) } - (5 * 60 + 30) * 60;
    let printed = std::time::UNIX_EPOCH
        + std::time::Duration::from_secs(seconds as u64)
        + std::time::Duration::from_micros(number(21, 27) as u64 + 1);
    assert!(before <= printed && printed <= after + std::time::Duration::from_micros(1), "{stamp}");
}

#[test]
fn streams_that_are_closed_broken_or_full_are_borne() {
    let name = name!();
    in_child(name, || {
        let say = || {
            log_error!(Nrt, "f", "x");
            log_warn!(Nrt, "f", "x");
        };
        let (reader, writer) = std::io::pipe().unwrap();
        // Full: nothing reads, and the stream does not wait.
        rustix::io::ioctl_fionbio(&writer, true).unwrap();
        rustix::stdio::dup2_stderr(&writer).unwrap();
        rustix::stdio::dup2_stdout(&writer).unwrap();
        while rustix::io::write(&writer, &[0; 4096]).is_ok() {}
        say();
        // Broken: the reader is gone (the test harness ignores SIGPIPE).
        drop(reader);
        say();
        // SAFETY: this child uses the two numbers for nothing else.
        unsafe {
            libc::close(1);
            libc::close(2);
        }
        say();
    });
    let status = child(name, &[("NEURON_RT_LOG_LEVEL", "warn")]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    assert!(status.unwrap().success());
}

/// The lock of another thread must not be what the child waits for.
#[test]
fn a_child_forked_among_logging_threads_can_log() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("log");
    let variables = [("NEURON_RT_LOG_LOCATION", file.to_str().unwrap()), ("NEURON_RT_LOG_LEVEL", "info")];
    run(name!(), &variables, || {
        static STOP: AtomicBool = AtomicBool::new(false);
        let threads: Vec<_> = (0..4)
            .map(|_| {
                std::thread::spawn(|| {
                    while !STOP.load(Relaxed) {
                        let _scope = Scope::enter("api");
                        log_error!(Tdrv, "f", "gathered");
                        log_info!(Nrt, "f", "parent");
                    }
                })
            })
            .collect();
        // libc's own time lock is the one a logger would most easily leave held in the child.
        let clock = std::thread::spawn(|| {
            while !STOP.load(Relaxed) {
                let mut parts = std::mem::MaybeUninit::<libc::tm>::uninit();
                // SAFETY: both pointers are to live objects.
                unsafe { libc::localtime_r(&0, parts.as_mut_ptr()) };
            }
        });
        log_info!(Nrt, "f", "the parent knows the time zone");
        for _ in 0..200 {
            // SAFETY: the child logs, which is what is tested, and leaves at once.
            match unsafe { libc::fork() } {
                0 => {
                    // SAFETY: no preconditions. The alarm turns a hang into a death by signal.
                    unsafe { libc::alarm(60) };
                    log::reconfigure();
                    let scope = Scope::enter("api");
                    log_error!(Hal, "f", "child");
                    drop(scope);
                    // SAFETY: ends this process.
                    unsafe { libc::_exit(0) }
                }
                pid => {
                    let mut status = -1;
                    // SAFETY: `status` is live.
                    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
                    assert_eq!(status, 0);
                }
            }
        }
        STOP.store(true, Relaxed);
        threads.into_iter().chain([clock]).for_each(|thread| thread.join().unwrap());
    });
    let text = std::fs::read_to_string(&file).unwrap();
    assert_eq!(text.matches("\tHAL:f child\n").count(), 200);
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('\t')) {
        let (level, ..) = parts(line);
        assert!(matches!(level, "ERROR" | "INFO"), "lines do not mix: {line}");
    }
}

#[test]
fn errors_are_red_and_warnings_magenta_on_a_terminal_only() {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let name = name!();
    in_child(name, || {
        let scope = Scope::enter("api");
        log_error!(Tdrv, "f", "block");
        drop(scope);
        log_warn!(Nrt, "f", "odd");
        log_info!(Nrt, "f", "plain");
    });
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let terminal = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
    let open = || std::fs::OpenOptions::new().read(true).write(true).open(&terminal).unwrap();
    let mut command = child(name, &[("NEURON_RT_LOG_LEVEL", "info")]);
    let mut running = command.stdout(open()).stderr(open()).spawn().unwrap();
    drop(command);
    let mut text = Vec::new();
    // A terminal whose last user left answers EIO.
    let _ = std::fs::File::from(master).read_to_end(&mut text);
    assert!(running.wait().unwrap().success());
    let text = String::from_utf8(text).unwrap().replace("\r\n", "\n");
    let lines: Vec<&str> = text.split_once("@@@\n").unwrap().1.lines().collect();
    let [red, block, empty, magenta, plain] = lines.as_slice() else { panic!("{lines:?}") };
    assert!(red.starts_with("\x1b[91m20") && red.ends_with("Generic API Failure"), "{red:?}");
    assert_eq!((*block, *empty), ("\tTDRV:f block\x1b[0m", ""));
    assert!(magenta.starts_with("\x1b[95m20") && magenta.ends_with("odd\x1b[0m"), "{magenta:?}");
    assert!(plain.starts_with("20") && plain.ends_with("plain"), "{plain:?}");
}
