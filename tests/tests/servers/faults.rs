//! Nodes that fail, in each way in which nodes do: a minority costs nothing, a majority is an
//! error that says why, and nothing is left behind in either case.

use std::{
    io::{self, BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    thread,
    time::Duration,
};

use crate::common::{
    NEVER, acquire_on_all, asks_for_a_lock, asks_for_its_record, await_release, await_state,
    connect, connect_by, unhurried,
};
use futures_util::future::join_all;
use redlock_runtime::{LockError, NodeState, NodeVerdict, Redlock, Release, Verdict};
use redlock_tests::{Cluster, Mode, PATIENCE, Proxy, Server};
use tokio::time::{sleep, timeout};

/// After this a node that does not answer counts as silent, in tests that wait for that.
const BRIEF: Duration = Duration::from_millis(200);

// ---- a minority

/// Of five nodes, while a lock is held. Other clients come before and after it has happened.
#[tokio::test]
async fn a_minority_that_fails_costs_nothing() {
    let faults: [fn(&Server, &Proxy); 4] = [
        |node, _| node.kill(),
        |_, proxy| proxy.black_hole(),
        |_, proxy| proxy.delay(BRIEF, BRIEF),
        |_, proxy| {
            proxy.set(Mode::ResetNew);
            proxy.reset();
        },
    ];
    for fail in faults {
        for failing in 1..=2 {
            lose_a_minority(fail, failing).await;
        }
    }
}

/// Of one key of three, that server kept the queue. Of half of all keys it has one that nobody can delete.
#[tokio::test]
async fn a_server_that_takes_no_writes_keeps_the_lock_from_no_process() {
    const SECTIONS: usize = 40;
    let cluster = Cluster::start(3);
    let redlocks = join_all((0..4).map(|_| connect(&cluster))).await;
    let keys: Vec<String> = (0..12).map(|key| key.to_string()).collect();
    let held = keys[..6]
        .iter()
        .map(|key| acquire_on_all(&redlocks[0], &cluster, key));
    let held = join_all(held).await;
    cluster[0].command(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    drop(held);
    let of_key = async |key| {
        let all = AtomicUsize::new(0);
        let of_process = async |redlock: &Redlock| {
            let mut own = 0;
            while all.load(SeqCst) < SECTIONS {
                let guard = redlock.lock(key).wait(PATIENCE).acquire().await.unwrap();
                sleep(Duration::from_millis(20)).await;
                guard.release().await;
                all.fetch_add(1, SeqCst);
                own += 1;
            }
            own
        };
        join_all(redlocks.iter().map(of_process)).await
    };
    for counts in join_all(keys.iter().map(of_key)).await {
        assert!(counts.iter().all(|own| *own > 2), "{counts:?}");
    }
}

async fn lose_a_minority(fail: fn(&Server, &Proxy), failing: usize) {
    let cluster = Cluster::start(5);
    let proxies = cluster.proxies();
    let (one, two) = (connect_by(&proxies).await, connect_by(&proxies).await);
    let guard = acquire_on_all(&one, &cluster, "held").await;

    for node in 0..failing {
        fail(&cluster[node], &proxies[node]);
    }

    guard.extend().await.unwrap();
    let error = two.lock("held").acquire().await.unwrap_err();
    assert!(matches!(error, LockError::Contended(_)), "{error}");
    assert!(guard.is_held());
    assert_eq!(guard.release().await, Release::Released);
    let reachable = cluster.split_at(failing).1;
    assert_works(&one, &two, reachable).await;
    let urls = proxies.iter().map(Proxy::url);
    let later = unhurried(urls).connect_timeout(Duration::from_secs(2));
    assert_works(&later.build().await.unwrap(), &two, reachable).await;

    for proxy in &proxies {
        proxy.pass();
        proxy.reset();
    }
    for key in ["held", "k"] {
        cluster.await_free(key).await;
    }
}

// ---- a majority

#[derive(Clone, Copy, Debug)]
enum Fault {
    Dead,
    Silent,
    Broken,
}

#[tokio::test]
async fn a_majority_that_fails_is_no_quorum_and_leaves_nothing() {
    for fault in [Fault::Dead, Fault::Silent, Fault::Broken] {
        for failing in [3, 5] {
            lose_a_majority(fault, failing).await;
        }
    }
}

async fn lose_a_majority(fault: Fault, failing: usize) {
    let cluster = Cluster::start(5);
    let proxies = cluster.proxies();
    let redlock = match fault {
        Fault::Silent => connect_in_brief(&proxies).await,
        _ => connect_by(&proxies).await,
    };
    for node in 0..failing {
        match fault {
            Fault::Dead => cluster[node].kill(),
            Fault::Silent => proxies[node].black_hole(),
            Fault::Broken => proxies[node].hold_requests(),
        }
        if matches!(fault, Fault::Dead) {
            await_down(&redlock, node).await;
        }
    }

    let attempt = tokio::spawn(redlock.lock("k").acquire());
    if matches!(fault, Fault::Broken) {
        for proxy in &proxies[..failing] {
            proxy.await_command("EVALSHA", 1).await;
        }
        proxies[..failing].iter().for_each(Proxy::reset);
    }

    let error = attempt.await.unwrap().unwrap_err();
    assert!(matches!(error, LockError::NoQuorum(_)), "{error}");
    assert_eq!(error.verdicts().len(), 5);
    let is_told = |verdict: &&NodeVerdict| match verdict.verdict {
        Verdict::Unreachable { .. } => matches!(fault, Fault::Dead),
        Verdict::TimedOut => matches!(fault, Fault::Silent),
        Verdict::Disconnected { .. } => matches!(fault, Fault::Broken),
        _ => false,
    };
    let told = error.verdicts()[..failing].iter().filter(is_told).count();
    // The attempt ends with the third connection.
    let at_least = if matches!(fault, Fault::Broken) {
        3
    } else {
        failing
    };
    assert!(told >= at_least, "{fault:?}: {error}");
    for node in cluster.split_at(failing).1 {
        match fault {
            // Nothing is sent that could not be of use.
            Fault::Dead => assert_eq!(node.events("k"), [""; 0]),
            _ => node.await_event("k", "del", 1).await,
        }
    }
    assert_eq!(cluster.held_on("k"), 0);
}

// ---- what comes late

#[tokio::test]
async fn grants_that_come_after_the_attempt_has_failed_are_released() {
    let cluster = Cluster::start(5);
    let proxies = cluster.proxies();
    let redlock = connect_in_brief(&proxies).await;
    proxies[..3].iter().for_each(Proxy::hold_requests);

    let error = redlock.lock("k").acquire().await.unwrap_err();
    assert!(matches!(error, LockError::NoQuorum(_)), "{error}");
    proxies.iter().for_each(Proxy::pass);

    for node in &cluster {
        node.await_event("k", "del", 1).await;
        assert_eq!(node.events("k"), ["set", "expire", "del"]);
    }
}

#[tokio::test]
async fn a_release_that_a_reset_took_with_it_is_sent_again() {
    let cluster = Cluster::start(3);
    let proxies = cluster.proxies();
    let redlock = connect_by(&proxies).await;
    let guard = redlock.lock("k").acquire().await.unwrap();
    await_set("k", &cluster).await;
    proxies[0].hold_requests();
    proxies[0].clear();
    assert_eq!(guard.release().await, Release::Released);
    await_release(&proxies[0]).await;

    proxies[0].reset();
    assert!(cluster[0].exists("k"), "the reset was too late");
    proxies[0].pass();

    cluster.await_free("k").await;
}

// ---- nodes that lie

#[tokio::test]
async fn a_lying_minority_costs_nothing() {
    for lie in LIES {
        let cluster = Cluster::start(2);
        let mut urls = cluster.urls();
        urls.push(liar(lie));
        let one = unhurried(&urls).build().await.unwrap();
        let two = unhurried(&urls).build().await.unwrap();

        assert_works(&one, &two, &cluster).await;
    }
}

/// How servers lie: to everything, or to the question for the lock if they are to look as if they were up.
const LIES: [(&str, Option<&str>); 8] = [
    ("\u{1}\u{2}garbage\r\n", None),
    ("-ERR I am no Redis\r\n", None),
    ("+OK\r\n", Some("+OK\r\n")),
    ("+OK\r\n", Some("-OOM no memory left\r\n")),
    ("+OK\r\n", Some("$1\r\n1\r\n")),
    ("+OK\r\n", Some(":-7\r\n")),
    ("+OK\r\n", Some("*2\r\n:1\r\n:2\r\n")),
    ("+OK\r\n", Some("_\r\n")),
];

/// What a node keeps about itself: that it votes. As long as no process is known, any will do.
const RECORD: &str = "*11\r\n$1\r\n1\r\n$0\r\n\r\n$0\r\n\r\n$0\r\n\r\n$1\r\n0\r\n$0\r\n\r\n\
                      $0\r\n\r\n$0\r\n\r\n$1\r\n0\r\n$1\r\n0\r\n$0\r\n\r\n";

/// A server that tells this lie to all who come.
fn liar(lie: (&'static str, Option<&'static str>)) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            // An error is the client's way to hang up.
            thread::spawn(move || tell(lie, client));
        }
    });
    url
}

fn tell(lie: (&str, Option<&str>), client: TcpStream) -> io::Result<()> {
    let (answer, grant) = lie;
    let mut commands = BufReader::new(client.try_clone()?);
    loop {
        let words = command(&mut commands)?;
        let answer = match grant {
            Some(grant) if asks_for_a_lock(&words) => grant,
            Some(_) if asks_for_its_record(&words) => RECORD,
            _ => answer,
        };
        (&client).write_all(answer.as_bytes())?;
    }
}

fn command(commands: &mut impl BufRead) -> io::Result<Vec<String>> {
    let count = number(commands)?;
    (0..count).map(|_| word(commands)).collect()
}

fn word(commands: &mut impl BufRead) -> io::Result<String> {
    let mut word = vec![0; number(commands)? + 2];
    commands.read_exact(&mut word)?;
    Ok(String::from_utf8_lossy(&word).trim_end().to_owned())
}

/// The number in `*3` or `$5`.
fn number(commands: &mut impl BufRead) -> io::Result<usize> {
    let mut line = String::new();
    commands.read_line(&mut line)?;
    let digits = line.trim_end().get(1..).unwrap_or_default();
    digits.parse().map_err(io::Error::other)
}

// ---- the steps

/// Everything works over the `reachable` nodes: `one` gets the lock, `two` is kept out, and after
/// the release gets it.
async fn assert_works(one: &Redlock, two: &Redlock, reachable: &[Server]) {
    let guard = one.lock("k").acquire().await.unwrap();

    let error = two.lock("k").acquire().await.unwrap_err();
    assert!(matches!(error, LockError::Contended(_)), "{error}");
    assert!(guard.is_held());

    assert_eq!(guard.release().await, Release::Released);
    for node in reachable {
        node.await_free("k").await;
    }
    let next = two.lock("k").wait(NEVER).acquire().await.unwrap();
    assert_eq!(next.release().await, Release::Released);
    for node in reachable {
        node.await_free("k").await;
    }
    // A round may wait for a second, and slow nodes take less. If each of these waited for them,
    // they would outlast the test.
    let more = async {
        for _ in 0..100 {
            let guard = one.lock("more").acquire().await.unwrap();
            assert_eq!(guard.release().await, Release::Released);
        }
    };
    timeout(PATIENCE, more).await.expect("nobody is held up");
}

/// In no hurry but for silence: it is noticed soon.
async fn connect_in_brief(proxies: &[Proxy]) -> Redlock {
    let urls = proxies.iter().map(Proxy::url);
    unhurried(urls).node_timeout(BRIEF).build().await.unwrap()
}

async fn await_set(key: &str, nodes: &[Server]) {
    for node in nodes {
        node.await_event(key, "set", 1).await;
    }
}

async fn await_down(redlock: &Redlock, node: usize) {
    await_state("a node down", || {
        matches!(redlock.nodes()[node].state(), NodeState::Down { .. })
    })
    .await;
}
