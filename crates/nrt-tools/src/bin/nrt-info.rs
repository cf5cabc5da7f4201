//! `nrt-info`: what a program linked against this library would find on this machine.

use clap::Parser;
use nrt_tools::info::{self, Failure};
use std::{
    io::{ErrorKind, Write},
    process::ExitCode,
};

/// Show the Neuron instance as a program linked against libnrt would find it.
///
/// The first line names the backend: a real driver's device files, or an instance simulated
/// inside the process. Nothing is opened or reserved.
#[derive(Parser)]
#[command(
    name = "nrt-info",
    version,
    after_help = "Variables:\n  \
    NEURON_RT_FAKE_INSTANCE_TYPE   simulate this instance, for example trn2.48xlarge\n  \
    NEURON_LOGICAL_NC_CONFIG       physical cores per logical core\n  \
    NEURON_RT_VISIBLE_CORES        logical cores to use, for example 0-3,8\n  \
    NEURON_RT_NUM_CORES            number of logical cores to use\n  \
    OPENNRT_DEV_DIR                where the device files are (default /dev)\n  \
    OPENNRT_SYS_DIR                where sysfs is (default /sys)\n  \
    OPENNRT_HBM_MIB                memory of a simulated device in MiB\n\n\
    Exit status: 0 when there is something to show, 1 when there is no device or a variable\n\
    has a value that cannot be used, 2 for wrong arguments."
)]
struct Args {
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// List every configuration variable and its value instead
    #[arg(long)]
    config: bool,
    /// List the PCI ids of the kernel driver and the matching devices of this host instead
    #[arg(long, conflicts_with = "config")]
    pci: bool,
}

/// Print `text`; a reader that has gone away is not an error.
fn print(text: &str) -> ExitCode {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => fail(&format!("cannot write to standard output: {e}")),
        _ => ExitCode::SUCCESS,
    }
}

fn print_json(value: &impl serde::Serialize) -> ExitCode {
    match serde_json::to_string_pretty(value) {
        Ok(json) => print(&(json + "\n")),
        Err(e) => fail(&format!("cannot write the report as JSON: {e}")),
    }
}

fn fail(sentence: &str) -> ExitCode {
    // Standard error is the last resort: when it is closed there is nobody left to tell.
    let _ = writeln!(std::io::stderr(), "nrt-info: {sentence}");
    ExitCode::FAILURE
}

fn main() -> ExitCode {
    let args = Args::parse();
    if args.config {
        return info::config::run(args.json);
    }
    if args.pci {
        return match info::pci::gather() {
            Ok(listing) if args.json => print_json(&listing),
            Ok(listing) => print(&info::pci::render(&listing)),
            Err(sentence) => fail(&sentence),
        };
    }
    match info::gather() {
        Ok(report) if args.json => print_json(&report),
        Ok(report) => print(&info::text::render(&report)),
        Err(Failure::Sentence(sentence)) => fail(&sentence),
        Err(Failure::Logged(_)) => ExitCode::FAILURE,
    }
}
