//! What goes wrong in this world, and what other clients do.

use super::*;

/// How the memory of a node is lost.
pub(crate) const LOSSES: [fn(&mut World, usize); 2] = [World::flush, World::restart_empty];

impl World {
    /// A client of another library, or of another fleet, has the key on this node for so long.
    pub(crate) fn occupy(&mut self, node: usize, key: &str, owner: Owner, ttl: Duration) {
        self.nodes[node].occupy(key, owner, ttl, self.now);
        self.notify(node, key, None);
    }

    /// The same on all nodes, for a minute.
    pub(crate) fn occupy_all(&mut self, key: &str, owner: Owner) {
        for node in 0..self.nodes.len() {
            self.occupy(node, key, owner, Duration::from_secs(60));
        }
    }

    /// `DEL`, by hand.
    pub(crate) fn delete(&mut self, node: usize, key: &str) {
        self.nodes[node].forget_key(key);
        self.notify(node, key, None);
    }

    pub(crate) fn delete_all(&mut self, key: &str) {
        for node in 0..self.nodes.len() {
            self.delete(node, key);
        }
    }

    /// No node tells any client of changes from now on.
    pub(crate) fn tell_nothing(&mut self) {
        for node in 0..self.nodes.len() {
            self.nodes[node].tells_changes = false;
            self.break_connections(node);
        }
        for client in 0..self.clients.len() {
            self.await_votes(client);
        }
    }

    /// The key is gone, and no client is told.
    pub(crate) fn forget_all(&mut self, key: &str) {
        for node in &mut self.nodes {
            node.forget_key(key);
        }
    }

    /// `FLUSHALL`, which the node tells all clients about that it tells of changes.
    pub(crate) fn flush(&mut self, node: usize) {
        self.nodes[node].flush();
        for client in 0..self.clients.len() {
            let Some(connection) = self.nodes[node].connections.get_mut(&client) else {
                continue;
            };
            connection.tracked.clear();
            if connection.tells_changes {
                let id = connection.id;
                self.tell_of(node, client, id, None);
            }
        }
    }

    /// A new process on the same address, with nothing in memory.
    pub(crate) fn restart_empty(&mut self, node: usize) {
        self.nodes[node].restart(None, self.now);
        self.break_connections(node);
    }

    /// A new process on the same address, with what the node had when `snapshot` was taken.
    pub(crate) fn restart_from(&mut self, node: usize, snapshot: &Node) {
        self.nodes[node].restart(Some(snapshot), self.now);
        self.break_connections(node);
    }

    /// All clients lose their connections to this node.
    pub(crate) fn break_connections(&mut self, node: usize) {
        for client in 0..self.clients.len() {
            self.client(client).break_connection(node);
        }
    }

    /// Something on the way to this node has forgotten all connections, and lets nobody know.
    pub(crate) fn drop_connections(&mut self, node: usize) {
        self.nodes[node].connections.clear();
    }

    /// The node accepts no connection any more, and those that it had are gone.
    pub(crate) fn kill(&mut self, node: usize) {
        self.behave([node], Behavior::Dead);
    }

    pub(crate) fn behave(&mut self, nodes: impl IntoIterator<Item = usize>, behavior: Behavior) {
        for node in nodes {
            self.nodes[node].behavior = behavior;
            if behavior == Behavior::Dead {
                self.break_connections(node);
            }
        }
    }
}
