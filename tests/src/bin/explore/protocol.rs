//! The part of the protocol that decides on tokens: the very source that ships.

#![allow(
    dead_code,
    unused_imports,
    reason = "what the protocol has beside its decisions is not used here"
)]

#[path = "../../../../redlock-runtime/src/protocol/acquire.rs"]
mod acquire;
#[path = "../../../../redlock-runtime/src/protocol/action.rs"]
mod action;
#[path = "../../../../redlock-runtime/src/protocol/ballot.rs"]
mod ballot;
pub(crate) mod decide;
#[path = "../../../../redlock-runtime/src/protocol/fence.rs"]
mod fence;
#[path = "../../../../redlock-runtime/src/protocol/line.rs"]
mod line;
#[path = "../../../../redlock-runtime/src/protocol/link.rs"]
mod link;
#[path = "../../../../redlock-runtime/src/protocol/message.rs"]
mod message;
#[path = "../../../../redlock-runtime/src/protocol/quorum.rs"]
mod quorum;
#[path = "../../../../redlock-runtime/src/protocol/release.rs"]
mod release;
#[path = "../../../../redlock-runtime/src/protocol/report.rs"]
mod report;
#[path = "../../../../redlock-runtime/src/protocol/time.rs"]
mod time;
#[path = "../../../../redlock-runtime/src/protocol/timer.rs"]
mod timer;
#[path = "../../../../redlock-runtime/src/protocol/validity.rs"]
mod validity;
#[path = "../../../../redlock-runtime/src/protocol/wire.rs"]
mod wire;
