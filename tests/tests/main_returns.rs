//! A program whose `main` returns under a lock ends well, and leaves nothing on any node. The lease
//! does not end here, so that only a release can free a node.

use redlock_tests::{Cluster, Worker};

#[test]
fn main_may_return_with_a_guard_in_its_hands() {
    assert_released_by_the_end_of_main("guard");
}

#[test]
fn main_may_return_while_a_task_is_in_a_body() {
    assert_released_by_the_end_of_main("task");
}

/// No destructor runs, and the engine is gone.
#[test]
fn a_process_that_exits_leaves_its_lock() {
    let cluster = Cluster::start(3);
    let program = Worker::spawn(
        env!("CARGO_BIN_EXE_way_out_main"),
        &["exit"],
        &[("REDLOCK_NODES", &cluster.url_list())],
    );
    program.expect_line("held");
    program.wait_success();
    let held = cluster.iter().filter(|node| node.exists("section"));
    assert!(held.count() >= 2);
}

fn assert_released_by_the_end_of_main(way: &str) {
    let cluster = Cluster::start(5);
    let program = Worker::spawn(
        env!("CARGO_BIN_EXE_way_out_main"),
        &[way],
        &[("REDLOCK_NODES", &cluster.url_list())],
    );

    program.expect_line("held");
    program.wait_success();

    cluster.wait_free("section");
    // Those that were not asked for the lock have heard nothing of it.
    let events = cluster.iter().map(|node| node.events("section"));
    let events: Vec<_> = events.filter(|events| !events.is_empty()).collect();
    assert!(events.len() >= 3, "{events:?}");
    for events in events {
        assert_eq!(events, ["set", "expire", "del"]);
    }
}
