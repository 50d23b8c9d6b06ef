//! Who holds a lock and who waits for it, for the eyes of operators.

mod breaking;
mod found;
mod joined;
mod snapshot;
mod text;

use std::{sync::Arc, time::Duration};

use redis::Value;
use redlock_protocol::{Instant, Owner};

pub(crate) use self::breaking::Breaking;
pub use self::found::{
    ClientProcess, Holder, HolderKind, InspectedNode, Inspection, LocalSection, RemoteWaiter,
};
use self::snapshot::{Entry, Snapshot, Snapshots};
use crate::{
    config::Node,
    node::{Parts, Target, inquire},
    script::owner_value,
};

/// Asks all nodes. Memory nodes are read at `now` by the clock of their engine.
pub(crate) async fn ask(nodes: &[Node], key: &str, now: Instant, limit: Duration) -> Snapshots {
    let mut snapshots = Vec::new();
    let (mut servers, mut questions) = (Vec::new(), Vec::new());
    for (place, Node { address, target }) in nodes.iter().enumerate() {
        let snapshot = match target {
            Target::Redis(endpoint) => {
                servers.push(place);
                let question = snapshot::questions(key, &endpoint.tag);
                questions.push(((**endpoint).clone(), question));
                Err("".into())
            }
            _ => Ok(of_memory(key, now, target)),
        };
        snapshots.push((Arc::clone(address), snapshot));
    }
    if questions.is_empty() {
        return snapshots;
    }
    let replies = inquire(questions, limit).await;
    for (place, replies) in servers.into_iter().zip(replies) {
        let read = |replies: Vec<Value>| snapshot::read(key, replies);
        snapshots[place].1 = replies.and_then(read);
    }
    snapshots
}

/// Stores in memory name no clients, and keep no queue that could be read here.
fn of_memory(key: &str, now: Instant, target: &Target) -> Snapshot {
    let mut entries = Vec::new();
    for (permit, name) in snapshot::places(key) {
        let Parts {
            is_shared,
            parts,
            note,
        } = target.parts(&name, now);
        entries.extend(parts.into_iter().map(|part| Entry {
            permit,
            kind: match part.owner {
                Some(_) if is_shared => HolderKind::Shared,
                Some(_) => HolderKind::Exclusive,
                None => HolderKind::Foreign,
            },
            owner: part.owner.map(text_of).unwrap_or_default(),
            note: note.as_deref().map(str::to_owned),
            remaining: part.expires.map(|expires| expires.since(now)),
        }));
    }
    Snapshot {
        entries,
        waiters: Vec::new(),
        clients: Ok(Vec::new()),
    }
}

fn text_of(owner: Owner) -> String {
    String::from_utf8_lossy(&owner_value(owner)).into_owned()
}
