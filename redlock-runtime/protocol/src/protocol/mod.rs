//! The router: every event goes to one node or one key, and what the nodes have for the keys is
//! passed on. No rule lives here but those of shutting down, in `shutdown`.

mod compounds;
mod keys;
mod look;
mod permits;
mod shutdown;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use self::keys::Keys;
use crate::{
    action::{Action, Answer, Cause, Refusal, Release},
    compound::Compound,
    event::Event,
    key::Move,
    message::{Mode, NodeId, Process, SectionId},
    node::{Nodes, Notice, Out},
    purpose::RoundId,
    rules::{
        key_names::line_of,
        token::Token,
        validity::{LeaseParams, LockParams},
    },
    settings::{Env, Settings},
    time::Instant,
    timer::{Timer, Timers},
};

/// The whole state.
#[derive(Debug)]
pub struct Protocol {
    out: Out,
    nodes: Nodes,
    keys: Keys,
    compounds: BTreeMap<SectionId, Compound>,
    /// Which section each part belongs to, while it is to hear anything.
    parts: BTreeMap<SectionId, SectionId>,
    last_part: SectionId,
    /// Between the keys of locks with permits, with the name of the key that each comes from.
    moves: VecDeque<(Arc<str>, Move)>,
    timers: Timers,
    /// When to look at the connections, at the latest.
    nodes_at: Option<Instant>,
    /// Those of the section that was asked for last: most are asked for with the same.
    last_params: Arc<LockParams>,
    /// Holders and releases are waited for until then.
    stops_at: Option<Instant>,
    /// How many holders were cut off when the time was up; none as long as they are waited for.
    cut_off: Option<usize>,
    is_drained: bool,
}

impl Protocol {
    /// Starts to connect to all nodes.
    #[must_use]
    pub fn new(nodes: usize, settings: Settings, mut env: Env, now: Instant) -> Self {
        let process = Process(((env.random)() >> 64) as u64);
        let mut protocol = Self {
            out: Out {
                actions: VecDeque::new(),
                notices: VecDeque::new(),
                for_parts: VecDeque::new(),
                sections: BTreeMap::new(),
                last_round: RoundId::default(),
                env,
                settings,
                now,
            },
            nodes: Nodes::new(nodes, process),
            keys: Keys::default(),
            compounds: BTreeMap::new(),
            parts: BTreeMap::new(),
            last_part: SectionId::FIRST_PART,
            moves: VecDeque::new(),
            timers: Timers::default(),
            nodes_at: None,
            last_params: Arc::new(LockParams::of(Duration::ZERO)),
            stops_at: None,
            cut_off: None,
            is_drained: false,
        };
        protocol.nodes.advance(&mut protocol.out);
        protocol.settle();
        protocol
    }

    /// Takes in one event. Never fails: a refusal is an answer.
    pub fn handle(&mut self, event: Event, now: Instant) {
        self.out.now = now;
        let Self { nodes, out, .. } = self;
        match event {
            Event::Wakeup => self.on_wakeup(),
            Event::Ask {
                section,
                key,
                params,
            } => self.on_ask(section, key, params, now),
            Event::AskAll {
                section,
                members,
                params,
            } => self.on_ask_all(section, members, params),
            Event::Extend { section, lease } => self.on_extend(section, lease),
            Event::Share { section } => {
                self.with_key_of(section, |key| key.on_share(section, now));
            }
            Event::Note { section, note } => {
                for section in self.holders_of(section) {
                    self.with_key_of(section, |key| key.on_note(section, Arc::clone(&note)));
                }
            }
            Event::End { section, report } if self.compounds.contains_key(&section) => {
                self.with_compound(section, |compound| compound.on_end(report, now));
            }
            Event::End { section, report } => self.on_end(section, report),
            Event::Changed { node, key: None } => {
                nodes.on_flushed(node, out);
                // Even if the flush was of another database: the server has forgotten whom to tell of which key.
                self.for_all_keys(|key, cx| key.on_changed(node, cx));
            }
            Event::Changed {
                node,
                key: Some(name),
            } => {
                // Those who wait in line hear of slots, too.
                let line = line_of(&name).and_then(|line| self.keys.find(line));
                for key in self.keys.find(&name).into_iter().chain(line) {
                    self.with_key(key, |key, cx| key.on_changed(node, cx));
                }
            }
            Event::Reply {
                node,
                request,
                reply,
            } => nodes.on_reply(node, request, reply, out),
            Event::Connected {
                node,
                connection,
                facts,
            } => nodes.on_connected(node, connection, facts, out),
            Event::Disconnected {
                node,
                connection,
                reason,
            } => nodes.on_disconnected(node, connection, reason, out),
            Event::Silent { node, connection } => nodes.on_silent(node, connection, out),
            Event::Shutdown {
                timeout,
                abort_holders,
            } => self.on_shutdown(timeout, abort_holders),
        }
        self.settle();
    }

    fn on_extend(&mut self, section: SectionId, lease: Option<LeaseParams>) {
        if self.compounds.contains_key(&section) {
            return self.with_compound(section, |compound| compound.on_extend(lease));
        }
        let now = self.out.now;
        self.with_key_of(section, |key| {
            key.on_extend(section, lease, Token::default(), now);
        });
    }

    /// The next thing to do; `None` once all is done.
    #[must_use]
    pub fn poll_action(&mut self) -> Option<Action> {
        self.out.actions.pop_front()
    }

    /// When to hand in the next wake-up.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Instant> {
        let stops_at = self.stops_at.filter(|_| !self.is_drained);
        let dues = [self.timers.next(), self.nodes_at, stops_at];
        dues.into_iter().flatten().min()
    }

    /// How long the node took to reply last, over the connection that it has now.
    #[must_use]
    pub fn round_trip(&self, node: NodeId) -> Option<Duration> {
        self.nodes.round_trip(node)
    }

    fn on_wakeup(&mut self) {
        let now = self.out.now;
        if self.nodes_at.take_if(|at| *at <= now).is_some() {
            self.nodes.advance(&mut self.out);
        }
        while let Some(timer) = self.timers.pop_due(now) {
            match timer {
                Timer::Key(key) => {
                    self.keys.on_woken(key);
                    // Nothing is done because a timer woke: `with_key` lets the key go by the clock.
                    self.with_key(key, |_, _| {});
                }
                Timer::Compound(id) => self.with_compound(id, |compound| compound.on_time(now)),
            }
        }
    }

    fn on_ask(&mut self, section: SectionId, lock: Arc<str>, params: LockParams, since: Instant) {
        match params.permits {
            0 => self.on_ask_at(section, lock, params, since),
            _ => self.on_ask_permit(section, &lock, params, since),
        }
    }

    /// Asks at this key, which is the lock or its line.
    fn on_ask_at(
        &mut self,
        section: SectionId,
        name: Arc<str>,
        params: LockParams,
        since: Instant,
    ) {
        if self.stops_at.is_some() {
            let answer = Answer::Refused(Refusal::without_verdicts(Cause::Stopped));
            return self.out.answer(section, answer);
        }
        let key = self.keys.id_of(name);
        self.out.sections.insert(section, key);
        let params = self.shared_params(params);
        self.with_key(key, |key, cx| key.on_ask(section, params, since, cx));
    }

    fn shared_params(&mut self, mut params: LockParams) -> Arc<LockParams> {
        // Those that share have no order between processes.
        params.is_fair &= params.mode == Mode::Exclusive;
        if *self.last_params != params {
            self.last_params = Arc::new(params);
        }
        Arc::clone(&self.last_params)
    }

    fn on_end(&mut self, section: SectionId, report: bool) {
        if let Some(key) = self.out.sections.remove(&section) {
            // Before the section ends, and its turn with it: who is lent follows in that turn without any node.
            let lent = self.lend(section, key);
            self.with_key(key, |key, cx| {
                lent.into_iter().for_each(|waiting| key.on_return(waiting));
                key.on_end(section, report, cx);
            });
        } else if report {
            let answer = Answer::Released(Release::Unknown);
            self.out.answer(section, answer);
        }
    }

    /// Passes on what the nodes have for the keys, until there is nothing more, and sets the
    /// timers.
    fn settle(&mut self) {
        self.deliver();
        let due = self.nodes.next_due(&self.out);
        // A time that has passed stays until the connections were looked at.
        self.nodes_at = self.nodes_at.into_iter().chain(due).min();
        self.settle_shutdown();
    }

    fn deliver(&mut self) {
        loop {
            if let Some((from, what)) = self.moves.pop_front() {
                self.on_move(&from, what);
            } else if let Some((part, answer)) = self.out.for_parts.pop_front() {
                self.on_part(part, answer);
            } else if let Some(notice) = self.out.notices.pop_front() {
                self.on_notice(notice);
            } else {
                break;
            }
        }
    }

    fn on_notice(&mut self, notice: Notice) {
        match notice {
            Notice::Reply(key, ask, place, reply) => {
                self.with_key(key, |key, cx| key.on_reply(place, ask, reply, cx));
            }
            Notice::Connected(node) => {
                self.for_all_keys(|key, cx| key.on_connected(node, cx));
            }
            Notice::Settled(node) => self.for_all_keys(|key, cx| key.on_settled(node, cx)),
        }
    }
}
