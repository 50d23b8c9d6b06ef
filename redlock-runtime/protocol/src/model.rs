//! What a node does with a request: the reference for the scripts, in one function.
//!
//! `memory://` nodes, the tests' worlds and the simulation wrap it with their faults; a
//! differential test drives it and the scripts on a real server with the same requests.

use crate::{
    message::{Reply, Request},
    time::Instant,
};

/// When a request is carried out.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// By the clock that keys expire by, in whole milliseconds on a server.
    pub now: Instant,
    /// Microseconds since 1970 by the node's wall clock. On a server both are one clock.
    pub wall_micros: u64,
}

/// One node's memory.
#[derive(Clone, Debug, Default)]
pub struct Model {}

impl Model {
    /// Carries out a request, as the scripts do.
    pub fn run(&mut self, request: &Request, at: Moment) -> Reply {
        todo!("{request:?} {at:?}")
    }
}
