//! What others can see of a node set: spans and events by `tracing`, and metrics. The only place that
//! writes any of them, and where their names, fields and levels stand; [`guide::monitoring`] has them in
//! tables, which a test compares.
//!
//! The engine and the sections report each fact once, to the [`Observer`] of their node set, and only
//! while no lock of the library is held, because subscribers and recorders are code of others. Without
//! the features there is nothing to report to, and the reports are empty.
//!
//! [`guide::monitoring`]: crate::guide::monitoring

mod fact;
#[cfg(feature = "tracing")]
mod log;
#[cfg(feature = "metrics")]
mod meter;
#[cfg(not(feature = "tracing"))]
mod off;
#[cfg(feature = "tracing")]
mod on;

#[cfg(not(feature = "tracing"))]
use std::fmt::Display;

pub(crate) use self::fact::{End, Outcome, Over, Start, Subject};
#[cfg(feature = "tracing")]
pub(crate) use self::log::start;
#[cfg(not(feature = "tracing"))]
pub(crate) use self::off::{Course, Observer};
#[cfg(feature = "tracing")]
pub(crate) use self::on::{Course, Observer};
#[cfg(not(feature = "tracing"))]
pub(crate) fn start(_: Start, _: &dyn Display) {}
