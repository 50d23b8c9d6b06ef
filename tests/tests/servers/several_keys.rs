//! Locks on several keys, on real servers.

use std::{
    array,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use redlock_runtime::{LockError, Release};
use redlock_tests::Cluster;
use tokio::task::{JoinSet, yield_now};

use crate::common::{NEVER, connect};

const ACCOUNTS: [&str; 3] = ["account:1", "account:2", "account:3"];

/// In each order that two of three can have, by three node sets at once.
#[tokio::test]
async fn transfers_in_all_directions_come_to_an_end_and_lose_nothing() {
    let cluster = Cluster::start(3);
    let balances: Arc<[AtomicU64; 3]> = Arc::new(array::from_fn(|_| AtomicU64::new(100)));
    let mut transfers = JoinSet::new();
    for _ in 0..3 {
        let redlock = connect(&cluster).await;
        for (from, to) in [(0, 1), (1, 0), (1, 2), (2, 1), (0, 2), (2, 0)] {
            let lock = redlock.lock_all([ACCOUNTS[from], ACCOUNTS[to]]).wait(NEVER);
            let balances = Arc::clone(&balances);
            transfers.spawn(async move {
                for _ in 0..3 {
                    let one_transfer = lock.clone().hold(async |_| {
                        // Anything but atomic.
                        let read =
                            [from, to].map(|account| balances[account].load(Ordering::Relaxed));
                        yield_now().await;
                        balances[from].store(read[0] - 1, Ordering::Relaxed);
                        balances[to].store(read[1] + 1, Ordering::Relaxed);
                    });
                    one_transfer.await.unwrap();
                }
            });
        }
    }
    while let Some(done) = transfers.join_next().await {
        done.unwrap();
    }
    for balance in balances.iter() {
        assert_eq!(balance.load(Ordering::Relaxed), 100);
    }
    for account in ACCOUNTS {
        cluster.await_free(account).await;
    }
}

#[tokio::test]
async fn the_key_that_is_taken_is_named_and_the_others_are_free() {
    let cluster = Cluster::start(3);
    let (one, two) = (connect(&cluster).await, connect(&cluster).await);
    let taken = one.lock(ACCOUNTS[1]).acquire().await.unwrap();
    let error = two.lock_all(ACCOUNTS).acquire().await.unwrap_err();
    assert!(matches!(error, LockError::Contended(_)), "{error}");
    assert_eq!(error.key(), Some(ACCOUNTS[1]));
    for account in [ACCOUNTS[0], ACCOUNTS[2]] {
        cluster.await_free(account).await;
    }
    let earlier = taken.fencing_token().unwrap();
    taken.release().await;
    let guard = two.lock_all(ACCOUNTS).wait(NEVER).acquire().await.unwrap();
    assert_eq!(guard.key(), "account:1, account:2, account:3");
    let token = guard.fencing_token().unwrap();
    assert!(token > earlier);
    assert_eq!(guard.release().await, Release::Released);
    for account in ACCOUNTS {
        let next = one.lock(account).wait(NEVER).acquire().await.unwrap();
        assert!(next.fencing_token().unwrap() > token);
    }
}

#[tokio::test]
async fn a_lock_whose_acquisition_is_cancelled_leaves_nothing() {
    let cluster = Cluster::start(3);
    let (one, two) = (connect(&cluster).await, connect(&cluster).await);
    let taken = one.lock(ACCOUNTS[1]).acquire().await.unwrap();
    let mut waiting = Box::pin(two.lock_all(ACCOUNTS).wait(NEVER).acquire());
    tokio::select! {
        biased;
        _ = &mut waiting => panic!("one key is taken"),
        () = yield_now() => {}
    }
    drop(waiting);
    drop(taken);
    for account in ACCOUNTS {
        cluster.await_free(account).await;
    }
}

#[tokio::test]
async fn a_lock_that_has_lost_one_key_is_lost() {
    let cluster = Cluster::start(3);
    let redlock = connect(&cluster).await;
    let guard = redlock
        .lock_all(ACCOUNTS)
        .expire(NEVER_EXPIRES)
        .acquire()
        .await;
    let guard = guard.unwrap();
    let lost = guard.lost();
    let lease = guard.lease();
    let delete = async {
        // Until the holder has been told: it reads its keys some time after it has got them.
        loop {
            for node in cluster.iter() {
                node.command(&["DEL", ACCOUNTS[2]]);
            }
            if !lease.is_held() {
                break;
            }
            yield_now().await;
        }
    };
    let (error, ()) = tokio::join!(lost, delete);
    assert!(matches!(error, LockError::Lost(_)), "{error}");
    assert_eq!(guard.release().await, Release::AlreadyExpired);
    for account in ACCOUNTS {
        cluster.await_free(account).await;
    }
}

const NEVER_EXPIRES: std::time::Duration = std::time::Duration::from_secs(50);
