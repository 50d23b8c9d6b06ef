//! The one node set that annotated functions use without naming it.

use std::{
    ops::Deref,
    sync::{Arc, PoisonError, RwLock, mpsc},
    time::Duration,
};

use crate::{
    config::{ConfigError, ConfigProblem},
    redlock::Redlock,
};

static INSTALLED: RwLock<Option<Redlock>> = RwLock::new(None);

/// How long the end of `main` may wait until holders have released and nodes have confirmed.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Keeps the node set installed: hold this value in `main`.
///
/// Dropping it ends the node set: async bodies that still run are cut off at their next `.await`, waiting callers get
/// [`LockError::Stopped`](crate::LockError::Stopped), and all locks are released. The drop waits until the nodes have
/// confirmed, for a second at most. To give bodies time to finish, call [`Redlock::shutdown`] before.
///
/// Tasks on a current-thread runtime of this very thread cannot run meanwhile, so they cannot release their locks: the
/// keys expire by themselves.
#[derive(Debug)]
#[must_use = "dropping it at once un-installs the node set; bind it for the length of `main`"]
pub struct Installed {
    redlock: Redlock,
}

/// Early, before anything is waited for.
pub(crate) fn refuse_second() -> Result<(), ConfigError> {
    match global() {
        Some(_) => Err(ConfigError::of(ConfigProblem::already_installed())),
        None => Ok(()),
    }
}

pub(crate) fn install(redlock: Redlock) -> Result<Installed, ConfigError> {
    let mut installed = INSTALLED.write().unwrap_or_else(PoisonError::into_inner);
    if installed.is_some() {
        return Err(ConfigError::of(ConfigProblem::already_installed()));
    }
    *installed = Some(redlock.clone());
    Ok(Installed { redlock })
}

impl Redlock {
    /// Returns the node set that [`Builder::install`](crate::Builder::install) made the global one, if there is one.
    ///
    /// In tests, with the feature `test-util`, a node set that counts here by `Redlock::scope` or
    /// `Redlock::enter` comes before it.
    #[must_use]
    pub fn installed() -> Option<Self> {
        #[cfg(feature = "test-util")]
        if let Some(current) = crate::current::current() {
            return Some(current);
        }
        global()
    }
}

fn global() -> Option<Redlock> {
    INSTALLED
        .read()
        .unwrap_or_else(PoisonError::into_inner)
        .clone()
}

impl Deref for Installed {
    type Target = Redlock;

    fn deref(&self) -> &Redlock {
        &self.redlock
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        let mut installed = INSTALLED.write().unwrap_or_else(PoisonError::into_inner);
        installed.take_if(|current| Arc::ptr_eq(&current.shared, &self.redlock.shared));
        drop(installed);

        let (done, drained) = mpsc::channel();
        let report = move |left| {
            let _ = done.send(left);
        };
        let engine = &self.redlock.shared.engine;
        let told = engine.shutdown(FLUSH_TIMEOUT, true, report);
        if told.is_ok() && engine.works_while_this_thread_waits() {
            // An engine that dies drops the sender, which ends the wait.
            let _ = drained.recv_timeout(FLUSH_TIMEOUT * 2);
        }
    }
}
