//! One real Redis Sentinel.

use std::{collections::BTreeMap, env, ffi::OsString, fs, process::Command};

use tempfile::TempDir;

use crate::{Port, Server, log, process::Process};

/// A `redis-server --sentinel` on a loopback port. It dies on drop and with the test process.
#[must_use]
pub struct Sentinel {
    port: Port,
    _process: Process,
    _files: TempDir,
}

impl Sentinel {
    /// One that watches no server. Waits until it serves.
    ///
    /// # Panics
    /// If it ends before that.
    pub fn start() -> Self {
        Self::start_with("")
    }

    /// Three that watch `master` by this name, and put a replica in its place after half a second in which
    /// it does not answer.
    ///
    /// # Panics
    /// If one of them ends before it serves.
    pub fn three_for(name: &str, master: &Server) -> [Self; 3] {
        let settings = settings(name, master.port());
        [(); 3].map(|()| Self::start_with(&settings))
    }

    /// The same over TLS alone, of the server with this port, by settings that name the certificates.
    ///
    /// # Panics
    /// If one of them ends before it serves.
    pub fn three_over_tls(name: &str, master: u16, tls: &str) -> [Self; 3] {
        let settings = format!("{}{tls}tls-replication yes\n", settings(name, master));
        [(); 3].map(|()| Self::start_on("port 0\ntls-port", &settings))
    }

    fn start_with(settings: &str) -> Self {
        Self::start_on("port", settings)
    }

    fn start_on(port_setting: &str, settings: &str) -> Self {
        let port = Port::reserve();
        let files = tempfile::tempdir().expect("a folder can be made");
        // It writes its state into its configuration, so it needs one.
        let config = files.path().join("sentinel.conf");
        let text = format!(
            "{port_setting} {}\nbind 127.0.0.1\n{settings}",
            port.number()
        );
        fs::write(&config, text).expect("a file can be written");
        let program = env::var_os("REDIS_SERVER").unwrap_or_else(|| OsString::from("redis-server"));
        let mut command = Command::new(program);
        command.arg(config).arg("--sentinel");
        command.current_dir(files.path());
        let process = log::start(command, "redis-server", "Sentinel ID is");
        Self {
            port,
            _process: process.unwrap_or_else(|log| panic!("{log}")),
            _files: files,
        }
    }

    /// Its port.
    pub const fn port(&self) -> u16 {
        self.port.number()
    }

    /// A field of what it says of a master that it watches.
    ///
    /// # Panics
    /// If it does not answer.
    pub fn field(&self, name: &str, field: &str) -> String {
        let client = redis::Client::open(self.url()).expect("the URL is valid");
        let mut connection = client.get_connection().expect("it takes connections");
        let fields: BTreeMap<String, String> = redis::cmd("SENTINEL")
            .arg(&["MASTER", name])
            .query(&mut connection)
            .expect("it watches the master");
        fields[field].clone()
    }

    /// `redis://127.0.0.1:port`
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port.number())
    }
}

fn settings(name: &str, port: u16) -> String {
    format!(
        "sentinel monitor {name} 127.0.0.1 {port} 2\n\
         sentinel down-after-milliseconds {name} 500\n\
         sentinel failover-timeout {name} 2000\n"
    )
}
