//! Which nodes vote, and whether they are enough for a majority.

use std::{error, fmt, sync::Arc, time::Duration};

use redlock_protocol::{Instant, QuarantineReason, majority};
pub use redlock_protocol::{NodeState, Rejection, Why, WhyKind};

use crate::limitation::Limitation;

/// A node, and whether it votes. Written as a sentence that begins with its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeStatus {
    address: Arc<str>,
    state: NodeState,
    remaining: Option<Duration>,
    /// The address of the node that is the same server.
    twin: Option<Arc<str>>,
    pub(crate) limitations: Vec<Limitation>,
}

/// Whether a node set can give locks at present: the states of its nodes.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use redlock_runtime::Redlock;
/// let redlock = Redlock::builder()
///     .nodes(["memory://health-a", "memory://health-b", "memory://health-c"])
///     .build()
///     .await?;
/// let health = redlock.health();
/// assert!(health.has_quorum());
/// assert_eq!(health.to_string(), "3 of 3 nodes vote");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    pub(crate) nodes: Vec<NodeStatus>,
    pub(crate) under_replicated: usize,
}

/// No majority of nodes can vote. Returned by [`Redlock::ready`](crate::Redlock::ready).
#[derive(Clone, PartialEq, Eq)]
pub struct NotReady {
    pub(crate) health: Health,
}

impl NodeStatus {
    /// Of the node in this place of the list.
    pub(crate) fn new(
        place: usize,
        state: NodeState,
        addresses: &[Arc<str>],
        now: Instant,
    ) -> Self {
        let (until, twin) = match state {
            NodeState::Quarantined { until, .. } | NodeState::ClockAhead { until, .. } => {
                (Some(until), None)
            }
            NodeState::SameServer { twin } => (None, Some(Arc::clone(&addresses[twin.0]))),
            _ => (None, None),
        };
        Self {
            address: Arc::clone(&addresses[place]),
            state,
            remaining: until.map(|until| until.since(now)),
            twin,
            limitations: Vec::new(),
        }
    }

    /// Returns the node's address, without user and password.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns whether the node votes, and if it does not, why.
    #[must_use]
    pub const fn state(&self) -> &NodeState {
        &self.state
    }

    /// Returns the commands that the server refused at its last connection, and what is lost with them.
    #[must_use]
    pub fn limitations(&self) -> &[Limitation] {
        &self.limitations
    }

    /// Returns how long the node will not vote at most, if it is [quarantined](NodeState::Quarantined) or its [clock is
    /// ahead](NodeState::ClockAhead).
    #[must_use]
    pub const fn remaining(&self) -> Option<Duration> {
        self.remaining
    }

    /// Returns true if the node can vote.
    #[must_use]
    pub const fn is_up(&self) -> bool {
        matches!(self.state, NodeState::Up)
    }
}

impl Health {
    /// Returns the nodes, in the order of configuration.
    #[must_use]
    pub fn nodes(&self) -> &[NodeStatus] {
        &self.nodes
    }

    /// Returns how many locks this process has held for longer than 20 ms that are not on all nodes, as far as it
    /// knows. While it is not 0, the loss of another node can end some of them, so wait for 0 before you [restart the
    /// next server](crate::guide::operating#rolling-restart).
    #[must_use]
    pub const fn under_replicated(&self) -> usize {
        self.under_replicated
    }

    /// Returns true if a majority of nodes votes.
    #[must_use]
    pub fn has_quorum(&self) -> bool {
        self.voters() >= majority(self.nodes.len())
    }

    /// Returns the time until a majority votes, at most, if no node fails and none recovers: zero if a majority votes
    /// now. `None` if waiting alone does not lead to a majority.
    #[must_use]
    pub fn quorum_in(&self) -> Option<Duration> {
        let ready = |node: &NodeStatus| match node.is_up() {
            true => Some(Duration::ZERO),
            false => node.remaining(),
        };
        let mut ready: Vec<Duration> = self.nodes.iter().filter_map(ready).collect();
        ready.sort_unstable();
        ready.get(majority(self.nodes.len()) - 1).copied()
    }

    /// What to check about nodes that cannot be reached when a program starts: once for each kind of
    /// failure. Later it is an outage, and what was configured was right.
    pub(crate) fn checks(&self) -> Vec<&'static str> {
        let mut checks = Vec::new();
        for node in &self.nodes {
            if let NodeState::Down { reason } = node.state()
                && let Some(check) = check(reason.kind)
                && !checks.contains(&check)
            {
                checks.push(check);
            }
        }
        checks
    }

    fn voters(&self) -> usize {
        self.nodes.iter().filter(|node| node.is_up()).count()
    }
}

impl NotReady {
    /// Returns the state of each node.
    #[must_use]
    pub const fn health(&self) -> &Health {
        &self.health
    }
}

impl fmt::Display for NodeStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.address)?;
        let remaining = self.remaining.unwrap_or_default();
        match &self.state {
            NodeState::Up => f.write_str("votes"),
            NodeState::Down { reason } => write!(f, "is unreachable ({reason})"),
            NodeState::Quarantined { reason, .. } => f.write_str(&quarantined(*reason, remaining)),
            NodeState::ClockAhead { by, .. } => write!(
                f,
                "does not vote for {remaining:.1?}, because its clock has run {by:.1?} ahead"
            ),
            NodeState::SameServer { .. } => {
                let twin = self.twin.as_deref().unwrap_or_default();
                write!(f, "is the same server as {twin}, and does not vote twice")
            }
            NodeState::Refuses { reason, message } => f.write_str(&refuses(*reason, message)),
            // What is said of nodes that are connected and unfit is said in verdicts, too.
            unfit => unfit.fmt(f),
        }
    }
}

/// Writes a sentence about a node that answers with an error, without its subject.
pub fn refuses(reason: Rejection, message: &str) -> String {
    if reason == Rejection::Loading {
        return "does not vote while it loads its data".to_owned();
    }
    let text = format!("rejects a command that the library needs ({message})");
    match remedy(reason) {
        Some(remedy) => format!("{text}; {remedy}"),
        None => text,
    }
}

/// Returns what to do about a server that rejects commands.
pub const fn remedy(reason: Rejection) -> Option<&'static str> {
    Some(match reason {
        Rejection::InCluster => {
            "write a Redis Cluster as `redis+cluster://c1,c2,c3`, and none of its servers by itself"
        }
        Rejection::UnknownCommand => {
            "it may be a Sentinel: write its master as `redis+sentinel://s1,s2,s3/name` in its place"
        }
        Rejection::ReadOnly => "it is a replica: name its master in its place",
        Rejection::NoPermission => {
            "give its user the rights that `redlock_runtime::guide::servers` lists"
        }
        Rejection::OutOfMemory => "without memory it grants no locks, so raise `maxmemory`",
        Rejection::Busy => "a script of another client runs for long; `SCRIPT KILL` ends it",
        Rejection::CannotSave => {
            "it cannot save to disk, so mend that, or turn persistence off by `save \"\"`"
        }
        Rejection::TooFewReplicas => "set `min-replicas-to-write 0`",
        _ => return None,
    })
}

/// What to check if a connection could not be made.
const fn check(kind: WhyKind) -> Option<&'static str> {
    Some(match kind {
        WhyKind::Lookup => "if the lookup failed, check the name of the host",
        WhyKind::NotRedis => {
            "if a reply is no Redis reply, something else listens there: check the port"
        }
        WhyKind::Closed => {
            "if the server closes the connection, check the scheme: with TLS it is `rediss://`"
        }
        WhyKind::Database => {
            "if the database is out of range, check the number at the end of the URL"
        }
        WhyKind::Refused => {
            "if the connection is refused, no server listens there: check host and port"
        }
        WhyKind::TimedOut => {
            "if no connection was made in time, check host, port and firewall, and the scheme: a \
             server without TLS does not reply to `rediss://`"
        }
        WhyKind::TlsIssuer => {
            "if the issuer of a certificate is unknown, name the certificate of its authority by \
             `cacert` in the URL, or add it to the certificates of the operating system"
        }
        WhyKind::TlsName => {
            "if a certificate is for another name, connect by that name, or give it by `sni` in \
             the URL"
        }
        WhyKind::TlsTime => {
            "if a certificate is not valid at this time, renew it, or set the clock of this machine"
        }
        WhyKind::TlsClientCertificate => {
            "if a client certificate is required, give one by `cert` and `key` in the URL"
        }
        WhyKind::TlsHandshake => {
            "if the TLS handshake failed, use the port for TLS, or `redis://` without TLS"
        }
        WhyKind::TlsRefused => {
            "if the server refuses the client, check that it trusts the authority of the client \
             certificate, and that this certificate is valid"
        }
        _ => return None,
    })
}

/// A sentence about a node that lost its memory, without its subject.
pub(crate) fn quarantined(reason: QuarantineReason, remaining: Duration) -> String {
    let happened = match reason {
        QuarantineReason::Restarted => "was restarted",
        QuarantineReason::Flushed => "was flushed",
        QuarantineReason::NeverSeenBefore => "is new or has lost all its data",
        _ => "has lost its memory",
    };
    // The time is over, and the node is not admitted yet.
    match remaining.is_zero() {
        true => format!("{happened} and does not vote yet"),
        false => format!("{happened} and does not vote for up to {remaining:.1?}"),
    }
}

/// Joins sentences, each with the address that it begins with. Those that differ in nothing else are one:
/// "each of a:1, b:2 is unreachable (..)".
pub(crate) fn joined<'a>(
    sentences: impl Iterator<Item = (&'a str, impl fmt::Display)>,
    between: &str,
) -> String {
    let mut found: Vec<(Vec<&str>, String)> = Vec::new();
    for (address, sentence) in sentences {
        let rest = sentence.to_string().split_off(address.len());
        match found.iter_mut().find(|(_, known)| *known == rest) {
            Some((addresses, _)) => addresses.push(address),
            None => found.push((vec![address], rest)),
        }
    }
    let sentences = found.iter().map(|(addresses, rest)| {
        let each = if addresses.len() > 1 { "each of " } else { "" };
        format!("{each}{}{rest}", addresses.join(", "))
    });
    sentences.collect::<Vec<_>>().join(between)
}

/// The end of a text: what there is to say of nodes, if there is anything.
pub(crate) fn listed<'a>(sentences: impl Iterator<Item = (&'a str, impl fmt::Display)>) -> String {
    match joined(sentences, ", ") {
        none if none.is_empty() => none,
        sentences => format!(": {sentences}"),
    }
}

/// Writes `1 node`, `3 nodes`
pub fn counted(count: usize, name: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {name}{plural}")
}

/// Writes `1 of 3 nodes votes`, `2 of 3 nodes vote`, `0 of 1 node votes`
pub fn vote(voters: usize, count: usize) -> String {
    let is_one = voters == 1 || count == 1;
    let verb = if is_one { "votes" } else { "vote" };
    format!("{voters} of {} {verb}", counted(count, "node"))
}

/// How many nodes vote, and what is wrong with the others.
impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (voters, count) = (self.voters(), self.nodes.len());
        f.write_str(&vote(voters, count))?;
        if !self.has_quorum() {
            let majority = majority(count);
            let verb = if majority == 1 { "is" } else { "are" };
            write!(f, ", {majority} {verb} needed")?;
        }
        let out = self.nodes.iter().filter(|node| !node.is_up());
        f.write_str(&listed(out.map(|node| (node.address(), node))))
    }
}

impl fmt::Display for NotReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "locks are not available yet: {}", self.health)
    }
}

/// As `Display`, because a `main` that returns the error prints it by `Debug`.
impl fmt::Debug for NotReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl error::Error for NotReady {}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_nanos(0);

    fn health(states: impl IntoIterator<Item = NodeState>) -> Health {
        let names = ["a:1", "b:2", "c:3", "d:4", "e:5"].map(Arc::from);
        let states = states.into_iter().enumerate();
        let nodes = states.map(|(place, state)| NodeStatus::new(place, state, &names, NOW));
        Health {
            nodes: nodes.collect(),
            under_replicated: 0,
        }
    }

    fn down() -> NodeState {
        NodeState::Down {
            reason: "Connection refused".into(),
        }
    }

    fn quarantined(seconds: u64) -> NodeState {
        NodeState::Quarantined {
            reason: QuarantineReason::Restarted,
            until: NOW.after(Duration::from_secs(seconds)),
        }
    }

    #[test]
    fn a_majority_votes_once_enough_quarantines_are_over() {
        use NodeState::Up;
        let seconds = |count| Some(Duration::from_secs(count));
        for (states, quorum_in) in [
            (vec![Up], seconds(0)),
            (vec![quarantined(4)], seconds(4)),
            (vec![down()], None),
            (vec![Up, Up, down()], seconds(0)),
            (vec![quarantined(9), Up, quarantined(4)], seconds(4)),
            (vec![quarantined(9), quarantined(4), down()], seconds(9)),
            (vec![Up, down(), down()], None),
            (vec![Up, quarantined(3)], seconds(3)),
        ] {
            let health = health(states);
            assert_eq!(health.quorum_in(), quorum_in, "{health}");
            assert_eq!(health.has_quorum(), quorum_in == seconds(0), "{health}");
        }
    }

    #[test]
    fn one_node_votes_and_two_vote() {
        let texts = [(0, 1), (1, 1), (1, 3), (2, 3), (0, 3)].map(|(voters, of)| vote(voters, of));
        let expected = [
            "0 of 1 node votes",
            "1 of 1 node votes",
            "1 of 3 nodes votes",
        ];
        assert_eq!(texts[..3], expected);
        assert_eq!(texts[3..], ["2 of 3 nodes vote", "0 of 3 nodes vote"]);
    }

    #[test]
    fn what_nodes_have_in_common_is_said_once() {
        let health = health([
            down(),
            NodeState::Up,
            down(),
            quarantined(4),
            quarantined(4),
        ]);
        assert_eq!(
            health.to_string(),
            "1 of 5 nodes votes, 3 are needed: each of a:1, c:3 is unreachable (Connection refused), \
             each of d:4, e:5 was restarted and does not vote for up to 4.0s"
        );
    }

    #[test]
    fn a_quarantine_that_is_over_names_no_time() {
        let health = health([quarantined(0)]);
        assert_eq!(
            health.nodes()[0].to_string(),
            "a:1 was restarted and does not vote yet"
        );
    }

    #[test]
    fn a_server_that_loads_its_data_is_not_said_to_reject_anything() {
        let message = "LOADING Redis is loading the dataset in memory";
        assert_eq!(
            refuses(Rejection::Loading, message),
            "does not vote while it loads its data"
        );
    }

    #[test]
    fn it_says_which_nodes_do_not_vote_and_why() {
        let health = health([NodeState::Up, quarantined(4), down()]);
        assert_eq!(
            NotReady { health }.to_string(),
            "locks are not available yet: 1 of 3 nodes votes, 2 are needed: b:2 was restarted and \
             does not vote for up to 4.0s, c:3 is unreachable (Connection refused)"
        );
    }
}
