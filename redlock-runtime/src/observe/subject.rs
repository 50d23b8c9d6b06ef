//! Whom a report is about.

use std::sync::Arc;

/// What a section is called.
#[derive(Debug, Default)]
pub(crate) struct Subject {
    /// Of the annotated function, if it is one.
    pub(crate) name: Option<&'static str>,
    /// What errors name: the key, or all keys.
    pub(crate) key: Arc<str>,
}
