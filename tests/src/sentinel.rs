//! One real Redis Sentinel.

use std::{
    env,
    ffi::OsString,
    fs, io,
    process::{Command, Stdio},
};

use tempfile::TempDir;

use crate::{Port, log::Log, process::Process};

/// A `redis-server --sentinel` on a loopback port, which watches no server. It dies on drop and with the
/// test process.
#[derive(Debug)]
pub struct Sentinel {
    port: Port,
    _process: Process,
    _files: TempDir,
}

impl Sentinel {
    /// Starts it and waits until it serves.
    ///
    /// # Panics
    /// If it ends before that.
    #[must_use]
    pub fn start() -> Self {
        let port = Port::reserve();
        let files = tempfile::tempdir().expect("a folder can be made");
        // It writes its state into its configuration, so it needs one.
        let config = files.path().join("sentinel.conf");
        let text = format!("port {}\nbind 127.0.0.1\n", port.number());
        fs::write(&config, text).expect("a file can be written");
        let (output, input) = io::pipe().expect("a pipe can be made");
        let program = env::var_os("REDIS_SERVER").unwrap_or_else(|| OsString::from("redis-server"));
        let mut command = Command::new(program);
        command
            .arg(config)
            .arg("--sentinel")
            .current_dir(files.path())
            .stdin(Stdio::null())
            .stdout(input.try_clone().expect("a pipe can be cloned"))
            .stderr(input);
        let process = Process::spawn(&mut command);
        // It holds the writing ends; the log must end with the process.
        drop(command);
        if let Err(log) = Log::follow(output).wait_ready("redis-server", "Sentinel ID is") {
            panic!("{log}");
        }
        Self {
            port,
            _process: process,
            _files: files,
        }
    }

    /// `redis://127.0.0.1:port`
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port.number())
    }
}
