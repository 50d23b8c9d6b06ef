//! What all nodes say of a lock, put together.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use redlock_protocol::{Instant, majority};

use super::{
    found::{Holder, HolderKind, Inspection, LocalSection, RemoteWaiter},
    snapshot::Snapshot,
};
use crate::{node::ClientProcess, script::PROCESS_LENGTH, status::Status};

/// The processes that are connected, by their ids.
type Clients = BTreeMap<String, ClientProcess>;

impl Inspection {
    /// `this`: this process, if it is one of those that lock.
    pub(crate) fn new(
        key: Arc<str>,
        snapshots: Vec<Snapshot>,
        this: Option<ClientProcess>,
        sections: Vec<Arc<Status>>,
        now: Instant,
    ) -> Self {
        let quorum = majority(snapshots.len());
        let mut found = Self {
            key,
            nodes: Vec::new(),
            holders: Vec::new(),
            waiters: Vec::new(),
            sections: Vec::new(),
        };
        let mut clients = Clients::new();
        for snapshot in snapshots {
            found.nodes.push(snapshot.node);
            for client in snapshot.clients {
                add_client(&mut clients, client);
            }
            for holder in snapshot.holders {
                found.add_holder(holder);
            }
            for waiter in snapshot.waiters {
                found.add_waiter(waiter);
            }
        }
        if let Some(mut this) = this {
            if let Some(known) = clients.remove(&this.id) {
                (this.address, this.connected) = (known.address, known.connected);
            }
            clients.insert(this.id.clone(), this);
        }
        for holder in &mut found.holders {
            let id = holder.owner.get(..PROCESS_LENGTH);
            let id = id.filter(|_| holder.kind != HolderKind::Foreign);
            holder.process = id.and_then(|id| clients.get(id)).cloned();
            holder.has_majority = holder.nodes.len() >= quorum;
        }
        for waiter in &mut found.waiters {
            waiter.process = clients.get(&waiter.id).cloned();
        }
        let of_holder = |holder: &Holder| (Reverse(holder.nodes.len()), holder.permit);
        found.holders.sort_by_key(of_holder);
        found.waiters.sort_by_key(|waiter| Reverse(waiter.waited));
        let sections = sections.iter();
        found.sections = sections.map(|it| LocalSection::new(it, now)).collect();
        found
    }

    /// Each owner once.
    fn add_holder(&mut self, holder: Holder) {
        let mut holders = self.holders.iter_mut();
        let is_it = |it: &&mut Holder| {
            it.permit == holder.permit && it.kind == holder.kind && it.owner == holder.owner
        };
        match holders.find(is_it) {
            Some(known) => {
                known.nodes.extend(holder.nodes);
                known.value = known.value.take().or(holder.value);
            }
            None => self.holders.push(holder),
        }
    }

    /// Each process once.
    fn add_waiter(&mut self, waiter: RemoteWaiter) {
        let mut waiters = self.waiters.iter_mut();
        match waiters.find(|known| known.id == waiter.id) {
            Some(known) => known.waited = known.waited.max(waiter.waited),
            None => self.waiters.push(waiter),
        }
    }
}

/// Each process once, with the age of its oldest connection.
fn add_client(clients: &mut Clients, mut client: ClientProcess) {
    if let Some(known) = clients.get(&client.id) {
        client.connected = client.connected.max(known.connected);
    }
    clients.insert(client.id.clone(), client);
}

impl LocalSection {
    fn new(status: &Status, now: Instant) -> Self {
        Self {
            name: status.name,
            is_shared: status.is_shared(),
            waits: !status.is_granted(),
            asked: now.since(status.since),
            remaining: status.remaining(now),
        }
    }
}
