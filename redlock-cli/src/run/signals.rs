//! The signals that are passed on to the command.

use std::{future::poll_fn, io, task::Poll};

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

#[derive(Debug)]
pub(crate) struct Signals(Vec<(Signal, unix::Signal)>);

impl Signals {
    /// From here on they end this process no more. Within a runtime.
    pub(crate) fn new() -> io::Result<Self> {
        let caught = PASSED_ON.map(|number| {
            let kind = SignalKind::from_raw(number.as_raw());
            Ok((number, signal(kind)?))
        });
        caught.into_iter().collect::<io::Result<_>>().map(Self)
    }

    /// The next one. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Signal {
        poll_fn(|cx| {
            for (number, stream) in &mut self.0 {
                if stream.poll_recv(cx).is_ready() {
                    return Poll::Ready(*number);
                }
            }
            Poll::Pending
        })
        .await
    }
}
