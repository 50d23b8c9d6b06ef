//! Everything that can happen to the protocol.

use std::{sync::Arc, time::Duration};

use super::{
    message::{ConnectionId, Facts, LeaseId, NodeId, Reply, RequestId},
    validity::Terms,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// Time has passed. Early, late and repeated wake-ups are safe.
    Wakeup,
    /// A caller wants the lock. Answered by `Granted` or `Refused`.
    Ask {
        lease: LeaseId,
        key: Arc<str>,
        terms: Terms,
    },
    /// The holder wants a fresh lease now. Answered by `Extended`, or by the end of the lease.
    Extend { lease: LeaseId },
    /// The caller is done, whatever phase the lease is in: it gave up waiting, was cancelled,
    /// or releases. With `report`, answered by `Released`.
    End { lease: LeaseId, report: bool },
    /// A node answered.
    Reply {
        node: NodeId,
        request: RequestId,
        reply: Reply,
    },
    /// A node says that a key may have changed; without a key, that any may have.
    Changed { node: NodeId, key: Option<Arc<str>> },
    /// A connection that was asked for is up.
    Connected {
        node: NodeId,
        connection: ConnectionId,
        facts: Facts,
    },
    /// A connection could not be made, or broke; requests without a reply will get none.
    Disconnected {
        node: NodeId,
        connection: ConnectionId,
        reason: Arc<str>,
    },
    /// Nothing new is taken on. With `cut_off`, holders are told to stop at once instead of
    /// being waited for. Answered by `Drained`, after `timeout` at the latest.
    Shutdown { timeout: Duration, cut_off: bool },
}
