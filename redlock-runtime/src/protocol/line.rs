//! Who is next: one line per key, in the order of asking, and one of its leases at the head.
//!
//! However many tasks of this process want a key, only the head talks to the nodes. The pause
//! between two attempts of a head decides how it fares against other processes.

use std::{collections::BTreeMap, time::Duration};

use super::{
    action::{Cause, Refusal},
    link::spread,
    message::{LeaseId, Owner},
    time::Instant,
};

/// The pause after the first lost attempt; doubled with every further one.
const FIRST_PAUSE: Duration = Duration::from_millis(4);

/// The longest pause between attempts: how long a lock may stand free unnoticed.
const LONGEST_PAUSE: Duration = Duration::from_millis(64);

/// How often a process may hand a lock on to itself while another one waits: so often that the
/// cost of a change between processes is small beside the sections, and so seldom that nobody waits
/// for long.
const MOST_HAND_OVERS: u32 = 8;

/// A process with long sections lets others have their turn after this time.
pub(super) const LONGEST_TURN: Duration = Duration::from_millis(50);

/// The shortest pause of a process that has had its turn: others may have to be scheduled first. It
/// costs nothing where one of them takes the lock, because that ends it.
const SHORTEST_YIELD: Duration = Duration::from_millis(5);

/// For how long a process leaves a free lock to those that have waited longer, for each turn that it is
/// behind them, at the least. Timers are no finer.
const SHORTEST_PLACE: Duration = Duration::from_millis(1);

/// And for how many turns at the most.
const MOST_PLACES: u32 = 8;

/// A node drops an expired key on its own clock; asking a moment later finds it gone.
const AFTER_EXPIRY: Duration = Duration::from_millis(1);

/// The leases of one key.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) head: LeaseId,
    /// By the order of asking; a lease anywhere in the line can leave it cheaply.
    waiting: BTreeMap<u64, LeaseId>,
    /// Why the last attempt of a head failed: what a lease that gives up further back reports.
    pub(super) last_refusal: Option<Refusal>,
    pub(super) turn: Turn,
    pub(super) patience: Patience,
    /// How long the last section took, if those behind it may be asked for ahead.
    pub(super) section: Option<Duration>,
}

/// How long this process has had the lock, from one of its leases to the next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    hand_overs: u32,
    since: Option<Instant>,
}

impl Turn {
    /// A lease was acquired. False if the turn has begun before.
    pub(super) fn begin(&mut self, now: Instant) -> bool {
        let begins = self.since.is_none();
        self.since.get_or_insert(now);
        begins
    }

    /// How many hand-overs are left of it, and how much time.
    pub(super) fn left(&self, now: Instant) -> (u32, Duration) {
        let began = self.since.unwrap_or(now);
        (
            MOST_HAND_OVERS.saturating_sub(self.hand_overs),
            LONGEST_TURN.saturating_sub(now.since(began)),
        )
    }

    pub(super) const fn go_on(&mut self) {
        self.hand_overs += 1;
    }

    /// Other processes may have the lock now.
    pub(super) const fn end(&mut self) {
        *self = Self {
            hand_overs: 0,
            since: None,
        };
    }

    /// True once another process that waits should have the lock.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        let is_long = |since| now.since(since) >= LONGEST_TURN;
        self.hand_overs >= MOST_HAND_OVERS || self.since.is_some_and(is_long)
    }
}

/// Lets those processes have the lock first that have waited for longer. No process knows how many
/// others there are, but each sees how many turns of others there are between its own, and where all
/// get theirs it is one of each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// Turns of others since the last of this process.
    seen: u32,
    /// Whose was the last of them.
    last: Option<Owner>,
    /// How many there are as a rule, in quarters.
    usual: u32,
}

impl Patience {
    const NEW: Self = Self {
        seen: 0,
        last: None,
        usual: 0,
    };

    /// A turn keeps its owner, however many leases of its process have the lock one after another.
    pub(super) fn on_turn_of(&mut self, owner: Option<Owner>) {
        if self.seen == 0 || owner != self.last {
            self.seen += 1;
            self.last = owner;
        }
    }

    /// The lock is free: how long others may ask before this process. Each place is as long as it
    /// takes to ask, and for the next one to hear that somebody has it.
    pub(super) fn pause(&self, round: Duration) -> Duration {
        let ahead = (self.usual / 4).saturating_sub(self.seen);
        (2 * round).max(SHORTEST_PLACE) * ahead.min(MOST_PLACES)
    }

    /// This process has its turn.
    pub(super) const fn on_own_turn(&mut self) {
        self.usual = self.usual - self.usual / 4 + self.seen;
        self.seen = 0;
    }
}

impl Line {
    pub(super) const fn new(head: LeaseId) -> Self {
        Self {
            head,
            waiting: BTreeMap::new(),
            last_refusal: None,
            turn: Turn {
                hand_overs: 0,
                since: None,
            },
            patience: Patience::NEW,
            section: None,
        }
    }

    pub(super) fn join(&mut self, order: u64, lease: LeaseId) {
        self.waiting.insert(order, lease);
    }

    pub(super) fn leave(&mut self, order: u64) {
        self.waiting.remove(&order);
    }

    /// Those behind the head.
    pub(super) fn waiting(&self) -> impl Iterator<Item = LeaseId> {
        self.waiting.values().copied()
    }

    /// The first behind the head.
    pub(super) fn next(&self) -> Option<LeaseId> {
        self.waiting().next()
    }

    /// Makes the next in line the head.
    pub(super) fn advance(&mut self) -> Option<LeaseId> {
        let (_, next) = self.waiting.pop_first()?;
        self.head = next;
        Some(next)
    }
}

/// How long a process that has had its turn leaves the lock to the others, who have to hear that
/// it is free, to read it, and to ask for it: four times as long as a round of its own took.
pub(super) fn yield_for(round: Duration) -> Duration {
    (4 * round).max(SHORTEST_YIELD)
}

/// How long the head waits before its next attempt: longer each time and never twice the same,
/// so that processes that collided do not collide again, but not beyond the moment at which the
/// present holder's key expires. One that hears from a node when the lock is free asks seldom.
pub(super) fn pause(lost_attempts: u32, refusal: &Refusal, hears: bool, random: u128) -> Duration {
    let longest = if hears {
        LONGEST_PAUSE
    } else {
        FIRST_PAUSE
            .saturating_mul(1 << lost_attempts.saturating_sub(1).min(10))
            .min(LONGEST_PAUSE)
    };
    let pause = longest / 2 + spread(longest / 2, random);
    match refusal.cause {
        Cause::Contended {
            retry_after: Some(expiry),
        } => pause.min(expiry + AFTER_EXPIRY),
        _ => pause,
    }
}
