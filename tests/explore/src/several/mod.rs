//! Sections with several keys: all or none.
//!
//! What a section does is decided by the protocol's own `Compound`; what it hands out by its `Block`. Keys
//! and nodes are models. A round is one step, which asks any majority, and comes as late as it likes; a part
//! that does not wait may be refused at any time, and one that is held may be lost at any time. A process may
//! keep the turn of a key after a section with several, and hand out the token that is left of it to a
//! section with one key. Numbers have no distance from each other: between any two there is room for a third,
//! so courses of any length are explored.
//!
//! How rounds come to their numbers is explored in `tokens`, and when a node that lost its memory may vote
//! again in `quarantine`: here it votes once all that it may have granted is over or was extended since.

mod caller;
mod canonical;
pub(crate) mod courses;
mod keys;
mod progress;
mod words;

use crate::search::{Model, Step};

use self::{
    caller::Caller,
    keys::{Key, Node},
};

const NODES: usize = 3;

/// A majority of them. A third one that is asked as well does what one does on which a key is put back.
const QUORUMS: [u8; 3] = [0b011, 0b101, 0b110];

/// What can happen in a course.
#[derive(Clone, Debug)]
pub(crate) struct Several<const P: usize, const K: usize> {
    /// The keys that each process asks for, a bit for each.
    pub(crate) wants: [u8; P],
    /// Nodes lose their memory as often as they like, one at a time.
    pub(crate) losses: bool,
    /// Numbers may come from clocks.
    pub(crate) clocks: bool,
    /// Sections with one key follow in the same turn.
    pub(crate) single: bool,
    /// Holders extend their leases, and hear of their releases.
    pub(crate) extends: bool,
    /// What goes wrong on purpose.
    pub(crate) mutant: Option<Mutant>,
    symmetries: Vec<canonical::Symmetry<P>>,
}

/// A deliberate fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// What was granted is kept while a key before it is waited for.
    KeptWhileWaiting,
    /// All keys are waited for at the same time, and those that are held meanwhile are held without end.
    WaitsForAll,
    /// Tokens are not raised.
    NotRaised,
    /// They are raised for the holder, and not on the nodes.
    RaisedHereOnly,
    /// The token of the first key is the token of all.
    TokenOfTheFirst,
    /// What is left of a block is handed out, though it lies below the token.
    NotSettled,
    /// That one key was lost is not told.
    LossNotTold,
    /// One key is kept at the end.
    OneKept,
    /// A node that has lost its memory votes again at once.
    NoWait,
    /// It counts from zero.
    NoFloor,
    /// The nodes grant a key that another process has.
    GrantedTwice,
}

impl Mutant {
    const ALL: [Self; 11] = [
        Self::KeptWhileWaiting,
        Self::WaitsForAll,
        Self::NotRaised,
        Self::RaisedHereOnly,
        Self::TokenOfTheFirst,
        Self::NotSettled,
        Self::LossNotTold,
        Self::OneKept,
        Self::NoWait,
        Self::NoFloor,
        Self::GrantedTwice,
    ];
}

/// One moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct State<const P: usize, const K: usize> {
    callers: [Caller<K>; P],
    /// What each process has of each key.
    keys: [[Key; K]; P],
    nodes: [Node<K>; NODES],
    /// The largest token that was handed out for each key.
    given: [u8; K],
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    Begin {
        process: u8,
    },
    Grant {
        process: u8,
        key: u8,
        by: u8,
        far: bool,
    },
    GrantInTurn {
        process: u8,
        key: u8,
    },
    Refuse {
        process: u8,
        key: u8,
    },
    TimesOut {
        process: u8,
        key: u8,
    },
    Extend {
        process: u8,
    },
    Extended {
        process: u8,
        key: u8,
        by: u8,
    },
    NotExtended {
        process: u8,
        key: u8,
    },
    Over {
        process: u8,
        key: u8,
    },
    End {
        process: u8,
        report: bool,
    },
    Reported {
        process: u8,
        key: u8,
    },
    HandOut {
        process: u8,
        key: u8,
    },
    LetGo {
        process: u8,
        key: u8,
    },
    PutBack {
        process: u8,
        key: u8,
        node: u8,
    },
    Forget {
        node: u8,
    },
    Admit {
        node: u8,
    },
    Stuck {
        process: u8,
    },
}

type Take<'a, const P: usize, const K: usize> = &'a mut dyn FnMut(Step<Move, State<P, K>>);

impl<const P: usize, const K: usize> Model for Several<P, K> {
    type State = State<P, K>;
    type Move = Move;

    fn starts(&self) -> Vec<State<P, K>> {
        vec![State {
            callers: [Caller::default(); P],
            keys: [[Key::default(); K]; P],
            nodes: [Node::default(); NODES],
            given: [0; K],
        }]
    }

    fn steps(&self, state: &State<P, K>, take: &mut impl FnMut(Step<Move, State<P, K>>)) {
        let mut state = *state;
        state.count_from_the_lowest();
        state.make_room();
        for process in 0..P {
            if let Some(rule) = self.stuck(&state, process) {
                let by = Move::Stuck {
                    process: process as u8,
                };
                take(Step {
                    by,
                    next: state,
                    wrong: Some(rule),
                });
            }
            self.caller(&state, process, take);
            for key in 0..K {
                self.key(&state, (process, key), take);
            }
        }
        for node in 0..NODES {
            self.node(&state, node, take);
        }
    }

    fn simple(&self, state: &State<P, K>) -> State<P, K> {
        let mut state = *state;
        state.forget_what_cannot_matter();
        state.count_from_the_lowest();
        state
    }

    fn canonical(&self, state: &State<P, K>) -> State<P, K> {
        self.simple(&self.simple(state).sorted(&self.symmetries))
    }
}

impl<const P: usize, const K: usize> Several<P, K> {
    fn has(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// What must be true at any moment.
    fn checked(
        &self,
        by: Move,
        next: State<P, K>,
        wrong: Option<String>,
    ) -> Step<Move, State<P, K>> {
        let wrong = wrong.or_else(|| self.flaw(&next));
        Step { by, next, wrong }
    }

    fn flaw(&self, state: &State<P, K>) -> Option<String> {
        for process in 0..P {
            let is_held = |key: usize| state.keys[process][key].is_held();
            let wants = |key: &usize| self.wants[process] >> key & 1 == 1;
            let caller = &state.callers[process];
            let missing = (0..K).filter(wants).any(|key| !is_held(key));
            if caller.holds() && missing {
                return Some("a caller has the lock, and not all of its keys".to_owned());
            }
            let is_behind = |waited: usize| (waited..K).any(is_held);
            if caller.waits_for().is_some_and(is_behind) {
                return Some("a key is held while one before it is waited for".to_owned());
            }
            if !caller.is_there() && (0..K).any(|key| state.keys[process][key].has_section()) {
                return Some("a key is left of a caller that has gone".to_owned());
            }
            let others = (0..process).filter(|&other| self.wants[other] & self.wants[process] != 0);
            if caller.holds() && others.into_iter().any(|other| state.callers[other].holds()) {
                return Some("two callers have the same key".to_owned());
            }
        }
        for key in 0..K {
            let has_it = |process: &usize| state.keys[*process][key].is_held();
            if (0..P).filter(has_it).count() > 1 {
                return Some("two processes have the same key".to_owned());
            }
        }
        None
    }
}
