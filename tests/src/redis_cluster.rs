//! A real Redis Cluster.

use std::{
    ops::{Deref, Range},
    sync::{Condvar, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use crate::{PATIENCE, Port, Server};

/// Three masters, and a replica of each: servers 0 to 2, and 3 to 5 in the same order. Derefs to a slice of
/// them. A replica takes over from a master that has not answered for a second.
#[must_use]
pub struct RedisCluster {
    servers: Vec<Server>,
    _bus: Vec<Port>,
    _turn: Turn,
}

/// So many at a time: many servers that compete for a processor depose each other.
const MOST: usize = 2;

static RUNNING: (Mutex<usize>, Condvar) = (Mutex::new(0), Condvar::new());

struct Turn;

impl Turn {
    fn wait() -> Self {
        let (running, ended) = &RUNNING;
        let running = running.lock().unwrap_or_else(PoisonError::into_inner);
        let free = ended.wait_while(running, |running| *running >= MOST);
        *free.unwrap_or_else(PoisonError::into_inner) += 1;
        Self
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *RUNNING.0.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        RUNNING.1.notify_one();
    }
}

/// The first and the last slot of each master.
const RANGES: [[&str; 2]; 3] = [["0", "5460"], ["5461", "10922"], ["10923", "16383"]];

/// In milliseconds.
const NODE_TIMEOUT: &str = "1000";

/// How often what servers tell each other is looked at.
const PAUSE: Duration = Duration::from_millis(20);

impl RedisCluster {
    /// Waits until all servers know all.
    ///
    /// # Panics
    /// If that takes too long.
    pub fn start() -> Self {
        let turn = Turn::wait();
        let bus: Vec<Port> = (0..6).map(|_| Port::reserve()).collect();
        let servers = bus.iter().map(start).collect();
        let cluster = Self {
            servers,
            _bus: bus,
            _turn: turn,
        };
        for (number, [first, last]) in RANGES.iter().enumerate() {
            let server = &cluster[number];
            server.command(&["CLUSTER", "ADDSLOTSRANGE", first, last]);
            server.command(&["CLUSTER", "SET-CONFIG-EPOCH", &(number + 1).to_string()]);
        }
        for (server, bus) in cluster.iter().zip(&cluster._bus) {
            let [port, bus] = [server.port(), bus.number()].map(|port| port.to_string());
            for other in cluster.iter().filter(|other| other.port() != server.port()) {
                other.command(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]);
            }
        }
        let know_all = |server: &Server| {
            let rows = table(server);
            rows.len() == 6 && rows.iter().all(|row| !row[2].contains("handshake"))
        };
        cluster.wait("servers that know each other", know_all);
        for (master, replica) in cluster[..3].iter().zip(&cluster[3..]) {
            replica.command(&["CLUSTER", "REPLICATE", &id(master)]);
        }
        cluster.wait("a cluster", |server| {
            let is_linked = || server.info("replication")["master_link_status"] == "up";
            let rows = table(server);
            let replicas = rows.iter().filter(|row| row[2].contains("slave"));
            let is_replica = rows.iter().any(|row| row[2] == "myself,slave");
            let state = server.query::<String>(&["CLUSTER", "INFO"]);
            replicas.count() == 3
                && state.starts_with("cluster_state:ok")
                && (!is_replica || is_linked())
        });
        cluster
    }

    /// `127.0.0.1:port` of some servers, with commas between them.
    pub fn hosts(&self, servers: Range<usize>) -> String {
        let hosts = self[servers].iter();
        let hosts: Vec<_> = hosts.map(|it| format!("127.0.0.1:{}", it.port())).collect();
        hosts.join(",")
    }

    /// Which server owns this slot, as another one that runs says.
    ///
    /// # Panics
    /// If none does.
    pub fn owner(&self, slot: u16, asked: usize) -> usize {
        let rows = table(&self[asked]);
        let is_in = |range: &String| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            matches!((first.parse(), last.parse()), (Ok(first), Ok(last)) if (first..=last).contains(&slot))
        };
        let row = rows.iter().find(|row| row[8..].iter().any(is_in));
        let address = &row.expect("the slot has an owner")[1];
        let place = self.iter().position(|server| {
            let prefix = format!("127.0.0.1:{}@", server.port());
            address.starts_with(&prefix)
        });
        place.expect("the owner is one of ours")
    }

    /// Moves a slot with its keys, as `redis-cli --cluster reshard` does.
    ///
    /// # Panics
    /// If a server refuses.
    pub fn migrate(&self, slot: u16, from: usize, to: usize) {
        let slot = &slot.to_string();
        let (source, target) = (&self[from], &self[to]);
        let [old, new] = [id(source), id(target)];
        target.command(&["CLUSTER", "SETSLOT", slot, "IMPORTING", &old]);
        source.command(&["CLUSTER", "SETSLOT", slot, "MIGRATING", &new]);
        let port = target.port().to_string();
        loop {
            let keys: Vec<String> = source.query(&["CLUSTER", "GETKEYSINSLOT", slot, "10"]);
            if keys.is_empty() {
                break;
            }
            let mut words = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
            words.extend(keys.iter().map(|key| &key[..]));
            source.command(&words);
        }
        let masters = (0..3).filter(|&other| other != to && other != from);
        for server in [to, from].into_iter().chain(masters) {
            self[server].command(&["CLUSTER", "SETSLOT", slot, "NODE", &new]);
        }
    }

    /// From now on the replica of this master does not get what the master writes.
    ///
    /// # Panics
    /// If a server refuses.
    pub fn sever(&self, master: usize) {
        // So that nobody is believed to have failed.
        self.set("cluster-node-timeout", "60000");
        let replica = self.partner(master);
        replica.command(&["CONFIG", "SET", "masterauth", "wrong"]);
        self[master].command(&["CLIENT", "KILL", "TYPE", "replica"]);
    }

    /// The replica takes over from a master that was severed, and the master from the replica as soon as it has what
    /// the replica had. Too few servers answer from then on to name an owner.
    ///
    /// # Panics
    /// If a server refuses, or it takes too long.
    pub fn call_back(&self, master: usize) {
        let (master, replica) = (&self[master], self.partner(master));
        let is_other = |it: &&Server| ![master.port(), replica.port()].contains(&it.port());
        self.iter().filter(is_other).take(3).for_each(Server::stop);
        replica.command(&["CLUSTER", "FAILOVER", "TAKEOVER"]);
        let deadline = Instant::now() + PATIENCE;
        while master
            .info("replication")
            .get("master_link_status")
            .map(String::as_str)
            != Some("up")
        {
            assert!(Instant::now() < deadline, "waited in vain for a replica");
            thread::sleep(PAUSE);
        }
        master.command(&["CLUSTER", "FAILOVER", "TAKEOVER"]);
    }

    /// All is again as it was before a master was severed and called back.
    ///
    /// # Panics
    /// If a server refuses.
    pub fn rejoin(&self) {
        self.iter().for_each(Server::cont);
        self.set("masterauth", "");
        self.set("cluster-node-timeout", NODE_TIMEOUT);
    }

    fn set(&self, name: &str, value: &str) {
        for server in self.iter() {
            server.command(&["CONFIG", "SET", name, value]);
        }
    }

    fn partner(&self, server: usize) -> &Server {
        &self[(server + self.len() / 2) % self.len()]
    }

    fn wait(&self, what: &str, is_so: impl Fn(&Server) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !self.iter().all(&is_so) {
            assert!(Instant::now() < deadline, "waited in vain for: {what}");
            thread::sleep(PAUSE);
        }
    }
}

fn start(bus: &Port) -> Server {
    Server::builder()
        .args(["--cluster-enabled", "yes"])
        .args(["--cluster-port", &bus.number().to_string()])
        .args(["--cluster-node-timeout", NODE_TIMEOUT])
        // By default a replica gives up when no election of 20 s had a majority, as may be on a busy machine.
        .args(["--cluster-replica-validity-factor", "0"])
        .args(["--repl-diskless-sync-delay", "0"])
        .start()
}

fn id(server: &Server) -> String {
    server.query(&["CLUSTER", "MYID"])
}

/// What a server says of all, field by field.
fn table(server: &Server) -> Vec<Vec<String>> {
    let text: String = server.query(&["CLUSTER", "NODES"]);
    let fields = |line: &str| line.split(' ').map(str::to_owned).collect();
    text.lines().map(fields).collect()
}

impl Deref for RedisCluster {
    type Target = [Server];

    fn deref(&self) -> &[Server] {
        &self.servers
    }
}
