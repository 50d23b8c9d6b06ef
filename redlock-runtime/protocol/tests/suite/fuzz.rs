//! Any reply to any question, any event at any time: nothing panics, and every caller is answered.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem::discriminant,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use redlock_fuzz::Random;
use redlock_protocol::*;

use crate::world::*;

const KEYS: [&[&str]; 9] = [
    &["a"],
    &["b"],
    &["a", "b"],
    &["shared a", "b"],
    &["shared a", "shared b"],
    &[POOL],
    &[POOL, "shared b"],
    &[WHOLE_POOL],
    &["a", WHOLE_POOL],
];

fn number(dice: &mut Random) -> u64 {
    dice.pick(&[
        0,
        1,
        2,
        5,
        1_000,
        1 << 52,
        1 << 53,
        i64::MAX as u64,
        u64::MAX,
    ])
}

fn span(dice: &mut Random) -> Duration {
    let millis = dice.pick(&[0, 1, 5, 500, 5_552, 66_602, 1 << 53, u64::MAX]);
    match dice.below(16) {
        0 => Duration::MAX,
        _ => Duration::from_millis(millis),
    }
}

/// One client whose nodes say anything.
struct Fuzz {
    dice: Random,
    protocol: Protocol,
    now: Instant,
    nodes: usize,
    connections: Vec<Option<ConnectionId>>,
    open: Vec<(NodeId, RequestId, Request)>,
    sections: u64,
    /// Sections that have been asked for and neither refused nor ended.
    asked: BTreeSet<SectionId>,
    granted: BTreeMap<SectionId, Instant>,
    last_request: RequestId,
    keys: BTreeMap<SectionId, Vec<Member>>,
    /// The last token of the turn that each key is in.
    last_token: BTreeMap<String, Token>,
    is_drained: bool,
    /// Of four replies so many are what an honest node could say.
    honest: u64,
}

impl Fuzz {
    fn new(seed: u64) -> Self {
        let mut dice = Random::new(seed);
        let nodes = 1 + dice.below(5) as usize;
        let seed = u128::from(dice.next()) | 1;
        let wall = dice.pick(&[0, 1, 1_790_000_000_000_000, u64::MAX]);
        let env = env(seed, &Arc::new(AtomicU64::new(wall)));
        let settings = Settings {
            busy_from: dice.below(3) as usize,
            ping_interval: dice.one_in(2).then_some(20 * HOP),
            may_evict: dice.one_in(2),
            assume_fresh: dice.one_in(3),
            mixed_fleet: dice.one_in(4),
            ..settings()
        };
        let now = Instant::from_nanos(0);
        Self {
            honest: dice.below(5),
            dice,
            protocol: Protocol::new(nodes, settings, env, now),
            now,
            nodes,
            connections: vec![None; nodes],
            open: Vec::new(),
            sections: 0,
            asked: BTreeSet::new(),
            granted: BTreeMap::new(),
            last_request: RequestId(0),
            keys: BTreeMap::new(),
            last_token: BTreeMap::new(),
            is_drained: false,
        }
    }

    fn params(&mut self) -> LockParams {
        let lease = self.dice.pick(&[5, 100, 5_000, 60_000]);
        let params = params_of(Duration::from_millis(lease));
        let (lease, node_timeout) = (params.lease, params.node_timeout);
        LockParams {
            wait: self.dice.pick(&[Duration::ZERO, LEASE, Duration::MAX]),
            renew: self
                .dice
                .pick(&[None, Some(Duration::from_nanos(1)), Some(lease / 3)]),
            max_hold: self.dice.pick(&[None, Some(lease), Some(Duration::MAX)]),
            node_timeout: self.dice.pick(&[HOP, node_timeout, Duration::MAX]),
            at_least: self.dice.pick(&[Duration::ZERO, lease / 2, lease]),
            mode: self.dice.pick(&[Mode::Exclusive, Mode::Shared]),
            is_fair: self.dice.one_in(3),
            ..params
        }
    }

    fn facts(&mut self, node: usize) -> Facts {
        let server = self.dice.pick(&["a", "b"]);
        Facts {
            server: self.dice.maybe(format!("{server}{node}").into()),
            uptime: match self.dice.below(3) {
                0 => None,
                1 => Some(Duration::MAX),
                _ => Some(span(&mut self.dice)),
            },
            is_durable: self.dice.one_in(2),
            tells_changes: self.dice.one_in(2),
            evicts: self.dice.one_in(10).then(|| "allkeys-lru".into()),
        }
    }

    fn record(&mut self, node: usize) -> Record {
        let server = self.dice.pick(&["a", "b"]);
        let marker = Marker {
            server: self.dice.maybe(format!("{server}{node}").into()),
            admission: AdmissionId(self.dice.below(3)),
            was_durable: self.dice.one_in(2),
        };
        let loss = LossRecord {
            id: LossId(self.dice.below(3)),
            age: span(&mut self.dice),
            beside_marker: self.dice.one_in(2),
            is_unflushed: self.dice.one_in(2),
            first_start: match self.dice.below(2) {
                0 => None,
                _ => Some(span(&mut self.dice)),
            },
        };
        let longest = span(&mut self.dice);
        let max_ttl = match self.dice.below(8) {
            0 => span(&mut self.dice),
            _ => settings().max_ttl,
        };
        Record {
            marker: self.dice.maybe(marker),
            loss: self.dice.maybe(loss),
            longest,
            top: Token(number(&mut self.dice)),
            max_ttl: self.dice.maybe(max_ttl),
            other_format: None,
        }
    }

    fn owner(&mut self) -> Option<Owner> {
        let owner = Owner(u128::from(number(&mut self.dice)) << 64 | 7);
        self.dice.maybe(owner)
    }

    /// What a node that plays by the rules could say to this.
    fn honest_reply(&mut self, node: usize, request: &Request) -> Reply {
        let has_remote_waiter = self.dice.one_in(4);
        match request {
            Request::Identify => Reply::Identity {
                server: Some(format!("a{node}").into()),
            },
            Request::Probe | Request::ReportLoss { .. } => Reply::Record(self.record(node).into()),
            Request::Admit { admission, .. } => Reply::Admitted {
                admission: *admission,
            },
            Request::Vote(vote, Act::Acquire(_)) => Reply::Granted {
                first: vote.block.unwrap().proposal,
                has_remote_waiter,
            },
            Request::Vote(vote, Act::Extend { .. }) => Reply::Extended {
                remaining: Some(vote.ttl),
                first: vote.block.map(|block| block.proposal),
                has_remote_waiter,
            },
            Request::Vote(_, Act::PutBack) => Reply::PutBack,
            Request::Stand(stand) => Reply::Turn {
                slot: self.dice.below(u64::from(stand.permits)) as u32,
            },
            Request::Watch { .. } => Reply::Ours,
            Request::Release { keep, .. } => keep.map_or(Reply::Deleted, |_| Reply::Kept),
        }
    }

    fn any_reply(&mut self, node: usize) -> Reply {
        let number = Token(number(&mut self.dice));
        let has_remote_waiter = self.dice.one_in(2);
        let span = span(&mut self.dice);
        let remaining = self.dice.maybe(span);
        match self.dice.below(20) {
            0 => Reply::Identity {
                server: self.dice.maybe("a0".into()),
            },
            1 => Reply::Record(self.record(node).into()),
            2 => Reply::Admitted {
                admission: AdmissionId(self.dice.below(3)),
            },
            3 => Reply::NotAdmitted,
            4 => Reply::Granted {
                first: number,
                has_remote_waiter,
            },
            5 => Reply::Held {
                owner: self.owner(),
                remaining,
                ahead: self.ahead(),
            },
            6 => {
                let first = self.dice.maybe(number);
                Reply::Extended {
                    remaining,
                    first,
                    has_remote_waiter,
                }
            }
            7 => Reply::PutBack,
            8 => Reply::Ours,
            9 => Reply::Taken,
            10 => Reply::Free,
            11 => Reply::Deleted,
            12 => Reply::NotOwner,
            13 => Reply::Turn {
                slot: self.dice.below(3) as u32,
            },
            14 => Reply::Full {
                remaining,
                ahead: self.ahead(),
                is_new: self.dice.one_in(2),
                share: self.dice.below(3) as u32,
            },
            15..18 => Reply::Refused {
                reason: Rejection::Other,
                message: "x".into(),
                is_untouched: self.dice.one_in(2),
            },
            18 => Reply::Queued(self.ahead()),
            _ => Reply::Garbled { answer: "x".into() },
        }
    }

    fn ahead(&mut self) -> Ahead {
        Ahead {
            count: number(&mut self.dice) as u32,
            grace: span(&mut self.dice),
        }
    }

    fn event(&mut self) -> Event {
        let node = self.dice.below(self.nodes as u64) as usize;
        let section = SectionId(self.dice.below(self.sections + 1));
        match self.dice.below(20) {
            0 | 1 => {
                self.sections += 1;
                let section = SectionId(self.sections);
                let keys = self.dice.pick(&KEYS);
                self.asked.insert(section);
                let mut params = self.params();
                let mut members: Vec<Member> = keys.iter().map(|key| member(key)).collect();
                match &mut members[..] {
                    [only] if only.permits == 0 => only.mode = params.mode,
                    _ => params.mode = Mode::Exclusive,
                }
                self.keys.insert(section, members);
                question(section, keys, params)
            }
            2 | 3 => {
                self.asked.remove(&section);
                self.granted.remove(&section);
                Event::End {
                    section,
                    report: self.dice.one_in(2),
                }
            }
            4 if self.dice.one_in(3) => Event::Note {
                section,
                note: "1 value".into(),
            },
            4 if self.dice.one_in(3) => {
                // Of several keys none is shared later, nor is a permit.
                if let (Some([only]), true) = (
                    self.keys.get_mut(&section).map(|members| &mut members[..]),
                    self.granted.contains_key(&section),
                ) && only.permits == 0
                {
                    only.mode = Mode::Shared;
                }
                Event::Share { section }
            }
            4 => {
                let length = self.dice.pick(&[LEASE / 4, 2 * LEASE]);
                let guard_band = params().guard_band;
                let lease = self
                    .dice
                    .one_in(2)
                    .then_some(LeaseParams { length, guard_band });
                Event::Extend { section, lease }
            }
            5 => {
                let key = self
                    .dice
                    .pick(&[None, Some("a".into()), Some("never seen".into())]);
                Event::Changed {
                    node: NodeId(node),
                    key,
                }
            }
            6 if self.dice.one_in(4) => match self.connections[node].take() {
                Some(connection) => {
                    self.open.retain(|(other, ..)| other.0 != node);
                    Event::Disconnected {
                        node: NodeId(node),
                        connection,
                        reason: "x".into(),
                    }
                }
                None => Event::Wakeup,
            },
            7 if self.dice.one_in(100) => Event::Shutdown {
                timeout: span(&mut self.dice),
                abort_holders: self.dice.one_in(2),
            },
            8 => Event::Reply {
                // To nothing that was asked.
                node: NodeId(node),
                request: RequestId(number(&mut self.dice)),
                reply: self.any_reply(node),
            },
            9..=16 if !self.open.is_empty() => {
                let place = self.dice.below(self.open.len() as u64) as usize;
                let (node, request, body) = self.open.swap_remove(place);
                let reply = if self.dice.below(4) < self.honest {
                    self.honest_reply(node.0, &body)
                } else {
                    self.any_reply(node.0)
                };
                Event::Reply {
                    node,
                    request,
                    reply,
                }
            }
            _ => {
                let micros = self.dice.pick(&[1, 1_000, 30_000, 300_000, 6_000_000]);
                self.now = self.now.after(Duration::from_micros(micros));
                Event::Wakeup
            }
        }
    }

    fn handle(&mut self, event: Event) {
        self.protocol.handle(event, self.now);
        let mut actions = 0;
        while let Some(action) = self.protocol.poll_action() {
            actions += 1;
            assert!(actions < 20_000, "it never comes to rest");
            self.carry_out(action);
        }
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Connect { node, connection } => {
                self.connections[node.0] = Some(connection);
                let event = if self.dice.one_in(5) {
                    self.connections[node.0] = None;
                    let reason = "refused".into();
                    Event::Disconnected {
                        node,
                        connection,
                        reason,
                    }
                } else {
                    let facts = self.facts(node.0);
                    Event::Connected {
                        node,
                        connection,
                        facts,
                    }
                };
                self.protocol.handle(event, self.now);
            }
            Action::Listen { node, connection } => self.handle(Event::Silent { node, connection }),
            Action::Disconnect { node } => {
                self.connections[node.0] = None;
                self.open.retain(|(other, ..)| *other != node);
            }
            Action::Send(Order {
                node,
                request,
                body,
            }) => {
                assert!(self.connections[node.0].is_some(), "sent to nobody");
                assert!(request > self.last_request, "{request:?} is used twice");
                self.last_request = request;
                if let Request::Vote(vote, Act::Acquire(_)) = &body {
                    self.last_token.remove(&*vote.key);
                }
                self.open.push((node, request, body));
            }
            Action::Answer { section, answer } => self.on_answer(section, answer),
            Action::NodeChanged { state, .. } => assert!(!state.to_string().is_empty()),
            Action::Drained(_) => {
                assert!(!self.is_drained, "once is enough");
                self.is_drained = true;
            }
        }
    }

    fn on_answer(&mut self, section: SectionId, answer: Answer) {
        match answer {
            Answer::Granted {
                deadline, token, ..
            } => {
                assert!(self.asked.contains(&section), "{section:?} has not asked");
                assert!(deadline >= self.now);
                // Nodes that lie can begin a block right below the limit.
                assert!(token.0 >= 1 && token.0 < Token::LARGEST.0 + 256, "{token}");
                let members = &self.keys[&section];
                for member in members.iter().filter(|member| member.permits == 0) {
                    // Nodes that lie make tokens fall from turn to turn.
                    let last = self.last_token.insert(member.key.to_string(), token);
                    // Another one that shares it may have begun while other keys were missing.
                    let is_late = members.len() > 1 && member.mode == Mode::Shared;
                    let rises = last.is_none_or(|last| last < token);
                    assert!(rises || is_late, "not {last:?}");
                }
                for member in members {
                    let meets = |other: &&Member| {
                        other.key == member.key
                            && (other.mode, member.mode) != (Mode::Shared, Mode::Shared)
                    };
                    let others = self.granted.keys().flat_map(|other| &self.keys[other]);
                    let others: u32 = others.filter(meets).map(|other| other.weight).sum();
                    assert!(others + member.weight <= member.permits.max(1), "too many");
                }
                self.granted.insert(section, deadline);
            }
            Answer::Refused(refusal) => {
                assert!(self.asked.remove(&section), "{section:?} has not asked");
                assert!(!self.granted.contains_key(&section));
                let verdicts = refusal.verdicts.len();
                assert!(verdicts == 0 || verdicts == self.nodes);
            }
            Answer::Extended { deadline } => {
                let before = self.granted.insert(section, deadline);
                assert!(before.is_some_and(|before| before <= deadline));
            }
            Answer::NotExtended { verdicts } => {
                assert!(self.granted.contains_key(&section));
                assert_eq!(verdicts.len(), self.nodes);
            }
            Answer::Over(_) => assert!(self.granted.remove(&section).is_some()),
            Answer::Released(_) => {}
        }
    }

    /// Whoever is still believed to hold is past no deadline.
    fn check(&self) {
        if self.protocol.next_wakeup().is_some_and(|at| at > self.now) {
            for (section, &deadline) in &self.granted {
                assert!(self.now < deadline, "{section:?} hears nothing of its end");
            }
        }
    }
}

/// Two bytes of an input choose one event, whatever the state.
#[test]
fn fuzz_events() {
    redlock_fuzz::fuzz("events", &[], |input, features| {
        let mut pairs = input.chunks_exact(2);
        let mut seed = || {
            Some(u64::from(u16::from_le_bytes(
                pairs.next()?.try_into().ok()?,
            )))
        };
        let mut fuzz = Fuzz::new(seed().unwrap_or(0));
        let mut before = None;
        while let Some(seed) = seed() {
            fuzz.dice = Random::new(seed + 1);
            let event = fuzz.event();
            let reply = match &event {
                Event::Reply { reply, .. } => Some(discriminant(reply)),
                _ => None,
            };
            let kind = (discriminant(&event), reply);
            fuzz.handle(event);
            if fuzz.protocol.next_wakeup().is_some_and(|at| at <= fuzz.now) {
                fuzz.handle(Event::Wakeup);
            }
            fuzz.check();
            let state = (
                fuzz.granted.len().min(4),
                fuzz.asked.len().min(8),
                fuzz.open.len().min(8),
            );
            features.add((before, kind, state));
            before = Some(kind);
        }
    });
}

#[test]
fn no_reply_to_any_question_makes_it_panic() {
    for seed in 0..2_500 {
        let mut fuzz = Fuzz::new(seed);
        for _ in 0..500 {
            let event = fuzz.event();
            fuzz.handle(event);
            if fuzz.protocol.next_wakeup().is_some_and(|at| at <= fuzz.now) {
                fuzz.handle(Event::Wakeup);
            }
            fuzz.check();
        }
    }
}

#[test]
fn after_any_history_a_shutdown_answers_all() {
    for seed in 10_000..10_500 {
        let mut fuzz = Fuzz::new(seed);
        for _ in 0..200 {
            let event = fuzz.event();
            fuzz.handle(event);
        }
        let timeout = Duration::from_secs(1);
        fuzz.handle(Event::Shutdown {
            timeout,
            abort_holders: true,
        });
        for _ in 0..100 {
            fuzz.now = fuzz.now.after(Duration::from_millis(20));
            fuzz.handle(Event::Wakeup);
        }
        assert!(fuzz.is_drained, "seed {seed}");
        let open = fuzz.asked.iter().find(|id| fuzz.granted.contains_key(id));
        assert_eq!(open, None, "seed {seed}: it believes that it holds");
    }
}
