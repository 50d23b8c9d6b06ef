//! Requests of tests, for the key `k`.

use std::time::Duration;

use redlock_protocol::{Act, AdmissionId, BlockRequest, Mode, Owner, Request, Token, Vote};

pub(super) const TTL: Duration = Duration::from_secs(20);
pub(super) const ADMISSION: AdmissionId = AdmissionId(u64::MAX);

pub(super) const fn block(proposal: u64, length: u64) -> BlockRequest {
    let proposal = Token(proposal);
    BlockRequest { proposal, length }
}

fn vote(owner: Owner, block: Option<BlockRequest>, act: Act) -> Request {
    let vote = Vote {
        key: "k".into(),
        owner,
        mode: Mode::Exclusive,
        ttl: TTL,
        block,
        admission: ADMISSION,
    };
    Request::Vote(vote, act)
}

pub(super) fn acquire(owner: Owner, proposal: u64) -> Request {
    vote(owner, Some(block(proposal, 1)), Act::Acquire(None))
}

pub(super) fn extend(owner: Owner, block: Option<BlockRequest>) -> Request {
    let (spare, note) = (TTL, None);
    vote(owner, block, Act::Extend { spare, note })
}

pub(super) fn put_back(owner: Owner) -> Request {
    vote(owner, None, Act::PutBack)
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
