//! A process of a fleet that does sections under a lock of some kind, and fails if one finds what its
//! lock excludes.
//!
//! Says `ready`, waits for a line, does its sections, and says `done`. Its arguments are the kind of lock
//! and the number of sections.

use std::{
    env,
    io::{self, BufRead},
    time::{Duration, SystemTime},
};

use redis::Commands;
use redlock_runtime::{Guard, Lock, Redlock};
use redlock_tests::Counter;
use tokio::{runtime::Handle, task::JoinSet};

const TASKS: u64 = 4;
const PERMITS: u32 = 2;
const PERIOD: Duration = Duration::from_millis(50);
const KEYS: [&str; 3] = ["a", "b", "c"];

#[derive(Clone)]
struct Worker {
    redlock: Redlock,
    bank: String,
}

impl Worker {
    async fn section(&self, kind: &str, number: u64) {
        match kind {
            "fair" => self.exclusive(self.lock("fair").fair()).await,
            "reentrant" => self.reentrant().await,
            "blocking" => self.blocking().await,
            "several" => self.several(number).await,
            "shared" if number.is_multiple_of(4) => self.exclusive(self.lock("shared")).await,
            "shared" => self.reader().await,
            "permits" => self.permit().await,
            "at_least" => self.periodic().await,
            kind => panic!("no locks of the kind {kind}"),
        }
        let _: u64 = self.store().incr("sections", 1).unwrap();
    }

    fn lock(&self, key: &str) -> Lock {
        self.with_times(self.redlock.lock(key))
    }

    fn with_times(&self, lock: Lock) -> Lock {
        lock.expire(Duration::from_secs(2))
            .wait(Duration::from_secs(60))
    }

    fn counter(&self, name: &str) -> Counter {
        Counter::at(&self.bank, name)
    }

    fn store(&self) -> redis::Connection {
        redis::Client::open(&*self.bank)
            .unwrap()
            .get_connection()
            .unwrap()
    }

    async fn exclusive(&self, lock: Lock) {
        let guard = lock.acquire().await.unwrap();
        self.counter("counter").section().await;
        guard.release().await;
    }

    async fn reentrant(&self) {
        let outer = self.lock("reentrant").reentrant();
        let body = outer.hold(async |_| {
            let inner = self.lock("reentrant").reentrant();
            let counter = self.counter("counter");
            inner.hold(async |_| counter.section().await).await.unwrap();
        });
        body.await.unwrap();
    }

    async fn blocking(&self) {
        let worker = self.clone();
        let work = move || {
            let guard: Guard = worker.lock("blocking").acquire_blocking().unwrap();
            Handle::current().block_on(worker.counter("counter").section());
            guard.release_blocking();
        };
        tokio::task::spawn_blocking(work).await.unwrap();
    }

    /// Two of three keys, in either order.
    async fn several(&self, number: u64) {
        let at = |offset: u64| KEYS[((number + offset) % 3) as usize];
        let mut keys = [at(0), at(1)];
        if number.is_multiple_of(2) {
            keys.reverse();
        }
        let lock = self.with_times(self.redlock.lock_all(keys));
        let guard = lock.acquire().await.unwrap();
        for key in keys {
            self.counter(key).section().await;
        }
        guard.release().await;
    }

    /// Sees no section of a writer begin, go on, or end.
    async fn reader(&self) {
        let guard = self.lock("shared").shared().acquire().await.unwrap();
        let before = self.counter("counter").tally();
        assert_eq!(before.inside, 0, "a writer beside a reader");
        tokio::time::sleep(Duration::from_millis(2)).await;
        assert_eq!(self.counter("counter").tally(), before);
        guard.release().await;
    }

    async fn permit(&self) {
        let lock = self.lock("permits").permits(PERMITS);
        let guard = lock.acquire().await.unwrap();
        let mut store = self.store();
        let inside: u32 = store.incr("inside", 1).unwrap();
        assert!(
            inside <= PERMITS,
            "{inside} sections with {PERMITS} permits"
        );
        tokio::time::sleep(Duration::from_millis(2)).await;
        let _: u32 = store.decr("inside", 1).unwrap();
        guard.release().await;
    }

    /// The sections of the fleet begin a period apart or more. The machine's clock is the same for all
    /// of its processes.
    async fn periodic(&self) {
        let lock = self.lock("at_least").at_least(PERIOD);
        let guard = lock.acquire().await.unwrap();
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap();
        let acquired = now - (Duration::from_secs(2).saturating_sub(guard.lease().remaining()));
        let mut store = self.store();
        let last: Option<u64> = store.get("acquired").unwrap();
        let since = now.saturating_sub(Duration::from_millis(last.unwrap_or(0)));
        assert!(since >= PERIOD, "acquired again after {since:?}");
        let _: () = store.set("acquired", acquired.as_millis() as u64).unwrap();
        drop(guard);
    }
}

#[tokio::main]
async fn main() {
    let redlock = Redlock::builder()
        .assume_fresh(true)
        // Too long for a busy machine to make a healthy node look silent.
        .node_timeout(Duration::from_secs(1))
        .install()
        .await
        .unwrap();
    let [kind, sections] = [1, 2].map(|number| env::args().nth(number).unwrap());
    let sections: u64 = sections.parse().unwrap();
    let bank = env::var("BANK").unwrap();
    println!("ready");
    io::stdin().lock().lines().next();
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let (kind, redlock, bank) = (kind.clone(), redlock.clone(), bank.clone());
        tasks.spawn(async move {
            let worker = Worker { redlock, bank };
            for number in 0..sections / TASKS {
                worker.section(&kind, task + number).await;
            }
        });
    }
    tasks.join_all().await;
    println!("done");
}
