//! One at a time, over processes: a counter on another server, read and written in separate steps,
//! comes out right only if no two sections overlap.

use crate::common::await_state;
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
