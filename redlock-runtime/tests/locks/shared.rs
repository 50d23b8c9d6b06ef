//! Sections that share a lock: with whom, within whom, and what cannot work. The clock is paused.

use std::{thread, time::Duration};

use redlock_runtime::{Lock, LockError, ProblemKind, Redlock, Release, redis_lock};

use crate::{problem, redlock};

const KEY: &str = "report";

#[tokio::test(start_paused = true)]
async fn a_reader_joins_the_section_around_it() {
    let redlock = redlock().await;
    for outer in [redlock.lock(KEY), redlock.lock(KEY).shared()] {
        let outer = outer.hold(async |outer| {
            let inner = redlock.lock(KEY).shared().reentrant();
            let inner = inner.hold(async |inner| inner.fencing_token().unwrap());
            assert_eq!(inner.await.unwrap(), outer.fencing_token().unwrap());
            let nested = redlock.lock(KEY).shared().acquire().await.unwrap_err();
            assert!(matches!(nested, LockError::Nested(_)), "{nested}");
        });
        outer.await.unwrap();
    }
}

#[redis_lock(key = "report", shared, via = redlock)]
async fn read(redlock: &Redlock) -> Result<(), LockError> {
    write(redlock).await
}

#[redis_lock(key = "report", reentrant, via = redlock)]
async fn write(redlock: &Redlock) -> Result<(), LockError> {
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_asks_to_write_is_told_at_once() {
    let redlock = redlock().await;
    let error = read(&redlock).await.unwrap_err();
    let LockError::Upgrade(report) = &error else {
        panic!("{error}")
    };
    assert_eq!(report.name(), Some("locks::shared::write"));
    assert_eq!(report.outer_name(), Some("locks::shared::read"));
    assert!(error.to_string().contains("leave out `shared` there"));
    // It would be `Nested` without `reentrant`.
    let outer = redlock.lock(KEY).shared().hold(async |_| {
        let nested = redlock.lock(KEY).acquire().await.unwrap_err();
        assert!(matches!(nested, LockError::Nested(_)), "{nested}");
    });
    outer.await.unwrap();
    write(&redlock).await.unwrap();
}

#[tokio::test]
async fn threads_share_a_lock() {
    let redlock = Redlock::builder().nodes(["memory://shared-threads"]);
    let redlock = redlock.build().await.unwrap();
    let reader = redlock.lock(KEY).shared().acquire().await.unwrap();
    let lock = redlock.lock(KEY);
    let beside = thread::spawn(move || {
        let read = lock.clone().shared().hold_blocking(|lease| lease.is_held());
        (read, lock.acquire_blocking())
    });
    let (read, write) = beside.join().unwrap();
    assert!(read.unwrap());
    assert!(matches!(write, Err(LockError::Contended(_))));
    drop(reader);
}

type With = (&'static str, fn(Lock) -> Lock);

/// Also if what looks like several keys is one.
#[tokio::test(start_paused = true)]
async fn options_that_do_not_go_together_are_refused() {
    let redlock = redlock().await;
    let at_least: With = ("`at_least`", |lock| lock.at_least(Duration::from_secs(1)));
    let permits: With = ("`permits`", |lock| lock.permits(1));
    let shared: With = ("`shared`", Lock::shared);
    let fair: With = ("`fair`", Lock::fair);
    let reentrant: With = ("`reentrant`", Lock::reentrant);
    let weight: With = ("`weight`", |lock| lock.weight(1));
    let mut expected = Vec::new();
    let mut check = async |lock: Lock, one, other| {
        let error = lock.acquire().await.unwrap_err();
        let told = problem(&error);
        assert_eq!(told.kind, ProblemKind::NotTogether);
        let is_of_some =
            other == "several keys" && ["`permits`", "`shared`", "`weight`"].contains(&one);
        let remedy = match is_of_some {
            true => "set it for the keys that are to have it",
            false => "leave out one of the two",
        };
        let text = format!("{one} cannot be combined with {other}; {remedy}");
        assert_eq!(told.to_string(), text);
        expected.push(text);
    };
    for (one, other) in [
        (at_least, shared),
        (at_least, reentrant),
        (fair, shared),
        (fair, permits),
        (permits, shared),
    ] {
        check(other.1(one.1(redlock.lock(KEY))), one.0, other.0).await;
    }
    for (one, with) in [at_least, fair, permits, weight, shared] {
        for keys in [[KEY, "other"], [KEY, KEY]] {
            check(with(redlock.lock_all(keys)), one, "several keys").await;
        }
    }
    let last =
        "`shared` cannot be combined with several keys; set it for the keys that are to have it";
    assert_eq!(expected.pop().as_deref(), Some(last));
}

#[test]
fn it_is_known_of_a_function_whether_it_shares() {
    let is_shared = |name: &str| {
        let sections = Redlock::sections();
        let section = sections.iter().find(|section| section.name == name);
        section.unwrap().options().shared
    };
    assert!(is_shared("locks::shared::read") && !is_shared("locks::shared::write"));
}

#[tokio::test(start_paused = true)]
async fn a_writer_becomes_a_reader() {
    let redlock = redlock().await;
    let (writer, reader) = (redlock.lock(KEY), redlock.lock(KEY).shared());
    let guard = writer.acquire().await.unwrap();
    let token = guard.fencing_token().unwrap();
    guard.downgrade().await.unwrap();
    assert_eq!(guard.fencing_token().unwrap(), token);
    let beside = reader.acquire().await.unwrap();
    let error = writer.acquire().await.unwrap_err();
    assert!(matches!(error, LockError::Contended(_)), "{error}");
    let upgrade = guard.scope(writer.clone().reentrant().acquire());
    let error = upgrade.await.unwrap().unwrap_err();
    assert!(matches!(error, LockError::Upgrade(_)), "{error}");
    drop((guard, beside));
    let next = writer.acquire().await.unwrap();
    assert!(next.fencing_token().unwrap() > token);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_shared_by_its_holder_stays_as_it_is() {
    let redlock = redlock().await;
    for (lock, what) in [
        (redlock.lock("a").permits(2), "`permits`"),
        (redlock.lock_all(["a", "b"]), "several keys"),
        (
            redlock.lock("c").at_least(Duration::from_secs(1)),
            "`at_least`",
        ),
    ] {
        let guard = lock.acquire().await.unwrap();
        let error = guard.downgrade().await.unwrap_err();
        assert_eq!(problem(&error).kind, ProblemKind::NotTogether);
        assert!(error.to_string().contains(what), "{error}");
        assert!(guard.is_held());
    }
    let outer = redlock.lock(KEY).acquire().await.unwrap();
    let inner = outer.scope(redlock.lock(KEY).reentrant().acquire());
    let inner = inner.await.unwrap().unwrap();
    let error = inner.downgrade().await.unwrap_err();
    assert!(matches!(error, LockError::Nested(_)), "{error}");
    drop(inner);
    drop(outer);
    let ended = redlock.lock(KEY).expire(Duration::from_secs(1)).acquire();
    let ended = ended.await.unwrap();
    tokio::time::advance(Duration::from_secs(1)).await;
    let error = ended.downgrade().await.unwrap_err();
    assert!(matches!(error, LockError::Expired(_)), "{error}");
}

#[tokio::test(start_paused = true)]
async fn locks_of_several_kinds_are_had_at_once() {
    let redlock = redlock().await;
    let (prices, order) = (redlock.lock("prices"), redlock.lock("order"));
    let exports = redlock.lock("exports").permits(2);
    let members = [prices.clone().shared(), order.clone(), exports.clone()];
    let all = redlock.lock_all(members).acquire().await.unwrap();
    let reader = prices.clone().shared().acquire().await.unwrap();
    let other_permit = exports.acquire().await.unwrap();
    for taken in [&prices, &order, &exports] {
        let error = taken.acquire().await.unwrap_err();
        assert!(matches!(error, LockError::Contended(_)), "{error}");
    }
    let error = redlock.lock_all([&exports, &prices]).acquire().await;
    assert_eq!(error.unwrap_err().key(), Some("exports"));
    let token = all.fencing_token().unwrap();
    assert_eq!(all.release().await, Release::Released);
    assert!(order.acquire().await.unwrap().fencing_token().unwrap() > token);
    assert!(exports.acquire().await.unwrap().fencing_token().unwrap() > token);
    drop((reader, other_permit));
    let writer = prices.clone().wait(Duration::from_secs(1)).acquire().await;
    assert!(writer.unwrap().fencing_token().unwrap() > token);
}

#[tokio::test(start_paused = true)]
async fn members_that_cannot_be_had_together_are_refused() {
    let (redlock, other) = (redlock().await, redlock().await);
    let lock = redlock.lock(KEY);
    for (members, fact) in [
        ([lock.clone(), lock.clone().shared()], "in two ways"),
        ([lock.clone(), other.lock("b")], "another node set"),
        ([lock.clone(), redlock.lock("b").renew()], "no option but"),
        ([lock.clone(), redlock.lock("b").permits(0)], "1 to 1024"),
    ] {
        let error = redlock.lock_all(members).acquire().await.unwrap_err();
        assert!(problem(&error).fact.contains(fact), "{error}");
    }
}
