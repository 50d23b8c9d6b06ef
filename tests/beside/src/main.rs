//! What Rust's distributed locks do when a holder or a server fails: the same four accidents for each library, on real
//! servers, printed as one table.
//!
//! ```sh
//! cargo run --release --manifest-path tests/beside/Cargo.toml --target-dir target/beside
//! ```
//!
//! A *body* writes a line every 5 ms and never asks whether it still has its lock: so the table shows what a library does
//! by itself. Each client is a process of its own. Leases are 2 s, and renewed by the library if it can.

mod client;

use std::{
    env, fs,
    thread::{self, sleep},
    time::{Duration, SystemTime},
};

use redlock_runtime::Redlock;
use redlock_tests::{Cluster, Server, Worker};

use client::Library;

/// A folder for the lines of all bodies of one accident, and its servers.
struct Stage {
    library: Library,
    cluster: Cluster,
    lines: tempfile::NamedTempFile,
}

/// Microseconds since 1970: all processes share this machine's clock.
fn now() -> u128 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.expect("it is after 1970").as_micros()
}

impl Stage {
    fn new(library: Library) -> Self {
        let cluster = Cluster::start(if library.has_one_server() { 1 } else { 3 });
        // As servers that have been in use for long: their first minute is not the subject.
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(async {
            let builder = Redlock::builder().nodes(cluster.urls());
            let redlock = builder.assume_fresh(true).build().await.expect("nodes");
            let lock = redlock.lock("first");
            lock.hold(async |_| ()).await.expect("a lock");
        });
        cluster.iter().for_each(Server::settle);
        let lines = tempfile::NamedTempFile::new().expect("a file");
        Self {
            library,
            cluster,
            lines,
        }
    }

    /// Connects a client that will wait up to `wait` for the key, and whose body takes `hold`.
    fn client(&self, name: &str, wait: Duration, hold: Duration) -> Worker {
        let (wait, hold) = (wait.as_millis().to_string(), hold.as_millis().to_string());
        let lines = self.lines.path().to_str().expect("a path");
        let urls = self.cluster.url_list();
        let args = [self.library.name(), &urls, name, &wait, &hold, lines];
        let client = Worker::of_this_program(&args, &[]);
        client.expect_line("ready");
        client
    }

    /// The times of the lines of a body.
    fn lines_of(&self, name: &str) -> Vec<u128> {
        let text = fs::read_to_string(self.lines.path()).expect("the file");
        let own = text.lines().filter_map(|line| line.strip_prefix(name));
        own.filter_map(|time| time.trim().parse().ok()).collect()
    }

    /// How long two bodies ran at the same time.
    fn overlap(&self) -> String {
        let (first, second) = (self.lines_of("first"), self.lines_of("second"));
        let second = second.first().zip(second.last());
        let is_beside = |time: &&u128| second.is_some_and(|(from, to)| (from..=to).contains(time));
        let both = first.iter().filter(is_beside);
        match both.clone().min().zip(both.max()) {
            Some((from, to)) => format!("**{} ms**", (to - from) / 1_000 + 5),
            None => "no".to_owned(),
        }
    }
}

/// What is printed; or what a call returned that should have got the lock.
type Cells = Result<String, String>;
type Accident = fn(Library) -> Cells;

const SECOND: Duration = Duration::from_secs(1);

/// Lets a client ask for the lock. Waits until its body has begun; else what the call has returned.
fn go(client: &Worker) -> Result<(), String> {
    client.send_line("go");
    let line = client.wait_line(|line| line == "begun" || line.starts_with("ended"));
    let outcome = line.strip_prefix("ended ");
    outcome.map_or(Ok(()), |outcome| Err(outcome.to_owned()))
}

fn ended(client: &Worker) -> String {
    let line = client.wait_line(|line| line.starts_with("ended "));
    line["ended ".len()..].to_owned()
}

/// The holder is killed: when does the next client have the lock?
fn killed(library: Library) -> Cells {
    let stage = Stage::new(library);
    let first = stage.client("first", SECOND, 60 * SECOND);
    let second = stage.client("second", 20 * SECOND, SECOND);
    go(&first)?;
    let time = now();
    first.kill();
    go(&second)?;
    let next = stage.lines_of("second")[0] - time;
    Ok(format!("{:.1} s", next as f64 / 1e6))
}

/// The holder is paused beyond its lease and goes on while the next client has the lock.
fn paused(library: Library) -> Cells {
    let stage = Stage::new(library);
    let first = stage.client("first", SECOND, 14 * SECOND);
    let second = stage.client("second", 20 * SECOND, 4 * SECOND);
    go(&first)?;
    first.stop();
    go(&second)?;
    first.cont();
    ended(&second);
    let outcome = ended(&first);
    Ok(format!("{} | {outcome}", stage.overlap()))
}

/// One server is killed while a lock is held: is it kept, and does another client get it afterwards?
fn server_killed(library: Library) -> Cells {
    let stage = Stage::new(library);
    let first = stage.client("first", SECOND, 6 * SECOND);
    let second = stage.client("second", 3 * SECOND, Duration::ZERO);
    go(&first)?;
    stage.cluster[0].kill();
    let outcome = ended(&first);
    let next = go(&second).map_or_else(|error| error, |()| ended(&second));
    Ok(format!("{outcome} | {next}"))
}

/// A lock stands on two of three servers, because the third one was down. That one comes back, and then one of the two
/// is restarted without its memory. A single server is restarted.
fn memory_lost(library: Library) -> Cells {
    let stage = Stage::new(library);
    let first = stage.client("first", 5 * SECOND, 8 * SECOND);
    let second = stage.client("second", 4 * SECOND, 2 * SECOND);
    let third = (!library.has_one_server()).then(|| &stage.cluster[2]);
    third.inspect(|server| server.kill());
    go(&first)?;
    third.inspect(|server| server.restart());
    stage.cluster[0].restart();
    // Until clients have connected again.
    sleep(SECOND);
    let next = go(&second).map_or_else(|error| error, |()| ended(&second));
    let outcome = ended(&first);
    Ok(format!("{} | {outcome} | {next}", stage.overlap()))
}

fn main() {
    let args: Vec<String> = env::args().skip(1).collect();
    if let [library, urls, name, wait, hold, lines] = &args[..] {
        let millis = |text: &str| Duration::from_millis(text.parse().expect("milliseconds"));
        let body = client::Body::new(name, lines, millis(hold));
        return client::run(Library::named(library), urls, millis(wait), body);
    }
    let accidents: [(&str, Accident); 4] = [
        ("holder killed: next holder after", killed),
        (
            "holder paused beyond its lease: two at once | its call returned",
            paused,
        ),
        ("a server killed: holder's call | next call", server_killed),
        (
            "a server lost its memory: two at once | holder's call | next call",
            memory_lost,
        ),
    ];
    let heads: Vec<&str> = accidents.iter().map(|(head, _)| *head).collect();
    println!("| library | {} |", heads.join(" | "));
    println!(
        "|---{}|",
        "|---".repeat(heads.join(" | ").split(" | ").count())
    );
    for library in Library::ALL {
        let cells = thread::scope(|scope| {
            let runs = accidents.map(|(_, run)| scope.spawn(move || run(library)));
            runs.map(|run| run.join().expect("no panic").unwrap_or_else(|error| error))
        });
        println!("| {} | {} |", library.name(), cells.join(" | "));
    }
}
