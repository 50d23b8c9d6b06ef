//! Who believes to hold what.

use redlock_protocol::{Instant, Mode, SectionId};

use super::Checker;
use crate::clock::Clock;

/// A section that is believed to hold a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Belief {
    /// Clients of other libraries have the numbers after those of ours.
    pub(crate) client: usize,
    pub(crate) section: SectionId,
    pub(crate) mode: Mode,
    /// Its client uses nodes that may have forgotten what they granted.
    pub(crate) is_careless: bool,
    /// By the client's clock.
    pub(crate) deadline: Instant,
    /// The true time at which it began.
    pub(crate) since: u64,
}

impl Checker {
    /// The other section that is believed in at the same time, if there is one with which this one does
    /// not share the lock.
    pub(crate) fn believe<'a>(
        &mut self,
        key: usize,
        belief: Belief,
        clock: impl Fn(usize) -> &'a Clock,
    ) -> Option<Belief> {
        let believers = &mut self.believers[key];
        let is_live = |other: &Belief| {
            let same = other.section == belief.section && other.client == belief.client;
            !same && clock(other.client).read(belief.since) < other.deadline.as_nanos()
        };
        believers.retain(is_live);
        let is_excluded = |other: &&Belief| {
            let is_shared = (other.mode, belief.mode) == (Mode::Shared, Mode::Shared);
            !is_shared && !other.is_careless && !belief.is_careless
        };
        let other = believers.iter().find(is_excluded).copied();
        believers.push(belief);
        other
    }

    /// False if the section was not believed in any more.
    pub(crate) fn extend(
        &mut self,
        key: usize,
        client: usize,
        section: SectionId,
        deadline: Instant,
        now: u64,
    ) -> bool {
        let belief = self.belief(key, client, section);
        let Some(belief) = belief.filter(|belief| now < belief.deadline.as_nanos()) else {
            return false;
        };
        belief.deadline = deadline;
        true
    }

    /// It lets readers in beside it.
    pub(crate) fn share(&mut self, key: usize, client: usize, section: SectionId) {
        if let Some(belief) = self.belief(key, client, section) {
            belief.mode = Mode::Shared;
        }
    }

    fn belief(&mut self, key: usize, client: usize, section: SectionId) -> Option<&mut Belief> {
        let mut believers = self.believers[key].iter_mut();
        believers.find(|belief| belief.client == client && belief.section == section)
    }

    pub(crate) fn disbelieve(&mut self, key: usize, client: usize, section: SectionId) {
        self.believers[key].retain(|belief| belief.client != client || belief.section != section);
    }

    /// Somebody of a process believes to hold something.
    pub(crate) fn believes(&self, client: usize, now: u64) -> bool {
        let mut all = self.believers.iter().flatten();
        all.any(|belief| belief.client == client && now < belief.deadline.as_nanos())
    }

    pub(crate) fn believers(&self, key: usize) -> &[Belief] {
        &self.believers[key]
    }
}
