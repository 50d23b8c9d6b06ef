//! The node without Redis: for trying things out, and for users' unit tests.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, SystemTime},
};

use redlock_protocol::{
    Facts, Instant, Owner, Reply, Request,
    model::{Key, Model, Moment},
};

/// A store never restarts, so it has forgotten nothing: it votes at once, like a server that has run
/// for so long.
pub(super) const UPTIME: Duration = Duration::from_secs(100 * 365 * 86_400);

/// What `memory://name` means: the same store for the same name, for as long as any node set of
/// this process uses it.
static STORES: LazyLock<Mutex<BTreeMap<String, Weak<Memory>>>> = LazyLock::new(Mutex::default);

/// One node's memory. Answers as the scripts do.
#[derive(Debug)]
pub(crate) struct Memory {
    server: Arc<str>,
    model: Mutex<Model>,
}

impl Memory {
    /// The store of this name.
    pub(crate) fn named(name: &str) -> Arc<Self> {
        let mut stores = STORES.lock().unwrap_or_else(PoisonError::into_inner);
        stores.retain(|_, store| store.strong_count() > 0);
        if let Some(store) = stores.get(name).and_then(Weak::upgrade) {
            return store;
        }
        let server: Arc<str> = format!("memory://{name}").into();
        let store = Arc::new(Self {
            model: Mutex::new(Model::new(Some(Arc::clone(&server)))),
            server,
        });
        stores.insert(name.to_owned(), Arc::downgrade(&store));
        store
    }

    /// What a server would tell of itself.
    pub(crate) fn facts(&self) -> Facts {
        Facts {
            server: Some(Arc::clone(&self.server)),
            uptime: Some(UPTIME),
            ..Facts::default()
        }
    }

    /// Carries out a request. Keys expire by the engine's clock; tokens grow with the wall clock, so
    /// that those of a later store are larger.
    pub(crate) fn run(&self, request: &Request, now: Instant) -> Reply {
        let mut reply = self.model().run(request, moment(now));
        if let Reply::Record(record) = &mut reply {
            // Node sets of one process may differ in it, because a store never has to stay out.
            record.max_ttl = None;
        }
        reply
    }

    pub(super) fn model(&self) -> MutexGuard<'_, Model> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What stands under a key of a store in memory.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    pub(crate) is_shared: bool,
    /// For each owner its part.
    pub(crate) parts: Vec<Key>,
    /// What the owner says beside it.
    pub(crate) note: Option<Arc<str>>,
}

pub(super) fn parts(model: &Model, key: &str, now: Instant) -> Parts {
    let stands = model.key(key, now);
    let is_shared = stands.is_some_and(|key| key.owner == Some(Owner::READERS));
    let mut parts = model.parts(key, now);
    parts.retain(|part| part.lives(now));
    let note = model.note(key, now).cloned();
    Parts {
        is_shared,
        parts,
        note,
    }
}

/// This moment by the wall clock, and `now` by the engine's.
pub(super) fn moment(now: Instant) -> Moment {
    let since_1970 = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    Moment {
        now,
        wall_micros: u64::try_from(since_1970.as_micros()).unwrap_or(u64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use redlock_protocol::{AdmissionId, Evidence, LossId, Record, Token};

    use super::*;

    #[test]
    fn a_name_means_one_store_for_as_long_as_it_is_used() {
        let first = Memory::named("memory-unit-test");
        assert!(Arc::ptr_eq(&first, &Memory::named("memory-unit-test")));
        assert!(!Arc::ptr_eq(&first, &Memory::named("memory-unit-test-2")));
        drop(first);
        let again = Memory::named("memory-unit-test");
        assert_eq!(Arc::strong_count(&again), 1);
    }

    #[test]
    fn a_store_is_let_in_at_once_by_its_facts() {
        let store = Memory::named("memory-unit-test-3");
        let now = Instant::from_nanos(0);
        let max_ttl = Duration::from_secs(60);
        let facts = store.facts();
        let loss = LossId(1);
        let report = Request::ReportLoss {
            server: facts.server.clone(),
            loss,
            beside_marker: false,
            max_ttl,
        };
        let Reply::Record(Record {
            loss: Some(noted), ..
        }) = store.run(&report, now)
        else {
            panic!("no loss is noted")
        };
        assert!(noted.is_unflushed && facts.uptime.unwrap() > 1_000 * max_ttl);
        let wait = Duration::ZERO;
        let admission = AdmissionId(2);
        let admit = Request::Admit {
            server: facts.server,
            evidence: Evidence::FirstStart { loss, wait },
            admission,
            floor: Token(0),
            wall_micros: 0,
            is_durable: false,
            max_ttl,
        };
        assert_eq!(store.run(&admit, now), Reply::Admitted { admission });
    }
}
