//! The command line.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use neuron_emu::faults::{self, Order};
use neuron_emu::machine::Wanted;
use neuron_emu::vfio::{self, Devices};
use neuron_emu::{control, keeper, namespace, replay, run, serve};
use neuron_kmd::Profile;
use serde_json::{Value, json};

/// An emulated Neuron instance for unmodified programs.
#[derive(Parser)]
#[command(name = "neuron-emu", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a program on an instance of its own; nothing is left behind when it ends
    #[command(after_help = help_of_faults(
        "Exit status: that of the program, 128+N when signal N ended it, 127 when it does not exist,\n\
         126 when it cannot be run, 125 when there is no instance.\n\
         Processes it leaves running are killed.\n\
         Control: neuron-emu ctl inside, neuron-emu ctl --root /proc/PID/root/dev/.neuron-emu outside,\n\
         with the process id of neuron-emu or of anything it runs."
    ))]
    Run {
        #[command(flatten)]
        instance: Instance,
        /// Program and arguments, after --
        #[arg(last = true, required = true, value_name = "CMD")]
        cmd: Vec<OsString>,
    },
    /// Publish an instance for any number of programs, until SIGTERM or SIGINT
    #[command(after_help = help_of_faults(
        "Programs find it with OPENNRT_DEV_DIR=DIR/dev OPENNRT_SYS_DIR=DIR/sys."
    ))]
    Serve {
        #[command(flatten)]
        instance: Instance,
        /// Directory to publish in: empty, or not there yet
        #[arg(long, value_name = "DIR")]
        root: PathBuf,
        /// End also when standard input closes: give a pipe, and the instance cannot outlive its other end
        #[arg(long)]
        until_stdin_closes: bool,
    },
    /// Serve the PCI devices alone to virtual machines, one socket each, until SIGTERM or SIGINT
    #[command(after_help = help_of_faults(
        "The sockets are DIR/neuron0.sock and so on, for vfio-user-pci of QEMU 10.1 or later.\n\
         The driver is the machine's own; see docs/vm.md."
    ))]
    VfioUser {
        #[command(flatten)]
        product: Product,
        /// Directory for the sockets; made when it is not there yet
        #[arg(long, value_name = "DIR")]
        socket_dir: PathBuf,
    },
    /// Ask or change a published instance; answers are JSON
    #[command(after_help = help_of_faults(""))]
    Ctl {
        /// The DIR of a serve; inside a run it is not needed
        #[arg(long, value_name = "DIR", default_value = namespace::ROOT)]
        root: PathBuf,
        #[command(subcommand)]
        ask: Ask,
    },
    /// Replay transcripts of the real driver against the model
    #[command(after_help = "A line per transcript: ok or differs, path, matched/total, first difference.\n\
        Differences listed in known-differences.tsv beside the recordings are counted and forgiven.\n\
        Exit status: 0 when all match, 1 when one differs, 2 when an input cannot be used.")]
    Replay {
        /// Transcripts (.json), archives of them (.tar.gz), or folders
        #[arg(required = true, value_name = "PATH")]
        paths: Vec<PathBuf>,
    },
}

#[derive(Subcommand)]
enum Ask {
    /// What is published, and who uses it
    Status,
    /// Give a fault to devices, or take it back
    Fault {
        /// KIND[:ARGS][@DEVICES]
        #[arg(value_name = "FAULT")]
        fault: String,
    },
    /// What the devices saw since the last time
    Trace,
    /// The driver's lines about resets
    ResetLog,
}

#[derive(Args)]
struct Product {
    /// Instance type, such as trn1.32xlarge
    #[arg(long, value_name = "TYPE")]
    instance: String,
    /// Memory of one device in GiB [default: OPENNRT_HBM_MIB, or what the product has]
    #[arg(long, value_name = "N")]
    hbm_gib: Option<u32>,
    /// Fault from the start; may be given more than once
    #[arg(long, value_name = "KIND[:ARGS][@DEVICES]")]
    fault: Vec<Order>,
}

#[derive(Args)]
struct Instance {
    #[command(flatten)]
    product: Product,
    /// Driver release: 2.24.7, 2.26.5 or 2.27.4
    #[arg(long, value_name = "VERSION", default_value = "2.27.4")]
    driver: Profile,
    /// Parameter of the kernel module; may be given more than once
    #[arg(long, value_name = "NAME=VALUE")]
    param: Vec<String>,
}

fn help_of_faults(before: &str) -> String {
    format!("{before}\n\n{}", faults::help()).trim().to_owned()
}

impl Product {
    fn devices(self) -> Result<Devices, String> {
        let hbm_mib = match (self.hbm_gib, std::env::var("OPENNRT_HBM_MIB")) {
            (Some(gib), _) => Some(gib.saturating_mul(1024)),
            (None, Ok(text)) if !text.is_empty() => Some(text.parse().map_err(|_| {
                let text: String = text.chars().take(40).collect();
                format!("OPENNRT_HBM_MIB is {text:?}, which is not a number; set it to MiB per device or unset it")
            })?),
            _ => None,
        };
        Ok(Devices { instance: self.instance, hbm_mib, faults: self.fault })
    }
}

impl Instance {
    fn wanted(self) -> Result<Wanted, String> {
        let Devices { instance, hbm_mib, faults } = self.product.devices()?;
        Ok(Wanted { instance, driver: self.driver, hbm_mib, faults, params: self.param.join(" ") })
    }
}

fn fail(status: u8, sentence: &dyn std::fmt::Display) -> ExitCode {
    // Standard error is the last resort: when it is closed there is nobody left to tell.
    let _ = writeln!(io::stderr(), "neuron-emu: {sentence}");
    ExitCode::from(status)
}

/// Ends with the status of a command that printed; a reader that has gone away is not an error.
fn printed(result: io::Result<u8>) -> ExitCode {
    match result {
        Ok(status) => ExitCode::from(status),
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(e) => fail(1, &format!("cannot write to standard output: {e}; check where it goes")),
    }
}

fn show(ask: &Ask, answer: &Value) -> io::Result<u8> {
    let mut out = io::stdout().lock();
    let list = match ask {
        Ask::ResetLog => answer["lines"].as_array(),
        Ask::Trace => answer["devices"].as_array(),
        Ask::Status | Ask::Fault { .. } => None,
    };
    match list {
        Some(list) => list.iter().try_for_each(|line| writeln!(out, "{line}"))?,
        None => writeln!(out, "{answer:#}")?,
    }
    Ok(0)
}

/// Runs the program.
pub fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Replay { paths } => printed(replay::run(&paths, &mut io::stdout().lock(), &mut io::stderr())),
        Command::Run { instance, cmd } => match instance.wanted() {
            Err(sentence) => fail(keeper::OWN_FAILURE, &sentence),
            Ok(wanted) => match run::run(wanted, &cmd) {
                Ok(status) => ExitCode::from(status),
                Err(error) => fail(keeper::OWN_FAILURE, &error),
            },
        },
        Command::Serve { instance, root, until_stdin_closes } => match instance.wanted() {
            Err(sentence) => fail(1, &sentence),
            Ok(wanted) => match serve::serve(wanted, &root, until_stdin_closes.then(io::stdin), &mut io::stdout()) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => fail(1, &error),
            },
        },
        Command::VfioUser { product, socket_dir } => match product.devices() {
            Err(sentence) => fail(1, &sentence),
            Ok(wanted) => match vfio::serve(&wanted, &socket_dir, &mut io::stdout()) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => fail(1, &error),
            },
        },
        Command::Ctl { root, ask } => {
            let request = match &ask {
                Ask::Status => json!({ "command": "status" }),
                Ask::Fault { fault } => json!({ "command": "fault", "fault": fault }),
                Ask::Trace => json!({ "command": "trace" }),
                Ask::ResetLog => json!({ "command": "reset-log" }),
            };
            match control::request(&root, &request) {
                Ok(answer) => printed(show(&ask, &answer)),
                Err(sentence) => fail(1, &sentence),
            }
        }
    }
}
