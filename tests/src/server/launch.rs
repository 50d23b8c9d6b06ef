//! From the settings of a server to a process that serves.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
    process::Command,
};

use super::{
    Clock, ServerBuilder,
    history::History,
    link::{self, Link},
};
use crate::{log, process::Process};

/// One life of a server, from start to kill.
pub(super) struct Running {
    pub(super) process: Process,
    pub(super) run_id: String,
    pub(super) history: History,
}

impl Running {
    /// Starts the process and returns when it serves, or else its log.
    pub(super) fn launch(
        builder: &ServerBuilder,
        port: u16,
        dir: &Path,
        clock: Option<&Clock>,
        link: &Link,
    ) -> Result<Self, String> {
        let mut command = command(builder, port, dir);
        if let Some(clock) = clock {
            clock.rule(&mut command);
        }
        let process = log::start(command, "redis-server", "Ready to accept connections")?;

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
        })
    }
}

/// Where the server listens apart from its port.
pub(super) fn socket(dir: &Path) -> PathBuf {
    dir.join("redis.sock")
}

pub(super) fn is_port_taken(log: &str) -> bool {
    log.contains("Address already in use")
}

/// Who may do what [`rights`] says.
pub(super) const USER: &str = "restricted";

/// The rules of a user as whom the tests of a run lock.
pub(super) fn rights() -> Option<String> {
    env::var("REDLOCK_TEST_RIGHTS").ok()
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
    if let Some(rights) = rights() {
        command.args(["--user", USER, "on", "nopass"]);
        command.args(rights.split_whitespace());
    }
    for hidden in &builder.hidden {
        command.args(["--rename-command", hidden, &link::secret(hidden)]);
    }
    command.args(&builder.args);
    command
}
