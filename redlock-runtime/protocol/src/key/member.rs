//! What a key does for a section that has several: see `compound`.

use std::time::Duration;

use super::{Front, Key, turn::Held};
use crate::{message::SectionId, rules::token::Token, time::Instant};

impl Key {
    /// The turn, if this section has the lock in it.
    pub(super) fn held_by(&mut self, section: SectionId) -> Option<&mut Held> {
        let Front::Held(held) = &mut self.front else {
            return None;
        };
        let is_it = held.section(section).is_some();
        is_it.then_some(held)
    }

    /// Nodes that have the key give no token up to this one any more.
    pub(crate) fn token_reach(&mut self, section: SectionId) -> Option<Token> {
        self.held_by(section).map(|held| held.block.last())
    }

    /// The section goes by this token, which all that follow are above. Renewals keep the lock for so long
    /// from now on.
    pub(crate) fn begin_part(
        &mut self,
        id: SectionId,
        (token, max_hold): (Token, Option<Duration>),
        now: Instant,
    ) {
        let Some(held) = self.held_by(id) else {
            return;
        };
        // Another key of the section brought the larger token, and none that follows here may be below it.
        debug_assert!(held.block.last() >= token, "the key was raised");
        held.block.pass(token);
        if let Some(section) = held.section(id) {
            section.limit_hold(max_hold, now);
        }
    }

    /// Lets the lease run out.
    pub(crate) fn stop_renewing(&mut self, section: SectionId) {
        if let Some(section) = self.section(section) {
            section.stop_renewing();
        }
    }
}
