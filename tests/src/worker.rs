//! A child process that talks in lines.

use std::{
    collections::VecDeque,
    io::{BufRead, BufReader, Write},
    process::{ChildStdin, Command, ExitStatus, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
};

use crate::{process::Process, wait::Board};

/// A child process with piped stdin and stdout; its stderr is that of the test.
///
/// For the programs of this package, under `src/bin/`, the path is
/// `env!("CARGO_BIN_EXE_<name>")`, which the compiler knows in integration tests only. The process
/// dies on drop and with the test process.
#[must_use]
pub struct Worker {
    process: Mutex<Process>,
    stdin: Mutex<Option<ChildStdin>>,
    output: Board<Output>,
}

impl Worker {
    /// Starts the program at `path` with `args` and the environment of the test plus `env`.
    pub fn spawn(path: &str, args: &[&str], env: &[(&str, &str)]) -> Self {
        Self::from_command(Command::new(path).args(args).envs(env.iter().copied()))
    }

    /// Starts this program once more.
    ///
    /// # Panics
    ///
    /// If the program is not there any more.
    pub fn of_this_program(args: &[&str], env: &[(&str, &str)]) -> Self {
        let program = std::env::current_exe().expect("this program has a path");
        Self::from_command(Command::new(program).args(args).envs(env.iter().copied()))
    }

    /// Starts `command`, of which stdin and stdout are replaced.
    pub fn from_command(command: &mut Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Process::spawn(command);
        let stdin = process.child_mut().stdin.take();
        let stdout = process.child_mut().stdout.take().expect("stdout is piped");
        let output = Board::new(Output::default());
        let writer = output.clone();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                writer.update(|output| output.unread.push_back(line));
            }
            writer.update(|output| output.ended = true);
        });
        Self {
            process: Mutex::new(process),
            stdin: Mutex::new(stdin),
            output,
        }
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.process().id()
    }

    /// Writes a line to the stdin of the process.
    ///
    /// # Panics
    ///
    /// If the process no longer reads.
    #[track_caller]
    pub fn send_line(&self, line: &str) {
        let mut stdin = self.stdin();
        let pipe = stdin.as_mut().expect("stdin is still open");
        if let Err(error) = pipe.write_all(format!("{line}\n").as_bytes()) {
            panic!("the worker does not take {line:?}: {error}");
        }
    }

    /// Closes the stdin of the process, which for a worker means: no more orders, go home.
    pub fn close_stdin(&self) {
        self.stdin().take();
    }

    /// Blocks until the process has written a line that satisfies `wanted`, and returns it. The
    /// lines before it are skipped.
    ///
    /// # Panics
    ///
    /// If the output ends without such a line.
    #[track_caller]
    pub fn wait_line(&self, wanted: impl Fn(&str) -> bool) -> String {
        self.output
            .wait("a line of the worker", |output| output.find(&wanted))
            .unwrap_or_else(|skipped| panic!("the worker has ended; it said {skipped:#?}"))
    }

    /// [`Worker::wait_line`] as a future.
    #[track_caller]
    pub fn await_line<F>(&self, wanted: F) -> impl Future<Output = String> + Send + use<F>
    where
        F: Fn(&str) -> bool + Send + 'static,
    {
        let found = self
            .output
            .wait_async("a line of the worker".to_owned(), move |output| {
                output.find(&wanted)
            });
        async move {
            found
                .await
                .unwrap_or_else(|skipped| panic!("the worker has ended; it said {skipped:#?}"))
        }
    }

    /// Blocks until the process has written another line, and fails if that is not `line`.
    #[track_caller]
    pub fn expect_line(&self, line: &str) {
        assert_eq!(self.wait_line(|_| true), line);
    }

    /// [`Worker::expect_line`] as a future.
    #[track_caller]
    pub fn await_expected(&self, line: &str) -> impl Future<Output = ()> + Send + use<> {
        let next = self.await_line(|_| true);
        let line = line.to_owned();
        async move { assert_eq!(next.await, line) }
    }

    /// Sends a line and waits for one that begins with `answer`, which it returns.
    #[track_caller]
    pub fn ask(&self, line: &str, answer: &str) -> String {
        self.send_line(line);
        self.wait_line(|line| line.starts_with(answer))
    }

    /// Closes stdin and blocks until the process has ended.
    #[track_caller]
    pub fn wait(&self) -> ExitStatus {
        self.close_stdin();
        self.output
            .wait("the worker to end", |output| output.ended.then_some(()));
        self.process().wait()
    }

    /// [`Worker::wait`], and fails unless the process has succeeded.
    #[track_caller]
    pub fn wait_success(&self) {
        let status = self.wait();
        let rest = self.output.read(|output| output.unread.clone());
        assert!(
            status.success(),
            "{status}; the worker still said {rest:#?}"
        );
    }

    /// Ends the process with SIGKILL: a crash. When this returns it is gone.
    pub fn kill(&self) -> ExitStatus {
        self.process().kill()
    }

    /// Asks the process to end, with SIGTERM.
    pub fn terminate(&self) {
        self.process().terminate();
    }

    /// Freezes the process with SIGSTOP: a long pause.
    pub fn stop(&self) {
        self.process().stop();
    }

    /// Lets a frozen process run on.
    pub fn cont(&self) {
        self.process().cont();
    }

    fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stdin(&self) -> MutexGuard<'_, Option<ChildStdin>> {
        self.stdin.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Default)]
struct Output {
    unread: VecDeque<String>,
    skipped: Vec<String>,
    ended: bool,
}

impl Output {
    /// The next line that is `wanted`, or else what was skipped if nothing comes any more.
    fn find(&mut self, wanted: &impl Fn(&str) -> bool) -> Option<Result<String, Vec<String>>> {
        while let Some(line) = self.unread.pop_front() {
            if wanted(&line) {
                return Some(Ok(line));
            }
            self.skipped.push(line);
        }
        self.ended.then(|| Err(self.skipped.clone()))
    }
}
