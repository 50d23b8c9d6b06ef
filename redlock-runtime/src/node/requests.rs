//! Requests of tests, for the key `k`.

use std::time::Duration;

use redlock_protocol::{AdmissionId, BlockRequest, Mode, Owner, Request, Token};

pub(super) const TTL: Duration = Duration::from_secs(20);
pub(super) const ADMISSION: AdmissionId = AdmissionId(u64::MAX);

pub(super) const fn block(proposal: u64, length: u64) -> BlockRequest {
    let proposal = Token(proposal);
    BlockRequest { proposal, length }
}

pub(super) fn acquire(owner: Owner, proposal: u64) -> Request {
    Request::Acquire {
        key: "k".into(),
        owner,
        mode: Mode::Exclusive,
        ttl: TTL,
        block: block(proposal, 1),
        admission: ADMISSION,
        ticket: None,
    }
}

pub(super) fn extend(owner: Owner, block: Option<BlockRequest>) -> Request {
    Request::Extend {
        key: "k".into(),
        owner,
        mode: Mode::Exclusive,
        ttl: TTL,
        spare: TTL,
        block,
        admission: ADMISSION,
        note: None,
    }
}

pub(super) fn put_back(owner: Owner) -> Request {
    Request::PutBack {
        key: "k".into(),
        owner,
        mode: Mode::Exclusive,
        ttl: TTL,
        admission: ADMISSION,
    }
}

pub(super) fn release(owner: Owner) -> Request {
    Request::Release {
        key: "k".into(),
        owner,
        mode: Mode::Exclusive,
        keep: None,
        leaves: false,
    }
}
