//! Servers that lack commands, as those of hosting services do: they are nodes all the same, and say what is
//! lost.

use std::time::Duration;

use crate::{
    common::{await_quarantine, await_state, voting},
    rights::lock_in_all_ways,
};
use futures_util::future::join_all;
use redlock_runtime::{Limitation, NodeState, Redlock, WhyKind};
use redlock_tests::{Cluster, Server};

/// Of a lease whose quarantine a test can wait for.
const BRIEF: Duration = Duration::from_secs(2);

#[tokio::test]
async fn servers_that_lack_commands_are_nodes_and_say_what_is_lost() {
    use Limitation::{DurabilityUnknown, NoNotices, RestartsUnseen};
    let rows: [(&[&str], &[Limitation]); 6] = [
        (&[], &[]),
        (&["CONFIG"], &[DurabilityUnknown]),
        (&["INFO"], &[RestartsUnseen]),
        (&["SCRIPT"], &[]),
        // As a service has them.
        (&["CLIENT", "CONFIG"], &[DurabilityUnknown, NoNotices]),
        // All but what is needed.
        (
            &["CLIENT", "CONFIG", "INFO", "SCRIPT", "MGET"],
            &[RestartsUnseen, DurabilityUnknown, NoNotices],
        ),
    ];
    join_all(rows.map(|(hidden, limitations)| serve(hidden, limitations))).await;
}

#[tokio::test]
async fn servers_without_resp3_are_refused_and_say_why() {
    let settings = Server::builder().password("secret").hide(["HELLO"]);
    let cluster = Cluster::start_with(3, &settings);
    let redlock = Redlock::builder().nodes(cluster.urls());
    let redlock = redlock.build().await.unwrap();
    for node in redlock.nodes() {
        let is_too_old =
            matches!(node.state(), NodeState::Down { reason: why } if why.kind == WhyKind::TooOld);
        assert!(is_too_old, "{node}");
    }
}

/// Everything that a caller may ask for works, and what is lost is said.
async fn serve(hidden: &[&str], limitations: &[Limitation]) {
    let settings = Server::builder()
        .password("secret")
        .hide(hidden.iter().copied());
    let cluster = Cluster::start_with(3, &settings);
    let (one, two) = (connect(&cluster).await, connect(&cluster).await);
    for node in one.nodes() {
        assert_eq!(node.limitations(), limitations, "without {hidden:?}");
    }

    lock_in_all_ways(&one, &two).await.unwrap();

    // Without persistence, each restart is seen.
    cluster[1].restart();
    await_quarantine(&one, 1).await;
    await_state("a vote", || one.nodes()[1].is_up()).await;
    assert_eq!(one.nodes()[1].limitations(), limitations);
    drop(one.lock("k").acquire().await.unwrap());
}

/// All nodes vote.
async fn connect(cluster: &Cluster) -> Redlock {
    let builder = Redlock::builder()
        .nodes(cluster.urls())
        .expire(BRIEF)
        .max_lease(BRIEF)
        .guard_band(BRIEF / 4)
        .node_timeout(BRIEF / 2);
    voting(builder).await
}
