//! What processes do, and what becomes of what they send.

use redlock_protocol::majority;

use super::{Fair, Move, Mutant, NODES, PROCESSES, State, Take, leader::Message};
use crate::search::Step;

/// The most that one process has on its way to one node.
const MESSAGES: usize = 4;

/// What each process has on its way to each node, in order.
pub(super) type Channels = [[Channel; NODES]; PROCESSES];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Channel([Option<Message>; MESSAGES]);

/// One process, with one caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Process {
    pub(super) phase: Phase,
    /// The order in which the callers came; zero is none.
    pub(super) came: u8,
    /// The leader has refused it the lock.
    pub(super) is_placed: bool,
    pub(super) place: Place,
    /// Who has replied to its attempt, and granted it, a bit for each node.
    pub(super) replied: u8,
    pub(super) granted: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Phase {
    #[default]
    Idle,
    /// An attempt is under way.
    Asks,
    /// Between two attempts.
    Waits,
    Holds,
}

/// What has become of its place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Place {
    #[default]
    Kept,
    /// It has not been heard for long, and is to take it again.
    Expired,
    /// It is one of a process that is gone.
    Left,
}

impl Channel {
    pub(super) fn is_empty(&self) -> bool {
        self.0[0].is_none()
    }

    pub(super) fn messages(&mut self) -> impl Iterator<Item = &mut Message> {
        self.0.iter_mut().flatten()
    }

    /// For a request and a release.
    fn has_room(&self) -> bool {
        self.0[MESSAGES - 2].is_none()
    }

    fn send(&mut self, message: Message) {
        let free = self.0.iter_mut().find(|place| place.is_none());
        *free.expect("there was room") = Some(message);
    }

    fn take(&mut self) -> Option<Message> {
        let first = self.0[0];
        self.0.rotate_left(1);
        self.0[MESSAGES - 1] = None;
        first
    }
}

impl Fair {
    pub(super) fn process(&self, state: &State, process: usize, take: Take<'_>) {
        let place = process as u8;
        let channels = &state.channels[process];
        let mut next = *state;
        let this = &mut next.processes[process];
        match this.phase {
            // Of the caller before nothing is on its way: what follows it could not pass it.
            Phase::Idle if channels.iter().all(Channel::is_empty) && this.place != Place::Left => {
                this.came = state.last_came() + 1;
                self.ask(&mut next, process);
                take(self.checked(Move::Begin { process: place }, next));
            }
            Phase::Waits if self.can_ask_again(channels) => {
                self.ask(&mut next, process);
                take(self.checked(Move::AskAgain { process: place }, next));
            }
            Phase::Holds => {
                next.release(process, 0b111);
                next.processes[process] = Process::default();
                take(self.checked(Move::End { process: place }, next));
            }
            _ => {}
        }
        self.fail(state, process, take);
        self.give_up(state, process, take);
        if self.expires {
            self.expire(state, process, take);
            self.vanish(state, process, take);
        }
    }

    /// The leader forgets a place, of a process that is slow or gone.
    fn expire(&self, state: &State, process: usize, take: Take<'_>) {
        let this = state.processes[process];
        let is_of_caller = matches!(this.phase, Phase::Asks | Phase::Waits);
        let is_left = this.place == Place::Left && !self.has(Mutant::PlaceForEver);
        if state.queue[process] == 0 || !(is_of_caller || is_left) {
            return;
        }
        let mut next = *state;
        next.queue[process] = 0;
        next.processes[process].place = match is_of_caller {
            true => Place::Expired,
            false => Place::Kept,
        };
        let process = process as u8;
        take(self.checked(Move::Expire { process }, next));
    }

    /// The process is killed while it waits. What it may have on the nodes expires.
    fn vanish(&self, state: &State, process: usize, take: Take<'_>) {
        let has_place = state.queue[process] != 0;
        if state.processes[process].phase != Phase::Waits || !has_place {
            return;
        }
        let is_sent = state.channels[process]
            .iter()
            .any(|channel| !channel.is_empty());
        if is_sent {
            return;
        }
        let mut next = *state;
        next.processes[process] = Process {
            place: Place::Left,
            ..Process::default()
        };
        let process = process as u8;
        take(self.checked(Move::Vanish { process }, next));
    }

    /// What follows something to the leader cannot pass it, and might as well be sent later.
    fn can_ask_again(&self, channels: &[Channel; NODES]) -> bool {
        let is_free = |channel: &Channel| match self.is_patient {
            true => channel.is_empty(),
            false => channel.has_room(),
        };
        channels[0].is_empty() && channels[1..].iter().all(is_free)
    }

    /// An attempt begins.
    fn ask(&self, next: &mut State, process: usize) {
        let last_came = next.last_came();
        let this = &mut next.processes[process];
        this.phase = Phase::Asks;
        (this.replied, this.granted) = (0, 0);
        let asked = if self.has(Mutant::AsksAll) { NODES } else { 1 };
        let came = match this.place {
            Place::Expired if self.has(Mutant::ExpiredComesAsNew) => last_came + 1,
            _ => this.came,
        };
        for channel in &mut next.channels[process][..asked] {
            channel.send(Message::Ask { came });
        }
    }

    /// The leader has granted the lock, and others have not, or not in time.
    fn fail(&self, state: &State, process: usize, take: Take<'_>) {
        let Process {
            phase,
            granted,
            came,
            ..
        } = state.processes[process];
        if phase != Phase::Asks || granted & 1 == 0 {
            return;
        }
        let mut next = *state;
        next.wait(process);
        let came = match self.mutant {
            Some(Mutant::PlacedAsNew) => state.last_came() + 1,
            _ => came,
        };
        let mut messages = [Message::Place { came }, Message::Release];
        if self.has(Mutant::ReleasedBeforePlace) {
            messages.reverse();
        }
        let is_sent = |message: &Message| {
            *message == Message::Release || !self.has(Mutant::PlaceNotTakenAgain)
        };
        for message in messages.into_iter().filter(is_sent) {
            next.channels[process][0].send(message);
        }
        next.release(process, 0b110);
        let process = process as u8;
        take(self.checked(Move::Fail { process }, next));
    }

    /// The caller goes away before it has the lock.
    fn give_up(&self, state: &State, process: usize, take: Take<'_>) {
        let this = state.processes[process];
        if !matches!(this.phase, Phase::Asks | Phase::Waits) {
            return;
        }
        let mut next = *state;
        if this.phase == Phase::Asks {
            let is_granted = this.granted & 1 == 1;
            let asked = if is_granted || self.has(Mutant::AsksAll) {
                0b111
            } else {
                1
            };
            next.release(process, asked);
        }
        if !self.has(Mutant::LeavesSilently) {
            next.channels[process][0].send(Message::Leave);
        }
        next.processes[process] = Process::default();
        let process = process as u8;
        take(self.checked(Move::GiveUp { process }, next));
    }

    /// What was sent first arrives; its reply does at once.
    pub(super) fn arrive(&self, state: &State, process: usize, node: usize, take: Take<'_>) {
        let mut next = *state;
        let Some(message) = next.channels[process][node].take() else {
            return;
        };
        if node == 0 && matches!(message, Message::Ask { .. } | Message::Place { .. }) {
            next.processes[process].place = Place::Kept;
        }
        let is_granted = self.carry_out(&mut next, process, node, message);
        let by = Move::Arrive {
            process: process as u8,
            node: node as u8,
        };
        let this = &mut next.processes[process];
        // A reply to an attempt that is over says nothing any more.
        let is_current = !next.channels[process][node].has_release();
        if !matches!(message, Message::Ask { .. }) || !is_current || this.phase == Phase::Idle {
            return take(self.checked(by, next));
        }
        let mut wrong = None;
        if this.phase == Phase::Asks {
            this.replied |= 1 << node;
            this.granted |= u8::from(is_granted) << node;
            let granted = this.granted;
            let needed = majority(NODES) as u32;
            let asks_all = self.has(Mutant::AsksAll);
            if node == 0 {
                this.is_placed |= !is_granted;
                if is_granted && !asks_all {
                    for channel in &mut next.channels[process][1..] {
                        channel.send(message);
                    }
                }
            }
            if node == 0 && !is_granted && !asks_all {
                next.wait(process);
            }
            let wins = granted.count_ones() >= needed;
            let is_let_in = is_granted && node == 0 || wins && asks_all;
            if is_let_in && let Some(first) = next.passed_by(process) {
                wrong = Some(format!("{first} came first, and has told the leader"));
            }
            if wins {
                let holds = |one: &Process| one.phase == Phase::Holds;
                if next.processes.iter().any(holds) {
                    wrong = Some("two processes hold the lock".to_owned());
                }
                next.processes[process].phase = Phase::Holds;
            }
        }
        let step = self.checked(by, next);
        take(Step {
            wrong: wrong.or(step.wrong),
            ..step
        });
    }

    /// What must be true at any moment.
    fn checked(&self, by: Move, mut next: State) -> Step<Move, State> {
        next.count_from_the_first();
        let mut wrong = None;
        for (process, this) in next.processes.iter().enumerate() {
            let has_place = next.queue[process] != 0;
            if !next.channels[process][0].is_empty() {
                continue;
            }
            match this.phase {
                Phase::Idle | Phase::Holds if has_place && this.place != Place::Left => {
                    wrong = Some("a place is left of a caller that waits no more".to_owned());
                }
                Phase::Waits if !has_place && this.place != Place::Expired => {
                    wrong = Some("a caller that waits has no place".to_owned());
                }
                _ => {}
            }
        }
        if next.is_at_rest() && wrong.is_none() && self.is_stuck(&next) {
            wrong = Some("the lock is free, and refused to the first that waits".to_owned());
        }
        Step { by, next, wrong }
    }

    fn is_stuck(&self, state: &State) -> bool {
        // It goes with the time.
        let is_left = |process: &Process| process.place == Place::Left;
        if state.processes.iter().any(is_left) && !self.has(Mutant::PlaceForEver) {
            return false;
        }
        let waits = |place: &usize| state.processes[*place].phase == Phase::Waits;
        let first = (0..PROCESSES).filter(waits);
        let first = first.min_by_key(|&place| state.processes[place].came);
        first.is_some_and(|first| {
            let came = state.processes[first].came;
            !self.carry_out(&mut { *state }, first, 0, Message::Ask { came })
        })
    }
}

impl Channel {
    fn has_release(&self) -> bool {
        self.0.contains(&Some(Message::Release))
    }
}

impl State {
    /// The last of all that are known to have come.
    fn last_came(&self) -> u8 {
        let mut state = *self;
        state.times().map(|time| *time).max().unwrap_or(0)
    }

    /// What a process may have on these nodes.
    fn release(&mut self, process: usize, nodes: u8) {
        for (node, channel) in self.channels[process].iter_mut().enumerate() {
            if nodes >> node & 1 == 1 {
                channel.send(Message::Release);
            }
        }
    }

    /// Its attempt is over.
    fn wait(&mut self, process: usize) {
        let this = &mut self.processes[process];
        this.phase = Phase::Waits;
        (this.replied, this.granted) = (0, 0);
    }

    /// The lock is free, and nothing is on its way.
    fn is_at_rest(&self) -> bool {
        let mut channels = self.channels.iter().flatten();
        self.keys == [0; NODES] && channels.all(Channel::is_empty)
    }

    /// Another one that came first, waits, and has been refused by the leader.
    fn passed_by(&self, process: usize) -> Option<char> {
        let this = self.processes[process];
        let is_first = |other: &&usize| {
            let Process {
                phase,
                came,
                is_placed,
                place,
                ..
            } = self.processes[**other];
            let waits = matches!(phase, Phase::Asks | Phase::Waits);
            is_placed && place == Place::Kept && waits && came < this.came
        };
        let others: Vec<usize> = (0..PROCESSES).collect();
        let first = others.iter().find(is_first);
        first.map(|&first| crate::words::client(first as u8))
    }
}
