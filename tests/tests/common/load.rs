//! Two processes that lock all the time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use redlock_runtime::{Builder, NodeState, Redlock, WhyKind};
use redlock_tests::Server;
use tokio::task::JoinSet;

use super::{await_state, await_up};

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

pub async fn voting(builder: Builder) -> Redlock {
    let redlock = builder.build().await.unwrap();
    await_up(&redlock).await;
    redlock
}

/// Sections that exclude each other, and look whether they do.
pub struct Load {
    tasks: JoinSet<()>,
    sections: Arc<AtomicUsize>,
    is_over: Arc<AtomicBool>,
}

impl Load {
    pub fn start(redlocks: &[Redlock; 2]) -> Self {
        let mut tasks = JoinSet::new();
        let sections = Arc::new(AtomicUsize::new(0));
        let is_over = Arc::new(AtomicBool::new(false));
        let inside = Arc::new(AtomicUsize::new(0));
        for redlock in redlocks.iter().flat_map(|redlock| [redlock, redlock]) {
            let (redlock, inside) = (redlock.clone(), Arc::clone(&inside));
            let (sections, is_over) = (Arc::clone(&sections), Arc::clone(&is_over));
            tasks.spawn(async move {
                let mut last = 0;
                while !is_over.load(SeqCst) {
                    let Ok(guard) = redlock.lock("k").wait(BRIEF).acquire().await else {
                        continue;
                    };
                    assert_eq!(inside.fetch_add(1, SeqCst), 0, "two have the lock");
                    let token = guard.fencing_token().unwrap().get();
                    tokio::task::yield_now().await;
                    let was_held = guard.is_held();
                    assert_eq!(inside.fetch_sub(1, SeqCst), 1, "two have the lock");
                    assert!(!was_held || token > last, "{token} after {last}");
                    last = token;
                    sections.fetch_add(1, SeqCst);
                    guard.release().await;
                }
            });
        }
        Self {
            tasks,
            sections,
            is_over,
        }
    }

    pub async fn goes_on(&self) {
        let before = self.sections.load(SeqCst);
        await_state("more sections", || self.sections.load(SeqCst) > before + 20).await;
    }

    pub async fn end(mut self) {
        self.is_over.store(true, SeqCst);
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap();
        }
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
