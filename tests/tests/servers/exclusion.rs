//! One at a time, over processes: a counter on another server, read and written in separate steps,
//! comes out right only if no two sections overlap.

use std::time::Duration;

use crate::common::{await_state, connection_ids, unhurried};
use redlock_runtime::LockError;
use redlock_tests::{Cluster, Counter, Server, Worker};

const WORKERS: usize = 4;

/// For each worker; it divides them among its tasks. Too many for one turn of a process, so that the
/// lock changes between them many times.
const SECTIONS: u64 = 160;

struct Fleet {
    cluster: Cluster,
    bank: Server,
}

impl Fleet {
    fn start() -> Self {
        Self {
            cluster: Cluster::start(5),
            bank: Server::start(),
        }
    }

    fn counter(&self) -> Counter {
        Counter::on(&self.bank, "exclusion")
    }

    fn worker(&self, sections: &str) -> Worker {
        let worker = Worker::spawn(
            env!("CARGO_BIN_EXE_exclusive_worker"),
            &[sections],
            &[
                ("REDLOCK_NODES", &self.cluster.url_list()),
                ("COUNTER", &self.bank.own_url()),
            ],
        );
        worker.expect_line("ready");
        worker
    }

    fn workers(&self) -> Vec<Worker> {
        let workers: Vec<Worker> = (0..WORKERS)
            .map(|_| self.worker(&SECTIONS.to_string()))
            .collect();
        for worker in &workers {
            worker.send_line("go");
        }
        workers
    }
}

fn done(workers: &[Worker]) {
    for worker in workers {
        worker.expect_line("done");
        worker.wait_success();
    }
}

#[test]
fn sections_of_four_processes_never_overlap() {
    let fleet = Fleet::start();
    let workers = fleet.workers();
    done(&workers);
    fleet.counter().assert_exclusive(WORKERS as u64 * SECTIONS);
    fleet.cluster.wait_free("counter");
}

#[tokio::test]
async fn nor_while_one_of_five_nodes_is_killed_and_another_is_stopped() {
    let fleet = Fleet::start();
    let workers = fleet.workers();
    let counter = fleet.counter();
    await_state("some sections", || counter.tally().sections >= 20).await;
    fleet.cluster[1].kill();
    await_state("more sections", || counter.tally().sections >= 60).await;
    fleet.cluster[3].stop();
    tokio::task::spawn_blocking(move || done(&workers))
        .await
        .unwrap();
    counter.assert_exclusive(WORKERS as u64 * SECTIONS);
}

/// It owes its own silence to nobody: for longer than a node may be silent it neither wrote nor read.
#[tokio::test]
async fn a_process_that_was_stopped_keeps_its_connections() {
    let fleet = Fleet::start();
    let worker = fleet.worker("100000");
    let connections = || -> Vec<_> { fleet.cluster.iter().flat_map(connection_ids).collect() };
    let before = connections();
    worker.send_line("go");
    let counter = fleet.counter();
    for _ in 0..5 {
        let done = counter.tally().sections;
        await_state("sections", || counter.tally().sections >= done + 20).await;
        worker.stop();
        // Longer than a node may be silent, and within the lease.
        tokio::time::sleep(Duration::from_millis(1_200)).await;
        worker.cont();
    }
    let done = counter.tally().sections;
    await_state("sections", || counter.tally().sections >= done + 20).await;
    assert_eq!(connections(), before);
}

#[test]
fn a_process_that_is_killed_in_its_section_holds_the_others_up_until_its_key_expires() {
    let fleet = Fleet::start();
    let stuck = fleet.worker("hang");
    stuck.send_line("go");
    stuck.expect_line("inside");
    let other = fleet.worker("4");
    other.send_line("go");
    stuck.kill();
    fleet.counter().forget_visitors();
    other.expect_line("done");
    fleet.counter().assert_exclusive(4);
    let events: Vec<_> = fleet
        .cluster
        .iter()
        .map(|node| node.events("counter"))
        .collect();
    let expired = |events: &&Vec<String>| events.iter().any(|event| event == "expired");
    assert!(events.iter().filter(expired).count() >= 3, "{events:?}");
}

/// What every other library puts on the wire: `SET key value NX PX ttl` on all nodes, and a
/// compare-and-delete.
struct Stranger<'a> {
    cluster: &'a Cluster,
    name: &'static str,
}

impl Stranger<'_> {
    fn acquire(&self, key: &str) -> bool {
        let ttl = Duration::from_secs(60);
        let granted = |node: &&Server| node.set_nx_px(key, self.name, ttl);
        let grants = self.cluster.iter().filter(granted).count();
        let won = grants > self.cluster.len() / 2;
        if !won {
            self.release(key);
        }
        won
    }

    fn release(&self, key: &str) {
        for node in self.cluster {
            node.compare_and_delete(key, self.name);
        }
    }
}

#[tokio::test]
async fn clients_of_other_libraries_exclude_us_and_are_excluded() {
    let cluster = Cluster::start(5);
    let redlock = unhurried(cluster.urls()).build().await.unwrap();
    let [one, two] = ["one", "two"].map(|name| Stranger {
        cluster: &cluster,
        name,
    });

    assert!(one.acquire("k"));
    let error = redlock.lock("k").acquire().await.unwrap_err();
    assert!(matches!(error, LockError::Contended(_)), "{error}");
    assert!(!two.acquire("k"));
    one.release("k");

    let guard = redlock.lock("k").acquire().await.unwrap();
    assert!(!one.acquire("k") && !two.acquire("k"));
    guard.release().await;
    // A majority has confirmed that.
    cluster.await_free("k").await;

    assert!(two.acquire("k"));
    assert_eq!(cluster.held_on("k"), 5);
}

#[tokio::test]
async fn different_keys_do_not_wait_for_each_other() {
    let cluster = Cluster::start(3);
    let redlock = unhurried(cluster.urls()).build().await.unwrap();
    let _one = redlock.lock("stock:1").acquire().await.unwrap();
    let two = redlock.lock("stock:2").acquire().await.unwrap();
    assert!(two.is_held());
}
