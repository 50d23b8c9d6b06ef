//! A node in memory that fails on demand: for tests of applications. Unlike a `memory://` node it
//! has a connection that can break, can answer late, and tells of changes to watched keys, as servers
//! do.

use std::{
    collections::{BTreeSet, VecDeque},
    mem,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Waker},
    time::Duration,
};

use redlock_protocol::{
    ConnectionId, Event, Facts, Instant, NodeId, Order, Reply, Request,
    model::{Key, Model},
};
use tokio::time::Sleep;

use super::memory::{UPTIME, moment};

/// The node itself, in the hands of the test.
#[derive(Debug)]
pub(crate) struct Faulty {
    address: Arc<str>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    model: Model,
    /// Keys that were read and have not changed since.
    watched: BTreeSet<Arc<str>>,
    behavior: Behavior,
    /// How many replies will still be lost.
    losses: usize,
    restarts: u64,
    /// When it was restarted last.
    started: Option<Instant>,
    /// The connection that stands.
    link: Option<(NodeId, ConnectionId)>,
    /// What it hears unasked, and who is woken for it.
    news: Vec<Event>,
    reader: Option<Waker>,
}

/// What a node does with requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behavior {
    Healthy,
    /// Every reply comes so late.
    Delayed(Duration),
    /// Neither refuses a connection nor carries anything out.
    Unresponsive,
    /// Refuses connections.
    Unreachable,
}

impl Faulty {
    pub(crate) fn new(address: Arc<str>) -> Self {
        let model = Model::new(Some(process(&address, 0)));
        Self {
            address,
            state: Mutex::new(State {
                model,
                watched: BTreeSet::new(),
                behavior: Behavior::Healthy,
                losses: 0,
                restarts: 0,
                started: None,
                link: None,
                news: Vec::new(),
                reader: None,
            }),
        }
    }

    pub(crate) fn address(&self) -> &Arc<str> {
        &self.address
    }

    pub(crate) fn behave(&self, behavior: Behavior) {
        let mut state = self.state();
        state.behavior = behavior;
        if behavior == Behavior::Unreachable {
            state.break_connection();
        }
    }

    pub(crate) fn lose_replies(&self, count: usize) {
        self.state().losses = count;
    }

    /// As by FLUSHALL.
    pub(crate) fn flush(&self) {
        let mut state = self.state();
        state.model.lose_memory();
        state.watched.clear();
        state.tell_change(None);
    }

    /// Another process, with nothing in its memory.
    pub(crate) fn restart(&self, now: Instant) {
        let mut state = self.state();
        state.restarts += 1;
        let process = process(&self.address, state.restarts);
        state.model.lose_memory();
        state.model.restart(Some(process));
        state.started = Some(now);
        state.behavior = Behavior::Healthy;
        state.losses = 0;
        state.break_connection();
    }

    /// Deletes a key, whoever has it.
    pub(crate) fn delete(&self, key: &Arc<str>) {
        let mut state = self.state();
        state.model.set_key(Arc::clone(key), None);
        state.changed(key);
    }

    /// Gives a key to a client of another library, whoever had it.
    pub(crate) fn occupy(&self, key: &Arc<str>, value: &str, ttl: Option<Duration>, now: Instant) {
        let mut state = self.state();
        state.model.set_key(Arc::clone(key), None);
        state.model.set_foreign(key, value, ttl, now);
        state.changed(key);
    }

    /// Takes it from that client again, if it still has it.
    pub(crate) fn vacate(&self, key: &Arc<str>, value: &str, now: Instant) {
        let mut state = self.state();
        if state.model.delete_foreign(key, value, now) {
            state.changed(key);
        }
    }

    pub(crate) fn key(&self, key: &str, now: Instant) -> Option<Key> {
        self.state().model.key(key, now)
    }

    pub(super) fn look<T>(&self, look: impl FnOnce(&mut Model) -> T) -> T {
        look(&mut self.state().model)
    }

    /// Tells its connection, if that watches the key.
    pub(super) fn tell_change(&self, key: &Arc<str>) {
        self.state().changed(key);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn tell(&mut self, news: Event) {
        self.news.push(news);
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }

    /// Of `None` if all keys may have changed.
    fn tell_change(&mut self, key: Option<Arc<str>>) {
        if let Some((node, _)) = self.link
            && self.behavior != Behavior::Unresponsive
        {
            self.tell(Event::Changed { node, key });
        }
    }

    fn changed(&mut self, key: &Arc<str>) {
        if self.watched.remove(key) {
            self.tell_change(Some(Arc::clone(key)));
        }
    }

    fn break_connection(&mut self) {
        self.watched.clear();
        if let Some((node, connection)) = self.link.take() {
            self.tell(Event::Disconnected {
                node,
                connection,
                reason: "the test has broken the connection".into(),
            });
        }
    }

    fn facts(&self, now: Instant) -> Facts {
        Facts {
            server: self.model.server.clone(),
            uptime: Some(self.started.map_or(UPTIME, |started| now.since(started))),
            tells_changes: true,
            ..Facts::default()
        }
    }

    /// `None` if nothing will ever come back.
    fn run(&mut self, request: &Request, now: Instant) -> Option<Reply> {
        if self.behavior == Behavior::Unresponsive {
            return None;
        }
        let reply = self.model.run(request, moment(now));
        if let Request::Watch { key, .. } = request {
            self.watched.insert(Arc::clone(key));
        }
        if self.losses > 0 {
            self.losses -= 1;
            return None;
        }
        Some(reply)
    }

    const fn delay(&self) -> Duration {
        match self.behavior {
            Behavior::Delayed(delay) => delay,
            _ => Duration::ZERO,
        }
    }
}

fn process(address: &str, restarts: u64) -> Arc<str> {
    format!("{address}#{restarts}").into()
}

/// The engine's connection to it.
pub(crate) struct FaultyLink {
    node: NodeId,
    faulty: Arc<Faulty>,
    /// What will have happened by then, in order.
    pending: VecDeque<(tokio::time::Instant, Event)>,
    sleep: Pin<Box<Sleep>>,
}

impl FaultyLink {
    /// Must be called within the runtime of the engine.
    pub(crate) fn new(node: NodeId, faulty: Arc<Faulty>) -> Self {
        Self {
            node,
            faulty,
            pending: VecDeque::new(),
            sleep: Box::pin(tokio::time::sleep(Duration::ZERO)),
        }
    }

    pub(crate) fn connect(&mut self, connection: ConnectionId, now: Instant) {
        self.disconnect();
        let node = self.node;
        let faulty = Arc::clone(&self.faulty);
        let mut state = faulty.state();
        let event = match state.behavior {
            Behavior::Unresponsive => return,
            Behavior::Unreachable => Event::Disconnected {
                node,
                connection,
                reason: "the test has made it unreachable".into(),
            },
            Behavior::Healthy | Behavior::Delayed(_) => {
                state.link = Some((node, connection));
                Event::Connected {
                    node,
                    connection,
                    facts: state.facts(now),
                }
            }
        };
        self.expect(state.delay(), event);
    }

    pub(crate) fn disconnect(&mut self) {
        self.pending.clear();
        let mut state = self.faulty.state();
        state.link = None;
        state.news.clear();
    }

    pub(crate) fn send(&mut self, order: &Order, now: Instant) {
        let faulty = Arc::clone(&self.faulty);
        let mut state = faulty.state();
        // It may have been broken, which has not been read yet.
        if state.link.is_none() {
            return;
        }
        if let Some(reply) = state.run(&order.body, now) {
            let event = Event::Reply {
                node: self.node,
                request: order.request,
                reply,
            };
            self.expect(state.delay(), event);
        }
    }

    /// Collects what has happened. Where nothing more has, `cx` is woken by the next thing.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, events: &mut Vec<Event>) {
        let mut state = self.faulty.state();
        state.reader = Some(cx.waker().clone());
        let (news, delay) = (mem::take(&mut state.news), state.delay());
        drop(state);
        for event in news {
            if matches!(event, Event::Disconnected { .. }) {
                self.pending.clear();
                self.expect(Duration::ZERO, event);
            } else {
                self.expect(delay, event);
            }
        }
        events.extend(self.take_due());
        while let Some(&(due, _)) = self.pending.front() {
            self.sleep.as_mut().reset(due);
            if self.sleep.as_mut().poll(cx).is_pending() {
                return;
            }
            events.extend(self.take_due());
        }
    }

    /// What has happened by now.
    pub(crate) fn take_due(&mut self) -> impl Iterator<Item = Event> {
        let now = tokio::time::Instant::now();
        let due = self.pending.partition_point(|(due, _)| *due <= now);
        self.pending.drain(..due).map(|(_, event)| event)
    }

    fn expect(&mut self, delay: Duration, event: Event) {
        // One connection answers in order.
        let after = self.pending.back().map(|(due, _)| *due);
        let due = tokio::time::Instant::now() + delay;
        let due = after.map_or(due, |after| after.max(due));
        self.pending.push_back((due, event));
    }
}
