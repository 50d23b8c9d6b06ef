//! Fencing tokens.

mod again;
mod canonical;
pub(crate) mod courses;
mod memory;
mod node;
mod numbers;
pub(crate) mod rounds;
pub(crate) mod turns;

use redlock_protocol::majority;

use crate::trial::mutants;
use numbers::Votes;

mutants! {
    /// A deliberate fault.
    ///
    /// No course can show that requests do not name the admission that the client knows of: a vote and its counter
    /// are of one memory whichever that is, and the name tells two databases of one server apart. Nor that a block
    /// is taken without looking whether it lies above the last token: a refresh is asked for once the block before
    /// is complete, so that its block lies above; `OlderBlockTaken` shows what the comparison is for.
    Mutant {
        /// One node's number is enough.
        NumberOfOne,
        /// Without agreement the highest number is taken.
        HighestNumber,
        /// The middle one.
        MiddleNumber,
        /// The lowest one.
        LowestNumber,
        /// A grant reports the counter and does not raise it.
        CounterNotRaised,
        /// A grant raises the counter to the first number of the block only.
        RaisedToTheFirst,
        /// A grant sets the counter to the proposal, also if that is lower.
        ProposalAsItIs,
        /// Replies to the round before count.
        RepliesOfTheRoundBefore,
        /// A node that has lost its memory votes again without a floor.
        NoFloor,
        /// It takes the counter of one other node.
        FloorOfOneOther,
        /// Its floor is read before the wait is over.
        FloorBeforeTheWait,
        /// Its floor is read from nodes that have lost their memory, too.
        FloorOfTheForgetful,
        /// Rounds go on that have counted a vote that was forgotten longer ago than the longest round.
        RoundsNotBounded,
        /// Leases go on that count a forgotten vote when the node votes again.
        LeasesNotWaitedFor,
        /// Two refreshes of a turn are in flight, and the older block is taken after the newer one.
        OlderBlockTaken,
        /// The block of a turn that is over is handed out.
        BlockOutlivesTurn,
        /// A node grants a key that another owner has.
        HeldKeyGranted,
        /// A node refreshes a key that another owner has, or no key.
        AnyOwnerRefreshed,
        /// Keys expire before the leases that they stand for.
        KeysExpireEarly,
    }
}

impl Mutant {
    /// What is won without agreement.
    fn without_agreement<const N: usize>(self, votes: &Votes<N>) -> Vec<u8> {
        let least = match self {
            Self::NumberOfOne => 1,
            Self::HighestNumber | Self::MiddleNumber | Self::LowestNumber => majority(N),
            _ => return Vec::new(),
        };
        let mut results = Vec::new();
        for heard in numbers::heard_first(votes, least) {
            let mut heard: Vec<u8> = heard.into_iter().filter(|&vote| vote != 0).collect();
            heard.sort_unstable();
            results.push(match self {
                Self::HighestNumber => heard[heard.len() - 1],
                Self::MiddleNumber => heard[(heard.len() - 1) / 2],
                _ => heard[0],
            });
        }
        results.sort_unstable();
        results.dedup();
        results
    }
}
