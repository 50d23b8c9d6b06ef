//! One node: the model, with a connection to each client, and its faults.

use std::collections::BTreeSet;

use super::model::{Key, Model, Moment};

use super::*;

/// How a node behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behavior {
    Healthy,
    /// Accepts no connection.
    Dead,
    /// Carries out what it is asked, and never replies.
    Unresponsive,
    /// Carries out nothing before this time has passed.
    Slow(Duration),
    /// Carries out what it is asked, and replies after this time.
    Delayed(Duration),
    /// Has lost its script cache.
    WithoutScripts,
    /// Replies with an error that comes before anything is written.
    Refusing(Refuses),
    /// Carries out what it is asked, and says that each block begins with this number.
    Claiming(Token),
}

/// What a node refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refuses {
    /// As while another client's script does not end.
    Everything,
    /// As a read-only replica.
    Writes,
    /// As for a user that may not delete.
    Releases,
}

/// Where a request comes from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    pub(super) client: usize,
    pub(super) connection: ConnectionId,
}

#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) behavior: Behavior,
    /// How far its clock has been set forward.
    pub(crate) clock_ahead: Duration,
    /// Its clock runs faster than it should by so many thousandths.
    clock_gain: u32,
    gains_since: Instant,
    pub(crate) is_durable: bool,
    /// It tells of changes to keys that were read.
    pub(crate) tells_changes: bool,
    pub(crate) evicts: Option<Arc<str>>,
    /// It takes up one request of a connection in this time.
    pub(crate) work: Duration,
    model: Model,
    /// How often it has been restarted.
    pub(super) process: u64,
    started: Instant,
    index: usize,
    pub(super) connections: BTreeMap<usize, Connection>,
}

/// A connection of one client.
#[derive(Clone)]
pub(super) struct Connection {
    pub(super) id: ConnectionId,
    /// The keys that were read over it, and have not changed since.
    pub(super) tracked: BTreeSet<Arc<str>>,
    pub(super) tells_changes: bool,
    last_request: Instant,
    last_reply: Instant,
}

impl Node {
    pub(super) fn new(index: usize, behavior: Behavior, now: Instant) -> Self {
        Self {
            behavior,
            clock_ahead: Duration::ZERO,
            clock_gain: 0,
            gains_since: now,
            is_durable: false,
            tells_changes: true,
            evicts: None,
            work: Duration::ZERO,
            model: Model::new(name(index, 0)),
            process: 0,
            started: now.before(Duration::from_secs(3_600)),
            index,
            connections: BTreeMap::new(),
        }
    }

    /// By its own clock.
    fn moment(&self, now: Instant) -> Moment {
        let gained = now.since(self.gains_since) * self.clock_gain / 1_000;
        let now = now.after(self.clock_ahead + gained);
        let now = Instant::from_nanos(now.as_nanos() / 1_000_000 * 1_000_000);
        Moment {
            now,
            wall_micros: now.as_nanos() / 1_000,
        }
    }

    pub(super) fn facts(&self, sees_info: bool, now: Instant) -> Facts {
        Facts {
            server: self.model.server.clone().filter(|_| sees_info),
            uptime: sees_info.then(|| now.since(self.started)),
            is_durable: sees_info && self.is_durable,
            tells_changes: self.tells_changes,
            evicts: self.evicts.clone(),
        }
    }

    pub(super) fn accept(&mut self, client: usize, id: ConnectionId, now: Instant) {
        let connection = Connection {
            id,
            tracked: BTreeSet::new(),
            tells_changes: self.tells_changes,
            last_request: now,
            last_reply: now,
        };
        self.connections.insert(client, connection);
    }

    pub(super) const fn request_delay(&self) -> Duration {
        match self.behavior {
            Behavior::Slow(delay) => delay,
            _ => HOP,
        }
    }

    /// `None` if it never replies.
    pub(super) const fn reply_delay(&self) -> Option<Duration> {
        match self.behavior {
            Behavior::Unresponsive => None,
            Behavior::Delayed(delay) => Some(delay),
            _ => Some(HOP),
        }
    }

    /// Carries out a request. The reply, and the keys that it has changed.
    pub(super) fn run(
        &mut self,
        origin: Origin,
        request: &Request,
        sees_info: bool,
        now: Instant,
    ) -> (Reply, Vec<Arc<str>>) {
        if let Behavior::Refusing(what) = self.behavior
            && what.matches(request)
        {
            let refused = Reply::Refused {
                reason: Rejection::Other,
                message: "REFUSED for this test".into(),
                is_untouched: true,
            };
            return (refused, Vec::new());
        }
        if *request == Request::Identify {
            if self.behavior == Behavior::WithoutScripts {
                self.behavior = Behavior::Healthy;
            }
            let server = self.model.server.clone().filter(|_| sees_info);
            return (Reply::Identity { server }, Vec::new());
        }
        if self.behavior == Behavior::WithoutScripts && matches!(request, Request::Vote(..)) {
            return (Reply::NotAdmitted, Vec::new());
        }
        let mut changed = keys_of(request);
        let moment = self.moment(now);
        let contents = |node: &Self, key: &Arc<str>| node.contents(key, now);
        let before: Vec<_> = changed.iter().map(|key| contents(self, key)).collect();
        let reply = self.model.run(request, moment);
        let mut before = before.into_iter();
        changed.retain(|key| before.next() != Some(contents(self, key)));
        if let (Request::Watch { key, .. }, Some(connection)) =
            (request, self.connections.get_mut(&origin.client))
            && connection.id == origin.connection
            && connection.tells_changes
        {
            connection.tracked.insert(Arc::clone(key));
        }
        (self.behavior.report(reply), changed)
    }

    // ---- what it has

    fn contents(&self, key: &str, now: Instant) -> Option<Key> {
        self.model.key(key, self.moment(now).now)
    }

    /// Whose the key is; `None` if there is none, or if it is no client's of this library.
    pub(crate) fn owner(&self, key: &str, now: Instant) -> Option<Owner> {
        self.contents(key, now)?.owner
    }

    /// What its owner says beside the key.
    pub(crate) fn note(&self, key: &str, now: Instant) -> Option<&str> {
        self.model
            .note(key, self.moment(now).now)
            .map(|note| &**note)
    }

    /// When the key expires by the world's clock, if it ever does.
    pub(super) fn expiry(&self, key: &str, now: Instant) -> Option<Instant> {
        let expires = self.contents(key, now)?.expires?;
        Some(now.after(expires.since(self.moment(now).now)))
    }

    pub(super) fn has(&self, key: &str, now: Instant) -> bool {
        self.contents(key, now).is_some()
    }

    /// How many owners have the key.
    pub(crate) fn owners(&self, key: &str, now: Instant) -> usize {
        let now = self.moment(now).now;
        let parts = self.model.parts(key, now);
        parts.iter().filter(|part| part.lives(now)).count()
    }

    pub(crate) fn counter(&self, key: &str) -> u64 {
        self.model.counter(stripe(key)).0
    }

    // ---- what is done to it

    /// Whatever its counter says, it says that now.
    pub(crate) fn set_counter(&mut self, key: &str, counter: u64) {
        self.model.set_counter(stripe(key), Token(counter));
    }

    /// The key is gone, and no client is told.
    pub(crate) fn forget_key(&mut self, key: &str) {
        self.model.set_key(key.into(), None);
    }

    pub(crate) fn occupy(&mut self, key: &str, owner: Owner, ttl: Duration, now: Instant) {
        let owner = Some(owner);
        let expires = Some(self.moment(now).now.after(ttl));
        self.model.set_key(key.into(), Some(Key { owner, expires }));
    }

    /// A key that no client of this library has made, and that never expires.
    pub(crate) fn set_plain_key(&mut self, key: &str) {
        let (owner, expires) = (None, None);
        self.model.set_key(key.into(), Some(Key { owner, expires }));
    }

    /// As `FLUSHALL`, without telling anybody.
    pub(crate) fn flush(&mut self) {
        self.model.lose_memory();
    }

    /// A release that keeps its data in another way uses it from now on.
    pub(crate) fn set_format(&mut self, format: u64) {
        self.model.set_format(format);
    }

    /// Every key is gone by `DEL`, which says nothing of itself later.
    pub(crate) fn delete_all_by_hand(&mut self) {
        self.model = Model::new(self.model.server.take());
    }

    /// Another process goes on at this address, with what `data` has, or with nothing.
    pub(super) fn restart(&mut self, data: Option<&Self>, now: Instant) {
        self.process += 1;
        self.started = now;
        let server = name(self.index, self.process);
        self.model = data.map_or_else(Model::default, |data| data.model.clone());
        self.model.restart(server);
    }

    /// Another process answers under this address from now on, with all the data and without a new
    /// connection.
    pub(crate) fn become_server(&mut self, server: &str) {
        self.model.restart(Some(server.into()));
    }

    pub(crate) fn server(&self) -> String {
        self.model.server.as_deref().unwrap_or_default().to_owned()
    }

    /// It has been started just now.
    pub(crate) fn boot(&mut self, now: Instant) {
        self.started = now;
    }

    /// From now on its clock gains so many thousandths.
    pub(crate) fn set_clock_gain(&mut self, thousandths: u32, now: Instant) {
        self.clock_gain = thousandths;
        self.gains_since = now;
    }
}

fn name(index: usize, process: u64) -> Option<Arc<str>> {
    Some(format!("server {index}, process {process}").into())
}

impl Behavior {
    const fn report(self, mut reply: Reply) -> Reply {
        if let (
            Self::Claiming(token),
            Reply::Granted { first, .. }
            | Reply::Extended {
                first: Some(first), ..
            },
        ) = (self, &mut reply)
        {
            *first = token;
        }
        reply
    }
}

impl Refuses {
    const fn matches(self, request: &Request) -> bool {
        match self {
            Self::Everything => true,
            Self::Writes => !matches!(
                request,
                Request::Identify | Request::Probe | Request::Watch { .. }
            ),
            Self::Releases => matches!(request, Request::Release { .. }),
        }
    }
}

impl Connection {
    /// Requests arrive in the order in which they were sent, and one by one.
    pub(super) fn request_arrival(&mut self, arrival: Instant, work: Duration) -> Instant {
        self.last_request = self.last_request.after(work).max(arrival);
        self.last_request
    }

    /// So do replies and news.
    pub(super) fn reply_arrival(&mut self, arrival: Instant) -> Instant {
        self.last_reply = self.last_reply.max(arrival);
        self.last_reply
    }
}

/// What it may change.
fn keys_of(request: &Request) -> Vec<Arc<str>> {
    let key = request.key().cloned();
    let line = key.as_deref().and_then(line_of).map(Arc::from);
    key.into_iter().chain(line).collect()
}
