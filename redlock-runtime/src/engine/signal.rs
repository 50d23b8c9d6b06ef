//! Which of the engine's inputs has woken it: sockets are looked at when one of them has, and not for
//! every command of a caller.

use std::{
    sync::{Arc, atomic::Ordering},
    task::{Wake, Waker},
};

#[cfg(shuttle)]
use shuttle::sync::atomic::AtomicBool;
#[cfg(not(shuttle))]
use std::sync::atomic::AtomicBool;

use futures_util::task::AtomicWaker;

/// Wakes the engine, and remembers that it did.
#[derive(Debug, Default)]
pub(super) struct Signal {
    was_given: AtomicBool,
    engine: AtomicWaker,
}

impl Signal {
    /// `engine` is woken when the signal is given, or for something else.
    pub(super) fn register(&self, engine: &Waker) {
        self.engine.register(engine);
    }

    /// Wakes the engine for something else.
    pub(super) fn wake_engine(&self) {
        self.engine.wake();
    }

    /// True if it has been given since it was taken last.
    pub(super) fn is_given(&self) -> bool {
        self.was_given.load(Ordering::Acquire)
    }

    /// Whether it was given, and takes it back.
    pub(super) fn take(&self) -> bool {
        // In one step: a signal that comes meanwhile is not lost.
        self.was_given.swap(false, Ordering::AcqRel)
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Before the engine is woken: it looks at this when it wakes.
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
        signal.register(&Waker::from(Arc::clone(&engine)));
        assert!(!signal.is_given() && !signal.take());
        Waker::from(Arc::clone(&signal)).wake();
        assert!(engine.take());
        assert!(signal.is_given() && signal.take());
        assert!(!signal.is_given() && !signal.take());
    }
}
