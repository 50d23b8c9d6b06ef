//! A master that Sentinels name as one node.

use crate::common::{
    await_quarantine, await_state,
    certificates::{Authority, here, localhost},
    is_quarantined,
    load::{BRIEF, Load, await_handover, brief as builder, marker},
    voting,
};
use redlock_runtime::{Builder, ProblemKind, Release, Tls};
use redlock_tests::{Cluster, Sentinel, Server, StandIn};

const NAME: &str = "locks";

// ---- real ones

/// While tasks of two processes lock by all nodes.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_is_promoted_is_quarantined_and_then_votes() {
    let others = Cluster::start(2);
    let (master, replica) = (Server::start(), Server::start());
    follow(&replica, &master).await;
    let sentinels = Sentinel::three_for(NAME, &master);
    for sentinel in &sentinels {
        await_state("sentinels that know all", || {
            let field = |field| sentinel.field(NAME, field);
            field("num-other-sentinels") == "2" && field("num-slaves") == "1"
        })
        .await;
    }
    let hosts = sentinels
        .each_ref()
        .map(|it| format!("127.0.0.1:{}", it.port()));
    let mut urls = others.urls();
    urls.push(format!("redis+sentinel://{}/{NAME}", hosts.join(",")));
    drop(voting(builder(&urls).assume_fresh(true)).await);
    let redlocks = [voting(builder(&urls)).await, voting(builder(&urls)).await];
    assert_eq!(marker(&master, ""), format!("{}@0", master.run_id()));
    await_state("a marker that is replicated", || {
        marker(&replica, "") == marker(&master, "")
    })
    .await;
    let load = Load::start(&redlocks, BRIEF);

    master.kill();
    // One of them may come to it when the quarantine is over.
    await_state("a quarantine", || {
        redlocks.iter().any(|it| is_quarantined(it, 2))
    })
    .await;
    load.goes_on().await;
    await_state("a vote", || {
        redlocks.iter().all(|redlock| redlock.nodes()[2].is_up())
    })
    .await;
    let epoch = sentinels[0].field(NAME, "config-epoch");
    assert_eq!(
        marker(&replica, ""),
        format!("{}@{epoch}", replica.run_id())
    );
    load.goes_on().await;

    // The node is needed, and serves.
    others[0].kill();
    await_state("an outage that is known", || {
        redlocks
            .iter()
            .all(|redlock| !redlock.nodes()[0].is_up() && redlock.nodes()[2].is_up())
    })
    .await;
    load.goes_on().await;
    load.end().await;
}

#[tokio::test]
async fn a_sentinel_that_watches_no_such_master_says_so() {
    let master = Server::start();
    let [first, _second, _third] = Sentinel::three_for(NAME, &master);
    let url = format!("redis+sentinel://127.0.0.1:{}/other", first.port());
    let redlock = builder(&[url]).build().await.unwrap();
    let text = redlock.health().to_string();
    assert!(text.contains("No such master with that name"), "{text}");
    assert!(
        text.contains("the only known sentinel names no master `other`"),
        "{text}"
    );
}

/// They and the master require certificates of clients.
#[tokio::test]
async fn sentinels_and_their_master_are_spoken_to_over_tls() {
    let authority = Authority::new();
    let master = authority.server(here(), "yes");
    let client = authority.sign("client", localhost());
    let signed = authority.sign("sentinel", here());
    let settings = format!(
        "tls-cert-file {}\ntls-key-file {}\ntls-ca-cert-file {}\ntls-auth-clients yes\n",
        signed.cert.display(),
        signed.key.display(),
        authority.file().display(),
    );
    let sentinels = Sentinel::three_over_tls(NAME, master.port(), &settings);
    let url = |host: &str, rest: &str| {
        let hosts = sentinels
            .each_ref()
            .map(|it| format!("{host}:{}", it.port()));
        format!("rediss+sentinel://{}/{NAME}{rest}", hosts.join(","))
    };
    let all = Tls::new()
        .cacert_file(authority.file())
        .cert_files(&client.cert, &client.key);
    let ca = authority.file();
    let [ca, cert, key] = [&ca, &client.cert, &client.key].map(|it| it.display());
    let in_url = format!("?cacert={ca}&cert={cert}&key={key}");
    for builder in [
        builder(&[url("127.0.0.1", "")]).tls(all.clone()),
        builder(&[url("127.0.0.1", &in_url)]),
        // The master has another address than its Sentinels, and is known by the same name.
        builder(&[url("127.0.0.1", "?sni=localhost")]).tls(all.clone()),
        builder(&[url("localhost", "")]).tls(all),
    ] {
        let redlock = voting(builder.assume_fresh(true)).await;
        let guard = redlock.lock("k").acquire().await.unwrap();
        assert_eq!(guard.release().await, Release::Released);
    }

    let stranger = Authority::named("stranger");
    for (tls, words) in [
        (Tls::new().cacert_file(stranger.file()), "UnknownIssuer"),
        (
            Tls::new().cacert_file(authority.file()),
            "CertificateRequired",
        ),
        (
            Tls::new().cacert_file(authority.file()).sni("else"),
            "not valid for name",
        ),
    ] {
        let redlock = builder(&[url("127.0.0.1", "")]).tls(tls).build().await;
        let text = redlock.unwrap().health().to_string();
        assert!(text.contains("no majority of 3 sentinels"), "{text}");
        assert!(text.contains(words), "{words}: {text}");
    }
}

// ---- stand-ins

/// One client reaches the old master and no sentinel any more; the other one reaches the new master.
#[tokio::test]
async fn a_new_master_is_used_only_after_the_old_one_has_been_left_by_those_who_hear_no_sentinel() {
    let set = Set::start().await;
    let old = voting(set.builder(0)).await;
    for sentinel in &set.sentinels {
        sentinel.shut(0);
    }
    set.promote();
    let new = set.builder(1).build().await.unwrap();

    await_handover([&old, &new], &set.master).await;
    let text = old.health().to_string();
    assert!(
        text.contains("no majority of 3 sentinels names one master"),
        "{text}"
    );
}

/// It has the marker of its first term, and not what it granted last in it.
#[tokio::test]
async fn a_master_that_comes_back_is_quarantined_although_it_is_the_same_process() {
    let set = Set::start().await;
    let redlock = voting(set.builder(0)).await;
    let marked = marker(&set.master, "");
    assert_eq!(marked, format!("{}@0", set.master.run_id()));

    // Nobody has looked at the other one in the meantime.
    for sentinel in &set.sentinels {
        sentinel.name(set.master.port(), 2);
    }
    await_quarantine(&redlock, 2).await;
    await_state("a vote", || redlock.nodes()[2].is_up()).await;
    assert_eq!(
        marker(&set.master, ""),
        format!("{}@2", set.master.run_id())
    );
}

/// A process that does not tell who it is might be any.
#[tokio::test]
async fn a_master_must_tell_which_process_it_is() {
    let set = Set::start().await;
    set.master.command(&["ACL", "SETUSER", "default", "-info"]);
    let redlock = set.builder(0).build().await.unwrap();
    let text = redlock.health().to_string();
    assert!(text.contains("allow `INFO`"), "{text}");
}

#[tokio::test]
async fn a_server_is_not_two_nodes_by_its_own_name_and_by_that_of_sentinels() {
    let set = Set::start().await;
    let urls = [set.master.url(), set.url(0)];
    let error = builder(&urls).build().await.unwrap_err();
    assert_eq!(error.problems()[0].kind, ProblemKind::SameServer, "{error}");
}

/// Two servers, and one that stand-ins name, with a replica.
struct Set {
    others: Cluster,
    master: Server,
    replica: Server,
    sentinels: [StandIn; 3],
}

impl Set {
    /// All have voted.
    async fn start() -> Self {
        let (master, replica) = (Server::start(), Server::start());
        follow(&replica, &master).await;
        let set = Self {
            others: Cluster::start(2),
            sentinels: [(); 3].map(|()| StandIn::naming(master.port())),
            master,
            replica,
        };
        drop(voting(set.builder(1).assume_fresh(true)).await);
        await_state("a marker", || {
            marker(&set.replica, "") == marker(&set.master, "")
        })
        .await;
        set
    }

    fn url(&self, door: usize) -> String {
        let addresses = self.sentinels.each_ref().map(|it| it.address(door));
        format!("redis+sentinel://{}/{NAME}", addresses.join(","))
    }

    fn builder(&self, door: usize) -> Builder {
        let mut urls = self.others.urls();
        urls.push(self.url(door));
        builder(&urls)
    }

    /// The replica is the master, and all sentinels say so. The old one goes on as before.
    fn promote(&self) {
        self.replica.command(&["REPLICAOF", "NO", "ONE"]);
        for sentinel in &self.sentinels {
            sentinel.name(self.replica.port(), 1);
        }
    }
}

// ---- steps

async fn follow(replica: &Server, master: &Server) {
    replica.command(&["REPLICAOF", "127.0.0.1", &master.port().to_string()]);
    let is_up = || replica.info("replication")["master_link_status"] == "up";
    await_state("a replica", is_up).await;
}
