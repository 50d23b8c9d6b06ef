//! Everything that can happen to the protocol.

use std::{sync::Arc, time::Duration};

use crate::{
    message::{ConnectionId, Facts, Member, NodeId, Reply, RequestId, SectionId},
    rules::validity::{LeaseParams, LockParams},
    unreachable::Why,
};

/// One thing that has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Time has passed. Early, late and repeated wake-ups are safe.
    Wakeup,
    /// A caller wants the lock, or one of its slots if it has permits. Answered by `Granted` or `Refused`.
    Ask {
        /// The caller's section.
        section: SectionId,
        /// The lock.
        key: Arc<str>,
        /// What is asked for.
        params: LockParams,
    },
    /// A caller wants several locks, all or none. Answered by `Granted` or `Refused`, once for all.
    AskAll {
        /// The caller's section.
        section: SectionId,
        /// The locks. What is named twice is asked for once, and exclusively if it is so once.
        members: Vec<Member>,
        /// What is asked for, of each; without what a member says itself.
        params: LockParams,
    },
    /// The holder wants a fresh lease now. Answered by `Extended`, `NotExtended` or `Over`.
    Extend {
        /// The holder's section.
        section: SectionId,
        /// The lease; `None` for one as long as it was asked for.
        lease: Option<LeaseParams>,
    },
    /// The holder has the lock alone, and shares it from now on. Answered like `Extend`, once a majority of nodes has
    /// turned the key into that of a reader.
    Share {
        /// The holder's section.
        section: SectionId,
    },
    /// The holder has something to say to those who look at the lock. It is kept on the nodes with each refresh until
    /// the section ends, and the first refresh begins now.
    Note {
        /// The holder's section.
        section: SectionId,
        /// What it says.
        note: Arc<str>,
    },
    /// The caller is done, whatever became of its section: it gave up waiting, was cancelled, or
    /// releases.
    End {
        /// The caller's section.
        section: SectionId,
        /// The caller wants to know what became of the release. Answered by `Released`.
        report: bool,
    },
    /// A node answered.
    Reply {
        /// The node.
        node: NodeId,
        /// What it was asked.
        request: RequestId,
        /// What it says.
        reply: Reply,
    },
    /// A node says that a key may have changed.
    Changed {
        /// The node.
        node: NodeId,
        /// The key; `None` if all may have, as after a flush.
        key: Option<Arc<str>>,
    },
    /// A connection that was asked for is up.
    Connected {
        /// The node.
        node: NodeId,
        /// The connection.
        connection: ConnectionId,
        /// What the server tells of itself.
        facts: Facts,
    },
    /// A connection could not be made, or broke; requests without a reply will get none.
    Disconnected {
        /// The node.
        node: NodeId,
        /// The connection.
        connection: ConnectionId,
        /// Why, in words for operators.
        reason: Why,
    },
    /// What had come from the node when it was listened to has been handed in.
    Silent {
        /// The node.
        node: NodeId,
        /// The connection.
        connection: ConnectionId,
    },
    /// Nothing new is taken on. Answered by `Drained`, after `timeout` at the latest, or a second later if
    /// holders are cut off then. A second one can bring the end forward, not put it off.
    Shutdown {
        /// How long holders and releases are waited for.
        timeout: Duration,
        /// Holders are told to stop at once instead of being waited for.
        abort_holders: bool,
    },
}
