//! A value that threads change and others wait on: the one way in which this harness waits.

use std::{
    fmt::Debug,
    panic::{Location, resume_unwind},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// How long any wait of the harness lasts before it fails the test.
///
/// It bounds the time of a failing run only. It is generous because the machine may be busy.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A shared value whose changes can be waited for.
#[derive(Debug)]
pub(crate) struct Board<T>(Arc<Shared<T>>);

impl<T> Board<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Arc::new(Shared {
            value: Mutex::new(value),
            changed: Condvar::new(),
        }))
    }

    /// Changes the value and wakes those who wait.
    pub(crate) fn update<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let result = change(&mut self.lock());
        self.0.changed.notify_all();
        result
    }

    pub(crate) fn read<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        look(&self.lock())
    }

    /// Blocks until `check` finds what it looks for. `check` may take things out of the value.
    #[track_caller]
    pub(crate) fn wait<R>(&self, what: &str, check: impl FnMut(&mut T) -> Option<R>) -> R
    where
        T: Debug,
    {
        self.wait_for(what, Location::caller(), check)
    }

    /// [`Board::wait`] as a future.
    #[track_caller]
    pub(crate) fn wait_async<R, F>(
        &self,
        what: String,
        check: F,
    ) -> impl Future<Output = R> + Send + use<T, R, F>
    where
        T: Debug + Send + 'static,
        R: Send + 'static,
        F: FnMut(&mut T) -> Option<R> + Send + 'static,
    {
        let caller = Location::caller();
        let board = self.clone();
        off_thread(move || board.wait_for(&what, caller, check))
    }

    /// Blocks until `check` finds what it looks for, or until `deadline`.
    pub(crate) fn wait_until<R>(
        &self,
        deadline: Instant,
        mut check: impl FnMut(&mut T) -> Option<R>,
    ) -> Result<R, TimedOut> {
        let mut value = self.lock();
        loop {
            if let Some(found) = check(&mut value) {
                return Ok(found);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(TimedOut);
            }
            (value, _) = self
                .0
                .changed
                .wait_timeout(value, left)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn wait_for<R>(
        &self,
        what: &str,
        caller: &Location<'_>,
        check: impl FnMut(&mut T) -> Option<R>,
    ) -> R
    where
        T: Debug,
    {
        match self.wait_until(Instant::now() + PATIENCE, check) {
            Ok(found) => found,
            Err(TimedOut) => panic!(
                "{caller}: waited {PATIENCE:?} in vain for {what}; the last state was {:#?}",
                *self.lock()
            ),
        }
    }

    fn lock(&self) -> MutexGuard<'_, T> {
        // A failed assertion elsewhere must not hide itself behind a poisoned lock.
        self.0.value.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Clone for Board<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// The deadline has passed.
pub(crate) struct TimedOut;

/// Runs `work` where it may block, and hands its panic on to the caller.
pub(crate) async fn off_thread<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> R {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            Err(error) => panic!("the runtime of the test is gone: {error}"),
        },
    }
}

#[derive(Debug)]
struct Shared<T> {
    value: Mutex<T>,
    changed: Condvar,
}
