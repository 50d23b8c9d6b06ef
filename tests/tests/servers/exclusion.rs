//! One at a time, over processes: a counter on another server, read and written in separate steps,
//! comes out right only if no two sections overlap.

use crate::common::{NEVER, await_state, connect};
use redlock_runtime::{LockError, Release};
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

    fn workers(&self) -> Vec<Worker> {
        let environment = [
            ("REDLOCK_NODES", &*self.cluster.url_list()),
            ("COUNTER", &self.bank.own_url()),
        ];
        let program = env!("CARGO_BIN_EXE_exclusive_worker");
        let spawn = |_| Worker::spawn(program, &[&SECTIONS.to_string()], &environment);
        let workers: Vec<Worker> = (0..WORKERS).map(spawn).collect();
        for worker in &workers {
            worker.expect_line("ready");
        }
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

/// A reader of another process waits meanwhile.
#[tokio::test]
async fn a_writer_that_becomes_a_reader_lets_readers_in_and_no_writer() {
    let cluster = Cluster::start(3);
    let (one, two) = (connect(&cluster).await, connect(&cluster).await);
    let guard = one.lock("k").acquire().await.unwrap();
    let token = guard.fencing_token().unwrap();
    let reader = tokio::spawn(two.lock("k").shared().wait(NEVER).acquire());
    guard.downgrade().await.unwrap();
    let reader = reader.await.unwrap().unwrap();
    let beside = reader.fencing_token().unwrap();
    assert!(beside > token);
    let writer = two.lock("k").wait(NEVER).acquire();
    let error = two.lock("k").try_acquire().await.unwrap_err();
    assert!(matches!(error, LockError::Contended(_)), "{error}");
    assert_eq!(guard.release().await, Release::Released);
    assert_eq!(reader.release().await, Release::Released);
    let writer = writer.await.unwrap();
    assert!(writer.fencing_token().unwrap() > beside);
}
