//! What all handles on a node set, and all its locks, share.

use std::{fmt, sync::Arc};

use crate::{
    config::{ConfigError, ConfigProblem, Node, Settings},
    engine::Engine,
    observe::Observer,
};

/// One node set: its engine, and what was configured.
pub(crate) struct Shared {
    pub(crate) engine: Engine,
    pub(crate) observer: Arc<Observer>,
    pub(crate) settings: Settings,
    /// The nodes' addresses, in order, without user and password.
    pub(crate) addresses: Vec<Arc<str>>,
    pub(crate) nodes: Vec<Node>,
    /// All nodes are in memory.
    pub(crate) is_embedded: bool,
}

/// Handles and leases are arguments of functions whose calls are logged with all their arguments.
impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.addresses.fmt(f)
    }
}

impl Shared {
    /// Fails in a test that has paused the clock after the node set was made. Programs in production
    /// do not look.
    pub(crate) fn check_clock(&self) -> Result<(), ConfigError> {
        let may_be_a_test = self.is_embedded || cfg!(debug_assertions);
        if may_be_a_test && self.engine.ignores_paused_clock() {
            return Err(ConfigError::of(ConfigProblem::paused_clock()));
        }
        Ok(())
    }
}
