//! A C program that uses the library and does what a test says (`tests/c/client.c`).

// Every test binary uses its own part of this.
#![allow(dead_code)]

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

/// One process with the library.
pub struct Client {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    log: tempfile::NamedTempFile,
    /// Lines it has written between its answers: INFO and DEBUG go to standard output.
    said: String,
}

impl Client {
    /// Starts a program, as `command` has prepared it.
    pub fn start(mut command: Command) -> Client {
        let log = tempfile::NamedTempFile::new().expect("a temporary file can be made");
        let stderr = log.reopen().expect("it was just made");
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .unwrap_or_else(|e| panic!("{command:?} cannot be started: {e}"));
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        Client { child, input, output, log, said: String::new() }
    }

    /// Sends a line, without waiting for the answer.
    pub fn send(&mut self, line: &str) {
        let input = self.input.as_mut().expect("not ended");
        writeln!(input, "{line}").and_then(|()| input.flush()).expect("the program reads");
    }

    /// The next answer.
    pub fn answer(&mut self) -> String {
        loop {
            let mut line = String::new();
            self.output.read_line(&mut line).expect("the program answers in text");
            assert!(line.ends_with('\n'), "the program ended early: {}", self.log());
            if let Some(answer) = line.strip_prefix("= ") {
                return answer.trim_end().to_owned();
            }
            self.said.push_str(&line);
        }
    }

    /// Sends a line; the answer to it.
    pub fn ask(&mut self, line: &str) -> String {
        self.send(line);
        self.answer()
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has written to standard error, and, up to its last answer, to standard output.
    pub fn log(&self) -> String {
        format!("{}{}", self.said, read(self.log.path()))
    }

    /// Lets it end by itself; its exit status and log.
    pub fn end(mut self) -> (Option<i32>, String) {
        self.input = None;
        let status = self.wait();
        (status.code(), self.log())
    }

    /// Waits until the process is gone. Its children keep what they share with it.
    pub fn wait(&mut self) -> ExitStatus {
        self.child.wait().expect("a child can be waited for")
    }

    /// Ends it at once, as `kill -9` does, and waits until it is gone; what it had still written.
    pub fn kill(mut self) -> String {
        self.child.kill().expect("a child can be killed");
        self.wait();
        let mut rest = Vec::new();
        self.output.read_to_end(&mut rest).expect("a pipe can be read");
        String::from_utf8_lossy(&rest).into_owned()
    }
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).expect("it is there")).into_owned()
}

impl Drop for Client {
    fn drop(&mut self) {
        // Of a test that failed; one that ended is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
