//! Each kind of lock in a fleet of four processes, over five nodes of which one is killed.

use redis::Commands;
use redlock_tests::{Cluster, Counter, Server, Worker};

use crate::common::await_state;

const PROCESSES: u64 = 4;

/// Lets each process do so many sections; they fail themselves if one finds what it should not. Returns
/// what keeps the counters.
async fn fleet(kind: &str, sections: u64) -> Server {
    let (cluster, bank) = (Cluster::start(5), Server::start());
    let environment = [
        ("REDLOCK_NODES", &*cluster.url_list()),
        ("BANK", &*bank.own_url()),
    ];
    let program = env!("CARGO_BIN_EXE_family_worker");
    let spawn = |_| Worker::spawn(program, &[kind, &sections.to_string()], &environment);
    let workers: Vec<Worker> = (0..PROCESSES).map(spawn).collect();
    for worker in &workers {
        worker.expect_line("ready");
    }
    for worker in &workers {
        worker.send_line("go");
    }
    let mut store = redis::Client::open(bank.own_url())
        .unwrap()
        .get_connection()
        .unwrap();
    let mut done = move || {
        let done: Option<u64> = store.get("sections").unwrap();
        done.unwrap_or(0)
    };
    await_state("some sections", || done() >= PROCESSES * sections / 4).await;
    cluster[1].kill();
    let end = move || {
        for worker in workers {
            worker.expect_line("done");
            worker.wait_success();
        }
    };
    tokio::task::spawn_blocking(end).await.unwrap();
    assert_eq!(done(), PROCESSES * sections);
    bank
}

#[tokio::test]
async fn fair_locks_exclude_each_other() {
    let bank = fleet("fair", 40).await;
    Counter::on(&bank, "counter").assert_exclusive(PROCESSES * 40);
}

#[tokio::test]
async fn a_lock_that_is_taken_twice_excludes_others() {
    let bank = fleet("reentrant", 80).await;
    Counter::on(&bank, "counter").assert_exclusive(PROCESSES * 80);
}

#[tokio::test]
async fn locks_of_blocking_code_exclude_each_other() {
    let bank = fleet("blocking", 80).await;
    Counter::on(&bank, "counter").assert_exclusive(PROCESSES * 80);
}

#[tokio::test]
async fn sections_with_several_keys_exclude_each_other_for_each_of_them() {
    let bank = fleet("several", 48).await;
    let tallies = ["a", "b", "c"].map(|key| Counter::on(&bank, key).tally());
    let sections: i64 = tallies.iter().map(|tally| tally.sections).sum();
    assert_eq!(sections, 2 * 48 * PROCESSES as i64);
    for tally in tallies {
        assert_eq!((tally.overlaps, tally.inside), (0, 0));
        assert_eq!(tally.count, tally.sections);
    }
}

#[tokio::test]
async fn readers_exclude_writers_and_writers_each_other() {
    let bank = fleet("shared", 80).await;
    Counter::on(&bank, "counter").assert_exclusive(PROCESSES * 80 / 4);
}

#[tokio::test]
async fn no_more_sections_than_permits_go_on() {
    fleet("permits", 80).await;
}

#[tokio::test]
async fn a_lock_that_is_kept_is_not_acquired_again_within_its_period() {
    fleet("at_least", 8).await;
}
