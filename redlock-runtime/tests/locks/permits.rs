//! Locks with permits: what nests, what cannot work, and code that is not async. The clock is paused.

use std::{collections::BTreeSet, time::Duration};

use redlock_runtime::{Lock, LockError, ProblemKind, Redlock, redis_lock};

use crate::{problem, redlock};

const KEY: &str = "k";

#[tokio::test(start_paused = true)]
async fn as_many_as_there_are_permits_hold_one_and_the_next_is_served_when_one_is_back() {
    let redlock = redlock().await;
    for permits in [1, 2, 64] {
        let lock = redlock.lock(KEY).permits(permits);
        let mut guards = Vec::new();
        for _ in 0..permits {
            guards.push(lock.clone().acquire().await.unwrap());
        }
        let tokens: BTreeSet<_> = guards
            .iter()
            .map(|it| it.fencing_token().unwrap())
            .collect();
        assert_eq!(tokens.len(), permits as usize);
        let error = lock.clone().acquire().await.unwrap_err();
        assert!(matches!(error, LockError::Contended(_)), "{error}");
        let waiting = lock.clone().wait(Duration::from_secs(1)).acquire();
        let (next, _) = tokio::join!(waiting, guards.swap_remove(0).release());
        assert_eq!(next.unwrap().key(), KEY);
    }
}

/// A nested call would wait for a permit that the outer one may have. One that joins has the outer one's,
/// which must be one of its own.
#[tokio::test(start_paused = true)]
async fn a_nested_section_shares_the_permit_or_fails() {
    let redlock = redlock().await;
    let nested = async |outer: Lock, inner: Lock| {
        let inner = async |lease: redlock_runtime::Lease| {
            let token = lease.fencing_token().unwrap();
            let inner = inner.hold(async |lease| lease.fencing_token().unwrap() == token);
            inner.await
        };
        outer.hold(inner).await.unwrap()
    };
    let permits = |count| redlock.lock(KEY).permits(count);
    assert!(nested(permits(3), permits(3).reentrant()).await.unwrap());
    assert!(nested(permits(2), permits(3).reentrant()).await.unwrap());
    let outer = permits(3).weight(2);
    assert!(nested(outer.clone(), permits(3).reentrant()).await.unwrap());
    assert!(nested(outer.clone(), outer.reentrant()).await.unwrap());
    for (outer, inner) in [
        (permits(3), permits(3)),
        (permits(3), permits(2).reentrant()),
        (permits(3).weight(2), permits(3)),
        (permits(3), permits(3).weight(2).reentrant()),
    ] {
        let error = nested(outer, inner).await.unwrap_err();
        assert!(matches!(error, LockError::Nested(_)), "{error}");
    }
    // The permits of a key are another lock than the key.
    for (outer, inner) in [
        (permits(3), redlock.lock(KEY)),
        (permits(1), redlock.lock(KEY).reentrant()),
        (redlock.lock(KEY), permits(3)),
        (redlock.lock(KEY), permits(3).reentrant()),
        (permits(3), redlock.lock_all([KEY, "other"])),
    ] {
        assert!(
            !nested(outer, inner).await.unwrap(),
            "it has a lease of its own"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_without_permits_has_another_key() {
    let redlock = redlock().await;
    let permit = redlock.lock(KEY).permits(2).acquire().await.unwrap();
    assert!(redlock.lock(KEY).acquire().await.unwrap().is_held());
    // Which no other lock has, whatever it is called.
    for other in ["k#0", "k#1", "k:0", "k/0"] {
        assert!(redlock.lock(other).acquire().await.unwrap().is_held());
    }
    for slot in ["k#__redlock:0", "k#__redlock:1"] {
        let error = redlock.lock(slot).acquire().await.unwrap_err();
        assert_eq!(problem(&error).kind, ProblemKind::ReservedKey);
    }
    drop(permit);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_work_is_told() {
    let redlock = redlock().await;
    for count in [0, 1_025, u32::MAX] {
        let error = redlock
            .lock(KEY)
            .permits(count)
            .acquire()
            .await
            .unwrap_err();
        assert_eq!(problem(&error).setting, "permits");
    }
    let at_least = Duration::from_secs(1);
    for lock in [
        redlock.lock(KEY).permits(3).weight(0),
        redlock.lock(KEY).permits(3).weight(4),
        redlock.lock(KEY).weight(2),
    ] {
        let error = lock.acquire().await.unwrap_err();
        assert_eq!(problem(&error).setting, "weight");
        let error = redlock.lock_all([lock]).acquire().await.unwrap_err();
        assert!(error.to_string().contains("`weight`"), "{error}");
    }
    for lock in [
        redlock.lock(KEY).permits(3).weight(2).at_least(at_least),
        redlock.lock(KEY).permits(3).weight(2).shared(),
        redlock.lock(KEY).permits(3).weight(2).fair(),
        redlock.lock_all([KEY]).permits(3).weight(2),
    ] {
        let error = lock.acquire().await.unwrap_err();
        assert_eq!(problem(&error).kind, ProblemKind::NotTogether);
    }
}

#[tokio::test(start_paused = true)]
async fn several_permits_are_had_at_once() {
    const LARGE: u32 = 2;

    #[redis_lock(key = "k", permits = count, weight = LARGE, via = redlock)]
    async fn large(redlock: &Redlock, count: u32) -> Result<bool, LockError> {
        let lock = redlock.lock(KEY).permits(count);
        let mut others = Vec::new();
        // In a task of its own, which is under no lease.
        let taken = async move {
            while let Ok(guard) = lock.acquire().await {
                others.push(guard);
            }
            others.len()
        };
        Ok(tokio::spawn(taken).await.unwrap() == 3)
    }

    let redlock = redlock().await;
    assert!(large(&redlock, 5).await.unwrap());
    let error = large(&redlock, 1).await.unwrap_err();
    assert_eq!(problem(&error).setting, "weight");
    let pool = redlock.lock(KEY).permits(5).wait(Duration::from_secs(60));
    let all = redlock.lock_all([redlock.lock(KEY).permits(5).weight(5), redlock.lock("a")]);
    let all = all.wait(Duration::from_secs(60)).acquire().await.unwrap();
    // They collect, and one of them is gone before it has all.
    let [gone, next] = [4, 5].map(|weight| tokio::spawn(pool.clone().weight(weight).acquire()));
    tokio::time::sleep(Duration::from_secs(1)).await;
    gone.abort();
    assert!(!next.is_finished());
    all.release().await;
    let next = next.await.unwrap().unwrap();
    let error = redlock.lock(KEY).permits(5).acquire().await.unwrap_err();
    assert!(matches!(error, LockError::Contended(_)), "{error}");
    let found = redlock.inspect(KEY).await;
    assert_eq!(found.holders.len(), 5, "{found}");
    next.release().await;
    assert!(!redlock.inspect(KEY).await.is_held());
}

#[redis_lock(key = "export:{shop}", permits = 2, via = redlock, when_held = Ok(0))]
async fn export(redlock: &Redlock, shop: u64, depth: u64) -> Result<u64, LockError> {
    match depth {
        0 => Ok(1),
        // In a task of its own, which is under no lease.
        _ => {
            let redlock = redlock.clone();
            let inner = async move { Box::pin(export(&redlock, shop, depth - 1)).await };
            Ok(1 + tokio::task::LocalSet::new()
                .run_until(async { tokio::task::spawn_local(inner).await.unwrap() })
                .await?)
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_annotated_function_has_its_permits() {
    let redlock = redlock().await;
    for depth in 0..4 {
        assert_eq!(export(&redlock, 7, depth).await.unwrap(), 2.min(depth + 1));
    }
    let sections = Redlock::sections();
    let export = sections.iter().find(|it| it.name.ends_with("::export"));
    assert_eq!(export.unwrap().options().permits, Some(2));
}

#[redis_lock(key = "report", permits = 2, via = redlock)]
fn report(redlock: &Redlock) -> Result<u64, LockError> {
    Ok(7)
}

#[test]
fn code_that_is_not_async_has_permits() {
    let builder = Redlock::builder().nodes(["memory://permits-blocking"]);
    let redlock = builder.build_blocking().unwrap();
    assert_eq!(report(&redlock).unwrap(), 7);
    let lock = redlock.lock("report").permits(2);
    let _one = lock.clone().acquire_blocking().unwrap();
    let two = lock.clone().acquire_blocking().unwrap();
    assert!(matches!(report(&redlock), Err(LockError::Contended(_))));
    two.release_blocking();
    let body = |lease: redlock_runtime::Lease| lease.is_held();
    assert!(lock.hold_blocking(body).unwrap());
}

/// It may be a constant, and what an argument has: a field, what a method returns, or the argument itself.
#[tokio::test(start_paused = true)]
async fn the_number_of_permits_is_computed() {
    #[derive(Clone)]
    struct Exports {
        redlock: Redlock,
        most: u32,
    }

    impl Exports {
        const MOST: u32 = 3;

        const fn most(&self) -> u32 {
            self.most
        }

        #[redis_lock(key = "constant", permits = Self::MOST, via = &self.redlock)]
        async fn by_constant(&self) -> Result<(), LockError> {
            std::future::pending().await
        }

        #[redis_lock(key = "field", permits = self.most, via = &self.redlock)]
        async fn by_field(&self) -> Result<(), LockError> {
            std::future::pending().await
        }

        #[redis_lock(key = "method", permits = self.most(), via = &self.redlock)]
        async fn by_method(self) -> Result<(), LockError> {
            std::future::pending().await
        }
    }

    #[redis_lock(key = "argument", permits = count, via = redlock)]
    async fn by_argument(redlock: &Redlock, count: u32) -> Result<(), LockError> {
        std::future::pending().await
    }

    let redlock = redlock().await;
    let of = |most| Exports {
        redlock: redlock.clone(),
        most,
    };
    let mut running = Vec::new();
    for _ in 0..3 {
        let (constant, one, two, redlock) = (of(0), of(3), of(3), redlock.clone());
        running.push(tokio::spawn(async move { constant.by_constant().await }));
        running.push(tokio::spawn(async move { one.by_field().await }));
        running.push(tokio::spawn(two.by_method()));
        running.push(tokio::spawn(async move { by_argument(&redlock, 3).await }));
    }
    // Those before are at their bodies.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(running.iter().all(|running| !running.is_finished()));
    let refused = [
        of(0).by_constant().await,
        of(3).by_field().await,
        of(3).by_method().await,
        by_argument(&redlock, 3).await,
    ];
    for refused in refused {
        assert!(matches!(refused, Err(LockError::Contended(_))));
    }
    for count in [0, 1_025, u32::MAX] {
        let error = by_argument(&redlock, count).await.unwrap_err();
        let problem = problem(&error);
        assert_eq!(problem.setting, "permits");
        assert_eq!(problem.section.unwrap().options().permits, None);
    }
    running.iter().for_each(tokio::task::JoinHandle::abort);
}
