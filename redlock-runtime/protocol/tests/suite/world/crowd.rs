//! Callers that ask for locks, hold them for a while, and perhaps ask again.

use super::*;

/// What a caller asks for.
#[derive(Clone)]
pub(crate) struct Wish {
    keys: Vec<String>,
    params: LockParams,
    /// So many of the permits, if the lock has some.
    weight: u32,
    hold: Duration,
    again: Option<Duration>,
}

impl Wish {
    /// These keys, for a section of this length.
    pub(crate) fn new(keys: &[&str], params: LockParams, hold: Duration) -> Self {
        Self {
            keys: keys.iter().map(|&key| key.into()).collect(),
            params,
            weight: 1,
            hold,
            again: None,
        }
    }

    /// So many permits at once.
    pub(crate) fn of(mut self, weight: u32) -> Self {
        self.weight = weight;
        self
    }

    /// The same again, after this pause.
    pub(crate) fn again(mut self, pause: Duration) -> Self {
        self.again = Some(pause);
        self
    }
}

/// A section that has begun.
#[derive(Clone, Debug)]
pub(crate) struct Served {
    pub(crate) client: usize,
    pub(crate) section: u64,
    pub(crate) weight: u32,
    pub(crate) from: Instant,
    pub(crate) until: Instant,
}

/// How many of these sections each client has had.
pub(crate) fn counts(served: &[Served], clients: usize) -> Vec<usize> {
    let of = |client| served.iter().filter(move |it| it.client == client);
    (0..clients).map(|client| of(client).count()).collect()
}

/// Fails if more hold a lock at once than may, or a token is not above earlier ones.
#[derive(Default)]
pub(crate) struct Crowd {
    waiting: BTreeMap<(usize, u64), Wish>,
    holding: Vec<(Served, Wish)>,
    /// Who asks again, and when.
    pausing: Vec<(Instant, usize, Wish)>,
    /// So many have asked again.
    again: u64,
    /// The last token of each key, and the last one of who had the key alone.
    tokens: BTreeMap<String, [Token; 2]>,
    served: Vec<Served>,
}

impl World {
    /// So many requests of all clients.
    pub(crate) fn sent(&self) -> usize {
        self.clients.iter().map(Client::sent).sum()
    }
}

impl Crowd {
    pub(crate) fn ask(&mut self, world: &mut World, client: usize, section: u64, wish: Wish) {
        let keys: Vec<&str> = wish.keys.iter().map(String::as_str).collect();
        let mut process = world.client(client);
        match wish.weight {
            1 => process.ask_all(section, &keys, wish.params),
            weight => process.ask_permits(section, (weight, wish.params.permits), wish.params),
        }
        self.waiting.insert((client, section), wish);
    }

    /// Lets sections begin and end for so long.
    pub(crate) fn run_for(&mut self, world: &mut World, time: Duration) {
        let end = world.now.after(time);
        loop {
            self.go_on(world);
            let ends = self.holding.iter().map(|(held, _)| held.until);
            let asks = self.pausing.iter().map(|(at, ..)| *at);
            let next = ends.chain(asks).fold(end, Instant::min);
            if world.next().is_some_and(|at| at <= next) {
                world.step();
            } else if world.now < end {
                world.now = next;
            } else {
                return;
            }
        }
    }

    /// The same until all that wait have been served.
    pub(crate) fn run(&mut self, world: &mut World) {
        while !self.waiting.is_empty() || !self.holding.is_empty() {
            self.run_for(world, HOP);
        }
    }

    /// Who has been served since the last call.
    pub(crate) fn served(&mut self) -> Vec<Served> {
        std::mem::take(&mut self.served)
    }

    /// How many have been served since the last call, and how many requests of all clients since their start there
    /// are for each of them.
    pub(crate) fn served_and_requests(&mut self, world: &World) -> (usize, usize) {
        let served = self.served().len();
        (served, world.sent() / served)
    }

    /// What is due now.
    fn go_on(&mut self, world: &mut World) {
        let now = world.now;
        let is_over = |(held, _): &mut (Served, Wish)| held.until <= now;
        for (held, wish) in self.holding.extract_if(.., is_over) {
            world.client(held.client).end(held.section);
            if let Some(pause) = wish.again {
                self.pausing.push((now.after(pause), held.client, wish));
            }
        }
        let asks: Vec<_> = self.pausing.extract_if(.., |(at, ..)| *at <= now).collect();
        for (_, client, wish) in asks {
            self.again += 1;
            self.ask(world, client, 1_000_000 + self.again, wish);
        }
        for client in 0..world.clients.len() {
            while let Some((section, answer)) = world.client(client).next_of(&self.waiting) {
                let Answer::Granted { token, .. } = answer else {
                    panic!("section {section} of client {client}: {answer:?}")
                };
                self.begin(world.now, client, section, token);
            }
        }
    }

    fn begin(&mut self, now: Instant, client: usize, section: u64, token: Token) {
        let Some(wish) = self.waiting.remove(&(client, section)) else {
            return;
        };
        let Wish { keys, params, .. } = &wish;
        let is_alone = params.mode == Mode::Exclusive && params.permits == 0;
        let excludes = |other: &Wish| {
            let shares = params.mode == Mode::Shared && other.params.mode == Mode::Shared;
            !shares && keys.iter().any(|key| other.keys.contains(key))
        };
        let others = self.holding.iter().filter(|(_, other)| excludes(other));
        let beside: Vec<_> = others.collect();
        let taken: u32 = beside.iter().map(|(_, other)| other.weight).sum();
        let most = params.permits.max(1);
        assert!(
            taken + wish.weight <= most,
            "{client} beside {:?}",
            beside[0].0
        );
        for key in keys {
            let [any, alone] = self.tokens.entry(key.clone()).or_default();
            let before = if is_alone { *any } else { *alone };
            assert!(token > before, "{token} of {key} after {before}");
            *any = token.max(*any);
            if is_alone {
                *alone = token;
            }
        }
        let until = now.after(wish.hold);
        let served = Served {
            client,
            section,
            weight: wish.weight,
            from: now,
            until,
        };
        self.served.push(served.clone());
        self.holding.push((served, wish));
    }
}
