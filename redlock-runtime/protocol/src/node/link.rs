//! The connection to one server: when to give one up, when to make the next, which requests have
//! no reply yet, and how long replies take.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use super::Purpose;
use crate::{
    action::Verdict,
    message::{ConnectionId, Facts, RequestId},
    rules::backoff::jitter,
    time::Instant,
};

/// The first pause before a new connection; doubled with every failure.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// The longest pause: a node that comes back votes again this soon, and a dead one costs no more
/// than one connection attempt in this time.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A node that was late or refused is asked after the others for so long. That is a hundred times as long
/// as they take, so to try it again costs little.
const TRIED_AGAIN_AFTER: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Link {
    state: State,
    /// Why nothing can be sent, unless there is a connection. Kept while the next one is being made.
    reason: Arc<str>,
    /// The one in use or being made.
    connection: Option<ConnectionId>,
    /// Connections in a row that brought no reply.
    failures: u32,
    /// Requests without a reply, in the order in which they were sent.
    in_flight: VecDeque<InFlight>,
    /// How long the node took for the last reply over this connection.
    delay: Option<Duration>,
    /// When the last reply came.
    replied_at: Instant,
    /// The last request for a vote was answered with an error.
    refuses: bool,
    /// Since when it is being found out whether what seems overdue has come and was not read.
    listens_since: Option<Instant>,
    facts: Facts,
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
}

impl Link {
    pub(super) fn new() -> Self {
        Self {
            state: State::Waiting {
                until: Instant::from_nanos(0),
            },
            reason: "not connected yet".into(),
            connection: None,
            failures: 0,
            in_flight: VecDeque::new(),
            delay: None,
            replied_at: Instant::from_nanos(0),
            refuses: false,
            listens_since: None,
            facts: Facts::default(),
            connected_at: Instant::from_nanos(0),
        }
    }

    pub(super) const fn is_connected(&self) -> bool {
        matches!(self.state, State::Connected)
    }

    /// It has not come to anything yet: neither a connection nor a failure.
    pub(super) const fn is_settling(&self) -> bool {
        matches!(self.state, State::Connecting { .. }) && self.failures == 0
    }

    pub(super) fn is_current(&self, connection: ConnectionId) -> bool {
        self.connection == Some(connection)
    }

    pub(super) const fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The process behind the connection is another one than it was.
    pub(super) fn on_identity(&mut self, server: Option<Arc<str>>) {
        if self.facts.server != server {
            self.facts.server = server;
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
        (!self.is_connected()).then(|| Verdict::Unreachable {
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
        if !matches!(self.state, State::Connecting { .. }) {
            return false;
        }
        self.state = State::Connected;
        self.facts = facts;
        self.connected_at = now;
        true
    }

    /// Takes the requests that will get no reply any more, and starts the pause before the next
    /// connection: doubled each time, and spread by half of itself, so that a fleet does not come
    /// back in one burst.
    pub(super) fn on_down(
        &mut self,
        reason: Arc<str>,
        random: u128,
        now: Instant,
    ) -> VecDeque<InFlight> {
        let pause = FIRST_PAUSE
            .saturating_mul(1 << self.failures.min(10))
            .min(LONGEST_PAUSE);
        self.failures = self.failures.saturating_add(1);
        self.delay = None;
        self.refuses = false;
        self.listens_since = None;
        self.connection = None;
        self.reason = reason;
        self.state = State::Waiting {
            until: now.after(pause / 2 + jitter(pause / 2, random)),
        };
        std::mem::take(&mut self.in_flight)
    }

    /// When a connection attempt, or a connected node that does not reply, is overdue, or the next
    /// attempt is made.
    pub(super) fn next_due(&self, limit: Duration) -> Option<Instant> {
        match self.state {
            State::Waiting { until, .. } => Some(until),
            _ if self.listens_since.is_some() => None,
            _ => self.overdue_at(limit),
        }
    }

    fn overdue_at(&self, limit: Duration) -> Option<Instant> {
        let since = match self.state {
            State::Connecting { since } => Some(since),
            // A node that has much to do replies late to the last of many requests, and is not silent.
            State::Connected => {
                let oldest = self.in_flight.front();
                oldest.map(|oldest| oldest.at.max(self.replied_at))
            }
            State::Waiting { .. } => None,
        };
        since.map(|since| since.after(limit))
    }

    pub(super) fn may_connect(&self, now: Instant) -> bool {
        matches!(self.state, State::Waiting { until, .. } if now >= until)
    }

    /// The connection on which something is overdue, if that is to be looked into: a client that was late
    /// itself may not have read yet what came in time.
    pub(super) fn listen(&mut self, limit: Duration, now: Instant) -> Option<ConnectionId> {
        let is_overdue = self.overdue_at(limit).is_some_and(|due| due <= now);
        if !is_overdue || self.listens_since.is_some() {
            return None;
        }
        self.listens_since = Some(now);
        self.connection
    }

    /// All that had come when it was [looked into](Self::listen) has been taken in. Why the connection is
    /// to be given up, if it is.
    pub(super) fn on_silent(&mut self, limit: Duration) -> Option<Arc<str>> {
        let since = self.listens_since.take()?;
        if self.overdue_at(limit).is_none_or(|due| since < due) {
            return None;
        }
        match self.state {
            State::Connecting { .. } => Some(format!("no connection within {limit:?}").into()),
            State::Connected => Some(format!("no reply for {limit:?}").into()),
            State::Waiting { .. } => None,
        }
    }

    // ---- requests

    pub(super) fn on_sent(&mut self, sent: InFlight) {
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
        self.failures = 0;
        self.delay = Some(now.since(sent.at));
        self.replied_at = now;
        Some(sent)
    }

    /// What a request for a vote was answered with.
    pub(super) const fn on_vote(&mut self, is_refused: bool) {
        self.refuses = is_refused;
    }

    /// A little while ago it took so long to reply, or refused to vote.
    pub(super) fn was_of_no_use(&self, limit: Duration, now: Instant) -> bool {
        let is_late = self.delay.is_some_and(|delay| delay >= limit);
        (is_late || self.refuses) && now.since(self.replied_at) < TRIED_AGAIN_AFTER
    }

    /// How many requests have no reply.
    pub(super) fn outstanding(&self) -> usize {
        self.in_flight.len()
    }

    /// For how long the oldest request has had no reply.
    pub(super) fn waiting_for(&self, now: Instant) -> Duration {
        let oldest = self.in_flight.front();
        oldest.map_or(Duration::ZERO, |sent| now.since(sent.at))
    }

    /// How long the node took to reply last.
    pub(super) const fn delay(&self) -> Option<Duration> {
        self.delay
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
        let mut link = Link::new();
        link.on_connecting(ConnectionId(1), at(0));
        assert!(link.on_connected(Facts::default(), at(0)));
        link
    }

    fn sent(request: u64, millis: u64) -> InFlight {
        InFlight {
            request: RequestId(request),
            purpose: Purpose::Probe,
            at: at(millis),
        }
    }

    #[test]
    fn pauses_grow_to_the_longest_and_a_reply_makes_them_short_again() {
        let pause = |link: &Link| link.next_due(LIMIT).unwrap().since(at(0));
        let mut link = Link::new();
        link.on_down("refused".into(), u128::MAX, at(0));
        assert_eq!(pause(&link), FIRST_PAUSE);
        for _ in 0..20 {
            link.on_down("refused".into(), u128::MAX, at(0));
        }
        assert_eq!(pause(&link), LONGEST_PAUSE);
        link.on_connecting(ConnectionId(1), at(0));
        assert!(link.on_connected(Facts::default(), at(0)));
        link.on_sent(sent(1, 0));
        assert!(link.on_reply(RequestId(1), at(0)).is_some());
        link.on_down("reset".into(), u128::MAX, at(0));
        assert_eq!(pause(&link), FIRST_PAUSE);
    }

    #[test]
    fn a_failure_is_told_until_there_is_a_connection() {
        let told = |link: &Link| match link.verdict() {
            Some(Verdict::Unreachable { reason }) => Some(reason),
            _ => None,
        };
        let mut link = Link::new();
        assert_eq!(told(&link).as_deref(), Some("not connected yet"));
        link.on_connecting(ConnectionId(1), at(0));
        link.on_down("refused".into(), 0, at(0));
        assert_eq!(told(&link).as_deref(), Some("refused"));
        link.on_connecting(ConnectionId(2), at(10));
        assert_eq!(told(&link).as_deref(), Some("refused"));
        assert!(link.on_connected(Facts::default(), at(10)));
        assert_eq!(told(&link), None);
    }

    #[test]
    fn a_node_that_does_not_reply_is_given_up() {
        let mut link = connected();
        assert_eq!(link.next_due(LIMIT), None);
        link.on_sent(sent(1, 10));
        link.on_sent(sent(2, 20));
        assert_eq!(link.listen(LIMIT, at(1_009)), None);
        assert_eq!(link.on_silent(LIMIT), None, "nobody has asked");
        assert_eq!(link.listen(LIMIT, at(1_010)), Some(ConnectionId(1)));
        assert_eq!(link.listen(LIMIT, at(1_010)), None, "once is enough");
        assert_eq!(link.next_due(LIMIT), None);
        assert!(link.on_silent(LIMIT).is_some());
    }

    #[test]
    fn a_node_that_has_replied_while_its_client_was_late_is_not_given_up() {
        let mut link = connected();
        link.on_sent(sent(1, 10));
        assert!(link.listen(LIMIT, at(1_010)).is_some());
        link.on_reply(RequestId(1), at(1_030));
        assert_eq!(link.on_silent(LIMIT), None);
        assert_eq!(link.next_due(LIMIT), None);
        // It is late once more: what is overdue now was not when it was looked into.
        link.on_sent(sent(2, 1_030));
        link.on_sent(sent(3, 1_040));
        assert!(link.listen(LIMIT, at(2_035)).is_some());
        link.on_reply(RequestId(2), at(2_035));
        assert_eq!(link.on_silent(LIMIT), None);
        assert_eq!(link.next_due(LIMIT), Some(at(3_035)));
    }

    #[test]
    fn a_node_that_replies_one_by_one_to_many_requests_is_not_silent() {
        let mut link = connected();
        for request in 1..=10 {
            link.on_sent(sent(request, 0));
        }
        for request in 1..=9 {
            let now = at(300 * request);
            assert_eq!(link.listen(LIMIT, now), None);
            link.on_reply(RequestId(request), now);
            assert_eq!(link.next_due(LIMIT), Some(now.after(LIMIT)));
        }
        assert!(link.listen(LIMIT, at(3_700)).is_some());
        assert!(link.on_silent(LIMIT).is_some());
    }

    #[test]
    fn replies_are_taken_once_in_any_order() {
        let mut link = connected();
        link.on_sent(sent(1, 0));
        link.on_sent(sent(2, 0));
        assert!(link.on_reply(RequestId(2), at(4)).is_some());
        assert!(link.on_reply(RequestId(2), at(4)).is_none());
        assert_eq!(link.waiting_for(at(4)), Duration::from_millis(4));
        assert_eq!(link.delay(), Some(Duration::from_millis(4)));
    }

    #[test]
    fn another_process_has_proven_nothing() {
        let mut link = Link::new();
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
        assert!(!link.facts().is_durable);
    }
}
