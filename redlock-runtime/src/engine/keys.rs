//! What a section locks.

use std::sync::Arc;

/// What is locked, at least one.
#[derive(Clone, Debug)]
pub(crate) enum Keys {
    One(Arc<str>),
    /// All or none.
    All(Arc<[Arc<str>]>),
    /// One of so many permits.
    Permit(Arc<str>, u32),
}

impl Keys {
    pub(crate) fn as_slice(&self) -> &[Arc<str>] {
        match self {
            Self::One(key) | Self::Permit(key, _) => std::slice::from_ref(key),
            Self::All(keys) => keys,
        }
    }

    /// Who has the others needs none of these: no key is beside them. One of many permits is none of
    /// fewer.
    pub(crate) fn are_within(&self, others: &Self) -> bool {
        match (self, others) {
            (Self::Permit(key, permits), Self::Permit(other, of)) => key == other && of <= permits,
            (Self::Permit(..), _) | (_, Self::Permit(..)) => false,
            _ => {
                let mut keys = self.as_slice().iter();
                keys.all(|key| others.as_slice().contains(key))
            }
        }
    }

    /// One of them is among these.
    pub(crate) fn meet(&self, others: &Self) -> bool {
        let mut keys = self.as_slice().iter();
        keys.any(|key| others.as_slice().contains(key))
    }
}
