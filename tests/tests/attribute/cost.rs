//! What the attribute's documentation says of its cost.

use std::{
    cell::Cell,
    future::poll_fn,
    pin::pin,
    task::{Context, Poll},
    time::Duration,
};

use redlock_runtime::{LockError, redis_lock};
use tokio::{task::yield_now, time::sleep};

use super::support::install;

const SIZE: usize = 4096;

/// What the attribute may add to a future.
const LOCK: usize = 672;

async fn plain(block: [u8; SIZE]) -> Result<u8, LockError> {
    yield_now().await;
    Ok(block[0])
}

#[redis_lock(key = "cost:size")]
async fn of_the_body(block: [u8; SIZE]) -> Result<u8, LockError> {
    yield_now().await;
    Ok(block[0])
}

#[redis_lock(key = "cost:{block.len()}")]
async fn of_the_key(block: [u8; SIZE]) -> Result<u8, LockError> {
    yield_now().await;
    Ok(block[0])
}

#[test]
fn only_an_argument_of_the_key_is_stored_once_more() {
    let plain = size_of_val(&plain([0; SIZE]));
    let extra = size_of_val(&of_the_body([0; SIZE])) - plain;
    assert!(extra <= LOCK, "the lock adds {extra} bytes");
    let extra = size_of_val(&of_the_key([0; SIZE])) - plain;
    assert!(
        (SIZE..=SIZE + LOCK).contains(&extra),
        "the lock adds {extra} bytes"
    );
}

/// How often a future is polled.
async fn counted<F: Future>(future: F, polls: &Cell<u32>) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|context: &mut Context<'_>| -> Poll<F::Output> {
        polls.set(polls.get() + 1);
        future.as_mut().poll(context)
    })
    .await
}

#[redis_lock(key = "cost:yields")]
async fn yields(times: u32, polls: &Cell<u32>) -> Result<(), LockError> {
    let body = async {
        for _ in 0..times {
            yield_now().await;
        }
    };
    counted(body, polls).await;
    Ok(())
}

/// Is renewed about ten times while it sleeps.
#[redis_lock(key = "cost:renewed", expire = 5s, renew = 10ms)]
async fn renewed(polls: &Cell<u32>) -> Result<(), LockError> {
    counted(sleep(Duration::from_millis(100)), polls).await;
    Ok(())
}

#[tokio::test]
async fn a_body_is_polled_as_often_as_without_a_lock() {
    install().await;
    for times in [0, 1, 10, 1000] {
        let (body, whole) = (Cell::new(0), Cell::new(0));
        counted(yields(times, &body), &whole).await.unwrap();
        assert_eq!(body.get(), times + 1);
        // One more asks the nodes, if they do not answer at once.
        assert!(whole.get() <= times + 2, "{whole:?} for {times}");
    }
    let polls = Cell::new(0);
    renewed(&polls).await.unwrap();
    assert_eq!(polls.get(), 2, "renewals are the engine's work alone");
}
