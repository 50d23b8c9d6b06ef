//! What one node says of a lock: what it is asked, and what the replies mean.

use std::{sync::Arc, time::Duration};

use redis::Value;
use redlock_protocol::{MOST_SLOTS, Why, line_key, slot_key};

use super::found::{ClientProcess, HolderKind, RemoteWaiter};
use crate::{
    node::{ClientName, of_server, read_reply},
    script::{NOTE, QUEUE, note_of},
};

/// Of a value that another program has written.
const LONGEST_TEXT: usize = 200;

/// What each node knows, in order, or why it does not tell.
pub(crate) type Snapshots = Vec<(Arc<str>, Result<Snapshot, Why>)>;

/// What one node knows.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) entries: Vec<Entry>,
    pub(crate) waiters: Vec<RemoteWaiter>,
    /// The connections of this library's processes; or why the node does not tell.
    pub(crate) clients: Result<Vec<ClientProcess>, Why>,
}

/// What stands under the key of a lock, or of one of its permits; for a lock that is shared one for each
/// reader.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) permit: Option<u32>,
    pub(crate) kind: HolderKind,
    pub(crate) owner: String,
    /// What the owner says beside the lock.
    pub(crate) note: Option<String>,
    /// `None` if it never expires.
    pub(crate) remaining: Option<Duration>,
}

/// Commands with no effect, each within the documented rights. On the node all keys begin with `tag`.
pub(crate) fn questions(key: &str, tag: &str) -> Vec<Vec<String>> {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let mut questions = vec![words(&["TIME"]), words(&["CLIENT", "LIST"])];
    for queue in [key, &line_key(key)] {
        questions.push(words(&["HGETALL", &format!("{tag}{QUEUE}{queue}")]));
    }
    for (_, key) in places(key) {
        questions.push(words(&["GET", &format!("{tag}{key}")]));
        questions.push(words(&["PTTL", &format!("{tag}{key}")]));
        questions.push(words(&["GET", &format!("{tag}{NOTE}{key}")]));
    }
    questions
}

/// The key, and those of all permits that there can be.
pub(super) fn places(key: &str) -> impl Iterator<Item = (Option<u32>, Arc<str>)> {
    let slots = (0..MOST_SLOTS).map(move |slot| (Some(slot), slot_key(key, slot)));
    std::iter::once((None, Arc::from(key))).chain(slots)
}

/// Fails with what the server says if it does not tell of the key.
pub(crate) fn read(key: &str, replies: Vec<Value>) -> Result<Snapshot, Why> {
    let mut replies = replies.into_iter();
    let mut next = || replies.next().unwrap_or(Value::Nil);
    let (seconds, micros): (u64, u64) = read_reply(next())?;
    let now = seconds.saturating_mul(1_000).saturating_add(micros / 1_000);
    let clients = clients(next());
    let mut waiters = in_queue(next(), now);
    let in_line = in_queue(next(), now);
    let mut entries = Vec::new();
    for (permit, _) in places(key) {
        let found = entries_of(permit, next(), next(), now)?;
        let kept: Option<String> = redis::from_redis_value(next()).unwrap_or_default();
        entries.extend(found.into_iter().map(|entry| {
            let note = kept.as_deref().and_then(|kept| note_of(&entry.owner, kept));
            let note = note.map(str::to_owned);
            Entry { note, ..entry }
        }));
    }
    // The process that has the lock alone keeps its place: it counts again once the lock is gone.
    let has_it = |waiter: &RemoteWaiter| {
        let of_it = |entry: &Entry| {
            let is_lock = entry.kind == HolderKind::Exclusive && entry.permit.is_none();
            is_lock && entry.owner.starts_with(&waiter.id)
        };
        entries.iter().any(of_it)
    };
    waiters.retain(|waiter| !has_it(waiter));
    waiters.extend(in_line);
    Ok(Snapshot {
        entries,
        waiters,
        clients,
    })
}

fn entries_of(permit: Option<u32>, value: Value, ttl: Value, now: u64) -> Result<Vec<Entry>, Why> {
    let text = match value {
        Value::Nil => return Ok(Vec::new()),
        Value::ServerError(error) if error.code() == "WRONGTYPE" => None,
        Value::ServerError(error) => return Err(of_server(&error)),
        Value::BulkString(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        _ => return Err("the reply is no value of a key".into()),
    };
    let remaining = match ttl {
        // It has gone in between.
        Value::Int(-2) => return Ok(Vec::new()),
        Value::Int(millis) => u64::try_from(millis).ok().map(Duration::from_millis),
        Value::ServerError(error) => return Err(of_server(&error)),
        _ => return Err("the reply is no remaining time".into()),
    };
    let entry = |kind, owner: &str, remaining| Entry {
        permit,
        kind,
        owner: owner.to_owned(),
        note: None,
        remaining,
    };
    let Some(text) = text else {
        let text = "(no text, but another type of Redis)";
        return Ok(vec![entry(HolderKind::Foreign, text, remaining)]);
    };
    if is_owner(&text) {
        return Ok(vec![entry(HolderKind::Exclusive, &text, remaining)]);
    }
    let Some(readers) = readers(&text) else {
        let short: String = text.chars().take(LONGEST_TEXT).collect();
        return Ok(vec![entry(HolderKind::Foreign, &short, remaining)]);
    };
    let readers = readers.into_iter().filter(|&(_, ends)| ends > now);
    let readers = readers.map(|(owner, ends)| {
        let remaining = Duration::from_millis(ends - now);
        entry(HolderKind::Shared, owner, Some(remaining))
    });
    Ok(readers.collect())
}

/// Written as this library writes owners. Others may, too.
fn is_owner(text: &str) -> bool {
    let is_of_form = |(at, byte): (usize, u8)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte),
    };
    text.len() == 36 && text.bytes().enumerate().all(is_of_form)
}

/// The readers of a lock that is shared, as `readers.lua` has them, and when their parts end.
fn readers(text: &str) -> Option<Vec<(&str, u64)>> {
    let readers = text.strip_prefix("shared ")?.split(' ').map(|reader| {
        let (owner, ends) = reader.split_once('@')?;
        Some((owner, ends.parse().ok()?)).filter(|_| is_owner(owner))
    });
    readers.collect()
}

/// The places as `queue.lua` writes them.
fn in_queue(reply: Value, now: u64) -> Vec<RemoteWaiter> {
    let places: Vec<(String, String)> = redis::from_redis_value(reply).unwrap_or_default();
    let place = |(id, place): (String, String)| {
        let [_, since, until, _, mode] = place.split(' ').collect::<Vec<_>>()[..] else {
            return None;
        };
        let (since, until): (i64, i64) = (since.parse().ok()?, until.parse().ok()?);
        let now = i64::try_from(now).ok()?;
        let waited = u64::try_from(now.checked_sub(since)?).ok()?;
        (until > now).then_some(RemoteWaiter {
            id,
            process: None,
            waited: Duration::from_millis(waited),
            is_shared: mode == "s",
        })
    };
    places.into_iter().filter_map(place).collect()
}

fn clients(reply: Value) -> Result<Vec<ClientProcess>, Why> {
    let list: String = read_reply(reply)?;
    let field = |line: &str, name: &str| {
        let mut fields = line.split(' ');
        let value = fields.find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
        value.map(str::to_owned)
    };
    let client = |line: &str| {
        let name = ClientName::parse(&field(line, "name")?)?;
        let age = field(line, "age").and_then(|seconds| seconds.parse().ok());
        Some(ClientProcess {
            address: field(line, "addr"),
            connected: age.map(Duration::from_secs),
            ..ClientProcess::of(name)
        })
    };
    Ok(list.lines().filter_map(client).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::PROCESS_LENGTH;

    fn texts(texts: &[&str]) -> Value {
        let text = |text: &&str| Value::BulkString(text.as_bytes().to_vec());
        Value::Array(texts.iter().map(text).collect())
    }

    #[test]
    fn who_waits_is_read_from_the_queue_of_the_lock_and_of_its_permits() {
        const HOLDER: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";
        let queue = texts(&[
            &HOLDER[..PROCESS_LENGTH],
            "1 990 2000 5 x",
            "00000000-0000-0001",
            "1 900 2000 5 x",
            "00000000-0000-0002",
            "18446744073709551615 -50 1001 0 s",
            "00000000-0000-0003",
            "1 900 1000 5 x",
            "00000000-0000-0004",
            "of an earlier build",
        ]);
        let place = texts(&["00000000-0000-0005", "1 1000 2000 5 x", "7", "2000"]);
        let held = || Value::BulkString(HOLDER.into());
        let replies = vec![
            texts(&["1", "0"]),
            Value::BulkString(Vec::new()),
            queue,
            place,
            held(),
            Value::Int(50),
            Value::BulkString(format!("{HOLDER} 7 10.0.0.7:8080").into()),
            Value::Nil,
            Value::Int(-2),
        ];
        let snapshot = read("k", replies).unwrap();
        let waiting = snapshot.waiters.iter();
        let waiting: Vec<_> = waiting
            .map(|it| (&it.id[17..], it.waited.as_millis(), it.is_shared))
            .collect();
        let expected = [("1", 100, false), ("2", 1_050, true), ("5", 0, false)];
        assert_eq!(
            waiting, expected,
            "the holder's place and ended ones do not count"
        );
        let [entry] = &snapshot.entries[..] else {
            panic!("{snapshot:?}")
        };
        assert_eq!(entry.note.as_deref(), Some("7 10.0.0.7:8080"));
    }

    /// Anybody who may write on the server can write such a place, and a server can say anything.
    #[test]
    fn numbers_without_bounds_are_no_panic() {
        let place = format!("1 {} {} 1 x", i64::MIN, i64::MAX);
        for time in [["1", "1"], ["18446744073709551615", "18446744073709551615"]] {
            let list = Value::BulkString(Vec::new());
            let replies = vec![texts(&time), list, texts(&["process", &place])];
            let snapshot = read("k", replies).unwrap();
            assert!(snapshot.waiters.is_empty() && snapshot.entries.is_empty());
        }
    }
}
