//! The place of a fair waiter: one node, the leader, knows who came first.
//!
//! Three processes ask for one lock, one caller each. A caller asks the leader, and the others once that has
//! granted; refused there, it has a place, and asks again whenever it likes. If the others do not grant it, it
//! takes its place again and releases what it has. What a process sends to one node arrives in order, and as
//! late as it likes. What a request makes of key and queue is decided by the protocol's own `model::Model`.
//!
//! Where places expire, they do so at any time, and processes are killed while they wait. A caller whose place
//! has expired is passed by others, until it has told the leader again.
//!
//! Not explored: a leader that loses its memory, and a waiter that doubts the leader:
//! then order is not promised.

mod canonical;
pub(crate) mod courses;
mod leader;
mod process;
mod words;

use crate::search::{Model, Step};

use self::process::{Channels, Process};

const PROCESSES: usize = 3;

/// The first of them is the leader.
const NODES: usize = 3;

/// What can happen in a course.
#[derive(Clone, Debug)]
pub(crate) struct Fair {
    /// How many processes have callers.
    pub(crate) processes: usize,
    /// They ask again once all that they have sent has arrived.
    pub(crate) is_patient: bool,
    /// Places expire, and processes vanish.
    pub(crate) expires: bool,
    /// What goes wrong on purpose.
    pub(crate) mutant: Option<Mutant>,
    leader: leader::Leader,
}

/// A deliberate fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// Who was granted the key by the leader alone does not take its place again.
    PlaceNotTakenAgain,
    /// It does so behind the release.
    ReleasedBeforePlace,
    /// It takes a new place, as if it had just come.
    PlacedAsNew,
    /// A caller that gives up does not tell the leader.
    LeavesSilently,
    /// A caller asks all nodes at once, and any majority will do.
    AsksAll,
    /// The leader grants a free key to anybody.
    QueueIgnored,
    /// A caller whose place has expired takes a new one, as if it had just come.
    ExpiredComesAsNew,
    /// The place of a process that is gone does not expire.
    PlaceForEver,
}

impl Mutant {
    const ALL: [Self; 8] = [
        Self::PlaceNotTakenAgain,
        Self::ReleasedBeforePlace,
        Self::PlacedAsNew,
        Self::LeavesSilently,
        Self::AsksAll,
        Self::QueueIgnored,
        Self::ExpiredComesAsNew,
        Self::PlaceForEver,
    ];
}

/// One moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    /// Whose key each node has: a process by place from one; zero is none.
    keys: [u8; NODES],
    queue: leader::Queue,
    processes: [Process; PROCESSES],
    channels: Channels,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    Begin { process: u8 },
    AskAgain { process: u8 },
    Arrive { process: u8, node: u8 },
    Fail { process: u8 },
    End { process: u8 },
    GiveUp { process: u8 },
    Expire { process: u8 },
    Vanish { process: u8 },
}

type Take<'a> = &'a mut dyn FnMut(Step<Move, State>);

impl Model for Fair {
    type State = State;
    type Move = Move;

    fn starts(&self) -> Vec<State> {
        vec![State {
            keys: [0; NODES],
            queue: leader::Queue::default(),
            processes: Default::default(),
            channels: Channels::default(),
        }]
    }

    fn steps(&self, state: &State, take: &mut impl FnMut(Step<Move, State>)) {
        for process in 0..self.processes {
            self.process(state, process, take);
            for node in 0..NODES {
                self.arrive(state, process, node, take);
            }
        }
    }

    fn simple(&self, state: &State) -> State {
        *state
    }

    fn canonical(&self, state: &State) -> State {
        self.simple(state).sorted(self.processes)
    }
}

impl Fair {
    fn has(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }
}
