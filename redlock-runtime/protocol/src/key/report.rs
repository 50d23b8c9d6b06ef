//! Callers that have let go and wait to hear what became of their release.

use super::{cx::Cx, few::Few};
use crate::action::{Answer, Release};
use crate::{message::SectionId, purpose::RoundId, time::Instant};

#[derive(Debug, Default)]
pub(super) struct Reports(Few<Report>);

#[derive(Clone, Copy, Debug)]
pub(super) struct Report {
    pub(super) section: SectionId,
    /// Then the answer is `Unknown`.
    pub(super) by: Instant,
    /// When the caller let go.
    pub(super) at: Instant,
    /// Only rounds that began later tell.
    pub(super) after: RoundId,
}

impl Reports {
    pub(super) fn push(&mut self, report: Report) {
        self.0.push(report);
    }

    /// When the first of them let go.
    pub(super) fn since(&self) -> Option<Instant> {
        self.0.first().map(|report| report.at)
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.0.iter().map(|report| report.by).min()
    }

    /// Answers those that let go before this round began.
    pub(super) fn answer_before(&mut self, round: RoundId, release: Release, cx: &mut Cx<'_>) {
        // A round that began sooner may have been answered before the caller let go.
        self.answer(|report| report.after < round, release, cx);
    }

    pub(super) fn answer_all(&mut self, release: Release, cx: &mut Cx<'_>) {
        self.answer(|_| true, release, cx);
    }

    pub(super) fn answer_late(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        self.answer(|report| report.by <= now, Release::Unknown, cx);
    }

    fn answer(&mut self, is_told: impl Fn(&Report) -> bool, release: Release, cx: &mut Cx<'_>) {
        for report in self.0.extract(|report| is_told(report)) {
            cx.answer(report.section, Answer::Released(release));
        }
    }
}
