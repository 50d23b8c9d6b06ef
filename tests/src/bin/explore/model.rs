//! Nodes, messages and acquisitions, as small as they can be.
//!
//! As a key may be gone at any moment, a node may grant at any moment; and a node that does not is
//! one that the request does not reach. Nothing has to be done for a message that is lost, either:
//! it is one that has not arrived yet. So neither keys that go nor refusals are steps of their own.

use crate::protocol::decide::{Decision, Heard, decide, majority};

pub(crate) const NODES: usize = 3;
pub(crate) const ACQUIRERS: usize = 3;

/// What can happen in a course.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) acquirers: usize,
    /// An acquisition may go on under the owner of one that has succeeded.
    pub(crate) hand_over: bool,
    /// Acquisitions end with releases, which bring the nodes' counters together.
    pub(crate) releases: bool,
    /// Acquisitions propose numbers, as from clocks that are as wrong as they like.
    pub(crate) proposals: bool,
    /// One node at a time may lose its memory, each of them once.
    pub(crate) losses: bool,
    /// Where there are too many states: how many of them are enough.
    pub(crate) most: usize,
    pub(crate) mutant: Option<Mutant>,
}

/// A deliberate fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// The highest number is the token at once.
    Unconfirmed,
    /// A node confirms whoever owns the key.
    ConfirmWithoutOwner,
    /// Nodes confirm whose grant was not heard.
    ConfirmUnheard,
    /// Nodes confirm a lock that was handed over.
    ConfirmHandedOver,
    /// The middle one of the numbers is confirmed instead of the highest.
    Median,
    /// The lowest one.
    Lowest,
    /// One node's number is enough.
    QuorumOfOne,
    /// A grant reports the counter and does not raise it.
    CounterNotRaised,
    /// A grant of a key that carries the owner already does not raise the counter.
    HandOverNotRaised,
    /// A grant sets the counter to the proposal, also if that is lower.
    ProposalAsItIs,
    /// A confirmation sets the counter, also if that lowers it.
    ConfirmLowers,
    /// A release sets the counter, also if that lowers it.
    ReleaseLowers,
    /// A node that has lost its memory votes with no counters.
    NoReseed,
    /// Its counters are read while acquisitions may still complete that count what it has lost.
    ReseedTooEarly,
    /// It votes again while they may.
    QuarantineTooShort,
    /// It takes the counters of one other node.
    ReseedOfOne,
}

impl Mutant {
    pub(crate) const ALL: [Self; 16] = [
        Self::Unconfirmed,
        Self::ConfirmWithoutOwner,
        Self::ConfirmUnheard,
        Self::ConfirmHandedOver,
        Self::Median,
        Self::Lowest,
        Self::QuorumOfOne,
        Self::CounterNotRaised,
        Self::HandOverNotRaised,
        Self::ProposalAsItIs,
        Self::ConfirmLowers,
        Self::ReleaseLowers,
        Self::NoReseed,
        Self::ReseedTooEarly,
        Self::QuarantineTooShort,
        Self::ReseedOfOne,
    ];
}

impl Rules {
    pub(crate) const NONE: Self = Self {
        acquirers: 0,
        hand_over: false,
        releases: false,
        proposals: false,
        losses: false,
        most: usize::MAX,
        mutant: None,
    };

    fn has(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }
}

/// One moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) nodes: [Node; NODES],
    pub(crate) acquirers: [Acquirer; ACQUIRERS],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Node {
    /// The owner to which it has granted the key last: by the number of its first acquisition, from
    /// one; zero is nobody. That one may have it still, or not: as the next request comes out.
    owner: u8,
    counter: u8,
    vote: Voting,
    /// What it is to start from, of those of the other nodes that have been read.
    floor: u8,
    read: u8,
    /// What is between it and each acquisition.
    between: [Between; ACQUIRERS],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Voting {
    #[default]
    Yes,
    /// It has lost its memory, and whatever counts on it may still complete.
    Quarantined,
    /// Nothing of before may complete any more.
    Served,
    /// It votes again, and does not lose its memory a second time.
    Again,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Between {
    acquire: Message,
    /// The number of the grant.
    grant: u8,
    /// The grant was given before the node lost its memory.
    is_forgotten: bool,
    confirm: Message,
    /// Was asked to confirm.
    asked: bool,
    release: Message,
}

/// A request and its reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Message {
    #[default]
    None,
    /// On its way to the node.
    Out,
    /// Granted or confirmed, and on its way back.
    Back,
    Heard,
    /// Nothing comes of it any more.
    Dead,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Acquirer {
    phase: Phase,
    /// The token, or what is to be confirmed as such.
    token: u8,
    /// The highest token of those that had returned when it began.
    floor: u8,
    proposal: u8,
    /// Its own number, or that of the one that has handed the lock over.
    owner: u8,
    /// The highest counter that it has heard of.
    seen: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Phase {
    #[default]
    Idle,
    Trying,
    Confirming,
    Won,
    /// It had a token, and has released the lock or handed it on.
    Done,
    /// It never had one.
    GivenUp,
}

/// What comes out of a step.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) next: State,
    /// What is wrong with the token that it has made.
    pub(crate) wrong: Option<String>,
    pub(crate) is_won: bool,
}

impl State {
    /// Every state that can follow.
    pub(crate) fn steps(&self, rules: &Rules, mut take: impl FnMut(Step)) {
        let mut step = |next: Self| {
            take(Step {
                next: next.canonical(),
                wrong: None,
                is_won: false,
            })
        };
        self.begin(rules, &mut step);
        self.end(rules, &mut step);
        for node in 0..NODES {
            self.forget(rules, node, &mut step);
            for one in 0..rules.acquirers {
                self.arrive(rules, node, one, &mut step);
            }
        }
        for one in 0..rules.acquirers {
            self.hear(rules, one, &mut take);
        }
    }

    /// Acquisitions are alike, so they begin in the order of their numbers.
    fn begin(&self, rules: &Rules, step: &mut impl FnMut(Self)) {
        let idle = |one: &usize| self.acquirers[*one].phase == Phase::Idle;
        let Some(one) = (0..rules.acquirers).find(idle) else {
            return;
        };
        let returned = |other: &&Acquirer| matches!(other.phase, Phase::Won | Phase::Done);
        let tokens = self
            .acquirers
            .iter()
            .filter(returned)
            .map(|other| other.token);
        let floor = tokens.max().unwrap_or(0);
        let mut start = |mut next: Self, proposal: u8, owner: u8| {
            next.acquirers[one] = Acquirer {
                phase: Phase::Trying,
                floor,
                proposal,
                owner,
                ..Acquirer::default()
            };
            for node in &mut next.nodes {
                node.between[one].acquire = Message::Out;
            }
            step(next);
        };
        let own = one as u8 + 1;
        start(*self, 0, own);
        if rules.proposals {
            start(*self, 2, own);
        }
        for holder in 0..rules.acquirers {
            // Also while another one that is asked for ahead has not succeeded.
            if rules.hand_over && returned(&&self.acquirers[holder]) {
                let mut next = *self;
                next.acquirers[holder].phase = Phase::Done;
                let Acquirer { seen, owner, .. } = self.acquirers[holder];
                start(next, seen + 1, owner);
            }
        }
    }

    /// An acquisition is given up or released.
    fn end(&self, rules: &Rules, step: &mut impl FnMut(Self)) {
        if !rules.releases {
            return;
        }
        for one in 0..rules.acquirers {
            let mut next = *self;
            next.acquirers[one].phase = match self.acquirers[one].phase {
                Phase::Trying | Phase::Confirming => Phase::GivenUp,
                Phase::Won => Phase::Done,
                _ => continue,
            };
            for node in &mut next.nodes {
                node.between[one].release = Message::Out;
            }
            step(next);
        }
    }

    /// A node loses its memory, or gets what makes up for it.
    fn forget(&self, rules: &Rules, node: usize, step: &mut impl FnMut(Self)) {
        if !rules.losses {
            return;
        }
        let mut next = *self;
        let this = &mut next.nodes[node];
        match self.nodes[node].vote {
            Voting::Yes if self.nodes.iter().all(Node::votes) => {
                this.owner = 0;
                this.counter = 0;
                this.vote = Voting::Quarantined;
                for between in &mut this.between {
                    between.is_forgotten =
                        matches!(between.acquire, Message::Back | Message::Heard);
                }
                step(next);
            }
            Voting::Yes | Voting::Again => {}
            Voting::Quarantined => {
                this.vote = Voting::Served;
                if !rules.has(Mutant::QuarantineTooShort) {
                    next.end_those_that_count(node);
                }
                step(next);
                if rules.has(Mutant::ReseedTooEarly) {
                    self.read(node, step);
                }
            }
            Voting::Served => {
                let others = NODES - majority(NODES) + 1;
                let needed = match rules.mutant {
                    Some(Mutant::NoReseed) => 0,
                    Some(Mutant::ReseedOfOne) => 1,
                    _ => others as u32,
                };
                if this.read.count_ones() >= needed {
                    this.vote = Voting::Again;
                    this.counter = this.counter.max(this.floor);
                    this.floor = 0;
                    this.read = 0;
                    step(next);
                } else {
                    self.read(node, step);
                }
            }
        }
    }

    /// What has counted a grant that is forgotten has come to its end by now.
    fn end_those_that_count(&mut self, node: usize) {
        for one in 0..ACQUIRERS {
            let counts = self.nodes[node].between[one].is_forgotten;
            let phase = &mut self.acquirers[one].phase;
            if counts && matches!(phase, Phase::Trying | Phase::Confirming) {
                *phase = Phase::GivenUp;
            }
        }
    }

    fn read(&self, node: usize, step: &mut impl FnMut(Self)) {
        for other in 0..NODES {
            let is_new = self.nodes[node].read & (1 << other) == 0;
            if other != node && is_new && self.nodes[other].votes() {
                let mut next = *self;
                next.nodes[node].read |= 1 << other;
                let counter = self.nodes[other].counter;
                next.nodes[node].floor = next.nodes[node].floor.max(counter);
                step(next);
            }
        }
    }

    /// A request arrives.
    fn arrive(&self, rules: &Rules, node: usize, one: usize, step: &mut impl FnMut(Self)) {
        let between = &self.nodes[node].between[one];
        let acquirer = &self.acquirers[one];
        if between.acquire == Message::Out {
            let mut next = *self;
            next.nodes[node].grant(rules, acquirer, one);
            step(next);
        }
        if between.confirm == Message::Out {
            let mut next = *self;
            let this = &mut next.nodes[node];
            let ours = this.owner == acquirer.owner || rules.has(Mutant::ConfirmWithoutOwner);
            this.between[one].confirm = if ours { Message::Back } else { Message::Dead };
            if ours {
                let lowers = rules.has(Mutant::ConfirmLowers);
                this.raise(acquirer.token, lowers);
            }
            step(next);
        }
        if between.release == Message::Out {
            let mut next = *self;
            let this = &mut next.nodes[node];
            this.between[one].release = Message::Dead;
            this.raise(acquirer.seen, rules.has(Mutant::ReleaseLowers));
            step(next);
        }
    }

    /// Replies arrive, and the acquisition makes up its mind. Those that leave it open change
    /// nothing for anybody else, so they are left on their way until the one that does not.
    fn hear(&self, rules: &Rules, one: usize, take: &mut impl FnMut(Step)) {
        let is_open = matches!(self.acquirers[one].phase, Phase::Trying | Phase::Confirming);
        if !is_open {
            return;
        }
        // Two for each node: of its grant, and of its confirmation.
        for replies in 1..1_u8 << (2 * NODES) {
            let Some(next) = self.with_heard(one, replies) else {
                continue;
            };
            let reply = (0..2 * NODES).map(|reply| 1 << reply);
            let mut each = reply.filter(|reply| replies & reply != 0);
            let is_last = each.all(|reply| match self.with_heard(one, replies & !reply) {
                Some(before) => before.decision(rules, one).is_none(),
                None => true,
            });
            if is_last && let Some(decision) = next.decision(rules, one) {
                take(next.decide(rules, one, decision));
            }
        }
    }

    /// After these replies, if all of them are on their way.
    fn with_heard(&self, one: usize, replies: u8) -> Option<Self> {
        let mut next = *self;
        for node in 0..NODES {
            let between = &mut next.nodes[node].between[one];
            if replies & (1 << (2 * node)) != 0 {
                (between.acquire == Message::Back).then_some(())?;
                between.acquire = Message::Heard;
                let seen = &mut next.acquirers[one].seen;
                *seen = (*seen).max(between.grant);
            }
            if replies & (2 << (2 * node)) != 0 {
                (between.confirm == Message::Back).then_some(())?;
                between.confirm = Message::Heard;
            }
        }
        Some(next)
    }

    fn decide(mut self, rules: &Rules, one: usize, decision: Decision) -> Step {
        let Decision::Won(token) = decision else {
            if let Decision::Confirm(token) = decision {
                self.begin_confirmation(rules, one, token as u8);
            }
            return Step {
                next: self.canonical(),
                wrong: None,
                is_won: false,
            };
        };
        let token = token as u8;
        let wrong = self.flaw(one, token);
        self.acquirers[one].phase = Phase::Won;
        self.acquirers[one].token = token;
        Step {
            next: self.canonical(),
            wrong,
            is_won: true,
        }
    }

    /// `None` while it is open.
    fn decision(&self, rules: &Rules, one: usize) -> Option<Decision> {
        let decision = self.verdict(rules, one);
        let is_confirming = self.acquirers[one].phase == Phase::Confirming;
        match decision {
            Decision::Open => None,
            Decision::Confirm(_) if is_confirming => None,
            decision => Some(decision),
        }
    }

    fn verdict(&self, rules: &Rules, one: usize) -> Decision {
        let heard = self.nodes.map(|node| {
            let between = node.between[one];
            let grant = (between.acquire == Message::Heard).then_some(u64::from(between.grant));
            Heard {
                grant,
                asked: between.asked,
                confirmed: between.confirm == Message::Heard,
            }
        });
        let grants = heard.iter().filter_map(|heard| heard.grant);
        let confirmed = heard.iter().filter(|heard| heard.confirmed).count();
        let token = u64::from(self.acquirers[one].token);
        let is_confirmed = confirmed >= majority(NODES);
        match rules.mutant {
            Some(Mutant::QuorumOfOne) => {
                return grants.max().map_or(Decision::Open, Decision::Won);
            }
            Some(Mutant::Median | Mutant::Lowest | Mutant::ConfirmUnheard) if is_confirmed => {
                return Decision::Won(token);
            }
            _ => {}
        }
        let is_handed_over = self.acquirers[one].owner != one as u8 + 1;
        let is_handed_over = is_handed_over && !rules.has(Mutant::ConfirmHandedOver);
        match (decide(&heard, is_handed_over), rules.mutant) {
            (Decision::Confirm(token), Some(Mutant::Unconfirmed)) => Decision::Won(token),
            (Decision::Confirm(_), Some(mutant @ (Mutant::Median | Mutant::Lowest))) => {
                let mut grants: Vec<u64> = grants.collect();
                grants.sort_unstable();
                let middle = if mutant == Mutant::Lowest {
                    0
                } else {
                    (grants.len() - 1) / 2
                };
                Decision::Confirm(grants[middle])
            }
            (decision, _) => decision,
        }
    }

    fn begin_confirmation(&mut self, rules: &Rules, one: usize, token: u8) {
        self.acquirers[one].phase = Phase::Confirming;
        self.acquirers[one].token = token;
        for node in &mut self.nodes {
            let between = &mut node.between[one];
            let is_heard = between.acquire == Message::Heard;
            if is_heard || rules.has(Mutant::ConfirmUnheard) {
                between.asked = is_heard;
                between.confirm = Message::Out;
            }
        }
    }

    fn flaw(&self, one: usize, token: u8) -> Option<String> {
        let had = |other: &Acquirer| matches!(other.phase, Phase::Won | Phase::Done);
        if self
            .acquirers
            .iter()
            .any(|other| had(other) && other.token == token)
        {
            return Some(format!("token {token} is given twice"));
        }
        let floor = self.acquirers[one].floor;
        (token <= floor).then(|| format!("token {token} is given after {floor} had been"))
    }

    /// Nodes are alike, and what nobody hears any more makes no difference.
    fn canonical(mut self) -> Self {
        for one in 0..ACQUIRERS {
            let is_over = matches!(
                self.acquirers[one].phase,
                Phase::Won | Phase::Done | Phase::GivenUp
            );
            if !is_over {
                continue;
            }
            for node in &mut self.nodes {
                let between = &mut node.between[one];
                if matches!(between.acquire, Message::Back | Message::Heard) {
                    between.acquire = Message::Dead;
                }
                if between.confirm != Message::Out {
                    between.confirm = Message::Dead;
                }
                between.grant = 0;
                between.asked = false;
                between.is_forgotten = false;
            }
        }
        // Which nodes have been read is a matter of places.
        if self.nodes.iter().all(|node| node.read == 0) {
            self.nodes.sort_unstable();
        }
        self
    }
}

impl Node {
    fn votes(&self) -> bool {
        matches!(self.vote, Voting::Yes | Voting::Again)
    }

    fn grant(&mut self, rules: &Rules, acquirer: &Acquirer, one: usize) {
        let was_ours = self.owner == acquirer.owner;
        if !self.votes() {
            self.between[one].acquire = Message::Dead;
            return;
        }
        self.owner = acquirer.owner;
        let stays =
            rules.has(Mutant::CounterNotRaised) || was_ours && rules.has(Mutant::HandOverNotRaised);
        self.counter = match acquirer.proposal {
            0 if rules.has(Mutant::ProposalAsItIs) => self.counter + 1,
            proposal if rules.has(Mutant::ProposalAsItIs) => proposal,
            _ if stays => self.counter.max(1),
            proposal => (self.counter + 1).max(proposal),
        };
        self.between[one].acquire = Message::Back;
        self.between[one].grant = self.counter;
    }

    fn raise(&mut self, counter: u8, lowers: bool) {
        self.counter = if lowers {
            counter
        } else {
            self.counter.max(counter)
        };
    }
}
