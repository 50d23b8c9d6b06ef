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
//!
//! Without *owners* all this is left out: see [`rounds`](super::rounds).

use redlock_protocol::{Token, majority, rules::token::Block};

use super::{
    Mutant,
    memory::Memory,
    numbers::{self, Votes},
};
use crate::search::{Model, Step};

/// The most turns at the same time.
pub(super) const TURNS: usize = 3;

/// What can happen in a course.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turns<const N: usize> {
    /// There are owners, keys and the hand-out of tokens.
    pub(crate) owners: bool,
    /// How many turns at the same time.
    pub(crate) turns: usize,
    /// No number is higher. If numbers slide: none is further above the lowest that still matters.
    pub(crate) highest: u8,
    /// How many tokens a round asks for.
    pub(crate) lengths: &'static [u8],
    /// Rounds propose any number, as from clocks that are as wrong as they like; otherwise only
    /// those of owners propose one that are asked again.
    pub(crate) proposals: bool,
    /// Keys live as long as the turns that they stand for.
    pub(crate) exclusive: bool,
    /// Nodes lose their memory, as often as they like. Of owners only with exclusive leases.
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
    pub(super) nodes: [Node; N],
    pub(super) turns: [Turn<N>; TURNS],
    /// The last token that was handed out, if leases are exclusive.
    pub(super) handed: u8,
    /// The numbers of all blocks that were won, a bit for each, if leases are not exclusive.
    pub(super) given: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Node {
    pub(super) counter: u8,
    /// The turns that have a key here, a bit for each.
    pub(super) owners: u8,
    pub(super) memory: Memory,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Turn<const N: usize> {
    pub(super) phase: Phase,
    /// Of the round that is open.
    pub(super) proposal: u8,
    pub(super) length: u8,
    pub(super) votes: Votes<N>,
    /// Which nodes have forgotten their vote, a bit for each.
    pub(super) forgotten: u8,
    /// The votes of another refresh that is in flight, for the mutant that has two.
    pub(super) older: Votes<N>,
    /// The rest of its block.
    pub(super) next: u8,
    pub(super) end: u8,
    /// Its next tokens are to be above this one. The last that it has handed out, if leases are not
    /// exclusive; without owners the highest of the blocks that had been won when it was asked.
    pub(super) above: u8,
    /// The nodes whose votes its lease counts, and those of them that have forgotten theirs.
    pub(super) counted: u8,
    pub(super) missing: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Phase {
    #[default]
    Over,
    Acquiring,
    /// The numbers differed, and it asks again.
    Asking,
    Held,
    /// It takes a new block.
    Refreshing,
}

/// What a round asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    proposal: u8,
    length: u8,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    Acquire { turn: usize, asked: Asked },
    Vote { turn: usize, node: usize, first: u8 },
    // The node has the key without a reply.
    Key { turn: usize, node: usize },
    Again { turn: usize, number: u8, heard: u8 },
    Win { turn: usize, first: u8, heard: u8 },
    WinOlder { turn: usize, first: u8 },
    Refresh { turn: usize, asked: Asked },
    Keep { turn: usize },
    HandOut { turn: usize, token: u8 },
    End { turn: usize },
    Raise { node: usize },
    Expire { turn: usize, node: usize },
    Lose { node: usize },
    Wait { node: usize },
    Read { node: usize, other: usize },
    Admit { node: usize, counter: u8 },
}

pub(super) type Take<'a, const N: usize> = &'a mut dyn FnMut(Step<Move, State<N>>);

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
        for turn in 0..self.turns {
            self.hand_out(state, turn, take);
            if state.turns[turn].phase == Phase::Over {
                self.begin(state, turn, take);
                continue;
            }
            self.requests(state, turn, take);
            if self.owners {
                self.replies(state, turn, take);
            } else {
                self.win_round(state, turn, take);
            }
            self.keep_or_end(state, turn, take);
        }
        for node in 0..N {
            self.node(state, node, take);
        }
    }

    fn simple(&self, state: &State<N>) -> State<N> {
        let mut state = *state;
        if self.slides {
            state.forget_what_cannot_matter(self.owners);
        }
        state
    }

    fn canonical(&self, state: &State<N>) -> State<N> {
        self.simple(state).sorted()
    }
}

impl<const N: usize> Turns<N> {
    pub(super) fn has(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// A turn begins, unless another one begins that is the same.
    fn begin(&self, state: &State<N>, turn: usize, take: Take<'_, N>) {
        let (before, this) = (&state.turns[..turn], state.turns[turn]);
        if this != Turn::OVER || !before.contains(&this) {
            self.ask(state, turn, take);
        }
    }

    /// A round begins: the first of a turn, or one that takes a new block.
    pub(super) fn ask(&self, state: &State<N>, turn: usize, take: Take<'_, N>) {
        let Turn { phase, votes, .. } = state.turns[turn];
        let highest = if self.proposals { self.highest } else { 0 };
        for proposal in 0..=highest {
            for &length in self.lengths {
                let mut next = *state;
                let this = &mut next.turns[turn];
                let asked = Asked { proposal, length };
                let by = if phase == Phase::Over {
                    // The votes of the round before, if those are not forgotten.
                    (this.phase, this.proposal, this.length) = (Phase::Acquiring, proposal, length);
                    this.above = if self.owners {
                        0
                    } else {
                        state.highest_given()
                    };
                    Move::Acquire { turn, asked }
                } else {
                    this.begin_round(proposal, length);
                    if phase == Phase::Refreshing {
                        this.older = votes;
                    }
                    this.phase = Phase::Refreshing;
                    Move::Refresh { turn, asked }
                };
                take(Step::new(by, next));
            }
        }
    }

    /// Some of the replies that are on their way arrive: the round is won, or asked again.
    fn replies(&self, state: &State<N>, turn: usize, take: Take<'_, N>) {
        let Turn { phase, votes, .. } = state.turns[turn];
        if phase == Phase::Held {
            return;
        }
        if let Some(first) = numbers::agreed(&votes) {
            for heard in self.counted(&votes, first) {
                let by = Move::Win { turn, first, heard };
                self.win(state, turn, (first, heard), by, take);
            }
        }
        if let Some(first) = numbers::agreed(&state.turns[turn].older) {
            let by = Move::WinOlder { turn, first };
            self.win(state, turn, (first, 0), by, take);
        }
        if self.slides {
            // Whether votes that are forgotten have differed is not known.
            for proposal in 0..=self.highest {
                self.ask_again(state, turn, (0, proposal), take);
            }
        } else {
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
        let Turn { length, above, .. } = *winner;
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
        let is_new = !is_compared || block.lies_above(Token(u64::from(above)));
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
            wrong = next.give(first, length);
        }
        take(Step { by, next, wrong });
    }

    /// A refresh is given up, and the turn goes on with its block; or the turn is over.
    fn keep_or_end(&self, state: &State<N>, turn: usize, take: Take<'_, N>) {
        let this = state.turns[turn];
        if this.phase == Phase::Refreshing {
            take(Step::change(state, Move::Keep { turn }, |next| {
                next.turns[turn].keep()
            }));
        }
        let mut next = *state;
        next.end(turn);
        let after = &mut next.turns[turn];
        if self.has(Mutant::BlockOutlivesTurn) {
            (after.next, after.end) = (this.next, this.end);
        }
        if self.has(Mutant::RepliesOfTheRoundBefore) {
            after.votes = this.votes;
        }
        take(Step::new(Move::End { turn }, next));
    }

    /// A section begins, and gets the next token.
    fn hand_out(&self, state: &State<N>, turn: usize, take: Take<'_, N>) {
        let Turn { next, end, .. } = state.turns[turn];
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
            after.turns[turn].above = token;
            state.turns[turn].above
        };
        let wrong = (token <= before).then(|| format!("{token} is handed out after {before}"));
        take(Step {
            by: Move::HandOut { turn, token },
            next: after,
            wrong,
        });
    }
}

impl<const N: usize> Turn<N> {
    pub(super) const OVER: Self = Self {
        phase: Phase::Over,
        proposal: 0,
        length: 0,
        votes: [0; N],
        forgotten: 0,
        older: [0; N],
        next: 0,
        end: 0,
        above: 0,
        counted: 0,
        missing: 0,
    };

    pub(super) fn begin_round(&mut self, proposal: u8, length: u8) {
        (self.proposal, self.length) = (proposal, length);
        self.votes = [0; N];
        self.forgotten = 0;
    }

    /// The refresh is given up.
    pub(super) fn keep(&mut self) {
        self.phase = Phase::Held;
        self.begin_round(0, 0);
    }
}

impl<const N: usize> State<N> {
    /// The turn is over, and its keys go. That they may stay for a while makes no difference: a node
    /// that still has one does what a node does that no request reaches.
    pub(super) fn end(&mut self, turn: usize) {
        self.turns[turn] = Turn::OVER;
        for node in &mut self.nodes {
            node.owners &= !(1 << turn);
        }
    }

    /// Another turn that is held.
    fn held_beside(&self, turn: usize) -> Option<usize> {
        let is_held = |other: &Turn<N>| matches!(other.phase, Phase::Held | Phase::Refreshing);
        (0..TURNS).find(|&other| other != turn && is_held(&self.turns[other]))
    }

    /// A block is won: what is wrong, if somebody had a token of it before.
    pub(super) fn give(&mut self, first: u8, length: u8) -> Option<String> {
        let block = ((1_u32 << length) - 1) << first;
        let is_new = self.given & block == 0;
        self.given |= block;
        (!is_new).then(|| format!("a token of the block from {first} is given twice"))
    }

    const fn highest_given(&self) -> u8 {
        match self.given.checked_ilog2() {
            Some(highest) => highest as u8,
            None => 0,
        }
    }
}
