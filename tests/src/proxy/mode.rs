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
    Open { delay: Duration },
    Hold,
    Swallow,
}

impl Mode {
    pub(super) fn gate(self, direction: Direction) -> Gate {
        use Direction::{Reply, Request};

        let delay = match (self, direction) {
            (Self::BlackHole, _) => return Gate::Swallow,
            (Self::HoldRequests, Request) | (Self::HoldReplies, Reply) => return Gate::Hold,
            (Self::Delay { requests, .. }, Request) => requests,
            (Self::Delay { replies, .. }, Reply) => replies,
            (Self::Pass | Self::Refuse | Self::ResetNew, _)
            | (Self::HoldReplies, Request)
            | (Self::HoldRequests, Reply) => Duration::ZERO,
        };
        Gate::Open { delay }
    }
}
