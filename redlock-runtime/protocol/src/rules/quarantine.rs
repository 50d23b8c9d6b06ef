//! How long a node that has lost its memory must not vote.
//!
//! Until every lock has ended that counted a vote which the node has forgotten. Such a lock was
//! granted or extended by a majority, and so by one of any `n - majority + 1` *other* nodes. That
//! node raised its `longest` when it voted, or lost its own memory since and was itself out for at
//! least as long. So if that number of others answers with a valid marker, the largest `longest` among them
//! bounds what was forgotten. The readings must be later than the loss by the longest round: until
//! then a round may still win that counted the forgotten vote, with votes that are on their way to
//! the nodes that were read. No second look is needed: locks that are granted later do not rest on
//! this node.
//!
//! The floor of its counters is read from the same nodes once the wait is over, when no such round
//! can win any more.

use std::time::Duration;

use super::{quorum, token::Token, validity::LONGEST_ROUND};
use crate::message::Record;

/// What the other nodes tell.
#[derive(Clone, Copy, Debug)]
pub struct Readings {
    nodes: usize,
    valid: usize,
    longest: Duration,
    top: Token,
}

impl Readings {
    /// Nothing yet, of a set of `nodes` nodes.
    #[must_use]
    pub const fn new(nodes: usize) -> Self {
        Self {
            nodes,
            valid: 0,
            longest: Duration::ZERO,
            top: Token(0),
        }
    }

    /// Takes in the record of another node that votes: its own marker is valid.
    pub fn add(&mut self, record: &Record) {
        // Its own marker is valid, so it has forgotten nothing that it noted.
        self.valid += 1;
        self.longest = self.longest.max(record.longest);
        // Else one wrong counter would become the floor of the node that is let in.
        if record.top.is_plausible() {
            self.top = self.top.max(record.top);
        }
    }

    /// So many others vote that one of them was in every majority that the node was in.
    #[must_use]
    pub const fn are_enough(&self) -> bool {
        self.valid > self.nodes - quorum::majority(self.nodes)
    }

    /// How long after its loss was found the node must stay out; without enough readings as long
    /// as any key lives. Never less than the longest round.
    #[must_use]
    pub fn wait(&self, max_ttl: Duration) -> Duration {
        let forgotten = if self.are_enough() {
            // What a node claims beyond that cannot have been granted.
            self.longest.min(max_ttl)
        } else {
            max_ttl
        };
        // A round that counted a forgotten vote may still be under way, and wins until then.
        forgotten.max(LONGEST_ROUND)
    }

    /// The highest counter of the others.
    #[must_use]
    pub const fn floor(&self) -> Token {
        self.top
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX_TTL: Duration = Duration::from_secs(60);

    fn readings(nodes: usize, longest: &[u64]) -> Readings {
        let mut readings = Readings::new(nodes);
        for &seconds in longest {
            readings.add(&Record {
                longest: Duration::from_secs(seconds),
                top: Token(seconds),
                ..Record::default()
            });
        }
        readings
    }

    #[test]
    fn what_could_have_been_granted_decides_if_enough_others_tell() {
        let two_of_three = readings(3, &[5, 9]);
        assert_eq!(two_of_three.wait(MAX_TTL), Duration::from_secs(9));
        assert_eq!(two_of_three.floor(), Token(9));
        assert_eq!(readings(3, &[5]).wait(MAX_TTL), MAX_TTL);
        assert_eq!(readings(5, &[5, 5]).wait(MAX_TTL), MAX_TTL);
        assert_eq!(
            readings(5, &[5, 5, 5]).wait(MAX_TTL),
            Duration::from_secs(5)
        );
        assert_eq!(readings(4, &[5]).wait(MAX_TTL), MAX_TTL);
        assert_eq!(readings(4, &[5, 5]).wait(MAX_TTL), Duration::from_secs(5));
    }

    #[test]
    fn no_quarantine_is_shorter_than_a_round() {
        assert_eq!(readings(3, &[0, 0]).wait(MAX_TTL), LONGEST_ROUND);
    }

    #[test]
    fn a_single_node_has_nobody_to_ask() {
        assert_eq!(readings(1, &[]).wait(MAX_TTL), MAX_TTL);
    }
}
