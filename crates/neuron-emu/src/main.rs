//! `neuron-emu`: an emulated Neuron instance for unmodified programs.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
