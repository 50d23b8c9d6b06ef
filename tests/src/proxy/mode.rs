//! What a proxy does to the bytes that come by.

use std::time::Duration;

/// What a [`Proxy`](super::Proxy) does with connections and bytes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Mode {
    /// Everything gets through.
    #[default]
    Pass,
    /// Every byte gets through that much after its arrival, without a limit on the throughput.
    Delay {
        /// From client to server.
        requests: Duration,
        /// From server to client.
        replies: Duration,
    },
    /// Connections are accepted and stay open, and nothing that is sent in either direction ever
    /// arrives. A connection accepted in this mode never gets a server.
    BlackHole,
    /// Requests wait in the proxy for a mode that passes.
    HoldRequests,
    /// Replies wait in the proxy for a mode that passes: the server has done what was asked, and
    /// the client does not know it yet.
    HoldReplies,
    /// Nobody listens: existing connections are reset, new ones are refused by the kernel.
    Refuse,
    /// New connections are accepted and then reset at once; existing ones pass.
    ResetNew,
    /// That many bytes get through at a time, and as many again every ten milliseconds.
    Throttle(usize),
    /// Replies never arrive, although the server has done what was asked.
    HalfOpen,
    /// A connection on which nothing came by for that long stays open, and nothing arrives on it any more.
    Forget(Duration),
    /// The next reply ends in its middle, with a reset.
    CutReplies,
}

/// Which way bytes go.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Direction {
    Request,
    Reply,
}

/// What a mode means for one direction.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Gate {
    /// No more than `chunk` bytes at a time.
    Open {
        delay: Duration,
        chunk: usize,
    },
    Hold,
    Swallow,
}

impl Mode {
    pub(super) fn gate(self, direction: Direction) -> Gate {
        use Direction::{Reply, Request};

        let mut chunk = usize::MAX;
        let delay = match (self, direction) {
            (Self::BlackHole, _) | (Self::HalfOpen, Reply) => return Gate::Swallow,
            (Self::HoldRequests, Request) | (Self::HoldReplies, Reply) => return Gate::Hold,
            (Self::Delay { requests, .. }, Request) => requests,
            (Self::Delay { replies, .. }, Reply) => replies,
            (Self::Throttle(bytes), _) => {
                chunk = bytes;
                Duration::from_millis(10)
            }
            _ => Duration::ZERO,
        };
        Gate::Open { delay, chunk }
    }
}
