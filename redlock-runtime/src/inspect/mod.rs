//! Who holds a lock and who waits for it, for the eyes of operators.

mod breaking;
mod found;
mod joined;
mod snapshot;
mod text;

use std::time::Duration;

use redlock_protocol::Instant;

pub use self::breaking::Breaking;
pub use self::found::{Holder, HolderKind, InspectedNode, Inspection, LocalSection, RemoteWaiter};
use self::snapshot::Snapshot;
pub(crate) use self::snapshot::value;
pub use crate::node::ClientProcess;
use crate::{
    config::Node,
    node::{Endpoint, Target},
};

/// Asks all nodes. Memory nodes are read at `now` by the clock of their engine.
pub(crate) async fn ask(nodes: &[Node], key: &str, now: Instant, limit: Duration) -> Vec<Snapshot> {
    let question = |server: &Endpoint| snapshot::questions(key, &server.tag);
    let mut replies = snapshot::ask_servers(nodes, question, limit).await;
    let of_node = |Node { address, target }: &Node| {
        let mut snapshot = Snapshot::new(address);
        match target {
            Target::Memory(memory) => snapshot.look(key, memory, now),
            Target::Redis(_) => {
                if let Err(why) = replies().and_then(|replies| snapshot.read(key, replies)) {
                    snapshot = Snapshot::new(address);
                    snapshot.node.problem = Some(why);
                }
            }
        }
        snapshot
    };
    nodes.iter().map(of_node).collect()
}
