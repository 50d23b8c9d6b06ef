//! The node set of a thread or of a future, in place of the installed one: what keeps the tests of
//! one process apart.

use std::{cell::RefCell, future::poll_fn, marker::PhantomData, pin::pin, sync::Arc};

use crate::redlock::Redlock;

thread_local! {
    static HERE: RefCell<Here> = const { RefCell::new(Here { entered: Vec::new(), scopes: Vec::new() }) };
}

/// What counts on one thread. The last of each is the innermost.
struct Here {
    /// With what tells two entrances of one node set apart.
    entered: Vec<(Arc<()>, Redlock)>,
    /// Of the futures that are being polled.
    scopes: Vec<Redlock>,
}

/// The node set that counts here: that of the innermost scope, or else the one that was entered last.
pub(crate) fn current() -> Option<Redlock> {
    // Without a value while the thread ends.
    let current = HERE.try_with(|here| {
        let here = here.borrow();
        let entered = here.entered.last().map(|(_, redlock)| redlock);
        here.scopes.last().or(entered).cloned()
    });
    current.ok().flatten()
}

/// A node set that counts on this thread, for as long as this value lives: what
/// [`Redlock::enter`] returns.
///
/// It cannot be sent to another thread.
#[derive(Debug)]
#[must_use = "the node set counts on this thread for as long as this value lives"]
pub struct Entered {
    ticket: Arc<()>,
    on_this_thread: PhantomData<*const ()>,
}

impl Redlock {
    /// Makes annotated functions and [`Redlock::installed`] use this node set on this thread, until
    /// the value is dropped, in place of the one that
    /// [`Builder::install`](crate::Builder::install) has made global. Needs the feature `test-util`.
    ///
    /// The test harness runs each test on a thread of its own. The tasks of a `#[tokio::test]` stay
    /// on that thread, as long as its flavor is not `multi_thread`, so one call at the beginning
    /// covers the test and disturbs no other. For tasks on other threads there is
    /// [`scope`](Self::scope), which comes before what was entered. Of several node sets that were
    /// entered on one thread the last one counts.
    ///
    /// ```
    /// use redlock_runtime::{LockError, Redlock, redis_lock};
    ///
    /// #[redis_lock(key = "stock:{sku}")]
    /// async fn reserve(sku: u64) -> Result<(), LockError> {
    ///     Ok(())
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let redlock = Redlock::test();
    /// let _entered = redlock.enter();
    /// reserve(7).await.unwrap();
    /// # }
    /// ```
    pub fn enter(&self) -> Entered {
        let ticket = Arc::new(());
        let entered = (Arc::clone(&ticket), self.clone());
        HERE.with_borrow_mut(|here| here.entered.push(entered));
        Entered {
            ticket,
            on_this_thread: PhantomData,
        }
    }

    /// Makes annotated functions and [`Redlock::installed`] use this node set while `future` is
    /// polled, on whatever thread. Of nested scopes the innermost counts. A task that `future` spawns
    /// is outside of it and needs a scope of its own. Needs the feature `test-util`.
    ///
    /// ```
    /// # use redlock_runtime::{LockError, Redlock, redis_lock};
    /// # #[redis_lock(key = "stock:{sku}")]
    /// # async fn reserve(sku: u64) -> Result<(), LockError> {
    /// #     Ok(())
    /// # }
    /// # #[tokio::main]
    /// # async fn main() {
    /// let redlock = Redlock::test();
    /// let task = tokio::spawn(redlock.scope(reserve(7)));
    /// task.await.unwrap().unwrap();
    /// # }
    /// ```
    ///
    /// # Cancellation
    /// As `future` itself.
    pub fn scope<F: Future>(&self, future: F) -> impl Future<Output = F::Output> + use<F> {
        let redlock = self.clone();
        async move {
            let mut future = pin!(future);
            poll_fn(|context| {
                HERE.with_borrow_mut(|here| here.scopes.push(redlock.clone()));
                let _left = Polled;
                future.as_mut().poll(context)
            })
            .await
        }
    }
}

/// The end of a poll, also by a panic.
struct Polled;

impl Drop for Polled {
    fn drop(&mut self) {
        let left = HERE.with_borrow_mut(|here| here.scopes.pop());
        // Outside of the borrow: it may be the last handle.
        drop(left);
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let left = HERE.try_with(|here| {
            let entered = &mut here.borrow_mut().entered;
            let at = entered
                .iter()
                .position(|(ticket, _)| Arc::ptr_eq(ticket, &self.ticket));
            at.map(|at| entered.remove(at))
        });
        drop(left);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::AssertUnwindSafe;

    use futures_util::FutureExt;

    use super::*;

    fn counts(redlock: Option<&Redlock>) -> bool {
        let shared = |redlock: &Redlock| Arc::as_ptr(&redlock.shared);
        current().as_ref().map(shared) == redlock.map(shared)
    }

    #[tokio::test]
    async fn the_innermost_scope_counts_and_then_what_was_entered_last() {
        let [a, b, c] = [(); 3].map(|()| Redlock::test());
        assert!(counts(None));
        let entered_a = a.enter();
        let entered_b = b.enter();
        assert!(counts(Some(&b)));
        let inner = async {
            assert!(counts(Some(&c)));
            let _entered = b.enter();
            a.scope(async { assert!(counts(Some(&a))) }).await;
            assert!(counts(Some(&c)));
            tokio::task::yield_now().await;
            assert!(counts(Some(&c)));
        };
        c.scope(inner).await;
        assert!(counts(Some(&b)));
        // In whatever order.
        drop(entered_a);
        assert!(counts(Some(&b)));
        drop(entered_b);
        assert!(counts(None));
    }

    #[tokio::test]
    async fn a_scope_ends_with_each_poll_also_by_a_panic() {
        let redlock = Redlock::test();
        let mut pending = pin!(redlock.scope(tokio::task::yield_now()));
        assert!(pending.as_mut().now_or_never().is_none());
        assert!(counts(None));
        let panics = redlock.scope(async { panic!("of the test") });
        let panics = AssertUnwindSafe(panics).catch_unwind().await;
        assert!(panics.is_err());
        assert!(counts(None));
    }

    #[test]
    fn without_a_node_set_the_error_names_what_tests_use() {
        let error = crate::error::LockError::not_installed("k".into(), None);
        assert!(error.to_string().contains("`Redlock::test()`"), "{error}");
    }
}
