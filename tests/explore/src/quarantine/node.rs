//! Nodes: keys, what they know of their vote, and how they lose it.

use std::time::Duration;

use redlock_protocol::{LONGEST_ROUND, Record, rules::quarantine::Readings};

use super::{
    LastMarker, Move, Mutant, Quarantine, READERS, State, Take,
    loss::{Loss, Uptime},
};
use crate::search::Step;

/// A server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Node {
    pub(super) standing: Standing,
    /// Who has the key, by place from one; zero is none. And for how long it still lives.
    pub(super) owner: u8,
    pub(super) lives_for: u8,
    /// Whose rounds have its vote, a bit for each client.
    pub(super) votes: u8,
    /// For how long it remembers to have granted each of the two leases: as long as their keys live, as the test of
    /// `redlock_protocol::model` shows.
    pub(super) knows: [u8; 2],
    /// What it comes back with if it is restarted.
    pub(super) saved: Saved,
    /// What each reader has of it.
    pub(super) marks: [Mark; READERS],
}

/// How it stands with its vote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Standing {
    /// Its marker is its own.
    #[default]
    Votes,
    /// It was restarted with old data: the marker is that of another process.
    Restored(Uptime),
    /// It has nothing.
    Empty,
    /// Its loss is noted.
    Lost(Loss),
}

/// A snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Saved {
    pub(super) is_there: bool,
    pub(super) owner: u8,
    pub(super) lives_for: u8,
    /// It was written while the node was out.
    pub(super) loss: Option<Loss>,
}

/// What a reader has of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Mark {
    #[default]
    Nothing,
    /// Its record.
    Read,
    /// It is the node to be let in again, for the loss that is noted there now.
    Target,
    /// It was, but that loss is not the last one any more.
    OldTarget,
}

impl Node {
    pub(super) fn new(standing: Standing) -> Self {
        Self {
            standing,
            ..Self::default()
        }
    }

    pub(super) fn has_vote(&self) -> bool {
        self.standing == Standing::Votes
    }

    /// Its own, or that of another process.
    fn has_marker(&self) -> bool {
        matches!(self.standing, Standing::Votes | Standing::Restored(_))
    }

    /// A marker stands there, or a note of one that may have gone since.
    fn shows_use(&self) -> bool {
        self.has_marker() || self.loss().is_some_and(|loss| loss.beside_marker)
    }

    pub(super) const fn loss(&self) -> Option<Loss> {
        match self.standing {
            Standing::Lost(loss) => Some(loss),
            _ => None,
        }
    }

    /// Without marker, and its loss was not found beside one.
    pub(super) fn is_new(&self, mutant: Option<Mutant>) -> bool {
        let ignores = mutant == Some(Mutant::FirstStartBesideMarker);
        self.loss()
            .is_some_and(|loss| !loss.beside_marker || ignores)
    }

    /// Time goes on. Nothing differs for losses that are older than `oldest`.
    pub(super) fn tick(&mut self, oldest: u8) {
        let pass = |lives_for: &mut u8, owner: &mut u8| {
            *lives_for = lives_for.saturating_sub(1);
            if *lives_for == 0 {
                *owner = 0;
            }
        };
        pass(&mut self.lives_for, &mut self.owner);
        pass(&mut self.saved.lives_for, &mut self.saved.owner);
        for knows in &mut self.knows {
            *knows = knows.saturating_sub(1);
        }
        match &mut self.standing {
            Standing::Lost(loss) => {
                loss.age = oldest.min(loss.age + 1);
                loss.uptime.tick(oldest);
            }
            Standing::Restored(uptime) => uptime.tick(oldest),
            Standing::Votes | Standing::Empty => {}
        }
        if let Some(loss) = &mut self.saved.loss {
            loss.age = oldest.min(loss.age + 1);
        }
    }

    /// Another loss, or none: what was found out about the last one does not hold for it.
    fn stand(&mut self, standing: Standing) {
        self.standing = standing;
        for mark in &mut self.marks {
            if *mark == Mark::Target {
                *mark = Mark::OldTarget;
            }
        }
    }
}

impl<const N: usize> Quarantine<N> {
    /// A key TTL was granted. It is remembered for as long as the longest one lives.
    pub(super) fn note_ttl(&self, node: &mut Node, ttl: u8) {
        let for_ticks = self.longest() - u8::from(self.has(Mutant::LongestForgotten));
        node.knows[usize::from(ttl == self.longest())] = for_ticks;
    }

    /// The longest key TTL that it knows to have granted.
    const fn longest_of(&self, node: &Node) -> u8 {
        match node.knows {
            [0, 0] => 0,
            [_, 0] => self.leases[0],
            _ => self.leases[1],
        }
    }

    const fn ticks(&self, ticks: u8) -> Duration {
        LONGEST_ROUND
            .saturating_mul(ticks as u32)
            .checked_div(self.round as u32)
            .unwrap()
    }

    /// Takes in the record of another node.
    pub(super) fn record(&self, node: &Node) -> Option<u8> {
        let counts = node.has_vote() || self.has(Mutant::ForgetfulRead);
        counts.then(|| self.longest_of(node))
    }

    /// How long a node stays out after its loss was noted: the protocol's decision on these records
    /// of others.
    pub(super) fn wait(&self, longest_of_others: &[u8]) -> u8 {
        let mut readings = Readings::new(N);
        for &longest in longest_of_others {
            readings.add(&Record {
                longest: self.ticks(longest),
                ..Record::default()
            });
        }
        if self.has(Mutant::TooFewRead) && !longest_of_others.is_empty() {
            readings.add(&Record::default());
        }
        if self.has(Mutant::NoWait) {
            return 0;
        }
        let wait = readings.wait(self.ticks(self.longest()));
        wait.as_nanos().div_ceil(self.ticks(1).as_nanos()) as u8
    }

    /// When other nodes may be read that tell how long a node must stay out.
    pub(super) const fn read_from(&self) -> u8 {
        match self.mutant {
            Some(Mutant::ReadAtOnce) => 0,
            Some(Mutant::ReadOneRoundAfter) => self.round,
            _ => self.round + 1,
        }
    }

    pub(super) fn node(&self, state: &State<N>, node: usize, take: Take<'_, N>) {
        let this = &state.nodes[node];
        if state.losses < self.losses && self.may_lose(state, node) {
            let mut next = *state;
            next.count_loss(self.losses);
            let this = &mut next.nodes[node];
            (this.owner, this.lives_for, this.knows) = (0, 0, [0; 2]);
            this.stand(if self.has(Mutant::SwappedMarkerCounts) {
                Standing::Votes
            } else {
                Standing::Empty
            });
            take(Step::new(Move::Lose { node }, next));
        }
        if matches!(this.standing, Standing::Restored(_) | Standing::Empty) {
            let mut next = *state;
            let is_used = state.others(node).any(Node::shows_use);
            self.note(&mut next, node, is_used);
            if let Standing::Lost(loss) = &mut next.nodes[node].standing
                && self.has(Mutant::NoteForgotten)
            {
                loss.beside_marker = this.has_marker() || state.others(node).any(Node::has_marker);
            }
            take(Step::new(Move::Note { node }, next));
            take(Step::change(state, Move::NoteAlone { node }, |next| {
                self.note(next, node, false)
            }));
        }
        if self.snapshots > 0 {
            self.snapshot(state, node, take);
        }
        if let Some(loss) = this.loss() {
            self.note_later(state, node, loss, take);
            self.admit(state, node, loss, take);
        }
    }

    /// A client that knows better than the one that noted the loss.
    fn note_later(&self, state: &State<N>, node: usize, loss: Loss, take: Take<'_, N>) {
        if loss.is_seen || !state.others(node).any(Node::shows_use) {
            return;
        }
        let mut next = *state;
        next.nodes[node].standing = Standing::Lost(Loss {
            is_seen: true,
            beside_marker: !self.has(Mutant::LaterMarkerNotNoted),
            ..loss
        });
        take(Step::new(Move::NoteBeside { node }, next));
    }

    fn may_lose(&self, state: &State<N>, node: usize) -> bool {
        let this = &state.nodes[node];
        let beside_marker = state.others(node).any(Node::has_marker);
        let is_noted = |node: &Node| node.loss().is_some_and(|loss| loss.is_seen);
        let knows_nothing = !this.has_marker() && !is_noted(this);
        match self.last_marker {
            _ if this.standing == Standing::Empty => false,
            _ if beside_marker || knows_nothing => true,
            LastMarker::GoesOnceNoted => state.others(node).any(is_noted),
            LastMarker::Goes => true,
        }
    }

    /// The loss is found. A marker of another process is deleted.
    fn note(&self, next: &mut State<N>, node: usize, beside_marker: bool) {
        let had_marker = next.nodes[node].has_marker() && !self.has(Mutant::OwnMarkerForgotten);
        let uptime = match next.nodes[node].standing {
            Standing::Restored(uptime) => uptime,
            _ if self.has(Mutant::UptimeOfTheFlushed) => Uptime(self.longest() + 1),
            _ => Uptime::default(),
        };
        let loss = Loss {
            uptime,
            is_seen: beside_marker || had_marker,
            beside_marker: beside_marker || had_marker,
            is_first_start: self.has(Mutant::FirstStartOfOne) && !beside_marker,
            ..Loss::default()
        };
        next.nodes[node].stand(Standing::Lost(loss));
        let new = next.nodes.iter().filter(|node| node.is_new(self.mutant));
        let least = N - usize::from(self.has(Mutant::FirstStartOfMost));
        if new.count() < least {
            return;
        }
        for node in &mut next.nodes {
            if let Standing::Lost(loss) = &mut node.standing {
                loss.is_first_start = true;
            }
        }
    }

    fn snapshot(&self, state: &State<N>, node: usize, take: Take<'_, N>) {
        let this = &state.nodes[node];
        let loss = this.loss();
        if state.snapshots < self.snapshots && (this.has_vote() || loss.is_some()) {
            let mut next = *state;
            next.snapshots += 1;
            next.nodes[node].saved = Saved {
                is_there: true,
                owner: this.owner,
                lives_for: this.lives_for,
                loss,
            };
            take(Step::new(Move::Save { node }, next));
        }
        let keeps_marker = this.saved.loss.is_none();
        let may_lose = keeps_marker || self.may_lose(state, node);
        if state.losses < self.losses && this.saved.is_there && may_lose {
            let mut next = *state;
            next.count_loss(self.losses);
            let this = &mut next.nodes[node];
            let saved = this.saved;
            (this.owner, this.lives_for, this.knows) = (saved.owner, saved.lives_for, [0; 2]);
            this.stand(match saved.loss {
                // The loss names the process that was there when it was found.
                Some(_) if !self.has(Mutant::OldLossCounts) => Standing::Empty,
                Some(loss) => Standing::Lost(loss),
                None => Standing::Restored(Uptime::NEW),
            });
            take(Step::new(Move::Restore { node }, next));
        }
    }

    /// A client that reads all others at once, or that goes by the first start of all.
    fn admit(&self, state: &State<N>, node: usize, loss: Loss, take: Take<'_, N>) {
        if loss.is_first_start && loss.is_over(self.leases[0]) {
            take(Step::change(state, Move::AdmitFirst { node }, |next| {
                next.admit(node)
            }));
        }
        // It may read as few of them as it takes: those that have granted the least.
        let records = state.others(node).filter_map(|other| self.record(other));
        let mut records: Vec<u8> = records.collect();
        records.sort_unstable();
        let waits = (0..=records.len()).map(|few| self.wait(&records[..few]));
        let by_records = loss.age >= self.read_from();
        let wait = waits
            .filter(|&wait| by_records || wait >= self.longest())
            .min();
        if wait.is_some_and(|wait| loss.is_over(wait)) {
            take(Step::change(state, Move::Admit { node }, |next| {
                next.admit(node)
            }));
        }
    }
}

impl<const N: usize> State<N> {
    fn others(&self, node: usize) -> impl Iterator<Item = &Node> {
        let nodes = self.nodes.iter().enumerate();
        let others = nodes.filter(move |&(other, _)| other != node);
        others.map(|(_, other)| other)
    }

    fn count_loss(&mut self, most: u8) {
        if most != super::ANY_NUMBER {
            self.losses += 1;
        }
    }

    /// The node votes again, and knows nothing of what it granted before.
    pub(super) fn admit(&mut self, node: usize) {
        self.nodes[node].stand(Standing::Votes);
    }
}
