//! What keys ask nodes for, as both know it: names of keys and of rounds, and the purpose of a request.

use crate::message::Owner;

/// A key while anything is known of it. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct KeyId(pub(crate) u64);

/// One round. Never reused, and larger than all before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RoundId(pub(crate) u64);

/// What a request of a key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// A vote to grant the key.
    Acquire(RoundId, Owner),
    /// A vote to let it live for longer.
    Extend(RoundId, Owner),
    /// The key on one more node.
    PutBack(Owner),
    /// Whether this owner's key is still there.
    Watch(Owner),
    /// Whether another's is gone.
    Await,
    /// A free slot, and a place in the queue.
    Stand(RoundId),
    /// The end.
    Release(Owner),
}

impl Ask {
    /// The owner in this process that asks.
    pub(crate) const fn owner(self) -> Option<Owner> {
        match self {
            Self::Acquire(_, owner)
            | Self::Extend(_, owner)
            | Self::PutBack(owner)
            | Self::Watch(owner)
            | Self::Release(owner) => Some(owner),
            Self::Await | Self::Stand(_) => None,
        }
    }
}
