//! Instances and clients for the tests: real processes on real device files.

// Every test binary uses its own part of this.
#![allow(dead_code)]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::sync::OnceLock;

use serde_json::Value;

/// The program.
pub const EMU: &str = env!("CARGO_BIN_EXE_neuron-emu");

/// Whether device files can be emulated here. When not, the test says so and must return; under
/// `CI=true` that is a failure.
pub fn can_emulate(test: &str) -> bool {
    let fuse = fs::OpenOptions::new().read(true).write(true).open("/dev/fuse");
    // SAFETY: no arguments, cannot fail.
    let root = unsafe { libc::geteuid() } == 0;
    let reason = match (fuse, root) {
        (Ok(_), true) => return true,
        (Err(e), _) => format!("/dev/fuse cannot be opened: {e}"),
        (_, false) => "this is not root".to_owned(),
    };
    skip(test, &reason);
    false
}

/// Says why a test does not run; in CI that is a failure.
pub fn skip(test: &str, reason: &str) {
    assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "{test} must run in CI, but {reason}");
    println!("{test} is skipped: {reason}");
}

/// Compiles the raw client.
pub fn raw_client() -> &'static Path {
    static CLIENT: OnceLock<PathBuf> = OnceLock::new();
    CLIENT.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/c/raw_ioctl.c");
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
        // Several test binaries may compile at the same time; each replaces the result whole.
        let (target, fresh) = (dir.join("raw_ioctl"), dir.join(format!("raw_ioctl-{}", std::process::id())));
        let mut gcc = Command::new("gcc");
        gcc.args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-pedantic", "-Werror", "-D_GNU_SOURCE", "-pthread", "-o"]);
        must_succeed(gcc.arg(&fresh).arg(source));
        fs::rename(fresh, &target).expect("the folder is ours");
        target
    })
}

/// Runs to the end; the test fails with the whole output when the exit status is not 0.
pub fn must_succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?} cannot be started: {e}"));
    assert!(output.status.success(), "{command:?} ended with {}\n{}", output.status, text(&output));
    output
}

/// Both streams of a finished program.
pub fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// An instance that is served for the time of a test.
pub struct Emu {
    pub process: Child,
    pub root: PathBuf,
    _dir: tempfile::TempDir,
}

impl Emu {
    /// Serves an instance; returns when it says that it is ready.
    pub fn serve(instance: &str, options: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder can be made");
        let root = dir.path().join("instance");
        let mut process = Command::new(EMU)
            .args(["serve", "--instance", instance, "--root"])
            .arg(&root)
            .args(options)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program is built");
        let mut line = String::new();
        BufReader::new(process.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        assert!(line.starts_with("ready: "), "{line:?}");
        let emu = Self { process, root, _dir: dir };
        // A fault that comes before the first reset is through would meet that one.
        emu.until("the first resets are through", |status| {
            status["devices"].as_array().is_some_and(|devices| devices.iter().all(|d| d["state"] != "RESET"))
        });
        emu
    }

    /// Asks the control socket.
    pub fn ctl(&self, words: &[&str]) -> Output {
        Command::new(EMU).arg("ctl").arg("--root").arg(&self.root).args(words).output().expect("the program is built")
    }

    /// What is published, and who uses it.
    pub fn status(&self) -> Value {
        let output = self.ctl(&["status"]);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", text(&output)))
    }

    /// Gives a fault.
    pub fn fault(&self, fault: &str) {
        let output = self.ctl(&["fault", fault]);
        assert!(output.status.success(), "{}", text(&output));
    }

    /// A file of the published sysfs.
    pub fn sys(&self, path: &str) -> PathBuf {
        self.root.join("sys").join(path)
    }

    /// A new client process.
    pub fn client(&self) -> Client {
        Client::start(Command::new(raw_client()), self.root.join("dev"))
    }

    /// Waits until a condition holds. There is no event for what other processes see; a condition
    /// that never holds ends the test run by its own limit.
    pub fn until(&self, what: &str, condition: impl Fn(&Value) -> bool) {
        for _ in 0..3000 {
            if condition(&self.status()) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("never: {what}; {:#}", self.status());
    }

    /// Ends it with a signal; returns the exit status.
    pub fn end(&mut self, signal: i32) -> std::process::ExitStatus {
        kill(self.process.id(), signal);
        self.process.wait().expect("our child")
    }
}

impl Drop for Emu {
    fn drop(&mut self) {
        if matches!(self.process.try_wait(), Ok(None)) {
            self.end(libc::SIGTERM);
        }
        // A test that fails while the mount is dead must not leave it.
        let _ = Command::new("umount").arg("-lq").arg(&self.root).stderr(Stdio::null()).status();
    }
}

/// Sends a signal to a process.
pub fn kill(pid: u32, signal: i32) {
    // SAFETY: plain system call on a process this test started.
    assert_eq!(unsafe { libc::kill(pid as i32, signal) }, 0, "signal {signal} to {pid}");
}

/// Answer of an `ioctl`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Called {
    pub ret: i64,
    pub errno: i32,
    pub bytes: Vec<u8>,
}

/// A client process.
pub struct Client {
    pub process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    dev: PathBuf,
}

impl Client {
    /// Starts one; nodes are looked for in `dev`.
    pub fn start(mut program: Command, dev: PathBuf) -> Self {
        let mut process =
            program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the client can be started");
        let input = process.stdin.take().expect("piped");
        let output = BufReader::new(process.stdout.take().expect("piped"));
        Self { process, input, output, dev }
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Sends a command without waiting.
    pub fn send(&mut self, command: &str) {
        writeln!(self.input, "{command}").expect("the client reads");
    }

    /// Waits for an answer.
    pub fn receive(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("the client answers");
        line.trim_end().to_owned()
    }

    /// Whether an answer is there or the client has ended, within some milliseconds.
    pub fn answers_within(&self, milliseconds: i32) -> bool {
        let mut fd = libc::pollfd { fd: self.output.get_ref().as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid entry.
        unsafe { libc::poll(&mut fd, 1, milliseconds) == 1 }
    }

    /// Sends a command and waits for its answer.
    pub fn ask(&mut self, command: &str) -> String {
        self.send(command);
        self.receive()
    }

    /// Command that opens a device.
    pub fn open_command(&self, name: char, flags: i32, device: u32) -> String {
        format!("open {name} {flags} {}/neuron{device}", self.dev.display())
    }

    /// Opens a device.
    pub fn open(&mut self, name: char, flags: i32, device: u32) -> String {
        let command = self.open_command(name, flags, device);
        self.ask(&command)
    }

    /// Reads the answer of an `ioctl`.
    pub fn called(&mut self) -> Called {
        let answer = self.receive();
        called(&answer)
    }

    /// Calls with a buffer of these bytes.
    pub fn ioctl(&mut self, name: char, cmd: u32, bytes: &[u8]) -> Called {
        let answer = self.ask(&format!("ioctl {name} {cmd:#x} {}", hex(bytes)));
        called(&answer)
    }

    /// Waits for the end; returns the signal that ended it.
    pub fn ended_by(&mut self) -> Option<i32> {
        self.process.wait().expect("our child").signal()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Parses the answer of an `ioctl`.
pub fn called(answer: &str) -> Called {
    let mut words = answer.split(' ');
    let mut number = || words.next().and_then(|w| w.parse::<i64>().ok()).unwrap_or_else(|| panic!("{answer:?}"));
    let (ret, errno) = (number(), number() as i32);
    Called { ret, errno, bytes: unhex(words.next().unwrap_or_default()) }
}

/// Bytes as hex.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Hex as bytes.
pub fn unhex(text: &str) -> Vec<u8> {
    text.as_bytes().chunks(2).filter_map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

/// Processes that run a program with this word in their arguments.
pub fn processes_with(word: &str) -> Vec<u32> {
    let numbers = fs::read_dir("/proc").expect("/proc").flatten();
    let numbers = numbers.filter_map(|e| e.file_name().to_string_lossy().parse::<u32>().ok());
    numbers
        .filter(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let zombie = stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z'));
            !zombie && line.split(|b| *b == 0).any(|w| w == word.as_bytes())
        })
        .collect()
}

/// Mounts of this program that this process can see.
pub fn mounts() -> Vec<String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("/proc");
    mounts.lines().filter(|line| line.contains("neuron-emu")).map(str::to_owned).collect()
}
