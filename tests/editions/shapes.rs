//! Compiles in every edition that has `async fn`: each package beside this file is one of them, and
//! the test `attribute` runs them all. `unsafe` is here because the other packages forbid it.
#![deny(warnings)]

use std::time::Duration;

use redlock_runtime::{redis_lock, Lease, LockError, Redlock};

struct Order {
    id: u64,
    #[allow(dead_code)]
    note: String,
}

const LEASE: Duration = Duration::from_secs(1);

#[redis_lock(key = "edition:{order.id}:{n}", expire = 2s, renew = 500ms, lease = lease)]
async fn edition(redlock: &Redlock, order: Order, mut n: u64) -> Result<u64, LockError> {
    assert_held(redlock, &lease).await;
    n += order.id;
    let add = |m| m + n;
    Ok(add(1))
}

#[redis_lock(key = "edition-impl:{count}", on_error = |error| panic!("{}", error))]
async fn opaque<'a>(names: &'a [&'a str], count: usize) -> impl Iterator<Item = usize> + 'a {
    names.iter().map(move |name| name.len() + count)
}

#[redis_lock(key = "edition-constant", expire = LEASE, when_held = Ok(false), via = redlock.clone())]
async fn constant(redlock: &Redlock) -> Result<bool, LockError> {
    Ok(redlock.nodes().len() == 1)
}

#[redis_lock(key = "edition-unsafe:{id}", lease = lease)]
async unsafe fn dangerous(redlock: &Redlock, id: u64) -> Result<u64, LockError> {
    assert_held(redlock, &lease).await;
    Ok(id)
}

async fn assert_held(redlock: &Redlock, lease: &Lease) {
    assert!(lease.is_held());
    let nested = redlock.lock(lease.key()).try_acquire().await;
    assert!(matches!(nested, Err(LockError::Nested(_))));
}

/// Calls every function in this file. `redlock` is the installed one.
///
/// # Panics
/// If one of them does not lock.
pub async fn run(redlock: &Redlock) {
    let order = Order {
        id: 1,
        note: String::new(),
    };
    assert_eq!(edition(redlock, order, 2).await.unwrap(), 4);
    assert_eq!(opaque(&["a"], 1).await.sum::<usize>(), 2);
    // SAFETY: it does nothing.
    assert_eq!(unsafe { dangerous(redlock, 3) }.await.unwrap(), 3);
    assert!(constant(redlock).await.unwrap());
    let other = redlock.lock("edition-constant").acquire().await.unwrap();
    assert!(!constant(redlock).await.unwrap());
    other.release().await;
}
