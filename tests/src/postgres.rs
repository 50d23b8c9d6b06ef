//! One real PostgreSQL server.

use std::{
    env, fs,
    os::unix::{fs::chown, process::CommandExt},
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

use crate::{log, port::Port, process::Process};

/// A PostgreSQL server with an empty database on a loopback port of its own.
///
/// It dies on drop and with the test process. It refuses to run as root, so root starts it as the
/// user `postgres`.
#[must_use]
pub struct Postgres {
    process: Process,
    port: Port,
    _dir: TempDir,
}

impl Postgres {
    /// Starts a server and waits until it serves.
    ///
    /// # Panics
    ///
    /// If PostgreSQL is not installed. `POSTGRES_BIN` names the directory of its programs where
    /// that is neither Debian's nor in the path.
    pub fn start() -> Self {
        let programs = Programs::find();
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        if let Some((user, group)) = programs.run_as {
            chown(dir.path(), Some(user), Some(group)).expect("root may give a directory away");
        }
        let data = dir.path().join("data");
        programs.initialize(&data);
        // Another program may take a port between its reservation and the start.
        let mut attempts = 10;
        loop {
            attempts -= 1;
            let port = Port::reserve();
            match programs.serve(&data, port.number()) {
                Ok(process) => {
                    return Self {
                        process,
                        port,
                        _dir: dir,
                    };
                }
                Err(log) if attempts > 0 && log.contains("Address already in use") => (),
                Err(log) => panic!("PostgreSQL did not start; it said:\n{log}"),
            }
        }
    }

    /// `postgresql://postgres@127.0.0.1:port/postgres`; no password.
    pub fn url(&self) -> String {
        format!(
            "postgresql://postgres@127.0.0.1:{}/postgres",
            self.port.number()
        )
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // Its immediate shutdown. SIGKILL would leave its shared memory behind.
        self.process.quit();
    }
}

/// The programs of an installation, and whom they run as.
struct Programs {
    bin: PathBuf,
    /// User and group, where this process is root.
    run_as: Option<(u32, u32)>,
}

impl Programs {
    fn find() -> Self {
        let bin = env::var_os("POSTGRES_BIN")
            .map(PathBuf::from)
            .or_else(newest_of_debian)
            .or_else(in_path)
            .expect(
                "PostgreSQL is not installed: `apt-get install postgresql`, which scripts/test \
                 does by itself, or name the directory of initdb and postgres in POSTGRES_BIN",
            );
        let is_root = rustix::process::geteuid().is_root();
        Self {
            bin,
            run_as: is_root.then(postgres_user),
        }
    }

    fn initialize(&self, data: &Path) {
        let output = self
            .command("initdb")
            .args(["--username", "postgres", "--auth", "trust", "--no-sync"])
            .args(["--encoding", "UTF8", "--locale", "C", "--pgdata"])
            .arg(data)
            .output()
            .expect("initdb starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "initdb failed; it said:\n{said}");
    }

    /// Returns when the server serves, or else its log.
    fn serve(&self, data: &Path, port: u16) -> Result<Process, String> {
        let mut command = self.command("postgres");
        command
            .arg("-D")
            .arg(data)
            .args(["-p", &port.to_string(), "-c", "listen_addresses=127.0.0.1"])
            .args(["-c", "unix_socket_directories=", "-c", "fsync=off"]);
        log::start(command, "PostgreSQL", "database system is ready to accept")
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.bin.join(program));
        // The directory of the test may be closed to the other user.
        command.current_dir("/").env("LC_ALL", "C");
        if let Some((user, group)) = self.run_as {
            command.uid(user).gid(group);
        }
        command
    }
}

/// `/usr/lib/postgresql/15/bin`: Debian keeps the programs of servers out of the path.
fn newest_of_debian() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?;
    versions
        .filter_map(|version| {
            let version = version.ok()?;
            let number: u32 = version.file_name().to_str()?.parse().ok()?;
            let bin = version.path().join("bin");
            bin.join("initdb").exists().then_some((number, bin))
        })
        .max()
        .map(|(_, bin)| bin)
}

fn in_path() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).find(|bin| bin.join("initdb").exists() && bin.join("postgres").exists())
}

/// User and group of the user that packages make for the server.
fn postgres_user() -> (u32, u32) {
    let users = fs::read_to_string("/etc/passwd").expect("there is a list of users");
    users
        .lines()
        .find_map(|line| {
            let mut fields = line.strip_prefix("postgres:")?.split(':').skip(1);
            Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
        })
        .expect(
            "PostgreSQL does not run as root, and there is no user `postgres`: install the \
             package postgresql, or run the tests as another user",
        )
}
