//! Locks that are shared, on real servers.

use std::{
    array,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use redlock_runtime::{LockError, Redlock, Release};
use redlock_tests::Cluster;
use tokio::{
    sync::Barrier,
    task::{JoinSet, yield_now},
};

use crate::common::{NEVER, await_state, connect};

const KEY: &str = "report";

/// What is never seen together by anybody who has the lock.
#[derive(Default)]
struct Report {
    /// Written one after the other, and equal at all other times.
    parts: [AtomicU64; 3],
    readers: AtomicI64,
}

impl Report {
    async fn write(&self) {
        assert_eq!(self.readers.load(Ordering::SeqCst), 0);
        for part in &self.parts {
            part.store(part.load(Ordering::SeqCst) + 1, Ordering::SeqCst);
            yield_now().await;
        }
        assert_eq!(self.readers.load(Ordering::SeqCst), 0);
    }

    async fn read(&self) {
        self.readers.fetch_add(1, Ordering::SeqCst);
        let seen: [u64; 3] = array::from_fn(|part| self.parts[part].load(Ordering::SeqCst));
        for _ in 0..20 {
            yield_now().await;
            let again = array::from_fn(|part| self.parts[part].load(Ordering::SeqCst));
            assert_eq!(seen, again);
        }
        assert!(seen[0] == seen[1] && seen[1] == seen[2], "{seen:?}");
        self.readers.fetch_sub(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn readers_of_several_clients_run_together_and_never_beside_a_writer() {
    const ROUNDS: u64 = 60;
    let cluster = Cluster::start(3);
    let report = Arc::new(Report::default());
    // How many read at once later is chance: a writer may come between any two of them.
    let together = Arc::new(Barrier::new(12));
    let mut tasks = JoinSet::new();
    for client in 0..4 {
        let redlock = connect(&cluster).await;
        for task in 0..3 {
            let (redlock, report) = (redlock.clone(), Arc::clone(&report));
            let together = Arc::clone(&together);
            tasks.spawn(async move {
                let reader = redlock.lock(KEY).shared().wait(NEVER);
                reader.hold(async |_| together.wait().await).await.unwrap();
                for round in 0..ROUNDS {
                    let lock = redlock.lock(KEY).wait(NEVER);
                    if (client + task) % 3 == 0 && round % 3 == 0 {
                        lock.hold(async |_| report.write().await).await.unwrap();
                    } else {
                        let lock = lock.shared();
                        lock.hold(async |_| report.read().await).await.unwrap();
                    }
                }
            });
        }
    }
    // A minority is of no importance.
    await_state("many sections", || {
        report.parts[0].load(Ordering::SeqCst) > ROUNDS / 10
    })
    .await;
    cluster[1].kill();
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    assert_eq!(report.parts[2].load(Ordering::SeqCst), 4 * ROUNDS / 3);
    for node in [0, 2] {
        cluster[node].await_free(KEY).await;
    }
}

/// Another library sets the key if there is none, and deletes it if it has its own value.
#[tokio::test]
async fn clients_of_other_libraries_stay_out_while_anybody_reads() {
    let cluster = Cluster::start(3);
    let clients: [Redlock; 2] = [connect(&cluster).await, connect(&cluster).await];
    let mut readers = Vec::new();
    for redlock in &clients {
        readers.push(redlock.lock(KEY).shared().acquire().await.unwrap());
    }
    let expire = Duration::from_secs(60);
    while let Some(reader) = readers.pop() {
        // It has asked a majority, and the other node gets the key in a moment.
        await_state("keys on all nodes", || cluster.held_on(KEY) == 3).await;
        for node in &cluster {
            assert!(!node.set_nx_px(KEY, "theirs", expire));
            assert!(!node.compare_and_delete(KEY, "theirs"));
        }
        assert!(reader.is_held());
        assert_eq!(reader.release().await, Release::Released);
    }
    cluster.await_free(KEY).await;
    for node in cluster.iter().take(2) {
        assert!(node.set_nx_px(KEY, "theirs", expire));
    }
    for redlock in &clients {
        let error = redlock.lock(KEY).shared().acquire().await.unwrap_err();
        assert!(matches!(error, LockError::Contended(_)), "{error}");
    }
    for node in cluster.iter().take(2) {
        assert_eq!(node.get(KEY).as_deref(), Some("theirs"));
        assert!(node.compare_and_delete(KEY, "theirs"));
    }
    let lock = clients[0].lock(KEY).shared().wait(NEVER);
    drop(lock.acquire().await.unwrap());
}

#[tokio::test]
async fn a_reader_learns_at_once_that_its_keys_are_gone() {
    let cluster = Cluster::start(3);
    let (one, two) = (connect(&cluster).await, connect(&cluster).await);
    let reader = one.lock(KEY).shared().acquire().await.unwrap();
    let _another = two.lock(KEY).shared().acquire().await.unwrap();
    let lost = reader.lost();
    let delete = async {
        // Until it is watched.
        loop {
            for node in cluster.iter().take(2) {
                node.command(&["DEL", KEY]);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        _ = lost => {}
        () = delete => {}
    }
    assert!(!reader.is_held());
}

#[tokio::test]
async fn a_process_that_dies_keeps_its_part_until_it_expires_and_no_longer() {
    let cluster = Cluster::start(3);
    let (one, two) = (connect(&cluster).await, connect(&cluster).await);
    let brief = Duration::from_millis(300);
    let stays = one.lock(KEY).shared().acquire().await.unwrap();
    let dies = two
        .lock(KEY)
        .shared()
        .expire(brief)
        .acquire()
        .await
        .unwrap();
    std::mem::forget(dies);
    let writer = one.lock(KEY).wait(NEVER).acquire();
    let (released, writer) = tokio::join!(stays.release(), writer);
    assert_eq!(released, Release::Released);
    assert!(writer.unwrap().is_held());
}
