//! How a caller that was refused waits.
//!
//! It has a place in the queue that one node keeps, the *leader*, which is the same for all processes if they
//! can reach it. Each further attempt asks that node first and renews the place. Between two of them the
//! process sleeps until the first of three: the node tells that the key has changed, the holder's key
//! expires, or it is time for a look. The next look is due when half of those ahead can have gone.
//!
//! Who is first or second in the queue hears of each change, and so do the others once nothing has changed for some
//! looks: a majority of nodes tells them. Who has others ahead leaves them a free lock for as long as they
//! need to ask for it, and may then go before them: they may have died. A leader that still names a holder whose
//! key another node has no more is doubted: then all nodes are asked at once.

use std::{sync::Arc, time::Duration};

use super::{
    Front, Key,
    cx::Cx,
    queue::{Rank, Waiting},
    round::Round,
};
use crate::{
    action::{Refusal, Verdict},
    message::{Ahead, Mode, NodeId, Owner, Reply, Request, SectionId},
    purpose::Ask,
    rules::{
        backoff::{self, jitter},
        quorum,
        validity::LockParams,
    },
    time::Instant,
};

/// The longest pause between two attempts to end a split, in which the keys of the others' attempts go away.
const LONGEST_SPLIT_PAUSE: Duration = Duration::from_millis(64);

/// One in this number of looks of the first in the queue asks all nodes: no node's word counts for ever.
// A node that refuses to delete names its last holder until the key expires: for a minute, if that was the lease.
const ASKS_ALL_EVERY: u32 = 8;

/// Where no node tells of changes, one in this number of looks also reads the key at another node: first the second one.
const READS_EVERY: u32 = 3;

/// Who is further behind lets nodes tell of changes after this number of looks without one. To be told of each change
/// costs four requests, and four looks without one show that changes are rare.
const IS_STILL_AFTER: u32 = 4;

/// Who has no more ahead than this many times the permits asks at each change.
const NEAR: u32 = 2;

/// Timers are no finer.
pub(super) const TICK: Duration = Duration::from_millis(1);

/// When to ask again after a pause: as long as there is time, another question fits in behind it.
pub(super) fn pause_within(pause: Duration, end: Instant, now: Instant) -> Instant {
    let pause = pause.min(end.since(now) / 2).max(TICK);
    now.after(pause).min(end)
}

#[derive(Debug)]
pub(super) struct Backoff {
    pub(super) waiter: Waiter,
    /// When to ask in any case.
    pub(super) until: Instant,
}

/// One that has come to the front.
#[derive(Clone, Debug)]
pub(crate) struct Waiter {
    pub(crate) section: SectionId,
    pub(super) params: Arc<LockParams>,
    /// When its caller called.
    pub(super) since: Instant,
    pub(super) wait_until: Instant,
    pub(super) lost_attempts: u32,
    /// One node's word is not enough: see `attempt`.
    pub(super) asks_all: bool,
    /// Since when several processes ask at the same time, and none has a majority. So long they all wait, also those
    /// who do not otherwise: one of them gets the lock.
    pub(super) split: Option<Instant>,
    /// See [`Line::losses`](super::permits::Line), as it asks for a slot.
    pub(super) lost_slots: u32,
    /// In the queue of all processes.
    pub(super) place: Place,
}

/// What a waiter knows of the queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Place {
    /// The node that keeps it.
    pub(super) leader: Option<NodeId>,
    /// It may have a place for this process.
    pub(super) is_taken: bool,
    pub(super) ahead: Ahead,
    /// Readers had the key.
    is_read: bool,
    /// Whose the key was at the leader, if it was there.
    named: Option<Option<Owner>>,
    /// These tell of its next change.
    armed: Vec<NodeId>,
    /// How long one of those ahead takes.
    pace: Option<Duration>,
    seen_at: Option<Instant>,
    /// So many with the same ahead, while the leader has named the same holder.
    pub(super) looks: u32,
    /// Of changes.
    is_told: bool,
    /// While the leader was being asked, it has told of a change.
    pub(super) has_changed: bool,
    /// If the leader still names that holder then, it may be wrong: enough nodes will have dropped the key, as
    /// they all said when they were asked; or another one has told of a change that the leader has not told of.
    doubts_from: Option<Instant>,
    /// So often all have been asked, and none of those who met there had a majority.
    doubts: u32,
}

impl Place {
    /// The leader has refused the lock, or all nodes have.
    pub(super) fn on_refusal(&mut self, round: &Round, now: Instant) {
        if round.lost_at_leader().is_none() {
            // All nodes were asked, so this is when enough of them will have dropped the key.
            let freed_after = round.retry_after().filter(|after| !after.is_zero());
            self.doubts_from = freed_after.map(|after| now.after(after).after(TICK));
            self.doubts = if round.is_held() { 0 } else { self.doubts + 1 };
        }
        let looks = self.looks + 1;
        if let Some(ahead) = round.ahead {
            self.on_ahead(ahead, now);
        }
        let mut refusals = round.holders.iter();
        let by_leader = refusals.find(|(node, _)| Some(*node) == self.leader);
        let named = by_leader.map_or(self.named, |&(_, owner)| Some(owner));
        // When all were asked, most may have named another one than the leader, which says the same as before. Nor is it
        // news that some ahead have given up: the key that the leader has may be a dead one.
        let is_news = std::mem::replace(&mut self.named, named) != named;
        self.looks = if is_news { 1 } else { looks };
        self.is_read = round.holder() == Some(Some(Owner::READERS));
        self.doubts_from
            .take_if(|_| is_news && round.lost_at_leader().is_some());
    }

    /// So many are ahead now.
    pub(super) fn on_ahead(&mut self, ahead: Ahead, now: Instant) {
        let before = std::mem::replace(&mut self.ahead, ahead);
        // If more have come than gone, nobody knows how many have gone.
        let gone = before.count.saturating_sub(self.ahead.count);
        if let Some(at) = self.seen_at.replace(now)
            && gone > 0
        {
            // Sooner believed than later: others may have come back before this one.
            let each = now.since(at) / gone;
            self.pace = Some(each.min(self.pace() * 2));
        }
        // Each look at an unchanged queue doubles the pause; any change begins anew.
        self.looks = if before.count == self.ahead.count {
            self.looks + 1
        } else {
            1
        };
    }

    /// An attempt begins.
    pub(super) const fn on_attempt(&mut self) {
        self.has_changed = false;
    }

    /// The node tells of no later change.
    fn disarm(&mut self, node: NodeId) {
        self.armed.retain(|&armed| armed != node);
    }

    pub(super) fn disarm_all(&mut self) {
        self.armed.clear();
    }

    /// Nobody tells that the leader is wrong: one of the others is asked, another one each time.
    fn read_elsewhere(&mut self, cx: &mut Cx<'_>) {
        let others = cx.nodes.in_order(cx.name);
        let others: Vec<NodeId> = others.filter(|node| Some(*node) != self.leader).collect();
        if self.looks % READS_EVERY == 2 && !others.is_empty() {
            let turn = (self.looks / READS_EVERY) as usize;
            self.listen(others[turn % others.len()], cx);
        }
    }

    /// Reads the key of another owner on a node that tells of the next change then, if it can.
    fn listen(&mut self, node: NodeId, cx: &mut Cx<'_>) {
        let key = Arc::clone(cx.name);
        let body = Request::Watch {
            key,
            owner: None,
            mode: Mode::Exclusive,
        };
        let is_asked = !self.armed.contains(&node) && cx.tell(node, Ask::Await, body);
        // One that tells of nothing would put off the next look.
        if is_asked && cx.nodes.tells_changes(node) {
            self.armed.push(node);
        }
    }

    /// An attempt is over. What this process has written itself it is not told of, and nothing after that.
    pub(super) fn on_failed(&mut self, round: &Round) {
        let verdicts = round.verdicts();
        let is_unwritten = |verdict: &Verdict| {
            matches!(verdict, Verdict::HeldByAnother { .. } | Verdict::NotAsked)
        };
        self.armed.retain(|node| is_unwritten(&verdicts[node.0]));
    }

    /// One node's word is enough unless there is reason to doubt it: another node knows better, or it has
    /// been asked alone for a while. Those ahead do so first.
    pub(super) fn doubts_leader(&mut self, now: Instant) -> bool {
        let time = self.ahead.time();
        let doubts = self.doubts_from.take_if(|at| at.after(time) <= now);
        // The others also say when their keys expire, of which they do not tell. Once it is worth it.
        let is_due = self.looks == 2 || self.looks.is_multiple_of(ASKS_ALL_EVERY);
        // The first alone: others would only disturb it, and it finds out for all.
        doubts.is_some() || self.is_told && self.ahead.count == 0 && is_due
    }

    fn doubts_by(&mut self, at: Instant) {
        let before = self.doubts_from.unwrap_or(at);
        self.doubts_from = Some(at.min(before));
    }

    /// Gives it up. If that does not come through, it lasts for no longer than [`Ticket::LASTS`].
    pub(super) fn leave(&mut self, cx: &mut Cx<'_>) {
        if let Some(leader) = self.leader.filter(|_| self.is_taken) {
            // An owner that never had a key: only the place of the process goes.
            let nobody = Owner(u128::from(cx.nodes.process().0) << 64);
            let body = Request::Release {
                key: Arc::clone(cx.name),
                owner: nobody,
                mode: Mode::Exclusive,
                keep: None,
                leaves: true,
            };
            cx.tell(leader, Ask::Release(nobody), body);
        }
        self.is_taken = false;
    }

    fn pace(&self) -> Duration {
        self.pace.unwrap_or(backoff::FIRST_PACE)
    }

    /// How long until the next look, if the node tells of changes or not. Longer while nobody goes.
    fn look_after(&self) -> Duration {
        let doublings = self.looks.saturating_sub(1).min(10);
        match (self.ahead.count, self.is_told) {
            (0 | 1, true) => backoff::LONGEST_LOOK,
            (0, false) => {
                let pause = backoff::SHORTEST_POLL.saturating_mul(1 << doublings);
                pause.min(backoff::LONGEST_POLL)
            }
            (count, _) => {
                let half = self.pace() * count / 2;
                let longest = match (count, self.is_told) {
                    (_, true) => backoff::LONGEST_LOOK,
                    (1, false) => backoff::LONGEST_POLL_BEHIND,
                    // Those ahead may give up, and nobody tells. Who knows that they are slow has time.
                    _ => half.clamp(backoff::LONGEST_POLL_BEHIND, backoff::LONGEST_LOOK),
                };
                // The draw takes an eighth off. A look just before the next change would be of no use.
                let half = (half + half / 8).saturating_mul(1 << doublings);
                half.clamp(backoff::SHORTEST_LOOK, longest)
            }
        }
    }
}

impl Waiter {
    pub(super) const fn rank(&self) -> Rank {
        (self.since, self.section)
    }

    /// Nothing has been done for it.
    pub(crate) fn new(waiting: Waiting, place: Place) -> Self {
        Self {
            section: waiting.section,
            params: waiting.params,
            since: waiting.since,
            wait_until: waiting.wait_until,
            lost_attempts: 0,
            lost_slots: 0,
            asks_all: false,
            split: None,
            place,
        }
    }

    /// Its last attempt is over then.
    pub(super) fn last_end(&self) -> Instant {
        // Who waits may begin the last attempt at the very end: promise 7 allows for a node timeout behind it.
        match self.params.wait.is_zero() {
            true => self.wait_until,
            false => self.wait_until.after(self.params.round_timeout()),
        }
    }

    /// It has called before, and has asked for the same.
    pub(super) fn goes_before(&self, other: &Self) -> bool {
        let params = LockParams {
            // How long a caller waits makes no other lock of it.
            wait: other.params.wait,
            ..*self.params
        };
        self.rank() < other.rank() && params == *other.params
    }

    /// Its caller does not wait, and has had the time of its one attempt.
    pub(super) fn is_late(&self, now: Instant) -> bool {
        self.params.wait.is_zero() && self.wait_until <= now
    }

    /// Another one goes on in its place. The one before.
    pub(super) fn replace(&mut self, next: Waiting) -> Waiting {
        let place = std::mem::take(&mut self.place);
        let next = Self::new(next, place);
        std::mem::replace(self, next).into()
    }

    /// Its next attempt goes by what this node says.
    pub(super) fn follow(&mut self, leader: Option<NodeId>, cx: &mut Cx<'_>) {
        if self.place.leader != leader {
            // The old leader would keep those behind waiting for nobody.
            self.place.leave(cx);
            self.place.leader = leader;
        }
    }

    /// Lets a majority of nodes tell of the next change: the leader, and those that are asked first and may have the
    /// key. All slots share the key of their line, and where it is missing, one of them may be free. Slots change often,
    /// so only the leader tells of them at first.
    fn listen(&mut self, refusal: &Refusal, has_share: bool, cx: &mut Cx<'_>) {
        let place = &mut self.place;
        let majority = quorum::majority(cx.nodes.count());
        // Notices cost every node a read: those further behind learn enough from their looks.
        let is_still = place.looks > IS_STILL_AFTER;
        // Several permits may be released at once, each for one of them.
        let is_near = place.looks > 1 && place.ahead.count <= self.params.permits * NEAR;
        if !has_share && (place.ahead.count <= 1 || is_near || is_still) {
            let may_have = |node: &NodeId| {
                let verdict = refusal.verdicts.get(node.0);
                let may_have = |verdict: &Verdict| {
                    verdict.is_open() || matches!(verdict, Verdict::HeldByAnother { .. })
                };
                verdict.is_some_and(may_have) && cx.nodes.tells_changes(*node)
            };
            let mut nodes: Vec<NodeId> = cx.nodes.in_order(cx.name).filter(may_have).collect();
            nodes.sort_by_key(|node| place.leader != Some(*node));
            // Fewer may all have keys that nobody deletes, and then tell of nothing.
            nodes.truncate(majority);
            if self.params.permits > 0 && place.looks < 2 {
                nodes.retain(|&node| place.leader == Some(node));
            }
            for node in nodes {
                place.listen(node, cx);
            }
        }
        let leader_tells = place
            .leader
            .is_some_and(|leader| place.armed.contains(&leader));
        place.is_told = leader_tells && place.armed.len() >= majority;
        if !place.is_told {
            place.read_elsewhere(cx);
        }
    }

    /// When to ask after news: those ahead may ask first. With permits several of them have one at once, and those who
    /// have got theirs are ahead no more, which nobody tells.
    fn asks_after(&self) -> Duration {
        match self.place.ahead.count <= self.params.permits * NEAR {
            true => Duration::ZERO,
            false => self.place.ahead.time(),
        }
    }

    /// Its caller does, after a refusal.
    pub(super) fn goes_on_waiting(&self, now: Instant) -> bool {
        now < self.wait_until && !self.params.wait.is_zero()
    }

    /// How long this node may take as the leader of a line. All who wait must ask one leader: one that is far away
    /// always has a request that a near one would have answered. Who does not wait has no time for it.
    pub(super) fn patience(&self, node: NodeId, cx: &Cx<'_>) -> Duration {
        let most = match self.goes_on_waiting(cx.now()) {
            true => self.params.round_timeout() / 2,
            false => Duration::ZERO,
        };
        let usual = 3 * cx.nodes.usual_round_trip(node);
        cx.nodes.hedge_delay().max(usual.min(most))
    }
}

impl From<Waiter> for Waiting {
    fn from(waiter: Waiter) -> Self {
        Self {
            section: waiter.section,
            params: waiter.params,
            since: waiter.since,
            wait_until: waiter.wait_until,
        }
    }
}

impl Backoff {
    /// When to make the next attempt. The last one is made when the caller stops waiting, whatever others need.
    pub(super) fn next_due(&self) -> Instant {
        self.until.min(self.waiter.wait_until)
    }

    /// Asks sooner.
    pub(super) fn ask_by(&mut self, at: Instant) {
        self.until = self.until.min(at);
    }
}

impl Key {
    /// The front waiter goes on waiting, after a refusal.
    pub(super) fn back_off(&mut self, mut waiter: Waiter, cx: &mut Cx<'_>) {
        let (now, random) = (cx.now(), cx.random());
        let has_share = self.has_share(&waiter, now);
        let refusal = self.last_refusal();
        if refusal.lacks_quorum() {
            let can_ask = cx.nodes.has_majority(now);
            let timeout = waiter.params.round_timeout();
            let pause = backoff::pause(waiter.lost_attempts, timeout, can_ask, random);
            return self.pause_until(waiter, now.after(pause));
        }
        waiter.listen(refusal, has_share, cx);
        let place = &mut waiter.place;
        let look = match has_share {
            // Its own sections let the next ones in. If it were told of each slot, all processes would ask for it.
            true => backoff::LONGEST_POLL_BEHIND,
            false => place.look_after(),
        };
        // Waiters that were refused together must not come back together.
        let look = look - jitter(look / 8, random);
        let time = place.ahead.time();
        let expiry = backoff::until_expiry(refusal);
        let dues = [
            expiry.map(|expiry| now.after(expiry).after(time)),
            place.doubts_from.map(|at| at.after(time)),
            // The leader may have been asked before the change.
            std::mem::take(&mut place.has_changed).then(|| now.after(waiter.asks_after())),
        ];
        let until = dues
            .into_iter()
            .flatten()
            .fold(now.after(look), Instant::min);
        self.pause_until(waiter, until);
    }

    /// The lock is free, but others are ahead: asks again once they have had the time to.
    pub(super) fn give_way(&mut self, mut waiter: Waiter, cx: &mut Cx<'_>) {
        let Place { ahead, leader, .. } = waiter.place;
        // Those ahead were told as well, and need this long to ask.
        let until = pause_within(ahead.time(), waiter.wait_until, cx.now());
        let is_line = waiter.params.permits > 0;
        // One lock goes to one of those ahead. Of several permits the next may be free sooner than that.
        if let Some(leader) = leader.filter(|leader| is_line && cx.nodes.tells_changes(*leader)) {
            waiter.place.listen(leader, cx);
        }
        self.pause_until(waiter, until);
    }

    pub(super) fn pause_until(&mut self, waiter: Waiter, until: Instant) {
        self.front = Front::BackingOff(Box::new(Backoff { waiter, until }));
    }

    /// Asks again in a moment.
    pub(super) fn end_split(&mut self, waiter: Waiter, pause: Duration, cx: &mut Cx<'_>) {
        let now = cx.now();
        // The first time at once: the release is on its way before it. Then less and less often, in case it is none.
        let lasted = waiter
            .split
            .map_or(Duration::ZERO, |since| now.since(since));
        let pause = pause.max(jitter(lasted.min(LONGEST_SPLIT_PAUSE), cx.random()));
        self.pause_until(waiter, now.after(pause));
    }

    pub(super) fn advance_backoff(&mut self, cx: &mut Cx<'_>) -> bool {
        let now = cx.now();
        let Front::BackingOff(backoff) = &self.front else {
            return false;
        };
        if now < backoff.next_due() {
            return false;
        }
        let waiter = &backoff.waiter;
        if waiter.split.is_none() || now < waiter.wait_until {
            self.go_on(cx);
        } else if let Front::BackingOff(backoff) = self.take_front() {
            // No process has won in time.
            self.back_off_or_refuse(backoff.waiter, cx);
        }
        true
    }

    /// What kept the front waiter from the lock may be over.
    pub(super) fn retry_now(&mut self, cx: &mut Cx<'_>) {
        // The time that is left to other libraries' clients ends by the clock alone.
        if self.stand_back_until().is_none() {
            self.go_on(cx);
        }
    }

    fn go_on(&mut self, cx: &mut Cx<'_>) {
        match self.take_front() {
            Front::BackingOff(backoff) => self.attempt(backoff.waiter, cx),
            other => self.front = other,
        }
    }

    /// Who waits at the front.
    pub(super) fn waiter(&mut self) -> Option<&mut Waiter> {
        match &mut self.front {
            Front::BackingOff(backoff) => Some(&mut backoff.waiter),
            Front::Acquiring(attempt) => Some(&mut attempt.waiter),
            Front::Standing(standing) => Some(&mut standing.waiter),
            Front::Free | Front::Held(_) => None,
        }
    }

    /// What the front waiter knows of the queue.
    pub(super) fn place(&mut self) -> Option<&mut Place> {
        self.waiter().map(|waiter| &mut waiter.place)
    }

    /// A node tells that the key of another owner has changed.
    pub(super) fn on_told(&mut self, node: NodeId, cx: &mut Cx<'_>) {
        let Some(place) = self.place() else {
            return;
        };
        place.disarm(node);
        // One of several readers may have gone.
        if place.is_read {
            place.listen(node, cx);
        } else {
            self.on_change(node, cx);
        }
    }

    fn on_change(&mut self, node: NodeId, cx: &mut Cx<'_>) {
        let (now, hedge_delay) = (cx.now(), cx.nodes.hedge_delay());
        let Some(waiter) = self.waiter() else {
            return;
        };
        let Place { ahead, leader, .. } = waiter.place;
        // Of many that ask all nodes at once, none gets a majority: the time that nodes name for those ahead has an end.
        let before = ahead.count / waiter.params.permits.max(1);
        let apart = (hedge_delay / 2).saturating_mul(before);
        // Longer each time: what tells them are the keys of others that have doubted it, too.
        let longer = hedge_delay * (1 << waiter.place.doubts.min(3));
        // The release may be on its way to the leader, or the others tell of the same.
        let soon = now.after(longer + apart.saturating_sub(ahead.time()));
        let Front::BackingOff(backoff) = &mut self.front else {
            if let Some(place) = self.place() {
                // The attempt may have asked the leader before the change.
                match leader == Some(node) {
                    true => place.has_changed = true,
                    false => place.doubts_by(soon),
                }
            }
            return;
        };
        let place = &mut backoff.waiter.place;
        let at = if leader == Some(node) {
            place.doubts = 0;
            place.doubts_from.take_if(|at| *at <= soon);
            now.after(backoff.waiter.asks_after())
        } else {
            place.doubts_by(soon);
            soon.after(place.ahead.time())
        };
        backoff.ask_by(at);
    }

    /// What a node that is to tell of changes has of the key.
    pub(super) fn on_awaited(&mut self, node: NodeId, reply: Option<Reply>, cx: &mut Cx<'_>) {
        if reply == Some(Reply::Taken) {
            // One of several readers may have gone before the node was to tell, and the others may be dead. Only an
            // attempt learns when their keys expire.
            if let Front::BackingOff(backoff) = &mut self.front
                && backoff.waiter.place.is_read
            {
                backoff.ask_by(cx.now().after(backoff::LONGEST_POLL_BEHIND));
            }
            return;
        }
        if let Some(place) = self.place() {
            // A node without the key tells of nothing: counted as one that tells, it would put off the next look.
            place.disarm(node);
        }
        if let Some(Reply::Free) = reply {
            self.on_change(node, cx);
        }
    }

    /// A node that was to tell of changes does not any more, or keeps the queue no more.
    pub(super) fn on_deaf(&mut self, node: NodeId, cx: &mut Cx<'_>) {
        let Some(place) = self.place() else {
            return;
        };
        let concerns = place.armed.contains(&node) || place.leader == Some(node);
        place.disarm(node);
        if let Front::BackingOff(backoff) = &mut self.front
            && concerns
        {
            // All waiters of the fleet lose the same node at the same moment.
            let pause = jitter(backoff::SHORTEST_POLL, cx.random());
            backoff.ask_by(cx.now().after(pause));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_told_of_nothing_looks_again_by_the_pace_of_those_ahead() {
        let millis = Duration::from_millis;
        let look_after = |count, pace: u64| {
            let place = Place {
                ahead: Ahead {
                    count,
                    ..Ahead::default()
                },
                pace: Some(millis(pace)),
                // Nothing has changed for long.
                looks: 9,
                ..Place::default()
            };
            place.look_after()
        };
        // Fast ones may give up as well, and so may one alone.
        for (count, pace) in [(1, 5_000), (2, 4), (2, 50), (40, 4)] {
            assert_eq!(look_after(count, pace), backoff::LONGEST_POLL_BEHIND);
        }
        assert_eq!(look_after(4, 150), millis(300));
        for (count, pace) in [(2, 5_000), (40, 300)] {
            assert_eq!(look_after(count, pace), backoff::LONGEST_LOOK);
        }
    }
}
