//! The servers, the network and the clients, and what a fault does to them.

use std::{
    path::{Path, PathBuf},
    process::ExitStatus,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use redlock_tests::{Mode, Proxy, Server, Worker, redis};
use tempfile::TempDir;

use crate::{
    plan::{CLIENTS, DURABLE, NODES, Pace, Plan, Strike, Target},
    record::{Record, now, word},
};

/// For the keys of this one and no other.
const RIGHTS: [&str; 6] = ["app", "on", "nopass", "~*", "&*", "+@all"];

/// How many keys a server has, and how many fields and entries are in those that are not locks.
const KEPT: &str = "local fields = 0
for _, key in ipairs(redis.call('KEYS', '__redlock:*')) do
  local of = {hash = 'HLEN', list = 'LLEN', zset = 'ZCARD', set = 'SCARD', string = 'STRLEN'}
  fields = fields + redis.call(of[redis.call('TYPE', key).ok], key)
end
return {redis.call('DBSIZE'), fields}";

const MOMENT: Duration = Duration::from_millis(20);

pub(crate) struct World {
    servers: Vec<Server>,
    /// Of each client, one to each node.
    links: Vec<Vec<Proxy>>,
    clients: Vec<Mutex<Client>>,
    /// Each is locked while its server is not to be asked.
    struck: Vec<Mutex<()>>,
    record: Record,
    path: PathBuf,
    seed: u64,
    pace: &'static Pace,
    breaks: bool,
    begun: AtomicU64,
    /// By how many milliseconds the plan was late at the most.
    late: AtomicU64,
    /// After the servers, so that it is dropped last.
    _memory: [TempDir; DURABLE.len()],
}

struct Client {
    worker: Option<Worker>,
    life: u64,
}

impl World {
    /// Starts everything and returns when all clients have a majority.
    pub(crate) fn start(path: &Path, seed: u64, pace: &'static Pace, breaks: bool) -> Self {
        // A disk that is busy with other things would make healthy nodes look silent.
        let in_memory = |_| {
            tempfile::tempdir_in("/dev/shm")
                .or_else(|_| tempfile::tempdir())
                .expect("a temporary directory can be made")
        };
        let memory = DURABLE.map(in_memory);
        let server = |node: usize| {
            let settings = Server::builder().args(["--user"]).args(RIGHTS).args([
                "--lua-time-limit",
                "20",
                "--notify-keyspace-events",
                "",
            ]);
            // A long file takes a busy machine so long to read that the server seems not to start.
            let short = ["--auto-aof-rewrite-min-size", "8mb"];
            let durable = ["--appendonly", "yes", "--appendfsync", "always", "--dir"];
            match DURABLE.iter().position(|durable| *durable == node) {
                Some(place) => {
                    let folder = memory[place].path().display().to_string();
                    settings.args(short).args(durable).args([folder]).start()
                }
                None => settings.start(),
            }
        };
        let servers: Vec<Server> = (0..NODES).map(server).collect();
        let links = |_| servers.iter().map(Server::proxy).collect();
        let world = Self {
            links: (0..CLIENTS).map(links).collect(),
            servers,
            clients: (0..CLIENTS)
                .map(|_| {
                    Mutex::new(Client {
                        worker: None,
                        life: 0,
                    })
                })
                .collect(),
            struck: (0..NODES).map(|_| Mutex::default()).collect(),
            record: Record::open(path),
            path: path.to_owned(),
            seed,
            pace,
            breaks,
            begun: AtomicU64::new(0),
            late: AtomicU64::new(0),
            _memory: memory,
        };
        for number in 0..CLIENTS {
            let mut client = world.client(number);
            client.worker = Some(world.spawn(number, 0));
        }
        for number in 0..CLIENTS {
            let client = world.client(number);
            client
                .worker
                .as_ref()
                .expect("it was started")
                .expect_line("ready");
        }
        world
    }

    fn spawn(&self, number: usize, life: u64) -> Worker {
        let url = |proxy: &Proxy| format!("redis://app:any@127.0.0.1:{}", proxy.port());
        let nodes: Vec<String> = self.links[number].iter().map(url).collect();
        let seed = self.seed.wrapping_mul(1_000).wrapping_add(life * 100) + number as u64;
        let args = [
            "client",
            &number.to_string(),
            &life.to_string(),
            &seed.to_string(),
            &self.path.display().to_string(),
            &self.breaks.to_string(),
            &(self.pace.held > 0).to_string(),
        ];
        Worker::of_this_program(
            &args,
            &[(redlock_runtime::NODES_VARIABLE, &nodes.join(","))],
        )
    }

    fn client(&self, number: usize) -> MutexGuard<'_, Client> {
        let client = self.clients[number].lock();
        client.unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets all strikes of the plan happen, each on a thread of its own. How late one was at the most.
    pub(crate) fn run(&self, plan: &Plan) -> u64 {
        let begun = now();
        self.record.line(begun, "begin");
        self.begun.store(begun, Ordering::Relaxed);
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| self.measure(&is_over));
            thread::scope(|scope| {
                for strike in &plan.strikes {
                    self.sleep_until(strike.at);
                    scope.spawn(|| self.strike(strike));
                }
            });
            let (end, _) = plan.phases[plan.phases.len() - 1];
            self.sleep_until(end);
            is_over.store(true, Ordering::Relaxed);
        });
        self.late.load(Ordering::Relaxed)
    }

    fn sleep_until(&self, millis: u64) {
        let at = self.begun.load(Ordering::Relaxed) + millis * 1_000;
        thread::sleep(Duration::from_micros(at.saturating_sub(now())));
        let late = now().saturating_sub(at) / 1_000;
        self.late.fetch_max(late, Ordering::Relaxed);
    }

    /// Lets all clients end, and returns how many locks stand on the servers then, and how the clients ended.
    pub(crate) fn end(&self) -> (Vec<String>, Vec<ExitStatus>) {
        let workers: Vec<Worker> = (0..CLIENTS)
            .filter_map(|number| self.client(number).worker.take())
            .collect();
        for worker in &workers {
            worker.close_stdin();
        }
        let ends = workers.iter().map(Worker::wait).collect();
        // What was sent without waiting for a reply is on its way.
        thread::sleep(Duration::from_millis(200));
        let left = self.servers.iter().flat_map(locks).collect();
        (left, ends)
    }

    /// What each client uses, once a second.
    fn measure(&self, is_over: &AtomicBool) {
        let mut seconds = 0_u64;
        while !is_over.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_secs(1));
            for number in 0..CLIENTS {
                // It is locked while a fault strikes it.
                let Ok(client) = self.clients[number].try_lock() else {
                    continue;
                };
                let pid = client.worker.as_ref().map(Worker::pid);
                let used = pid.and_then(usage).into_iter().flatten();
                self.note_use(Target::Client(number), client.life, used);
            }
            seconds += 1;
            if seconds.is_multiple_of(10) {
                self.measure_servers();
            }
            if self.pace.held > 0 {
                // They would keep all commands. So many locks are held that each fault is effective anyway.
                self.links.iter().flatten().for_each(Proxy::clear);
            }
        }
    }

    fn measure_servers(&self) {
        for (node, server) in self.servers.iter().enumerate() {
            let Ok(_unharmed) = self.struck[node].try_lock() else {
                continue;
            };
            let pid = server.pid();
            let (Some(used), Ok(kept)) = (usage(pid), server.try_command(&["EVAL", KEPT, "0"]))
            else {
                continue;
            };
            let kept: [u64; 2] = redis::from_redis_value(kept).expect("it counts");
            self.note_use(Target::Node(node), pid.into(), used.into_iter().chain(kept));
        }
    }

    fn note_use(&self, of: Target, life: u64, used: impl Iterator<Item = u64>) {
        let used: Vec<String> = used.map(|figure| figure.to_string()).collect();
        if !used.is_empty() {
            let line = format!("use {} {life} {}", word(of), used.join(" "));
            self.record.line(now(), &line);
        }
    }

    fn strike(&self, strike: &Strike) {
        let (links, node): (Vec<&Proxy>, Option<&Server>) = match strike.target {
            Target::Node(node) => {
                let links = self.links.iter().map(|links| &links[node]).collect();
                (links, Some(&self.servers[node]))
            }
            Target::Link(client, node) => (vec![&self.links[client][node]], None),
            Target::Client(_) => (Vec::new(), None),
        };
        let held = node.map_or(0, |node| locks(node).len());
        links.iter().for_each(|link| link.clear());
        let from = now();
        let lasts = Duration::from_millis(strike.lasts);
        match strike.target {
            Target::Node(node) => {
                let struck = self.struck[node].lock();
                let _struck = struck.unwrap_or_else(PoisonError::into_inner);
                strike_node(&self.servers[node], strike.kind, lasts, &links);
            }
            Target::Link(..) => strike_link(links[0], strike.kind, lasts),
            Target::Client(client) => self.strike_client(client, strike.kind, lasts),
        }
        let requests = links.iter().map(|link| link.traffic().commands.len());
        let met = held + requests.sum::<usize>();
        let (kind, target) = (strike.kind.replace(' ', "_"), word(strike.target));
        self.record
            .line(from, &format!("fault {kind} {target} {} {met}", now()));
    }

    fn strike_client(&self, number: usize, kind: &str, lasts: Duration) {
        let mut client = self.client(number);
        let Some(worker) = client.worker.as_ref() else {
            return;
        };
        if kind == "client stopped" {
            worker.stop();
            thread::sleep(lasts);
            worker.cont();
            return;
        }
        worker.kill();
        thread::sleep(lasts);
        client.life += 1;
        client.worker = Some(self.spawn(number, client.life));
    }
}

fn strike_node(server: &Server, kind: &str, lasts: Duration, links: &[&Proxy]) {
    let set = |words: &[&str]| drop(server.command(words));
    match kind {
        "killed" => {
            server.kill();
            thread::sleep(lasts);
            server.restart();
        }
        "stopped" => {
            server.stop();
            thread::sleep(lasts);
            server.cont();
        }
        "flushed" => set(&["FLUSHALL"]),
        "scripts flushed" => set(&["SCRIPT", "FLUSH"]),
        "clients cut" => drop(server.kill_clients()),
        "memory full" => {
            set(&["CONFIG", "SET", "maxmemory", "1"]);
            thread::sleep(lasts);
            set(&["CONFIG", "SET", "maxmemory", "0"]);
        }
        "replica" => {
            set(&["REPLICAOF", "127.0.0.1", "1"]);
            thread::sleep(lasts);
            set(&["REPLICAOF", "NO", "ONE"]);
        }
        "busy" => {
            let client = redis::Client::open(server.own_url()).expect("the URL is valid");
            let mut link = client.get_connection().expect("it takes connections");
            let busy = thread::spawn(move || {
                // It ends with an error, when it is killed.
                let _ = redis::cmd("EVAL")
                    .arg("while true do end")
                    .arg(0)
                    .exec(&mut link);
            });
            thread::sleep(lasts + MOMENT);
            while server.try_command(&["SCRIPT", "KILL"]).is_err() {
                thread::sleep(MOMENT);
            }
            busy.join().expect("the thread does not panic");
        }
        "rights taken" => {
            set(&["ACL", "SETUSER", "app", "-evalsha", "-eval"]);
            thread::sleep(lasts);
            set(&[&["ACL", "SETUSER"], &RIGHTS[..]].concat());
        }
        "cut off" => {
            links.iter().for_each(|link| link.black_hole());
            thread::sleep(lasts);
            links.iter().for_each(|link| link.pass());
        }
        kind => panic!("no fault {kind}"),
    }
}

fn strike_link(link: &Proxy, kind: &str, lasts: Duration) {
    link.set(match kind {
        "delayed" => Mode::Delay {
            requests: lasts / 10,
            replies: lasts / 10,
        },
        "throttled" => Mode::Throttle(40),
        "black hole" => Mode::BlackHole,
        "half-open" => Mode::HalfOpen,
        "forgotten" => Mode::Forget(Duration::from_millis(5)),
        "replies cut" => Mode::CutReplies,
        "replies held" => Mode::HoldReplies,
        "requests held" => Mode::HoldRequests,
        "refused" => Mode::Refuse,
        _ => Mode::Pass,
    });
    thread::sleep(lasts);
    if kind == "reset" {
        link.reset();
    }
    link.pass();
}

/// The keys of locks on a server; none if it does not answer. Queues and records have other names.
fn locks(server: &Server) -> Vec<String> {
    let keys = server.try_command(&["KEYS", "*"]);
    let keys = keys
        .ok()
        .and_then(|keys| redis::from_redis_value(keys).ok());
    let mut keys: Vec<String> = keys.unwrap_or_default();
    keys.retain(|key| !key.starts_with("__redlock:") && key != "at_least");
    keys
}

/// Kilobytes of memory, open descriptors, and threads.
fn usage(pid: u32) -> Option<[u64; 3]> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let field = |name| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count();
    Some([field("VmRSS:")?, descriptors as u64, field("Threads:")?])
}
