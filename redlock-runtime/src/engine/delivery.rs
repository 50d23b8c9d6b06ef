//! What callers are told, once the driver is free again: wakers and destructors of theirs run then, and subscribers.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use crate::{observe::Observer, status::Status};

pub(super) enum Delivery {
    /// A question for a lock has an answer. In no box, because there is one for each section.
    Answered(Arc<Status>),
    Other(Box<dyn FnOnce(&Observer) + Send>),
}

/// Wakers are code of others: one that panics harms neither the engine nor the caller that works for it.
pub(super) fn deliver(deliveries: Vec<Delivery>, observer: &Observer) {
    for delivery in deliveries {
        // Each by itself, so that the others are delivered, too.
        let _ = catch_unwind(AssertUnwindSafe(|| match delivery {
            Delivery::Answered(status) => status.tell_caller(),
            Delivery::Other(tell) => tell(observer),
        }));
    }
}
