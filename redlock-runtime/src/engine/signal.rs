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
    /// Something may have come to the sockets that belong to no runtime.
    has_come: AtomicBool,
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

    /// Wakes nobody: who calls this works next, or another does.
    pub(super) fn come(&self) {
        self.has_come.store(true, Ordering::Release);
    }

    /// True if one of both has been given since it was taken last.
    pub(super) fn is_given(&self) -> bool {
        self.was_given.load(Ordering::Acquire) || self.has_come.load(Ordering::Acquire)
    }

    /// Whether it was given, and whether something has come, and takes both back.
    pub(super) fn take(&self) -> (bool, bool) {
        // In one step: a signal that comes meanwhile is not lost.
        let take =
            |flag: &AtomicBool| flag.load(Ordering::Acquire) && flag.swap(false, Ordering::AcqRel);
        (take(&self.was_given), take(&self.has_come))
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
        assert!(!signal.is_given());
        assert_eq!(signal.take(), (false, false));
        Waker::from(Arc::clone(&signal)).wake();
        assert_eq!(engine.take(), (true, false));
        assert!(signal.is_given());
        assert_eq!(signal.take(), (true, false));
        signal.come();
        assert_eq!(engine.take(), (false, false), "it is not woken");
        assert!(signal.is_given());
        assert_eq!(signal.take(), (false, true));
        assert!(!signal.is_given());
    }
}
