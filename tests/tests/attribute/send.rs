//! A future is `Send` if the function's own would be.

use std::cell::Cell;
use std::rc::Rc;

use super::support::{assert_all_released, assert_held, install};
use redlock_runtime::{LockError, Redlock, redis_lock};

fn send<T: Send>(value: T) -> T {
    value
}

#[redis_lock(key = "send:{name}", expire = 2s, renew, lease = lease)]
async fn sends(name: String, numbers: &mut Vec<u8>) -> Result<usize, LockError> {
    tokio::task::yield_now().await;
    numbers.push(1);
    assert!(lease.is_held());
    Ok(name.len() + numbers.len())
}

/// The key uses a reference to what is `Send` but not `Sync`: not across an `.await`.
#[redis_lock(key = "not-sync:{cell.get()}")]
async fn not_sync(cell: Cell<u8>) -> Result<u8, LockError> {
    tokio::task::yield_now().await;
    Ok(cell.into_inner())
}

#[redis_lock(key = "send-result")]
async fn not_send_result() -> Result<Rc<u8>, LockError> {
    assert_held("send-result").await;
    Ok(Rc::new(1))
}

#[redis_lock(key = "via-send", via = redlock)]
async fn via_is_not_kept(redlock: Redlock) -> Result<(), LockError> {
    assert_held("via-send").await;
    Ok(())
}

#[tokio::test]
async fn futures_are_send() {
    install().await;
    let mut numbers = vec![];
    assert_eq!(send(sends("a".to_owned(), &mut numbers)).await.unwrap(), 2);
    assert_eq!(send(not_sync(Cell::new(1))).await.unwrap(), 1);
    send(via_is_not_kept(install().await)).await.unwrap();
    assert_eq!(
        tokio::spawn(not_sync(Cell::new(2))).await.unwrap().unwrap(),
        2
    );
    let _ = not_send_result().await.unwrap();
    assert_all_released().await;
}
