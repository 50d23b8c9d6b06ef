//! Under which leases the code runs that runs now: a section that asks for a lock which its own
//! task holds would wait for itself.
//!
//! The leases are entered for each poll of a body and left after it, so a task that moves to another
//! thread takes them along, and no other task is under them.

use std::{cell::RefCell, sync::Arc};

use tokio::task::{self, Id};

use crate::{asked::Asked, keys::Keys, node_set::Shared};

thread_local! {
    /// The leases of the bodies that are polled on this thread, one within the other, and the tasks
    /// that poll them. It keeps its memory, so entering a lease allocates nothing.
    static ENTERED: RefCell<Vec<(Option<Id>, Asked)>> = const { RefCell::new(Vec::new()) };
}

/// The innermost lease on any of these keys that the running code of this task is under, unless its holder has
/// let go.
pub(crate) fn find(shared: &Arc<Shared>, keys: &Keys) -> Option<Asked> {
    let find = |entered: &RefCell<Vec<_>>| {
        let entered = entered.borrow();
        if entered.is_empty() {
            return None;
        }
        let task = task::try_id();
        let is_it = |(entered_by, lease): &&(Option<Id>, Asked)| {
            // A `LocalSet` that a body drives polls other tasks within the poll of that body.
            *entered_by == task
                && Arc::ptr_eq(&lease.shared, shared)
                && keys.meet(&lease.own.keys)
                && !lease.status().is_released()
        };
        entered.iter().rev().find(is_it).map(|(_, it)| it.clone())
    };
    // A thread that ends has no such memory any more.
    ENTERED.try_with(find).ok().flatten()
}

/// Runs `code` under the lease, which is back in its place afterwards, also after a panic.
pub(crate) fn within<R>(lease: &mut Option<Asked>, code: impl FnOnce() -> R) -> R {
    let _entered = Entered::new(lease);
    code()
}

struct Entered<'a> {
    place: &'a mut Option<Asked>,
    is_entered: bool,
}

impl<'a> Entered<'a> {
    fn new(place: &'a mut Option<Asked>) -> Self {
        let enter = |entered: &RefCell<Vec<_>>| {
            let lease = place.take().map(|lease| (task::try_id(), lease));
            let is_entered = lease.is_some();
            entered.borrow_mut().extend(lease);
            is_entered
        };
        let is_entered = ENTERED.try_with(enter).unwrap_or(false);
        Self { place, is_entered }
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        if self.is_entered {
            let left = ENTERED.try_with(|entered| entered.borrow_mut().pop());
            *self.place = left.ok().flatten().map(|(_, lease)| lease);
        }
    }
}
