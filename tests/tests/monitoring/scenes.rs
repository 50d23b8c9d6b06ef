//! What can happen to a node set.

use std::time::Duration;

use futures_util::{FutureExt, future::join};
use redlock_runtime::{Builder, Lock, Redlock, Tls};
use redlock_tests::{Cluster, Port, Server};

use crate::{
    common::{
        NEVER, acquire_on_all, await_up, await_watched, certificates::Authority, connect,
        connect_by, found, set_user, unhurried, voting,
    },
    heard::Heard,
};

/// A lease that ends in its test, and a quarantine, too.
const BRIEF: Duration = Duration::from_secs(1);

pub(crate) async fn play_all(heard: &Heard) {
    outage(heard).await;
    unfit_nodes(heard).await;
    clock_ahead(heard).await;
    mistakes_at_the_start(heard).await;
    ends_of_leases(heard).await;
    self_waits(heard).await;
    join(slow_node(heard), late_renewal(heard)).await;
}

fn careful(urls: Vec<String>) -> Builder {
    let guard_band = Duration::from_millis(200);
    let builder = Redlock::builder().nodes(urls).expire(BRIEF);
    builder.max_lease(BRIEF).guard_band(guard_band)
}

/// Servers that are new, and are killed and restarted.
async fn outage(heard: &Heard) {
    let cluster = Cluster::start(3);
    let set = heard.of(&cluster);
    let redlock = careful(cluster.urls()).install().await.unwrap();
    heard
        .until("redlock.start.waiting", "0 of 3 nodes vote")
        .await;
    await_up(&redlock).await;

    cluster[0].kill();
    set.until("redlock.node.down").await;
    cluster[0].restart();
    set.until("redlock.node.quarantined").await;
    set.until("redlock.node.up").await;
    await_up(&redlock).await;

    cluster[0].kill();
    cluster[1].kill();
    set.until("redlock.quorum.lost").await;
    cluster[0].restart();
    cluster[1].restart();
    set.until("redlock.quorum.regained").await;
}

/// Connected, and of no use.
async fn unfit_nodes(heard: &Heard) {
    let cluster = Cluster::start(2);
    let evicting = ["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"];
    let evicting = Server::builder().args(evicting).start();
    let with = |port: u16| {
        let ports = cluster.iter().map(Server::port).chain([port]);
        heard.of_set(ports)
    };
    let urls = |url: String| cluster.urls().into_iter().chain([url]);

    let _evicts = unhurried(urls(evicting.url())).build().await.unwrap();
    with(evicting.port()).until("redlock.node.evicts").await;

    let proxy = cluster[0].proxy();
    let twin = unhurried(urls(proxy.url())).build().await;
    assert!(twin.is_err());
    with(proxy.port()).until("redlock.node.same_server").await;

    let strict = Server::start();
    set_user(
        &strict,
        "weak",
        &["on", ">weak"],
        ["~*", "+ping", "+hello", "+info", "+client"],
    );
    let url = strict.url().replace("redis://", "redis://weak:weak@");
    let _refuses = unhurried(urls(url)).build().await.unwrap();
    with(strict.port()).until("redlock.node.refuses").await;

    let other = Server::start();
    let builder = |url| Redlock::builder().nodes([url]).assume_fresh(true);
    drop(voting(builder(other.url()).max_lease(BRIEF * 60)).await);
    let _other = unhurried(urls(other.url())).build().await.unwrap();
    with(other.port())
        .until("redlock.node.other_max_lease")
        .await;

    let newer = Server::start();
    newer.command(&["HSET", "__redlock:node:0", "format", "2"]);
    let _newer = unhurried(urls(newer.url())).build().await.unwrap();
    with(newer.port()).until("redlock.node.other_format").await;
}

/// A node whose clock runs ahead of the guard band, as a round finds out.
async fn clock_ahead(heard: &Heard) {
    let cluster = Cluster::start_with(3, &Server::builder().own_clock());
    found(&cluster, unhurried).await;
    let redlock = voting(unhurried(cluster.urls()).assume_fresh(false)).await;
    let guard = acquire_on_all(&redlock, &cluster, "k").await;
    cluster[2].kill();
    heard.of(&cluster).until("redlock.node.down").await;
    cluster[1].clock().step(NEVER / 5);
    guard.extend().await.unwrap_err();
    heard.of(&cluster).until("redlock.node.clock_ahead").await;
}

async fn mistakes_at_the_start(heard: &Heard) {
    let cluster = Cluster::start(4);
    let three = || unhurried(cluster.urls().into_iter().take(3));
    let count = || heard.count("redlock.start.", "");
    let before = count();
    let _well = three().build().await.unwrap();
    assert_eq!(count(), before);
    let _even = unhurried(cluster.urls()).build().await.unwrap();
    heard.until("redlock.start.even_number", "4 nodes").await;
    cluster[1].kill();
    let _incomplete = three().build().await.unwrap();
    let name = "redlock.start.incomplete";
    heard.until(name, "2 of 3 nodes vote").await;
    let down = format!("127.0.0.1:{} is unreachable", cluster[1].port());
    heard.until(name, &down).await;
    assert_eq!(count(), before + 2, "each once");

    let without_config = Server::builder().hide(["CONFIG"]).start();
    let limited = unhurried([without_config.url()]);
    let _limited = limited.build().await.unwrap();
    heard
        .until("redlock.start.limited", "does not allow `CONFIG GET`")
        .await;

    let nobody = Port::reserve();
    let address = format!("127.0.0.1:{}", nobody.number());
    let authority = Authority::new();
    let builder = |rest: &str| {
        let tls = Tls::new().cacert_file(authority.file());
        let builder = Redlock::builder().nodes([format!("rediss://{address}{rest}")]);
        builder.tls(tls).require_quorum(false)
    };
    let name = "redlock.start.unverified";
    let insecure = format!("the certificate of {address} is not verified");
    let _verified = builder("").build().await.unwrap();
    assert_eq!(heard.count(name, &insecure), 0);
    let _nobody = builder("#insecure").install().await.unwrap();
    heard.until(name, &insecure).await;
    heard
        .until("redlock.start.no_quorum", "0 of 1 node vote")
        .await;
}

async fn ends_of_leases(heard: &Heard) {
    let cluster = Cluster::start(3);
    let set = heard.of(&cluster);
    let redlock = connect(&cluster).await;
    await_up(&redlock).await;

    let lost = acquire_on_all(&redlock, &cluster, "lost").await;
    await_watched(&cluster).await;
    for node in &cluster {
        node.command(&["DEL", "lost"]);
    }
    set.until("redlock.lost").await;
    assert!(!lost.is_held());

    let expiring = redlock.lock("expiring").expire(BRIEF / 4);
    let _expired = expiring.acquire().await.unwrap();
    set.until("redlock.expired").await;

    let _cut_off = redlock.lock("cut off").acquire().await.unwrap();
    redlock.shutdown(Duration::ZERO).await.unwrap_err();
    set.until("redlock.stopped").await;
}

/// Each in a node set of its own, because the event is seldom written.
async fn self_waits(heard: &Heard) {
    type Kind = fn(&Redlock) -> Lock;
    let cluster = Cluster::start(1);
    let set = heard.of(&cluster);
    let count = || {
        let events = set.events().into_iter();
        events.filter(|name| name == "redlock.self_wait").count()
    };
    // The guard is another task's.
    let redlock = connect(&cluster).await;
    let guard = redlock.lock("k").acquire().await.unwrap();
    let other = tokio::spawn(redlock.lock("k").wait(NEVER).acquire());
    while redlock.inspect("k").await.sections.len() < 2 {}
    guard.extend().await.unwrap();
    assert_eq!(count(), 0);
    guard.release().await;
    other.await.unwrap().unwrap().release().await;

    let kinds: [(Kind, Kind); 4] = [
        (|redlock| redlock.lock("k"), |redlock| redlock.lock("k")),
        (
            |redlock| redlock.lock_all(["a", "b"]),
            |redlock| redlock.lock("b").shared(),
        ),
        (
            |redlock| redlock.lock("k").permits(1),
            |redlock| redlock.lock("k").permits(1),
        ),
        (
            |redlock| redlock.lock("k").shared(),
            |redlock| redlock.lock("k").shared(),
        ),
    ];
    for (number, (held, wanted)) in kinds.into_iter().enumerate() {
        let redlock = connect(&cluster).await;
        let guard = held(&redlock).expire(BRIEF).acquire().await.unwrap();
        // A reader that comes later waits for it.
        let writer = redlock.lock("k").wait(NEVER).acquire();
        let writer = (number == 3).then(|| tokio::spawn(writer));
        while writer.is_some() && redlock.inspect("k").await.sections.len() < 2 {}
        let mut waits = Box::pin(wanted(&redlock).wait(NEVER).acquire());
        assert!((&mut waits).now_or_never().is_none());
        match number {
            0 => drop(guard.lost().await),
            _ => drop(guard.extend().await.unwrap()),
        }
        assert_eq!(count(), number + 1);
        guard.release().await;
        drop(waits);
        if let Some(writer) = writer {
            writer.await.unwrap().unwrap().release().await;
        }
    }
}

/// One of three nodes replies, and later than its vote would count.
async fn slow_node(heard: &Heard) {
    const NODE_TIMEOUT: Duration = Duration::from_millis(50);
    let cluster = Cluster::start(3);
    let proxies = cluster.proxies();
    let urls = proxies.iter().map(redlock_tests::Proxy::url);
    let builder = unhurried(urls.collect::<Vec<_>>());
    let redlock = builder.node_timeout(NODE_TIMEOUT).build().await.unwrap();
    let set = heard.of_set(proxies.iter().map(redlock_tests::Proxy::port));
    proxies[0].delay(Duration::ZERO, 2 * NODE_TIMEOUT);
    while !set.soon("redlock.node.slow").await {
        let guard = redlock.lock("k").wait(NEVER).acquire().await.unwrap();
        guard.release().await;
    }
}

/// Two of three nodes reply late.
async fn late_renewal(heard: &Heard) {
    let cluster = Cluster::start(3);
    let proxies = cluster.proxies();
    let redlock = connect_by(&proxies).await;
    let set = heard.of_set(proxies.iter().map(redlock_tests::Proxy::port));
    while !set.soon("redlock.renewed_late").await {
        let lock = redlock.lock("k").wait(NEVER).expire(BRIEF * 4);
        let guard = lock.renew_every(BRIEF / 10).acquire().await.unwrap();
        proxies[0].hold_replies();
        proxies[1].hold_replies();
        while guard.is_held() && guard.remaining() > BRIEF {
            tokio::task::yield_now().await;
        }
        proxies[0].pass();
        proxies[1].pass();
        let late = guard.remaining();
        while guard.is_held() && guard.remaining() <= late {
            tokio::task::yield_now().await;
        }
        guard.release().await;
    }
}
