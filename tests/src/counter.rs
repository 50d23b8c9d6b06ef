//! Finds out whether sections overlapped.

use std::panic::Location;

use redis::{Client, Commands, Connection, RedisResult};

use crate::Server;

/// A counter that comes out wrong when two sections run at the same time.
///
/// A section reads the counter, does its work, and writes back one more: two at the same time lose
/// an increment. It also announces itself on entry and on exit, atomically, so that an overlap is
/// noticed even if no increment is lost.
///
/// The counter belongs on a server apart from the nodes of the lock. Any number of processes may
/// use one counter by its URL and name; clones are the same counter.
#[derive(Clone, Debug)]
pub struct Counter {
    client: Client,
    name: String,
}

impl Counter {
    /// The counter `name` on `server`.
    pub fn on(server: &Server, name: &str) -> Self {
        Self::at(&server.own_url(), name)
    }

    /// The counter `name` at the server with this URL, for worker processes.
    pub fn at(url: &str, name: &str) -> Self {
        Self {
            client: Client::open(url).expect("the URL of the counter is valid"),
            name: name.to_owned(),
        }
    }

    /// One section that lasts a few round trips.
    ///
    /// A future that is dropped before its end has left the section without having done it.
    pub async fn section(&self) {
        self.section_with(tokio::task::yield_now()).await;
    }

    /// One section that lasts as long as `work`, and at least a few round trips.
    pub async fn section_with<T>(&self, work: impl Future<Output = T>) -> T {
        // The commands block for a moment. Only so are they either done or not begun when the
        // future is dropped.
        let mut visit = Visit::enter(self);
        let count = visit.read();
        let result = work.await;
        visit.finish(count + 1);
        result
    }

    /// What the sections have left behind so far.
    pub fn tally(&self) -> Tally {
        let mut connection = self.connect();
        let mut value = |part| {
            let value: Option<i64> = connection.get(self.key(part)).expect("GET works");
            value.unwrap_or(0)
        };
        Tally {
            count: value("count"),
            sections: value("sections"),
            overlaps: value("overlaps"),
            inside: value("inside"),
        }
    }

    /// Fails unless exactly `sections` sections were done, none is going on, and no two overlapped.
    #[track_caller]
    pub fn assert_exclusive(&self, sections: u64) {
        let sections = i64::try_from(sections).expect("a small number");
        let expected = Tally {
            count: sections,
            sections,
            overlaps: 0,
            inside: 0,
        };
        let caller = Location::caller();
        assert_eq!(self.tally(), expected, "{caller}: counter {}", self.name);
    }

    fn connect(&self) -> Connection {
        self.client
            .get_connection()
            .expect("the server of the counter runs")
    }

    fn key(&self, part: &str) -> String {
        format!("counter:{}:{part}", self.name)
    }
}

/// The state of a [`Counter`].
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Tally {
    /// What the reading and writing has come to: less than `sections` if increments were lost.
    pub count: i64,
    /// How many sections came to their end.
    pub sections: i64,
    /// How many sections found another one going on when they began.
    pub overlaps: i64,
    /// How many sections are going on.
    pub inside: i64,
}

/// A section between entry and exit. Dropping it is the exit.
struct Visit<'a> {
    counter: &'a Counter,
    connection: Connection,
}

impl<'a> Visit<'a> {
    fn enter(counter: &'a Counter) -> Self {
        let mut visit = Self {
            counter,
            connection: counter.connect(),
        };
        if visit.add("inside", 1).expect("INCR works") != 1 {
            visit.add("overlaps", 1).expect("INCR works");
        }
        visit
    }

    fn read(&mut self) -> i64 {
        let count: Option<i64> = self
            .connection
            .get(self.counter.key("count"))
            .expect("GET works");
        count.unwrap_or(0)
    }

    fn finish(mut self, count: i64) {
        // One more round trip between reading and writing, to make a collision likely.
        let () = self.connection.ping().expect("PING works");
        let () = self
            .connection
            .set(self.counter.key("count"), count)
            .expect("SET works");
        self.add("sections", 1).expect("INCR works");
    }

    fn add(&mut self, part: &str, step: i64) -> RedisResult<i64> {
        self.connection.incr(self.counter.key(part), step)
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        // Without a server the test fails elsewhere.
        let _ = self.add("inside", -1);
    }
}
