//! May this server vote? Not if it may have forgotten what it granted.
//!
//! A node that has lost its memory must not vote until every lock that it may have forgotten has
//! ended, or it would grant a second time what is still held. Its *marker* names the process that
//! was admitted and the admission, a random number. A marker of another process, or none, is a
//! loss. Every vote names the admission, so a vote of a node with another memory counts nothing.
//!
//! The path, the same for all nodes:
//! 1. *Probe*: read the record. A valid marker ends it here.
//! 2. *Survey*: read the records of all nodes, to know whether another one has a marker.
//! 3. *Report*: note the loss on the node, and when it was found. Nothing else is written before
//!    the node votes.
//! 4. Survey again, later than the longest round after that: how long must it stay out? See
//!    `rules::quarantine`. If all of several nodes are new in two surveys, this is the first start of
//!    all, and the default lease decides.
//! 5. Once that time is over, survey a last time, for the floor of its counters, and *admit* it.
//!
//! Every client walks this path by itself, and the node compares with its own clock: a client that
//! knows less than others delays none of them.

use std::{sync::Arc, time::Duration};

use crate::{
    action::{QuarantineReason, Verdict},
    message::{AdmissionId, Evidence, Facts, LossRecord, Record},
    rules::{quarantine::Readings, token::Token, validity::LONGEST_ROUND},
    settings::Settings,
    time::Instant,
};

/// A node that says that it was told too early is told again no sooner than this: clocks differ.
const SHORTEST_RETRY: Duration = Duration::from_millis(5);

/// How far a node's admission has come. One that is not connected must be probed.
#[derive(Debug, Default)]
pub(super) enum Standing {
    /// It is being found out who it is and what it remembers.
    #[default]
    Probing,
    /// It has lost its memory.
    Lost(Lost),
    /// It votes.
    Up(AdmissionId),
    /// It cannot be let in as it is, for this reason; it is probed again then.
    Unfit { until: Instant, verdict: Verdict },
}

/// A node that has lost its memory, as far as this client knows.
#[derive(Debug)]
pub(super) struct Lost {
    pub(super) reason: QuarantineReason,
    /// The loss that is noted on the node.
    pub(super) loss: Option<Found>,
    /// When to survey next; `None` while a survey or a request is under way.
    pub(super) survey_at: Option<Instant>,
    /// How long the node stays out at the latest: what requests are told that ask for its vote.
    pub(super) until: Instant,
    /// How long after its loss was found it must stay out, as far as is known.
    wait: Duration,
    /// It has been said that the node is out.
    pub(super) is_announced: bool,
}

/// What is known of a loss.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    record: LossRecord,
    /// When it was found, by our clock; no sooner than in truth.
    at: Instant,
    /// The shortest wait that a survey has proven.
    proven: Duration,
}

/// What a client has to go by when it decides about a node that has lost its memory: what a survey says to it, and
/// how long its process has been running.
#[derive(Clone, Copy, Debug)]
pub(super) struct Survey {
    pub(super) settings: Settings,
    pub(super) now: Instant,
    pub(super) uptime: Option<Duration>,
    pub(super) started: Instant,
    /// The records of the other nodes that have a valid marker.
    pub(super) others: Readings,
    /// Another node has a marker, valid or not, or this client has seen one vote.
    pub(super) beside_marker: bool,
    /// It was the second one in which all nodes were new.
    pub(super) is_first_start: bool,
}

/// What to do with a node that has lost its memory.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    Report {
        beside_marker: bool,
    },
    Admit {
        evidence: Evidence,
        floor: Token,
    },
    /// Nothing before `survey_at`.
    Wait,
}

/// True if the node that was admitted is the process that the client speaks to. A client that may
/// not know, or that meets the marker of one that did not, accepts the marker that stands there.
pub(super) fn is_valid(record: &Record, facts: &Facts) -> bool {
    record.marker.as_ref().is_some_and(|marker| {
        let unknown = marker.server.is_none() || facts.server.is_none();
        unknown || marker.server == facts.server
    })
}

/// What a client makes of a record. An admission beside a loss counts for those who assume that nothing was forgotten:
/// one that does must not shorten the wait of others.
pub(super) fn believed(mut record: Record, assume_fresh: bool) -> Record {
    if record.loss.is_some() && !assume_fresh {
        // What one client assumed is no proof for another one.
        record.marker = None;
    }
    record
}

/// The evidence of a node that may go on at once although it was restarted, because it had everything on disk, before and after.
pub(super) fn durable(record: &Record, facts: &Facts, highest: Token) -> Option<Evidence> {
    let marker = record
        .marker
        .as_ref()
        .filter(|_| !is_valid(record, facts))?;
    // Counters that are lower than they have been are those of an old copy.
    let is_whole = marker.was_durable && facts.is_durable && record.top >= highest;
    is_whole.then_some(Evidence::Durable {
        admission: marker.admission,
    })
}

/// Why the node is believed to have lost its memory. `known` is the process that this client saw
/// vote last.
pub(super) fn reason(
    record: &Record,
    facts: &Facts,
    known: Option<&Option<Arc<str>>>,
) -> QuarantineReason {
    match (&record.marker, known) {
        (Some(_), _) => QuarantineReason::Restarted,
        (None, Some(server)) if *server == facts.server => QuarantineReason::Flushed,
        (None, Some(_)) => QuarantineReason::Restarted,
        (None, None) => QuarantineReason::NeverSeenBefore,
    }
}

impl Lost {
    /// `found` is what is known of an earlier loss, which this one may be.
    pub(super) fn new(
        reason: QuarantineReason,
        found: Option<Found>,
        (max_ttl, now): (Duration, Instant),
    ) -> Self {
        // What was to be noted may have been lost with the connection.
        let mut loss = found;
        if let Some(loss) = &mut loss {
            loss.record.beside_marker = false;
        }
        Self {
            reason,
            loss,
            survey_at: Some(now),
            until: now.after(max_ttl),
            wait: max_ttl,
            is_announced: false,
        }
    }

    /// Takes in what is noted on the node. A loss that is not the one that was known is a new one,
    /// for which nothing is proven.
    pub(super) fn on_record(&mut self, loss: Option<&LossRecord>, now: Instant) {
        // A second loss makes everything that was proven about the first one worthless.
        let known = self.loss.take();
        self.loss = loss.map(|&record| {
            let mut found = Found {
                record,
                at: now.before(record.age),
                proven: Duration::MAX,
            };
            if let Some(known) = known.filter(|known| known.record.id == record.id) {
                // The later of the two: the sum must be right by both clocks.
                found.at = found.at.max(known.at);
                found.record.beside_marker |= known.record.beside_marker;
                found.proven = known.proven;
            }
            found
        });
    }

    /// What follows from a survey, in which the node's own record was taken in as well.
    pub(super) fn on_survey(&mut self, survey: &Survey) -> Step {
        self.survey_at = None;
        let Some(found) = &mut self.loss else {
            return Step::Report {
                beside_marker: survey.beside_marker,
            };
        };
        if survey.beside_marker && !found.record.beside_marker {
            // The client that noted the loss did not know that this is no first start.
            found.record.beside_marker = true;
            return Step::Report {
                beside_marker: true,
            };
        }
        // Until then a round may win that counted the forgotten vote: see `rules::quarantine`.
        if survey.started > found.at.after(LONGEST_ROUND) {
            found.proven = found
                .proven
                .min(survey.others.wait(survey.settings.max_ttl));
        }
        let found = *found;
        let (wait, is_first) = found.wait(survey);
        let due = found.at.after(wait);
        self.wait = wait;
        self.until = due.max(survey.now);
        let loss = found.record.id;
        let evidence = if is_first {
            Evidence::FirstStart { loss, wait }
        } else {
            Evidence::Waited { loss, wait }
        };
        // By the start of the survey: counters that were read sooner may have risen since.
        let is_over = wait.is_zero() || survey.started >= due;
        let floor = survey.others.floor();
        if survey.settings.assume_fresh && !is_over {
            let evidence = Evidence::Assumed { loss };
            return Step::Admit { evidence, floor };
        }
        // The wait of a first start is noted at once, so that a client that comes while the first nodes
        // vote already knows. Else the floor is read after the wait is over.
        let is_to_note = is_first && found.record.first_start.is_none_or(|noted| noted < wait);
        if is_to_note || is_over {
            return Step::Admit { evidence, floor };
        }
        let first_look = found.at.after(LONGEST_ROUND + SHORTEST_RETRY);
        let look = if survey.started > first_look {
            // Without evidence another look makes sense when another node votes again, which begins
            // a survey by itself.
            due
        } else {
            due.min(first_look)
        };
        self.survey_at = Some(look.max(survey.now.after(SHORTEST_RETRY)));
        Step::Wait
    }

    /// The node was told to vote, and says that it is too early by its own clock, or that it has
    /// lost its memory again.
    pub(super) fn on_too_early(&mut self, noted: Option<&LossRecord>, now: Instant) {
        let left = noted.map_or(Duration::ZERO, |loss| self.wait.saturating_sub(loss.age));
        let at = now.after(left.max(SHORTEST_RETRY));
        self.until = self.until.max(at);
        self.survey_at = Some(at);
    }
}

impl Found {
    /// How long after it was found the node must stay out, and whether that is the wait of a first
    /// start.
    fn wait(&self, survey: &Survey) -> (Duration, bool) {
        let settings = &survey.settings;
        let first = survey.is_first_start.then_some(settings.default_ttl);
        // The longest that any client has noted: each may have another default lease.
        let first = first.max(self.record.first_start);
        let longest = settings.max_ttl.max(LONGEST_ROUND);
        // The floor is read from as many nodes, or else the wait must be so long that the clients'
        // clocks make up for it.
        let proven = if survey.others.are_enough() {
            self.proven.min(longest)
        } else {
            longest
        };
        let (wait, is_first) = match first {
            Some(first) if first < proven => (first, true),
            _ => (proven, false),
        };
        // A process that has run for so long, twice because its clock may have been set, and from
        // which nothing was flushed, has forgotten nothing that is younger.
        let has_run = survey.uptime.is_some_and(|uptime| uptime / 2 >= wait);
        if self.record.is_unflushed && has_run {
            (Duration::ZERO, is_first)
        } else {
            (wait, is_first)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::LossId;

    const MAX_TTL: Duration = Duration::from_secs(60);

    #[test]
    fn what_could_not_be_noted_is_noted_over_the_next_connection() {
        let now = Instant::from_nanos(0).after(MAX_TTL);
        let noted = LossRecord {
            id: LossId(1),
            age: Duration::ZERO,
            beside_marker: false,
            is_unflushed: false,
            first_start: None,
        };
        let survey = Survey {
            settings: Settings::of(MAX_TTL, MAX_TTL),
            now,
            uptime: None,
            started: now,
            others: Readings::new(3),
            beside_marker: true,
            is_first_start: false,
        };
        let report = Step::Report {
            beside_marker: true,
        };
        let mut found = None;
        for _ in 0..2 {
            let mut lost = Lost::new(QuarantineReason::Flushed, found, (MAX_TTL, now));
            lost.on_record(Some(&noted), now);
            assert_eq!(lost.on_survey(&survey), report);
            // Once is enough, even if the node does not do it.
            lost.on_record(Some(&noted), now);
            assert_eq!(lost.on_survey(&survey), Step::Wait);
            found = lost.loss;
        }
    }
}
