//! Locks with permits, on real servers.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use redlock_runtime::{LockError, Release};
use redlock_tests::Cluster;
use tokio::{
    sync::Barrier,
    task::{JoinSet, yield_now},
};

use crate::common::{NEVER, await_state, connect};

const PERMITS: u32 = 3;

const SLOTS: [&str; PERMITS as usize] = [
    "export#__redlock:0",
    "export#__redlock:1",
    "export#__redlock:2",
];

/// Of each of four clients.
const SECTIONS: usize = 36;

/// Each section goes on only when as many have begun as there are permits, so all permits are in use
/// whenever one ends.
#[tokio::test]
async fn four_clients_use_all_permits_and_no_more_while_a_node_is_killed() {
    let cluster = Cluster::start(5);
    let inside = Arc::new(AtomicUsize::new(0));
    let done = Arc::new(AtomicUsize::new(0));
    let full = Arc::new(Barrier::new(PERMITS as usize));
    let mut sections = JoinSet::new();
    for _ in 0..4 {
        let redlock = connect(&cluster).await;
        let lock = redlock.lock("export").permits(PERMITS).wait(NEVER);
        for _ in 0..SECTIONS {
            let (lock, full) = (lock.clone(), Arc::clone(&full));
            let (inside, done) = (Arc::clone(&inside), Arc::clone(&done));
            sections.spawn(async move {
                let section = lock.hold(async |lease| {
                    let others = inside.fetch_add(1, Ordering::SeqCst);
                    assert!(others < PERMITS as usize, "{others} others are inside");
                    full.wait().await;
                    yield_now().await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                    done.fetch_add(1, Ordering::SeqCst);
                    lease.fencing_token().unwrap()
                });
                section.await.unwrap()
            });
        }
    }
    let some_are_done = || done.load(Ordering::SeqCst) >= SECTIONS;
    await_state("some sections", some_are_done).await;
    cluster[1].kill();
    let tokens: BTreeSet<_> = sections.join_all().await.into_iter().collect();
    assert_eq!(tokens.len(), 4 * SECTIONS, "no token was given twice");
    for node in cluster.iter().filter(|node| node.is_running()) {
        for slot in SLOTS {
            node.await_free(slot).await;
        }
    }
}

#[tokio::test]
async fn a_call_is_refused_while_all_permits_are_taken_and_not_when_one_is_back() {
    let cluster = Cluster::start(3);
    let (one, two) = (connect(&cluster).await, connect(&cluster).await);
    let of = |redlock: &redlock_runtime::Redlock| redlock.lock("export").permits(PERMITS);
    let mut taken = Vec::new();
    for redlock in [&one, &two, &one] {
        taken.push(of(redlock).acquire().await.unwrap());
    }
    for slot in SLOTS {
        assert!(cluster.held_on(slot) >= 2, "{slot} is a key on the nodes");
    }
    for redlock in [&one, &two] {
        let error = of(redlock).acquire().await.unwrap_err();
        assert!(matches!(error, LockError::Contended(_)), "{error}");
        assert_eq!(error.key(), Some("export"));
        assert!(error.retry_after().is_some());
    }
    let waiting = of(&two).wait(NEVER).acquire();
    let release = async {
        yield_now().await;
        taken.swap_remove(0).release().await
    };
    let (next, released) = tokio::join!(waiting, release);
    assert_eq!(released, Release::Released);
    assert!(next.unwrap().is_held());
}

#[tokio::test]
async fn who_gives_up_waiting_leaves_nothing() {
    let cluster = Cluster::start(3);
    let (one, two) = (connect(&cluster).await, connect(&cluster).await);
    let mut taken = Vec::new();
    for _ in 0..PERMITS {
        let permit = one.lock("export").permits(PERMITS).acquire().await;
        taken.push(permit.unwrap());
    }
    let lock = two.lock("export").permits(PERMITS);
    let mut waiting = Box::pin(lock.wait(NEVER).acquire());
    tokio::select! {
        biased;
        _ = &mut waiting => panic!("all are taken"),
        () = yield_now() => {}
    }
    drop(waiting);
    drop(taken);
    for slot in SLOTS {
        cluster.await_free(slot).await;
    }
}
