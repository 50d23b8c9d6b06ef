//! The scripts that nodes run, and the order of their keys and arguments.
//!
//! On the wire a lock is what every Redlock client writes: `SET key owner NX PX ttl`, and a
//! compare-and-delete. Clients of other libraries on the same key exclude us and are excluded.

mod many;
mod source;
mod word;

use std::time::Duration;

use redlock_protocol::{
    Act, Evidence, Mode, Owner, Request, Stand, Ticket, Token, Vote, line_of, stripe,
};
use uuid::Uuid;

pub(crate) use self::many::{Kind, command_for_many, kind};
pub(crate) use self::{
    source::load_all,
    word::{
        Command, NOTE, PROCESS_LENGTH, QUEUE, Word, note, note_of, owner_text, owner_value,
        process_text, read_note, words, write,
    },
};
use self::{
    source::{
        ACQUIRE, ACQUIRE_IN_ORDER, ACQUIRE_SHARED, ADMIT, EXTEND, EXTEND_SHARED, PROBE, PUT_BACK,
        PUT_BACK_SHARED, RELEASE, RELEASE_SHARED, REPORT_LOSS, STAND, WATCH_SHARED, run,
    },
    word::{
        Word::{Key, Note, Number, Queue, Text},
        millis,
    },
};

/// No lock may have a name with this in it.
pub(crate) const RESERVED: &str = "__redlock:";

/// The hash of everything that a node knows beside the locks: which process was admitted, and by
/// stripe the counters behind the fencing tokens. It never expires. It is one key, so that to delete
/// the counters is to delete the admission.
///
/// Its name has the number of the database in it: `SWAPDB` brings the admission of another database,
/// which must not count, and no client is told.
pub(crate) fn node_hash(database: i64) -> String {
    format!("{RESERVED}node:{database}")
}

/// The command that carries out a request: by the script's digest, or with its text for a server
/// that has lost it. `hash` is the name of the node's hash.
pub(crate) fn command<'a>(request: &'a Request, hash: &'a str, with_source: bool) -> Command<'a> {
    let run_on = |script, keys: &[_]| run(script, with_source, keys);
    let run = |script| run_on(script, &[Key(hash)]);
    match request {
        Request::Identify => words(["INFO", "server"]),
        Request::Probe => run(&PROBE),
        Request::ReportLoss {
            server,
            loss,
            beside_marker,
            max_ttl,
        } => {
            let mut command = run(&REPORT_LOSS);
            command.extend([
                Text(server.as_deref().unwrap_or_default()),
                Number(loss.0),
                flag(*beside_marker),
                millis(*max_ttl),
            ]);
            command
        }
        Request::Admit {
            server,
            evidence,
            admission,
            floor,
            wall_micros,
            is_durable,
            max_ttl,
        } => {
            let mut command = run(&ADMIT);
            command.push(Text(server.as_deref().unwrap_or_default()));
            command.extend(words_of_evidence(*evidence));
            command.extend([
                Number(admission.0),
                Number(floor.0),
                flag(*is_durable),
                millis(*max_ttl),
                Number((*wall_micros).min(Token::LARGEST.0)),
            ]);
            command
        }
        Request::Vote(vote, act) => vote_words(vote, act, hash, with_source),
        Request::Stand(stand) => {
            let mut command = run_on(&STAND, &[Key(&stand.key), Queue(&stand.key)]);
            command.extend(words_of_stand(stand));
            command.extend(words_of_ticket(stand.ticket, Mode::Exclusive));
            command
        }
        Request::Watch { key, owner, mode } => watch(key, *owner, *mode, with_source),
        Request::Release {
            key,
            owner,
            mode,
            keep,
            leaves,
        } => {
            let keys = [Key(key), Queue(waited_at(key)), Key(waited_at(key))];
            let count = line_of(key).map_or_else(|| 1 + usize::from(*leaves), |_| 3);
            let script = match mode {
                Mode::Exclusive => &RELEASE,
                Mode::Shared => &RELEASE_SHARED,
            };
            let mut command = run_on(script, &keys[..count]);
            command.push(Word::Owner(*owner));
            command.extend(keep.map(millis));
            command
        }
    }
}

fn vote_words<'a>(vote: &'a Vote, act: &'a Act, hash: &'a str, with_source: bool) -> Command<'a> {
    let key = &vote.key;
    let note = match act {
        Act::Extend { note, .. } if vote.mode == Mode::Exclusive => note.as_deref(),
        _ => None,
    };
    let (script, keys) = match (act, vote.mode) {
        (Act::Acquire(None), Mode::Exclusive) => {
            (&ACQUIRE, 2 + usize::from(line_of(key).is_some()))
        }
        (Act::Acquire(None), Mode::Shared) => (&ACQUIRE_SHARED, 2),
        (Act::Acquire(Some(_)), _) => (&ACQUIRE_IN_ORDER, 3),
        (Act::Extend { .. }, Mode::Exclusive) => (&EXTEND, 3 + usize::from(note.is_some())),
        (Act::Extend { .. }, Mode::Shared) => (&EXTEND_SHARED, 3),
        (Act::PutBack, Mode::Exclusive) => (&PUT_BACK, 2),
        (Act::PutBack, Mode::Shared) => (&PUT_BACK_SHARED, 2),
    };
    let all = [Key(key), Key(hash), Queue(waited_at(key)), Note(key)];
    let mut command = run(script, with_source, &all[..keys]);
    command.extend(words_of_vote(vote));
    match act {
        Act::Acquire(ticket) => {
            command.extend(ticket.iter().flat_map(|it| words_of_ticket(*it, vote.mode)));
        }
        Act::Extend { spare, .. } => command.push(millis(vote.ttl.saturating_add(*spare))),
        Act::PutBack => {}
    }
    command.extend(note.map(Text));
    command
}

fn watch(key: &str, owner: Option<Owner>, mode: Mode, with_source: bool) -> Command<'_> {
    match (owner, mode) {
        (Some(owner), Mode::Shared) => {
            let mut command = run(&WATCH_SHARED, with_source, &[Key(key)]);
            command.push(Word::Owner(owner));
            command
        }
        _ => vec![Text("GET"), Key(key)],
    }
}

/// The key whose queue counts for this one: slots have that of their line.
fn waited_at(key: &str) -> &str {
    line_of(key).unwrap_or(key)
}

/// The arguments of `vote.lua`.
fn words_of_vote(vote: &Vote) -> [Word<'static>; 6] {
    let (first, last) = vote.block.map_or((Text(""), Text("")), |block| {
        let first = block.proposal.min(Token::LARGEST).0;
        let last = first.saturating_add(block.length.saturating_sub(1));
        (Number(first), Number(last))
    });
    [
        Word::Owner(vote.owner),
        millis(vote.ttl),
        Number(vote.admission.0),
        Number(stripe(&vote.key)),
        first,
        last,
    ]
}

/// The arguments of `stand_for_permit.lua`, in as many words.
fn words_of_stand(stand: &Stand) -> [Word<'static>; 6] {
    [
        Word::Owner(stand.owner),
        Number(stand.permits.into()),
        Number(stand.start.into()),
        flag(stand.needs_several),
        Text(""),
        Text(""),
    ]
}

/// What `queue.lua` adds to the arguments of `vote.lua`.
fn words_of_ticket(ticket: Ticket, mode: Mode) -> [Word<'static>; 6] {
    // Lua counts exactly with sums of them.
    let span = |span| Number(redlock_protocol::millis(span).min(Token::LARGEST.0));
    [
        Number(ticket.came),
        span(ticket.waited),
        span(ticket.lasts.min(Ticket::LASTS)),
        span(ticket.grace),
        Text(match mode {
            Mode::Exclusive => "x",
            Mode::Shared => "s",
        }),
        Number(u64::from(ticket.is_ordered)),
    ]
}

fn words_of_evidence(evidence: Evidence) -> [Word<'static>; 3] {
    let (kind, of, wait) = match evidence {
        Evidence::Assumed { loss } => ("assumed", loss.0, Duration::ZERO),
        Evidence::Waited { loss, wait } => ("waited", loss.0, wait),
        Evidence::FirstStart { loss, wait } => ("first_start", loss.0, wait),
        Evidence::Durable { admission } => ("durable", admission.0, Duration::ZERO),
    };
    [Text(kind), Number(of), millis(wait)]
}

/// What must go before a request, in the same pipeline; its answers are of no interest.
pub(crate) fn preface(request: &Request) -> Vec<Command<'static>> {
    match request {
        // The next command, and no other, reads keys whose changes are told.
        Request::Watch { .. } => vec![words(["CLIENT", "CACHING", "YES"])],
        // Asked of a server that has lost a script. What was to be run may not be wanted any more
        // by the time that it votes again, and the next request should not meet the same.
        Request::Identify => load_all(),
        _ => Vec::new(),
    }
}

/// The owner whose value this is.
pub(crate) fn owner(value: &[u8]) -> Option<Owner> {
    let owner = Owner(Uuid::try_parse_ascii(value).ok()?.as_u128());
    // Other spellings of it are another client's.
    (owner_value(owner) == *value).then_some(owner)
}

/// The owner that `holder.lua` names.
pub(crate) fn holder(name: &[u8]) -> Option<Owner> {
    let is_shared = name == b"shared";
    is_shared.then_some(Owner::READERS).or_else(|| owner(name))
}

fn flag(is_set: bool) -> Word<'static> {
    Number(u64::from(is_set))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_ttl_is_rounded_up() {
        assert_eq!(millis(Duration::from_nanos(5_000_001)), Number(6));
        assert_eq!(millis(Duration::from_millis(5)), Number(5));
    }

    #[test]
    fn the_value_of_a_lock_is_a_uuid() {
        let text = owner_value(Owner(0x67e5_5044_10b1_426f_9247_bb68_0e5f_e0c8));
        assert_eq!(&text[..], b"67e55044-10b1-426f-9247-bb680e5fe0c8");
        let id = Some(Owner(0x67e5_5044_10b1_426f_9247_bb68_0e5f_e0c8));
        assert_eq!(owner(&text), id);
        assert_eq!(owner(b"67E55044-10B1-426F-9247-BB680E5FE0C8"), None);
        assert_eq!(owner(b"somebody"), None);
        assert_eq!(holder(&text), id);
        assert_eq!(holder(b"shared"), Some(Owner::READERS));
    }

    #[test]
    fn scripts_and_protocol_agree_on_the_largest_token() {
        let votes = [&ACQUIRE, &ACQUIRE_SHARED, &ACQUIRE_IN_ORDER, &EXTEND];
        for script in votes.into_iter().chain([&PROBE, &REPORT_LOSS, &ADMIT]) {
            assert!(script.text.contains(&Token::LARGEST.0.to_string()));
        }
    }

    #[test]
    fn scripts_and_protocol_agree_on_the_format() {
        let format = redlock_protocol::FORMAT;
        for script in [&PROBE, &REPORT_LOSS, &ADMIT] {
            assert!(script.text.contains(&format!("format ~= '{format}'")));
        }
        for script in [&REPORT_LOSS, &ADMIT] {
            assert!(script.text.contains(&format!("'format', '{format}'")));
        }
    }

    #[test]
    fn what_the_library_keeps_has_a_reserved_name_of_its_own_in_each_database() {
        assert_eq!(node_hash(0), "__redlock:node:0");
        assert_eq!(node_hash(15), "__redlock:node:15");
        assert!(QUEUE.starts_with(RESERVED) && NOTE.starts_with(RESERVED));
    }
}
