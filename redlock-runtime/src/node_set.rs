//! What all handles on a node set, and all its locks, share.

use std::sync::Arc;

use crate::{config::Settings, engine::Engine};

/// One node set: its engine, and what was configured.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) engine: Engine,
    pub(crate) settings: Settings,
    /// The nodes' addresses, in order, without user and password.
    pub(crate) addresses: Vec<Arc<str>>,
    /// All nodes are in memory.
    pub(crate) is_embedded: bool,
}
