//! What a section locks.

use std::sync::Arc;

/// What is locked, at least one.
#[derive(Clone, Debug)]
pub(crate) enum Keys {
    One(Arc<str>),
    /// In a box, since each section has this.
    Other(Arc<Other>),
}

#[derive(Clone, Debug)]
pub(crate) enum Other {
    /// All or none.
    All(Vec<Arc<str>>),
    /// One of this number of permits.
    Permit(Arc<str>, u32),
}

impl Keys {
    /// Each of them once. Of one key, too, the rules are those of several: how many there are may be known at
    /// run time only.
    pub(crate) fn all(keys: impl IntoIterator<Item = Arc<str>>) -> Self {
        let mut once: Vec<Arc<str>> = Vec::new();
        for key in keys {
            if !once.contains(&key) {
                once.push(key);
            }
        }
        Self::Other(Other::All(once).into())
    }

    pub(crate) fn put_before(&mut self, prefix: &str) {
        if prefix.is_empty() {
            return;
        }
        let prefixed = |key: &Arc<str>| Arc::from(format!("{prefix}{key}"));
        match self {
            Self::One(key) => *key = prefixed(key),
            Self::Other(other) => match Arc::make_mut(other) {
                Other::All(keys) => *keys = keys.iter().map(prefixed).collect(),
                Other::Permit(key, _) => *key = prefixed(key),
            },
        }
    }

    /// What errors name.
    pub(crate) fn text(&self) -> Arc<str> {
        match self.as_slice() {
            [only] => Arc::clone(only),
            keys => keys.join(", ").into(),
        }
    }

    pub(crate) fn as_slice(&self) -> &[Arc<str>] {
        match self {
            Self::One(key) => std::slice::from_ref(key),
            Self::Other(other) => match &**other {
                Other::All(keys) => keys,
                Other::Permit(key, _) => std::slice::from_ref(key),
            },
        }
    }

    /// All or none of them.
    pub(crate) fn are_several(&self) -> bool {
        matches!(self, Self::Other(other) if matches!(**other, Other::All(_)))
    }

    /// Who has the others needs none of these: no key is beside them. One of many permits is none of
    /// fewer.
    pub(crate) fn are_within(&self, others: &Self) -> bool {
        let is_as_many = self.permits() >= others.permits();
        let mut keys = self.as_slice().iter();
        is_as_many
            && self.are_of_one_kind(others)
            && keys.all(|key| others.as_slice().contains(key))
    }

    pub(crate) fn permits(&self) -> Option<u32> {
        match self {
            Self::Other(other) => match **other {
                Other::Permit(_, permits) => Some(permits),
                Other::All(_) => None,
            },
            Self::One(_) => None,
        }
    }

    /// One of them is among these. The permits of a key are another lock than the key.
    pub(crate) fn meet(&self, others: &Self) -> bool {
        let mut keys = self.as_slice().iter();
        self.are_of_one_kind(others) && keys.any(|key| others.as_slice().contains(key))
    }

    fn are_of_one_kind(&self, others: &Self) -> bool {
        self.permits().is_some() == others.permits().is_some()
    }
}
