//! Durations that are known only when the function is called.

use std::{
    cell::Cell,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use redlock_runtime::{LockError, redis_lock};

use super::support::{assert_all_released, assert_held, install};

const SECOND: Duration = Duration::from_secs(1);
const LEASE: Duration = Duration::from_secs(4);

struct Job {
    lease: Duration,
    wait: (Duration, String),
    asked: AtomicU32,
}

impl Job {
    fn new() -> Self {
        Self {
            lease: 7 * SECOND,
            wait: (SECOND, String::new()),
            asked: AtomicU32::new(0),
        }
    }

    fn every(&self) -> Duration {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.lease / 2
    }

    #[redis_lock(key = "durations:self", expire = self.lease, wait = self.wait.0, renew = self.every(), max_hold = self.lease.saturating_mul(2), lease = lease)]
    async fn by_reference(&self) -> Result<Duration, LockError> {
        assert_held("durations:self").await;
        assert_eq!(self.asked.load(Ordering::Relaxed), 1);
        Ok(lease.remaining())
    }

    #[redis_lock(key = "durations:mut", expire = self.lease, lease = lease)]
    async fn by_mutable_reference(&mut self) -> Result<Duration, LockError> {
        assert_held("durations:mut").await;
        self.lease *= 2;
        Ok(lease.remaining())
    }

    #[redis_lock(key = "durations:value", expire = self.lease, lease = lease)]
    async fn by_value(self) -> Result<Duration, LockError> {
        assert_held("durations:value").await;
        drop(self);
        Ok(lease.remaining())
    }
}

#[redis_lock(key = "durations:{id}", expire = lease, wait = *wait, lease = held)]
async fn arguments(id: u8, lease: Duration, wait: &Duration) -> Result<Duration, LockError> {
    assert_held("durations:1").await;
    Ok(held.remaining())
}

#[redis_lock(key = "durations:mixed", expire = LEASE, wait = r#loop, renew = 1s, max_hold = LEASE.saturating_mul(2), lease = held)]
async fn beside_constants(r#loop: Duration) -> Result<Duration, LockError> {
    assert_held("durations:mixed").await;
    Ok(held.remaining())
}

#[async_trait::async_trait]
trait Runs {
    async fn run(&self, job: &Job) -> Result<Duration, LockError>;
}

#[async_trait::async_trait]
impl Runs for () {
    #[redis_lock(key = "durations:trait", expire = job.lease, lease = lease)]
    async fn run(&self, job: &Job) -> Result<Duration, LockError> {
        assert_held("durations:trait").await;
        Ok(lease.remaining())
    }
}

#[tokio::test]
async fn are_those_of_the_call() {
    install().await;
    let mut job = Job::new();
    let seven = |remaining: Result<Duration, LockError>| {
        let remaining = remaining.unwrap();
        assert!(
            remaining > 5 * SECOND && remaining <= 7 * SECOND,
            "{remaining:?}"
        );
    };
    seven(job.by_reference().await);
    seven(job.by_mutable_reference().await);
    assert_eq!(job.lease, 14 * SECOND);
    seven(Job::new().by_value().await);
    seven(arguments(1, 7 * SECOND, &SECOND).await);
    seven(().run(&Job::new()).await);
    let remaining = beside_constants(SECOND).await.unwrap();
    assert!(
        remaining > 2 * SECOND && remaining <= LEASE,
        "{remaining:?}"
    );
    assert_all_released().await;
}

/// What a program reloads while it runs.
struct Settings(Mutex<(Duration, Duration)>);

impl Settings {
    fn get(&self) -> MutexGuard<'_, (Duration, Duration)> {
        self.0.try_lock().expect("no other guard lives on")
    }

    #[redis_lock(key = "durations:async", expire = self.get().0, wait = self.get().1, renew = self.get().1, max_hold = self.get().0)]
    async fn hold(&self) -> Result<(), LockError> {
        assert_held("durations:async").await;
        drop(self.get());
        Ok(())
    }
}

#[tokio::test]
async fn leave_nothing_locked() {
    const fn is_send(_: &impl Send) {}
    install().await;
    let settings = Settings(Mutex::new((LEASE, SECOND)));
    let section = settings.hold();
    is_send(&section);
    section.await.unwrap();
    assert_all_released().await;
}

struct Late<'a>(&'a Cell<Vec<&'static str>>);

impl Late<'_> {
    fn note(&self, what: &'static str) {
        let mut notes = self.0.take();
        notes.push(what);
        self.0.set(notes);
    }

    fn key(&self) -> &'static str {
        self.note("key");
        "late"
    }

    fn lease(&self) -> Duration {
        self.note("lease");
        SECOND
    }
}

#[redis_lock(key = "durations:{late.key()}", expire = late.lease())]
async fn in_order(late: Late<'_>) -> Result<(), LockError> {
    late.note("body");
    Ok(())
}

#[tokio::test]
async fn are_evaluated_once_when_the_call_is_polled() {
    install().await;
    let notes = Cell::default();
    let call = in_order(Late(&notes));
    assert_eq!(notes.take(), [""; 0]);
    call.await.unwrap();
    assert_eq!(notes.take(), ["key", "lease", "body"]);
}

#[redis_lock(key = "durations:kept:{id}", at_least = period)]
async fn kept(id: u8, period: Duration) -> Result<(), LockError> {
    Ok(())
}

#[tokio::test]
async fn a_period_may_be_known_at_run_time() {
    install().await;
    kept(1, LEASE).await.unwrap();
    let again = kept(1, LEASE).await.unwrap_err();
    assert!(matches!(again, LockError::Contended(_)), "{again}");
    let longer = kept(2, 60 * SECOND).await.unwrap_err();
    assert!(matches!(longer, LockError::Config(_)), "{longer}");
}
