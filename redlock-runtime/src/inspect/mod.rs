//! Who holds a lock and who waits for it, for the eyes of operators.

mod breaking;
mod found;
mod joined;
mod snapshot;
mod text;

use std::time::Duration;

use redlock_protocol::Instant;

pub(crate) use self::breaking::Breaking;
pub use self::found::{Holder, HolderKind, InspectedNode, Inspection, LocalSection, RemoteWaiter};
use self::snapshot::Snapshot;
pub(crate) use self::snapshot::value;
pub use crate::node::ClientProcess;
use crate::{
    config::Node,
    node::{Target, inquire},
};

/// Asks all nodes. Memory nodes are read at `now` by the clock of their engine.
pub(crate) async fn ask(nodes: &[Node], key: &str, now: Instant, limit: Duration) -> Vec<Snapshot> {
    let mut snapshots = Vec::new();
    let (mut servers, mut questions) = (Vec::new(), Vec::new());
    for (place, Node { address, target }) in nodes.iter().enumerate() {
        let mut snapshot = Snapshot::new(address);
        match target {
            Target::Redis(endpoint) => {
                servers.push(place);
                let question = snapshot::questions(key, &endpoint.tag);
                questions.push(((**endpoint).clone(), question));
            }
            Target::Memory(memory) => snapshot.look(key, memory, now),
        }
        snapshots.push(snapshot);
    }
    if questions.is_empty() {
        return snapshots;
    }
    let replies = inquire(questions, limit).await;
    for (place, replies) in servers.into_iter().zip(replies) {
        let snapshot = &mut snapshots[place];
        if let Err(why) = replies.and_then(|replies| snapshot.read(key, replies)) {
            *snapshot = Snapshot::new(&nodes[place].address);
            snapshot.node.problem = Some(why);
        }
    }
    snapshots
}
