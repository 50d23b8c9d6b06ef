//! Whom a report is about.

use std::sync::Arc;
#[cfg(feature = "tracing")]
use std::sync::atomic::{AtomicBool, Ordering};

/// What a section is called.
#[derive(Debug, Default)]
pub(crate) struct Subject {
    /// Of the annotated function, if it is one.
    pub(crate) name: Option<&'static str>,
    /// What errors name: the key, or all keys.
    pub(crate) key: Arc<str>,
    /// The end of its lease under its holder has been reported.
    #[cfg(feature = "tracing")]
    is_over: AtomicBool,
}

impl Subject {
    pub(crate) fn new(name: Option<&'static str>, key: Arc<str>) -> Self {
        Self {
            name,
            key,
            #[cfg(feature = "tracing")]
            is_over: AtomicBool::default(),
        }
    }

    /// True for the first report of its end.
    #[cfg(feature = "tracing")]
    pub(super) fn is_over_now(&self) -> bool {
        !self.is_over.swap(true, Ordering::Relaxed)
    }
}
