//! Which fault strikes what and when: made from the seed, before anything runs.
//!
//! In the first phase no client misses more than two of the five nodes. A node counts as missed while the
//! fault lasts and for the longest lease after it, because locks that were acquired meanwhile do not stand
//! there; after a loss of memory it counts for the quarantine as well. In the second phase a majority is
//! struck at once, every few seconds.

use std::time::Duration;

use redlock_fuzz::Random;

pub(crate) const NODES: usize = 5;
pub(crate) const CLIENTS: usize = 8;

pub(crate) const LEASE: Duration = Duration::from_secs(1);
pub(crate) const NODE_TIMEOUT: Duration = Duration::from_millis(400);
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_millis(800);

/// What sets a short run, a dense one and a soak apart. Times are in milliseconds.
pub(crate) struct Pace {
    pub(crate) max_lease: Duration,
    /// Until a lock has ended or is on all nodes again, and time to connect.
    settling: u64,
    /// As long as the key of the longest possible lease lives, by the default guard band.
    quarantine: u64,
    /// Between two faults at the least and at the most.
    gap: (u64, u64),
    /// By how much shorter the faults of the first phase are.
    hurry: u64,
    /// How many faults strike a server, one after another, when a majority is struck.
    blows: u64,
    /// Between two strikes at a majority: until locks are granted again.
    recovery: u64,
    /// Only the first of the clients are ever killed; the others show what grows.
    mortal: usize,
    /// How many locks each client holds and renews all the time.
    pub(crate) held: usize,
    /// How many tasks of each client lock one key after another that nobody wants.
    pub(crate) busy: usize,
}

pub(crate) const SHORT: Pace = Pace {
    max_lease: Duration::from_secs(2),
    settling: 2_000,
    quarantine: 2_600,
    gap: (60, 300),
    hurry: 1,
    blows: 1,
    recovery: 3_500,
    mortal: CLIENTS,
    held: 0,
    busy: 0,
};

/// Faults of servers are rare in the first phase: each keeps its server out for all clients.
pub(crate) const DENSE: Pace = Pace {
    gap: (30, 100),
    hurry: 4,
    blows: 8,
    recovery: 1_000,
    ..SHORT
};

pub(crate) const SOAK: Pace = Pace {
    max_lease: Duration::from_secs(30),
    settling: 12_000,
    quarantine: 35_000,
    gap: (1_000, 4_000),
    mortal: CLIENTS / 2,
    held: 10_000 / CLIENTS,
    busy: 1,
    ..SHORT
};

/// Before the first fault, and at the end without any.
const CALM: u64 = 3_000;

/// These write each lock to disk before they grant it.
pub(crate) const DURABLE: [usize; 2] = [3, 4];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Node(usize),
    Link(usize, usize),
    Client(usize),
}

/// Times are in milliseconds from the start.
#[derive(Clone, Debug)]
pub(crate) struct Strike {
    pub(crate) at: u64,
    pub(crate) kind: &'static str,
    pub(crate) target: Target,
    pub(crate) lasts: u64,
}

pub(crate) const NODE_FAULTS: [&str; 10] = [
    "killed",
    "stopped",
    "flushed",
    "scripts flushed",
    "clients cut",
    "memory full",
    "replica",
    "busy",
    "rights taken",
    "cut off",
];

pub(crate) const LINK_FAULTS: [&str; 10] = [
    "delayed",
    "throttled",
    "black hole",
    "half-open",
    "forgotten",
    "replies cut",
    "replies held",
    "requests held",
    "refused",
    "reset",
];

pub(crate) const CLIENT_FAULTS: [&str; 2] = ["client stopped", "client killed"];

impl Pace {
    /// Until a server votes again that has lost all, and has all locks again.
    pub(crate) const fn recovered(&self) -> u64 {
        self.settling + self.quarantine
    }
}

pub(crate) struct Plan {
    pub(crate) strikes: Vec<Strike>,
    /// Where a phase begins; the last entry is the end of all.
    pub(crate) phases: Vec<(u64, &'static str)>,
}

impl Plan {
    pub(crate) fn new(seed: u64, seconds: u64, with: &str, pace: &'static Pace) -> Self {
        let end = seconds * 1_000;
        let recovered = pace.recovered();
        let last = end - CALM - recovered;
        let change = match with {
            "minority" => last,
            "majority" => CALM,
            _ => CALM + (last - CALM) * 6 / 10,
        };
        let mut made = Making {
            pace,
            random: Random::new(seed),
            strikes: Vec::new(),
            missed: [[0; NODES]; CLIENTS],
            clients: [0; CLIENTS],
        };
        made.minority(CALM, change);
        made.majority(change + recovered, last);
        made.strikes.sort_by_key(|strike| strike.at);
        let phases = vec![
            (0, "minority"),
            (change + recovered, "majority"),
            (last + recovered, "calm"),
            (end, "end"),
        ];
        Self {
            strikes: made.strikes,
            phases,
        }
    }
}

struct Making {
    pace: &'static Pace,
    random: Random,
    strikes: Vec<Strike>,
    /// Until when a client misses a node.
    missed: [[u64; NODES]; CLIENTS],
    /// Until when a client is harmed.
    clients: [u64; CLIENTS],
}

impl Making {
    fn minority(&mut self, from: u64, until: u64) {
        let mut at = from;
        while at < until {
            match self.random.below(10) {
                0..4 => self.strike_node(at),
                4..8 => self.strike_link(at),
                _ => self.strike_client(at),
            }
            let (least, most) = self.pace.gap;
            at += least + self.random.below(most - least);
        }
    }

    /// Three nodes or more at once, by one kind of fault or several.
    fn majority(&mut self, from: u64, until: u64) {
        let mut at = from;
        while at < until {
            let lasts = 500 + self.random.below(1_500);
            let of_one_kind = self.random.below(2) == 0;
            let mut kind = self.random.pick(&NODE_FAULTS);
            let first = self.random.below(NODES as u64) as usize;
            let blows = self.pace.blows;
            for node in 0..3 + self.random.below(3) as usize {
                for blow in 0..blows {
                    if !of_one_kind {
                        kind = self.random.pick(&NODE_FAULTS);
                    }
                    let target = Target::Node((first + node) % NODES);
                    let at = at + blow * lasts / blows + self.random.below(100);
                    self.add(at, kind, target, lasts / blows);
                }
            }
            for _ in 0..4 * blows {
                let at = at + self.random.below(lasts);
                self.strike_client(at);
                if blows > 1 {
                    self.strike_link(at);
                }
            }
            at += lasts + self.pace.quarantine + self.pace.recovery;
        }
    }

    fn strike_node(&mut self, at: u64) {
        let (kind, node) = (
            self.random.pick(&NODE_FAULTS),
            self.random.below(NODES as u64) as usize,
        );
        let lasts = match kind {
            "flushed" | "scripts flushed" | "clients cut" => 0,
            _ => (200 + self.random.below(2_500)) / self.pace.hurry,
        };
        let forgets = matches!(kind, "killed" | "flushed" | "replica");
        let unknown = if forgets { self.pace.quarantine } else { 0 };
        let until = at + lasts + self.pace.settling + unknown;
        if (0..CLIENTS).all(|client| self.may_miss(client, node, at)) {
            for missed in &mut self.missed {
                missed[node] = until;
            }
            self.add(at, kind, Target::Node(node), lasts);
        }
    }

    fn strike_link(&mut self, at: u64) {
        let kind = self.random.pick(&LINK_FAULTS);
        let client = self.random.below(CLIENTS as u64) as usize;
        let node = self.random.below(NODES as u64) as usize;
        let lasts = match kind {
            "reset" => 0,
            _ => (200 + self.random.below(2_000)) / self.pace.hurry,
        };
        if self.may_miss(client, node, at) {
            self.missed[client][node] = at + lasts + self.pace.settling;
            self.add(at, kind, Target::Link(client, node), lasts);
        }
    }

    /// Not more than two at a time.
    fn strike_client(&mut self, at: u64) {
        let kind = self.random.pick(&CLIENT_FAULTS);
        let mut client = self.random.below(CLIENTS as u64) as usize;
        if kind == "client killed" {
            client %= self.pace.mortal;
        }
        let lasts = match kind {
            "client killed" => self.random.below(500),
            _ => 1_100 + self.random.below(1_500),
        };
        let harmed = self.clients.iter().filter(|until| **until > at).count();
        if harmed < 2 && self.clients[client] < at {
            self.clients[client] = at + lasts + 1_000;
            self.add(at, kind, Target::Client(client), lasts);
        }
    }

    /// Whether this client has a majority left, and nothing else happens to the node.
    fn may_miss(&self, client: usize, node: usize, at: u64) -> bool {
        let missed = &self.missed[client];
        missed[node] < at && missed.iter().filter(|until| **until >= at).count() < NODES / 2
    }

    fn add(&mut self, at: u64, kind: &'static str, target: Target, lasts: u64) {
        self.strikes.push(Strike {
            at,
            kind,
            target,
            lasts,
        });
    }
}
