//! Where lines end up: console, file, syslog. Each delivery is one `write(2)` (or one datagram),
//! takes no lock, and loses the line when the other end is not there.

use super::{Level, Module, clock, line, settings::Sinks};
use rustix::{io::Errno, stdio};
use std::{
    fs::{File, OpenOptions},
    io::{self, IsTerminal},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::{fs::OpenOptionsExt, net::UnixDatagram},
    },
    path::Path,
};

/// Text of one syslog record, in bytes, without the prefix syslogd wants.
const SYSLOG_TEXT: usize = 1024;
const SYSLOG_SOCKET: &str = "/dev/log";

/// Send one record to every sink of its module. `block`: the gathered lines it carries, which come
/// after it on console or file, followed by an empty line; syslog had them one by one.
pub(super) fn deliver(level: Level, module: Module, function: &str, message: &str, block: Option<&str>, sinks: Sinks) {
    if level <= sinks.syslog {
        syslog(Path::new(SYSLOG_SOCKET), level, module, function, message);
    }
    if level <= sinks.console {
        let mut record = String::with_capacity(128 + message.len() + block.map_or(0, str::len));
        line::header(&mut record, &clock::now(), std::process::id(), thread_id(), level, module, function);
        record.push_str(message);
        record.push_str(block.unwrap_or_default());
        let end = if block.is_some() { "\n\n" } else { "\n" };
        print(level, record, end, sinks.file);
    }
}

fn thread_id() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()
}

fn print(level: Level, mut record: String, end: &str, file: Option<&Path>) {
    // A file is opened for each line: a descriptor kept open could by the next line belong to
    // somebody else (programs that become daemons close them all), and log rotation needs nothing.
    if let Some(file) = file.and_then(|path| append_to(path).ok()) {
        record.push_str(end);
        return write(file.as_fd(), record.as_bytes());
    }
    // Not std's handles: the first use of its stdout takes a lock.
    let stream = if level == Level::Error { stdio::stderr() } else { stdio::stdout() };
    let colour = match level {
        Level::Error => "\x1b[91m",
        Level::Warn => "\x1b[95m",
        _ => "",
    };
    if !colour.is_empty() && stream.is_terminal() {
        record.insert_str(0, colour);
        record.push_str("\x1b[0m");
    }
    record.push_str(end);
    write(stream, record.as_bytes());
}

/// A plain line on stdout, for what is wrong with the log settings themselves.
pub(super) fn notice(text: &str) {
    write(stdio::stdout(), format!("{text}\n").as_bytes());
}

/// Open a log file. Never waits: a pipe without a reader is an error, not a hang.
pub(super) fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)
}

/// One write of the whole text. Only when the kernel takes part of it (a full pipe, a full disk) is
/// the rest sent after it: another line may come between, but nothing is lost that could be kept.
fn write(stream: BorrowedFd<'_>, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match rustix::io::write(stream, bytes) {
            Ok(0) => return,
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

/// One datagram to the syslog daemon. libc's `syslog` is not used: it holds a lock while it sends,
/// which a forked child may inherit locked, and it waits for a daemon that does not read.
fn syslog(socket: &Path, level: Level, module: Module, function: &str, message: &str) {
    let record = syslog_record(&clock::now(), &program(), std::process::id(), level, module, function, message);
    let Ok(sender) = UnixDatagram::unbound() else { return };
    if sender.set_nonblocking(true).is_ok() {
        // Lost when there is no daemon or its queue is full, as the vendor library's would be.
        let _ = sender.send_to(record.as_bytes(), socket);
    }
}

fn syslog_record(
    at: &clock::Local,
    program: &str,
    pid: u32,
    level: Level,
    module: Module,
    function: &str,
    message: &str,
) -> String {
    let severity = match level {
        Level::Disabled | Level::Error => libc::LOG_ERR,
        Level::Warn => libc::LOG_WARNING,
        Level::Info => libc::LOG_INFO,
        Level::Debug | Level::Trace => libc::LOG_DEBUG,
    };
    let mut text = String::new();
    line::signature(&mut text, level, module, function);
    text.push_str(message);
    line::cut(&mut text, SYSLOG_TEXT);
    let clock::Local { day, hour, minute, second, .. } = at;
    let (priority, month) = (libc::LOG_USER | severity, at.month_name());
    format!("<{priority}>{month} {day:2} {hour:02}:{minute:02}:{second:02} {program}[{pid}]:{text}")
}

/// Name of the running program as syslog shows it.
fn program() -> String {
    let name = std::fs::read("/proc/self/comm").unwrap_or_default();
    line::printable(name.trim_ascii_end(), 16).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clock::Local;

    const AT: Local = Local { year: 2026, month: 3, day: 5, hour: 1, minute: 2, second: 3, micros: 4 };

    #[test]
    fn a_syslog_record_has_priority_time_and_program() {
        for (level, priority) in [(Level::Error, 11), (Level::Warn, 12), (Level::Info, 14), (Level::Debug, 15)] {
            let record = syslog_record(&AT, "train", 77, level, Module::Nrt, "nrt_init", "hello");
            let expected = format!(
                "<{priority}>Mar  5 01:02:03 train[77]: {:>5}   NRT:nrt_init                                hello",
                level.name()
            );
            assert_eq!(record, expected);
        }
    }

    #[test]
    fn a_syslog_text_is_cut_at_1024_bytes_between_characters() {
        let record = syslog_record(&AT, "p", 1, Level::Error, Module::Nrt, "f", &"é".repeat(2000));
        let text = &record[record.find("]:").unwrap() + 2..];
        assert!(text.len() <= SYSLOG_TEXT && text.len() > SYSLOG_TEXT - 2, "{}", text.len());
        assert!(text.ends_with('é'));
    }

    #[test]
    fn a_record_is_one_datagram_and_a_missing_daemon_is_borne() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        syslog(&path, Level::Error, Module::Nrt, "f", "nobody listens");
        let daemon = UnixDatagram::bind(&path).unwrap();
        syslog(&path, Level::Error, Module::Nrt, "f", "first");
        syslog(&path, Level::Info, Module::Hal, "g", "second");
        let mut buffer = [0; 4096];
        for text in ["first", "second"] {
            let length = daemon.recv(&mut buffer).unwrap();
            let record = String::from_utf8_lossy(&buffer[..length]).into_owned();
            assert!(record.ends_with(text) && record.contains(&format!("[{}]:", std::process::id())), "{record}");
        }
        daemon.set_nonblocking(true).unwrap();
        assert_eq!(daemon.recv(&mut buffer).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn a_daemon_that_does_not_read_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let _daemon = UnixDatagram::bind(&path).unwrap();
        for _ in 0..2_000 {
            syslog(&path, Level::Error, Module::Nrt, "f", "x");
        }
    }

    #[test]
    fn a_pipe_without_a_reader_is_no_log_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        assert_eq!(append_to(&path).unwrap_err().raw_os_error(), Some(libc::ENXIO));
    }
}
