//! Connections between clients and nodes: in order on each of them, and on nothing else.

use std::sync::Arc;

use crate::{
    MILLI,
    agenda::Happening,
    checker::{Invariant, Tag},
    faults::Harm,
    node::{Effect, Node, index_of},
    plan::{Plan, Profile},
    protocol::{ConnectionId, Event, Facts, NodeId, Owner, Reply, Request, RequestId},
    trace,
    world::{Phase, World},
};

/// What a client has to do with a node.
#[derive(Debug)]
pub(crate) struct Link {
    /// The connection that is up or being made, as the client has been told.
    pub(crate) current: Option<usize>,
    pub(crate) up: bool,
    /// By the client's clock, when it was told so.
    pub(crate) up_since: u64,
    /// What is sent in either direction does not arrive before this time.
    pub(crate) blocked_until: u64,
    /// One way.
    distance: u64,
}

#[derive(Debug)]
pub(crate) struct Connection {
    client: usize,
    incarnation: u32,
    pub(crate) node: usize,
    id: ConnectionId,
    /// The client has given it up, or has been told that it is gone.
    gone: bool,
    /// It carries nothing any more but what `cut` and `late` say.
    broken: bool,
    /// Neither side knows it, but requests or replies do not arrive any more.
    requests_vanish: bool,
    replies_vanish: bool,
    /// The client will hear that it is broken.
    noticed: bool,
    sent: u32,
    /// Once broken or gone: so many of the requests sent still arrive at the node, so much later.
    cut: u32,
    late: u64,
    /// When the last message in either direction arrives.
    out_at: u64,
    back_at: u64,
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
    Request {
        number: u32,
        /// Has waited for `Connection::late`.
        delayed: bool,
        id: RequestId,
        body: Request,
        server: Option<Arc<str>>,
        with_source: bool,
        tag: Tag,
    },
    Reply {
        id: RequestId,
        /// The owner that asked to be granted a lock, where it did.
        asked: Option<Owner>,
        reply: Reply,
    },
    Up(Facts),
    Down,
    /// A key may have changed; without one, any.
    Changed(Option<Arc<str>>),
}

impl Link {
    pub(crate) fn new(distance: u64) -> Self {
        Self {
            current: None,
            up: false,
            up_since: 0,
            blocked_until: 0,
            distance,
        }
    }
}

impl Connection {
    /// Dead, and the client does not know.
    pub(crate) const fn is_half_open(&self) -> bool {
        let dead = self.requests_vanish || self.replies_vanish || self.broken;
        dead && !self.gone && !self.noticed
    }

    pub(crate) const fn is_broken(&self) -> bool {
        self.broken
    }
}

impl World {
    // ---- what the protocol wants

    pub(crate) fn connect(&mut self, client: usize, node: NodeId, id: ConnectionId) {
        let link = &self.clients[client].links[node.0];
        if link.current.is_some() {
            let what = format!("client {client} connects to node {} twice", node.0);
            self.violation(Invariant::Connections, what);
        }
        let connection = self.connections.len();
        self.connections.push(Connection {
            client,
            incarnation: self.clients[client].incarnation,
            node: node.0,
            id,
            gone: false,
            broken: false,
            requests_vanish: false,
            replies_vanish: false,
            noticed: false,
            sent: 0,
            cut: 0,
            late: 0,
            out_at: 0,
            back_at: 0,
        });
        self.clients[client].links[node.0].current = Some(connection);
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

    pub(crate) fn send(
        &mut self,
        client: usize,
        node: NodeId,
        id: RequestId,
        body: Request,
        (server, with_source): (Option<Arc<str>>, bool),
        tag: Tag,
    ) {
        let link = &self.clients[client].links[node.0];
        let (Some(connection), true) = (link.current, link.up) else {
            let what = format!(
                "client {client} sends to node {} without a connection",
                node.0
            );
            return self.violation(Invariant::Connections, what);
        };
        let number = self.connections[connection].sent;
        self.connections[connection].sent += 1;
        let message = Message::Request {
            number,
            delayed: false,
            id,
            body,
            server,
            with_source,
            tag,
        };
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
        if self.plan.late > 0 && self.phase == Phase::Faulty && self.random.chance(self.plan.late) {
            delay += self.random.below(self.plan.late_by);
            self.hit(Harm::MessageLate, Some(client));
        }
        delay
    }

    fn send_to_node(&mut self, connection: usize, message: Message) {
        let at = self.now + self.delay(connection);
        let way = &mut self.connections[connection];
        way.out_at = way.out_at.max(at);
        let at = way.out_at;
        self.under_way += 1;
        let arrival = Arrival {
            connection,
            message,
        };
        self.agenda.at(at, Happening::AtNode(arrival));
    }

    fn send_to_client(&mut self, connection: usize, message: Message) {
        let at = self.now + self.delay(connection);
        let way = &mut self.connections[connection];
        way.back_at = way.back_at.max(at);
        let at = way.back_at;
        self.under_way += 1;
        let arrival = Arrival {
            connection,
            message,
        };
        self.agenda.at(at, Happening::AtClient(arrival));
    }

    /// Counts a message that does not arrive.
    pub(crate) fn lose(&mut self, arrival: &Arrival) {
        let client = self.connections[arrival.connection].client;
        match arrival.message {
            Message::Request { .. } => self.hit(Harm::RequestLost, Some(client)),
            Message::Reply { .. } => self.hit(Harm::ReplyLost, Some(client)),
            Message::Hello | Message::Up(_) | Message::Down | Message::Changed(_) => {}
        }
    }

    // ---- what breaks

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
        if notice == Notice::Soon && !broken.gone && !broken.noticed {
            broken.noticed = true;
            self.send_to_client(connection, Message::Down);
        }
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
    }

    /// The client is no more.
    pub(crate) fn give_up_of(&mut self, connection: usize, client: usize) {
        if self.connections[connection].client == client && !self.connections[connection].gone {
            self.give_up(connection);
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

    // ---- at the node

    pub(crate) fn at_node(&mut self, mut arrival: Arrival) {
        self.under_way -= 1;
        let way = &self.connections[arrival.connection];
        let node = way.node;
        if let Message::Request {
            number, delayed, ..
        } = &mut arrival.message
        {
            if way.requests_vanish || way.broken && *number >= way.cut {
                return self.lose(&arrival);
            }
            if way.broken && way.late > 0 && !*delayed {
                *delayed = true;
                let at = self.now + way.late;
                self.under_way += 1;
                return self.agenda.at(at, Happening::AtNode(arrival));
            }
        } else if way.broken || way.requests_vanish {
            return;
        }
        if self.nodes[node].down {
            if matches!(arrival.message, Message::Hello) {
                self.send_to_client(arrival.connection, Message::Down);
            }
            return self.lose(&arrival);
        }
        if self.nodes[node].silent_until > self.now {
            self.under_way += 1;
            self.nodes[node].backlog.push_back(arrival);
            return;
        }
        self.serve(node, arrival);
    }

    /// The node reads again: first of all what has come in meanwhile.
    pub(crate) fn speak(&mut self, node: usize) {
        if self.nodes[node].silent_until > self.now {
            return;
        }
        for arrival in std::mem::take(&mut self.nodes[node].backlog) {
            self.under_way -= 1;
            self.serve(node, arrival);
        }
    }

    fn serve(&mut self, node: usize, arrival: Arrival) {
        let connection = arrival.connection;
        let answer = match arrival.message {
            Message::Hello => {
                self.nodes[node].load_scripts();
                Message::Up(self.nodes[node].facts(node, self.now))
            }
            Message::Request {
                id,
                body,
                server,
                with_source,
                tag,
                ..
            } => Message::Reply {
                id,
                asked: match body {
                    Request::Acquire { owner, .. } => Some(owner),
                    _ => None,
                },
                reply: self.run_script(node, connection, (id, &body), (server, with_source), tag),
            },
            Message::Reply { .. } | Message::Up(_) | Message::Down | Message::Changed(_) => return,
        };
        for (reader, key) in std::mem::take(&mut self.nodes[node].told) {
            self.tell(reader, Some(key.into()));
        }
        let way = &self.connections[connection];
        if way.broken || way.replies_vanish {
            let client = way.client;
            return self.hit(Harm::ReplyLost, Some(client));
        }
        self.send_to_client(connection, answer);
    }

    /// The word that a key has changed, which comes late or not at all like any message.
    pub(crate) fn tell(&mut self, connection: usize, key: Option<Arc<str>>) {
        let way = &self.connections[connection];
        if !way.broken && !way.replies_vanish {
            self.tally.words += 1;
            self.send_to_client(connection, Message::Changed(key));
        }
    }

    /// The same to everybody who is connected to a node.
    pub(crate) fn tell_all(&mut self, node: usize) {
        for connection in 0..self.connections.len() {
            if self.connections[connection].node == node {
                self.tell(connection, None);
            }
        }
    }

    fn run_script(
        &mut self,
        node: usize,
        connection: usize,
        (id, body): (RequestId, &Request),
        how: (Option<Arc<str>>, bool),
        tag: Tag,
    ) -> Reply {
        let voted = self.nodes[node].votes();
        let (reply, effect) = self.nodes[node].run((node, connection), body, how, tag, self.now);
        if !voted && self.nodes[node].votes() {
            self.on_reseed(node, tag);
        }
        trace!(self, "   node {node} <- {body:?} = {reply:?}");
        if self.connections[connection].broken {
            let client = self.connections[connection].client;
            self.hit(Harm::Overtaken, Some(client));
        }
        match (body, effect) {
            (Request::Acquire { key, owner, .. }, Effect::Made)
                if self.checker.is_overtaken(node, *owner, id) =>
            {
                self.nodes[node].mark_orphan(index_of(key));
            }
            (_, Effect::Touched(owned) | Effect::Kept(owned)) if owned != tag => {
                let what = format!("{body:?} of attempt {tag:?} hit the key of {owned:?}");
                self.violation(Invariant::ForeignUnlock, what);
            }
            _ => {}
        }
        if let (Request::Acquire { owner, .. }, Reply::Held { .. }) = (body, &reply) {
            self.checker.refused(node, *owner, id);
        }
        match (body, &reply) {
            (Request::Release { owner, .. }, reply) => {
                self.checker.release_ran(node, *owner, id, reply);
            }
            (Request::Acquire { owner, .. }, Reply::Granted { was_ours, .. }) => {
                self.checker.on_word(node, *owner, id, *was_ours);
            }
            (
                Request::Acquire { owner, .. }
                | Request::Extend { owner, .. }
                | Request::Watch {
                    owner: Some(owner), ..
                },
                Reply::Held { .. }
                | Reply::Extended { .. }
                | Reply::Ours
                | Reply::NotOwner
                | Reply::Taken { .. }
                | Reply::Free,
            ) => {
                let had_it = matches!(reply, Reply::Extended { .. } | Reply::Ours);
                self.checker.on_word(node, *owner, id, had_it);
            }
            _ => {}
        }
        reply
    }

    /// A node votes again.
    fn on_reseed(&mut self, node: usize, tag: Tag) {
        let now = self.now;
        let Node {
            remembers, lost_at, ..
        } = &mut self.nodes[node];
        if *remembers {
            return;
        }
        // A node's clock that steps can end its quarantine.
        let in_time =
            self.plan.profile == Profile::Outside && now - *lost_at < self.plan.least_quarantine();
        *remembers = tag == Tag::RESEED && !in_time;
        self.tally.reseeds[usize::from(!*remembers)] += 1;
        self.short_reseeds |= !*remembers;
    }

    // ---- at the client

    pub(crate) fn at_client(&mut self, arrival: Arrival) {
        self.under_way -= 1;
        let way = &self.connections[arrival.connection];
        let client = way.client;
        if way.incarnation != self.clients[client].incarnation {
            return;
        }
        if way.replies_vanish && !matches!(arrival.message, Message::Down) {
            return self.lose(&arrival);
        }
        if self.clients[client].paused {
            self.under_way += 1;
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
            self.hit(Harm::StaleNews, Some(client));
        }
        let current = self.clients[client].links[node.0].current == Some(arrival.connection);
        let event = match arrival.message {
            Message::Reply { id, asked, reply } => {
                let remembers = self.nodes[node.0].remembers;
                self.checker.on_reply(client, node, &reply, remembers);
                if let (Some(owner), Reply::Held { .. }) = (asked, &reply) {
                    self.checker.denied(node.0, owner, id);
                }
                Event::Reply {
                    node,
                    request: id,
                    reply,
                }
            }
            Message::Changed(key) => Event::Changed { node, key },
            Message::Up(facts) => {
                let now = self.clients[client].clock.read(self.now);
                let link = &mut self.clients[client].links[node.0];
                if current {
                    link.up = true;
                    link.up_since = now;
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
            Message::Hello | Message::Request { .. } => return,
        };
        self.handle(client, event);
    }

    /// Distances of a new client.
    pub(crate) fn links(&mut self) -> Vec<Link> {
        let nodes = self.nodes.len();
        (0..nodes)
            .map(|_| Link::new(Plan::distance(&mut self.random)))
            .collect()
    }

    pub(crate) fn up(&mut self, node: usize) {
        self.nodes[node].down = false;
        self.agenda.at(self.now + MILLI, Happening::Speak { node });
    }
}
