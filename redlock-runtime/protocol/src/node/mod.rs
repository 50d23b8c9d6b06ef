//! Everything about one server: its connection, what it was asked, whether it may vote.
//!
//! `link` is the connection, `admission` the rules of the vote, `clock` the suspicion of its clock,
//! `set` are questions about all nodes. This file joins them for one node.

mod admission;
mod clock;
mod link;
mod set;
mod survey;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use self::{
    admission::{Found, Lost, Standing},
    link::{Link, TRIED_AGAIN_AFTER},
};
pub(crate) use self::{clock::Lead, set::Nodes};
use crate::{
    action::{Action, Answer, NodeState, Verdict},
    message::{AdmissionId, FORMAT, NodeId, Record, Rejection, Reply, RequestId, SectionId},
    purpose::{Ask, KeyId, RoundId},
    rules::token::Token,
    settings::{Env, Settings},
    time::Instant,
};

/// What nodes and keys act with: what goes out, and what holds for all of them.
#[derive(Debug)]
pub(crate) struct Out {
    pub(crate) actions: VecDeque<Action>,
    pub(crate) notices: VecDeque<Notice>,
    /// What parts of sections with several keys are told.
    pub(crate) for_parts: VecDeque<(SectionId, Answer)>,
    /// The key of every section that has not ended.
    pub(crate) sections: BTreeMap<SectionId, KeyId>,
    /// The last round of any key.
    pub(crate) last_round: RoundId,
    pub(crate) env: Env,
    pub(crate) settings: Settings,
    pub(crate) now: Instant,
}

impl Out {
    /// Tells a caller, or who has asked on its behalf. A section that is refused has ended.
    pub(crate) fn answer(&mut self, section: SectionId, answer: Answer) {
        if matches!(answer, Answer::Refused(_)) {
            self.sections.remove(&section);
        }
        if section.is_part() {
            self.for_parts.push_back((section, answer));
        } else {
            self.actions.push_back(Action::Answer { section, answer });
        }
    }
}

/// News of a node, for the keys.
#[derive(Debug)]
pub(crate) enum Notice {
    /// A key's request was answered, or will not be.
    Reply(KeyId, Ask, (NodeId, RequestId), Result<Reply, Verdict>),
    /// A connection is up: releases that an earlier one took with it can be sent again.
    Connected(NodeId),
    /// It is known whether the node votes.
    Settled(NodeId),
}

/// What a reply is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Identify,
    Probe,
    /// A probe for the survey of all nodes.
    Survey,
    Report,
    Admit,
    Key(KeyId, Ask),
}

#[derive(Debug, Default)]
struct Node {
    id: NodeId,
    link: Link,
    standing: Standing,
    /// What was said of it last is that it votes.
    is_said_up: bool,
    /// The process that this client saw vote last, and under which admission.
    known: Option<Option<Arc<str>>>,
    /// The highest counter that it has told.
    highest: Token,
    /// The loss that was noted on it when its connection broke: what is known of it stays known.
    found: Option<Found>,
    /// When it answered a vote with an error last, if it is believed not to vote since.
    refused_at: Option<Instant>,
    /// It answered the last question for a lock so, and keeps no queue then.
    refuses_votes: bool,
    /// It has no vote until then, because its clock has gained so much.
    suspended: Option<(Duration, Instant)>,
}

impl Node {
    fn new(id: NodeId) -> Self {
        Self {
            id,
            ..Self::default()
        }
    }

    /// Why no vote can be asked for, if none can: now, or once it is known whether the node votes.
    fn verdict(&self, now: Instant) -> Option<Verdict> {
        if let Some(verdict) = self.link.verdict() {
            return Some(verdict);
        }
        if let Some((by, _)) = self.suspended.filter(|&(_, until)| now < until) {
            return Some(Verdict::ClockAhead { by });
        }
        match &self.standing {
            // A node that is being probed may be asked: the request waits until it is known.
            Standing::Up(_) | Standing::Probing => None,
            // The first survey may let it in at once.
            Standing::Lost(lost) if !lost.is_announced => None,
            Standing::Lost(lost) => Some(Verdict::Quarantined {
                reason: lost.reason,
                remaining: lost.until.since(now),
            }),
            Standing::Unfit { verdict, .. } => Some(verdict.clone()),
        }
    }

    const fn is_up(&self) -> bool {
        matches!(self.standing, Standing::Up(_))
    }

    /// It may still turn out to have a marker.
    const fn is_settling(&self) -> bool {
        // A mute node would be about to reply for ever, and keep out all others that have lost their memory.
        self.link.is_settling()
            || self.link.is_heard() && matches!(self.standing, Standing::Probing)
    }

    fn wants_survey(&self, now: Instant) -> bool {
        let is_due = |lost: &Lost| lost.survey_at.is_some_and(|at| at <= now);
        matches!(&self.standing, Standing::Lost(lost) if is_due(lost))
    }

    fn next_due(&self, out: &Out) -> Option<Instant> {
        let standing = match &self.standing {
            // A survey that is due waits for another one, or for a node, to be over.
            Standing::Lost(lost) => lost.survey_at.filter(|&at| at > out.now),
            Standing::Unfit { until, .. } => Some(*until),
            Standing::Up(_) | Standing::Probing => None,
        };
        let suspended = self.suspended.map(|(_, until)| until);
        let dues = [
            self.link.next_due(out.settings.silence_limit),
            standing,
            self.ping_at(out),
            suspended,
        ];
        dues.into_iter().flatten().min()
    }

    /// When to ask a node whether it still votes, or whether another client has let it in, of which not all nodes tell.
    fn ping_at(&self, out: &Out) -> Option<Instant> {
        let is_asked = matches!(self.standing, Standing::Up(_) | Standing::Lost(_));
        let interval = out.settings.ping_interval.filter(|_| is_asked)?;
        self.link.ping_at(interval)
    }

    /// That it votes is said once: its connection may have been replaced.
    fn announce(&mut self, state: NodeState, out: &mut Out) {
        let (node, is_up) = (self.id, state == NodeState::Up);
        if std::mem::replace(&mut self.is_said_up, is_up) && is_up {
            return;
        }
        out.actions.push_back(Action::NodeChanged { node, state });
    }

    // ---- admission

    /// What is known of its loss may not be true any more: does not wait for the next survey.
    fn look_now(&mut self, now: Instant) {
        if let Standing::Lost(lost) = &mut self.standing
            && lost.survey_at.is_some()
        {
            lost.survey_at = Some(now);
        }
    }

    /// Takes in the node's record.
    fn on_record(&mut self, record: &Record, out: &mut Out) {
        // First: of another format, none of the other fields can be trusted.
        if let Some(theirs) = record.other_format {
            let state = NodeState::OtherFormat {
                theirs,
                ours: FORMAT,
            };
            return self.on_unfit(state, out);
        }
        // With another longest lease, the node may have been let in after a quarantine that is too short for ours.
        let ours = out.settings.max_ttl;
        if let Some(theirs) = record.max_ttl.filter(|&theirs| theirs != ours) {
            let state = NodeState::OtherMaxLease { theirs, ours };
            return self.on_unfit(state, out);
        }
        if let Some(marker) = &record.marker
            && admission::is_valid(record, &self.link.facts)
        {
            return self.on_admitted(marker.admission, out);
        }
        if !matches!(self.standing, Standing::Lost(_)) {
            let reason = admission::reason(record, &self.link.facts, self.known.as_ref());
            let lost = Lost::new(reason, self.found, (ours, out.now));
            self.standing = Standing::Lost(lost);
        }
        if let Standing::Lost(lost) = &mut self.standing {
            lost.on_record(record.loss.as_ref(), out.now);
        }
    }

    /// It has answered for a lock. Whether it is of use is said by that and not by its connection. The state of one that
    /// also answers with errors for some keys does not change from one to the other all the time.
    fn on_answer(&mut self, ask: Ask, reply: &Reply, out: &mut Out) {
        let is_refusal = match reply {
            // A key of another program says nothing of other keys, and a lost memory is found out by a probe.
            Reply::Refused {
                reason: Rejection::Key,
                ..
            }
            | Reply::NotAdmitted => return,
            reply => matches!(reply, Reply::Refused { .. } | Reply::Garbled { .. }),
        };
        if matches!(ask, Ask::Acquire(..)) {
            self.refuses_votes = is_refusal;
        }
        if !is_refusal {
            return self.on_answering(PROBE_PAUSE, out);
        }
        // Announced once, however many requests are refused.
        let was_well = self.refused_at.replace(out.now).is_none();
        if was_well && self.is_voting() {
            self.announce(refuses(reply), out);
        }
    }

    /// It answers, and has refused nothing for so long.
    fn on_answering(&mut self, least: Duration, out: &mut Out) {
        let has_recovered = |at: &mut Instant| out.now.since(*at) >= least;
        if self.refused_at.take_if(has_recovered).is_some() && self.is_voting() {
            self.announce(NodeState::Up, out);
        }
    }

    /// A little while ago it took so long to reply, or refused to vote.
    fn was_of_no_use(&self, limit: Duration, now: Instant) -> bool {
        let refuses = |at| now.since(at) < TRIED_AGAIN_AFTER;
        self.refused_at.is_some_and(refuses) || self.link.was_late(limit, now)
    }

    /// Nothing but what it answers to votes keeps it from voting.
    const fn is_voting(&self) -> bool {
        self.is_up() && self.suspended.is_none()
    }

    /// A vote tells where one of its counters stands.
    fn on_number(&mut self, reply: &Reply) {
        if let Reply::Granted { first, .. }
        | Reply::Extended {
            first: Some(first), ..
        } = reply
        {
            self.on_counter(*first);
        }
    }

    /// What is known of its counters stays known: no node is let in below, though this one may be gone
    /// by then.
    fn on_counter(&mut self, counter: Token) {
        // Else one wrong counter would become the floor of each node that is let in.
        if counter.is_plausible() {
            self.highest = self.highest.max(counter);
        }
    }

    fn on_admitted(&mut self, admission: AdmissionId, out: &mut Out) {
        // Evidence that this is no first start, should the node forget.
        self.known = Some(self.link.facts.server.clone());
        // It has its memory as before: nothing has to be asked again.
        if matches!(self.standing, Standing::Up(known) if known == admission) {
            return;
        }
        (self.refused_at, self.refuses_votes) = (None, false);
        self.standing = Standing::Up(admission);
        if self.suspended.is_none() {
            self.announce(NodeState::Up, out);
        }
        out.notices.push_back(Notice::Settled(self.id));
    }

    /// It does not vote for a while: says so, once.
    fn on_quarantined(&mut self, out: &mut Out) {
        let Standing::Lost(lost) = &mut self.standing else {
            return;
        };
        let (reason, until) = (lost.reason, lost.until);
        lost.is_announced = true;
        self.announce(NodeState::Quarantined { reason, until }, out);
        out.notices.push_back(Notice::Settled(self.id));
    }

    /// It cannot be let in as it is. The connection stays, and it is probed again in a while.
    fn on_unfit(&mut self, state: NodeState, out: &mut Out) {
        let message = match &state {
            NodeState::Refuses { message, .. } => Arc::clone(message),
            other => other.to_string().into(),
        };
        self.standing = Standing::Unfit {
            // Somebody may mend it: rights, memory, the configuration of others.
            until: out.now.after(PROBE_PAUSE),
            verdict: Verdict::Refused { message },
        };
        self.announce(state, out);
        out.notices.push_back(Notice::Settled(self.id));
    }
}

/// The state of a node that does not do what it is asked.
fn refuses(reply: &Reply) -> NodeState {
    let unexpected = |answer| {
        (
            Rejection::Other,
            format!("unexpected reply {answer}").into(),
        )
    };
    let (reason, message) = match reply {
        Reply::Refused {
            reason, message, ..
        } => (*reason, Arc::clone(message)),
        Reply::Garbled { answer } => unexpected(format_args!("{answer}")),
        other => unexpected(format_args!("{other:?}")),
    };
    NodeState::Refuses { reason, message }
}

/// How long a connected node that cannot be let in is left alone.
const PROBE_PAUSE: Duration = Duration::from_secs(1);
