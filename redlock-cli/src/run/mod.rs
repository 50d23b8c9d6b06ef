//! `redlock run`: a command that runs while a lock is held.
//!
//! The command is gone when the lock is: SIGTERM comes a grace period before the end of the lease, and SIGKILL
//! at the end. If the lock is lost all at once, because its keys were deleted, both come as soon as that is
//! known. The [`guardian`] does the last of that also if this process is killed or stopped.

pub(crate) mod guardian;
mod signals;

use std::{
    env,
    io::{self, IsTerminal},
    os::unix::process::ExitStatusExt,
    path::Path,
    pin::pin,
    process::ExitStatus,
    time::Duration,
};

use redlock_runtime::{
    __tool::{check, lock},
    Builder, ConfigError, ConfigProblem, Guard, Installed, Lock, LockError, NODES_VARIABLE,
    ProblemKind,
};
use rustix::process::{Pid, Signal, getpgid, kill_process, kill_process_group};
use tokio::{
    process::{Child, Command},
    time::{Instant, sleep, sleep_until, timeout},
};

use self::{guardian::Guardian, signals::Signals};
use crate::{
    args::{RunArgs, ServerArgs},
    exit_code::{self, Failure},
    output,
};

/// How often the guardian is told for how long the lease can be trusted, as a part of the lease.
const TELLINGS: u32 = 20;

/// How often at the least, and at the most.
const TELL_EVERY: [Duration; 2] = [Duration::from_millis(20), Duration::from_secs(1)];

pub(crate) async fn run(servers: &ServerArgs, args: RunArgs) -> Result<u8, Failure> {
    let Some(grace) = args.grace() else {
        let text = "`--grace` may be at most a third of `--expire`, so that a renewal that is late ends nothing";
        return Err(Failure(exit_code::USAGE, text.to_owned()));
    };
    let mut signals = Signals::new().map_err(internal)?;
    let (installed, guard) = tokio::select! {
        biased;
        signal = signals.next() => return Ok(signaled(signal.as_raw())),
        acquired = acquire(servers, &args) => acquired?,
    };
    let code = match Running::start(&args, grace, &guard) {
        Ok(running) => running.supervise(&guard, &mut signals).await,
        Err(failure) => Err(failure),
    };
    guard.release().await;
    drop(installed);
    code
}

fn internal(error: io::Error) -> Failure {
    Failure(exit_code::INTERNAL, error.to_string())
}

const fn signaled(signal: i32) -> u8 {
    // Shells know no signal above 127.
    128_u8.saturating_add(signal as u8)
}

/// How long to start without a word: longer than it takes with servers that vote.
const SILENT_START: Duration = Duration::from_secs(3);

/// Between two attempts while the servers cannot be used.
const PAUSE: Duration = Duration::from_secs(1);

/// The lock, and the node set, which lives for as long.
type Acquired = (Installed, Guard);

/// The wait is for the servers, too.
async fn acquire(servers: &ServerArgs, args: &RunArgs) -> Result<Acquired, Failure> {
    let command = Path::new(&args.command[0]).file_name().unwrap_or_default();
    let service = args.service.clone();
    let service = service.unwrap_or_else(|| command.to_string_lossy().into_owned());
    // The default lease is also the time for which servers that are all new do not vote, because they may
    // have forgotten locks of that length.
    let builder = servers.builder().service(service).expire(args.expire);
    let builder = args.max_lease.into_iter().fold(builder, Builder::max_lease);
    let guard_band = args.guard_band.into_iter();
    let builder = guard_band.fold(builder, Builder::guard_band);
    let value = args.value.as_deref();
    check(&builder, &args.key, args.options(args.wait), value)
        .map_err(|error| Failure(exit_code::USAGE, output::in_words(&error)))?;
    let began = Instant::now();
    let mut is_first = true;
    loop {
        let left = args.wait.saturating_sub(began.elapsed());
        let Failure(code, text) = match attempt(&builder, args, left).await {
            Ok(acquired) => return Ok(acquired),
            Err(failure) => failure,
        };
        let left = args.wait.saturating_sub(began.elapsed());
        if code != exit_code::UNAVAILABLE || left.is_zero() {
            return Err(Failure(code, text));
        }
        if is_first {
            output::remark(&format_args!("waits for up to {left:.0?}: {text}"));
        }
        is_first = false;
        sleep(left.min(PAUSE)).await;
    }
}

async fn attempt(builder: &Builder, args: &RunArgs, wait: Duration) -> Result<Acquired, Failure> {
    let mut install = pin!(builder.clone().install());
    let installed = if let Ok(installed) = timeout(SILENT_START, &mut install).await {
        installed
    } else {
        output::remark(
            &"no majority of the servers votes yet; those that may have forgotten a lock wait for as long as a \
              lease, see `redlock status`",
        );
        install.await
    };
    let installed = installed.map_err(|error| refused(&error))?;
    let lock = lock(&installed, &args.key, args.options(wait));
    let lock = args.value.iter().fold(lock, Lock::value);
    let error = match lock.acquire().await {
        Ok(guard) => return Ok((installed, guard)),
        Err(error) => error,
    };
    let held = args.held_exit_code;
    Err(match error {
        LockError::Contended(_) if args.quiet => Failure(held, String::new()),
        LockError::Contended(_) => Failure(held, installed.inspect(&args.key).await.to_string()),
        LockError::NoQuorum(_) | LockError::Quarantined(_) => {
            Failure(exit_code::UNAVAILABLE, in_words(&error))
        }
        _ => Failure(exit_code::INTERNAL, in_words(&error)),
    })
}

/// The node set cannot be used.
fn refused(error: &ConfigError) -> Failure {
    let is_outage = |problem: &ConfigProblem| problem.kind == ProblemKind::NoQuorum;
    let code = match error.problems().iter().all(is_outage) {
        true => exit_code::UNAVAILABLE,
        false => exit_code::CONFIG,
    };
    Failure(code, output::in_words(error))
}

/// What is wrong with the lock.
fn in_words(error: &LockError) -> String {
    let remedy = match error {
        LockError::Config(error) => return output::in_words(error),
        LockError::Quarantined(_) => "; to wait for it, use `--wait`",
        _ if error.is_short_of_time() => {
            "; to hold it for longer, use a longer `--expire` or `--max-hold`"
        }
        _ => "",
    };
    error.fact() + remedy
}

/// The command while it runs.
struct Running<'a> {
    args: &'a RunArgs,
    child: Child,
    /// None for a command at a terminal: it is in the group of this process, so that the keys of the
    /// terminal work.
    guardian: Option<Guardian>,
    began: Instant,
    grace: Duration,
}

impl<'a> Running<'a> {
    fn start(args: &'a RunArgs, grace: Duration, guard: &Guard) -> Result<Self, Failure> {
        let token = guard.fencing_token();
        let token = token.map_err(|error| Failure(exit_code::LOST, in_words(&error)))?;
        let guardian = match io::stdin().is_terminal() {
            true => None,
            false => Some(Guardian::start(guard.remaining()).map_err(internal)?),
        };
        let mut command = Command::new(&args.command[0]);
        command
            .args(&args.command[1..])
            .kill_on_drop(true)
            .env("REDLOCK_KEY", guard.key())
            .env("REDLOCK_TOKEN", token.to_string());
        if !args.keep_password {
            command.env_remove("REDLOCK_PASSWORD");
            // A URL that names a user.
            let has_login = |nodes: String| nodes.contains('@') || nodes.contains("pass=");
            if env::var(NODES_VARIABLE).is_ok_and(has_login) {
                command.env_remove(NODES_VARIABLE);
            }
        }
        if let Some(guardian) = &guardian {
            command.process_group(guardian.group.as_raw_nonzero().get());
        }
        let child = command.spawn().map_err(|error| {
            let is_missing = error.kind() == io::ErrorKind::NotFound;
            let code = if is_missing { 127 } else { 126 };
            let program = args.command[0].to_string_lossy();
            let remedy = match program.contains(' ') {
                true => {
                    "; a command is run without a shell, so write a line of shell as `sh -c '..'`"
                }
                false => "",
            };
            Failure(code, format!("{program}: {error}{remedy}"))
        })?;
        Ok(Self {
            args,
            child,
            guardian,
            began: Instant::now(),
            grace,
        })
    }

    /// Waits for the end of the command, or brings it about.
    async fn supervise(mut self, guard: &Guard, signals: &mut Signals) -> Result<u8, Failure> {
        let [least, most] = TELL_EVERY;
        let tell_every = (self.args.expire / TELLINGS).clamp(least, most);
        loop {
            let remaining = guard.remaining();
            if remaining <= self.grace {
                let why = match guard.is_held() {
                    true => self.why_it_ends(remaining).to_owned(),
                    false => in_words(&guard.lost().await),
                };
                return Ok(self.end(&why, remaining).await);
            }
            self.tell(remaining);
            tokio::select! {
                biased;
                ended = self.child.wait() => return self.ended(ended),
                signal = signals.next() => self.send(signal),
                _ = guard.lost() => {}
                () = sleep((remaining - self.grace).min(tell_every)) => {}
            }
        }
    }

    /// The lease has only so much time left.
    fn why_it_ends(&self, remaining: Duration) -> &'static str {
        // The lease is limited from a little earlier on.
        let held = self.began.elapsed() + remaining + Duration::from_secs(1);
        if self.args.max_hold.is_some_and(|longest| longest <= held) {
            "the command has run for nearly as long as `--max-hold` allows"
        } else {
            "the lease is about to end, and could not be renewed"
        }
    }

    /// The lock cannot be trusted any more: SIGTERM now, SIGKILL after the grace period, but if the lease
    /// runs on, at its end.
    async fn end(mut self, why: &str, remaining: Duration) -> u8 {
        let grace = match remaining {
            Duration::ZERO => self.grace,
            remaining => remaining,
        };
        let until = Instant::now() + grace;
        self.tell(grace);
        if !grace.is_zero() {
            self.send(Signal::TERM);
        }
        // Only now: if a reader that hangs lets this wait, the guardian kills in time.
        output::remark(&format_args!("the command is ended: {why}"));
        let ended = tokio::select! {
            biased;
            ended = self.child.wait() => Some(ended),
            () = sleep_until(until) => None,
        };
        // Also what the command leaves behind, if it has a group; if not, its number may be another's by now.
        if ended.is_none() || self.guardian.is_some() {
            self.send(Signal::KILL);
        }
        if ended.is_none() {
            let _ = self.child.wait().await;
        }
        exit_code::LOST
    }

    fn tell(&mut self, remaining: Duration) {
        if let Some(guardian) = &mut self.guardian {
            guardian.tell(remaining);
        }
    }

    /// The command may be gone.
    fn send(&self, signal: Signal) {
        // None once it has ended, when its number may be another's.
        let command = self.child.id().and_then(|pid| Pid::from_raw(pid as i32));
        if let Some(guardian) = &self.guardian {
            // That of a command which has left the guardian's, as `setsid` does.
            let own_group = command.filter(|pid| getpgid(Some(*pid)) == Ok(*pid));
            for group in own_group.into_iter().chain([guardian.group]) {
                let _ = kill_process_group(group, signal);
            }
        } else if let Some(command) = command
            // Both have these from the terminal.
            && !matches!(signal, Signal::INT | Signal::QUIT)
        {
            let _ = kill_process(command, signal);
        }
    }

    fn ended(self, ended: io::Result<ExitStatus>) -> Result<u8, Failure> {
        if let Some(guardian) = self.guardian {
            guardian.dismiss();
        }
        let status = ended.map_err(internal)?;
        let signal = status.signal().map_or(exit_code::INTERNAL, signaled);
        Ok(status.code().map_or(signal, |code| code as u8))
    }
}
