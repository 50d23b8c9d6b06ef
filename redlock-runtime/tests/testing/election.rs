//! Leader election, on nodes in memory.

use std::{future::pending, time::Duration};

use futures_util::FutureExt;
use redlock_runtime::{Lease, LockError, Redlock, redis_lock, testing::TestRedlock};

const KEY: &str = "scheduler";

#[tokio::test]
async fn a_lost_leadership_cuts_the_body_off_and_a_new_one_begins_it_again() {
    let redlock = Redlock::test();
    let mut tokens = Vec::new();
    let body = |lease: Lease| {
        tokens.push(lease.fencing_token().unwrap());
        let term = tokens.len();
        let redlock = &redlock;
        async move {
            match term {
                1 => redlock.expire_lease(KEY),
                2 => redlock.delete_key(KEY),
                _ => return "the body's result",
            }
            pending().await
        }
    };
    let result = redlock.leader(KEY).run(body).await;
    assert_eq!(result.unwrap(), "the body's result");
    assert_eq!(tokens.len(), 3);
    assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
    let next = redlock.leader(KEY).wait(Duration::ZERO).campaign();
    drop(next.await.unwrap());
}

#[tokio::test]
async fn a_dropped_leadership_is_resigned_and_its_views_know_the_cause() {
    let redlock = Redlock::test();
    let election = redlock.leader(KEY).wait(Duration::ZERO);
    let leadership = election.campaign().await.unwrap();
    let refused = election.campaign().await;
    assert!(matches!(refused, Err(LockError::Contended(_))));
    let lease = leadership.lease();
    assert!(lease.is_held());
    drop(leadership);
    assert!(matches!(lease.lost().await, LockError::Released(_)));
    drop(election.campaign().await.unwrap());
}

#[tokio::test]
async fn an_error_that_no_campaign_can_mend_ends_the_run() {
    let redlock = Redlock::test();
    let election = redlock.leader(KEY);
    let nested = election.run(|_| election.campaign()).await.unwrap();
    assert!(matches!(nested, Err(LockError::Nested(_))));
    let short = election.clone().expire(Duration::from_millis(3));
    let refused = short.run(|_| async {}).await;
    assert!(matches!(refused, Err(LockError::Config(_))));
    redlock.shutdown(Duration::ZERO).await.unwrap();
    let stopped = election.run(|_| async {}).await;
    assert!(matches!(stopped, Err(LockError::Stopped(_))));
}

#[tokio::test]
async fn whoever_observes_sees_one_leader_after_the_other_and_campaigns_for_nothing() {
    let redlock = Redlock::test();
    let mut leaders = redlock.leader(KEY).observe();
    assert_eq!(leaders.current(), None);
    let mut last = None;
    for value in ["10.0.0.7:8080", "", "\u{e9} x"] {
        let campaign = redlock.leader(KEY).value(value).campaign();
        let leadership = campaign.await.unwrap();
        let leader = leaders.next().await.unwrap();
        assert_eq!(leader.value, value);
        assert_eq!(leader.token, leadership.fencing_token().unwrap());
        assert!(Some(leader.token) > last);
        last = Some(leader.token);
        assert_eq!(leaders.current().as_ref(), Some(&leader));
        leadership.resign().await;
        while leaders.current().is_some() {
            tokio::task::yield_now().await;
        }
    }
    // A lock without a value has no leader.
    let guard = redlock.lock(KEY).acquire().await.unwrap();
    let mut another = redlock.leader(KEY).observe();
    assert!(another.next().now_or_never().is_none());
    drop(guard);
    redlock.shutdown(Duration::ZERO).await.unwrap();
    assert_eq!(leaders.next().await, None);
    assert_eq!(redlock.leader(KEY).observe().next().await, None);
    assert_eq!(another.current(), None);
}

/// The first leadership ends by its lease, the second with its key, and the third by itself.
#[redis_lock(key = "scheduler", leader, lease = lease, via = redlock)]
async fn lead(
    redlock: &TestRedlock,
    terms: &mut Vec<u64>,
    result: String,
) -> Result<String, LockError> {
    terms.push(lease.fencing_token()?.get());
    match terms.len() {
        1 => redlock.expire_lease(KEY),
        2 => redlock.delete_key(KEY),
        _ => return Ok(format!("{result} after {} terms", terms.len())),
    }
    pending().await
}

#[tokio::test]
async fn a_function_that_leads_begins_again_when_its_leadership_is_lost() {
    let redlock = Redlock::test();
    let mut terms = Vec::new();
    let result = lead(&redlock, &mut terms, "done".to_owned()).await;
    assert_eq!(result.unwrap(), "done after 3 terms");
    assert!(terms.is_sorted_by(|one, next| one < next), "{terms:?}");
    let next = redlock.leader(KEY).wait(Duration::ZERO).campaign();
    drop(next.await.expect("it has resigned"));
    redlock.shutdown(Duration::ZERO).await.unwrap();
    let stopped = lead(&redlock, &mut terms, String::new()).await;
    assert!(matches!(stopped, Err(LockError::Stopped(_))));
    assert_eq!(terms.len(), 3);
}

#[tokio::test]
async fn a_function_that_leads_waits_for_its_turn_and_resigns_when_it_is_dropped() {
    #[redis_lock(key = "scheduler", leader, value = address, via = redlock)]
    async fn lead_for_ever(redlock: &Redlock, address: String) -> Result<(), LockError> {
        pending().await
    }
    let redlock = Redlock::test();
    let mut leaders = redlock.leader(KEY).observe();
    let first = redlock.leader(KEY).campaign().await.unwrap();
    assert_eq!(
        leaders.next().await.unwrap().token,
        first.fencing_token().unwrap()
    );
    let mut leads = Box::pin(lead_for_ever(&redlock, "10.0.0.7".to_owned()));
    assert!((&mut leads).now_or_never().is_none());
    first.resign().await;
    let second = tokio::select! {
        _ = &mut leads => unreachable!("it leads for ever"),
        leader = leaders.next() => leader.unwrap(),
    };
    assert_eq!(second.value, "10.0.0.7");
    drop(leads);
    let third = redlock.leader(KEY).campaign().await.unwrap();
    assert!(third.fencing_token().unwrap() > second.token);
}
