//! Which numbers a round asks for: such that nodes agree, and that counters stay behind the wall clock.
//!
//! Proposals are microseconds since 1970. A node that has lost its counter begins again at a client's clock, and if
//! too few others remember theirs, only the clock makes later tokens larger than earlier ones. So counters must not
//! run away from it, however much is asked of them: what would lead beyond the clock is short.

use std::time::Duration;

use super::token::Token;
use crate::message::BlockRequest;

/// How many tokens a round takes while sections wait here: as many as can begin while a block is young.
pub(crate) const BLOCK: u64 = 256;

/// How many an attempt takes while none of them waits yet, because those that ask while it is under way need no
/// round of their own; and any round whose numbers are ahead of the clock. A round takes longer than this number of
/// microseconds, so the clock catches up.
pub(crate) const SMALL_BLOCK: u64 = 16;

/// How far above the numbers that disagreed the next proposal is: a millisecond's worth of
/// proposals, so that other clients' blocks of the same moment do not reach it.
const LEAD: u64 = 1_000;

/// The next block of a turn: above what it has had by as much as clocks have gone on since, because other
/// processes propose by theirs, but not beyond the clock; and not below `least`.
pub(crate) fn next_block(
    had: Token,
    elapsed: Duration,
    (least, length): (Token, u64),
    wall_micros: u64,
) -> BlockRequest {
    let elapsed = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX);
    let by_clock = had.0.saturating_add(elapsed).min(wall_micros);
    // If the wall clock was set back, numbers rise nevertheless.
    let proposal = by_clock.max(had.0.saturating_add(1)).max(least.0);
    BlockRequest {
        proposal: Token(proposal.min(Token::LARGEST.0)),
        length: limited(length, proposal, wall_micros),
    }
}

/// What is proposed after numbers that did not agree, the highest of which is `reached`. Others may have the same
/// counter at the same time: two that have met would go on to propose the same numbers if chance did not part them.
/// Since the last of them came, those that propose by a clock have gone on with it, whatever this process's own says.
pub(crate) fn after_disagreement(
    (reached, elapsed): (Token, Duration),
    length: u64,
    chance: u128,
    wall_micros: u64,
) -> BlockRequest {
    // One of 64 places by a mixed hash, so that owners that met at one number part.
    let drawn = (chance as u64 ^ reached.0).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58;
    let length = limited(length, reached.0, wall_micros);
    // Ahead of the clock nobody proposes by it.
    let lead = if reached.0 > wall_micros { 1 } else { LEAD };
    // Each as far from the next as a block is long.
    let elapsed = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX);
    // The 64 places already reach as far as that.
    let gone_on = elapsed.saturating_sub(length << 6);
    let proposal = (reached.0 + lead + length * drawn).saturating_add(gone_on);
    BlockRequest {
        proposal: Token(proposal.min(Token::LARGEST.0)),
        length,
    }
}

fn limited(length: u64, number: u64, wall_micros: u64) -> u64 {
    match number > wall_micros {
        // Ahead of the clock, numbers are scarce: the clock must be able to catch up.
        true => length.min(SMALL_BLOCK),
        false => length,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn those_that_have_met_propose_other_numbers() {
        let reached = Token(1_985);
        for (wall, lead) in [(2_000, LEAD), (1_900, 1)] {
            let of = |owner| {
                after_disagreement((reached, Duration::ZERO), 16, owner, wall)
                    .proposal
                    .0
            };
            let apart: BTreeSet<u64> = (0..64).map(|owner| of(owner) - 1_985 - lead).collect();
            let is_near = |by: &u64| by.is_multiple_of(16) && *by < 1_024;
            assert!(apart.len() > 16 && apart.iter().all(is_near), "{apart:?}");
        }
    }

    #[test]
    fn a_turn_goes_on_by_the_clock_and_does_not_run_away_from_it() {
        let next = |had, micros, least, wall| {
            let elapsed = Duration::from_micros(micros);
            let block = next_block(Token(had), elapsed, (Token(least), BLOCK), wall);
            (block.proposal.0, block.length)
        };
        assert_eq!(next(1_000, 500, 0, 5_000), (1_500, BLOCK));
        assert_eq!(next(1_000, 500, 0, 1_200), (1_200, BLOCK));
        assert_eq!(next(1_000, 500, 0, 1_000), (1_001, SMALL_BLOCK));
        assert_eq!(next(1_000, 500, 9_000, 5_000), (9_000, SMALL_BLOCK));
        assert_eq!(next(1_000, 500, 3_000, 5_000), (3_000, BLOCK));
    }

    #[test]
    fn nobody_falls_behind_by_a_pause() {
        let proposal = |micros| {
            let reached = (Token(5_000), Duration::from_micros(micros));
            after_disagreement(reached, 16, 7, 0).proposal.0
        };
        assert_eq!(proposal(1_024), proposal(0));
        assert_eq!(proposal(1_124), proposal(0) + 100);
    }

    #[test]
    fn nothing_is_above_the_largest_number() {
        let largest = Token::LARGEST;
        let next = next_block(largest, Duration::MAX, (largest, 1), u64::MAX);
        assert_eq!(next.proposal, largest);
        for wall in [0, u64::MAX] {
            let next = after_disagreement((largest, Duration::MAX), BLOCK, 7, wall);
            assert_eq!(next.proposal, largest);
        }
    }
}
