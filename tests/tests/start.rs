//! How a program starts: `install` waits until locks are granted, or says why none can.
//!
//! A program of its own: what is installed holds for a whole process.

mod common;

use std::{future::pending, net::Ipv4Addr, time::Duration};

use common::{
    await_state,
    certificates::{Authority, localhost},
    unhurried,
};
use rcgen::date_time_ymd;
use redlock_runtime::{Builder, LockError, ProblemKind, Redlock, Tls};
use redlock_tests::{Cluster, PATIENCE, Port, Sentinel, Server};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Mutex,
};

/// There is one installed node set in a process.
static INSTALLED: Mutex<()> = Mutex::const_new(());

/// With a quarantine that a test can wait for.
fn brief(cluster: &Cluster) -> Builder {
    with_brief_quarantine(cluster.urls())
}

fn with_brief_quarantine(urls: impl IntoIterator<Item = String>) -> Builder {
    Redlock::builder()
        .nodes(urls)
        .connect_timeout(PATIENCE)
        .expire(Duration::from_millis(500))
        .max_lease(Duration::from_secs(1))
}

/// Why there is no majority, in one line.
async fn refused(builder: Builder) -> String {
    let _one = INSTALLED.lock().await;
    let error = builder.install().await.unwrap_err();
    let text = error.to_string();
    assert_eq!(error.problems()[0].kind, ProblemKind::NoQuorum, "{text}");
    assert!(!text.contains('\n'), "{text}");
    text
}

/// A cluster of one server, which is used some seconds after it was found first.
#[tokio::test]
async fn a_cluster_that_is_new_votes_once_install_returns() {
    let _one = INSTALLED.lock().await;
    let bus = Port::reserve();
    let server = Server::builder()
        .args(["--cluster-enabled", "yes", "--cluster-port"])
        .args([bus.number().to_string()])
        .start();
    server.command(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    let info = || server.query::<String>(&["CLUSTER", "INFO"]);
    await_state("a cluster", || info().starts_with("cluster_state:ok")).await;
    let url = format!("redis+cluster://127.0.0.1:{}", server.port());
    let installed = with_brief_quarantine([url]).install().await.unwrap();
    assert!(installed.health().has_quorum());
}

#[tokio::test]
async fn servers_that_are_new_vote_once_install_returns() {
    let _one = INSTALLED.lock().await;
    let cluster = Cluster::start(3);

    let without = brief(&cluster).require_quorum(false).install().await;
    let without = without.unwrap();
    let health = without.health();
    assert!(!health.has_quorum(), "{health}");
    assert!(health.quorum_in().is_some(), "{health}");
    let error = without.lock("k").acquire().await.unwrap_err();
    assert!(matches!(error, LockError::Quarantined(_)), "{error}");
    let error = without.ready(Duration::ZERO).await.unwrap_err();
    assert!(!error.health().has_quorum());
    drop(without);

    let installed = brief(&cluster).install().await.unwrap();
    assert!(installed.health().has_quorum());
    let guard = installed.lock("k").acquire().await.unwrap();
    assert!(guard.is_held());
    installed.ready(Duration::ZERO).await.unwrap();
}

#[tokio::test]
async fn without_a_majority_install_says_what_is_wrong_with_each_node() {
    let _one = INSTALLED.lock().await;
    let cluster = Cluster::start(3);
    cluster[1].kill();
    cluster[2].kill();

    let error = unhurried(cluster.urls()).install().await.unwrap_err();
    let [problem] = error.problems() else {
        panic!("{error}");
    };
    assert_eq!(problem.kind, ProblemKind::NoQuorum);
    assert_eq!(problem.health.as_ref().unwrap().quorum_in(), None);
    let text = error.to_string();
    assert!(text.contains("1 of 3 nodes votes, 2 are needed"), "{text}");
    let [one, other] = [1, 2].map(|node| format!("127.0.0.1:{}", cluster[node].port()));
    let both = format!("each of {one}, {other} is unreachable");
    assert!(text.contains(&both), "{text}");
    assert!(text.contains("`require_quorum(false)`"), "{text}");
    assert!(Redlock::installed().is_none());

    let builder = unhurried(cluster.urls()).require_quorum(false);
    let installed = builder.install().await.unwrap();
    assert!(installed.ready(Duration::ZERO).await.is_err());
    cluster[1].restart();
    installed.ready(PATIENCE).await.unwrap();
}

#[tokio::test]
async fn a_second_install_is_refused_before_anything_is_waited_for() {
    let _one = INSTALLED.lock().await;
    let cluster = Cluster::start(1);
    let _first = unhurried(cluster.urls()).install().await.unwrap();
    cluster[0].stop();
    let second = unhurried(cluster.urls()).install();
    let error = second.await.unwrap_err();
    assert_eq!(error.problems()[0].kind, ProblemKind::AlreadyInstalled);
    cluster[0].cont();
}

#[tokio::test]
async fn errors_read_the_same_where_main_prints_them() {
    let error = Redlock::builder()
        .nodes(Vec::<String>::new())
        .build()
        .await
        .unwrap_err();
    assert_eq!(format!("{error:?}"), error.to_string());
    let server = Server::start();
    let redlock = unhurried([server.url()]).build().await.unwrap();
    let _held = redlock.lock("k").acquire().await.unwrap();
    let error = redlock.lock("k").acquire().await.unwrap_err();
    assert_eq!(format!("{error:?}"), error.to_string());
}

/// Each kind of server that cannot be a node, and the word that names what to do.
#[tokio::test]
async fn servers_that_cannot_be_nodes_are_told_apart() {
    let master = Server::start();
    let replica_of = ["--replicaof", "127.0.0.1", &master.port().to_string()];
    let replica = Server::builder().args(replica_of).start();
    let in_cluster = Server::builder().args(["--cluster-enabled", "yes"]);
    let in_cluster = in_cluster.start();
    let sentinel = Sentinel::start();
    for (url, words) in [
        (in_cluster.url(), "redis+cluster://"),
        (replica.url(), "its master"),
        (sentinel.url(), "it may be a Sentinel"),
    ] {
        let text = refused(unhurried([&url])).await;
        assert!(text.contains(words), "{text}");
    }
}

/// Each kind of address at which there is no node, and the words that name what to check.
#[tokio::test]
async fn addresses_without_a_node_are_told_apart() {
    let nobody = Port::reserve();
    let server = Server::start();
    let other_service = listen(|mut peer| async move {
        peer.write_all(b"SSH-2.0-x\r\n").await.unwrap();
        let _ = peer.read_to_end(&mut Vec::new()).await;
    });
    let other_service = other_service.await;
    let without_tls = listen(|peer| async move { drop(peer) }).await;
    let silent = listen(|peer| async move {
        let _peer = peer;
        pending::<()>().await;
    });
    let silent = silent.await;
    for (url, words) in [
        (
            format!("redis://127.0.0.1:{}", nobody.number()),
            "no server listens there: check host and port",
        ),
        (
            "unix:///nowhere/redis.sock".to_owned(),
            "no server listens there: check host and port",
        ),
        (
            "redis://no-such-host.invalid".to_owned(),
            "check the name of the host",
        ),
        (
            format!("redis://127.0.0.1:{other_service}"),
            "something else listens there: check the port",
        ),
        (
            format!("rediss://127.0.0.1:{other_service}"),
            "use the port for TLS, or `redis://`",
        ),
        (
            format!("rediss://127.0.0.1:{without_tls}"),
            "use the port for TLS, or `redis://`",
        ),
        (
            format!("redis://127.0.0.1:{}/99", server.port()),
            "check the number at the end of the URL",
        ),
        (
            format!("redis://127.0.0.1:{silent}"),
            "check host, port and firewall",
        ),
    ] {
        // The one that never replies is waited for. The others may be slow to, on a busy machine.
        let patience = if url.ends_with(&format!(":{silent}")) {
            1
        } else {
            30
        };
        let builder = unhurried([&url]).connect_timeout(Duration::from_secs(patience));
        let text = refused(builder).await;
        assert!(text.contains(words), "{url}: {text}");
    }
}

/// Each way in which two sides of a TLS connection disagree, and the words that name what to do.
#[tokio::test]
async fn servers_and_clients_that_do_not_fit_by_tls_are_told_apart() {
    let authority = Authority::new();
    let good = authority.server(localhost(), "no");
    let strict = authority.server(localhost(), "yes");
    let mut params = localhost();
    params.not_after = date_time_ymd(2001, 1, 1);
    let expired = authority.server(params, "no");
    let mut params = localhost();
    params.not_before = date_time_ymd(3001, 1, 1);
    let early = authority.server(params, "no");
    let stranger = Authority::named("stranger");
    let client = stranger.sign("client", localhost());
    let (cert, key) = (client.cert.display(), client.key.display());
    let of_stranger = format!("?cert={cert}&key={key}");
    let unknown = format!("?cacert={}", stranger.file().display());
    for (url, words) in [
        (
            format!("rediss://127.0.0.1:{}", good.server.port()),
            "a server without TLS does not reply to `rediss://`",
        ),
        (
            format!("redis://127.0.0.1:{}", good.port()),
            "with TLS it is `rediss://`",
        ),
        (good.url("127.0.0.1", ""), "give it by `sni`"),
        (
            good.url("localhost", &unknown),
            "name the certificate of its authority by `cacert`",
        ),
        (expired.url("localhost", ""), "renew it, or set the clock"),
        (early.url("localhost", ""), "renew it, or set the clock"),
        (strict.url("localhost", ""), "give one by `cert` and `key`"),
        (
            strict.url("localhost", &of_stranger),
            "check that it trusts the authority",
        ),
    ] {
        let tls = Tls::new().cacert_file(authority.file());
        // It takes what it gets for the beginning of a command, and waits for the rest.
        let is_silent = url.ends_with(&good.server.port().to_string());
        let patience = Duration::from_secs(if is_silent { 1 } else { 30 });
        let builder = unhurried([&url]).tls(tls).connect_timeout(patience);
        let text = refused(builder).await;
        assert!(text.contains(words), "{url}: {text}");
    }
}

/// The port of a service that does `serve` with each connection.
async fn listen<F>(serve: fn(TcpStream) -> F) -> u16
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((peer, _)) = listener.accept().await {
            tokio::spawn(serve(peer));
        }
    });
    port
}
