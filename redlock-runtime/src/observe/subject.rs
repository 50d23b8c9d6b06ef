//! Whom a report is about.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// What a section is called.
#[derive(Debug, Default)]
pub(crate) struct Subject {
    pub(super) name: Option<&'static str>,
    pub(super) key: Arc<str>,
    /// The end of its lease under its holder has been reported.
    is_over: AtomicBool,
}

impl Subject {
    pub(crate) fn new(name: Option<&'static str>, key: &Arc<str>) -> Self {
        Self {
            name,
            key: Arc::clone(key),
            is_over: AtomicBool::new(false),
        }
    }

    /// True for the first report of its end.
    pub(super) fn is_over_now(&self) -> bool {
        !self.is_over.swap(true, Ordering::Relaxed)
    }
}
