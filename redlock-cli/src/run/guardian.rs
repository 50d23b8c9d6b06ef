//! A second process that ends the command when the first one cannot: if it was killed, and if it has been
//! stopped until the lease has ended.
//!
//! It leads the process group that the command is in, so the group is the command's for as long as the
//! guardian lives, and a signal to it reaches no other process. It reads from the first process until when
//! the lease can be trusted, and kills the group, itself included, when that time or the pipe is over.

use std::{
    env,
    fs::File,
    io::{self, Read, Write},
    os::{fd::AsFd, unix::process::CommandExt},
    process::{self, ExitCode, Stdio},
    time::Duration,
};

use redlock_runtime::__tool::{Instant, now};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::{Errno, ioctl_fionbio},
    process::{Pid, Signal, kill_current_process_group, kill_process_group},
};

use super::signals;
use crate::exit_code;

/// How this program is told by itself that it is the guardian.
const NAME: &str = "redlock-guardian";

/// The clock is looked at so often: the system's wait leaves out the time for which the machine is suspended.
const LONGEST_POLL: Duration = Duration::from_secs(1);

/// The guardian, as the first process sees it.
#[derive(Debug)]
pub(super) struct Guardian {
    /// To the end of its input it lets the command live.
    process: process::Child,
    /// The process group of the command.
    pub(super) group: Pid,
}

impl Guardian {
    /// Returns once it is at work.
    pub(super) fn start(remaining: Duration) -> io::Result<Self> {
        // This program, also if its file has been replaced or deleted since it was started.
        let program = match cfg!(any(target_os = "linux", target_os = "android")) {
            true => "/proc/self/exe".into(),
            false => env::current_exe()?,
        };
        let process = process::Command::new(program)
            .arg0(NAME)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        if let Some(pipe) = &process.stdin {
            // The guardian may be stopped with its group, and then reads nothing.
            ioctl_fionbio(pipe, true)?;
        }
        let group = Pid::from_raw(process.id() as i32).ok_or(io::ErrorKind::NotFound)?;
        let mut guardian = Self { process, group };
        guardian.tell(remaining);
        if let Some(mut ready) = guardian.process.stdout.take() {
            ready.read_exact(&mut [0])?;
        }
        Ok(guardian)
    }

    /// For how long the command may run from now on.
    pub(super) fn tell(&mut self, remaining: Duration) {
        let until = now().after(remaining).as_nanos();
        // A guardian that was killed guards nothing, and one that was stopped for long has its message to
        // come; this process still guards.
        if let Some(pipe) = &mut self.process.stdin {
            let _ = pipe.write_all(&until.to_le_bytes());
        }
    }

    /// The command has ended by itself. What it has left in the background lives on: killed before the pipe
    /// ends, the guardian does nothing more.
    pub(super) fn dismiss(mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Guardian {
    /// Kills the group, if nothing has ended it yet: after a panic of this process.
    fn drop(&mut self) {
        if let Ok(None) = self.process.try_wait() {
            let _ = kill_process_group(self.group, Signal::KILL);
            let _ = self.process.wait();
        }
    }
}

/// What the guardian does, if this process is one.
pub(crate) fn main() -> Option<ExitCode> {
    let is_guardian = env::args_os().next().is_some_and(|name| name == NAME);
    is_guardian.then(|| ExitCode::from(guard().map_or(exit_code::INTERNAL, |()| 0)))
}

fn guard() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()?;
    let _within = runtime.enter();
    // They are for the command, which is in the same group.
    signals::catch_all();
    io::stdout().write_all(&[1])?;
    io::stdout().flush()?;
    // Not by way of `Stdin`, which reads ahead.
    let mut pipe = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut until = Instant::from_nanos(u64::MAX);
    loop {
        let remaining = until.since(now());
        match has_message(&pipe, remaining) {
            Ok(true) => {}
            Ok(false) if remaining > LONGEST_POLL => continue,
            // A signal for the command.
            Err(Errno::INTR) => continue,
            Ok(false) | Err(_) => break,
        }
        let mut message = [0; 8];
        if pipe.read_exact(&mut message).is_err() {
            break;
        }
        until = Instant::from_nanos(u64::from_le_bytes(message));
    }
    Ok(kill_current_process_group(Signal::KILL)?)
}

/// Waits for a message, or for the end of the pipe. False if the time was up before.
fn has_message(pipe: &File, limit: Duration) -> Result<bool, Errno> {
    let mut polled = [PollFd::new(pipe, PollFlags::IN)];
    let limit = Timespec::try_from(limit.min(LONGEST_POLL)).map_err(|_| Errno::INVAL)?;
    Ok(poll(&mut polled, Some(&limit))? > 0)
}
