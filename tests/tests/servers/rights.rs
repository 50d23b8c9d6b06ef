//! What the user of a server must be allowed to do: what the page on servers lists, and nothing less.

use std::{collections::BTreeMap, time::Duration};

use crate::common::{await_state, documented_rules, set_user, unhurried};
use futures_util::future::join_all;
use redlock_runtime::{Builder, Credentials, Guard, LockError, NodeState, Redlock, Release, fence};
use redlock_tests::{Cluster, PATIENCE, Server, redis};
use tokio::time::timeout;

/// Without these something is lost, and everything works, as the page says.
const DISPENSABLE: [&str; 9] = [
    "+client|tracking",
    "+client|caching",
    "+client|setname",
    "+client|list",
    "+mget",
    "+config|get",
    "+info",
    "+script|load",
    "+zremrangebyscore",
];

const UNKNOWN: &str = "the release is Unknown";

/// Of a lease whose quarantine a test can wait for.
const BRIEF: Duration = Duration::from_millis(500);

/// A user of all servers of a cluster, who locks in a database of its own.
struct User<'a> {
    cluster: &'a Cluster,
    name: String,
    database: usize,
}

impl<'a> User<'a> {
    /// May do all that is documented but `denied`.
    fn without(cluster: &'a Cluster, database: usize, denied: &[&str]) -> Self {
        let name = format!("locker-{database}");
        for node in cluster {
            let rules = documented_rules().filter(|rule| !denied.contains(rule));
            set_user(node, &name, &["on", ">secret"], rules);
        }
        Self {
            cluster,
            name,
            database,
        }
    }

    fn builder(&self) -> Builder {
        let database = self.database;
        let urls = self.cluster.iter();
        let urls = urls.map(|node| format!("redis://127.0.0.1:{}/{database}", node.port()));
        unhurried(urls)
            .credentials(Credentials::new(&*self.name, "secret"))
            .key_prefix("lock:")
            .guard_band(BRIEF)
    }

    /// Sends a command of the harness to a node, in the user's database.
    fn command<T: redis::FromRedisValue>(&self, node: usize, words: &[&str]) -> T {
        const IN_DATABASE: &str =
            "redis.call('SELECT', ARGV[1]) return redis.call(unpack(ARGV, 2))";
        let database = self.database.to_string();
        let command = [&["EVAL", IN_DATABASE, "0", &database], words].concat();
        self.cluster[node].query(&command)
    }

    fn held_on(&self, key: &str) -> u64 {
        let nodes = 0..self.cluster.len();
        nodes
            .map(|node| self.command::<u64>(node, &["EXISTS", key]))
            .sum()
    }

    /// What the servers have refused, in scripts, too.
    fn refusals(&self) -> Vec<String> {
        // Without a number it is the last ten of all users.
        let log = |node: &Server| {
            node.query::<Vec<BTreeMap<String, redis::Value>>>(&["ACL", "LOG", "1000"])
        };
        let entries = self.cluster.iter().flat_map(log);
        let entries = entries.map(|mut entry| {
            let mut field = |name| entry.remove(name).map(redis::from_redis_value::<String>);
            let [user, object] = ["username", "object"].map(|name| field(name).unwrap().unwrap());
            (user, object)
        });
        let ours = entries.filter(|(user, _)| *user == self.name);
        ours.map(|(_, object)| object).collect()
    }

    /// Holds locks until a server has refused something: keys that are held are watched. An operator
    /// looks at one.
    async fn await_refusal(&self) {
        let redlock = voting(self.builder()).await.unwrap();
        // What this many ask at once goes out together.
        let guards = (0..32).map(|lock| redlock.lock(format!("watched:{lock}")).acquire());
        let guards: Result<Vec<_>, _> = join_all(guards).await.into_iter().collect();
        let guards = guards.unwrap();
        for extended in join_all(guards.iter().map(|guard| guard.extend())).await {
            extended.unwrap();
        }
        redlock.inspect("watched:0").await;
        await_state("a refusal", || !self.refusals().is_empty()).await;
    }

    /// Does all that the library can do with servers. Fails with what a caller or an operator reads.
    async fn use_all(&self) -> Result<(), String> {
        let done = timeout(PATIENCE, async {
            self.lock().await?;
            self.lose_memory().await
        });
        done.await
            .unwrap_or_else(|_| Err("nothing happens any more".to_owned()))
    }

    async fn lock(&self) -> Result<(), String> {
        let (one, two) = (voting(self.builder()).await?, voting(self.builder()).await?);
        for node in self.cluster {
            node.command(&["SCRIPT", "FLUSH"]);
        }
        released(one.lock("k").acquire().await.map_err(text)?).await?;

        // What is done for a key that has gone from a node, and for others that wait.
        let guard = loop {
            let guard = self.acquire_on_all(&one, "k").await?;
            self.command::<()>(0, &["DEL", "lock:k"]);
            match guard.extend().await {
                // A holder that has not read the third reply yet knows of two nodes only.
                Err(LockError::Lost(_)) => drop(guard),
                extended => break extended.map(|_| guard).map_err(text)?,
            }
            await_state("a release", || self.held_on("lock:k") == 0).await;
        };
        while self.held_on("lock:k") < 3 {
            guard.extend().await.map_err(text)?;
        }
        let found = two.inspect("k").await;
        match found.nodes.iter().find_map(|node| node.problem.as_ref()) {
            Some(problem) => return Err(problem.to_string()),
            None => assert!(found.is_held(), "{found}"),
        }
        released(guard).await?;
        lock_in_all_ways(&one, &two).await?;
        await_state("a release", || self.held_on("lock:k") == 0).await;

        let daily = one.lock("daily").at_least(Duration::from_secs(600));
        released(daily.acquire().await.map_err(text)?).await?;
        let remaining = |node| self.command::<i64>(node, &["PTTL", "lock:daily"]);
        let lives = || {
            (0..self.cluster.len())
                .map(remaining)
                .filter(|&left| left > 0)
        };
        let is_shorter = || lives().count() > 1 && lives().all(|left| left <= 600_000);
        await_state("a shorter life", is_shorter).await;
        // A client that is still there would note that the nodes lose their memory.
        for redlock in [one, two] {
            let _ = redlock.shutdown(PATIENCE).await;
        }
        Ok(())
    }

    async fn acquire_on_all(&self, redlock: &Redlock, key: &str) -> Result<Guard, String> {
        let guard = redlock.lock(key).acquire().await.map_err(text)?;
        let key = format!("lock:{key}");
        await_state("a key on all nodes", || self.held_on(&key) == 3).await;
        Ok(guard)
    }

    /// A node loses its memory, which is noted, and votes again.
    async fn lose_memory(&self) -> Result<(), String> {
        let forget = || (0..self.cluster.len()).for_each(|node| self.command(node, &["FLUSHDB"]));
        forget();
        let careful = |fresh| self.builder().expire(BRIEF).assume_fresh(fresh);
        let _ = voting(careful(true)).await?.shutdown(PATIENCE).await;
        // A node that it let in before another one would be evidence that the other one is not new.
        forget();
        let redlock = voting(careful(false)).await?;
        self.command::<()>(0, &["FLUSHDB"]);
        let state = || redlock.nodes()[0].state().clone();
        let is_decided = || state() == NodeState::Up || is_refused(&state());
        loop {
            // The client takes the node for well until a vote is refused. Then it asks the node who it is.
            await_state("a vote", is_decided).await;
            if is_refused(&state()) {
                return Err(state().to_string());
            }
            let guard = redlock.lock("k").acquire().await;
            // It does not vote until it is admitted again.
            if self.command(0, &["EXISTS", "lock:k"]) {
                return Ok(());
            }
            if let Ok(guard) = guard {
                guard.release().await;
            }
        }
    }
}

/// By two processes.
pub(crate) async fn lock_in_all_ways(one: &Redlock, two: &Redlock) -> Result<(), String> {
    for [of_one, of_two] in [
        [one, two].map(|redlock| redlock.lock("k")),
        [one, two].map(|redlock| redlock.lock("fair").fair()),
    ] {
        let guard = of_one.acquire().await.map_err(text)?;
        let waiting = tokio::spawn(of_two.clone().wait(PATIENCE).acquire());
        let contended = of_two.try_acquire().await;
        assert!(matches!(contended, Err(LockError::Contended(_))));
        guard.extend().await.map_err(text)?;
        let token = guard.fencing_token().map_err(text)?;
        released(guard).await?;
        let next = waiting.await.unwrap().map_err(text)?;
        assert!(next.fencing_token().map_err(text)? > token);
        released(next).await?;
    }
    for beside in [
        [one, two].map(|redlock| redlock.lock("seat").permits(2)),
        [one, two].map(|redlock| redlock.lock("shared").shared()),
    ] {
        for guard in join_all(beside.map(|lock| lock.acquire())).await {
            released(guard.map_err(text)?).await?;
        }
    }
    let several = one.lock_all(["a", "b"]).acquire().await;
    released(several.map_err(text)?).await
}

fn is_refused(state: &NodeState) -> bool {
    matches!(state, NodeState::Refuses { .. } | NodeState::Down { .. })
}

/// A node set of which all nodes vote, or what is wrong with them.
async fn voting(builder: Builder) -> Result<Redlock, String> {
    let redlock = builder.build().await.map_err(text)?;
    let states = || {
        redlock
            .nodes()
            .iter()
            .map(|node| node.state().clone())
            .collect::<Vec<_>>()
    };
    let is_decided =
        || states().iter().all(|state| *state == NodeState::Up) || states().iter().any(is_refused);
    await_state("votes", is_decided).await;
    match states().iter().any(is_refused) {
        true => Err(redlock.health().to_string()),
        false => Ok(redlock),
    }
}

fn text(error: impl ToString) -> String {
    error.to_string()
}

async fn released(guard: Guard) -> Result<(), String> {
    match guard.release().await {
        Release::Released => Ok(()),
        other => Err(format!("the release is {other:?}")),
    }
}

fn cluster() -> Cluster {
    let settings = ["--databases", "64", "--acllog-max-len", "100000"];
    Cluster::start_with(3, &Server::builder().args(settings))
}

#[tokio::test]
async fn the_documented_rights_are_enough() {
    let cluster = cluster();
    let user = User::without(&cluster, 1, &[]);
    user.use_all().await.unwrap();
    // Also of commands in scripts.
    assert_eq!(user.refusals(), [""; 0]);
}

#[tokio::test]
async fn each_of_the_documented_rights_is_needed() {
    let cluster = cluster();
    let rules: Vec<_> = documented_rules().collect();
    let without = |(index, rule): (usize, &&'static str)| {
        let (cluster, rule) = (&cluster, *rule);
        async move {
            let user = User::without(cluster, index + 1, &[rule]);
            let done = user.use_all().await;
            if done.is_ok() {
                user.await_refusal().await;
            }
            (rule, done)
        }
    };
    // Scripts that one user makes the servers forget are missing for all.
    let (alone, together): (Vec<_>, Vec<_>) = rules
        .iter()
        .enumerate()
        .partition(|(_, rule)| **rule == "+eval");
    let mut outcomes = join_all(together.into_iter().map(without)).await;
    outcomes.extend(join_all(alone.into_iter().map(without)).await);
    for (rule, done) in outcomes {
        let is_said = |text: &String| {
            let words = ["NOPERM", "NoPerm", "can't run this command", "ACL failure"];
            words.iter().any(|word| text.contains(word))
        };
        let is_dispensable = DISPENSABLE.contains(&rule);
        assert_eq!(done.is_ok(), is_dispensable, "{rule}: {done:?}");
        match done {
            Ok(()) => {}
            // Nobody refuses the caller anything, and the servers do not say what became of the key.
            Err(text) if ["+del", "+get", "+zrem"].contains(&rule) => {
                assert_eq!(text, UNKNOWN, "{rule}");
            }
            // So it may be here: a first reader needs these for its release only, and others to begin with.
            Err(text) if ["+zscore", "+zrange"].contains(&rule) && text == UNKNOWN => {}
            Err(text) => assert!(is_said(&text), "{rule}: {text}"),
        }
    }
}

/// Of the store whose data fencing tokens protect, which needs not be a node.
#[test]
fn the_documented_rights_of_a_fenced_store_are_enough_and_needed() {
    let page = include_str!("../../../redlock-runtime/src/fence/redis.rs");
    let rules = page
        .lines()
        .find_map(|line| line.strip_prefix("//! ~{stock:7}"));
    let rules = format!("~{{stock:7}}{}", rules.expect("the page lists them"));
    let rules: Vec<&str> = rules.split_whitespace().collect();
    let store = Server::start();
    let guarded = |denied: &[&str]| {
        let mut own = vec!["reset", "on", ">secret"];
        own.extend(rules.iter().filter(|rule| !denied.contains(rule)));
        set_user(&store, "store", &own, []);
        let url = format!("redis://store:secret@127.0.0.1:{}", store.port());
        let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
        let script = redis::Script::new(fence::redis::GUARDED);
        let mut call = script.key("{stock:7}:fence");
        call.key("{stock:7}").arg(7).arg("SET").arg(41);
        let set = call.invoke::<()>(&mut connection);
        set.map_err(text)
    };
    for denied in &rules {
        store.command(&["DEL", "{stock:7}:fence"]);
        store.command(&["SCRIPT", "FLUSH"]);
        let set = guarded(&[denied]);
        assert!(set.is_err(), "{denied} is not needed");
    }
    guarded(&[]).unwrap();
}

#[tokio::test]
async fn what_is_said_to_be_dispensable_is_so_all_together() {
    let cluster = cluster();
    let user = User::without(&cluster, 1, &DISPENSABLE);
    assert_eq!(user.use_all().await, Ok(()));
}
