//! Which process goes first when the lock is free.
//!
//! A process that has waited for the most turns of others should have the lock next. No process
//! knows how many others there are, but each sees how many turns of others there are between its
//! own, and who had them. A process that has seen fewer turns than there are others leaves a free lock
//! alone for a moment.
//!
//! For a fair lock one node knows who came first. A fair waiter leaves a free lock alone while that
//! node has named others that come before it and that it has not seen with the lock since.

use std::{sync::Arc, time::Duration};

use super::{Ask, Cx};
use crate::{
    message::{NodeId, Owner, Process, Request, Ticket},
    time::Instant,
};

/// How long a process defers for each turn that it is behind the others, at the least. Timers are
/// no finer.
const SHORTEST_DEFERRAL: Duration = Duration::from_millis(1);

/// One in so many times a process defers by a turn although it need not.
const RANDOM_DEFERRALS: u32 = 8;

/// And for how many turns at the most.
const MOST_TURNS: u32 = 8;

/// A process that has had none of so many turns is not waiting any more.
const LATELY: u32 = 32;

/// What one process has seen of the others' turns with one key.
#[derive(Clone, Debug, Default)]
pub(super) struct TurnOrder {
    /// Turns of others since the last one of this process.
    seen: u32,
    /// The others that have had turns lately, and how many turns ago, the latest last.
    others: Vec<(Option<Process>, u32)>,
}

impl TurnOrder {
    /// Another process has the lock, or a client of another library.
    pub(super) fn on_turn_of(&mut self, process: Option<Process>) {
        let is_the_same = self.others.last().is_some_and(|last| last.0 == process);
        if self.seen > 0 && is_the_same {
            return;
        }
        self.seen += 1;
        for (_, ago) in &mut self.others {
            *ago += 1;
        }
        self.others
            .retain(|&(other, ago)| other != process && ago < LATELY);
        self.others.push((process, 0));
    }

    /// The lock is free: for how long others may ask before this process. As long for each turn as
    /// it takes to ask, and for the next one to hear that the lock is taken. A process that is not
    /// overdue defers now and then all the same: one that is always the last to hear would never
    /// have a turn, and the others would never learn of it. One that was refused to let another go first
    /// does so, also if that one defers at random.
    pub(super) fn defer_by(&self, round: Duration, lets_first: bool, random: u128) -> Duration {
        let others = self.others.len() as u32;
        let is_overdue = self.seen > others;
        let at_random =
            u32::from(!is_overdue && ((random >> 96) as u32).is_multiple_of(RANDOM_DEFERRALS));
        let at_least = at_random.max(2 * u32::from(lets_first));
        let turns_behind = others.saturating_sub(self.seen).max(at_least);
        deferral(round) * turns_behind.min(MOST_TURNS)
    }

    /// This process has its turn.
    pub(super) fn on_own_turn(&mut self) {
        self.seen = 0;
    }
}

/// For each turn.
fn deferral(round: Duration) -> Duration {
    (2 * round).max(SHORTEST_DEFERRAL)
}

/// What a fair waiter knows of those before it.
#[derive(Clone, Debug, Default)]
pub(super) struct Standing {
    /// How many processes come first.
    ahead: u32,
    /// How often they have not taken the lock, though it was free.
    misses: u32,
    /// Who was seen with the lock last.
    holder: Option<Owner>,
    /// Since when, or since all nodes were asked.
    since: Option<Instant>,
    /// The node that may have a place for it.
    pub(super) leader: Option<NodeId>,
}

impl Standing {
    /// This node is asked first from now on.
    pub(super) fn queue_at(&mut self, leader: Option<NodeId>, cx: &mut Cx<'_>) {
        if self.leader != leader {
            self.leave(cx);
        }
        self.leader = leader;
    }

    /// Gives up the place. If that does not come through, the place lasts for no longer than
    /// [`Ticket::LASTS`](crate::message::Ticket::LASTS).
    pub(super) fn leave(&mut self, cx: &mut Cx<'_>) {
        self.place(None, cx);
        self.leader = None;
    }

    /// Tells the node that is asked first of the place.
    pub(super) fn place(&self, ticket: Option<Ticket>, cx: &mut Cx<'_>) {
        if let Some(leader) = self.leader {
            let body = Request::Place {
                key: Arc::clone(cx.name),
                process: cx.nodes.process(),
                ticket,
            };
            cx.tell(leader, Ask::Place, body);
        }
    }

    /// The node has refused the lock.
    pub(super) fn on_refusal(&mut self, ahead: u32, holder: Option<Owner>, now: Instant) {
        self.ahead = ahead;
        self.misses = holder.map_or(self.misses + 1, |_| 0);
        if self.since.is_none() || holder.is_some() && holder != self.holder {
            self.since = Some(now);
        }
        self.holder = holder.or(self.holder);
    }

    /// The node alone may have the key: it has for so long that the others should be asked. Not while
    /// others are first. More often it would pass those of the holder's process: the nodes do not hear
    /// of its end at the same time.
    pub(super) fn doubts_leader(&mut self, now: Instant) -> bool {
        let since = self.since.filter(|_| self.ahead == 0);
        let doubts = since.is_some_and(|since| now.since(since) >= Ticket::LASTS);
        self.since = self.since.filter(|_| !doubts);
        doubts
    }

    /// This owner has the lock: if it is another one than before, it was the first in the queue.
    pub(super) fn on_turn_of(&mut self, owner: Option<Owner>, now: Instant) {
        if owner.is_some() && owner != self.holder {
            self.ahead = self.ahead.saturating_sub(1);
            self.misses = 0;
            self.holder = owner;
            self.since = Some(now);
        }
    }

    /// The lock is free: for how long others may ask before this process. Longer each time that none
    /// of them does: they may have gone away, which the node cannot know yet.
    pub(super) fn defer_by(&self, round: Duration) -> Duration {
        match self.ahead {
            0 => Duration::ZERO,
            ahead => {
                deferral(round) * (1 << (ahead - 1).saturating_add(self.misses).min(MOST_TURNS))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND: Duration = Duration::from_millis(1);
    const NOW: Instant = Instant::from_nanos(0);

    #[test]
    fn who_has_seen_fewer_turns_than_usual_defers_to_the_others() {
        let mut order = TurnOrder::default();
        assert_eq!(order.defer_by(ROUND, false, 1 << 96), Duration::ZERO);
        assert!(order.defer_by(ROUND, true, 1 << 96) > Duration::ZERO);
        for _ in 0..30 {
            order.on_turn_of(Some(Process(1)));
            order.on_turn_of(Some(Process(2)));
            order.on_own_turn();
        }
        let two = order.defer_by(ROUND, false, 1 << 96);
        assert!(two > Duration::ZERO);
        order.on_turn_of(Some(Process(1)));
        assert!(order.defer_by(ROUND, false, 1 << 96) < two);
        order.on_turn_of(Some(Process(2)));
        assert_eq!(order.defer_by(ROUND, false, 1 << 96), Duration::ZERO);
    }

    #[test]
    fn a_fair_waiter_asks_at_once_when_those_before_it_have_had_their_turns() {
        let mut standing = Standing::default();
        standing.on_refusal(2, Some(Owner(1)), NOW);
        standing.on_turn_of(Some(Owner(1)), NOW);
        let two = standing.defer_by(ROUND);
        standing.on_turn_of(Some(Owner(2)), NOW);
        standing.on_turn_of(Some(Owner(2)), NOW);
        let one = standing.defer_by(ROUND);
        assert!(Duration::ZERO < one && one < two);
        standing.on_turn_of(Some(Owner(3)), NOW);
        assert_eq!(standing.defer_by(ROUND), Duration::ZERO);
    }

    #[test]
    fn a_fair_waiter_asks_more_seldom_while_those_before_it_do_not_come() {
        let mut standing = Standing::default();
        standing.on_refusal(1, None, NOW);
        let first = standing.defer_by(ROUND);
        standing.on_refusal(1, None, NOW);
        assert!(standing.defer_by(ROUND) > first);
    }

    #[test]
    fn a_fair_waiter_doubts_the_node_once_in_a_while_and_only_if_it_is_the_first() {
        let later = |times| NOW.after(times * Ticket::LASTS);
        let mut standing = Standing::default();
        standing.on_refusal(0, Some(Owner(1)), NOW);
        assert!(!standing.doubts_leader(NOW));
        standing.on_turn_of(Some(Owner(2)), later(1));
        assert!(!standing.doubts_leader(later(1)));
        standing.on_refusal(1, Some(Owner(2)), later(2));
        assert!(!standing.doubts_leader(later(2)));
        standing.on_refusal(0, Some(Owner(2)), later(3));
        assert!(standing.doubts_leader(later(3)));
        standing.on_refusal(0, Some(Owner(2)), later(4));
        assert!(!standing.doubts_leader(later(4)));
    }

    #[test]
    fn a_turn_that_is_seen_twice_is_one_turn() {
        let mut order = TurnOrder::default();
        for _ in 0..10 {
            order.on_turn_of(Some(Process(1)));
        }
        assert_eq!(order.seen, 1);
    }
}
