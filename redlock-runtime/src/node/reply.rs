//! What a server's answer means.

use std::{str, sync::Arc, time::Duration};

use redis::{ServerError, Value};
use redlock_protocol::{
    Act, AdmissionId, Ahead, FORMAT, LossId, LossRecord, Marker, Mode, Owner, Record, Rejection,
    Reply, Request, Token,
};

use super::{
    connection, info,
    reason::{parts, reason, rejection},
};
use crate::script;

pub(super) const NO_SCRIPT: &str = "NOSCRIPT";

/// No time that a server names is taken for longer: a hundred years, so that sums with it are no
/// concern.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 86_400);

/// Reads one server's answer to one request. Whatever is not an answer that the script can give
/// is garbled, never a vote.
pub(super) fn parse(request: &Request, answer: Value) -> Reply {
    let answer = match answer {
        Value::ServerError(error) => return refused(request, &error),
        answer => answer,
    };
    let reply = match request {
        Request::Identify => info::info(&answer).map(|told| Reply::Identity {
            server: info::run_id(&told),
        }),
        Request::Probe | Request::ReportLoss { .. } => record(&answer),
        Request::Admit { .. } => match &answer {
            Value::BulkString(id) => number(id).map(|id| Reply::Admitted {
                admission: AdmissionId(id),
            }),
            _ => record(&answer),
        },
        Request::Vote(of, Act::Acquire(ticket)) => match (&answer, of.block) {
            (Value::Int(1), Some(block)) => as_proposed(block.proposal),
            (answer, _) => vote(answer, ticket.is_some()),
        },
        Request::Vote(of, Act::Extend { .. }) => extension(&answer, of.block.is_some()),
        Request::Vote(_, Act::PutBack) => match answer {
            Value::Int(1) => Some(Reply::PutBack),
            ref answer => {
                vote(answer, false).filter(|reply| !matches!(reply, Reply::Granted { .. }))
            }
        },
        Request::Stand(stand) => stood(&answer, stand.permits),
        Request::Watch { owner, mode, .. } => watched(&answer, *owner, *mode),
        Request::Release { keep, .. } => match answer {
            Value::Int(1) if keep.is_none() => Some(Reply::Deleted),
            Value::Int(2) if keep.is_some() => Some(Reply::Kept),
            Value::Int(0) => Some(Reply::NotOwner),
            _ => None,
        },
    };
    reply.unwrap_or_else(|| garbled(&answer))
}

/// What no request can be answered with.
pub(super) fn garbled(answer: &Value) -> Reply {
    Reply::Garbled {
        answer: reason(&format_args!("{answer:?}")),
    }
}

/// The server does not know the script that it was to run, and has done nothing.
pub(super) fn lacks_script(answer: &Value) -> bool {
    matches!(answer, Value::ServerError(error) if error.code() == NO_SCRIPT)
}

fn refused(request: &Request, error: &ServerError) -> Reply {
    let (code, detail) = parts(error);
    let why = rejection(error);
    match request {
        _ if code == NO_SCRIPT => Reply::NotAdmitted,
        // Something else stands under the key now, so it is not ours.
        Request::Watch { .. } if why == Rejection::Key => Reply::Taken,
        Request::Vote(_, Act::Extend { .. }) | Request::Release { .. } if why == Rejection::Key => {
            Reply::NotOwner
        }
        Request::Identify if !connection::is_passing(code) => Reply::Identity { server: None },
        _ => Reply::Refused {
            reason: why,
            message: reason(&format_args!("{code} {detail}")),
            // The others come before a command or script has written anything. Ours are among them: the scripts look
            // before they write.
            is_untouched: !matches!(why, Rejection::UnknownCommand | Rejection::Other),
        },
    }
}

/// What vote.lua, acquire.lua, held.lua and, to a process with a ticket, acquire_in_order.lua say, but for the shortest answer.
fn vote(answer: &Value, has_ticket: bool) -> Option<Reply> {
    let values = match answer {
        Value::Int(-1) => return Some(Reply::NotAdmitted),
        Value::Array(values) => values,
        _ => return None,
    };
    match &values[..] {
        [
            Value::Int(remaining),
            Value::BulkString(holder),
            standing @ ..,
        ] => refusal(*remaining, holder, ahead(standing, has_ticket)?),
        [Value::Int(first), Value::Int(has_waiter @ 0..=1)] => {
            let first = token(*first)?;
            Some(granted(first, *has_waiter == 1))
        }
        _ => None,
    }
}

fn refusal(remaining: i64, holder: &[u8], ahead: Ahead) -> Option<Reply> {
    match remaining {
        -1.. => Some(Reply::Held {
            owner: script::holder(holder),
            remaining: time_left(remaining),
            ahead,
        }),
        -2 if holder.is_empty() && ahead.count > 0 => Some(Reply::Queued(ahead)),
        _ => None,
    }
}

/// What stand_for_permit.lua says.
fn stood(answer: &Value, permits: u32) -> Option<Reply> {
    let slot = |slot: i64| u32::try_from(slot).ok().filter(|slot| *slot < permits);
    let values = match answer {
        Value::Int(own) => return Some(Reply::Turn { slot: slot(*own)? }),
        Value::Array(values) => values,
        _ => return None,
    };
    match &values[..] {
        [
            Value::Int(remaining),
            standing @ ..,
            Value::Int(is_new @ 0..=1),
            Value::Int(share @ 0..),
        ] => {
            let ahead = ahead(standing, true)?;
            match remaining {
                -1.. => Some(Reply::Full {
                    remaining: time_left(*remaining),
                    ahead,
                    is_new: *is_new == 1,
                    share: u32::try_from(*share).ok()?,
                }),
                -2 if ahead.count > 0 => Some(Reply::Queued(ahead)),
                _ => None,
            }
        }
        _ => None,
    }
}

fn ahead(standing: &[Value], has_ticket: bool) -> Option<Ahead> {
    match standing {
        [] if !has_ticket => Some(Ahead::default()),
        [Value::Int(count), Value::Int(grace)] if has_ticket => Some(Ahead {
            count: u64::try_from(*count).ok()?.try_into().unwrap_or(u32::MAX),
            grace: Duration::from_millis(u64::try_from(*grace).ok()?).min(LONGEST),
        }),
        _ => None,
    }
}

fn as_proposed(proposal: Token) -> Option<Reply> {
    let first = proposal.min(Token::LARGEST);
    is_token(first).then_some(granted(first, false))
}

const fn granted(first: Token, has_remote_waiter: bool) -> Reply {
    Reply::Granted {
        first,
        has_remote_waiter,
    }
}

fn extension(answer: &Value, wants_block: bool) -> Option<Reply> {
    let values = match answer {
        Value::Int(-1) => return Some(Reply::NotAdmitted),
        Value::Int(0) => return Some(Reply::NotOwner),
        // What extend_many.lua says of most locks.
        Value::Int(remaining @ 1..) if !wants_block => {
            return Some(Reply::Extended {
                remaining: time_left(remaining - 2),
                first: None,
                has_remote_waiter: false,
            });
        }
        Value::Array(values) => values,
        _ => return None,
    };
    let [
        Value::Int(first),
        Value::Int(has_waiter @ 0..=1),
        Value::Int(remaining @ -1..),
    ] = &values[..]
    else {
        return None;
    };
    let first = match (wants_block, *first) {
        (true, first) => Some(token(first)?),
        (false, 0) => None,
        (false, _) => return None,
    };
    Some(Reply::Extended {
        remaining: time_left(*remaining),
        first,
        has_remote_waiter: *has_waiter == 1,
    })
}

fn watched(answer: &Value, owner: Option<Owner>, mode: Mode) -> Option<Reply> {
    match answer {
        Value::Nil => Some(Reply::Free),
        Value::Int(1) if mode == Mode::Shared => Some(Reply::Ours),
        Value::Int(0) if mode == Mode::Shared => Some(Reply::Taken),
        Value::BulkString(value) if mode == Mode::Exclusive => {
            let is_own = owner.is_some() && script::owner(value) == owner;
            Some(if is_own { Reply::Ours } else { Reply::Taken })
        }
        _ => None,
    }
}

/// What `reply` in record.lua says.
fn record(answer: &Value) -> Option<Reply> {
    let Value::Array(values) = answer else {
        return None;
    };
    if let [Value::BulkString(format)] = &values[..] {
        let record = Record {
            other_format: Some(number(format).filter(|&format| format != FORMAT)?),
            ..Record::default()
        };
        return Some(Reply::Record(record.into()));
    }
    let mut texts = values.iter().map(|value| match value {
        Value::BulkString(text) => str::from_utf8(text).ok(),
        _ => None,
    });
    let mut next = || texts.next().flatten();
    let admission = next()?;
    let server = next().filter(|name| name.len() <= info::LONGEST_RUN_ID)?;
    let was_durable = flag(next()?)?;
    let loss = next()?;
    let age = next()?;
    let beside_marker = flag(next()?)?;
    let is_unflushed = flag(next()?)?;
    let first_start = next()?;
    let longest = next()?;
    let top = next()?;
    let max_ttl = next()?;
    let server = Some(server).filter(|name| !name.is_empty());
    let marker = optional(admission, |admission| {
        Some(Marker {
            server: server.map(Arc::from),
            admission: AdmissionId(number(admission.as_bytes())?),
            was_durable,
        })
    })?;
    let loss = optional(loss, |loss| {
        Some(LossRecord {
            id: LossId(number(loss.as_bytes())?),
            age: duration(age)?,
            beside_marker,
            is_unflushed,
            first_start: optional(first_start, duration)?,
        })
    })?;
    let top = Token(number(top.as_bytes())?);
    let is_sound = values.len() == 11 && top <= Token::LARGEST;
    let record = Record {
        marker,
        loss,
        longest: duration(longest)?,
        top,
        max_ttl: optional(max_ttl, duration)?,
        other_format: None,
    };
    is_sound.then(|| Reply::Record(record.into()))
}

/// `Some(None)` where there is nothing, `None` where there is nonsense.
fn optional<T>(text: &str, read: impl FnOnce(&str) -> Option<T>) -> Option<Option<T>> {
    if text.is_empty() {
        return Some(None);
    }
    read(text).map(Some)
}

fn flag(text: &str) -> Option<bool> {
    match text {
        "1" => Some(true),
        "0" | "" => Some(false),
        _ => None,
    }
}

fn number(text: &[u8]) -> Option<u64> {
    let is_plain = text.len() <= 20 && text.iter().all(u8::is_ascii_digit);
    str::from_utf8(text).ok().filter(|_| is_plain)?.parse().ok()
}

fn duration(text: &str) -> Option<Duration> {
    let millis = number(text.as_bytes())?;
    Some(Duration::from_millis(millis).min(LONGEST))
}

/// A PTTL: -1 if the key never expires.
fn time_left(millis: i64) -> Option<Duration> {
    let millis = u64::try_from(millis).ok()?;
    Some(Duration::from_millis(millis).min(LONGEST))
}

fn token(number: i64) -> Option<Token> {
    let token = Token(u64::try_from(number).ok()?);
    is_token(token).then_some(token)
}

/// What a script can grant. The protocol believes less than that.
fn is_token(token: Token) -> bool {
    (1..=Token::LARGEST.0).contains(&token.0)
}

#[cfg(test)]
mod tests;
