//! Whether a node's clock can be trusted with the expiry of keys.
//!
//! A node whose clock runs ahead drops keys early. Up to the guard band that does no harm. At each
//! renewal a node says how much was left of the key, which shows by how much its clock has gained
//! on ours since it was set. One that has gained more than the guard band, or again and again so
//! much that it would over a whole lease, has broken the assumption that leases rest on: it is set
//! aside, with no vote, until every key that it may have dropped early has run out.
//!
//! A clock that stays behind keeps keys for longer, which costs time only.

use std::time::Duration;

use super::{
    NodeState, Protocol,
    message::{Fault, NodeId},
    time::Instant,
    validity::Terms,
};

/// By how much a node's clock has gained on ours, at the least.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lead {
    pub(super) by: Duration,
    /// Since the key's TTL was set.
    pub(super) elapsed: Duration,
}

impl Lead {
    /// Too much for any guard band to absorb.
    fn is_beyond_bounds(self, terms: &Terms) -> bool {
        self.by > terms.guard_band
    }

    /// Too much if it goes on like this for a whole lease. A step looks the same, but only once.
    fn is_too_fast(self, terms: &Terms) -> bool {
        let share = self.elapsed.as_secs_f64() / terms.lease.as_secs_f64();
        self.by > terms.guard_band.mul_f64(share.min(1.0))
    }
}

impl Protocol {
    /// Takes in how far a node's clock has run ahead. A fault if its vote must not count.
    pub(super) fn on_lead(
        &mut self,
        node: NodeId,
        lead: Lead,
        terms: &Terms,
        now: Instant,
    ) -> Option<Fault> {
        let admission = &mut self.admissions[node.0];
        let was_fast = std::mem::replace(&mut admission.clock_is_fast, lead.is_too_fast(terms));
        let is_fast = was_fast && admission.clock_is_fast;
        if !is_fast && !lead.is_beyond_bounds(terms) {
            return None;
        }
        let until = now.after(self.wire.settings.quarantine);
        admission.set_aside = Some((lead.by, until));
        if self.wire.is_up(node) {
            let by = lead.by;
            let state = NodeState::ClockAhead { by, until };
            self.wire.on_barred(node, until, state);
        }
        Some(Fault::ClockAhead(lead.by))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(6);

    fn terms() -> Terms {
        Terms::of(LEASE)
    }

    fn lead(by: u64, elapsed: u64) -> Lead {
        Lead {
            by: Duration::from_millis(by),
            elapsed: Duration::from_millis(elapsed),
        }
    }

    #[test]
    fn the_guard_band_is_the_bound_and_its_share_the_pace() {
        let terms = terms();
        assert_eq!(terms.guard_band, Duration::from_millis(600));
        assert!(!lead(600, 2_000).is_beyond_bounds(&terms));
        assert!(lead(601, 2_000).is_beyond_bounds(&terms));
        assert!(!lead(200, 2_000).is_too_fast(&terms));
        assert!(lead(201, 2_000).is_too_fast(&terms));
    }
}
