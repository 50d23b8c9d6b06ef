//! What callers are told, once the driver is free again.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use redlock_protocol::{NodeState, Refusal, Release, Verdict};
use tokio::sync::{oneshot, watch};

use super::status::{Seen, Status};

/// Who asks for a lock, and what came of it.
pub(super) type Acquiring = oneshot::Sender<Result<(), Refusal>>;

/// Who asks for a longer lease, and what came of it.
pub(super) type Extending = oneshot::Sender<Result<(), Vec<Verdict>>>;

/// Whose waker, or what destructor, is to run.
#[derive(Debug)]
pub(super) enum Delivery {
    Acquired(Acquiring, Result<(), Refusal>),
    Extended(Extending, Result<(), Vec<Verdict>>),
    Released(oneshot::Sender<Release>, Release),
    Seen(oneshot::Sender<Vec<Seen>>, Vec<Seen>),
    /// There is no answer.
    Unheard(Option<Acquiring>, Vec<Extending>),
    /// A lease is over.
    Over(Arc<Status>),
    /// A node's state has changed.
    Nodes(watch::Sender<Vec<Option<NodeState>>>),
}

/// Wakers are code of others: one that panics harms neither the engine nor the caller that works for it.
pub(super) fn deliver(deliveries: Vec<Delivery>) {
    for delivery in deliveries {
        let _ = catch_unwind(AssertUnwindSafe(|| delivery.deliver()));
    }
}

impl Delivery {
    fn deliver(self) {
        match self {
            Self::Acquired(acquiring, result) => drop(acquiring.send(result)),
            Self::Extended(extending, result) => drop(extending.send(result)),
            Self::Released(releasing, release) => drop(releasing.send(release)),
            Self::Seen(looking, seen) => drop(looking.send(seen)),
            Self::Unheard(acquiring, extending) => drop((acquiring, extending)),
            Self::Over(status) => status.tell_end(),
            Self::Nodes(states) => states.send_modify(|_| ()),
        }
    }
}
