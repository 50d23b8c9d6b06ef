//! What one node says of a lock: what it is asked, and what the replies mean.

use std::{sync::Arc, time::Duration};

use redis::Value;
use redlock_protocol::{Instant, MOST_SLOTS, Why, gate_key, line_key, slot_key};

use super::found::{Holder, HolderKind, InspectedNode, RemoteWaiter};
use crate::{
    config::Node,
    node::{ClientProcess, Endpoint, Memory, Parts, Target, inquire, of_server, read_reply},
    script::{self, NOTE, QUEUE, note_of, owner_text, read_note},
};

/// Of a value that another program has written.
const LONGEST_TEXT: usize = 200;

/// What one node says.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(super) node: InspectedNode,
    /// What stands under the key of the lock, or of one of its permits; for a lock that is shared one for each reader.
    pub(super) holders: Vec<Holder>,
    pub(super) waiters: Vec<RemoteWaiter>,
    /// The connections of this library's processes.
    pub(super) clients: Vec<ClientProcess>,
}

/// Commands with no effect, each within the documented rights. On the node all keys begin with `tag`.
pub(crate) fn questions(key: &str, tag: &str) -> Vec<Vec<String>> {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let mut questions = vec![words(&["TIME"]), words(&["CLIENT", "LIST"])];
    for queue in [key, &line_key(key), &gate_key(key)] {
        questions.push(words(&["HGETALL", &format!("{tag}{QUEUE}{queue}")]));
    }
    let readers = ["ZRANGE", &format!("{tag}{key}"), "0", "-1", "WITHSCORES"];
    questions.push(words(&readers));
    for (_, key) in places(key) {
        questions.push(words(&["GET", &format!("{tag}{key}")]));
        questions.push(words(&["PTTL", &format!("{tag}{key}")]));
        questions.push(words(&["GET", &format!("{tag}{NOTE}{key}")]));
    }
    questions
}

/// Asks the servers among the nodes. Returns what each of them replies, one after the other.
pub(super) async fn ask_servers(
    nodes: &[Node],
    ask: impl Fn(&Endpoint) -> Vec<Vec<String>>,
    limit: Duration,
) -> impl FnMut() -> Result<Vec<Value>, Why> {
    let servers = nodes.iter().filter_map(|node| node.target.endpoint());
    let questions = servers.map(|server| (server.clone(), ask(server)));
    let mut replies = inquire(questions.collect(), limit).await.into_iter();
    move || replies.next().unwrap_or_else(|| Err("".into()))
}

/// The key, and those of all permits that there can be.
pub(super) fn places(key: &str) -> impl Iterator<Item = (Option<u32>, Arc<str>)> {
    let slots = (0..MOST_SLOTS).map(move |slot| (Some(slot), slot_key(key, slot)));
    std::iter::once((None, Arc::from(key))).chain(slots)
}

/// What a holder of the key, or of one of its permits, says on this node. By two commands: a caller that is refused may
/// ask again soon.
pub(crate) async fn value(
    target: &Target,
    (key, permits): (&str, Option<u32>),
    now: Instant,
    limit: Duration,
) -> Option<String> {
    let names: Vec<Arc<str>> = match permits {
        Some(permits) => (0..permits).map(|slot| slot_key(key, slot)).collect(),
        None => vec![key.into()],
    };
    let endpoint = match target {
        Target::Redis(endpoint) => endpoint,
        Target::Memory(memory) => {
            let notes = names.iter().filter_map(|name| memory.parts(name, now).note);
            return notes.into_iter().find_map(|note| value_of(&note));
        }
    };
    let read = |kind: &str| {
        let names = names
            .iter()
            .map(|name| format!("{}{kind}{name}", endpoint.tag));
        std::iter::once("MGET".to_owned()).chain(names).collect()
    };
    let questions = vec![read(""), read(NOTE)];
    let replies = inquire(vec![((**endpoint).clone(), questions)], limit).await;
    let mut replies = replies.into_iter().next()?.ok()?.into_iter();
    let mut next = || read_reply::<Vec<Option<Vec<u8>>>>(replies.next()?).ok();
    let (owners, notes) = (next()?, next()?);
    owners.into_iter().zip(notes).find_map(|(owner, note)| {
        let owner = owner_text(script::owner(&owner?)?);
        let note = String::from_utf8(note?).ok()?;
        value_of(note_of(&owner, &note)?)
    })
}

impl Snapshot {
    /// Of a node that has not said anything.
    pub(super) fn new(address: &Arc<str>) -> Self {
        Self {
            node: InspectedNode {
                address: Arc::clone(address),
                problem: None,
                hides_clients: None,
            },
            holders: Vec::new(),
            waiters: Vec::new(),
            clients: Vec::new(),
        }
    }

    /// Stores in memory name no clients, and keep no queue that could be read here.
    pub(super) fn look(&mut self, key: &str, memory: &Memory, now: Instant) {
        for (permit, name) in places(key) {
            let Parts {
                is_shared,
                parts,
                note,
            } = memory.parts(&name, now);
            for part in parts {
                let kind = match part.owner {
                    Some(_) if is_shared => HolderKind::Shared,
                    Some(_) => HolderKind::Exclusive,
                    None => HolderKind::Foreign,
                };
                let owner = part.owner.map(owner_text).unwrap_or_default();
                let remaining = part.expires.map(|expires| expires.since(now));
                let value = note.as_deref().and_then(value_of);
                self.add((permit, kind), owner, remaining, value);
            }
        }
    }

    /// Fails with what the server says if it does not tell of the key.
    pub(super) fn read(&mut self, key: &str, replies: Vec<Value>) -> Result<(), Why> {
        let mut replies = replies.into_iter();
        let mut next = || replies.next().unwrap_or(Value::Nil);
        let (seconds, micros): (u64, u64) = read_reply(next())?;
        let now = seconds.saturating_mul(1_000).saturating_add(micros / 1_000);
        match clients(next()) {
            Ok(clients) => self.clients = clients,
            Err(why) => self.node.hides_clients = Some(why),
        }
        let mut waiters = in_queue(next(), now);
        let for_permits = [next(), next()].map(|queue| in_queue(queue, now));
        let readers = readers(next(), now);
        for (permit, _) in places(key) {
            let found = owner(next(), next())?;
            let kept: Option<String> = redis::from_redis_value(next()).unwrap_or_default();
            if let Some((kind, owner, remaining)) = found
                && (readers.is_empty() || permit.is_some())
            {
                let note = kept.as_deref().and_then(|kept| note_of(&owner, kept));
                self.add((permit, kind), owner, remaining, note.and_then(value_of));
            }
        }
        for (kind, owner, remaining) in readers {
            self.add((None, kind), owner, remaining, None);
        }
        // The process that has the lock alone keeps its place: it counts again once the lock is gone.
        let has_it = |waiter: &RemoteWaiter| {
            let of_it = |holder: &Holder| {
                let is_lock = holder.kind == HolderKind::Exclusive && holder.permit.is_none();
                is_lock && holder.owner.starts_with(&waiter.id)
            };
            self.holders.iter().any(of_it)
        };
        waiters.retain(|waiter| !has_it(waiter));
        waiters.extend(for_permits.into_iter().flatten());
        self.waiters = waiters;
        Ok(())
    }

    fn add(
        &mut self,
        (permit, kind): (Option<u32>, HolderKind),
        owner: String,
        remaining: Option<Duration>,
        value: Option<String>,
    ) {
        self.holders.push(Holder {
            kind,
            owner,
            value,
            permit,
            process: None,
            nodes: vec![(Arc::clone(&self.node.address), remaining)],
            has_majority: false,
        });
    }
}

/// What the owner says beside the lock.
fn value_of(note: &str) -> Option<String> {
    let (_, value) = read_note(note)?;
    (!value.is_empty()).then(|| value.to_owned())
}

/// Who has a key, and for how much longer.
type Standing = (HolderKind, String, Option<Duration>);

fn owner(value: Value, ttl: Value) -> Result<Option<Standing>, Why> {
    let value = match value {
        Value::Nil => return Ok(None),
        Value::ServerError(error) if error.code() == "WRONGTYPE" => {
            b"(no text, but another type of Redis)".to_vec()
        }
        Value::ServerError(error) => return Err(of_server(&error)),
        Value::BulkString(value) => value,
        _ => return Err("the reply is no value of a key".into()),
    };
    let remaining = match ttl {
        // It has gone in between.
        Value::Int(-2) => return Ok(None),
        Value::Int(millis) => u64::try_from(millis).ok().map(Duration::from_millis),
        Value::ServerError(error) => return Err(of_server(&error)),
        _ => return Err("the reply is no remaining time".into()),
    };
    Ok(Some(match script::owner(&value) {
        Some(owner) => (HolderKind::Exclusive, owner_text(owner), remaining),
        None => {
            let text = String::from_utf8_lossy(&value);
            let short = text.chars().take(LONGEST_TEXT).collect();
            (HolderKind::Foreign, short, remaining)
        }
    }))
}

/// Those that share the lock, as `readers.lua` writes them; nobody if it is something else.
fn readers(reply: Value, now: u64) -> Vec<Standing> {
    let all: Vec<(String, f64)> = redis::from_redis_value(reply).unwrap_or_default();
    let reader = |(name, ends): (String, f64)| {
        let owner = script::owner(name.as_bytes())?;
        Some((owner, ends as u64))
    };
    let all: Option<Vec<_>> = all.into_iter().map(reader).collect();
    let living = all
        .unwrap_or_default()
        .into_iter()
        .filter(|&(_, ends)| ends > now);
    let part = |(owner, ends)| {
        let remaining = Duration::from_millis(ends - now);
        (HolderKind::Shared, owner_text(owner), Some(remaining))
    };
    living.map(part).collect()
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
        let named = ClientProcess::parse(&field(line, "name")?)?;
        let age = field(line, "age").and_then(|seconds| seconds.parse().ok());
        Some(ClientProcess {
            address: field(line, "addr"),
            connected: age.map(Duration::from_secs),
            ..named
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
            Value::Nil,
            Value::Nil,
            held(),
            Value::Int(50),
            Value::BulkString(format!("{HOLDER} 7 10.0.0.7:8080").into()),
            Value::Nil,
            Value::Int(-2),
        ];
        let mut snapshot = Snapshot::new(&"a".into());
        snapshot.read("k", replies).unwrap();
        let waiting = snapshot.waiters.iter();
        let waiting: Vec<_> = waiting
            .map(|it| (&it.id[17..], it.waited.as_millis(), it.is_shared))
            .collect();
        let expected = [("1", 100, false), ("2", 1_050, true), ("5", 0, false)];
        assert_eq!(
            waiting, expected,
            "the holder's place and ended ones do not count"
        );
        let [holder] = &snapshot.holders[..] else {
            panic!("{snapshot:?}")
        };
        assert_eq!(holder.value.as_deref(), Some("10.0.0.7:8080"));
    }

    /// Anybody who may write on the server can write such a place, and a server can say anything.
    #[test]
    fn numbers_without_bounds_are_no_panic() {
        let place = format!("1 {} {} 1 x", i64::MIN, i64::MAX);
        for time in [["1", "1"], ["18446744073709551615", "18446744073709551615"]] {
            let list = Value::BulkString(Vec::new());
            let replies = vec![texts(&time), list, texts(&["process", &place])];
            let mut snapshot = Snapshot::new(&"a".into());
            snapshot.read("k", replies).unwrap();
            assert!(snapshot.waiters.is_empty() && snapshot.holders.is_empty());
        }
    }
}
