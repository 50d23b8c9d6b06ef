//! Leader election, on real servers.

use redlock_runtime::{Leader, LockError, Observation, Redlock, Release};
use redlock_tests::{Cluster, Server};

use crate::common::{await_state, connect, documented_rules, set_user, unhurried};

const RESIGNATIONS: usize = 20;

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
