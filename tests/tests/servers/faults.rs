//! Nodes that fail, in each way in which nodes do: a minority costs nothing, a majority is an
//! error that says why, and nothing is left behind in either case.

use std::{
    io::{self, BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    thread,
    time::Duration,
};

use crate::common::{
    NEVER, asks_for_a_lock, asks_for_its_record, await_release, await_state, await_up, connect,
    connect_by, connection_ids, unhurried,
};
use redlock_runtime::{LockError, NodeState, Redlock, Release, Verdict};
use redlock_tests::{Cluster, Mode, PATIENCE, Proxy, Server};
use tokio::time::timeout;

/// After this a node that does not answer counts as silent, in tests that wait for that.
const BRIEF: Duration = Duration::from_millis(200);

// ---- a minority

#[tokio::test]
async fn one_or_two_dead_nodes_of_five_cost_nothing() {
    for dead in 1..=2 {
        let cluster = Cluster::start(5);
        cluster.split_at(dead).0.iter().for_each(Server::kill);

        let (one, two) = (connect(&cluster).await, connect(&cluster).await);

        assert_works(&one, &two, cluster.split_at(dead).1).await;
    }
}

#[tokio::test]
async fn one_or_two_of_five_nodes_that_die_during_a_hold_do_not_end_it() {
    for dying in 1..=2 {
        let cluster = Cluster::start(5);
        let (one, two) = (connect(&cluster).await, connect(&cluster).await);
        let guard = one.lock("held").acquire().await.unwrap();
        await_set("held", &cluster).await;

        cluster.split_at(dying).0.iter().for_each(Server::kill);
        for node in 0..dying {
            await_down(&one, node).await;
            await_down(&two, node).await;
        }

        guard.extend().await.unwrap();
        let error = two.lock("held").acquire().await.unwrap_err();
        assert!(matches!(error, LockError::Contended(_)), "{error}");
        assert!(guard.is_held());
        assert_eq!(guard.release().await, Release::Released);
        cluster.await_free("held").await;
        assert_works(&one, &two, cluster.split_at(dying).1).await;
    }
}

#[tokio::test]
async fn one_or_two_black_holes_of_five_cost_nothing() {
    for lost in 1..=2 {
        let cluster = Cluster::start(5);
        let proxies = cluster.proxies();
        let (one, two) = (connect_by(&proxies).await, connect_by(&proxies).await);

        proxies[..lost].iter().for_each(Proxy::black_hole);

        assert_works(&one, &two, cluster.split_at(lost).1).await;
    }
}

#[tokio::test]
async fn two_of_five_nodes_that_were_black_holes_before_cost_nothing() {
    let cluster = Cluster::start(5);
    let proxies = cluster.proxies();
    proxies[..2].iter().for_each(Proxy::black_hole);
    let urls: Vec<String> = proxies.iter().map(Proxy::url).collect();
    let connect = || unhurried(&urls).connect_timeout(Duration::from_secs(2));

    let (one, two) = tokio::join!(connect().build(), connect().build());

    assert_works(&one.unwrap(), &two.unwrap(), cluster.split_at(2).1).await;
}

#[tokio::test]
async fn one_or_two_slow_nodes_of_five_cost_nothing_and_are_released_too() {
    for slow in 1..=2 {
        let cluster = Cluster::start(5);
        let proxies = cluster.proxies();
        let (one, two) = (connect_by(&proxies).await, connect_by(&proxies).await);

        for proxy in &proxies[..slow] {
            proxy.delay(BRIEF, BRIEF);
        }

        assert_works(&one, &two, cluster.split_at(slow).1).await;
        for node in cluster.split_at(slow).0 {
            // Both have asked for it, one of them twice; whatever was granted is deleted.
            node.await_event("k", "del", 1).await;
        }
        proxies.iter().for_each(Proxy::pass);
        cluster.await_free("k").await;
    }
}

#[tokio::test]
async fn one_or_two_resetting_nodes_of_five_cost_nothing() {
    for resetting in 1..=2 {
        let cluster = Cluster::start(5);
        let proxies = cluster.proxies();
        let (one, two) = (connect_by(&proxies).await, connect_by(&proxies).await);

        for proxy in &proxies[..resetting] {
            proxy.set(Mode::ResetNew);
            proxy.reset();
        }

        assert_works(&one, &two, cluster.split_at(resetting).1).await;
    }
}

// ---- a majority

#[tokio::test]
async fn a_dead_majority_is_no_quorum_and_leaves_nothing() {
    for dead in [3, 5] {
        let cluster = Cluster::start(5);
        let redlock = connect(&cluster).await;
        cluster.split_at(dead).0.iter().for_each(Server::kill);
        for node in 0..dead {
            await_down(&redlock, node).await;
        }

        let error = redlock.lock("k").acquire().await.unwrap_err();

        assert!(matches!(error, LockError::NoQuorum(_)), "{error}");
        assert_eq!(error.verdicts().len(), 5);
        for verdict in &error.verdicts()[..dead] {
            let verdict = verdict.verdict();
            assert!(matches!(verdict, Verdict::Unreachable { .. }), "{error}");
        }
        // Nothing is sent that could not be of use.
        for node in cluster.split_at(dead).1 {
            assert_eq!(node.events("k"), [""; 0]);
        }
    }
}

#[tokio::test]
async fn a_silent_majority_is_no_quorum_and_leaves_nothing() {
    for lost in [3, 5] {
        let cluster = Cluster::start(5);
        let proxies = cluster.proxies();
        let redlock = connect_in_brief(&proxies).await;
        proxies[..lost].iter().for_each(Proxy::black_hole);

        let error = redlock.lock("k").acquire().await.unwrap_err();

        assert!(matches!(error, LockError::NoQuorum(_)), "{error}");
        for verdict in &error.verdicts()[..lost] {
            assert_eq!(*verdict.verdict(), Verdict::TimedOut, "{error}");
        }
        for node in cluster.split_at(lost).1 {
            node.await_event("k", "del", 1).await;
        }
        assert_eq!(cluster.held_on("k"), 0);
    }
}

#[tokio::test]
async fn a_majority_that_breaks_off_is_no_quorum_and_leaves_nothing() {
    let cluster = Cluster::start(5);
    let proxies = cluster.proxies();
    let redlock = connect_by(&proxies).await;
    proxies[..3].iter().for_each(Proxy::hold_requests);
    let attempt = tokio::spawn(redlock.lock("k").acquire());
    for proxy in &proxies[..3] {
        proxy.await_command("EVALSHA", 1).await;
    }

    proxies[..3].iter().for_each(Proxy::reset);

    let error = attempt.await.unwrap().unwrap_err();
    assert!(matches!(error, LockError::NoQuorum(_)), "{error}");
    for verdict in &error.verdicts()[..3] {
        let verdict = verdict.verdict();
        assert!(matches!(verdict, Verdict::Disconnected { .. }), "{error}");
    }
    for node in cluster.split_at(3).1 {
        node.await_event("k", "del", 1).await;
    }
    assert_eq!(cluster.held_on("k"), 0);
}

// ---- nodes that come back

#[tokio::test]
async fn a_node_that_comes_back_votes_again() {
    let cluster = Cluster::start(3);
    let redlock = connect(&cluster).await;
    cluster[0].kill();
    await_down(&redlock, 0).await;

    cluster[0].restart();
    await_up(&redlock).await;

    // Now its vote is needed.
    cluster[1].kill();
    await_down(&redlock, 1).await;
    let guard = redlock.lock("k").acquire().await.unwrap();
    assert!(cluster[0].exists("k"));
    assert_eq!(guard.release().await, Release::Released);
    cluster.await_free("k").await;
}

#[tokio::test]
async fn a_node_that_was_frozen_during_the_release_is_released_when_it_goes_on() {
    let cluster = Cluster::start(3);
    let redlock = connect(&cluster).await;
    let guard = redlock.lock("k").acquire().await.unwrap();
    await_set("k", &cluster).await;

    cluster[1].stop();
    assert_eq!(guard.release().await, Release::Released);
    cluster[1].cont();

    cluster.await_free("k").await;
}

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
async fn flushed_scripts_cost_nothing() {
    let cluster = Cluster::start(3);
    let redlock = connect(&cluster).await;
    let flush = || {
        for node in &cluster {
            node.command(&["SCRIPT", "FLUSH"]);
        }
    };
    let first = redlock.lock("k").acquire().await.unwrap();
    flush();
    assert_eq!(first.release().await, Release::Released);
    cluster.await_free("k").await;
    flush();

    let second = redlock.lock("k").acquire().await.unwrap();
    flush();
    second.extend().await.unwrap();
    flush();

    assert_eq!(second.release().await, Release::Released);
    cluster.await_free("k").await;
}

#[tokio::test]
async fn connections_that_are_killed_while_idle_are_made_anew() {
    let cluster = Cluster::start(3);
    let redlock = connect(&cluster).await;
    for node in &cluster {
        let killed = connection_ids(node);
        assert_eq!(node.kill_clients(), 1);
        await_state("a new connection", || {
            let ids = connection_ids(node);
            !ids.is_empty() && ids.iter().all(|id| !killed.contains(id))
        })
        .await;
    }
    await_up(&redlock).await;

    let guard = redlock.lock("k").acquire().await.unwrap();

    await_set("k", &cluster).await;
    assert_eq!(guard.release().await, Release::Released);
    cluster.await_free("k").await;
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

#[tokio::test]
async fn a_lying_majority_never_votes_and_is_quoted() {
    for lie in LIES {
        let cluster = Cluster::start(1);
        let mut urls = cluster.urls();
        urls.extend([liar(lie), liar(lie)]);
        let redlock = unhurried(&urls).build().await.unwrap();

        let error = redlock.lock("k").acquire().await.unwrap_err();

        assert!(matches!(error, LockError::NoQuorum(_)), "{lie:?}: {error}");
        // The verdict falls with the second of them.
        let verdicts = || error.verdicts()[1..].iter().map(|node| node.verdict());
        assert!(verdicts().all(|verdict| lie.is_told_by(verdict)), "{error}");
        for node in &redlock.nodes()[1..] {
            match (lie.word, node.state()) {
                (None, NodeState::Refuses { .. }) => {}
                (Some(word), NodeState::Down { why }) => {
                    assert!(why.text.contains(word), "{lie:?}: {why}");
                    assert!(!why.text.is_empty());
                }
                (_, state) => panic!("{lie:?}: {state:?}"),
            }
        }
        if lie.word.is_none() {
            cluster[0].await_event("k", "del", 1).await;
        }
        assert!(!cluster[0].exists("k"));
    }
}

/// How a server lies.
#[derive(Clone, Copy, Debug)]
struct Lie {
    /// To everything, but for its own record if it is to look as if it were up.
    answer: &'static str,
    /// To the question for the lock; the lie is then a word of a node that seems to be sound.
    grant: &'static str,
    /// In the reason why the node is down; `None` if it looks as if it were up until it answers a vote.
    word: Option<&'static str>,
}

const LIES: [Lie; 8] = [
    lie("\u{1}\u{2}garbage\r\n", "", Some("")),
    lie("-ERR I am no Redis\r\n", "", Some("I am no Redis")),
    lie("+OK\r\n", "+OK\r\n", None),
    lie("+OK\r\n", "-OOM no memory left\r\n", None),
    lie("+OK\r\n", "$1\r\n1\r\n", None),
    lie("+OK\r\n", ":-7\r\n", None),
    lie("+OK\r\n", "*2\r\n:1\r\n:2\r\n", None),
    lie("+OK\r\n", "_\r\n", None),
];

const fn lie(answer: &'static str, grant: &'static str, word: Option<&'static str>) -> Lie {
    Lie {
        answer,
        grant,
        word,
    }
}

impl Lie {
    fn is_told_by(self, verdict: &Verdict) -> bool {
        match verdict {
            Verdict::Unreachable { reason } => self.word.is_some() && !reason.is_empty(),
            Verdict::Refused { message } => {
                self.grant.starts_with('-') && message.contains("no memory left")
            }
            Verdict::Garbled { answer } => {
                self.word.is_none() && !self.grant.starts_with('-') && !answer.is_empty()
            }
            _ => false,
        }
    }
}

/// What a node keeps about itself: that it votes. As long as no process is known, any will do.
const RECORD: &str = "*11\r\n$1\r\n1\r\n$0\r\n\r\n$0\r\n\r\n$0\r\n\r\n$1\r\n0\r\n$0\r\n\r\n\
                      $0\r\n\r\n$0\r\n\r\n$1\r\n0\r\n$1\r\n0\r\n$0\r\n\r\n";

/// A server that tells this lie to all who come.
fn liar(lie: Lie) -> String {
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

fn tell(lie: Lie, client: TcpStream) -> io::Result<()> {
    let mut commands = BufReader::new(client.try_clone()?);
    loop {
        let words = command(&mut commands)?;
        let answer = if asks_for_a_lock(&words) {
            lie.grant
        } else if lie.word.is_none() && asks_for_its_record(&words) {
            RECORD
        } else {
            lie.answer
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
