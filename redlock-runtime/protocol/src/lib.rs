//! The rules of Redlock with fencing tokens, as a state machine: what is sent when, what counts,
//! who holds a lock and until when.
//!
//! There is no I/O here, no clock, no randomness of its own, no async and no locks: time comes in
//! with every event, random numbers through [`Env`], and everything that the protocol wants done
//! comes out as an [`Action`]. `redlock-runtime` drives it with tokio and Redis, a simulation drives
//! the same code in virtual time.
//!
//! To drive it:
//! 1. Read the clock, then hand in one event with [`Protocol::handle`]. `now` never decreases.
//! 2. Take out and carry out every action with [`Protocol::poll_action`], in order, to the end.
//! 3. Hand in [`Event::Wakeup`] at [`Protocol::next_wakeup`]; earlier, later or more often does
//!    no harm.
//!
//! A lease counts from the `now` of the `handle` that produced its requests, never from a reply.
//!
//! | what | where |
//! |---|---|
//! | one server: connection, latency, requests without a reply, may it vote? | `node/` |
//! | one key in this process: queue, turn, rounds, releases | `key/` |
//! | several keys at once | `compound`, `protocol/` |
//! | permits | `key/permits`, `protocol/` |
//! | values and pure functions: majority, lease arithmetic, tokens, back-off | `rules/` |
//! | what a node does with a request | [`model`] |

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod action;
mod compound;
mod event;
mod key;
mod message;
pub mod model;
mod node;
mod protocol;
mod purpose;
#[doc(hidden)]
pub mod rules;
mod settings;
mod time;
mod timer;
mod unreachable;

pub use self::{
    action::{
        Action, Answer, Cause, Loss, NodeState, Order, QuarantineReason, Refusal, Release,
        ShutdownError, Verdict,
    },
    event::Event,
    message::{
        Act, AdmissionId, Ahead, BlockRequest, ConnectionId, Evidence, FORMAT, Facts, LossId,
        LossRecord, Marker, Member, Mode, NodeId, Owner, Process, Record, Rejection, Reply,
        Request, RequestId, SectionId, Stand, Ticket, Vote,
    },
    protocol::Protocol,
    rules::{
        key_names::{MOST_SLOTS, gate_key, line_key, line_of, slot_key, stripe},
        quarantine::Readings,
        quorum::{majority, out_of_reach},
        token::Token,
        validity::{
            LONGEST_ROUND, LeaseParams, LockParams, default_guard_band, default_min_validity,
            default_node_timeout, default_renewal, key_ttl, outlasts_drift,
        },
    },
    settings::{BUSY_FROM, Env, Settings},
    time::{Instant, millis},
    unreachable::{Why, WhyKind},
};
