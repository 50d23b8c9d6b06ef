//! A world of nodes and client processes in virtual time: every message takes one millisecond each
//! way, and nothing happens by chance.

mod client;
mod crowd;
mod faults;
mod node;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

// Also of the crate itself, whose own tests use this world, too.
use super::redlock_protocol::{model, *};

pub(crate) use self::{
    client::{Acts, POOL, WHOLE_POOL, env, member, question},
    crowd::{Crowd, Served, Wish, counts},
    faults::LOSSES,
    node::{Behavior, Node, Refuses},
};
use self::{
    client::{Client, Process},
    node::Origin,
};

/// The time of a message from a client to a node, or back.
pub(crate) const HOP: Duration = Duration::from_millis(1);

/// The time of a request and its reply.
pub(crate) const ROUND_TRIP: Duration = Duration::from_millis(2);

pub(crate) const LEASE: Duration = Duration::from_secs(5);

/// Who waits for so long is served in the end.
pub(crate) const LONG: Duration = Duration::from_secs(600);

/// No test waits for longer than this for an answer.
const PATIENCE: Duration = Duration::from_secs(4 * 3_600);

/// What every client has that is not given anything else: leases of up to a minute, and of five
/// seconds by default.
pub(crate) fn settings() -> Settings {
    let max_ttl = params_of(Duration::from_secs(60)).key_ttl();
    Settings::of(max_ttl, params().key_ttl())
}

/// Beside other libraries.
pub(crate) fn mixed_fleet() -> Settings {
    Settings {
        mixed_fleet: true,
        ..settings()
    }
}

pub(crate) fn assuming_fresh() -> Settings {
    Settings {
        assume_fresh: true,
        ..settings()
    }
}

pub(crate) fn pinging(interval: Duration) -> Settings {
    Settings {
        ping_interval: Some(interval),
        ..settings()
    }
}

/// With a shorter longest lease.
pub(crate) fn other_fleet() -> Settings {
    Settings {
        max_ttl: settings().default_ttl,
        ..settings()
    }
}

/// One attempt for the default lease.
pub(crate) fn params() -> LockParams {
    LockParams::of(LEASE)
}

/// One attempt for a lease of this length.
pub(crate) fn params_of(lease: Duration) -> LockParams {
    LockParams::of(lease)
}

/// The default lease, waited for.
pub(crate) fn waiting(wait: Duration) -> LockParams {
    waiting_for(wait, params())
}

/// The same, waited for.
pub(crate) fn waiting_for(wait: Duration, params: LockParams) -> LockParams {
    LockParams { wait, ..params }
}

/// The same with another node timeout.
pub(crate) fn within(node_timeout: Duration, params: LockParams) -> LockParams {
    LockParams {
        node_timeout,
        ..params
    }
}

/// The same, kept for so long.
pub(crate) fn kept_for(at_least: Duration, params: LockParams) -> LockParams {
    LockParams { at_least, ..params }
}

/// Waits until nodes vote that have lost their memory.
pub(crate) fn patient() -> LockParams {
    waiting(10 * settings().max_ttl)
}

/// Who comes first goes first.
pub(crate) fn fair(wait: Duration) -> LockParams {
    LockParams {
        is_fair: true,
        ..waiting(wait)
    }
}

/// Shares the key.
pub(crate) fn shared(params: LockParams) -> LockParams {
    let mode = Mode::Shared;
    LockParams { mode, ..params }
}

/// The default lease, renewed until its end.
pub(crate) fn renewing() -> LockParams {
    LockParams {
        renew: Some(default_renewal(LEASE)),
        ..params()
    }
}

#[track_caller]
pub(crate) fn assert_between(took: Duration, least: Duration, most: Duration) {
    assert!(took >= least && took <= most, "{took:?}");
}

pub(crate) struct World {
    pub(crate) now: Instant,
    pub(crate) nodes: Vec<Node>,
    clients: Vec<Client>,
    messages: BTreeMap<(Instant, u64), Message>,
    /// So many messages have been sent.
    sent: u64,
    /// So many timers have woken at this moment.
    woken: (Instant, u32),
}

/// Something on its way.
#[derive(Debug)]
enum Message {
    Request {
        origin: Origin,
        /// The process of the server that it was sent to: the next one never sees it.
        process: u64,
        order: Order,
    },
    News {
        client: usize,
        /// The next process of this client never sees it.
        incarnation: u64,
        /// It comes over this connection, and is lost with it.
        connection: Option<(NodeId, ConnectionId)>,
        event: Event,
    },
}

impl World {
    /// Healthy nodes that are connected and vote, and one client.
    pub(crate) fn new(nodes: usize) -> Self {
        Self::with_clients(nodes, 1)
    }

    /// Healthy nodes that are connected and vote, and so many clients.
    pub(crate) fn with_clients(nodes: usize, clients: usize) -> Self {
        Self::with_settings(nodes, &vec![settings(); clients])
    }

    /// The same, and the client always asks a majority first.
    pub(crate) fn busy(nodes: usize) -> Self {
        let settings = Settings {
            busy_from: 0,
            ..settings()
        };
        Self::with_settings(nodes, &[settings])
    }

    /// Healthy nodes that are connected and vote, and one client for each of the settings.
    pub(crate) fn with_settings(nodes: usize, settings: &[Settings]) -> Self {
        let mut world = Self::without_clients(&vec![Behavior::Healthy; nodes]);
        world.add_clients(settings);
        world
    }

    /// The same with so many clients, and no node tells of changes.
    pub(crate) fn without_notices(nodes: usize, clients: usize) -> Self {
        let mut world = Self::without_clients(&vec![Behavior::Healthy; nodes]);
        for node in &mut world.nodes {
            node.tells_changes = false;
        }
        world.add_clients(&vec![settings(); clients]);
        world
    }

    fn add_clients(&mut self, settings: &[Settings]) {
        for &settings in settings {
            self.add_client(settings);
        }
        for client in 0..settings.len() {
            self.await_votes(client);
        }
    }

    /// One client with nodes that voted already, and that behave like this when it connects to
    /// them.
    pub(crate) fn starting(behaviors: &[Behavior]) -> Self {
        let mut world = Self::new(behaviors.len());
        for (node, &behavior) in world.nodes.iter_mut().zip(behaviors) {
            node.behavior = behavior;
        }
        world.restart();
        world.run_for(20 * HOP);
        world
    }

    /// Nodes that no client has ever connected to.
    pub(crate) fn without_clients(behaviors: &[Behavior]) -> Self {
        let now = Instant::from_nanos(0).after(Duration::from_secs(100_000));
        let node = |(index, &behavior)| Node::new(index, behavior, now);
        Self {
            now,
            nodes: behaviors.iter().enumerate().map(node).collect(),
            clients: Vec::new(),
            messages: BTreeMap::new(),
            sent: 0,
            woken: (now, 0),
        }
    }

    /// A client that starts now. Its number.
    pub(crate) fn add_client(&mut self, settings: Settings) -> usize {
        let number = self.clients.len();
        let client = Client::new(number, self.nodes.len(), settings, self.now);
        self.clients.push(client);
        self.carry_out(number);
        number
    }

    /// Runs until all nodes vote for this client.
    pub(crate) fn await_votes(&mut self, client: usize) {
        let end = self.now.after(Duration::from_secs(120));
        let votes = |state: &Option<NodeState>| *state == Some(NodeState::Up);
        while !self.clients[client].states.iter().all(votes) {
            let is_over = self.now >= end || !self.step();
            let states = &self.clients[client].states;
            assert!(!is_over, "client {client} sees {states:?}");
        }
        self.run_for(10 * HOP);
    }

    /// Runs until this node votes for the only client.
    pub(crate) fn await_vote(&mut self, node: usize) {
        self.run_until(|world| world.state(node) == NodeState::Up);
    }

    #[track_caller]
    pub(crate) fn assert_all_vote(&self) {
        let states = &self.clients[0].states;
        let votes = |state: &Option<NodeState>| *state == Some(NodeState::Up);
        assert!(states.iter().all(votes), "{states:?}");
    }

    /// Runs until the only client says that a node does not vote, and then that it does. How long
    /// that took.
    pub(crate) fn votes_again(&mut self, node: usize) -> Duration {
        let from = self.now;
        self.run_until(|world| world.state(node) != NodeState::Up);
        self.await_vote(node);
        self.now.since(from)
    }

    /// One of the clients. What the world itself does, the first one does.
    pub(crate) fn client(&mut self, number: usize) -> Process<'_> {
        Process {
            world: self,
            number,
        }
    }

    #[track_caller]
    pub(crate) fn assert_within(&self, most: Duration, since: Instant) {
        assert_between(self.now.since(since), Duration::ZERO, most);
    }

    /// What must not be granted before this deadline has been granted.
    #[track_caller]
    pub(crate) fn assert_over(&self, deadline: Instant) {
        let left = deadline.since(self.now);
        assert!(left.is_zero(), "granted {left:?} too early");
    }

    /// How many requests are on their way to this node.
    pub(crate) fn under_way(&self, node: usize) -> usize {
        let messages = self.messages.values();
        let is_it = |message: &&Message| matches!(message, Message::Request { order, .. } if order.node.0 == node);
        messages.filter(is_it).count()
    }

    /// Lets one message arrive, or one timer wake, whichever is next. False when the world has
    /// come to rest.
    pub(crate) fn step(&mut self) -> bool {
        let Some(next) = self.next() else {
            return false;
        };
        self.now = self.now.max(next);
        if self
            .messages
            .first_key_value()
            .is_some_and(|((at, _), _)| *at <= next)
        {
            let (_, message) = self.messages.pop_first().expect("it is due");
            self.arrive(message);
        } else if let Some((_, client)) = self.next_wakeup() {
            self.woken = match self.woken {
                (at, times) if at == self.now => (at, times + 1),
                _ => (self.now, 0),
            };
            assert!(self.woken.1 < 1_000, "client {client} never rests");
            self.hand_in(client, Event::Wakeup);
        }
        true
    }

    /// Lets things happen until this is so.
    #[track_caller]
    pub(crate) fn run_until(&mut self, is_so: impl Fn(&mut Self) -> bool) {
        while !is_so(self) {
            assert!(self.step(), "it is never so");
        }
    }

    pub(crate) fn run_for(&mut self, time: Duration) {
        let end = self.now.after(time);
        while self.next().is_some_and(|next| next <= end) {
            self.step();
        }
        self.now = end;
    }

    /// When something happens next.
    pub(crate) fn next(&self) -> Option<Instant> {
        let message = self.messages.first_key_value().map(|(&(at, _), _)| at);
        let wakeup = self.next_wakeup().map(|(at, _)| at);
        [message, wakeup].into_iter().flatten().min()
    }

    fn next_wakeup(&self) -> Option<(Instant, usize)> {
        let wakeups = self.clients.iter().enumerate();
        let wakeups = wakeups.filter_map(|(number, client)| Some((client.next_wakeup()?, number)));
        wakeups.min()
    }

    /// The nodes on which `key` lives, whosever it is.
    pub(crate) fn carriers(&self, key: &str) -> Vec<usize> {
        let lives = |&node: &usize| self.nodes[node].has(key, self.now);
        (0..self.nodes.len()).filter(lives).collect()
    }

    /// The owners of `key` that a majority of the nodes carries: at most one.
    pub(crate) fn majority_owner(&self, key: &str) -> Option<Owner> {
        let nodes = self.nodes.iter();
        let owners: Vec<Owner> = nodes.filter_map(|node| node.owner(key, self.now)).collect();
        let count = |owner: &&Owner| owners.iter().filter(|other| other == owner).count();
        let needed = majority(self.nodes.len());
        owners.iter().find(|owner| count(owner) >= needed).copied()
    }

    /// When the keys expire on the nodes that have them.
    pub(crate) fn expiries(&self, key: &str) -> Vec<Instant> {
        let nodes = self.nodes.iter();
        nodes
            .filter_map(|node| node.expiry(key, self.now))
            .collect()
    }

    /// No key of the lock `k` expires before this.
    #[track_caller]
    pub(crate) fn assert_lives_until(&self, time: Instant) {
        let expiries = self.expiries("k");
        assert!(expiries.iter().all(|&at| at >= time), "{expiries:?}");
    }

    /// The order in which the nodes are asked for `key`; the first one is its leader.
    pub(crate) fn order(&self, key: &str) -> Vec<usize> {
        let nodes = self.nodes.len();
        let first = stripe(key) as usize % nodes;
        (first..first + nodes).map(|node| node % nodes).collect()
    }

    pub(crate) fn leader(&self, key: &str) -> usize {
        self.order(key)[0]
    }

    fn hand_in(&mut self, client: usize, event: Event) {
        self.clients[client].tick(self.now);
        self.clients[client].protocol.handle(event, self.now);
        self.carry_out(client);
    }

    fn carry_out(&mut self, client: usize) {
        while let Some(action) = self.clients[client].protocol.poll_action() {
            self.clients[client].note(&action, self.now);
            match action {
                Action::Connect { node, connection } => self.connect(client, node, connection),
                Action::Listen { node, connection } => {
                    let event = Event::Silent { node, connection };
                    self.clients[client].protocol.handle(event, self.now);
                }
                Action::Disconnect { node } => {
                    self.nodes[node.0].connections.remove(&client);
                }
                Action::Send(order) => self.send_order(client, order),
                Action::Answer { .. } | Action::NodeChanged { .. } | Action::Drained(_) => {}
            }
        }
    }

    fn connect(&mut self, client: usize, node: NodeId, connection: ConnectionId) {
        let is_cut_off = self.clients[client].is_cut_off[node.0];
        let sees_info = self.clients[client].may_read_info;
        let at = &mut self.nodes[node.0];
        let event = if at.behavior == Behavior::Dead || is_cut_off {
            let reason = "connection refused".into();
            Event::Disconnected {
                node,
                connection,
                reason,
            }
        } else {
            at.accept(client, connection, self.now);
            let facts = at.facts(sees_info, self.now);
            Event::Connected {
                node,
                connection,
                facts,
            }
        };
        let news = self.news(client, None, event);
        self.post(self.now.after(ROUND_TRIP), news);
    }

    fn send_order(&mut self, client: usize, order: Order) {
        let lag = self.clients[client].lag[order.node.0];
        let at = &mut self.nodes[order.node.0];
        let delay = at.request_delay() + lag;
        let (process, work) = (at.process, at.work);
        if let Some(connection) = at.connections.get_mut(&client) {
            let arrival = connection.request_arrival(self.now.after(delay), work);
            let connection = connection.id;
            let origin = Origin { client, connection };
            self.post(
                arrival,
                Message::Request {
                    origin,
                    process,
                    order,
                },
            );
        }
    }

    /// What this client has queued is written so much later.
    fn put_off_requests(&mut self, client: usize, time: Duration) {
        let is_queued = |message: &Message| matches!(message, Message::Request { origin, .. } if origin.client == client);
        let messages = std::mem::take(&mut self.messages).into_iter();
        let (queued, others): (Vec<_>, Vec<_>) =
            messages.partition(|(_, message)| is_queued(message));
        self.messages = others.into_iter().collect();
        for ((at, _), message) in queued {
            self.post(at.after(time), message);
        }
    }

    fn post(&mut self, at: Instant, message: Message) {
        self.sent += 1;
        self.messages.insert((at, self.sent), message);
    }

    fn news(&self, client: usize, over: Option<(NodeId, ConnectionId)>, event: Event) -> Message {
        Message::News {
            client,
            incarnation: self.clients[client].incarnation,
            connection: over,
            event,
        }
    }

    /// Sends something to a client over its connection, behind all that was sent before.
    fn tell(
        &mut self,
        node: usize,
        client: usize,
        id: ConnectionId,
        delay: Duration,
        event: Event,
    ) {
        let Some(connection) = self.nodes[node].connections.get_mut(&client) else {
            return;
        };
        if connection.id == id {
            let arrival = connection.reply_arrival(self.now.after(delay));
            let news = self.news(client, Some((NodeId(node), id)), event);
            self.post(arrival, news);
        }
    }

    /// Tells a client that this key, or any key, may have changed.
    fn tell_of(&mut self, node: usize, client: usize, id: ConnectionId, key: Option<&str>) {
        let key = key.map(Arc::from);
        let news = Event::Changed {
            node: NodeId(node),
            key,
        };
        self.tell(node, client, id, HOP, news);
    }

    /// Tells the clients that have read `key` that it has changed. The one that changed it is not
    /// told, but is forgotten like the others: that is what Redis does.
    fn notify(&mut self, node: usize, key: &str, writer: Option<usize>) {
        for client in 0..self.clients.len() {
            let Some(connection) = self.nodes[node].connections.get_mut(&client) else {
                continue;
            };
            let id = connection.id;
            if connection.tracked.remove(key) && writer != Some(client) {
                self.tell_of(node, client, id, Some(key));
            }
        }
    }

    fn arrive(&mut self, message: Message) {
        match message {
            Message::News { client, .. } if self.clients[client].paused_until > self.now => {
                self.post(self.clients[client].paused_until, message);
            }
            Message::News {
                client,
                incarnation,
                connection,
                event,
            } => {
                let is_connected = |(node, id): (NodeId, ConnectionId)| {
                    let current = self.nodes[node.0].connections.get(&client);
                    current.is_some_and(|current| current.id == id)
                };
                let is_current = incarnation == self.clients[client].incarnation;
                if is_current && connection.is_none_or(is_connected) {
                    self.hand_in(client, event);
                }
            }
            Message::Request {
                origin,
                process,
                order,
            } => {
                if self.nodes[order.node.0].process == process {
                    self.carry_out_request(origin, order);
                }
            }
        }
    }

    fn carry_out_request(&mut self, origin: Origin, order: Order) {
        let Order {
            node: NodeId(node),
            request,
            body,
        } = order;
        let sees_info = self.clients[origin.client].may_read_info;
        let (reply, changed) = self.nodes[node].run(origin, &body, sees_info, self.now);
        for key in changed {
            self.notify(node, &key, Some(origin.client));
        }
        if let Some(delay) = self.nodes[node].reply_delay() {
            let event = Event::Reply {
                node: NodeId(node),
                request,
                reply,
            };
            self.tell(node, origin.client, origin.connection, delay, event);
        }
    }
}
