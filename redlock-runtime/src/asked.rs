//! A lock that was asked for.

use std::{sync::Arc, time::Duration};

use redlock_protocol::SectionId;

use crate::{
    engine::Engine,
    error::{LockError, Report},
    node_set::Shared,
    observe::Course,
    status::Status,
};

/// What a section and its views know of their lease.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) shared: Arc<Shared>,
    /// What the section is itself.
    pub(crate) own: Arc<Status>,
    /// The lease is that of this section around it, which ends it.
    pub(crate) around: Option<Arc<Status>>,
}

impl Asked {
    /// That of the lease.
    pub(crate) fn status(&self) -> &Arc<Status> {
        self.around.as_ref().unwrap_or(&self.own)
    }

    pub(crate) const fn is_joined(&self) -> bool {
        self.around.is_some()
    }

    pub(crate) fn remaining(&self) -> Duration {
        self.status().remaining(self.shared.engine.now())
    }

    /// The error for a lease that is over.
    pub(crate) fn over_error(&self) -> LockError {
        match self.status().loss() {
            None if self.status().is_released() => LockError::Released(self.report()),
            loss => LockError::over(loss, self.report(), &self.shared.addresses),
        }
    }

    /// Lets go of the lease, and tells the engine.
    pub(crate) fn end<T>(
        &self,
        course: &mut Course,
        tell: impl FnOnce(&Engine, SectionId) -> T,
    ) -> T {
        let Shared {
            engine, observer, ..
        } = &*self.shared;
        let ended = course
            .is_open()
            .then(|| observer.ends(&self.own, engine.now()));
        self.own.release();
        let told = tell(engine, self.own.section);
        // Only now that the release is on its way, because subscribers are code of others.
        if let Some(ended) = ended {
            observer.ended(course, &self.own, ended);
        }
        told
    }

    /// The circumstances of an error.
    pub(crate) fn report(&self) -> Report {
        self.report_of(Arc::clone(self.own.key()))
    }

    pub(crate) fn report_of(&self, key: Arc<str>) -> Report {
        let elapsed = self.shared.engine.now().since(self.own.since);
        Report::new(self.own.name, key, elapsed)
    }
}
