//! Leader election, on real servers.

use std::{collections::BTreeMap, time::Instant};

use redlock_runtime::{Leader, LockError, Observation, Redlock, Release};
use redlock_tests::{Cluster, Server, Worker};

use crate::common::{await_state, connect, documented_rules, set_user, unhurried};

const CANDIDATES: usize = 3;

const RESIGNATIONS: usize = 20;

/// A process that campaigns until it is killed.
fn candidate(cluster: &Cluster, store: &Server) -> Worker {
    let environment = [
        ("REDLOCK_NODES", &*cluster.url_list()),
        ("STORE", &store.own_url()),
    ];
    let worker = Worker::spawn(env!("CARGO_BIN_EXE_candidate"), &[], &environment);
    worker.expect_line("ready");
    worker
}

/// Token and process of each write, in the order in which the store has accepted them.
fn accepted(store: &Server, from: &str) -> Vec<(u64, u32)> {
    let entries: Vec<String> = store.query(&["LRANGE", "{term}", from, "-1"]);
    let pair = |entry: String| {
        let (token, process) = entry.split_once(' ').unwrap();
        (token.parse().unwrap(), process.parse().unwrap())
    };
    entries.into_iter().map(pair).collect()
}

#[tokio::test]
async fn each_killed_leader_is_succeeded_and_no_two_lead_at_a_time() {
    kill_leaders(3).await;
}

/// `cargo test --release -p redlock-tests --test servers election::twenty -- --ignored --nocapture` prints how long
/// the fleet was without a leader.
#[tokio::test]
#[ignore = "it takes a minute"]
async fn twenty_killed_leaders_are_succeeded_and_no_two_lead_at_a_time() {
    kill_leaders(20).await;
}

/// Kills one leader after the other, each as soon as the store has accepted a write of it.
async fn kill_leaders(kills: usize) {
    let (cluster, store) = (Cluster::start(3), Server::start());
    let mut candidates: Vec<Worker> = (0..CANDIDATES)
        .map(|_| candidate(&cluster, &store))
        .collect();
    let builder = Redlock::builder().nodes(cluster.urls()).assume_fresh(true);
    let observer = builder.build().await.unwrap();
    let mut leaders = observer.leader("scheduler").observe();
    let (mut last, mut killed_at, mut gaps) = (0, None, Vec::new());
    for _ in 0..=kills {
        let mut leader = None;
        await_state("a successor", || {
            let newest = accepted(&store, "-1").pop();
            leader = newest.filter(|(token, _)| *token > last);
            leader.is_some()
        })
        .await;
        gaps.extend(killed_at.map(|at: Instant| at.elapsed()));
        let (token, process) = leader.unwrap();
        // On a busy machine a leader can lose its lease by itself, and lead again.
        let seen = loop {
            let seen = leaders.next().await.unwrap();
            if seen.token.get() >= token {
                break seen;
            }
        };
        if seen.token.get() == token {
            assert_eq!(seen.value, process.to_string());
        }
        let at = candidates.iter().position(|it| it.pid() == process);
        let killed = &mut candidates[at.expect("a process that lives leads")];
        killed.kill();
        killed_at = Some(Instant::now());
        *killed = candidate(&cluster, &store);
        last = token;
    }
    gaps.sort_unstable();
    println!(
        "{kills} leaders killed; the next one wrote after {:.2?} to {:.2?}, {:.2?} in the middle",
        gaps[0],
        gaps[kills - 1],
        gaps[kills / 2]
    );
    let mut leaders = BTreeMap::new();
    let mut largest = 0;
    for (token, process) in accepted(&store, "0") {
        assert!(token >= largest, "{token} after {largest}");
        largest = token;
        let leader = *leaders.entry(token).or_insert(process);
        assert_eq!(leader, process, "two leaders have the token {token}");
    }
    assert!(leaders.len() > kills, "{leaders:?}");
    assert_eq!(store.get("refused"), None, "two led at a time");
}

#[tokio::test]
async fn a_leader_that_resigns_is_followed_by_the_process_that_waits() {
    let cluster = Cluster::start(3);
    let (mut leading, mut waiting) = (connect(&cluster).await, connect(&cluster).await);
    let mut leader = leading.leader("scheduler").campaign().await.unwrap();
    let is_queue = |node: &Server| node.exists("__redlock:queue:scheduler");
    let mut followed = 0;
    for _ in 0..RESIGNATIONS {
        let mut campaign = tokio::spawn(waiting.leader("scheduler").campaign());
        await_state("a candidate that waits", || cluster.iter().any(is_queue)).await;
        let token = leader.fencing_token().unwrap();
        // Leases do not end here, so the successor leads because the leader has resigned.
        assert_eq!(leader.resign().await, Release::Released);
        // The former leader is a candidate again, behind the one that waits, unless a busy machine does not let that
        // one run.
        let mut again = tokio::spawn(leading.leader("scheduler").campaign());
        let (led, other) = tokio::select! {
            led = &mut campaign => {
                followed += 1;
                std::mem::swap(&mut leading, &mut waiting);
                (led, again)
            }
            led = &mut again => (led, campaign),
        };
        leader = led.unwrap().unwrap();
        assert!(leader.fencing_token().unwrap() > token);
        other.abort();
        assert!(other.await.unwrap_err().is_cancelled());
        await_state("no candidate", || !cluster.iter().any(is_queue)).await;
    }
    assert!(followed > RESIGNATIONS / 2, "only {followed}");
}

/// Of which no server is read by a user who may be notified, if `is_notified` is false.
async fn observe(cluster: &Cluster, is_notified: bool) -> (Redlock, Observation) {
    let user = if is_notified { "told" } else { "untold" };
    let rules = documented_rules().filter(|rule| is_notified || *rule != "+client|tracking");
    let rules: Vec<_> = rules.collect();
    for node in cluster {
        set_user(node, user, &["on", ">secret"], rules.iter().copied());
    }
    let urls = cluster.iter().map(|node| {
        let port = node.port();
        format!("redis://{user}:secret@127.0.0.1:{port}")
    });
    let redlock = unhurried(urls).key_prefix("lock:").build().await.unwrap();
    let observation = redlock.leader("scheduler").observe();
    (redlock, observation)
}

#[tokio::test]
async fn an_observer_sees_each_leader_whether_servers_notify_it_or_not() {
    let cluster = Cluster::start(3);
    for is_notified in [true, false] {
        let (_observer, mut leaders) = observe(&cluster, is_notified).await;
        let builder = unhurried(cluster.urls()).key_prefix("lock:");
        let candidate = builder.build().await.unwrap();
        for value in ["10.0.0.1", "10.0.0.2", "10.0.0.3"] {
            let campaign = candidate.leader("scheduler").value(value).campaign();
            let leadership = campaign.await.unwrap();
            let leader: Leader = leaders.next().await.unwrap();
            assert_eq!(leader.value, value, "notified: {is_notified}");
            assert_eq!(leader.token, leadership.fencing_token().unwrap());
            leadership.resign().await;
            await_state("nobody leads", || leaders.current().is_none()).await;
        }
    }
}

#[tokio::test]
async fn a_leader_changes_what_it_says_of_itself() {
    let cluster = Cluster::start(3);
    let (_observer, mut leaders) = observe(&cluster, true).await;
    let builder = unhurried(cluster.urls()).key_prefix("lock:");
    let candidate = builder.build().await.unwrap();
    let election = candidate.leader("scheduler").value("starting");
    let leadership = election.campaign().await.unwrap();
    assert_eq!(leaders.next().await.unwrap().value, "starting");
    leadership.set_value("10.0.0.7:8080").unwrap();
    let leader = leaders.next().await.unwrap();
    assert_eq!(leader.value, "10.0.0.7:8080");
    assert_eq!(leader.token, leadership.fencing_token().unwrap());

    let error = leadership.set_value("v".repeat(257)).unwrap_err();
    assert!(matches!(error, LockError::Config(_)), "{error}");
    let lease = leadership.lease();
    leadership.resign().await;
    let error = lease.set_value("late").unwrap_err();
    assert!(matches!(error, LockError::Released(_)), "{error}");
}

#[tokio::test]
async fn an_observer_keeps_the_leader_while_servers_are_down_and_sees_the_next_one_afterwards() {
    let cluster = Cluster::start(3);
    let (candidate, observer) = (connect(&cluster).await, connect(&cluster).await);
    let election = candidate.leader("scheduler").value("first");
    let leadership = election.campaign().await.unwrap();
    let mut leaders = observer.leader("scheduler").observe();
    let first = leaders.next().await.unwrap();
    cluster[0].kill();
    // A majority shows that the leader is gone, and the next one.
    leadership.resign().await;
    await_state("nobody leads", || leaders.current().is_none()).await;
    let election = candidate.leader("scheduler").value("second");
    let _leadership = election.campaign().await.unwrap();
    let second = leaders.next().await.unwrap();
    assert_eq!(second.value, "second");
    assert!(second.token > first.token);
    cluster[1].kill();
    while observer.health().has_quorum() {
        tokio::task::yield_now().await;
    }
    assert_eq!(leaders.current(), Some(second), "one node decides nothing");
}
