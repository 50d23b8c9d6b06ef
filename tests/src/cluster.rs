//! Several independent servers: the node set of a Redlock.

use std::{
    ops::{Deref, Index},
    thread,
};

use crate::{Proxy, Server, ServerBuilder};

/// Independent servers, started in parallel. Derefs to a slice of them.
#[must_use]
pub struct Cluster(Vec<Server>);

impl Cluster {
    /// Starts `size` servers.
    pub fn start(size: usize) -> Self {
        Self::start_with(size, &Server::builder())
    }

    /// Starts `size` servers with the same settings.
    pub fn start_with(size: usize, settings: &ServerBuilder) -> Self {
        thread::scope(|scope| {
            let starts: Vec<_> = (0..size)
                .map(|_| scope.spawn(|| settings.clone().start()))
                .collect();
            let servers = starts.into_iter().map(|start| match start.join() {
                Ok(server) => server,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            Self(servers.collect())
        })
    }

    /// The URLs of all servers, in order.
    pub fn urls(&self) -> Vec<String> {
        self.iter().map(Server::url).collect()
    }

    /// The URLs as `REDLOCK_NODES` wants them: joined by commas.
    pub fn url_list(&self) -> String {
        self.urls().join(",")
    }

    /// A proxy in front of each server, in the same order.
    pub fn proxies(&self) -> Vec<Proxy> {
        self.iter().map(Proxy::in_front_of).collect()
    }

    /// How many scripts all servers have run, and how many reads of a key. The commands within a script do not count.
    #[track_caller]
    pub fn requests(&self) -> [u64; 2] {
        // Each read is announced by the last of these.
        [&["eval", "evalsha"][..], &["client|caching"]].map(|names| {
            let of_one = |server: &Server| {
                let counts = server.command_counts();
                names
                    .iter()
                    .filter_map(|name| counts.get(*name))
                    .sum::<u64>()
            };
            self.iter().map(of_one).sum()
        })
    }

    /// How many servers have something at `key`.
    #[track_caller]
    pub fn held_on(&self, key: &str) -> usize {
        let holds = |server: &&Server| server.is_running() && server.exists(key);
        self.iter().filter(holds).count()
    }

    /// Takes `key` with `value` on the servers `nodes`, as another holder of the lock.
    ///
    /// # Panics
    ///
    /// If one of them refuses.
    #[track_caller]
    pub fn occupy(
        &self,
        key: &str,
        value: &str,
        expire: std::time::Duration,
        nodes: impl IntoIterator<Item = usize>,
    ) {
        for node in nodes {
            let granted = self[node].set_nx_px(key, value, expire);
            assert!(granted, "node {node} already holds {key}");
        }
    }

    /// Fails unless `key` is gone from every server after at most two round trips to each; see
    /// [`Server::assert_free`].
    #[track_caller]
    pub fn assert_free(&self, key: &str) {
        for server in self.iter() {
            server.assert_free(key);
        }
    }

    /// Blocks until no server holds `key`, and fails if one of them lost it by expiry instead of by
    /// a release; see [`Server::wait_free`].
    #[track_caller]
    pub fn wait_free(&self, key: &str) {
        for server in self.iter() {
            server.wait_free(key);
        }
    }

    /// [`Cluster::wait_free`] as a future.
    #[track_caller]
    pub fn await_free(&self, key: &str) -> impl Future<Output = ()> + Send + use<> {
        let mut waits = Vec::new();
        for server in self.iter() {
            waits.push(server.await_free(key));
        }
        async move {
            for wait in waits {
                wait.await;
            }
        }
    }
}

impl Deref for Cluster {
    type Target = [Server];

    fn deref(&self) -> &[Server] {
        &self.0
    }
}

impl Index<usize> for Cluster {
    type Output = Server;

    fn index(&self, node: usize) -> &Server {
        &self.0[node]
    }
}

impl<'a> IntoIterator for &'a Cluster {
    type Item = &'a Server;
    type IntoIter = std::slice::Iter<'a, Server>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}
