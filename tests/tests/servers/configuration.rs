//! Bad configuration gets an error that names every mistake and no password; good configuration
//! works however it is given.

use std::{
    ffi::OsStr,
    process::{Command, Output},
    time::Duration,
};

use crate::common::{unhurried, voting};
use redlock_runtime::{
    Builder, ConfigError, Guard, Lock, LockError, NODES_VARIABLE, NodeState, ProblemKind, Redlock,
    WhyKind, redis_lock,
};
use redlock_tests::{Cluster, PATIENCE, Server};
use tokio::time::timeout;

const SECOND: Duration = Duration::from_secs(1);

/// Durations that arithmetic is most likely to stumble over.
const EXTREMES: [Duration; 3] = [Duration::ZERO, Duration::from_nanos(1), Duration::MAX];

/// Which mistakes it is about, and with what.
fn kinds(error: &ConfigError) -> Vec<(ProblemKind, &str)> {
    let problems = error.problems().iter();
    problems.map(|it| (it.kind, &*it.setting)).collect()
}

async fn refused(builder: Builder) -> ConfigError {
    match builder.build().await {
        Ok(redlock) => panic!("{redlock:?} was built"),
        Err(error) => error,
    }
}

/// Fails instead of hanging with an engine that does not answer any more.
async fn in_time<F: Future>(future: F) -> F::Output {
    timeout(PATIENCE, future).await.unwrap()
}

fn embedded() -> Builder {
    Redlock::builder().nodes(["memory://configuration"])
}

fn run(mode: &str, nodes: Option<&OsStr>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_configured"));
    command.arg(mode).env_remove(NODES_VARIABLE);
    if let Some(nodes) = nodes {
        command.env(NODES_VARIABLE, nodes);
    }
    command.output().unwrap()
}

fn configured(mode: &str, nodes: Option<&str>) -> String {
    let output = run(mode, nodes.map(OsStr::new));
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn nodes_come_from_the_environment_where_the_code_names_none() {
    assert_eq!(
        configured("nodes", Some(" memory://a , memory://b,")),
        "memory://a memory://b"
    );
    let error = configured("nodes", None);
    assert!(error.contains("no node is configured"), "{error}");
    assert!(error.contains(NODES_VARIABLE), "{error}");
    assert_eq!(configured("nodes_or_embedded", None), "memory://a");
    assert_eq!(
        configured("nodes_or_embedded", Some("memory://b")),
        "memory://b"
    );
}

/// A deployment whose list of nodes came out empty must not go on without other processes.
#[test]
fn an_environment_that_names_nothing_is_refused() {
    for nothing in ["", " ", ",", " , \t,"] {
        let error = configured("nodes", Some(nothing));
        assert!(
            error.contains(&format!("{NODES_VARIABLE} is set but empty")),
            "{nothing:?}: {error}"
        );
        assert_eq!(refusal_of_embedded(OsStr::new(nothing)), "set but empty");
    }
}

#[cfg(unix)]
#[test]
fn an_environment_that_cannot_be_read_is_refused() {
    use std::os::unix::ffi::OsStrExt;

    let unreadable = OsStr::from_bytes(b"redis://:hunter2\xff@host");
    assert_eq!(refusal_of_embedded(unreadable), "not valid UTF-8");
}

/// The only problem of a node set that falls back to a node in memory.
fn refusal_of_embedded(nodes: &OsStr) -> &'static str {
    let output = run("nodes_or_embedded", Some(nodes));
    assert!(!output.status.success(), "{nodes:?}: {output:?}");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!text.contains("hunter2"), "{text}");
    let known = ["set but empty", "not valid UTF-8"];
    let named = |problem: &&str| text.contains(problem);
    known.into_iter().find(named).expect(&text)
}

#[tokio::test]
async fn a_program_may_require_servers() {
    let server = Server::start();
    let required = |urls: &[&str]| {
        Redlock::builder()
            .nodes(urls.to_vec())
            .require_servers(true)
    };
    for urls in [
        &["memory://required"][..],
        &["memory://required", &server.url()],
        &[&server.url(), "memory://required", "memory://other"],
    ] {
        let error = refused(required(urls)).await;
        assert_eq!(kinds(&error), [(ProblemKind::ServersRequired, "nodes")]);
        let shown = error.to_string();
        for part in [
            "memory://required",
            "require_servers",
            NODES_VARIABLE,
            "nodes([...])",
        ] {
            assert!(shown.contains(part), "{part} in {shown}");
        }
    }
    let redlock = required(&[&server.url()]).build().await.unwrap();
    assert!(!redlock.is_embedded());
    let redlock = embedded().require_servers(false).build().await.unwrap();
    assert!(redlock.is_embedded());
}

#[test]
fn one_node_set_is_installed_at_a_time_and_others_stand_beside_it() {
    assert_eq!(configured("install", None), "ok");
}

#[tokio::test]
async fn every_mistake_is_reported_at_once() {
    let error = refused(
        Redlock::builder()
            .nodes([
                "redis://h:1",
                "redis://h:1/3",
                "ftp://h",
                "memory://a",
                "memory://a",
            ])
            .connect_timeout(Duration::ZERO)
            .guard_band(Duration::ZERO)
            .max_lease(SECOND)
            .expire(2 * SECOND),
    )
    .await;
    let expected = [
        (ProblemKind::DuplicateNode, "node 1"),
        (ProblemKind::BadNode, "node 2"),
        (ProblemKind::DuplicateNode, "node 4"),
        (ProblemKind::MixedNodes, "nodes"),
        (ProblemKind::BadOption, "connect_timeout"),
        (ProblemKind::BadOption, "guard_band"),
        (ProblemKind::BadOption, "expire"),
    ];
    assert_eq!(kinds(&error), expected, "{error}");
    assert!(error.to_string().contains("in this process only"));
}

#[tokio::test]
async fn node_sets_have_an_upper_bound() {
    let nodes = (0..33).map(|node| format!("memory://n{node}"));
    let error = refused(Redlock::builder().nodes(nodes)).await;
    assert_eq!(kinds(&error), [(ProblemKind::BadOption, "nodes")]);
}

#[tokio::test]
async fn a_lock_that_cannot_work_is_refused_before_anything_is_sent() {
    let redlock = embedded().max_lease(60 * SECOND).build().await.unwrap();
    let lock = || redlock.lock("k");
    let millis = Duration::from_millis;
    let cases = [
        (lock().expire(Duration::ZERO), "longer than zero"),
        (lock().expire(millis(2)), "shorter than the clock drift"),
        (lock().expire(61 * SECOND), "longer than `max_lease`"),
        (
            lock().renew_every(Duration::ZERO),
            "`renew` must be longer than zero",
        ),
        (
            lock().renew_every(5 * SECOND),
            "`renew` must be shorter than `expire`; the lock would expire first (`renew` is 5s",
        ),
        (
            lock().renew_every(Duration::from_nanos(1)),
            "`renew` is 1ns",
        ),
        (lock().renew_every(millis(9)), "`renew` is 9ms"),
        // A third of the lease.
        (lock().expire(millis(27)).renew(), "`renew` is 9ms"),
        (lock().max_hold(9 * SECOND), "no effect without `renew`"),
        (
            lock().renew().max_hold(SECOND),
            "`max_hold` is shorter than `expire`",
        ),
        (
            lock().at_least(Duration::ZERO),
            "`at_least` must be longer than zero",
        ),
        (
            lock().at_least(6 * SECOND),
            "(`at_least` is 6s, `expire` is 5s)",
        ),
        (
            redlock.lock_all(["a", "a"]).at_least(SECOND),
            "`at_least` cannot be combined with several keys",
        ),
        (
            redlock.lock_all([""; 0]),
            "a lock has one to 16 keys, and not 0",
        ),
        (
            redlock.lock_all((0..17).map(|key| key.to_string())),
            "a lock has one to 16 keys, and not 17",
        ),
        (
            redlock.lock_all(["a", "__redlock:b"]),
            "the key `__redlock:b` contains",
        ),
    ];
    for (lock, message) in cases {
        let error = lock.acquire().await.unwrap_err();
        assert!(matches!(error, LockError::Config(_)), "{error}");
        assert!(error.to_string().contains(message), "{error}");
    }
    for lock in [
        lock().expire(60 * SECOND).renew_every(millis(10)),
        lock().expire(millis(30)).renew(),
    ] {
        drop(lock.max_hold(Duration::MAX).acquire().await.unwrap());
    }
    let error = redlock.lock("").acquire().await.unwrap_err();
    assert!(
        matches!(error, LockError::EmptyKey { placeholder: None }),
        "{error}"
    );
}

type SetDuration = fn(Builder, Duration) -> Builder;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// All durations of a node set that have a bound of their own, with their bounds.
const DURATIONS: [(&str, SetDuration, Duration); 5] = [
    (
        "guard_band",
        Builder::guard_band,
        DAY.checked_div(10).unwrap(),
    ),
    (
        "node_timeout",
        Builder::node_timeout,
        DAY.checked_div(20).unwrap(),
    ),
    (
        "connect_timeout",
        Builder::connect_timeout,
        Duration::from_secs(60),
    ),
    (
        "ping_interval",
        Builder::ping_interval,
        Duration::from_secs(3_600),
    ),
    ("max_lease", Builder::max_lease, DAY),
];

#[tokio::test]
async fn durations_of_a_node_set_have_upper_bounds() {
    let day = DAY;
    for (name, set, longest) in DURATIONS {
        let error = refused(set(embedded(), Duration::MAX)).await;
        assert_eq!(kinds(&error), [(ProblemKind::BadOption, name)]);
        let shown = error.to_string();
        for part in [
            format!("`{name}`"),
            format!("{:?}", Duration::MAX),
            format!("{longest:?}"),
        ] {
            assert!(shown.contains(&part), "{part} in {shown}");
        }
        set(embedded(), longest).build().await.unwrap();
        refused(set(embedded(), longest + Duration::from_nanos(1))).await;
    }
    // The longest lease works with the guard band and the node timeout that it has by default.
    let redlock = embedded().max_lease(day).expire(day).build().await.unwrap();
    drop(redlock.lock("day").acquire().await.unwrap());
    let builder = embedded().max_lease(day);
    let builder = builder.guard_band(day / 10).node_timeout(day / 20);
    builder.build().await.unwrap();
}

/// Of what the first process has noted there, in whole milliseconds, the next one finds that it is its own.
#[tokio::test]
async fn any_max_lease_works_on_new_servers() {
    for millis in [30, 31, 5_550, 7_250, 12_345, 90_050, 86_399_999] {
        let lease = Duration::from_millis(millis);
        let server = Server::start();
        for _ in 0..2 {
            let builder = Redlock::builder().nodes([server.url()]).assume_fresh(true);
            let builder = builder.max_lease(lease).expire(lease);
            drop(voting(builder).await);
        }
    }
}

/// Whatever the duration, the node set is refused or it works: no engine dies of it.
#[tokio::test]
async fn no_duration_ends_the_engine() {
    let bounded = DURATIONS.map(|(_, set, _)| set);
    let of_lock: [fn(Lock, Duration) -> Lock; 4] =
        [Lock::expire, Lock::wait, Lock::renew_every, |lock, time| {
            lock.renew().max_hold(time)
        }];
    let server = Server::start();
    for url in ["memory://extremes".to_owned(), server.url()] {
        let usual = || Redlock::builder().nodes([&url]).assume_fresh(true);
        let of_node_set = bounded.iter().chain([&(Builder::expire as SetDuration)]);
        let of_node_set = of_node_set.enumerate();
        let builders = of_node_set.flat_map(|(nth, set)| {
            EXTREMES.map(|extreme| (format!("{nth}. {extreme:?}"), set(usual(), extreme)))
        });
        for (what, builder) in builders.chain([("defaults".to_owned(), usual())]) {
            let redlock = match builder.build().await {
                Ok(redlock) => redlock,
                Err(error) => {
                    let is_dead = |(kind, _): &(ProblemKind, _)| *kind == ProblemKind::NoEngine;
                    assert!(!kinds(&error).iter().any(is_dead), "{what}: {error}");
                    continue;
                }
            };
            let locks = of_lock
                .iter()
                .flat_map(|set| EXTREMES.map(|extreme| set(redlock.lock("k"), extreme)));
            for lock in locks {
                drop(acquired_or_not(lock, &what).await);
            }
            let held = acquired_or_not(redlock.lock("k"), &what).await;
            drop(acquired_or_not(redlock.lock("k").wait(Duration::MAX), &what).await);
            drop(held);
            in_time(redlock.shutdown(Duration::MAX)).await.unwrap();
        }
    }
}

/// A node set that gives its connections up at once never gets a lock, so nothing is expected but
/// an engine that lives.
async fn acquired_or_not(lock: Lock, what: &str) -> Option<Guard> {
    let shown = format!("{what}: {lock:?}");
    match timeout(SECOND / 20, lock.acquire()).await {
        Ok(Err(error @ LockError::Stopped(_))) => panic!("{shown}: {error}"),
        outcome => outcome.ok()?.ok(),
    }
}

#[tokio::test]
async fn two_addresses_of_one_server_are_found_out() {
    let servers = [Server::start(), Server::start()];
    let by_name = format!("redis://localhost:{}", servers[0].port());
    for twin in [by_name, servers[0].unix_url()] {
        let urls = [servers[0].url(), servers[1].url(), twin];
        let error = refused(unhurried(urls)).await;
        assert_eq!(error.problems()[0].kind, ProblemKind::SameServer, "{error}");
    }
}

#[tokio::test]
async fn a_wrong_password_on_all_nodes_is_a_mistake_and_on_one_an_outage() {
    let cluster = Cluster::start_with(3, &Server::builder().password("hunter2"));
    let wrong = |node: &Server| format!("redis://:wrong-one@127.0.0.1:{}", node.port());

    let error = refused(unhurried(cluster.iter().map(wrong))).await;
    assert_eq!(error.problems().len(), 3, "{error}");
    for (kind, _) in kinds(&error) {
        assert_eq!(kind, ProblemKind::AccessDenied, "{error}");
    }
    let none = cluster
        .iter()
        .map(|node| format!("redis://127.0.0.1:{}", node.port()));
    let error = refused(unhurried(none)).await;
    assert_eq!(error.problems().len(), 3, "{error}");

    let mut urls = cluster.urls();
    urls[1] = wrong(&cluster[1]);
    let redlock = unhurried(urls).build().await.unwrap();
    let guard = redlock.lock("k").acquire().await.unwrap();
    let nodes = redlock.nodes();
    let NodeState::Down { reason: why } = nodes[1].state() else {
        panic!("{nodes:?}");
    };
    assert_eq!(why.kind, WhyKind::Denied, "{why}");
    let shown = format!("{redlock:?} {nodes:?} {guard:?} {error} {error:?}");
    assert!(
        !shown.contains("wrong-one") && !shown.contains("hunter2"),
        "{shown}"
    );
}

/// The library keeps its own data on the nodes under such names.
#[tokio::test]
async fn reserved_names_cannot_be_locked() {
    let server = Server::start();
    let with_prefix = |prefix| {
        let builder = unhurried([server.url()]).key_prefix(prefix);
        async move { builder.build().await.unwrap() }
    };
    for (prefix, key) in [
        ("", "__redlock:node:0"),
        ("", "__redlock:"),
        ("lock:", "exports#__redlock:0"),
        ("__red", "lock:x"),
    ] {
        let redlock = with_prefix(prefix).await;
        let locks = [redlock.lock(key), redlock.lock(key).renew().wait(SECOND)];
        for lock in locks {
            let error = lock.acquire().await.unwrap_err();
            let LockError::Config(config) = &error else {
                panic!("{prefix}{key}: {error}");
            };
            assert_eq!(kinds(config), [(ProblemKind::ReservedKey, "key")]);
            let shown = error.to_string();
            assert!(
                shown.contains(&format!("`{prefix}{key}` contains `__redlock:`")),
                "{shown}"
            );
        }
    }
    let redlock = with_prefix("").await;
    let error = reserved_section(&redlock, "__redlock:").await.unwrap_err();
    assert!(matches!(error, LockError::Config(_)), "{error}");
    assert!(!server.exists("__redlock:"));
    let kind: String = server.query(&["TYPE", "__redlock:node:0"]);
    assert_eq!(kind, "hash", "it is the library's own");

    for (prefix, key) in [("lock:", "_redlock:0"), ("", "__redlock"), ("", "x#0")] {
        let redlock = with_prefix(prefix).await;
        drop(redlock.lock(key).acquire().await.unwrap());
    }

    let error = refused(embedded().key_prefix("__redlock:app:")).await;
    assert_eq!(kinds(&error), [(ProblemKind::ReservedKey, "key")]);
    assert!(error.to_string().contains("`__redlock:app:`"), "{error}");
}

#[redis_lock(key = "{name!raw}node", via = redlock)]
async fn reserved_section(redlock: &Redlock, name: &str) -> Result<(), LockError> {
    panic!("the lock of {redlock:?} on {name} is held")
}
