//! The router: every event goes to one node or one key, and what the nodes have for the keys is
//! passed on. No rule lives here but those of shutting down.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use crate::{
    action::{Action, Answer, Cause, Refusal, Release, ShutdownError},
    ask::{KeyId, RoundId},
    event::Event,
    key::{Cx, Key},
    message::{Process, SectionId},
    node::{Nodes, Notice, Out},
    rules::validity::LockParams,
    settings::{Env, Settings},
    time::Instant,
    timer::{Timer, Timers},
};

/// The whole state.
#[derive(Debug)]
pub struct Protocol {
    settings: Settings,
    env: Env,
    actions: VecDeque<Action>,
    notices: VecDeque<Notice>,
    nodes: Nodes,
    keys: BTreeMap<KeyId, Key>,
    names: BTreeMap<Arc<str>, KeyId>,
    /// The key of every section that has not ended.
    sections: BTreeMap<SectionId, KeyId>,
    next_key: u64,
    last_round: RoundId,
    timers: Timers,
    shutdown: Option<Shutdown>,
}

#[derive(Debug, Clone, Copy)]
struct Shutdown {
    until: Instant,
    is_drained: bool,
}

impl Protocol {
    /// Starts to connect to all nodes.
    #[must_use]
    pub fn new(nodes: usize, settings: Settings, mut env: Env, now: Instant) -> Self {
        let process = Process(((env.random)() >> 64) as u64);
        let mut protocol = Self {
            settings,
            env,
            actions: VecDeque::new(),
            notices: VecDeque::new(),
            nodes: Nodes::new(nodes, process),
            keys: BTreeMap::new(),
            names: BTreeMap::new(),
            sections: BTreeMap::new(),
            next_key: 0,
            last_round: RoundId::default(),
            timers: Timers::default(),
            shutdown: None,
        };
        protocol.with_nodes(now, |nodes, out| nodes.connect_all(out));
        protocol.settle(now);
        protocol
    }

    /// Takes in one event. Never fails: a refusal is an answer.
    pub fn handle(&mut self, event: Event, now: Instant) {
        match event {
            Event::Wakeup => self.on_wakeup(now),
            Event::Ask {
                section,
                key,
                params,
            } => self.on_ask(section, key, params, now),
            Event::Extend { section } => {
                if let Some(&key) = self.sections.get(&section) {
                    self.with_key(key, now, |key, _| key.on_extend(section));
                }
            }
            Event::End { section, report } => self.on_end(section, report, now),
            Event::Changed { node, key: None } => {
                self.with_nodes(now, |nodes, out| nodes.on_flushed(node, out));
                self.for_all_keys(now, |key, cx| key.on_changed(node, cx));
            }
            Event::Changed {
                node,
                key: Some(name),
            } => {
                if let Some(&key) = self.names.get(&name) {
                    self.with_key(key, now, |key, cx| key.on_changed(node, cx));
                }
            }
            Event::Reply {
                node,
                request,
                reply,
            } => self.with_nodes(now, |nodes, out| nodes.on_reply(node, request, reply, out)),
            Event::Connected {
                node,
                connection,
                facts,
            } => self.with_nodes(now, |nodes, out| {
                nodes.on_connected(node, connection, facts, out);
            }),
            Event::Disconnected {
                node,
                connection,
                reason,
            } => self.with_nodes(now, |nodes, out| {
                nodes.on_disconnected(node, connection, &reason, out);
            }),
            Event::Shutdown {
                timeout,
                abort_holders,
            } => self.on_shutdown(timeout, abort_holders, now),
        }
        self.settle(now);
    }

    /// The next thing to do; `None` once all is done.
    #[must_use]
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When to hand in the next wake-up.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Instant> {
        self.timers.next()
    }

    fn on_wakeup(&mut self, now: Instant) {
        while let Some(timer) = self.timers.pop_due(now) {
            match timer {
                Timer::Key(key) => self.with_key(key, now, |_, _| {}),
                Timer::Node(node) => self.with_nodes(now, |nodes, out| nodes.on_due(node, out)),
                // Looked at after every event.
                Timer::Shutdown => {}
            }
        }
    }

    fn on_ask(&mut self, section: SectionId, name: Arc<str>, params: LockParams, now: Instant) {
        if self.shutdown.is_some() {
            let answer = Answer::Refused(Refusal::without_verdicts(Cause::Stopped));
            return self.actions.push_back(Action::Answer { section, answer });
        }
        let key = match self.names.get(&name) {
            Some(&key) => key,
            None => {
                let key = KeyId(self.next_key);
                self.next_key += 1;
                self.keys.insert(key, Key::new(Arc::clone(&name)));
                self.names.insert(name, key);
                key
            }
        };
        self.sections.insert(section, key);
        self.with_key(key, now, |key, cx| key.on_ask(section, params, cx));
    }

    fn on_end(&mut self, section: SectionId, report: bool, now: Instant) {
        if let Some(key) = self.sections.remove(&section) {
            self.with_key(key, now, |key, cx| key.on_end(section, report, cx));
        } else if report {
            let answer = Answer::Released(Release::Unknown);
            self.actions.push_back(Action::Answer { section, answer });
        }
    }

    /// Passes on what the nodes have for the keys, until there is nothing more, and sets the
    /// timers.
    fn settle(&mut self, now: Instant) {
        while let Some(notice) = self.notices.pop_front() {
            match notice {
                Notice::Reply(asked, reply) => {
                    self.with_key(asked.key, now, |key, cx| key.on_reply(asked, reply, cx));
                }
                Notice::Connected(node) => {
                    self.for_all_keys(now, |key, cx| key.on_connected(node, cx));
                }
                Notice::Settled(node) => {
                    self.for_all_keys(now, |key, cx| key.on_settled(node, cx));
                }
            }
        }
        for (node, at) in self.nodes.take_due(self.settings.silence_limit, now) {
            self.timers.wake_by(Timer::Node(node), at);
        }
        self.settle_shutdown(now);
    }

    fn with_nodes(&mut self, now: Instant, act: impl FnOnce(&mut Nodes, &mut Out<'_>)) {
        let mut out = Out {
            actions: &mut self.actions,
            notices: &mut self.notices,
            env: &mut self.env,
            settings: &self.settings,
            now,
        };
        act(&mut self.nodes, &mut out);
    }

    /// Lets one key act and go on, arms its timer, and forgets it once nothing is left of it.
    fn with_key(&mut self, id: KeyId, now: Instant, act: impl FnOnce(&mut Key, &mut Cx<'_>)) {
        let Some(key) = self.keys.get_mut(&id) else {
            return;
        };
        let mut cx = Cx {
            key: id,
            name: Arc::clone(&key.name),
            nodes: &mut self.nodes,
            sections: &mut self.sections,
            last_round: &mut self.last_round,
            out: Out {
                actions: &mut self.actions,
                notices: &mut self.notices,
                env: &mut self.env,
                settings: &self.settings,
                now,
            },
        };
        act(key, &mut cx);
        key.advance(&mut cx);
        #[cfg(debug_assertions)]
        key.invariants(now);
        match key.next_due(now) {
            Some(at) => self.timers.wake_by(Timer::Key(id), at),
            None if key.is_idle() => {
                self.timers.cancel(Timer::Key(id));
                self.names.remove(&key.name);
                self.keys.remove(&id);
            }
            None => {}
        }
    }

    fn for_all_keys(&mut self, now: Instant, mut act: impl FnMut(&mut Key, &mut Cx<'_>)) {
        let keys: Vec<KeyId> = self.keys.keys().copied().collect();
        for key in keys {
            self.with_key(key, now, &mut act);
        }
    }

    fn on_shutdown(&mut self, timeout: Duration, abort_holders: bool, now: Instant) {
        let until = now.after(timeout);
        let shutdown = self.shutdown.get_or_insert(Shutdown {
            until,
            is_drained: false,
        });
        shutdown.until = shutdown.until.min(until);
        self.for_all_keys(now, |key, cx| key.stop(abort_holders, cx));
    }

    fn settle_shutdown(&mut self, now: Instant) {
        let Some(Shutdown { until, is_drained }) = self.shutdown else {
            return;
        };
        if is_drained {
            return;
        }
        let held = self.sections.len();
        let of_key = |key: &Key| key.unconfirmed_releases(&self.nodes);
        let unconfirmed = || self.keys.values().map(of_key).sum();
        if now < until && (held > 0 || unconfirmed() > 0) {
            return self.timers.wake_by(Timer::Shutdown, until);
        }
        let unconfirmed = unconfirmed();
        let left = ShutdownError { held, unconfirmed };
        let is_drained = true;
        self.shutdown = Some(Shutdown { until, is_drained });
        self.for_all_keys(now, |key, cx| key.stop(true, cx));
        self.actions.push_back(Action::Drained(left));
    }
}
