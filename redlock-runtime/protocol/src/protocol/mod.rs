//! The router: every event goes to one node or one key, and what the nodes have for the keys is
//! passed on. No rule lives here but those of shutting down.

mod compounds;
mod look;
mod pools;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use self::pools::Pools;
use crate::{
    action::{Action, Answer, Cause, Refusal, Release, ShutdownError},
    ask::{KeyId, RoundId},
    compound::Compound,
    event::Event,
    key::{Cx, Key},
    message::{Mode, NodeId, Process, SectionId},
    node::{Nodes, Notice, Out},
    rules::validity::LockParams,
    settings::{Env, Settings},
    time::Instant,
    timer::{Timer, Timers},
};

/// The whole state.
#[derive(Debug)]
pub struct Protocol {
    out: Out,
    nodes: Nodes,
    /// In boxes: a tree is half empty, since its keys come in order, and moves what it splits.
    keys: BTreeMap<KeyId, Box<Entry>>,
    names: BTreeMap<Arc<str>, KeyId>,
    next_key: u64,
    compounds: BTreeMap<SectionId, Compound>,
    /// Which section each part belongs to, while it is to hear anything.
    parts: BTreeMap<SectionId, SectionId>,
    last_part: SectionId,
    pools: Pools,
    timers: Timers,
    /// Those of the section that was asked for last: most are asked for with the same.
    last_params: Arc<LockParams>,
    /// Holders and releases are waited for until then.
    stops_at: Option<Instant>,
    is_drained: bool,
}

/// A key, and what is known of it from outside.
#[derive(Debug)]
struct Entry {
    name: Arc<str>,
    /// When its timer wakes.
    wakes_at: Option<Instant>,
    key: Key,
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
            keys: BTreeMap::new(),
            names: BTreeMap::new(),
            next_key: 0,
            compounds: BTreeMap::new(),
            parts: BTreeMap::new(),
            last_part: SectionId::FIRST_PART,
            pools: Pools::default(),
            timers: Timers::default(),
            last_params: Arc::new(LockParams::of(Duration::ZERO)),
            stops_at: None,
            is_drained: false,
        };
        protocol.nodes.connect_all(&mut protocol.out);
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
            } => self.on_ask(section, key, params, false),
            Event::AskAll {
                section,
                keys,
                params,
            } => self.on_ask_all(section, keys, params),
            Event::AskPermit {
                section,
                key,
                permits,
                params,
            } => self.on_ask_permit(section, (key, permits), params),
            Event::Extend { section } if self.compounds.contains_key(&section) => {
                self.with_compound(section, Compound::on_extend);
            }
            Event::Extend { section } => self.with_key_of(section, |key| key.on_extend(section)),
            Event::End { section, report } if self.compounds.contains_key(&section) => {
                let now = self.out.now;
                self.with_compound(section, |compound| compound.on_end(report, now));
            }
            Event::End { section, report } if self.pools.has(section) => {
                self.on_end_waiting(section, report);
            }
            Event::End { section, report } => self.on_end(section, report),
            Event::Changed { node, key: None } => {
                nodes.on_flushed(node, out);
                self.for_all_keys(|key, cx| key.on_changed(node, cx));
            }
            Event::Changed {
                node,
                key: Some(name),
            } => {
                if let Some(&key) = self.names.get(&name) {
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

    /// The next thing to do; `None` once all is done.
    #[must_use]
    pub fn poll_action(&mut self) -> Option<Action> {
        self.out.actions.pop_front()
    }

    /// When to hand in the next wake-up.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// How long the node took to reply last, over the connection that it has now.
    #[must_use]
    pub fn round_trip(&self, node: NodeId) -> Option<Duration> {
        self.nodes.round_trip(node)
    }

    fn on_wakeup(&mut self) {
        while let Some(timer) = self.timers.pop_due(self.out.now) {
            match timer {
                Timer::Key(key) => {
                    if let Some(entry) = self.keys.get_mut(&key) {
                        entry.wakes_at = None;
                    }
                    self.with_key(key, |_, _| {});
                }
                Timer::Nodes => self.nodes.advance(&mut self.out),
                Timer::Compound(section) => self.with_compound(section, |_| {}),
                Timer::Pool(pool) => self.with_pool(pool, |_| {}),
                // Looked at after every event.
                Timer::Shutdown => {}
            }
        }
    }

    fn on_ask(&mut self, section: SectionId, name: Arc<str>, params: LockParams, goes_first: bool) {
        if self.stops_at.is_some() {
            let answer = Answer::Refused(Refusal::without_verdicts(Cause::Stopped));
            return self.out.answer(section, answer);
        }
        let key = *self.names.entry(name).or_insert_with_key(|name| {
            let key = KeyId(self.next_key);
            self.next_key += 1;
            let entry = Entry {
                name: Arc::clone(name),
                wakes_at: None,
                key: Key::new(),
            };
            self.keys.insert(key, Box::new(entry));
            key
        });
        self.out.sections.insert(section, key);
        let params = self.shared_params(params);
        self.with_key(key, |key, cx| key.on_ask(section, params, goes_first, cx));
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
            self.with_key(key, |key, cx| key.on_end(section, report, cx));
        } else if report {
            let answer = Answer::Released(Release::Unknown);
            self.out.answer(section, answer);
        }
    }

    /// Passes on what the nodes have for the keys, until there is nothing more, and sets the
    /// timers.
    fn settle(&mut self) {
        self.deliver();
        if let Some(at) = self.nodes.next_due(&self.out) {
            self.timers.wake_by(Timer::Nodes, at);
        }
        self.settle_shutdown();
    }

    fn deliver(&mut self) {
        loop {
            if let Some((part, answer)) = self.out.for_parts.pop_front() {
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

    /// The same with the key of a section that has not ended.
    fn with_key_of(&mut self, section: SectionId, act: impl FnOnce(&mut Key)) {
        if let Some(&key) = self.out.sections.get(&section) {
            self.with_key(key, |key, _| act(key));
        }
    }

    /// Lets one key act and go on, arms its timer, and forgets it once nothing is left of it.
    fn with_key(&mut self, id: KeyId, act: impl FnOnce(&mut Key, &mut Cx<'_>)) {
        let Some(entry) = self.keys.get_mut(&id) else {
            return;
        };
        let Entry {
            name,
            wakes_at,
            key,
        } = &mut **entry;
        let mut cx = Cx {
            key: id,
            name,
            nodes: &mut self.nodes,
            out: &mut self.out,
        };
        act(key, &mut cx);
        key.advance(&mut cx);
        let now = self.out.now;
        #[cfg(debug_assertions)]
        key.invariants(now);
        match key.next_due(now) {
            Some(at) => {
                self.timers.wake(Timer::Key(id), wakes_at, at);
            }
            None if key.is_idle() => {
                self.timers.cancel_key(id, *wakes_at);
                self.names.remove(name);
                self.keys.remove(&id);
            }
            None => {}
        }
    }

    fn for_all_keys(&mut self, mut act: impl FnMut(&mut Key, &mut Cx<'_>)) {
        let keys: Vec<KeyId> = self.keys.keys().copied().collect();
        for key in keys {
            self.with_key(key, &mut act);
        }
    }

    fn on_shutdown(&mut self, timeout: Duration, abort_holders: bool) {
        let until = self.out.now.after(timeout);
        self.stops_at = Some(self.stops_at.map_or(until, |at| at.min(until)));
        self.for_all_keys(|key, cx| key.stop(abort_holders, cx));
        let compounds: Vec<SectionId> = self.compounds.keys().copied().collect();
        for compound in compounds {
            self.with_compound(compound, Compound::stop);
        }
    }

    fn settle_shutdown(&mut self) {
        let Some(until) = self.stops_at.filter(|_| !self.is_drained) else {
            return;
        };
        let of_callers = || {
            self.out
                .sections
                .keys()
                .filter(|section| !section.is_part())
        };
        let compounds = || self.compounds.values().filter(|one| one.is_open());
        let unconfirmed = || {
            self.keys
                .values()
                .map(|entry| entry.key.unconfirmed_releases(&self.nodes))
        };
        // This is after each event, so it looks for one that is left and counts only at the end.
        let is_held = || of_callers().next().is_some() || compounds().next().is_some();
        if self.out.now < until && (is_held() || unconfirmed().any(|left| left > 0)) {
            return self.timers.wake_by(Timer::Shutdown, until);
        }
        let held = of_callers().count() + compounds().count();
        let unconfirmed = unconfirmed().sum();
        let left = ShutdownError { held, unconfirmed };
        self.is_drained = true;
        self.for_all_keys(|key, cx| key.stop(true, cx));
        self.deliver();
        self.out.actions.push_back(Action::Drained(left));
    }
}
