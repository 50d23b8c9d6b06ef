//! The order of numbers: rounds that ask nodes for blocks, and nothing else.
//!
//! Every round may be asked at any time, and every node may reply to it at any time: whether the key
//! is gone, carries an owner, was put back or made anew by a late copy is left open, so each of these
//! is covered. An acquisition, a refresh of a turn and a round that is asked again after a
//! disagreement are the same here. No step stands for a lost message: it is one that has not arrived
//! yet. A late request, or a round of another key of the stripe, raises a counter.

mod canonical;

use super::{
    Mutant,
    memory::{Memory, Progress},
    numbers::{self, Votes},
};
use crate::search::{Model, Step};

/// The most rounds that are open at the same time.
const ROUNDS: usize = 3;

/// What can happen in a course.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rounds<const N: usize> {
    /// How many rounds are open at the same time.
    pub(crate) open: usize,
    /// No number is higher. If numbers slide: none is further above the lowest that can still be
    /// won.
    pub(crate) highest: u8,
    /// How many tokens a round asks for.
    pub(crate) lengths: &'static [u8],
    /// Rounds propose any number, as from clocks that are as wrong as they like; otherwise none.
    pub(crate) proposals: bool,
    /// Nodes lose their memory, as often as they like.
    pub(crate) losses: bool,
    /// Numbers below all that can still be won are forgotten, so that courses have no end. Holds only
    /// if counters never fall and a majority decides.
    pub(crate) slides: bool,
    pub(crate) mutant: Option<Mutant>,
}

/// One moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State<const N: usize> {
    nodes: [Node; N],
    rounds: [Round<N>; ROUNDS],
    /// The numbers of all blocks that were won, a bit for each.
    given: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Node {
    counter: u8,
    memory: Memory,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Round<const N: usize> {
    is_open: bool,
    proposal: u8,
    length: u8,
    /// The highest number of the blocks that had been won when it was asked.
    above: u8,
    votes: Votes<N>,
    /// Which nodes have forgotten their vote, a bit for each.
    forgotten: u8,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    Ask { round: u8, proposal: u8, length: u8 },
    Vote { round: u8, node: u8, first: u8 },
    Win { round: u8, first: u8 },
    End { round: u8 },
    Raise { node: u8 },
    Lose { node: u8 },
    Wait { node: u8 },
    Read { node: u8, other: u8 },
    Admit { node: u8, counter: u8 },
}

type Take<'a, const N: usize> = &'a mut dyn FnMut(Step<Move, State<N>>);

impl<const N: usize> Model for Rounds<N> {
    type State = State<N>;
    type Move = Move;

    fn starts(&self) -> Vec<State<N>> {
        vec![State {
            nodes: [Node::default(); N],
            rounds: [Round::IDLE; ROUNDS],
            given: 0,
        }]
    }

    fn steps(&self, state: &State<N>, take: &mut impl FnMut(Step<Move, State<N>>)) {
        for round in 0..self.open {
            if !state.rounds[round].is_open {
                self.ask(state, round, take);
                continue;
            }
            for node in 0..N {
                self.vote(state, round, node, take);
            }
            self.win(state, round, take);
            self.give_up(state, round, take);
        }
        for node in 0..N {
            self.raise(state, node, take);
            if self.losses {
                self.lose(state, node, take);
                self.recover(state, node, take);
            }
        }
    }

    fn simple(&self, state: &State<N>) -> State<N> {
        let mut state = *state;
        if self.slides {
            state.forget_what_cannot_matter();
        }
        state
    }

    fn canonical(&self, state: &State<N>) -> State<N> {
        self.simple(state).sorted()
    }
}

impl<const N: usize> Rounds<N> {
    /// The same with another number of nodes.
    pub(super) const fn of<const M: usize>(self) -> Rounds<M> {
        Rounds {
            open: self.open,
            highest: self.highest,
            lengths: self.lengths,
            proposals: self.proposals,
            losses: self.losses,
            slides: self.slides,
            mutant: self.mutant,
        }
    }

    fn has(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    fn ask(&self, state: &State<N>, round: usize, take: Take<'_, N>) {
        let free = Round::IDLE;
        if state.rounds[..round].contains(&free) && state.rounds[round] == free {
            // Another one of the kind is asked already.
            return;
        }
        let highest = if self.proposals { self.highest } else { 0 };
        for proposal in 0..=highest {
            for &length in self.lengths {
                let mut next = *state;
                next.rounds[round] = Round {
                    is_open: true,
                    proposal,
                    length,
                    above: state.highest_given(),
                    // Of the round before, if those are not forgotten.
                    ..state.rounds[round]
                };
                let round = round as u8;
                let by = Move::Ask {
                    round,
                    proposal,
                    length,
                };
                take(Step::new(by, next));
            }
        }
    }

    /// A request arrives: the counter `c` becomes `max(c + 1, proposal) + length - 1`.
    fn vote(&self, state: &State<N>, round: usize, node: usize, take: Take<'_, N>) {
        let asked = &state.rounds[round];
        let Node { counter, memory } = state.nodes[node];
        if asked.votes[node] != 0 || !memory.is_whole() {
            return;
        }
        let first = match self.mutant {
            Some(Mutant::CounterNotRaised) => counter.max(asked.proposal).max(1),
            Some(Mutant::ProposalAsItIs) if asked.proposal > 0 => asked.proposal,
            _ => (counter + 1).max(asked.proposal),
        };
        let last = first + asked.length - 1;
        if last > self.highest {
            return;
        }
        let mut next = *state;
        next.nodes[node].counter = match self.mutant {
            Some(Mutant::RaisedToTheFirst) => first,
            _ => last,
        };
        next.rounds[round].votes[node] = first;
        let (round, node) = (round as u8, node as u8);
        take(Step::new(Move::Vote { round, node, first }, next));
    }

    /// Enough of the replies that are on their way have arrived, and the round has won.
    fn win(&self, state: &State<N>, round: usize, take: Take<'_, N>) {
        let asked = &state.rounds[round];
        let firsts = match (numbers::agreed(&asked.votes), self.mutant) {
            (Some(first), _) => vec![first],
            (None, Some(mutant)) => mutant.without_agreement(&asked.votes),
            (None, None) => return,
        };
        for first in firsts {
            let mut next = *state;
            let block = numbers::block(first, asked.length);
            next.given |= block;
            next.rounds[round] = Round::IDLE;
            let wrong = if state.given & block != 0 {
                Some(format!("a token of the block from {first} is given twice"))
            } else {
                let above = asked.above;
                (first <= above).then(|| {
                    format!(
                        "a block from {first} is won, but {above} was given before it was asked for"
                    )
                })
            };
            let round = round as u8;
            let by = Move::Win { round, first };
            take(Step { by, next, wrong });
        }
    }

    /// The round is given up, or asked again, which begins another one.
    fn give_up(&self, state: &State<N>, round: usize, take: Take<'_, N>) {
        let mut next = *state;
        let Round { votes, .. } = state.rounds[round];
        next.rounds[round] = Round::IDLE;
        if self.has(Mutant::RepliesOfTheRoundBefore) {
            next.rounds[round].votes = votes;
        }
        let round = round as u8;
        take(Step::new(Move::End { round }, next));
    }

    fn raise(&self, state: &State<N>, node: usize, take: Take<'_, N>) {
        let Node { counter, memory } = state.nodes[node];
        if counter < self.highest && memory.is_whole() {
            let mut next = *state;
            next.nodes[node].counter += 1;
            let node = node as u8;
            take(Step::new(Move::Raise { node }, next));
        }
    }

    fn lose(&self, state: &State<N>, node: usize, take: Take<'_, N>) {
        let mut next = *state;
        next.nodes[node] = Node {
            counter: 0,
            memory: Memory::LOST,
        };
        for round in &mut next.rounds {
            if round.votes[node] != 0 {
                round.forgotten |= 1 << node;
            }
        }
        let node = node as u8;
        take(Step::new(Move::Lose { node }, next));
    }

    fn recover(&self, state: &State<N>, node: usize, take: Take<'_, N>) {
        let nodes = state.nodes.map(|node| (node.memory, node.counter));
        for progress in Memory::progress(node, &nodes, self.mutant) {
            let mut next = *state;
            let place = node as u8;
            let by = match progress {
                Progress::Waited(memory) => {
                    next.nodes[node].memory = memory;
                    next.end_what_counts(node, self.mutant);
                    Move::Wait { node: place }
                }
                Progress::Read { other, memory } => {
                    next.nodes[node].memory = memory;
                    let other = other as u8;
                    Move::Read { node: place, other }
                }
                Progress::Admitted { counter } => {
                    let memory = Memory::default();
                    next.nodes[node] = Node { counter, memory };
                    Move::Admit {
                        node: place,
                        counter,
                    }
                }
            };
            take(Step::new(by, next));
        }
    }
}

impl<const N: usize> State<N> {
    const fn highest_given(&self) -> u8 {
        match self.given.checked_ilog2() {
            Some(highest) => highest as u8,
            None => 0,
        }
    }

    /// Rounds that have counted a vote which this node has forgotten began before the loss, and are
    /// over.
    fn end_what_counts(&mut self, node: usize, mutant: Option<Mutant>) {
        for round in &mut self.rounds {
            let counts = round.forgotten >> node & 1 == 1;
            if counts && mutant != Some(Mutant::RoundsNotBounded) {
                *round = Round::IDLE;
            }
        }
    }
}
