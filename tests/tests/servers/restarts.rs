//! A node that may have forgotten what it granted does not vote before all of that has run out.
//! All node sets here are careful, unlike those of other tests, which say `assume_fresh`.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::common::{NEVER, await_quarantine, await_state, await_up, found, unhurried};
use redlock_runtime::{Builder, LockError, NodeState, Redlock, Release, Verdict};
use redlock_tests::{Cluster, Mode, PATIENCE, Server};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::timeout,
};

/// A lease that runs out in its test, and a quarantine that ends in it.
const BRIEF: Duration = Duration::from_secs(1);

// ---- what is a loss of memory, and what is none

#[tokio::test]
async fn a_node_that_restarts_empty_is_quarantined() {
    let cluster = founded(3, careful).await;
    let redlock = careful(cluster.urls()).build().await.unwrap();

    cluster[1].restart();
    await_quarantine(&redlock, 1).await;

    assert_no_vote_of_1(&redlock, &cluster).await;
}

#[tokio::test]
async fn a_node_that_restarts_from_an_old_snapshot_is_quarantined() {
    let cluster = founded(3, careful).await;
    let redlock = careful(cluster.urls()).build().await.unwrap();
    cluster[1].command(&["SAVE"]);

    cluster[1].restart();
    assert!(
        cluster[1].exists("__redlock:node:0"),
        "the snapshot is loaded"
    );
    await_quarantine(&redlock, 1).await;

    assert_no_vote_of_1(&redlock, &cluster).await;
}

#[tokio::test]
async fn a_flushed_node_is_quarantined() {
    let cluster = founded(3, careful).await;
    let redlock = careful(cluster.urls()).build().await.unwrap();

    cluster[1].command(&["FLUSHALL"]);

    assert_no_vote_of_1(&redlock, &cluster).await;
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

/// No client was connected since: what the process before has forgotten was granted before.
#[tokio::test]
async fn a_server_that_was_restarted_with_its_data_long_ago_votes_at_once() {
    let cluster = Cluster::start_with(1, &Server::builder().own_clock());
    found(&cluster, careful).await;
    let node = &cluster[0];
    node.command(&["SAVE"]);
    node.restart();
    assert!(node.exists("__redlock:node:0"), "the snapshot is loaded");
    node.clock().step(24 * NEVER);
    let has_run = || node.info("server")["uptime_in_days"] != "0";
    await_state("a long time", has_run).await;

    let redlock = careful(cluster.urls()).build().await.unwrap();

    assert_serves(&redlock).await;
}

#[tokio::test]
async fn a_node_with_swapped_databases_is_quarantined() {
    let cluster = founded(3, careful).await;
    let redlock = careful(cluster.urls()).build().await.unwrap();

    cluster[1].command(&["SWAPDB", "0", "1"]);

    assert_no_vote_of_1(&redlock, &cluster).await;
}

#[tokio::test]
async fn a_replica_that_takes_over_the_address_is_quarantined() {
    let cluster = founded(3, careful).await;
    let replica = Server::start();
    replica.command(&["REPLICAOF", "127.0.0.1", &cluster[1].port().to_string()]);
    await_state("a replica in step", || replica.exists("__redlock:node:0")).await;
    let address = Forwarder::to(&cluster[1]).await;
    let mut urls = cluster.urls();
    urls[1] = address.url.clone();
    let redlock = careful(urls).build().await.unwrap();
    await_up(&redlock).await;

    replica.command(&["REPLICAOF", "NO", "ONE"]);
    assert!(replica.exists("__redlock:node:0"));
    address.lead_to(&replica);
    await_quarantine(&redlock, 1).await;

    assert_no_vote_of_1(&redlock, &cluster).await;
    assert!(!replica.exists("k"));
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
    let cluster = founded(3, careful).await;
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

/// The database that comes belongs to another node set, which has let the same server vote there.
#[tokio::test]
async fn a_rival_does_not_win_by_a_database_that_votes_for_another_node_set() {
    let cluster = founded(3, careful).await;
    found(&cluster, in_database_1).await;
    let holder = cut_off_from_2(&cluster, careful).await;
    let rival = careful(cluster.urls()).build().await.unwrap();
    let guard = holder.lock("k").acquire().await.unwrap();

    cluster[1].command(&["SWAPDB", "0", "1"]);

    let newcomer = careful(cluster.urls()).build().await.unwrap();
    for client in [rival, newcomer] {
        let error = client.lock("k").acquire().await.unwrap_err();
        let verdict = error.verdicts()[1].verdict();
        assert!(matches!(verdict, Verdict::Quarantined { .. }), "{error}");
    }
    drop(guard);
}

/// The holder has a majority of which one node forgets; the other nodes are one too.
#[tokio::test]
async fn a_rival_does_not_win_by_what_a_node_forgot() {
    let cluster = founded(3, careful).await;
    let holder = cut_off_from_2(&cluster, careful).await;
    let rival = careful(cluster.urls()).build().await.unwrap();
    let guard = holder.lock("k").acquire().await.unwrap();

    cluster[1].restart();
    await_quarantine(&rival, 1).await;

    let error = rival.lock("k").acquire().await.unwrap_err();
    let verdict = error.verdicts()[1].verdict();
    assert!(matches!(verdict, Verdict::Quarantined { .. }), "{error}");
    cluster[2].await_free("k").await;
    // Less than a majority has its key now.
    let lost = timeout(PATIENCE, guard.lost()).await.expect("it is told");
    assert!(matches!(lost, LockError::Lost(_)), "{lost}");
}

#[tokio::test]
async fn a_rival_that_waits_wins_when_the_forgotten_lease_is_over() {
    let cluster = founded(3, brief).await;
    let holder = cut_off_from_2(&cluster, brief).await;
    let rival = brief(cluster.urls()).build().await.unwrap();
    let guard = holder.lock("k").acquire().await.unwrap();

    cluster[1].restart();

    let next = rival.lock("k").wait(PATIENCE).acquire().await.unwrap();
    assert!(!guard.is_held(), "the leases of two holders overlap");
    drop(next);
}

#[tokio::test]
async fn a_node_votes_again_after_its_quarantine() {
    let cluster = founded(3, brief).await;
    let redlock = brief(cluster.urls()).build().await.unwrap();
    cluster[1].restart();
    await_quarantine(&redlock, 1).await;
    cluster[2].kill();

    await_vote(&redlock, 1).await;

    assert_serves(&redlock).await;
    cluster[1].await_event("k", "set", 1).await;
}

#[tokio::test]
async fn a_quarantined_minority_of_five_delays_nobody() {
    for restarted in 1..=2 {
        let cluster = founded(5, careful).await;
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

#[tokio::test]
async fn fencing_tokens_grow_through_restarts_of_one_node_after_the_other() {
    let cluster = founded(3, brief).await;
    let redlock = brief(cluster.urls()).build().await.unwrap();
    let first = token(&redlock).await;
    cluster.await_free("k").await;
    // A quarter of an hour ahead of the wall clocks, on which tokens could otherwise rest.
    for node in &cluster {
        let mut stripes: Vec<String> = node.query(&["HKEYS", "__redlock:node:0"]);
        stripes.retain(|field| field.parse::<u64>().is_ok());
        assert!(!stripes.is_empty(), "the counters have other names");
        for stripe in &stripes {
            node.command(&["HINCRBY", "__redlock:node:0", stripe, "1000000000"]);
        }
    }
    let before = token(&redlock).await;
    assert!(before > first + 1_000_000_000, "{first} -> {before}");
    cluster.await_free("k").await;

    for node in 0..2 {
        cluster[node].restart();
        await_quarantine(&redlock, node).await;
        await_up(&redlock).await;
    }
    cluster[2].kill();

    let after = token(&redlock).await;
    assert!(after > before, "{before} -> {after}");
}

// ---- nodes that are all new

#[tokio::test]
async fn new_nodes_let_nobody_in_who_does_not_wait() {
    let cluster = Cluster::start(3);
    let redlock = careful(cluster.urls()).build().await.unwrap();

    let error = redlock.lock("k").acquire().await.unwrap_err();

    assert!(matches!(error, LockError::Quarantined(_)), "{error}");
    assert!(error.retry_after() > Some(Duration::ZERO));
    for (verdict, node) in error.verdicts().iter().zip(redlock.nodes()) {
        let verdict = verdict.verdict();
        assert!(matches!(verdict, Verdict::Quarantined { .. }), "{error}");
        assert!(matches!(node.state(), NodeState::Quarantined { .. }));
    }
    assert_eq!(cluster.held_on("k"), 0);
}

/// As long as the usual lease, and not as the longest.
#[tokio::test]
async fn new_nodes_let_those_in_who_wait_for_a_lease() {
    let cluster = Cluster::start(3);
    let redlock = careful(cluster.urls()).expire(BRIEF).guard_band(BRIEF / 10);
    let redlock = redlock.build().await.unwrap();

    let guard = redlock.lock("k").expire(NEVER).wait(PATIENCE).acquire();

    assert!(guard.await.unwrap().is_held());
}

#[tokio::test]
async fn who_assumes_that_nodes_are_fresh_does_not_wait() {
    let cluster = Cluster::start(3);
    let redlock = unhurried(cluster.urls()).build().await.unwrap();
    let guard = redlock.lock("k").acquire().await.unwrap();
    assert_eq!(guard.release().await, Release::Released);
    for node in &cluster {
        let killed = node.run_id();
        node.restart();
        assert_ne!(node.run_id(), killed);
    }

    let again = unhurried(cluster.urls()).build().await.unwrap();

    assert!(again.lock("k").acquire().await.unwrap().is_held());
}

// ---- the nodes

/// Nodes that have been in use by clients with such locks.
async fn founded(size: usize, builder: fn(Vec<String>) -> Builder) -> Cluster {
    let cluster = Cluster::start(size);
    found(&cluster, builder).await;
    cluster
}

/// In no hurry; its quarantines outlast every test.
fn careful(urls: Vec<String>) -> Builder {
    unhurried(urls).assume_fresh(false)
}

/// In no hurry but for leases and quarantines.
fn brief(urls: Vec<String>) -> Builder {
    careful(urls)
        .expire(BRIEF)
        .max_lease(BRIEF)
        .guard_band(BRIEF / 10)
}

/// Another node set on the same servers.
fn in_database_1(urls: Vec<String>) -> Builder {
    careful(urls.into_iter().map(|url| format!("{url}/1")).collect())
}

/// A node set that does not reach node 2.
async fn cut_off_from_2(cluster: &Cluster, builder: fn(Vec<String>) -> Builder) -> Redlock {
    let proxy = cluster[2].proxy();
    let mut urls = cluster.urls();
    urls[2] = proxy.url();
    proxy.set(Mode::Refuse);
    // Without the proxy nobody listens there.
    drop(proxy);
    builder(urls).build().await.unwrap()
}

/// An address that can come to lead to another server.
struct Forwarder {
    url: String,
    target: Arc<Mutex<Target>>,
}

struct Target {
    port: u16,
    connections: JoinSet<()>,
}

impl Forwarder {
    async fn to(server: &Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("redis://{}", listener.local_addr().unwrap());
        let target = Arc::new(Mutex::new(Target {
            port: server.port(),
            connections: JoinSet::new(),
        }));
        let current = Arc::clone(&target);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let mut target = current.lock().unwrap();
                let port = target.port;
                target.connections.spawn(forward(client, port));
            }
        });
        Self { url, target }
    }

    fn lead_to(&self, server: &Server) {
        let mut target = self.target.lock().unwrap();
        target.port = server.port();
        target.connections.abort_all();
    }
}

async fn forward(mut client: TcpStream, port: u16) {
    let mut server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    // An error is the end of the connection.
    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
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
    let verdict = error.verdicts()[1].verdict();
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

/// The lock can be had, as soon as connections are made again.
async fn assert_serves(redlock: &Redlock) {
    let guard = redlock.lock("k").wait(PATIENCE).acquire().await.unwrap();
    assert_eq!(guard.release().await, Release::Released);
}

async fn token(redlock: &Redlock) -> u64 {
    let guard = redlock.lock("k").wait(PATIENCE).acquire().await.unwrap();
    let token = guard.fencing_token().unwrap().get();
    guard.release().await;
    token
}

/// Waits until a node that was down or quarantined votes.
async fn await_vote(redlock: &Redlock, node: usize) {
    await_state("a vote", || redlock.nodes()[node].is_up()).await;
}
