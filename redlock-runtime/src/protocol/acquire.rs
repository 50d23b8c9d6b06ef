//! One attempt to win a majority.

use std::time::Duration;

use super::{
    action::{Cause, Refusal, Vote},
    ballot::Ballot,
    message::{NodeId, Owner},
    time::Instant,
    validity::Terms,
};

#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) owner: Owner,
    /// Read before the first send; the lease counts from here.
    pub(super) started: Instant,
    /// The nodes that may hold a key of this owner, now or once the request reaches them.
    pub(super) asked: Vec<NodeId>,
    ballot: Ballot,
}

/// What an attempt has come to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Open,
    Won { deadline: Instant },
    Lost(Cause),
}

impl Attempt {
    pub(super) fn new(owner: Owner, nodes: usize, now: Instant) -> Self {
        Self {
            owner,
            started: now,
            asked: Vec::with_capacity(nodes),
            ballot: Ballot::new(nodes),
        }
    }

    pub(super) fn closes_at(&self, terms: &Terms) -> Instant {
        self.started.after(terms.round_timeout())
    }

    pub(super) fn on_vote(&mut self, node: NodeId, vote: Vote) {
        self.ballot.cast(node, vote);
    }

    /// Falls at quorum, at impossibility, or at the node timeout: never later.
    pub(super) fn verdict(&mut self, terms: &Terms, now: Instant) -> Verdict {
        if now >= self.closes_at(terms) {
            self.ballot.close();
        }
        if self.ballot.is_won() {
            let deadline = terms.deadline(self.started, self.started);
            // Measured from the first send to this moment, after the replies: a reply that took
            // long has used up the lease it grants.
            if deadline.since(now) < terms.min_validity {
                return Verdict::Lost(Cause::TooSlow);
            }
            return Verdict::Won { deadline };
        }
        if !self.ballot.is_out_of_reach() {
            return Verdict::Open;
        }
        if self.ballot.is_starved() {
            return Verdict::Lost(Cause::NoQuorum);
        }
        Verdict::Lost(Cause::Contended {
            retry_after: self.retry_after(),
        })
    }

    pub(super) fn into_refusal(self, cause: Cause) -> Refusal {
        Refusal {
            cause,
            votes: self.ballot.into_votes(),
        }
    }

    /// When as many of the refusing nodes as a majority lacks will have let go of the key by
    /// themselves. `None` if that can not be told: a key without expiry.
    fn retry_after(&self) -> Option<Duration> {
        let mut remaining: Vec<Duration> = self
            .ballot
            .votes()
            .iter()
            .filter_map(|vote| match vote {
                Vote::Held { remaining } => *remaining,
                _ => None,
            })
            .collect();
        remaining.sort_unstable();
        let last = self.ballot.missing().checked_sub(1)?;
        remaining.get(last).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::validity::{default_guard_band, default_min_validity, default_node_timeout},
        *,
    };

    const LEASE: Duration = Duration::from_secs(5);

    fn terms() -> Terms {
        Terms {
            lease: LEASE,
            guard_band: default_guard_band(LEASE),
            node_timeout: default_node_timeout(LEASE),
            min_validity: default_min_validity(LEASE),
            wait: Duration::ZERO,
            renew: None,
            max_hold: None,
        }
    }

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(0).after(Duration::from_millis(millis))
    }

    fn held(millis: u64) -> Vote {
        Vote::Held {
            remaining: Some(Duration::from_millis(millis)),
        }
    }

    fn attempt(votes: &[Vote]) -> Attempt {
        let mut attempt = Attempt::new(Owner(1), 5, at(0));
        for (node, vote) in votes.iter().enumerate() {
            attempt.on_vote(NodeId(node), vote.clone());
        }
        attempt
    }

    #[test]
    fn the_lease_counts_from_before_the_first_send() {
        let mut attempt = attempt(&[Vote::Ours, Vote::Ours, Vote::Ours]);
        assert_eq!(
            attempt.verdict(&terms(), at(100)),
            Verdict::Won {
                deadline: at(5_000)
            }
        );
    }

    #[test]
    fn a_quorum_with_too_little_left_of_the_lease_is_refused() {
        let mut attempt = attempt(&[Vote::Ours, Vote::Ours, Vote::Ours]);
        let mut patient = terms();
        patient.node_timeout = LEASE;
        assert_eq!(
            attempt.verdict(&patient, at(4_501)),
            Verdict::Lost(Cause::TooSlow)
        );
    }

    #[test]
    fn a_retry_makes_sense_once_enough_nodes_let_go() {
        // Two more of the refusing three are needed beside the one that is still open.
        let mut attempt = attempt(&[Vote::Ours, held(900), held(30), held(500)]);
        assert_eq!(
            attempt.verdict(&terms(), at(1)),
            Verdict::Lost(Cause::Contended {
                retry_after: Some(Duration::from_millis(30))
            })
        );
    }

    #[test]
    fn keys_without_expiry_give_no_time_to_retry() {
        let forever = Vote::Held { remaining: None };
        let mut attempt = attempt(&[forever.clone(), forever.clone(), forever]);
        assert_eq!(
            attempt.verdict(&terms(), at(1)),
            Verdict::Lost(Cause::Contended { retry_after: None })
        );
    }

    #[test]
    fn silence_is_an_outage_and_refusal_is_contention() {
        let mut silent = attempt(&[Vote::Ours, held(10)]);
        assert_eq!(silent.verdict(&terms(), at(249)), Verdict::Open);
        assert_eq!(
            silent.verdict(&terms(), at(250)),
            Verdict::Lost(Cause::NoQuorum)
        );
    }
}
