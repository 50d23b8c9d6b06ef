//! What a test may assert of the locks of its node set.

use std::fmt::{self, Write as _};

use super::test_redlock::TestRedlock;

impl TestRedlock {
    /// Returns once this lock is held on this node set: see [`is_locked`](Self::is_locked). For what
    /// befalls it in the middle of a body.
    ///
    /// ```
    /// # use redlock_runtime::{LockError, Redlock};
    /// # use std::future::pending;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let redlock = Redlock::test();
    /// let body = async |_| pending::<()>().await;
    /// let hold = redlock.lock("report").hold(body);
    /// let strike = async {
    ///     redlock.until_locked("report").await;
    ///     redlock.expire_lease("report");
    /// };
    /// let (outcome, ()) = tokio::join!(hold, strike);
    /// assert!(matches!(outcome, Err(LockError::Expired(_))));
    /// # }
    /// ```
    ///
    /// # Cancellation
    /// Cancel-safe.
    pub async fn until_locked(&self, key: &str) {
        if let Some(journal) = self.journal() {
            journal.when(|| self.is_locked(key)).await;
        }
    }

    /// Asserts that these keys were locked, in this order and no others: what
    /// [`locked`](Self::locked) returns.
    ///
    /// # Panics
    /// With the history, if others were.
    #[track_caller]
    pub fn assert_locked<I>(&self, keys: I)
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let expected: Vec<String> = keys.into_iter().map(|key| key.as_ref().into()).collect();
        let locked = self.locked();
        if locked != expected {
            self.fail(&format_args!(
                "expected locks: {}\n  actual locks: {}",
                list(&expected),
                list(&locked)
            ));
        }
    }

    /// Asserts how often a key was locked.
    ///
    /// # Panics
    /// With the history, if it was not so often.
    #[track_caller]
    pub fn assert_lock_count(&self, key: &str, count: usize) {
        let actual = self.locked().iter().filter(|locked| *locked == key).count();
        if actual != count {
            self.fail(&format_args!(
                "`{key}` was locked {}, expected {}",
                times(actual),
                times(count)
            ));
        }
    }

    /// Asserts that a lock is held on this node set now: see [`is_locked`](Self::is_locked).
    ///
    /// # Panics
    /// With the history, if it is not.
    #[track_caller]
    pub fn assert_held(&self, key: &str) {
        if !self.is_locked(key) {
            self.fail(&format_args!("`{key}` is not held"));
        }
    }

    /// Asserts that a lock is not held on this node set now: see [`is_locked`](Self::is_locked).
    ///
    /// # Panics
    /// With the history, if it is.
    #[track_caller]
    pub fn assert_not_held(&self, key: &str) {
        if self.is_locked(key) {
            self.fail(&format_args!("`{key}` is held"));
        }
    }

    #[track_caller]
    fn fail(&self, what: &fmt::Arguments<'_>) -> ! {
        let mut text = format!("{what}\n  history:");
        let history = self.history();
        if history.is_empty() {
            text.push_str(" no lock was asked for on this node set");
        }
        for acquisition in history {
            // Cannot fail.
            let _ = write!(text, "\n    {acquisition}");
        }
        panic!("{text}");
    }
}

fn list(keys: &[String]) -> String {
    match keys {
        [] => "none".to_owned(),
        keys => format!("`{}`", keys.join("`, `")),
    }
}

fn times(count: usize) -> String {
    match count {
        0 => "never".to_owned(),
        1 => "once".to_owned(),
        count => format!("{count} times"),
    }
}
