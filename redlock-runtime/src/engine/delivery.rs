//! What callers are told, once the driver is free again.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use redlock_protocol::{Instant, NodeState, Release, Verdict};
use tokio::sync::{oneshot, watch};

use crate::{observe::Observer, status::Status};

/// Who asks for a longer lease, and what came of it.
pub(super) type Extending = oneshot::Sender<Result<(), Vec<Verdict>>>;

/// Whose waker, or what destructor, is to run.
#[derive(Debug)]
pub(super) enum Delivery {
    /// A question for a lock has an answer.
    Answered(Arc<Status>),
    Extended(Extending, Result<(), Vec<Verdict>>),
    Released(oneshot::Sender<Release>, Release),
    Seen(oneshot::Sender<Vec<Arc<Status>>>, Vec<Arc<Status>>),
    /// There is no answer.
    Unheard(Vec<Extending>),
    /// A lease is over.
    Over(Arc<Status>, Instant),
    /// A caller may wait for its own guard.
    SelfWait(Arc<Status>, Instant),
    /// A lease was extended; with little left of it, if it was late.
    Renewed(Arc<Status>, Option<Duration>),
    /// The states of the nodes, how long they took to reply last, and how many locks do not stand on all of them.
    Nodes(
        watch::Sender<Vec<Option<NodeState>>>,
        (Vec<Option<Duration>>, usize),
        Instant,
    ),
}

/// Wakers are code of others: one that panics harms neither the engine nor the caller that works for it.
pub(super) fn deliver(deliveries: Vec<Delivery>, observer: &Observer) {
    for delivery in deliveries {
        // Each by itself, so that the others are delivered, too.
        let _ = catch_unwind(AssertUnwindSafe(|| delivery.deliver(observer)));
    }
}

impl Delivery {
    fn deliver(self, observer: &Observer) {
        match self {
            Self::Answered(status) => status.tell_caller(),
            Self::Extended(extending, result) => drop(extending.send(result)),
            Self::Released(releasing, release) => drop(releasing.send(release)),
            Self::Seen(looking, seen) => drop(looking.send(seen)),
            Self::Unheard(extending) => drop(extending),
            Self::Over(status, now) => {
                // First the holder, whose body must stop; then the log.
                status.tell_end();
                if let Some(loss) = status.loss()
                    && status.is_over_now()
                {
                    observer.over(&status, loss.into(), now);
                }
            }
            Self::SelfWait(status, now) => observer.self_wait(&status, now),
            Self::Renewed(status, late) => observer.renewed(&status, late),
            Self::Nodes(states, (round_trips, under_replicated), now) => {
                // The driver has written them already; this is the notice.
                states.send_modify(|_| ());
                let states = || states.borrow().clone();
                observer.nodes_are(states, (&round_trips, under_replicated), now);
            }
        }
    }
}
