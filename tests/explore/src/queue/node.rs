//! The node that keeps the queue.

use std::{cell::RefCell, collections::HashMap, time::Duration};

use redlock_protocol::{
    Ahead, BlockRequest, Instant, Mode, Owner, Reply, Request, Ticket, Token,
    model::{Key, Model, Moment},
};

use super::{GONE, LASTS, PROCESSES, State};
use crate::server::{ADMISSION, NOW, voting};

/// Of one process. Zero, if it has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) came: u8,
    /// How many ticks ago it was asked for last.
    age: u8,
}

impl Place {
    pub(super) fn tick(&mut self) {
        self.age += u8::from(self.came > 0);
        if self.age == LASTS {
            *self = Self::default();
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Asked {
    Acquire { came: u8, passes: Option<u8> },
    Release,
}

/// What one learns that does not get the lock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refused {
    pub(super) is_free: bool,
    pub(super) count: u32,
    pub(super) grace: u8,
    pub(super) first: u8,
}

/// What the protocol's model of a node replies. There are few different questions, so each is put once.
#[derive(Clone, Debug, Default)]
pub(super) struct Server(RefCell<HashMap<Question, Replied>>);

type Places = [Place; PROCESSES];

/// The holder, the queue, and who asks.
type Question = (u8, Places, usize, Asked);

type Replied = (u8, Places, Option<Refused>);

const KEY: &str = "lock";

const TICK: Duration = Ticket::LASTS.checked_div(LASTS as u32).unwrap();

/// One that came next has waited for so much less.
const STEP: Duration = Duration::from_secs(2);

/// More than ever come one after the other, as states count them.
const LATEST: u32 = 40;

impl Server {
    /// `None` if it is done.
    pub(super) fn run(&self, state: &mut State, process: usize, asked: Asked) -> Option<Refused> {
        let question = (state.holder, state.places, process, asked);
        let mut known = self.0.borrow_mut();
        let (holder, places, refused) = *known.entry(question).or_insert_with(|| put(question));
        (state.holder, state.places) = (holder, places);
        refused
    }
}

fn put((holder, places, process, asked): Question) -> Replied {
    let mut model = voting();
    hold(&mut model, Some(PROCESSES));
    let mut taken: Vec<(usize, Place)> = places.into_iter().enumerate().collect();
    taken.retain(|(_, place)| place.came > 0);
    taken.sort_by_key(|(_, place)| u8::MAX - place.age);
    for (other, Place { came, age }) in taken {
        let ago = TICK * u32::from(age);
        let asked = Asked::Acquire {
            came,
            passes: Some(0),
        };
        let at = Moment {
            now: NOW.now.before(ago),
            ..NOW
        };
        model.run(&request(other, asked, ago), at);
    }
    hold(&mut model, usize::from(holder).checked_sub(1));
    let reply = model.run(&request(process, asked, Duration::ZERO), NOW);
    let refused = match reply {
        Reply::Granted { .. } | Reply::Deleted => None,
        Reply::Held { ahead, .. } => Some(refusal(false, ahead)),
        Reply::Queued(ahead) => Some(refusal(true, ahead)),
        reply => unreachable!("{reply:?}"),
    };
    let owner = model.key(KEY, NOW.now).and_then(|key| key.owner);
    let holder = owner.map_or(0, |owner| owner.process().0 as u8);
    let mut left = Places::default();
    for (owner, since) in model.places(KEY) {
        let other = owner.0 as usize - 1;
        let age = if other == process {
            0
        } else {
            places[other].age
        };
        let came = came_at(since);
        left[other] = Place { came, age };
    }
    (holder, left, refused)
}

fn hold(model: &mut Model, holder: Option<usize>) {
    let expires = Some(NOW.now.after(STEP));
    let key = holder.map(|holder| Key {
        owner: Some(owner(holder)),
        expires,
    });
    model.set_key(KEY.into(), key);
}

fn refusal(
    is_free: bool,
    Ahead {
        count,
        grace,
        first,
    }: Ahead,
) -> Refused {
    Refused {
        is_free,
        count,
        grace: grace.div_duration_f64(TICK) as u8,
        first: if count == 0 { 0 } else { came_at(first as i64) },
    }
}

fn owner(process: usize) -> Owner {
    Owner((process as u128 + 1) << 64 | 1)
}

/// In the milliseconds of the node's clock.
fn since(came: u8) -> Instant {
    NOW.now.before(STEP * (LATEST - u32::from(came)))
}

fn millis_of(instant: Instant) -> i64 {
    (instant.as_nanos() / 1_000_000) as i64
}

fn came_at(millis: i64) -> u8 {
    let before = (millis_of(NOW.now) - millis) / STEP.as_millis() as i64;
    (i64::from(LATEST) - before) as u8
}

/// What was sent so long ago.
fn request(process: usize, asked: Asked, ago: Duration) -> Request {
    let (key, owner, mode) = (KEY.into(), owner(process), Mode::Exclusive);
    let Asked::Acquire { came, passes } = asked else {
        let (keep, leaves) = (None, true);
        return Request::Release {
            key,
            owner,
            mode,
            keep,
            leaves,
        };
    };
    let first = |passes| match passes {
        0 => 0,
        GONE => 1,
        came => millis_of(since(came)) as u64,
    };
    let ticket = Ticket {
        came: since(came).as_nanos(),
        waited: NOW.now.since(since(came)) - ago,
        lasts: Ticket::LASTS,
        grace: TICK,
        passes: passes.map(first),
    };
    Request::Acquire {
        key,
        owner,
        mode,
        ttl: STEP,
        block: BlockRequest {
            proposal: Token(1),
            length: 1,
        },
        admission: ADMISSION,
        ticket: Some(ticket),
    }
}
