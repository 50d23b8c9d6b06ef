//! How many keys an event has to do with, while there are many.

use std::collections::VecDeque;

use super::*;
use crate::{
    message::{ConnectionId, Facts},
    model::{Model, Moment},
};

const LOCKS: usize = 1_000;
const LEASE: Duration = Duration::from_secs(600);

/// One client that holds many locks, and nodes that reply at once.
struct World {
    protocol: Protocol,
    nodes: [(Model, Facts); 3],
    connections: [ConnectionId; 3],
    /// Accepts no connection.
    dead: Option<NodeId>,
    events: VecDeque<Event>,
    now: Instant,
    drained: bool,
}

impl World {
    fn new() -> Self {
        let now = Instant::from_nanos(0).after(LEASE);
        let mut last = 0;
        let random = move || {
            last += 1;
            last << 64 | last
        };
        let env = Env {
            random: Box::new(random),
            wall_micros: Box::new(|| 1),
        };
        let params = LockParams::of(LEASE);
        let settings = Settings {
            assume_fresh: true,
            busy_from: usize::MAX,
            ..Settings::of(params.key_ttl(), params.key_ttl())
        };
        let mut world = Self {
            protocol: Protocol::new(3, settings, env, now),
            nodes: [0, 1, 2].map(|node| {
                let server: Option<Arc<str>> = Some(format!("{node}").into());
                let facts = Facts {
                    server: server.clone(),
                    tells_changes: true,
                    ..Facts::default()
                };
                (Model::new(server), facts)
            }),
            connections: [ConnectionId(0); 3],
            dead: None,
            events: VecDeque::new(),
            now,
            drained: false,
        };
        world.carry_out();
        world.run_for(Duration::from_secs(1));
        for lock in 0..LOCKS {
            world.events.push_back(Event::Ask {
                section: SectionId(lock as u64),
                key: format!("{lock}").into(),
                params,
            });
        }
        world.run_for(Duration::from_secs(1));
        assert_eq!(world.nodes[2].0.keys(world.now).count(), LOCKS);
        world
    }

    fn carry_out(&mut self) {
        while let Some(action) = self.protocol.poll_action() {
            match action {
                Action::Connect { node, connection } => {
                    self.connections[node.0] = connection;
                    self.events.push_back(match self.dead == Some(node) {
                        true => Event::Disconnected {
                            node,
                            connection,
                            reason: "it is dead".into(),
                        },
                        false => {
                            let facts = self.nodes[node.0].1.clone();
                            Event::Connected {
                                node,
                                connection,
                                facts,
                            }
                        }
                    });
                }
                Action::Send(order) if self.dead != Some(order.node) => {
                    let moment = Moment {
                        now: self.now,
                        wall_micros: 1,
                    };
                    let reply = self.nodes[order.node.0].0.run(&order.body, moment);
                    let (node, request) = (order.node, order.request);
                    self.events.push_back(Event::Reply {
                        node,
                        request,
                        reply,
                    });
                }
                Action::Drained(left) => {
                    assert_eq!(left.held, 0);
                    self.drained = true;
                }
                _ => {}
            }
        }
    }

    /// Hands in what there is, and then what comes within this time.
    fn run_for(&mut self, time: Duration) {
        let end = self.now.after(time);
        loop {
            let event = match (self.events.pop_front(), self.protocol.next_wakeup()) {
                (Some(event), _) => event,
                (None, Some(at)) if at <= end => {
                    self.now = self.now.max(at);
                    Event::Wakeup
                }
                _ => return self.now = end,
            };
            self.protocol.handle(event, self.now);
            self.carry_out();
        }
    }

    fn lose_node(&mut self) {
        let node = NodeId(2);
        self.dead = Some(node);
        let (connection, reason) = (self.connections[2], "it is dead".into());
        self.events.push_back(Event::Disconnected {
            node,
            connection,
            reason,
        });
    }

    fn looks(&self) -> usize {
        self.protocol.keys.looks.get()
    }
}

#[test]
fn a_node_that_is_gone_is_looked_for_without_a_look_at_the_locks() {
    let mut world = World::new();
    let before = world.looks();
    world.lose_node();
    world.run_for(Duration::from_secs(100));
    let looks = world.looks() - before;
    assert!(looks <= 2 * LOCKS, "{looks}");
}

#[test]
fn a_shutdown_looks_at_each_lock_a_few_times() {
    let mut world = World::new();
    world.lose_node();
    world.run_for(Duration::from_secs(1));
    let before = world.looks();
    let timeout = Duration::from_secs(60);
    world.events.push_back(Event::Shutdown {
        timeout,
        abort_holders: false,
    });
    for lock in 0..LOCKS {
        let section = SectionId(lock as u64);
        world.events.push_back(Event::End {
            section,
            report: false,
        });
    }
    world.run_for(timeout / 2);
    assert!(world.drained);
    let looks = world.looks() - before;
    assert!(looks <= 10 * LOCKS, "{looks}");
}
