//! What the rules alone cost, without network, runtime or clock: the protocol, and nodes that
//! answer at once.
//!
//! ```text
//! cargo bench -p redlock-tests --bench core
//! ```

use std::{collections::VecDeque, sync::Arc, time::Duration};

use divan::{Bencher, counter::ItemsCount};

use redlock_protocol::{
    Action, AdmissionId, Ahead, Answer, Env, Event, Facts, Instant, LockParams, Marker, Order,
    Protocol, Record, Reply, Request, SectionId, Settings, key_ttl,
};

const LEASE: Duration = Duration::from_secs(5);

fn main() {
    divan::main();
}

/// One cycle on a free key: ask, grant, release.
#[divan::bench(args = [1, 3, 5, 9])]
fn free_lock(bencher: Bencher<'_, '_>, nodes: usize) {
    let mut world = World::new(nodes);
    let key: Arc<str> = "free".into();
    bencher.bench_local(|| world.cycle(&key));
}

/// The same beside so many other locks that are held.
#[divan::bench(args = [0, 1_000, 100_000])]
fn free_lock_beside_held_ones(bencher: Bencher<'_, '_>, held: u64) {
    let mut world = World::new(5);
    for other in 0..held {
        world.ask(&format!("held:{other}").into());
    }
    let key: Arc<str> = "free".into();
    bencher.bench_local(|| world.cycle(&key));
}

/// One lock passed on along a queue of so many waiting callers, to the last.
#[divan::bench(args = [16, 1_024, 16_384])]
fn queue_of_waiters(bencher: Bencher<'_, '_>, waiters: u64) {
    let key: Arc<str> = "one".into();
    bencher
        .counter(ItemsCount::new(waiters))
        .with_inputs(|| World::new(5))
        .bench_local_values(|mut world| {
            let sections: Vec<SectionId> = (0..waiters).map(|_| world.ask(&key)).collect();
            for section in sections {
                world.end(section);
            }
            assert_eq!(world.granted, waiters);
            world
        });
}

/// One attempt on a key that another client holds, to the refusal.
#[divan::bench(args = [1, 3, 5, 9])]
fn taken_lock(bencher: Bencher<'_, '_>, nodes: usize) {
    let mut world = World::new(nodes);
    world.is_taken = true;
    let key: Arc<str> = "taken".into();
    bencher.bench_local(|| {
        let refused = world.refused;
        world.ask_once(&key);
        assert_eq!(world.refused, refused + 1);
    });
}

/// The protocol and nodes that answer at once.
struct World {
    protocol: Protocol,
    now: Instant,
    asked: u64,
    granted: u64,
    refused: u64,
    /// Another client holds every key.
    is_taken: bool,
    replies: VecDeque<Event>,
}

impl World {
    /// All nodes connected and admitted.
    fn new(nodes: usize) -> Self {
        let mut random = 0_u128;
        let mut wall = 0;
        let env = Env {
            random: Box::new(move || {
                random = random.wrapping_add(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
                random
            }),
            wall_micros: Box::new(move || {
                wall += 1_000;
                wall
            }),
        };
        let settings = Settings {
            ping_interval: Some(Duration::from_secs(15)),
            ..Settings::of(key_ttl(LEASE * 12, LEASE), key_ttl(LEASE, LEASE / 10))
        };
        let now = Instant::from_nanos(1_000_000_000);
        let mut world = Self {
            protocol: Protocol::new(nodes, settings, env, now),
            now,
            asked: 0,
            granted: 0,
            refused: 0,
            is_taken: false,
            replies: VecDeque::new(),
        };
        world.handle(Event::Wakeup);
        world
    }

    fn cycle(&mut self, key: &Arc<str>) {
        let granted = self.granted;
        let section = self.ask(key);
        assert_eq!(self.granted, granted + 1);
        self.end(section);
    }

    fn ask(&mut self, key: &Arc<str>) -> SectionId {
        self.ask_for(key, Duration::from_secs(60))
    }

    fn ask_once(&mut self, key: &Arc<str>) -> SectionId {
        self.ask_for(key, Duration::ZERO)
    }

    fn ask_for(&mut self, key: &Arc<str>, wait: Duration) -> SectionId {
        self.asked += 1;
        let section = SectionId(self.asked);
        let params = LockParams {
            wait,
            ..LockParams::of(LEASE)
        };
        let key = Arc::clone(key);
        self.handle(Event::Ask {
            section,
            key,
            params,
        });
        section
    }

    fn end(&mut self, section: SectionId) {
        self.handle(Event::End {
            section,
            report: false,
        });
    }

    /// Hands in an event, and then every reply that comes of it. Time passes so slowly that no
    /// lease runs out.
    fn handle(&mut self, event: Event) {
        self.replies.push_back(event);
        while let Some(event) = self.replies.pop_front() {
            self.now = self.now.after(Duration::from_nanos(1));
            self.protocol.handle(event, self.now);
            while let Some(action) = self.protocol.poll_action() {
                self.carry_out(action);
            }
        }
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Connect { node, connection } => self.replies.push_back(Event::Connected {
                node,
                connection,
                facts: Facts {
                    server: Some(format!("server {}", node.0).into()),
                    uptime: Some(Duration::from_secs(3_600)),
                    tells_changes: true,
                    ..Facts::default()
                },
            }),
            Action::Send(Order {
                node,
                request,
                body,
                ..
            }) => {
                let reply = self.reply(body);
                self.replies.push_back(Event::Reply {
                    node,
                    request,
                    reply,
                });
            }
            Action::Answer { answer, .. } => match answer {
                Answer::Granted { .. } => self.granted += 1,
                Answer::Refused(_) => self.refused += 1,
                answer => unreachable!("nothing ends here but at its time: {answer:?}"),
            },
            Action::Listen { node, connection } => {
                self.replies.push_back(Event::Silent { node, connection });
            }
            Action::Disconnect { .. } | Action::NodeChanged { .. } | Action::Drained(_) => {}
        }
    }

    fn reply(&self, body: Request) -> Reply {
        match body {
            Request::Identify => Reply::Identity { server: None },
            Request::Probe | Request::ReportLoss { .. } => Reply::Record(Record {
                marker: Some(Marker {
                    server: None,
                    admission: AdmissionId(1),
                    was_durable: false,
                }),
                ..Record::default()
            }),
            Request::Admit { admission, .. } => Reply::Admitted { admission },
            Request::Acquire { .. } | Request::PutBack { .. } if self.is_taken => Reply::Held {
                owner: None,
                remaining: Some(LEASE),
                ahead: Ahead::default(),
            },
            Request::Acquire { block, .. } => Reply::Granted {
                first: block.proposal,
                has_remote_waiter: false,
            },
            Request::PutBack { .. } => Reply::PutBack,
            Request::Extend { block, ttl, .. } => Reply::Extended {
                remaining: Some(ttl),
                first: block.map(|block| block.proposal),
                has_remote_waiter: false,
            },
            Request::Stand { .. } => Reply::Turn {
                slot: 0,
                has_remote_waiter: false,
            },
            Request::Watch { .. } if self.is_taken => Reply::Taken { owner: None },
            Request::Watch { .. } => Reply::Ours,
            Request::Release { .. } if self.is_taken => Reply::NotOwner,
            Request::Release { .. } => Reply::Deleted,
        }
    }
}
