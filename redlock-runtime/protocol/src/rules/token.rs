//! Fencing tokens: which block of numbers a round yields, so that no two sections of a key ever get
//! the same number.
//!
//! A grant or refresh takes a block of `length` numbers from the node's counter `c`: it becomes
//! `max(c + 1, proposal) + length - 1`, and the node reports the first number of the block. A round
//! has won the block that begins with `first` if a majority reported `first` *to that round*. If
//! the numbers differ, the round is asked again, with a higher proposal.
//!
//! Why no two blocks share a number: a vote for `first` finds the counter below `first` and leaves
//! it at the end of the block or above. Any two majorities share a node, on which one vote came
//! before the other; so the later block lies wholly above the earlier one. Nothing about clocks,
//! owners, expiry, or late and repeated requests is used: only that a node keeps its counters.
//!
//! What a poisoned counter can do: silence its own node, and while too few others are there to outvote it,
//! the keys of its stripe. Scripts and replies refuse numbers above [`Token::LARGEST`], and
//! `Numbers::reached` goes by the numbers of a majority, so that one node that is far ahead does not pull the
//! others along; if it does, then no further than to `HIGHEST_PULL`. The floor of a node that is let in
//! follows a single node as well, because no other may remember: up to `SOUND_LEAD` after the clocks. So
//! a poisoned counter can use up an hour's worth of numbers everywhere, once. In return, tokens may not rise
//! where all clocks that a node and its client go by were set back by more than that, and the node loses
//! its memory.

use std::fmt;

/// How many tokens are left above any number that a node is believed to have reached: twelve days
/// of microseconds. No block is as long, so none that begins with such a number passes the largest.
pub(crate) const HEADROOM: u64 = 1 << 40;

/// Counters of sound nodes are no further ahead of the wall clocks of the client and the node that meet, in
/// microseconds: an hour. Proposals are clocks, and what leads beyond them is short.
pub(crate) const SOUND_LEAD: u64 = 3_600_000_000;

/// No sound counter is pulled above it before clocks have come there, in the year 2077: a quarter of all numbers is
/// left.
pub(crate) const HIGHEST_PULL: Token = Token(Token::LARGEST.0 / 4 * 3);

/// A number that grows with every acquisition of a key. Zero is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

impl Token {
    /// No counter of a sound node is above it: microseconds since 1970 reach it in the year 2112.
    /// Below 2^53, so that Lua and databases can count with it exactly.
    pub const LARGEST: Self = Self(1 << 52);

    /// Clients believe no larger number, and nodes do not count on from one: else one node could
    /// bring all others to the end of their numbers.
    pub const HIGHEST_PLAUSIBLE: Self = Self(Self::LARGEST.0 - HEADROOM);

    /// True for numbers that a sound node can report.
    #[must_use]
    pub const fn is_plausible(self) -> bool {
        self.0 >= 1 && self.0 <= Self::HIGHEST_PLAUSIBLE.0
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Tokens that a process has won and not handed out yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Block {
    next: u64,
    end: u64,
}

impl Block {
    /// The block of `length` tokens that begins with `first`.
    #[must_use]
    pub const fn new(first: Token, length: u64) -> Self {
        Self {
            next: first.0,
            end: first.0.saturating_add(length),
        }
    }

    /// Hands out the next token; `None` once all are gone.
    pub fn take(&mut self) -> Option<Token> {
        // A token is never handed out twice, even if its section fails: a store may have seen it.
        (self.next < self.end).then(|| {
            self.next += 1;
            Token(self.next - 1)
        })
    }

    /// Hands out none up to this one any more.
    pub fn pass(&mut self, token: Token) {
        // The numbers above stay: others that share the key go on in this block.
        self.next = self.next.max(token.0.saturating_add(1));
    }

    /// Its last token.
    #[must_use]
    pub const fn last(&self) -> Token {
        Token(self.end.saturating_sub(1))
    }

    /// Whether its next token is above this one.
    #[must_use]
    pub const fn lies_above(&self, token: Token) -> bool {
        self.next > token.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_handed_out_once_from_its_first_token_to_its_last() {
        let mut block = Block::new(Token(7), 2);
        assert!(block.lies_above(Token(6)) && !block.lies_above(Token(7)));
        assert_eq!(block.take(), Some(Token(7)));
        assert_eq!(block.take(), Some(Token(8)));
        assert_eq!(block.take(), None);
    }
}
