//! Every argument of the attribute but the key.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use super::support::{assert_all_released, assert_held, install};
use redlock_runtime::{LockError, Redlock, redis_lock};

const LEASE: Duration = Duration::from_secs(2);
mod config {
    pub(super) const WAIT: std::time::Duration = std::time::Duration::from_millis(1_500);
}

#[redis_lock(key = "all:{id}", expire = 3s, wait = 0.5s, renew = 900ms, max_hold = 1m, at_least = 1ms, lease = lease, name = "shop.all", on_error = |error| Err(error.to_string()), via = redlock, crate = ::redlock_runtime)]
async fn all(redlock: &Redlock, id: u64) -> Result<Duration, String> {
    assert!(lease.is_held());
    assert_eq!(lease.key(), "all:1");
    Ok(lease.remaining())
}

#[redis_lock(key = "constants", expire = LEASE, wait = config::WAIT, renew, max_hold = Duration::MAX,)]
async fn constants() -> Result<(), LockError> {
    assert_held("constants").await;
    Ok(())
}

#[redis_lock(lease = held, key = "guard-mutable")]
async fn guard_moves() -> Result<bool, LockError> {
    let lease = held;
    Ok(tokio::spawn(async move { lease.is_held() }).await.unwrap())
}

struct Shop {
    redlock: Redlock,
    shared: Arc<Redlock>,
}

impl Shop {
    #[redis_lock(key = "via-field", via = self.redlock)]
    async fn via_field(&self) -> Result<(), LockError> {
        assert_held("via-field").await;
        Ok(())
    }

    #[redis_lock(key = "via-shared", via = self.shared)]
    async fn via_shared(&self) -> Result<(), LockError> {
        assert_held("via-shared").await;
        Ok(())
    }

    #[redis_lock(key = "via-moved", via = self.redlock)]
    async fn via_moved(self) -> Result<Self, LockError> {
        assert_held("via-moved").await;
        Ok(self)
    }

    #[redis_lock(key = "reject:{id}", on_error = |error| self.reject(id, error))]
    async fn rejecting(&self, id: u64) -> String {
        assert_held("reject:1").await;
        format!("done {id}")
    }

    fn reject(&self, id: u64, error: LockError) -> String {
        format!("{id} {:?}", error.key())
    }
}

#[redis_lock(key = "via-owned", via = install().await)]
async fn via_owned() -> Result<(), LockError> {
    assert_held("via-owned").await;
    Ok(())
}

#[redis_lock(key = "wait", wait = 1s)]
async fn waiting() -> Result<(), LockError> {
    assert_held("wait").await;
    Ok(())
}

/// For a crate that gives the runtime to its own users under another name.
mod facade {
    pub(in super::super) mod lock {
        pub(in super::super::super) use redlock_runtime::*;
    }
}

#[redis_lock(key = "crate", crate = crate::attribute::options::facade::lock)]
async fn through_a_facade() -> Result<(), LockError> {
    assert_held("crate").await;
    Ok(())
}

macro_rules! through_a_macro {
    ($name:ident) => {
        #[redis_lock(key = "dollar-crate", crate = $crate::attribute::options::facade::lock)]
        async fn $name() -> Result<(), LockError> {
            assert_held("dollar-crate").await;
            Ok(())
        }
    };
}
through_a_macro!(dollar_crate);

#[tokio::test]
async fn every_option() {
    let redlock = install().await;
    assert!(all(&redlock, 1).await.unwrap() > Duration::ZERO);
    constants().await.unwrap();
    assert!(guard_moves().await.unwrap());
    let shop = Shop {
        redlock: redlock.clone(),
        shared: Arc::new(redlock.clone()),
    };
    shop.via_field().await.unwrap();
    shop.via_shared().await.unwrap();
    via_owned().await.unwrap();
    assert_eq!(shop.rejecting(1).await, "done 1");
    let other = redlock.lock("reject:1").acquire().await.unwrap();
    assert_eq!(shop.rejecting(1).await, "1 Some(\"reject:1\")");
    drop(other);
    shop.via_moved().await.unwrap();
    through_a_facade().await.unwrap();
    dollar_crate().await.unwrap();
    assert_all_released().await;
}

#[tokio::test]
async fn waits_for_the_other_holder() {
    let redlock = install().await;
    let other = redlock.lock("wait").acquire().await.unwrap();
    let mut waiting = Box::pin(waiting());
    let asked = poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context).is_pending()));
    assert!(asked.await, "it waits");
    drop(other);
    waiting.await.unwrap();
}
