//! Connections between clients and nodes: in order on each of them, and on nothing else.

use std::{collections::VecDeque, sync::Arc};

use redlock_protocol::{ConnectionId, Event, Facts, NodeId, Order, Reply, Request, RequestId};

use crate::{
    MILLI,
    agenda::Happening,
    ailment::Ailment,
    checker::{Rule, Tag},
    faults::Fault,
    world::{Phase, World},
};

/// What a client has to do with a node.
#[derive(Debug, Default)]
pub(crate) struct Link {
    /// The connection that is up or being made, as the client has been told.
    pub(crate) current: Option<usize>,
    pub(crate) up: bool,
    /// By the client's clock, when it was told so.
    pub(crate) up_since: u64,
    /// What is sent in either direction does not arrive before this time.
    pub(crate) blocked_until: u64,
    /// The last true time at which something was wrong with it.
    pub(crate) troubled: u64,
    /// The protocol says that the node votes.
    pub(crate) is_voter: bool,
    /// One way.
    pub(crate) distance: u64,
    /// What is wrong with it for good.
    pub(crate) ailment: Option<Ailment>,
}

pub(crate) struct Connection {
    pub(crate) client: usize,
    pub(crate) incarnation: u32,
    pub(crate) node: usize,
    /// The process that it was made to, once it was.
    pub(crate) process: Option<u64>,
    pub(crate) id: ConnectionId,
    /// The client has given it up, or has been told that it is gone.
    pub(crate) gone: bool,
    /// It carries nothing any more but what `cut` and `late` say.
    pub(crate) broken: bool,
    /// Neither side knows it, but requests or replies do not arrive any more.
    pub(crate) requests_vanish: bool,
    pub(crate) replies_vanish: bool,
    /// The client will hear that it is broken.
    pub(crate) noticed: bool,
    pub(crate) sent: u32,
    /// When the requests were sent that the client has no reply to.
    pub(crate) owed: VecDeque<u64>,
    /// Once broken or gone: so many of the requests sent still arrive at the node, so much later.
    pub(crate) cut: u32,
    pub(crate) late: u64,
    /// When the client has written last.
    pub(crate) written: Option<u64>,
    /// When the last message in either direction arrives.
    pub(crate) out_at: u64,
    pub(crate) back_at: u64,
}

/// Whether the client hears that a connection is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    Soon,
    Never,
}

#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) connection: usize,
    pub(crate) message: Message,
}

#[derive(Debug)]
pub(crate) enum Message {
    /// A new connection: scripts are loaded.
    Hello,
    Request(Box<Sent>),
    Reply(Box<Replied>),
    Up(Facts),
    Down,
    /// A key may have changed; without one, any.
    Changed(Option<Arc<str>>),
}

#[derive(Debug)]
pub(crate) struct Sent {
    /// Its place among the requests of its connection.
    number: u32,
    /// Has waited for `Connection::late`.
    delayed: bool,
    pub(crate) id: RequestId,
    pub(crate) body: Request,
    pub(crate) tag: Tag,
    /// True time.
    pub(crate) at: u64,
}

/// A reply, and the question.
#[derive(Debug)]
pub(crate) struct Replied {
    pub(crate) sent: Box<Sent>,
    /// True time.
    pub(crate) ran: u64,
    /// The node voted then and had forgotten nothing.
    pub(crate) is_good: bool,
    pub(crate) reply: Reply,
}

impl Message {
    /// How much work that has to end it is. Nodes are probed for as long as there are clients.
    pub(crate) fn work(&self) -> usize {
        let sent = match self {
            Self::Request(sent) => sent,
            Self::Reply(replied) => &replied.sent,
            _ => return 1,
        };
        usize::from(sent.body != Request::Probe)
    }
}

impl Link {
    pub(crate) fn new(distance: u64, ailment: Option<Ailment>) -> Self {
        Self {
            troubled: if ailment.is_some() { u64::MAX } else { 0 },
            distance,
            ailment,
            ..Self::default()
        }
    }

    /// Nothing arrives over it before.
    pub(crate) fn block(&mut self, until: u64) {
        self.blocked_until = until;
        self.troubled = self.troubled.max(until + 2 * self.distance);
    }

    pub(crate) const fn is_sick(&self) -> bool {
        self.ailment.is_some()
    }
}

impl Connection {
    /// Dead, and the client does not know.
    pub(crate) const fn is_half_open(&self) -> bool {
        let dead = self.requests_vanish || self.replies_vanish || self.broken;
        dead && !self.gone && !self.noticed
    }
}

impl World {
    // ---- what the protocol wants

    pub(crate) fn connect(&mut self, client: usize, node: NodeId, id: ConnectionId) {
        let link = &self.clients[client].links[node.0];
        if link.current.is_some() {
            let what = format!("client {client} connects to node {} twice", node.0);
            self.violation(Rule::Connections, what);
        }
        let connection = self.connections.len();
        self.connections.push(Connection {
            client,
            incarnation: self.clients[client].incarnation,
            node: node.0,
            process: None,
            id,
            gone: false,
            broken: false,
            requests_vanish: false,
            replies_vanish: false,
            noticed: false,
            sent: 0,
            owed: VecDeque::new(),
            cut: 0,
            late: 0,
            written: None,
            out_at: 0,
            back_at: 0,
        });
        self.nodes[node.0].connections.push(connection);
        self.clients[client].links[node.0].current = Some(connection);
        self.clients[client].costs.connections += 1;
        self.send_to_node(connection, Message::Hello);
    }

    pub(crate) fn disconnect(&mut self, client: usize, node: NodeId) {
        self.checker.link_down(client, node.0);
        let link = &mut self.clients[client].links[node.0];
        link.up = false;
        if let Some(connection) = link.current.take() {
            self.give_up(connection);
            if self.random.chance(250) {
                // The news of its end was on its way to the engine already.
                self.send_to_client(connection, Message::Down);
            }
        }
    }

    pub(crate) fn send(&mut self, client: usize, order: Order, tag: Tag) {
        let node = order.node.0;
        let link = &self.clients[client].links[node];
        let (Some(connection), true) = (link.current, link.up) else {
            let what = format!("client {client} sends to node {node} without a connection");
            return self.violation(Rule::Connections, what);
        };
        self.check_queue(client, connection, &order);
        self.connections[connection].owed.push_back(self.now);
        let number = self.connections[connection].sent;
        self.connections[connection].sent += 1;
        let message = Message::Request(Box::new(Sent {
            number,
            delayed: false,
            id: order.request,
            body: order.body,
            tag,
            at: self.now,
        }));
        self.send_to_node(connection, message);
    }

    // ---- on the way

    fn delay(&mut self, connection: usize) -> u64 {
        let Connection { client, node, .. } = self.connections[connection];
        let link = &self.clients[client].links[node];
        let jitter = self.random.below(link.distance);
        let mut delay = (link.distance + jitter).max(link.blocked_until.saturating_sub(self.now));
        let slow = &self.nodes[node];
        if slow.slow_until > self.now {
            delay += slow.slow_by;
        }
        if let Some(Ailment::Slow(by)) = link.ailment {
            delay += by;
        }
        if self.plan.late > 0 && self.phase == Phase::Faulty && self.random.chance(self.plan.late) {
            delay += self.random.below(self.plan.late_by);
            let link = &mut self.clients[client].links[node];
            link.troubled = link.troubled.max(self.now + delay);
            self.hit(Fault::MessageLate, Some(client));
        }
        delay
    }

    fn send_to_node(&mut self, connection: usize, message: Message) {
        let at = self.now + self.delay(connection);
        let way = &mut self.connections[connection];
        let link = &self.clients[way.client].links[way.node];
        if let (Some(Ailment::Narrow(by)), Message::Request(_)) = (link.ailment, &message) {
            way.out_at = way.out_at.max(self.now) + by;
            way.written = None;
        }
        // What is sent at one time is one write on the socket.
        if way.written.replace(self.now) != Some(self.now) {
            way.out_at = way.out_at.max(at);
        }
        let at = way.out_at;
        self.under_way += message.work();
        let arrival = Arrival {
            connection,
            message,
        };
        self.agenda.at(at, Happening::AtNode(arrival));
    }

    pub(crate) fn send_to_client(&mut self, connection: usize, message: Message) {
        let at = self.now + self.delay(connection);
        let way = &mut self.connections[connection];
        way.back_at = way.back_at.max(at);
        let at = way.back_at;
        self.under_way += message.work();
        let arrival = Arrival {
            connection,
            message,
        };
        self.agenda.at(at, Happening::AtClient(arrival));
    }

    /// When all that is on its way has arrived. What was sent into a partition is sent again long after its end, and
    /// later messages arrive behind it.
    pub(crate) fn ways_clear(&self) -> u64 {
        let links = self.clients.iter().flat_map(|client| &client.links);
        let ways = links.filter_map(|link| Some(&self.connections[link.current?]));
        let arrivals = ways.map(|way| way.out_at.max(way.back_at));
        arrivals.max().unwrap_or(0)
    }

    /// Counts a message that does not arrive.
    pub(crate) fn lose(&mut self, arrival: &Arrival) {
        let client = self.connections[arrival.connection].client;
        match arrival.message {
            Message::Request(_) => self.hit(Fault::RequestLost, Some(client)),
            Message::Reply(_) => self.hit(Fault::ReplyLost, Some(client)),
            Message::Hello | Message::Up(_) | Message::Down | Message::Changed(_) => {}
        }
    }

    // ---- at the node

    pub(crate) fn at_node(&mut self, mut arrival: Arrival) {
        self.under_way -= arrival.message.work();
        let way = &self.connections[arrival.connection];
        let node = way.node;
        if let Message::Request(sent) = &mut arrival.message {
            // What was sent to a process reaches no other one.
            let other_process = way.process != Some(self.nodes[node].process);
            if other_process || way.requests_vanish || way.broken && sent.number >= way.cut {
                return self.lose(&arrival);
            }
            if way.broken && way.late > 0 && !sent.delayed {
                sent.delayed = true;
                let at = self.now + way.late;
                self.under_way += arrival.message.work();
                return self.agenda.at(at, Happening::AtNode(arrival));
            }
        } else if way.broken || way.requests_vanish || self.ailment(&arrival) == Some(Ailment::Shut)
        {
            return;
        }
        if self.nodes[node].down {
            if matches!(arrival.message, Message::Hello) {
                self.send_to_client(arrival.connection, Message::Down);
            }
            return self.lose(&arrival);
        }
        if self.nodes[node].silent_until > self.now {
            self.under_way += arrival.message.work();
            self.nodes[node].backlog.push_back(arrival);
            return;
        }
        self.serve(node, arrival);
    }

    fn ailment(&self, arrival: &Arrival) -> Option<Ailment> {
        let way = &self.connections[arrival.connection];
        self.clients[way.client].links[way.node].ailment
    }

    /// The node reads again: first of all what has come in meanwhile.
    pub(crate) fn speak(&mut self, node: usize) {
        if self.nodes[node].silent_until > self.now {
            return;
        }
        for arrival in std::mem::take(&mut self.nodes[node].backlog) {
            self.under_way -= arrival.message.work();
            self.serve(node, arrival);
        }
    }

    fn serve(&mut self, node: usize, arrival: Arrival) {
        let connection = arrival.connection;
        let answer = match arrival.message {
            Message::Hello => {
                let is_blind = self.is_blind(connection);
                let served = &mut self.nodes[node];
                served.load_scripts();
                let process = served.process;
                let ailment = self.ailment(&arrival);
                let made = &mut self.connections[connection];
                made.process = Some(process);
                made.requests_vanish = ailment == Some(Ailment::Mute);
                Message::Up(self.nodes[node].facts(is_blind, self.now))
            }
            Message::Request(sent) if !self.nodes[node].learns_script(&sent.body) => {
                return self.send_again(connection, sent);
            }
            Message::Request(sent) => {
                let reply = self.execute(node, connection, &sent);
                let served = &self.nodes[node];
                Message::Reply(Box::new(Replied {
                    sent,
                    ran: self.now,
                    is_good: served.remembers && served.votes(),
                    reply,
                }))
            }
            Message::Reply(_) | Message::Up(_) | Message::Down | Message::Changed(_) => return,
        };
        self.tell_readers(node);
        if self.is_reply_lost(connection) {
            return;
        }
        self.send_to_client(connection, answer);
    }

    /// The node did not know the script. The driver sends the request again, with the script's text,
    /// behind all that it has sent meanwhile.
    fn send_again(&mut self, connection: usize, mut sent: Box<Sent>) {
        if self.is_reply_lost(connection) {
            return;
        }
        let way = &mut self.connections[connection];
        sent.number = way.sent;
        way.sent += 1;
        self.send_to_node(connection, Message::Request(sent));
    }

    fn is_reply_lost(&mut self, connection: usize) -> bool {
        let way = &self.connections[connection];
        let is_lost = way.broken || way.replies_vanish;
        if is_lost {
            let client = way.client;
            self.hit(Fault::ReplyLost, Some(client));
        }
        is_lost
    }

    pub(crate) fn is_blind(&self, connection: usize) -> bool {
        let way = &self.connections[connection];
        self.clients[way.client].traits.is_blind
    }

    /// Tells those who have read keys that have changed.
    pub(crate) fn tell_readers(&mut self, node: usize) {
        for (reader, key) in std::mem::take(&mut self.nodes[node].told) {
            self.tell(reader, Some(key));
        }
    }

    /// The word that a key has changed, which comes late or not at all like any message.
    fn tell(&mut self, connection: usize, key: Option<Arc<str>>) {
        let way = &self.connections[connection];
        if !way.broken && !way.replies_vanish {
            self.tally.words += 1;
            self.send_to_client(connection, Message::Changed(key));
        }
    }

    /// The same to everybody who is connected to a node.
    pub(crate) fn tell_all(&mut self, node: usize) {
        if self.nodes[node].tells_changes {
            for connection in self.nodes[node].connections.clone() {
                self.tell(connection, None);
            }
        }
    }

    // ---- at the client

    pub(crate) fn at_client(&mut self, arrival: Arrival) {
        self.under_way -= arrival.message.work();
        let way = &self.connections[arrival.connection];
        let client = way.client;
        if way.incarnation != self.clients[client].incarnation {
            return;
        }
        if way.replies_vanish && !matches!(arrival.message, Message::Down) {
            return self.lose(&arrival);
        }
        if self.clients[client].paused {
            self.under_way += arrival.message.work();
            self.clients[client].inbox.push_back(arrival);
            return;
        }
        self.take_in(client, arrival);
    }

    /// Hands a message over to the engine.
    pub(crate) fn take_in(&mut self, client: usize, arrival: Arrival) {
        let way = &self.connections[arrival.connection];
        let node = NodeId(way.node);
        let (connection, gone) = (way.id, way.gone);
        // What was in the engine's inbox when it gave the connection up still comes to it; what
        // was in the socket does not.
        if gone && !self.random.chance(300) {
            return self.lose(&arrival);
        }
        if gone {
            self.hit(Fault::StaleNews, Some(client));
        }
        let current = self.clients[client].links[node.0].current == Some(arrival.connection);
        let event = match arrival.message {
            Message::Reply(replied) => {
                self.connections[arrival.connection].owed.pop_front();
                if !gone {
                    self.look_at_reply(client, node, &replied);
                }
                Event::Reply {
                    node,
                    request: replied.sent.id,
                    reply: replied.reply,
                }
            }
            Message::Changed(key) => Event::Changed { node, key },
            Message::Up(facts) => {
                let now = self.clients[client].clock.read(self.now);
                let link = &mut self.clients[client].links[node.0];
                if current {
                    link.up = true;
                    link.up_since = now;
                    link.troubled = link.troubled.max(self.now);
                }
                Event::Connected {
                    node,
                    connection,
                    facts,
                }
            }
            Message::Down => {
                if current {
                    self.checker.link_down(client, node.0);
                    let link = &mut self.clients[client].links[node.0];
                    link.up = false;
                    link.current = None;
                    self.connections[arrival.connection].gone = true;
                }
                Event::Disconnected {
                    node,
                    connection,
                    reason: "reset".into(),
                }
            }
            Message::Hello | Message::Request(_) => return,
        };
        self.handle(client, event);
    }

    /// Distances of a new client, and what is wrong for good in its place.
    pub(crate) fn links(&mut self, place: usize) -> Vec<Link> {
        let ailments = self.plan.ailments(place).into_iter();
        let link = |ailment| Link::new(self.plan.distance(&mut self.random), ailment);
        ailments.map(link).collect()
    }

    pub(crate) fn up(&mut self, node: usize) {
        if self.gone == Some(node) {
            return;
        }
        let started = &mut self.nodes[node];
        started.down = false;
        started.troubled = self.now.max(started.slow_until + started.slow_by);
        self.agenda.at(self.now + MILLI, Happening::Speak { node });
    }
}
