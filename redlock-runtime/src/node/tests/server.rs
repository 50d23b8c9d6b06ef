//! A `redis-server` of the test's own, on a socket in a directory of its own.

use std::{
    env, fs,
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use redis::{Client, Cmd, Connection, ConnectionLike, Pipeline, Value};
use uuid::Uuid;

/// Longer than any start takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

pub(super) struct Server {
    process: Child,
    directory: PathBuf,
}

impl Server {
    pub(super) fn start(arguments: &[&str]) -> Self {
        let directory = env::temp_dir().join(format!("redlock-{}", Uuid::new_v4().simple()));
        fs::create_dir(&directory).unwrap();
        let process = launch(&directory, arguments);
        let server = Self { process, directory };
        server.connect(2);
        server
    }

    /// Another process takes over what is on disk.
    pub(super) fn restart(&mut self, arguments: &[&str]) {
        self.stop();
        self.process = launch(&self.directory, arguments);
        self.connect(2);
    }

    pub(super) fn url(&self, resp: u8) -> String {
        let socket = self.directory.join("socket");
        format!("unix://{}?protocol=resp{resp}", socket.display())
    }

    pub(super) fn connect(&self, resp: u8) -> Connection {
        let client = Client::open(self.url(resp)).unwrap();
        let since = Instant::now();
        loop {
            match client.get_connection() {
                Ok(mut connection) => {
                    let pong = redis::cmd("PING").query::<String>(&mut connection);
                    if pong.is_ok() {
                        return connection;
                    }
                }
                Err(error) => assert!(since.elapsed() < PATIENCE, "{error}"),
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn stop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn launch(directory: &PathBuf, arguments: &[&str]) -> Child {
    let program = env::var_os("REDIS_SERVER").unwrap_or_else(|| "redis-server".into());
    Command::new(program)
        .current_dir(directory)
        .args(["--port", "0", "--unixsocket", "socket", "--save", ""])
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("redis-server is in the path, or REDIS_SERVER names it")
}

/// Sends all at once, and returns all answers, errors among them.
pub(super) fn exchange(connection: &mut Connection, pipeline: &Pipeline) -> Vec<Value> {
    let packed = pipeline.get_packed_pipeline();
    let answers = connection.req_packed_commands(&packed, 0, pipeline.len());
    answers.unwrap()
}

pub(super) fn words(words: &[&str]) -> Cmd {
    let mut command = Cmd::new();
    command.arg(words);
    command
}

/// One command, by its words.
pub(super) fn command(connection: &mut Connection, words: &[&str]) -> Value {
    let mut pipeline = Pipeline::new();
    pipeline.add_command(self::words(words));
    exchange(connection, &pipeline).remove(0)
}
