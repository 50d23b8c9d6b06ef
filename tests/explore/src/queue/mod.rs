//! The queue of those that wait for one lock, on the node that keeps it, in discrete time.
//!
//! A process that is refused asks again when it hears that the key is gone, or when it is time for a look. It
//! leaves a free lock to those ahead for as long as they say they need, and may then pass them: they may have
//! died. What a request makes of key and queue is decided by the protocol's own `model::Model`; requests are
//! carried out at once, and a turn takes a tick at least. Where the queue is *disturbed*, processes die while they
//! wait or hold the lock, the node forgets its queue, and processes *barge*: they take a lock that is free when they
//! come, whoever waits.
//!
//! A free lock that a live process waits for is taken in time; if nothing is disturbed, by the one that came first.
//! Else one that leaves a free lock to those ahead may come too late: what it was told of them is old after the
//! next turn, and it hears of no change meanwhile.
//!
//! Not explored: other nodes, and so the doubt about the one that keeps the queue; a notice that is lost or late.

pub(crate) mod courses;
mod node;
mod words;

use crate::search::{Model, Step};

use self::node::{Asked, Place, Server};

const PROCESSES: usize = 4;

/// A place lasts for so many ticks. One tick is what each process needs to hear of a free lock and to ask.
const LASTS: u8 = 8;

/// Between two looks of one that is told of changes.
const LOOK: u8 = 3;

/// What a process was told of one that has its place no more.
const GONE: u8 = u8::MAX;

/// What can happen in a course.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    processes: usize,
    /// Processes die and barge, and the node forgets.
    is_disturbed: bool,
    mutant: Option<Mutant>,
    server: Server,
}

/// A deliberate fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutant {
    /// Nobody goes before those ahead.
    NobodyPasses,
    /// Everybody does so at once.
    PassesAtOnce,
    /// Nobody is told that the key has gone.
    NotTold,
    /// Places are renewed too late.
    LooksTooLate,
    /// A process that asks again says that it has just come.
    ComesAnew,
}

impl Mutant {
    const ALL: [Self; 5] = [
        Self::NobodyPasses,
        Self::PassesAtOnce,
        Self::NotTold,
        Self::LooksTooLate,
        Self::ComesAnew,
    ];
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Stage {
    #[default]
    Idle,
    Waits,
    Holds,
    Dead,
}

/// A process. All but the stage and `due` is nothing unless it waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Process {
    stage: Stage,
    /// The later, the larger.
    came: u8,
    /// It asks in so many ticks. Who holds the lock does not let go before.
    due: u8,
    /// It may pass those ahead then, if this is the first of them.
    passes: u8,
    /// How long to leave a free lock to those ahead, and who was the first of them.
    grace: u8,
    first: u8,
    /// It is told when the key has gone.
    hears: bool,
    /// The node knows of it.
    is_known: bool,
}

/// One moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct State {
    /// A process by place from one; zero is none.
    holder: u8,
    places: [Place; PROCESSES],
    processes: [Process; PROCESSES],
    /// For so many ticks the lock has been free while a live process waited.
    free_for: u8,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    Tick,
    Begin { process: u8 },
    Ask { process: u8 },
    Release { process: u8 },
    Die { process: u8 },
    Expire,
    Forget,
}

type Take<'a> = &'a mut dyn FnMut(Step<Move, State>);

impl Model for Queue {
    type State = State;
    type Move = Move;

    fn starts(&self) -> Vec<State> {
        vec![State::default()]
    }

    fn steps(&self, state: &State, take: &mut impl FnMut(Step<Move, State>)) {
        self.tick(state, take);
        for process in 0..self.processes {
            self.process(state, process, take);
        }
        let dies = |process: &Process| process.stage == Stage::Dead;
        let holder = usize::from(state.holder).checked_sub(1);
        if holder.is_some_and(|holder| dies(&state.processes[holder])) {
            let mut next = *state;
            next.holder = 0;
            // All know when.
            self.tell(&mut next, true);
            take(Step::new(Move::Expire, next));
        }
        if self.is_disturbed {
            let mut next = *state;
            next.places = Default::default();
            take(Step::new(Move::Forget, next));
        }
    }

    /// Only the order in which they came matters.
    fn simple(&self, state: &State) -> State {
        let mut state = *state;
        let mut came: Vec<u8> = state.places.iter().map(|place| place.came).collect();
        came.extend(state.processes.iter().map(|process| process.came));
        came.sort_unstable();
        came.dedup();
        came.retain(|came| *came > 0);
        let rank = |time: &mut u8| {
            let place = came.binary_search(time).map(|place| place as u8 + 1);
            if *time > 0 {
                *time = place.unwrap_or(GONE);
            }
        };
        for place in &mut state.places {
            rank(&mut place.came);
        }
        for process in &mut state.processes {
            rank(&mut process.came);
            rank(&mut process.passes);
            rank(&mut process.first);
        }
        state
    }

    fn canonical(&self, state: &State) -> State {
        self.simple(state)
    }
}

impl Queue {
    fn has(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// What is due comes first.
    fn tick(&self, state: &State, take: Take<'_>) {
        let mut waiting = state.processes.iter().filter(|one| one.waits());
        if waiting.any(|one| one.due == 0) {
            return;
        }
        let mut next = *state;
        for process in &mut next.processes {
            process.due = process.due.saturating_sub(1);
        }
        for place in &mut next.places {
            place.tick();
        }
        let is_waited_for = next.processes.iter().any(Process::waits);
        next.free_for = match state.holder == 0 && is_waited_for {
            true => state.free_for + 1,
            false => 0,
        };
        let mut step = Step::new(Move::Tick, next);
        // The last of them looks, and leaves the lock to all others; when the first of these has no place any
        // more, it begins again with those that are left.
        let others = self.processes - 1;
        if usize::from(next.free_for) > usize::from(LOOK) + others * (others + 1) / 2 {
            step.wrong = Some("nobody takes a free lock".to_owned());
        }
        take(step);
    }

    fn process(&self, state: &State, process: usize, take: Take<'_>) {
        let one = state.processes[process];
        let by = process as u8;
        let has_place = state.places[process].came > 0;
        match one.stage {
            Stage::Idle => {
                let mut next = *state;
                next.processes[process] = Process {
                    stage: Stage::Waits,
                    came: state.latest() + 1,
                    ..Process::default()
                };
                let asks_in_order = !self.is_disturbed;
                take(self.ask(next, process, asks_in_order, Move::Begin { process: by }));
            }
            Stage::Waits if one.due == 0 => {
                take(self.ask(*state, process, true, Move::Ask { process: by }));
            }
            Stage::Holds if one.due == 0 => {
                let mut next = *state;
                self.server.run(&mut next, process, Asked::Release);
                next.processes[process] = Process::default();
                self.tell(&mut next, false);
                take(Step::new(Move::Release { process: by }, next));
            }
            // Another process begins in its stead.
            Stage::Dead if !has_place && usize::from(state.holder) != process + 1 => {
                let mut next = *state;
                next.processes[process] = Process::default();
                self.process(&next, process, take);
            }
            _ => {}
        }
        if self.is_disturbed && matches!(one.stage, Stage::Waits | Stage::Holds) {
            let mut next = *state;
            next.processes[process] = Process {
                stage: Stage::Dead,
                ..Process::default()
            };
            take(Step::new(Move::Die { process: by }, next));
        }
    }

    fn ask(
        &self,
        mut next: State,
        process: usize,
        is_ordered: bool,
        by: Move,
    ) -> Step<Move, State> {
        let one = next.processes[process];
        let passes = match self.has(Mutant::NobodyPasses) {
            true => 0,
            false => one.passes,
        };
        let came = match self.has(Mutant::ComesAnew) {
            true => next.latest() + 1,
            false => one.came,
        };
        let passes = is_ordered.then_some(passes);
        let asked = Asked::Acquire { came, passes };
        let Some(refused) = self.server.run(&mut next, process, asked) else {
            let mut step = Step::new(by, next);
            step.next.processes[process] = Process {
                stage: Stage::Holds,
                due: 1,
                ..Process::default()
            };
            step.next.free_for = 0;
            let is_before = |other: &Process| other.is_known && other.came < one.came;
            let is_passed = next
                .processes
                .iter()
                .any(|other| other.waits() && is_before(other));
            if is_passed && !self.is_disturbed {
                step.wrong = Some("a live process is passed".to_owned());
            }
            return step;
        };
        let (count, first) = (refused.count, refused.first);
        let at_once = self.has(Mutant::PassesAtOnce);
        let grace = if at_once { 0 } else { refused.grace };
        let late = if self.has(Mutant::LooksTooLate) {
            LASTS
        } else {
            0
        };
        // One that is not told: when half of those ahead can have gone.
        let look = if count <= 1 { LOOK } else { count as u8 / 2 };
        let (due, passes) = match refused.is_free {
            true => (grace.max(1), first),
            false => (look + late, 0),
        };
        next.processes[process] = Process {
            due,
            passes,
            grace: if count == 0 { 0 } else { grace },
            first,
            hears: !refused.is_free && count <= 1 && !self.has(Mutant::NotTold),
            is_known: true,
            ..one
        };
        Step::new(by, next)
    }

    /// The key has gone.
    fn tell(&self, state: &mut State, tells_all: bool) {
        for process in state.processes.iter_mut().filter(|one| one.waits()) {
            let hears = std::mem::take(&mut process.hears);
            if (hears || tells_all && !self.has(Mutant::NotTold)) && process.grace < process.due {
                (process.due, process.passes) = (process.grace, process.first);
            }
        }
    }
}

impl Process {
    fn waits(&self) -> bool {
        self.stage == Stage::Waits
    }
}

impl State {
    fn latest(&self) -> u8 {
        let places = self.places.iter().map(|place| place.came);
        let came = self.processes.iter().map(|process| process.came);
        places.chain(came).max().unwrap_or(0)
    }
}
