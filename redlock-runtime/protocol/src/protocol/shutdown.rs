//! Shutting down: nothing new is begun, and holders and releases are waited for.

use std::time::Duration;

use super::Protocol;
use crate::{
    action::{Action, ShutdownError},
    timer::Timer,
};

impl Protocol {
    pub(super) fn on_shutdown(&mut self, timeout: Duration, abort_holders: bool) {
        let until = self.out.now.after(timeout);
        self.stops_at = Some(self.stops_at.map_or(until, |at| at.min(until)));
        self.for_all_keys(|key, cx| key.stop(abort_holders, cx));
    }

    pub(super) fn settle_shutdown(&mut self) {
        let Some(until) = self.stops_at.filter(|_| !self.is_drained) else {
            return;
        };
        let held = || {
            let sections = self.out.sections.keys();
            let compounds = self.compounds.iter().filter(|(_, one)| one.is_open());
            sections
                .filter(|section| !section.is_part())
                .chain(compounds.map(|(section, _)| section))
        };
        let unconfirmed = || {
            let keys = self.keys.iter();
            keys.map(|key| key.unconfirmed_releases(&self.nodes))
        };
        // This is after each event, so it looks for one that is left and counts only at the end.
        let is_left = || held().next().is_some() || unconfirmed().any(|left| left > 0);
        if self.out.now < until && is_left() {
            return self.timers.wake_by(Timer::Shutdown, until);
        }
        let left = ShutdownError {
            held: held().count(),
            unconfirmed: unconfirmed().sum(),
        };
        self.is_drained = true;
        self.for_all_keys(|key, cx| key.stop(true, cx));
        self.deliver();
        self.out.actions.push_back(Action::Drained(left));
    }
}
