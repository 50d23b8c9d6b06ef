//! How connections break, and what still arrives then.

use crate::{
    network::{Message, Notice},
    world::{Phase, World},
};

impl World {
    pub(crate) fn break_link(&mut self, client: usize, node: usize) {
        if let Some(connection) = self.clients[client].links[node].current {
            self.break_connection(connection, true, Notice::Soon);
        }
    }

    /// With `some_arrive`, what is under way to the node may still arrive in part.
    pub(crate) fn break_connection(
        &mut self,
        connection: usize,
        some_arrive: bool,
        notice: Notice,
    ) {
        let late = self.lateness();
        let replies_lost = self.random.chance(500);
        let broken = &mut self.connections[connection];
        if !broken.broken {
            broken.broken = true;
            broken.late = late;
            broken.replies_vanish |= replies_lost;
            broken.cut = 0;
            if some_arrive {
                broken.cut = self.random.below(u64::from(broken.sent) + 1) as u32;
            }
        }
        let (client, node) = (broken.client, broken.node);
        if notice == Notice::Soon && !broken.gone && !broken.noticed {
            broken.noticed = true;
            self.send_to_client(connection, Message::Down);
        }
        self.forget_connection(client, node, connection);
    }

    /// The client closes it: what is under way to the node mostly arrives.
    pub(crate) fn give_up(&mut self, connection: usize) {
        let late = self.lateness();
        let all = self.random.chance(750);
        let closed = &mut self.connections[connection];
        closed.gone = true;
        if !closed.broken {
            closed.broken = true;
            closed.late = late;
            closed.cut = closed.sent;
            if !all {
                closed.cut = self.random.below(u64::from(closed.sent) + 1) as u32;
            }
        }
        let (client, node) = (closed.client, closed.node);
        self.forget_connection(client, node, connection);
    }

    fn forget_connection(&mut self, client: usize, node: usize, connection: usize) {
        self.nodes[node]
            .connections
            .retain(|&one| one != connection);
        if let Some(client) = self.clients.get_mut(client) {
            let link = &mut client.links[node];
            link.troubled = link.troubled.max(self.now);
        }
    }

    /// The client is no more.
    pub(crate) fn give_up_all_of(&mut self, client: usize) {
        for node in 0..self.nodes.len() {
            for connection in self.nodes[node].connections.clone() {
                if self.connections[connection].client == client {
                    self.give_up(connection);
                }
            }
        }
    }

    pub(crate) fn half_open(&mut self, client: usize, node: usize) {
        if let Some(connection) = self.clients[client].links[node].current {
            let half_open = &mut self.connections[connection];
            // Requests, replies, or both. Those replies still come that are on their way.
            half_open.requests_vanish = self.random.chance(600);
            half_open.replies_vanish = !half_open.requests_vanish || self.random.chance(500);
        }
    }

    fn lateness(&mut self) -> u64 {
        if self.phase == Phase::Faulty && self.random.chance(500) {
            self.random.below(2 * self.plan.lease)
        } else {
            0
        }
    }
}
