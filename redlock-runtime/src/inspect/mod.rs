//! Who holds a lock and who waits for it, for the eyes of operators.

mod found;
mod snapshot;
mod text;

use std::{iter, sync::Arc, time::Duration};

use redis::Value;
use redlock_protocol::{Instant, MOST_SLOTS, Owner, model::Key, slot_key};

pub use self::found::{
    ClientProcess, Holder, HolderKind, InspectedNode, Inspection, LocalSection, RemoteWaiter,
};
use self::snapshot::{Entry, Snapshot, Snapshots, Written};
use crate::{
    node::{Target, inquire},
    script::owner_value,
};

/// Asks all nodes. Memory nodes are read at `now` by the clock of their engine.
pub(crate) async fn ask(
    nodes: impl Iterator<Item = (Arc<str>, Target)>,
    key: &str,
    now: Instant,
    limit: Duration,
) -> Snapshots {
    let mut snapshots = Vec::new();
    let (mut servers, mut questions) = (Vec::new(), Vec::new());
    for (place, (address, target)) in nodes.enumerate() {
        let parts = |key: &str| target.parts(key, now);
        let snapshot = match &target {
            Target::Redis(endpoint) => {
                servers.push(place);
                let question = snapshot::questions(key, &endpoint.tag);
                questions.push(((**endpoint).clone(), question));
                Err("".into())
            }
            _ => Ok(of_memory(key, now, parts)),
        };
        snapshots.push((address, snapshot));
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
fn of_memory(key: &str, now: Instant, parts: impl Fn(&str) -> (bool, Vec<Key>)) -> Snapshot {
    let slots = (0..MOST_SLOTS).map(|slot| (Some(slot), slot_key(key, slot)));
    let names = iter::once((None, Arc::from(key))).chain(slots);
    let mut entries = Vec::new();
    for (permit, name) in names {
        let (is_shared, parts) = parts(&name);
        entries.extend(parts.into_iter().map(|part| Entry {
            permit,
            value: match part.owner.map(text_of) {
                Some(owner) if is_shared => Written::Reader(owner),
                Some(owner) => Written::Owner(owner),
                None => Written::Foreign(String::new()),
            },
            remaining: part.expires.map(|expires| expires.since(now)),
        }));
    }
    Snapshot {
        entries,
        waiting: Vec::new(),
        clients: Ok(Vec::new()),
    }
}

fn text_of(owner: Owner) -> String {
    String::from_utf8_lossy(&owner_value(owner)).into_owned()
}
