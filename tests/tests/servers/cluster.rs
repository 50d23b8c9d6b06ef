//! The owner of a slot of a Redis Cluster as one node.

use std::{path::Path, time::Duration};

use crate::common::{
    self, await_state,
    certificates::{Authority, here},
    load::{BRIEF, Load, brief, marker},
    set_user, voting,
};
use redlock_runtime::{Redlock, Release};
use redlock_tests::{Cluster, PATIENCE, Port, RedisCluster, Server};

/// That of `{redlock}`, which the first master owns at first.
const SLOT: u16 = 2_639;

/// While tasks of two processes lock by all nodes. `new` owns the slot in the end.
async fn succession(
    set: &Set,
    new: usize,
    happen: impl AsyncFnOnce(&RedisCluster, &[Redlock; 2]),
) -> [Redlock; 2] {
    let redlocks = set.redlocks().await;
    let load = Load::start(&redlocks, BRIEF);
    load.goes_on().await;
    happen(&set.cluster, &redlocks).await;
    load.goes_on().await;
    await_state("a vote", || redlocks.iter().all(is_up)).await;
    set.assert_marked(new);
    load.goes_on().await;
    load.end().await;
    redlocks
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_takes_over_is_quarantined_and_then_votes() {
    let set = Set::start().await;
    let redlocks = succession(&set, 3, async |cluster, redlocks| {
        cluster[0].kill();
        await_state("a quarantine", || is_quarantined(redlocks)).await;
        assert_eq!(cluster.owner(SLOT, 1), 3);
    })
    .await;

    // The node is needed, and serves.
    let load = Load::start(&redlocks, BRIEF);
    set.others[0].kill();
    await_state("an outage", || {
        redlocks.iter().all(|redlock| !redlock.nodes()[0].is_up())
    })
    .await;
    load.goes_on().await;
    load.end().await;
}

/// It is stopped for so long that a replica has taken over, and does not know that when it goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_has_slept_through_its_succession_gives_no_votes_any_more() {
    let set = Set::start().await;
    succession(&set, 3, async |cluster, _| {
        cluster[0].stop();
        await_state("a new owner", || cluster.owner(SLOT, 1) == 3).await;
        cluster[0].cont();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_takes_over_without_being_elected_is_quarantined() {
    let set = Set::start().await;
    succession(&set, 3, async |cluster, redlocks| {
        cluster[3].command(&["CLUSTER", "FAILOVER", "TAKEOVER"]);
        await_state("a quarantine", || is_quarantined(redlocks)).await;
    })
    .await;
}

/// Nobody else says so. It has its marker, but not what it granted last.
#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_was_a_replica_for_a_moment_gives_no_votes_any_more() {
    let set = Set::start().await;
    let of_cluster = brief(&set.urls()[2..]);
    let [holder, rival] = [voting(of_cluster.clone()).await, voting(of_cluster).await];
    let marker = set.marker(0);
    set.cluster.sever(0);
    let guard = holder.lock("k").acquire().await.unwrap();
    set.cluster.call_back(0);
    assert_eq!(set.marker(0), marker);
    assert!(!set.cluster[0].exists("{redlock}k"));
    // It may take a second until a client asks again that was told that another server is the owner.
    let late = rival.lock("k").wait(Duration::from_secs(3)).acquire().await;
    assert!(late.is_err(), "it has voted");
    drop(guard);
}

/// With all that stands in it, so the new owner has the marker of the old one.
#[tokio::test(flavor = "multi_thread")]
async fn the_new_owner_of_a_slot_that_was_moved_is_quarantined() {
    let set = Set::start().await;
    succession(&set, 2, async |cluster, redlocks| {
        cluster.migrate(SLOT, 0, 2);
        await_state("a quarantine", || is_quarantined(redlocks)).await;
    })
    .await;

    // And back again: it is the same process, and it would have forgotten what was granted since.
    let first = set.marker(2);
    succession(&set, 0, async |cluster, redlocks| {
        cluster.migrate(SLOT, 2, 0);
        await_state("another owner", || {
            cluster.owner(SLOT, 1) == 0 && is_up(&redlocks[0]) && set.marker(0) != first
        })
        .await;
    })
    .await;
}

/// One seed is enough, and it need not be the owner.
#[tokio::test]
async fn all_that_is_written_is_in_one_slot_for_a_user_with_these_rights() {
    let cluster = RedisCluster::start();
    for server in cluster.iter() {
        let rules = common::documented_rules().map(|rule| match rule {
            "~lock:*" => "~{my.locks}*",
            rule => rule,
        });
        let rules = rules
            .filter(|rule| !rule.starts_with("~__"))
            .chain(["+cluster|nodes"]);
        set_user(server, "locker", &["on", ">secret"], rules);
    }
    let url = format!(
        "redis+cluster://locker:secret@{}?tag=my.locks",
        cluster.hosts(5..6)
    );
    let redlock = voting(Redlock::builder().nodes([&url]).assume_fresh(true)).await;
    let owner = cluster[0].query::<u16>(&["CLUSTER", "KEYSLOT", "{my.locks}"]);
    let owner = &cluster[cluster.owner(owner, 0)];

    let guard = redlock.lock("k").acquire().await.unwrap();
    let token = guard.fencing_token().unwrap();
    assert!(owner.exists("{my.locks}k"));
    // Another library finds it there.
    assert!(!owner.set_nx_px("{my.locks}k", "theirs", Duration::from_secs(1)));
    let inspection = redlock.inspect("k").await.to_string();
    assert!(inspection.contains("held"), "{inspection}");
    let other = voting(Redlock::builder().nodes([&url]).assume_fresh(true)).await;
    let waiter = other.lock("k").fair().wait(PATIENCE).acquire();
    let release = async {
        let has_place = || owner.exists("{my.locks}__redlock:queue:k");
        await_state("a place in the queue", has_place).await;
        guard.release().await
    };
    let (next, released) = tokio::join!(waiter, release);
    let next = next.unwrap();
    assert_eq!(released, Release::Released);
    assert!(next.fencing_token().unwrap() > token);
    // A loss is told by a notice, which names the key as it stands there.
    owner.wait_event("{my.locks}k", "set", 2);
    owner.command(&["DEL", "{my.locks}k"]);
    await_state("a loss", || !next.is_held()).await;
    drop(next);
    let permits = redlock.lock("p").permits(2).acquire().await.unwrap();
    let reader = redlock.lock("r").shared().acquire().await.unwrap();
    for server in cluster.iter() {
        for key in server.keys() {
            assert!(key.starts_with("{my.locks}"), "{key}");
        }
    }
    assert_eq!(permits.release().await, Release::Released);
    assert_eq!(reader.release().await, Release::Released);
}

/// Of one server, which has all slots.
#[tokio::test]
async fn a_cluster_is_spoken_to_over_tls() {
    let authority = Authority::new();
    let signed = authority.sign("server", here());
    let port = Port::reserve();
    let bus = Port::reserve();
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let server = Server::builder()
        .args(["--cluster-enabled", "yes", "--tls-cluster", "yes"])
        .args(["--tls-auth-clients", "no"])
        .args(["--cluster-port".to_owned(), bus.number().to_string()])
        .args(["--tls-port".to_owned(), port.number().to_string()])
        .args(["--tls-cert-file".to_owned(), text(&signed.cert)])
        .args(["--tls-key-file".to_owned(), text(&signed.key)])
        .args(["--tls-ca-cert-file".to_owned(), text(&authority.file())])
        .start();
    server.command(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    let (port, ca) = (port.number(), authority.file());
    let url = format!("rediss+cluster://localhost:{port}?cacert={}", ca.display());
    let redlock = voting(Redlock::builder().nodes([&url]).assume_fresh(true)).await;
    let guard = redlock.lock("k").acquire().await.unwrap();
    assert!(server.exists("{redlock}k"));
    assert_eq!(guard.release().await, Release::Released);
}

#[tokio::test]
async fn what_is_no_cluster_is_refused_in_words_that_help() {
    let server = Server::start();
    let url = format!("redis+cluster://127.0.0.1:{}", server.port());
    let redlock = Redlock::builder()
        .nodes([&url])
        .require_quorum(false)
        .build()
        .await
        .unwrap();
    let text = redlock.health().to_string();
    assert!(text.contains("cluster support disabled"), "{text}");
}

/// Two servers, and a cluster.
struct Set {
    others: Cluster,
    cluster: RedisCluster,
}

impl Set {
    /// All have voted.
    async fn start() -> Self {
        let set = Self {
            others: Cluster::start(2),
            cluster: RedisCluster::start(),
        };
        drop(voting(brief(&set.urls()).assume_fresh(true)).await);
        set.assert_marked(0);
        let is_replicated = || set.marker(3) == set.marker(0);
        await_state("a marker that is replicated", is_replicated).await;
        set
    }

    fn urls(&self) -> Vec<String> {
        let mut urls = self.others.urls();
        urls.push(format!("redis+cluster://{}", self.cluster.hosts(0..2)));
        urls
    }

    async fn redlocks(&self) -> [Redlock; 2] {
        [
            voting(brief(&self.urls())).await,
            voting(brief(&self.urls())).await,
        ]
    }

    /// Whom the marker on a server names.
    fn marker(&self, server: usize) -> String {
        marker(&self.cluster[server], "{redlock}")
    }

    #[track_caller]
    fn assert_marked(&self, server: usize) {
        let process = self.cluster[server].run_id();
        let id: String = self.cluster[server].query(&["CLUSTER", "MYID"]);
        let marker = self.marker(server);
        let is_its_own = marker.starts_with(&format!("{process}@")) && marker.ends_with(&id);
        assert!(is_its_own, "{marker} on {process}, {id}");
    }
}

/// The first one that connects to the new owner has it quarantined. The other one may come when that is over.
fn is_quarantined(redlocks: &[Redlock; 2]) -> bool {
    redlocks.iter().any(|it| common::is_quarantined(it, 2))
}

fn is_up(redlock: &Redlock) -> bool {
    redlock.nodes()[2].is_up()
}
