//! A node that may have forgotten what it granted does not vote before all of that has run out.
//! All node sets here are careful, unlike those of other tests, which say `assume_fresh`.

use std::time::Duration;

use crate::common::{NEVER, await_quarantine, await_state, found, unhurried};
use redlock_runtime::{Builder, LockError, NodeState, Redlock, Release, Verdict};
use redlock_tests::{Cluster, Mode, PATIENCE, Server};
use tokio::time::timeout;

// ---- what is a loss of memory, and what is none

#[tokio::test]
async fn a_node_that_has_lost_its_memory_is_quarantined() {
    let losses: [fn(&Server); 4] = [
        Server::restart,
        |node| {
            node.command(&["SAVE"]);
            node.restart();
            assert!(node.exists("__redlock:node:0"), "the snapshot is loaded");
        },
        |node| drop(node.command(&["FLUSHALL"])),
        |node| drop(node.command(&["SWAPDB", "0", "1"])),
    ];
    for lose in losses {
        let cluster = founded(3).await;
        let redlock = careful(cluster.urls()).build().await.unwrap();
        let process = cluster[1].run_id();

        lose(&cluster[1]);
        if cluster[1].run_id() != process {
            await_quarantine(&redlock, 1).await;
        }

        assert_no_vote_of_1(&redlock, &cluster).await;
    }
}

/// By a client that has never seen them vote.
#[tokio::test]
async fn servers_that_have_run_for_long_vote_at_once_but_for_one_that_was_flushed() {
    let cluster = Cluster::start_with(3, &Server::builder().own_clock());
    for node in &cluster {
        node.clock().step(24 * NEVER);
        let has_run = || node.info("server")["uptime_in_days"] != "0";
        await_state("a long time", has_run).await;
    }
    cluster[1].command(&["FLUSHALL"]);

    let redlock = careful(cluster.urls()).build().await.unwrap();

    await_quarantine(&redlock, 1).await;
    await_state("the others vote", || {
        let nodes = redlock.nodes();
        nodes[0].is_up() && nodes[2].is_up()
    })
    .await;
}

#[tokio::test]
async fn what_forgets_no_lock_is_no_reason_for_a_quarantine() {
    let settings = Server::builder().args(["--enable-debug-command", "yes"]);
    let cluster = Cluster::start_with(3, &settings);
    found(&cluster, careful).await;
    let redlock = careful(cluster.urls()).build().await.unwrap();
    cluster[2].kill();

    cluster[1].command(&["SCRIPT", "FLUSH"]);
    assert_serves(&redlock).await;
    cluster[1].command(&["DEBUG", "RELOAD"]);
    assert_serves(&redlock).await;
    assert_eq!(cluster[1].kill_clients(), 1);
    assert_serves(&redlock).await;
    // Nor did anybody who came later see one.
    let later = careful(cluster.urls()).build().await.unwrap();
    assert_serves(&later).await;
}

/// Or else whoever gives up before a script has been sent again leaves the next one where it was.
#[tokio::test]
async fn a_node_that_has_lost_its_scripts_is_told_all_of_them_again() {
    let cluster = founded(3).await;
    let redlock = careful(cluster.urls()).build().await.unwrap();
    cluster[2].kill();
    let loads = || cluster[1].count("script|load");
    let at_once = loads();
    assert!(at_once > 0, "scripts are told in another way");

    cluster[1].command(&["SCRIPT", "FLUSH"]);
    assert_serves(&redlock).await;

    // Two clients had connected, and each had told it them.
    assert_eq!(loads() - at_once, at_once / 2);
}

#[tokio::test]
async fn a_node_that_has_all_on_disk_votes_at_once_after_a_restart() {
    let durable = Server::builder().args(["--appendonly", "yes", "--appendfsync", "always"]);
    let cluster = Cluster::start_with(3, &durable);
    found(&cluster, careful).await;
    let one = careful(cluster.urls()).build().await.unwrap();
    let two = careful(cluster.urls()).build().await.unwrap();
    let guard = one.lock("k").acquire().await.unwrap();
    cluster[1].await_event("k", "set", 1).await;
    cluster[2].kill();

    cluster[1].restart();
    await_vote(&one, 1).await;
    await_vote(&two, 1).await;

    assert!(cluster[1].exists("k"));
    let error = two.lock("k").acquire().await.unwrap_err();
    assert!(matches!(error, LockError::Contended(_)), "{error}");
    assert_eq!(guard.release().await, Release::Released);
    assert_serves(&two).await;
}

// ---- what a quarantine is good for

/// The holder has a majority of which one node forgets; the other nodes are one too.
#[tokio::test]
async fn a_rival_does_not_win_by_what_a_node_forgot() {
    let cluster = founded(3).await;
    let holder = cut_off_from_2(&cluster).await;
    let rival = careful(cluster.urls()).build().await.unwrap();
    let guard = holder.lock("k").acquire().await.unwrap();

    cluster[1].restart();
    await_quarantine(&rival, 1).await;

    let error = rival.lock("k").acquire().await.unwrap_err();
    let verdict = &error.verdicts()[1].verdict;
    assert!(matches!(verdict, Verdict::Quarantined { .. }), "{error}");
    cluster[2].await_free("k").await;
    // Less than a majority has its key now.
    let lost = timeout(PATIENCE, guard.lost()).await.expect("it is told");
    assert!(matches!(lost, LockError::Lost(_)), "{lost}");
}

#[tokio::test]
async fn a_quarantined_minority_of_five_delays_nobody() {
    for restarted in 1..=2 {
        let cluster = founded(5).await;
        let redlock = careful(cluster.urls()).build().await.unwrap();
        for node in 0..restarted {
            cluster[node].restart();
            await_quarantine(&redlock, node).await;
        }

        let guard = redlock.lock("k").acquire().await.unwrap();
        guard.extend().await.unwrap();
        assert_eq!(guard.release().await, Release::Released);

        cluster.await_free("k").await;
        for node in 0..restarted {
            assert_eq!(cluster[node].events("k"), [""; 0]);
        }
    }
}

// ---- the nodes

/// Nodes that have been in use by clients with such locks.
async fn founded(size: usize) -> Cluster {
    let cluster = Cluster::start(size);
    found(&cluster, careful).await;
    cluster
}

/// In no hurry; its quarantines outlast every test.
fn careful(urls: Vec<String>) -> Builder {
    unhurried(urls).assume_fresh(false)
}

/// A node set that does not reach node 2.
async fn cut_off_from_2(cluster: &Cluster) -> Redlock {
    let proxy = cluster[2].proxy();
    let mut urls = cluster.urls();
    urls[2] = proxy.url();
    proxy.set(Mode::Refuse);
    // Without the proxy nobody listens there.
    drop(proxy);
    careful(urls).build().await.unwrap()
}

// ---- the steps

/// Node 1, whose vote is needed once node 2 is dead, gives none, and that is the reason.
async fn assert_no_vote_of_1(redlock: &Redlock, cluster: &Cluster) {
    cluster[2].kill();
    await_state("node 2 down", || {
        matches!(redlock.nodes()[2].state(), NodeState::Down { .. })
    })
    .await;

    let error = redlock.lock("k").acquire().await.unwrap_err();

    assert!(matches!(error, LockError::Quarantined(_)), "{error}");
    assert!(error.retry_after() > Some(Duration::ZERO), "{error}");
    let verdict = &error.verdicts()[1].verdict;
    assert!(matches!(verdict, Verdict::Quarantined { .. }), "{error}");
    let nodes = redlock.nodes();
    assert!(
        matches!(nodes[1].state(), NodeState::Quarantined { .. }),
        "{nodes:?}"
    );
    assert!(nodes[1].remaining() > Some(Duration::ZERO), "{nodes:?}");
    // Node 0 has been asked only if it was not known before that node 1 has no vote.
    await_state("nothing left behind", || cluster.held_on("k") == 0).await;
}

/// The lock is granted, as soon as connections are made again.
async fn assert_serves(redlock: &Redlock) {
    let guard = redlock.lock("k").wait(PATIENCE).acquire().await.unwrap();
    assert_eq!(guard.release().await, Release::Released);
}

/// Waits until a node that was down or quarantined votes.
async fn await_vote(redlock: &Redlock, node: usize) {
    await_state("a vote", || redlock.nodes()[node].is_up()).await;
}
