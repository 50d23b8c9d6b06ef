//! Requests of all kinds, at random.

use std::{collections::BTreeMap, sync::Arc, thread, time::Duration};

use redlock_fuzz::Random;
use redlock_protocol::{
    Act, AdmissionId, BlockRequest, Evidence, LossId, Mode, Owner, Reply, Request, Stand, Ticket,
    Token, Vote, line_key, line_of, model::Key, slot_key, stripe,
};

use super::{Server, Twins, now};
use crate::script::owner_value;

/// So short that periods of it pass while the test runs.
const MAX_TTL: Duration = Duration::from_millis(60);

const REQUESTS: u64 = 10_000;

/// Some need a server that is slow or quick at the right moment: those that were not seen yet are waited for.
const MOST_REQUESTS: u64 = 20 * REQUESTS;

/// Makes requests that have a chance: what the node said last goes into the next ones.
struct Maker {
    random: Random,
    keys: Vec<Arc<str>>,
    owners: Vec<Owner>,
    server: Option<Arc<str>>,
    admission: AdmissionId,
    loss: LossId,
    /// Becomes free, and is asked for at once.
    waited_for: Option<Arc<str>>,
    /// Was left to those ahead, and is made once more.
    put_off: Option<Request>,
}

#[test]
fn scripts_and_model_reply_alike_to_requests_at_random() {
    let mut seen = BTreeMap::new();
    let is_enough =
        |seen: &BTreeMap<&str, u64>| seen.len() == KINDS && seen.values().all(|&times| times > 2);
    for seed in 1..=3 {
        println!("seed {seed}");
        let server = Server::start(&[]);
        let mut twins = Twins::of(&server, if seed % 2 == 0 { 2 } else { 3 });
        let mut maker = Maker::new(seed, &twins);
        let (mut votes, mut together) = (0, 0);
        while twins.compared < REQUESTS
            || seed == 3 && !is_enough(&seen) && twins.compared < MOST_REQUESTS
        {
            if maker.random.one_in(25) {
                maker.interfere(&mut twins);
            }
            if maker.random.one_in(8) {
                let requests = maker.requests_of_one_kind();
                together += u64::from(twins.ask_together(&requests));
            }
            let put_off = maker.put_off.take();
            let is_again = put_off.is_some();
            let request = match (put_off, maker.waited_for.take()) {
                (Some(request), _) => request,
                (None, Some(key)) => {
                    twins.delete(&key);
                    maker.acquire(key, now())
                }
                (None, None) => maker.request(now()),
            };
            let Some(reply) = twins.ask(&request) else {
                continue;
            };
            votes += u64::from(matches!(
                reply,
                Reply::Granted { .. } | Reply::Extended { .. } | Reply::PutBack
            ));
            if let Some(kind) = of_queue(&request, &reply, is_again) {
                *seen.entry(kind).or_insert(0) += 1;
            }
            maker.learn(&request, &reply);
        }
        assert!(votes > REQUESTS / 50, "the node gave only {votes} votes");
        assert!(
            together > REQUESTS / 50,
            "only {together} commands for many"
        );
    }
    assert!(is_enough(&seen), "{seen:?}");
}

const KINDS: usize = 13;

/// What a queue has to do with it.
fn of_queue(request: &Request, reply: &Reply, is_again: bool) -> Option<&'static str> {
    let is_ordered = match request {
        Request::Vote(_, Act::Acquire(ticket)) => ticket.is_some_and(|ticket| ticket.is_ordered),
        Request::Stand(stand) => stand.ticket.is_ordered,
        _ => false,
    };
    match reply {
        Reply::Queued(_) if matches!(request, Request::Stand { .. }) => Some("in line"),
        Reply::Turn { .. } if is_again => Some("passed in line"),
        Reply::Turn { .. } => Some("given a slot"),
        Reply::Full { ahead, .. } if ahead.count > 0 => Some("full, behind others"),
        Reply::Full { .. } => Some("full"),
        Reply::Queued(ahead) if ahead.count > 1 => Some("behind several"),
        Reply::Queued(_) => Some("behind another"),
        Reply::Held { ahead, .. } if ahead.count > 0 => Some("behind others and the holder"),
        Reply::Held { ahead, .. } if !ahead.grace.is_zero() => Some("behind the holder's place"),
        Reply::Granted { .. } if is_again => Some("passed"),
        Reply::Granted {
            has_remote_waiter: true,
            ..
        } => Some("granted, others wait"),
        Reply::Granted { .. } if is_ordered => Some("granted in order"),
        Reply::Extended {
            has_remote_waiter: true,
            ..
        } => Some("extended, others wait"),
        _ => None,
    }
}

impl Maker {
    fn new(seed: u64, twins: &Twins) -> Self {
        // One more key of the same stripe.
        let same = (0..).map(|number| format!("k{number}"));
        let same = { same }.find(|key| stripe(key) == stripe("a")).unwrap();
        let owners = (1..=4).flat_map(|process| [1, 2].map(|number| Owner(process << 64 | number)));
        Self {
            random: Random::new(seed),
            // And two slots of a lock with permits.
            keys: vec![
                "a".into(),
                "b".into(),
                same.into(),
                slot_key("a", 0),
                slot_key("a", 1),
            ],
            owners: owners.collect(),
            server: twins.model.server.clone(),
            admission: AdmissionId(u64::MAX),
            loss: LossId(u64::MAX),
            waited_for: None,
            put_off: None,
        }
    }

    fn learn(&mut self, request: &Request, reply: &Reply) {
        match reply {
            Reply::Queued(_) | Reply::Held { .. } | Reply::Full { .. } => {
                let again = matches!(reply, Reply::Queued(_)) && !self.random.one_in(5);
                self.put_off = again.then(|| request.clone());
                // Nobody ever has a line.
                let lock = request
                    .key()
                    .filter(|_| matches!(request, Request::Vote(_, Act::Acquire(_))));
                self.waited_for = lock.filter(|_| self.random.one_in(2)).cloned();
            }
            Reply::Admitted { admission } => self.admission = *admission,
            Reply::Record(record) => {
                if let Some(loss) = &record.loss {
                    self.loss = loss.id;
                }
                if let Some(marker) = &record.marker {
                    self.admission = marker.admission;
                }
            }
            _ => {}
        }
    }

    fn acquire(&mut self, key: Arc<str>, now: u64) -> Request {
        let vote = Vote {
            owner: self.random.pick(&self.owners),
            mode: self.mode(&key),
            ttl: Duration::from_millis(1 + self.random.below(30)),
            block: Some(self.block(now)),
            admission: self.admission(),
            key,
        };
        // Who waits for a slot does so in line.
        let ticket = self.ticket().filter(|_| line_of(&vote.key).is_none());
        Request::Vote(vote, Act::Acquire(ticket))
    }

    /// Slots are not shared.
    fn mode(&mut self, key: &str) -> Mode {
        let mode = self
            .random
            .pick(&[Mode::Exclusive, Mode::Shared, Mode::Shared]);
        line_of(key).map_or(mode, |_| Mode::Exclusive)
    }

    fn stand(&mut self) -> Request {
        let key = line_key("a");
        let ticket = std::iter::repeat_with(|| self.ticket()).find_map(|ticket| ticket);
        Request::Stand(Stand {
            owner: self.random.pick(&self.owners),
            permits: 1 + self.random.below(3) as u32,
            start: self.random.below(4) as u32,
            needs_several: self.random.one_in(2),
            ticket: ticket.unwrap(),
            key,
        })
    }

    fn request(&mut self, now: u64) -> Request {
        let key = self.random.pick(&self.keys);
        let owner = self.random.pick(&self.owners);
        let ttl = Duration::from_millis(1 + self.random.below(30));
        let mode = self.mode(&key);
        match self.random.below(100) {
            0..30 => self.acquire(key, now),
            kind @ 30..68 => {
                let mut vote = Vote {
                    key,
                    owner,
                    mode,
                    ttl,
                    block: None,
                    admission: self.admission(),
                };
                if kind >= 60 {
                    return Request::Vote(vote, Act::PutBack);
                }
                vote.block = self.random.one_in(2).then(|| self.block(now));
                let act = Act::Extend {
                    spare: Duration::from_millis(self.random.below(20)),
                    note: self.random.one_in(2).then(|| "7 a value".into()),
                };
                Request::Vote(vote, act)
            }
            68..74 => self.stand(),
            74..78 => {
                let owner = Some(owner).filter(|_| !self.random.one_in(3));
                let mode = owner.map_or(Mode::Exclusive, |_| mode);
                Request::Watch { key, owner, mode }
            }
            78..88 => Request::Release {
                key,
                owner,
                mode,
                keep: (mode == Mode::Exclusive && self.random.one_in(3)).then_some(ttl),
                leaves: self.random.one_in(3),
            },
            88..90 => Request::Probe,
            90..93 => Request::ReportLoss {
                server: self.server(),
                loss: LossId(self.id()),
                beside_marker: self.random.one_in(2),
                max_ttl: MAX_TTL,
            },
            93..99 => Request::Admit {
                server: self.server(),
                evidence: self.evidence(),
                admission: AdmissionId(self.id()),
                floor: Token(self.random.pick(&[0, 7, now, Token::LARGEST.0 + 1])),
                wall_micros: self.random.pick(&[0, now, u64::MAX]),
                is_durable: self.random.one_in(2),
                max_ttl: MAX_TTL,
            },
            _ => Request::Identify,
        }
    }

    /// What a server is asked for in one command.
    fn requests_of_one_kind(&mut self) -> Vec<Request> {
        let (kind, count) = (self.random.below(3), 2 + self.random.below(5));
        let admission = self.admission();
        let mut request = || {
            let key = self.random.pick(&self.keys);
            let owner = self.random.pick(&self.owners);
            match kind {
                0 => Request::Watch {
                    key,
                    owner: Some(owner),
                    mode: Mode::Exclusive,
                },
                _ => {
                    let vote = Vote {
                        key,
                        owner,
                        mode: Mode::Exclusive,
                        ttl: Duration::from_millis(1 + self.random.below(30)),
                        block: None,
                        admission,
                    };
                    let spare = Duration::from_millis(self.random.below(20));
                    Request::Vote(vote, Act::Extend { spare, note: None })
                }
            }
        };
        (0..count).map(|_| request()).collect()
    }

    fn block(&mut self, now: u64) -> BlockRequest {
        let second = 1_000_000;
        let now = now + self.random.below(200);
        BlockRequest {
            proposal: Token(match self.random.below(12) {
                0 => 0,
                1 => self.random.below(1_000),
                2 => now.saturating_sub(100 * second),
                3 => now + self.random.below(7) * second,
                4 => now + 86_400 * second,
                5 => Token::LARGEST.0,
                _ => now,
            }),
            length: self.random.pick(&[1, 1, 3, 256, 1 << 60]),
        }
    }

    fn ticket(&mut self) -> Option<Ticket> {
        let spans = [0, 1, 5, 20, 100, 2_000].map(Duration::from_millis);
        let far = Duration::from_secs(1 << 34);
        let random = &mut self.random;
        random.one_in(2).then(|| Ticket {
            came: u64::MAX - 2 - random.below(2),
            waited: match random.below(10) {
                0 => far,
                _ => random.pick(&spans) + Duration::from_micros(random.below(1_000)),
            },
            lasts: random.pick(&[0, 1, 20, 1_000, 1_000, 2_000].map(Duration::from_millis)),
            grace: random.pick(&spans) + Duration::from_micros(random.below(1_000)),
            is_ordered: !random.one_in(4),
        })
    }

    /// Mostly the one that stands.
    fn admission(&mut self) -> AdmissionId {
        let other = AdmissionId(self.admission.0 - 1);
        if self.random.one_in(20) {
            other
        } else {
            self.admission
        }
    }

    fn server(&mut self) -> Option<Arc<str>> {
        match self.random.below(12) {
            0 => None,
            1 | 2 => Some("another".into()),
            _ => self.server.clone(),
        }
    }

    fn evidence(&mut self) -> Evidence {
        let loss = if self.random.one_in(6) {
            LossId(1)
        } else {
            self.loss
        };
        let wait = Duration::from_millis(self.random.below(12));
        match self.random.below(5) {
            4 => Evidence::Assumed { loss },
            0 => Evidence::Durable {
                admission: self.random.pick(&[self.admission, AdmissionId(1)]),
            },
            1 => Evidence::FirstStart { loss, wait },
            _ => Evidence::Waited { loss, wait },
        }
    }

    /// Large, so that no number of Lua can be told from it.
    fn id(&mut self) -> u64 {
        u64::MAX - self.random.below(1 << 20)
    }

    /// What other clients, operators and time do.
    fn interfere(&mut self, twins: &mut Twins) {
        let key = self.random.pick(&self.keys);
        let ttl = Some(1 + self.random.below(20)).filter(|_| !self.random.one_in(4));
        match self.random.below(40) {
            0..6 => {
                let foreign = [
                    "x",
                    "67E55044-10B1-426F-9247-BB680E5FE0C8",
                    "not-a-uuid-but-36-characters-long-ok",
                    "shared",
                ];
                twins.occupy(&key, self.random.pick(&foreign), None, ttl);
            }
            6..8 => {
                // A client of another library that writes as we do, or one of ours without a vote.
                let owner = self.random.pick(&self.owners);
                let value = owner_value(owner);
                let value = std::str::from_utf8(&value).unwrap();
                twins.occupy(&key, value, Some(owner), ttl);
            }
            8..12 => self.set_wrong_type(&key, twins),
            12..20 => twins.delete(&key),
            20 => twins.flush(),
            21..24 => {
                let poison = [
                    "9007199254740992",
                    "4503599627370494",
                    "4503599627370495",
                    "18446744073709551615",
                    "1e400",
                    "nan",
                    "-1",
                    "",
                    "no number",
                ];
                let text = self.random.pick(&poison);
                twins.set_counter(stripe(&key), text);
            }
            24..34 => {
                for key in &self.keys {
                    twins.set_counter(stripe(key), "7");
                }
            }
            _ => {
                // So long that two periods pass, or that a queue is forgotten.
                let millis = self
                    .random
                    .pick(&[1, 1, 1, 1, 5, 5, 5, 5, 20, 20, 125, 125, 125, 1_001]);
                thread::sleep(Duration::from_millis(millis));
            }
        }
    }

    fn set_wrong_type(&mut self, key: &Arc<str>, twins: &mut Twins) {
        if line_of(key).is_some() {
            // No script finds out that a slot has another type before it is asked for.
            return;
        }
        twins.delete(key);
        let (owner, expires) = (None, None);
        let foreign = [
            ["RPUSH", key, "x", "y"],
            ["ZADD", key, "1700000000000", "x"],
            [
                "ZADD",
                key,
                "1700000000000",
                "not-a-uuid-but-36-characters-long-ok",
            ],
            ["ZADD", key, "1.5", "00000000-0000-0009-0000-000000000001"],
        ];
        twins.do_both(&self.random.pick(&foreign), |model, _| {
            model.set_key(Arc::clone(key), Some(Key { owner, expires }));
        });
    }
}
