//! How nodes that have lost their memory are let in again: all records are read, and each node
//! takes its next step by them.

use std::time::Duration;

use super::{
    Node, Out, Purpose,
    admission::{self, Standing, Step, Survey},
    set::Nodes,
};
use crate::{
    action::NodeState,
    message::{AdmissionId, Evidence, LossId, NodeId, Record, Request},
    rules::{quarantine::Readings, token::Token},
    time::Instant,
};

/// A survey under way: every node that can be expected to reply is probed once.
#[derive(Debug)]
pub(super) struct Reading {
    started: Instant,
    waiting: Vec<NodeId>,
    records: Vec<Option<Record>>,
}

impl Nodes {
    pub(super) fn on_record(
        &mut self,
        node: NodeId,
        purpose: Purpose,
        record: &Record,
        out: &mut Out,
    ) {
        let this = &mut self.nodes[node.0];
        let durable = admission::durable(record, &this.link.facts, this.highest);
        this.on_counter(record.top);
        if let Some(evidence) = durable.filter(|_| purpose == Purpose::Probe) {
            return self.admit(node, evidence, Token::default(), out);
        }
        this.on_record(record, out);
        match (purpose, &mut this.standing) {
            (Purpose::Admit, Standing::Lost(lost)) => {
                lost.on_too_early(record.loss.as_ref(), out.now);
                this.on_quarantined(out);
            }
            (Purpose::Report, Standing::Lost(lost)) => lost.survey_at = Some(out.now),
            _ => {}
        }
    }

    /// Asks anew who it is and what it remembers.
    pub(super) fn verify(&mut self, node: NodeId, out: &mut Out) {
        let this = &mut self.nodes[node.0];
        if matches!(this.standing, Standing::Up(_)) {
            this.standing = Standing::Probing;
            self.send(node, Purpose::Identify, Request::Identify, out);
            self.forget_survey_of(node);
        }
    }

    /// What it has said is from before.
    fn forget_survey_of(&mut self, node: NodeId) {
        if let Some(survey) = &mut self.survey {
            survey.records[node.0] = None;
        }
    }

    /// All keys of the node may be gone, and what the library keeps there too. Or it was another database, of
    /// which servers tell alike: it votes until its record says otherwise, and each vote names the admission.
    pub(crate) fn on_flushed(&mut self, node: NodeId, out: &mut Out) {
        let this = &mut self.nodes[node.0];
        // In a quarantine this is another loss, and the next quarantine begins once it is noted.
        // A notice may be missed: the record decides.
        this.look_now(out.now);
        if this.is_up() && !this.link.has_asked(Purpose::Probe) {
            self.send(node, Purpose::Probe, Request::Probe, out);
            self.forget_survey_of(node);
        }
        self.begin_survey(out);
    }

    /// Reads the records of all nodes, if a node that has lost its memory needs them, and no node
    /// is about to come to something.
    pub(super) fn begin_survey(&mut self, out: &mut Out) {
        let wanted = self.nodes.iter().any(|node| node.wants_survey(out.now));
        // One at a time, of nodes that are connected or known to be down: a record that is missing costs a longer
        // wait.
        if self.survey.is_some() || !wanted || self.nodes.iter().any(Node::is_settling) {
            return;
        }
        let heard = self.nodes.iter().filter(|node| node.link.is_heard());
        let waiting: Vec<NodeId> = heard.map(|node| node.id).collect();
        for &node in &waiting {
            self.send(node, Purpose::Survey, Request::Probe, out);
        }
        self.survey = Some(Reading {
            started: out.now,
            waiting,
            records: vec![None; self.nodes.len()],
        });
    }

    pub(super) fn on_surveyed(&mut self, node: NodeId, record: Option<Record>, out: &mut Out) {
        if let Some(record) = &record {
            // Also if the survey comes to nothing.
            self.nodes[node.0].on_counter(record.top);
        }
        let Some(survey) = &mut self.survey else {
            return;
        };
        survey.waiting.retain(|&waiting| waiting != node);
        // Also `None`: a node that did not reply proves nothing.
        survey.records[node.0] = record;
        if survey.waiting.is_empty()
            && let Some(survey) = self.survey.take()
        {
            self.on_survey(&survey, out);
        }
    }

    fn on_survey(&mut self, reading: &Reading, out: &mut Out) {
        for (node, record) in self.nodes.iter_mut().zip(&reading.records) {
            if let Some(record) = record {
                node.on_record(record, out);
            }
        }
        let all_new = all_new(&reading.records);
        // Twice the same losses: no node was let in or flushed between the two looks.
        let is_first_start = all_new.is_some() && all_new == self.all_new;
        self.all_new = all_new;
        for node in self.ids() {
            let survey = self.survey_for(node, reading, is_first_start, out);
            let Standing::Lost(lost) = &mut self.nodes[node.0].standing else {
                continue;
            };
            match lost.on_survey(&survey) {
                Step::Report { beside_marker } => self.report(node, beside_marker, reading, out),
                Step::Admit { evidence, floor } => self.admit(node, evidence, floor, out),
                // A second survey tells whether this is the first start of all.
                Step::Wait if self.all_new.is_some() && !is_first_start => {
                    lost.survey_at = Some(out.now);
                }
                Step::Wait => self.nodes[node.0].on_quarantined(out),
            }
        }
        self.begin_survey(out);
    }

    fn survey_for(
        &self,
        node: NodeId,
        reading: &Reading,
        is_first_start: bool,
        out: &Out,
    ) -> Survey {
        let max_ttl = out.settings.max_ttl;
        let mut others = Readings::new(self.nodes.len());
        // A client that has seen a node vote knows that this is no first start, whatever is left there.
        let mut beside_marker = self.nodes.iter().any(|node| node.known.is_some());
        for (other, record) in self.nodes.iter().zip(&reading.records) {
            if let Some(record) = record.as_ref().filter(|_| other.id != node) {
                // The marker may have gone since, and its note with the next loss.
                let loss_beside_marker = record.loss.is_some_and(|loss| loss.beside_marker);
                beside_marker |= record.marker.is_some() || loss_beside_marker;
                // One that is used with another longest lease was let in after a time that may be too short.
                let is_ours = record.max_ttl.is_none_or(|theirs| theirs == max_ttl);
                if is_ours && admission::is_valid(record, &other.link.facts) {
                    others.add(record);
                }
            }
        }
        Survey {
            settings: out.settings,
            now: out.now,
            uptime: self.nodes[node.0].link.uptime(out.now),
            started: reading.started,
            others,
            beside_marker,
            is_first_start,
        }
    }

    fn report(&mut self, node: NodeId, beside_marker: bool, reading: &Reading, out: &mut Out) {
        let ours = out.settings.max_ttl;
        if let Some(theirs) = self.other_max_ttl(reading, ours) {
            // Nothing is written that would lock out those who use the other nodes.
            let state = NodeState::OtherMaxLease { theirs, ours };
            return self.nodes[node.0].on_unfit(state, out);
        }
        let body = Request::ReportLoss {
            server: self.nodes[node.0].link.facts.server.clone(),
            // Drawn, so that clients can tell whether they speak of the same loss.
            loss: LossId((out.env.random)() as u64),
            beside_marker,
            max_ttl: ours,
        };
        self.send(node, Purpose::Report, body, out);
    }

    /// What most nodes are used with, if it is not `ours`: of those that tell, and those that this client has seen
    /// voting. One that somebody has used with another one keeps nobody out of the rest.
    fn other_max_ttl(&self, reading: &Reading, ours: Duration) -> Option<Duration> {
        let records = self.nodes.iter().zip(&reading.records);
        let noted = records.filter_map(|(node, record)| {
            let seen = node.known.as_ref().map(|_| ours);
            record.as_ref().and_then(|record| record.max_ttl).or(seen)
        });
        let noted: Vec<_> = noted.collect();
        let others = || noted.iter().filter(|&&theirs| theirs != ours);
        let theirs = others().next().copied();
        theirs.filter(|_| 2 * others().count() > noted.len())
    }

    pub(super) fn admit(&mut self, node: NodeId, evidence: Evidence, floor: Token, out: &mut Out) {
        let highest = self.nodes.iter().map(|node| node.highest).max();
        // The highest number that this client has seen: tokens must not fall for those who saw it, too.
        let floor = floor.max(highest.unwrap_or_default());
        let facts = &self.nodes[node.0].link.facts;
        let body = Request::Admit {
            server: facts.server.clone(),
            evidence,
            admission: AdmissionId((out.env.random)() as u64),
            floor,
            wall_micros: (out.env.wall_micros)(),
            // What was only assumed must not be taken for proven after a restart.
            is_durable: facts.is_durable && !matches!(evidence, Evidence::Assumed { .. }),
            max_ttl: out.settings.max_ttl,
        };
        self.send(node, Purpose::Admit, body, out);
    }
}

/// The losses of all nodes, if all of them are new, and none was found beside a node that was not. A single
/// node has no other beside it that could tell.
fn all_new(records: &[Option<Record>]) -> Option<Vec<LossId>> {
    if records.len() == 1 {
        return None;
    }
    let loss = |record: &Option<Record>| {
        let record = record.as_ref().filter(|record| record.marker.is_none())?;
        let loss = record.loss.filter(|loss| !loss.beside_marker)?;
        Some(loss.id)
    };
    records.iter().map(loss).collect()
}
