//! Who leads, for those who do not campaign: read on the nodes.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use futures_util::future::join_all;
use redlock_protocol::majority;
use tokio::{sync::watch, task::JoinSet};

use crate::{
    clock::Clock, config::Node, lease::FencingToken, node::Shown, node_set::Shared,
    script::read_note,
};

/// A leader, as [`Observation`] has seen it.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leader {
    /// The [value](crate::Election::value) that the leader set; empty if it set none.
    pub value: String,
    /// The leader's fencing token. Every later leader has a larger one.
    pub token: FencingToken,
}

/// Follows who leads, without a campaign. [`Election::observe`](crate::Election::observe) makes it; dropping it ends
/// the reads.
///
/// It is a hint for routing, never a proof: when a leader is returned, it may have lost its leadership already. So the
/// leader's writes still need the [fencing token](Leader::token).
///
/// - A leader counts as soon as a majority of the nodes shows its lock, and one of them its value. The value is there
///   one request after the campaign was won.
/// - A leader whose process dies is seen until its keys expire, and for up to a second longer.
/// - While no majority of the nodes can be read, the last leader stays.
/// - An observation has a connection of its own to each node and reads the node with two `GET` commands: at each change
///   that the server reports, at most 20 times a second, and otherwise once a second. A server whose user may not use
///   `CLIENT TRACKING` is read 4 times a second. Each renewal of the leader is a change. Share one observation within a
///   process.
#[derive(Debug)]
pub struct Observation {
    seen: watch::Receiver<Option<Leader>>,
    /// Of the leader that was returned last.
    last: Option<Leader>,
    /// Ends when it is dropped.
    _reading: JoinSet<()>,
}

impl Observation {
    pub(crate) fn new(shared: &Shared, key: &str) -> Self {
        let (sender, seen) = watch::channel(None);
        let key = format!("{}{key}", shared.settings.key_prefix);
        let (nodes, limit) = (shared.nodes.clone(), shared.settings.connect_timeout);
        let clock = shared.engine.clock.clone();
        let _reading = shared.engine.run_along(async move {
            read(&nodes, &key, (&clock, limit), &sender).await;
        });
        Self {
            seen,
            last: None,
            _reading,
        }
    }

    /// Waits until another leader follows the one that the last call returned, or that one [changes its
    /// value](crate::Lease::set_value), and returns the leader. The first call returns the current leader. Of several leaders between two calls, only the last is returned.
    ///
    /// Returns `None` when the node set has ended.
    ///
    /// # Cancellation
    /// Cancel-safe. It needs no async runtime.
    pub async fn next(&mut self) -> Option<Leader> {
        loop {
            let seen = self.seen.borrow_and_update().clone();
            if seen.is_some() && seen != self.last {
                self.last.clone_from(&seen);
                return seen;
            }
            self.seen.changed().await.ok()?;
        }
    }

    /// Returns the leader that was seen last. `None` if nobody leads, if the nodes have not been read yet, or after a
    /// shutdown.
    #[must_use]
    pub fn current(&self) -> Option<Leader> {
        self.seen.has_changed().ok()?;
        self.seen.borrow().clone()
    }
}

async fn read(
    nodes: &[Node],
    key: &str,
    times: (&Clock, Duration),
    leader: &watch::Sender<Option<Leader>>,
) {
    let shown = &Mutex::new(vec![None; nodes.len()]);
    let follow = nodes.iter().enumerate().map(|(place, node)| {
        let report = move |of_node| {
            let mut shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
            shown[place] = of_node;
            if let Some(found) = leader_of(&shown) {
                leader.send_if_modified(|seen| std::mem::replace(seen, found.clone()) != found);
            }
        };
        Box::pin(async move { node.target.follow(key, times, report).await })
    });
    join_all(follow).await;
}

/// Who leads by what the nodes show, if anybody does. `None` if nodes that cannot be read decide it.
fn leader_of(shown: &[Option<Option<Shown>>]) -> Option<Option<Leader>> {
    let quorum = majority(shown.len());
    let mut nodes_of: BTreeMap<&str, Vec<&Shown>> = BTreeMap::new();
    for one in shown.iter().flatten().flatten() {
        nodes_of.entry(&one.owner).or_default().push(one);
    }
    let most = nodes_of.values().max_by_key(|nodes| nodes.len());
    let count = most.map_or(0, Vec::len);
    if count < quorum {
        let unknown = shown.iter().filter(|node| node.is_none()).count();
        return (count + unknown < quorum).then_some(None);
    }
    let mut notes = most
        .into_iter()
        .flatten()
        .filter_map(|one| one.note.as_deref());
    Some(notes.find_map(read_note).map(|(token, value)| Leader {
        value: value.to_owned(),
        token: FencingToken::new(token),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(owner: &str, note: Option<&str>) -> Option<Option<Shown>> {
        let (owner, note) = (owner.to_owned(), note.map(str::to_owned));
        Some(Some(Shown { owner, note }))
    }

    #[test]
    fn a_majority_of_all_nodes_decides_who_leads() {
        const FREE: Option<Option<Shown>> = Some(None);
        let leads = |token, value: &str| {
            let (token, value) = (FencingToken::new(token), value.to_owned());
            Some(Some(Leader { value, token }))
        };
        let (a, b) = (shown("a", Some("7 at a")), shown("b", Some("8 at b")));
        for (nodes, expected) in [
            ([a.clone(), a.clone(), FREE], leads(7, "at a")),
            ([a.clone(), None, shown("a", None)], leads(7, "at a")),
            // The value is on its way.
            ([shown("a", None), shown("a", None), b.clone()], Some(None)),
            ([a.clone(), b.clone(), FREE], Some(None)),
            ([a.clone(), b.clone(), None], None),
            ([a.clone(), None, FREE], None),
            ([FREE, FREE, None], Some(None)),
            ([a, None, None], None),
            (
                [b.clone(), b, shown("text of others", None)],
                leads(8, "at b"),
            ),
        ] {
            assert_eq!(leader_of(&nodes), expected, "{nodes:?}");
        }
    }
}
