//! Which nodes may vote: not one that may have forgotten what it granted.
//!
//! A node that lost its memory must not vote until every lock it may have forgotten has run out,
//! or it would grant a second time what is still held. Three tripwires find it out, each where
//! another has a hole:
//! - the *marker* under `redlock:node` names the process that was admitted. Acquire and extend
//!   compare it with the process the client believes to speak to, so an empty restart, an old
//!   snapshot, a flush or a swap of databases gives no vote.
//! - *no script*: the script cache lives and dies with the process. A node that has lost it, be it
//!   by a flush of scripts or because another server has taken its address, is asked anew who it
//!   is before it votes.
//! - the *quarantine key*, set by the first client that notices and seen by all.
//!
//! A quarantine is as long as the longest key lives. When it is over the node's counters start
//! from the highest of a quorum of other nodes, so that fencing tokens go on growing: not sooner,
//! because until then an acquisition may complete that had counted a grant which was forgotten.
//! Where so many nodes are new that there is no such quorum, tokens rest on the clients' wall
//! clocks alone.

use std::{sync::Arc, time::Duration};

use super::{
    Action, NodeState, Protocol, Vote,
    message::{Facts, Fault, NodeId, Reply, Request, Token},
    quorum,
    time::Instant,
    wire::{Purpose, Sent},
};

/// Servers that are started together have all been admitted within this time.
const FIRST_START: Duration = Duration::from_secs(10);

/// How far a node's admission has come.
#[derive(Debug, Default)]
pub(super) struct Admission {
    facts: Facts,
    /// Since when it is known to have voted.
    known_since: Option<Instant>,
    /// The first start of all was some time ago when this client came.
    was_admitted_by_others: bool,
    /// This client has heard that its quarantine is over.
    has_served: bool,
    reseed: Option<Reseed>,
    /// At the last renewal its clock had run ahead by too much to go on like this.
    pub(super) clock_is_fast: bool,
    /// It has no vote until then, because its clock has run so far ahead.
    pub(super) set_aside: Option<(Duration, Instant)>,
    /// This process, where it tells, is not to vote before then by our own clock: the node's may
    /// have stepped since.
    quarantined: Option<(Option<Arc<str>>, Instant)>,
}

/// Reading the counters of other nodes.
#[derive(Debug, Default)]
struct Reseed {
    asked: Vec<NodeId>,
    answered: usize,
    heard: usize,
    highest: Token,
}

impl Protocol {
    /// A connection is up: may the node vote?
    pub(super) fn begin_admission(&mut self, node: NodeId, facts: Facts, now: Instant) {
        self.admissions[node.0].facts = facts;
        self.releases.on_connected(&mut self.wire, node, now);
        self.ask_admission(node, None, now);
    }

    /// Asks anew: the process behind the connection may be another one than it was.
    pub(super) fn verify(&mut self, node: NodeId, now: Instant) {
        self.wire.on_verifying(node);
        self.wire
            .send(node, Purpose::Verify, Request::Identify, now);
    }

    /// A quarantine is over, as far as this client knows.
    pub(super) fn end_quarantine(&mut self, node: NodeId, now: Instant) {
        self.wire.on_verifying(node);
        self.ask_admission(node, None, now);
    }

    pub(super) fn on_verified(&mut self, node: NodeId, reply: Reply, now: Instant) {
        match reply {
            Reply::Identity { server } => {
                self.wire.on_identity(node, server);
                self.ask_admission(node, None, now);
            }
            Reply::Admitted => {
                let admission = &mut self.admissions[node.0];
                let asked_once = !std::mem::take(&mut admission.has_served);
                admission.was_admitted_by_others |= asked_once;
                self.admit(node, now);
            }
            Reply::Failed(fault) => self.give_up(node, &fault, now),
            Reply::Quarantined { remaining } => self.quarantine(node, now.after(remaining), now),
            Reply::Served => self.begin_reseed(node),
            _ => self.give_up(
                node,
                &Fault::Garbled("an answer to another question".into()),
                now,
            ),
        }
    }

    pub(super) fn on_top(&mut self, of: NodeId, reply: &Reply) {
        let Some(reseed) = &mut self.admissions[of.0].reseed else {
            return;
        };
        reseed.answered += 1;
        if let Reply::Top { counter } = reply {
            reseed.heard += 1;
            reseed.highest = reseed.highest.max(*counter);
        }
    }

    fn ask_admission(&mut self, node: NodeId, floor: Option<Token>, now: Instant) {
        let (quarantine, unless_flushed) = self.quarantine_for(node, now);
        let body = Request::Admit {
            quarantine,
            unless_flushed,
            is_durable: self.admissions[node.0].facts.is_durable,
            floor,
        };
        // What it has told of itself is out of date by the next time.
        self.admissions[node.0].facts.uptime = None;
        self.wire.send(node, Purpose::Verify, body, now);
    }

    /// As long as any lock lives that the node may have forgotten. Where no majority has ever
    /// voted, this is most likely the first start of all; a client that has seen this very node
    /// vote knows better. True where the quarantine is not needed unless there was a flush.
    fn quarantine_for(&self, node: NodeId, now: Instant) -> (Duration, bool) {
        let settings = &self.wire.settings;
        let old = self
            .admissions
            .iter()
            .filter(|admission| admission.is_old(now))
            .count();
        let this = &self.admissions[node.0];
        if this.known_since.is_some() || old >= quorum::majority(self.wire.node_count()) {
            return (settings.quarantine, false);
        }
        let ran_all_along = |uptime| uptime > 2 * settings.fresh_quarantine;
        let is_seasoned = this.facts.uptime.is_some_and(ran_all_along);
        (settings.fresh_quarantine, is_seasoned)
    }

    fn begin_reseed(&mut self, node: NodeId) {
        self.admissions[node.0].has_served = true;
        self.admissions[node.0].reseed = Some(Reseed::default());
    }

    /// After each event, because nodes that wait for counters depend on every other that comes up,
    /// goes or answers.
    pub(super) fn look_at_reseeds(&mut self, now: Instant) {
        for node in self.wire.nodes() {
            self.look_at_reseed(node, now);
        }
    }

    fn look_at_reseed(&mut self, node: NodeId, now: Instant) {
        let Some(reseed) = &mut self.admissions[node.0].reseed else {
            return;
        };
        let others = self.wire.nodes().filter(|&other| other != node);
        for other in others {
            if self.wire.is_up(other) && !reseed.asked.contains(&other) {
                reseed.asked.push(other);
                let purpose = Purpose::Reseed { of: node };
                self.wire.send(other, purpose, Request::Top, now);
            }
        }
        let nodes = self.wire.node_count();
        // So many others that one of them is in every quorum that this node was part of.
        let enough = nodes - quorum::majority(nodes) + 1;
        let highest = reseed.highest;
        let may_hear_more = reseed.answered < reseed.asked.len();
        if reseed.heard >= enough || !may_hear_more && !self.others_are_settling(node) {
            self.admissions[node.0].reseed = None;
            self.ask_admission(node, Some(highest), now);
        }
    }

    /// True while another node may still turn out to have counters. One that has to start anew
    /// itself has none: where all do, none waits for another.
    fn others_are_settling(&self, node: NodeId) -> bool {
        let starts_anew = |other: NodeId| self.admissions[other.0].has_served;
        self.wire
            .nodes()
            .any(|other| other != node && !starts_anew(other) && self.wire.is_settling(other))
    }

    fn admit(&mut self, node: NodeId, now: Instant) {
        let admission = &mut self.admissions[node.0];
        admission.known_since.get_or_insert(now);
        if let Some((by, until)) = admission.set_aside.filter(|&(_, until)| now < until) {
            let state = NodeState::ClockAhead { by, until };
            self.wire.on_barred(node, until, state);
            return self.turn_away(node, until, now);
        }
        admission.set_aside = None;
        if let Some((process, until)) = admission.quarantined.take_if(|(_, until)| now < *until)
            && process == self.wire.server(node)
        {
            return self.quarantine(node, until, now);
        }
        self.wire.on_admitted(node);
        self.watch_again(node, now);
        for sent in self.wire.take_kept_back(node) {
            self.send_if_wanted(node, sent, now);
        }
        self.wake_starved(now);
    }

    /// It cannot be told whether the node may vote, so it may not. It is tried again on a new
    /// connection.
    fn give_up(&mut self, node: NodeId, fault: &Fault, now: Instant) {
        self.wire.actions.push_back(Action::Disconnect { node });
        let reason = match fault {
            Fault::Refused(message) => Arc::clone(message),
            other => format!("it cannot be told whether it may vote: {other:?}").into(),
        };
        self.on_disconnected(node, &reason, now);
    }

    fn quarantine(&mut self, node: NodeId, until: Instant, now: Instant) {
        self.admissions[node.0].quarantined = Some((self.wire.server(node), until));
        self.wire
            .on_barred(node, until, NodeState::Quarantined(until));
        self.turn_away(node, until, now);
    }

    /// Answers what was kept back for a node that does not vote.
    fn turn_away(&mut self, node: NodeId, until: Instant, now: Instant) {
        let kept_back: Vec<Sent> = self.wire.take_kept_back(node);
        for sent in kept_back {
            let fault = Fault::Quarantined(until.since(now));
            self.on_vote(node, sent.purpose, Vote::Failed(fault), now);
        }
    }
}

impl Admission {
    pub(super) const fn tells_changes(&self) -> bool {
        self.facts.tells_changes
    }

    /// Its connection is gone, and with it the question.
    pub(super) fn stop_reseed(&mut self) {
        self.reseed = None;
    }

    /// A node that was admitted a while ago, or by somebody else, is one of a set that has been in
    /// use. One that this client has just admitted says nothing about the others, which come up at
    /// the same time.
    fn is_old(&self, now: Instant) -> bool {
        let a_while_ago = |since| now.since(since) > FIRST_START;
        self.was_admitted_by_others || self.known_since.is_some_and(a_while_ago)
    }
}
