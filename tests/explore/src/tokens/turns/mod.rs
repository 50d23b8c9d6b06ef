//! Turns: owners, keys, blocks, and the hand-out of tokens.
//!
//! A turn begins with requests to acquire the key, which a node grants while it has no key. A round
//! whose numbers differ is asked again as a refresh, which a node answers only while its key carries
//! the owner; a turn that takes a new block asks in the same way. A key comes to a node without a
//! vote, too: its reply was lost, a late copy of the request made it anew, or it was put back. That
//! is one step here, and counters may be raised at any time.
//!
//! While leases are *exclusive*, a key goes only when its owner's turn is over, or when its node
//! loses its memory, and a lease that counts a forgotten vote is over before that node votes again.
//! Then all hand-outs must rise, whichever turn they belong to. Otherwise a key may be gone at any
//! moment: tokens must be unique all the same, and rise within a turn.
//!
//! Readers, and callers of several slots, have turns that do not exclude each other: the simulator judges those.

mod again;
mod canonical;
mod node;

use redlock_protocol::{Token, majority, rules::token::Block};

use super::{
    Mutant,
    memory::Memory,
    numbers::{self, Votes},
};
use crate::search::{Model, Step};

/// The most turns at the same time.
const TURNS: usize = 3;

/// What can happen in a course.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turns<const N: usize> {
    /// How many turns at the same time.
    pub(crate) turns: usize,
    /// No number is higher. If numbers slide: none is further above the lowest that still matters.
    pub(crate) highest: u8,
    /// How many tokens a round asks for.
    pub(crate) lengths: &'static [u8],
    /// Rounds propose any number, as from clocks that are as wrong as they like; otherwise only
    /// those propose one that are asked again.
    pub(crate) proposals: bool,
    /// Keys live as long as the turns that they stand for.
    pub(crate) exclusive: bool,
    /// Nodes lose their memory, as often as they like. Only with exclusive leases.
    pub(crate) losses: bool,
    /// Numbers below all that still matter are forgotten, so that courses have no end. Rounds that
    /// are asked again then propose any number. Holds only if counters never fall and a majority
    /// decides.
    pub(crate) slides: bool,
    pub(crate) mutant: Option<Mutant>,
}

/// One moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State<const N: usize> {
    nodes: [Node; N],
    turns: [Turn<N>; TURNS],
    /// The last token that was handed out, if leases are exclusive.
    handed: u8,
    /// The numbers of all blocks that were won, a bit for each, if leases are not exclusive.
    given: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Node {
    counter: u8,
    /// The turns that have a key here, a bit for each.
    owners: u8,
    memory: Memory,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Turn<const N: usize> {
    phase: Phase,
    /// Of the round that is open.
    proposal: u8,
    length: u8,
    votes: Votes<N>,
    /// Which nodes have forgotten their vote, a bit for each.
    forgotten: u8,
    /// The votes of another refresh that is in flight, for the mutant that has two.
    older: Votes<N>,
    /// The rest of its block.
    next: u8,
    end: u8,
    /// The last token that it has handed out, if leases are not exclusive.
    last: u8,
    /// The nodes whose votes its lease counts, and those of them that have forgotten theirs.
    counted: u8,
    missing: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Phase {
    #[default]
    Over,
    Acquiring,
    /// The numbers differed, and it asks again.
    Asking,
    Held,
    /// It takes a new block.
    Refreshing,
    /// Only in mutants: nodes that have replied are asked to raise their counters to the highest
    /// number.
    Confirming,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    Acquire {
        turn: u8,
        proposal: u8,
        length: u8,
    },
    Vote {
        turn: u8,
        node: u8,
        first: u8,
    },
    /// The node has the key without a reply.
    Key {
        turn: u8,
        node: u8,
    },
    Again {
        turn: u8,
        proposal: u8,
        heard: u8,
    },
    Confirm {
        turn: u8,
        number: u8,
        heard: u8,
    },
    Win {
        turn: u8,
        first: u8,
        heard: u8,
    },
    WinOlder {
        turn: u8,
        first: u8,
    },
    Refresh {
        turn: u8,
        proposal: u8,
        length: u8,
    },
    Keep {
        turn: u8,
    },
    HandOut {
        turn: u8,
        token: u8,
    },
    End {
        turn: u8,
    },
    Raise {
        node: u8,
    },
    Expire {
        turn: u8,
        node: u8,
    },
    Lose {
        node: u8,
    },
    Wait {
        node: u8,
    },
    Read {
        node: u8,
        other: u8,
    },
    Admit {
        node: u8,
        counter: u8,
    },
}

type Take<'a, const N: usize> = &'a mut dyn FnMut(Step<Move, State<N>>);

impl<const N: usize> Model for Turns<N> {
    type State = State<N>;
    type Move = Move;

    fn starts(&self) -> Vec<State<N>> {
        vec![State {
            nodes: [Node::default(); N],
            turns: [Turn::OVER; TURNS],
            handed: 0,
            given: 0,
        }]
    }

    fn steps(&self, state: &State<N>, take: &mut impl FnMut(Step<Move, State<N>>)) {
        let is_over = |turn: &Turn<N>| turn.phase == Phase::Over;
        if let Some(turn) = state.turns[..self.turns].iter().position(is_over) {
            self.ask(state, turn, take);
        }
        for turn in 0..self.turns {
            self.hand_out(state, turn, take);
            if !is_over(&state.turns[turn]) {
                self.requests(state, turn, take);
                self.replies(state, turn, take);
                self.keep_or_end(state, turn, take);
            }
        }
        for node in 0..N {
            self.node(state, node, take);
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

impl<const N: usize> Turns<N> {
    /// The same with another number of nodes.
    pub(super) const fn of<const M: usize>(self) -> Turns<M> {
        Turns {
            turns: self.turns,
            highest: self.highest,
            lengths: self.lengths,
            proposals: self.proposals,
            exclusive: self.exclusive,
            losses: self.losses,
            slides: self.slides,
            mutant: self.mutant,
        }
    }

    fn has(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// A round begins: the first of a turn, or one that takes a new block.
    fn ask(&self, state: &State<N>, turn: usize, take: Take<'_, N>) {
        let Turn { phase, votes, .. } = state.turns[turn];
        let begins = phase == Phase::Over;
        let highest = if self.proposals { self.highest } else { 0 };
        for proposal in 0..=highest {
            for &length in self.lengths {
                let mut next = *state;
                let asked = &mut next.turns[turn];
                asked.phase = if begins {
                    Phase::Acquiring
                } else {
                    Phase::Refreshing
                };
                asked.begin_round(proposal, length);
                if phase == Phase::Refreshing {
                    asked.older = votes;
                }
                let turn = turn as u8;
                let by = if begins {
                    Move::Acquire {
                        turn,
                        proposal,
                        length,
                    }
                } else {
                    Move::Refresh {
                        turn,
                        proposal,
                        length,
                    }
                };
                take(Step::new(by, next));
            }
        }
    }

    /// Some of the replies that are on their way arrive: the round is won, or asked again.
    fn replies(&self, state: &State<N>, turn: usize, take: Take<'_, N>) {
        let Turn {
            phase,
            votes,
            older,
            ..
        } = state.turns[turn];
        if phase == Phase::Held {
            return;
        }
        let place = turn as u8;
        if let Some(first) = numbers::agreed(&votes) {
            for heard in self.counted(&votes, first) {
                let by = Move::Win {
                    turn: place,
                    first,
                    heard,
                };
                self.win(state, turn, (first, heard), by, take);
            }
        }
        if let Some(first) = numbers::agreed(&older) {
            let by = Move::WinOlder { turn: place, first };
            self.win(state, turn, (first, 0), by, take);
        }
        if self.slides {
            // Whether votes that are forgotten have differed is not known.
            self.ask_again(state, turn, 0, 0..=self.highest, take);
        } else if phase != Phase::Confirming {
            for heard in numbers::heard_first(&votes, majority(N)) {
                if numbers::agreed(&heard).is_none() {
                    self.disagree(state, turn, &heard, take);
                }
            }
        }
    }

    /// Which votes the lease can count: it matters only if nodes forget them.
    fn counted(&self, votes: &Votes<N>, first: u8) -> Vec<u8> {
        if !self.losses {
            return vec![0];
        }
        let equal = votes.map(|vote| if vote == first { vote } else { 0 });
        let heard = numbers::heard_first(&equal, majority(N));
        heard.map(|heard| numbers::which(&heard)).collect()
    }

    fn win(
        &self,
        state: &State<N>,
        turn: usize,
        (first, heard): (u8, u8),
        by: Move,
        take: Take<'_, N>,
    ) {
        let mut next = *state;
        let winner = &mut next.turns[turn];
        let Turn { length, last, .. } = *winner;
        if matches!(by, Move::WinOlder { .. }) {
            winner.older = [0; N];
        } else {
            winner.phase = Phase::Held;
            winner.counted = heard;
            winner.missing = heard & winner.forgotten;
            winner.begin_round(0, 0);
        }
        let block = Block::new(Token(u64::from(first)), u64::from(length));
        let is_compared = !self.has(Mutant::OlderBlockTaken);
        let is_new = !is_compared || block.lies_above(Token(u64::from(last)));
        (winner.next, winner.end) = if is_new {
            (first, first + length)
        } else {
            (0, 0)
        };
        let mut wrong = None;
        if self.exclusive
            && let Some(other) = state.held_beside(turn)
        {
            wrong = Some(format!("{turn} wins while {other} has the lock"));
        }
        if !self.exclusive && matches!(by, Move::Win { .. }) {
            let block = numbers::block(first, length);
            next.given |= block;
            if state.given & block != 0 {
                wrong = Some(format!("a token of the block from {first} is given twice"));
            }
        }
        take(Step { by, next, wrong });
    }

    /// A refresh is given up, and the turn goes on with its block; or the turn is over.
    fn keep_or_end(&self, state: &State<N>, turn: usize, take: Take<'_, N>) {
        let place = turn as u8;
        if state.turns[turn].phase == Phase::Refreshing {
            let mut next = *state;
            next.turns[turn].keep();
            take(Step::new(Move::Keep { turn: place }, next));
        }
        let mut next = *state;
        next.end(turn);
        if self.has(Mutant::BlockOutlivesTurn) {
            let Turn {
                next: first, end, ..
            } = state.turns[turn];
            (next.turns[turn].next, next.turns[turn].end) = (first, end);
        }
        take(Step::new(Move::End { turn: place }, next));
    }

    /// A section begins, and gets the next token.
    fn hand_out(&self, state: &State<N>, turn: usize, take: Take<'_, N>) {
        let Turn {
            next, end, last, ..
        } = state.turns[turn];
        let mut block = Block::new(Token(u64::from(next)), u64::from(end - next));
        let Some(Token(token)) = block.take() else {
            return;
        };
        let token = token as u8;
        let mut after = *state;
        after.turns[turn].next += 1;
        let before = if self.exclusive {
            after.handed = token.max(state.handed);
            state.handed
        } else {
            after.turns[turn].last = token;
            last
        };
        let wrong = (token <= before).then(|| format!("{token} is handed out after {before}"));
        let turn = turn as u8;
        take(Step {
            by: Move::HandOut { turn, token },
            next: after,
            wrong,
        });
    }
}

impl<const N: usize> Turn<N> {
    fn begin_round(&mut self, proposal: u8, length: u8) {
        (self.proposal, self.length) = (proposal, length);
        self.votes = [0; N];
        self.forgotten = 0;
    }

    /// The refresh is given up.
    fn keep(&mut self) {
        self.phase = Phase::Held;
        self.begin_round(0, 0);
    }
}

impl<const N: usize> State<N> {
    /// The turn is over, and its keys go. That they may stay for a while makes no difference: a node
    /// that still has one does what a node does that no request reaches.
    fn end(&mut self, turn: usize) {
        self.turns[turn] = Turn::OVER;
        for node in &mut self.nodes {
            node.owners &= !(1 << turn);
        }
    }

    /// Another turn that is held.
    fn held_beside(&self, turn: usize) -> Option<u8> {
        let is_held = |other: &Turn<N>| matches!(other.phase, Phase::Held | Phase::Refreshing);
        let mut others = self.turns.iter().enumerate();
        let found = others.find(|&(place, other)| place != turn && is_held(other));
        found.map(|(place, _)| place as u8)
    }
}
