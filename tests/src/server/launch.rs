//! From the settings of a server to a process that serves.

use std::{
    env,
    ffi::OsString,
    io::{self, BufRead, BufReader, PipeReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
};

use super::{ServerBuilder, history::History, link::Link};
use crate::{process::Process, wait::Board};

/// One life of a server, from start to kill.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) process: Process,
    pub(super) run_id: String,
    pub(super) history: History,
    log: Board<Log>,
}

impl Running {
    /// Starts the process and returns when it serves, or else its log.
    pub(super) fn launch(
        builder: &ServerBuilder,
        port: u16,
        dir: &Path,
        link: &Link,
    ) -> Result<Self, String> {
        let (output, input) = io::pipe().expect("a pipe can be made");
        let mut command = command(builder, port, dir);
        command
            .stdin(Stdio::null())
            .stdout(input.try_clone().expect("a pipe can be cloned"))
            .stderr(input);
        let process = Process::spawn(&mut command);
        // It holds the writing ends; the log must end with the process.
        drop(command);
        let log = follow(output);
        log.wait("redis-server to start", |log| log.verdict())?;

        let info: String = link
            .query(&["INFO", "server"])
            .map_err(|error| error.to_string())?;
        let field = |name| info.lines().find_map(|line| line.strip_prefix(name));
        let serving = field("process_id:");
        assert_eq!(
            serving,
            Some(process.id().to_string().as_str()),
            "another Redis answers at port {port}"
        );
        Ok(Self {
            process,
            run_id: field("run_id:").expect("INFO has a run id").to_owned(),
            history: History::record(link),
            log,
        })
    }

    pub(super) fn log(&self) -> String {
        self.log.read(|log| log.text.clone())
    }
}

/// Where the server listens apart from its port.
pub(super) fn socket(dir: &Path) -> PathBuf {
    dir.join("redis.sock")
}

pub(super) fn is_port_taken(log: &str) -> bool {
    log.contains("Address already in use")
}

fn command(builder: &ServerBuilder, port: u16, dir: &Path) -> Command {
    let program = env::var_os("REDIS_SERVER").unwrap_or_else(|| OsString::from("redis-server"));
    let mut command = Command::new(program);
    command
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
        .arg("--unixsocket")
        .arg(socket(dir))
        .arg("--dir")
        .arg(dir)
        .args(["--save", "", "--appendonly", "no"])
        .args(["--daemonize", "no", "--loglevel", "notice"])
        .args(["--notify-keyspace-events", "EA"]);
    if let Some(password) = &builder.password {
        command.args(["--requirepass", password]);
    }
    command.args(&builder.args);
    command
}

#[derive(Debug, Default)]
struct Log {
    text: String,
    ended: bool,
}

impl Log {
    /// `Ok` when the server serves, `Err` with what it said when it has ended instead.
    fn verdict(&self) -> Option<Result<(), String>> {
        if self.text.contains("Ready to accept connections") {
            Some(Ok(()))
        } else if self.ended {
            Some(Err(self.text.clone()))
        } else {
            None
        }
    }
}

/// Reads `output` to its end in a thread, because a server with a full pipe would hang.
fn follow(output: PipeReader) -> Board<Log> {
    let log = Board::new(Log::default());
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
    log
}
