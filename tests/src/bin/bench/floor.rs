//! What the protocol costs at least: its plain commands, sent to all nodes at once over one
//! connection to each, and no wait that is longer than a majority needs.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use redis::{Client, Cmd, RedisResult, Value, aio::MultiplexedConnection};

const DELETE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
    return redis.call('DEL', KEYS[1]) else return 0 end";

/// The connections of one process.
#[derive(Clone)]
pub(crate) struct Floor {
    nodes: Vec<MultiplexedConnection>,
    delete: Arc<str>,
    longest_pause: Duration,
}

/// One worker, with what it has sent and no longer waits for.
pub(crate) struct Worker {
    floor: Floor,
    name: String,
    broadcasts: u64,
    replies: FuturesUnordered<BoxFuture<'static, (u64, bool)>>,
}

/// A lock that is held: its key and its owner.
pub(crate) struct Held<'a>(&'a str, String);

impl Floor {
    pub(crate) async fn connect(urls: &[String], longest_pause: Duration) -> RedisResult<Self> {
        let mut nodes = Vec::new();
        let mut delete = String::new();
        for url in urls {
            let client = Client::open(url.as_str())?;
            let mut node = client.get_multiplexed_async_connection().await?;
            let mut load = redis::cmd("SCRIPT");
            delete = load.arg("LOAD").arg(DELETE).query_async(&mut node).await?;
            nodes.push(node);
        }
        Ok(Self {
            nodes,
            delete: delete.into(),
            longest_pause,
        })
    }

    pub(crate) fn worker(&self, name: String) -> Worker {
        Worker {
            floor: self.clone(),
            name,
            broadcasts: 0,
            replies: FuturesUnordered::new(),
        }
    }
}

impl Worker {
    pub(crate) async fn acquire<'a>(&mut self, key: &'a str, expire: Duration) -> Held<'a> {
        loop {
            let held = Held(key, format!("{}:{}", self.name, self.broadcasts));
            let mut set = redis::cmd("SET");
            set.arg(key).arg(&held.1).arg("NX").arg("PX");
            set.arg(expire.as_millis() as u64);
            let asked = Instant::now();
            if self.broadcast(set).await && asked.elapsed() < expire {
                return held;
            }
            self.release(held).await;
            tokio::time::sleep(self.floor.longest_pause.mul_f64(random())).await;
        }
    }

    pub(crate) async fn release(&mut self, Held(key, owner): Held<'_>) {
        let mut delete = redis::cmd("EVALSHA");
        delete.arg(&*self.floor.delete).arg(1).arg(key).arg(owner);
        self.broadcast(delete).await;
    }

    /// Sends `command` to all nodes, and waits until a majority has done it or cannot.
    ///
    /// What is still under way then goes on beside the next broadcast: a request that is dropped
    /// might not be sent.
    async fn broadcast(&mut self, command: Cmd) -> bool {
        self.broadcasts += 1;
        let broadcast = self.broadcasts;
        let command = Arc::new(command);
        for node in &self.floor.nodes {
            let (mut node, command) = (node.clone(), Arc::clone(&command));
            self.replies.push(Box::pin(async move {
                let reply = node.send_packed_command(&command).await;
                (broadcast, matches!(reply, Ok(Value::Okay | Value::Int(1))))
            }));
        }
        let nodes = self.floor.nodes.len();
        let majority = nodes / 2 + 1;
        let (mut done, mut refused) = (0, 0);
        while done < majority && refused <= nodes - majority {
            match self.replies.next().await {
                Some((of, true)) if of == broadcast => done += 1,
                Some((of, false)) if of == broadcast => refused += 1,
                Some(_) => {}
                None => break,
            }
        }
        done >= majority
    }
}

/// From 0 to 1.
fn random() -> f64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0) as f64 / u64::MAX as f64
}
