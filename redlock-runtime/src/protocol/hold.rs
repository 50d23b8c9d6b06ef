//! A held lease: when it is renewed, what counts as a renewal, when it is lost.

use std::time::Duration;

use super::{
    acquire::Attempt,
    action::{Loss, Vote},
    ballot::Ballot,
    clock::Lead,
    link::spread,
    message::{AttemptId, NodeId, Token},
    release::Claim,
    time::Instant,
    validity::Terms,
    watch::Watch,
};

/// A failed renewal is tried again after a quarter of what is left of the lease, but not sooner
/// than this, so that a lease near its end does not turn into a busy loop.
const RENEWAL_FLOOR: Duration = Duration::from_millis(10);

/// A server's remaining time is in whole milliseconds, and so is the TTL.
const ROUNDING: Duration = Duration::from_millis(2);

#[derive(Debug)]
pub(super) struct Hold {
    /// The one that has won it.
    pub(super) attempt: AttemptId,
    pub(super) claim: Claim,
    pub(super) deadline: Instant,
    pub(super) acquired: Instant,
    /// When its holder had it.
    pub(super) granted: Instant,
    pub(super) token: Token,
    /// From one renewal to the next.
    renew_every: Option<Duration>,
    renew_at: Option<Instant>,
    extension: Option<Extension>,
    extensions: u32,
    /// When the last of them was asked for.
    last_extension: Instant,
    /// The votes of the last round that did not extend the lease: the reason if it expires.
    failed_votes: Vec<Vote>,
    watch: Watch,
    /// From the first send to the last grant.
    pub(super) round: Duration,
    /// Another process waits for the lock.
    pub(super) is_awaited: bool,
}

#[derive(Debug)]
struct Extension {
    started: Instant,
    ballot: Ballot,
    /// The holder asked for it and wants to know.
    asked: bool,
}

/// What a look at a held lease finds to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Due {
    Nothing,
    /// Read the key on all nodes.
    Watch,
    /// Broadcast an extension: `begin_extension`.
    Renew,
    Extended {
        deadline: Instant,
    },
    /// The round failed; `votes` are for the holder, if it asked.
    NotExtended {
        votes: Option<Vec<Vote>>,
    },
    Over(Loss),
}

impl Hold {
    /// The lease that a won attempt leads to.
    pub(super) fn new(
        won: Attempt,
        (deadline, token): (Instant, Token),
        terms: &Terms,
        now: Instant,
    ) -> Self {
        // Up to an eighth sooner than asked for, each lock by its own part: so that thousands which
        // were acquired at once are not for ever renewed at once.
        let renew_every = terms
            .renew
            .map(|interval| interval - spread(interval / 8, won.claim.owner.0));
        Self {
            renew_every,
            watch: Watch::new(won.node_count(), now),
            round: won.round(),
            is_awaited: won.is_awaited,
            attempt: won.id,
            claim: won.claim,
            deadline,
            acquired: won.started,
            granted: now,
            token,
            renew_at: renew_every.map(|interval| won.started.after(interval)),
            extension: None,
            extensions: 0,
            last_extension: won.started,
            failed_votes: Vec::new(),
        }
    }

    /// Opens a round, and gives its number.
    pub(super) fn begin_extension(&mut self, nodes: usize, asked: bool, now: Instant) -> u32 {
        self.extensions += 1;
        self.last_extension = now;
        self.renew_at = None;
        self.extension = Some(Extension {
            started: now,
            ballot: Ballot::new(nodes),
            asked,
        });
        self.extensions
    }

    /// Notes that the holder wants a fresh lease. True if a round must be opened for it; one
    /// that is open already serves.
    pub(super) fn ask_extension(&mut self) -> bool {
        match &mut self.extension {
            Some(open) => {
                open.asked = true;
                false
            }
            None => true,
        }
    }

    pub(super) fn is_current(&self, extension: u32) -> bool {
        self.extension.is_some() && self.is_last(extension)
    }

    /// The last one asked for, be it decided or not.
    pub(super) const fn is_last(&self, extension: u32) -> bool {
        self.extensions == extension
    }

    /// Its key has been read, so that the nodes tell of changes.
    pub(super) fn is_watched(&self) -> bool {
        self.watch.at.is_none()
    }

    pub(super) fn on_vote(&mut self, node: NodeId, vote: Vote) {
        if let Some(open) = &mut self.extension {
            open.ballot.cast(node, vote);
        }
    }

    /// A node has set the key's TTL anew, and says what was left of it. That should be no less than
    /// by our clock, whenever within the round it was read.
    pub(super) fn on_remaining(
        &mut self,
        node: NodeId,
        remaining: Option<Duration>,
        terms: &Terms,
        now: Instant,
    ) -> Lead {
        let since = self.claim.kept_since[node.0].replace(self.last_extension);
        let (Some(since), Some(remaining)) = (since, remaining) else {
            return Lead::default();
        };
        let elapsed = now.since(since);
        let expected = terms.key_ttl().saturating_sub(elapsed + ROUNDING);
        Lead {
            by: expected.saturating_sub(remaining),
            elapsed,
        }
    }

    pub(super) fn on_word(&mut self, node: NodeId, vote: Vote) {
        self.watch.on_word(node, vote);
    }

    pub(super) fn next_due(&self, terms: &Terms) -> Instant {
        let round = self
            .extension
            .as_ref()
            .map(|open| open.started.after(terms.round_timeout()));
        [round, self.renew_at, self.watch.at]
            .into_iter()
            .flatten()
            .fold(self.deadline, Instant::min)
    }

    /// Looks at the clock and the votes. The deadline comes first: a quorum that arrives after
    /// it extends nothing, because another holder may have had the lock in between.
    pub(super) fn look(&mut self, terms: &Terms, now: Instant) -> Due {
        if now >= self.deadline {
            return Due::Over(Loss::Expired {
                votes: self.last_votes(),
            });
        }
        if let Some(votes) = self.watch.lost() {
            let votes = votes.to_vec();
            return Due::Over(Loss::Lost { votes });
        }
        if let Some(mut open) = self.extension.take() {
            if now >= open.started.after(terms.round_timeout()) {
                open.ballot.close();
            }
            if open.ballot.is_won() {
                self.watch.renew(now);
                return self.on_extended(open.started, terms);
            }
            if open.ballot.is_refused() {
                return Due::Over(Loss::Lost {
                    votes: open.ballot.into_votes(),
                });
            }
            if open.ballot.is_out_of_reach() {
                return self.on_failed_round(open, terms, now);
            }
            self.extension = Some(open);
        }
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if is_due(self.renew_at) {
            return Due::Renew;
        }
        if is_due(self.watch.at) {
            self.watch.at = None;
            return Due::Watch;
        }
        Due::Nothing
    }

    fn on_extended(&mut self, started: Instant, terms: &Terms) -> Due {
        // Never shorter than before: a cap by `max_hold` may have left nothing to add.
        self.deadline = self.deadline.max(terms.deadline(started, self.acquired));
        self.renew_at = self.renew_every.map(|interval| started.after(interval));
        self.failed_votes.clear();
        Due::Extended {
            deadline: self.deadline,
        }
    }

    fn on_failed_round(&mut self, round: Extension, terms: &Terms, now: Instant) -> Due {
        if terms.renew.is_some() {
            let pause = (self.deadline.since(now) / 4).max(RENEWAL_FLOOR);
            self.renew_at = Some(now.after(pause));
        }
        self.failed_votes = round.ballot.into_votes();
        Due::NotExtended {
            votes: round.asked.then(|| self.failed_votes.clone()),
        }
    }

    fn last_votes(&mut self) -> Vec<Vote> {
        match self.extension.take() {
            Some(open) => open.ballot.into_votes(),
            None => std::mem::take(&mut self.failed_votes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::message::Fault, *};

    const LEASE: Duration = Duration::from_secs(3);

    fn terms() -> Terms {
        Terms {
            renew: Some(Duration::from_secs(1)),
            ..Terms::of(LEASE)
        }
    }

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(0).after(Duration::from_millis(millis))
    }

    /// A lease that has been read on all nodes once.
    fn hold(terms: &Terms) -> Hold {
        let won = Attempt::broadcast(3, at(0));
        let deadline = terms.deadline(at(0), at(0));
        let mut hold = Hold::new(won, (deadline, Token(1)), terms, at(2));
        assert_eq!(hold.look(terms, at(22)), Due::Watch);
        hold
    }

    fn vote(hold: &mut Hold, votes: &[Vote]) {
        for (node, vote) in votes.iter().enumerate() {
            hold.on_vote(NodeId(node), vote.clone());
        }
    }

    #[test]
    fn a_renewal_counts_from_its_own_start() {
        let terms = terms();
        let mut hold = hold(&terms);
        assert_eq!(hold.look(&terms, at(999)), Due::Nothing);
        assert_eq!(hold.look(&terms, at(1_000)), Due::Renew);
        hold.begin_extension(3, false, at(1_000));
        vote(&mut hold, &[Vote::Ours, Vote::Ours]);
        assert_eq!(
            hold.look(&terms, at(1_100)),
            Due::Extended {
                deadline: at(4_000)
            }
        );
        assert_eq!(hold.look(&terms, at(1_100)), Due::Watch);
        assert_eq!(hold.next_due(&terms), at(2_000));
    }

    #[test]
    fn a_quorum_after_the_deadline_extends_nothing() {
        let terms = terms();
        let mut hold = hold(&terms);
        hold.begin_extension(3, false, at(2_950));
        vote(&mut hold, &[Vote::Ours, Vote::Ours, Vote::Ours]);
        let Due::Over(Loss::Expired { votes }) = hold.look(&terms, at(3_000)) else {
            panic!("the lease must be over");
        };
        assert_eq!(votes, vec![Vote::Ours; 3]);
    }

    #[test]
    fn a_majority_of_lost_keys_is_a_loss_and_silence_is_not() {
        let terms = terms();
        let mut silent = hold(&terms);
        silent.begin_extension(3, true, at(1_000));
        vote(&mut silent, &[Vote::Ours, Vote::Failed(Fault::TimedOut)]);
        assert_eq!(silent.look(&terms, at(1_100)), Due::Nothing);
        assert!(matches!(
            silent.look(&terms, at(1_150)),
            Due::NotExtended { votes: Some(_) }
        ));
        // A quarter of the 1 850 ms that are left.
        assert_eq!(
            silent.next_due(&terms),
            at(1_150 + 462).after(Duration::from_micros(500))
        );

        let mut lost = hold(&terms);
        lost.begin_extension(3, false, at(1_000));
        vote(&mut lost, &[Vote::NotOwner, Vote::NotOwner]);
        assert!(matches!(
            lost.look(&terms, at(1_001)),
            Due::Over(Loss::Lost { .. })
        ));
    }

    #[test]
    fn max_hold_is_not_passed_by_renewals() {
        let mut terms = terms();
        terms.max_hold = Some(Duration::from_secs(4));
        let mut hold = hold(&terms);
        for start in [1_000, 2_000, 3_000] {
            hold.begin_extension(1, false, at(start));
            vote(&mut hold, &[Vote::Ours]);
            hold.look(&terms, at(start));
        }
        assert_eq!(hold.deadline, at(4_000));
        assert!(matches!(hold.look(&terms, at(4_000)), Due::Over(_)));
    }
}
