//! What a server says while it starts.

use std::{
    io::{self, BufRead, BufReader},
    process::{Command, Stdio},
    thread,
};

use crate::{process::Process, wait::Board};

#[derive(Debug, Default)]
struct Output {
    text: String,
    ended: bool,
}

/// Starts a server, and returns when it says `ready`. If it ends instead: what it said.
pub(crate) fn start(mut command: Command, server: &str, ready: &str) -> Result<Process, String> {
    let (output, input) = io::pipe().expect("a pipe can be made");
    command
        .stdin(Stdio::null())
        .stdout(input.try_clone().expect("a pipe can be cloned"))
        .stderr(input);
    let process = Process::spawn(&mut command);
    // It holds the writing ends; the log must end with the process.
    drop(command);
    let log = Board::new(Output::default());
    let writer = log.clone();
    // To the end, because a server with a full pipe would hang.
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            writer.update(|log| {
                log.text.push_str(&line);
                log.text.push('\n');
            });
        }
        writer.update(|log| log.ended = true);
    });
    log.wait(&format!("{server} to start"), |log| {
        if log.text.contains(ready) {
            Some(Ok(()))
        } else if log.ended {
            Some(Err(log.text.clone()))
        } else {
            None
        }
    })?;
    Ok(process)
}
