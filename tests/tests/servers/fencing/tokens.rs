//! The tokens themselves: unique, growing in real time, and hard to lose.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use redlock_runtime::{NodeStatus, Redlock};
use redlock_tests::{Cluster, Proxy, Server, redis};
use tokio::{
    task::{JoinSet, yield_now},
    time::timeout,
};

use super::{PATIENCE, acquire, client, client_at, token};

const KEY: &str = "stock";

/// Under contention.
const KEYS: [&str; 2] = ["even", "odd"];
const CLIENTS: usize = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grow_while_somebody_deletes_the_keys() {
    let nodes = Cluster::start(5);
    let proxies = nodes.proxies();
    let vandal = Vandal::start(&nodes);
    let history = contend(&proxies).await;
    let deleted = vandal.stop();
    // A process whose keys are gone goes on with its block of tokens until it is told; but a block
    // serves for 50 ms only, or for as long as its own round took: at most a node timeout.
    history.check(Duration::from_millis(250));
    println!(
        "vandalism: {}; {deleted} keys deleted under their holders",
        history.report()
    );
    assert!(deleted > 0, "no holder was harmed");
}

/// One minority after the other, until no node is left that has seen the first token itself.
#[tokio::test]
async fn grow_after_minorities_lost_their_memory() {
    let nodes = Cluster::start(5);
    let client = client(&nodes).await;
    let first = next_token(&client).await;
    // Ahead of the clocks, which would keep the tokens growing by themselves, and not by more than an hour, which
    // nobody believes of one that has lost its memory.
    set_counters(&nodes, [first + 1_800_000_000; 5]).await;
    let mut before = next_token(&client).await;
    for minority in [[0, 1], [2, 3], [4, 0]] {
        for node in minority {
            nodes[node].restart();
        }
        for node in minority {
            nodes[node].await_clients(1).await;
        }
        await_up(&client).await;
        let after = next_token(&client).await;
        assert!(after > before, "{after} after {before}");
        before = after;
    }
}

/// Counters then begin again from the clients' wall clocks.
#[tokio::test]
async fn grow_after_all_nodes_lost_their_memory() {
    let nodes = Cluster::start(5);
    let first = client(&nodes).await;
    let before = next_token(&first).await;
    // All are gone before the first one comes back: none can learn from another.
    nodes.iter().for_each(Server::kill);
    nodes.iter().for_each(Server::restart);
    assert!(next_token(&first).await > before);
    // And those of a client that has seen nothing of it.
    assert!(next_token(&client(&nodes).await).await > before);
}

async fn next_token(client: &Redlock) -> u64 {
    let guard = acquire(client, KEY).await;
    let token = token(&guard);
    guard.release().await;
    token
}

/// Sets the counters of the only key that was locked so far, once.
async fn set_counters(nodes: &Cluster, counters: [u64; 5]) {
    // A majority has told of the release; others may have been asked, too.
    nodes.await_free(KEY).await;
    let fields = |node: &Server| node.query::<Vec<String>>(&["HKEYS", NODE]);
    let stripes = nodes
        .iter()
        .flat_map(fields)
        .filter(|field| is_stripe(field));
    let stripes: BTreeSet<String> = stripes.collect();
    assert_eq!(stripes.len(), 1);
    for (node, counter) in nodes.iter().zip(counters) {
        for stripe in &stripes {
            node.command(&["HSET", NODE, stripe, &counter.to_string()]);
        }
    }
}

/// Counters are named by numbers; nothing else is.
fn is_stripe(field: &str) -> bool {
    field.parse::<u64>().is_ok()
}

async fn await_up(client: &Redlock) {
    let all_up = async {
        while !client.nodes().iter().all(NodeStatus::is_up) {
            yield_now().await;
        }
    };
    let all_up = timeout(PATIENCE, all_up).await;
    all_up.unwrap_or_else(|_| panic!("{:#?}", client.nodes()));
}

/// Several clients with several tasks each, on two keys, by way of the proxies.
async fn contend(proxies: &[Proxy]) -> History {
    const TASKS: usize = 4;
    const ACQUISITIONS: usize = 60;

    let mut tasks = JoinSet::new();
    for _ in 0..CLIENTS {
        let client = client_at(proxies.iter().map(Proxy::url).collect()).await;
        for task in 0..TASKS {
            let key = KEYS[task % KEYS.len()];
            let client = client.clone();
            tasks.spawn(async move {
                let mut history = History::default();
                for _ in 0..ACQUISITIONS {
                    let asked = Instant::now();
                    let acquired = client.lock(key).wait(PATIENCE).acquire().await;
                    let returned = Instant::now();
                    // It may be known already that the lock is lost.
                    let token = acquired.as_ref().map(|guard| guard.fencing_token());
                    match token {
                        Ok(Ok(token)) => {
                            let token = token.get();
                            history.push(
                                key,
                                Acquisition {
                                    asked,
                                    returned,
                                    token,
                                },
                            );
                        }
                        _ => history.failed += 1,
                    }
                    // What is done under the lock: sections that take no time would all be over
                    // before another client has its turn.
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    drop(acquired);
                }
                history
            });
        }
    }
    let mut all = History::default();
    while let Some(history) = tasks.join_next().await {
        all.merge(history.unwrap());
    }
    all
}

#[derive(Default)]
struct History {
    acquisitions: BTreeMap<&'static str, Vec<Acquisition>>,
    failed: usize,
}

#[derive(Clone, Copy, Debug)]
struct Acquisition {
    asked: Instant,
    returned: Instant,
    token: u64,
}

impl History {
    fn push(&mut self, key: &'static str, acquisition: Acquisition) {
        self.acquisitions.entry(key).or_default().push(acquisition);
    }

    fn merge(&mut self, other: Self) {
        for (key, acquisitions) in other.acquisitions {
            self.acquisitions
                .entry(key)
                .or_default()
                .extend(acquisitions);
        }
        self.failed += other.failed;
    }

    fn len(&self) -> usize {
        self.acquisitions.values().map(Vec::len).sum()
    }

    /// Of the tokens of one key there are no two alike, and an acquisition that had returned so long
    /// before another was asked for has the smaller one.
    fn check(&self, so_long: Duration) {
        for (key, acquisitions) in &self.acquisitions {
            let tokens: BTreeSet<_> = acquisitions.iter().map(|of| of.token).collect();
            assert_eq!(tokens.len(), acquisitions.len(), "{key}: duplicates");

            let mut by_asked = acquisitions.clone();
            by_asked.sort_by_key(|of| of.asked);
            let mut by_returned = acquisitions.clone();
            by_returned.sort_by_key(|of| of.returned);
            let mut earlier = by_returned.into_iter().peekable();
            let mut largest: Option<Acquisition> = None;
            for later in by_asked {
                while let Some(over) = earlier.next_if(|of| of.returned + so_long < later.asked) {
                    largest = largest.filter(|of| of.token > over.token).or(Some(over));
                }
                if let Some(before) = largest {
                    assert!(
                        before.token < later.token,
                        "{key}: {before:?}, then {later:?}"
                    );
                }
            }
        }
    }

    fn report(&self) -> String {
        format!("{} acquisitions ({} failed)", self.len(), self.failed)
    }
}

#[test]
#[should_panic = "duplicates"]
fn the_check_sees_a_token_that_was_given_twice() {
    history([(0, 9, 5), (0, 9, 5)]).check(Duration::ZERO);
}

#[test]
#[should_panic = "then"]
fn the_check_sees_tokens_that_shrink() {
    history([(4, 5, 2), (0, 1, 3)]).check(Duration::ZERO);
}

#[test]
fn the_check_allows_any_order_to_those_that_overlap() {
    history([(0, 5, 3), (4, 6, 2), (7, 8, 4)]).check(Duration::ZERO);
}

/// Of when it was asked, when it returned, and the token.
fn history<const N: usize>(acquisitions: [(u64, u64, u64); N]) -> History {
    let start = Instant::now();
    let at = |seconds| start + Duration::from_secs(seconds);
    let mut history = History::default();
    for (asked, returned, token) in acquisitions {
        let (asked, returned) = (at(asked), at(returned));
        history.push(
            KEY,
            Acquisition {
                asked,
                returned,
                token,
            },
        );
    }
    history
}

/// The hash of counters on every node.
const NODE: &str = "__redlock:node:0";

/// Deletes the keys of locks on random nodes all the time.
struct Vandal {
    stop: Arc<AtomicBool>,
    thread: thread::JoinHandle<u64>,
}

impl Vandal {
    fn start(nodes: &Cluster) -> Self {
        let mut connections: Vec<redis::Connection> = nodes
            .iter()
            .map(|node| {
                redis::Client::open(node.url())
                    .unwrap()
                    .get_connection()
                    .unwrap()
            })
            .collect();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut deleted = 0;
            let mut random: u64 = 0x9e37_79b9_7f4a_7c15;
            while !stopped.load(Ordering::Relaxed) {
                // Xorshift.
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let node = usize::try_from(random % connections.len() as u64).unwrap();
                let key = KEYS[usize::from(random >> 32 & 1 == 1)];
                let command = redis::cmd("DEL").arg(key).to_owned();
                deleted += command.query::<u64>(&mut connections[node]).unwrap();
            }
            deleted
        });
        Self { stop, thread }
    }

    /// How many keys it has deleted.
    fn stop(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}
