//! What the program can be asked.

use std::{path::PathBuf, time::Duration};

use clap::{Parser, Subcommand};
use redlock_runtime::{
    __tool::{Servers, parse_duration, urls},
    Builder, Credentials, Options, Redlock, Renew, Tls,
};

use crate::{
    exit_code::{self, Failure},
    output,
};

/// Runs commands under a lock over independent Redis servers, and shows, checks and frees the locks of a
/// fleet.
#[derive(Debug, Parser)]
#[command(name = "redlock", version, after_help = crate::exit_code::exit_codes())]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) servers: ServerArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The node set.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Servers")]
pub(crate) struct ServerArgs {
    /// URLs of the servers, with commas between them.
    #[arg(long, env = "REDLOCK_NODES", hide_env_values = true, global = true)]
    #[arg(value_name = "URL,..")]
    nodes: Option<String>,
    /// The user for all nodes whose URLs name none. Without a password: one that needs none.
    #[arg(long, env = "REDLOCK_USER", global = true)]
    user: Option<String>,
    /// The password for all nodes whose URLs name none. Better in the environment, since arguments can be
    /// seen by others.
    #[arg(long, env = "REDLOCK_PASSWORD", hide_env_values = true, global = true)]
    password: Option<String>,
    /// For `rediss://` nodes whose URLs name none: the certificate authorities to trust in place of those of
    /// the operating system, a PEM file.
    #[arg(long, env = "REDLOCK_TLS_CACERT", global = true, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// The client's certificate, a PEM file. The private key may be in it.
    #[arg(long, env = "REDLOCK_TLS_CERT", global = true, value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// The private key of the client's certificate, a PEM file. The certificate may be in it.
    #[arg(long, env = "REDLOCK_TLS_KEY", global = true, value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// What every key begins with on the nodes.
    #[arg(long, env = "REDLOCK_KEY_PREFIX", global = true)]
    key_prefix: Option<String>,
    /// How long a server may take to reply.
    #[arg(long, env = "REDLOCK_CONNECT_TIMEOUT", global = true)]
    #[arg(default_value = "1s", value_parser = duration, value_name = "DURATION")]
    connect_timeout: Duration,
    /// Write JSON.
    #[arg(long, global = true, help_heading = "Output")]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Shows which servers vote, and their versions. Changes nothing.
    Status,
    /// Shows who holds a lock and who waits for it. Changes nothing.
    // The usage that clap makes lists as required what the environment names.
    #[command(override_usage = "redlock inspect [OPTIONS] <KEY>")]
    Inspect {
        /// The key, without the key prefix.
        #[arg(value_parser = key)]
        key: String,
    },
    /// Deletes a lock that another client holds, from all servers.
    ///
    /// A holder that still works learns of the loss and is cut off, at its next renewal or extension at the
    /// latest, or at the end of a lease that has none; until then it and the next holder work at the same time. One permit of a lock is `KEY#__redlock:0`, `KEY#__redlock:1` and so on.
    #[command(override_usage = "redlock break [OPTIONS] <KEY>")]
    Break {
        /// The key, without the key prefix.
        #[arg(value_parser = key)]
        key: String,
        /// Do not ask.
        #[arg(long, short)]
        yes: bool,
    },
    /// Checks servers before they are used in production. Leaves nothing on them.
    Doctor {
        /// Warnings are mistakes, too.
        #[arg(long)]
        strict: bool,
    },
    /// Runs a command while the lock is held, and not at all if another client has it.
    #[cfg(unix)]
    #[command(override_usage = "redlock run [OPTIONS] --key <KEY> -- <COMMAND>...")]
    Run(Box<RunArgs>),
    /// Writes a script that completes the arguments of this program in a shell.
    #[command(override_usage = "redlock completions <SHELL>")]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

/// Of `run`.
#[cfg(unix)]
#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// The key of the lock.
    #[arg(long, short, value_parser = key)]
    pub(crate) key: String,
    /// The lease: after a crash of this machine the lock is free after about this time.
    #[arg(long, short, default_value = "30s", value_parser = duration, value_name = "DURATION")]
    pub(crate) expire: Duration,
    /// How long to wait for a lock that another client has, and for servers that cannot be used.
    #[arg(long, short, default_value = "0s", value_parser = duration, value_name = "DURATION")]
    pub(crate) wait: Duration,
    /// The longest time for which the command may have the lock, not less than the lease, which is renewed until then.
    /// The command gets SIGTERM earlier by `--grace`, and SIGKILL then.
    #[arg(long, value_parser = duration, value_name = "DURATION")]
    pub(crate) max_hold: Option<Duration>,
    /// Keep the lock for at least this time, even if the command was quicker: of many machines whose clocks
    /// differ, one runs the job. With `--permits`, that number of commands start within this time. At most the lease.
    #[arg(long, value_parser = duration, value_name = "DURATION")]
    pub(crate) at_least: Option<Duration>,
    /// How many holders may have the lock at a time. All must name the same number.
    #[arg(long, value_name = "NUMBER", conflicts_with = "shared")]
    pub(crate) permits: Option<u32>,
    /// How many of the permits the command takes at once. Default: 1.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) weight: Option<u32>,
    /// Share the lock with others that share it.
    #[arg(long)]
    pub(crate) shared: bool,
    /// Wait behind all callers that asked before, on any machine.
    #[arg(long, conflicts_with_all = ["shared", "permits"])]
    pub(crate) fair: bool,
    /// What `redlock inspect` shows beside the lock while the command runs, up to 256 bytes.
    #[arg(long)]
    pub(crate) value: Option<String>,
    /// The time between SIGTERM and SIGKILL if the command has to end. SIGTERM comes this long before the end
    /// of the lease, so the command is gone when the lock is. At most a third of the lease. Default: that, up
    /// to 5s.
    #[arg(long, value_parser = duration, value_name = "DURATION")]
    pub(crate) grace: Option<Duration>,
    /// How to exit if another client has the lock.
    #[arg(long, short = 'E', default_value_t = crate::exit_code::HELD, value_name = "CODE")]
    pub(crate) held_exit_code: u8,
    /// Say nothing if another client has the lock.
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// The name of this process in `redlock inspect`. Default: the name of the command.
    #[arg(long)]
    pub(crate) service: Option<String>,
    /// Leave passwords in the environment of the command: REDLOCK_PASSWORD, and REDLOCK_NODES with users in it.
    #[arg(long)]
    pub(crate) keep_password: bool,
    /// The longest lease in the fleet. All that use the servers need the same.
    #[arg(long, env = "REDLOCK_MAX_LEASE", value_parser = duration, value_name = "DURATION")]
    pub(crate) max_lease: Option<Duration>,
    /// The guard band of the fleet. All that use the servers need the same.
    #[arg(long, env = "REDLOCK_GUARD_BAND", value_parser = duration, value_name = "DURATION")]
    pub(crate) guard_band: Option<Duration>,
    /// The command, and its arguments.
    #[arg(required = true, last = true)]
    pub(crate) command: Vec<std::ffi::OsString>,
}

#[cfg(unix)]
impl RunArgs {
    pub(crate) fn options(&self, wait: Duration) -> Options {
        Options {
            wait,
            renew: Renew::Default,
            max_hold: self.max_hold,
            at_least: self.at_least,
            permits: self.permits,
            weight: self.weight,
            shared: self.shared,
            fair: self.fair,
            ..Options::default()
        }
    }

    /// Fails if a renewal that is a little late would end the command.
    pub(crate) fn grace(&self) -> Option<Duration> {
        let most = self.expire / 3;
        let default = most.min(Duration::from_secs(5));
        self.grace
            .map_or(Some(default), |grace| (grace <= most).then_some(grace))
    }
}

impl ServerArgs {
    /// To look at them.
    pub(crate) fn open(&self) -> Result<Servers, Failure> {
        let opened = Servers::new(self.builder());
        opened.map_err(|error| Failure(exit_code::CONFIG, output::in_words(&error)))
    }

    /// To lock.
    pub(crate) fn builder(&self) -> Builder {
        let builder = Redlock::builder()
            .nodes(urls(self.nodes.as_deref().unwrap_or_default()))
            .key_prefix(self.key_prefix.as_deref().unwrap_or_default())
            .connect_timeout(self.connect_timeout)
            .require_servers(true);
        let tls = self.tls_ca.iter().fold(Tls::new(), Tls::cacert_file);
        let tls = self.tls_cert.iter().fold(tls, Tls::cert_file);
        let builder = builder.tls(self.tls_key.iter().fold(tls, Tls::key_file));
        let credentials = Credentials::of(self.user.as_deref(), self.password.as_deref());
        credentials.into_iter().fold(builder, Builder::credentials)
    }
}

fn key(text: &str) -> Result<String, &'static str> {
    match text {
        "" => Err("the key is empty: name what the lock is for, such as nightly-report"),
        key => Ok(key.to_owned()),
    }
}

/// Durations as configuration files have them: `500ms`, `30s`, `1.5m`, `1h`.
fn duration(text: &str) -> Result<Duration, &'static str> {
    parse_duration(text).ok_or(
        "write one number with one unit, in whole milliseconds, such as 500ms, 30s, 1.5m or 1h",
    )
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_are_well_formed() {
        Args::command().debug_assert();
    }
}
