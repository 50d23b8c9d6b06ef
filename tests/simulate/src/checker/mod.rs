//! What must be true of every history, and what has to be known to tell.

mod belief;
mod owners;
mod tokens;

use std::{collections::HashMap, time::Duration};

use redlock_protocol::{Owner, RequestId, SectionId, Token};

use self::tokens::{Grants, Vote};
pub(crate) use self::{
    belief::Belief,
    owners::{Attempted, Sender, Tag, is_acquire, owner_of},
    tokens::{Grant, WrongToken},
};
use crate::{kinds, names::KEYS, plan::Profile};

kinds! {
    /// A rule.
    Rule {
        /// Two leases of one key are never believed in at the same true time.
        Exclusion = "exclusion",
        /// A lock that is to be kept for some time is nobody's again before.
        Period = "period",
        /// A release or an extension touches no key but that of its own attempt.
        ForeignUnlock = "foreign_unlock",
        /// Once a lease is over and its node can be reached, no key of it is left.
        Leak = "leak",
        /// Every question is answered in time, and only once, and none after the end.
        Answer = "answer",
        /// Who waits while all is calm gets the lock.
        WakeUp = "wake_up",
        /// Nothing of an owner is sent once its release has been.
        AfterRelease = "after_release",
        /// What is granted is worth having.
        Validity = "validity",
        /// A lease that has ended is not extended.
        Revival = "revival",
        /// What is said of a release is true.
        Outcome = "outcome",
        /// One of a process talks to the nodes, and it is the one that asked first.
        Line = "line",
        /// While all is calm, no fair caller passes one of another process that asked before it.
        Order = "order",
        /// Requests go out on connections that are up, and a connection is made where there is none.
        Connections = "connections",
        /// Tokens are unique and rise as promised, and a majority has reported each of them.
        Token = "token",
        /// A holder that can be told is told at once when no majority has its key any more.
        Loss = "loss",
        /// A lease is not called lost while a majority keeps its key.
        Endurance = "endurance",
        /// A node that has lost its memory votes again in time, and a sound one is not barred.
        Vote = "vote",
        /// The messages that locks, waiting and idleness cost are bounded.
        Cost = "cost",
        /// No caller waits for a lock that is free, and of those that ask at once one wins.
        Liveness = "liveness",
        /// After the last fault everything comes to rest.
        Rest = "rest",
        /// A seed gives the same history again.
        Replay = "replay",
        Panic = "panic",
    }
}

impl Rule {
    /// Whether it must hold: all of them inside of the assumptions, and outside all but those
    /// that need them.
    pub(crate) const fn is_required(self, profile: Profile) -> bool {
        let needs_them = matches!(self, Self::Exclusion | Self::Period);
        matches!(profile, Profile::Inside) || !needs_them
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Violation {
    pub(crate) rule: Rule,
    pub(crate) at: u64,
    pub(crate) what: String,
}

impl Violation {
    /// Of a history as a whole.
    pub(crate) fn of_all(rule: Rule, what: impl Into<String>) -> Self {
        let (at, what) = (0, what.into());
        Self { rule, at, what }
    }
}

/// A rule that was broken, and how.
pub(crate) type Broken = (Rule, String);

#[derive(Debug, Default)]
pub(crate) struct Checker {
    nodes: usize,
    /// Those of each key.
    grants: [Grants; KEYS],
    owners: HashMap<u128, Attempted>,
    clients: Vec<Process>,
    /// For how much longer than a lease needs it a key was asked for at the most.
    pub(crate) spare: Duration,
    believers: [Vec<Belief>; KEYS],
    /// When each key may be somebody's again, by the true time.
    pub(crate) kept_until: [u64; KEYS],
    tags: u32,
}

/// What is known of one process.
#[derive(Debug, Default)]
struct Process {
    lines: [Line; KEYS],
    /// Its last request.
    sent: Option<RequestId>,
    /// Its sections that have ended and wait to hear what became of their keys.
    ended: Vec<Ended>,
    /// What nodes told it last about themselves.
    readings: [Reading; 8],
}

/// What a node has told about itself.
#[derive(Clone, Copy, Debug, Default)]
struct Reading {
    /// When it said so.
    at: u64,
    /// It votes and has forgotten nothing.
    is_good: bool,
}

/// What nodes have said of the key of a section since its end, by a mask each.
#[derive(Clone, Copy, Debug)]
struct Ended {
    section: SectionId,
    owner: Owner,
    /// The last request that was sent before.
    after: Option<RequestId>,
    had_it: u8,
    did_not: u8,
}

/// The sections of one key in one process.
#[derive(Debug, Default)]
struct Line {
    /// In the order of asking.
    waiting: Vec<SectionId>,
    /// The owner that the nodes may know, and those of them that were asked and not released.
    open: Option<(Owner, u8)>,
    /// Turns of which some section is over and had not let go: they are released only then.
    stuck: Vec<Owner>,
    /// The last that a lock was asked for.
    latest: Option<Owner>,
    /// The blocks of tokens that nodes have reported.
    votes: Vec<Vote>,
    /// The last token that was handed out, and under which owner.
    handed_out: Option<(Owner, Token)>,
}

pub(crate) const fn bit(node: usize) -> u8 {
    1 << node
}

impl Checker {
    pub(crate) fn new(nodes: usize) -> Self {
        Self {
            nodes,
            ..Self::default()
        }
    }

    /// A process begins in this place, and what another one there had is no more.
    pub(crate) fn new_process(&mut self, client: usize) {
        for believers in &mut self.believers {
            believers.retain(|belief| belief.client != client);
        }
        match self.clients.get_mut(client) {
            Some(place) => *place = Process::default(),
            None => self.clients.push(Process::default()),
        }
    }

    // ---- what nodes say of themselves

    /// A node's record has come to a client, as the node was at `at`.
    pub(crate) fn on_reading(&mut self, client: usize, node: usize, at: u64, is_good: bool) {
        self.clients[client].readings[node] = Reading { at, is_good };
    }

    /// The true time of the record of a node that a client has read last.
    pub(crate) fn read_at(&self, client: usize, node: usize) -> u64 {
        self.clients[client].readings[node].at
    }

    /// Whether a client that admits a node knows the counters of so many others, read since then,
    /// that one of them is in every majority that the node was part of.
    fn knows_floor(&self, client: usize, node: usize, since: u64) -> bool {
        let enough = self.nodes - (self.nodes / 2 + 1) + 1;
        let readings = self.clients[client].readings.iter().enumerate();
        let good = readings
            .filter(|&(other, reading)| other != node && reading.is_good && reading.at >= since);
        good.count() >= enough
    }

    // ---- ends

    /// A section ends, and its caller wants to know what became of it.
    pub(crate) fn end(&mut self, client: usize, section: SectionId, owner: Owner) {
        if let Some(attempted) = self.owners.get(&owner.0) {
            let did_not = attempted.denied | !attempted.asked;
            let process = &mut self.clients[client];
            let after = process.sent;
            process.ended.push(Ended {
                section,
                owner,
                after,
                had_it: 0,
                did_not,
            });
        }
    }

    /// A node has told a client, in the reply to this request, whether it had the key of this owner.
    pub(crate) fn on_word(
        &mut self,
        client: usize,
        node: usize,
        owner: Owner,
        asked: RequestId,
        had_it: bool,
    ) {
        let Some(process) = self.clients.get_mut(client) else {
            return;
        };
        // What was sent before the end tells that a key is gone, but not that it has been there.
        let is_meant =
            |ended: &&mut Ended| ended.owner == owner && (!had_it || ended.after < Some(asked));
        for ended in process.ended.iter_mut().filter(is_meant) {
            // A node may say both, if a request comes late on another connection.
            let mask = if had_it {
                &mut ended.had_it
            } else {
                &mut ended.did_not
            };
            *mask |= bit(node);
        }
    }

    /// How many nodes have said that the key was still there after the end of a section, and how many
    /// that it was not. Of several keys, the fewest and the most.
    pub(crate) fn end_in_truth(
        &mut self,
        client: usize,
        section: SectionId,
    ) -> Option<(usize, usize)> {
        let all = (1_u16 << self.nodes) as u8 - 1;
        let count = |mask: u8| (mask & all).count_ones() as usize;
        let ended = &mut self.clients[client].ended;
        let of_section = ended.extract_if(.., |ended| ended.section == section);
        let said = of_section.map(|ended| {
            // Some may have refused to make a key only after the end.
            let denied = self.owners.get(&ended.owner.0).map_or(0, |one| one.denied);
            (count(ended.had_it), count(ended.did_not | denied))
        });
        said.reduce(|(had_it, did_not), other| (had_it.min(other.0), did_not.max(other.1)))
    }

    // ---- lines

    pub(crate) fn ask(&mut self, client: usize, key: usize, section: SectionId) {
        self.clients[client].lines[key].waiting.push(section);
    }

    /// A section waits no longer. True if it was the one that had asked first.
    pub(crate) fn leave(&mut self, client: usize, key: usize, section: SectionId) -> bool {
        let waiting = &mut self.clients[client].lines[key].waiting;
        let first = waiting.first() == Some(&section);
        waiting.retain(|&waiting| waiting != section);
        first
    }

    /// How many processes wait for it.
    pub(crate) fn waiting(&self, key: usize) -> usize {
        let processes = self.clients.iter();
        let waiting = processes.filter(|process| !process.lines[key].waiting.is_empty());
        waiting.count()
    }

    pub(crate) fn latest_owner(&self, client: usize, key: usize) -> Option<Owner> {
        self.clients[client].lines[key].latest
    }

    /// The process asks for the key under one owner and has not released that of another one, who has
    /// let go.
    pub(crate) fn is_unreleased(&self, client: usize, key: usize) -> bool {
        let line = &self.clients[client].lines[key];
        line.open
            .is_some_and(|(open, _)| line.latest != Some(open) && !line.stuck.contains(&open))
    }

    /// A lease was lost under its holder, who has not let go yet: the line goes on.
    pub(crate) fn over(&mut self, client: usize, key: usize, owner: Option<Owner>) {
        let line = &mut self.clients[client].lines[key];
        line.open = None;
        line.stuck.extend(owner);
    }
}
