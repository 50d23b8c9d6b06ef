//! The connection to one server: what the server owes on it and since when. The other rules go by that: when
//! to ask whether anybody is there, when to give the connection up and make the next one, and whether a vote
//! that is asked for now can come in time.
//!
//! A connection that ends does not make a node unreachable. The next one is made at once, and only if that
//! fails the node is *down*: firewalls and servers drop connections that were idle, and all is well then.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use super::Purpose;
use crate::{
    action::Verdict,
    message::{ConnectionId, Facts, RequestId},
    purpose::Ask,
    rules::backoff::jitter,
    time::Instant,
    unreachable::{Why, WhyKind},
};

/// The first pause before a new connection; doubled with every failure.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// The longest pause: a node that comes back votes again this soon, and a dead one costs no more
/// than one connection attempt in this time.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A node that was late or refused is asked after the others for so long. That is a hundred times as long
/// as they take, so to try it again costs little.
pub(super) const TRIED_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// A connection on which nothing was said for so long may have been dropped without a word: it is given up
/// after a quarter of the usual time.
const IDLE: Duration = Duration::from_secs(1);

/// No more votes are asked of a node that owes replies to this number of bytes of requests. A server replies to as many
/// in about a quarter of a second.
const MOST_OWED: usize = 8 << 20;

#[derive(Debug)]
pub(super) struct Link {
    state: State,
    /// No connection could be made since the last one ended, or the last one must not be used.
    pub(super) is_down: bool,
    /// Why nothing can be sent, unless there is a connection. Kept while the next one is being made.
    reason: Arc<str>,
    /// The one in use or being made.
    connection: Option<ConnectionId>,
    /// Connections in a row that brought no reply.
    failures: u32,
    /// Requests without a reply, in the order in which they were sent.
    in_flight: VecDeque<InFlight>,
    /// How many bytes these take up.
    owed: usize,
    /// How long the node took for the last reply over this connection.
    pub(super) delay: Option<Duration>,
    /// How long it takes usually: a late reply counts for an eighth.
    pub(super) usual_delay: Option<Duration>,
    /// When the last reply came, or the connection was made.
    pub(super) replied_at: Instant,
    /// The client was awake then, and has written since what it had to send.
    looked_at: Instant,
    /// It is being found out whether what seems overdue has come and was not read.
    listens: bool,
    pub(super) facts: Facts,
    connected_at: Instant,
}

#[derive(Debug)]
enum State {
    Connecting { since: Instant },
    Connected,
    Waiting { until: Instant },
}

/// A request without a reply.
#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) request: RequestId,
    pub(super) purpose: Purpose,
    pub(super) at: Instant,
    /// How many bytes it takes up, about.
    pub(super) size: usize,
}

impl Default for Link {
    fn default() -> Self {
        Self {
            state: State::Waiting {
                // Over at once, so that the first connection is made like all others.
                until: Instant::from_nanos(0),
            },
            is_down: false,
            reason: "not connected yet".into(),
            connection: None,
            failures: 0,
            in_flight: VecDeque::new(),
            owed: 0,
            delay: None,
            usual_delay: None,
            replied_at: Instant::from_nanos(0),
            looked_at: Instant::from_nanos(0),
            listens: false,
            facts: Facts::default(),
            connected_at: Instant::from_nanos(0),
        }
    }
}

impl Link {
    pub(super) const fn is_connected(&self) -> bool {
        matches!(self.state, State::Connected)
    }

    /// It has not come to anything yet: neither a connection nor a failure.
    pub(super) const fn is_settling(&self) -> bool {
        matches!(self.state, State::Connecting { .. }) && !self.is_down
    }

    /// It is connected, and can be expected to reply: one whose last connection has brought no reply either is mute, and
    /// what others need does not wait for it.
    pub(super) const fn is_heard(&self) -> bool {
        self.is_connected() && self.failures <= 1
    }

    pub(super) fn is_current(&self, connection: ConnectionId) -> bool {
        self.connection == Some(connection)
    }

    /// The process behind the connection is another one than it was.
    pub(super) fn on_identity(&mut self, server: Option<Arc<str>>) {
        if self.facts.server != server {
            self.facts.server = server;
            // Both are facts of the process before. This one has proven nothing.
            self.facts.uptime = None;
            self.facts.is_durable = false;
        }
    }

    /// How long the process has been running, if it told.
    pub(super) fn uptime(&self, now: Instant) -> Option<Duration> {
        let uptime = self.facts.uptime?;
        Some(uptime.saturating_add(now.since(self.connected_at)))
    }

    /// Why nothing can be sent, if nothing can.
    pub(super) fn verdict(&self) -> Option<Verdict> {
        (!self.is_connected() && !self.is_settling()).then(|| Verdict::Unreachable {
            reason: Arc::clone(&self.reason),
        })
    }

    // ---- connections

    pub(super) fn on_connecting(&mut self, connection: ConnectionId, now: Instant) {
        self.connection = Some(connection);
        self.state = State::Connecting { since: now };
    }

    /// False for a connection that was given up.
    pub(super) fn on_connected(&mut self, facts: Facts, now: Instant) -> bool {
        // It was given up, and its requests were answered for as lost: nothing may be sent on it.
        if !matches!(self.state, State::Connecting { .. }) {
            return false;
        }
        self.state = State::Connected;
        self.is_down = false;
        self.facts = facts;
        self.connected_at = now;
        // Else its first request would be taken for one after a long silence, and have a quarter of the time.
        self.replied_at = now;
        true
    }

    /// The connection is lost, or was not made. Takes the requests that will get no reply any more.
    ///
    /// The next connection is made at once if this one has brought a reply and the server is usable, and after
    /// a pause otherwise: doubled each time, and spread by half of itself, so that a fleet does not come back
    /// in one burst.
    pub(super) fn on_lost(
        &mut self,
        reason: Arc<str>,
        is_usable: bool,
        random: u128,
        now: Instant,
    ) -> VecDeque<InFlight> {
        // A server that accepts and drops connections must not be asked in a busy loop.
        let has_worked = self.is_connected() && self.failures == 0;
        self.is_down = !(has_worked && is_usable);
        let pause = match self.is_down {
            false => Duration::ZERO,
            true => FIRST_PAUSE
                .saturating_mul(1 << self.failures.min(10))
                .min(LONGEST_PAUSE),
        };
        self.failures = self.failures.saturating_add(1);
        // The next connection may lead another way, or to another server.
        (self.delay, self.usual_delay) = (None, None);
        self.listens = false;
        self.connection = None;
        self.reason = reason;
        self.owed = 0;
        self.state = State::Waiting {
            until: now.after(pause / 2 + jitter(pause / 2, random)),
        };
        std::mem::take(&mut self.in_flight)
    }

    /// When to look at it again: at what it owes, or at whether a connection can be made.
    pub(super) fn next_due(&self, limit: Duration) -> Option<Instant> {
        match self.state {
            State::Waiting { until } => Some(until),
            // The driver's report comes by itself, and until then there is nothing new to see.
            _ if self.listens => None,
            _ => self.look_at(limit),
        }
    }

    /// When to ask something of a node that nothing is asked of, so that neither end of the connection can be
    /// gone for long without being missed.
    pub(super) fn ping_at(&self, interval: Duration) -> Option<Instant> {
        let is_idle = self.is_connected() && self.in_flight.is_empty();
        is_idle.then(|| self.replied_at.after(interval))
    }

    /// What the node owes, since when, and how long it may.
    fn owes(&self, limit: Duration) -> Option<(Instant, Duration)> {
        match self.state {
            State::Connecting { since } => Some((since, limit)),
            State::Connected => {
                let oldest = self.in_flight.front()?;
                let was_idle = oldest.at.since(self.replied_at) >= IDLE;
                // A quarter of the limit may be less than the way to a far server takes.
                let far = 2 * self.delay.unwrap_or_default();
                let limit = match was_idle {
                    true => (limit / 4).max(far).min(limit),
                    false => limit,
                };
                // A node that has much to do replies late to the last of many requests, and is not silent.
                Some((oldest.at.max(self.replied_at), limit))
            }
            State::Waiting { .. } => None,
        }
    }

    /// Half of the time has to pass while the client is awake, after all that it had to send has been
    /// written: a client that was stopped would take its own silence for that of the node.
    fn look_at(&self, limit: Duration) -> Option<Instant> {
        let (since, limit) = self.owes(limit)?;
        Some(match self.looked_at < since {
            true => since.after(limit / 2),
            false => self.looked_at.after(limit / 2).max(since.after(limit)),
        })
    }

    pub(super) fn may_connect(&self, now: Instant) -> bool {
        matches!(self.state, State::Waiting { until } if now >= until)
    }

    /// The connection on which something is overdue, if that needs a check: a client that was late
    /// itself may not have read yet what came in time.
    pub(super) fn listen(&mut self, limit: Duration, now: Instant) -> Option<ConnectionId> {
        let (since, _) = self.owes(limit)?;
        if self.listens || self.look_at(limit).is_none_or(|at| now < at) {
            return None;
        }
        // The first look proves only that the client is awake now; the node has half of its time after that.
        if self.looked_at < since {
            self.looked_at = now;
            return None;
        }
        // The driver reads what has come first, and reports then that nothing has.
        self.listens = true;
        self.connection
    }

    /// All that had come when it was [looked into](Self::listen) has been taken in. Why the connection
    /// must be given up, if it must.
    pub(super) fn on_silent(&mut self, limit: Duration) -> Option<Why> {
        if !std::mem::take(&mut self.listens) {
            return None;
        }
        let (since, limit) = self.owes(limit)?;
        // It has not said anything since.
        (since <= self.looked_at).then(|| match self.state {
            State::Connecting { .. } => {
                Why::new(WhyKind::TimedOut, format!("no connection within {limit:?}"))
            }
            _ => format!("no reply for {limit:?}").into(),
        })
    }

    // ---- requests

    pub(super) fn on_sent(&mut self, sent: InFlight) {
        self.owed += sent.size;
        self.in_flight.push_back(sent);
    }

    /// Takes the request that was answered; `None` if its connection has been given up. A connection
    /// is worth something once it has replied: only then is the pause short again, so that a server
    /// that accepts and drops connections is not asked in a busy loop.
    pub(super) fn on_reply(&mut self, request: RequestId, now: Instant) -> Option<InFlight> {
        let place = match self.in_flight.front() {
            // Servers reply in the order of asking.
            Some(first) if first.request == request => 0,
            _ => {
                let in_flight = &self.in_flight;
                let place = in_flight.binary_search_by_key(&request, |sent| sent.request);
                place.ok()?
            }
        };
        let sent = self.in_flight.remove(place)?;
        self.owed -= sent.size;
        self.failures = 0;
        let delay = now.since(sent.at);
        // One late reply once made for a grace of a quarter of a second, so only an eighth of it counts.
        let usual = self.usual_delay.unwrap_or(delay);
        self.usual_delay = Some(delay.min(usual + delay.saturating_sub(usual) / 8));
        self.delay = Some(delay);
        self.replied_at = now;
        Some(sent)
    }

    /// A little while ago it took so long to reply.
    pub(super) fn was_late(&self, limit: Duration, now: Instant) -> bool {
        let is_late = self.delay.is_some_and(|delay| delay >= limit);
        is_late && now.since(self.replied_at) < TRIED_AGAIN_AFTER
    }

    /// A request of this kind has no reply.
    pub(super) fn has_asked(&self, purpose: Purpose) -> bool {
        self.in_flight.iter().any(|sent| sent.purpose == purpose)
    }

    /// How many requests have no reply.
    pub(super) fn outstanding(&self) -> usize {
        self.in_flight.len()
    }

    /// Some release has none.
    pub(super) fn owes_releases(&self) -> bool {
        let mut purposes = self.in_flight.iter().map(|sent| sent.purpose);
        purposes.any(|purpose| matches!(purpose, Purpose::Key(_, Ask::Release(_))))
    }

    /// What is asked now waits behind so much that its reply cannot be expected within this time. Otherwise
    /// requests would pile up before a node that is slower than its clients.
    pub(super) fn is_behind(&self, limit: Duration) -> bool {
        let oldest = self.in_flight.front();
        // Else it has had all replies since, and the last one says nothing of now.
        let is_queued = oldest.is_some_and(|oldest| oldest.at <= self.replied_at);
        let is_slow = self.delay.is_some_and(|delay| delay >= limit);
        is_queued && is_slow || self.owed >= MOST_OWED
    }

    /// For how long the oldest request has had no reply.
    pub(super) fn waiting_for(&self, now: Instant) -> Duration {
        let oldest = self.in_flight.front();
        oldest.map_or(Duration::ZERO, |sent| now.since(sent.at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(1);

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(0).after(Duration::from_millis(millis))
    }

    fn connected() -> Link {
        let mut link = Link::default();
        link.on_connecting(ConnectionId(1), at(0));
        assert!(link.on_connected(Facts::default(), at(0)));
        link
    }

    fn sent(request: u64, millis: u64) -> InFlight {
        InFlight {
            request: RequestId(request),
            purpose: Purpose::Probe,
            at: at(millis),
            size: 0,
        }
    }

    /// The client looks on time, and then once more: whether it gives the connection up then.
    fn is_given_up(link: &mut Link) -> Option<u64> {
        for _ in 0..2 {
            let due = link.next_due(LIMIT)?;
            if link.listen(LIMIT, due).is_some() && link.on_silent(LIMIT).is_some() {
                return Some(due.since(at(0)).as_millis() as u64);
            }
        }
        None
    }

    #[test]
    fn a_server_that_must_not_be_used_is_not_connected_to_at_once() {
        let mut link = connected();
        link.on_lost("drops keys".into(), false, 0, at(0));
        assert!(link.is_down && !link.may_connect(at(0)));
    }

    #[test]
    fn a_node_that_does_not_reply_is_given_up() {
        let mut link = connected();
        assert_eq!(link.next_due(LIMIT), None);
        link.on_sent(sent(1, 10));
        link.on_sent(sent(2, 20));
        assert_eq!(link.next_due(LIMIT), Some(at(510)));
        assert_eq!(link.on_silent(LIMIT), None, "nobody has asked");
        assert_eq!(is_given_up(&mut link), Some(1_010));
    }

    #[test]
    fn a_connection_that_was_idle_is_given_up_sooner() {
        let mut link = connected();
        link.on_sent(sent(1, 5_000));
        assert_eq!(is_given_up(&mut link), Some(5_250));
        // Unless the node is as far away as that.
        link.on_reply(RequestId(1), at(5_200));
        link.on_sent(sent(2, 9_000));
        assert_eq!(is_given_up(&mut link), Some(9_400));
    }

    #[test]
    fn a_client_that_was_stopped_does_not_give_its_nodes_up() {
        let mut link = connected();
        link.on_sent(sent(1, 10));
        // It has not written the request before.
        assert_eq!(link.listen(LIMIT, at(9_000)), None);
        assert_eq!(link.next_due(LIMIT), Some(at(9_500)));
        link.on_reply(RequestId(1), at(9_001));
        assert_eq!(link.next_due(LIMIT), None);
        // Nor what it has not read.
        link.on_sent(sent(2, 9_001));
        assert_eq!(link.listen(LIMIT, at(9_501)), None);
        assert_eq!(link.listen(LIMIT, at(20_000)), Some(ConnectionId(1)));
        assert_eq!(link.next_due(LIMIT), None);
        link.on_reply(RequestId(2), at(20_000));
        assert_eq!(link.on_silent(LIMIT), None);
        // It is late once more: what it owes now is from after the look.
        link.on_sent(sent(3, 20_000));
        link.on_sent(sent(4, 20_000));
        assert_eq!(link.listen(LIMIT, at(20_500)), None);
        assert!(link.listen(LIMIT, at(21_000)).is_some());
        link.on_reply(RequestId(3), at(21_000));
        assert_eq!(link.on_silent(LIMIT), None);
    }

    #[test]
    fn another_process_has_proven_nothing() {
        let mut link = Link::default();
        link.on_connecting(ConnectionId(1), at(0));
        let facts = Facts {
            server: Some("a".into()),
            uptime: Some(LIMIT),
            is_durable: true,
            ..Facts::default()
        };
        link.on_connected(facts, at(0));
        link.on_identity(Some("a".into()));
        assert_eq!(link.uptime(at(500)), Some(Duration::from_millis(1_500)));
        link.on_identity(Some("b".into()));
        assert_eq!(link.uptime(at(500)), None);
        assert!(!link.facts.is_durable);
    }
}
