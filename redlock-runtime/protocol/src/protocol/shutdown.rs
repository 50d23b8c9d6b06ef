//! Shutting down: nothing new is begun, and holders and releases are waited for. Holders for which the time
//! does not suffice are cut off, and have a little more to let go, so that their locks are released, too.

use std::time::Duration;

use super::Protocol;
use crate::{
    action::{Action, ShutdownError},
    compound::Compound,
    message::SectionId,
};

/// How long holders that were cut off when the time was up have to let go: those that can need far less.
const LAST_RELEASES: Duration = Duration::from_secs(1);

impl Protocol {
    pub(super) fn on_shutdown(&mut self, timeout: Duration, abort_holders: bool) {
        let until = self.out.now.after(timeout);
        // A second shutdown may end the wait sooner, and does not prolong it.
        self.stops_at = Some(self.stops_at.map_or(until, |at| at.min(until)));
        if abort_holders {
            // They are cut off now, and have this timeout to let go: there is no other second at its end.
            self.cut_off.get_or_insert(0);
        }
        let compounds: Vec<SectionId> = self.compounds.keys().copied().collect();
        for compound in compounds {
            self.with_compound(compound, Compound::stop);
        }
        self.for_all_keys(|key, cx| key.stop(abort_holders, cx));
    }

    pub(super) fn settle_shutdown(&mut self) {
        let Some(until) = self.stops_at.filter(|_| !self.is_drained) else {
            return;
        };
        let held = || {
            let sections = self.out.sections.keys();
            let compounds = self.compounds.iter().filter(|(_, one)| one.is_open());
            // Parts come last.
            sections
                .take_while(|section| !section.is_part())
                .chain(compounds.map(|(section, _)| section))
        };
        // This is after each event, so nothing is counted before the end.
        let is_left = || held().next().is_some() || self.nodes.owe_releases();
        if self.out.now < until && is_left() {
            return;
        }
        let held = held().count();
        let keys = self.keys.iter();
        let unconfirmed = keys.map(|key| key.unconfirmed_releases(&self.nodes)).sum();
        self.for_all_keys(|key, cx| key.stop(true, cx));
        self.deliver();
        if self.cut_off.is_none() && held > 0 {
            self.cut_off = Some(held);
            self.stops_at = Some(self.out.now.after(LAST_RELEASES));
            return;
        }
        let held = self.cut_off.map_or(held, |cut_off| cut_off.max(held));
        self.is_drained = true;
        let left = ShutdownError { held, unconfirmed };
        self.out.actions.push_back(Action::Drained(left));
    }
}
