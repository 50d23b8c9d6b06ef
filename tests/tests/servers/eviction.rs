//! A node that drops keys when memory runs out does not vote, unless that is allowed.

use crate::common::{connect, unhurried};
use redlock_runtime::{NodeState, ProblemKind, Redlock, Release};
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

#[tokio::test]
async fn nodes_that_evict_vote_where_that_is_allowed() {
    let cluster = Cluster::start_with(3, &with_policy(POLICY));
    let builder = unhurried(cluster.urls()).allow_eviction(true);

    let redlock = builder.build().await.unwrap();

    assert_all_vote(&redlock, &cluster).await;
}

#[tokio::test]
async fn nodes_with_a_limit_that_refuse_instead_of_evicting_vote() {
    let cluster = Cluster::start_with(3, &with_policy("noeviction"));

    let redlock = connect(&cluster).await;

    assert_all_vote(&redlock, &cluster).await;
}

#[tokio::test]
async fn a_policy_without_a_limit_evicts_nothing() {
    let settings = Server::builder().args(["--maxmemory-policy", POLICY]);
    let cluster = Cluster::start_with(3, &settings);

    let redlock = connect(&cluster).await;

    assert_all_vote(&redlock, &cluster).await;
}

async fn assert_all_vote(redlock: &Redlock, cluster: &Cluster) {
    crate::common::await_up(redlock).await;
    let guard = redlock.lock("k").acquire().await.unwrap();
    for node in cluster {
        node.await_event("k", "set", 1).await;
    }
    assert_eq!(guard.release().await, Release::Released);
    cluster.await_free("k").await;
}

fn with_policy(policy: &str) -> ServerBuilder {
    Server::builder().args(["--maxmemory", "100mb", "--maxmemory-policy", policy])
}
