//! Keys in a process, and on the nodes.

use redlock_protocol::{Token, compound::Word, rules::token::Block};

use super::{
    Move, Mutant, NODES, QUORUMS, Several, State, Take,
    caller::{Event, Stage},
};

/// What a process has of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) section: Section,
    pub(super) turn: Option<Turn>,
}

/// The part of a caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Section {
    #[default]
    None,
    Asked {
        waits: bool,
    },
    Held {
        asked: Asked,
    },
    /// Its lease has ended, and it has not.
    Over,
    /// What became of the release is to be told.
    Ending,
}

/// What a section has asked for while it has the lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Asked {
    #[default]
    Nothing,
    Extend,
    Raise {
        reach: u8,
    },
}

/// The nodes have granted the key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Turn {
    /// The last that was handed out.
    pub(super) token: u8,
    /// The nodes give no token up to this one any more.
    pub(super) reach: u8,
    /// That one is left.
    pub(super) has_spare: bool,
}

impl Key {
    pub(super) const fn is_held(&self) -> bool {
        matches!(self.section, Section::Held { .. })
    }

    pub(super) fn has_section(&self) -> bool {
        self.section != Section::None
    }

    /// A turn that no section needs.
    const fn is_kept(&self) -> bool {
        self.turn.is_some() && !self.is_held()
    }
}

impl Turn {
    fn block(self) -> Option<Block> {
        let first = Token(u64::from(self.reach));
        self.has_spare.then(|| Block::new(first, 1))
    }

    /// The token that is left, for the next section.
    fn hand_out(&mut self) -> Option<u8> {
        self.token = self.block()?.take()?.0 as u8;
        self.has_spare = false;
        Some(self.token)
    }
}

/// A server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Node<const K: usize> {
    /// Which process has each key, by place from one; zero is none.
    pub(super) owners: [u8; K],
    pub(super) counters: [u8; K],
    /// It has lost its memory, and does not vote.
    pub(super) is_out: bool,
    /// What it may have granted before, a bit for each process and key.
    pub(super) granted: u16,
}

impl<const K: usize> Default for Node<K> {
    fn default() -> Self {
        Self {
            owners: [0; K],
            counters: [0; K],
            is_out: false,
            granted: 0,
        }
    }
}

impl<const P: usize, const K: usize> Several<P, K> {
    pub(super) fn tell_key(&self, this: &mut Key, what: Word) {
        match what {
            Word::End { report } => {
                this.section = match this.section {
                    Section::Held { .. } if report => Section::Ending,
                    _ => Section::None,
                };
            }
            Word::Extend { reach: Token(0) } => this.ask(Asked::Extend),
            Word::Extend { reach } => this.ask(Asked::Raise {
                reach: reach.0 as u8,
            }),
            Word::Begin { token, .. } => {
                if let Some(turn) = &mut this.turn
                    && !self.has(Mutant::NotSettled)
                {
                    turn.token = turn.token.max(token.0 as u8);
                    turn.has_spare = turn.block().is_some_and(|block| block.lies_above(token));
                }
            }
            Word::StopRenewing => {}
        }
    }

    /// What can become of a key of a process.
    pub(super) fn key(&self, state: &State<P, K>, at: (usize, usize), take: Take<'_, P, K>) {
        let (process, key) = (at.0 as u8, at.1 as u8);
        let this = state.keys[at.0][at.1];
        let mut can = |by, next: Option<(State<P, K>, Option<String>)>| {
            if let Some((next, wrong)) = next {
                take(self.checked(by, next, wrong));
            }
        };
        match this.section {
            Section::Asked { waits } => {
                for by in QUORUMS {
                    for far in [false, true].into_iter().take(1 + usize::from(self.clocks)) {
                        can(
                            Move::Grant {
                                process,
                                key,
                                by,
                                far,
                            },
                            self.grant(state, at, by, far),
                        );
                    }
                }
                can(
                    Move::GrantInTurn { process, key },
                    self.grant_in_turn(state, at),
                );
                if waits {
                    let next = self.answered(*state, at, Event::TimesOut { key: at.1 });
                    can(Move::TimesOut { process, key }, Some(next));
                }
                if self.may_be_refused(state, at.0, waits) {
                    let next = self.answered(*state, at, Event::Refused { key: at.1 });
                    can(Move::Refuse { process, key }, Some(next));
                }
            }
            Section::Held { asked } => {
                if asked != Asked::Nothing {
                    for by in QUORUMS {
                        can(
                            Move::Extended { process, key, by },
                            self.extend(state, at, by),
                        );
                    }
                    let next = self.not_extended(state, at);
                    can(Move::NotExtended { process, key }, Some(next));
                }
                can(Move::Over { process, key }, Some(self.over(state, at)));
                for node in 0..NODES {
                    let by = Move::PutBack {
                        process,
                        key,
                        node: node as u8,
                    };
                    can(by, self.put_back(state, at, node));
                }
            }
            Section::Ending => {
                can(
                    Move::Reported { process, key },
                    Some(self.reported(state, at)),
                );
            }
            Section::None | Section::Over => {}
        }
        can(Move::LetGo { process, key }, self.let_go(state, at));
        if self.single {
            can(Move::HandOut { process, key }, self.hand_out(state, at));
        }
    }

    /// The section is told.
    fn answered(
        &self,
        next: State<P, K>,
        at: (usize, usize),
        event: Event,
    ) -> (State<P, K>, Option<String>) {
        let mut next = next;
        if matches!(
            event,
            Event::Refused { .. } | Event::TimesOut { .. } | Event::Released { .. }
        ) {
            next.keys[at.0][at.1].section = Section::None;
        }
        let wrong = self.tell(&mut next, at.0, event);
        (next, wrong)
    }

    /// A majority grants the key, and agrees on a block of two tokens.
    pub(super) fn grant(
        &self,
        state: &State<P, K>,
        at: (usize, usize),
        by: u8,
        far: bool,
    ) -> Option<(State<P, K>, Option<String>)> {
        let (process, key) = at;
        let is_free = |node: &Node<K>| node.owners[key] == 0 || self.has(Mutant::GrantedTwice);
        let can_vote = |node: &Node<K>| !node.is_out && is_free(node);
        if state.keys[process][key].turn.is_some() || !state.all(by, can_vote) {
            return None;
        }
        let mut next = *state;
        let least = if far { next.largest() } else { 0 };
        let token = next.largest_counter(by, key).max(least) + 1;
        let reach = token + 1;
        for node in next.asked(by) {
            (node.owners[key], node.counters[key]) = (process as u8 + 1, reach);
        }
        next.keys[process][key] = Key {
            section: Section::Held {
                asked: Asked::Nothing,
            },
            turn: Some(Turn {
                token,
                reach,
                has_spare: true,
            }),
        };
        let reach = match self.mutant {
            Some(Mutant::NotRaised) => next.largest(),
            _ => reach,
        };
        Some(self.answered(next, at, Event::Granted { key, token, reach }))
    }

    /// The next section of a process begins without asking the nodes.
    fn grant_in_turn(
        &self,
        state: &State<P, K>,
        at: (usize, usize),
    ) -> Option<(State<P, K>, Option<String>)> {
        let (process, key) = at;
        let mut next = *state;
        let this = &mut next.keys[process][key];
        let turn = this.turn.as_mut()?;
        let token = turn.hand_out()?;
        let reach = turn.reach;
        this.section = Section::Held {
            asked: Asked::Nothing,
        };
        Some(self.answered(next, at, Event::Granted { key, token, reach }))
    }

    /// A majority that has the key extends it, and raises its counter if that was asked for.
    pub(super) fn extend(
        &self,
        state: &State<P, K>,
        at: (usize, usize),
        by: u8,
    ) -> Option<(State<P, K>, Option<String>)> {
        let (process, key) = at;
        let owner = process as u8 + 1;
        let Section::Held { asked } = state.keys[process][key].section else {
            return None;
        };
        if !state.all(by, |node| !node.is_out && node.owners[key] == owner) {
            return None;
        }
        let mut next = *state;
        let mut turn = next.keys[process][key].turn?;
        if let Asked::Raise { reach } = asked {
            let first = (next.largest_counter(by, key) + 1).max(reach);
            if !self.has(Mutant::RaisedHereOnly) {
                for node in next.asked(by) {
                    node.counters[key] = first;
                }
            }
            let block = Block::new(Token(u64::from(first)), 1);
            if block.lies_above(Token(u64::from(turn.token))) {
                (turn.reach, turn.has_spare) = (first, true);
            }
        }
        next.forget_grants(process, key);
        let this = &mut next.keys[process][key];
        this.turn = Some(turn);
        this.ask(Asked::Nothing);
        Some(self.answered(
            next,
            at,
            Event::Extended {
                key,
                reach: turn.reach,
            },
        ))
    }

    pub(super) fn not_extended(
        &self,
        state: &State<P, K>,
        at: (usize, usize),
    ) -> (State<P, K>, Option<String>) {
        let mut next = *state;
        next.keys[at.0][at.1].ask(Asked::Nothing);
        self.answered(next, at, Event::NotExtended { key: at.1 })
    }

    /// Its lease ends, or its key is known to be gone.
    fn over(&self, state: &State<P, K>, at: (usize, usize)) -> (State<P, K>, Option<String>) {
        let mut next = *state;
        next.end_turn(at.0, at.1);
        next.keys[at.0][at.1].section = Section::Over;
        if self.has(Mutant::LossNotTold) && next.callers[at.0].holds() {
            return (next, None);
        }
        self.answered(next, at, Event::Over { key: at.1 })
    }

    pub(super) fn reported(
        &self,
        state: &State<P, K>,
        at: (usize, usize),
    ) -> (State<P, K>, Option<String>) {
        self.answered(*state, at, Event::Released { key: at.1 })
    }

    pub(super) fn put_back(
        &self,
        state: &State<P, K>,
        (process, key): (usize, usize),
        node: usize,
    ) -> Option<(State<P, K>, Option<String>)> {
        let this = &state.nodes[node];
        if !self.losses || this.is_out || this.owners[key] != 0 {
            return None;
        }
        let mut next = *state;
        next.nodes[node].owners[key] = process as u8 + 1;
        Some((next, None))
    }

    /// The turn ends.
    pub(super) fn let_go(
        &self,
        state: &State<P, K>,
        at: (usize, usize),
    ) -> Option<(State<P, K>, Option<String>)> {
        let mut next = *state;
        let is_kept = next.keys[at.0][at.1].is_kept();
        is_kept
            .then(|| next.end_turn(at.0, at.1))
            .map(|()| (next, None))
    }

    /// A section with this key alone begins and ends in the turn.
    fn hand_out(
        &self,
        state: &State<P, K>,
        at: (usize, usize),
    ) -> Option<(State<P, K>, Option<String>)> {
        let mut next = *state;
        let this = &mut next.keys[at.0][at.1];
        if !this.is_kept() {
            return None;
        }
        let token = this.turn.as_mut()?.hand_out()?;
        let rises = token > next.given[at.1];
        next.given[at.1] = next.given[at.1].max(token);
        let wrong = (!rises).then(|| "a token of one key is not above all earlier ones".to_owned());
        Some((next, wrong))
    }

    /// What can become of a node.
    pub(super) fn node(&self, state: &State<P, K>, node: usize, take: Take<'_, P, K>) {
        if !self.losses {
            return;
        }
        let this = &state.nodes[node];
        let place = node as u8;
        if state.nodes.iter().all(|node| !node.is_out) {
            let mut next = *state;
            let granted = (0..P * K).filter(|at| state.keys[at / K][at % K].turn.is_some());
            next.nodes[node] = Node {
                is_out: true,
                granted: granted.map(|at| 1 << at).sum(),
                ..Node::default()
            };
            take(self.checked(Move::Forget { node: place }, next, None));
        }
        if this.is_out && (this.granted == 0 || self.has(Mutant::NoWait)) {
            let mut next = *state;
            let counters = state.nodes.iter().flat_map(|node| node.counters);
            let floor = counters.max().filter(|_| !self.has(Mutant::NoFloor));
            next.nodes[node] = Node {
                counters: [floor.unwrap_or(0); K],
                ..Node::default()
            };
            take(self.checked(Move::Admit { node: place }, next, None));
        }
    }
}

impl Key {
    fn ask(&mut self, what: Asked) {
        if let Section::Held { asked } = &mut self.section {
            *asked = what;
        }
    }
}

impl<const P: usize, const K: usize> State<P, K> {
    fn asked(&mut self, by: u8) -> impl Iterator<Item = &mut Node<K>> {
        let nodes = self.nodes.iter_mut().enumerate();
        nodes.filter_map(move |(place, node)| (by >> place & 1 == 1).then_some(node))
    }

    fn all(&self, by: u8, holds: impl Fn(&Node<K>) -> bool) -> bool {
        (0..NODES).all(|node| by >> node & 1 == 0 || holds(&self.nodes[node]))
    }

    fn largest_counter(&self, by: u8, key: usize) -> u8 {
        let asked = (0..NODES).filter(|node| by >> node & 1 == 1);
        asked
            .map(|node| self.nodes[node].counters[key])
            .max()
            .unwrap_or(0)
    }

    pub(super) fn end_turn(&mut self, process: usize, key: usize) {
        self.forget_grants(process, key);
        self.keys[process][key].turn = None;
        for node in &mut self.nodes {
            if usize::from(node.owners[key]) == process + 1 {
                node.owners[key] = 0;
            }
        }
    }

    /// What a node granted before it lost its memory does not count any more.
    fn forget_grants(&mut self, process: usize, key: usize) {
        for node in &mut self.nodes {
            node.granted &= !(1 << (process * K + key));
        }
    }

    /// All numbers that there are.
    pub(super) fn numbers(&mut self) -> impl Iterator<Item = &mut u8> {
        let counters = self.nodes.iter_mut().flat_map(|node| &mut node.counters);
        let parts = self.callers.iter_mut().flat_map(|caller| &mut caller.parts);
        let parts = parts.flat_map(|part| match part {
            Stage::Held { token, reach, .. } => [Some(token), Some(reach)],
            _ => [None, None],
        });
        let keys = self.keys.iter_mut().flatten().flat_map(|key| {
            let raise = match &mut key.section {
                Section::Held {
                    asked: Asked::Raise { reach },
                } => Some(reach),
                _ => None,
            };
            let turn = key
                .turn
                .as_mut()
                .map(|turn| [&mut turn.token, &mut turn.reach]);
            raise.into_iter().chain(turn.into_iter().flatten())
        });
        counters
            .chain(parts.flatten())
            .chain(keys)
            .chain(&mut self.given)
    }

    fn largest(&mut self) -> u8 {
        self.numbers().map(|number| *number).max().unwrap_or(0)
    }
}
