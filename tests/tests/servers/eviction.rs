//! A node that drops keys when memory runs out does not vote, unless that is allowed.

use crate::common::{acquire_on_all, unhurried, voting};
use redlock_runtime::{NodeState, ProblemKind, Release};
use redlock_tests::{Cluster, Server, ServerBuilder};

const POLICY: &str = "allkeys-lru";

#[tokio::test]
async fn a_node_that_evicts_does_not_vote_and_the_others_carry_on() {
    let (cluster, evicting) = (Cluster::start(2), with_policy(POLICY).start());
    let mut urls = cluster.urls();
    urls.push(evicting.url());

    let redlock = unhurried(urls).build().await.unwrap();

    let nodes = redlock.nodes();
    let policy = POLICY.into();
    assert_eq!(*nodes[2].state(), NodeState::Evicts { policy });
    assert!(!nodes[2].is_up());
    let guard = redlock.lock("k").acquire().await.unwrap();
    assert_eq!(cluster.held_on("k"), 2);
    assert_eq!(guard.release().await, Release::Released);
    cluster.await_free("k").await;
    assert_eq!(evicting.events("k"), [""; 0]);
}

#[tokio::test]
async fn a_node_set_that_evicts_is_a_mistake_that_names_each_node() {
    let cluster = Cluster::start_with(3, &with_policy(POLICY));

    let error = unhurried(cluster.urls()).build().await.unwrap_err();

    assert_eq!(error.problems().len(), cluster.len());
    for (problem, node) in error.problems().iter().zip(&cluster) {
        assert_eq!(problem.kind, ProblemKind::EvictingNode);
        assert_eq!(problem.setting, format!("127.0.0.1:{}", node.port()));
        assert!(problem.fact.contains(POLICY), "{error}");
    }
}

/// One is allowed to evict, one refuses instead, and one has no limit.
#[tokio::test]
async fn nodes_that_are_allowed_to_evict_or_never_do_vote() {
    let unlimited = Server::builder().args(["--maxmemory-policy", POLICY]);
    for (settings, is_allowed) in [
        (with_policy(POLICY), true),
        (with_policy("noeviction"), false),
        (unlimited, false),
    ] {
        let cluster = Cluster::start_with(3, &settings);
        let builder = unhurried(cluster.urls()).allow_eviction(is_allowed);
        let redlock = voting(builder).await;
        let guard = acquire_on_all(&redlock, &cluster, "k").await;
        assert_eq!(guard.release().await, Release::Released);
        cluster.await_free("k").await;
    }
}

fn with_policy(policy: &str) -> ServerBuilder {
    Server::builder().args(["--maxmemory", "100mb", "--maxmemory-policy", policy])
}
