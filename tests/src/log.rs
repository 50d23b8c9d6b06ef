//! What a server says while it runs.

use std::{
    io::{BufRead, BufReader, PipeReader},
    thread,
};

use crate::wait::Board;

/// The output of a server.
pub(crate) struct Log(Board<Output>);

#[derive(Debug, Default)]
struct Output {
    text: String,
    ended: bool,
}

impl Log {
    /// Reads `output` to its end in a thread, because a server with a full pipe would hang.
    pub(crate) fn follow(output: PipeReader) -> Self {
        let log = Board::new(Output::default());
        let writer = log.clone();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                writer.update(|log| {
                    log.text.push_str(&line);
                    log.text.push('\n');
                });
            }
            writer.update(|log| log.ended = true);
        });
        Self(log)
    }

    /// Blocks until the server says `ready`. If it ends instead: what it said.
    pub(crate) fn wait_ready(&self, server: &str, ready: &str) -> Result<(), String> {
        self.0.wait(&format!("{server} to start"), |log| {
            if log.text.contains(ready) {
                Some(Ok(()))
            } else if log.ended {
                Some(Err(log.text.clone()))
            } else {
                None
            }
        })
    }
}
