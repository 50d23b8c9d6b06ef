//! What must be true of every history.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    clock::Clock,
    node::index_of,
    plan::{KEYS, Profile},
    protocol::{Instant, LeaseId, NodeId, Owner, Reply, Request, RequestId, Token},
    store::Fenced,
};

/// A rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Invariant {
    /// Two leases of one key are never believed in at the same true time.
    Exclusion,
    /// Nobody writes over what it has not read.
    LostUpdate,
    /// A release or an extension touches no key but that of its own attempt.
    ForeignUnlock,
    /// Once a lease is over and its node can be reached, no key of it is left.
    Leak,
    /// Every question is answered in time, and only once, and none after the end.
    Answer,
    /// Whoever waits while all is calm gets the lock.
    WakeUp,
    /// Nothing of an owner is sent once its release has been.
    AfterRelease,
    /// What is granted is worth having.
    Validity,
    /// A lease that has ended is not extended.
    Revival,
    /// What is said of a release is true.
    Outcome,
    /// One of a process talks to the nodes, and it is the one who asked first.
    Line,
    /// Requests go out on connections that are up, and a connection is made where there is none.
    Connections,
    /// No two acquisitions of a key have one token, who asks after another was granted gets a larger
    /// one, and within a process so does whoever is granted later.
    Token,
    /// What the fenced store accepts is serial by holder, and no update is lost there.
    FencedStore,
    /// After the last fault everything comes to rest.
    Rest,
    /// A seed gives the same history again.
    Replay,
    Panic,
}

impl Invariant {
    pub(crate) const ALL: [Self; 17] = [
        Self::Exclusion,
        Self::LostUpdate,
        Self::ForeignUnlock,
        Self::Leak,
        Self::Answer,
        Self::WakeUp,
        Self::AfterRelease,
        Self::Validity,
        Self::Revival,
        Self::Outcome,
        Self::Line,
        Self::Connections,
        Self::Token,
        Self::FencedStore,
        Self::Rest,
        Self::Replay,
        Self::Panic,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Exclusion => "exclusion",
            Self::LostUpdate => "lost_update",
            Self::ForeignUnlock => "foreign_unlock",
            Self::Leak => "leak",
            Self::Answer => "answer",
            Self::WakeUp => "wake_up",
            Self::AfterRelease => "after_release",
            Self::Validity => "validity",
            Self::Token => "token",
            Self::FencedStore => "fenced_store",
            Self::Revival => "revival",
            Self::Outcome => "outcome",
            Self::Line => "line",
            Self::Connections => "connections",
            Self::Rest => "rest",
            Self::Replay => "replay",
            Self::Panic => "panic",
        }
    }

    /// Whether it must hold: all of them inside of the assumptions, and outside all but those
    /// that need them.
    pub(crate) const fn is_required(self, profile: Profile) -> bool {
        match profile {
            Profile::Inside => true,
            Profile::Outside => !matches!(self, Self::Exclusion | Self::LostUpdate),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Violation {
    pub(crate) invariant: Invariant,
    pub(crate) at: u64,
    pub(crate) what: String,
}

/// One attempt, as it was in truth: also where two of them carry the same owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag(u32);

impl Tag {
    /// Of requests about the node, or about another client's lock.
    const NONE: Self = Self(u32::MAX);
    /// Of the word that a node may vote again, with the counters of so many others that one of
    /// them is in every quorum that the node was part of.
    pub(crate) const RESEED: Self = Self(u32::MAX - 1);
}

/// A grant, in true times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    pub(crate) client: usize,
    pub(crate) token: Token,
    pub(crate) at: u64,
    /// From the first request.
    pub(crate) took: u64,
}

/// Who believes to hold a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Belief {
    pub(crate) client: usize,
    pub(crate) lease: LeaseId,
    /// By the client's clock.
    pub(crate) deadline: Instant,
}

#[derive(Debug, Default)]
pub(crate) struct Checker {
    /// Those of each key.
    grants: [Vec<Grant>; KEYS],
    owners: BTreeMap<u128, Attempted>,
    /// Leases of a client that have ended, and what became of their keys.
    ended: BTreeMap<(usize, LeaseId), Ended>,
    /// The last request of each client.
    sent: BTreeMap<usize, RequestId>,
    /// For how much longer than a lease needs it a key was asked for at the most.
    pub(crate) spare: Duration,
    believers: [Vec<Belief>; KEYS],
    /// The unfenced store: one number for each key.
    pub(crate) store: [u64; KEYS],
    pub(crate) fenced: [Fenced; KEYS],
    /// For each client and node: the other nodes that have told their counters since it said that
    /// its quarantine is over, and remembered them.
    tops: BTreeMap<(usize, usize), u8>,
    lines: BTreeMap<(usize, usize), Line>,
    tags: u32,
    nodes: usize,
}

/// What is known of an owner. The masks have a bit for each node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempted {
    pub(crate) client: usize,
    pub(crate) incarnation: u32,
    tag: Tag,
    /// The true time of the first request, or of the hand-over.
    pub(crate) began: u64,
    asked: u8,
    /// By the client's clock: when the key of the last request has expired at the latest.
    pub(crate) expires: u64,
    release_sent: bool,
    release_ran: u8,
    release_refused: u8,
    /// Have told the client that they have nothing of it.
    denied: u8,
    /// The last request to grant of each node.
    requests: [RequestId; 8],
    /// The last one that each has refused.
    refused: [RequestId; 8],
}

/// What nodes have said of the key of a lease since its end, by a mask each.
#[derive(Clone, Copy, Debug)]
struct Ended {
    owner: Owner,
    /// The last request that was sent before.
    after: Option<RequestId>,
    had_it: u8,
    did_not: u8,
}

/// The leases of one key in one process.
#[derive(Debug, Default)]
struct Line {
    /// In the order of asking.
    waiting: Vec<LeaseId>,
    /// The owner that the nodes may know, and those of them that were asked and not released.
    open: Option<(Owner, u8)>,
    /// The last that a lock was asked for.
    latest: Option<Owner>,
}

const fn bit(node: usize) -> u8 {
    1 << node
}

impl Checker {
    pub(crate) fn new(nodes: usize) -> Self {
        Self {
            nodes,
            ..Self::default()
        }
    }

    // ---- belief

    /// The other lease that is believed in at the same time, if there is one.
    pub(crate) fn believe(
        &mut self,
        key: usize,
        belief: Belief,
        at: u64,
        clock: impl Fn(usize) -> Clock,
    ) -> Option<Belief> {
        let believers = &mut self.believers[key];
        believers.retain(|other| other.lease != belief.lease || other.client != belief.client);
        believers.retain(|other| clock(other.client).read(at) < other.deadline.as_nanos());
        let other = believers.first().copied();
        believers.push(belief);
        other
    }

    /// False if the lease was not believed in any more.
    pub(crate) fn extend(
        &mut self,
        key: usize,
        client: usize,
        lease: LeaseId,
        deadline: Instant,
        now: u64,
    ) -> bool {
        let belief = self.believers[key]
            .iter_mut()
            .find(|belief| belief.client == client && belief.lease == lease);
        let Some(belief) = belief.filter(|belief| now < belief.deadline.as_nanos()) else {
            return false;
        };
        belief.deadline = deadline;
        true
    }

    pub(crate) fn disbelieve(&mut self, key: usize, client: usize, lease: LeaseId) {
        self.believers[key].retain(|belief| belief.client != client || belief.lease != lease);
    }

    /// Everything of a process that is no more.
    pub(crate) fn forget_client(&mut self, client: usize) {
        for believers in &mut self.believers {
            believers.retain(|belief| belief.client != client);
        }
        self.lines.retain(|&(owner, _), _| owner != client);
        self.ended.retain(|&(owner, _), _| owner != client);
        self.sent.remove(&client);
        self.tops.retain(|&(owner, _), _| owner != client);
    }

    /// Looks at the token of a grant to a question that was asked at the true time `asked`. The
    /// other grants with which it is out of order.
    pub(crate) fn on_token(&mut self, key: usize, grant: Grant, asked: u64) -> Vec<Grant> {
        let grants = &mut self.grants[key];
        // In a process also of those who asked before: its line hands the lock on in order.
        let is_wrong = |other: &&Grant| {
            let came_before = other.at < asked || other.client == grant.client;
            other.token == grant.token || came_before && other.token > grant.token
        };
        let wrong = grants.iter().filter(is_wrong).copied().collect();
        grants.push(grant);
        wrong
    }

    /// Looks at what a node has told a client about itself and others.
    pub(crate) fn on_reply(&mut self, client: usize, node: NodeId, reply: &Reply, remembers: bool) {
        match reply {
            Reply::Served => {
                self.tops.insert((client, node.0), 0);
            }
            Reply::Top { .. } if remembers => {
                for (_, heard) in self.tops.range_mut((client, 0)..(client + 1, 0)) {
                    *heard |= bit(node.0);
                }
            }
            _ => {}
        }
    }

    fn reseed(&self, client: usize, node: usize) -> Tag {
        let heard = self.tops.get(&(client, node)).copied().unwrap_or(0) & !bit(node);
        // Of an even set one more than a majority lacks.
        let enough = self.nodes - (self.nodes / 2 + 1) + 1;
        if heard.count_ones() as usize >= enough {
            Tag::RESEED
        } else {
            Tag::NONE
        }
    }

    pub(crate) fn believes(&self, client: usize, now: u64) -> bool {
        let mut all = self.believers.iter().flatten();
        all.any(|belief| belief.client == client && now < belief.deadline.as_nanos())
    }

    // ---- requests

    /// Looks at a request that is about to be sent. `now` is the client's clock, and `at` the true
    /// time.
    pub(crate) fn on_send(
        &mut self,
        (client, incarnation): (usize, u32),
        node: usize,
        (id, request): (RequestId, &Request),
        with_source: bool,
        (now, at): (u64, u64),
    ) -> (Tag, Option<(Invariant, String)>) {
        self.sent.insert(client, id);
        let (key, owner) = match request {
            Request::Acquire { key, owner, .. }
            | Request::Confirm { key, owner, .. }
            | Request::Extend { key, owner, .. }
            | Request::Watch {
                key,
                owner: Some(owner),
            }
            | Request::Release { key, owner, .. } => (key, owner),
            // About the node, or about another client's lock.
            Request::Admit { floor: Some(_), .. } => return (self.reseed(client, node), None),
            Request::Admit { .. }
            | Request::Identify
            | Request::Top
            | Request::Watch { owner: None, .. } => {
                return (Tag::NONE, None);
            }
        };
        let line = self.lines.entry((client, index_of(key))).or_default();
        let next = Tag(self.tags);
        let attempted = self.owners.entry(owner.0).or_insert_with(|| {
            self.tags += 1;
            Attempted::new((client, incarnation), next, at)
        });
        let mut broken = None;
        match request {
            Request::Acquire { ttl, .. } | Request::Extend { ttl, .. }
                if attempted.release_sent =>
            {
                let what = format!("client {client} sends {request:?} after its release");
                broken = Some((Invariant::AfterRelease, what));
                let expires = now + ttl.as_nanos() as u64;
                if matches!(request, Request::Acquire { .. }) && !with_source {
                    // Another attempt under the same owner.
                    let next = Tag(self.tags);
                    self.tags += 1;
                    *attempted = Attempted::new((client, incarnation), next, at);
                }
                attempted.expires = expires;
            }
            Request::Acquire {
                ttl, handed_over, ..
            } => {
                let spare = handed_over.unwrap_or_default();
                self.spare = self.spare.max(spare);
                attempted.expires = now + (*ttl + spare).as_nanos() as u64;
                attempted.asked |= bit(node);
                attempted.denied &= !bit(node);
                attempted.requests[node] = id;
                line.latest = Some(*owner);
                match &mut line.open {
                    Some((open, nodes)) if open == owner => *nodes |= bit(node),
                    Some((open, _)) => {
                        let what = format!(
                            "client {client} asks for {owner:?} while {open:?} is not released"
                        );
                        broken = Some((Invariant::Line, what));
                    }
                    None => line.open = Some((*owner, bit(node))),
                }
            }
            Request::Extend { ttl, .. } => attempted.expires = now + ttl.as_nanos() as u64,
            Request::Confirm { .. } | Request::Watch { .. } if attempted.release_sent => {
                let what = format!("client {client} sends {request:?} after its release");
                broken = Some((Invariant::AfterRelease, what));
            }
            Request::Confirm { .. } | Request::Watch { .. } => {}
            Request::Admit { .. } | Request::Identify | Request::Top => {}
            Request::Release { .. } => {
                attempted.release_sent = true;
                if line.open.is_some_and(|(open, _)| open == *owner) {
                    line.open = None;
                }
            }
        }
        (attempted.tag, broken)
    }

    /// A client hears that a node has nothing of an owner: there is nothing to release.
    pub(crate) fn denied(&mut self, node: usize, owner: Owner, asked: RequestId) {
        let Some(attempted) = self.owners.get_mut(&owner.0) else {
            return;
        };
        if attempted.requests[node] != asked {
            return;
        }
        attempted.denied |= bit(node);
        for line in self.lines.values_mut() {
            if let Some((open, nodes)) = line.open
                && open == owner
            {
                let left = nodes & !bit(node);
                line.open = (left != 0).then_some((open, left));
            }
        }
    }

    /// A node does not hear of the requests of a connection that is gone: its release has to
    /// wait, and nobody in the line waits for that.
    pub(crate) fn link_down(&mut self, client: usize, node: usize) {
        for (_, line) in self.lines.range_mut((client, 0)..(client + 1, 0)) {
            if let Some((owner, nodes)) = line.open {
                let left = nodes & !bit(node);
                line.open = (left != 0).then_some((owner, left));
            }
        }
    }

    /// A node refuses.
    pub(crate) fn refused(&mut self, node: usize, owner: Owner, request: RequestId) {
        if let Some(attempted) = self.owners.get_mut(&owner.0) {
            attempted.refused[node] = request;
        }
    }

    /// A request to grant comes when a later one, for the same owner, has been refused, or when the
    /// release has been there.
    pub(crate) fn is_overtaken(&self, node: usize, owner: Owner, request: RequestId) -> bool {
        self.owners.get(&owner.0).is_some_and(|attempted| {
            attempted.release_ran & bit(node) != 0 || request < attempted.refused[node]
        })
    }

    /// A node says whether it had the key of this owner still, to a release or to a request for a
    /// lock that is handed over.
    pub(crate) fn on_word(&mut self, node: usize, owner: Owner, asked: RequestId, had_it: bool) {
        let is_meant = |ended: &&mut Ended| ended.owner == owner && ended.after < Some(asked);
        for ended in self.ended.values_mut().filter(is_meant) {
            // A node may say both, if a request comes late on another connection.
            let mask = if had_it {
                &mut ended.had_it
            } else {
                &mut ended.did_not
            };
            *mask |= bit(node);
        }
    }

    /// A lease ends. Its owner may be that of another one next.
    pub(crate) fn end(&mut self, client: usize, lease: LeaseId, owner: Owner, at: u64) {
        if let Some(attempted) = self.owners.get_mut(&owner.0) {
            attempted.began = at;
            let ended = Ended {
                owner,
                after: self.sent.get(&client).copied(),
                had_it: 0,
                did_not: attempted.denied | !attempted.asked,
            };
            self.ended.insert((client, lease), ended);
        }
    }

    pub(crate) fn release_ran(
        &mut self,
        node: usize,
        owner: Owner,
        asked: RequestId,
        reply: &Reply,
    ) {
        let Some(attempted) = self.owners.get_mut(&owner.0) else {
            return;
        };
        match reply {
            Reply::NoScript => return,
            Reply::Failed(_) => attempted.release_refused |= bit(node),
            _ => {}
        }
        attempted.release_ran |= bit(node);
        if !matches!(reply, Reply::Failed(_)) {
            self.on_word(node, owner, asked, *reply == Reply::Deleted);
        }
    }

    /// How many nodes have said that the key was still there after the end of a lease, and how many
    /// that it was not.
    pub(crate) fn end_in_truth(&mut self, client: usize, lease: LeaseId) -> Option<(usize, usize)> {
        let ended = self.ended.remove(&(client, lease))?;
        let all = (1_u16 << self.nodes) as u8 - 1;
        let count = |mask: u8| (mask & all).count_ones() as usize;
        Some((count(ended.had_it), count(ended.did_not)))
    }

    pub(crate) fn attempted(&self, owner: Owner) -> Option<&Attempted> {
        self.owners.get(&owner.0)
    }

    // ---- lines

    pub(crate) fn ask(&mut self, client: usize, key: usize, lease: LeaseId) {
        let line = self.lines.entry((client, key)).or_default();
        line.waiting.push(lease);
    }

    /// A lease waits no longer. True if it was the one who had asked first.
    pub(crate) fn leave(&mut self, client: usize, key: usize, lease: LeaseId) -> bool {
        let line = self.lines.entry((client, key)).or_default();
        let first = line.waiting.first() == Some(&lease);
        line.waiting.retain(|&waiting| waiting != lease);
        first
    }

    pub(crate) fn latest_owner(&self, client: usize, key: usize) -> Option<Owner> {
        self.lines.get(&(client, key))?.latest
    }

    /// A lease was lost under its holder, who has not let go yet: the line goes on.
    pub(crate) fn over(&mut self, client: usize, key: usize) {
        if let Some(line) = self.lines.get_mut(&(client, key)) {
            line.open = None;
        }
    }
}

impl Attempted {
    const fn new((client, incarnation): (usize, u32), tag: Tag, began: u64) -> Self {
        Self {
            client,
            incarnation,
            tag,
            began,
            asked: 0,
            expires: 0,
            release_sent: false,
            release_ran: 0,
            release_refused: 0,
            denied: 0,
            requests: [RequestId(0); 8],
            refused: [RequestId(0); 8],
        }
    }

    /// The node was told to release it, and answered with an error.
    pub(crate) const fn is_refused_by(&self, node: usize) -> bool {
        self.release_refused & bit(node) != 0
    }
}
