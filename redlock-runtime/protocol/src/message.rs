//! What one node is asked, and what it can answer.

use std::{sync::Arc, time::Duration};

use crate::rules::token::Token;

/// A configured node, by its position in the node set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeId(pub usize);

/// One critical section from the caller's side, from the question to the release. Never reused, and
/// below 2^63: the others are for parts of sections with several keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SectionId(pub u64);

impl SectionId {
    /// The first that is a part of a section with several keys.
    pub(crate) const FIRST_PART: Self = Self(1 << 63);

    /// It is such a part, and no caller knows of it.
    pub(crate) const fn is_part(self) -> bool {
        self.0 >= Self::FIRST_PART.0
    }
}

/// One request to one node. Never reused, and larger than the ids of all requests before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// One connection to one node, or the attempt to make it. Never reused, so that news of a
/// connection that was given up cannot be taken for news of its successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);

/// One client process: the upper half of every [`Owner`] that it makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process(pub u64);

/// The random value under the lock key; a new one for every attempt to get the lock. It stays the
/// same for the turn that a won attempt begins, whoever of the process has the lock within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner(pub u128);

impl Owner {
    /// Stands for the readers of a key that is shared, where nodes name one owner. No process draws it.
    pub const READERS: Self = Self(u128::MAX);

    /// The process that made it.
    #[must_use]
    pub const fn process(self) -> Process {
        Process((self.0 >> 64) as u64)
    }
}

/// One of the locks of a section that has several.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Member {
    /// The lock.
    pub key: Arc<str>,
    /// As in `LockParams`.
    pub permits: u32,
    /// How many of the permits the section has at a time; one for a lock without permits.
    pub weight: u32,
    /// Whether the section shares it.
    pub mode: Mode,
}

impl Member {
    /// The lock of this name, which the section has alone.
    #[must_use]
    pub const fn alone(key: Arc<str>) -> Self {
        Self {
            key,
            permits: 0,
            weight: 1,
            mode: Mode::Exclusive,
        }
    }
}

/// With whom an owner shares a key. It stays the same for as long as the owner has the key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// With no other.
    #[default]
    Exclusive,
    /// With others of this mode, which are the *readers* of the key.
    Shared,
}

/// One admission of one node to the vote: a random number, drawn anew by each admission. Votes
/// name it, so that no vote counts that a node gives with another memory than the one that was
/// admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AdmissionId(pub u64);

/// One loss of a node's memory: a random number, drawn by the client that finds the loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LossId(pub u64);

/// What a server tells of itself when a connection is made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Identifies the server's process (`run_id`); `None` if the client may not read it. Where others
    /// decide which process is the node, their decision follows behind `@`: a process that is chosen
    /// again may have forgotten what it granted before, like another one.
    pub server: Option<Arc<str>>,
    /// How long it says that it has been running.
    pub uptime: Option<Duration>,
    /// It writes every change to disk before it answers, is a master, and has never been a
    /// replica: so it forgets nothing in a crash.
    pub is_durable: bool,
    /// It tells of changes to keys that were read.
    pub tells_changes: bool,
    /// The policy by which it drops keys when memory runs out; `None` if it keeps them.
    pub evicts: Option<Arc<str>>,
}

impl Facts {
    /// The server's process, whoever has chosen it.
    #[must_use]
    pub fn process(&self) -> Option<&str> {
        self.server.as_deref()?.split('@').next()
    }
}

/// How nodes keep what they keep: noted on each of them, and raised when releases that know the one before must not
/// vote beside those that know it. Whoever raises it there admits the node anew, so that no vote of the others counts.
/// A node on which none is noted has the first one.
pub const FORMAT: u64 = 1;

/// What a node keeps about its own vote, all of it in one hash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The admission that stands. `None` on a node that has never voted, or has lost its memory.
    pub marker: Option<Marker>,
    /// The loss of memory that was found last and that no admission has settled. Beside a marker: it was made by a
    /// client that assumes that nothing was forgotten, and counts for such clients only.
    pub loss: Option<LossRecord>,
    /// The longest key TTL that the node has granted in this period and the one before, each of
    /// them as long as the longest TTL that the fleet may ask for. Nothing from before its
    /// admission.
    pub longest: Duration,
    /// The highest of its counters, or the floor below which none of them starts.
    pub top: Token,
    /// The longest key TTL that the fleet may ask for, as the client said that admitted the node
    /// or reported its loss. It must be the same for all.
    pub max_ttl: Option<Duration>,
    /// Its format, if it is not [`FORMAT`]. Then nothing else is told.
    pub other_format: Option<u64>,
}

/// Who was admitted to the vote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    /// The server's process; `None` if the client that admitted it could not tell.
    pub server: Option<Arc<str>>,
    /// The admission itself.
    pub admission: AdmissionId,
    /// The process was durable when it was admitted.
    pub was_durable: bool,
}

/// A loss of memory that a client has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LossRecord {
    /// Which one.
    pub id: LossId,
    /// How long ago it was found, by the node's clock.
    pub age: Duration,
    /// When it was found, or later before the node voted again, another node had a marker, or this
    /// one that of another process, or a client had seen one vote: so this is no first start.
    pub beside_marker: bool,
    /// What was forgotten, if anything, was forgotten before this process was started: when the loss
    /// was found, no keys had been flushed or swapped away since then, and the marker of an earlier
    /// process was there, or no other node was known to have one.
    pub is_unflushed: bool,
    /// All nodes were found new together, and this one is to wait for so long.
    pub first_start: Option<Duration>,
}

/// Why a node that has lost its memory may vote again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// `wait` after this loss was found nothing that was forgotten can count any more.
    Waited {
        /// The loss. If it is not the last one any more, nothing is admitted.
        loss: LossId,
        /// How long the node must have waited, by its own clock.
        wait: Duration,
    },
    /// All nodes are new, and the client would wait for so long. The longest time that any client
    /// has named for this loss is kept and counts.
    FirstStart {
        /// The loss. If it is not the last one any more, nothing is admitted.
        loss: LossId,
        /// How long the node must have waited, by its own clock.
        wait: Duration,
    },
    /// None, but the client assumes that the node has forgotten nothing. The loss stays noted beside the
    /// admission, and other clients go on waiting.
    Assumed {
        /// The loss. If it is not the last one any more, nothing is admitted.
        loss: LossId,
    },
    /// Everything of this admission was on disk: another process goes on with it.
    Durable {
        /// What the marker must still say.
        admission: AdmissionId,
    },
}

/// The fencing tokens that a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRequest {
    /// The number to begin with, if the counter stands below it.
    pub proposal: Token,
    /// How many tokens; at least one.
    pub length: u64,
}

/// What a process that waits for a lock says of itself to the node that keeps the queue: see `model/queue.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// When it came, in nanoseconds of its own clock: each process has one place, and gives it up for one that came at
    /// another time.
    pub came: u64,
    /// For how long it has waited already. Counts when it takes its place, and not again.
    pub waited: Duration,
    /// How long the place lasts if it is not asked for again; with zero, none is taken.
    pub lasts: Duration,
    /// How long those behind it are to leave it a lock that is free: what it needs to hear of that and to ask.
    /// So long its release may be on its way, too.
    pub grace: Duration,
    /// It leaves a free lock to those that have waited longer until their time is over, and takes their places
    /// away then. Otherwise it goes before all, and takes no place away.
    pub is_ordered: bool,
}

impl Ticket {
    /// The longest time for which a place lasts that its process does not ask for again.
    pub const LASTS: Duration = Duration::from_secs(1);
}

/// What an owner asks of a node that votes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vote {
    /// The lock.
    pub key: Arc<str>,
    /// Who asks.
    pub owner: Owner,
    /// Beside whom it has the key.
    pub mode: Mode,
    /// How long the node keeps the key, at the least.
    pub ttl: Duration,
    /// The tokens: the counter `c` becomes `max(c + 1, proposal) + length - 1`, and the first number of the block is
    /// told. An acquisition always takes some.
    pub block: Option<BlockRequest>,
    /// The admission that the client knows of. Under another one the node answers `NotAdmitted`, and does nothing.
    pub admission: AdmissionId,
}

/// What the node is to do with the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Set it to the owner, unless there is one; a key that lists readers takes in one more. Answered by `Granted`,
    /// `Held` or `Queued`.
    ///
    /// With a ticket the key is granted only in the order of the queue, and who is refused takes a place in it. So does
    /// who is granted it alone: others may refuse it. The place counts again once the key is gone.
    Acquire(Option<Ticket>),
    /// If it carries the owner, let it live for the TTL from now. A key that lives for longer is left as it is.
    /// Answered by `Extended` or `NotOwner`.
    Extend {
        /// If the key is written at all, it lives for so much longer: every write wakes the clients
        /// that watch the key.
        spare: Duration,
        /// What the owner says to those who look at the lock. The node keeps it beside the key for as long as the
        /// key lives at the least, and no vote depends on it. `None` leaves it as it is.
        note: Option<Arc<str>>,
    },
    /// As `Acquire`, but it gives no vote and no token. Answered by `PutBack` or `Held`.
    PutBack,
}

/// Which slot of a lock with permits is free for the process, in the order of the queue? Gives no vote. Answered
/// by `Turn`, `Queued` or `Full`. Whoever is not given a turn takes a place in the queue, and finds the key there
/// until a slot is released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stand {
    /// Where the callers of the lock wait.
    pub key: Arc<str>,
    /// Any owner of the process.
    pub owner: Owner,
    /// How many slots the lock has.
    pub permits: u32,
    /// The slot to begin with: clients that are told of the same one meet there.
    pub start: u32,
    /// The caller needs several slots, so its process's share of them may not be enough.
    pub needs_several: bool,
    /// The place.
    pub ticket: Ticket,
}

/// One request to one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Which process is it? It is told all scripts again. Answered by `Identity`.
    Identify,
    /// Read the record. Writes nothing. Answered by `Record`.
    Probe,
    /// Note that the memory was lost, unless a marker names this `server` or the loss has been
    /// noted already. A marker that names another server is deleted. That another node has a marker
    /// is noted later as well. Answered by `Record`.
    ReportLoss {
        /// The process that the client speaks to; with `None`, any marker is accepted.
        server: Option<Arc<str>>,
        /// The name of the loss, if no client has noted it before.
        loss: LossId,
        /// Another node has a marker, or the client has seen one vote.
        beside_marker: bool,
        /// The longest key TTL that the fleet may ask for.
        max_ttl: Duration,
    },
    /// Let the node vote, if the evidence is good. Answered by `Admitted`, or by `Record` if it is
    /// not.
    Admit {
        /// The process that the client speaks to.
        server: Option<Arc<str>>,
        /// Why it may.
        evidence: Evidence,
        /// The name of this admission.
        admission: AdmissionId,
        /// No counter starts below this one, nor below those that the node has, as far as clocks bear it out.
        floor: Token,
        /// What the client's wall clock shows. No counter starts more than an hour after it and the node's clock.
        wall_micros: u64,
        /// It is durable.
        is_durable: bool,
        /// The longest key TTL that the fleet may ask for.
        max_ttl: Duration,
    },
    /// What only a node that votes does.
    Vote(Vote, Act),
    /// Which slot of a lock with permits is free?
    Stand(Stand),
    /// Does the key carry the owner, or any? And tell when that changes. Answered by `Ours`, `Taken`
    /// or `Free`.
    Watch {
        /// The lock.
        key: Arc<str>,
        /// Whom it may carry.
        owner: Option<Owner>,
        /// Beside whom that owner has it.
        mode: Mode,
    },
    /// Delete the key, if it still carries the owner, or leave it to expire in the time that is
    /// named. A key that expires sooner is left as it is, and one with other readers loses this one.
    /// Answered by `Deleted`, `Kept` or `NotOwner`.
    Release {
        /// The lock.
        key: Arc<str>,
        /// Who asks.
        owner: Owner,
        /// Beside whom it has the key.
        mode: Mode,
        /// For how much longer the key stays, if it stays. Readers are not kept.
        keep: Option<Duration>,
        /// The process gives up its place in the queue.
        leaves: bool,
    },
}

impl Request {
    /// The lock that it is about.
    pub const fn key(&self) -> Option<&Arc<str>> {
        match self {
            Self::Vote(Vote { key, .. }, _)
            | Self::Stand(Stand { key, .. })
            | Self::Watch { key, .. }
            | Self::Release { key, .. } => Some(key),
            _ => None,
        }
    }
}

/// Why a server answers with an error, by the code of the error.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// Its memory is full: `OOM`.
    OutOfMemory,
    /// It is a replica: `READONLY`, `MASTERDOWN`.
    ReadOnly,
    /// It has fewer replicas than it needs to write: `NOREPLICAS`.
    TooFewReplicas,
    /// It cannot save its data: `MISCONF`.
    CannotSave,
    /// It belongs to a Redis Cluster that was not named as one: `ASK`, `CLUSTERDOWN`, `CROSSSLOT`, `MOVED`, `TRYAGAIN`.
    InCluster,
    /// It does not know the command.
    UnknownCommand,
    /// The user may not do that: `NOPERM`.
    NoPermission,
    /// The connection is not signed in, or not any more: `NOAUTH`.
    NotAuthenticated,
    /// A script or function of some client does not end: `BUSY`.
    Busy,
    /// It has been started and reads its data: `LOADING`.
    Loading,
    /// One of the library's counters on it cannot be right: `REDLOCK`.
    Counter,
    /// The key has a value of another program: `WRONGTYPE`. This says nothing of other keys.
    Key,
    /// Another error.
    Other,
}

/// Those that have waited longer for a key, and cannot share it with who asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ahead {
    /// How many processes they are.
    pub count: u32,
    /// For how long they are to be left a lock that is free, all of them together. If there are none, for how
    /// long the holder's release may be on its way.
    pub grace: Duration,
}

impl Ahead {
    /// Those ahead may all be gone, or a node be wrong: nobody is kept waiting for longer than this. Less than the
    /// 50 ms for which fair callers may be out of order: who waits for one ahead can be overtaken himself. Scripts say
    /// so as well.
    // With 60 ms, a third caller overtook the one that waited, in one of 20 000 histories of the simulator.
    pub(crate) const LONGEST_GRACE: Duration = Duration::from_millis(40);

    pub(crate) fn believed(self) -> Self {
        // Scripts say no more. A node that does anyway is wrong, and must not cost more either.
        let grace = self.grace.min(Self::LONGEST_GRACE);
        Self { grace, ..self }
    }

    /// How long to leave them a lock that is free.
    pub(crate) fn time(self) -> Duration {
        // With nobody ahead, the grace is that of the holder's release, for which nobody has to stand back.
        self.grace * u32::from(self.count > 0)
    }
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Identify: the process, if the server tells.
    Identity {
        /// Its `run_id`.
        server: Option<Arc<str>>,
    },
    /// Probe, report of a loss, admit: the record as it stands after the request.
    Record(Box<Record>),
    /// Admit: it votes, under this admission. That is the one that the request named, unless the
    /// marker named this server already.
    Admitted {
        /// The admission that stands now.
        admission: AdmissionId,
    },
    /// Acquire, extend, put back: another admission stands than the one that was named, or none. Also
    /// what a driver reports if the node does not know the script: it may be another process. Nothing
    /// was done.
    NotAdmitted,
    /// Acquire: the key is ours.
    Granted {
        /// The first number of the block.
        first: Token,
        /// Another process waits that cannot share the key with this owner, or for a slot as this one is. Only the
        /// node says so that has been given a ticket, or that keeps the queue for the slots.
        has_remote_waiter: bool,
    },
    /// Acquire with a ticket, stand: the lock is free, but others have waited longer.
    Queued(Ahead),
    /// Stand: this slot is free, and is left to the process for a moment.
    Turn {
        /// Which one.
        slot: u32,
    },
    /// Stand: no slot is free.
    Full {
        /// When the first key expires, or a slot that is left to a process that was told of it is not any more; `None` if
        /// that is never.
        remaining: Option<Duration>,
        /// Who has waited longer.
        ahead: Ahead,
        /// The line has got its key by this request, so the process that has asked cannot have read it yet.
        is_new: bool,
        /// A process that has no more slots than these need not let others have them.
        share: u32,
    },
    /// Acquire, put back: the key exists.
    Held {
        /// Whose it is, or [`Owner::READERS`]; `None` if there is none, or it was not made by a client of this
        /// library.
        owner: Option<Owner>,
        /// How long the key still lives; `None` if it never expires.
        remaining: Option<Duration>,
        /// Who has waited longer: none without a ticket.
        ahead: Ahead,
    },
    /// Extend: the key is ours, and lives at least for the TTL that was named.
    Extended {
        /// How long it would have lived; `None` if it would never have expired.
        remaining: Option<Duration>,
        /// The first number of the block, if one was wanted.
        first: Option<Token>,
        /// Other processes have places in the queue for it.
        has_remote_waiter: bool,
    },
    /// Put back: the key is ours, now or as before.
    PutBack,
    /// Watch: the key is ours.
    Ours,
    /// Watch: the key carries another owner, or what is none.
    Taken,
    /// Watch: there is no such key.
    Free,
    /// Release: the key was ours and is gone.
    Deleted,
    /// Release: the key was ours, and expires in the time that was named at the latest.
    Kept,
    /// Extend, release: the key is gone or carries another owner.
    NotOwner,
    /// The server answered with an error.
    Refused {
        /// What keeps it from doing what it was asked.
        reason: Rejection,
        /// Its words.
        message: Arc<str>,
        /// The error came before anything could be written: nothing was done.
        is_untouched: bool,
    },
    /// The server answered with something that is no answer to the question; what it did is not
    /// known.
    Garbled {
        /// What it said, shortened.
        answer: Arc<str>,
    },
}

impl Reply {
    /// Other processes wait for the key. A leader that refuses it knows of others, or how long its holder's release may
    /// take, who has waited: the other nodes may grant it all the same.
    pub(crate) fn names_others(&self) -> bool {
        match *self {
            Self::Granted {
                has_remote_waiter, ..
            }
            | Self::Extended {
                has_remote_waiter, ..
            } => has_remote_waiter,
            Self::Held { ahead, .. } => ahead != Ahead::default(),
            _ => false,
        }
    }
}
