//! What a node must do, request by request.

mod admission;
mod queue;
mod readers;
mod votes;

use std::{sync::Arc, time::Duration};

use super::{Key, Model, Moment};
use crate::{
    line_key,
    message::{
        AdmissionId, Ahead, BlockRequest, Evidence, LossId, Mode, Owner, Record, Reply, Request,
        Ticket,
    },
    rules::token::{Token, stripe},
    slot_key,
    time::Instant,
};

const MAX_TTL: Duration = Duration::from_secs(60);
const TTL: Duration = Duration::from_secs(5);
const US: Owner = Owner(1 << 64 | 1);
const US_AGAIN: Owner = Owner(1 << 64 | 2);
const THEM: Owner = Owner(2 << 64 | 1);
const THIRD: Owner = Owner(3 << 64 | 1);
const ADMISSION: AdmissionId = AdmissionId(7);
const LOSS: LossId = LossId(8);

/// On a server both clocks are one.
fn at(millis: u64) -> Moment {
    let since_1970 = Duration::from_secs(1_700_000_000) + Duration::from_millis(millis);
    Moment {
        now: Instant::from_nanos(0).after(since_1970),
        wall_micros: since_1970.as_micros() as u64,
    }
}

fn micros(millis: u64) -> Token {
    Token(at(millis).wall_micros)
}

fn name(server: &str) -> Option<Arc<str>> {
    Some(server.into())
}

fn report(server: &str, loss: LossId) -> Request {
    Request::ReportLoss {
        server: name(server),
        loss,
        beside_marker: false,
        max_ttl: MAX_TTL,
    }
}

fn admit(server: &str, evidence: Evidence) -> Request {
    Request::Admit {
        server: name(server),
        evidence,
        admission: ADMISSION,
        floor: Token(0),
        wall_micros: micros(0).0,
        is_durable: true,
        max_ttl: MAX_TTL,
    }
}

const fn waited(millis: u64) -> Evidence {
    Evidence::Waited {
        loss: LOSS,
        wait: Duration::from_millis(millis),
    }
}

/// A node that votes, in the process `a`.
fn voting() -> Model {
    let mut model = Model::new(name("a"));
    model.run(&report("a", LOSS), at(0));
    let admitted = model.run(&admit("a", waited(0)), at(0));
    let admission = ADMISSION;
    assert_eq!(admitted, Reply::Admitted { admission });
    model
}

fn acquire(owner: Owner, proposal: Token, length: u64) -> Request {
    Request::Acquire {
        key: "k".into(),
        owner,
        mode: Mode::Exclusive,
        ttl: TTL,
        block: BlockRequest { proposal, length },
        admission: ADMISSION,
        ticket: None,
    }
}

/// In order, for a waiter with a number, that has waited for so many milliseconds, and whose place lasts for so many.
fn ask(owner: Owner, waiter: u64, waited: u64, lasts: u64) -> Request {
    with_ticket(acquire(owner, Token(9), 1), (waiter, waited, lasts), true)
}

fn with_ticket(
    mut request: Request,
    (waiter, waited, lasts): (u64, u64, u64),
    is_ordered: bool,
) -> Request {
    if let Request::Acquire { ticket, .. } = &mut request {
        *ticket = Some(Ticket {
            came: waiter,
            waited: Duration::from_millis(waited),
            lasts: Duration::from_millis(lasts),
            grace: Duration::from_millis(3),
            is_ordered,
        });
    }
    request
}

fn extend(owner: Owner, ttl: Duration, block: Option<BlockRequest>) -> Request {
    Request::Extend {
        key: "k".into(),
        owner,
        mode: Mode::Exclusive,
        ttl,
        spare: Duration::from_secs(1),
        block,
        admission: ADMISSION,
        note: None,
    }
}

fn put_back(owner: Owner) -> Request {
    Request::PutBack {
        key: "k".into(),
        owner,
        mode: Mode::Exclusive,
        ttl: TTL,
        admission: ADMISSION,
    }
}

/// Releases, and gives up the place.
fn leave(owner: Owner) -> Request {
    let mut request = release(owner);
    if let Request::Release { leaves, .. } = &mut request {
        *leaves = true;
    }
    request
}

fn release(owner: Owner) -> Request {
    let key = "k".into();
    Request::Release {
        key,
        owner,
        mode: Mode::Exclusive,
        keep: None,
        leaves: false,
    }
}

const fn granted(first: u64, has_remote_waiter: bool) -> Reply {
    Reply::Granted {
        first: Token(first),
        has_remote_waiter,
    }
}

const fn held(owner: Owner, remaining: Duration) -> Reply {
    Reply::Held {
        owner: Some(owner),
        remaining: Some(remaining),
        ahead: Ahead {
            count: 0,
            grace: Duration::ZERO,
        },
    }
}

const fn extended(remaining: Duration, first: Option<Token>) -> Reply {
    Reply::Extended {
        remaining: Some(remaining),
        first,
        has_remote_waiter: false,
    }
}

fn record(reply: Reply) -> Record {
    match reply {
        Reply::Record(record) => record,
        reply => panic!("{reply:?} is no record"),
    }
}
