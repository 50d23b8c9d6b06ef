//! Nodes without Redis. `memory://name` is a store for trying things out, which never fails. The nodes of
//! `Redlock::test` belong to one node set: each has a connection that can break, can answer late, and tells of
//! changes to watched keys, as servers do.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    mem,
    pin::Pin,
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak},
    task::{Context, Waker},
    time::Duration,
};

use redlock_protocol::{
    ConnectionId, Event, Facts, Instant, NodeId, Order, Owner, Reply, Request,
    model::{Key, Model, Moment},
};
use tokio::time::Sleep;

use crate::clock;

/// A store that was never restarted has forgotten nothing: it votes at once, like a server that has run for so long.
const UPTIME: Duration = Duration::from_secs(100 * 365 * 86_400);

/// What `memory://name` means: the same store for the same name, for as long as any node set of
/// this process uses it.
static STORES: LazyLock<Mutex<BTreeMap<String, Weak<Memory>>>> = LazyLock::new(Mutex::default);

/// The node itself. Answers as the scripts do.
#[derive(Debug)]
pub(crate) struct Memory {
    /// One node set has it, and can see it fail.
    pub(crate) is_for_a_test: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    model: Model,
    /// Keys that were read and have not changed since.
    watched: BTreeSet<Arc<str>>,
    behavior: Behavior,
    /// How many replies will still be lost.
    losses: usize,
    /// When it was restarted last.
    started: Option<Instant>,
    /// The connection that stands, for a test.
    link: Option<(NodeId, ConnectionId)>,
    /// What it hears unasked, and who is woken for it.
    news: Vec<Event>,
    reader: Option<Waker>,
}

/// What a node does with requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    not(feature = "test-util"),
    expect(dead_code, reason = "only nodes for tests fail")
)]
pub(crate) enum Behavior {
    #[default]
    Healthy,
    /// Every reply comes so late.
    Delayed(Duration),
    /// Neither refuses a connection nor carries anything out.
    Unresponsive,
    /// Refuses connections.
    Unreachable,
}

/// What stands under a key of a store in memory.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    pub(crate) is_shared: bool,
    /// For each owner its part.
    pub(crate) parts: Vec<Key>,
    /// What the owner says beside it.
    pub(crate) note: Option<Arc<str>>,
}

impl Memory {
    /// The store of this name.
    pub(crate) fn named(name: &str) -> Arc<Self> {
        let mut stores = STORES.lock().unwrap_or_else(PoisonError::into_inner);
        stores.retain(|_, store| store.strong_count() > 0);
        if let Some(store) = stores.get(name).and_then(Weak::upgrade) {
            return store;
        }
        let store = Arc::new(Self::new(format!("memory://{name}"), false));
        stores.insert(name.to_owned(), Arc::downgrade(&store));
        store
    }

    pub(crate) fn new(server: String, is_for_a_test: bool) -> Self {
        let state = Mutex::new(State {
            model: Model::new(Some(server.into())),
            ..State::default()
        });
        Self {
            is_for_a_test,
            state,
        }
    }

    /// What a server would tell of itself.
    fn facts(&self, now: Instant) -> Facts {
        let state = self.state();
        Facts {
            server: state.model.server.clone(),
            uptime: Some(state.started.map_or(UPTIME, |started| now.since(started))),
            tells_changes: self.is_for_a_test,
            ..Facts::default()
        }
    }

    /// Carries out a request; `None` if nothing will ever come back. Keys expire by the engine's clock; tokens grow
    /// with the wall clock, so that those of a later store are larger.
    fn run(&self, request: &Request, now: Instant) -> Option<Reply> {
        let mut state = self.state();
        if state.behavior == Behavior::Unresponsive {
            return None;
        }
        let wall_micros = clock::wall_micros();
        let mut reply = state.model.run(request, Moment { now, wall_micros });
        match (&mut reply, request) {
            // Node sets of one process may differ in it, because such a store never has to stay out.
            (Reply::Record(record), _) if !self.is_for_a_test => record.max_ttl = None,
            (_, Request::Watch { key, .. }) if self.is_for_a_test => {
                state.watched.insert(Arc::clone(key));
            }
            _ => {}
        }
        if state.losses > 0 {
            state.losses -= 1;
            return None;
        }
        Some(reply)
    }

    pub(crate) fn parts(&self, key: &str, now: Instant) -> Parts {
        self.state().parts(key, now)
    }

    /// Deletes a key if what stands there has one of these marks; returns its mark if it has not.
    pub(crate) fn delete_marked(
        &self,
        key: &Arc<str>,
        marks: &[String],
        now: Instant,
    ) -> Option<String> {
        let mut state = self.state();
        let Parts {
            is_shared, parts, ..
        } = state.parts(key, now);
        let mark = match parts.first() {
            None => return Some(String::new()),
            Some(_) if is_shared => "shared".to_owned(),
            Some(part) => format!("{:?}", part.owner),
        };
        if !marks.contains(&mark) {
            return Some(mark);
        }
        state.delete(key);
        None
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What befalls it in a test.
#[cfg(feature = "test-util")]
impl Memory {
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
        let before = state.model.server.as_deref().unwrap_or_default();
        let process = format!("{before}+").into();
        state.model.lose_memory();
        state.model.restart(Some(process));
        state.started = Some(now);
        state.behavior = Behavior::Healthy;
        state.losses = 0;
        state.break_connection();
    }

    /// Deletes a key, whoever has it.
    pub(crate) fn delete(&self, key: &Arc<str>) {
        self.state().delete(key);
    }

    /// Gives a key to a client of another library, whoever had it.
    pub(crate) fn occupy(&self, key: &Arc<str>, value: &str, ttl: Option<Duration>, now: Instant) {
        let mut state = self.state();
        state.delete(key);
        state.model.set_foreign(key, value, ttl, now);
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
}

impl State {
    fn parts(&self, key: &str, now: Instant) -> Parts {
        let stands = self.model.key(key, now);
        let is_shared = stands.is_some_and(|key| key.owner == Some(Owner::READERS));
        let mut parts = self.model.parts(key, now);
        parts.retain(|part| part.lives(now));
        let note = self.model.note(key, now).cloned();
        Parts {
            is_shared,
            parts,
            note,
        }
    }

    fn delete(&mut self, key: &Arc<str>) {
        self.model.set_key(Arc::clone(key), None);
        self.changed(key);
    }

    /// Tells its connection, if that watches the key.
    fn changed(&mut self, key: &Arc<str>) {
        if self.watched.remove(key) {
            self.tell_change(Some(Arc::clone(key)));
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

    fn tell(&mut self, news: Event) {
        self.news.push(news);
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }

    #[cfg(feature = "test-util")]
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

    const fn delay(&self) -> Duration {
        match self.behavior {
            Behavior::Delayed(delay) => delay,
            _ => Duration::ZERO,
        }
    }
}

/// An engine's connection to it. What it hears goes into `events`, at once or when it is due.
pub(crate) struct MemoryLink {
    node: NodeId,
    memory: Arc<Memory>,
    /// What will have happened by then, in order.
    pending: VecDeque<(tokio::time::Instant, Event)>,
    /// Made within the runtime of the engine.
    sleep: Option<Pin<Box<Sleep>>>,
}

impl MemoryLink {
    pub(crate) const fn new(node: NodeId, memory: Arc<Memory>) -> Self {
        Self {
            node,
            memory,
            pending: VecDeque::new(),
            sleep: None,
        }
    }

    pub(crate) fn connect(
        &mut self,
        connection: ConnectionId,
        now: Instant,
        events: &mut impl Extend<Event>,
    ) {
        self.disconnect();
        let node = self.node;
        let facts = self.memory.facts(now);
        let mut state = self.memory.state();
        let event = match state.behavior {
            Behavior::Unresponsive => return,
            Behavior::Unreachable => Event::Disconnected {
                node,
                connection,
                reason: "the test has made it unreachable".into(),
            },
            Behavior::Healthy | Behavior::Delayed(_) => {
                state.link = self.memory.is_for_a_test.then_some((node, connection));
                Event::Connected {
                    node,
                    connection,
                    facts,
                }
            }
        };
        let delay = state.delay();
        drop(state);
        self.expect(delay, event, events);
    }

    pub(crate) fn disconnect(&mut self) {
        self.pending.clear();
        let mut state = self.memory.state();
        state.link = None;
        state.news.clear();
    }

    /// Hands in what it has said by now, and that this is all.
    pub(crate) fn listen(&mut self, connection: ConnectionId, events: &mut impl Extend<Event>) {
        events.extend(self.take_due());
        let node = self.node;
        events.extend([Event::Silent { node, connection }]);
    }

    pub(crate) fn send(&mut self, order: &Order, now: Instant, events: &mut impl Extend<Event>) {
        // It may have been broken, which has not been read yet.
        if self.memory.is_for_a_test && self.memory.state().link.is_none() {
            return;
        }
        if let Some(reply) = self.memory.run(&order.body, now) {
            let event = Event::Reply {
                node: self.node,
                request: order.request,
                reply,
            };
            let delay = self.memory.state().delay();
            self.expect(delay, event, events);
        }
    }

    /// Collects what has happened. Where nothing more has, `cx` is woken by the next thing.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, events: &mut Vec<Event>) {
        if !self.memory.is_for_a_test {
            return;
        }
        let mut state = self.memory.state();
        state.reader = Some(cx.waker().clone());
        let (news, delay) = (mem::take(&mut state.news), state.delay());
        drop(state);
        for event in news {
            let is_broken = matches!(event, Event::Disconnected { .. });
            if is_broken {
                self.pending.clear();
            }
            let delay = if is_broken { Duration::ZERO } else { delay };
            self.expect(delay, event, events);
        }
        events.extend(self.take_due());
        while let Some(&(due, _)) = self.pending.front() {
            let sleep = self
                .sleep
                .get_or_insert_with(|| Box::pin(tokio::time::sleep(Duration::ZERO)));
            sleep.as_mut().reset(due);
            if sleep.as_mut().poll(cx).is_pending() {
                return;
            }
            events.extend(self.take_due());
        }
    }

    fn take_due(&mut self) -> impl Iterator<Item = Event> {
        let now = tokio::time::Instant::now();
        let due = self.pending.partition_point(|(due, _)| *due <= now);
        self.pending.drain(..due).map(|(_, event)| event)
    }

    fn expect(&mut self, delay: Duration, event: Event, events: &mut impl Extend<Event>) {
        if delay.is_zero() && self.pending.is_empty() {
            return events.extend([event]);
        }
        // One connection answers in order.
        let after = self.pending.back().map(|(due, _)| *due);
        let due = tokio::time::Instant::now() + delay;
        let due = after.map_or(due, |after| after.max(due));
        self.pending.push_back((due, event));
        events.extend(self.take_due());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_means_one_store_for_as_long_as_it_is_used() {
        let first = Memory::named("memory-unit-test");
        assert!(Arc::ptr_eq(&first, &Memory::named("memory-unit-test")));
        assert!(!Arc::ptr_eq(&first, &Memory::named("memory-unit-test-2")));
        drop(first);
        let again = Memory::named("memory-unit-test");
        assert_eq!(Arc::strong_count(&again), 1);
    }
}
