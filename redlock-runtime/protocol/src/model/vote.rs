//! Votes: keys, blocks of tokens, and the longest key TTL that was voted for.

use std::{sync::Arc, time::Duration};

use super::{Key, Model, Moment, Overflow};
use crate::{
    message::{BlockRequest, Owner, Reply},
    rules::token::{Token, stripe},
    time::Instant,
};

/// A proposal further above the counter than this is compared with the node's wall clock.
const TRUSTED_LEAD_MICROS: u64 = 5_000_000;

/// A proposal may be so many seconds ahead of the node's wall clock, in whole seconds so that nodes
/// agree on the limit. A client whose clock is wrong must not use up the tokens of years.
const LONGEST_LEAD_SECONDS: u64 = 5;

/// The longest key TTL that was voted for in this period and in the one before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Longest {
    this: Duration,
    before: Duration,
    /// Once this has come, the next vote that looks at the clock begins a new period.
    until: Instant,
    /// The same in microseconds since 1970. A vote whose proposal is below it does not look at the
    /// clock: that costs the script a tenth of its time.
    until_micros: u64,
}

/// What acquire, extend and put back have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Vote<'a> {
    pub(super) key: &'a Arc<str>,
    pub(super) owner: Owner,
    pub(super) ttl: Duration,
    pub(super) block: Option<BlockRequest>,
}

impl Model {
    pub(super) fn acquire(
        &mut self,
        vote: Vote<'_>,
        waits: bool,
        at: Moment,
    ) -> Result<Reply, Overflow> {
        let block = self.next_block(vote, true, at)?;
        if let Some(held) = self.key(vote.key, at.now) {
            if waits {
                self.leave_hint(vote, held.owner, at);
            }
            return Ok(held.as_reply(at.now));
        }
        self.set(vote, vote.ttl, at);
        let first = self.take(vote, block);
        self.raise_longest(vote.ttl, vote.block, at);
        Ok(Reply::Granted {
            first: first.unwrap_or_default(),
            has_remote_waiter: self.has_remote_waiter(vote, at),
        })
    }

    pub(super) fn extend(
        &mut self,
        vote: Vote<'_>,
        spare: Duration,
        at: Moment,
    ) -> Result<Reply, Overflow> {
        let remaining = match self.key(vote.key, at.now) {
            Some(held) if held.owner == Some(vote.owner) => held.remaining(at.now),
            _ => return Ok(Reply::NotOwner),
        };
        let block = self.next_block(vote, false, at)?;
        let mut ttl = vote.ttl;
        if remaining.is_some_and(|remaining| remaining < ttl) {
            ttl += spare;
            self.set(vote, ttl, at);
        }
        let first = self.take(vote, block);
        self.raise_longest(ttl, vote.block, at);
        Ok(Reply::Extended {
            remaining,
            first,
            has_remote_waiter: self.has_remote_waiter(vote, at),
        })
    }

    pub(super) fn put_back(&mut self, vote: Vote<'_>, at: Moment) -> Reply {
        match self.key(vote.key, at.now) {
            Some(held) if held.owner == Some(vote.owner) => return Reply::PutBack,
            Some(held) => return held.as_reply(at.now),
            None => {}
        }
        self.set(vote, vote.ttl, at);
        self.raise_longest(vote.ttl, None, at);
        Reply::PutBack
    }

    fn set(&mut self, vote: Vote<'_>, ttl: Duration, at: Moment) {
        let owner = Some(vote.owner);
        let expires = Some(at.now.after(ttl));
        let key = Key { owner, expires };
        self.keys.insert(Arc::clone(vote.key), key);
    }

    /// The first and the last number of the block, if one is wanted. An acquisition proposes a wall
    /// clock, which may be wrong; a refresh proposes by numbers that nodes have reported.
    pub(super) fn next_block(
        &self,
        vote: Vote<'_>,
        is_wall_clock: bool,
        at: Moment,
    ) -> Result<Option<(Token, Token)>, Overflow> {
        let Some(block) = vote.block else {
            return Ok(None);
        };
        let stripe = stripe(vote.key);
        let before = self.counter(stripe).0;
        let overflow = || {
            let has_counter = self.counters.contains_key(&stripe);
            let field = has_counter.then(|| stripe.to_string());
            Overflow(field.unwrap_or_else(|| "floor".to_owned()))
        };
        if before > Token::HIGHEST_PLAUSIBLE.0 {
            return Err(overflow());
        }
        let mut first = block.proposal.min(Token::LARGEST).0;
        if is_wall_clock && first > before && first - before > TRUSTED_LEAD_MICROS {
            let limit = (at.wall_micros / 1_000_000 + LONGEST_LEAD_SECONDS) * 1_000_000;
            first = first.min(limit);
        }
        first = first.max(before.saturating_add(1));
        let last = first.saturating_add(block.length.saturating_sub(1));
        if last > Token::LARGEST.0 {
            return Err(overflow());
        }
        Ok(Some((Token(first), Token(last))))
    }

    fn take(&mut self, vote: Vote<'_>, block: Option<(Token, Token)>) -> Option<Token> {
        let (first, last) = block?;
        self.counters.insert(stripe(vote.key), last);
        Some(first)
    }

    fn raise_longest(&mut self, ttl: Duration, block: Option<BlockRequest>, at: Moment) {
        let is_enough = |longest: &Longest| {
            ttl <= longest.this
                && block.is_some_and(|block| block.proposal.0 < longest.until_micros)
        };
        if !self.longest.as_ref().is_some_and(is_enough) {
            let period = self.max_ttl.unwrap_or(Duration::MAX);
            self.longest = Some(Longest::raised(self.longest, ttl, period, at));
        }
    }
}

impl<'a> Vote<'a> {
    pub(super) const fn new(
        key: &'a Arc<str>,
        owner: Owner,
        ttl: Duration,
        block: Option<BlockRequest>,
    ) -> Self {
        Self {
            key,
            owner,
            ttl,
            block,
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
