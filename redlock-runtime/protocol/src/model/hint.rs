//! Waiter hints.

use super::{Model, Moment, vote::Vote};
use crate::{
    message::{Mode, Owner, Process},
    rules::token::{fingerprint, split_slot, stripe},
};

/// A client waits for a key of the stripe.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hint {
    second: u64,
    key: u64,
    process: Process,
    mode: Mode,
}

impl Model {
    /// Leaves a hint, unless one of this very second stands there for this key that does its
    /// duty: it is of another process than the holder's, and of one that waits to have the key alone
    /// if this one does.
    pub(super) fn leave_hint(&mut self, vote: Vote<'_>, holder: Option<Owner>, at: Moment) {
        let hint = Hint::new(vote, at);
        let stands = |old: &Hint| {
            old.second == hint.second
                && old.key == hint.key
                && (old.mode == Mode::Exclusive || hint.mode == Mode::Shared)
                && holder.is_none_or(|holder| old.process != holder.process())
        };
        let place = place(vote.key);
        if !self.hints.get(&place).is_some_and(stands) {
            self.hints.insert(place, hint);
        }
    }

    /// The process waits no more, and must not stop readers that come after it.
    pub(super) fn remove_own_hint(&mut self, vote: Vote<'_>, at: Moment) {
        let ours = Hint::new(vote, at);
        let place = place(vote.key);
        let hint = self.hints.get(&place);
        if hint.is_some_and(|hint| hint.key == ours.key && hint.process == ours.process) {
            self.hints.remove(&place);
        }
    }

    /// Another process waits. Readers hinder only those that wait to have the key alone.
    pub(super) fn has_remote_waiter(&self, vote: Vote<'_>, at: Moment) -> bool {
        let ours = Hint::new(vote, at);
        self.hints.get(&place(vote.key)).is_some_and(|hint| {
            hint.second.abs_diff(ours.second) <= 1
                && hint.key == ours.key
                && hint.process != ours.process
                && (hint.mode == Mode::Exclusive || vote.mode == Mode::Exclusive)
        })
    }
}

/// By stripe; each slot of a lock with permits has a place of its own, because who waits for one waits for
/// all of them.
pub(super) type Place = (u64, u64);

fn place(key: &str) -> Place {
    (stripe(key), fingerprint(split_slot(key).1))
}

impl Hint {
    fn new(vote: Vote<'_>, at: Moment) -> Self {
        Self {
            second: at.wall_micros / 1_000_000,
            key: fingerprint(vote.key),
            process: vote.owner.process(),
            mode: vote.mode,
        }
    }
}
