//! A world of nodes in virtual time for the protocol to live in: every message takes one
//! millisecond each way, and nothing happens by chance.

use std::collections::BTreeMap;

use super::super::*;

/// One way.
pub(super) const HOP: Duration = Duration::from_millis(1);

pub(super) const SETTINGS: Settings = Settings {
    silence_limit: Duration::from_secs(1),
    may_evict: false,
    quarantine: Duration::from_secs(60),
    fresh_quarantine: Duration::from_secs(6),
    busy_from: BUSY_FROM,
};

pub(super) const LEASE: Duration = Duration::from_secs(5);

/// How a node behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mood {
    Well,
    /// Accepts no connection.
    Dead,
    /// Carries out what it is asked, and never answers.
    Mute,
    /// Carries out nothing before this time has passed.
    Slow(Duration),
    /// Carries out what it is asked, and answers after this time.
    Late(Duration),
    /// Has lost its script cache.
    WithoutScripts,
    /// Somebody's script does not end.
    Busy,
}

pub(super) struct Node {
    pub(super) mood: Mood,
    pub(super) keys: BTreeMap<Arc<str>, (Owner, Instant)>,
    pub(super) counter: Token,
    /// Somebody has left a note. It stays.
    pub(super) is_awaited: bool,
    /// How far its clock runs ahead within one renewal interval.
    pub(super) clock_ahead: Duration,
    /// Another one after a restart.
    pub(super) process: Arc<str>,
    pub(super) uptime: Duration,
    pub(super) was_flushed: bool,
    /// The marker and its like.
    pub(super) memory: NodeMemory,
    connection: Option<ConnectionId>,
}

/// What a node remembers about its own admission.
#[derive(Default)]
pub(super) struct NodeMemory {
    run: Option<Arc<str>>,
    pending: Option<Arc<str>>,
    quarantined_until: Option<Instant>,
    floor: Token,
}

pub(super) struct World {
    pub(super) protocol: Protocol,
    pub(super) now: Instant,
    pub(super) nodes: Vec<Node>,
    pub(super) answers: Vec<(LeaseId, Answer)>,
    /// Every action, with the time at which it was taken.
    pub(super) log: Vec<(Instant, Action)>,
    pub(super) drained: Option<Drained>,
    messages: BTreeMap<(Instant, u64), Message>,
    sent: u64,
}

#[derive(Debug)]
enum Message {
    ToNode {
        node: NodeId,
        connection: ConnectionId,
        request: RequestId,
        body: Request,
        server: Option<Arc<str>>,
        with_source: bool,
    },
    ToProtocol(Event),
}

pub(super) fn terms() -> Terms {
    Terms::of(LEASE)
}

impl World {
    /// All nodes connected and admitted.
    pub(super) fn new(nodes: usize) -> Self {
        let mut world = Self::starting(&vec![Mood::Well; nodes]);
        world.run_for(10 * HOP);
        world
    }

    /// The same, and it has much to do.
    pub(super) fn busy(nodes: usize) -> Self {
        let mut world = Self::new(nodes);
        world.protocol.wire.settings.busy_from = 0;
        world
    }

    pub(super) fn starting(moods: &[Mood]) -> Self {
        let mut state = 1_u128;
        let random = move || {
            state = state
                .wrapping_mul(0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645)
                .wrapping_add(1);
            state
        };
        let now = Instant::from_nanos(1_000_000_000);
        let mut world = Self {
            protocol: client(moods.len(), random, now),
            now,
            nodes: moods
                .iter()
                .enumerate()
                .map(|(index, &mood)| Node {
                    mood,
                    keys: BTreeMap::new(),
                    counter: Token(0),
                    is_awaited: false,
                    clock_ahead: Duration::ZERO,
                    process: format!("node {index}, first").into(),
                    uptime: Duration::from_secs(3_600),
                    was_flushed: false,
                    memory: NodeMemory::default(),
                    connection: None,
                })
                .collect(),
            answers: Vec::new(),
            log: Vec::new(),
            drained: None,
            messages: BTreeMap::new(),
            sent: 0,
        };
        world.carry_out();
        world
    }

    /// Another client in the place of this one, which does not release anything. These nodes are
    /// slow.
    pub(super) fn restart_client(mut self, slow: &[usize]) -> Self {
        for &node in slow {
            self.nodes[node].mood = Mood::Slow(Duration::from_millis(40));
        }
        self.messages.clear();
        let mut state = 1 << 64;
        let random = move || {
            state += 1;
            state
        };
        self.protocol = client(self.nodes.len(), random, self.now);
        self.carry_out();
        self
    }

    pub(super) fn handle(&mut self, event: Event) {
        self.protocol.handle(event, self.now);
        self.carry_out();
    }

    pub(super) fn ask(&mut self, lease: u64, key: &str, terms: Terms) {
        let (lease, key) = (LeaseId(lease), Arc::from(key));
        self.handle(Event::Ask { lease, key, terms });
    }

    pub(super) fn end(&mut self, lease: u64) {
        let (lease, report) = (LeaseId(lease), false);
        self.handle(Event::End { lease, report });
    }

    /// The same, by a holder that wants to hear what became of it.
    pub(super) fn release(&mut self, lease: u64) {
        let (lease, report) = (LeaseId(lease), true);
        self.handle(Event::End { lease, report });
    }

    /// Lets one message arrive, or one timer wake, whichever is next. False when the world has
    /// come to rest.
    pub(super) fn step(&mut self) -> bool {
        let message = self.messages.first_key_value().map(|(&(at, _), _)| at);
        let wakeup = self.protocol.next_wakeup();
        match (message, wakeup) {
            (None, None) => return false,
            (Some(at), wake) if wake.is_none_or(|wake| at <= wake) => {
                self.now = self.now.max(at);
                if let Some((_, message)) = self.messages.pop_first() {
                    self.arrive(message);
                }
            }
            (_, Some(at)) => {
                self.now = self.now.max(at);
                self.handle(Event::Wakeup);
            }
            (Some(_), None) => unreachable!("covered by the guard above"),
        }
        true
    }

    pub(super) fn run_for(&mut self, time: Duration) {
        let end = self.now.after(time);
        while self.next().is_some_and(|next| next <= end) {
            self.step();
        }
        self.now = end;
    }

    /// Runs until the caller of `lease` has been answered.
    pub(super) fn answer(&mut self, lease: u64) -> Answer {
        loop {
            let position = self.answers.iter().position(|(id, _)| id.0 == lease);
            if let Some(position) = position {
                return self.answers.remove(position).1;
            }
            assert!(self.step(), "lease {lease} is never answered");
        }
    }

    /// The nodes on which `key` lives.
    pub(super) fn holders(&self, key: &str) -> Vec<usize> {
        let lives = |node: &&(usize, &Node)| {
            let held = node.1.keys.get(key);
            held.is_some_and(|&(_, expires)| expires > self.now)
        };
        let nodes: Vec<_> = self.nodes.iter().enumerate().collect();
        nodes
            .iter()
            .filter(lives)
            .map(|(index, _)| *index)
            .collect()
    }

    pub(super) fn break_connection(&mut self, node: usize) {
        let connection = self.nodes[node].connection.take().unwrap();
        let news = Event::Disconnected {
            node: NodeId(node),
            connection,
            reason: "reset".into(),
        };
        self.handle(news);
    }

    /// What was sent to nodes, by the kind of request.
    pub(super) fn sends(&self, kind: impl Fn(&Request) -> bool) -> Vec<(Instant, NodeId)> {
        let sends = self.log.iter().filter_map(|(at, action)| match action {
            Action::Send { node, body, .. } if kind(body) => Some((*at, *node)),
            _ => None,
        });
        sends.collect()
    }

    pub(super) fn next(&self) -> Option<Instant> {
        let message = self.messages.first_key_value().map(|(&(at, _), _)| at);
        [message, self.protocol.next_wakeup()]
            .into_iter()
            .flatten()
            .min()
    }

    fn carry_out(&mut self) {
        while let Some(action) = self.protocol.poll_action() {
            self.log.push((self.now, action.clone()));
            match action {
                Action::Connect { node, connection } => self.connect(node, connection),
                Action::Disconnect { node } => self.nodes[node.0].connection = None,
                Action::Send {
                    node,
                    request,
                    body,
                    server,
                    with_source,
                } => {
                    if let Some(connection) = self.nodes[node.0].connection {
                        let message = Message::ToNode {
                            node,
                            connection,
                            request,
                            body,
                            server,
                            with_source,
                        };
                        self.send(self.delay(node), message);
                    }
                }
                Action::Answer { lease, answer } => self.answers.push((lease, answer)),
                Action::NodeChanged { .. } => {}
                Action::Drained(left) => self.drained = Some(left),
            }
        }
    }

    fn delay(&self, node: NodeId) -> Duration {
        match self.nodes[node.0].mood {
            Mood::Slow(delay) => delay,
            _ => HOP,
        }
    }

    fn connect(&mut self, node: NodeId, connection: ConnectionId) {
        let news = if self.nodes[node.0].mood == Mood::Dead {
            Event::Disconnected {
                node,
                connection,
                reason: "refused".into(),
            }
        } else {
            self.nodes[node.0].connection = Some(connection);
            Event::Connected {
                node,
                connection,
                facts: Facts {
                    server: Some(Arc::clone(&self.nodes[node.0].process)),
                    uptime: Some(self.nodes[node.0].uptime),
                    tells_changes: true,
                    ..Facts::default()
                },
            }
        };
        self.send(2 * HOP, Message::ToProtocol(news));
    }

    fn send(&mut self, delay: Duration, message: Message) {
        self.sent += 1;
        self.messages
            .insert((self.now.after(delay), self.sent), message);
    }

    fn arrive(&mut self, message: Message) {
        match message {
            Message::ToProtocol(event) => self.handle(event),
            Message::ToNode {
                node,
                connection,
                request,
                body,
                server,
                with_source,
            } => {
                let reply = self.run(node, &body, server, with_source);
                let heard = self.nodes[node.0].connection == Some(connection);
                if heard && self.nodes[node.0].mood != Mood::Mute {
                    let news = Event::Reply {
                        node,
                        request,
                        reply,
                    };
                    let delay = match self.nodes[node.0].mood {
                        Mood::Late(delay) => delay,
                        _ => HOP,
                    };
                    self.send(delay, Message::ToProtocol(news));
                }
            }
        }
    }

    fn run(
        &mut self,
        node: NodeId,
        body: &Request,
        server: Option<Arc<str>>,
        with_source: bool,
    ) -> Reply {
        let now = self.now;
        let node = &mut self.nodes[node.0];
        if *body == Request::Identify {
            if node.mood == Mood::WithoutScripts {
                node.mood = Mood::Well;
            }
            let server = Some(Arc::clone(&node.process));
            return Reply::Identity { server };
        }
        if node.mood == Mood::Busy {
            return Reply::Failed(Fault::Refused("BUSY".into()));
        }
        if node.mood == Mood::WithoutScripts && !with_source {
            return Reply::NoScript;
        }
        node.keys.retain(|_, &mut (_, expires)| expires > now);
        let needs_vote = matches!(body, Request::Acquire { .. } | Request::Extend { .. });
        if needs_vote && node.memory.run != server {
            return Reply::NotAdmitted;
        }
        match body {
            &Request::Admit {
                quarantine,
                unless_flushed,
                floor,
                ..
            } => {
                let is_needed = !unless_flushed || node.was_flushed;
                let quarantine = if is_needed {
                    quarantine
                } else {
                    Duration::ZERO
                };
                node.memory.admit(server, quarantine, floor, now)
            }
            Request::Top => Reply::Top {
                counter: node.counter.max(node.memory.floor),
            },
            body => node.run(body, now),
        }
    }
}

fn client(nodes: usize, random: impl FnMut() -> u128 + Send + 'static, now: Instant) -> Protocol {
    let outside = Outside {
        random: Box::new(random),
        // A clock that stands still, so that every token is a matter of counters.
        wall_micros: Box::new(|| 1),
    };
    Protocol::new(nodes, SETTINGS, outside, now)
}

impl Node {
    /// As the scripts do for an admitted process.
    fn run(&mut self, body: &Request, now: Instant) -> Reply {
        match body {
            Request::Acquire { .. } => self.acquire(body, now),
            Request::Extend { key, owner, ttl } => match self.keys.get_mut(key) {
                Some((holder, expires)) if holder == owner => {
                    let remaining = Some(expires.since(now).saturating_sub(self.clock_ahead));
                    *expires = now.after(*ttl);
                    Reply::Extended { remaining }
                }
                _ => Reply::NotOwner,
            },
            Request::Confirm { key, owner, token } => match self.keys.get(key) {
                Some((holder, _)) if holder == owner => {
                    self.counter = self.counter.max(*token);
                    Reply::Confirmed
                }
                _ => Reply::NotOwner,
            },
            Request::Watch { key, owner } => match self.keys.get(key).map(|key| Some(key.0)) {
                Some(holder) if *owner == holder => Reply::Ours,
                Some(holder) => Reply::Taken { owner: holder },
                None => Reply::Free,
            },
            Request::Release {
                key,
                owner,
                catch_up,
            } => {
                self.counter = self.counter.max(*catch_up);
                match self.keys.get(key) {
                    Some((holder, _)) if holder == owner => {
                        self.keys.remove(key);
                        Reply::Deleted
                    }
                    _ => Reply::NotOwner,
                }
            }
            Request::Identify | Request::Admit { .. } | Request::Top => {
                unreachable!("not about a lock")
            }
        }
    }

    fn acquire(&mut self, body: &Request, now: Instant) -> Reply {
        let Request::Acquire {
            key,
            owner,
            ttl,
            proposal,
            handed_over,
            waits,
        } = body
        else {
            unreachable!("not a request to grant")
        };
        let before = self.keys.get(key).copied();
        let was_ours = before.is_some();
        let expires = match before {
            Some((holder, expires)) if handed_over.is_none() || holder != *owner => {
                self.is_awaited |= waits;
                let remaining = Some(expires.since(now));
                return Reply::Held { remaining };
            }
            Some((_, expires)) if expires >= now.after(*ttl) => expires,
            Some(_) => now.after(*ttl + handed_over.unwrap_or_default()),
            None => now.after(*ttl),
        };
        self.keys.insert(Arc::clone(key), (*owner, expires));
        let counter = self.counter.max(self.memory.floor);
        self.counter = Token(counter.0 + 1).max(*proposal);
        Reply::Granted {
            counter: self.counter,
            was_ours,
            awaited: self.is_awaited,
        }
    }

    /// A new process on the same address, without anything in memory.
    pub(super) fn restart_empty(&mut self) {
        self.process = format!("{}, again", self.process).into();
        self.uptime = Duration::ZERO;
        self.was_flushed = false;
        self.forget();
    }

    /// Its clock steps forward, beyond the end of its quarantine, and somebody admits it.
    pub(super) fn skip_quarantine(&mut self) {
        self.memory.run = Some(Arc::clone(&self.process));
    }

    /// What `FLUSHALL` does.
    pub(super) fn forget(&mut self) {
        self.was_flushed = true;
        self.keys.clear();
        self.counter = Token(0);
        self.memory = NodeMemory::default();
    }
}

impl NodeMemory {
    /// As `admit.lua`.
    fn admit(
        &mut self,
        server: Option<Arc<str>>,
        quarantine: Duration,
        floor: Option<Token>,
        now: Instant,
    ) -> Reply {
        if self.run == server {
            return Reply::Admitted;
        }
        if self.pending != server {
            self.pending.clone_from(&server);
            self.quarantined_until = Some(now.after(quarantine));
        }
        let remaining = self
            .quarantined_until
            .map_or(Duration::ZERO, |until| until.since(now));
        if !remaining.is_zero() {
            return Reply::Quarantined { remaining };
        }
        let Some(floor) = floor else {
            return Reply::Served;
        };
        self.run = server;
        self.floor = floor;
        Reply::Admitted
    }
}
