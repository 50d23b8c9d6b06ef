//! Votes: keys, blocks of tokens, and the longest key TTL that was voted for.

use std::{sync::Arc, time::Duration};

use super::{Model, Moment, Note, Overflow, Stored, Value};
use crate::{
    message::{Act, Ahead, BlockRequest, Mode, Owner, Reply, Ticket, Vote},
    rules::{
        key_names::{line_of, stripe},
        token::Token,
    },
    time::{Instant, counted},
};

/// A proposal further above the counter than this is compared with the node's wall clock.
const TRUSTED_LEAD_MICROS: u64 = 5_000_000;

/// A proposal may be this number of seconds ahead of the node's wall clock, in whole seconds so that nodes
/// agree on the limit. A client whose clock is wrong must not use up the tokens of years.
const LONGEST_LEAD_SECONDS: u64 = 5;

/// The longest key TTL that was voted for in this period and in the one before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Longest {
    this: Duration,
    before: Duration,
    /// Once this has come, the next vote that looks at the clock begins a new period.
    until: Instant,
    /// That limit in microseconds since 1970. A vote whose proposal is below it does not look at the
    /// clock: that costs the script a tenth of its time.
    until_micros: u64,
}

impl Model {
    /// A request for a vote, of the admission that stands.
    pub(super) fn vote(&mut self, asked: &Vote, act: &Act, at: Moment) -> Result<Reply, Overflow> {
        let vote = &Vote {
            ttl: counted(asked.ttl),
            ..asked.clone()
        };
        match act {
            Act::Acquire(ticket) => self.acquire(vote, *ticket, at),
            Act::Extend { spare, note } => {
                let written = counted(asked.ttl.saturating_add(*spare));
                self.extend(vote, written, note.as_ref(), at)
            }
            Act::PutBack => Ok(self.put_back(vote, at)),
        }
    }

    fn acquire(
        &mut self,
        vote: &Vote,
        ticket: Option<Ticket>,
        at: Moment,
    ) -> Result<Reply, Overflow> {
        // Before anything is written: a node whose counter is at its end must change nothing.
        let block = self.next_block(vote, true, at)?;
        let mut standing = ticket.map(|ticket| self.standing(vote, ticket, at));
        let is_readers = |owner| vote.mode == Mode::Shared && owner == Some(Owner::READERS);
        // A reader that reads already has asked long ago, and must not shorten its own time.
        let reads = self.expiry_of(vote, at.now).is_some();
        let held = self.key(&vote.key, at.now);
        let is_refused = match (&held, &mut standing) {
            // Who waits to have it alone waits for the readers, and is not passed for that.
            (Some(held), standing) => {
                let is_behind = standing.is_some_and(|standing| standing.ahead.count > 0);
                !is_readers(held.owner) || reads || is_behind
            }
            (None, Some(standing)) => !standing.is_next(at.now),
            (None, None) => false,
        };
        if is_refused {
            let ahead = standing.map(|standing| standing.ahead).unwrap_or_default();
            if let Some(standing) = standing {
                self.stand(vote, standing, held.is_none(), at);
            }
            return Ok(match held {
                Some(held) => held.as_reply(ahead, at.now),
                None => Reply::Queued(ahead),
            });
        }
        let is_slot = ticket.is_none() && line_of(&vote.key).is_some();
        let is_slot = is_slot && vote.mode == Mode::Exclusive;
        let is_waited_for = standing.is_some_and(|standing| self.pass(vote, standing, at))
            || is_slot && self.is_waited_for(vote, at.now);
        self.set(vote, vote.ttl, at);
        let first = self.take(vote, block);
        self.raise_longest(vote.ttl, vote.block, at);
        Ok(Reply::Granted {
            first: first.unwrap_or_default(),
            has_remote_waiter: is_waited_for,
        })
    }

    /// `written` is how long the key lives if it is written.
    fn extend(
        &mut self,
        vote: &Vote,
        written: Duration,
        note: Option<&Arc<str>>,
        at: Moment,
    ) -> Result<Reply, Overflow> {
        // An extension never makes a key: a lock that expired here may be another client's by now.
        let Some(expires) = self.expiry_of(vote, at.now) else {
            return Ok(Reply::NotOwner);
        };
        let remaining = expires.map(|expires| expires.since(at.now));
        let block = self.next_block(vote, false, at)?;
        if self.is_alone(vote, at.now) {
            // Its place in the queue is that of one who has the lock alone, and readers wait behind it.
            let line = line_of(&vote.key).unwrap_or(&vote.key);
            self.leave(line, vote.owner.process());
            self.set_reader(&vote.key, vote.owner, expires, at.now);
        }
        let mut ttl = vote.ttl;
        if remaining.is_some_and(|remaining| remaining < ttl) {
            // Only ever longer: a late request of an earlier round must not shorten the key.
            ttl = written;
            self.set(vote, ttl, at);
        }
        // It counts only while the key is this owner's, so no release has to take it away.
        if let (Some(text), Mode::Exclusive) = (note, vote.mode) {
            let (owner, text) = (vote.owner, Arc::clone(text));
            let expires = at.now.after(ttl);
            let note = Note {
                owner,
                text,
                expires,
            };
            self.notes.insert(Arc::clone(&vote.key), note);
        }
        let first = self.take(vote, block);
        self.raise_longest(ttl, vote.block, at);
        Ok(Reply::Extended {
            remaining,
            first,
            has_remote_waiter: self.is_waited_for(vote, at.now),
        })
    }

    fn put_back(&mut self, vote: &Vote, at: Moment) -> Reply {
        // It may live for longer than this request would let it.
        if self.expiry_of(vote, at.now).is_some() {
            return Reply::PutBack;
        }
        let is_readers = |owner| vote.mode == Mode::Shared && owner == Some(Owner::READERS);
        let held = self.key(&vote.key, at.now);
        if let Some(held) = held.filter(|held| !is_readers(held.owner)) {
            return held.as_reply(Ahead::default(), at.now);
        }
        self.set(vote, vote.ttl, at);
        self.raise_longest(vote.ttl, None, at);
        Reply::PutBack
    }

    /// If the key is the owner's: when it expires, if it ever does.
    fn expiry_of(&self, vote: &Vote, now: Instant) -> Option<Option<Instant>> {
        let held = self.stored(&vote.key, now)?;
        match (&held.value, vote.mode) {
            (Value::Owner(owner), Mode::Exclusive) if *owner == vote.owner => Some(held.expires),
            (Value::Owner(_), Mode::Shared) if self.is_alone(vote, now) => {
                let soon = now.after(Duration::from_millis(1));
                Some(Some(held.expires.unwrap_or(soon)))
            }
            (Value::Readers(readers), Mode::Shared) => {
                let mut alive = readers.iter().filter(|reader| reader.lives(now));
                let reader = alive.find(|reader| reader.owner == Some(vote.owner))?;
                Some(reader.expires)
            }
            _ => None,
        }
    }

    /// It is to share a key that it has alone yet.
    fn is_alone(&self, vote: &Vote, now: Instant) -> bool {
        let held = self.stored(&vote.key, now).map(|held| &held.value);
        let is_its = matches!(held, Some(Value::Owner(owner)) if *owner == vote.owner);
        is_its && vote.mode == Mode::Shared
    }

    fn set(&mut self, vote: &Vote, ttl: Duration, at: Moment) {
        let expires = at.now.after(ttl);
        match vote.mode {
            Mode::Exclusive => {
                let value = Value::Owner(vote.owner);
                let expires = Some(expires);
                self.keys
                    .insert(Arc::clone(&vote.key), Stored { value, expires });
            }
            Mode::Shared => self.set_reader(&vote.key, vote.owner, Some(expires), at.now),
        }
    }

    /// The first and the last number of the block, if one is wanted. An acquisition proposes a wall
    /// clock, which may be wrong; a refresh proposes by numbers that nodes have reported.
    fn next_block(
        &self,
        vote: &Vote,
        is_wall_clock: bool,
        at: Moment,
    ) -> Result<Option<(Token, Token)>, Overflow> {
        let Some(block) = vote.block else {
            return Ok(None);
        };
        let stripe = stripe(&vote.key);
        let before = self.counter(stripe).0;
        let overflow = || {
            let has_counter = self.counters.contains_key(&stripe);
            let field = has_counter.then(|| stripe.to_string());
            Overflow(field.unwrap_or_else(|| "floor".to_owned()))
        };
        // Somebody has changed the counter: this node falls silent, and the others outvote it.
        if before > Token::HIGHEST_PLAUSIBLE.0 {
            return Err(overflow());
        }
        let mut first = block.proposal.min(Token::LARGEST).0;
        // A clock near the counter is not checked: to read the node's own costs the script time.
        if is_wall_clock && first > before && first - before > TRUSTED_LEAD_MICROS {
            let limit = (at.wall_micros / 1_000_000 + LONGEST_LEAD_SECONDS) * 1_000_000;
            first = first.min(limit);
        }
        // Whatever is proposed, no number is given twice by one node.
        first = first.max(before.saturating_add(1));
        let last = first.saturating_add(block.length.saturating_sub(1));
        if last > Token::LARGEST.0 {
            return Err(overflow());
        }
        Ok(Some((Token(first), Token(last))))
    }

    fn take(&mut self, vote: &Vote, block: Option<(Token, Token)>) -> Option<Token> {
        let (first, last) = block?;
        // To the end of the block, used or not: that is what makes blocks disjoint, see `rules::token`.
        self.counters.insert(stripe(&vote.key), last);
        Some(first)
    }

    fn raise_longest(&mut self, ttl: Duration, block: Option<BlockRequest>, at: Moment) {
        let is_enough = |longest: &Longest| {
            // The common case: nothing is written.
            ttl <= longest.this
                && block.is_some_and(|block| block.proposal.0 < longest.until_micros)
        };
        if !self.longest.as_ref().is_some_and(is_enough) {
            // Until the fleet's longest lease is noted, no vote is old enough to be forgotten.
            let period = self.max_ttl.unwrap_or(Duration::MAX);
            self.longest = Some(Longest::raised(self.longest, ttl, period, at));
        }
    }
}

impl Longest {
    fn raised(old: Option<Self>, ttl: Duration, period: Duration, at: Moment) -> Self {
        let before = match old {
            Some(old) if at.now < old.until => {
                let this = old.this.max(ttl);
                return Self { this, ..old };
            }
            // However long ago the period ended: votes since then may not have been noted.
            Some(old) => old.this,
            None => Duration::ZERO,
        };
        let micros = u64::try_from(period.as_micros()).unwrap_or(u64::MAX);
        Self {
            this: ttl,
            before,
            until: at.now.after(period),
            until_micros: (at.wall_micros / 1_000 * 1_000).saturating_add(micros),
        }
    }

    /// What was voted for since the period ended may not have been noted, so `this` counts until the
    /// next period has begun.
    pub(super) fn read(&self, now: Instant) -> Duration {
        if now < self.until {
            self.this.max(self.before)
        } else {
            self.this
        }
    }
}
