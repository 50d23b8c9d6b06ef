//! Leader election, on real servers.

use std::collections::BTreeMap;

use redlock_runtime::Release;
use redlock_tests::{Cluster, Server, Worker};

use crate::common::{await_state, connect};

const CANDIDATES: usize = 3;

const KILLS: usize = 20;

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
async fn each_of_twenty_killed_leaders_is_succeeded_and_no_two_lead_at_a_time() {
    let (cluster, store) = (Cluster::start(3), Server::start());
    let mut candidates: Vec<Worker> = (0..CANDIDATES)
        .map(|_| candidate(&cluster, &store))
        .collect();
    let mut last = 0;
    for _ in 0..KILLS {
        let mut leader = None;
        await_state("a successor", || {
            let newest = accepted(&store, "-1").pop();
            leader = newest.filter(|(token, _)| *token > last);
            leader.is_some()
        })
        .await;
        let (token, process) = leader.unwrap();
        let at = candidates.iter().position(|it| it.pid() == process);
        let killed = &mut candidates[at.expect("a process that lives leads")];
        killed.kill();
        *killed = candidate(&cluster, &store);
        last = token;
    }
    let mut leaders = BTreeMap::new();
    let mut largest = 0;
    for (token, process) in accepted(&store, "0") {
        assert!(token >= largest, "{token} after {largest}");
        largest = token;
        let leader = *leaders.entry(token).or_insert(process);
        assert_eq!(leader, process, "two leaders have the token {token}");
    }
    assert!(leaders.len() >= KILLS, "{leaders:?}");
    assert_eq!(store.get("refused"), None, "two led at a time");
}

#[tokio::test]
async fn a_leader_that_resigns_is_followed_by_the_process_that_waits() {
    let cluster = Cluster::start(3);
    let (mut leading, mut waiting) = (connect(&cluster).await, connect(&cluster).await);
    let mut leader = leading.leader("scheduler").campaign().await.unwrap();
    let is_queue = |node: &Server| node.exists("__redlock:queue:scheduler");
    for _ in 0..RESIGNATIONS {
        let campaign = tokio::spawn(waiting.leader("scheduler").campaign());
        await_state("a candidate that waits", || cluster.iter().any(is_queue)).await;
        let token = leader.fencing_token().unwrap();
        // Leases do not end here, so the successor leads because the leader has resigned.
        assert_eq!(leader.resign().await, Release::Released);
        // The former leader is a candidate again, behind the one that waits.
        let again = tokio::spawn(leading.leader("scheduler").campaign());
        leader = campaign.await.unwrap().unwrap();
        assert!(leader.fencing_token().unwrap() > token);
        again.abort();
        assert!(again.await.unwrap_err().is_cancelled());
        await_state("no candidate", || !cluster.iter().any(is_queue)).await;
        std::mem::swap(&mut leading, &mut waiting);
    }
}
