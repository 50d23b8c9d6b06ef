//! The program `redlock`: runs a command under a lock, and shows, checks and frees the locks of a fleet.

mod args;
mod doctor;
mod exit_code;
mod look;
mod output;
#[cfg(unix)]
mod run;
mod survey;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use self::{
    args::{Args, Command},
    exit_code::Failure,
};

fn main() -> ExitCode {
    #[cfg(unix)]
    if let Some(code) = run::guardian::main() {
        return code;
    }
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() {
                exit_code::USAGE
            } else {
                0
            });
        }
    };
    ExitCode::from(exit_code::code(carry_out(args)))
}

fn carry_out(args: Args) -> Result<u8, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| Failure(exit_code::INTERNAL, error.to_string()))?;
    let Args { servers, command } = args;
    runtime.block_on(async move {
        match command {
            Command::Status => look::status(&servers).await,
            Command::Inspect { key } => look::inspect(&servers, &key).await,
            Command::Break { key, yes } => look::break_key(&servers, &key, yes).await,
            Command::Doctor { strict } => doctor::doctor(&servers, strict).await,
            #[cfg(unix)]
            Command::Run(options) => run::run(&servers, *options).await,
            Command::Completions { shell } => {
                let mut script = Vec::new();
                clap_complete::generate(shell, &mut Args::command(), "redlock", &mut script);
                output::write(&script);
                Ok(0)
            }
        }
    })
}
