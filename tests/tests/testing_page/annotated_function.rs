use redlock_runtime::{LockError, Redlock, redis_lock};

#[redis_lock(key = "stock:{sku}")]
async fn reserve(sku: u64, quantity: u32) -> Result<u32, LockError> {
    // Reads the stock and writes it back.
    Ok(quantity)
}

#[tokio::test]
async fn a_reservation_locks_its_stock() {
    let redlock = Redlock::test();
    let _entered = redlock.enter();

    assert_eq!(reserve(7, 2).await.unwrap(), 2);
    redlock.assert_locked(["stock:7"]);
    redlock.assert_not_held("stock:7");
}

#[tokio::test]
async fn a_reservation_is_refused_while_another_process_has_the_stock() {
    let redlock = Redlock::test();
    let _entered = redlock.enter();

    let other = redlock.held_elsewhere("stock:7");
    let error = reserve(7, 2).await.unwrap_err();
    assert!(matches!(error, LockError::Contended(_)), "{error}");

    drop(other);
    reserve(7, 2).await.unwrap();
}
