//! What all nodes say of a lock, put together.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc, time::Duration};

use redlock_protocol::{Instant, majority};

use super::{
    found::{
        ClientProcess, Holder, HolderKind, InspectedNode, Inspection, LocalSection, RemoteWaiter,
    },
    snapshot::{Entry, Snapshots},
};
use crate::{
    node::ClientName,
    script::{PROCESS_LENGTH, read_note},
    status::Status,
};

/// The processes that are connected, by their ids.
type Clients = BTreeMap<String, ClientProcess>;

impl Inspection {
    /// `this`: what this process is called, if it is one of those that lock.
    pub(crate) fn new(
        key: Arc<str>,
        snapshots: Snapshots,
        this: Option<ClientName>,
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
        for (address, snapshot) in snapshots {
            let mut node = InspectedNode {
                address: Arc::clone(&address),
                problem: None,
                hides_clients: None,
            };
            match snapshot {
                Ok(snapshot) => {
                    match snapshot.clients {
                        Ok(named) => named
                            .into_iter()
                            .for_each(|it| add_client(&mut clients, it)),
                        Err(reason) => node.hides_clients = Some(reason),
                    }
                    for entry in snapshot.entries {
                        found.add_entry(entry, &address);
                    }
                    for waiter in snapshot.waiters {
                        found.add_waiter(waiter);
                    }
                }
                Err(reason) => node.problem = Some(reason),
            }
            found.nodes.push(node);
        }
        if let Some(name) = this {
            let known = clients.remove(&name.process);
            let this = ClientProcess {
                connected: known.as_ref().and_then(|known| known.connected),
                address: known.and_then(|known| known.address),
                is_this: true,
                ..ClientProcess::of(name)
            };
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

    fn add_entry(&mut self, entry: Entry, address: &Arc<str>) {
        let node = (Arc::clone(address), entry.remaining);
        let mut holders = self.holders.iter_mut();
        let is_it = |it: &&mut Holder| {
            it.permit == entry.permit && it.kind == entry.kind && it.owner == entry.owner
        };
        let value = entry.note.as_deref().and_then(read_note);
        let value = value.map(|(_, value)| value.to_owned());
        let value = value.filter(|value| !value.is_empty());
        match holders.find(is_it) {
            Some(holder) => {
                holder.nodes.push(node);
                holder.value = holder.value.take().or(value);
            }
            None => self.holders.push(Holder {
                kind: entry.kind,
                owner: entry.owner,
                value,
                permit: entry.permit,
                process: None,
                nodes: vec![node],
                has_majority: false,
            }),
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
fn add_client(clients: &mut Clients, client: ClientProcess) {
    let id = client.id.clone();
    let known = clients.get(&id).and_then(|known| known.connected);
    let connected = client.connected.max(known);
    clients.insert(
        id,
        ClientProcess {
            connected,
            ..client
        },
    );
}

impl ClientProcess {
    /// One of this name, of which nothing else is known.
    pub(super) fn of(name: ClientName) -> Self {
        let ClientName {
            process: id,
            service,
            host,
            pid,
        } = name;
        Self {
            id,
            service,
            host,
            pid,
            address: None,
            connected: None,
            is_this: false,
        }
    }
}

impl LocalSection {
    fn new(status: &Status, now: Instant) -> Self {
        let is_held = status.is_held(now);
        Self {
            name: status.name,
            is_shared: status.is_shared(),
            waits: !status.is_granted(),
            asked: now.since(status.since),
            remaining: match is_held {
                true => status.deadline().since(now),
                false => Duration::ZERO,
            },
        }
    }
}
