//! Who is let in to vote: the loss that is noted, the evidence, the marker.

use std::{sync::Arc, time::Duration};

use super::{Model, Moment, Overflow, is_same};
use crate::{
    message::{Evidence, LossId, LossRecord, Marker, Reply},
    rules::token::{SOUND_LEAD, Token},
    time::{Instant, counted},
};

#[derive(Clone, Debug)]
pub(super) struct Loss {
    /// Its age is told when it is asked for.
    pub(super) record: LossRecord,
    /// The process that it was noted in.
    pub(super) server: Option<Arc<str>>,
    pub(super) begin: Instant,
}

impl Model {
    pub(super) fn report_loss(
        &mut self,
        server: &Option<Arc<str>>,
        id: LossId,
        beside_marker: bool,
        max_ttl: Duration,
        at: Moment,
    ) -> Result<Reply, Overflow> {
        self.check_counters()?;
        // Beside a loss it was made by a client that only assumed.
        let stands = self.marker_for(server).is_some();
        if stands && self.noted_loss().is_none() {
            return self.reply_with_record(at);
        }
        let had_marker = self.marker.is_some();
        match self
            .loss
            .as_mut()
            .filter(|loss| is_same(&loss.server, &self.server))
        {
            None => {
                let record = LossRecord {
                    id,
                    age: Duration::ZERO,
                    // Its own, of another process, tells as well that this is no first start.
                    beside_marker: beside_marker || had_marker,
                    // Without its own it may have been deleted, if others have one.
                    is_unflushed: self.is_unflushed && (had_marker || !beside_marker),
                    first_start: None,
                };
                self.loss = Some(Loss {
                    record,
                    server: self.server.clone(),
                    begin: at.now,
                });
            }
            Some(loss) => loss.record.beside_marker |= beside_marker,
        }
        self.max_ttl.get_or_insert(max_ttl);
        // What it granted is forgotten, so the old marks would prove too much.
        if !stands {
            self.marker = None;
            self.longest = None;
        }
        self.reply_with_record(at)
    }

    pub(super) fn admit(
        &mut self,
        mut marker: Marker,
        evidence: Evidence,
        (floor, wall_micros): (Token, u64),
        max_ttl: Duration,
        at: Moment,
    ) -> Result<Reply, Overflow> {
        self.check_counters()?;
        let is_assumed = matches!(evidence, Evidence::Assumed { .. });
        let stands = self.marker_for(&marker.server).map(|it| it.admission);
        if let Some(admission) = stands.filter(|_| is_assumed || self.noted_loss().is_none()) {
            return Ok(Reply::Admitted { admission });
        }
        // Nothing is written: a client with such a number is wrong, not the node.
        if floor > Token::LARGEST {
            return Err(Overflow("floor".to_owned()));
        }
        if !self.is_good(evidence, at.now) {
            return self.reply_with_record(at);
        }
        if !matches!(evidence, Evidence::Durable { .. }) {
            // Whole seconds, so that the script and this model come to the same number.
            let clock = at.wall_micros / 1_000_000 * 1_000_000;
            let latest = wall_micros.max(clock).saturating_add(SOUND_LEAD);
            self.floor = floor.max(self.top()).min(Token(latest));
            // All counters begin above the floor, also those that had come back with old data.
            self.counters.clear();
            if stands.is_none() {
                self.longest = None;
            }
        }
        if !is_assumed {
            self.loss = None;
        }
        self.max_ttl.get_or_insert(max_ttl);
        // What was assumed turns out to be true, and nothing was lost since.
        let admission = stands.unwrap_or(marker.admission);
        marker.admission = admission;
        self.marker = Some(marker);
        Ok(Reply::Admitted { admission })
    }

    /// Keeps the time that is named for a first start, and compares with the clock.
    fn is_good(&mut self, evidence: Evidence, now: Instant) -> bool {
        let (loss, wait, is_first_start) = match evidence {
            Evidence::Durable { admission } => {
                let marker = self.marker.as_ref();
                return marker.is_some_and(|it| it.admission == admission);
            }
            Evidence::Assumed { loss } => (loss, Duration::ZERO, false),
            Evidence::Waited { loss, wait } => (loss, counted(wait), false),
            Evidence::FirstStart { loss, wait } => (loss, counted(wait), true),
        };
        let is_it =
            |noted: &&mut Loss| noted.record.id == loss && is_same(&noted.server, &self.server);
        let Some(noted) = self.loss.as_mut().filter(is_it) else {
            return false;
        };
        if !is_first_start {
            return now >= noted.begin.after(wait);
        }
        // Of several clients' default leases the longest counts, whoever comes first.
        let wait = noted.record.first_start.unwrap_or_default().max(wait);
        noted.record.first_start = Some(wait);
        now >= noted.begin.after(wait)
    }

    /// The marker, if it names this process as far as can be told.
    fn marker_for(&self, server: &Option<Arc<str>>) -> Option<&Marker> {
        let marker = self.marker.as_ref()?;
        is_same(&marker.server, server).then_some(marker)
    }

    /// The loss that stands. One that another process noted has come back with old data: it says
    /// nothing of what was forgotten since.
    pub(super) fn noted_loss(&self) -> Option<&Loss> {
        let loss = self.loss.as_ref();
        loss.filter(|loss| is_same(&loss.server, &self.server))
    }
}
