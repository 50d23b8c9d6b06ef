//! The protocol as a whole, by its public API, in a world where nothing happens by chance.

mod acquire;
mod admission;
mod at_least;
mod busy;
mod clock;
mod compound;
mod compound_turns;
mod contention;
mod cost;
mod counters;
mod durable;
mod fair;
mod fairness;
mod fuzz;
mod hold;
mod kinds;
mod loss;
mod notes;
mod outage;
mod permits;
mod quarantine;
mod queue;
mod release;
mod shared;
mod shutdown;
mod turn;
mod world;

use redlock_protocol::{self, Act, Request};

/// An owner of another fleet.
const OTHER: redlock_protocol::Owner = redlock_protocol::Owner(99);

const fn is_acquire(request: &Request) -> bool {
    matches!(request, Request::Vote(_, Act::Acquire(_)))
}

/// Of a waiter that has a place in a queue.
const fn has_ticket(request: &Request) -> bool {
    matches!(request, Request::Vote(_, Act::Acquire(Some(_))))
}

const fn is_watch(request: &Request) -> bool {
    matches!(request, Request::Watch { .. })
}

const fn is_extend(request: &Request) -> bool {
    matches!(request, Request::Vote(_, Act::Extend { .. }))
}

const fn is_release(request: &Request) -> bool {
    matches!(request, Request::Release { .. })
}

const fn is_anything(_: &Request) -> bool {
    true
}
