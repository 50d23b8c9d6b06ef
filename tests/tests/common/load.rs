//! Processes that lock all the time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use redlock_runtime::{Builder, Guard, Lock, LockError, NodeState, Redlock, WhyKind};
use redlock_tests::{Server, redis};
use tokio::task::JoinSet;

use super::await_state;

/// A lease whose quarantine a test can wait for.
pub const BRIEF: Duration = Duration::from_millis(500);

/// With such leases.
pub fn brief(urls: &[String]) -> Builder {
    Redlock::builder()
        .nodes(urls)
        .expire(BRIEF)
        .max_lease(BRIEF)
        .guard_band(BRIEF)
}

/// What all sections of a test protect.
#[derive(Default)]
struct Resource {
    inside: AtomicUsize,
    token: AtomicU64,
}

impl Resource {
    /// One section: looks whether it is alone, and later than all before it.
    async fn visit(&self, guard: &Guard) {
        assert_eq!(self.inside.fetch_add(1, SeqCst), 0, "two have the lock");
        let token = guard.fencing_token().unwrap().get();
        tokio::task::yield_now().await;
        let was_held = guard.is_held();
        assert_eq!(self.inside.fetch_sub(1, SeqCst), 1, "two have the lock");
        let last = self.token.fetch_max(token, SeqCst);
        assert!(!was_held || token > last, "{token} after {last}");
    }
}

/// Sections that exclude each other, and look whether they do.
pub struct Load {
    tasks: JoinSet<Vec<LockError>>,
    wait: Duration,
    resource: Arc<Resource>,
    sections: Arc<AtomicUsize>,
    is_over: Arc<AtomicBool>,
}

impl Load {
    /// Of processes that wait so long for each lock.
    pub fn start(redlocks: &[Redlock], wait: Duration) -> Self {
        Self::of(redlocks, wait, Arc::default())
    }

    /// Of another process, on the same lock.
    pub fn beside(&self, redlock: Redlock) -> Self {
        Self::of(&[redlock], self.wait, Arc::clone(&self.resource))
    }

    fn of(redlocks: &[Redlock], wait: Duration, resource: Arc<Resource>) -> Self {
        let mut load = Self {
            tasks: JoinSet::new(),
            wait,
            resource,
            sections: Arc::default(),
            is_over: Arc::default(),
        };
        for redlock in redlocks.iter().flat_map(|redlock| [redlock, redlock]) {
            load.spawn(redlock.lock("load").wait(wait));
        }
        load
    }

    fn spawn(&mut self, lock: Lock) {
        let resource = Arc::clone(&self.resource);
        let (sections, is_over) = (Arc::clone(&self.sections), Arc::clone(&self.is_over));
        self.tasks.spawn(async move {
            let mut refused = Vec::new();
            while !is_over.load(SeqCst) {
                match lock.clone().acquire().await {
                    Ok(guard) => {
                        resource.visit(&guard).await;
                        sections.fetch_add(1, SeqCst);
                        guard.release().await;
                    }
                    Err(error) => refused.push(error),
                }
            }
            refused
        });
    }

    /// Waits until there have been some more.
    pub async fn goes_on(&self) {
        let before = self.sections.load(SeqCst);
        await_state("more sections", || self.sections.load(SeqCst) > before + 20).await;
    }

    /// Why locks were refused.
    pub async fn end(self) -> Vec<LockError> {
        self.is_over.store(true, SeqCst);
        self.tasks.join_all().await.concat()
    }
}

/// Of two clients one reaches the `former` server, and nobody who names a server any more; the other one reaches
/// the next server, which is node 2 of both. They never use both at a time.
pub async fn await_handover([old, new]: [&Redlock; 2], former: &Server) {
    let state = |redlock: &Redlock| redlock.nodes()[2].state().clone();
    let is_handed_over = || matches!(state(new), NodeState::Down { reason: why } if why.kind == WhyKind::HandingOver);
    await_state("a handover", is_handed_over).await;
    assert_eq!(state(old), NodeState::Up, "{}", old.health());
    await_state("the next one", || {
        matches!(state(new), NodeState::Up | NodeState::Quarantined { .. })
    })
    .await;
    let asked = former.count("evalsha");
    for lock in 0..5 {
        // On a busy machine it may come to nothing; what counts is whom it asks.
        drop(old.lock(format!("{lock}")).acquire().await);
    }
    assert_eq!(former.count("evalsha"), asked, "both are in use");
    await_state("an end", || state(old) != NodeState::Up).await;
    await_state("a vote", || state(new) == NodeState::Up).await;
}

/// Whom the marker of a node names, before whose name this tag stands.
pub fn marker(node: &Server, tag: &str) -> String {
    // For a replica in a cluster.
    let _ = node.try_command(&["READONLY"]);
    let hash = format!("{tag}__redlock:node:0");
    let ask = || node.try_command(&["HGET", &hash, "server"]);
    // A new master closes connections, and Sentinels close those to the one that they promote.
    let name = ask().or_else(|_| ask()).unwrap();
    redis::from_redis_value::<Option<String>>(name)
        .unwrap()
        .unwrap_or_default()
}
