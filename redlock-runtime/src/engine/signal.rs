//! Which of the engine's inputs has woken it: sockets are looked at when one of them has, and not for
//! every command of a caller.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Wake, Waker},
};

use futures_util::task::AtomicWaker;

/// Wakes the engine, and remembers that it did.
#[derive(Debug, Default)]
pub(super) struct Signal {
    was_given: AtomicBool,
    engine: AtomicWaker,
}

impl Signal {
    /// True if it has been given since this was asked last. `engine` is woken when it is given again.
    pub(super) fn take(&self, engine: &Waker) -> bool {
        // Registered before the look, so that a signal in between is not missed.
        self.engine.register(engine);
        self.was_given.swap(false, Ordering::AcqRel)
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.was_given.store(true, Ordering::Release);
        self.engine.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_taken_once_and_wakes_the_engine() {
        let engine = Arc::new(Signal::default());
        let signal = Arc::new(Signal::default());
        assert!(!signal.take(&Waker::from(Arc::clone(&engine))));
        Waker::from(Arc::clone(&signal)).wake();
        assert!(engine.take(Waker::noop()));
        assert!(signal.take(Waker::noop()));
        assert!(!signal.take(Waker::noop()));
    }
}
