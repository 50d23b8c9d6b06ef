//! The signals that are passed on to the command.

use std::{fs, future::poll_fn, io, task::Poll};

use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind, signal};

/// Those that end or tell something to a program, and can be caught.
const PASSED_ON: [Signal; 6] = [
    Signal::TERM,
    Signal::INT,
    Signal::HUP,
    Signal::QUIT,
    Signal::USR1,
    Signal::USR2,
];

/// No system has more, real-time signals included.
const LAST_SIGNAL: i32 = 127;

#[derive(Debug)]
pub(crate) struct Signals {
    passed_on: Vec<(Signal, unix::Signal)>,
    /// If it was ignored when this process was started, the exit code of the command would be unknown.
    _children: unix::Signal,
}

impl Signals {
    /// From here on they end this process no more. Those that it was told to ignore, as `nohup` tells, it and
    /// the command ignore on. Within a runtime.
    pub(crate) fn new() -> io::Result<Self> {
        let ignored = ignored();
        let is_ignored = |number: &Signal| ignored >> (number.as_raw() - 1) & 1 == 1;
        let caught = PASSED_ON.into_iter().filter(|number| !is_ignored(number));
        let caught = caught.map(|number| {
            let kind = SignalKind::from_raw(number.as_raw());
            Ok((number, signal(kind)?))
        });
        Ok(Self {
            passed_on: caught.collect::<io::Result<_>>()?,
            _children: signal(SignalKind::child())?,
        })
    }

    /// The next one. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Signal {
        poll_fn(|cx| {
            for (number, stream) in &mut self.passed_on {
                if stream.poll_recv(cx).is_ready() {
                    return Poll::Ready(*number);
                }
            }
            Poll::Pending
        })
        .await
    }
}

/// From here on no signal ends this process, except those that cannot be caught or tell of a fault. Within a
/// runtime.
pub(super) fn catch_all() {
    // Of the faults, tokio refuses all others.
    let numbers = (1..=LAST_SIGNAL).filter(|number| *number != Signal::BUS.as_raw());
    for number in numbers {
        // An error says that it is refused, or that there is none of this number.
        let _ = signal(SignalKind::from_raw(number));
    }
}

/// The signals that this process ignores, a bit for each. None where the system does not say so in a file.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or_default()
}
