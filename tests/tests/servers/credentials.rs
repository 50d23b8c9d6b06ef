//! Users and passwords that do not stand in the URLs of the nodes.

use std::{
    collections::BTreeSet,
    convert::Infallible,
    future::pending,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::common::{
    await_state, await_up, connection_ids, documented_rules, set_user, unhurried, voting,
};
use redlock_runtime::{Builder, Credentials, NodeState, ProblemKind, Release};
use redlock_tests::{Cluster, Server};

/// Lets the user `locker` in with this password, and no other.
fn set_password(node: &Server, password: &str) {
    let password = format!(">{password}");
    let own = ["on", "resetpass", &password];
    set_user(node, "locker", &own, documented_rules());
}

/// Ends the connections of `locker`, as a service does whose tokens have ended.
fn close_connections(node: &Server) {
    node.command(&["CLIENT", "KILL", "USER", "locker"]);
}

fn addresses(cluster: &Cluster) -> Vec<String> {
    let urls = cluster.iter();
    urls.map(|node| format!("redis://127.0.0.1:{}", node.port()))
        .collect()
}

fn locker(cluster: &Cluster) -> Builder {
    unhurried(addresses(cluster)).key_prefix("lock:")
}

#[tokio::test]
async fn credentials_of_all_nodes_are_for_those_whose_urls_have_none() {
    let cluster = Cluster::start(3);
    for node in &cluster {
        set_password(node, "hunter2");
        // The harness is signed in as this one, and stays it.
        set_user(node, "default", &["off"], []);
    }
    let mut urls = addresses(&cluster);
    set_user(&cluster[1], "guest", &["on", ">other"], documented_rules());
    urls[1] = format!("redis://guest:other@127.0.0.1:{}", cluster[1].port());
    let builder = unhurried(urls)
        .key_prefix("lock:")
        .credentials(Credentials::new("locker", "hunter2"));
    assert!(!format!("{builder:?}").contains("hunter2"), "{builder:?}");
    let redlock = voting(builder).await;
    let users = |node: &Server| -> BTreeSet<String> {
        let clients = node.clients();
        clients
            .iter()
            .map(|client| client["user"].clone())
            .collect()
    };
    for (node, user) in cluster.iter().zip(["locker", "guest", "locker"]) {
        assert_eq!(users(node), BTreeSet::from([user.to_owned()]));
    }
    let guard = redlock.lock("k").acquire().await.unwrap();
    assert_eq!(guard.release().await, Release::Released);
}

/// It is not the user `default`, who may do more, nor that of all nodes.
#[tokio::test]
async fn a_url_with_a_user_and_no_password_is_that_user() {
    let cluster = Cluster::start(1);
    let url = addresses(&cluster)[0].replace("redis://", "redis://guest@");
    for (password, is_let_in) in [("nopass", true), (">secret", false)] {
        set_user(
            &cluster[0],
            "guest",
            &["reset", "on", password],
            documented_rules(),
        );
        let builder = unhurried([&url]).credentials(Credentials::password_only("of all nodes"));
        let built = builder.key_prefix("lock:").build().await;
        let clients = cluster[0].clients();
        assert!(clients.iter().all(|client| client["user"] == "guest"));
        let refused = built.map(drop).map_err(|error| error.problems()[0].clone());
        match refused {
            Ok(()) => assert!(is_let_in),
            Err(problem) => {
                assert_eq!(problem.kind, ProblemKind::AccessDenied, "{problem}");
                assert!(!is_let_in);
            }
        }
    }
}

/// The locks are on the servers, and not in the connections.
#[tokio::test]
async fn a_password_changes_while_a_lock_is_held() {
    let cluster = Cluster::start(3);
    let password = Arc::new(Mutex::new("first".to_owned()));
    cluster.iter().for_each(|node| set_password(node, "first"));
    let asked_for = Arc::new(Mutex::new(Vec::new()));
    let provider = {
        let (password, asked_for) = (Arc::clone(&password), Arc::clone(&asked_for));
        move |node: Arc<str>| {
            asked_for.lock().unwrap().push(node.to_string());
            let password = password.lock().unwrap().clone();
            async move { Ok::<_, Infallible>(Credentials::new("locker", password)) }
        }
    };
    let builder = locker(&cluster).credentials_from(provider);
    let redlock = voting(builder).await;
    let known: BTreeSet<String> = asked_for.lock().unwrap().drain(..).collect();
    let nodes = redlock.nodes();
    let addresses = nodes.iter().map(|node| node.address().to_owned());
    assert_eq!(known, addresses.collect());

    let guard = redlock.lock("k").acquire().await.unwrap();
    let token = guard.fencing_token().unwrap();
    for round in 0..3 {
        let next = format!("password-{round}");
        cluster.iter().for_each(|node| set_password(node, &next));
        *password.lock().unwrap() = next;
        for node in &cluster {
            let before = connection_ids(node);
            close_connections(node);
            await_state("another connection", || {
                let now = connection_ids(node);
                !now.is_empty() && now.iter().all(|id| !before.contains(id))
            })
            .await;
        }
        await_up(&redlock).await;
        guard.extend().await.unwrap();
    }

    assert!(guard.is_held());
    assert_eq!(guard.fencing_token().unwrap(), token);
    assert_eq!(guard.release().await, Release::Released);
    cluster.await_free("lock:k").await;
    // Each connection asks once.
    assert_eq!(asked_for.lock().unwrap().len(), 9);
}

/// A failure of one node's credentials is a failure of that node.
#[tokio::test]
async fn credentials_that_cannot_be_had_are_a_failure_of_their_node() {
    let cluster = Cluster::start(3);
    cluster
        .iter()
        .for_each(|node| set_password(node, "hunter2"));
    let fails = Arc::new(AtomicBool::new(false));
    let first = format!("127.0.0.1:{}", cluster[0].port());
    let second = format!("127.0.0.1:{}", cluster[1].port());
    let provider = {
        let (fails, first, second) = (Arc::clone(&fails), first.clone(), second.clone());
        move |node: Arc<str>| {
            let fails = fails.load(Ordering::SeqCst);
            let [is_first, is_second] = [*node == *first, *node == *second];
            async move {
                match () {
                    () if fails && is_first => Err("no token:\nthe service is away".to_owned()),
                    () if fails && is_second => panic!("hunter2"),
                    () => Ok(Credentials::new("locker", "hunter2")),
                }
            }
        }
    };
    let builder = locker(&cluster).credentials_from(provider);
    let redlock = voting(builder).await;
    let guard = redlock.lock("k").acquire().await.unwrap();

    fails.store(true, Ordering::SeqCst);
    let reason_of = |node: usize| match redlock.nodes()[node].state() {
        NodeState::Down { reason: why } => Some(why.to_string()),
        _ => None,
    };
    close_connections(&cluster[0]);
    let words = "no credentials: no token: the service is away";
    await_state("a failure", || reason_of(0).as_deref() == Some(words)).await;
    guard.extend().await.unwrap();
    let other = redlock.lock("other").acquire().await.unwrap();
    assert_eq!(other.release().await, Release::Released);

    close_connections(&cluster[1]);
    let words = "no credentials: their provider has panicked";
    await_state("a panic", || reason_of(1).as_deref() == Some(words)).await;

    fails.store(false, Ordering::SeqCst);
    await_up(&redlock).await;
    guard.extend().await.unwrap();
    assert_eq!(guard.release().await, Release::Released);
}

#[tokio::test]
async fn credentials_are_waited_for_as_long_as_for_a_connection() {
    let cluster = Cluster::start(1);
    set_password(&cluster[0], "hunter2");
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let dropped = Arc::new(AtomicBool::new(false));
    let given_up = Arc::clone(&dropped);
    let provider = move |_| {
        let is_first = counted.fetch_add(1, Ordering::SeqCst) == 0;
        let given_up = Arc::clone(&given_up);
        async move {
            if is_first {
                let _when_dropped = PanicOnDrop(given_up);
                pending::<()>().await;
            }
            Ok::<_, Infallible>(Credentials::new("locker", "hunter2"))
        }
    };
    let builder = locker(&cluster).credentials_from(provider);
    let builder = builder.connect_timeout(Duration::from_secs(1));
    let redlock = builder.build().await.unwrap();
    assert!(!redlock.health().has_quorum());
    await_up(&redlock).await;
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    assert!(dropped.load(Ordering::SeqCst));
}

/// What an application does in its destructors is no concern of the engine.
struct PanicOnDrop(Arc<AtomicBool>);

impl Drop for PanicOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
        panic!("in a destructor");
    }
}

/// No server, no question: services that give tokens limit how often they are asked.
#[tokio::test]
async fn nobody_is_asked_for_credentials_of_a_server_that_is_down() {
    let cluster = Cluster::start(1);
    cluster[0].kill();
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let provider = move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        async { Ok::<_, Infallible>(Credentials::password_only("hunter2")) }
    };
    let redlock = locker(&cluster).credentials_from(provider);
    let redlock = redlock.build().await.unwrap();
    assert!(!redlock.nodes()[0].is_up());
    assert_eq!(calls.load(Ordering::SeqCst), 0);
}
