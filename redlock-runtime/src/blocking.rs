//! Waiting on a thread instead of in a task, and where that is not allowed.

use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
};

use tokio::{runtime::Handle, task::coop};

use crate::config::{ConfigError, ConfigProblem, ProblemKind};

/// Fails in a task, and if what is waited for may have no other thread than this one.
pub(crate) fn refuse(needs_this_thread: bool) -> Result<(), ConfigError> {
    let (fact, remedy) = if is_polled() {
        (
            "waiting for a lock would block a thread of the async runtime",
            "call blocking code by `spawn_blocking`, or await the lock",
        )
    } else if needs_this_thread {
        (
            "waiting for a lock could block the only thread of the runtime that the node set works on",
            "await the lock, or test in a runtime of several threads",
        )
    } else {
        return Ok(());
    };
    let problem = ConfigProblem::new(ProblemKind::BlocksRuntime, "", fact, remedy);
    Err(ConfigError::of(problem))
}

/// Whether a tokio runtime polls a task on this thread, and the code that runs is part of that.
///
/// Tokio tells only by a panic. But it gives a budget of operations to each poll of a task, and of the
/// future in `block_on`, and none to other code: not to `spawn_blocking`, `block_in_place`, or threads
/// that have entered a runtime. What is used up here is missed only by a task that is refused anyway:
/// at its next operation, it lets others run.
pub(crate) fn is_polled() -> bool {
    if Handle::try_current().is_err() {
        return false;
    }
    let mut context = Context::from_waker(Waker::noop());
    let mut is_refused = || {
        let operation = pin!(coop::consume_budget());
        operation.poll(&mut context).is_pending()
    };
    // More than any budget.
    (0..=u8::MAX).any(|_| is_refused())
}

/// Polls `future` on this thread, which sleeps in between.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        thread::park();
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
