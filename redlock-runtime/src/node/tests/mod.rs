//! The scripts against the model: the same requests to a real server and to the model, and every
//! reply must be the same, to the millisecond.

mod cases;
mod listen;
mod random;
mod server;
mod session;
mod shared;

use std::{
    collections::{BTreeMap, VecDeque},
    fmt::Debug,
    hint,
    sync::Arc,
    time::{Duration, SystemTime},
};

use redis::{Cmd, Connection, Pipeline, Value};
use redlock_protocol::{
    Instant, Owner, Process, Reply, Request, Token, line_of,
    model::{Key, Model, Moment},
};

use self::server::{Server, exchange, words};
use super::reply;
use crate::script::{self, Kind, Word};

/// Requests are sent in the first part of a millisecond, so that they are carried out within it.
const LAST_MICRO: u64 = 600;

/// What the library keeps in database 0 beside the locks.
const HASH: &str = "__redlock:node:0";

/// A server and the model that must do the same.
struct Twins {
    server: Connection,
    model: Model,
    /// How many replies were compared.
    compared: u64,
    /// In which millisecond keys expire.
    expiries: BTreeMap<Arc<str>, u64>,
    /// The last requests and replies, for people who look for the cause of a difference.
    history: VecDeque<String>,
}

/// What a server has after a request.
struct After {
    /// In which millisecond the key expires: `None` if there is none, `Some(None)` if it never does.
    expiry: Option<Option<u64>>,
    queue_expiry: Option<u64>,
    places: Vec<(Process, i64)>,
    note_expiry: Option<u64>,
    note: Option<String>,
}

impl Twins {
    fn of(server: &Server, resp: u8) -> Self {
        let mut connection = server.connect(resp);
        let mut loading = Pipeline::new();
        for load in script::load_all() {
            loading.add_command(cmd(&load));
        }
        for answer in exchange(&mut connection, &loading) {
            assert!(matches!(answer, Value::BulkString(_)), "{answer:?}");
        }
        let mut twins = Self {
            server: connection,
            model: Model::default(),
            compared: 0,
            expiries: BTreeMap::new(),
            history: VecDeque::new(),
        };
        twins.model = Model::new(Some(twins.run_id()));
        twins
    }

    fn run_id(&mut self) -> Arc<str> {
        let info = cmd(&script::command(&Request::Identify, HASH, false));
        let (info, _) = self.carry_out(info);
        match reply::parse(&Request::Identify, info) {
            Reply::Identity { server: Some(name) } => name,
            reply => panic!("{reply:?} of a server that tells who it is"),
        }
    }

    /// Asks both, and returns what both say; `None` if the server paused, so that it is open in which
    /// millisecond it did what. Then both have lost their memory.
    fn ask(&mut self, request: &Request) -> Option<Reply> {
        let key = request.key();
        self.wait_for_quiet(key);
        let command = cmd(&script::command(request, HASH, false));
        let (answer, after, at) = match key {
            Some(key) => self.carry_out_on_key(command, key),
            None => {
                let (answer, at) = self.carry_out(command);
                (answer, None, at)
            }
        };
        let reply = reply::parse(request, answer);
        self.note(&(request, &reply));
        // A server has a key in the millisecond in which it expires, and the model has it not.
        let is_open = |at: &Moment| key.is_some_and(|key| self.expires_at(key, *at));
        let Some(at) = at.filter(|at| !is_open(at)) else {
            self.flush();
            return None;
        };
        let mut model = self.model.clone();
        let expected = model.run(request, at);
        if !is_same(&expected, &reply) {
            self.fail(&expected);
        }
        if let (Some(key), Some(after)) = (key, after) {
            let expected = model.key(key, at.now).map(|key| key.expires.map(millis));
            if expected != after.expiry {
                self.fail(&(expected, after.expiry));
            }
            self.learn_expiry(key, expected.flatten());
            // The model does not tell whether the queue has expired.
            let expected = model.places(line_of(key).unwrap_or(key));
            if !after.places.is_empty() && expected != after.places {
                self.fail(&(expected, after.places));
            }
            self.learn_expiry(&queue_of(key), after.queue_expiry);
            let expected = model.note(key, at.now).map(|note| &**note);
            if expected != after.note.as_deref() {
                self.fail(&(expected, after.note));
            }
            self.learn_expiry(&note_key(key), after.note_expiry);
        }
        self.model = model;
        self.compared += 1;
        Some(reply)
    }

    /// Asks both for all of these, which are of one kind: the server by one command, and by one for each if
    /// it refuses that. False if the server paused.
    fn ask_together(&mut self, requests: &[Request]) -> bool {
        let expires = |twins: &Self, at| {
            let mut keys = requests.iter().filter_map(Request::key);
            keys.any(|key| twins.expires_at(key, at))
        };
        while expires(self, moment(now())) {
            hint::spin_loop();
        }
        self.wait_for_quiet(None);
        let kind = script::kind(&requests[0]).unwrap();
        let command = script::command_for_many(kind, requests.iter(), HASH, false);
        let (answer, at) = self.carry_out(cmd(&command));
        self.note(&(requests, &answer));
        let answers = match answer {
            Value::Array(answers) if answers.len() == requests.len() => answers,
            Value::Int(-1) if matches!(kind, Kind::Extend(_)) => {
                vec![Value::Int(-1); requests.len()]
            }
            // It has done nothing.
            Value::ServerError(_) => {
                return requests.iter().all(|request| self.ask(request).is_some());
            }
            answer => panic!("{answer:?} does not answer {requests:?}"),
        };
        let Some(at) = at.filter(|&at| !expires(self, at)) else {
            self.flush();
            return false;
        };
        for (request, answer) in requests.iter().zip(answers) {
            let held = request.key().and_then(|key| self.model.key(key, at.now));
            // What is no text is no key to `MGET`.
            let is_text = |owner| owner != Owner::READERS;
            let is_open = kind == Kind::Watch
                && answer == Value::Nil
                && !held.and_then(|held| held.owner).is_some_and(is_text);
            let reply = reply::parse(request, answer);
            let mut expected = self.model.run(request, at);
            if let Reply::Extended {
                has_remote_waiter, ..
            } = &mut expected
            {
                // Where several locks are renewed at once, no queue is looked at.
                *has_remote_waiter = false;
            }
            let is_expected = match expected {
                Reply::Free | Reply::Taken if is_open => true,
                _ => is_same(&expected, &reply),
            };
            if !is_expected {
                self.fail(&(request, expected));
            }
            self.compared += 1;
        }
        for key in requests.iter().filter_map(Request::key) {
            let expiry = self.model.key(key, at.now).and_then(|key| key.expires);
            self.learn_expiry(key, expiry.map(millis));
        }
        true
    }

    /// The answer, and when it was given, if that is certain to the millisecond.
    fn carry_out(&mut self, command: Cmd) -> (Value, Option<Moment>) {
        let mut pipeline = Pipeline::new();
        pipeline.cmd("TIME").add_command(command).cmd("TIME");
        let answers = exchange(&mut self.server, &pipeline);
        let [from, answer, to] = answers.try_into().unwrap();
        (answer, certain(from, to))
    }

    /// In addition what there is then.
    fn carry_out_on_key(
        &mut self,
        command: Cmd,
        key: &str,
    ) -> (Value, Option<After>, Option<Moment>) {
        let mut pipeline = Pipeline::new();
        let queue = &*queue_of(key);
        pipeline.cmd("TIME").add_command(command);
        pipeline.cmd("PTTL").arg(key);
        pipeline.cmd("PTTL").arg(queue);
        pipeline.cmd("HGETALL").arg(queue);
        let note = &*note_key(key);
        pipeline.cmd("PTTL").arg(note);
        pipeline.cmd("MGET").arg(key).arg(note);
        pipeline.cmd("TIME");
        let answers = exchange(&mut self.server, &pipeline);
        let [from, answer, key, queue, fields, note, texts, to] = answers.try_into().unwrap();
        let texts: [Option<String>; 2] = redis::from_redis_value(texts).unwrap();
        // For servers without `PEXPIRETIME`; the time of the last reply is in the same millisecond, if it counts.
        let at = micros(from.clone()) / 1_000;
        let after = After {
            expiry: expiry(key, at),
            queue_expiry: expiry(queue, at).flatten(),
            places: places(fields),
            note_expiry: expiry(note, at).flatten(),
            note: match &texts {
                [Some(owner), Some(kept)] => script::note_of(owner, kept).map(str::to_owned),
                _ => None,
            },
        };
        (answer, Some(after), certain(from, to))
    }

    /// Waits for the beginning of a millisecond in which this key does not expire.
    fn wait_for_quiet(&self, key: Option<&Arc<str>>) {
        loop {
            let at = moment(now());
            let expires = key.is_some_and(|key| self.expires_at(key, at));
            if at.wall_micros % 1_000 <= LAST_MICRO && !expires {
                return;
            }
            hint::spin_loop();
        }
    }

    /// The key, its queue or its note.
    fn expires_at(&self, key: &str, at: Moment) -> bool {
        let expires = |name: &str| self.expiries.get(name) == Some(&millis(at.now));
        // Whoever stands in line looks at all slots.
        let mut names = self.expiries.keys();
        let slot = |name: &Arc<str>| line_of(name) == Some(key) && expires(name);
        let beside = [queue_of(key), note_key(key)];
        expires(key) || beside.iter().any(|name| expires(name)) || names.any(slot)
    }

    fn learn_expiry(&mut self, key: &Arc<str>, expiry: Option<u64>) {
        match expiry {
            Some(expiry) => self.expiries.insert(Arc::clone(key), expiry),
            None => self.expiries.remove(key),
        };
    }

    fn fail(&self, expected: &dyn Debug) -> ! {
        panic!("the model says {expected:?}, after {:#?}", self.history)
    }

    fn note(&mut self, step: &dyn Debug) {
        if self.history.len() > 12 {
            self.history.pop_front();
        }
        self.history.push_back(format!("{step:?}"));
    }

    // ---- what is no request of ours

    fn do_both(&mut self, command: &[&str], change: impl FnOnce(&mut Model, Moment)) {
        self.wait_for_quiet(None);
        let (answer, at) = self.carry_out(words(command));
        assert!(
            !matches!(answer, Value::ServerError(_)),
            "{command:?}: {answer:?}"
        );
        self.note(&command);
        match at {
            Some(at) => change(&mut self.model, at),
            None => self.flush(),
        }
    }

    fn flush(&mut self) {
        let (answer, _) = self.carry_out(words(&["FLUSHALL"]));
        assert_eq!(answer, Value::Okay);
        self.note(&"FLUSHALL");
        self.model.lose_memory();
        self.expiries.clear();
    }

    fn set_counter(&mut self, stripe: u64, text: &str) {
        // What is no counter at all is far too large for the model.
        let counter = text.parse().map_or(Token(u64::MAX), Token);
        let field = stripe.to_string();
        self.do_both(&["HSET", HASH, &field, text], |model, _| {
            model.set_counter(stripe, counter);
        });
    }

    /// Lets something stand under the name, whatever stood there.
    fn occupy(&mut self, name: &Arc<str>, value: &str, owner: Option<Owner>, ttl: Option<u64>) {
        let text = ttl.map(|ttl| ttl.to_string());
        let mut command = vec!["SET", name, value];
        if let Some(text) = &text {
            command.extend(["PX", text]);
        }
        let mut expiry = None;
        self.do_both(&command, |model, at| {
            let expires = ttl.map(|ttl| at.now.after(Duration::from_millis(ttl)));
            expiry = expires.map(millis);
            model.set_key(Arc::clone(name), Some(Key { owner, expires }));
        });
        self.learn_expiry(name, expiry);
    }

    fn delete(&mut self, name: &Arc<str>) {
        self.do_both(&["DEL", name], |model, _| {
            model.set_key(Arc::clone(name), None)
        });
        self.learn_expiry(name, None);
    }
}

/// For the client that the tests use.
fn cmd(command: &[Word<'_>]) -> Cmd {
    let mut cmd = Cmd::new();
    for word in command {
        match *word {
            Word::Text(text) | Word::Key(text) => cmd.arg(text),
            Word::Number(number) => cmd.arg(number),
            Word::Owner(owner) => cmd.arg(&script::owner_value(owner)[..]),
            Word::Queue(key) => cmd.arg(&*queue_of(key)),
            Word::Note(key) => cmd.arg(&*note_key(key)),
        };
    }
    cmd
}

fn queue_of(key: &str) -> Arc<str> {
    format!("{}{}", script::QUEUE, line_of(key).unwrap_or(key)).into()
}

fn note_key(key: &str) -> Arc<str> {
    format!("{}{key}", script::NOTE).into()
}

/// As the model tells them.
fn places(answer: Value) -> Vec<(Process, i64)> {
    let places: Vec<(String, String)> = redis::from_redis_value(answer).unwrap();
    let mut places: Vec<_> = places
        .iter()
        .filter(|(process, _)| process.len() == script::PROCESS_LENGTH)
        .map(|(process, place)| {
            let process = u64::from_str_radix(&process.replace('-', ""), 16).unwrap();
            let since = place.split(' ').nth(1).unwrap().parse().unwrap();
            (Process(process), since)
        })
        .collect();
    places.sort_unstable();
    places
}

fn expiry(answer: Value, at: u64) -> Option<Option<u64>> {
    match answer {
        Value::Int(-2) => None,
        Value::Int(-1) => Some(None),
        Value::Int(left) => Some(Some(at + left.unsigned_abs())),
        answer => panic!("{answer:?} is no expiry"),
    }
}

fn certain(from: Value, to: Value) -> Option<Moment> {
    let (from, to) = (micros(from), micros(to));
    (from / 1_000 == to / 1_000).then(|| moment(from))
}

fn now() -> u64 {
    let since_1970 = SystemTime::UNIX_EPOCH.elapsed().unwrap();
    since_1970.as_micros() as u64
}

fn moment(micros: u64) -> Moment {
    Moment {
        now: Instant::from_nanos(micros / 1_000 * 1_000_000),
        wall_micros: micros,
    }
}

fn millis(instant: Instant) -> u64 {
    instant.as_nanos() / 1_000_000
}

fn micros(time: Value) -> u64 {
    let (seconds, micros): (u64, u64) = redis::from_redis_value(time).unwrap();
    seconds * 1_000_000 + micros
}

fn is_same(one: &Reply, other: &Reply) -> bool {
    match (one, other) {
        // Of several fields that hold no counter either may be named.
        (Reply::Refused { message: one, .. }, Reply::Refused { message: other, .. }) => {
            one.split(':').next() == other.split(':').next()
        }
        _ => one == other,
    }
}
