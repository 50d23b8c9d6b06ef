//! `when_held`: what to return while somebody else holds the lock, and for nothing else.

use std::fmt::Display;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use redlock_runtime::{LockError, Redlock, redis_lock};

use super::support::{assert_all_released, assert_held, install};

/// A Redlock on which every lock fails, and not because somebody holds it.
async fn outage() -> Redlock {
    let nodes = Redlock::builder().nodes(["memory://outage"]);
    let redlock = nodes.build().await.unwrap();
    redlock.shutdown(Duration::ZERO).await.unwrap();
    redlock
}

#[redis_lock(key = "held:skip", renew, when_held = Ok(false), via = redlock)]
async fn skips(redlock: &Redlock) -> Result<bool, LockError> {
    assert_held("held:skip").await;
    Ok(true)
}

#[tokio::test]
async fn skips_while_another_holds_the_lock_but_not_in_an_outage() {
    let redlock = install().await;
    assert!(skips(&redlock).await.unwrap());
    assert_all_released().await;
    let other = redlock.lock("held:skip").acquire().await.unwrap();
    assert!(!skips(&redlock).await.unwrap());
    drop(other);
    let failed = skips(&outage().await).await;
    assert!(matches!(failed, Err(LockError::Stopped(_))), "{failed:?}");
}

#[redis_lock(key = "held:lost", expire = 500ms, when_held = Ok(()))]
async fn outlives_its_lease() -> Result<(), LockError> {
    std::future::pending().await
}

#[tokio::test]
async fn a_lock_that_is_lost_is_not_held_by_another() {
    install().await;
    let lost = outlives_its_lease().await;
    assert!(matches!(lost, Err(LockError::Expired(_))), "{lost:?}");
}

struct Log(AtomicU32);

impl Log {
    async fn busy(&self) -> Result<u32, LockError> {
        Ok(self.0.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

#[redis_lock(key = "held:awaits", when_held = Some(log.busy().await.ok()?), on_error = |_| None)]
async fn awaits(log: &Log) -> Option<u32> {
    assert_held("held:awaits").await;
    Some(log.0.load(Ordering::Relaxed))
}

#[tokio::test]
async fn its_value_is_made_only_when_it_is_needed() {
    let redlock = install().await;
    let log = Log(AtomicU32::new(0));
    assert_eq!(awaits(&log).await, Some(0));
    assert_all_released().await;
    let other = redlock.lock("held:awaits").acquire().await.unwrap();
    assert_eq!(awaits(&log).await, Some(1));
    assert_eq!(awaits(&log).await, Some(2));
    drop(other);
}

#[redis_lock(key = "held:wait", wait = 20ms, when_held = Ok("busy"))]
async fn waits() -> Result<&'static str, Box<dyn std::error::Error>> {
    Ok("done")
}

#[tokio::test]
async fn waits_first() {
    let redlock = install().await;
    let other = redlock.lock("held:wait").acquire().await.unwrap();
    let before = std::time::Instant::now();
    assert_eq!(waits().await.unwrap(), "busy");
    assert!(before.elapsed() >= Duration::from_millis(20));
    drop(other);
}

#[redis_lock(key = "held:opaque", when_held = "busy".to_owned(), on_error = |error| error.to_string())]
async fn opaque() -> impl Display {
    assert_held("held:opaque").await;
    "done".to_owned()
}

#[redis_lock(key = "held:boxed", when_held = Box::new(|n| n), on_error = |_| Box::new(|_| 0))]
async fn coerced(add: u8) -> Box<dyn Fn(u8) -> u8> {
    assert_held("held:boxed").await;
    Box::new(move |n| n + add)
}

#[redis_lock(key = "held:returns", when_held = return Ok(3))]
async fn returns() -> Result<u8, LockError> {
    assert_held("held:returns").await;
    Ok(1)
}

#[async_trait]
trait Job {
    async fn run(&self, id: u64) -> Result<u64, LockError>;
}

struct Nightly;

#[async_trait]
impl Job for Nightly {
    #[redis_lock(key = "held:job:{id}", when_held = Ok(self.skipped() + id))]
    async fn run(&self, id: u64) -> Result<u64, LockError> {
        assert_held("held:job:7").await;
        Ok(id)
    }
}

impl Nightly {
    fn skipped(&self) -> u64 {
        100
    }
}

#[tokio::test]
async fn every_return_type() {
    let redlock = install().await;
    assert_eq!(opaque().await.to_string(), "done");
    assert_eq!(coerced(1).await(1), 2);
    assert_eq!(returns().await.unwrap(), 1);
    assert_eq!(Nightly.run(7).await.unwrap(), 7);
    assert_all_released().await;
    let mut others = Vec::new();
    for key in ["opaque", "boxed", "returns", "job:7"] {
        let other = redlock.lock(format!("held:{key}")).acquire().await;
        others.push(other.unwrap());
    }
    assert_eq!(opaque().await.to_string(), "busy");
    assert_eq!(coerced(1).await(1), 1);
    assert_eq!(returns().await.unwrap(), 3);
    assert_eq!(Nightly.run(7).await.unwrap(), 107);
}
