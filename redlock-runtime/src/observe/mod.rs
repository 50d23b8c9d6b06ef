//! What others can see of a node set: spans and events by `tracing`, metrics, and the journal of a test. The
//! only place that writes any of them, and where their names, fields and levels stand;
//! [`guide::monitoring`] has them in tables, which a test compares.
//!
//! The engine and the sections report each fact once, to the [`Observer`] of their node set, and only
//! while no lock of the library is held, because subscribers and recorders are code of others.
//!
//! [`guide::monitoring`]: crate::guide::monitoring

mod fact;
#[cfg(feature = "test-util")]
pub(crate) mod journal;
mod log;
#[cfg(feature = "metrics")]
mod meter;
mod observer;

pub(crate) use self::{
    log::{built, degraded, insecure, waits},
    observer::{Course, Observer},
};
